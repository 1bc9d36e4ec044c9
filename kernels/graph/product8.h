/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions and matrix products of bytes with s32 sums, of which QLinearConv, QLinearMatMul, ConvInteger
 * and MatMulInteger are made. A convolution's filters, or the rows of a matrix, are multiplied with panels of
 * columns (kernels/graph/dense8.h); zero points and bias are added to the sums of each row. Filters of one
 * channel go through kernels/graph/depthwise8.h. */
#ifndef KERNELS_PRODUCT8_H
#define KERNELS_PRODUCT8_H

#include "kernels/graph/dense8.h"
#include "kernels/graph/shapes.h"

/* Input numbers of the four product operators; -1: none. */
struct product8_places {
	int x, w, x_scale, x_zero, w_scale, w_zero, y_scale, y_zero, bias;
};

/* The limits of a type of bytes, and a zero point. */
static inline struct dense8_bytes product8_limits(enum dtype t, int32_t zero)
{
	return (struct dense8_bytes){t == DT_I8 ? -128 : 0, t == DT_I8 ? 127 : 255, zero, t == DT_I8};
}

/* The output's limits: those of its type, or closer ones of the attributes low and high. */
struct dense8_bytes product8_bytes(const struct opctx *c, int32_t zero);
/* The node's shapes are inferred, and its parameters checked. */
int product8_conv(struct opctx *c, const struct product8_places *p) MUST_CHECK;
int product8_matmul(struct opctx *c, const struct product8_places *p) MUST_CHECK;

#endif
