/* SPDX-License-Identifier: Apache-2.0 */
/* Packing as data: how a constant becomes the array that a kernel reads. One interpreter, pack_run, serves
 * all.
 *
 * The destination is iterated row-major over extent[0..n): source index of dim d = off[d] + sum_j coef[d][j]
 * * i_j; outside [0, src.d[d]) the value is fill. Blocked layouts, transposes, flips (coef -1), padding and
 * interleaving are all this.
 *
 * With winograd.m the source's 3x3 filters become G g G' of F(m x m, 3x3) (Lavin and Gray 2016, section 4),
 * in double precision: dims dim[0] and dim[1] (3 long) turn into loops loop[0] and loop[1] (m + 2 long),
 * whose coefs are 0. */
#ifndef KERNELS_PACK_H
#define KERNELS_PACK_H

#include "kernels/task/tensor.h"
#include "platform/base/buf.h"

enum { PACK_MAX = 12 };

struct packing {
	int n; /* destination loops */
	int64_t extent[PACK_MAX];
	struct shape src; /* the source tensor's logical dims, plain row-major */
	int64_t off[MAX_RANK];
	int32_t coef[MAX_RANK][PACK_MAX];
	float fill;
	struct {
		int m; /* 0: no transform; 2 or 4 */
		int dim[2], loop[2];
	} winograd;
};

int64_t pack_elems(const struct packing *p);
bool pack_same(const struct packing *a, const struct packing *b); /* equal elements from equal places */
int pack_check(const struct packing *p) MUST_CHECK;
/* Ends early if the thread's limit does (platform/base/until.h). */
void pack_run(const struct packing *p, const float *src, float *dst);
/* The same for elements of 1 byte, u8 or i8; without Winograd. */
void pack_run_bytes(const struct packing *p, const uint8_t *src, uint8_t *dst);
/* One of these two, by the type of the elements. */
void pack_run_type(const struct packing *p, enum dtype t, const void *src, void *dst);
void pack_text(const struct packing *p, struct buf *out);
int pack_parse(const char *text, struct packing *out) MUST_CHECK;

#endif
