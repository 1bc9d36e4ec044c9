/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of 16-bit floats, alone and in pairs. Each is rounded once: sums and products are computed
 * wider, where need be rounded to odd (the last bit says that something was cut off), so that the second
 * rounding is right. */
#include "tests/lib/ptx_parts.h"

#include <math.h>
#include <string.h>

static inline uint32_t bits_of(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}

static inline float of_bits(uint32_t u)
{
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

float ptx_f16_to_f32(uint16_t h)
{
	uint32_t u = bits_of(of_bits((uint32_t)(h & 0x7fff) << 13) * 0x1p112f);
	if ((h & 0x7c00) == 0x7c00)
		u = 0x7f800000 | (uint32_t)(h & 0x3ff) << 13;
	return of_bits(u | (uint32_t)(h & 0x8000) << 16);
}

float ptx_bf16_to_f32(uint16_t h)
{
	return of_bits((uint32_t)h << 16);
}

/* To nearest, ties to even; f is exact or was rounded to odd. */
static inline uint16_t narrow(float f)
{
	uint32_t b = bits_of(f), sign = b >> 16 & 0x8000;
	b &= 0x7fffffff;
	uint32_t small =
	    bits_of(of_bits(b) + 0.5f) - 0x3f000000; /* below 2^-14: the sum's last bit is 2^-24 */
	uint32_t normal = (b + 0xfff + (b >> 13 & 1) - 0x38000000) >> 13;
	uint32_t r = b < 0x38800000 ? small : normal;
	r = b >= 0x477ff000 ? 0x7c00 : r; /* from 65520 on */
	return b > 0x7f800000 ? 0x7fff : (uint16_t)(r | sign);
}

/* v rounded to `digits` bits, at least the bit 2^least, as v's multiple of its last bit. */
static double rounded(double v, int digits, int least, int round, int *exponent)
{
	int e;
	frexp(v, &e);
	*exponent = e - digits > least ? e - digits : least;
	double m = ldexp(v, -*exponent);
	return round == R_RZ ? trunc(m) : round == R_RM ? floor(m) : round == R_RP ? ceil(m) : rint(m);
}

static uint16_t pack(double v, int round, int digits, int least, int most, uint16_t infinity)
{
	uint16_t sign = signbit(v) ? 0x8000 : 0;
	if (v != v)
		return 0x7fff;
	if (v == 0)
		return sign;
	if (isinf(v))
		return (uint16_t)(infinity | sign);
	int e;
	double m = fabs(rounded(v, digits, least, round, &e));
	if (m == ldexp(1, digits)) { /* the carry */
		m /= 2;
		e++;
	}
	if (e + digits > most) {
		bool away =
		    round == R_RN || round == R_NONE || (round == R_RP && !sign) || (round == R_RM && sign);
		return (uint16_t)((away ? infinity : infinity - 1) | sign);
	}
	/* Numbers below the least normal have the exponent of zero. */
	uint32_t mantissa = (uint32_t)m;
	return (uint16_t)((((uint32_t)(e - least) << (digits - 1)) + mantissa) | sign);
}

uint16_t ptx_to_f16(double v, int round)
{
	return pack(v, round, 11, -24, 16, 0x7c00);
}

uint16_t ptx_to_bf16(double v, int round)
{
	return pack(v, round, 8, -133, 128, 0x7f80);
}

/* x * y + z of 16-bit floats, rounded to odd; the product is exact in a double. */
static inline double odd_fma(double x, double y, double z)
{
	double p = x * y, s = p + z, b = s - p, error = (p - (s - b)) + (z - b);
	uint64_t u;
	memcpy(&u, &s, sizeof u);
	if (error != 0 && isfinite(s) && !(u & 1))
		u += (error > 0) == (s > 0) ? 1 : UINT64_MAX;
	memcpy(&s, &u, sizeof u);
	return s;
}

/* A double that was rounded to odd, as such a float; |v| is normal as a float, or zero. */
static inline float odd_float(double v)
{
	uint64_t u;
	memcpy(&u, &v, sizeof u);
	if (v - v != 0 || v == 0)
		return (float)v;
	u = (u & ~(uint64_t)0x1fffffff) | (u & 0x1fffffff ? 0x20000000 : 0);
	memcpy(&v, &u, sizeof u);
	return (float)v;
}

static inline uint16_t fma_half(uint16_t a, uint16_t b, uint16_t c)
{
	return narrow(odd_float(odd_fma(ptx_f16_to_f32(a), ptx_f16_to_f32(b), ptx_f16_to_f32(c))));
}

static uint16_t fma_brain(uint16_t a, uint16_t b, uint16_t c)
{
	return ptx_to_bf16(odd_fma(ptx_bf16_to_f32(a), ptx_bf16_to_f32(b), ptx_bf16_to_f32(c)), R_RN);
}

static uint16_t add_brain(uint16_t a, uint16_t b)
{
	return ptx_to_bf16(odd_fma(ptx_bf16_to_f32(a), 1, ptx_bf16_to_f32(b)), R_RN);
}

/* Zeros are ordered by their sign; a NaN loses against a number, or (nan) wins. infinity: 0x7c00 or 0x7f80.
 */
static uint16_t least(uint16_t a, uint16_t b, bool most, bool nan, uint16_t infinity)
{
	bool na = (a & 0x7fff) > infinity, nb = (b & 0x7fff) > infinity;
	if (na || nb)
		return nan || (na && nb) ? 0x7fff : na ? b : a;
	int x = a & 0x8000 ? -1 - (a & 0x7fff) : a, y = b & 0x8000 ? -1 - (b & 0x7fff) : b;
	return (x < y) != most ? a : b;
}

/* Each operation on n = 32 single values, and on 64 values of pairs. */
#define DEF(name, n, v)                                                                                      \
	static void name(void *restrict dst, const void *const *s, const struct ptx_ins *in)                 \
	{                                                                                                    \
		uint16_t *restrict r = dst;                                                                  \
		const uint16_t *a = s[0], *b = s[1], *c = s[2];                                              \
		(void)in, (void)b, (void)c;                                                                  \
		for (int i = 0; i < n; i++)                                                                  \
			r[i] = v;                                                                            \
	}
#define BOTH(name, v) DEF(name, LANES, v) DEF(name##_x2, 2 * LANES, v)
#define H ptx_f16_to_f32
#define B ptx_bf16_to_f32
BOTH(add_f16, narrow(H(a[i]) + H(b[i])))
BOTH(sub_f16, narrow(H(a[i]) - H(b[i])))
BOTH(mul_f16, narrow(H(a[i]) * H(b[i])))
BOTH(fma_f16, fma_half(a[i], b[i], c[i]))
BOTH(neg_16, a[i] ^ 0x8000)
BOTH(abs_16, a[i] & 0x7fff)
BOTH(min_f16, least(a[i], b[i], false, false, 0x7c00))
BOTH(max_f16, least(a[i], b[i], true, false, 0x7c00))
BOTH(min_nan_f16, least(a[i], b[i], false, true, 0x7c00))
BOTH(max_nan_f16, least(a[i], b[i], true, true, 0x7c00))
BOTH(ex2_f16, ptx_to_f16(exp2(H(a[i])), R_RN))
BOTH(tanh_f16, ptx_to_f16(tanh(H(a[i])), R_RN))
BOTH(add_bf16, add_brain(a[i], b[i]))
BOTH(sub_bf16, add_brain(a[i], b[i] ^ 0x8000))
BOTH(mul_bf16, ptx_to_bf16((double)B(a[i]) * B(b[i]), R_RN))
BOTH(fma_bf16, fma_brain(a[i], b[i], c[i]))
BOTH(min_bf16, least(a[i], b[i], false, false, 0x7f80))
BOTH(max_bf16, least(a[i], b[i], true, false, 0x7f80))
BOTH(min_nan_bf16, least(a[i], b[i], false, true, 0x7f80))
BOTH(max_nan_bf16, least(a[i], b[i], true, true, 0x7f80))
BOTH(ex2_bf16, ptx_to_bf16(exp2(B(a[i])), R_RN))
BOTH(tanh_bf16, ptx_to_bf16(tanh(B(a[i])), R_RN))

#define R1(op, t, T, fn)                                                                                     \
	{op "." t, fn, T, {T}},                                                                              \
	{                                                                                                    \
		op "." t "x2", fn##_x2, T##X2,                                                               \
		{                                                                                            \
			T##X2                                                                                \
		}                                                                                            \
	}
#define R2(op, t, T, fn)                                                                                     \
	{op "." t, fn, T, {T, T}},                                                                           \
	{                                                                                                    \
		op "." t "x2", fn##_x2, T##X2,                                                               \
		{                                                                                            \
			T##X2, T##X2                                                                         \
		}                                                                                            \
	}
#define R3(op, t, T, fn)                                                                                     \
	{op "." t, fn, T, {T, T, T}},                                                                        \
	{                                                                                                    \
		op "." t "x2", fn##_x2, T##X2,                                                               \
		{                                                                                            \
			T##X2, T##X2, T##X2                                                                  \
		}                                                                                            \
	}
#define ROWS(t, T)                                                                                           \
	R2("add", #t, T, add_##t), R2("sub", #t, T, sub_##t), R2("mul", #t, T, mul_##t),                     \
	    R3("fma", #t, T, fma_##t), R1("neg", #t, T, neg_16), R1("abs", #t, T, abs_16),                   \
	    R2("min", #t, T, min_##t), R2("max", #t, T, max_##t), R2("min.NaN", #t, T, min_nan_##t),         \
	    R2("max.NaN", #t, T, max_nan_##t), R1("ex2", #t, T, ex2_##t), R1("tanh", #t, T, tanh_##t)

const struct ptx_row ptx_half_rows[] = {ROWS(f16, T_F16), ROWS(bf16, T_BF16), {NULL}};
