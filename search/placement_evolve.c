/* SPDX-License-Identifier: Apache-2.0 */
/* Evolution of placements. A child is a parent whose pieces in one part of the network are replaced: by
 * those of another parent, or by pieces of one back end where it has any. Operators that are then not covered
 * get the pieces that cost least with the moves to what is known, times a random factor. The population
 * keeps the best that were tried, each once. If costs are measured, several children are made and the one
 * with the least computed cost is measured. */
#include "search/placement_parts.h"
#include "platform/base/rng.h"

#include <math.h>
#include <string.h>

enum {
	POPULATION = 32,
	TOURNAMENT = 3,
	CHILDREN = 8 /* per measured one */,
	FRUITLESS = 4 /* children per budget */
};
#define NOISE 0.5   /* of a piece's cost, at most */
#define CROSSED 0.5 /* share of children of two parents, as in Collage */

struct member {
	int *piece, n;
	double ns;
};

struct evolution {
	struct place_best *b;
	struct rng rng;
	struct member of[POPULATION];
	int n;
	uint64_t *tried; /* hashes; 0: free */
	size_t ntried;   /* power of two */
	struct member child, pick;
	int *owner;               /* of the child in work, per operator: piece, -1: none */
	int *queue, *mark, stamp; /* operators of the region */
	unsigned char *format;    /* per value, of the child in work */
};

/* false: it was tried before. */
static bool note_tried(struct evolution *e, const struct member *m, bool note)
{
	uint64_t hash = place_hash(m->piece, m->n);
	size_t i = hash & (e->ntried - 1);
	for (; e->tried[i]; i = (i + 1) & (e->ntried - 1))
		if (e->tried[i] == hash)
			return false;
	if (note)
		e->tried[i] = hash;
	return true;
}

static void copy(struct member *to, const struct member *from)
{
	memcpy(to->piece, from->piece, sizeof(int) * (size_t)from->n);
	to->n = from->n;
	to->ns = from->ns;
}

static void insert(struct evolution *e, const struct member *m)
{
	int worst = 0;
	if (e->n < POPULATION) {
		copy(&e->of[e->n++], m);
		return;
	}
	for (int i = 1; i < e->n; i++)
		if (e->of[i].ns > e->of[worst].ns)
			worst = i;
	if (m->ns < e->of[worst].ns)
		copy(&e->of[worst], m);
}

static const struct member *choose_parent(struct evolution *e)
{
	const struct member *best = NULL;
	for (int i = 0; i < TOURNAMENT; i++) {
		const struct member *m = &e->of[rng_below(&e->rng, (uint32_t)e->n)];
		best = !best || m->ns < best->ns ? m : best;
	}
	return best;
}

static void own(struct evolution *e, int piece, int owner)
{
	const struct placement_piece *x = &e->b->net->p->piece[piece];
	for (int k = 0; k < x->nops; k++)
		e->owner[x->op[k]] = owner;
	for (int k = 0; k < x->nwrites; k++)
		e->format[x->write[k].value] = owner < 0 ? PLACE_NONE : (unsigned char)x->write[k].format;
}

static void own_all(struct evolution *e, const struct member *m)
{
	const struct placement_problem *p = e->b->net->p;
	for (int v = 0; v < p->nvalues; v++)
		e->format[v] = (unsigned char)e->b->net->value[v].format;
	for (int i = 0; i < m->n; i++)
		own(e, m->piece[i], m->piece[i]);
}

