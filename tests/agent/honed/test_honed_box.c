/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/honed/marks.h"
#include "tests/lib/honed_board.h"
#include <fcntl.h>
#include <unistd.h>

static struct board *box(int nmodels, int jobs)
{
	struct board *b = board_new(HONED_BOX, nmodels);
	b->conf.boot_jobs = jobs;
	return b;
}

TEST(box_with_nothing_to_do_leaves_at_once)
{
	struct board *b = board_new(HONED_BOX, 2);
	for (int i = 0; i < 2; i++)
		b->o.marks.model[b->o.marks.n++] =
		    (struct mark_of){.model = b->file[i].key, .boxed = true, .promise = 0.3};
	board_start(b);
	CHECK(b->left);
	CHECK(b->nmarks == 0);
	CHECK(board_says(b, "every model has its kernels"));
	board_free(b);
}

TEST(a_model_that_cannot_be_used_needs_no_box)
{
	struct board *b = board_new(HONED_BOX, 2);
	b->o.marks.model[b->o.marks.n++] =
	    (struct mark_of){.model = b->file[0].key, .boxed = true, .promise = 0.3};
	b->file[1].refused = "gone.onnx: No such file or directory";
	board_start(b);
	CHECK(b->left);
	CHECK(board_says(b, "every other model has its kernels; 1 of 2 cannot be used"));
	board_free(b);
}

/* A model that cannot be used has no kernels either, and the last words of a box say so. */
TEST(a_box_ends_with_the_models_that_cannot_be_used)
{
	struct board *b = board_new(HONED_BOX, 2);
	b->file[1].refused = "gone.onnx: No such file or directory";
	board_start(b);
	board_run(b, 10 * NS_PER_MS);
	for (int job = 1; job < 9 && !b->left; job++) {
		board_started(b, job);
		board_done(b, job, 5, 5, 0, 0);
		board_run(b, NS_PER_S);
	}
	CHECK(b->left);
	CHECK(board_says(b, "that still lack kernels: 0; models that cannot be used: 1"));
	board_free(b);
}

/* The box's last words count what the status shows as kernels not made yet, though no box is needed for them. */
TEST(a_box_ends_with_the_kernels_that_it_could_not_make)
{
	for (int missing = 0; missing < 3; missing += 2) {
		struct board *b = board_new(HONED_BOX, 1);
		board_start(b);
		board_run(b, 10 * NS_PER_MS);
		board_started(b, 1);
		board_done(b, 1, 6, 5, missing, 0);
		for (int job = 2; job < 9 && !b->left; job++) {
			board_started(b, job);
			board_done(b, job, 5, 5, missing, 0);
			board_run(b, NS_PER_S);
		}
		CHECK(b->left && b->marks.model[0].missing == missing);
		CHECK(board_says(b, missing ? "that still lack kernels: 1" : "that still lack kernels: 0"));
		board_free(b);
	}
}

/* A job that tried nothing, because its worker did not answer in time, has a second and a third try in the box. */
TEST(a_job_that_tried_nothing_is_tried_again)
{
	for (int good = 1; good <= 4; good++) { /* which try ends well */
		struct board *b = box(1, 1);
		board_start(b);
		int job = 1;
		for (; job < good && !b->left; job++) {
			board_run(b, 10 * NS_PER_MS);
			board_started(b, job);
			board_ask(b, 1000 + job, "{\"op\":\"done\",\"before_ms\":5,\"missing\":2,\"why\":\"no answer\"}");
			board_ended(b, job, E_CHILD, "hone tune ended with status 1");
			board_run(b, 10 * NS_PER_MS);
		}
		CHECK(b->left == (good == 4));
		if (!b->left) {
			CHECK(board_says(b, good == 1 ? "start 1" : good == 2 ? "start 2" : "start 3"));
			board_started(b, job);
			board_done(b, job, 5, 4, 0, 0);
			board_run(b, NS_PER_S);
			CHECK(b->left && board_says(b, "that still lack kernels: 0"));
		}
		board_free(b);
	}
}

