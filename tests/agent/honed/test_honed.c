/* SPDX-License-Identifier: Apache-2.0 */
/* honed's state machine on a virtual clock. Past 800 lines because every case plays its events on the one board
 * of tests/lib/honed_board.h. */
#include "agent/honed/marks.h"
#include "agent/cache/cache.h"
#include "tests/lib/honed_board.h"

#include "platform/base/rng.h"

#include <math.h>

#define LONG_SETTLED (12 * NS_PER_S)

/* Returns a resident honed whose first job runs. */
static struct board *tuning_jobs(int nmodels, int jobs)
{
	struct board *b = board_new(HONED_RESIDENT, nmodels);
	b->conf.jobs = jobs;
	board_start(b);
	board_run(b, LONG_SETTLED);
	for (int job = 1; job <= jobs; job++)
		board_started(b, job);
	return b;
}

static struct board *tuning(int nmodels)
{
	return tuning_jobs(nmodels, 1);
}

static struct board *tuning_on(const char *device)
{
	struct board *b = board_new(HONED_RESIDENT, 1);
	b->model[0].device = device;
	board_start(b);
	board_run(b, LONG_SETTLED);
	board_started(b, 1);
	return b;
}

TEST(starts_a_slice_when_the_gate_has_settled)
{
	struct board *b = board_new(HONED_RESIDENT, 1);
	board_start(b);
	CHECK(board_says(b, "ready"));
	board_run(b, 9 * NS_PER_S);
	CHECK(!board_says(b, "start 1"));
	board_run(b, 4 * NS_PER_S);
	CHECK(board_says(b, "start 1 a 30000 cpus 4 nice 19"));
	board_free(b);
}

TEST(tunes_until_exhausted_then_sleeps)
{
	struct board *b = tuning(1);
	board_done(b, 1, 6, 5, 0, 0.2);
	board_run(b, 100 * NS_PER_MS);
	CHECK(board_says(b, "start 2 a"));
	board_started(b, 2);
	board_done(b, 2, 5, 4, 0, 0);
	board_run(b, 60 * NS_PER_S);
	CHECK(!board_says(b, "start 3"));
	CHECK(honed_wakeup(b->h) == INT64_MAX);
	CHECK(board_run(b, 86400 * NS_PER_S) == 0);
	CHECK(strstr(board_status(b), "\"state\":\"ready\""));
	board_free(b);
}

TEST(a_slice_that_won_nothing_rests_twice_as_long)
{
	struct board *b = tuning(1);
	board_done(b, 1, 6, 5, 0, 0.2);
	board_started(b, 2);
	for (int job = 2, rest = 600; job < 5; job++, rest *= 2) {
		board_done(b, job, 5, 5, 0, 0.2);
		board_read(b);
		board_run(b, (rest - 1) * NS_PER_S);
		CHECK(!board_says(b, "start"));
		board_run(b, LONG_SETTLED + 2 * NS_PER_S);
		CHECK(board_says(b, "start"));
		board_started(b, job + 1);
	}
	board_free(b);
}

TEST(after_a_long_rest_load_is_looked_at_anew)
{
	struct board *b = tuning(1);
	board_done(b, 1, 6, 5, 0, 0.2);
	board_started(b, 2);
	board_done(b, 2, 5, 5, 0, 0.2);
	board_read(b);
	board_run(b, 599 * NS_PER_S);
	b->vitals.total_ns += 4 * 599 * NS_PER_S; /* the board was idle all the time, except just now */
	for (int i = 0; i < 400; i++) {
		b->vitals.busy_ns += 30 * NS_PER_MS;
		b->vitals.total_ns += 40 * NS_PER_MS;
		board_run(b, 10 * NS_PER_MS);
	}

	CHECK(!board_says(b, "start"));
	board_free(b);
}

TEST(yield_stops_within_its_time_and_goes_on)
{
	struct board *b = tuning(1);
	board_ask(b, 1001, "{\"op\":\"lease\",\"id\":7,\"kind\":\"measure\"}");
	CHECK(board_says(b, "send 1001 {\"id\":7,\"ok\":true"));
	board_read(b);
	b->vitals.headroom_mc = 1000;
	board_run(b, 60 * NS_PER_MS);
	CHECK(board_says(b, "\"event\":\"yield\""));
	board_run(b, 20 * NS_PER_MS);
	CHECK(board_says(b, "signal 1 19"));
	b->vitals.headroom_mc = 40000;
	board_read(b);
	board_run(b, 15 * NS_PER_S);
	CHECK(board_says(b, "signal 1 18"));
	CHECK(board_says(b, "\"event\":\"go on\""));
	board_ask(b, 1001, "{\"op\":\"release\",\"id\":8}");
	CHECK(board_says(b, "\"id\":8"));
	CHECK(board_says(b, "the gate closed"));
	board_free(b);
}

TEST(commit_is_answered_when_it_is_stored)
{
	struct board *b = tuning(1);
	board_put_rec(b, 1001);
	CHECK(board_says(b, "put 1 5"));
	board_ask(b, 1001, "{\"op\":\"commit\",\"id\":2}");
	CHECK(board_says(b, "commit 1"));
	CHECK(!board_says(b, "\"id\":2"));
	board_event(
	    b, (struct honed_event){.kind = HE_STORED, .ticket = 1, .generation = 9, .written_bytes = 4096});
	CHECK(board_says(b, "send 1001 {\"id\":2,\"ok\":true,\"generation\":9"));
	board_free(b);
}

/* One commit answers all who asked while another was under way. */
TEST(commits_come_one_after_the_other)
{
	struct board *b = tuning(2);
	board_put_rec(b, 1001);
	CHECK(!board_says(b, "commit 1"));
	board_run(b, NS_PER_S);
	CHECK(board_says(b, "commit 1")); /* nobody asked for this one */
	board_put_rec(b, 1001);
	board_ask(b, 1001, "{\"op\":\"commit\",\"id\":2}");
	board_run(b, NS_PER_S);
	CHECK(!board_says(b, "commit 2"));
	board_stored(b, 1);
	CHECK(board_says(b, "commit 2") && !board_says(b, "\"id\":2,"));
	board_stored(b, 2);
	CHECK(board_says(b, "{\"id\":2,\"ok\":true"));
	board_read(b);
	board_run(b, 10 * NS_PER_S);
	CHECK(!board_says(b, "commit "));
	board_free(b);
}

/* The other laws, and the usual work of a resident honed. */

TEST(rests_no_longer_than_a_minute)
{
	struct board *b = tuning(1);
	b->vitals.headroom_mc = 1000;
	board_run(b, 59 * NS_PER_S);
	CHECK(board_says(b, "signal 1 19") && !board_says(b, "signal 1 9"));
	board_run(b, 2 * NS_PER_S);
	CHECK(board_says(b, "signal 1 9"));
	board_ended(b, 1, E_CHILD, "signal 9");
	CHECK(!strstr(board_status(b), "\"error\":\"signal")); /* the kill was not the job's fault */
	board_free(b);
}

TEST(a_slice_cut_short_tells_no_time)
{
	struct board *b = tuning(1);
	board_done(b, 1, 6, 5, 0, 0.4);
	board_started(b, 2);
	board_done(b, 2, 5, 0, 0, 0.4);
	CHECK(strstr(board_status(b), "\"now_ms\":5,"));
	board_started(b, 3);
	board_done(b, 3, 4, 0, 0, 0.4); /* what it measured at its start does not compare */
	CHECK(strstr(board_status(b), "\"before_ms\":6,") && strstr(board_status(b), "\"now_ms\":5,"));
	board_free(b);
}

/* The first slice keeps kernels and does not measure what they gain: a shorter time at the start of the next
 * slice is theirs, so it says nothing of the time before. */
