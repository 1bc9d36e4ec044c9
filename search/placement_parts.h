/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the placement solver share. A net is a checked problem with the tables that the searches
 * need; it holds pointers into the problem. */
#ifndef SEARCH_PLACEMENT_PARTS_H
#define SEARCH_PLACEMENT_PARTS_H

#include "search/placement.h"

enum { PLACE_NONE = 255 /* format of a value that is not written yet */ };

struct place_value {
	int writer;    /* operator; -1: an input of the network */
	int format;    /* of an input; PLACE_NONE: it is computed */
	uint32_t want; /* formats in which the network's output is wanted */
	uint32_t from, to;
	const double *move; /* [rank in from][rank in to] */
	int nreaders;
	const int *reader; /* operators, ascending */
};

struct place_piece {
	const struct placement_piece *is;
	double ns;            /* with its launch */
	int first;            /* its lowest operator */
	const uint64_t *mask; /* bit k: operator first + k */
	bool usable;          /* measured or asked for, and what it does not write is not needed elsewhere */
};

struct place_net {
	const struct placement_problem *p;
	struct place_value *value;
	struct place_piece *piece;
	int words; /* of a mask */
	int *begins,
	    *begin_at; /* usable pieces, by first operator: begins[begin_at[op] .. begin_at[op + 1]) */
};

/* Checks a problem and makes its net. */
int place_net(const struct placement_problem *p, bool unmeasured, struct arena *a,
	      struct place_net *out) MUST_CHECK;

static inline bool place_covers(const struct place_piece *x, int op)
{
	int k = op - x->first;
	return k >= 0 && x->mask[k / 64] >> k % 64 & 1;
}

static inline double place_move(const struct place_value *v, int from, int to)
{
	int columns = __builtin_popcount(v->to), row = __builtin_popcount(v->from & ((1u << from) - 1));
	return from == to ? 0 : v->move[row * columns + __builtin_popcount(v->to & ((1u << to) - 1))];
}

/* Computes costs of sets of pieces that cover each operator once. */
struct place_cost {
	const struct place_net *net;
	int *owner;            /* per operator: index in the set, -1: not covered */
	unsigned char *format; /* per value: as it is written */
	uint32_t *there;       /* per value: formats that it was moved to */
	double *at;            /* [values][formats]: when it is there */
	int *waits, *order, *by_start, *ready;
	double *path;
};
int place_cost_new(const struct place_net *net, struct arena *a, struct place_cost *c) MUST_CHECK;
/* Sets owner[]; false: an operator is covered twice or not at all. */
bool place_own(struct place_cost *c, const int *piece, int n);
/* After place_own: the cost, INFINITY if the placement is not legal, and why (may be NULL). order: piece[] in
 * the order in which it runs; may be NULL, and may be piece[] itself. */
double place_cost(struct place_cost *c, bool overlap, const int *piece, int n, int *order, double *alone_ns,
		  const char **why);

static inline bool place_late(const struct placement_search *s)
{
	return s->over && s->over(s->user);
}

/* Dynamic programming. */
struct place_dp {
	const double *surcharge_ns; /* per piece, INFINITY: not to be used; NULL: none */
	int beam;
	double most_ns; /* only placements that cost at most this much are looked for */
	const struct placement_search *s;
};
/* 1: found; 0: none. piece: room for one per operator. *exact: no state was dropped. */
int place_dp(const struct place_net *net, const struct place_dp *how, int *piece, int *n,
	     bool *exact) MUST_CHECK;

/* The best placement so far, and how costs are found. */
struct place_best {
	const struct place_net *net;
	const struct placement_search *s;
	struct place_cost cost;
	int *piece, n, *order; /* order: scratch */
	double ns, alone_ns;
	int evals, budget;
	bool over; /* the callback that measures said so */
};
uint64_t place_hash(const int *piece, int n); /* of a set: any order; not 0 */
/* Computes or measures the cost of a set of pieces that covers all; *ns INFINITY: not legal. */
int place_try(struct place_best *b, const int *piece, int n, double *ns) MUST_CHECK;
/* No further placement may be tried. */
static inline bool place_over(const struct place_best *b)
{
	return b->over || b->evals >= b->budget || place_late(b->s);
}

/* Improves on the seeds: nseeds sets of pieces, one after the other, each of seed_n[i] with room for one per
 * operator, and their costs. */
int place_evolve(struct place_best *b, const int *seed, const int *seed_n, const double *seed_ns,
		 int nseeds) MUST_CHECK;

#endif
