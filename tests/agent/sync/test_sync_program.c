/* SPDX-License-Identifier: Apache-2.0 */
/* Tests hone-sync as a program, and hone sync, which starts it: its output, exit codes and memory, and that
 * it survives being killed. */
#include "agent/sync/pack.h"
#include "agent/sync/sync_state.h"
#include "tests/lib/hold_cache.h"
#include "tests/lib/fleet_tree.h"
#include "tests/lib/json_page.h"
#include "tests/lib/records.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct tree tree;

static const char *program(const char *name)
{
	static char path[PATH_MAX + 16];
	char dir[PATH_MAX];
	CHECK_OK(file_self_dir(dir, sizeof dir));
	snprintf(path, sizeof path, "%s/../%s", dir, name);
	return path;
}

static void configure(const char *text)
{
	char conf[1024];
	int n = snprintf(conf, sizeof conf,
			 "[honed]\ncache = %s\n[sync]\nstate = %s\nroot = %s\nchannel = all\n%s", tree.cache,
			 tree.state, tree.image, text);
	tree_write(&tree, "honed.conf", conf, (size_t)n);
}

static void configure_server(const char *server)
{
	char text[256];
	snprintf(text, sizeof text, "server = %s\n", server);
	configure(text);
}

static bool nobody; /* the programs of a test that runs as root are another user's */