TEST(a_time_of_other_kernels_leaves_the_time_before)
{
	struct board *b = tuning(1);
	board_ask(b, 1001, "{\"op\":\"progress\",\"net_ms\":0.027}");
	board_ask(b, 1001, "{\"op\":\"done\",\"trials\":9,\"before_ms\":0.027,\"kept\":3,\"promise\":0.4}");
	board_ended(b, 1, 0, NULL);
	for (int i = 0; i < 600 && !board_says(b, "start 2 "); i++)
		board_run(b, NS_PER_S);
	board_started(b, 2);
	board_ask(b, 1002, "{\"op\":\"progress\",\"net_ms\":0.015}");
	CHECK(strstr(board_status(b), "\"before_ms\":0.027,") &&
	      strstr(board_status(b), "\"now_ms\":0.015,\"now_rough\":true"));
	board_free(b);
}

/* The status has the network's time as soon as the first slice has measured it. */
TEST(a_first_measurement_is_told)
{
	struct board *b = tuning(1);
	board_ask(b, 1001, "{\"op\":\"progress\",\"before_ms\":3,\"now_ms\":2}"); /* sums of some tasks */
	CHECK(strstr(board_status(b), "\"before_ms\":null,\"default_ms\":null,\"now_ms\":null"));
	board_ask(b, 1001, "{\"op\":\"progress\",\"net_ms\":7}");
	CHECK(strstr(board_status(b), "\"before_ms\":7,\"default_ms\":null,\"now_ms\":7,"));
	board_ask(b, 1001, "{\"op\":\"progress\",\"net_ms\":8}");
	CHECK(strstr(board_status(b), "\"before_ms\":7,\"default_ms\":null,\"now_ms\":7,"));
	board_done(b, 1, 14, 10, 0, 0.4);
	CHECK(strstr(board_status(b), "\"before_ms\":14,") && strstr(board_status(b), "\"now_ms\":10,"));
	board_started(b, 2);
	board_ask(b, 1001, "{\"op\":\"progress\",\"net_ms\":6}"); /* at the start of the next slice */
	CHECK(strstr(board_status(b), "\"before_ms\":14,") && strstr(board_status(b), "\"now_ms\":10,"));
	board_free(b);
}

/* While work waits for a gate that stays closed, and while all models rest. */
TEST(waiting_costs_two_wakeups_a_minute)
{
	struct board *b = board_new(HONED_RESIDENT, 1);
	b->vitals.headroom_mc = 1000;
	board_start(b);
	board_run(b, 600 * NS_PER_S);
	CHECK(board_run(b, 3600 * NS_PER_S) <= 120);
	board_event(b, (struct honed_event){.kind = HE_INHIBIT, .text = "a file"});
	CHECK(board_run(b, 3600 * NS_PER_S) <= 120);
	board_event(b, (struct honed_event){.kind = HE_INHIBIT});
	b->vitals.headroom_mc = 40000;
	for (int i = 0; i < 90 && !board_says(b, "start 1"); i++)
		board_run(b, NS_PER_S);
	CHECK(board_says(b, "start 1"));
	board_started(b, 1);
	board_done(b, 1, 5, 4, 0, 0.2);
	for (int job = 2; job <= 4; job++) { /* rests of 10, 20 and 40 minutes */
		board_started(b, job);
		board_read(b);
		board_done(b, job, 5, 5, 0, 0.2);
		CHECK(board_run(b, (600 << (job - 2)) * NS_PER_S - NS_PER_S) <= 6);
		board_run(b, 2 * NS_PER_S);
		CHECK(board_says(b, "start"));
	}
	board_free(b);
}

TEST(memory_that_runs_out_ends_it_at_once)
{
	struct board *b = tuning(1);
	b->vitals.memory_free_bytes = 1 << 20;
	board_run(b, 60 * NS_PER_MS);
	CHECK(board_says(b, "signal 1 9"));
	board_free(b);
}

TEST(vitals_that_changed_taint_a_measurement)
{
	struct board *b = tuning(1);
	board_ask(b, 1001, "{\"op\":\"lease\",\"id\":1,\"kind\":\"measure\"}");
	board_ask(b, 1001, "{\"op\":\"release\",\"id\":2}");
	CHECK(board_says(b, "{\"id\":2,\"ok\":true,\"tainted\":false"));
	board_ask(b, 1001, "{\"op\":\"lease\",\"id\":3,\"kind\":\"quiet\"}");
	b->vitals.throttled++;
	board_ask(b, 1001, "{\"op\":\"release\",\"id\":4}");
	CHECK(board_says(b, "{\"id\":4,\"ok\":true,\"tainted\":\"the board throttled"));
	board_free(b);
}

TEST(a_crash_pauses_its_model_for_longer_each_time)
{
	struct board *b = tuning(1);
	for (int job = 1, pause = 10; job <= 12; job++, pause = pause < 1800 ? 2 * pause : 3600) {
		board_ended(b, job, E_CHILD, "hone tune: signal 11");
		CHECK(strstr(board_status(b), "signal 11") &&
		      strstr(board_status(b), "\"state\":\"failing\""));
		board_read(b);
		board_run(b, (pause - 1) * NS_PER_S);
		CHECK(!board_says(b, "start"));
		board_run(b, 3 * NS_PER_S);
		CHECK(board_says(b, "start"));
		board_started(b, job + 1);
	}
	CHECK(board_says(b, "status tuning a"));
	board_free(b);
}

TEST(jobs_that_do_not_start_pause_too)
{
	struct board *b = board_new(HONED_RESIDENT, 1);
	board_start(b);
	board_run(b, LONG_SETTLED);
	board_event(b,
		    (struct honed_event){.kind = HE_ENDED, .job = 1, .rc = E_IO, .text = "no such program"});
	CHECK(strstr(board_status(b), "no such program"));
	board_run(b, 8 * NS_PER_S);
	CHECK(!board_says(b, "start 2"));
	board_run(b, 4 * NS_PER_S);
	CHECK(board_says(b, "start 2"));
	board_free(b);
}

TEST(silence_is_a_hang_but_not_where_honed_is_slow)
{
	struct board *b = tuning(1);
	board_ask(b, 1001, "{\"op\":\"commit\",\"id\":1}");
	board_run(b, 25 * NS_PER_S);
	board_stored(b, 1);
	board_run(b, 10 * NS_PER_S);
	board_ask(b, 1001, "{\"op\":\"progress\",\"trials\":3}");
	CHECK(!board_says(b, "signal"));
	board_free(b);
	b = tuning(1);
	b->conf.slice_ns = 300 * NS_PER_S;
	board_run(b, 29 * NS_PER_S);
	CHECK(!board_says(b, "signal"));
	board_run(b, 2 * NS_PER_S);
	CHECK(board_says(b, "signal 1 9"));
	board_ended(b, 1, E_CHILD, "signal 9");
	CHECK(strstr(board_status(b), "it sent nothing"));
	board_free(b);
}

TEST(a_process_that_was_held_up_does_not_blame_its_jobs)
{
	struct board *b = tuning(1);
	b->now_ns += 45 * NS_PER_S; /* nothing ran meanwhile */
	board_event(b, (struct honed_event){.kind = HE_TIMER});
	CHECK(!board_says(b, "signal 1 9"));
	board_free(b);
}

TEST(over_its_budget_a_job_is_told_then_killed)
{
	struct board *b = tuning(1);
	for (int s = 0; s < 37; s++) {
		board_run(b, NS_PER_S);
		board_ask(b, 1001, "{\"op\":\"progress\",\"trials\":3}");
	}
	CHECK(!board_says(b, "\"event\":\"stop\""));
	board_run(b, 2 * NS_PER_S);
	CHECK(board_says(b, "\"event\":\"stop\"") && !board_says(b, "signal"));
	board_run(b, 2 * NS_PER_S);
	CHECK(board_says(b, "signal 1 9"));
	board_free(b);
}

