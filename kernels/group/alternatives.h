/* SPDX-License-Identifier: Apache-2.0 */
/* Other divisions of a graph that are worth measuring against the present one: what graph_steps could be told
 * by choices, and rules only guess.
 *
 * One alternative changes all places of one kind at once: those of one task where a group took a residual,
 * all blocks of one task that one kernel does or could do, all regions that begin with a value of one shape.
 * A region is what unstrided windows, maps, Concat and Split connect of values that are blocked; it may be
 * plain where its channels leave lanes unused or it is converted from or to. One of plain values in which
 * convolutions' lanes lie along pixels may be blocked. Where something is chosen already, all by rule is an
 * alternative too.
 */
#ifndef KERNELS_ALTERNATIVES_H
#define KERNELS_ALTERNATIVES_H

#include "kernels/group/group.h"

/* s: made from g with the choices `now`. Those of the dearest tasks come first. Returns the count. */
int graph_alternatives(const struct graph *g, const struct steps *s, const struct choices *now,
		       struct arena *a, struct choices **out) MUST_CHECK;

#endif
