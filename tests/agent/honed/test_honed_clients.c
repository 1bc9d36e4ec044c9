/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/honed/honed_parts.h"
#include "agent/cache/cache.h"
#include "tests/lib/honed_board.h"
#include <malloc.h>

#define LONG_SETTLED (12 * NS_PER_S)

static struct board *resident(int nmodels)
{
	struct board *b = board_new(HONED_RESIDENT, nmodels);
	board_start(b);
	board_connect(b, 1, 0);
	board_connect(b, 2, 1000);
	return b;
}

TEST(hello_says_who_is_there)
{
	struct board *b = resident(1);
	board_ask(b, 2, "{\"op\":\"hello\",\"id\":1,\"version\":2}");
	CHECK(board_says(b, "send 2 {\"id\":1,\"ok\":true,\"version\":2,\"honed\":\""));
	CHECK(board_says(b, "\"mode\":\"resident\",\"ready\":false"));
	board_ask(b, 2, "{\"op\":\"hello\",\"id\":2,\"version\":1}");
	CHECK(board_says(b, "{\"id\":2,\"ok\":false,\"code\":\"unsupported\""));
	board_free(b);
}

TEST(who_may_ask_for_what)
{
	static const char *const owners[] = {"{\"op\":\"tune\",\"id\":9,\"model\":\"/m/x\"}",
					     "{\"op\":\"cancel\",\"id\":9,\"job\":1}",
					     "{\"op\":\"reload\",\"id\":9}", "{\"op\":\"sync\",\"id\":9}",
					     "{\"op\":\"job\",\"id\":9,\"model\":\"/m/x\",\"pid\":1}"};
	static const char *const jobs[] = {
	    "{\"op\":\"lease\",\"id\":9,\"kind\":\"quiet\"}",
	    "{\"op\":\"release\",\"id\":9}",
	    "{\"op\":\"put\",\"id\":9,\"type\":1,\"key\":\"00000000000000000000000000000001\",\"bytes\":5}",
	    "{\"op\":\"forget\",\"id\":9,\"type\":1,\"key\":\"00000000000000000000000000000001\"}",
	    "{\"op\":\"commit\",\"id\":9}",
	    "{\"op\":\"progress\",\"id\":9}",
	    "{\"op\":\"done\",\"id\":9}"};
	struct board *b = resident(1);
	for (size_t i = 0; i < sizeof owners / sizeof *owners; i++) {
		board_read(b);
		board_ask(b, 2, owners[i]);
		CHECK(board_says(b, "send 2 {\"id\":9,\"ok\":false"));
		CHECK(!board_says(b, "start") && !board_says(b, "reload"));
	}
	for (int client = 1; client <= 2; client++)
		for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
			board_read(b);
			board_ask(b, client, jobs[i]);
			CHECK(board_says(b, "\"ok\":false"));
			CHECK(!board_says(b, "put") && !board_says(b, "forget ") &&
			      !board_says(b, "commit "));
		}
	board_free(b);
}

TEST(code_comes_from_root_and_honed_alone)
{
	struct board *b = resident(0);
	const char *code =
	    "{\"op\":\"put\",\"id\":2,\"type\":3,\"key\":\"00000000000000000000000000000001\",\"bytes\":5}";
	board_event(b, (struct honed_event){.kind = HE_CLIENT, .client = 3, .peer = {1, 1000, true}});
	for (int client = 1; client <= 3; client += 2) {
		board_read(b);
		board_ask(b, client, "{\"op\":\"job\",\"id\":1,\"model\":\"/m/x\",\"pid\":1}");
		CHECK(board_says(b, "\"id\":1,\"ok\":true"));
		board_ask(b, client, code);
		CHECK(!board_says(b, "put 3 5") == (client == 3));
	}
	board_ask(
	    b, 3,
	    "{\"op\":\"put\",\"id\":4,\"type\":1,\"key\":\"00000000000000000000000000000001\",\"bytes\":5}");
	CHECK(board_says(b, "put 1 5")); /* it may send records */
	board_free(b);
}

