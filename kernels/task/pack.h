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
 * whose coefs are 0.
 *
 * With bf16 the source is f32, and each element of the destination is rounded to bf16, to nearest even, where
 * subnormals become zeros. With f16 the source is f32, and each element of the destination is rounded to f16,
 * to nearest even: after the transform, if there is one. pack_holds tells whether all of them are finite. */
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
	bool f16, bf16; /* elements of the destination */
	struct {
		int m; /* 0: no transform; 2 or 4 */
		int dim[2], loop[2];
	} winograd;
};

int64_t pack_elems(const struct packing *p);
bool pack_same(const struct packing *a, const struct packing *b); /* equal elements from equal places */
int pack_check(const struct packing *p) MUST_CHECK;
/* Type of the destination's elements, if the source's are of type t. */
enum dtype pack_type(const struct packing *p, enum dtype t);
/* Largest magnitude of n floats; infinite if one of them is no finite number. */
float pack_largest(const float *v, int64_t n);
/* Whether f16, or with `bf16` set bf16, holds what constants of at most this magnitude become, transforms
 * included; `f16` need not be set. Constants that are all tiny do not fit either, because f16 has few digits
 * below 2^-14. */
bool pack_holds(const struct packing *p, float largest);
/* The same for any packing. */
bool pack_holds_any(float largest);
/* A number near v, which lies in [-1, 1], and not 0, such that f16 holds it and the transforms of filters of
 * such numbers. With these weights a schedule that stores f16 gives the same results as one that stores f32,
 * so both are checked alike. */
float pack_exact(float v);
/* dst: floats, f16 or bf16. Ends early if the thread's limit does (platform/base/until.h). */
void pack_run(const struct packing *p, const float *src, void *dst);
/* The same for elements of 1 byte, u8 or i8; without Winograd. */
void pack_run_bytes(const struct packing *p, const uint8_t *src, uint8_t *dst);
/* One of these two, by the type of the elements. */
void pack_run_type(const struct packing *p, enum dtype t, const void *src, void *dst);
void pack_text(const struct packing *p, struct buf *out);
int pack_parse(const char *text, struct packing *out) MUST_CHECK;

#endif
