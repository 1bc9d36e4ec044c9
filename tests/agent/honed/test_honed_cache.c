/* SPDX-License-Identifier: Apache-2.0 */
/* A cache that is taken away from honed while it runs, or that it cannot write. A script takes hone's place. */
#include "tests/lib/honed.h"
#include "tests/lib/honed_board.h"

static const struct inventory had = {.files = {1, 1}, .records = 9, .code = 9},
			      has = {.files = {1, 2}, .records = 4, .code = 9};

/* What a job says of kernels that may be gone is not believed, and its model has another slice. */
TEST(a_job_that_knows_the_cache_as_it_was)
{
	struct board *b = board_new(HONED_RESIDENT, 1);
	board_start(b);
	board_event(b, (struct honed_event){.kind = HE_STORED, .holds = &had});
	board_run(b, 20 * NS_PER_S);
	REQUIRE(board_says(b, "start 1 a"));
	int client = board_started(b, 1);
	board_ask(b, client, "{\"op\":\"commit\",\"id\":1}");
	board_event(b, (struct honed_event){.kind = HE_STORED, .ticket = 1, .holds = &had});
	board_ask(b, client, "{\"op\":\"lease\",\"id\":2,\"kind\":\"measure\"}");
	board_event(b, (struct honed_event){.kind = HE_STORED, .holds = &has, .lacks = true});
	CHECK(board_says(b, "cache /var/lib/hone/cache is not as honed left it: it has 4 of 9 records, code of 9 of 9"));
	CHECK(!b->marks.model[0].boxed && !memcmp(&b->marks.cache, &has, sizeof has));
	board_done(b, 1, 6, 5, 0, 0);
	CHECK(!b->marks.model[0].boxed && strstr(board_status(b), "\"ready\":false"));
	board_run(b, 20 * NS_PER_S);
	REQUIRE(board_says(b, "start 2 a"));
	board_started(b, 2);
	board_done(b, 2, 6, 5, 0, 0);
	CHECK(b->marks.model[0].boxed && strstr(board_status(b), "\"ready\":true"));
	board_free(b);
}

/* Nobody asked for a commit: the marks learn what the cache has, and are written when honed stops. */
TEST(the_marks_follow_the_cache)
{
	struct board *b = board_new(HONED_RESIDENT, 1);
	board_start(b);
	board_event(b, (struct honed_event){.kind = HE_STORED, .holds = &had});
	board_event(b, (struct honed_event){.kind = HE_STORED, .holds = &has}); /* honed's own work */
	CHECK(!board_says(b, "is not as honed left it") && b->nmarks == 0);
	board_event(b, (struct honed_event){.kind = HE_STOP});
	CHECK(b->left && b->nmarks == 1 && !memcmp(&b->marks.cache, &has, sizeof has));
	board_free(b);
}

/* As soon as honed knows that it cannot write the cache, it says so, and starts no job in vain. */
TEST(a_cache_that_cannot_be_written_is_said_once)
{
	struct board *b = board_new(HONED_RESIDENT, 1);
	board_start(b);
	board_event(b, (struct honed_event){.kind = HE_STORED, .rc = E_IO, .text = "cache /x is a file"});
	CHECK(board_says(b, "log cannot write the cache: cache /x is a file; honed tries again in 60 s"));
	board_run(b, 50 * NS_PER_S);
	CHECK(!board_says(b, "start 1"));
	CHECK(strstr(board_status(b), "\"warning\":\"cache /x is a file\""));
	board_run(b, 15 * NS_PER_S);
	CHECK(board_says(b, "commit 1"));
	board_stored(b, 1);
	board_run(b, 15 * NS_PER_S);
	CHECK(board_says(b, "start 1 a"));
	board_started(b, 1);
	board_read(b);
	/* A job that fails for that reason does not say it again. */
	board_put_rec(b, 1001);
	board_run(b, 2 * NS_PER_S);
	board_event(b, (struct honed_event){.kind = HE_STORED, .ticket = 2, .rc = E_IO, .text = "cache /x is a file"});
	board_ended(b, 1, E_CHILD, "nothing was searched: cache /x is a file");
	for (int i = b->read, n = 0; i < b->nlines; i++)
		if (strstr(b->line[i], "log ") && strstr(b->line[i], "cache /x is a file"))
			CHECK(++n == 1);
	board_free(b);
}

