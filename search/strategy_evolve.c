/* SPDX-License-Identifier: Apache-2.0 */
/* Evolution under a cost model, as in Ansor (OSDI 2020, section 5.1), sized for a board: a population of
 * random candidates and the best measured ones lives for some generations of mutation and crossing, the fit
 * having more offspring; of all that ever lived, those thought fastest are proposed, one of each structure
 * first, and 5 % blindly. A round of HERD_ROUND proposals draws 128 candidates: 1.5 to 3 ms. */
#include "search/herd.h"
#include "search/strategy.h"

enum { POPULATION = 32, GENERATIONS = 3, POOL = 64 };

#define MEASURED 0.2 /* share of measured candidates in the first generation */
#define MUTATE 0.85  /* share of mutations among the offspring; the others are crossed */
#define BLIND 0.05

struct evolve {
	struct herd herd;
	struct member old[POPULATION], young[POPULATION];
};

static int evolve_start(struct arena *a, const struct guide *g, uint64_t seed, void **state)
{
	struct evolve *e = ARENA_NEW(a, struct evolve);
	herd_open(&e->herd, a, g, seed, POOL);
	*state = e;
	return E_OK;
}

/* Draws two members and returns the faster one. */
static const struct member *pick(struct evolve *e)
{
	const struct member *x = &e->old[rng_below(&e->herd.rng, POPULATION)],
			    *y = &e->old[rng_below(&e->herd.rng, POPULATION)];
	return x->log_ns <= y->log_ns ? x : y;
}

static int offspring(struct evolve *e, char cand[CAND_MAX])
{
	struct rng *r = &e->herd.rng;
	const struct space *s = e->herd.guide->space;
	if (rng_unit(r) < MUTATE)
		return space_mutate(s, r, pick(e)->cand, cand);
	return space_cross(s, r, pick(e)->cand, pick(e)->cand, cand);
}

static int found(struct evolve *e)
{
	struct herd *h = &e->herd;
	for (int i = 0; i < POPULATION; i++) {
		char cand[CAND_MAX];
		if (i < (int)(MEASURED * POPULATION) && i < h->ntold) {
			member_copy(h, &e->old[i], &h->told[i]);
			member_think(h, &e->old[i]);
			continue;
		}
		int rc = space_random(h->guide->space, &h->rng, cand);
		if (rc < 0)
			return rc;
		member_set(h, &e->old[i], cand);
		herd_add(h, &e->old[i]);
	}
	return E_OK;
}

static int next_generation(struct evolve *e)
{
	for (int i = 0; i < POPULATION; i++) {
		char cand[CAND_MAX];
		int rc = offspring(e, cand);
		if (rc < 0)
			return rc;
		member_set(&e->herd, &e->young[i], cand);
		herd_add(&e->herd, &e->young[i]);
	}
	for (int i = 0; i < POPULATION; i++) {
		struct member m = e->old[i];
		e->old[i] = e->young[i];
		e->young[i] = m;
	}
	return E_OK;
}

static int live(struct evolve *e)
{
	herd_round(&e->herd);
	int rc = found(e);
	for (int i = 0; i < GENERATIONS && rc >= 0; i++)
		rc = next_generation(e);
	return rc;
}

static int evolve_ask(void *state, char cand[CAND_MAX])
{
	struct evolve *e = state;
	struct herd *h = &e->herd;
	if (h->npool == 0 || h->nround == HERD_ROUND) {
		int rc = live(e);
		if (rc < 0)
			return rc;
	}
	return herd_propose(h, herd_best(h, BLIND), cand);
}

static void evolve_tell(void *state, const char *cand, const struct meas *m)
{
	herd_tell(&((struct evolve *)state)->herd, cand, m);
}

const struct strategy strategy_evolve = {
    .name = "evolve",
    .start = evolve_start,
    .ask = evolve_ask,
    .tell = evolve_tell,
};
