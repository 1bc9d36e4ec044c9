/* SPDX-License-Identifier: Apache-2.0 */
/* Evolution under a cost model. A generation is bred from the best measured candidates by mutation and
 * crossover, with random immigrants; the model ranks it, and the front of that order is proposed, one per
 * structure, because twins that the model cannot tell apart would fill it. Every fourth proposal is picked
 * blindly: where the model is wrong its favourites are all alike. */
#include "search/strategy.h"

#include <string.h>

enum {
	PARENTS = 16, /* measured candidates kept */
	BROOD = 96,   /* bred and guessed per generation: some 0.1 ms */
	FIRST = 512,  /* random candidates guessed before anything is known */
	BATCH = 8,    /* proposed from one generation */
	BLIND = 4,    /* one in so many proposals ignores the model */
};

struct member {
	char cand[CAND_MAX];
	double ns; /* measured (parents) or guessed (brood) */
};

struct evolve {
	const struct guide *guide;
	struct rng rng;
	struct member parent[PARENTS]; /* fastest first */
	int nparents;
	struct member *brood; /* FIRST of them */
	int nbrood;
	struct member next[BATCH];
	int nnext, at;
};

static int evolve_start(struct arena *a, const struct guide *g, uint64_t seed, void **state)
{
	struct evolve *e = ARENA_NEW(a, struct evolve);
	e->guide = g;
	rng_seed(&e->rng, seed);
	e->brood = ARENA_ARRAY(a, struct member, FIRST);
	*state = e;
	return E_OK;
}

/* A parent, the better the likelier: the best of two draws. */
static const char *pick_parent(struct evolve *e)
{
	uint32_t i = rng_below(&e->rng, (uint32_t)e->nparents), j = rng_below(&e->rng, (uint32_t)e->nparents);
	return e->parent[i < j ? i : j].cand;
}

static int breed(struct evolve *e, char cand[CAND_MAX])
{
	uint32_t die = rng_below(&e->rng, 10);
	if (e->nparents == 0 || die < 2)
		return space_random(e->guide->space, &e->rng, cand);
	if (e->nparents == 1 || die < 7)
		return space_mutate(e->guide->space, &e->rng, pick_parent(e), cand);
	return space_cross(e->guide->space, &e->rng, pick_parent(e), pick_parent(e), cand);
}

static int fill_brood(struct evolve *e)
{
	int want = e->nparents < 2 ? FIRST : BROOD, rc = E_OK;
	e->nbrood = 0;
	for (int i = 0; i < want; i++) {
		struct member *m = &e->brood[e->nbrood];
		int got = breed(e, m->cand);
		if (got < 0) {
			rc = got;
			continue;
		}
		m->ns = guide_guess(e->guide, m->cand).ns;
		e->nbrood++;
	}
	return e->nbrood ? E_OK : rc;
}

static bool structure_taken(const struct evolve *e, const char *cand)
{
	char one[CAND_MAX], other[CAND_MAX];
	space_structure(cand, one);
	for (int i = 0; i < e->nnext; i++) {
		space_structure(e->next[i].cand, other);
		if (!strcmp(one, other))
			return true;
	}
	return false;
}

/* Index of the member to propose next; negative time marks those already looked at. -1: none left. */
static int best_of_brood(const struct evolve *e)
{
	int best = -1;
	for (int i = 0; i < e->nbrood; i++)
		if (e->brood[i].ns >= 0 && (best < 0 || e->brood[i].ns < e->brood[best].ns))
			best = i;
	return best;
}

static int next_generation(struct evolve *e)
{
	int rc = fill_brood(e);
	if (rc < 0)
		return rc;
	e->nnext = e->at = 0;
	for (int looked = 0; looked < e->nbrood && e->nnext < BATCH; looked++) {
		bool blind = e->nnext % BLIND == BLIND - 1;
		int i = blind ? (int)rng_below(&e->rng, (uint32_t)e->nbrood) : best_of_brood(e);
		if (i < 0)
			break;
		bool fresh = e->brood[i].ns >= 0 && !structure_taken(e, e->brood[i].cand);
		e->brood[i].ns = -1;
		if (fresh)
			e->next[e->nnext++] = e->brood[i];
	}
	if (e->nnext == 0)
		e->next[e->nnext++] = e->brood[0];
	return E_OK;
}

static int evolve_ask(void *state, char cand[CAND_MAX])
{
	struct evolve *e = state;
	if (e->at == e->nnext) {
		int rc = next_generation(e);
		if (rc < 0)
			return rc;
	}
	memcpy(cand, e->next[e->at++].cand, CAND_MAX);
	return E_OK;
}

static void evolve_tell(void *state, const char *cand, const struct meas *m)
{
	struct evolve *e = state;
	if (m->status != MEAS_OK || m->runs == 0)
		return;
	int i = e->nparents < PARENTS ? e->nparents++ : PARENTS;
	if (i == PARENTS && (double)m->min_ns >= e->parent[PARENTS - 1].ns)
		return;
	if (i == PARENTS)
		i--;
	for (; i > 0 && e->parent[i - 1].ns > (double)m->min_ns; i--)
		e->parent[i] = e->parent[i - 1];
	memset(&e->parent[i], 0, sizeof e->parent[i]);
	strncpy(e->parent[i].cand, cand, CAND_MAX - 1);
	e->parent[i].ns = (double)m->min_ns;
}

const struct strategy strategy_evolve = {
    .name = "evolve",
    .start = evolve_start,
    .ask = evolve_ask,
    .tell = evolve_tell,
};
