/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient strategy: with a good draft, without a cost model, and in a space where no number can vary. */
#include "platform/run/dev_sim.h"
#include "search/strategy.h"
#include "tests/lib/strategy_setup.h"
#include "tests/lib/tasks.h"
#include "tests/lib/test.h"

#include <math.h>

/* Number of proposals, from nothing known, until one has a drafted time of at most `goal`; `most`: none
 * had. */
static int asks_until(const char *name, const char *cost, const char *text, double goal, int most,
		      uint64_t seed)
{
	const struct strategy *s = strategy_find(name);
	struct setup u;
	int asks = 1;
	open_task(&u, s, cost, text, seed);
	for (; asks < most && !test_bad; asks++) {
		char cand[CAND_MAX];
		CHECK_OK(s->ask(u.state, cand));
		double ns = space_draft(u.space, cand);
		if (ns <= goal)
			break;
		tell_ns(&u, s, cand, (int64_t)(1000 * ns));
	}
	arena_free(&u.a);
	return asks;
}

static double best_draft(const char *text)
{
	struct setup u;
	struct rng r;
	double best = INFINITY;
	open_task(&u, strategy_find("gradient"), "draft", text, 1);
	rng_seed(&r, 99);
	for (int i = 0; i < 4000; i++) {
		char cand[CAND_MAX];
		CHECK_OK(space_random(u.space, &r, cand));
		best = fmin(best, space_draft(u.space, cand));
	}
	arena_free(&u.a);
	return best;
}

/* The paper's comparison: against evolution without the draft's guesses. */
TEST(sooner_than_evolution_without_the_draft)
{
	static const char *const texts[] = {task_conv, task_dense};
	double gain = 0;
	int n = 0;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		double goal = best_draft(texts[i]) / .95;
		for (uint64_t seed = 1; seed <= 5 && !test_bad; seed++, n++)
			gain += log((double)asks_until("evolve", "none", texts[i], goal, 300, seed) /
				    (double)asks_until("gradient", "draft", texts[i], goal, 300, seed));
	}
	CHECK(exp(gain / n) > 3.4);
	if (test_bad)
		printf("%.2f times sooner\n", exp(gain / n));
}

/* Without a model, descents run and are rounded as usual, but proposals are not ranked. */
TEST(without_a_model)
{
	const struct strategy *s = strategy_find("gradient");
	struct setup u;
	open_task(&u, s, "none", task_conv, 1);
	for (int k = 0; k < 60 && !test_bad; k++) {
		char cand[CAND_MAX];
		CHECK_OK(s->ask(u.state, cand));
		CHECK_OK(space_legal(u.space, cand));
		const struct meas m = {
		    .status = k % 4 ? MEAS_OK : MEAS_TIMEOUT, .runs = 3, .min_ns = 1000 + k};
		s->tell(u.state, cand, &m);
	}
	arena_free(&u.a);
}

/* A point: no number can vary, only a few discrete choices. */
TEST(nothing_to_let_loose)
{
	static const char text[] =
	    "task syms=0\noperand X in f32 [1,1] plain\noperand Y out f32 [1,1] plain\n"
	    "stage i:1 j:1\nread X [i,j]\nbody r0 0 max\nwrite Y [i,j]\n";
	const struct strategy *s = strategy_find("gradient");
	struct setup u;
	char cand[CAND_MAX];
	int asked = 0, rc = E_OK;
	open_task(&u, s, "draft", text, 1);
	for (; asked < 500 && (rc = s->ask(u.state, cand)) >= 0; asked++) {
		tell_ns(&u, s, cand, 1000);
	}
	CHECK(rc == E_NOTFOUND && asked < 100);
	arena_free(&u.a);
}

/* The whole state of a search stays bounded: later rounds use no more memory than the first. */
TEST(memory_is_bounded)
{
	const struct strategy *s = strategy_find("gradient");
	struct setup u;
	open_task(&u, s, "draft", task_dense, 1);
	size_t space = u.a.used_bytes, first = 0;
	for (int k = 0; k < 200 && !test_bad; k++) {
		char cand[CAND_MAX];
		CHECK_OK(s->ask(u.state, cand));
		tell_ns(&u, s, cand, 1000 + k);
		first = k == 50 ? u.a.used_bytes : first;
	}
	CHECK(first - space < 160 << 10 && u.a.used_bytes < first + (64 << 10));
	if (test_bad)
		printf("%zu bytes, then %zu\n", first - space, u.a.used_bytes - space);
	arena_free(&u.a);
}

TEST_MAIN