/* Records are lost in a commit that nobody asked for: their job is told, another job is not. */
TEST(lost_records_are_not_committed_later)
{
	struct board *b = tuning_jobs(2, 2);
	board_put_rec(b, 1001);
	board_run(b, NS_PER_S);
	CHECK(board_says(b, "commit 1"));
	board_event(b, (struct honed_event){
			   .kind = HE_STORED, .ticket = 1, .rc = E_BUSY, .lost = true, .text = "in use"});
	board_ask(b, 1001, "{\"op\":\"commit\",\"id\":2}");
	board_ask(b, 1002, "{\"op\":\"commit\",\"id\":3}");
	board_stored(b, 2);
	CHECK(board_says(b, "{\"id\":2,\"ok\":false,\"code\":\"io\""));
	board_stored(b, 3);
	CHECK(board_says(b, "{\"id\":3,\"ok\":true"));
	board_done(b, 1, 6, 5, 0, 0);
	CHECK(!b->marks.n || !b->marks.model[0].boxed);
	board_free(b);
}

TEST(a_full_flash_fails_the_commit_and_waits)
{
	struct board *b = tuning(1);
	board_ask(b, 1001, "{\"op\":\"commit\",\"id\":5}");
	board_event(b, (struct honed_event){
			   .kind = HE_STORED, .ticket = 1, .rc = E_IO, .text = "no space left on device"});
	CHECK(board_says(b, "{\"id\":5,\"ok\":false,\"code\":\"io\",\"error\":\"no space left on device\""));
	CHECK(strstr(board_status(b), "\"warning\":\"no space left on device\""));
	board_done(b, 1, 6, 5, 0, 0.5);
	board_read(b);
	board_run(b, 58 * NS_PER_S);
	CHECK(!board_says(b, "start") && !board_says(b, "commit"));
	board_run(b, 3 * NS_PER_S);
	CHECK(board_says(b, "commit 2"));
	board_stored(b, 2);
	board_run(b, LONG_SETTLED);
	CHECK(board_says(b, "start 2") && strstr(board_status(b), "\"warning\":null"));
	board_free(b);
}

/* The first commit of a job found the disk full, so it ended without a search. */
TEST(nothing_is_searched_while_flash_is_full)
{
	struct board *b = tuning(1);
	for (int i = 1; i <= 2; i++) {
		board_ask(b, 1000 + i, "{\"op\":\"commit\",\"id\":5}");
		board_event(b, (struct honed_event){.kind = HE_STORED,
						    .ticket = 2 * i - 1,
						    .rc = E_IO,
						    .text = "no space left on device"});
		board_ended(b, i, E_CHILD, "results could not be kept, so nothing was searched");
		CHECK(strstr(board_status(b), "\"verdict\":\"waits to tune: no space left on device\""));
		CHECK(strstr(board_status(b), "\"state\":\"failed\",\"ready\":false"));
		CHECK(strstr(board_status(b), "\"error\":\"results could not be kept"));
		board_read(b);
		board_run(b, 20 * NS_PER_S);
		CHECK(!board_says(b, "start") && !board_says(b, "commit"));
		if (i == 1) /* there is room: a reload tries it at once */
			board_event(b,
				    (struct honed_event){
					.kind = HE_CONF, .conf = &b->conf, .nmodels = 1, .model = b->file});
		board_run(b, i == 1 ? NS_PER_S : 41 * NS_PER_S);
		CHECK(board_says(b, "commit") && !board_says(b, "start"));
		if (i == 1) {
			board_stored(b, 2);
			board_run(b, LONG_SETTLED);
			REQUIRE(board_says(b, "start 2"));
			board_started(b, 2);
		}
	}
	/* It is still full: nothing more can be done now, and nobody waits for that, but nothing is ready. */
	board_event(b, (struct honed_event){
			   .kind = HE_STORED, .ticket = 4, .rc = E_IO, .text = "no space left on device"});
	CHECK(strstr(board_status(b), "\"ready\":false,\"before_ms\""));
	board_connect(b, 7, 0);
	board_ask(b, 7, "{\"op\":\"wait\",\"id\":77,\"for\":\"ready\"}");
	CHECK(board_says(b, "send 7 {\"id\":77,\"ok\":true"));
	board_free(b);
}

/* Its kernels are in memory only: neither the marks nor the status may say that it has them. */
TEST(a_model_is_not_served_by_what_full_flash_did_not_take)
{
	struct board *b = tuning(1);
	board_ask(b, 1001, "{\"op\":\"commit\",\"id\":5}");
	board_event(b, (struct honed_event){
			   .kind = HE_STORED, .ticket = 1, .rc = E_IO, .text = "no space left on device"});
	board_done(b, 1, 6, 5, 0, 0);
	CHECK(!b->marks.n || !b->marks.model[0].boxed);
	CHECK(strstr(board_status(b), "\"verdict\":\"waits to tune: no space left on device\""));
	board_run(b, 61 * NS_PER_S);
	board_stored(b, 2);
	board_run(b, LONG_SETTLED);
	CHECK(board_says(b, "start 2"));
	board_started(b, 2);
	board_done(b, 2, 6, 5, 0, 0);
	CHECK(b->marks.n == 1 && b->marks.model[0].boxed);
	board_free(b);
}

TEST(a_day_has_so_many_writes)
{
	struct board *b = tuning(1);
	board_ask(b, 1001, "{\"op\":\"commit\",\"id\":5}");
	board_event(b, (struct honed_event){.kind = HE_STORED, .ticket = 1, .written_bytes = 21 << 20});
	board_done(b, 1, 6, 5, 0, 0.5);
	board_read(b);
	CHECK(strstr(board_status(b), "within 24 hours"));
	CHECK(board_run(b, 23 * 3600 * NS_PER_S) <= 4);
	CHECK(!board_says(b, "start"));
	board_run(b, 3600 * NS_PER_S);
	CHECK(board_says(b, "start 2"));
	board_free(b);
}

TEST(exhausted_until_the_file_changes)
{
	struct board *b = tuning(2);
	board_done(b, 1, 6, 5, 0, 0);
	board_started(b, 2);
	board_done(b, 2, 6, 5, 0, 0);
	CHECK(honed_wakeup(b->h) < INT64_MAX); /* for the last line and the metrics */
	board_run(b, 60 * NS_PER_S);
	CHECK(honed_wakeup(b->h) == INT64_MAX);
	CHECK(b->marks.n == 2 && b->marks.model[0].boxed && b->marks.model[1].promise == 0);
	board_read(b);
	b->file[1].key.lo = 77;
	board_event(b, (struct honed_event){.kind = HE_MODELS, .nmodels = 2, .model = b->file});
	board_run(b, LONG_SETTLED);
	CHECK(board_says(b, "start 3 b"));
	board_free(b);
}

TEST(marks_of_an_earlier_boot_are_believed)
{
	struct board *b = board_new(HONED_RESIDENT, 2);
	b->o.marks.n = 1;
	b->o.marks.model[0] = (struct mark_of){.model = b->file[0].key, .boxed = true, .promise = 0};
	board_start(b);
	board_run(b, LONG_SETTLED);
	CHECK(board_says(b, "start 1 b"));
	board_free(b);
}

/* The times of a model outlive a restart of honed, but not a change of its file. */
TEST(times_outlive_a_restart)
{
	struct board *b = tuning(1);
	board_done(b, 1, 6, 5, 0, 0.4);
	struct marks marks = b->marks;
	CHECK(marks.n == 1 && marks.model[0].before_ms == 6 && marks.model[0].now_ms == 5);
	board_free(b);
	for (int changed = 0; changed < 2; changed++) {
		b = board_new(HONED_RESIDENT, 1);
		b->o.marks = marks;
		b->file[0].key.lo += (uint64_t)changed;
		board_start(b);
		CHECK((strstr(board_status(b), "\"before_ms\":6,") == NULL) == (changed == 1));
		CHECK((strstr(board_status(b), "\"now_ms\":5,\"now_rough\":false") == NULL) ==
		      (changed == 1));
		board_run(b, LONG_SETTLED);
		board_started(b, 1);
		board_done(b, 1, 10, 4, 0, 0.4);
		CHECK(strstr(board_status(b), changed ? "\"before_ms\":10," : "\"before_ms\":6,"));
		CHECK(strstr(board_status(b), changed ? "\"now_ms\":4," : "\"now_ms\":2,"));
		board_free(b);
	}
}

