/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling by clusters, after Chameleon's adaptive sampling (ICLR 2020, section 3.3): the best of many draws,
 * mostly offspring of the fastest measured candidates, fill the pool, whose members are clustered by their
 * features (k-means; as many clusters as still lower the loss clearly); of each cluster the member nearest to
 * its centre is measured. What to sample next is learnt from all measurements of the task (search/belief.h):
 * they correct the guesses near them, and the rest of a round goes to the fastest corrected guesses. (In
 * Chameleon an agent trained by reinforcement proposes the candidates to be clustered.) A round of HERD_ROUND
 * proposals draws 64 candidates and clusters 64: 1 to 2 ms. */
#include "search/belief.h"
#include "search/strategy.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { POOL = 64, DRAWN = 64, MOST = 6 /* clusters */, LLOYD = 4 /* iterations */ };

#define FRESH 0.3
#define KNEE 0.85 /* largest ratio of losses at which one more cluster is worth it */

struct cluster {
	struct herd herd;
	float scale[FEATURES];        /* 1 / deviation in the pool */
	float centre[MOST][FEATURES]; /* scaled */
	bool sampled[MOST];           /* a member was proposed */
	int n;
};

static int cluster_start(struct arena *a, const struct guide *g, uint64_t seed, void **state)
{
	struct cluster *c = ARENA_NEW(a, struct cluster);
	herd_open(&c->herd, a, g, seed, POOL);
	*state = c;
	return E_OK;
}

static int breed(void *state, char cand[CAND_MAX])
{
	return herd_breed(&((struct cluster *)state)->herd, FRESH, cand);
}

/* ---- k-means ---- */

static void set_scale(struct cluster *c)
{
	const struct herd *h = &c->herd;
	for (int k = 0; k < FEATURES; k++) {
		double sum = 0, squares = 0;
		for (int i = 0; i < h->npool; i++) {
			sum += h->pool[i].f[k];
			squares += (double)h->pool[i].f[k] * h->pool[i].f[k];
		}
		double mean = sum / h->npool, var = squares / h->npool - mean * mean;
		c->scale[k] = var > 1e-6 ? (float)(1 / sqrt(var)) : 0;
	}
}

static double distance(const struct cluster *c, const struct member *m, int centre)
{
	double d = 0;
	for (int k = 0; k < FEATURES; k++) {
		double x = (double)m->f[k] * c->scale[k] - c->centre[centre][k];
		d += x * x;
	}
	return d;
}

static int nearest_centre(const struct cluster *c, const struct member *m, double *d)
{
	int best = 0;
	*d = DBL_MAX;
	for (int i = 0; i < c->n; i++) {
		double at = distance(c, m, i);
		if (at < *d) {
			*d = at;
			best = i;
		}
	}
	return best;
}

static void set_centre(struct cluster *c, int centre, const struct member *m)
{
	for (int k = 0; k < FEATURES; k++)
		c->centre[centre][k] = m->f[k] * c->scale[k];
}

/* Adds a centre: the member that is farthest from all centres. */
static void add_centre(struct cluster *c)
{
	const struct herd *h = &c->herd;
	int far = 0;
	double most = -1, d;
	for (int i = 0; i < h->npool && c->n; i++) {
		nearest_centre(c, &h->pool[i], &d);
		if (d > most) {
			most = d;
			far = i;
		}
	}
	set_centre(c, c->n++, &h->pool[far]);
}

/* Moves the centres to the means of their members. Returns the sum of squared distances before the move. */
static double lloyd(struct cluster *c)
{
	double sum[MOST][FEATURES] = {{0}}, loss = 0, d;
	int n[MOST] = {0};
	const struct herd *h = &c->herd;
	for (int i = 0; i < h->npool; i++) {
		int at = nearest_centre(c, &h->pool[i], &d);
		loss += d;
		n[at]++;
		for (int k = 0; k < FEATURES; k++)
			sum[at][k] += (double)h->pool[i].f[k] * c->scale[k];
	}
	for (int i = 0; i < c->n; i++)
		for (int k = 0; k < FEATURES && n[i]; k++)
			c->centre[i][k] = (float)(sum[i][k] / n[i]);
	return loss;
}

/* Adds clusters until one more does not lower the loss clearly. */
static void find_clusters(struct cluster *c)
{
	double last = DBL_MAX;
	set_scale(c);
	c->n = 0;
	while (c->n < MOST && c->n < c->herd.npool) {
		double loss = 0;
		add_centre(c);
		for (int i = 0; i < LLOYD; i++)
			loss = lloyd(c);
		if (loss > KNEE * last)
			break;
		last = loss;
	}
	memset(c->sampled, 0, sizeof c->sampled);
}

/* ---- proposals ---- */

/* Chooses the member nearest to the centre of a cluster of which none was proposed yet; -1: there is no such
 * cluster. */
static int representative(struct cluster *c)
{
	const struct herd *h = &c->herd;
	for (int at = 0; at < c->n; at++) {
		int best = -1;
		double least = DBL_MAX, d;
		for (int i = 0; i < h->npool && !c->sampled[at]; i++)
			if (nearest_centre(c, &h->pool[i], &d) == at && d < least) {
				least = d;
				best = i;
			}
		c->sampled[at] = true;
		if (best >= 0)
			return best;
	}
	return -1;
}

/* Corrects every guess by what was measured near it. */
static void correct(struct cluster *c)
{
	struct herd *h = &c->herd;
	struct belief b;
	double sd;
	belief_form(&b, h);
	for (int i = 0; i < h->npool; i++)
		belief_of(&b, &h->pool[i], &h->pool[i].log_ns, &sd);
}

static int cluster_ask(void *state, char cand[CAND_MAX])
{
	struct cluster *c = state;
	struct herd *h = &c->herd;
	if (h->npool == 0 || h->nround == HERD_ROUND) {
		herd_round(h);
		herd_fill(h, DRAWN, breed, c);
		find_clusters(c);
	}
	int i = representative(c);
	if (i < 0) {
		correct(c);
		i = herd_best(h, 0);
	}
	return herd_propose(h, i, cand);
}

static void cluster_tell(void *state, const char *cand, const struct meas *m)
{
	herd_tell(&((struct cluster *)state)->herd, cand, m);
}

const struct strategy strategy_cluster = {
    .name = "cluster",
    .start = cluster_start,
    .ask = cluster_ask,
    .tell = cluster_tell,
};