/* Operators of a region, in queue[]: neighbours in the order, or in the graph. */
static int grow_region(struct evolution *e)
{
	const struct placement_problem *p = e->b->net->p;
	int size = 1 << rng_below(&e->rng, 6), n = 0, start = (int)rng_below(&e->rng, (uint32_t)p->nops);
	if (rng_below(&e->rng, 2)) {
		for (int op = start; op < p->nops && n < size; op++)
			e->queue[n++] = op;
		return n;
	}
	e->mark[e->queue[n++] = start] = ++e->stamp;
	for (int head = 0; head < n && n < size; head++) {
		const struct placement_op *x = &p->op[e->queue[head]];
		for (int r = 0; r < x->nreads && n < size; r++) {
			int writer = e->b->net->value[x->read[r]].writer;
			if (writer >= 0 && e->mark[writer] != e->stamp)
				e->mark[e->queue[n++] = writer] = e->stamp;
		}
		for (int w = 0; w < x->nwrites; w++) {
			const struct place_value *v = &e->b->net->value[x->write[w]];
			for (int r = 0; r < v->nreaders && n < size; r++)
				if (e->mark[v->reader[r]] != e->stamp)
					e->mark[e->queue[n++] = v->reader[r]] = e->stamp;
		}
	}
	return n;
}

static bool fits(const struct evolution *e, const struct placement_piece *x)
{
	for (int k = 0; k < x->nops; k++)
		if (e->owner[x->op[k]] >= 0)
			return false;
	return true;
}

/* Format in which the piece reads the value; PLACE_NONE: it does not. */
static int reads_as(const struct placement_piece *x, int value)
{
	for (int k = 0; k < x->nreads; k++)
		if (x->read[k].value == value)
			return x->read[k].format;
	return PLACE_NONE;
}

/* Time per operator, with the moves between it and the pieces that are there. */
static double cost_here(const struct evolution *e, int piece)
{
	const struct place_net *net = e->b->net;
	const struct placement_piece *x = &net->p->piece[piece];
	double ns = net->piece[piece].ns;
	for (int k = 0; k < x->nreads; k++) {
		int from = e->format[x->read[k].value];
		if (from != PLACE_NONE)
			ns += place_move(&net->value[x->read[k].value], from, x->read[k].format);
	}
	for (int k = 0; k < x->nwrites; k++) {
		const struct place_value *v = &net->value[x->write[k].value];
		for (int r = 0; r < v->nreaders; r++) {
			int reader = e->owner[v->reader[r]];
			int to =
			    reader < 0 ? PLACE_NONE : reads_as(&net->p->piece[reader], x->write[k].value);
			if (to != PLACE_NONE)
				ns += place_move(v, x->write[k].format, to);
		}
	}
	return ns / x->nops;
}

/* Covers what is not covered; pieces of back end `prefer` first. false: it came to a dead end. */
static bool repair(struct evolution *e, int backend, int device)
{
	const struct place_net *net = e->b->net;
	for (int op = 0; op < net->p->nops; op++) {
		if (e->owner[op] >= 0)
			continue;
		int best = -1;
		double best_ns = INFINITY;
		bool preferred = false;
		for (int k = net->begin_at[op]; k < net->begin_at[op + 1]; k++) {
			int piece = net->begins[k];
			bool liked =
			    net->p->piece[piece].backend == backend || net->p->piece[piece].device == device;
			if (!fits(e, &net->p->piece[piece]) || (preferred && !liked))
				continue;
			double ns = cost_here(e, piece) * (1 + NOISE * rng_unit(&e->rng));
			if (ns < best_ns || (liked && !preferred && !isinf(ns))) {
				best = piece;
				best_ns = ns;
				preferred = liked;
			}
		}
		if (best < 0)
			return false;
		own(e, best, best);
	}
	return true;
}

/* The child in work as a set of pieces. */
static void collect(const struct evolution *e, struct member *m)
{
	const struct place_net *net = e->b->net;
	m->n = 0;
	for (int op = 0; op < net->p->nops; op++)
		if (net->piece[e->owner[op]].first == op)
			m->piece[m->n++] = e->owner[op];
}

