/* SPDX-License-Identifier: Apache-2.0 */
/* What serves best: a large pool of random draws and of offspring of the measured, out of which those are
 * proposed that are expected to gain most for what they cost to try, one of each structure in a round. Fast
 * and certain or slow and uncertain, a candidate is worth its expected gain over the incumbent
 * (search/belief.h), and numbers of a structure that is built already are cheap to vary. Draws from the whole
 * space at first, more and more offspring later.
 *
 * When nothing in the pool is believed to gain, it is drawn anew; when that happens often enough the task is
 * done, and the box has more time for the others. The first pool of 160 candidates takes 2 to 3 ms, a round
 * of HERD_ROUND proposals 1 ms. */
#include "search/belief.h"
#include "search/strategy.h"

#include <math.h>

enum {
	POOL = 96,    /* candidates, */
	FIRST = 160,  /* out of so many at first */
	DRAWN = 40,   /* and so many more for each round */
	VAIN = 4,     /* pools without a gain: nothing is left */
	PATIENCE = 24 /* proposals before that is said: one slow phase of the machine may last for so many */
};

#define GAINLESS 0.001  /* expected, as a share of the task's time: not worth building */
#define TWIN_COST 0.3   /* of trying other numbers of a structure that is built */
#define FRESH_FIRST 0.7 /* share of draws from the whole space, */
#define FRESH_LAST 0.25 /* later */
#define ROUNDS 6        /* until then */

struct auto_state {
	struct herd herd;
	struct belief belief;
	int rounds, asked;
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

static void next_round(struct auto_state *x)
{
	struct herd *h = &x->herd;
	herd_round(h);
	herd_fill(h, x->rounds++ ? DRAWN : FIRST, breed, x);
	belief_form(&x->belief, h);
	belief_settle(&x->belief, h);
}

static double worth(const struct auto_state *x, const struct member *m)
{
	return belief_gain(&x->belief, m) / (keys_has(&x->herd.built, m->unit) ? TWIN_COST : 1);
}

/* -1: nothing that is worth trying. */
static int most_worth(const struct auto_state *x)
{
	const struct herd *h = &x->herd;
	int best = -1;
	double most = x->asked < PATIENCE ? 0 : GAINLESS;
	for (int i = 0; i < h->npool; i++) {
		double w = herd_in_round(h, h->pool[i].unit) ? 0 : worth(x, &h->pool[i]);
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
	int best = x->herd.nround < HERD_ROUND && x->rounds ? most_worth(x) : -1;
	for (int i = 0; best < 0 && i < VAIN; i++) {
		next_round(x);
		best = most_worth(x);
	}
	x->asked++;
	return herd_take(&x->herd, best, cand);
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