TEST(box_ends_in_time_and_counts_itself_clean)
{
	struct board *b = board_new(HONED_BOX, 1);
	int64_t start = b->now_ns;
	board_start(b);
	board_run(b, 10 * NS_PER_MS);
	CHECK(board_says(b, "marks 1 1"));
	CHECK(board_says(b, "start 1 a"));
	board_started(b, 1);
	for (int s = 0; s < 19; s++) {
		board_run(b, NS_PER_S);
		board_ask(b, 1001, "{\"op\":\"progress\",\"before_ms\":6.1,\"now_ms\":2.9}");
	}
	CHECK(board_says(b, "status tuning a: kernels timed so far, in sum: 6.1 -> 2.9 ms (1 of 1 model), 1"));
	CHECK(!board_says(b, "\"event\":\"stop\""));
	board_run(b, start + 20 * NS_PER_S - b->now_ns);
	CHECK(board_says(b, "\"event\":\"stop\""));
	CHECK(board_says(b, "signal 1 9"));
	CHECK(!b->left);
	board_ended(b, 1, E_CHILD, "killed");
	CHECK(b->left && b->marks.unclean == 0);
	board_free(b);
}

/* A job puts records until at_ns. */
static void search_until(struct board *b, int64_t at_ns)
{
	while (b->now_ns < at_ns) {
		board_put_rec(b, 1001);
		board_run(b, at_ns - b->now_ns < NS_PER_S / 4 ? at_ns - b->now_ns : NS_PER_S / 4);
	}
}

/* The last commit gets 2.25 s, because an earlier one took 2 s. */
TEST(box_leaves_time_for_slow_flash)
{
	struct board *b = board_new(HONED_BOX, 1);
	int64_t start = b->now_ns;
	board_start(b);
	board_run(b, 10 * NS_PER_MS);
	board_started(b, 1);
	board_put_rec(b, 1001);
	board_ask(b, 1001, "{\"op\":\"commit\",\"id\":1}");
	board_run(b, 2 * NS_PER_S);
	board_stored(b, 1);
	while (b->now_ns < start + 17 * NS_PER_S) {
		board_run(b, NS_PER_S);
		board_ask(b, 1001, "{\"op\":\"progress\",\"before_ms\":6.1,\"now_ms\":2.9}");
	}
	CHECK(!board_says(b, "\"event\":\"stop\""));
	board_run(b, start + 17500 * NS_PER_MS - b->now_ns);
	CHECK(board_says(b, "\"event\":\"stop\""));
	board_free(b);
}

/* Two jobs and one last commit, which takes 2 s of 2.25 s: there is no time for two commits. */
TEST(box_has_one_last_commit)
{
	for (int asks = 1; asks <= 2; asks++) {
		struct board *b = box(2, 2);
		int64_t start = b->now_ns;
		board_start(b);
		board_run(b, 10 * NS_PER_MS);
		board_stored(b, 0);
		board_started(b, 1);
		board_started(b, 2);
		board_put_rec(b, 1001);
		board_ask(b, 1001, "{\"op\":\"commit\",\"id\":1}");
		board_run(b, 2 * NS_PER_S);
		board_stored(b, 1);
		while (!board_says(b, "\"event\":\"stop\"") && b->now_ns < start + 20 * NS_PER_S) {
			board_ask(b, 1001, "{\"op\":\"progress\",\"before_ms\":6.1}");
			board_ask(b, 1002, "{\"op\":\"progress\",\"before_ms\":6.1}");
			board_run(b, 50 * NS_PER_MS);
		}
		board_put_rec(b, 1001);
		board_put_rec(b, 1002);
		board_ask(b, 1001, "{\"op\":\"commit\",\"id\":2}");
		board_run(b, 100 * NS_PER_MS);
		CHECK(!board_says(b, "commit 2"));
		if (asks > 1)
			board_ask(b, 1002, "{\"op\":\"commit\",\"id\":3}");
		CHECK((asks > 1) == (board_says(b, "commit 2") != NULL));
		board_run(b, 250 * NS_PER_MS);
		CHECK(board_says(b, "commit 2")); /* a silent job is not waited for */
		board_stored(b, 2);
		CHECK(board_says(b, "{\"id\":2,\"ok\":true"));
		CHECK((asks > 1) == (board_says(b, "{\"id\":3,\"ok\":true") != NULL));
		board_free(b);
	}
}

/* Each commit takes 3 s; what cannot be committed before the last commit waits for it. */
TEST(box_commits_by_itself_and_never_too_late)
{
	struct board *b = board_new(HONED_BOX, 1);
	int64_t start = b->now_ns, ticket = 1;
	board_start(b);
	board_run(b, 10 * NS_PER_MS);
	CHECK(board_says(b, "prepare"));
	board_stored(b, 0);
	board_started(b, 1);
	while (b->now_ns < start + 15 * NS_PER_S) {
		search_until(b, b->now_ns + NS_PER_S / 4);
		if (!board_says(b, "commit "))
			continue;
		board_read(b);
		search_until(b, b->now_ns + 3 * NS_PER_S);
		CHECK(!board_says(b, "commit ")); /* one at a time */
		board_stored(b, ticket++);
	}
	CHECK(ticket >= 3 && !board_says(b, "\"event\":\"stop\""));
	board_free(b);
}

