/* SPDX-License-Identifier: Apache-2.0 */
/* Packing as data: how a constant becomes the array that a kernel reads. One interpreter, pack_run, serves all.
 *
 * The destination is iterated row-major over extent[0..n): source index of dim d = off[d] + sum_j coef[d][j] * i_j; outside
 * [0, src.d[d]) the value is fill. Blocked layouts, transposes, flips (coef -1), padding and interleaving are all this. */
#ifndef KERNELS_PACK_H
#define KERNELS_PACK_H

#include "kernels/tensor.h"
#include "platform/buf.h"

enum { PACK_MAX = 12 };

struct packing {
	int n;			   /* destination loops */
	int64_t extent[PACK_MAX];
	struct shape src;	   /* the source tensor's logical dims, plain row-major */
	int64_t off[MAX_RANK];
	int32_t coef[MAX_RANK][PACK_MAX];
	float fill;
};

int64_t pack_elems(const struct packing *p);
int pack_check(const struct packing *p) MUST_CHECK;
void pack_run(const struct packing *p, const float *src, float *dst);
void pack_text(const struct packing *p, struct buf *out);
int pack_parse(const char *text, struct packing *out) MUST_CHECK;

#endif
