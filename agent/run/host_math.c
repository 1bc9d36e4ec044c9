/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/host_math.h"
#include "agent/run/host_tile.h"

#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* kernels/loops/vmath.c explains the formulas. */
INLINE float fast_exp(float x)
{
	float t = (x * 1.44269504f + 12582912.0f) - 12582912.0f; /* rounds |t| < 2^22 */
	t = t > -125 ? t : -125;
	t = t < 128 ? t : 128;
	float r = x - t * 0.693359375f;
	r -= t * -2.12194440e-4f;
	float y = 1.0f / 5040;
	y = y * r + 1.0f / 720;
	y = y * r + 1.0f / 120;
	y = y * r + 1.0f / 24;
	y = y * r + 1.0f / 6;
	y = y * r + 0.5f;
	y = y * r + 1;
	y = y * r + 1;
	int32_t bits = ((int32_t)t + 126) * (1 << 23); /* 2^(t-1) */
	float p;
	memcpy(&p, &bits, sizeof p);
	y *= p;
	return x < -87 ? 0 : y + y;
}

INLINE float fast_tanh(float x)
{
	float a = fabsf(x), e = fast_exp(-2 * a), far = (1 - e) / (1 + e), z = x * x;
	far = x < 0 ? -far : far;
	float y = 21844.0f / 6081075;
	y = y * z - 1382.0f / 155925;
	y = y * z + 62.0f / 2835;
	y = y * z - 17.0f / 315;
	y = y * z + 2.0f / 15;
	y = y * z - 1.0f / 3;
	return a < 0.4f ? y * z * x + x : far;
}

INLINE float fast_sigmoid(float x)
{
	return 1 / (1 + fast_exp(-x));
}

INLINE float fast_erf(float x)
{
	const float k = 1.12837917f;
	float a = fabsf(x), z = x * x, t = 1 / (a * 0.3275911f + 1), p = 1.061405429f;
	p = p * t - 1.453152027f;
	p = p * t + 1.421413741f;
	p = p * t - 0.284496736f;
	p = p * t + 0.254829592f;
	float far = 1 - p * t * fast_exp(-z);
	far = x < 0 ? -far : far;
	float y = k / 9360;
	y = y * z - k / 1320;
	y = y * z + k / 216;
	y = y * z - k / 42;
	y = y * z + k / 10;
	y = y * z - k / 3;
	y = y * z + 0.128379167f; /* k - 1 */
	return a < 0.5f ? y * x + x : far;
}

/* Beyond 10 standard deviations the result is 0 or x. */
INLINE float fast_gelu(float x)
{
	float low = x < -10 ? -10 : x, in = low > 10 ? 10 : low;
	return low * 0.5f * (1 + fast_erf(in * 0.707106781f));
}

#ifdef __clang__
#define APART _Pragma("clang loop vectorize(assume_safety)")
#else
#define APART _Pragma("GCC ivdep")
#endif
#define EACH(expr)                                                                                           \
	APART                                                                                                \
	for (int k = 0; k < n; k++)                                                                          \
		out[k] = (expr);                                                                             \
	break

