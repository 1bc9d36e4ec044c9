/* SPDX-License-Identifier: Apache-2.0 */
/* Watched searches, with a script in place of hone, and their scores. */
#include "tools/bench/trajectory.h"
#include "platform/base/file.h"
#include "tests/lib/scratch.h"
#include "tests/lib/test.h"
#include "tools/bench/score.h"
#include "tools/bench/snap.h"
#include "tools/hone/zoo.h"
#include <math.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

static int a_cpu(void)
{
	cpu_set_t set;
	int i = 0;
	if (sched_getaffinity(0, sizeof set, &set) < 0)
		return 0;
	while (i < CPU_SETSIZE - 1 && !CPU_ISSET((unsigned)i, &set))
		i++;
	return i;
}

/* A tuner that appends a line to its cache, runs `body`, and appends another line. */
static struct trajectory fake(const char *dir, const char *body)
{
	char text[1024];
	static char script[128], where[128];
	snprintf(script, sizeof script, "%s", scratch("hone"));
	snprintf(where, sizeof where, "%s", scratch(dir));
	snprintf(text, sizeof text,
		 "#!/bin/sh\necho \"$*\" >'%s/words'\n"
		 "while [ $# -gt 0 ]; do [ \"$1\" = --cache ] && c=$2; shift; done\n"
		 "mkdir -p $c\necho one >>$c/notes\n%s\necho two >>$c/notes\n"
		 "echo "
		 "'{\"strategy\":\"fake\",\"trials\":7,\"elapsed_s\":0.5,\"spent\":{\"own_ms\":20,\"state_"
		 "bytes\":9}}'\n",
		 scratch_dir, body);
	CHECK_OK(file_write(script, text, strlen(text)));
	CHECK(chmod(script, 0755) == 0);
	return (struct trajectory){.hone = script,
				   .model = "m.onnx",
				   .dir = where,
				   .seed = 3,
				   .budget_s = 30,
				   .cpu = a_cpu(),
				   .n = 2,
				   .at_s = {0.001, 30}};
}

static const char *slurp(const char *file)
{
	static struct arena a;
	struct blob b = {.p = ""};
	arena_reset(&a);
	CHECK_OK(file_read(&a, file, 0, &b));
	return b.p;
}

static const char *cache_of(const struct trajectory *t, int moment)
{
	char dir[256], file[300];
	trajectory_folder(t, moment, dir, sizeof dir);
	snprintf(file, sizeof file, "%s/notes", dir);
	return file_exists(file) ? slurp(file) : "";
}

/* A moment before the tuner's end has its cache of that time; a moment after it has everything. */
TEST(snapshots_of_a_search)
{
	struct arena a = {0};
	struct course c;
	struct trajectory t =
	    fake("watched", "while [ ! -d ${c%cache}0.001s ]; do sleep 0.01; done; sleep 0.1");
	REQUIRE_OK(trajectory_run(&t));
	CHECK(!strstr(cache_of(&t, 0), "two"));
	CHECK(!strcmp(cache_of(&t, 1), "one\ntwo\n"));
	CHECK(strstr(slurp(scratch("words")), "tune m.onnx --json -q --budget 30000ms --seed 3 --cache"));
	REQUIRE_OK(trajectory_read(&t, &a, &c));
	CHECK(!strcmp(c.strategy, "fake") && c.trials == 7 && c.elapsed_s == 0.5 && c.own_pct == 4 &&
	      c.state_bytes == 9);
	CHECK(c.n == 2 && c.moment[1].at_s == 30 && c.seed == 3);
	REQUIRE_OK(trajectory_run(&t)); /* again: begins with an empty cache */
	CHECK(!strcmp(cache_of(&t, 1), "one\ntwo\n"));
	char from[256];
	trajectory_folder(&t, 1, from, sizeof from);
	t.from = from;
	t.strategy = "anneal";
	t.level = LEVEL_EXACT;
	t.dir = scratch("further");
	REQUIRE_OK(trajectory_run(&t));
	CHECK(!strcmp(cache_of(&t, 1), "one\ntwo\none\ntwo\n"));
	CHECK(strstr(slurp(scratch("words")), "--strategy anneal --level exact"));
	arena_free(&a);
}