static void before_and_now(struct board *b, double *before, double *now)
{
	const char *p = strstr(board_status(b), "\"before_ms\":"), *q = p ? strstr(p, "\"now_ms\":") : NULL;
	*before = q ? atof(p + strlen("\"before_ms\":")) : NAN;
	*now = q ? atof(q + strlen("\"now_ms\":")) : NAN;
}

/* A honed takes over the marks of one that is no more. */
static void restart(struct board **b)
{
	struct marks marks = (*b)->nmarks ? (*b)->marks : (*b)->o.marks;
	board_free(*b);
	*b = board_new(HONED_RESIDENT, 1);
	(*b)->o.marks = marks;
	board_start(*b);
}

/* The job puts a kernel's record and has it committed. */
static void put_and_commit(struct board *b, int job)
{
	board_read(b);
	board_put_rec(b, 1000 + job);
	board_ask(b, 1000 + job, "{\"op\":\"commit\",\"id\":2}");
	const char *line = board_says(b, "commit ");
	CHECK(line);
	if (line)
		board_stored(b, atoll(line + strlen("commit ")));
}

static void shorter_of_others(double *first, double *gain, double now)
{
	*first = fmin(*first, 100 * now);
	*gain = *first / now;
}

/* The machine is faster or slower in each slice by any factor, slices are disturbed, cut short or lose
 * something, and honed starts anew: the time before is the first that was measured, which may be wrong by any
 * factor, until a slice is undisturbed, whose time of the same kernels replaces it, once; until then each
 * shorter time of the same kernels replaces it (after a gain that no slice measured, such a time is that of
 * other kernels: it is now, and the gain a hundred at most); now is the time before divided by what the slices gained, and
 * rough says that some of this is not certain. The gain is the product of the factors that slices measured
 * within themselves, and nothing else changes it: not the times of other slices, nor a slice that kept
 * nothing, whatever its noise, nor a loss that a disturbed slice seems to have. A disturbed slice's factor
 * makes now no shorter than a third of the time that it measured at its end. Once a factor of the gain is
 * doubtful, it stays doubtful. A honed that is killed forgets nothing of this, but measures a first time again
 * if the gain is doubtful; if it or the job dies after a commit of a kernel's record, rough says so. */
TEST(before_now_and_gain_agree)
{
	struct rng r;
	rng_seed(&r, 24);
	for (int round = 0; round < 200; round++) {
		struct board *b = tuning(1);
		double gain = 1, first = 0, before, now;
		bool rough = false, sure = false, lost = false;
		for (int i = 0, job = 1, n = 1 + (int)rng_below(&r, 7); i < n; i++, job++) {
			double found = 10 / gain * (0.5 + rng_unit(&r) * 3), won = 0.7 + rng_unit(&r) * 1.3;
			bool cut = rng_below(&r, 4) == 0, disturbed = rng_below(&r, 3) == 0;
			bool kept = rng_below(&r, 3) > 0, alone = disturbed && rng_below(&r, 3) == 0;
			won *= alone ? 20 : 1; /* the time before was disturbed alone */
			double after = cut ? 0 : kept ? found / won : found * (0.8 + rng_unit(&r) * 0.4);
			double told = found * exp2(rng_unit(&r) * 16); /* at the slice's start */
			char line[300], next[32];
			if (i)
				board_started(b, job);
			snprintf(line, sizeof line, "{\"op\":\"progress\",\"net_ms\":%.17g}", told);
			board_ask(b, 1000 + job, line);
			if (i && lost && !sure && told < first / gain)
				shorter_of_others(&first, &gain, told);
			else
				first = !i || (!sure && told < first / gain) ? told * gain : first;
			before_and_now(b, &before, &now);
			CHECK(fabs(before / first - 1) < 1e-4 && fabs(before / now / gain - 1) < 1e-4);
			bool puts = rng_below(&r, 2), dies = rng_below(&r, 6) == 0;
			bool killed = rng_below(&r, 4) == 0, early = killed && rng_below(&r, 2);
			if (puts)
				put_and_commit(b, job);
			snprintf(line, sizeof line,
				 "{\"op\":\"done\",\"trials\":9,\"before_ms\":%.17g,\"after_ms\":%.17g,"
				 "\"kept\":%d,\"disturbed\":%s,\"promise\":0.4}",
				 found, after, kept, disturbed ? "true" : "false");
			if (early || dies) {
				rough |= puts;
				lost |= puts;
			} else {
				board_ask(b, 1000 + job, line);
				if (lost && !sure && found < first / gain)
					shorter_of_others(&first, &gain, found);
				else if (!sure && found < first / gain)
					first = found * gain;
				bool clear = !cut && !disturbed;
				double most = fmax(gain, 3 * first / after);
				gain *= kept && !cut && !(disturbed && won < 1) ? won : 1;
				if (kept && !cut && disturbed)
					gain = fmin(gain, most);
				if (kept && !cut && !(disturbed && won < 1) && !sure && gain > 100) {
					first *= 100 / gain;
					gain = 100;
				}
				first = !sure && clear ? after * gain : first;
				sure |= clear;
				rough |= kept && !clear;
				lost |= kept && cut;
			}
			if (early) {
				restart(&b);
				sure &= !rough;
				lost = rough;
				job = 0;
			} else if (dies) {
				board_ended(b, job, E_CHILD, "killed by signal 11 (Segmentation fault)");
			}
			before_and_now(b, &before, &now);
			bool said = strstr(board_status(b), "\"now_rough\":true") != NULL;
			if (fabs(before / first - 1) > 1e-4 || fabs(before / now / gain - 1) > 1e-4 ||
			    said != (rough || !sure)) {
				printf("round %d, slice %d: %g (first %g) -> %g, gain %g, rough %d\n", round, i,
				       before, first, now, gain, said);
				test_bad = 1;
			}
			if (job && !dies)
				board_ended(b, job, 0, NULL);
			if (killed && job) {
				restart(&b);
				sure &= !rough;
				lost = rough;
				job = 0;
			} else if (job && rng_below(&r, 4) == 0) {
				board_event(b, (struct honed_event){.kind = HE_STOP});
				board_run(b, 60 * NS_PER_S);
				restart(&b);
				sure &= !rough;
				lost = rough;
				job = 0;
			}
			snprintf(next, sizeof next, "start %d ", job + 1);
			for (int s = 0; s < 100000 && !board_says(b, next); s++)
				board_run(b, NS_PER_S);
			board_read(b);
		}
		board_free(b);
	}
}

/* A device whose first kernels are slower than the processor's: the status tells the loss, also of disturbed
 * slices, and that the processor alone is faster; a later disturbed slice that seems to lose tells nothing. */
