/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of f32 and f64 on the 32 lanes of a warp. NaN results of f32 are 0x7fffffff, as a GPU's.
 * Flushing is done in software on exact results. Whether a result is tiny is decided after rounding with an
 * unlimited exponent, as platform/run/vm_math.c does: a product just below 2^-126 that rounds to it is
 * flushed. */
#include "tests/lib/ptx_parts.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

#define NORMAL 0x00800000u /* bits of 2^-126, the least normal f32 */
#define TINY (0x1p-126 - 0x1p-151)
#define NAN_BITS 0x7fffffffu

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

static inline uint32_t flush(uint32_t u)
{
	return u & 0x7f800000 ? u : u & 0x80000000;
}

static inline uint32_t canonical(uint32_t u)
{
	return (u & 0x7fffffff) > 0x7f800000 ? NAN_BITS : u;
}

/* Zero in place of a result of 2^-126 whose exact value is tiny. */
static uint32_t unless_tiny(uint32_t u, bool tiny)
{
	return (u & 0x7fffffff) == NORMAL && tiny ? u & 0x80000000 : u;
}

/* Whether exactly |p + c| < TINY; p is exact, and Knuth's two-sum gives the error of p + c. */
static bool tiny_sum(double p, double c)
{
	double s = p + c, b = s - p, error = (p - (s - b)) + (c - b);
	if (fabs(s) != TINY)
		return fabs(s) < TINY;
	return s > 0 ? error < 0 : error > 0;
}

/* v computes lane i of floats x, y, z; w says whether its exact value is tiny. */
#define DEF32(name, attribute, load, store, v, w)                                                            \
	attribute static void name(void *restrict dst, const void *const *s, const struct ptx_ins *in)       \
	{                                                                                                    \
		uint32_t *restrict r = dst;                                                                  \
		const uint32_t *a = s[0], *b = s[1], *c = s[2];                                              \
		uint32_t least = 0;                                                                          \
		(void)in, (void)b, (void)c;                                                                  \
		for (int i = 0; i < LANES; i++) {                                                            \
			float x = of_bits(load(a[i])), y = of_bits(load(b[i])), z = of_bits(load(c[i]));     \
			(void)y, (void)z;                                                                    \
			r[i] = store(canonical(bits_of(v)));                                                 \
			least |= (uint32_t)((r[i] & 0x7fffffff) == NORMAL);                                  \
		}                                                                                            \
		for (int i = 0; least && i < LANES; i++) {                                                   \
			float x = of_bits(load(a[i])), y = of_bits(load(b[i])), z = of_bits(load(c[i]));     \
			(void)x, (void)y, (void)z;                                                           \
			r[i] = unless_tiny(r[i], w);                                                         \
		}                                                                                            \
	}
