/* SPDX-License-Identifier: Apache-2.0 */
/* Expected cost of a kernel inside a network before anything is measured: the draft of its default schedule,
 * and the cost of fetching its inputs from the caches or from memory. Costs are kept for each task's text, so
 * a graph takes the time of its different kernels, and almost none when it is costed again with other
 * choices. Measured properties of the target are ignored, so that every process gets the same costs. */
#ifndef KERNELS_LAYOUT_COST_H
#define KERNELS_LAYOUT_COST_H

#include "kernels/task/task.h"
#include "platform/machine/target.h"

struct layout_costs;

/* *c: the costs that this arena holds, or NULL; they are discarded if the target differs. */
int layout_costs_begin(struct arena *a, const struct target *t, struct layout_costs **c) MUST_CHECK;
/* Cycles on one core. Simplifies t; keeps the result in a. */
double layout_cycles(struct layout_costs *c, struct arena *a, struct arena *scratch, struct task *t);

#endif