TEST(boxes_of_their_own)
{
	struct trajectory t = fake("boxes", "");
	t.at_s[0] = 2;
	REQUIRE_OK(trajectory_boxes(&t));
	CHECK(!strcmp(cache_of(&t, 0), "one\ntwo\n") && !strcmp(cache_of(&t, 1), "one\ntwo\n"));
	CHECK(strstr(slurp(scratch("words")), "--budget 30000ms"));
}

TEST(tuners_that_fail)
{
	struct arena a = {0};
	struct course c;
	struct trajectory t = fake("failing", "exit 3");
	CHECK_FAILS(trajectory_run(&t), E_CHILD, "m.onnx failed");
	CHECK_FAILS(trajectory_read(&t, &a, &c), E_NOTFOUND, "no such search");
	t.hone = "/nowhere/hone";
	CHECK_FAILS(trajectory_boxes(&t), E_CHILD, "failed");
	t = fake("late", "exec sleep 60");
	t.budget_s = 0.1;
	t.at_s[1] = 0.1;
	CHECK_FAILS(trajectory_run(&t), E_TIMEOUT, "did not end");
	arena_free(&a);
}

/* A search counts as done only if these programs finished it with these options. */
TEST(finished_runs_are_known_by_their_stamp)
{
	struct arena a = {0};
	struct course c;
	const char *stamp, *other;
	struct trajectory t = fake("stamped", "");
	REQUIRE_OK(trajectory_stamp(t.hone, t.hone, &a, &stamp));
	t.stamp = stamp;
	CHECK_FAILS(trajectory_read(&t, &a, &c), E_NOTFOUND, "no such search");
	REQUIRE_OK(trajectory_run(&t));
	REQUIRE_OK(trajectory_read(&t, &a, &c));
	t.level = LEVEL_EXACT;
	CHECK_FAILS(trajectory_read(&t, &a, &c), E_NOTFOUND, "no such search");
	t.level = LEVEL_FP32;
	CHECK_OK(file_write(scratch("another"), "x", 1));
	REQUIRE_OK(trajectory_stamp(t.hone, scratch("another"), &a, &other));
	CHECK(strcmp(stamp, other) != 0);
	t.stamp = other;
	CHECK_FAILS(trajectory_read(&t, &a, &c), E_NOTFOUND, "no such search");
	t.stamp = NULL;
	CHECK_OK(trajectory_read(&t, &a, &c));
	/* A new run that does not finish removes the old result. */
	fake("stamped", "exit 1");
	CHECK(trajectory_run(&t) < 0);
	CHECK_FAILS(trajectory_read(&t, &a, &c), E_NOTFOUND, "no such search");
	CHECK_FAILS(trajectory_stamp("/nowhere/hone", t.hone, &a, &other), E_NOTFOUND, "/nowhere/hone");
	arena_free(&a);
}

TEST(words_that_are_none)
{
	static const char *const said[] = {"",
					   "{}",
					   "[1]",
					   "{\"strategy\":1,\"trials\":7}",
					   "{\"strategy\":\"x\",\"trials\":-1}",
					   "{\"strategy\":\"x\",\"trials\":1e300}",
					   "{\"strategy\":\"x\"}"};
	struct arena a = {0};
	struct course c;
	struct trajectory t = fake("said", "");
	REQUIRE_OK(trajectory_run(&t));
	for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
		CHECK_OK(file_write(scratch("said/tune.json"), said[i], strlen(said[i])));
		CHECK_FAILS(trajectory_read(&t, &a, &c), E_CORRUPT, "hone tune --json");
	}
	static const char least[] = "{\"strategy\":\"x\",\"trials\":0}";
	CHECK_OK(file_write(scratch("said/tune.json"), least, strlen(least)));
	CHECK_OK(trajectory_read(&t, &a, &c));
	CHECK(isnan(c.own_pct) && isnan(c.elapsed_s));
	arena_free(&a);
}