/* A connection that syncs may bring records and nothing else: it is no job, and cannot become one. */
TEST(who_brings_records_is_no_job)
{
	static const char *const refused[] = {
	    "{\"op\":\"put\",\"id\":9,\"type\":3,\"key\":\"00000000000000000000000000000001\",\"bytes\":5}",
	    "{\"op\":\"put\",\"id\":9,\"type\":4,\"key\":\"00000000000000000000000000000001\",\"bytes\":1}",
	    "{\"op\":\"put\",\"id\":9,\"type\":8,\"key\":\"00000000000000000000000000000001\",\"bytes\":5}",
	    "{\"op\":\"forget\",\"id\":9,\"type\":2,\"key\":\"00000000000000000000000000000001\"}",
	    "{\"op\":\"forget\",\"id\":9,\"type\":3,\"key\":\"00000000000000000000000000000001\"}",
	    "{\"op\":\"forget\",\"id\":9,\"type\":6,\"key\":\"00000000000000000000000000000001\"}",
	    "{\"op\":\"forget\",\"id\":9,\"type\":8,\"key\":\"00000000000000000000000000000001\"}",
	    "{\"op\":\"job\",\"id\":9,\"model\":\"/m/x\",\"pid\":1}",
	    "{\"op\":\"tune\",\"id\":9,\"model\":\"/m/x\"}",
	    "{\"op\":\"reload\",\"id\":9}",
	    "{\"op\":\"lease\",\"id\":9,\"kind\":\"quiet\"}",
	    "{\"op\":\"release\",\"id\":9}",
	    "{\"op\":\"progress\",\"id\":9}",
	    "{\"op\":\"done\",\"id\":9}"};
	struct board *b = resident(1);
	board_event(b, (struct honed_event){
			   .kind = HE_CLIENT, .client = 3, .peer = {.pid = 1, .uid = 990, .brings = true}});
	board_ask(b, 3, "{\"op\":\"commit\",\"id\":1}");
	CHECK(board_says(b, "\"id\":1,\"ok\":false") && !board_says(b, "commit "));
	board_ask(b, 3, "{\"op\":\"sync\",\"id\":2}");
	CHECK(board_says(b, "send 3 {\"id\":2,\"ok\":true,\"cache\":\""));
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		board_read(b);
		board_ask(b, 3, refused[i]);
		CHECK(board_says(b, "send 3 {\"id\":9,\"ok\":false"));
		CHECK(!board_says(b, "put ") && !board_says(b, "start") && !board_says(b, "reload"));
		CHECK(!board_says(b, "forget "));
	}
	board_put(b, 3, CACHE_SHARED, hash_text("fleet"), "00112233445566778899aabbccddeeff");
	CHECK(board_says(b, "put 9 32"));
	board_ask(b, 3,
		  "{\"op\":\"forget\",\"id\":5,\"type\":10,\"key\":\"00000000000000000000000000000001\"}");
	CHECK(board_says(b, "forget 10"));
	board_read(b);
	board_ask(b, 3, /* honed's store forgets it only if it came from a hint */
		  "{\"op\":\"forget\",\"id\":5,\"type\":1,\"key\":\"00000000000000000000000000000001\"}");
	CHECK(board_says(b, "forget 1"));
	board_read(b);
	board_ask(b, 3, "{\"op\":\"commit\",\"id\":6}");
	CHECK(board_says(b, "commit 1") && !board_says(b, "\"id\":6"));
	board_ask(b, 3, "{\"op\":\"commit\",\"id\":7}");
	CHECK(board_says(b, "\"id\":7,\"ok\":false,\"code\":\"busy\""));
	board_event(b, (struct honed_event){.kind = HE_STORED, .ticket = 1, .generation = 12});
	CHECK(board_says(b, "send 3 {\"id\":6,\"ok\":true,\"generation\":12"));
	board_read(b);
	board_ask(b, 1, "{\"op\":\"status\",\"id\":8}");
	CHECK(!board_says(b, "\"job\":1"));
	board_event(b, (struct honed_event){.kind = HE_GONE, .client = 3});
	board_free(b);
}

