/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of kernels/graph/dense8.h for AVX-512 with VNNI, called by dense8.c alone.
 *
 * A panel of more than 32 columns keeps them in the order in which the instructions that interleave bytes
 * leave them: vector u, lane l of 128 bits has columns 16 l + 4 u to 16 l + 4 u + 3. The instructions that
 * narrow sums to bytes work within lanes, too, and give bytes in the order of columns again. Narrower panels
 * have the columns in order. */
#ifndef KERNELS_DENSE8_VNNI_H
#define KERNELS_DENSE8_VNNI_H

#include "kernels/graph/add8.h"

struct dense8_vnni {
	void (*pack)(int64_t depth, const uint8_t *b, const int64_t *offset, int width, uint8_t flip,
		     uint8_t *panel);
	void (*rows)(int64_t depth, int rows, const int8_t *a, const uint8_t *panel, int width,
		     uint32_t *sum);
	void (*row)(int64_t depth, int64_t n, const int8_t *a, const uint8_t *b, uint8_t flip, uint32_t *sum);
	void (*rows_to_bytes)(int64_t depth, int rows, const int8_t *a, const uint8_t *panel,
			      const struct dense8_ends *e);
	void (*depthwise)(const struct dense8_taps *t, const uint8_t *x, const struct dense8_ends *e,
			  int64_t n);
	/* As add8, but of the first elements: returns how many, a multiple of 64. */
	int64_t (*add)(int64_t n, const struct add8_term *a, const struct add8_term *b, float scale,
		       struct dense8_bytes to, uint8_t *y);
	/* As dense8_max with a step of 1 or 2. */
	void (*max)(int64_t n, const uint8_t *x, int64_t step, uint8_t flip, uint8_t *best);
};
/* NULL: another processor. */
extern const struct dense8_vnni *const dense8_vnni;

static inline bool dense8_is_wide(int width)
{
	return width > 32;
}

#endif