static struct net_score scored[3];
static int score_rc;

static int run_score(const struct args *a)
{
	struct host h = {.threads = 1};
	CHECK_OK(target_host(&h.target));
	score_rc = machine_pool(1, true, &h.pool);
	if (score_rc >= 0)
		score_rc = score_run(a, a->pos[0], &h, 2, 4, 3, scored);
	host_close(&h);
	return score_rc;
}

static const struct opt score_opts[] = {OPT_LEVEL, OPT_SHAPE, {NULL}};
static const struct cmd score_cmd = {.usage = "",
				     .summary = "",
				     .details = "",
				     .max_pos = 1,
				     .opts = score_opts,
				     .run = run_score,
				     .name = "score"};

static int score(const char *model)
{
	char *argv[] = {"score", (char *)(uintptr_t)model, "-q", NULL};
	for (int i = 0; i < 3; i++)
		scored[i] =
		    (struct net_score){.cache = i < 2 ? "" : scratch("none"), .kernels = KERNELS_BEST};
	return cmd_main(&score_cmd, 3, argv);
}

/* The same kernels three times: all have equal counts, positive times, and ratios within their intervals. */
TEST(caches_against_each_other)
{
	struct graph *g;
	REQUIRE_OK(zoo_make("steering", 1, &g));
	REQUIRE_OK(export_file(g, scratch("steering.onnx")));
	graph_free(g);
	CHECK(score(scratch("steering.onnx")) == 0 && score_rc == 0);
	int kernels = 0;
	for (int o = 0; o <= FROM_HOST; o++)
		kernels += scored[0].count[o];
	CHECK(kernels > 3 && scored[0].count[FROM_CACHE] == 0);
	for (int i = 0; i < 3; i++) {
		const struct net_score *s = &scored[i];
		CHECK(!memcmp(s->count, scored[0].count, sizeof s->count));
		CHECK(s->low_ns > 0 && s->low_ns <= s->median_ns);
		CHECK(0 < s->least && s->least <= s->quality && s->quality <= s->most);
		CHECK(s->gain.low <= s->gain.median && s->gain.median <= s->gain.high && s->gain.low > 0);
	}
	CHECK(scored[0].gain.median == 1 && scored[0].quality == 1);
	CHECK(score(scratch("nothing.onnx")) == 1 && score_rc == E_NOTFOUND);
}

static int parts(const char *a, const char *b, struct score_part *p)
{
	const char *name[2][16];
	int n[2] = {0};
	static char text[2][64];
	for (int i = 0; i < 2; i++) {
		snprintf(text[i], sizeof text[i], "%s", i ? b : a);
		for (char *w = strtok(text[i], " "); w; w = strtok(NULL, " "))
			name[i][n[i]++] = w;
	}
	return score_parts(name[0], n[0], name[1], n[1], p);
}

/* Kernels with equal names form a group; a kernel that only one plan has, or has elsewhere, belongs to the
 * group before it. */
TEST(kernels_that_do_the_same)
{
	struct score_part p[16];
	CHECK(parts("a b c", "a b c", p) == 3 && p[2].a == 2 && p[2].b == 2);
	CHECK(parts("a b c d", "a d", p) == 2 && p[1].a == 3 && p[1].b == 1);
	CHECK(parts("x c", "a b c", p) == 2 && p[0].a == 0 && p[0].b == 0 && p[1].a == 1 && p[1].b == 2);
	CHECK(parts("a b", "c d", p) == 1);
	CHECK(parts("a b c", "c b a", p) == 2 && p[1].a == 1 && p[1].b == 1);
	CHECK(parts("a", "a b", p) == 1 && parts("", "", p) == 1);
}

TEST_MAIN