TEST(wait_is_answered_when_every_model_is_served)
{
	struct board *b = resident(2);
	board_ask(b, 2, "{\"op\":\"wait\",\"id\":5,\"for\":\"ready\"}");
	board_run(b, LONG_SETTLED);
	board_started(b, 1);
	board_done(b, 1, 6, 5, 0, 0.4);
	CHECK(!board_says(b, "send 2 {\"id\":5"));
	for (int job = 2; job <= 4; job++) { /* the policy may choose the first one again */
		board_started(b, job);
		board_done(b, job, 6, 5, 0, 0);
	}
	CHECK(board_says(b, "send 2 {\"id\":5,\"ok\":true"));
	board_ask(b, 2, "{\"op\":\"wait\",\"id\":6,\"for\":\"ready\"}");
	CHECK(board_says(b, "send 2 {\"id\":6,\"ok\":true")); /* answered at once */
	board_ask(b, 2, "{\"op\":\"wait\",\"id\":7,\"for\":\"godot\"}");
	CHECK(board_says(b, "{\"id\":7,\"ok\":false"));
	board_free(b);
}

TEST(watch_tells_changes_once_a_second_at_most)
{
	struct board *b = resident(1);
	board_ask(b, 2, "{\"op\":\"watch\",\"id\":1}");
	board_run(b, LONG_SETTLED);
	board_started(b, 1);
	board_read(b);
	for (int i = 0; i < 100; i++) {
		board_run(b, 50 * NS_PER_MS);
		board_ask(b, 1001, "{\"op\":\"progress\",\"now_ms\":3}");
	}
	int n = 0;
	for (int i = b->read; i < b->nlines; i++)
		n += strstr(b->line[i], "send 2 {\"event\":\"status\",") != NULL;
	CHECK(n >= 4 && n <= 6);
	board_done(b, 1, 6, 5, 0, 0);
	board_run(b, 60 * NS_PER_S);
	board_read(b);
	board_run(b, 3600 * NS_PER_S);
	CHECK(!board_says(b, "send 2") && honed_wakeup(b->h) == INT64_MAX);
	board_free(b);
}

TEST(status_looks_first_where_nobody_has)
{
	struct board *b = resident(0);
	b->vitals.temp_mc = 51500;
	board_ask(b, 2, "{\"op\":\"status\",\"id\":1}");
	CHECK(b->sums[HA_LOOK] == 1 && board_says(b, "send 2 {\"id\":1,\"ok\":true,\"version\":"));
	CHECK(strstr(board_status(b), "\"temp_c\":51.5"));
	board_ask(b, 2, "{\"op\":\"status\",\"id\":2}");
	CHECK(b->sums[HA_LOOK] == 1 && board_says(b, "{\"id\":2,"));
	CHECK(honed_wakeup(b->h) <= b->now_ns + 10 * NS_PER_S);
	board_run(b, 60 * NS_PER_S);
	CHECK(honed_wakeup(b->h) == INT64_MAX);
	board_free(b);
}

