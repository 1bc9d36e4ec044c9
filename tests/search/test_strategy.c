/* SPDX-License-Identifier: Apache-2.0 */
/* Strategies on their own: proposals are legal, follow the seed and never repeat; strategies learn from
 * measurements, and end when nothing is left. */
#include "search/strategy.h"
#include "platform/run/dev_sim.h"
#include "platform/base/hash.h"
#include "platform/base/mix.h"
#include "tests/lib/test.h"

#include "tests/lib/strategy_setup.h"
#include "tests/lib/tasks.h"

#include <math.h>

/* 4 points of a map: some dozens of schedules. */
static const char task_tiny[] = "task syms=0\n"
				"operand X in f32 [4] plain\n"
				"operand Y out f32 [4] plain\n"
				"stage i:4\n"
				"read X [i]\n"
				"body r0 0 max\n"
				"write Y [i]\n";

/* Made-up times: the draft's, plus an effect of the structure that the draft does not know. */
static int64_t hidden_ns(const struct space *s, const char *cand)
{
	char structure[CAND_MAX];
	space_structure(cand, structure);
	double of_structure = (double)(mix_text(structure).lo % 1000) / 1000,
	       own = (double)(mix_text(cand).lo % 1000) / 1000;
	return (int64_t)(100 * space_draft(s, cand) * (1 + 0.4 * of_structure + 0.02 * own));
}

/* The draft is wrong by a factor of up to e, whatever the structure. */
static int64_t wild_ns(const struct space *s, const char *cand)
{
	return (int64_t)(100 * space_draft(s, cand) * exp((double)(mix_text(cand).lo % 1000) / 1000));
}

