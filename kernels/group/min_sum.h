/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses one state for each of many variables so that the sum of costs is least, where a cost depends on one
 * variable or on a pair of them. It is used for the layouts of a whole graph (kernels/group/layout_graph.c;
 * NeoCPU, Liu et al., USENIX ATC 2019, states the problem).
 *
 * Variables are eliminated in turn, those with the fewest neighbours first: the costs of a variable become
 * one table over its neighbours, and the answer is read backwards (bucket elimination, Dechter 1999). On
 * chains and trees this is dynamic programming and exact; it is exact as long as no variable has more than
 * MIN_SUM_WIDTH neighbours when it is eliminated. If all remaining variables have more, one keeps the state
 * that the caller gave. So the answer never costs more than the caller's, time and memory grow with the
 * number of variables and pairs, and the same problem always has the same answer. */
#ifndef KERNELS_MIN_SUM_H
#define KERNELS_MIN_SUM_H

#include "platform/base/err.h"

enum { MIN_SUM_STATES = 8, MIN_SUM_WIDTH = 5 };

/* cost: [states of a][states of b], each >= 0; INFINITY: not allowed. */
struct min_sum_pair {
	int a, b; /* a != b */
	const double *cost;
};

struct min_sum_problem {
	int nvars, npairs;
	const int *states;                   /* per variable: 1 .. MIN_SUM_STATES */
	const double (*cost)[MIN_SUM_STATES]; /* per variable and state, as of pairs */
	const struct min_sum_pair *pair;
};

double min_sum_cost(const struct min_sum_problem *p, const int *state);
/* state: in: an assignment of finite cost; out: the best one found. No memory is kept. */
int min_sum_solve(const struct min_sum_problem *p, int *state) MUST_CHECK;

#endif
