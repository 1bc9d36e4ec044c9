/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules whose numbers are real variables, for gradient descent (Zhao et al. 2024, Felix).
 *
 * A sketch is the discrete part of a candidate: lanes, order and kinds of loops, whether there are blocks,
 * parts or a ring, what is prefetched, which taps are fully unrolled. Its numbers become real variables x[i]
 * = log(v_i): register tiles, unrolled steps, chains, blocks, parts, rows of a ring, tiles of an item;
 * for Winograd, tiles of a
 * block and of a register tile, chunk, parts. relax_cost is a smooth form of the draft: a smooth ceiling
 * counts the last tiles, so divisors are minima and other sizes cost what their remainder costs; smooth
 * switches move footprints from cache to cache; properties that are all or nothing (which accesses are
 * shuffled, which windows slide) are taken from the sketch. Symbolic extents count as they do in the draft.
 * relax_round leads from a point back to legal schedules near it.
 *
 * Learned models are not part of this: descent finds where to look, and the caller ranks the rounded
 * candidates. */
#ifndef KERNELS_RELAX_H
#define KERNELS_RELAX_H

#include "kernels/space/space.h"
#include "platform/base/hash.h"

enum { RELAX_MAX = 32 /* variables; further numbers keep the sketch's values */, RELAX_ROUNDINGS = 4 };

struct relax;

/* Memory for one sketch after another; the scratch grows in the arena and is reused. */
struct relax *relax_new(struct arena *a);
/* Makes the sketch of a candidate. E_INFEASIBLE, E_CORRUPT: as space_legal; E_NOTFOUND: none of its numbers
 * can vary, or it has threads. The space must outlive the sketch. */
int relax_sketch(struct relax *r, const struct space *s, const char *cand) MUST_CHECK;
int relax_size(const struct relax *r);                                    /* variables, 1 to RELAX_MAX */
void relax_start(const struct relax *r, double *x);                       /* the candidate's own numbers */
void relax_range(const struct relax *r, int i, double *low, double *top); /* low <= x[i] <= top */
/* log of the cycles, and its gradient unless grad is NULL. If a number is too large to count: HUGE_VAL and no
 * gradient. */
double relax_cost(struct relax *r, const double *x, double *grad);
/* Sum of squares of log(left) - log(right) over all violated constraints left <= right (registers, sizes of
 * bodies and of tiles, chains, blocks), and its gradient unless grad is NULL. */
double relax_penalty(struct relax *r, const double *x, double *grad);
/* Makes a legal schedule near x. `way`: 0 nearest numbers, 1 tiles as even as their count allows, 2 divisors,
 * 3 next smaller numbers. If the numbers are not legal together, they move towards the sketch's own until
 * they are. */
void relax_round(const struct relax *r, const double *x, int way, char cand[CAND_MAX]);
/* A key of the rounded numbers: equal keys mean that relax_round would return the same schedule. */
struct key relax_key(const struct relax *r, const double *x, int way);

#endif
