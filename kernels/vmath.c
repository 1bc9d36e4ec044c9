/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/vmath.h"

#include <float.h>
#include <math.h>

static int imm(struct vmath *m, double c)
{
	return m->one(m->ctx, (float)c, m->lanes);
}

int vmath_op1(struct vmath *m, enum vop op, int a)
{
	int v = lv_new(m->l, m->lanes);
	lv_set(m->l, v, op, a, -1, -1, -1);
	return v;
}

int vmath_op2(struct vmath *m, enum vop op, int a, int b)
{
	int v = lv_new(m->l, m->lanes);
	lv_set(m->l, v, op, a, b, -1, -1);
	return v;
}

int vmath_fma(struct vmath *m, int a, int b, int c)
{
	int v = lv_new(m->l, m->lanes);
	lv_set(m->l, v, V_FMA, a, b, c, -1);
	return v;
}

int vmath_select(struct vmath *m, enum vop op, int a, int b, int c, int d)
{
	int v = lv_new(m->l, m->lanes);
	lv_set(m->l, v, op, a, b, c, d);
	return v;
}

/* c[0] x^(n-1) + ... + c[n-1] */
static int horner(struct vmath *m, int x, const double *c, int n)
{
	int v = imm(m, c[0]);
	for (int i = 1; i < n; i++)
		v = vmath_fma(m, v, x, imm(m, c[i]));
	return v;
}

/* ln 2 in two parts: the first has few bits, so that its small multiples are exact. */
static const double LN2_HI = 0.693359375, LN2_LO = -2.12194440054690583e-4;

/* 2^t * e^r with t = rint(x / ln 2): |r| <= ln2/2, Taylor to r^7 (relative remainder 6e-9). 2 e^r times
 * POW2(t - 1), so that t = 128 is reached and nothing normal passes through a subnormal, which would flush; t
 * is bounded before use, so NaN and infinities give a harmless power. */
int vmath_exp(struct vmath *m, int x)
{
	static const double c[] = {1. / 5040, 1. / 720, 1. / 120, 1. / 24, 1. / 6, 0.5, 1, 1};
	int t = vmath_op1(m, V_RINT, vmath_op2(m, V_MUL, x, imm(m, 1.4426950408889634)));
	t = vmath_op2(m, V_MAX, vmath_op2(m, V_MIN, t, imm(m, 128)), imm(m, -125));
	int r = vmath_fma(m, t, imm(m, -LN2_HI), x);
	r = vmath_fma(m, t, imm(m, -LN2_LO), r);
	int y = horner(m, r, c, 8);
	y = vmath_op2(m, V_ADD, y, y);
	y = vmath_op2(m, V_MUL, y, vmath_op1(m, V_POW2, vmath_op2(m, V_SUB, t, imm(m, 1))));
	return vmath_select(m, V_SEL_LT, x, imm(m, -87.0), imm(m, 0), y);
}

/* x = 2^e * f with f in [sqrt 1/2, sqrt 2): log f = 2 atanh(s), s = (f - 1) / (f + 1), |s| < 0.172. */
int vmath_log(struct vmath *m, int x)
{
	static const double c[] = {2. / 9, 2. / 7, 2. / 5, 2. / 3};
	int safe = vmath_op2(m, V_MAX, x, imm(m, FLT_MIN));
	int e = vmath_op1(m, V_GETEXP, safe), f = vmath_op1(m, V_GETMANT, safe), root = imm(m, 1.41421356237);
	int half = vmath_op2(m, V_MUL, f, imm(m, 0.5)), up = vmath_op2(m, V_ADD, e, imm(m, 1));
	int big_e = vmath_select(m, V_SEL_LT, root, f, up, e);
	f = vmath_select(m, V_SEL_LT, root, f, half, f);
	int d = vmath_op2(m, V_SUB, f, imm(m, 1));
	int s = vmath_op2(m, V_DIV, d, vmath_op2(m, V_ADD, f, imm(m, 1)));
	int z = vmath_op2(m, V_MUL, s, s);
	/* 2s = d - s d: the leading term is exact. */
	int y = vmath_op2(m, V_MUL, vmath_op2(m, V_MUL, horner(m, z, c, 4), z), s);
	y = vmath_op2(m, V_SUB, y, vmath_op2(m, V_MUL, s, d));
	y = vmath_fma(m, big_e, imm(m, LN2_LO), y);
	y = vmath_op2(m, V_ADD, y, d);
	y = vmath_fma(m, big_e, imm(m, LN2_HI), y);
	y = vmath_select(m, V_SEL_LT, x, imm(m, INFINITY), y, x); /* inf and NaN pass */
	int low = vmath_select(m, V_SEL_EQ, x, imm(m, 0), imm(m, -INFINITY), imm(m, NAN));
	return vmath_select(m, V_SEL_LE, x, imm(m, 0), low, y);
}

