/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that are stopped midway for another job's exclusive lease, and many such jobs together. */
#include "tests/lib/honed_board.h"
#include "tools/bench/jobs_sim.h"
#include "agent/control/policy.h"

/* Two jobs on different processors or (threads 4) on the same. */
static struct board *two_jobs(int threads)
{
	struct board *b = board_new(HONED_BOX, 2);
	b->conf.boot_jobs = 2;
	b->model[0].threads = b->model[1].threads = threads;
	board_start(b);
	board_run(b, 10 * NS_PER_MS);
	board_started(b, 1);
	board_started(b, 2);
	return b;
}

static void lease(struct board *b, int job, const char *kind, bool stops)
{
	char line[128];
	snprintf(line, sizeof line, "{\"op\":\"lease\",\"id\":%d,\"kind\":\"%s\",\"stops\":%s}", job, kind,
		 stops ? "true" : "false");
	board_read(b);
	board_ask(b, 1000 + job, line);
}

static bool granted(struct board *b, int job)
{
	char line[64];
	snprintf(line, sizeof line, "send %d {\"id\":%d,\"ok\":true", 1000 + job, job);
	return board_says(b, line);
}

static void release(struct board *b, int job)
{
	board_read(b);
	board_ask(b, 1000 + job, "{\"op\":\"release\",\"id\":77}");
}

TEST(jobs_that_can_be_stopped_are_stopped_for_quiet)
{
	struct board *b = two_jobs(1);
	lease(b, 1, "compute", true);
	CHECK(granted(b, 1));
	lease(b, 2, "quiet", true);
	CHECK(granted(b, 2) && board_says(b, "signal 1 19"));
	CHECK(!board_says(b, "signal 2"));
	release(b, 2);
	CHECK(board_says(b, "signal 1 18"));
	release(b, 1);
	CHECK(board_says(b, "\"tainted\":false")); /* a pause does not taint a compute lease */
	board_free(b);
}

TEST(a_job_is_stopped_before_the_other_gets_quiet)
{
	struct board *b = two_jobs(1);
	lease(b, 1, "compute", true);
	lease(b, 2, "quiet", true);
	int stop = -1, grant = -1;
	for (int i = 0; i < b->nlines; i++) {
		stop = strstr(b->line[i], "signal 1 19") ? i : stop;
		grant = strstr(b->line[i], "send 1002 {\"id\":2") ? i : grant;
	}
	CHECK(stop >= 0 && stop < grant);
	board_free(b);
}

TEST(jobs_that_cannot_be_stopped_are_waited_for)
{
	struct board *b = two_jobs(1);
	lease(b, 1, "compute", false);
	lease(b, 2, "quiet", true);
	CHECK(!granted(b, 2) && !board_says(b, "signal"));
	release(b, 1);
	CHECK(granted(b, 2));
	board_free(b);
}

TEST(a_measurement_is_waited_for)
{
	struct board *b = two_jobs(1);
	lease(b, 1, "measure", true);
	lease(b, 2, "quiet", true);
	CHECK(!granted(b, 2) && !board_says(b, "signal"));
	release(b, 1);
	CHECK(granted(b, 2) && board_says(b, "signal 1 19"));
	board_free(b);
}

TEST(measuring_stops_only_its_own_processors)
{
	for (int threads = 1; threads <= 4; threads += 3) {
		struct board *b = two_jobs(threads);
		lease(b, 1, "compute", true);
		lease(b, 2, "measure", true);
		CHECK(granted(b, 2));
		CHECK(!board_says(b, "signal 1 19") == (threads == 1));
		board_free(b);
	}
}

TEST(told_to_stop_it_goes_on_and_saves)
{
	struct board *b = two_jobs(1);
	lease(b, 1, "compute", true);
	lease(b, 2, "quiet", true);
	CHECK(board_says(b, "signal 1 19"));
	board_read(b);
	board_event(b, (struct honed_event){.kind = HE_STOP});
	CHECK(board_says(b, "send 1001 {\"event\":\"stop\"}") && !board_says(b, "signal"));
	release(b, 2); /* the measurement stays undisturbed to its end */
	CHECK(board_says(b, "signal 1 18"));
	CHECK(!board_says(b, "signal 1 19"));
	board_free(b);
}

