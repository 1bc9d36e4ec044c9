/* SPDX-License-Identifier: Apache-2.0 */
/* The reference of a task at many points: what task_point gives, but sums have their addresses in tables, and
 * an intermediate of a chain is computed when a point first needs it, then remembered (as a float). */
#ifndef KERNELS_REFERENCE_H
#define KERNELS_REFERENCE_H

#include "kernels/task/task.h"

struct reference;
/* The task (without symbols) and its buffers must outlive it. */
int reference_open(const struct task *t, void *const *bufs, struct arena *a,
		   struct reference **out) MUST_CHECK;
double reference_point(struct reference *r, const int64_t *spatial /* of the last stage */);

#endif