/* Making the cache shows how slow the flash is before anything was committed: each commit is two syncs. */
TEST(box_learns_how_slow_its_flash_is_as_it_makes_the_cache)
{
	struct board *b = board_new(HONED_BOX, 1);
	int64_t start = b->now_ns;
	b->o.box_ns = start + 12 * NS_PER_S;
	board_start(b);
	board_run(b, 10 * NS_PER_MS);
	board_started(b, 1);
	search_until(b, start + 6 * NS_PER_S);
	CHECK(!board_says(b, "commit 1"));
	board_event(b, (struct honed_event){.kind = HE_STORED, .sync_ns = 2 * NS_PER_S});
	/* a commit takes 4 s, so there would be no time for the last one */
	search_until(b, start + 7 * NS_PER_S);
	CHECK(!board_says(b, "commit 1") && !board_says(b, "\"event\":\"stop\""));
	search_until(b, start + 7300 * NS_PER_MS);
	CHECK(board_says(b, "\"event\":\"stop\"") && !board_says(b, "commit 1"));
	board_ask(b, 1001, "{\"op\":\"commit\",\"id\":9}");
	CHECK(board_says(b, "commit 1"));
	board_run(b, 4 * NS_PER_S);
	CHECK(!board_says(b, "signal 1 9")); /* the job waits for its commit */
	board_stored(b, 1);
	CHECK(board_says(b, "{\"id\":9,\"ok\":true"));
	board_done(b, 1, 6, 3, 0, 0);
	CHECK(b->left && b->marks.model[0].boxed);
	board_free(b);
}

/* A commit that does not end leaves less time for the last one, however long earlier ones took. */
TEST(box_ends_though_its_flash_stalls)
{
	struct board *b = board_new(HONED_BOX, 1);
	int64_t start = b->now_ns;
	board_start(b);
	board_run(b, 10 * NS_PER_MS);
	board_stored(b, 0);
	board_started(b, 1);
	search_until(b, start + 9 * NS_PER_S);
	CHECK(board_says(b, "commit 1") && !board_says(b, "\"event\":\"stop\""));
	search_until(b, start + 13 * NS_PER_S);
	CHECK(board_says(b, "\"event\":\"stop\""));
	board_run(b, start + 20 * NS_PER_S - b->now_ns);
	CHECK(board_says(b, "signal 1 9"));
	board_ended(b, 1, E_CHILD, "killed");
	board_run(b, 20 * NS_PER_MS);
	CHECK(b->left && !b->marks.model[0].boxed);
	board_free(b);
}

TEST(models_in_need_come_first)
{
	struct board *b = box(4, 1);
	b->model[3].priority = 5;
	b->o.marks.model[b->o.marks.n++] =
	    (struct mark_of){.model = b->file[0].key, .boxed = true, .promise = 0.3};
	board_start(b);
	board_run(b, 10 * NS_PER_MS);
	CHECK(board_says(b, "start 1 d 6466")); /* a third of the time left */
	board_started(b, 1);
	board_run(b, NS_PER_S);
	board_done(b, 1, 6, 3, 0, 0);
	CHECK(board_says(b, "start 2 b 919")); /* half of the time left */
	board_started(b, 2);
	board_run(b, NS_PER_S);
	board_done(b, 2, 6, 3, 0, 0);
	CHECK(board_says(b, "start 3 c 173"));
	board_started(b, 3);
	board_done(b, 3, 6, 3, 0, 0);
	CHECK(b->left); /* early, because nothing is left to do */
	CHECK(b->marks.unclean == 0 && b->marks.n == 4);
	board_free(b);
}

