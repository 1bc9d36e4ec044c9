/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated annealing under a cost model, as in AutoTVM (NeurIPS 2018, section 3.3): parallel chains walk by
 * mutation and take a step up with the probability exp(-difference of log time / temperature); of all that
 * they visited, the places thought fastest are proposed, 5 % blindly. Chains continue from round to round:
 * each round heats them again, and the slowest of them restart from measured candidates. A round of
 * HERD_ROUND proposals takes 96 steps: 1 to 2 ms. */
#include "search/herd.h"
#include "search/strategy.h"

#include <math.h>

enum { CHAINS = 16, STEPS = 6, POOL = 64 };

#define HOT 0.3 /* temperature in log time; falls to nothing within a round */
#define BLIND 0.05
#define FRESH 0.1 /* share of steps that are draws from the whole space */

struct anneal {
	struct herd herd;
	struct member chain[CHAINS], next;
	bool started;
};

static int anneal_start(struct arena *a, const struct guide *g, uint64_t seed, void **state)
{
	struct anneal *n = ARENA_NEW(a, struct anneal);
	herd_open(&n->herd, a, g, seed, POOL);
	*state = n;
	return E_OK;
}

static int start_chains(struct anneal *n)
{
	struct herd *h = &n->herd;
	for (int i = 0; i < CHAINS; i++) {
		char cand[CAND_MAX];
		int rc = space_random(h->guide->space, &h->rng, cand);
		if (rc < 0)
			return rc;
		member_set(h, &n->chain[i], cand);
		herd_add(h, &n->chain[i]);
	}
	n->started = true;
	return E_OK;
}

/* Moves the slowest quarter of the chains to measured candidates. */
static void heat(struct anneal *n)
{
	struct herd *h = &n->herd;
	for (int k = 0; k < CHAINS / 4 && h->ntold; k++) {
		int worst = 0;
		for (int i = 1; i < CHAINS; i++)
			if (n->chain[i].log_ns > n->chain[worst].log_ns)
				worst = i;
		member_copy(h, &n->chain[worst], herd_parent(h));
		member_think(h, &n->chain[worst]);
	}
}

static int step(struct anneal *n, struct member *at, double heat_now)
{
	struct herd *h = &n->herd;
	char cand[CAND_MAX];
	int rc = rng_unit(&h->rng) < FRESH ? space_random(h->guide->space, &h->rng, cand)
					   : space_mutate(h->guide->space, &h->rng, at->cand, cand);
	if (rc < 0)
		return rc;
	member_set(h, &n->next, cand);
	herd_add(h, &n->next);
	double up = n->next.log_ns - at->log_ns;
	if (up <= 0 || rng_unit(&h->rng) < exp(-up / heat_now))
		member_copy(h, at, &n->next);
	return E_OK;
}

static int walk(struct anneal *n)
{
	herd_round(&n->herd);
	int rc = n->started ? E_OK : start_chains(n);
	if (rc >= 0)
		heat(n);
	for (int s = 0; s < STEPS && rc >= 0; s++)
		for (int i = 0; i < CHAINS && rc >= 0; i++)
			rc = step(n, &n->chain[i], HOT * (STEPS - s) / STEPS);
	return rc;
}

static int anneal_ask(void *state, char cand[CAND_MAX])
{
	struct anneal *n = state;
	struct herd *h = &n->herd;
	if (h->npool == 0 || h->nround == HERD_ROUND) {
		int rc = walk(n);
		if (rc < 0)
			return rc;
	}
	return herd_propose(h, herd_best(h, BLIND), cand);
}

static void anneal_tell(void *state, const char *cand, const struct meas *m)
{
	herd_tell(&((struct anneal *)state)->herd, cand, m);
}

const struct strategy strategy_anneal = {
    .name = "anneal",
    .start = anneal_start,
    .ask = anneal_ask,
    .tell = anneal_tell,
};