/* A job's budget ends while it is stopped for a long lease of another: it cannot know that, and is not
 * blamed. */
TEST(a_stopped_job_is_not_over_its_budget)
{
	struct board *b = board_new(HONED_RESIDENT, 1);
	board_start(b);
	board_run(b, 13 * NS_PER_S);
	board_started(b, 1);
	lease(b, 1, "compute", true);
	board_event(b,
		    (struct honed_event){.kind = HE_CLIENT, .client = 7, .peer = {.pid = 70, .owner = true}});
	board_ask(b, 7, "{\"op\":\"job\",\"id\":1,\"model\":\"/m/else\",\"threads\":1,\"pid\":70}");
	board_ask(b, 7, "{\"op\":\"lease\",\"id\":2,\"kind\":\"quiet\"}");
	CHECK(board_says(b, "signal 1 19"));
	board_read(b);
	for (int s = 0; s < 60; s++) {
		board_ask(b, 7, "{\"op\":\"progress\",\"trials\":3}");
		board_run(b, NS_PER_S);
	}
	CHECK(!board_says(b, "\"event\":\"stop\""));
	board_ask(b, 7, "{\"op\":\"release\",\"id\":3}");
	CHECK(board_says(b, "signal 1 18"));
	board_done(b, 1, 6, 6, 2, -1);
	CHECK(!strstr(board_status(b), "\"failed\""));
	board_run(b, NS_PER_S); /* its model need not rest either, because the job had no chance to win */
	CHECK(board_says(b, "start 3"));
	board_free(b);
}

TEST(a_job_that_rests_meanwhile_stays_stopped)
{
	struct board *b = two_jobs(1);
	lease(b, 1, "compute", true);
	lease(b, 2, "quiet", true);
	board_read(b);
	b->vitals.headroom_mc = 1000;
	board_run(b, 500 * NS_PER_MS);
	CHECK(board_says(b, "yield") && board_says(b, "signal 2 19"));
	int stopped = 1; /* in the end */
	for (int i = 0; i < b->nlines; i++) {
		stopped = strstr(b->line[i], "signal 1 19") ? 1 : stopped;
		stopped = strstr(b->line[i], "signal 1 18") ? 0 : stopped;
	}
	CHECK(stopped);
	board_free(b);
}

TEST(the_holder_dies_and_the_others_go_on)
{
	struct board *b = two_jobs(1);
	lease(b, 1, "compute", true);
	lease(b, 2, "quiet", true);
	board_read(b);
	board_event(b, (struct honed_event){.kind = HE_GONE, .client = 1002});
	CHECK(board_says(b, "signal 1 18"));
	board_free(b);
}

/* A race is several calls, so the machine is kept free for the next one for a moment. */
TEST(the_last_racer_may_race_again_first)
{
	struct board *b = two_jobs(1);
	lease(b, 2, "quiet", false);
	lease(b, 1, "compute", false);
	release(b, 2);
	CHECK(!granted(b, 1));
	lease(b, 2, "quiet", false);
	CHECK(granted(b, 2) && !granted(b, 1));
	release(b, 2);
	board_run(b, 3 * NS_PER_MS); /* no further call comes */
	CHECK(granted(b, 1));
	release(b, 1);
	lease(b, 2, "quiet", false);
	lease(b, 1, "compute", false);
	release(b, 2);
	lease(b, 2, "compute", false); /* the job does something else */
	CHECK(granted(b, 1) && granted(b, 2));
	board_free(b);
}

TEST(races_without_end_let_others_pass)
{
	struct board *b = two_jobs(1);
	lease(b, 2, "quiet", false);
	lease(b, 1, "compute", false);
	int races = 0;
	for (bool got = false; !got && races < 100; races++) {
		board_run(b, 50 * NS_PER_MS);
		release(b, 2);
		got = granted(b, 1);
		lease(b, 2, "quiet", false);
		got = got || granted(b, 1);
	}
	CHECK(races > 3 && races < 10);
	board_free(b);
}