TEST(a_device_that_loses_is_told)
{
	struct rng r;
	rng_seed(&r, 5);
	for (int round = 0; round < 20; round++) {
		struct board *b = board_new(HONED_RESIDENT, 1);
		double before, now, factor = 0.3 + rng_unit(&r) * 20;
		bool disturbed = rng_below(&r, 2);
		char line[200];
		b->model[0].device = "opencl:0";
		board_start(b);
		board_run(b, 15 * NS_PER_S);
		board_started(b, 1);
		snprintf(line, sizeof line,
			 "{\"op\":\"done\",\"trials\":9,\"before_ms\":0.05,\"after_ms\":%.17g,\"kept\":3,"
			 "\"disturbed\":%s,\"promise\":0.4}",
			 0.05 * factor, disturbed ? "true" : "false");
		board_read(b);
		board_ask(b, 1001, line);
		before_and_now(b, &before, &now);
		bool wins = factor > 1 / 0.9;
		CHECK(fabs(before / 0.05 - 1) < 1e-4 && fabs(now / before / factor - 1) < 1e-4);
		CHECK((strstr(board_status(b), "\"note\":\"the processor alone runs it faster, in 0.05 ms") !=
		       NULL) == wins);
		CHECK((board_says(b, "; the processor alone runs it faster, in 0.05 ms") != NULL) == wins);
		board_ended(b, 1, 0, NULL);
		board_run(b, 20 * NS_PER_S);
		board_started(b, 2);
		board_ask(b, 1002,
			  "{\"op\":\"done\",\"trials\":9,\"before_ms\":1,\"after_ms\":3,\"kept\":1,"
			  "\"disturbed\":true,\"promise\":0.4}");
		double then = now;
		before_and_now(b, &before, &now);
		CHECK(now == then);
		board_free(b);
	}
}

/* A cluster of the processor is no such device: its first kernels replace the processor's own, so a disturbed
 * slice that seems to lose tells nothing. */
TEST(a_cluster_loses_nothing_by_a_disturbed_slice)
{
	struct board *b = tuning_on("cpu:cortex-a55");
	double before, now;
	board_ask(b, 1001,
		  "{\"op\":\"done\",\"trials\":9,\"before_ms\":0.05,\"after_ms\":0.5,\"kept\":3,"
		  "\"disturbed\":true,\"promise\":0.4}");
	before_and_now(b, &before, &now);
	CHECK(before == now && now == 0.05);
	board_free(b);
}

/* A first time that was wrong by five orders, from a few runs on a busy machine, does not stay, whatever the
 * first slices tell. */
TEST(a_wrong_first_time_does_not_stay)
{
	struct rng r;
	rng_seed(&r, 11);
	for (int round = 0; round < 30; round++) {
		struct board *b = round % 2 ? tuning_on("cpu:cortex-a55") : tuning(1);
		double before, now, right = 0.009, found = 693;
		for (int i = 1, n = 2 + (int)rng_below(&r, 4); i <= n; i++) {
			bool last = i == n, cut = !last && rng_below(&r, 2), kept = rng_below(&r, 2);
			char line[300], next[32];
			if (i > 1)
				board_started(b, i);
			snprintf(line, sizeof line, "{\"op\":\"progress\",\"net_ms\":%.17g}", found);
			board_ask(b, 1000 + i, line);
			snprintf(line, sizeof line,
				 "{\"op\":\"done\",\"trials\":9,\"before_ms\":%.17g,\"after_ms\":%.17g,"
				 "\"kept\":%d,\"disturbed\":%s,\"promise\":0.4}",
				 found, cut ? 0 : right, kept, last ? "false" : "true");
			board_ask(b, 1000 + i, line);
			board_ended(b, i, 0, NULL);
			found = right;
			snprintf(next, sizeof next, "start %d ", i + 1);
			for (int s = 0; s < 100000 && !board_says(b, next); s++)
				board_run(b, NS_PER_S);
			board_read(b);
		}
		before_and_now(b, &before, &now);
		CHECK(fabs(now / right - 1) < 1e-4 && before < 101 * right);
		board_free(b);
	}
}

/* Times that no network has, and gains that would leave such times, change nothing. */
TEST(senseless_times_change_nothing)
{
	static const double times[][2] = {{1e-300, 1}, {1, 1e-300}, {1e300, 1}, {1, 1e300}, {1e300, 1e-300}};
	struct board *b = tuning(1);
	board_done(b, 1, 6, 5, 0, 0.4);
	for (int i = 0; i < (int)(sizeof times / sizeof *times); i++) {
		board_started(b, i + 2);
		board_done(b, i + 2, times[i][0], times[i][1], 0, 0.4);
		CHECK(strstr(board_status(b), "\"before_ms\":6,") && strstr(board_status(b), "\"now_ms\":5,"));
	}
	board_free(b);
}

/* honed's log says in words that a job did not measure the network, or that others disturbed its measurement,
 * and leaves out a promise that is not known. */
TEST(the_log_says_what_was_not_measured)
{
	struct board *b = tuning(1);
	board_ask(b, 1001, "{\"op\":\"done\",\"trials\":10,\"before_ms\":6,\"after_ms\":5,\"promise\":0.25}");
	CHECK(board_says(b, ": this box 6.000 -> 5.000 ms, 10 candidates tried; another box may save 25.0 % of its time"));
	board_free(b);
	b = tuning(1);
	board_ask(
	    b, 1001,
	    "{\"op\":\"done\",\"trials\":1,\"before_ms\":6,\"after_ms\":5,\"missing\":2,\"promise\":0.25}");
	CHECK(board_says(b, "1 candidate tried; 2 kernels not made yet; another box may save 25.0 %"));
	board_free(b);
	b = tuning(1);
	board_ask(b, 1001,
		  "{\"op\":\"done\",\"trials\":10,\"before_ms\":6,\"after_ms\":7,\"disturbed\":true}");
	CHECK(board_says(b, ": this box 6.000 -> 7.000 ms (disturbed by other load or a lower clock), 10 candidates tried"));
	board_free(b);
	b = tuning(1);
	board_ask(b, 1001, "{\"op\":\"done\",\"trials\":1,\"before_ms\":0.834}");
	const char *line = board_says(b, ": this box began with 0.834 ms and did not measure the network again, 1 candidate tried");
	CHECK(line && !strstr(line, "another box"));
	board_free(b);
	b = tuning(1);
	board_ask(b, 1001, "{\"op\":\"done\",\"trials\":0}");
	CHECK(board_says(b, ": the network was not measured, 0 candidates tried"));
	board_free(b);
}

/* A model that promises no more gain may still lack kernels: it is tried again now and then, and never
 * reported as complete. */
TEST(kernels_that_are_missing_are_not_forgotten)
{
	struct board *b = tuning(1);
	board_done(b, 1, 6, 5, 2, 0);
	board_started(b, 2);
	CHECK(!strstr(board_status(b), "exhausted"));
	board_done(b, 2, 5, 5, 2, 0);
	CHECK(strstr(board_status(b), "\"state\":\"waiting\"") && strstr(board_status(b), "2 kernels"));
	CHECK(!strstr(board_status(b), "exhausted") && b->marks.model[0].missing == 2);
	struct marks marks = b->marks;
	CHECK(honed_wakeup(b->h) < INT64_MAX);
	board_free(b);
	/* after the next boot: no box for it, and it is not reported as complete */
	for (int box = 0; box < 2; box++) {
		b = board_new(box ? HONED_BOX : HONED_RESIDENT, 1);
		b->o.marks = marks;
		board_start(b);
		CHECK(!strstr(board_status(b), "exhausted"));
		CHECK(!box || (board_says(b, "could be made") && !board_says(b, "start 1")));
		board_run(b, LONG_SETTLED);
		CHECK(box || board_says(b, "start 1"));
		board_free(b);
	}
}

TEST(a_result_of_the_old_file_says_nothing_of_the_new)
{
	struct board *b = tuning(1);
	b->file[0].key.lo = 77;
	board_event(b, (struct honed_event){.kind = HE_MODELS, .nmodels = 1, .model = b->file});
	CHECK(board_says(b, "\"event\":\"stop\""));
	board_done(b, 1, 6, 5, 0, 0);
	board_run(b, NS_PER_S);
	CHECK(board_says(b, "start 2 a"));
	board_free(b);
}

/* While the gate is closed no job can find out that a file cannot be used; what the examination at the start
 * found is shown, until a job knows better, or there is another file. */
