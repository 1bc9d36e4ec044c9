/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of two tensors of bytes, element by element: DequantizeLinear of both, Add and QuantizeLinear in one.
 */
#ifndef KERNELS_ADD8_H
#define KERNELS_ADD8_H

#include "kernels/graph/dense8.h"

struct add8_term {
	const uint8_t *x;
	bool sign;   /* s8 */
	float scale; /* of (x - zero) */
	int32_t zero;
};

/* y = clamp(round to nearest even((a + b) / scale) + zero), each operation rounded to binary32; a NaN becomes
 * the lowest byte. Bytes of y may be those of a term. */
void add8(int64_t n, const struct add8_term *a, const struct add8_term *b, float scale,
	  struct dense8_bytes to, uint8_t *y);

#endif
