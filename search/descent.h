/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient descent in relaxed schedules (kernels/space/relax.h), as in Felix (Zhao et al., ASPLOS 2024): the
 * numbers of a candidate become continuous, and Adam moves them downhill on the smooth draft. Constraints
 * push back five times as hard as the cost pulls, whatever their units. Every point of a path is rounded, by
 * each of the roundings in turn, and new candidates go into the pool. Each descent starts from a candidate
 * (its seed) with Adam's moments at zero and the first step size.
 *
 * There are many more sketches than in Felix (orders, lanes, algorithms), and in most of them no numbers give
 * a good kernel. So descents start from the best 12 of 256 draws: that needs half as many measurements as
 * starting from 12 random ones. */
#ifndef SEARCH_DESCENT_H
#define SEARCH_DESCENT_H

#include "kernels/space/relax.h"
#include "search/herd.h"

enum { DESCENT_SEEDS = 12, DESCENT_STEPS = 24 };

/* Descends from at most `seeds` candidates (<= DESCENT_SEEDS): those of the pool that are predicted fastest
 * and, once something is measured, measured ones for half of them. Each descent takes `steps` (<=
 * DESCENT_STEPS). In all that is seeds x steps evaluations, some 5 us each on a fast core (20 us for blocks
 * of several stages), and 20 us for each point that rounds to something new. */
void descend(struct herd *h, struct relax *r, int seeds, int steps);

#endif
