/* SPDX-License-Identifier: Apache-2.0 */
/* The reference of a task at many points. It gives the same values as task_point, but sums have their
 * addresses in tables, and an element of an intermediate is computed when a point first needs it and then
 * remembered (as a float). */
#ifndef KERNELS_REFERENCE_H
#define KERNELS_REFERENCE_H

#include "kernels/task/task.h"

struct reference;
/* The task (without symbols) and its buffers must outlive it. */
int reference_open(const struct task *t, void *const *bufs, struct arena *a,
		   struct reference **out) MUST_CHECK;
double reference_point(struct reference *r, const int64_t *spatial /* of the last stage */);

/* The stages of a task one by one, for threads that divide the points of each: a point's value is that of
 * task_reference. `sum`: tables of addresses, made once for stages that have the form (NULL for others). An
 * intermediate has floats in bufs, in its own layout, whatever its type. */
struct ref_sum;
int ref_stages_make(const struct task *t, struct arena *a, struct ref_sum *sum[MAX_STAGES]) MUST_CHECK;
int64_t ref_stage_points(const struct task *t, int stage);
/* Computes points [begin, end) of a stage, in row-major order of its spatial axes. */
void ref_stage_run(const struct task *t, struct ref_sum *const *sum, int stage, void *const *bufs,
		   int64_t begin, int64_t end);

#endif