/* Cores are shared out among the jobs that can start; builders use the cores beyond a job's threads. */
TEST(cores_are_shared_out)
{
	static const struct {
		int cores, models, threads, jobs, room; /* room: jobs that memory has room for */
		int starts, cpus;
	} rows[] = {
	    {4, 4, 1, 0, 8, 4, 1},
	    {4, 5, 1, 0, 8, 4, 1},
	    {4, 2, 1, 0, 8, 2, 2},
	    /* more than two builders would wait for each other */
	    {4, 1, 1, 0, 8, 1, 3},
	    {8, 1, 2, 0, 8, 1, 4},
	    {2, 4, 1, 0, 8, 1, 2},
	    {3, 4, 1, 0, 8, 1, 3}, /* few cores: one job, with builders */
	    {3, 4, 2, 0, 8, 1, 3},
	    {1, 4, 1, 0, 8, 1, 1},
	    {2, 4, 2, 0, 8, 2, 2}, /* none left for builders */
	    {3, 4, 0, 0, 8, 3, 3},
	    {2, 4, 1, 2, 8, 2, 1}, /* jobs as configured */
	    {4, 1, 1, 0, 2, 1, 2},
	    {4, 1, 1, 0, 1, 1, 1},
	    {4, 2, 1, 0, 2, 2, 1}, /* limited by memory */
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct board *b = box(rows[i].models, rows[i].jobs);
		b->o.ncpus = rows[i].cores;
		for (int k = 0; k < rows[i].cores; k++)
			b->o.cpus[k] = k;
		for (int k = 0; k < rows[i].models; k++)
			b->model[k].threads = rows[i].threads;
		b->vitals.memory_free_bytes = rows[i].room * b->conf.job_memory_bytes;
		board_start(b);
		board_run(b, 10 * NS_PER_MS);
		char cpus[32], last[32], next[32];
		snprintf(cpus, sizeof cpus, " cpus %d ", rows[i].cpus);
		snprintf(last, sizeof last, "start %d ", rows[i].starts);
		snprintf(next, sizeof next, "start %d ", rows[i].starts + 1);
		const char *started = board_says(b, last);
		CHECK(started && strstr(started, cpus) && !board_says(b, next));
		board_free(b);
	}
}

/* A core in use is not taken away, and an unused one is not wasted. */
TEST(a_late_job_has_the_cores_that_nobody_uses)
{
	struct board *b = box(5, 0);
	for (int i = 0; i < 5; i++)
		b->model[i].threads = 1;
	board_start(b);
	board_run(b, 10 * NS_PER_MS);
	for (int i = 1; i <= 4; i++)
		board_started(b, i);
	board_read(b);
	int64_t free_bytes = b->vitals.memory_free_bytes;
	b->vitals.memory_free_bytes = INT64_C(256) << 20;
	board_run(b, NS_PER_S);
	for (int i = 1; i <= 3; i++)
		board_done(b, i, 6, 3, 0, 0);
	CHECK(!board_says(b, "start"));
	b->vitals.memory_free_bytes = free_bytes;
	board_run(b, NS_PER_S);
	CHECK(board_says(b, "start 5 e") && strstr(board_says(b, "start 5 e"), " cpus 3 "));
	board_free(b);
}

TEST(models_with_kernels_take_no_time_from_those_without)
{
	struct board *b = box(2, 1);
	board_start(b);
	board_run(b, 10 * NS_PER_MS);
	CHECK(board_says(b, "start 1 a 9"));
	board_started(b, 1);
	board_run(b, 9 * NS_PER_S);
	board_done(b, 1, 6, 3, 0, 0.4);
	CHECK(board_says(b, "start 2 b 10")); /* all the time that is left */
	board_free(b);
}

TEST(the_rest_of_the_box_goes_to_promising_models)
{
	struct board *b = box(2, 2);
	board_start(b);
	board_run(b, 10 * NS_PER_MS);
	CHECK(board_says(b, "start 1 a 194") && board_says(b, "start 2 b 194"));
	board_started(b, 1);
	board_started(b, 2);
	board_run(b, NS_PER_S);
	board_done(b, 1, 6, 3, 0, 0);
	board_done(b, 2, 6, 3, 0, 0.4);
	CHECK(board_says(b, "start 3 b 183") && !b->left);
	board_started(b, 3);
	board_run(b, NS_PER_S);
	board_done(b, 3, 3, 3, 0, 0.4); /* it won nothing, so it gets no more */
	CHECK(b->left);
	board_free(b);
}

TEST(a_short_job_promises_for_a_short_time)
{
	struct board *b = box(1, 1);
	b->o.box_ns = b->now_ns + 4 * NS_PER_S;
	board_start(b);
	board_run(b, 10 * NS_PER_MS);
	CHECK(board_says(b, "start 1 a 3400"));
	board_started(b, 1);
	board_run(b, 2 * NS_PER_S);
	/* the promise of a box of 3.4 s is scaled up to a slice of 30 s */
	board_done(b, 1, 6, 5, 0, 0.0008);
	/* and there is no time for another job in this box */
	CHECK(b->left && b->marks.model[0].promise > 0.005);
	board_free(b);
}

