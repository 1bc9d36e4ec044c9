/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules with their numbers let loose, for searches that go downhill (Zhao et al. 2024, Felix).
 *
 * A sketch is what is discrete in a candidate: lanes, order and kinds of loops, whether there are blocks,
 * parts, a ring, what is fetched ahead, which taps are unrolled whole. Its numbers become real variables x[i]
 * = log(v_i): register tiles, unrolled steps, chains, blocks, parts, rows of a ring; of Winograd, tiles of a
 * block and of a register tile, chunk, parts. relax_cost is the draft of that schedule made smooth: last
 * tiles are counted by a smooth ceiling, so that divisors are dips and what does not divide costs what its
 * rest does; footprints pass from cache to cache by smooth switches; what depends on numbers in ways that are
 * all or nothing (which accesses are shuffled, which windows slide) is the sketch's own. Extents that are
 * symbols count as the draft counts them. relax_round leads back: to legal schedules beside a point.
 *
 * What a learned model knows is not in here: descent finds where to look, who asked ranks what was rounded.
 */
#ifndef KERNELS_RELAX_H
#define KERNELS_RELAX_H

#include "kernels/space/space.h"
#include "platform/base/hash.h"

enum { RELAX_MAX = 32 /* variables; more keep the sketch's numbers */, RELAX_ROUNDINGS = 4 };

struct relax;

/* Room for one sketch after another; what scratch it needs grows in the arena, and is used again. */
struct relax *relax_new(struct arena *a);
/* The sketch of a candidate. E_INFEASIBLE, E_CORRUPT: as space_legal; E_NOTFOUND: no number of it can vary.
 * The space outlives it. */
int relax_sketch(struct relax *r, const struct space *s, const char *cand) MUST_CHECK;
int relax_size(const struct relax *r);                                    /* variables, 1 to RELAX_MAX */
void relax_start(const struct relax *r, double *x);                       /* the candidate's own numbers */
void relax_range(const struct relax *r, int i, double *low, double *top); /* low <= x[i] <= top */
/* log of cycles, and its gradient unless NULL. A number too large to count: HUGE_VAL, no gradient. */
double relax_cost(struct relax *r, const double *x, double *grad);
/* Sum of squares of log(left) - log(right) over all left <= right that do not hold (registers, sizes of
 * bodies and of tiles, chains, blocks), and its gradient unless NULL. */
double relax_penalty(struct relax *r, const double *x, double *grad);
/* A legal schedule beside x. `way`: 0 nearest numbers, 1 tiles as even as their count allows, 2 divisors, 3
 * next smaller. Where the numbers are not legal together they move towards the sketch's own until they are.
 */
void relax_round(const struct relax *r, const double *x, int way, char cand[CAND_MAX]);
/* The rounded numbers only, which tell whether relax_round would say anything new. */
struct key relax_key(const struct relax *r, const double *x, int way);

#endif
