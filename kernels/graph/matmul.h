/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of a matrix product by NumPy's rules: batches broadcast; a vector becomes a matrix, whose added
 * dimension is dropped from the result. */
#ifndef KERNELS_MATMUL_H
#define KERNELS_MATMUL_H

#include "kernels/task/tensor.h"

struct matmul {
	int64_t m, n, k;
	struct shape a, b;  /* batch dimensions of each operand */
	struct shape batch; /* of the result: a and b broadcast */
	struct shape out;
};

/* E_CORRUPT: the shapes do not fit. */
int matmul_plan(const struct shape *a, const struct shape *b, struct matmul *p) MUST_CHECK;

#endif