/* Starts hone-sync, or hone sync, with its output in `said`. */
static pid_t start_program(const char *name, bool traced, char *const *more)
{
	char conf[256], *argv[12] = {(char *)(uintptr_t)program(name)};
	int n = 1;
	if (!strcmp(name, "hone"))
		argv[n++] = "sync";
	argv[n++] = "--config";
	argv[n++] = conf;
	snprintf(conf, sizeof conf, "%s", tree_path(&tree, "honed.conf"));
	while (more && *more)
		argv[n++] = *more++;
	char said[256];
	snprintf(said, sizeof said, "%s", tree_path(&tree, "said"));
	pid_t pid = fork();
	if (pid == 0) {
		int fd = open(said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		dup2(fd, 1);
		dup2(fd, 2);
		if (nobody && (setgid(65534) < 0 || setuid(65534) < 0))
			_exit(126);
		if (traced)
			ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execv(argv[0], argv);
		_exit(127);
	}
	return pid;
}

static pid_t start(bool traced, char *const *more)
{
	return start_program("hone-sync", traced, more);
}

static int status_of(pid_t pid)
{
	int status;
	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int run(char *const *more)
{
	return status_of(start(false, more));
}

static int run_hone(char *const *more)
{
	return status_of(start_program("hone", false, more));
}

static bool finds(const char *text)
{
	struct arena a = {0};
	struct blob b;
	CHECK_OK(file_read(&a, tree_path(&tree, "said"), 0, &b));
	bool is = strstr(b.p, text) != NULL;
	arena_free(&a);
	return is;
}

static bool says(const char *text)
{
	struct arena a = {0};
	struct blob b;
	bool is = finds(text);
	CHECK_OK(file_read(&a, tree_path(&tree, "said"), 0, &b));
	if (!is)
		printf("it says: %s\n", (const char *)b.p);
	arena_free(&a);
	return is;
}

#define WORDS(...)                                                                                           \
	(char *[])                                                                                           \
	{                                                                                                    \
		__VA_ARGS__, NULL                                                                            \
	}

TEST(exit_codes)
{
	tree_open(&tree);
	configure("");
	CHECK(run(WORDS("-v")) == 0 && says("server is not set"));
	CHECK(run(WORDS("--now")) == 1 && says("no fleet is configured"));
	CHECK(run(WORDS("--nonsense")) == 2);
	CHECK(run(WORDS("word")) == 2 && says("unexpected argument 'word'"));
	CHECK(run(WORDS("vresion")) == 2 && says("did you mean 'version'?"));
	CHECK(run(WORDS("-q", "--foldr", "x")) == 2 &&
	      says("unknown option --foldr; did you mean --folder?"));
	CHECK(run(WORDS("--foldr=x")) == 2 && says("did you mean --folder?"));
	CHECK(run(WORDS("--folder")) == 2 && says("--folder needs a value"));
	CHECK(run(WORDS("--folder", "--config", "x")) == 2 &&
	      says("--folder needs a value, but --config follows"));
	CHECK(run(WORDS("--cache", "-q")) == 2 && says("--cache needs a value, but -q follows"));
	CHECK(run(WORDS("-x")) == 2 && says("unknown option -x"));
	CHECK(run(WORDS("version")) == 0 && says("hone-sync " HONE_VERSION));
	CHECK(run(WORDS("help")) == 0 && says("usage: hone-sync"));
	CHECK(run(WORDS("--config", "/nowhere/honed.conf")) == 1 &&
	      says("there is no configuration /nowhere/"));
	configure("servre = x\n");
	CHECK(run(NULL) == 1 && says("no such key"));
	configure_server(tree.www);
	CHECK(run(WORDS("--status")) == 1 && says(tree.state) && says("holds no result of a run"));
	CHECK(run(WORDS("--now", "-v")) == 0 && says("; 1 blob, 3 records taken, choices for 0 models"));
	CHECK(tree_has(&tree, 0, 3) == 3);
	CHECK(run(WORDS("--now")) == 0 && says(": nothing new to take\n")); /* by hand it says so */
	CHECK(run(WORDS("--status", "--json")) == 0 && says("\"good\":true"));
	struct stat st;
	CHECK(run(WORDS("--now", "-q")) == 0 && stat(tree_path(&tree, "said"), &st) == 0 && st.st_size == 0);
	char upload[300];
	snprintf(upload, sizeof upload, "server = %s\nupload = yes\n", tree.www);
	configure(upload);
	CHECK(run(WORDS("--now")) == 0 && says(": nothing new to take; 0 records sent\n"));
	configure_server(tree.www);
	CHECK(run(WORDS("-v")) == 0 && says("the next run is due in"));
	CHECK(run(NULL) == 0 && says("--now does not wait"));
	/* A terminal that the user's service manager started is a person's; the journal is not. */
	char journal[64];
	setenv("INVOCATION_ID", "0123", 1);
	CHECK(run(NULL) == 0 && says("--now does not wait"));
	CHECK(stat(tree_path(&tree, "said"), &st) == 0);
	snprintf(journal, sizeof journal, "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", journal, 1);
	CHECK(run(NULL) == 0 && stat(tree_path(&tree, "said"), &st) == 0 && st.st_size == 0);
	unsetenv("JOURNAL_STREAM");
	unsetenv("INVOCATION_ID");
	CHECK(run(WORDS("--status", "--json")) == 0 && says("\"serial\":5"));
	configure_server("https://127.0.0.1:1");            /* nobody listens there */
	CHECK(run(WORDS("--now")) == 1 && says("reached")); /* a run by the timer does not report this */
	CHECK(says("does hone-fleet serve run there, and is server in [sync] right? ("));
	CHECK(!finds(": root/2: "));                        /* the address names the file */
	tree_write(&tree, tree_snapshot_name(&tree), "x", 1);
	configure_server(tree.www);
	CHECK(run(WORDS("--now")) == 1 && says("snapshot"));
	tree_close(&tree);
}

/* The timer's next run is due now. */
static void make_due(void)
{
	struct arena a = {0};
	struct blob b;
	REQUIRE_OK(file_read(&a, tree_path(&tree, "state/sync.json"), 0, &b));
	char *text = arena_strndup(&a, b.p, b.n), *at = strstr(text, "\"next_ns\":");
	REQUIRE(at);
	memset(at + 10, ' ', strcspn(at + 10, ",}"));
	at[10] = '0';
	tree_write(&tree, "state/sync.json", text, b.n);
	arena_free(&a);
}

/* If no run is due, both programs say that the last one failed. hone sync fails then; hone-sync does not,
 * because a timer starts it. Times have the units of hone status. Nobody is told to do what was just done. */
TEST(a_failed_run_is_told_until_the_next)
{
	static const char now[] = "Next: hone sync --now";
	char next[300];
	tree_open(&tree);
	snprintf(next, sizeof next, "/hone status --cache %s\n",
		 tree.cache); /* hone was called by its path */
	configure_server(tree.www);
	CHECK(run_hone(WORDS("--now")) == 0 && says("last run   good") && says(next) && !finds(now));
	CHECK(run_hone(NULL) == 0 && says("sync --now --config ") && !finds("failed"));
	tree_write(&tree, tree_snapshot_name(&tree), "x", 1);
	CHECK(run_hone(WORDS("--now")) == 1 && says("last run   failed: ") && !finds("Next: "));
	CHECK(run_hone(NULL) == 1 && says("last run   failed: ") && says("correct the cause"));
	CHECK(says("sync --now --config ") && !finds(" 0 min") && !finds("hone-sync: the "));
	CHECK(run_hone(WORDS("--json")) == 1 && says("\"good\":false"));
	for (int hours = 1; hours < 5; hours++) {
		char in[64];
		struct sync_state s;
		REQUIRE_OK(state_open(&s, tree.state));
		s.pace.next_ns = state_use(&s, &(struct sync_now){.clock = &clock_real, .boot = s.boot}) +
				 hours * 3600 * NS_PER_S + 60 * NS_PER_S;
		REQUIRE_OK(state_save(&s));
		state_free(&s);
		snprintf(in, sizeof in, " in %d %s", hours == 1 ? 61 : hours, hours == 1 ? "min" : "h");
		CHECK(run(NULL) == 0 && says("hone-sync: the last run failed: ") && says(in));
		CHECK(says("when you have corrected the cause, --now does not wait for it"));
		CHECK(run_hone(NULL) == 1 && says(in));
	}
	tree_publish(&tree);
	CHECK(run_hone(WORDS("--now")) == 0 && says(next));
	CHECK(run(NULL) == 0 && says("the next run is due in") && !finds("failed"));
	/* A board may be offline for years. */
	configure_server("https://127.0.0.1:1");
	CHECK(run_hone(WORDS("--now")) == 1 && says("offline"));
	CHECK(run_hone(NULL) == 0 && says("last run   offline"));
	CHECK(run(NULL) == 0 && says("the next run is due in") && !finds("failed"));
	/* A folder that was taken from is not advised again. */
	configure("");
	CHECK(run_hone(WORDS("--folder", tree.www)) == 0 && says(next) && !finds("a stick"));
	CHECK(run_hone(NULL) == 0 && says("hone sync --folder DIR"));
	tree_close(&tree);
}

/* Like every program, hone-sync prints words for people and, with --json, one object for programs: of a run,
 * of the last one, and of what fails. Words for people go to standard error then. */
static json_t *object(void)
{
	struct arena a = {0};
	struct blob b;
	CHECK_OK(file_read(&a, tree_path(&tree, "said"), 0, &b));
	char *text = arena_strndup(&a, b.p, b.n);
	char *at = !strncmp(text, "{", 1) ? text : strstr(text, "\n{");
	json_t *j = at ? json_loads(at, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
	if (!j)
		printf("no JSON: %s\n", text);
	arena_free(&a);
	CHECK(j);
	return j;
}

static const char *text_of(const json_t *j, const char *key)
{
	const char *text = json_string_value(json_object_get(j, key));
	return text ? text : "";
}

TEST(words_for_people_and_json_for_programs)
{
	tree_open(&tree);
	configure_server(tree.www);
	CHECK(run(WORDS("--status", "--json")) == 1 && says("holds no result of a run"));
	json_t *j = object();
	CHECK(json_integer_value(json_object_get(j, "exit")) == 1);
	CHECK(!strcmp(text_of(j, "code"), "not found"));
	json_decref(j);
	CHECK(run(WORDS("--now", "--json")) == 0);
	j = object();
	json_page_check("hone-sync", j);
	CHECK(json_is_true(json_object_get(j, "good")) &&
	      json_integer_value(json_object_get(j, "taken")) == 3);
	json_decref(j);
	CHECK(run(WORDS("--status")) == 0 && says("last run   good\n") && says("fleet      serial 5\n"));
	CHECK(says("all runs   3 records taken") && !finds("{"));
	CHECK(run(WORDS("--status", "--json", "-q")) == 0);
	j = object();
	json_page_check("hone-sync", j);
	json_decref(j);
	setenv("COLUMNS", "40", 1);
	CHECK(run(WORDS("--status")) == 0 && says("taken, choices for\n           0 models"));
	unsetenv("COLUMNS");
	CHECK(run(WORDS("--json", "--nonsense")) == 2);
	j = object();
	CHECK(!strcmp(text_of(j, "code"), "usage"));
	json_decref(j);
	CHECK(run(WORDS("version", "--json")) == 0);
	j = object();
	json_page_check("hone-sync version", j);
	json_decref(j);
	static const char early[] = "{\"ran_s\":1,\"error\":\"two\\nlines\"}"; /* before there was a key */
	tree_write(&tree, "state/sync.json", early, sizeof early - 1);
	CHECK(run(WORDS("--status")) == 0 && says("failed: two?lines\n") &&
	      says("board      no id yet (joins as "));
	tree_write(&tree, tree_snapshot_name(&tree), "x", 1);
	CHECK(run(WORDS("--now", "--json")) == 1 && says("hone-sync: error: "));
	j = object();
	CHECK(strstr(text_of(j, "error"), "snapshot"));
	json_decref(j);
	CHECK(run(WORDS("--status")) == 0 && says("last run   failed: "));
	tree_close(&tree);
}

/* A run of a revoked board takes, and fails with one error: by hand always, by the timer for a new snapshot.
 */
TEST(a_revoked_board_fails)
{
	char board[1][KEY_ID_HEX + 1];
	tree_open(&tree);
	configure_server(tree.www);
	CHECK(run(WORDS("--now")) == 0);
	struct arena a = {0};
	struct blob b;
	CHECK_OK(file_read(&a, tree_path(&tree, "state/sync.json"), 0, &b));
	const char *at = strstr(b.p, "\"board\":");
	REQUIRE(at && (at = strchr(at + 8, '"')));
	snprintf(board[0], sizeof board[0], "%.*s", KEY_ID_HEX, at + 1);
	arena_free(&a);
	tree.s.board = board;
	tree.s.nboard = 1;
	for (int by_timer = 0; by_timer < 2; by_timer++) {
		tree.s.serial++;
		tree_publish(&tree);
		if (by_timer)
			make_due();
		CHECK(run(by_timer ? NULL : WORDS("--now")) == 1);
		CHECK(says("hone-sync: error: ") && says(": the fleet has revoked this board: "));
		CHECK(!finds("error: hone-sync: "));
	}
	CHECK(run(WORDS("--now")) == 1 && says("the fleet has revoked this board"));
	CHECK(run(WORDS("--status", "--json")) == 0 && says("\"good\":false") &&
	      says("\"error\":\"the fleet has revoked "));
	CHECK(run(NULL) == 0);
	tree.s.nboard = 0;
	tree.s.serial++;
	tree_publish(&tree);
	CHECK(run(WORDS("--now")) == 0);
	CHECK(run(WORDS("--status", "--json")) == 0 && says("\"good\":true") && says("\"error\":null"));
	tree_close(&tree);
}

/* A run that fails says first what it took before. */
TEST(a_failed_run_tells_what_it_took)
{
	char text[400];
	tree_open(&tree);
	struct web w = {.dir = tree.www};
	web_start(&w);
	snprintf(text, sizeof text, "server = %s\ntoken = %s\n", w.url, tree_path(&tree, "no-token"));
	configure(text);
	CHECK(run(WORDS("--now")) == 1 && says("token in [sync]"));
	CHECK(says(": 3 records taken, which this board times before it uses them\n"));
	CHECK(run(WORDS("--now")) == 1 && says("token in [sync]") && !finds("taken") &&
	      !finds("nothing new"));
	web_stop(&w);
	configure_server(tree.www);
	tree_add_records(&tree, 3, 5);
	struct snapshot_blob *last = tree_add_records(&tree, 5, 6);
	tree.s.serial++;
	tree_publish(&tree);
	CHECK(unlink(tree_path(&tree, tree_blob_name(last))) == 0);
	CHECK(run(WORDS("--now")) == 1 && says(": 2 records taken, which this board times") &&
	      says("error: "));
	tree_close(&tree);
}

/* Without --wait it gives up after 5 s. */
TEST(a_locked_cache_is_waited_for)
{
	tree_open(&tree);
	configure_server(tree.www);
	CHECK(run(WORDS("--wait=soon")) == 2 && says("--wait: 'soon' is not a duration"));
	pid_t pid = hold_cache(tree.cache, 11000);
	CHECK(run(WORDS("--now")) == 1 && says("in use by process") && says("hone-sync wait with --wait"));
	int64_t from_ns = clock_now(&clock_real);
	CHECK(run(WORDS("--now", "--wait=1s")) == 1 && says("in use by process"));
	int64_t waited_ns = clock_now(&clock_real) - from_ns;
	CHECK(waited_ns >= NS_PER_S && waited_ns < 3 * NS_PER_S);
	CHECK(run(WORDS("--now", "--wait=1m", "-v")) == 0);
	CHECK(says("waiting until it ends") && says("3 records taken"));
	CHECK(status_of(pid) == 0);
	/* A signal ends the wait. */
	pid = hold_cache(tree.cache, 60000);
	pid_t waits = start(false, WORDS("--now", "--wait"));
	usleep(300000);
	kill(waits, SIGTERM);
	from_ns = clock_now(&clock_real);
	CHECK(status_of(waits) == 1 && clock_now(&clock_real) - from_ns < 3 * NS_PER_S);
	kill(pid, SIGKILL);
	CHECK(status_of(pid) == -SIGKILL);
	tree_close(&tree);
}

/* No other folder takes the place of a cache that hone-sync may not write. */
TEST(a_cache_of_another_user)
{
	char home[256];
	tree_open(&tree);
	configure_server(tree.www);
	snprintf(home, sizeof home, "%s", tree_path(&tree, "home"));
	CHECK_OK(file_mkdirs(home, 0777));
	CHECK_OK(file_mkdirs(tree.cache, 0755));
	CHECK_OK(file_mkdirs(tree.state, 0755));
	CHECK(chmod(home, 0777) == 0 && chmod(tree.cache, 0555) == 0);
	if (geteuid() == 0) /* hone-sync switches to the state folder's owner */
		CHECK(chmod(tree.dir, 0755) == 0 && chown(tree.state, 65534, 65534) == 0);
	setenv("XDG_CACHE_HOME", home, 1);
	CHECK(run(WORDS("--now")) == 1 && says("start it") && says("with --cache") &&
	      says("cannot write to it (Permission denied)"));
	CHECK(rmdir(home) == 0);
	unsetenv("XDG_CACHE_HOME");
	CHECK(chmod(tree.cache, 0755) == 0);
	tree_close(&tree);
}

/* A user without root needs no state folder beforehand, and is told the cause if none can be made or written.
 */
TEST(a_user_gets_a_state_folder)
{
	if (geteuid() != 0)
		SKIP("not root: there is no other user");
	tree_open(&tree);
	configure_server(tree.www);
	char cmd[600];
	snprintf(cmd, sizeof cmd, "chmod -R a+rX %s && mkdir -p %s && chown -R 65534 %s %s", tree.dir,
		 tree.cache, tree.cache, tree.dir);
	REQUIRE(system(cmd) == 0);
	nobody = true;
	CHECK(run_hone(WORDS("--now")) == 0 && says("last run   good"));
	CHECK(run_hone(WORDS("--now")) == 0 && says("last run   good") && tree_has(&tree, 0, 3) == 3);
	CHECK(chmod(tree.state, 0555) == 0); /* its own, but not to be written */
	CHECK(run_hone(WORDS("--now")) == 1 && says("cannot write into ") && !finds("another user"));
	CHECK(chmod(tree.state, 0755) == 0 && chown(tree.state, 0, 0) == 0);
	CHECK(run_hone(WORDS("--now")) == 1 && says(" belongs to another user; start hone sync as root"));
	snprintf(cmd, sizeof cmd, "rm -r %s && chown 0 %s && chmod 755 %s", tree.state, tree.dir, tree.dir);
	REQUIRE(system(cmd) == 0);
	CHECK(run_hone(WORDS("--now")) == 1 &&
	      says("for the state of hone-sync; name another folder with state ="));
	CHECK(!finds("another user"));
	nobody = false;
	tree_close(&tree);
}

/* hone tune without root keeps its records in the user's own cache, and hone sync uses honed's. */
TEST(names_the_users_own_cache)
{
	static const char said[] = "which holds no records; your own cache has some: to use that, --cache ";
	tree_open(&tree);
	configure_server(tree.www);
	char own[256];
	snprintf(own, sizeof own, "%s", tree_path(&tree, "home/hone"));
	setenv("XDG_CACHE_HOME", tree_path(&tree, "home"), 1);
	CHECK(run_hone(WORDS("--now")) == 0 && !finds(said));                 /* it is empty, too */
	CHECK(run_hone(WORDS("--now", "--cache", own)) == 0 && !finds(said)); /* it is the one that is used */
	CHECK(run_hone(WORDS("--now")) == 0 && !finds(said));                 /* both have records */
	char cmd[300];
	snprintf(cmd, sizeof cmd, "rm -r %s", tree.cache);
	REQUIRE(system(cmd) == 0);
	CHECK(run_hone(WORDS("--now")) == 0 && says(said) && says(own));
	unsetenv("XDG_CACHE_HOME");
	tree_close(&tree);
}

/* A folder of other files gets no cache, neither one that is configured nor one that is named. */
TEST(a_folder_of_other_files_gets_no_cache)
{
	char other[256];
	tree_open(&tree);
	tree_write(&tree, "other/picture.jpg", "x", 1);
	snprintf(other, sizeof other, "%s", tree_path(&tree, "other"));
	configure_server(tree.www);
	CHECK(run(WORDS("--now", "--cache", other)) == 2);
	CHECK(says(other) &&
	      says(" holds other files, and none of a cache: name a cache's folder, or a new"));
	CHECK(run_hone(WORDS("--now", "--cache", other)) == 1 && says("holds other files"));
	snprintf(tree.cache, sizeof tree.cache, "%s/other", tree.dir);
	configure_server(tree.www);
	CHECK(run(WORDS("--now")) == 1 && says("error: cache: ") && says("holds other files"));
	CHECK(rmdir(other) < 0 && unlink(tree_path(&tree, "other/picture.jpg")) == 0 && rmdir(other) == 0);
	/* a new folder and an empty one do */
	CHECK(run(WORDS("--now")) == 0 && says("3 records taken"));
	CHECK_OK(file_mkdirs(tree_path(&tree, "empty"), 0755));
	CHECK(run(WORDS("--now", "--cache", (char *)(uintptr_t)tree_path(&tree, "empty"))) == 0);
	CHECK(run(WORDS("--now", "--cache", (char *)(uintptr_t)tree_path(&tree, "empty"))) == 0);
	tree_close(&tree);
}

/* A stick replaces the server. */
TEST(sync_from_a_folder)
{
	tree_open(&tree);
	configure("");
	CHECK(run(WORDS("--folder", tree.www)) == 0 && says("3 records taken") && tree_has(&tree, 0, 3) == 3);
	CHECK(run(WORDS("--folder", "/nowhere/at/all")) == 1 && says("/nowhere/at/all"));
	/* Folders without a fleet's files are refused, and the result of the good run is kept. */
	CHECK_OK(file_mkdirs(tree_path(&tree, "pictures/2024"), 0700));
	CHECK(run(WORDS("--folder", (char *)(uintptr_t)tree_path(&tree, "pictures"))) == 1 &&
	      says("no fleet's files are in "));
	CHECK(run(WORDS("--folder", tree.image)) == 1 && says("is not a folder"));
	CHECK(run(WORDS("--status", "--json")) == 0 && says("\"serial\":5") && says("\"good\":true"));
	tree_close(&tree);
}

/* hone show lists the records; a model's choices, which come with them, are named apart. */
TEST(choices_are_no_records)
{
	struct arena a = {0};
	struct buf lines = {0};
	tree_open(&tree);
	struct rec r[3] = {tree_rec(&tree, 0), tree_rec(&tree, 5), tree_rec(&tree, 6)};
	configure_server(tree.www);
	CHECK(run(WORDS("--now")) == 0 && says(": 3 records taken, which this board times"));
	tree_line(&r[1], &lines);
	tree_line(&r[2], &lines);
	buf_puts(&lines, record_choices_line(&a, hash_text("model"), r[0].target_key, "hone-choices 1\n"));
	buf_puts(&lines, "\n");
	tree_add_blob(&tree, buf_str(&lines));
	tree.s.serial++;
	tree_publish(&tree);
	CHECK(run(WORDS("--now")) == 0 &&
	      says(": 2 records and choices for 1 model taken, which this board"));
	CHECK(tree_has(&tree, 5, 7) == 2);
	buf_clear(&lines);
	buf_puts(&lines, record_choices_line(&a, hash_text("other"), r[0].target_key, "hone-choices 1\n"));
	buf_puts(&lines, "\n");
	tree_add_blob(&tree, buf_str(&lines));
	tree.s.serial++;
	tree_publish(&tree);
	CHECK(run(WORDS("--now")) == 0 && says(": choices for 1 model taken, which this board"));
	CHECK(run(WORDS("--status", "--json")) == 0 && says("\"taken\":5,\"choices\":2,"));
	buf_free(&lines);
	arena_free(&a);
	tree_close(&tree);
}

TEST(a_turn_is_waited_for)
{
	tree_open(&tree);
	configure_server(tree.www);
	CHECK(run(NULL) == 0); /* the first run waits for a random time */
	CHECK(run(WORDS("--status", "--json")) == 0 && says("\"next_s\":"));
	tree_close(&tree);
}

/* A pack signed by a fleet key is taken once; one signed by a stranger is refused. Neither needs a server. */
TEST(packs_of_the_watched_folder)
{
	struct cache *c;
	struct pack_about about;
	char pack[256], other[256], text[300];
	tree_open(&tree);
	CHECK_OK(file_mkdirs(tree_path(&tree, "stick"), 0700));
	CHECK_OK(file_mkdirs(tree_path(&tree, "made"), 0700));
	snprintf(pack, sizeof pack, "%s", tree_path(&tree, "stick/some.seg"));
	snprintf(other, sizeof other, "%s", tree_path(&tree, "stick/other.seg"));
	CHECK_OK(cache_open(&c, tree_path(&tree, "made"), false, 0));
	for (int i = 0; i < 4; i++) {
		struct rec r = tree_rec(&tree, i);
		CHECK_OK(cache_put_rec(c, &r));
	}
	CHECK(cache_pack(c, pack, false) >= 4 && cache_pack(c, other, false) >= 4);
	cache_close(c);
	CHECK_OK(pack_describe(pack, &about));
	CHECK_OK(pack_sign(other, &about, tree.stranger));
	snprintf(text, sizeof text, "watch = %s\n", tree_path(&tree, "stick"));
	configure(text);
	CHECK(run(NULL) == 0 && says("0 packs taken, 1 refused") && tree_has(&tree, 0, 4) == 0);
	CHECK_OK(pack_sign(pack, &about, tree.fleet));
	CHECK(run(NULL) == 0 && says("1 pack taken, 0 refused") && tree_has(&tree, 0, 4) == 4);
	CHECK(run(WORDS("-q")) == 0);
	tree_close(&tree);
}

/* Returns VmHWM in KiB when it ends; 0: it cannot be traced here. */
static long peak_of(pid_t pid, int *rc)
{
	long peak = 0;
	int status;
	*rc = -1;
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		return 0;
	if (ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)PTRACE_O_TRACEEXIT) < 0)
		return 0;
	for (int sig = 0;; sig = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status)) {
		ptrace(PTRACE_CONT, pid, NULL, (void *)(intptr_t)sig);
		if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
			break;
		if (status >> 8 == (SIGTRAP | (PTRACE_EVENT_EXIT << 8))) {
			char path[64], line[128];
			snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
			FILE *f = fopen(path, "re");
			while (f && fgets(line, sizeof line, f))
				(void)sscanf(line, "VmHWM: %ld", &peak);
			if (f)
				fclose(f);
		}
	}
	*rc = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	return peak;
}

