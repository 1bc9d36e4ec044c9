/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of fragments and of the warps that hold them (kernels/loops/loops.h says what both are). */
#ifndef KERNELS_FRAGMENT_H
#define KERNELS_FRAGMENT_H

#include "kernels/task/tensor.h"

#include <string.h>

enum {
	FRAG_SIZE = 16, /* rows and columns */
	FRAG_ELEMS = FRAG_SIZE * FRAG_SIZE,
	FRAG_LANES = 8, /* elements in each thread */
	WARP = 32       /* threads */
};

/* Elements that the place of each row (or column) of a fragment in memory is a multiple of: 32 bytes of f16,
 * f32 and s32, 16 of others. (PTX ISA, "wmma.load": the bytes of the fragment in a thread; of bytes 8 would
 * do.) narrow: 16 bytes of f16 and f32, too, as "ldmatrix" has it. */
static inline int frag_step(enum dtype t, bool narrow)
{
	int bytes = (int)dtype_bytes(t);
	bool rows = narrow && (t == DT_F16 || t == DT_F32);
	return (bytes == 1 || t == DT_BF16 || rows ? 16 : 32) / bytes;
}

/* Elements from one row of so many to the next, so that 8 neighbouring rows, or as many as can, begin in
 * different banks of shared memory: narrow rows are an odd multiple of 16 bytes apart. */
static inline int64_t frag_pitch(enum dtype t, bool narrow, int64_t elems)
{
	int64_t step = frag_step(t, narrow);
	return narrow ? (elems + step - 1) / step * step + (elems % (2 * step) == step ? 0 : step)
		      : elems + step;
}

/* v rounded to TF32, an f32 with 10 bits of fraction: to nearest, ties away from zero; infinite values stay
 * so, and NaN is NaN (PTX ISA, "cvt.rna.tf32.f32"). */
static inline float tf32_of(float v)
{
	uint32_t bits;
	memcpy(&bits, &v, sizeof bits);
	bool finite = (bits & 0x7f800000) != 0x7f800000;
	bits = finite ? (bits + 0x1000) & ~UINT32_C(0x1fff) : bits & 0x7fffff ? UINT32_C(0x7fffffff) : bits;
	memcpy(&v, &bits, sizeof v);
	return v;
}

#endif