TEST(tune_runs_a_job_and_says_what_came_of_it)
{
	struct board *b = resident(0);
	b->vitals.has = 0;
	board_ask(b, 1, "{\"op\":\"tune\",\"id\":1,\"model\":\"relative.onnx\"}");
	CHECK(board_says(b, "{\"id\":1,\"ok\":false,\"code\":\"usage\""));
	board_ask(b, 1, "{\"op\":\"tune\",\"id\":2,\"model\":\"/home/u/net.onnx\",\"ms\":5000,\"now\":true}");
	CHECK(board_says(b, "{\"id\":2,\"ok\":true,\"job\":1}"));
	CHECK(board_says(b, "start 1 net.onnx 5000"));
	board_started(b, 1);
	board_done(b, 1, 6, 5, 0, 0.5);
	CHECK(
	    board_says(b, "send 1 {\"event\":\"done\",\"job\":1,\"ok\":true,\"trials\":10,\"before_ms\":6"));
	board_ask(b, 1, "{\"op\":\"tune\",\"id\":3,\"model\":\"/home/u/net.onnx\",\"now\":true}");
	board_started(b, 2);
	board_ended(b, 2, E_CHILD, "hone tune: signal 6");
	CHECK(board_says(b, "{\"event\":\"done\",\"job\":2,\"ok\":false,\"error\":\"hone tune: signal 6\"}"));
	board_ask(b, 1, "{\"op\":\"tune\",\"id\":4,\"model\":\"/home/u/net.onnx\",\"now\":true}");
	board_started(b, 3);
	board_ask(b, 1, "{\"op\":\"cancel\",\"id\":5,\"job\":3}");
	CHECK(board_says(b, "send 1003 {\"event\":\"stop\"}"));
	board_run(b, 3 * NS_PER_S);
	CHECK(board_says(b, "signal 3 9"));
	board_ended(b, 3, E_CHILD, "signal 9");
	CHECK(board_says(b, "\"job\":3,\"ok\":false,\"error\":\"canceled\""));
	board_ask(b, 1, "{\"op\":\"cancel\",\"id\":6,\"job\":3}");
	CHECK(board_says(b, "{\"id\":6,\"ok\":false,\"code\":\"not found\""));
	board_free(b);
}

/* The shapes of a request are the job's, also if the model is configured, which keeps its level and gets none
 * of them; they live until the job starts, whatever becomes of the request and the configuration. */
TEST(tune_with_shapes)
{
	static const char *const bad[] = {
	    "x",      "x=",           "=3",
	    "x=3x",   "x:3",          "x=1\\n",
	    "\\nx=1", "x=1\\n\\ny=2", "a=1\\nb=1\\nc=1\\nd=1\\ne=1\\nf=1\\ng=1\\nh=1\\ni=1"};
	struct board *b = resident(1);
	char line[300];
	b->vitals.has = 0;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		snprintf(line, sizeof line, "{\"op\":\"tune\",\"id\":1,\"model\":\"/m/x\",\"shapes\":\"%s\"}",
			 bad[i]);
		board_ask(b, 1, line);
		CHECK(board_says(b, "\"ok\":false,\"code\":\"usage\",\"error\":\"tune: shapes must be up to "
				    "8 lines NAME=DIMS"));
	}
	board_ask(b, 2, "{\"op\":\"inhibit\",\"id\":2,\"why\":\"test\"}");
	board_ask(
	    b, 1,
	    "{\"op\":\"tune\",\"id\":3,\"model\":\"/m/x\",\"shapes\":\"x=1x3x8x8\\nn=4\",\"now\":true}");
	CHECK(board_says(b, "{\"id\":3,\"ok\":true,"));
	board_ask(b, 2, "{\"op\":\"resume\",\"id\":4}");
	CHECK(board_says(b, " of /m/x: x=1x3x8x8, level fp32") && board_says(b, " of /m/x: n=4, level fp32"));
	board_free(b);
	b = resident(1);
	b->vitals.has = 0;
	b->model[0].level = LEVEL_W16;
	snprintf(line, sizeof line,
		 "{\"op\":\"tune\",\"id\":5,\"model\":\"%s\",\"shapes\":\"x=9\",\"now\":true}",
		 b->model[0].name);
	board_ask(b, 1, line);
	snprintf(line, sizeof line, " of %s: x=9, level w16", b->model[0].path);
	CHECK(board_says(b, line));
	CHECK(!b->model[0].shapes.n);
	board_free(b);
}

/* A job with --now waits for an inhibit's end, too, and has its whole budget then. */
TEST(a_budget_begins_with_its_job)
{
	struct board *b = resident(0);
	board_ask(b, 2, "{\"op\":\"inhibit\",\"id\":1,\"why\":\"z\",\"ms\":60000}");
	board_ask(b, 1, "{\"op\":\"tune\",\"id\":2,\"model\":\"/home/u/net.onnx\",\"ms\":5000,\"now\":true}");
	board_run(b, 59 * NS_PER_S);
	CHECK(!board_says(b, "start 1"));
	board_run(b, 10 * NS_PER_S);
	CHECK(board_says(b, "start 1 net.onnx 5000"));
	board_free(b);
}