/* The largest blob of records, and nearly the largest snapshot. */
static void publish_much(void)
{
	struct buf lines = {0}, one = {0};
	struct rec r = tree_rec(&tree, 7);
	tree_line(&r, &one);
	while (lines.n + one.n < SNAPSHOT_BLOB)
		buf_add(&lines, one.p, one.n);
	tree_add_blob(&tree, buf_str(&lines));
	tree.s.record = calloc(SNAPSHOT_REVOKED, sizeof *tree.s.record);
	tree.s.nrecord = SNAPSHOT_REVOKED;
	tree.s.serial++;
	tree_publish(&tree);
	buf_free(&lines);
	buf_free(&one);
}

TEST(memory)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	SKIP("a sanitizer needs memory of its own");
#endif
	tree_open(&tree);
	struct web w = {.dir = tree.www};
	web_start(&w);
	publish_much();
	configure_server(w.url);
	int rc;
	long much = peak_of(start(true, WORDS("--now")), &rc);
	CHECK(rc == 0 && tree_has(&tree, 7, 8) == 1);
	long nothing = peak_of(start(true, WORDS("--now")), &rc);
	CHECK(rc == 0);
	web_stop(&w);
	free(tree.s.record);
	tree_close(&tree);
	if (!much)
		SKIP("hone-sync cannot be traced here");
	printf("peak of memory: %ld KiB with 4 MiB of records, %ld KiB with nothing new\n", much, nothing);
	CHECK(much <= 20 << 10 && nothing > 0 && nothing <= 20 << 10);
}