TEST(box_heeds_heat_but_not_load)
{
	struct board *b = box(1, 1);
	b->vitals.has |= VITAL_LOAD | VITAL_PRESSURE;
	b->vitals.headroom_mc = 1000;
	board_start(b);
	board_run(b, 3 * NS_PER_S);
	CHECK(!board_says(b, "start") && !b->nmarks);
	b->vitals.headroom_mc = 40000;
	for (int i = 0; i < 30; i++) {
		b->vitals.busy_ns += 400 * NS_PER_MS;
		b->vitals.total_ns += 400 * NS_PER_MS;
		board_run(b, 100 * NS_PER_MS);
	}
	CHECK(board_says(b, "start 1"));
	board_free(b);
}

TEST(box_that_waited_in_vain_ends_in_time)
{
	struct board *b = box(1, 1);
	int64_t start = b->now_ns;
	b->vitals.headroom_mc = 1000;
	board_start(b);
	while (!b->left && b->now_ns < start + 30 * NS_PER_S)
		board_run(b, 10 * NS_PER_MS);
	/* the robot does not wait for the board to cool down */
	CHECK(b->left && b->now_ns <= start + 6 * NS_PER_S);
	CHECK(b->nmarks == 0 && board_says(b, "below its limit"));
	board_free(b);
}

TEST(box_whose_jobs_only_rest_ends)
{
	struct board *b = box(1, 1);
	board_start(b);
	board_run(b, 10 * NS_PER_MS);
	board_started(b, 1);
	board_run(b, 8 * NS_PER_S);
	CHECK(!b->left);
	b->vitals.headroom_mc = 1000;
	board_run(b, 4 * NS_PER_S);
	CHECK(board_says(b, "signal 1 19") && !board_says(b, "\"event\":\"stop\""));
	board_run(b, 2 * NS_PER_S);
	CHECK(board_says(b, "signal 1 18") && board_says(b, "\"event\":\"stop\""));
	board_ended(b, 1, 0, NULL);
	CHECK(b->left && b->marks.unclean == 0);
	board_free(b);
}

TEST(box_does_not_wait_for_what_will_not_die)
{
	struct board *b = box(1, 1);
	int64_t end = b->o.box_ns;
	board_start(b);
	board_run(b, 10 * NS_PER_MS);
	board_started(b, 1);
	while (!b->left && b->now_ns < end + NS_PER_S)
		board_run(b, NS_PER_MS);
	CHECK(b->left && b->now_ns <= end + 20 * NS_PER_MS);
	CHECK(board_says(b, "signal 1 9"));
	board_free(b);
}

TEST(a_job_that_starts_at_the_end_is_killed)
{
	struct board *b = box(1, 1);
	int64_t end = b->o.box_ns;
	board_start(b);
	board_run(b, end - b->now_ns);
	CHECK(board_says(b, "start 1"));
	board_started(b, 1);
	CHECK(board_says(b, "signal 1 9"));
	board_free(b);
}

TEST(three_unclean_boxes_and_it_skips)
{
	struct board *b = box(1, 1);
	struct marks marks = {0};
	for (int boot = 0; boot < 3; boot++) {
		b->o.marks = marks;
		board_start(b);
		board_run(b, NS_PER_S);
		CHECK(!b->left && b->marks.unclean == boot + 1);
		marks = b->marks;
		board_free(b); /* the power fails */
		b = box(1, 1);
	}
	b->o.marks = marks;
	board_start(b);
	CHECK(b->left && b->nmarks == 0);
	CHECK(board_says(b, "status the last 3 boot boxes were interrupted"));
	board_free(b);
	b = box(1, 1);
	b->o.marks = marks;
	b->file[0].key.lo = 99; /* a model that changed is worth a try */
	board_start(b);
	board_run(b, NS_PER_S);
	CHECK(board_says(b, "start 1") && b->marks.unclean == 4);
	board_free(b);
}

TEST(resident_honed_forgives_unclean_boxes)
{
	struct board *b = board_new(HONED_RESIDENT, 1);
	b->o.marks.unclean = 3;
	board_start(b);
	board_connect(b, 1, 1000);
	board_ask(b, 1, "{\"op\":\"resume\"}");
	CHECK(b->nmarks == 0);
	board_connect(b, 2, 0);
	board_ask(b, 2, "{\"op\":\"resume\"}");
	CHECK(b->nmarks == 1 && b->marks.unclean == 0);
	board_free(b);
	b = board_new(HONED_RESIDENT, 1);
	b->o.marks.unclean = 3;
	board_start(b);
	board_run(b, 12 * NS_PER_S);
	board_started(b, 1);
	board_done(b, 1, 6, 5, 0, 0.5);
	CHECK(b->nmarks == 1 && b->marks.unclean == 0);
	board_free(b);
}

