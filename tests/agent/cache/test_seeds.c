/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the seeds from a cache: candidates found for a task elsewhere, and for tasks of its kind. */
#include "agent/cache/hint.h"
#include "agent/cache/seeds.h"
#include "kernels/task/task.h"
#include "tests/lib/board_cache.h"
#include "tests/lib/tasks.h"

/* lanes: of the record's board; the job's has 8. */
static struct rec make_rec(const char *text, enum rec_kind kind, const char *cand, int64_t ns, int lanes)
{
	struct target t = target;
	t.lanes = lanes;
	struct rec r = {.task = hash_text(text),
			.kind = (int)kind,
			.target_key = target_key(&t),
			.device = "cpu",
			.emitter = "llvm-19/1",
			.threads = 4,
			.meas = {.status = MEAS_OK, .runs = 3, .min_ns = ns, .median_ns = ns},
			.task_text = text,
			.label = "x"};
	snprintf(r.cand, sizeof r.cand, "%s", cand);
	snprintf(r.target, sizeof r.target, "%s %s %d", t.soc, t.isa, t.lanes);
	return r;
}

static void put(const char *text, const char *cand, int64_t ns, int lanes)
{
	const struct rec r = make_rec(text, REC_BEST, cand, ns, lanes);
	CHECK_OK(cache_put_rec(cache, &r));
}

static void put_own(const char *cand, int threads, enum level level, int64_t ns, int lanes)
{
	struct rec r = make_rec(task_conv, REC_BEST, cand, ns, lanes);
	r.threads = threads;
	r.level = level;
	CHECK_OK(cache_put_rec(cache, &r));
}

/* Checks the seeds "cand/lanes+..." of a job with a softmax and the task: + marks another task's seed. */
static void check_seeds(const char *text, const char *incumbent, enum level level, const char *want)
{
	struct arena a = {0};
	char got[256] = "";
	struct job_task job[2] = {{.text = task_softmax}, {.text = text, .incumbent = incumbent}};
	REQUIRE_OK(cache_seeds(cache, &target, 4, level, &a, 2, job));
	CHECK(job[0].nseeds == 0);
	for (int i = 0; i < job[1].nseeds; i++) {
		const struct job_seed *s = &job[1].seed[i];
		size_t n = strlen(got);
		snprintf(got + n, sizeof got - n, "%s%s%s", i ? "," : "", s->cand, s->task ? "+" : "");
		n = strlen(got);
		if (s->lanes)
			snprintf(got + n, sizeof got - n, "/%d", s->lanes);
	}
	if (strcmp(got, want))
		printf("seeds %s, wanted %s\n", got, want);
	CHECK(!strcmp(got, want));
	arena_free(&a);
}

TEST(distinct_and_the_best_come_first)
{
	open_cache();
	check_seeds(task_conv, NULL, false, "");
	put_own("far", 4, false, 10, 16);
	put_own("farther", 4, false, 20, 32); /* no board has this number of lanes */
	check_seeds(task_conv, NULL, false, "far/16,farther");
	put_own("one", 1, false, 400, 8);
	put_own("two", 2, false, 900, 8);
	put_own("three", 3, true, 500, 8);
	check_seeds(task_conv, NULL, false, "three,two,one,far/16");
	put_own("five", 5, false, 300, 8); /* as near as three, and faster */
	check_seeds(task_conv, NULL, false, "five,three,two,one");
	put_own("one", 4, false, 100, 8); /* a record for fewer threads has it already */
	check_seeds(task_conv, NULL, false, "one,five,three,two");
	check_seeds(task_conv, "one", false, "five,three,two,far/16");
	check_seeds(task_conv, NULL, true, "three");
	struct rec failed = make_rec(task_conv, REC_BEST, "wrong", 1, 8);
	failed.level = true;
	failed.meas.status = MEAS_WRONG;
	CHECK_OK(cache_put_rec(cache, &failed)); /* replaces the record "none": threads 4, exact */
	check_seeds(task_conv, NULL, true, "three");
	close_cache();
}

TEST(other_shapes)
{
	open_cache();
	put(task_conv, "another kind", 5, 8);
	put(task_product(200), "large", 5, 8);
	check_seeds(task_matmul, NULL, false, "large+");
	put(task_product(20), "middle", 500, 8);
	check_seeds(task_matmul, NULL, false, "middle+,large+");
	put(task_product(10), "small", 500, 8);
	check_seeds(task_matmul, NULL, false, "small+,middle+");
	put(task_product(14), "own", 500, 8);
	check_seeds(task_product(14), NULL, false, "own,small+,middle+");
	check_seeds(task_product(14), "own", false, "small+,middle+");
	close_cache();
}

