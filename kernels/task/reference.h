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

#endif
