/* SPDX-License-Identifier: Apache-2.0 */
/* Transcendental functions as sequences of vector operations, without calls. `one` returns a variable that
 * holds a constant in all lanes. Each function returns a new variable. NaN in gives NaN out. Errors are the
 * largest over dense sweeps of all finite inputs of the stated range, against double precision
 * (tests/kernels/loops/test_vmath.c):
 * exp      4e-7 relative where the result is normal; 0 below -87, inf above 88.8
 * log      2e-7 relative; log(0) = -inf, NaN below
 * tanh     4e-7 relative
 * sigmoid  5e-7 relative (0 where exp(-x) is inf)
 * silu     x sigmoid(x): 5e-7 relative down to -87, then absolute; -inf stays -inf
 * erf      7e-7 absolute
 * gelu     x (1 + erf(x / sqrt 2)) / 2: 5e-7 absolute, for |x| > 1 relative to |x|; 0 for -inf
 * pow      by constants 0, 0.5, 1, 2, ... +-64: multiplications and a square root; else exp(b log |a|) with
 *          the sign of integral powers of negative numbers: max(1, |b log2 a|) * 2e-7 relative */
#ifndef KERNELS_VMATH_H
#define KERNELS_VMATH_H

#include "kernels/loops/loops.h"

struct vmath {
	struct loops *l;
	int lanes;
	void *ctx;
	int (*one)(void *ctx, float imm, int lanes);
};

int vmath_op1(struct vmath *m, enum vop op, int a);
int vmath_op2(struct vmath *m, enum vop op, int a, int b);
int vmath_fma(struct vmath *m, int a, int b, int c);
int vmath_select(struct vmath *m, enum vop op, int a, int b, int c, int d);
int vmath_exp(struct vmath *m, int x);
int vmath_log(struct vmath *m, int x);
int vmath_tanh(struct vmath *m, int x);
int vmath_sigmoid(struct vmath *m, int x);
int vmath_silu(struct vmath *m, int x);
int vmath_erf(struct vmath *m, int x);
int vmath_gelu(struct vmath *m, int x);
int vmath_pow(struct vmath *m, int a, int b);
/* Whether the power needs no logarithm. */
bool vmath_pow_exact(float c);
int vmath_pow_const(struct vmath *m, int a, float c);

#endif