TEST(a_box_without_a_cache_ends_at_once)
{
	struct board *b = board_new(HONED_BOX, 1);
	board_start(b);
	int client = board_started(b, 1);
	board_ask(b, client, "{\"op\":\"commit\",\"id\":1}");
	board_event(b, (struct honed_event){.kind = HE_STORED, .ticket = 1, .rc = E_IO, .text = "cache /x is a file"});
	board_ended(b, 1, E_CHILD, "nothing was searched: cache /x is a file");
	board_run(b, 10 * NS_PER_MS);
	board_event(b, (struct honed_event){.kind = HE_STORED, .ticket = 2, .rc = E_IO, .text = "cache /x is a file"});
	CHECK(b->left && board_says(b, "log honed stops: the cache cannot be written; "));
	CHECK(board_says(b, "log cannot write the cache: cache /x is a file") && !board_says(b, "tries again"));
	board_free(b);
}

static const char script[] =
    "#!/bin/sh\n"
    "case $1 in tune) ;; *) exit 0 ;; esac\n"
    "echo '{\"op\":\"commit\",\"id\":1}' >&3; read -r line <&3\n"
    "case \"$line\" in *'\"ok\":true'*) ;; *) echo \"hone: error: in vain: $line\" >&2; exit 1 ;; esac\n"
    "echo job >>\"$(dirname \"$2\")/jobs\"\n"
    "printf '{\"op\":\"put\",\"id\":2,\"type\":1,\"key\":\"%032d\",\"bytes\":5}\\nhello' 1 >&3\n"
    "echo '{\"op\":\"commit\",\"id\":3}' >&3\n"
    "while read -r line; do case \"$line\" in *'\"id\":3,\"ok\":true'*)\n"
    "   echo '{\"op\":\"done\",\"trials\":5,\"before_ms\":2,\"after_ms\":1.5,\"kept\":1,\"promise\":0}' >&3; exit 0 ;;\n"
    "esac; done <&3\n";

static int jobs(void)
{
	struct arena a = {0};
	struct blob text = {0};
	int n = file_read(&a, in_folder("jobs"), 0, &text) < 0 ? 0 : test_count(text.p, "job\n");
	arena_free(&a);
	return n;
}

static bool log_has(const char *part, int times)
{
	struct arena a = {0};
	struct blob text = {0};
	bool is = file_read(&a, in_folder("log"), 0, &text) >= 0 && test_count(text.p, part) == times;
	arena_free(&a);
	return is;
}

static bool comes(bool (*is)(int n), int n)
{
	for (int i = 0; i < PATIENCE_MS / 10 && !is(n); i++)
		usleep(10000);
	return is(n);
}

static bool ran(int n)
{
	return jobs() == n;
}

static bool is_ready(int n)
{
	return status_has("\"ready\":true,\"verdict\"") == n;
}

static bool start(void)
{
	char conf[400];
	if (!*at)
		make_folder();
	write_text(in_folder("hone"), script);
	chmod(in_folder("hone"), 0755);
	write_text(in_folder("m.onnx"), "x");
	snprintf(conf, sizeof conf,
		 "[idle]\nsettle = 1s\nload = 100%%\npressure = 100%%\nmemory = 1M\n[model m]\npath = %s/m.onnx\n", at);
	return start_honed(conf, own("hone"));
}

static void shell(const char *how)
{
	char cmd[200];
	snprintf(cmd, sizeof cmd, "cd %s && %s", at, how);
	CHECK(system(cmd) == 0);
}

/* Whether the cache is removed, moved or emptied, honed sees it without any request, and tunes again. */
TEST(a_cache_that_vanishes_while_honed_runs)
{
	static const char *const ways[] = {"rm -r state/cache", "mv state/cache gone", "rm state/cache/*.seg",
					   "rm -r state/cache; echo x >state/cache"};
	REQUIRE(start());
	CHECK(comes(ran, 1) && comes(is_ready, 1));
	for (int i = 0; i < 3; i++) {
		shell(ways[i]);
		CHECK(comes(ran, 2 + i) && comes(is_ready, 1) && log_has("it has 0 of 1 records", 1 + i));
	}
	shell(ways[3]);
	CHECK(comes(is_ready, 0));
	CHECK(status_has("state/cache is a file, not a folder: remove it, or name another folder"));
	shell("rm state/cache");
	CHECK(end_honed(SIGTERM) == 0);
	CHECK(log_has("error: cannot write the cache: ", 1) && log_has("is a file, not a folder", 1));
	/* The next honed knows that the cache has nothing. */
	REQUIRE(start());
	CHECK(comes(ran, 5) && comes(is_ready, 1));
	CHECK(end_honed(SIGTERM) == 0);
	shell("rm -r state/cache");
	REQUIRE(start());
	CHECK(status_has("\"ready\":false") && comes(ran, 6) && comes(is_ready, 1));
	CHECK(end_honed(SIGTERM) == 0);
}

TEST_MAIN
