/* SPDX-License-Identifier: Apache-2.0 */
/* Uniform draws from the space: the baseline that every other strategy has to beat. */
#include "search/herd.h"
#include "search/strategy.h"

static int random_start(struct arena *a, const struct guide *g, uint64_t seed, void **state)
{
	struct herd *h = ARENA_NEW(a, struct herd);
	herd_open(h, a, g, seed, 1);
	*state = h;
	return E_OK;
}

static int draw(void *state, char cand[CAND_MAX])
{
	struct herd *h = state;
	return space_random(h->guide->space, &h->rng, cand);
}

static int random_ask(void *state, char cand[CAND_MAX])
{
	struct herd *h = state;
	return herd_propose(h, herd_fill(h, 1, draw, h) - 1, cand);
}

static void random_tell(void *state, const char *cand, const struct meas *m)
{
	herd_tell(state, cand, m);
}

const struct strategy strategy_random = {
    .name = "random",
    .start = random_start,
    .ask = random_ask,
    .tell = random_tell,
};
