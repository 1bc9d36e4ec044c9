/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/loops/vmath.h"

#include <float.h>
#include <math.h>

/* A new constant. No call below makes two values among its arguments: C leaves their order to the compiler,
 * and a schedule has the same loops on every board. */
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

/* ln 2, also in two parts: the first part has few bits, so its small multiples are exact. */
static const double LN2 = 0.693147180559945309, LN2_HI = 0.693359375, LN2_LO = -2.12194440054690583e-4;

/* x - sign t ln 2, t integral. With FMA the product is not rounded, and the rounding of ln 2 costs 2e-9
 * |x|. */
static int without_ln2(struct vmath *m, int x, int t, int sign)
{
	if (m->l->fma)
		return vmath_fma(m, t, imm(m, -sign * LN2), x);
	int high = vmath_fma(m, t, imm(m, -sign * LN2_HI), x);
	return vmath_fma(m, t, imm(m, -sign * LN2_LO), high);
}

/* p and s with p * s = 2^(bias - 126) e^(sign x), for x within [-88, 89]: s is a power of two (0 under the
 * smallest normal one) and p = e^r, |r| <= ln2/2, by a minimax polynomial (relative error 1e-7; its last two
 * coefficients fixed to 1). Adding 1.5 2^23 rounds to an integer and leaves it in the low bits, where POW2
 * takes it from. */
static void exp_parts(struct vmath *m, int x, int sign, int bias, int scale, int *p, int *s)
{
	static const double c[] = {.00831251591, .0418902002, .166671142, .499992311, 1, 1};
	double of_sign[6];
	for (int i = 0; i < 6; i++)
		of_sign[i] = c[i] * scale * (i % 2 == 0 ? sign : 1);
	int magic = imm(m, 0x1.8p23 + bias);
	int n = vmath_fma(m, x, imm(m, sign * 1.4426950408889634), magic), t = vmath_op2(m, V_SUB, n, magic);
	*p = horner(m, without_ln2(m, x, t, sign), of_sign, 6);
	*s = vmath_op1(m, V_POW2, n);
}

/* Clamps x to [lo, hi]; NaN stays NaN, because MIN and MAX return their second operand then. */
static int clamp(struct vmath *m, int x, double lo, double hi)
{
	int below = vmath_op2(m, V_MIN, imm(m, hi), x);
	return vmath_op2(m, V_MAX, imm(m, lo), below);
}

/* 2 e^r times 2^(t - 1), so that t = 128 is reached. */
int vmath_exp(struct vmath *m, int x)
{
	int p, s;
	exp_parts(m, clamp(m, x, -87.1, 89), 1, 126, 2, &p, &s);
	return vmath_op2(m, V_MUL, p, s);
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
	int nan = imm(m, NAN), infinite = imm(m, -INFINITY);
	int low = vmath_select(m, V_SEL_EQ, x, imm(m, 0), infinite, nan);
	return vmath_select(m, V_SEL_LE, x, imm(m, 0), low, y);
}

/* x P(x^2) / Q(x^2), minimax up to 8.7, where it is 1. */
int vmath_tanh(struct vmath *m, int x)
{
	static const double p[] = {-1.29025315e-11, 3.15099129e-8, 2.83871559e-5,
				   .00388702215,    .136948049,    1};
	static const double q[] = {1.31404499e-6, 3.97167634e-4, .02731416, .470281363, 1};
	int a = clamp(m, x, -8.7, 8.7), z = vmath_op2(m, V_MUL, a, a);
	int y = vmath_op2(m, V_MUL, horner(m, z, p, 6), a);
	return clamp(m, vmath_op2(m, V_DIV, y, horner(m, z, q, 5)), -1, 1);
}

/* 1 + exp(-x) */
static int logistic(struct vmath *m, int x)
{
	int p, s;
	exp_parts(m, clamp(m, x, -88, 88), -1, 127, 1, &p, &s);
	return vmath_fma(m, p, s, imm(m, 1));
}

int vmath_sigmoid(struct vmath *m, int x)
{
	int one_more = logistic(m, x);
	return vmath_op2(m, V_DIV, imm(m, 1), one_more);
}

int vmath_silu(struct vmath *m, int x)
{
	return vmath_op2(m, V_DIV, x, logistic(m, x));
}

/* x P(x^2), minimax up to 3.6, where it is 1. In powers of x^2 the sum would cancel; in those of x^2 taken to
 * [-1, 1] it does not. */
int vmath_erf(struct vmath *m, int x)
{
	static const double c[] = {.0022420506,  -.00579035096, .00564276427, -.00818325579, .0201519318,
				   -.0344723649, .0488036163,   -.067510955,  .0897055268,   -.113853544,
				   .1438189,     -.195488572,   .392712027};
	int a = clamp(m, x, -3.6, 3.6), z = vmath_op2(m, V_MUL, a, a);
	int less = imm(m, -1), t = vmath_fma(m, z, imm(m, 2 / (3.6 * 3.6)), less);
	return vmath_op2(m, V_MUL, horner(m, t, c, 13), a);
}

/* x Phi(x) = max(x, 0) - |x| Phi(-|x|). The eighth root of Phi(-a) is nearly straight: a minimax polynomial
 * up to 5.5, where a Phi(-a) is 1e-7. */
int vmath_gelu(struct vmath *m, int x)
{
	static const double c[] = {3.48764092e-6,  -3.88236767e-5, -2.44424991e-5, .00159185124,
				   -.000741498428, -.0319013335,   -.0914613008,   .917004108};
	int size = vmath_op1(m, V_ABS, x), a = vmath_op2(m, V_MIN, imm(m, 5.5), size), p = horner(m, a, c, 8);
	for (int i = 0; i < 3; i++)
		p = vmath_op2(m, V_MUL, p, p);
	int above = vmath_op2(m, V_MAX, imm(m, 0), x);
	return vmath_fma(m, a, vmath_op1(m, V_NEG, p), above);
}

int vmath_pow(struct vmath *m, int a, int b)
{
	int zero = imm(m, 0), one = imm(m, 1), half = imm(m, 0.5), two = imm(m, 2);
	int mag = vmath_exp(m, vmath_op2(m, V_MUL, b, vmath_log(m, vmath_op1(m, V_ABS, a))));
	int even = vmath_op2(m, V_MUL, vmath_op1(m, V_FLOOR, vmath_op2(m, V_MUL, b, half)), two);
	int signed_ = vmath_select(m, V_SEL_EQ, even, b, mag, vmath_op1(m, V_NEG, mag));
	int nan = imm(m, NAN);
	signed_ = vmath_select(m, V_SEL_EQ, vmath_op1(m, V_FLOOR, b), b, signed_, nan);
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