TEST(an_unusable_file_is_told_of_while_the_gate_is_closed)
{
	for (int k = 0; k < 3; k++) { /* a job serves it; a job fails; another file */
		struct board *b = board_new(HONED_RESIDENT, 1);
		const struct honed_model other = {.key = {7, 8}};
		board_start(b);
		board_connect(b, 1, 0);
		board_ask(b, 1, "{\"op\":\"inhibit\",\"id\":1,\"why\":\"test\"}");
		board_event(
		    b, (struct honed_event){.kind = HE_FAULT, .model = &other, .text = "of another file"});
		CHECK(strstr(board_status(b), "\"state\":\"waiting\"") &&
		      !strstr(board_status(b), "another file"));
		board_event(
		    b, (struct honed_event){.kind = HE_FAULT, .model = b->file, .text = "no operator Fly"});
		CHECK(strstr(board_status(b), "\"state\":\"failed\"") &&
		      strstr(board_status(b), "\"error\":\"no operator Fly\""));
		CHECK(strstr(board_status(b), "\"lasting\":false") &&
		      strstr(board_status(b), "\"ready\":false"));
		if (k == 2) {
			b->file[0].key.lo++;
			board_event(b,
				    (struct honed_event){.kind = HE_MODELS, .nmodels = 1, .model = b->file});
		} else {
			board_ask(b, 1, "{\"op\":\"resume\",\"id\":2}");
			board_run(b, 20 * NS_PER_S);
			CHECK(board_says(b, "start 1 ")); /* it is tried all the same */
			board_started(b, 1);
			if (k == 0)
				board_done(b, 1, 6, 5, 0, 0.5);
			else
				board_ended(b, 1, E_CHILD, "no luck");
		}
		CHECK(!strstr(board_status(b), "no operator Fly"));
		CHECK(!strstr(board_status(b), "\"state\":\"failed\"") == (k != 1));
		board_free(b);
	}
}

TEST(a_refused_file_is_told_of_and_left_alone)
{
	struct board *b = board_new(HONED_RESIDENT, 1);
	b->file[0].refused = "/m/a: no such file";
	board_start(b);
	board_run(b, 60 * NS_PER_S);
	CHECK(!board_says(b, "start"));
	CHECK(strstr(board_status(b), "\"state\":\"refused\"") && strstr(board_status(b), "no such file"));
	CHECK(!strstr(board_status(b), "\"ready\":true"));
	board_free(b);
}

static double metric(struct board *b, const char *name)
{
	struct buf m = {0};
	honed_metrics(b->h, b->now_ns, &m);
	const char *at = strstr(buf_str(&m), name);
	double v = at ? atof(at + strlen(name)) : NAN;
	buf_free(&m);
	return v;
}

/* A recipe comes while models pause because their jobs failed: the model of level int8 that needs this recipe
 * has the next slice. The others wait on: they need another recipe, or did not say which, or have another
 * level. */
TEST(a_recipe_ends_the_pause_of_its_model)
{
	static const enum level level[] = {LEVEL_INT8, LEVEL_INT8, LEVEL_INT8, LEVEL_FP32};
	for (int of = 1; of <= 4; of++) { /* the recipe's key; each model but c says its own */
		struct board *b = board_new(HONED_RESIDENT, 4);
		for (int i = 0; i < 4; i++)
			b->model[i].level = level[i];
		board_start(b);
		board_run(b, LONG_SETTLED);
		for (int job = 1; job <= 4; job++) {
			char said[96];
			board_started(b, job);
			snprintf(said, sizeof said, "{\"op\":\"progress\",\"key\":\"%032d\"}", job);
			if (job != 3)
				board_ask(b, 1000 + job, said);
			board_ended(b, job, E_NOTFOUND, "level int8 needs examples of inputs");
			board_run(b, 100 * NS_PER_MS);
		}
		CHECK(board_says(b, "start 4 d"));
		board_read(b);
		/* Another's job may tune the model with other shapes, and then needs another recipe. */
		board_connect(b, 7, 900);
		board_ask(b, 7, "{\"op\":\"job\",\"id\":1,\"model\":\"/m/b\",\"pid\":77}");
		board_ask(b, 7, "{\"op\":\"progress\",\"key\":\"00000000000000000000000000000001\"}");
		struct key k;
		char text[33];
		snprintf(text, sizeof text, "%032d", of);
		REQUIRE_OK(key_parse(text, &k));
		board_put(b, 7, CACHE_RECIPE, k, "hone-recipe 2");
		board_event(b, (struct honed_event){.kind = HE_GONE, .client = 7});
		board_run(b, 100 * NS_PER_MS);
		CHECK((board_says(b, "start 6 a") != NULL) == (of == 1));
		CHECK((board_says(b, "start 6 b") != NULL) == (of == 2));
		CHECK((board_says(b, "start ") != NULL) == (of <= 2));
		board_free(b);
	}
}

/* A model that had its kernels before honed started gets a slice: no slice has said which recipe it needs. */
TEST(a_recipe_gives_a_served_model_a_slice)
{
	for (int of = 1; of <= 2; of++) {
		for (int told = 0; told < 2; told++) {
			struct board *b = board_new(HONED_RESIDENT, 1);
			b->model[0].level = LEVEL_INT8;
			board_start(b);
			board_run(b, LONG_SETTLED);
			board_started(b, 1);
			if (told)
				board_ask(b, 1001,
					  "{\"op\":\"progress\",\"key\":\"00000000000000000000000000000001\"}");
			board_done(b, 1, 5, 4, 0, 0);
			board_run(b, LONG_SETTLED);
			board_read(b);
			board_connect(b, 7, 900);
			board_ask(b, 7, "{\"op\":\"job\",\"id\":1,\"model\":\"/m/other\",\"pid\":77}");
			struct key k;
			REQUIRE_OK(key_parse(of == 1 ? "00000000000000000000000000000001" :
						       "00000000000000000000000000000002", &k));
			board_put(b, 7, CACHE_RECIPE, k, "hone-recipe 2");
			board_event(b, (struct honed_event){.kind = HE_GONE, .client = 7});
			board_run(b, LONG_SETTLED);
			CHECK((board_says(b, "start 3 a") != NULL) == (of == 1 || !told));
			board_free(b);
		}
	}
}

/* A model that was refused, or failed without ever having been served, ends the wait of clients but is not
 * ready: in the status, in the metrics, and as honed says hello. A later failure leaves a model ready. */
