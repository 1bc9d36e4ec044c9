/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/marks.h"
#include "tests/honed_board.h"

#define LONG_SETTLED (12 * NS_PER_S)

/* A resident honed whose first job runs. */
static struct board *tuning(int nmodels)
{
	struct board *b = board_new(HONED_RESIDENT, nmodels);
	board_start(b);
	board_run(b, LONG_SETTLED);
	board_started(b, b->last_job);
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
	board_ask(
	    b, 1001,
	    "{\"op\":\"put\",\"id\":1,\"type\":1,\"key\":\"00000000000000000000000000000001\",\"bytes\":5}");
	CHECK(board_says(b, "put 1 5"));
	board_ask(b, 1001, "{\"op\":\"commit\",\"id\":2}");
	CHECK(board_says(b, "commit 1"));
	CHECK(!board_says(b, "\"id\":2"));
	board_event(
	    b, (struct honed_event){.kind = HE_STORED, .ticket = 1, .generation = 9, .written_bytes = 4096});
	CHECK(board_says(b, "send 1001 {\"id\":2,\"ok\":true,\"generation\":9"));
	board_free(b);
}

TEST(box_with_nothing_to_do_leaves_at_once)
{
	struct board *b = board_new(HONED_BOX, 2);
	for (int i = 0; i < 2; i++)
		b->o.marks.model[b->o.marks.n++] = (struct mark_of){b->file[i].key, true, 0.3};
	board_start(b);
	CHECK(b->left);
	CHECK(b->nmarks == 0);
	board_free(b);
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
	CHECK(board_says(b, "status tuning a (1 of 1 models): 6.1 -> 2.9 ms, 1"));
	CHECK(!board_says(b, "\"event\":\"stop\""));
	board_run(b, start + 20 * NS_PER_S - b->now_ns);
	CHECK(board_says(b, "\"event\":\"stop\""));
	CHECK(board_says(b, "signal 1 9"));
	CHECK(!b->left);
	board_ended(b, 1, E_CHILD, "killed");
	CHECK(b->left && b->marks.unclean == 0);
	board_free(b);
}

TEST_MAIN
