/* SPDX-License-Identifier: Apache-2.0 */
/* Descents (search/descent.h) from the candidates that the model prefers, drawn and bred, and from measured
 * ones. Proposals are chosen by the model's guess and by what was measured nearby (search/belief.h), one of
 * each structure in a round. What was measured nearby needs no gradient. */
#include "search/belief.h"
#include "search/descent.h"
#include "search/strategy.h"

/* Sizes of the first round, and (LATER) of later rounds, which need less. */
enum {
	SEEDS = DESCENT_SEEDS,
	SEEDS_LATER = 8,
	STEPS = DESCENT_STEPS,
	STEPS_LATER = 12,
	DRAWN = 256,
	DRAWN_LATER = 32,
	POOL = 96
};

#define BLIND 0.05 /* share of proposals that ignore the model */
#define FRESH 0.5  /* share of draws from the whole space; the others are bred */

struct gradient {
	struct herd herd;
	struct belief belief;
	struct relax *relax;
	bool began;
};

static int gradient_start(struct arena *a, const struct guide *g, uint64_t seed, void **state)
{
	struct gradient *n = ARENA_NEW(a, struct gradient);
	herd_open(&n->herd, a, g, seed, POOL);
	n->relax = relax_new(a);
	*state = n;
	return E_OK;
}

static int draw(void *ctx, char cand[CAND_MAX])
{
	return herd_breed(ctx, FRESH, cand);
}

static void next_round(struct gradient *n)
{
	struct herd *h = &n->herd;
	herd_round(h);
	herd_fill(h, n->began ? DRAWN_LATER : DRAWN, draw, h);
	descend(h, n->relax, n->began ? SEEDS_LATER : SEEDS, n->began ? STEPS_LATER : STEPS);
	n->began = true;
	belief_form(&n->belief, h);
}

/* Picks the candidate with the largest expected gain, one of each structure in a round, and a share BLIND at
 * random. -1: nothing is left. */
static int pick(struct gradient *n)
{
	struct herd *h = &n->herd;
	int best = -1;
	double most = -1;
	if (h->npool && rng_unit(&h->rng) < BLIND)
		return (int)rng_below(&h->rng, (uint32_t)h->npool);
	for (int i = 0; i < h->npool; i++) {
		double gain = belief_gain(&n->belief, &h->pool[i]);
		if (!herd_in_round(h, h->pool[i].unit) && gain > most) {
			most = gain;
			best = i;
		}
	}
	return best >= 0 ? best : herd_best(h, 0);
}

static int gradient_ask(void *state, char cand[CAND_MAX])
{
	struct gradient *n = state;
	struct herd *h = &n->herd;
	if (h->npool == 0 || h->nround == HERD_ROUND)
		next_round(n);
	return herd_propose(h, pick(n), cand);
}

static void gradient_tell(void *state, const char *cand, const struct meas *m)
{
	herd_tell(&((struct gradient *)state)->herd, cand, m);
}

const struct strategy strategy_gradient = {
    .name = "gradient",
    .start = gradient_start,
    .ask = gradient_ask,
    .tell = gradient_tell,
};