/* false: no child came of it. */
static bool breed(struct evolution *e, struct member *child)
{
	const struct place_net *net = e->b->net;
	const struct member *other = e->n > 1 && rng_unit(&e->rng) < CROSSED ? choose_parent(e) : NULL;
	int n = grow_region(e), backend = -1, device = -1;
	own_all(e, choose_parent(e));
	for (int i = 0; i < n; i++)
		if (e->owner[e->queue[i]] >= 0)
			own(e, e->owner[e->queue[i]], -1);
	if (other) {
		for (int i = 0; i < other->n; i++)
			if (fits(e, &net->p->piece[other->piece[i]]))
				own(e, other->piece[i], other->piece[i]);
	} else if (rng_below(&e->rng, 2)) {
		device = (int)rng_below(&e->rng, (uint32_t)net->p->ndevices);
	} else {
		backend = (int)rng_below(&e->rng, (uint32_t)net->p->nbackends + 1);
	}
	if (!repair(e, backend, device))
		return false;
	collect(e, child);
	return note_tried(e, child, false);
}

/* Computes the cost of a child, for children that will be measured. */
static double predict(struct evolution *e, const struct member *m)
{
	double alone_ns;
	if (!place_own(&e->b->cost, m->piece, m->n))
		return INFINITY;
	return place_cost(&e->b->cost, e->b->s->overlap, m->piece, m->n, NULL, &alone_ns, NULL);
}

static bool breed_best(struct evolution *e)
{
	bool found = false;
	if (!e->b->s->measure)
		return breed(e, &e->child);
	for (int i = 0; i < CHILDREN; i++) {
		if (!breed(e, &e->pick))
			continue;
		e->pick.ns = predict(e, &e->pick);
		if (!isinf(e->pick.ns) && (!found || e->pick.ns < e->child.ns)) {
			copy(&e->child, &e->pick);
			found = true;
		}
	}
	return found;
}

static int begin(struct evolution *e, struct arena *a)
{
	size_t nops = (size_t)e->b->net->p->nops;
	int *pieces = arena_try(a, (POPULATION + 2) * nops, sizeof *pieces);
	e->owner = arena_try(a, nops, sizeof(int));
	e->queue = arena_try(a, nops, sizeof(int));
	e->mark = arena_try(a, nops, sizeof(int));
	e->format = arena_try(a, (size_t)e->b->net->p->nvalues + 1, 1);
	for (e->ntried = 1024; e->ntried / 2 < (size_t)e->b->budget + PLACEMENT_BACKENDS; e->ntried *= 2)
		;
	e->tried = arena_try(a, e->ntried, sizeof *e->tried);
	if (!pieces || !e->owner || !e->queue || !e->mark || !e->format || !e->tried)
		return E_NOMEM;
	for (int i = 0; i < POPULATION; i++)
		e->of[i].piece = pieces + (size_t)i * nops;
	e->child.piece = pieces + POPULATION * nops;
	e->pick.piece = e->child.piece + nops;
	return E_OK;
}

static int evolve(struct evolution *e)
{
	int rc = E_OK;
	for (int64_t left = (int64_t)FRUITLESS * e->b->budget; left > 0 && rc >= 0 && e->n; left--) {
		if (place_over(e->b))
			break;
		if (!breed_best(e))
			continue;
		note_tried(e, &e->child, true);
		rc = place_try(e->b, e->child.piece, e->child.n, &e->child.ns);
		if (rc >= 0 && !isinf(e->child.ns))
			insert(e, &e->child);
	}
	return rc;
}

int place_evolve(struct place_best *b, const int *seed, const int *seed_n, const double *seed_ns, int nseeds)
{
	struct arena a = {0};
	struct evolution e = {.b = b};
	size_t nops = (size_t)b->net->p->nops;
	int rc = begin(&e, &a);
	rng_seed(&e.rng, b->s->seed);
	for (int i = 0; i < nseeds && rc >= 0; i++) {
		memcpy(e.child.piece, seed + (size_t)i * nops, sizeof(int) * (size_t)seed_n[i]);
		e.child.n = seed_n[i];
		e.child.ns = seed_ns[i];
		if (note_tried(&e, &e.child, true) && !isinf(seed_ns[i]))
			insert(&e, &e.child);
	}
	if (rc >= 0)
		rc = evolve(&e);
	arena_free(&a);
	return rc;
}
