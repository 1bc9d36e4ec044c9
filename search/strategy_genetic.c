/* SPDX-License-Identifier: Apache-2.0 */
/* A genetic algorithm over measured candidates alone, without a model, as in Tensor Comprehensions (2018,
 * section 5). When a whole generation is measured, the next one is bred: parents are drawn in proportion to
 * their speed, crossed and mutated. The fastest of all stay among the parents. Candidates that fail have no
 * offspring. */
#include "search/herd.h"
#include "search/strategy.h"

#include <math.h>
#include <string.h>

enum { POPULATION = 16, ELITE = 2 };

#define CROSS 0.8
#define MUTATE 0.3

struct genetic {
	struct herd herd;
	struct member now[POPULATION], parent[POPULATION + ELITE];
	bool timed[POPULATION];
	int nnow, nparents;
};

static int genetic_start(struct arena *a, const struct guide *g, uint64_t seed, void **state)
{
	struct genetic *x = ARENA_NEW(a, struct genetic);
	herd_open(&x->herd, a, g, seed, 1);
	*state = x;
	return E_OK;
}

/* Parents are the members of the last generation that have a time, and the fastest candidates of all. */
static void select_parents(struct genetic *x)
{
	struct herd *h = &x->herd;
	x->nparents = 0;
	for (int i = 0; i < ELITE && i < h->ntold; i++)
		member_copy(h, &x->parent[x->nparents++], &h->told[i]);
	for (int i = 0; i < x->nnow; i++)
		if (x->timed[i])
			member_copy(h, &x->parent[x->nparents++], &x->now[i]);
}

/* Draws a parent in proportion to its speed. */
static const char *pick(struct genetic *x)
{
	double sum = 0, fastest = x->parent[0].log_ns;
	for (int i = 0; i < x->nparents; i++)
		sum += exp(fastest - x->parent[i].log_ns);
	double at = sum * rng_unit(&x->herd.rng);
	int i = 0;
	for (; i < x->nparents - 1; i++)
		if ((at -= exp(fastest - x->parent[i].log_ns)) < 0)
			break;
	return x->parent[i].cand;
}

static int child(void *state, char cand[CAND_MAX])
{
	struct genetic *x = state;
	struct rng *r = &x->herd.rng;
	const struct space *s = x->herd.guide->space;
	char crossed[CAND_MAX];
	if (!x->nparents)
		return space_random(s, r, cand);
	if (rng_unit(r) >= CROSS)
		return space_mutate(s, r, pick(x), cand);
	int rc = space_cross(s, r, pick(x), pick(x), crossed);
	if (rc < 0)
		return rc;
	if (rng_unit(r) < MUTATE || herd_knows(&x->herd, crossed))
		return space_mutate(s, r, crossed, cand);
	strcpy(cand, crossed);
	return E_OK;
}

static int genetic_ask(void *state, char cand[CAND_MAX])
{
	struct genetic *x = state;
	struct herd *h = &x->herd;
	if (x->nnow == POPULATION) {
		select_parents(x);
		x->nnow = 0;
	}
	int rc = herd_propose(h, herd_fill(h, 1, child, x) - 1, cand);
	if (rc < 0)
		return rc;
	x->timed[x->nnow] = false;
	member_set(h, &x->now[x->nnow++], cand);
	return E_OK;
}

static void genetic_tell(void *state, const char *cand, const struct meas *m)
{
	struct genetic *x = state;
	herd_tell(&x->herd, cand, m);
	for (int i = 0; i < x->nnow && herd_timed(m); i++)
		if (!strcmp(x->now[i].cand, cand)) {
			x->now[i].log_ns = log((double)m->min_ns);
			x->timed[i] = true;
		}
}

const struct strategy strategy_genetic = {
    .name = "genetic",
    .start = genetic_start,
    .ask = genetic_ask,
    .tell = genetic_tell,
};
