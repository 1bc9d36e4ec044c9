/* SPDX-License-Identifier: Apache-2.0 */
/* Uniform draws from the space: the baseline that every other strategy has to beat. */
#include "search/strategy.h"

struct draws {
	const struct guide *guide;
	struct rng rng;
};

static int random_start(struct arena *a, const struct guide *g, uint64_t seed, void **state)
{
	struct draws *d = ARENA_NEW(a, struct draws);
	d->guide = g;
	rng_seed(&d->rng, seed);
	*state = d;
	return E_OK;
}

static int random_ask(void *state, char cand[CAND_MAX])
{
	struct draws *d = state;
	return space_random(d->guide->space, &d->rng, cand);
}

static void random_tell(void *state, const char *cand, const struct meas *m)
{
	(void)state;
	(void)cand;
	(void)m;
}

const struct strategy strategy_random = {
    .name = "random",
    .start = random_start,
    .ask = random_ask,
    .tell = random_tell,
};
