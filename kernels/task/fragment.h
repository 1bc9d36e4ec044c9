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
 * do.) */
static inline int frag_step(enum dtype t)
{
	int bytes = (int)dtype_bytes(t);
	return (bytes == 1 || t == DT_BF16 ? 16 : 32) / bytes;
}

#endif
