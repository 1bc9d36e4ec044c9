/* SPDX-License-Identifier: Apache-2.0 */
/* The equation of Einsum, such as "bhqd,bhkd->bhqk", and the tensors that it is about. Each letter is a
 * label, and so is each axis that an ellipsis stands for. The result has the labels of the output; over all
 * others, products of the operands' elements are summed. As in NumPy, an extent of 1 fits any other of its
 * label, spaces mean nothing, and without "->" the output has the ellipsis, then the letters that occur once,
 * in the order of their codes. */
#ifndef KERNELS_EINSUM_H
#define KERNELS_EINSUM_H

#include "kernels/task/tensor.h"

enum { EINSUM_OPERANDS = 6, EINSUM_LABELS = 16 };

struct einsum {
	int labels, out; /* number of labels; the first `out` of them are the output's, in its order */
	int64_t size[EINSUM_LABELS];
	double products; /* of the sizes: what an evaluation adds up */
	struct {
		int axes[EINSUM_LABELS];     /* number of its axes with the label */
		int64_t step[EINSUM_LABELS]; /* elements from one index to the next; 0: they share one */
		signed char label[MAX_RANK]; /* of each axis */
	} in[EINSUM_OPERANDS];
};

/* Reads the equation for operands of these shapes. E_CORRUPT: it is none, or does not fit them;
 * E_UNSUPPORTED: there are too many labels or operands. */
int einsum_read(const char *equation, int n, const struct tensor *in, struct einsum *e) MUST_CHECK;

#endif