TEST(told_to_stop_a_box_is_clean)
{
	struct board *b = box(1, 1);
	board_start(b);
	board_run(b, NS_PER_S);
	board_started(b, 1);
	board_event(b, (struct honed_event){.kind = HE_STOP});
	CHECK(board_says(b, "\"event\":\"stop\""));
	board_ended(b, 1, 0, NULL);
	CHECK(b->left && b->marks.unclean == 0);
	board_free(b);
}

TEST(status_comes_at_most_twice_a_second)
{
	struct board *b = box(1, 1);
	board_start(b);
	board_run(b, 10 * NS_PER_MS);
	board_started(b, 1);
	int before = b->sums[HA_STATUS];
	for (int i = 0; i < 500; i++) {
		char line[100];
		snprintf(line, sizeof line, "{\"op\":\"progress\",\"before_ms\":6.1,\"now_ms\":%g}",
			 6 - i * 0.01);
		board_run(b, 10 * NS_PER_MS);
		board_ask(b, 1001, line);
	}
	CHECK(b->sums[HA_STATUS] - before <= 11 && b->sums[HA_STATUS] - before >= 8);
	board_free(b);
}

/* What was written today counts after a restart, too. */
TEST(the_flash_limit_outlives_a_restart)
{
	struct board *b = board_new(HONED_RESIDENT, 1);
	b->conf.writes_bytes = 5000;
	b->o.marks.day_bytes = 4000;
	board_start(b);
	CHECK(strstr(board_status(b), "\"today_bytes\":4000,\"limit_bytes\":5000"));
	board_free(b);
}

/* Marks are written with each gain, but count as written: once the day's limit is reached, no slice starts and
 * none is written. */
TEST(marks_keep_to_the_flash_limit)
{
	enum { BLOCK = 4096, LIMIT = 20 * BLOCK };
	struct board *b = board_new(HONED_RESIDENT, 1);
	char line[32];
	int job = 0;
	b->conf.writes_bytes = LIMIT;
	board_start(b);
	for (int n = 0; n < 100; n++) {
		snprintf(line, sizeof line, "start %d ", job + 1);
		board_run(b, 60 * NS_PER_S);
		if (!board_says(b, line))
			continue;
		board_started(b, ++job);
		board_ask(b, 1000 + job, "{\"op\":\"progress\",\"net_ms\":6}");
		board_put_rec(b, 1000 + job);
		board_ask(b, 1000 + job, "{\"op\":\"commit\",\"id\":2}");
		board_stored(b, job);
		board_done(b, job, 6, 5.5, 0, 0.4);
	}
	CHECK(job > 5 && b->nmarks >= 2 * job - 1 && b->nmarks <= LIMIT / BLOCK + 1);
	snprintf(line, sizeof line, "\"today_bytes\":%d,", b->nmarks * BLOCK);
	CHECK(strstr(board_status(b), line) && board_says(b, "in a day is written"));
	board_free(b);
}

/* The file of marks */

static struct marks some_marks(void)
{
	struct marks m = {.unclean = 2, .day = 20000, .day_bytes = 123456, .n = 2};
	m.model[0] = (struct mark_of){.model = {1, 2},
				      .boxed = true,
				      .promise = 0.125,
				      .missing = 3,
				      .before_ms = 12.5,
				      .now_ms = 0.75,
				      .rough = MARK_GAINS};
	m.model[1] = (struct mark_of){.model = {UINT64_MAX, 4}, .promise = -1};
	return m;
}

TEST(marks_read_back)
{
	struct marks m = some_marks(), back;
	char path[64];
	snprintf(path, sizeof path, "/tmp/hone-marks-%d", (int)getpid());
	CHECK_OK(marks_write(path, &m));
	CHECK_OK(marks_read(path, marks_day(), &back));
	CHECK(back.day_bytes == 0); /* of another day */
	CHECK_OK(marks_read(path, 20000, &back));
	CHECK(back.day_bytes == 123456);
	CHECK(back.unclean == 2 && back.n == 2 && back.model[0].promise == 0.125 &&
	      back.model[1].promise == -1 && back.model[0].missing == 3);
	CHECK(key_equal(back.model[1].model, m.model[1].model) && !back.model[1].boxed);
	CHECK(back.model[0].before_ms == 12.5 && back.model[0].now_ms == 0.75 && back.model[0].rough == MARK_GAINS);
	CHECK(back.model[1].before_ms == 0 && back.model[1].now_ms == 0 && !back.model[1].rough);
	for (int i = 0; i < 3; i++) {
		m.model[0].rough = (enum mark_rough)i;
		CHECK_OK(marks_write(path, &m));
		CHECK_OK(marks_read(path, 20000, &back));
		CHECK(back.model[0].rough == m.model[0].rough && back.model[0].before_ms == 12.5);
	}
	unlink(path);
	CHECK_FAILS(marks_read(path, marks_day(), &back), E_NOTFOUND, "no such file");
	CHECK(back.n == 0 && back.unclean == 0);
}