TEST(a_requested_job_stops_the_slice)
{
	struct board *b = resident(1);
	board_run(b, LONG_SETTLED);
	board_started(b, 1);
	board_ask(b, 1, "{\"op\":\"tune\",\"id\":2,\"model\":\"/home/u/net.onnx\",\"now\":true}");
	CHECK(board_says(b, "send 1001 {\"event\":\"stop\"}") && !board_says(b, "start 2"));
	board_ended(b, 1, 0, NULL);
	CHECK(board_says(b, "start 2 net.onnx"));
	CHECK(!strstr(board_status(b), "\"state\":\"failed\""));
	board_free(b);
}

TEST(jobs_have_an_end)
{
	struct board *b = resident(0);
	b->vitals.headroom_mc = 1000; /* no job starts */
	for (int i = 0; i < HONED_JOBS; i++)
		board_ask(b, 1, "{\"op\":\"tune\",\"id\":1,\"model\":\"/home/u/net.onnx\"}");
	CHECK(!board_says(b, "\"code\":\"busy\""));
	board_ask(b, 1, "{\"op\":\"tune\",\"id\":2,\"model\":\"/home/u/net.onnx\"}");
	CHECK(board_says(b, "{\"id\":2,\"ok\":false,\"code\":\"busy\""));
	board_ask(b, 1, "{\"op\":\"cancel\",\"id\":3,\"job\":1}");
	CHECK(board_says(b, "\"job\":1,\"ok\":false,\"error\":\"canceled before it could start\""));
	board_ask(b, 1, "{\"op\":\"tune\",\"id\":4,\"model\":\"/home/u/net.onnx\"}");
	CHECK(board_says(b, "{\"id\":4,\"ok\":true"));
	board_free(b);
}

TEST(a_job_by_hand_yields_but_is_not_stopped)
{
	struct board *b = resident(1);
	board_ask(b, 1, "{\"op\":\"job\",\"id\":1,\"model\":\"/m/a\",\"pid\":77}");
	CHECK(board_says(b, "\"cache\":\"/var/lib/hone/cache\",\"cpus\":[0,1,2,3]}"));
	board_run(b, LONG_SETTLED);
	CHECK(!board_says(b, "start")); /* its model is being tuned already */
	board_ask(b, 1, "{\"op\":\"lease\",\"id\":2,\"kind\":\"measure\"}");
	b->vitals.headroom_mc = 1000;
	board_run(b, 200 * NS_PER_MS);
	CHECK(board_says(b, "send 1 {\"event\":\"yield\"}") && !board_says(b, "signal"));
	board_ask(b, 1, "{\"op\":\"release\",\"id\":3}");
	CHECK(board_says(b, "{\"id\":3,\"ok\":true,\"tainted\":\"the gate closed"));
	board_run(b, 70 * NS_PER_S);
	CHECK(!board_says(b, "signal"));
	board_event(b, (struct honed_event){.kind = HE_GONE, .client = 1});
	CHECK(!strstr(board_status(b), "\"job\":1"));
	board_free(b);
}

TEST(inhibit_closes_at_once_and_resume_opens)
{
	struct board *b = resident(1);
	board_run(b, LONG_SETTLED);
	board_started(b, 1);
	int looks = b->sums[HA_LOOK];
	board_ask(b, 2, "{\"op\":\"inhibit\",\"id\":1,\"why\":\"arm\\u001b[1m\\nmoves\"}");
	CHECK(b->sums[HA_LOOK] == looks && board_says(b, "send 1001 {\"event\":\"yield\"}"));
	CHECK(board_says(b, "inhibit 1000-1-0 arm [1m moves (user 1000)") ||
	      board_says(b, "inhibit 1000-1-0 arm?[1m?moves (user 1000)"));
	CHECK(strstr(board_status(b), "\"state\":\"inhibited\""));
	board_connect(b, 3, 1001);
	board_ask(b, 3, "{\"op\":\"resume\",\"id\":2,\"name\":\"1000-1-0\"}");
	CHECK(board_says(b, "{\"id\":2,\"ok\":false")); /* the inhibit is another user's */
	board_ask(b, 3, "{\"op\":\"resume\",\"id\":3}");
	CHECK(board_says(b, "{\"id\":3,\"ok\":true,\"resumed\":0"));
	board_ask(b, 2, "{\"op\":\"resume\",\"id\":4}");
	CHECK(board_says(b, "{\"id\":4,\"ok\":true,\"resumed\":1"));
	CHECK(board_says(b, "inhibit 1000-1-0 -"));
	board_run(b, LONG_SETTLED);
	CHECK(board_says(b, "send 1001 {\"event\":\"go on\"}"));
	board_free(b);
}

