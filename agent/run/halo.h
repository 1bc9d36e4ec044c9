/* SPDX-License-Identifier: Apache-2.0 */
/* Halos: the elements around a buffer's logical ones that kernels read as padding. */
#ifndef AGENT_HALO_H
#define AGENT_HALO_H

#include "kernels/task/task.h"

/* n elements from offset `at`, in a buffer's physical order. */
struct segment {
	int64_t at, n;
};

/* The halo of an operand as segments, in order, in the arena. Returns their number. */
int halo_find(const struct operand *o, struct arena *a, struct segment **out) MUST_CHECK;
void halo_set(const struct segment *s, int n, float fill, float *buffer);

#endif
