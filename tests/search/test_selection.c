/* SPDX-License-Identifier: Apache-2.0 */
/* The selection rules of evolution and annealing: a cost model that keeps its guesses shows how fast the
 * candidates are that a strategy draws, in their order. Both strategies mutate candidates, and a mutation
 * makes a candidate slower as often as faster: only selection makes later candidates faster than earlier
 * ones. */
#include "tests/lib/strategy_setup.h"
#include "tests/lib/tasks.h"

#include <math.h>

enum { SEEDS = 40, GUESSES = 512, TASKS = 3 };

static const char *const texts[TASKS] = {task_conv, task_matmul, task_dense};

/* Logarithms of the guesses since the strategy's start. */
static struct {
	double log_ns[GUESSES];
	int n;
} seen;

/* The draft, which keeps what it was asked. */
static struct guess spy_guess(const float f[FEATURES])
{
	struct guess g = cost_find("draft")->guess(f);
	if (seen.n < GUESSES)
		seen.log_ns[seen.n++] = log(g.ns);
	return g;
}

static double mean(int from, int to)
{
	double sum = 0;
	for (int i = from; i < to; i++)
		sum += seen.log_ns[i];
	return sum / (to - from);
}

/* Asks once, which draws the candidates of a whole round, and returns by how much the mean log of time of the
 * last `of` guesses is below that of the first. */
static double falls(const char *name, const char *text, uint64_t seed, int guesses, int of)
{
	static struct cost spy;
	const struct strategy *s = strategy_find(name);
	struct setup u;
	char cand[CAND_MAX];
	spy = *cost_find("draft");
	spy.guess = spy_guess;
	open_task(&u, s, "draft", text, seed);
	u.guide.cost = &spy;
	seen.n = 0;
	CHECK_OK(s->ask(u.state, cand));
	CHECK(seen.n == guesses);
	arena_free(&u.a);
	return seen.n == guesses ? mean(0, of) - mean(guesses - of, guesses) : 0;
}

/* By how much it falls on average, over tasks and seeds. */
static double mean_fall(const char *name, int guesses, int of)
{
	double sum = 0;
	for (int i = 0; i < TASKS; i++)
		for (uint64_t seed = 1; seed <= SEEDS; seed++)
			sum += falls(name, texts[i], seed, guesses, of);
	return sum / TASKS / SEEDS;
}

static void check_fall(double fall, double least)
{
	if (fall <= least)
		printf("the log of time falls by %.3f only\n", fall);
	CHECK(fall > least);
}

/* 32 random candidates and three generations of 32: with parents drawn at random, the last generation is no
 * better than the first (0.00 instead of 0.33). */
TEST(evolution_selects_the_fit)
{
	check_fall(mean_fall("evolve", 128, 32), 0.2);
}

/* 16 chains, and six steps of each: a chain that takes every step is a random walk (0.01
 * instead of 0.19). */
TEST(annealing_refuses_bad_steps)
{
	check_fall(mean_fall("anneal", 112, 32), 0.1);
}

TEST_MAIN
