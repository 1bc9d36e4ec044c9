/* SPDX-License-Identifier: Apache-2.0 */
/* hone-sync beside a honed that owns the cache, and `hone sync`: the real programs. */
#include "tests/lib/fleet_tree.h"
#include "tests/lib/hold_cache.h"
#include "tests/lib/honed.h"

static struct tree tree;

static void configure(void)
{
	char conf[1024];
	int n = snprintf(conf, sizeof conf,
			 "[idle]\ntune = no\n[sync]\nserver = %s\nstate = %s\nroot = %s\nchannel = all\n",
			 tree.www, tree.state, tree.image);
	tree_write(&tree, "honed.conf", conf, (size_t)n);
}

/* Runs a program; returns its exit status. Its output goes to `printed`. */
static int run(const char *name, const char *words)
{
	static char cmd[PATH_MAX + 2048];
	snprintf(cmd, sizeof cmd, "%s %s --config %s >%s 2>%s", program(name), words,
		 tree_path(&tree, "honed.conf"), tree_path(&tree, "printed"), tree_path(&tree, "said"));
	int status = system(cmd);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool has(const char *file, const char *text)
{
	struct arena a = {0};
	struct blob b;
	CHECK_OK(file_read(&a, tree_path(&tree, file), 0, &b));
	bool is = strstr(b.p, text) != NULL;
	if (!is)
		printf("%s: %s\n", file, (const char *)b.p);
	arena_free(&a);
	return is;
}

/* Only honed writes the records. */
TEST(through_honed)
{
	char words[512];
	tree_open(&tree);
	configure();
	REQUIRE(start_honed("[idle]\ntune = no\n", program("hone")));
	snprintf(tree.cache, sizeof tree.cache, "%s", in_folder("state/cache"));
	snprintf(words, sizeof words, "-v --now --cache %s --socket %s", tree.cache, own("run/honed.sock"));
	CHECK(run("hone-sync", words) == 0 && has("said", "sending records to honed") &&
	      has("said", "3 records taken"));
	CHECK(tree_has(&tree, 0, 3) == 3);
	/* Once more, with new records, without and with a honed. */
	tree_add_records(&tree, 3, 5);
	tree.s.serial++;
	tree_publish(&tree);
	CHECK(run("hone-sync", words) == 0 && tree_has(&tree, 0, 5) == 5);
	end_honed(SIGTERM);
	tree_add_records(&tree, 5, 6);
	tree.s.serial++;
	tree_publish(&tree);
	CHECK(run("hone-sync", words) == 0 && tree_has(&tree, 0, 6) == 6);
	tree_close(&tree);
}

TEST(sync_by_hand)
{
	char words[512];
	tree_open(&tree);
	configure();
	snprintf(words, sizeof words, "sync --cache %s", tree.cache);
	CHECK_OK(file_mkdirs(tree.state, 0755));
	CHECK(run("hone", words) == 0 && has("said", "Next: "));
	snprintf(words, sizeof words, "sync --now --json --cache %s", tree.cache);
	CHECK(run("hone", words) == 0 && has("printed", "\"serial\":5") && has("printed", "\"next_s\":"));
	CHECK(tree_has(&tree, 0, 3) == 3);
	snprintf(words, sizeof words, "sync --now --cache %s", tree.cache);
	CHECK(run("hone", words) == 0 && has("printed", "last run   good") && has("printed", "serial 5\n"));
	CHECK(has("printed", "\nall runs   3 records taken, ")); /* this run took none */
	CHECK(!has("printed", "this run"));
	/* The fleet may have renamed it, so the name is not given as the fleet's. */
	CHECK(has("printed", " (joins as "));
	tree_write(&tree, "state/cert.pem", "x", 1); /* a board that has joined, and takes files of a folder */
	snprintf(words, sizeof words, "sync --cache %s", tree.cache);
	CHECK(run("hone", words) == 0 && has("printed", " (in the fleet as "));
	CHECK(unlink(tree_path(&tree, "state/cert.pem")) == 0);
	CHECK(has("printed", access("/run/systemd/system", F_OK) == 0 ? "next run   the timer starts it in "
								      : "next run   due in "));
	/* The result of a good run is not shown as that of a run that failed before it began. */
	snprintf(words, sizeof words, "sync --folder %s --cache %s", tree.cache, tree.cache);
	CHECK(run("hone", words) == 1 && has("said", "no fleet's files are in ") &&
	      has("printed", "this run   failed before it began; below is the result of an earlier run"));
	snprintf(words, sizeof words, "sync --folder /nowhere/at/all --cache %s", tree.cache);
	CHECK(run("hone", words) == 1 && has("printed", "this run   failed before it began"));
	CHECK(has("printed", "serial 5"));
	snprintf(words, sizeof words, "sync --now --cache %s", tree.cache);
	/* --wait reaches hone-sync, which waits for the cache's lock and not for its usual 5 s. */
	pid_t holder = hold_cache(tree.cache, 60000);
	snprintf(words, sizeof words, "sync --now --wait=100ms --cache %s", tree.cache);
	int64_t from_ns = clock_now(&clock_real);
	CHECK(run("hone", words) == 1 && has("said", "waiting until it ends"));
	CHECK(has("said", "in use by process") && clock_now(&clock_real) - from_ns < 4 * NS_PER_S);
	CHECK(kill(holder, SIGKILL) == 0 && waitpid(holder, NULL, 0) == holder);
	snprintf(words, sizeof words, "sync --now --cache %s", tree.cache);
	tree_write(&tree, tree_snapshot_name(&tree), "x", 1);
	CHECK(run("hone", words) == 1 && has("printed", "failed: ") && has("said", "snapshot"));
	/* Without a server, nothing runs by itself. */
	char conf[600];
	int n = snprintf(conf, sizeof conf, "[sync]\nstate = %s\nroot = %s\nchannel = all\n", tree.state,
			 tree.image);
	tree_write(&tree, "honed.conf", conf, (size_t)n);
	tree_publish(&tree);
	snprintf(words, sizeof words, "sync --folder %s --cache %s", tree.www, tree.cache);
	CHECK(run("hone", words) == 0 && has("printed", "last run   good") && !has("printed", "next run"));
	CHECK(has("said", "hone status --cache ") && !has("said", "sync --folder DIR")); /* that was done */
	snprintf(words, sizeof words, "sync --cache %s", tree.cache); /* shows that run */
	CHECK(run("hone", words) == 0 && has("printed", "last run   good") && has("said", "--folder DIR"));
	tree_close(&tree);
}

/* The last run of a revoked board is not called good, also where a later `hone sync` shows it. */
TEST(sync_of_a_revoked_board)
{
	char words[512], board[1][KEY_ID_HEX + 1];
	struct arena a = {0};
	struct blob b;
	tree_open(&tree);
	configure();
	CHECK_OK(file_mkdirs(tree.state, 0755));
	snprintf(words, sizeof words, "sync --now --cache %s", tree.cache);
	CHECK(run("hone", words) == 0 && has("printed", "last run   good\n"));
	REQUIRE_OK(file_read(&a, tree_path(&tree, "printed"), 0, &b));
	const char *line = strstr(b.p, "\nboard      ");
	REQUIRE(line);
	snprintf(board[0], sizeof board[0], "%.*s", KEY_ID_HEX, line + 12);
	arena_free(&a);
	tree.s.board = board;
	tree.s.nboard = 1;
	tree.s.serial++;
	tree_publish(&tree);
	for (int later = 0; later < 2; later++) {
		snprintf(words, sizeof words, "sync%s --cache %s", later ? "" : " --now", tree.cache);
		CHECK(run("hone", words) == 1);
		CHECK(has("printed", "last run   failed: the fleet has revoked this board"));
	}
	tree_close(&tree);
}

TEST_MAIN
