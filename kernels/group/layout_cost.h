/* SPDX-License-Identifier: Apache-2.0 */
/* What a kernel is expected to cost in a network before anything is measured: the draft of its default
 * schedule, and what comes from where. Kept for each task's text, so that a graph is weighed in the time of
 * its different kernels, and weighed again, while choices are tried, in next to none. Nothing that was
 * measured of the target matters: every process expects the same. */
#ifndef KERNELS_LAYOUT_COST_H
#define KERNELS_LAYOUT_COST_H

#include "kernels/task/task.h"
#include "platform/machine/target.h"

struct layout_costs;

/* *c: what this arena keeps so far, or NULL; begun anew for another target. */
int layout_costs_begin(struct arena *a, const struct target *t, struct layout_costs **c) MUST_CHECK;
/* Cycles of one core. Simplifies t; keeps the answer in a. */
double layout_cycles(struct layout_costs *c, struct arena *a, struct arena *scratch, struct task *t);

#endif
