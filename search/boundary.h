/* SPDX-License-Identifier: Apache-2.0 */
/* Finds which errors of its networks an application tolerates (error calibration, Sharif et al.,
 * ApproxCaliper, MLSys 2023). This module asks and is answered: it runs nothing.
 *
 * A point is an error of each network, from 0 to a largest one. An application that tolerates a point
 * tolerates every point with errors that are nowhere larger (monotonicity), so an answer decides a box: up to
 * the point if it is tolerated, from the point on if not. Errors of 0 are tolerated: the caller makes sure of
 * that first. Points lie on a grid: 512 cells for one network, 64 x 64, 24^3, 11^4.
 *
 * The next point is the one whose answer is expected to decide the most of what is undecided. How likely a
 * point is tolerated follows from the undecided volumes below and beyond it, and from its distances to what
 * is known on both sides, measured as the largest difference of an error.
 *
 * An evaluator may be noisy: with a share of wrong answers, a point is asked again (sequential probability
 * ratio test, Wald 1945) until at most one decision in 50000 that it is tolerated, and one in 500 that it is
 * not, would be wrong. So no single answer moves the boundary.
 *
 * The same options and answers lead to the same points: to resume, tell the answers again. */
#ifndef SEARCH_BOUNDARY_H
#define SEARCH_BOUNDARY_H

#include "platform/base/arena.h"
#include "platform/base/err.h"

#include <stdbool.h>

enum { BOUNDARY_AXES = 4, BOUNDARY_EVALS = 2000 };
#define BOUNDARY_WRONG 0.3 /* the largest share of wrong answers */

struct boundary_opts {
	int axes;                   /* networks, 1 to BOUNDARY_AXES */
	double most[BOUNDARY_AXES]; /* the largest error of each, above 0 */
	int evals;                  /* at most so many answers, 1 to BOUNDARY_EVALS */
	double wrong;               /* share of wrong answers, 0 to BOUNDARY_WRONG */
};

struct boundary_ask {
	double error[BOUNDARY_AXES];
	int again;     /* how often it was asked before, because answers may be wrong */
	double below;  /* share of the whole that becomes tolerated if it is tolerated */
	double beyond; /* share that is not tolerated if it is not */
	double likely; /* how likely it is that it is tolerated, 0 to 1, before it was ever asked */
};

struct boundary;

/* E_USAGE: an option is out of range. */
int boundary_new(struct arena *a, const struct boundary_opts *o, struct boundary **out) MUST_CHECK;
/* The next point. False: all is decided, or there were as many answers as were allowed. */
bool boundary_next(struct boundary *b, struct boundary_ask *out);
/* The answer for the point that boundary_next gave last. */
void boundary_answer(struct boundary *b, bool tolerated);
int boundary_left(const struct boundary *b); /* answers that are allowed yet */
/* Returns what so many answers of both kinds decide for one point. 1: it is tolerated, 0: it is not, -1:
 * nothing yet. */
int boundary_decided(const struct boundary *b, int yes, int no);

/* Shares of the whole box. */
struct boundary_area {
	double tolerated; /* for certain */
	double not_tolerated;
	double guess; /* of what is tolerated: the former, and the undecided by how likely it is */
};
struct boundary_area boundary_area(const struct boundary *b);
enum boundary_state { BOUNDARY_OPEN, BOUNDARY_TOLERATED, BOUNDARY_NOT_TOLERATED };
/* Returns what is known for certain of these errors, each >= 0. */
enum boundary_state boundary_state(const struct boundary *b, const double *error);
/* The i-th of the largest tolerated points: none of them is beyond another one. False: there are fewer. */
bool boundary_point(const struct boundary *b, int i, double *error);

#endif
