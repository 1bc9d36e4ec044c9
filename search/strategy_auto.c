/* SPDX-License-Identifier: Apache-2.0 */
/* The default strategy: a large pool of random draws and of offspring of the measured candidates. It proposes
 * those with the largest expected gain for what they cost to try, one of each structure in a round. Fast and
 * certain or slow and uncertain, a candidate is worth its expected gain over the incumbent (search/belief.h),
 * and numbers of a structure that is built already are cheap to vary. At first it draws mostly from the whole
 * space, later it breeds more and more offspring.
 *
 * While nothing is measured only the draft can guide: then more draws pay, and if a task has one stage so do
 * descents (search/descent.h) from the best draws, most of all for depthwise convolutions, which reach 97.5 %
 * of the best recorded after 12 measurements instead of 16. With rules measured before, both gain nothing;
 * nor do descents in blocks of several stages, or from measured candidates later on.
 *
 * It proposes as long as it finds anything new, whatever that is worth: job.c decides which task gets the
 * box. The first pool of 160 candidates takes 2 to 3 ms, one of 256 with its descents 6 to 8 ms, a round of
 * HERD_ROUND proposals 1 ms. */
#include "search/belief.h"
#include "search/descent.h"
#include "search/strategy.h"

enum {
	POOL = 96,   /* size of the pool */
	FIRST = 160, /* draws of the first round, */
	BLIND = 256, /* or of the first round if nothing is measured yet */
	SEEDS = 6,   /* descents then */
	DRAWN = 40,  /* draws of each further round */
	GLEANED = 32 /* times HERD_TIRED draws without anything new, before nothing is left */
};

#define TWIN_COST 0.3   /* cost of other numbers of a built structure; a new one costs 1 */
#define FRESH_FIRST 0.7 /* share of draws from the whole space in the first round */
#define FRESH_LAST 0.25 /* the same from round ROUNDS on */
#define ROUNDS 6        /* until then */

struct auto_state {
	struct herd herd;
	struct belief belief;
	int rounds;
};

static int auto_start(struct arena *a, const struct guide *g, uint64_t seed, void **state)
{
	struct auto_state *x = ARENA_NEW(a, struct auto_state);
	herd_open(&x->herd, a, g, seed, POOL);
	*state = x;
	return E_OK;
}

static int breed(void *state, char cand[CAND_MAX])
{
	struct auto_state *x = state;
	double t = x->rounds < ROUNDS ? (double)x->rounds / ROUNDS : 1;
	return herd_breed(&x->herd, FRESH_FIRST + t * (FRESH_LAST - FRESH_FIRST), cand);
}

/* Where hardly anything new is left: random draws, offspring, and other numbers of measured candidates. */
static int glean(void *ctx, char cand[CAND_MAX])
{
	struct herd *h = ctx;
	const struct member *m = rng_below(&h->rng, 3) ? NULL : herd_parent(h);
	return m ? space_twin(h->guide->space, &h->rng, m->cand, cand) : herd_breed(h, 0.5, cand);
}

static void next_round(struct auto_state *x)
{
	struct herd *h = &x->herd;
	herd_round(h);
	bool first = x->rounds++ == 0, blind = first && !h->ntold;
	herd_fill(h, blind ? BLIND : first ? FIRST : DRAWN, breed, x);
	if (blind && space_task(h->guide->space)->nstages == 1)
		descend(h, relax_new(h->arena), SEEDS, DESCENT_STEPS);
	for (int i = 0; i < (h->guide->portion.parts ? 1 : GLEANED) && h->npool == 0; i++)
		herd_fill(h, DRAWN, glean, h);
	belief_form(&x->belief, h);
	belief_settle(&x->belief, h);
}

static double worth(const struct auto_state *x, const struct member *m)
{
	return belief_gain(&x->belief, m) / (keys_has(&x->herd.built, m->unit) ? TWIN_COST : 1);
}

/* -1: the pool has only structures that were already proposed in this round. */
static int most_worth(const struct auto_state *x)
{
	const struct herd *h = &x->herd;
	int best = -1;
	double most = -1;
	for (int i = 0; i < h->npool; i++) {
		double w = herd_in_round(h, h->pool[i].unit) ? -1 : worth(x, &h->pool[i]);
		if (w > most) {
			most = w;
			best = i;
		}
	}
	return best;
}

static int auto_ask(void *state, char cand[CAND_MAX])
{
	struct auto_state *x = state;
	int best = x->rounds && x->herd.nround < HERD_ROUND ? most_worth(x) : -1;
	if (best < 0) {
		next_round(x);
		best = most_worth(x);
	}
	return herd_propose(&x->herd, best, cand);
}

static void auto_tell(void *state, const char *cand, const struct meas *m)
{
	herd_tell(&((struct auto_state *)state)->herd, cand, m);
}

const struct strategy strategy_auto = {
    .name = "auto",
    .start = auto_start,
    .ask = auto_ask,
    .tell = auto_tell,
};
