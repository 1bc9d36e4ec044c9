/* SPDX-License-Identifier: Apache-2.0 */
/* Products of bytes with constant weights, as structure_quant.c and structure_integer.c build them. */
#ifndef KERNELS_STRUCTURE_BYTES_H
#define KERNELS_STRUCTURE_BYTES_H

#include "kernels/graph/structure.h"

/* Element i of input k, a zero point, or its only one; 0 if the node has none. The input is constant. */
int32_t structure_zero(const struct opctx *c, int k, int64_t i);
/* The weights, input w, less their zero points, input `zero`, as s8: the input itself, or made[made]. Element
 * e belongs to column or filter e / next % n, as its zero point does. E_UNSUPPORTED: they are not constant,
 * or a difference is no s8. */
int structure_weights(const struct opctx *c, int w, int zero, int64_t n, int64_t next, int made,
		      const struct tensor **out) MUST_CHECK;
/* Builds the product of input x, outside of which is `fill`, and the weights that structure_weights made of
 * input w, by `fn`. */
int structure_byte_product(const struct opctx *c, structure_fn *fn, int x, int32_t fill, int w, int made,
			   const struct tensor *weights, struct task *t) MUST_CHECK;

#endif