#define NONE
#define SAME(u) (u)
#define BOTH(name, attribute, v, w)                                                                          \
	DEF32(name##_f32, attribute, SAME, SAME, v, false)                                                   \
	DEF32(name##_ftz_f32, attribute, flush, flush, v, w)

BOTH(add, NONE, x + y, false)
BOTH(sub, NONE, x - y, false)
BOTH(mul, NONE, x *y, fabs((double)x *y) < TINY)
BOTH(div, NONE, x / y, fabs((double)x) < TINY * fabs((double)y))
BOTH(fma, NONE, fmaf(x, y, z), tiny_sum((double)x *y, z))
BOTH(sqrt, NONE, sqrtf(x), false)
BOTH(rcp, NONE, 1 / x, 1 < TINY * fabs((double)x))
BOTH(ex2, NONE, (float)exp2(x), false)
BOTH(lg2, NONE, (float)log2(x), false)
BOTH(rsqrt, NONE, (float)(1 / sqrt(x)), false)
BOTH(sin, NONE, (float)sin(x), false)
BOTH(cos, NONE, (float)cos(x), false)
BOTH(tanh, NONE, (float)tanh(x), false)

/* Processors that have fused multiply-adds, but whose baseline has not. */
#ifdef __x86_64__
#define FUSED __attribute__((target("avx2,fma")))
BOTH(fused, FUSED, __builtin_fmaf(x, y, z), tiny_sum((double)x *y, z))
#define FUSED_FMA(plain, fused)                                                                              \
	(__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2") ? fused : plain)
#else
#define FUSED_FMA(plain, fused) (plain)
#endif

/* Zeros are ordered by their sign. A NaN loses against a number, or (nan) wins. */
static inline uint32_t least32(uint32_t a, uint32_t b, bool most, bool nan)
{
	float x = of_bits(a), y = of_bits(b);
	uint32_t zeros = most ? a & b : a | b;
	uint32_t pick = x == y ? (x == 0 ? zeros : a) : ((x < y) != most ? a : b);
	if (x != x || y != y)
		pick = nan || (x != x && y != y) ? NAN_BITS : x != x ? b : a;
	return pick;
}

#define PICK(name, most, nan, flushed)                                                                       \
	static void name(void *restrict dst, const void *const *s, const struct ptx_ins *in)                 \
	{                                                                                                    \
		uint32_t *restrict r = dst;                                                                  \
		const uint32_t *a = s[0], *b = s[1];                                                         \
		(void)in;                                                                                    \
		for (int i = 0; i < LANES; i++)                                                              \
			r[i] = least32(flushed(a[i]), flushed(b[i]), most, nan);                             \
	}
PICK(min_f32, false, false, SAME)
PICK(min_ftz_f32, false, false, flush)
PICK(max_f32, true, false, SAME)
PICK(max_ftz_f32, true, false, flush)
PICK(min_nan_f32, false, true, SAME)
PICK(min_nan_ftz_f32, false, true, flush)
PICK(max_nan_f32, true, true, SAME)
PICK(max_nan_ftz_f32, true, true, flush)

#define DEFBITS(name, T, v)                                                                                  \
	static void name(void *restrict dst, const void *const *s, const struct ptx_ins *in)                 \
	{                                                                                                    \
		T *restrict r = dst;                                                                         \
		const T *a = s[0], *b = s[1];                                                                \
		(void)in, (void)b;                                                                           \
		for (int i = 0; i < LANES; i++)                                                              \
			r[i] = v;                                                                            \
	}
#define SIGN64 ((uint64_t)1 << 63)
DEFBITS(abs_f32, uint32_t, a[i] & 0x7fffffff)
DEFBITS(abs_ftz_f32, uint32_t, flush(a[i]) & 0x7fffffff)
DEFBITS(neg_f32, uint32_t, a[i] ^ 0x80000000)
DEFBITS(neg_ftz_f32, uint32_t, flush(a[i]) ^ 0x80000000)
DEFBITS(copysign_f32, uint32_t, (a[i] & 0x80000000) | (b[i] & 0x7fffffff))
DEFBITS(abs_f64, uint64_t, a[i] & ~SIGN64)
DEFBITS(neg_f64, uint64_t, a[i] ^ SIGN64)
DEFBITS(copysign_f64, uint64_t, (a[i] & SIGN64) | (b[i] & ~SIGN64))

#define DEF64(name, v)                                                                                       \
	static void name(void *restrict dst, const void *const *s, const struct ptx_ins *in)                 \
	{                                                                                                    \
		double *restrict r = dst;                                                                    \
		const double *x = s[0], *y = s[1], *z = s[2];                                                \
		(void)in, (void)y, (void)z;                                                                  \
		for (int i = 0; i < LANES; i++)                                                              \
			r[i] = v;                                                                            \
	}
static double least64(double a, double b, bool most)
{
	if (a != a || b != b)
		return a != a ? b : a;
	return a == b ? (signbit(a) == most ? b : a) : (a < b) != most ? a : b;
}
DEF64(add_f64, x[i] + y[i])
DEF64(sub_f64, x[i] - y[i])
DEF64(mul_f64, x[i] * y[i])
DEF64(div_f64, x[i] / y[i])
DEF64(fma_f64, fma(x[i], y[i], z[i]))
DEF64(sqrt_f64, sqrt(x[i]))
DEF64(rcp_f64, 1 / x[i])
DEF64(min_f64, least64(x[i], y[i], false))
DEF64(max_f64, least64(x[i], y[i], true))

#define TEST(name, T, v)                                                                                     \
	static void testp_##name(void *restrict dst, const void *const *s, const struct ptx_ins *in)         \
	{                                                                                                    \
		const T *x = s[0];                                                                           \
		uint32_t m = 0;                                                                              \
		(void)in;                                                                                    \
		for (int i = 0; i < LANES; i++)                                                              \
			m |= (uint32_t)(v) << i;                                                             \
		*(uint32_t *)dst = m;                                                                        \
	}
#define TESTS(T, name)                                                                                       \
	TEST(finite_##name, T, isfinite(x[i]) != 0)                                                          \
	TEST(infinite_##name, T, isinf(x[i]) != 0)                                                           \
	TEST(number_##name, T, isnan(x[i]) == 0)                                                             \
	TEST(notanumber_##name, T, isnan(x[i]) != 0)                                                         \
	TEST(normal_##name, T, isnormal(x[i]) != 0)                                                          \
	TEST(subnormal_##name, T, fpclassify(x[i]) == FP_SUBNORMAL)
TESTS(float, f32)
TESTS(double, f64)

#define ROW1(op, t, fn, T)                                                                                   \
	{                                                                                                    \
		op "." t, fn, T,                                                                             \
		{                                                                                            \
			T                                                                                    \
		}                                                                                            \
	}
#define ROW2(op, t, fn, T)                                                                                   \
	{                                                                                                    \
		op "." t, fn, T,                                                                             \
		{                                                                                            \
			T, T                                                                                 \
		}                                                                                            \
	}
#define ROW3(op, t, fn, T)                                                                                   \
	{                                                                                                    \
		op "." t, fn, T,                                                                             \
		{                                                                                            \
			T, T, T                                                                              \
		}                                                                                            \
	}
#define BOTH1(op, fn) ROW1(op, "f32", fn##_f32, T_F32), ROW1(op ".ftz", "f32", fn##_ftz_f32, T_F32)
#define BOTH2(op, fn) ROW2(op, "f32", fn##_f32, T_F32), ROW2(op ".ftz", "f32", fn##_ftz_f32, T_F32)
#define BOTH3(op, fn) ROW3(op, "f32", fn##_f32, T_F32), ROW3(op ".ftz", "f32", fn##_ftz_f32, T_F32)
#define TESTROWS(kind)                                                                                       \
	{"testp." #kind ".f32", testp_##kind##_f32, T_PRED, {T_F32}},                                        \
	{                                                                                                    \
		"testp." #kind ".f64", testp_##kind##_f64, T_PRED,                                           \
		{                                                                                            \
			T_F64                                                                                \
		}                                                                                            \
	}

const struct ptx_row ptx_float_rows[] = {
    BOTH2("add", add),
    BOTH2("sub", sub),
    BOTH2("mul", mul),
    BOTH2("div", div),
    BOTH3("fma", fma),
    BOTH3("mad", fma),
    BOTH2("min", min),
    BOTH2("max", max),
    BOTH2("min.NaN", min_nan),
    BOTH2("max.NaN", max_nan),
    BOTH1("sqrt", sqrt),
    BOTH1("rcp", rcp),
    BOTH1("rsqrt", rsqrt),
    BOTH1("ex2", ex2),
    BOTH1("lg2", lg2),
    BOTH1("sin", sin),
    BOTH1("cos", cos),
    BOTH1("tanh", tanh),
    BOTH1("abs", abs),
    BOTH1("neg", neg),
    ROW2("copysign", "f32", copysign_f32, T_F32),
    ROW2("add", "f64", add_f64, T_F64),
    ROW2("sub", "f64", sub_f64, T_F64),
    ROW2("mul", "f64", mul_f64, T_F64),
    ROW2("div", "f64", div_f64, T_F64),
    ROW3("fma", "f64", fma_f64, T_F64),
    ROW3("mad", "f64", fma_f64, T_F64),
    ROW2("min", "f64", min_f64, T_F64),
    ROW2("max", "f64", max_f64, T_F64),
    ROW1("sqrt", "f64", sqrt_f64, T_F64),
    ROW1("rcp", "f64", rcp_f64, T_F64),
    ROW1("abs", "f64", abs_f64, T_F64),
    ROW1("neg", "f64", neg_f64, T_F64),
    ROW2("copysign", "f64", copysign_f64, T_F64),
    TESTROWS(finite),
    TESTROWS(infinite),
    TESTROWS(number),
    TESTROWS(notanumber),
    TESTROWS(normal),
    TESTROWS(subnormal),
    {NULL},
};

ptx_lanes_fn *ptx_fastest(ptx_lanes_fn *fn)
{
	if (fn == fma_f32)
		return FUSED_FMA(fma_f32, fused_f32);
	return fn == fma_ftz_f32 ? FUSED_FMA(fma_ftz_f32, fused_ftz_f32) : fn;
}

/* ---- comparisons ---- */

#define VALUE(v) (v)
#define COMPARE(name, t, T, value, v)                                                                        \
	static uint32_t cmp_##name##_##t(const void *a, const void *b, uint32_t *second)                     \
	{                                                                                                    \
		const T *p = a, *q = b;                                                                      \
		uint32_t m = 0;                                                                              \
		for (int i = 0; i < LANES; i++) {                                                            \
			__auto_type x = value(p[i]);                                                         \
			__auto_type y = value(q[i]);                                                         \
			m |= (uint32_t)(v) << i;                                                             \
		}                                                                                            \
		*second = ~m;                                                                                \
		return m;                                                                                    \
	}
#define COMPARES(t, T, value)                                                                                \
	COMPARE(eq, t, T, value, x == y)                                                                     \
	COMPARE(ne, t, T, value, x<y || x> y)                                                                \
	COMPARE(lt, t, T, value, x < y)                                                                      \
	COMPARE(le, t, T, value, x <= y)                                                                     \
	COMPARE(gt, t, T, value, x > y)                                                                      \
	COMPARE(ge, t, T, value, x >= y)                                                                     \
	COMPARE(equ, t, T, value, !(x < y || x > y))                                                         \
	COMPARE(neu, t, T, value, x != y)                                                                    \
	COMPARE(ltu, t, T, value, !(x >= y))                                                                 \
	COMPARE(leu, t, T, value, !(x > y))                                                                  \
	COMPARE(gtu, t, T, value, !(x <= y))                                                                 \
	COMPARE(geu, t, T, value, !(x < y))                                                                  \
	COMPARE(num, t, T, value, x == x && y == y)                                                          \
	COMPARE(nan, t, T, value, x != x || y != y)
COMPARES(f32, float, VALUE)
COMPARES(f64, double, VALUE)
COMPARES(f16, uint16_t, ptx_f16_to_f32)
COMPARES(bf16, uint16_t, ptx_bf16_to_f32)

/* Of pairs: the first predicate is of the low halves, the second of the high ones. */
#define COMPARE2(name, t)                                                                                    \
	static uint32_t cmp_##name##_##t##x2(const void *a, const void *b, uint32_t *second)                 \
	{                                                                                                    \
		const uint16_t *x = a, *y = b;                                                               \
		uint16_t p[2][LANES], q[2][LANES];                                                           \
		uint32_t ignored;                                                                            \
		for (int i = 0; i < 2 * LANES; i++) {                                                        \
			p[i & 1][i / 2] = x[i];                                                              \
			q[i & 1][i / 2] = y[i];                                                              \
		}                                                                                            \
		*second = cmp_##name##_##t(p[1], q[1], &ignored);                                            \
		return cmp_##name##_##t(p[0], q[0], &ignored);                                               \
	}
#define EACH(X, t)                                                                                           \
	X(eq, t)                                                                                             \
	X(ne, t)                                                                                             \
	X(lt, t)                                                                                             \
	X(le, t)                                                                                             \
	X(gt, t) X(ge, t) X(equ, t) X(neu, t) X(ltu, t) X(leu, t) X(gtu, t) X(geu, t) X(num, t) X(nan, t)
EACH(COMPARE2, f16)
EACH(COMPARE2, bf16)
#define F32ROW(n, t) {#n, T_F32, cmp_##n##_##t},
#define F64ROW(n, t) {#n, T_F64, cmp_##n##_##t},
#define F16ROW(n, t) {#n, T_F16, cmp_##n##_##t},
#define BF16ROW(n, t) {#n, T_BF16, cmp_##n##_##t},
#define F16X2ROW(n, t) {#n, T_F16X2, cmp_##n##_##t##x2},
#define BF16X2ROW(n, t) {#n, T_BF16X2, cmp_##n##_##t##x2},

const struct ptx_cmp_row ptx_float_cmps[] = {
    EACH(F32ROW, f32) EACH(F64ROW, f64) EACH(F16ROW, f16) EACH(BF16ROW, bf16) EACH(F16X2ROW, f16)
	EACH(BF16X2ROW, bf16){NULL},
};

/* ---- other roundings, .sat, .relu, .ftz of 16-bit floats ---- */

void ptx_set_round(int round)
{
	fesetround(round == R_RZ   ? FE_TOWARDZERO
		   : round == R_RM ? FE_DOWNWARD
		   : round == R_RP ? FE_UPWARD
				   : FE_TONEAREST);
}

void ptx_flush_lanes(void *lanes, int type)
{
	uint32_t *w = lanes;
	uint16_t *h = lanes;
	for (int i = 0; type == T_F32 && i < LANES; i++)
		w[i] = flush(w[i]);
	uint16_t exponent = type == T_F16 || type == T_F16X2 ? 0x7c00 : 0x7f80;
	int n = type == T_F16 || type == T_BF16 ? LANES : type == T_F16X2 || type == T_BF16X2 ? 2 * LANES : 0;
	for (int i = 0; i < n; i++)
		h[i] = h[i] & exponent ? h[i] : h[i] & 0x8000;
}

static float clamp32(float v, bool relu)
{
	return relu    ? (v < 0 ? 0 : v)
	       : v > 0 ? (v < 1 ? v : 1)
		       : 0; /* a NaN saturates to 0, and stays with .relu */
}

void ptx_clamp_lanes(void *lanes, int type, bool relu)
{
	float *f = lanes;
	double *g = lanes;
	uint16_t *h = lanes;
	if (relu && (type == T_F32 || type == T_F64))
		return;
	for (int i = 0; type == T_F32 && i < LANES; i++)
		f[i] = clamp32(f[i], false);
	for (int i = 0; type == T_F64 && i < LANES; i++)
		g[i] = g[i] > 0 ? (g[i] < 1 ? g[i] : 1) : 0;
	bool half = type == T_F16 || type == T_F16X2;
	int n = type == T_F16 || type == T_BF16 ? LANES : type == T_F16X2 || type == T_BF16X2 ? 2 * LANES : 0;
	for (int i = 0; i < n; i++) {
		float v = half ? ptx_f16_to_f32(h[i]) : ptx_bf16_to_f32(h[i]), w = clamp32(v, relu);
		if (w != v && !(relu && v != v))
			h[i] = w == 0 ? 0 : half ? 0x3c00 : 0x3f80;
	}
}

void ptx_slow_lanes(void *restrict d, const void *const *s, const struct ptx_ins *in)
{
	uint64_t flushed[3][LANES];
	const void *from[4] = {s[0], s[1], s[2], s[3]};
	for (int i = 0; in->ftz && i < in->ns && i < 3; i++) {
		memcpy(flushed[i], s[i], (size_t)in->s[i].bytes * LANES);
		ptx_flush_lanes(flushed[i], in->type);
		from[i] = flushed[i];
	}
	if (in->round != R_RN)
		ptx_set_round(in->round);
	in->fn(d, from, in);
	if (in->round != R_RN)
		ptx_set_round(R_RN);
	if (in->ftz)
		ptx_flush_lanes(d, in->type);
	if (in->sat || in->relu)
		ptx_clamp_lanes(d, in->type, in->relu);
}