/* The board's own seeds come first; a default schedule that won is no seed. */
TEST(other_boards_and_defaults)
{
	open_cache();
	put(task_product(13), "wide", 1, 16);
	put(task_product(13), "narrow", 1, 4);
	check_seeds(task_matmul, NULL, false, "wide+/16,narrow+/4");
	put(task_product(99), "here", 1, 8);
	check_seeds(task_matmul, NULL, false, "here+,wide+/16");
	struct rec standard = make_rec(task_product(99), REC_DEFAULT, "here", 1, 8);
	standard.threads = 1;
	CHECK_OK(cache_put_rec(cache, &standard));
	check_seeds(task_matmul, NULL, false, "wide+/16,narrow+/4");
	close_cache();
}

static void hint(const char *text, const char *cand, int threads, int lanes)
{
	struct rec r = make_rec(text, REC_BEST, cand, 1, lanes);
	r.threads = threads;
	CHECK(hint_put(cache, &r) == HINT_OPEN);
}

/* Strangers' hints come first, once, whatever time they claim; another task's hint is no seed here. */
TEST(hints)
{
	open_cache();
	put(task_product(14), "own", 500, 8);
	hint(task_product(14), "hint", 4, 8);
	check_seeds(task_product(14), "own", false, "hint");
	check_seeds(task_product(14), "hint", false, "own");
	check_seeds(task_product(14), "own", true, "");
	struct arena a = {0};
	struct job_task job = {.text = task_product(14), .incumbent = "x"};
	CHECK_OK(cache_seeds(cache, &target, 4, false, &a, 1, &job));
	CHECK(job.nseeds == 2 && job.seed[0].foreign && !job.seed[1].foreign); /* no box here has tried it */
	arena_free(&a);
	hint(task_product(14), "of one thread", 1, 8);
	check_seeds(task_product(14), "own", false, "hint,of one thread");
	hint(task_product(14), "of another board", 2, 16);
	check_seeds(task_product(14), "own", false, "hint,of one thread");
	check_seeds(task_product(15), NULL, false, "own+");
	struct trials l;
	trials_start(&l, hash_text(task_product(14)), task_product(14), "x");
	l.target_key = target_key(&target);
	l.threads = 4;
	l.boxes = 1;
	snprintf(l.device, sizeof l.device, "cpu");
	const struct tried t = {.cand = "hint", .status = MEAS_WRONG};
	trials_add(&l, &t, 1);
	CHECK_OK(hint_learn(cache, &l));
	check_seeds(task_product(14), "own", false, "of one thread");
	trials_free(&l);
	close_cache();
}

/* A stranger's candidate is no seed of other tasks: a false claim would cost each of them a trial. */
TEST(hints_stay_with_their_task)
{
	open_cache();
	hint(task_product(20), "claim", 4, 8);
	check_seeds(task_product(14), NULL, false, "");
	put(task_product(20), "measured", 1, 8);
	check_seeds(task_product(14), NULL, false, "measured+");
	close_cache();
}

/* Records that lie about their task, have an invalid task, or are of an unknown version. */
TEST(hostile_records)
{
	static const char *const bad[] = {
	    "", "task", "task syms=0\n", "task syms=0\noperand A in f32 [0,40] plain\n",
	    ("task syms=0\noperand A in f32 [14,40] plain\noperand C out f32 [14] plain\n"
	     "stage m:14 | k:9223372036854775807\nread A [m,k]\nbody r0\nsum\nwrite C [m]\n")};
	open_cache();
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		put(bad[i], "bad", 1, 8);
	struct rec r = make_rec(task_product(20), REC_BEST, "lie", 1, 8);
	r.task = hash_text("another text");
	CHECK_OK(cache_put_rec(cache, &r));
	r = make_rec(task_product(21), REC_BEST, "later", 1, 8);
	struct buf text = {0};
	rec_text(&r, &text);
	REQUIRE(!strncmp(buf_str(&text), "hone-rec 2", 10));
	text.p[9] = '9';
	CHECK_OK(cache_put(cache, CACHE_REC, rec_key(&r), text.p, text.n));
	check_seeds(task_matmul, NULL, false, "");
	put(task_product(22), "good", 1, 8);
	check_seeds(task_matmul, NULL, false, "good+");
	buf_free(&text);
	close_cache();
}

TEST_MAIN