/* After being killed at any moment of a run, the next run is good and complete. */
TEST(kills)
{
	tree_open(&tree);
	configure_server(tree.www);
	int64_t from_ns = clock_now(&clock_real);
	CHECK(run(WORDS("--now")) == 0);
	int64_t cycle_ns = clock_now(&clock_real) - from_ns;
	struct rng rng;
	rng_seed(&rng, 5);
	int killed = 0, in_time = 0;
	for (int i = 0; i < 100 && !test_bad; i++) {
		tree.s.nblob = 1;
		tree_add_records(&tree, 3 + 2 * i, 5 + 2 * i);
		tree.s.serial++;
		tree_publish(&tree);
		pid_t pid = start(false, WORDS("--now"));
		clock_real.sleep(&clock_real, (int64_t)(rng_unit(&rng) * 1.1 * (double)cycle_ns));
		kill(pid, SIGKILL);
		int rc = status_of(pid);
		killed += rc == -SIGKILL;
		in_time += rc == 0;
		CHECK(run(WORDS("--now")) == 0 && tree_has(&tree, 3 + 2 * i, 5 + 2 * i) == 2);
	}
	CHECK(tree_has(&tree, 0, 3 + 200) == 203);
	CHECK(killed + in_time == 100);
	printf("%d of 100 runs were killed\n", killed);
	tree_close(&tree);
}