TEST(inhibit_ends_by_itself)
{
	struct board *b = resident(0);
	board_ask(b, 2, "{\"op\":\"inhibit\",\"id\":1,\"why\":\"arm\",\"ms\":90000}");
	CHECK(board_says(b, "inhibit 1000-1-190000000000 arm"));
	board_run(b, 89 * NS_PER_S);
	CHECK(strstr(board_status(b), "\"left_s\":1}"));
	board_run(b, 2 * NS_PER_S);
	CHECK(board_says(b, "inhibit 1000-1-190000000000 -"));
	CHECK(strstr(board_status(b), "\"inhibits\":[]"));
	board_free(b);
}

TEST(inhibits_are_bounded)
{
	struct board *b = resident(0);
	for (int i = 0; i <= INHIBITS_OF_USER; i++)
		board_ask(b, 2, "{\"op\":\"inhibit\",\"id\":1,\"why\":\"arm\"}");
	CHECK(board_says(b, "{\"id\":1,\"ok\":false,\"code\":\"busy\",\"error\":\"inhibit: user 1000"));
	CHECK(b->sums[HA_INHIBIT] == INHIBITS_OF_USER);
	for (int u = 0; u < 10; u++) {
		board_connect(b, 10 + u, (uid_t)(2000 + u));
		for (int i = 0; i < INHIBITS_OF_USER; i++)
			board_ask(b, 10 + u, "{\"op\":\"inhibit\",\"id\":1,\"why\":\"arm\"}");
	}
	CHECK(b->sums[HA_INHIBIT] == INHIBITS - INHIBITS_OF_USER);
	for (int i = 0; i < INHIBITS_OF_USER; i++)
		board_ask(b, 1, "{\"op\":\"inhibit\",\"id\":1,\"why\":\"docking\"}");
	CHECK(b->sums[HA_INHIBIT] == INHIBITS);
	board_ask(b, 1, "{\"op\":\"resume\",\"id\":7}"); /* root removes all */
	CHECK(board_says(b, "{\"id\":7,\"ok\":true,\"resumed\":32"));
	board_free(b);
}

TEST(inhibits_outlive_a_restart_but_not_strange_names)
{
	static const char *const strange[] = {
	    "../../etc/passwd", "",       "1000-1",          "1000-1-0x",
	    "-1-1-0",           "01-1-0", "99999999999-1-0", "1000-1-99999999999999999999",
	    "1000-1--5",        " 1-1-0"};
	struct board *b = board_new(HONED_RESIDENT, 1);
	CHECK_OK(honed_open(&b->o, &b->h));
	for (size_t i = 0; i < sizeof strange / sizeof *strange; i++)
		board_event(b, (struct honed_event){.kind = HE_KEPT, .name = strange[i], .text = "no"});
	CHECK(strstr(board_status(b), "\"inhibits\":[]"));
	board_event(b, (struct honed_event){
			   .kind = HE_KEPT, .name = "4294901760-3-110000000000", .text = "a mapped user"});
	CHECK(strstr(board_status(b), "a mapped user"));
	board_event(b, (struct honed_event){.kind = HE_KEPT, .name = "1000-4-130000000000", .text = "arm"});
	board_event(b, (struct honed_event){.kind = HE_START, .nmodels = 1, .model = b->file});
	board_run(b, 29 * NS_PER_S);
	CHECK(!board_says(b, "start") && strstr(board_status(b), "\"state\":\"inhibited\""));
	board_run(b, LONG_SETTLED);
	CHECK(board_says(b, "inhibit 1000-4-130000000000 -") && board_says(b, "start 1"));
	board_connect(b, 2, 1000);
	board_ask(b, 2, "{\"op\":\"inhibit\",\"id\":1,\"why\":\"leg\"}");
	CHECK(board_says(b, "inhibit 1000-5-0 leg"));
	board_free(b);
}