TEST(a_job_without_a_result_says_why)
{
	static const char *const why[] = {"its connection with honed ended before it had a result",
					  "it ended with status 0, but told honed no result", "no space left"};
	for (int k = 0; k < 3; k++) {
		struct board *b = tuning(1);
		if (k != 1)
			board_event(b, (struct honed_event){.kind = HE_GONE, .client = 1001});
		board_event(b, (struct honed_event){.kind = HE_ENDED,
						    .job = 1,
						    .text = k == 2   ? "no space left"
							    : k == 1 ? ""
								     : NULL});
		CHECK(board_says(b, why[k]) && strstr(board_status(b), why[k]));
		board_free(b);
	}
	/* A slice that measured nothing is no failure: it says why, and the model is tried again after a short
	 * pause, which doubles. */
	struct board *s = tuning(1);
	board_ask(s, 1001, "{\"op\":\"done\",\"missing\":3,\"why\":\"100 measurements in a row were disturbed: heat\"}");
	board_event(s, (struct honed_event){.kind = HE_ENDED, .job = 1});
	CHECK(board_says(s, "0 candidates tried; nothing was tried: "
			    "100 measurements in a row were disturbed: heat"));
	CHECK(strstr(board_status(s), "\"error\":\"nothing was tried: 100 measurements") &&
	      strstr(board_status(s), "\"state\":\"waiting\""));
	CHECK(strstr(board_status(s), "\"verdict\":\"model a: nothing was tried: 100 measurements in a row were "
				      "disturbed: heat; honed tries again later\""));
	board_read(s);
	board_run(s, 5 * NS_PER_S);
	CHECK(!board_says(s, "start"));
	board_run(s, 6 * NS_PER_S + LONG_SETTLED);
	CHECK(board_says(s, "start 2"));
	board_started(s, 2);
	board_ask(s, 1002, "{\"op\":\"done\",\"missing\":3}");
	board_event(s, (struct honed_event){.kind = HE_ENDED, .job = 2});
	board_read(s);
	board_run(s, 15 * NS_PER_S);
	CHECK(!board_says(s, "start"));
	board_run(s, 6 * NS_PER_S + LONG_SETTLED);
	CHECK(board_says(s, "start 3"));
	board_started(s, 3);
	board_done(s, 3, 6, 5, 0, 0.4);
	CHECK(strstr(board_status(s), "\"error\":null"));
	board_free(s);
	/* The status has only that it did not end in time; the log has its own error, too. */
	struct board *o = tuning(1);
	board_run(o, 20 * NS_PER_S);
	board_ask(o, 1001, "{\"op\":\"progress\",\"trials\":1}"); /* it does not hang */
	for (int k = 0; k < 30 && !board_says(o, "stop"); k++)
		board_run(o, NS_PER_S);
	CHECK(board_says(o, "\"event\":\"stop\""));
	board_event(o, (struct honed_event){.kind = HE_ENDED, .job = 1, .rc = E_IO, .text = "no space left"});
	CHECK(board_says(o, "job 1: a: no space left") &&
	      board_says(o, "model a: it did not stop at the end of its budget"));
	CHECK(strstr(board_status(o), "\"error\":\"it did not stop at the end of its budget\""));
	board_free(o);
	/* Its budget ended while it sent a record: that is no failure, and it gets another slice. */
	struct board *c = tuning(1);
	board_run(c, 20 * NS_PER_S);
	board_ask(c, 1001, "{\"op\":\"progress\",\"trials\":1}");
	board_run(c, 9 * NS_PER_S);
	board_event(c, (struct honed_event){.kind = HE_ENDED, .job = 1});
	CHECK(board_says(c, "a: its budget ended before it could tell its result"));
	CHECK(strstr(board_status(c), "\"error\":null") && !board_says(c, "tries again"));
	board_free(c);
	struct board *b = tuning(1); /* an error that did not keep it from a result is none */
	board_ask(b, 1001, "{\"op\":\"done\",\"trials\":1,\"before_ms\":6,\"after_ms\":5}");
	board_event(b, (struct honed_event){.kind = HE_ENDED, .job = 1, .text = "no space left"});
	CHECK(strstr(board_status(b), "\"error\":null"));
	board_free(b);
}

/* A failure of the model itself is not tried again before its file has changed, or honed.conf was read: no
 * timer runs for it, a wait ends, and the status says so. */
TEST(a_lasting_failure_waits_for_another_file)
{
	static const char bad[] = "m.onnx is damaged; copy it again";
	for (int k = 0; k < 4; k++) { /* what comes then: another file; the configuration; the same file; nothing */
		struct board *b = tuning(1);
		board_connect(b, 7, 0);
		board_ask(b, 7, "{\"op\":\"wait\",\"id\":77,\"for\":\"ready\"}");
		board_ask(b, 1001, "{\"op\":\"done\",\"lasting\":true}");
		CHECK(!board_says(b, "send 7 {\"id\":77"));
		board_ended(b, 1, E_CHILD, bad);
		CHECK(board_says(b, "send 7 {\"id\":77,\"ok\":true"));
		CHECK(board_says(b, "m.onnx is damaged; copy it again; honed tries again when the file has "
				    "changed, or after systemctl reload honed"));
		board_read(b);
		board_run(b, 48 * 3600 * NS_PER_S);
		CHECK(!board_says(b, "start") && honed_wakeup(b->h) == INT64_MAX);
		const char *s = board_status(b);
		CHECK(strstr(s, "\"state\":\"failing\"") && strstr(s, "\"state\":\"failed\",\"ready\":false") &&
		      strstr(s, bad) && strstr(s, "\"lasting\":true") && strstr(s, "\"next_s\":null"));
		if (k == 0)
			b->file[0].key.lo++;
		if (k == 1)
			board_event(b, (struct honed_event){
					   .kind = HE_CONF, .conf = &b->conf, .nmodels = 1, .model = b->file});
		else if (k < 3)
			board_event(b, (struct honed_event){.kind = HE_MODELS, .nmodels = 1, .model = b->file});
		board_run(b, 20 * NS_PER_S);
		CHECK(!board_says(b, "start 2 a") == (k > 1));
		CHECK(!strstr(board_status(b), "\"lasting\":false") == (k > 1));
		board_free(b);
	}
}

/* A model that was imported may lack its recipe: after the longest pause, its job is started again; at once
 * if the recipe comes, or honed.conf was read. A wait ends. */
TEST(a_missing_recipe_is_tried_seldom)
{
	for (int k = 0; k < 3; k++) { /* what comes: nothing; the recipe; the configuration */
		struct board *b = board_new(HONED_RESIDENT, 1);
		struct key recipe;
		REQUIRE_OK(key_parse("00000000000000000000000000000001", &recipe));
		b->model[0].level = LEVEL_INT8;
		board_start(b);
		board_run(b, LONG_SETTLED);
		board_started(b, 1);
		board_connect(b, 7, 0);
		board_ask(b, 7, "{\"op\":\"wait\",\"id\":77,\"for\":\"ready\"}");
		board_ask(b, 1001, "{\"op\":\"progress\",\"key\":\"00000000000000000000000000000001\"}");
		board_ask(b, 1001, "{\"op\":\"done\",\"lasting\":true}");
		board_ended(b, 1, E_NOTFOUND, "level int8 needs examples of inputs");
		CHECK(board_says(b, "send 7 {\"id\":77,\"ok\":true"));
		CHECK(board_says(b, "honed tries again in 3600 s"));
		board_read(b);
		board_run(b, 1800 * NS_PER_S);
		CHECK(!board_says(b, "start "));
		board_connect(b, 8, 900);
		board_ask(b, 8, "{\"op\":\"job\",\"id\":1,\"model\":\"/m/b\",\"pid\":77}");
		if (k == 1)
			board_put(b, 8, CACHE_RECIPE, recipe, "hone-recipe 2");
		board_event(b, (struct honed_event){.kind = HE_GONE, .client = 8});
		if (k == 2)
			board_event(b,
				    (struct honed_event){
					.kind = HE_CONF, .conf = &b->conf, .nmodels = 1, .model = b->file});
		board_run(b, 60 * NS_PER_S);
		CHECK(!board_says(b, "start ") == (k == 0));
		board_run(b, 1800 * NS_PER_S);
		CHECK(board_says(b, "start "));
		board_free(b);
	}
}

/* A job speaks of the file that it was started for, not of one that came meanwhile. */
TEST(a_lasting_failure_of_a_former_file_is_none)
{
	struct board *b = tuning(1);
	board_ask(b, 1001, "{\"op\":\"done\",\"lasting\":true}");
	b->file[0].key.lo++;
	board_event(b, (struct honed_event){.kind = HE_MODELS, .nmodels = 1, .model = b->file});
	board_ended(b, 1, E_CHILD, "m.onnx is damaged");
	CHECK(strstr(board_status(b), "\"lasting\":false"));
	board_run(b, 20 * NS_PER_S);
	CHECK(board_says(b, "start 2 a"));
	board_free(b);
}

/* In a box the time is for the other models. */
TEST(a_box_spends_nothing_on_a_lasting_failure)
{
	struct board *b = board_new(HONED_BOX, 2);
	board_start(b);
	board_ask(b, board_started(b, 1), "{\"op\":\"done\",\"lasting\":true}");
	board_ended(b, 1, E_CHILD, "m.onnx is damaged");
	CHECK(board_says(b, "start 2 b"));
	board_started(b, 2);
	board_run(b, 12 * NS_PER_S);
	CHECK(!board_says(b, "start 3"));
	board_done(b, 2, 6, 5, 0, 0);
	CHECK(b->left || (board_run(b, NS_PER_S), b->left)); /* before its end: nothing is left to do */
	board_free(b);
}

