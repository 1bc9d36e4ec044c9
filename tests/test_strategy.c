/* SPDX-License-Identifier: Apache-2.0 */
/* Strategies on their own: legal proposals, seeded, and evolution that learns from what it is told. */
#include "search/strategy.h"
#include "platform/dev_sim.h"
#include "tests/test.h"

#include "tests/tasks.h"

#include <math.h>

struct setup {
	struct arena a;
	struct target t;
	struct space *space;
	struct guide guide;
	void *state;
};

static void open_setup(struct setup *u, const struct strategy *s, uint64_t seed)
{
	struct task *t;
	memset(u, 0, sizeof *u);
	dev_sim.probe(&u->t);
	t = ARENA_NEW(&u->a, struct task);
	CHECK_OK(task_parse(task_conv, t));
	CHECK_OK(space_make(&u->a, t, &u->t, NULL, &u->space));
	u->guide = (struct guide){.space = u->space, .cost = cost_find("draft")};
	CHECK_OK(s->start(&u->a, &u->guide, seed, &u->state));
}

TEST(table_and_find)
{
	CHECK(strategy_find("random") && strategy_find("evolve"));
	CHECK(!strategy_find("") && !strategy_find("annealing"));
	for (int i = 0; strategy_table[i]; i++)
		CHECK(strategy_find(strategy_table[i]->name) == strategy_table[i]);
}

TEST(proposals_are_legal_and_seeded)
{
	static char first[100][CAND_MAX];
	for (int i = 0; strategy_table[i]; i++) {
		const struct strategy *s = strategy_table[i];
		int differ = 0;
		for (uint64_t seed = 1; seed <= 3; seed++) {
			struct setup u;
			open_setup(&u, s, seed < 3 ? 1 : 2);
			REQUIRE(!test_bad);
			for (int k = 0; k < 100; k++) {
				char cand[CAND_MAX];
				CHECK_OK(s->ask(u.state, cand));
				CHECK_OK(space_legal(u.space, cand));
				if (seed == 1)
					memcpy(first[k], cand, CAND_MAX);
				if (seed == 2)
					CHECK(!strcmp(first[k], cand));
				if (seed == 3)
					differ += strcmp(first[k], cand) != 0;
				struct meas m = {.status = k % 3 ? MEAS_OK : MEAS_SPILL,
						 .runs = 3,
						 .min_ns = 1000 + (k * 37) % 100};
				s->tell(u.state, cand, &m);
			}
			arena_free(&u.a);
		}
		CHECK(differ > 50);
	}
}

/* A made-up time: far from a hidden schedule is slow. Structure and numbers count alike. */
static int64_t hidden_ns(const struct space *s, const char *cand)
{
	double d = space_draft(s, cand);
	return (int64_t)(100 * d * (1 + 0.3 * sin((double)(hash_text(cand).lo % 1000))));
}

static int64_t best_after(const struct strategy *s, uint64_t seed, int asks)
{
	struct setup u;
	int64_t best = INT64_MAX;
	open_setup(&u, s, seed);
	for (int k = 0; k < asks && !test_bad; k++) {
		char cand[CAND_MAX];
		CHECK_OK(s->ask(u.state, cand));
		struct meas m = {.status = MEAS_OK, .runs = 3, .min_ns = hidden_ns(u.space, cand)};
		best = m.min_ns < best ? m.min_ns : best;
		s->tell(u.state, cand, &m);
	}
	arena_free(&u.a);
	return best;
}

TEST(evolution_beats_chance)
{
	double log_ratio = 0;
	for (uint64_t seed = 1; seed <= 10; seed++)
		log_ratio += log((double)best_after(strategy_find("evolve"), seed, 48) /
				 (double)best_after(strategy_find("random"), seed, 48));
	CHECK(log_ratio < 0);
}

/* Failures tell nothing: they may not become parents. */
TEST(failures_are_not_bred)
{
	const struct strategy *s = strategy_find("evolve");
	struct setup u;
	open_setup(&u, s, 1);
	for (int k = 0; k < 200; k++) {
		char cand[CAND_MAX];
		REQUIRE_OK(s->ask(u.state, cand));
		struct meas m = {.status = (enum meas_status)(1 + k % (MEAS_STATUSES - 1)), .min_ns = 1};
		s->tell(u.state, cand, &m);
	}
	arena_free(&u.a);
}

TEST_MAIN
