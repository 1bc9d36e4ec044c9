/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of fragments and of the warps that hold them (kernels/loops/loops.h says what both are). */
#ifndef KERNELS_FRAGMENT_H
#define KERNELS_FRAGMENT_H

#include "kernels/task/tensor.h"

enum {
	FRAG_SIZE = 16, /* rows and columns */
	FRAG_ELEMS = FRAG_SIZE * FRAG_SIZE,
	FRAG_LANES = 8, /* elements in each thread */
	WARP = 32       /* threads */
};

/* Elements that the place of each row (or column) of a fragment in memory is a multiple of: 32 bytes of f16,
 * f32 and s32, 16 of others. (PTX ISA, "wmma.load": the bytes of the fragment in a thread; of bytes 8 would
 * do.) narrow: 16 bytes of f16, too, as "ldmatrix" has it. */
static inline int frag_step(enum dtype t, bool narrow)
{
	int bytes = (int)dtype_bytes(t);
	return (bytes == 1 || t == DT_BF16 || (narrow && t == DT_F16) ? 16 : 32) / bytes;
}

/* Elements from one row of so many to the next, so that 8 neighbouring rows, or as many as can, begin in
 * different banks of shared memory: narrow rows are an odd multiple of 16 bytes apart. */
static inline int64_t frag_pitch(enum dtype t, bool narrow, int64_t elems)
{
	int64_t step = frag_step(t, narrow);
	return narrow ? (elems + step - 1) / step * step + (elems % (2 * step) == step ? 0 : step)
		      : elems + step;
}

#endif