TEST(asked_to_end)
{
	tree_open(&tree);
	struct web w = {.dir = tree.www};
	web_start(&w);
	char text[128];
	snprintf(text, sizeof text, "server = %s\nrate = 1K\n", w.url); /* it would take a minute */
	publish_much();
	configure(text);
	pid_t pid = start(false, WORDS("--now"));
	for (int i = 0; i < 5000 && atomic_load(&w.asked) < 3; i++)
		clock_real.sleep(&clock_real, NS_PER_MS);
	kill(pid, SIGTERM);
	CHECK(status_of(pid) == 1 && says("stop"));
	web_stop(&w);
	free(tree.s.record);
	tree_close(&tree);
}

/* Completion that `make install` writes has the options of the help, and completes their values. */
TEST(completion)
{
	static const char *const cases[][3] = {{"hone-sync", "--st", "--status"},
					       {"hone-sync", "he", "help"},
					       {"hone-sync", "--now he", ""},
					       {"hone-sync", "--folder fo", "folder"},
					       {"hone-sync", "--folder = fo", "folder"},
					       {"hone-sync", "--config fi", "file.conf"},
					       {"hone-sync", "--socket fi", "file.conf"},
					       {"honed", "--bo", "--boot"},
					       {"honed", "--budget 2", ""},
					       {"honed", "--run fo", "folder"}};
	char at[] = "/tmp/hone-complete-XXXXXX", cmd[2048];
	if (system("command -v bash >/dev/null") != 0)
		SKIP("no bash");
	REQUIRE(mkdtemp(at));
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *name = cases[i][0], *words = cases[i][1];
		snprintf(cmd, sizeof cmd,
			 "mkdir -p %s/folder && : >%s/file.conf && %s --help | sh tools/build/complete.sh %s "
			 ">%s/by",
			 at, at, program(name), name, at);
		CHECK(system(cmd) == 0);
		snprintf(cmd, sizeof cmd,
			 "cd %s && bash -c 'n=%s; . ./by; COMP_WORDS=($n %s); "
			 "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); "
			 "_${n//-/_}; [ \"${COMPREPLY[*]}\" = \"%s\" ] || { echo \"$n %s: ${COMPREPLY[*]}\"; "
			 "false; }'",
			 at, name, words, cases[i][2], words);
		CHECK(system(cmd) == 0);
	}
	snprintf(cmd, sizeof cmd, "rm -rf %s", at);
	CHECK(system(cmd) == 0);
}

TEST_MAIN