INLINE void apply(enum prog_op op, float *out, const float *a, const float *b, const float *c, int n)
{
	n = (n + HOST_LANES - 1) & -HOST_LANES; /* so that no loop needs a remainder */
	switch (op) {
	case P_ADD:
		EACH(a[k] + b[k]);
	case P_SUB:
		EACH(a[k] - b[k]);
	case P_MUL:
		EACH(a[k] * b[k]);
	case P_DIV:
		EACH(a[k] / b[k]);
	case P_MIN:
		EACH(a[k] < b[k] ? a[k] : b[k]);
	case P_MAX:
		EACH(a[k] > b[k] ? a[k] : b[k]);
	case P_POW:
		EACH(powf(a[k], b[k]));
	case P_NEG:
		EACH(-a[k]);
	case P_ABS:
		EACH(fabsf(a[k]));
	case P_SQRT:
		EACH(sqrtf(a[k]));
	case P_RECIP:
		EACH(1 / a[k]);
	case P_EXP:
		EACH(fast_exp(a[k]));
	case P_LOG:
		EACH(logf(a[k]));
	case P_TANH:
		EACH(fast_tanh(a[k]));
	case P_SIGMOID:
		EACH(fast_sigmoid(a[k]));
	case P_ERF:
		EACH(fast_erf(a[k]));
	case P_FLOOR:
		EACH(floorf(a[k]));
	case P_CEIL:
		EACH(ceilf(a[k]));
	case P_RINT:
		EACH(rintf(a[k]));
	case P_SIGN:
		EACH((float)((a[k] > 0) - (a[k] < 0)));
	case P_LT:
		EACH(a[k] < b[k] ? 1.0f : 0.0f);
	case P_LE:
		EACH(a[k] <= b[k] ? 1.0f : 0.0f);
	case P_EQ:
		EACH(a[k] == b[k] ? 1.0f : 0.0f);
	case P_SELECT:
		EACH(a[k] != 0 ? b[k] : c[k]);
	case P_SQUARE:
		EACH(a[k] * a[k]);
	case P_SILU:
		EACH(a[k] == -INFINITY ? a[k] : a[k] * fast_sigmoid(a[k]));
	case P_GELU:
		EACH(fast_gelu(a[k]));
	default:
		break;
	}
}

bool host_takes_value(enum prog_op op)
{
	return op == P_ADD || op == P_SUB || op == P_MUL || op == P_DIV || op == P_MIN || op == P_MAX;
}

INLINE void apply_value(enum prog_op op, float *out, const float *a, float value, int n)
{
	n = (n + HOST_LANES - 1) & -HOST_LANES;
	switch (op) {
	case P_ADD:
		EACH(a[k] + value);
	case P_SUB:
		EACH(a[k] - value);
	case P_MUL:
		EACH(a[k] * value);
	case P_DIV:
		EACH(a[k] / value);
	case P_MIN:
		EACH(a[k] < value ? a[k] : value);
	case P_MAX:
		EACH(a[k] > value ? a[k] : value);
	default:
		break;
	}
}

static void apply_base(enum prog_op op, float *out, const float *a, const float *b, const float *c, int n)
{
	apply(op, out, a, b, c, n);
}

static void value_base(enum prog_op op, float *out, const float *a, float value, int n)
{
	apply_value(op, out, a, value, n);
}

#if defined(__x86_64__)

/* 0 leaves out the widest version, which doubles the code. */
#ifndef HOST_MATH_AVX512
#define HOST_MATH_AVX512 1
#endif

static __attribute__((target("avx2,fma"))) void apply_avx2(enum prog_op op, float *out, const float *a,
							   const float *b, const float *c, int n)
{
	apply(op, out, a, b, c, n);
}

static __attribute__((target("avx512f"))) void apply_avx512(enum prog_op op, float *out, const float *a,
							    const float *b, const float *c, int n)
{
	apply(op, out, a, b, c, n);
}

static __attribute__((target("avx2,fma"))) void value_avx2(enum prog_op op, float *out, const float *a,
							   float value, int n)
{
	apply_value(op, out, a, value, n);
}

static __attribute__((target("avx512f"))) void value_avx512(enum prog_op op, float *out, const float *a,
							    float value, int n)
{
	apply_value(op, out, a, value, n);
}

void host_apply_value(enum prog_op op, float *out, const float *a, float value, int n)
{
	if (HOST_MATH_AVX512 && tile_lanes() >= 16)
		value_avx512(op, out, a, value, n);
	else if (tile_lanes() >= 8)
		value_avx2(op, out, a, value, n);
	else
		value_base(op, out, a, value, n);
}

void host_apply(enum prog_op op, float *out, const float *a, const float *b, const float *c, int n)
{
	if (HOST_MATH_AVX512 && tile_lanes() >= 16)
		apply_avx512(op, out, a, b, c, n);
	else if (tile_lanes() >= 8)
		apply_avx2(op, out, a, b, c, n);
	else
		apply_base(op, out, a, b, c, n);
}

#else

void host_apply(enum prog_op op, float *out, const float *a, const float *b, const float *c, int n)
{
	apply_base(op, out, a, b, c, n);
}

void host_apply_value(enum prog_op op, float *out, const float *a, float value, int n)
{
	value_base(op, out, a, value, n);
}

#endif