TEST(a_file_inhibits_too)
{
	struct board *b = resident(1);
	board_event(b, (struct honed_event){.kind = HE_INHIBIT, .text = "/run/robot/busy is there"});
	board_run(b, 60 * NS_PER_S);
	CHECK(!board_says(b, "start") && strstr(board_status(b), "/run/robot/busy is there"));
	board_event(b, (struct honed_event){.kind = HE_INHIBIT});
	board_run(b, LONG_SETTLED);
	CHECK(board_says(b, "start 1"));
	board_free(b);
}

TEST(reload_is_answered_by_what_came_of_it)
{
	struct board *b = resident(1);
	board_ask(b, 1, "{\"op\":\"reload\",\"id\":1}");
	CHECK(board_says(b, "reload") && !board_says(b, "{\"id\":1"));
	board_event(
	    b, (struct honed_event){.kind = HE_CONF, .rc = E_USAGE, .text = "honed.conf:3: unknown key 'x'"});
	CHECK(board_says(
	    b, "{\"id\":1,\"ok\":false,\"code\":\"usage\",\"error\":\"honed.conf:3: unknown key 'x'\"}"));
	board_ask(b, 1, "{\"op\":\"reload\",\"id\":2}");
	board_event(b,
		    (struct honed_event){.kind = HE_CONF, .conf = &b->conf, .nmodels = 1, .model = b->file});
	CHECK(board_says(b, "{\"id\":2,\"ok\":true"));
	board_free(b);
}

static void reload(struct board *b, const char *error)
{
	board_event(b, (struct honed_event){.kind = HE_CONF,
					    .rc = error ? E_USAGE : E_OK,
					    .text = error,
					    .conf = error ? NULL : &b->conf,
					    .nmodels = 1,
					    .model = b->file});
}

/* A signal cannot be answered, so the status shows the error until a reload succeeds. */
TEST(a_refused_configuration_is_in_the_status)
{
	static const char none[] = "\"conf_error\":null";
	struct board *b = resident(1);
	char longest[600];
	CHECK(strstr(board_status(b), none));
	reload(b, "honed.conf:3: unknown key\n'x'");
	board_run(b, 3600 * NS_PER_S);
	CHECK(strstr(board_status(b),
		     "\"conf_error\":\"honed.conf:3: unknown key?'x'; the former settings stay\""));
	memset(longest, '"', sizeof longest);
	longest[sizeof longest - 1] = 0;
	reload(b, longest);
	CHECK(strstr(board_status(b), "\\\"; the former settings stay\"") && !strstr(board_status(b), "'x'"));
	reload(b, NULL);
	CHECK(strstr(board_status(b), none));
	board_free(b);
}

TEST(nonsense_is_answered_and_at_last_hung_up_on)
{
	struct board *b = resident(0);
	for (int i = 0; i < BROKEN_MOST - 1; i++)
		board_ask(b, 2, "{\"op\":\"fly\",\"id\":4}");
	CHECK(board_says(b, "send 2 {\"id\":4,\"ok\":false") && !board_says(b, "close 2"));
	board_ask(b, 2, "{\"op\":\"hello\",\"id\":5,\"version\":2}");
	for (int i = 0; i < BROKEN_MOST; i++)
		board_ask(b, 2, "garbage");
	CHECK(board_says(b, "close 2"));
	board_read(b);
	board_ask(b, 2, "{\"op\":\"hello\",\"id\":6,\"version\":2}");
	CHECK(!board_says(b, "send 2"));
	board_free(b);
}

