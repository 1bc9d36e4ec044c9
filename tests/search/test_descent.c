/* SPDX-License-Identifier: Apache-2.0 */
/* Descents into a pool: the candidates that they add are legal and new, and some have faster drafts. */
#include "platform/run/dev_sim.h"
#include "platform/base/hash.h"
#include "search/descent.h"
#include "tests/lib/tasks.h"
#include "tests/lib/test.h"

#include <math.h>

static const char a_point[] = "task syms=0\noperand X in f32 [1,1] plain\noperand Y out f32 [1,1] plain\n"
			      "stage i:1 j:1\nread X [i,j]\nbody r0 0 max\nwrite Y [i,j]\n";

static struct {
	struct arena a;
	struct target t;
	struct guide guide;
	struct herd h;
	struct relax *relax;
} u;

static void open_herd(const char *text, const char *cost, uint64_t seed, int cap)
{
	struct space *s = NULL;
	memset(&u, 0, sizeof u);
	dev_sim.probe(&u.t);
	struct task *t = ARENA_NEW(&u.a, struct task);
	CHECK_OK(task_parse(text, t));
	CHECK_OK(space_make(&u.a, t, &u.t, NULL, &s));
	u.guide = (struct guide){.space = s, .cost = cost_find(cost)};
	herd_open(&u.h, &u.a, &u.guide, seed, cap);
	u.relax = relax_new(&u.a);
}

static int draw(void *ctx, char cand[CAND_MAX])
{
	(void)ctx;
	return space_random(u.guide.space, &u.h.rng, cand);
}

/* The least log of drafted time among the pool's first n. */
static double best_draft(int n)
{
	double best = INFINITY;
	for (int i = 0; i < n; i++)
		best = fmin(best, log(space_draft(u.guide.space, u.h.pool[i].cand)));
	return best;
}

static void check_pool(void)
{
	for (int i = 0; i < u.h.npool; i++) {
		CHECK_OK(space_legal(u.guide.space, u.h.pool[i].cand));
		CHECK(!herd_knows(&u.h, u.h.pool[i].cand));
		for (int k = 0; k < i; k++)
			CHECK(strcmp(u.h.pool[i].cand, u.h.pool[k].cand) != 0);
	}
}

static double log_draft(int i)
{
	return log(space_draft(u.guide.space, u.h.pool[i].cand));
}

/* Leaves only the slowest of n draws in the pool. */
static void fill_with_slowest(int n)
{
	char worst[CAND_MAX] = "", cand[CAND_MAX];
	double most = 0;
	for (int i = 0; i < n; i++) {
		CHECK_OK(draw(NULL, cand));
		double ns = space_draft(u.guide.space, cand);
		if (ns > most)
			strcpy(worst, cand);
		most = fmax(most, ns);
	}
	member_set(&u.h, &u.h.spare, worst);
	CHECK(herd_add(&u.h, &u.h.spare));
}

/* By how much the log of drafted time falls from a slow candidate to the last two points of its path. */
static double path_falls(const char *text, uint64_t seed)
{
	open_herd(text, "draft", seed, 512);
	fill_with_slowest(24);
	descend(&u.h, u.relax, 1, DESCENT_STEPS);
	int n = u.h.npool;
	double fall = n > 2 ? log_draft(0) - (log_draft(n - 1) + log_draft(n - 2)) / 2 : 0;
	arena_free(&u.a);
	return fall;
}

/* The sign of the gradient. The first steps are large and overshoot, so a path ends about where it began
 * (-0.02 on average). With the gradient of the penalties reversed it ends at -0.4, with that of the cost
 * reversed at -0.8, with both at -0.6: the best points of such long paths are no worse than others, so only
 * the ends of paths show it. */
TEST(paths_do_not_lead_uphill)
{
	enum { SEEDS = 40 };
	static const char *const texts[] = {task_conv, task_matmul, task_dense};
	double fall = 0;
	for (int i = 0; i < 3; i++)
		for (uint64_t seed = 1; seed <= SEEDS; seed++)
			fall += path_falls(texts[i], seed) / 3 / SEEDS;
	if (fall <= -0.2)
		printf("the log of time rises by %.3f along a path\n", -fall);
	CHECK(fall > -0.2);
}

/* Starts from two draws: from many, little can be gained in spaces as small as these. */
TEST(downhill)
{
	enum { SEEDS = 8 };
	static const char *const texts[] = {task_conv, task_matmul, task_softmax};
	for (int i = 0; i < 3; i++) {
		double gain = 0;
		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			open_herd(texts[i], "draft", seed, 512);
			int n = herd_fill(&u.h, 2, draw, NULL);
			descend(&u.h, u.relax, 6, DESCENT_STEPS);
			CHECK(n == 2 && u.h.npool <= n + 6 * DESCENT_STEPS);
			gain += (best_draft(n) - best_draft(u.h.npool)) / SEEDS;
			check_pool();
			arena_free(&u.a);
		}
		if (gain <= 0.02)
			printf("task %d: the log of time falls by %.3f only\n", i, gain);
		CHECK(gain > 0.02);
	}
}

/* Descents also start from measured candidates, and add no known candidate and no structure that failed. */
TEST(from_what_was_measured)
{
	char known[40][CAND_MAX];
	open_herd(task_dense, "draft", 1, 512);
	for (int i = 0; i < 40; i++) {
		CHECK_OK(draw(NULL, known[i]));
		const struct meas m = {.status = i % 4 ? MEAS_OK : MEAS_SPILL, .runs = 3, .min_ns = 1000 + i};
		herd_tell(&u.h, known[i], &m);
	}
	CHECK(u.h.npool == 0);
	descend(&u.h, u.relax, DESCENT_SEEDS, DESCENT_STEPS); /* the pool has no candidates to begin with */
	CHECK(u.h.npool > 0);
	check_pool();
	for (int i = 0; i < u.h.npool; i++)
		CHECK(!keys_has(&u.h.failed, u.h.pool[i].unit));
	arena_free(&u.a);
}

/* The same seed gives the same pool; another seed gives another pool. */
TEST(follows_its_seed)
{
	struct key first[2] = {{0}};
	for (int way = 0; way < 3; way++) {
		open_herd(task_conv, "none", way < 2 ? 1 : 2, 512);
		herd_fill(&u.h, 8, draw, NULL);
		descend(&u.h, u.relax, 4, 12);
		struct key all = {0};
		for (int i = 0; i < u.h.npool; i++)
			all = hash_join(all, hash_text(u.h.pool[i].cand));
		if (way < 2)
			first[way] = all;
		else
			CHECK(!key_equal(first[0], all));
		arena_free(&u.a);
	}
	CHECK(key_equal(first[0], first[1]));
}

TEST(nothing_to_go_down_from)
{
	open_herd(task_conv, "draft", 1, 64);
	descend(&u.h, u.relax, DESCENT_SEEDS, DESCENT_STEPS); /* an empty pool, nothing measured */
	CHECK(u.h.npool == 0);
	int n = herd_fill(&u.h, 16, draw, NULL);
	descend(&u.h, u.relax, 0, DESCENT_STEPS);
	descend(&u.h, u.relax, 4, 0);
	CHECK(u.h.npool == n);
	arena_free(&u.a);
	open_herd(a_point, "draft", 1, 64); /* no number can vary */
	n = herd_fill(&u.h, 16, draw, NULL);
	descend(&u.h, u.relax, 4, DESCENT_STEPS);
	CHECK(n > 0 && u.h.npool == n);
	arena_free(&u.a);
}

TEST_MAIN
