/* SPDX-License-Identifier: Apache-2.0 */
/* Other divisions of a graph that are worth measuring against the present one. They are choices that
 * graph_steps reads and that the rules only guess.
 *
 * One alternative changes all places of one kind at once: all groups of one task that took a residual, all
 * blocks of one task that one kernel does or could do, all regions that begin with a value of one shape. A
 * region is a set of blocked values that unstrided windows, maps, Concat and Split connect; it may become
 * plain if its channels leave lanes unused or if values are converted at its border. A region of plain values
 * may become blocked if convolutions in it have their lanes along pixels. If some choices are set already,
 * using the rules alone ({0}; what runs operators on bytes stays) is an alternative too. Before all others,
 * quantised operators become tasks; then each convolution of bytes of few channels may go back to portable
 * code. */
#ifndef KERNELS_ALTERNATIVES_H
#define KERNELS_ALTERNATIVES_H

#include "kernels/group/group.h"

/* s: the steps made from g with the choices `now`. Alternatives for the most expensive tasks come first.
 * Returns the count. */
int graph_alternatives(const struct graph *g, const struct steps *s, const struct choices *now,
		       struct arena *a, struct choices **out) MUST_CHECK;

/* Whether kernels could run quantised operators that portable code runs now: the first alternative then is
 * the one in which they are tasks. */
bool steps_leave_bytes(const struct graph *g, const struct steps *s, const struct choices *now);

#endif
