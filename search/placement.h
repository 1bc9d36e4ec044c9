/* SPDX-License-Identifier: Apache-2.0 */
/* Placement: which back end runs which part of a network, so that the whole network is fastest (Collage, Jeon
 * et al., PACT 2022). This module is the solver: it knows no device and measures nothing.
 *
 * A piece is a set of operators that one back end runs as one, with its time. A placement is a set of pieces
 * that covers each operator exactly once. It is legal if
 * - a value that is read outside of the piece that computes it is written by that piece,
 * - each value can be moved into each format in which it is read, and
 * - the pieces can run one after the other: no two of them wait for each other.
 * A format is device memory x layout x type, as a small number. A move brings a value from the format in
 * which it was written to another one; that happens once, for all readers of that format. A caller whose
 * moves go through a third format gives the price of the whole way.
 *
 * Cost (a), one at a time: the sum of the times of pieces, of their launches and of moves. Cost (b), several
 * devices at once: the end of the last step of a list schedule, of which there are two; the shorter one
 * counts. A device runs its pieces one at a time. Of the pieces whose inputs are written, the next is the one
 * that can start first; of those, the one with the longest path to the end of the network (times, launches
 * and moves); of those, the one with the lowest operator. The other schedule looks at the path first, then at
 * the start. Just before a piece, the moves that it needs and nobody made are made, in the order of its
 * reads; moves to the network's outputs are last. A move takes the time of the device that `mover` names,
 * else of one copy engine, which makes one move at a time beside all devices. Cost (b) is never more than
 * cost (a).
 *
 * The search has two levels. First, dynamic programming in the order of the operators minimises cost (a). Its
 * state is the set of operators that are covered so far and the formats of the values that are still needed.
 * Of the states with the same first uncovered operator, it keeps the PLACEMENT_BEAM that have the least cost
 * with a lower bound of the rest; it is exact if none was dropped, as in chains, residual blocks and other
 * networks with few live values. Pieces without operators between theirs keep it fast: order the operators
 * branch by branch. Second, if that was not exact, or if the cost is (b) or a callback that measures the
 * network, all placements are tried if they are few (PLACEMENT_FEW), else evolution changes one part of the
 * network at a time. It begins with the answer of the first level and the best placement on each single back
 * end, so the answer is never worse than one of these. The same problem and seed have the same answer. */
#ifndef SEARCH_PLACEMENT_H
#define SEARCH_PLACEMENT_H

#include "platform/base/arena.h"
#include "platform/base/err.h"

#include <stdbool.h>

enum {
	PLACEMENT_OPS = 4096,
	PLACEMENT_VALUES = 16384,
	PLACEMENT_PIECES = 16384,
	PLACEMENT_FORMATS = 32,
	PLACEMENT_BACKENDS = 64,
	PLACEMENT_DEVICES = 16,
	PLACEMENT_BEAM = 96,
	PLACEMENT_FEW = 4096, /* as many as 12 pieces can have */
	PLACEMENT_EVALS = 2000,
	PLACEMENT_WORK =
	    200000, /* operators x placements, if the caller gives no budget: 0.1 s on a fast core */
	PLACEMENT_MOST_EVALS = 1 << 20,
};
#define PLACEMENT_MOST_NS 1e15 /* of a single time: 11 days */

struct placement_op {
	int nreads, nwrites;
	const int *read, *write; /* values; constants are not among them */
};

/* A value in a format. */
struct placement_port {
	int value, format;
};

struct placement_piece {
	int nops;
	const int *op; /* in any order */
	int backend, device;
	double ns;       /* without its launch; unmeasured: the least that it could be */
	bool unmeasured; /* no placement uses it; placement_next may propose it */
	int nreads, nwrites;
	const struct placement_port *read;  /* exactly the values that come from outside of the piece */
	const struct placement_port *write; /* those that it computes and others may read */
};

struct placement_problem {
	int nops, nvalues, npieces, nformats, nbackends, ndevices, ninputs, noutputs;
	const struct placement_op *op; /* in topological order */
	const struct placement_piece *piece;
	const struct placement_port *input;  /* of the network, in the format in which it is given */
	const struct placement_port *output; /* and in which it is wanted */
	const double *launch_ns;             /* per device */
	/* Time to bring a value from one format to another one, >= 0; INFINITY: it cannot be done. */
	double (*move_ns)(void *moves, int value, int from, int to);
	void *moves;
	const int *mover; /* [from][to]: device that makes the move, -1: the copy engine; NULL: all -1 */
};

struct placement {
	int n;
	const int *piece; /* in an order in which they can run */
	double ns;        /* the cost that was asked for */
	double alone_ns;  /* cost (a) */
	bool exact;       /* no other placement costs less */
	int evals;        /* placements whose cost was computed or measured; 0: the first level sufficed */
};

struct placement_search {
	bool overlap; /* cost (b) */
	uint64_t seed;
	/* Budget of placements of the second level. 0: PLACEMENT_EVALS, less for networks with many operators
	 * (PLACEMENT_WORK). */
	int evals;
	bool (*over)(void *user); /* true: end with the best so far; may be NULL */
	/* Measures the whole network, for times that do not add up; may be NULL. E_INFEASIBLE: this placement
	 * cannot run. E_STOPPED, E_TIMEOUT: as if over; if nothing was measured, and for another error, the
	 * search fails. Give it more evals than there are back ends: the seeds are measured first. */
	int (*measure)(void *user, const struct placement *x, double *ns);
	void *user;
};

/* The best placement that is found, of measured pieces. E_NOTFOUND: there is no legal one, or none was found;
 * E_USAGE: the problem is malformed. */
int placement_solve(const struct placement_problem *p, const struct placement_search *s, struct arena *a,
		    struct placement *out) MUST_CHECK;
/* The best one with the fewest operators on other back ends. s->measure is not used. */
int placement_single(const struct placement_problem *p, int backend, const struct placement_search *s,
		     struct arena *a, struct placement *out) MUST_CHECK;
/* Tries all placements. E_UNSUPPORTED: there are more than PLACEMENT_FEW. */
int placement_exhaustive(const struct placement_problem *p, const struct placement_search *s, struct arena *a,
			 struct placement *out) MUST_CHECK;
/* The costs and the order of a given set of pieces; it may contain unmeasured ones. E_INFEASIBLE: it is not
 * a legal placement. */
int placement_cost(const struct placement_problem *p, bool overlap, const int *piece, int n, struct arena *a,
		   struct placement *out) MUST_CHECK;

/* Which piece to measure next. Unmeasured pieces are first believed to be as fast as they could be. While the
 * best placement then has some, one of them is proposed: the one that could save most for what measuring it
 * costs, compared with the pieces that run its operators in the best measured placement. Once the best one
 * has none, measuring more cannot change the answer (of an exact search). */
struct placement_ask {
	int piece;
	double gain_ns; /* at most so much faster can the network become by measuring; INFINITY: it has no
			   placement of measured pieces */
};
/* 1: proposed, 0: nothing is worth measuring. price_ns: per piece, of measuring it, > 0; NULL: all alike. */
int placement_next(const struct placement_problem *p, const struct placement_search *s,
		   const double *price_ns, struct arena *a, struct placement_ask *out) MUST_CHECK;
/* How much of a box placement may take: 10 % of 20 s and more, 30 % of shorter boxes. */
int64_t placement_share_ns(int64_t box_ns);

#endif