TEST(what_failed_is_not_ready)
{
	for (int k = 0; k < 3; k++) { /* refused; failed; failed after it was served */
		struct board *b = board_new(HONED_RESIDENT, 1);
		b->file[0].refused = k == 0 ? "/m/a: no such file" : NULL;
		board_start(b);
		for (int job = 1; job <= 5 && k; job++) {
			char start[32];
			snprintf(start, sizeof start, "start %d a", job);
			for (int s = 0; s < 10000 && !board_says(b, start); s++)
				board_run(b, NS_PER_S);
			board_started(b, job);
			if (k == 2 && job == 1)
				board_done(b, job, 6, 5, 0, 0.4);
			else
				board_ended(b, job, E_CHILD, "no luck");
		}
		if (k)
			CHECK(strstr(board_status(b), "\"state\":\"failed\""));
		if (k < 2) {
			CHECK(!strstr(board_status(b), "\"ready\":true"));
			CHECK(metric(b, "\nhone_ready ") == 0);
			CHECK(metric(b, "\nhone_model_ready{model=\"a\"} ") == 0);
		} else {
			CHECK(!strstr(board_status(b), "\"ready\":false"));
			CHECK(metric(b, "\nhone_ready ") == 1);
			CHECK(metric(b, "\nhone_model_ready{model=\"a\"} ") == 1);
		}
		board_connect(b, 7, 0);
		board_read(b);
		board_ask(b, 7, "{\"op\":\"wait\",\"id\":77,\"for\":\"ready\"}");
		CHECK(board_says(b, "send 7 {\"id\":77,\"ok\":true"));
		board_free(b);
	}
}

TEST(several_jobs_at_once_share_leases)
{
	struct board *b = tuning_jobs(3, 3);
	board_ask(b, 1001, "{\"op\":\"lease\",\"id\":11,\"kind\":\"compute\"}");
	board_ask(b, 1002, "{\"op\":\"lease\",\"id\":12,\"kind\":\"measure\"}");
	board_ask(b, 1003, "{\"op\":\"lease\",\"id\":13,\"kind\":\"compute\"}");
	CHECK(board_says(b, "\"id\":11") && !board_says(b, "\"id\":12") && !board_says(b, "\"id\":13"));
	board_ask(b, 1001, "{\"op\":\"release\",\"id\":14}");
	CHECK(board_says(b, "\"id\":12") && !board_says(b, "\"id\":13"));
	board_ask(b, 1001, "{\"op\":\"lease\",\"id\":15,\"kind\":\"quiet\"}");
	board_run(b, 400 * NS_PER_MS);
	board_ask(b, 1002, "{\"op\":\"release\",\"id\":16}");
	CHECK(board_says(b, "\"id\":13") && !board_says(b, "\"id\":15")); /* it has waited for long */
	board_ended(b, 3, E_CHILD, "signal 11");
	CHECK(board_says(b, "\"id\":15")); /* the dead job's lease is free */
	board_free(b);
}

TEST(a_wait_that_was_given_up_is_not_granted)
{
	struct board *b = tuning_jobs(2, 2);
	board_ask(b, 1001, "{\"op\":\"lease\",\"id\":1,\"kind\":\"quiet\"}");
	board_ask(b, 1002, "{\"op\":\"lease\",\"id\":2,\"kind\":\"compute\"}");
	board_ask(b, 1002, "{\"op\":\"release\",\"id\":3}");
	CHECK(board_says(b, "{\"id\":2,\"ok\":false,\"code\":\"timeout\""));
	CHECK(board_says(b, "{\"id\":3,\"ok\":true,\"tainted\":false"));
	board_ask(b, 1001, "{\"op\":\"release\",\"id\":4}");
	board_ask(b, 1001, "{\"op\":\"lease\",\"id\":5,\"kind\":\"quiet\"}");
	CHECK(board_says(b, "{\"id\":5,\"ok\":true"));
	board_free(b);
}

TEST(stops_with_everything_saved)
{
	struct board *b = tuning(1);
	board_put_rec(b, 1001);
	board_event(b, (struct honed_event){.kind = HE_STOP});
	CHECK(board_says(b, "\"event\":\"stop\"") && !b->left);
	board_done(b, 1, 6, 5, 0, 0.2);
	CHECK(board_says(b, "commit 1") && !b->left);
	board_stored(b, 1);
	CHECK(b->left && board_says(b, "leave 0"));
	board_free(b);
}

/* A process that honed did not start goes on alone, and is not told to stop. A box of a board ends them all.
 */
TEST(a_stop_is_for_its_own_jobs)
{
	for (int box = 0; box < 2; box++) {
		struct board *b = board_new(box ? HONED_BOX : HONED_RESIDENT, 1);
		board_start(b);
		board_event(b, (struct honed_event){
				   .kind = HE_CLIENT, .client = 7, .peer = {.pid = 70, .owner = true}});
		board_ask(b, 7, "{\"op\":\"job\",\"id\":1,\"model\":\"/m/x\",\"threads\":1,\"pid\":70}");
		CHECK(board_says(b, "{\"id\":1,\"ok\":true"));
		board_event(b, (struct honed_event){.kind = HE_STOP});
		CHECK(!board_says(b, "send 7 {\"event\":\"stop\"}") == !box);
		board_free(b);
	}
}

TEST(a_configuration_keeps_what_is_known_of_its_models)
{
	struct board *b = tuning(2);
	board_done(b, 1, 6, 5, 0, 0);
	struct conf next = b->conf;
	struct conf_model model[] = {b->model[1], {.name = "new", .path = "/m/new"}, b->model[0]};
	struct honed_model file[] = {b->file[1], {.key = {5, 5}}, b->file[0]};
	next.model = model;
	next.nmodels = 3;
	board_event(b, (struct honed_event){.kind = HE_CONF, .conf = &next, .nmodels = 3, .model = file});
	CHECK(strstr(board_status(b), "{\"name\":\"a\",\"path\":\"/m/a\",\"state\":\"exhausted\""));
	CHECK(strstr(board_status(b), "{\"name\":\"new\",\"path\":\"/m/new\",\"state\":\"waiting\""));
	next.nmodels = 1;
	next.model = model + 2; /* model b, whose job is just starting, is gone */
	board_read(b);
	board_event(b, (struct honed_event){.kind = HE_CONF, .conf = &next, .nmodels = 1, .model = file + 2});
	board_started(b, 2);
	CHECK(board_says(b, "signal 2 9"));
	board_ended(b, 2, E_CHILD, "signal 9");
	board_run(b, 60 * NS_PER_S);
	CHECK(!board_says(b, "start 3") && honed_wakeup(b->h) == INT64_MAX);
	board_free(b);
}

TEST(idle_switched_off_tunes_nothing)
{
	struct board *b = board_new(HONED_RESIDENT, 1);
	b->conf.idle = false;
	board_start(b);
	board_run(b, 60 * NS_PER_S);
	CHECK(!board_says(b, "start") && honed_wakeup(b->h) == INT64_MAX);
	CHECK(b->sums[HA_LOOK] == 0 && strstr(board_status(b), "\"ready\":true"));
	board_free(b);
}

TEST(metrics_are_whole)
{
	struct board *b = tuning(1);
	struct buf m = {0};
	b->model[0].name = "a\"b\\c\nd";
	board_done(b, 1, 6, 5, 0, 0.25);
	honed_metrics(b->h, b->now_ns, &m);
	CHECK(strstr(buf_str(&m), "\nhone_model_now_seconds{model=\"a\\\"b\\\\c\\nd\"} 0.005\n"));
	CHECK(strstr(buf_str(&m), "# TYPE hone_trials_total counter\nhone_trials_total 10\n"));
	CHECK(strstr(buf_str(&m), "hone_gate_reason{why=\"open\"} 1\n"));
	buf_free(&m);
	board_free(b);
}

TEST_MAIN
