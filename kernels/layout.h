/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of one state for each of many variables at the least sum of costs, where a cost depends on one
 * variable or on a pair of them: the layouts of a whole graph (kernels/layout_graph.c; NeoCPU, Liu et al.,
 * USENIX ATC 2019, states the problem).
 *
 * Variables are eliminated in turn, those with the fewest neighbours first: the costs that one is part of
 * become one table over its neighbours, and the answer is read off backwards (bucket elimination, Dechter
 * 1999). On chains and trees that is dynamic programming, and exact; so it is while no variable has more than
 * LAYOUT_WIDTH neighbours when its turn comes. Where all have more, one keeps the state that the caller gave.
 * So the answer never costs more than what the caller gave, time and memory grow with the number of variables
 * and pairs, and the same problem has the same answer. */
#ifndef KERNELS_LAYOUT_H
#define KERNELS_LAYOUT_H

#include "platform/err.h"

enum { LAYOUT_STATES = 8, LAYOUT_WIDTH = 5 };

/* cost: [states of a][states of b], each >= 0 or INFINITY: not allowed. */
struct layout_pair {
	int a, b; /* a != b */
	const double *cost;
};

struct layout_problem {
	int nvars, npairs;
	const int *states;                   /* per variable: 1 .. LAYOUT_STATES */
	const double (*cost)[LAYOUT_STATES]; /* per variable and state, as of pairs */
	const struct layout_pair *pair;
};

double layout_cost(const struct layout_problem *p, const int *state);
/* state: given an assignment of finite cost, left as the best. Nothing is kept. */
int layout_solve(const struct layout_problem *p, int *state) MUST_CHECK;

#endif
