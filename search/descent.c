/* SPDX-License-Identifier: Apache-2.0 */
#include "search/descent.h"

#include <math.h>
#include <string.h>

/* Adam (Kingma and Ba 2015). EPSILON makes slopes below it count as flat; without it their steps would be as
 * large as any. */
#define RATE 0.5 /* step in a logarithm, during the first EARLY of the steps; a fifth of it later */
#define RATE_LATE 0.1
#define EARLY 0.3
#define BETA1 0.9
#define BETA2 0.999
#define EPSILON 1e-3
#define PUSH 5.0 /* weight of violated constraints against the cost's gradient */
#define OFF 0.5  /* sd of the start of every other seed around its candidate, of a logarithm */

struct adam {
	double x[RELAX_MAX], m[RELAX_MAX], v[RELAX_MAX];
	double decay1, decay2; /* powers of the betas */
};

/* Finds the pool's candidates that are predicted fastest, at most `most`, as indices into the pool. */
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

/* Chooses the candidates that descents start from. They are copied, because the pool changes during the
 * descents. */
static int choose(struct herd *h, int most, char seed[][CAND_MAX])
{
	int at[DESCENT_SEEDS], n = favourites(h, h->ntold ? most / 2 : most, at);
	for (int i = 0; i < n; i++)
		strcpy(seed[i], h->pool[at[i]].cand);
	for (; h->ntold && n < most; n++)
		strcpy(seed[n], herd_parent(h)->cand);
	return n;
}

/* Starts at the candidate's own numbers, plus noise of sd `off`. */
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

static double norm(const double *v, int n)
{
	double sum = 0;
	for (int i = 0; i < n; i++)
		sum += v[i] * v[i];
	return sqrt(sum);
}

/* The cost's gradient, plus the penalty's gradient scaled to PUSH times the cost's length. */
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

static void step(struct relax *r, struct adam *o, double rate)
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
		double by = o->m[i] / (1 - o->decay1) / (sqrt(o->v[i] / (1 - o->decay2)) + EPSILON);
		o->x[i] = fmin(top, fmax(low, o->x[i] - rate * by));
	}
}

static void add(struct herd *h, const char *cand)
{
	if (herd_knows(h, cand))
		return;
	member_set(h, &h->spare, cand);
	herd_add(h, &h->spare);
}

/* Descends from one seed and adds each new rounded point of its path to the pool. */
static void follow(struct herd *h, struct relax *r, int steps, double off)
{
	struct adam o;
	uint64_t seen[DESCENT_STEPS];
	int nseen = 0;
	start_at(h, r, off, &o);
	for (int k = 0; k < steps; k++) {
		char cand[CAND_MAX];
		int way = k % RELAX_ROUNDINGS, j = 0;
		step(r, &o, k < EARLY * steps ? RATE : RATE_LATE);
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

void descend(struct herd *h, struct relax *r, int seeds, int steps)
{
	char seed[DESCENT_SEEDS][CAND_MAX];
	int n = choose(h, seeds, seed);
	for (int i = 0; i < n; i++)
		if (relax_sketch(r, h->guide->space, seed[i]) >= 0)
			follow(h, r, steps, i % 2 ? OFF : 0);
}