TEST(over_the_limit_the_most_silent_goes)
{
	struct board *b = resident(0);
	board_ask(b, 1, "{\"op\":\"job\",\"id\":1,\"model\":\"/m/x\",\"pid\":77}");
	for (int i = 3; i <= HONED_CLIENTS; i++) {
		board_run(b, NS_PER_MS);
		board_connect(b, i, 1000);
	}
	CHECK(!board_says(b, "close"));
	board_run(b, NS_PER_MS);
	board_ask(b, 2, "{\"op\":\"hello\",\"id\":1,\"version\":2}");
	board_connect(b, HONED_CLIENTS + 1, 1000);
	CHECK(board_says(b, "close 3") && !board_says(b, "close 1") && !board_says(b, "close 2"));
	for (int i = 2; i < 200; i++) /* jobs' connections, which are never closed */
		board_connect(b, HONED_CLIENTS + i, 1000);
	CHECK(strstr(board_status(b), "\"clients\":1216"));
	board_event(b, (struct honed_event){.kind = HE_GONE, .client = 3});
	board_ask(b, 2, "{\"op\":\"hello\",\"id\":77,\"version\":2}");
	CHECK(board_says(b, "{\"id\":77,\"ok\":true"));
	board_free(b);
}

TEST(a_crowd_takes_the_room_from_itself)
{
	struct board *b = resident(1);
	board_connect(b, 3, 1001);
	board_ask(b, 3, "{\"op\":\"wait\",\"id\":1,\"for\":\"ready\"}");
	for (int i = 10; i < 10 + 2 * HONED_CLIENTS; i++) { /* one user connects again and again */
		int lines = b->nlines;
		board_run(b, NS_PER_MS);
		board_connect(b, i, 1000);
		for (int k = lines; k < b->nlines; k++)
			if (!strncmp(b->line[k], "close ", 6))
				board_event(
				    b, (struct honed_event){.kind = HE_GONE, .client = atoi(b->line[k] + 6)});
	}
	CHECK(board_says(b, "close 2"));
	board_read(b);
	board_ask(b, 3, "{\"op\":\"hello\",\"id\":2,\"version\":2}");
	CHECK(board_says(b, "send 3 {\"id\":2"));
	board_ask(b, 1, "{\"op\":\"hello\",\"id\":3,\"version\":2}");
	CHECK(board_says(b, "send 1 {\"id\":3"));
	board_free(b);
}

TEST(memory_is_small)
{
	printf("honed %zu bytes, each client %zu\n", sizeof(struct honed), sizeof(struct client));
	CHECK(sizeof(struct client) <= 100);
	CHECK(sizeof(struct honed) <= 64 << 10);
}

TEST(a_status_fits_a_line)
{
	struct board *b = board_new(HONED_RESIDENT, 0);
	static struct conf_model model[HONED_MODELS];
	static struct honed_model file[HONED_MODELS];
	static char name[HONED_MODELS][400], bad[400];
	memset(bad, '"', sizeof bad - 1);
	for (int i = 0; i < HONED_MODELS; i++) {
		memset(name[i], '\\', sizeof name[i] - 1);
		model[i] = (struct conf_model){.name = name[i] + 200, .path = name[i] + 200};
		file[i].refused = bad;
	}
	b->conf.nmodels = HONED_MODELS;
	b->conf.model = model;
	CHECK_OK(honed_open(&b->o, &b->h));
	board_event(b, (struct honed_event){.kind = HE_START, .nmodels = HONED_MODELS, .model = file});
	for (int i = 0; i < INHIBITS; i++) {
		struct request r = {.op = OP_INHIBIT, .has_id = true};
		memset(r.text, '"', sizeof r.text - 1);
		board_connect(b, i, (uid_t)(1000 + i));
		board_event(b, (struct honed_event){.kind = HE_REQUEST, .client = i, .request = &r});
	}
	struct buf s = {0};
	honed_status(b->h, b->now_ns, &s);
	CHECK(s.n < CONTROL_SAID - 100);
	buf_free(&s);
	board_free(b);
}

TEST_MAIN
