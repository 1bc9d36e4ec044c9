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
/* t: type of the elements, DT_F32, DT_U8 or DT_I8. Bytes get the nearest number of their type. */
void halo_set(const struct segment *s, int n, enum dtype t, float fill, void *buffer);

#endif