TEST(table_and_find)
{
	static const char *const names[] = {"auto",    "anneal",   "cluster", "evolve",
					    "genetic", "gradient", "random"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		CHECK(strategy_find(names[i]));
	CHECK(!strategy_find("") && !strategy_find("annealing"));
	for (int i = 0; strategy_table[i]; i++)
		CHECK(strategy_find(strategy_table[i]->name) == strategy_table[i]);
}

TEST(proposals_are_legal_new_and_seeded)
{
	static char first[100][CAND_MAX];
	for (int i = 0; strategy_table[i]; i++) {
		const struct strategy *s = strategy_table[i];
		int differ = 0;
		for (uint64_t seed = 1; seed <= 3; seed++) {
			struct setup u;
			static char asked[100][CAND_MAX];
			open_task(&u, s, "draft", task_conv, seed < 3 ? 1 : 2);
			REQUIRE(!test_bad);
			for (int k = 0; k < 100; k++) {
				REQUIRE_OK(s->ask(u.state, asked[k]));
				CHECK_OK(space_legal(u.space, asked[k]));
				for (int j = 0; j < k; j++)
					CHECK(strcmp(asked[j], asked[k]) != 0);
				if (seed == 1)
					memcpy(first[k], asked[k], CAND_MAX);
				if (seed == 2)
					CHECK(!strcmp(first[k], asked[k]));
				if (seed == 3)
					differ += strcmp(first[k], asked[k]) != 0;
				const struct meas m = {.status = k % 3 ? MEAS_OK : MEAS_SPILL,
						       .runs = 3,
						       .min_ns = wild_ns(u.space, asked[k])};
				s->tell(u.state, asked[k], &m);
			}
			arena_free(&u.a);
		}
		if (differ <= 50)
			printf("%s: of 100 proposals %d follow the seed\n", s->name, differ);
		CHECK(differ > 50);
	}
}

/* Log of the fastest proposed time. */
static double best_after(const struct strategy *s, uint64_t seed, int asks)
{
	struct setup u;
	int64_t best = INT64_MAX;
	char cand[CAND_MAX];
	open_task(&u, s, "draft", task_conv, seed);
	space_default(u.space, cand);
	tell_ns(&u, s, cand, hidden_ns(u.space, cand));
	for (int k = 0; k < asks && !test_bad; k++) {
		CHECK_OK(s->ask(u.state, cand));
		int64_t ns = hidden_ns(u.space, cand);
		best = ns < best ? ns : best;
		tell_ns(&u, s, cand, ns);
	}
	arena_free(&u.a);
	return log((double)best);
}

/* Every strategy beats random draws on average, from measurements alone or with the model; some by far. */
TEST(all_learn_faster_than_chance)
{
	enum { SEEDS = 8, ASKS = 80 };
	double chance = 0, gain_auto = 0, most = 0;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		chance += best_after(strategy_find("random"), seed, ASKS) / SEEDS;
	for (int i = 0; strategy_table[i]; i++) {
		const struct strategy *s = strategy_table[i];
		double mean = 0;
		for (uint64_t seed = 1; seed <= SEEDS; seed++)
			mean += best_after(s, seed, ASKS) / SEEDS;
		if (!strcmp(s->name, "auto"))
			gain_auto = chance - mean;
		most = fmax(most, chance - mean);
		if (strcmp(s->name, "random") && mean >= chance)
			printf("%s: the log of time is %.3f above random's\n", s->name, mean - chance);
		CHECK(!strcmp(s->name, "random") || mean < chance);
	}
	CHECK(gain_auto > most - 0.05);
}

/* Failed candidates must not become parents, and nothing else of their structures is proposed. */
TEST(failures_are_not_bred)
{
	for (int i = 0; strategy_table[i]; i++) {
		const struct strategy *s = strategy_table[i];
		struct setup u;
		struct key spilled[60];
		open_task(&u, s, "draft", task_conv, 1);
		for (int k = 0; k < 60; k++) {
			char cand[CAND_MAX], structure[CAND_MAX];
			REQUIRE_OK(s->ask(u.state, cand));
			space_structure(cand, structure);
			spilled[k] = mix_text(structure);
			for (int j = 0; j < k; j++)
				CHECK(!key_equal(spilled[j], spilled[k]));
			const struct meas m = {.status = MEAS_SPILL, .min_ns = 1};
			s->tell(u.state, cand, &m);
		}
		arena_free(&u.a);
	}
}

/* The distinct candidates in many draws of a space. */
struct found {
	struct key k[256];
	int n;
};

static bool finds(const struct found *f, const char *cand)
{
	for (int i = 0; i < f->n; i++)
		if (key_equal(f->k[i], hash_text(cand)))
			return true;
	return false;
}

static void draw_all(const char *text, int draws, struct found *f)
{
	struct setup u;
	struct rng r;
	open_task(&u, strategy_find("random"), "draft", text, 1);
	rng_seed(&r, 9);
	f->n = 0;
	for (int i = 0; i < draws && f->n < 256; i++) {
		char cand[CAND_MAX];
		CHECK_OK(space_random(u.space, &r, cand));
		if (!finds(f, cand))
			f->k[f->n++] = hash_text(cand);
	}
	arena_free(&u.a);
	CHECK(f->n > 2 && f->n < 256);
}

/* Asks until nothing is left; returns how many of the candidates that draws find were proposed. */
static int exhaust(const struct strategy *s, const char *text, const struct found *all)
{
	struct setup u;
	char cand[CAND_MAX];
	int asked = 0, met = 0, rc;
	open_task(&u, s, "draft", text, 1);
	while ((rc = s->ask(u.state, cand)) >= 0 && asked < 1000) {
		CHECK_OK(space_legal(u.space, cand));
		tell_ns(&u, s, cand, 1000 + 400 * (asked % 3));
		met += finds(all, cand);
		asked++;
	}
	CHECK(rc == E_NOTFOUND);
	arena_free(&u.a);
	return met;
}

/* The default strategy proposes all of a small space, which costs nothing. Others stop after HERD_TIRED draws
 * without anything new, so that a few rare schedules may be left. */
TEST(small_spaces_are_covered)
{
	static const char a_point[] =
	    "task syms=0\noperand X in f32 [1,1] plain\noperand Y out f32 [1,1] plain\n"
	    "stage i:1 j:1\nread X [i,j]\nbody r0 0 max\nwrite Y [i,j]\n";
	static const char *const texts[] = {task_tiny, a_point};
	for (int k = 0; k < 2; k++) {
		struct found all;
		draw_all(texts[k], 300, &all);
		for (int i = 0; strategy_table[i]; i++) {
			const struct strategy *s = strategy_table[i];
			bool whole = !strcmp(s->name, STRATEGY_DEFAULT);
			int met = exhaust(s, texts[k], &all);
			if (met < (whole ? all.n : all.n * 3 / 4))
				printf("%s proposed %d of %d\n", s->name, met, all.n);
			CHECK(met >= (whole ? all.n : all.n * 3 / 4));
		}
	}
}

static int64_t right_ns(const struct space *s, const char *cand)
{
	return (int64_t)(3 * space_draft(s, cand));
}

/* The fastest time among many draws. */
static double best_of_draws(int64_t (*ns_of)(const struct space *s, const char *cand), uint64_t seed)
{
	struct setup u;
	struct rng r;
	double best = INFINITY;
	open_task(&u, strategy_find("random"), "draft", task_conv, 1);
	rng_seed(&r, seed + 50);
	for (int i = 0; i < 2000; i++) {
		char cand[CAND_MAX];
		CHECK_OK(space_random(u.space, &r, cand));
		best = fmin(best, (double)ns_of(u.space, cand));
	}
	arena_free(&u.a);
	return best;
}

/* It soon finds the fastest candidate, or nearly that if the model is often wrong. It goes on proposing,
 * because it does not decide where the box goes. */
static void auto_finds(int64_t (*ns_of)(const struct space *s, const char *cand), uint64_t seed, int soon,
		       double within)
{
	enum { ASKS = 400 };
	const struct strategy *s = strategy_find("auto");
	double best = INFINITY, goal = best_of_draws(ns_of, seed) * within;
	struct setup u;
	open_task(&u, s, "draft", task_conv, seed);
	for (int k = 0; k < ASKS && !test_bad; k++) {
		char cand[CAND_MAX];
		CHECK_OK(s->ask(u.state, cand));
		int64_t ns = ns_of(u.space, cand);
		best = fmin(best, (double)ns);
		CHECK(k < soon || best < goal);
		tell_ns(&u, s, cand, ns);
	}
	arena_free(&u.a);
}

TEST(auto_finds_the_best_and_goes_on)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		auto_finds(right_ns, seed, 120, 1.02);
		auto_finds(wild_ns, seed, 200, 1.1);
	}
}

/* It never ends early: not after a time that nothing can beat, nor after failures alone. */
TEST(auto_goes_on_without_hope)
{
	const struct strategy *s = strategy_find("auto");
	for (int way = 0; way < 2; way++) {
		struct setup u;
		open_task(&u, s, "draft", task_conv, 1);
		for (int k = 0; k < 300 && !test_bad; k++) {
			char cand[CAND_MAX];
			const struct meas bad = {.status = MEAS_TIMEOUT};
			CHECK_OK(s->ask(u.state, cand));
			if (way)
				s->tell(u.state, cand, &bad);
			else
				tell_ns(&u, s, cand, k ? 1000000 + k : 1);
		}
		arena_free(&u.a);
	}
}

TEST_MAIN