static struct marks marks_of_a_cache(void)
{
	struct marks m = some_marks();
	m.cache = (struct inventory){.files = {UINT64_MAX, 7}, .records = 1000000000, .code = 24};
	for (int i = 0; i < INVENTORY_SOME; i++)
		m.cache.some[i] = (struct key){(uint64_t)i + 1, UINT64_MAX};
	return m;
}

TEST(marks_say_of_which_cache)
{
	struct marks m = marks_of_a_cache(), back;
	for (int n = INVENTORY_SOME; n >= 0; n--) {
		struct buf b = {0};
		if (n < INVENTORY_SOME)
			m.cache.some[n] = (struct key){0};
		marks_print(&m, &b);
		CHECK_OK(marks_parse(buf_str(&b), &back));
		CHECK(!memcmp(&back.cache, &m.cache, sizeof m.cache) && back.n == 2);
		buf_free(&b);
	}
	CHECK(marks_doubt(&m) && m.n == 2 && m.unclean == 2 && !m.model[0].boxed &&
	      m.model[0].promise == -1 && m.model[0].before_ms == 0 && m.model[0].now_ms == 0 &&
	      !m.model[0].missing && !m.model[0].rough);
	CHECK(key_equal(m.model[1].model, back.model[1].model));
	CHECK(!marks_doubt(&m)); /* they say nothing more */
}

