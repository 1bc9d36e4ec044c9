/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the PTX interpreter: proves that a float is an exact result, rounded, without rounding itself.
 */
#ifndef TESTS_PTX_EXACT_H
#define TESTS_PTX_EXACT_H

#include "tests/lib/test.h"
#include "tests/lib/ptx_op.h"

#include <math.h>

typedef __int128 s128;
typedef unsigned __int128 u128;

static inline int rounds(void)
{
	return getenv("PTX_ROUNDS") ? atoi(getenv("PTX_ROUNDS")) : 2;
}

static inline void show(const struct ptx_op *o, int i, uint64_t want)
{
	printf("%s: %#llx %#llx %#llx %#llx: got %#llx, want %#llx\n", o->name,
	       (unsigned long long)o->in[i][0], (unsigned long long)o->in[i][1],
	       (unsigned long long)o->in[i][2], (unsigned long long)o->in[i][3],
	       (unsigned long long)o->out[i], (unsigned long long)want);
	test_bad = 1;
}

static inline s128 as_int(uint64_t v, int bits, bool sign)
{
	u128 mask = ((u128)1 << bits) - 1, m = v & mask;
	return sign && (m >> (bits - 1) & 1) ? (s128)(m | ~mask) : (s128)m;
}

static inline float f32(uint64_t bits)
{
	uint32_t u = (uint32_t)bits;
	float f;
	memcpy(&f, &u, 4);
	return f;
}

static inline uint64_t bits32(float f)
{
	uint32_t u;
	memcpy(&u, &f, 4);
	return f != f ? 0x7fffffff : u;
}

/* A format of floats of at most 32 bits. */
struct format {
	int digits, most; /* of the mantissa, with the hidden one; 2^most is too big */
	int least;        /* 2^least is the last bit of the smallest */
	uint32_t infinity, sign;
};
static const struct format __attribute__((unused)) single = {24, 128, -149, 0x7f800000, 0x80000000},
						   half = {11, 16, -24, 0x7c00, 0x8000},
						   brain = {8, 128, -133, 0x7f80, 0x8000};

/* The value of bits; of infinity: 2^most, as the next number would be. */
static inline double value_of(const struct format *f, uint32_t bits)
{
	uint32_t m = bits & (f->sign - 1), e = m >> (f->digits - 1), frac = m & ((1u << (f->digits - 1)) - 1);
	double v = e ? ldexp(frac | 1u << (f->digits - 1), (int)e - 1 + f->least) : ldexp(frac, f->least);
	return bits & f->sign ? -v : v;
}

enum { F_ADD, F_SUB, F_MUL, F_FMA, F_DIV, F_SQRT, F_RCP, F_CVT };

static inline int sign_of(double v)
{
	return (v > 0) - (v < 0);
}

/* The sign of exactly x op y op z - t. Products of operands are exact in a double, so are those of t and an
 * operand. */
static inline int exact_sign(int op, double x, double y, double z, double t)
{
	if (op == F_DIV)
		return sign_of(x - t * y) * sign_of(y);
	if (op == F_RCP)
		return sign_of(1 - t * x) * sign_of(x);
	if (op == F_SQRT)
		return t < 0 ? 1 : sign_of(x - t * t);
	double p = op == F_MUL || op == F_FMA ? x * y : x, q = op == F_FMA   ? z
							       : op == F_ADD ? y
							       : op == F_SUB ? -y
									     : 0;
	double s = p + q, b = s - p, error = (p - (s - b)) + (q - b), d = s - t;
	return d != 0 ? sign_of(d) : sign_of(error);
}

/* Whether finite r is the result, rounded so; 'n' 'z' 'm' 'p'. */
static inline bool rounded_right(const struct format *f, int round, int op, double x, double y, double z,
				 uint32_t r)
{
	int s = exact_sign(op, x, y, z, 0); /* sign of the exact result */
	uint32_t m = r & (f->sign - 1);
	if (s == 0)
		return m == 0;
	if (m && (s < 0) != (bool)(r & f->sign))
		return false;
	double side = s, v = value_of(f, m) * side, above = value_of(f, m + 1) * side,
	       below = m ? value_of(f, m - 1) * side : -v;
	bool away = (round == 'p' && s > 0) || (round == 'm' && s < 0);
	if (m > f->infinity)
		return false;
	if (round == 'n') {
		int low = m ? exact_sign(op, x, y, z, (below + v) / 2) * s : 1;
		int high = m < f->infinity ? exact_sign(op, x, y, z, (above + v) / 2) * s : -1;
		return (low > 0 || (low == 0 && !(m & 1))) && (high < 0 || (high == 0 && !(m & 1)));
	}
	if (away) /* below < exact <= v */
		return m && exact_sign(op, x, y, z, below) * s > 0 &&
		       (m == f->infinity || exact_sign(op, x, y, z, v) * s <= 0);
	return m < f->infinity && exact_sign(op, x, y, z, v) * s >= 0 &&
	       (m == f->infinity - 1 || exact_sign(op, x, y, z, above) * s < 0);
}

#endif
