/* SPDX-License-Identifier: Apache-2.0 */
/* Descent in relaxed schedules (kernels/relax.h), as Felix has it (Zhao et al., ASPLOS 2024). Candidates are
 * drawn and bred; the numbers of those that the model likes best, and of measured ones, are let loose, and
 * Adam takes them downhill on the smooth draft. Constraints push back five times as hard as the cost pulls,
 * whatever their units. Every point of every way is rounded, in turn in each of the ways there are, and what
 * is new goes into the pool. The model, which knows more than the draft, and what was measured nearby
 * (search/belief.h) say what of that is proposed, of each structure one in a round: what is learned needs no
 * gradient. Moments and rates begin anew with each seed, and nobody is proposed twice.
 *
 * Unlike Felix's sketches ours are many (orders, lanes, algorithms), so most draws are of a sketch in which
 * no numbers help: seeds in the best 12 of 256 need half as many measurements as 12 blind ones.
 *
 * A round of HERD_ROUND proposals: SEEDS x STEPS evaluations, some 5 us each on a fast core (of blocks of
 * several stages 20), and a rounding of each that says something new, 20 us. */
#include "kernels/relax.h"
#include "search/belief.h"
#include "search/strategy.h"

#include <math.h>
#include <string.h>

/* Of the first round, and of later ones, which need less. */
enum { SEEDS = 12, SEEDS_LATER = 8, STEPS = 24, STEPS_LATER = 12, DRAWN = 256, DRAWN_LATER = 32, POOL = 96 };

/* Adam (Kingma and Ba 2015). Slopes below EPSILON are flat: without it, they would be steps as large as any.
 */
#define RATE 0.5 /* of a logarithm; a fifth of it after a part of the way */
#define RATE_LATE 0.1
#define EARLY 0.3
#define BETA1 0.9
#define BETA2 0.999
#define EPSILON 1e-3
#define PUSH 5.0   /* of constraints that do not hold, against the cost's gradient */
#define BLIND 0.05 /* proposals that ignore the model */
#define FRESH 0.5  /* draws that are not bred */
#define OFF 0.5    /* how far every other seed begins from its candidate, of a logarithm */

struct gradient {
	struct herd herd;
	struct belief belief;
	struct relax *relax; /* the seed's */
	char seed[SEEDS][CAND_MAX];
	bool began;
};

struct adam {
	double x[RELAX_MAX], m[RELAX_MAX], v[RELAX_MAX];
	double decay1, decay2; /* powers of the betas */
};

static int gradient_start(struct arena *a, const struct guide *g, uint64_t seed, void **state)
{
	struct gradient *n = ARENA_NEW(a, struct gradient);
	herd_open(&n->herd, a, g, seed, POOL);
	n->relax = relax_new(a);
	*state = n;
	return E_OK;
}

/* ---- seeds ---- */

static int draw(void *ctx, char cand[CAND_MAX])
{
	return herd_breed(ctx, FRESH, cand);
}

/* The pool's candidates thought fastest, at most `most`, by their place in it. */
static int favourites(const struct herd *h, int most, int at[])
{
	int n = 0;
	for (int i = 0; i < h->npool; i++) {
		int j = n < most ? n++ : most;
		for (; j > 0 && h->pool[at[j - 1]].log_ns > h->pool[i].log_ns; j--)
			if (j < most)
				at[j] = at[j - 1];
		if (j < most)
			at[j] = i;
	}
	return n;
}

/* Whose numbers are let loose: favourites of the pool, and measured candidates. */
static int seeds(struct gradient *n)
{
	struct herd *h = &n->herd;
	int at[SEEDS], most = n->began ? SEEDS_LATER : SEEDS,
		       count = favourites(h, h->ntold ? most / 2 : most, at);
	for (int i = 0; i < count; i++)
		strcpy(n->seed[i], h->pool[at[i]].cand);
	for (; h->ntold && count < most; count++)
		strcpy(n->seed[count], herd_parent(h)->cand);
	return count;
}

/* At the candidate's own numbers, or some way off. */
static void start_at(struct herd *h, const struct relax *r, double off, struct adam *o)
{
	*o = (struct adam){.decay1 = 1, .decay2 = 1};
	relax_start(r, o->x);
	for (int i = 0; i < relax_size(r); i++) {
		double low, top;
		relax_range(r, i, &low, &top);
		o->x[i] = fmin(top, fmax(low, o->x[i] + off * rng_normal(&h->rng)));
	}
}

/* ---- descent ---- */

static double norm(const double *v, int n)
{
	double sum = 0;
	for (int i = 0; i < n; i++)
		sum += v[i] * v[i];
	return sqrt(sum);
}

/* The cost's gradient, and the penalty's at PUSH times its length. */
static void slope(struct relax *r, const double *x, double *g)
{
	double p[RELAX_MAX];
	int n = relax_size(r);
	relax_cost(r, x, g);
	relax_penalty(r, x, p);
	double cost = norm(g, n), push = norm(p, n);
	for (int i = 0; i < n && push > 0; i++)
		g[i] += p[i] / push * PUSH * (cost > 0 ? cost : 1);
}

static void descend(struct relax *r, struct adam *o, double rate)
{
	double g[RELAX_MAX];
	slope(r, o->x, g);
	o->decay1 *= BETA1;
	o->decay2 *= BETA2;
	for (int i = 0; i < relax_size(r); i++) {
		double low, top;
		relax_range(r, i, &low, &top);
		o->m[i] = BETA1 * o->m[i] + (1 - BETA1) * g[i];
		o->v[i] = BETA2 * o->v[i] + (1 - BETA2) * g[i] * g[i];
		double step = o->m[i] / (1 - o->decay1) / (sqrt(o->v[i] / (1 - o->decay2)) + EPSILON);
		o->x[i] = fmin(top, fmax(low, o->x[i] - rate * step));
	}
}

static void add(struct herd *h, const char *cand)
{
	if (herd_knows(h, cand))
		return;
	member_set(h, &h->spare, cand);
	herd_add(h, &h->spare);
}

/* All points of one seed's way. */
static void follow(struct herd *h, struct relax *r, int steps, double off)
{
	struct adam o;
	uint64_t seen[STEPS];
	int nseen = 0;
	start_at(h, r, off, &o);
	for (int k = 0; k < steps; k++) {
		char cand[CAND_MAX];
		int way = k % RELAX_ROUNDINGS, j = 0;
		descend(r, &o, k < EARLY * steps ? RATE : RATE_LATE);
		uint64_t key = relax_key(r, o.x, way).lo;
		while (j < nseen && seen[j] != key)
			j++;
		if (j < nseen)
			continue;
		seen[nseen++] = key;
		relax_round(r, o.x, way, cand);
		add(h, cand);
	}
}

static void descents(struct gradient *n)
{
	struct herd *h = &n->herd;
	int steps = n->began ? STEPS_LATER : STEPS;
	herd_round(h);
	herd_fill(h, n->began ? DRAWN_LATER : DRAWN, draw, h);
	int count = seeds(n);
	for (int i = 0; i < count; i++)
		if (relax_sketch(n->relax, h->guide->space, n->seed[i]) >= 0)
			follow(h, n->relax, steps, i % 2 ? OFF : 0);
	n->began = true;
	belief_form(&n->belief, h);
}

/* What is expected to gain most, of each structure one in a round; some blindly. -1: nothing is left. */
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
		descents(n);
	return herd_take(h, pick(n), cand);
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