TEST(marks_that_are_damaged_are_none)
{
	struct marks m = marks_of_a_cache(), back;
	struct buf b = {0};
	marks_print(&m, &b);
	for (size_t cut = 0; cut < b.n; cut++) { /* cut at every byte */
		char *part = strndup(b.p, cut);
		CHECK(marks_parse(part, &back) < 0 && back.n == 0 && back.unclean == 0);
		free(part);
	}
	/* any bit flipped: accepted or refused, but never more models than fit */
	for (size_t at = 0; at < b.n * 8; at++) {
		b.p[at / 8] = (char)(b.p[at / 8] ^ (1 << at % 8));
		int rc = marks_parse(b.p, &back);
		CHECK(back.n >= 0 && back.n <= HONED_MODELS && back.unclean >= 0 && (rc >= 0 || back.n == 0));
		b.p[at / 8] = (char)(b.p[at / 8] ^ (1 << at % 8));
	}
	buf_free(&b);
	static const char *const bad[] = {
	    "",
	    "hone marks 2\nend\n",
	    "hone marks 1\nunclean -1\nend\n",
	    "hone marks 1\nunclean 99999999999999\nend\n",
	    "hone marks 1\nmodel 00 1 0 0\nend\n",
	    "hone marks 1\nmodel 00000000000000000000000000000001 1 0\nend\n",
	    "hone marks 1\nmodel 00000000000000000000000000000001 1 0 -1\nend\n",
	    "hone marks 1\nmodel 00000000000000000000000000000001 2 0 0\nend\n",
	    "hone marks 1\nmodel 00000000000000000000000000000001 1 nan 0\nend\n",
	    "hone marks 1\nmodel 00000000000000000000000000000001 1 7 0\nend\n",
	    "hone marks 1\nmodel 00000000000000000000000000000001 1 0 0 1\nend\n",
	    "hone marks 1\nmodel 00000000000000000000000000000001 1 0 0 1 2\nend\n",
	    "hone marks 1\nmodel 00000000000000000000000000000001 1 0 0 1 -2 0\nend\n",
	    "hone marks 1\nmodel 00000000000000000000000000000001 1 0 0 nan 2 0\nend\n",
	    "hone marks 1\nmodel 00000000000000000000000000000001 1 0 0 1 inf 0\nend\n",
	    "hone marks 1\nmodel 00000000000000000000000000000001 1 0 0 1 2 2\nend\n",
	    "hone marks 1\nmodel 00000000000000000000000000000001 1 0 0 1 2 0 \nend\n",
	    "hone marks 1\nmodel 00000000000000000000000000000001 1 0 0 1 2 01\nend\n",
	    "hone marks 1\nmodel 00000000000000000000000000000001 1 0 0 1 2 \nend\n",
	    "hone marks 1\ncache \nend\n",
	    "hone marks 1\ncache 0000000000000001 1 1\nend\n",
	    "hone marks 1\ncache 00000000000000000000000000000001 1\nend\n",
	    "hone marks 1\ncache 00000000000000000000000000000001 1 -1\nend\n",
	    "hone marks 1\ncache 00000000000000000000000000000001 99999999999 1\nend\n",
	    "hone marks 1\ncache 00000000000000000000000000000001 1 1 1\nend\n",
	    "hone marks 1\nflash 20000\nend\n",
	    "hone marks 1\nflash 20000 -1\nend\n",
	    "hone marks 1\nend\nmore\n"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK(marks_parse(bad[i], &back) == E_CORRUPT);
}

/* A former version wrote no times. A later one takes 0 and 1 as the last field, and a number as each time. */
TEST(marks_of_a_former_version)
{
	struct marks m = some_marks();
	for (int i = 0; i < 3; i++) {
		struct buf b = {0};
		double before_ms, now_ms;
		char rough[2], end;
		m.model[0].rough = (enum mark_rough)i;
		marks_print(&m, &b);
		CHECK(sscanf(strstr(buf_str(&b), "model "), "model %*32[0-9a-f] 1 0.125 3 %lf %lf %1[01]%c", &before_ms,
			     &now_ms, rough, &end) == 4);
		CHECK(before_ms == 12.5 && now_ms == 0.75 && (*rough == '1') == (i > 0) && end == '\n');
		buf_free(&b);
	}
	CHECK_OK(marks_parse(
	    "hone marks 1\nunclean 1\nmodel 00000000000000010000000000000002 1 0.25 3\nend\n", &m));
	CHECK(m.n == 1 && m.model[0].boxed && m.model[0].promise == 0.25 && m.model[0].missing == 3);
	CHECK(m.model[0].before_ms == 0 && m.model[0].now_ms == 0 && !m.model[0].rough);
}

TEST(too_many_marks_are_refused)
{
	struct marks back;
	struct buf b = {0};
	buf_puts(&b, "hone marks 1\n");
	for (int i = 0; i <= HONED_MODELS; i++)
		buf_printf(&b, "model %032d 1 0 0\n", i);
	buf_puts(&b, "end\n");
	CHECK_FAILS(marks_parse(buf_str(&b), &back), E_CORRUPT, "line of marks");
	buf_free(&b);
}

/* The store finds, when it opens the cache, that records are gone which the marks believe in. */
TEST(a_box_tunes_all_models_of_a_cache_that_lost_records)
{
	const struct inventory had = {.files = {1, 1}, .records = 9, .code = 9},
			       has = {.files = {1, 2}, .records = 4, .code = 9};
	struct board *b = box(2, 1);
	b->o.marks.cache = had;
	for (int i = 0; i < 2; i++)
		b->o.marks.model[b->o.marks.n++] = (struct mark_of){
		    .model = b->file[i].key, .boxed = i == 0, .promise = 0.3, .before_ms = 4, .now_ms = 2};
	board_start(b);
	CHECK(board_says(b, "start 1 b"));
	int client = board_started(b, 1);
	board_event(b, (struct honed_event){.kind = HE_STORED, .holds = &has, .lacks = true});
	CHECK(board_says(b, "is not as honed left it: it has 4 of 9 records, code of 9 of 9 kernels"));
	CHECK(strstr(board_status(b), "\"now_ms\":null"));
	/* The job has not read the cache yet, so that it is believed. */
	board_ask(b, client, "{\"op\":\"commit\",\"id\":1}");
	board_stored(b, 1);
	CHECK(board_says(b, "send 1001 {\"id\":1,\"ok\":true"));
	board_done(b, 1, 4, 2, 0, 0);
	CHECK(board_says(b, "start 2 a"));
	board_started(b, 2);
	board_done(b, 2, 4, 2, 0, 0);
	board_run(b, 30 * NS_PER_S);
	CHECK(b->left && b->marks.n == 2 && b->marks.model[0].boxed && b->marks.model[1].boxed);
	CHECK(!memcmp(&b->marks.cache, &has, sizeof has));
	board_free(b);
}

TEST_MAIN