TEST(jobs_are_as_many_as_memory_has_room_for)
{
	for (int jobs = 0; jobs <= 4; jobs += 4) {
		struct board *b = board_new(HONED_BOX, 4);
		b->conf.boot_jobs = jobs;
		b->vitals.memory_free_bytes = 3 * b->conf.job_memory_bytes - 1;
		board_start(b);
		board_run(b, 10 * NS_PER_MS);
		CHECK(board_says(b, "start 2") && !board_says(b, "start 3"));
		board_free(b);
	}
}

TEST(a_job_may_have_half_of_the_board_where_nobody_says_less)
{
	static const struct {
		int64_t conf, board, may;
	} rows[] = {{0, INT64_C(4) << 30, INT64_C(2) << 30},
		    {0, INT64_C(700) << 20, INT64_C(512) << 20},
		    {INT64_C(64) << 20, INT64_C(4) << 30, INT64_C(64) << 20}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct board *b = board_new(HONED_BOX, 1);
		b->conf.job_memory_bytes = rows[i].conf;
		b->vitals.memory_bytes = rows[i].board;
		board_start(b);
		board_run(b, 10 * NS_PER_MS);
		CHECK(board_says(b, "start 1") && b->job_memory_bytes == rows[i].may);
		board_free(b);
	}
}

/* ---- four jobs together ---- */

static struct sim_told sim(const char *policy, int cores, bool drains)
{
	struct sim_told x = {0};
	const struct sim_want w = {
	    .policy = policy, .cores = cores, .jobs = 4, .at_once = 4, .seed = 2, .drains = drains};
	CHECK_OK(jobs_sim(&w, &x));
	return x;
}

TEST(four_jobs_take_little_over_half_of_one_after_another)
{
	for (int i = 0; policy_table[i]; i++) {
		struct sim_told x = sim(policy_table[i]->name, 4, false);
		CHECK(x.together_s < 0.55 * x.alone_s);
		CHECK(x.good_s < 0.7 * x.alone_good_s);
		CHECK(x.draining < 0.005); /* the device is hardly ever idle while work is ready */
		CHECK(x.both == 0 && x.fairness > 0.98);
	}
}

TEST(jobs_that_are_waited_for_measure_alone_too)
{
	for (int cores = 1; cores <= 4; cores *= 2) {
		struct sim_told x = sim(POLICY_DEFAULT, cores, true);
		CHECK(x.both == 0);
		CHECK(x.together_s < (cores == 4 ? 0.62 : 1.01) * x.alone_s);
	}
}

/* For any number of cores. */
TEST(together_is_no_slower_than_with_the_jobs_own_builders)
{
	for (int cores = 1; cores <= 8; cores++) {
		struct sim_told x = {0};
		const struct sim_want w = {.policy = POLICY_DEFAULT, .cores = cores, .jobs = 4, .seed = 2};
		CHECK_OK(jobs_sim(&w, &x));
		CHECK(x.both == 0 && x.together_s < (cores < 4 ? 1.01 : 0.9) * x.ahead_s);
		CHECK(x.ahead_s < (cores < 2 ? 1.01 : 0.8) * x.alone_s);
	}
}

/* One job at a time, in slices: if slices go by expected gain, all networks together get fast soonest. */
TEST(slices_go_where_they_win_most)
{
	double behind[2];
	for (int i = 0; i < 2; i++) {
		struct sim_told x = {0};
		const struct sim_want w = {.policy = i ? "gain" : "fifo",
					   .cores = 4,
					   .jobs = 4,
					   .seed = 2,
					   .slice_ns = 5 * NS_PER_S};
		CHECK_OK(jobs_sim(&w, &x));
		CHECK(x.both == 0 && x.good_s > 0 && x.good_s < 200);
		behind[i] = x.behind * x.good_s;
	}
	CHECK(behind[1] < 0.7 * behind[0]);
}

TEST(the_same_seed_gives_the_same_course)
{
	struct sim_told x = sim(POLICY_DEFAULT, 2, false), y = sim(POLICY_DEFAULT, 2, false);
	CHECK(x.together_s == y.together_s && x.leases == y.leases);
}

TEST_MAIN
