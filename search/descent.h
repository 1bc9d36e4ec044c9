/* SPDX-License-Identifier: Apache-2.0 */
/* Descent in relaxed schedules (kernels/space/relax.h), as Felix has it (Zhao et al., ASPLOS 2024): the
 * numbers of candidates are let loose, and Adam takes them downhill on the smooth draft. Constraints push
 * back five times as hard as the cost pulls, whatever their units. Every point of every way is rounded, in
 * turn in each of the ways there are, and what is new goes into the pool. Moments and rates begin anew with
 * each seed.
 *
 * Unlike Felix's sketches ours are many (orders, lanes, algorithms), so most draws are of a sketch in which
 * no numbers help: seeds in the best 12 of 256 need half as many measurements as 12 blind ones. */
#ifndef SEARCH_DESCENT_H
#define SEARCH_DESCENT_H

#include "kernels/space/relax.h"
#include "search/herd.h"

enum { DESCENT_SEEDS = 12, DESCENT_STEPS = 24 };

/* From at most `seeds` candidates (<= DESCENT_SEEDS): those of the pool that are thought fastest, and, once
 * there are any, measured ones for every other; each goes `steps` (<= DESCENT_STEPS). That takes seeds x
 * steps evaluations, some 5 us each on a fast core (of blocks of several stages 20), and a rounding of each
 * point that says something new, 20 us. */
void descend(struct herd *h, struct relax *r, int seeds, int steps);

#endif