/* (1 - e) / (1 + e), e = exp(-2|x|), with the sign of x; the series where that would cancel. */
int vmath_tanh(struct vmath *m, int x)
{
	static const double c[] = {21844. / 6081075, -1382. / 155925, 62. / 2835,
				   -17. / 315,       2. / 15,         -1. / 3};
	int a = vmath_op1(m, V_ABS, x), one = imm(m, 1), zero = imm(m, 0);
	int e = vmath_exp(m, vmath_op2(m, V_MUL, a, imm(m, -2)));
	int far = vmath_op2(m, V_DIV, vmath_op2(m, V_SUB, one, e), vmath_op2(m, V_ADD, one, e));
	far = vmath_select(m, V_SEL_LT, x, zero, vmath_op1(m, V_NEG, far), far);
	int z = vmath_op2(m, V_MUL, x, x);
	int near = vmath_fma(m, vmath_op2(m, V_MUL, horner(m, z, c, 6), z), x, x);
	return vmath_select(m, V_SEL_LT, a, imm(m, 0.4), near, far);
}

int vmath_sigmoid(struct vmath *m, int x)
{
	int one = imm(m, 1), e = vmath_exp(m, vmath_op1(m, V_NEG, x));
	return vmath_op2(m, V_DIV, one, vmath_op2(m, V_ADD, one, e));
}

int vmath_erf(struct vmath *m, int x)
{
	static const double far_c[] = {1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592};
	/* 2/sqrt(pi) * (-1)^k / (k! (2k + 1)), k = 6 .. 1; the rest of k = 0 after the 1 of x + x * (...) */
	static const double k = 1.1283791670955126;
	const double near_c[] = {k / 9360, -k / 1320, k / 216, -k / 42, k / 10, -k / 3, k - 1};
	int a = vmath_op1(m, V_ABS, x), one = imm(m, 1), zero = imm(m, 0), z = vmath_op2(m, V_MUL, x, x);
	int t = vmath_op2(m, V_DIV, one, vmath_fma(m, a, imm(m, 0.3275911), one));
	int p = vmath_op2(m, V_MUL, horner(m, t, far_c, 5), t);
	int far = vmath_op2(m, V_SUB, one, vmath_op2(m, V_MUL, p, vmath_exp(m, vmath_op1(m, V_NEG, z))));
	far = vmath_select(m, V_SEL_LT, x, zero, vmath_op1(m, V_NEG, far), far);
	int near = vmath_fma(m, horner(m, z, near_c, 7), x, x);
	return vmath_select(m, V_SEL_LT, a, imm(m, 0.5), near, far);
}

int vmath_pow(struct vmath *m, int a, int b)
{
	int zero = imm(m, 0), one = imm(m, 1), half = imm(m, 0.5), two = imm(m, 2);
	int mag = vmath_exp(m, vmath_op2(m, V_MUL, b, vmath_log(m, vmath_op1(m, V_ABS, a))));
	int even = vmath_op2(m, V_MUL, vmath_op1(m, V_FLOOR, vmath_op2(m, V_MUL, b, half)), two);
	int signed_ = vmath_select(m, V_SEL_EQ, even, b, mag, vmath_op1(m, V_NEG, mag));
	signed_ = vmath_select(m, V_SEL_EQ, vmath_op1(m, V_FLOOR, b), b, signed_, imm(m, NAN));
	int y = vmath_select(m, V_SEL_LT, a, zero, signed_, mag);
	return vmath_select(m, V_SEL_EQ, b, zero, one, y);
}

bool vmath_pow_exact(float c)
{
	return c == 0.5f || c == -0.5f || (fabsf(c) <= 64 && c == floorf(c));
}

int vmath_pow_const(struct vmath *m, int a, float c)
{
	int one = imm(m, 1), y = one;
	if (fabsf(c) == 0.5f)
		y = vmath_op1(m, V_SQRT, a);
	else
		for (int n = (int)fabsf(c), square = a; n; n >>= 1) {
			if (n & 1)
				y = y == one ? square : vmath_op2(m, V_MUL, y, square);
			if (n > 1)
				square = vmath_op2(m, V_MUL, square, square);
		}
	return c < 0 ? vmath_op2(m, V_DIV, one, y) : y;
}
