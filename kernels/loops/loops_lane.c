/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/loops/loops_lane.h"
#include <math.h>
#include <string.h>

/* The smallest normal number; and 2^-126 - 2^-151: smaller results round (to 24 bits, unbounded exponent) to
 * less than the smallest normal number. */
#define NORMAL 0x1p-126f
#define TINY (0x1p-126 - 0x1p-151)

static float flush(float x)
{
	return fabsf(x) < NORMAL ? copysignf(0, x) : x;
}

/* Flushes an IEEE result r. If r is NORMAL, its exact value may be tiny: `tiny` says so. */
static float result(float r, bool tiny)
{
	float m = fabsf(r);
	return m < NORMAL || (m == NORMAL && tiny) ? copysignf(0, r) : r;
}

static float f_add(float a, float b)
{
	return result(flush(a) + flush(b), false); /* a tiny sum is exact */
}

static float f_sub(float a, float b)
{
	return result(flush(a) - flush(b), false);
}

static float f_mul(float a, float b)
{
	a = flush(a);
	b = flush(b);
	return result(a * b, fabs((double)a * b) < TINY); /* 48 bits: exact */
}

static float f_div(float a, float b)
{
	a = flush(a);
	b = flush(b);
	return result(a / b, fabs((double)a) < TINY * fabs((double)b)); /* 49 bits: exact */
}

/* Whether |p + c| < TINY exactly. If the rounded sum is TINY, its error (Knuth's two-sum) decides. */
static bool sum_is_tiny(double p, double c)
{
	double s = p + c, b = s - p, e = (p - (s - b)) + (c - b);
	if (fabs(s) != TINY)
		return fabs(s) < TINY;
	return s > 0 ? e < 0 : e > 0;
}

static float f_fma(float a, float b, float c)
{
	a = flush(a);
	b = flush(b);
	c = flush(c);
	float r = fmaf(a, b, c);
	return result(r, fabsf(r) == NORMAL && sum_is_tiny((double)a * b, c));
}

static float f_min(float a, float b)
{
	a = flush(a);
	b = flush(b);
	return a < b ? a : b;
}

static float f_max(float a, float b)
{
	a = flush(a);
	b = flush(b);
	return a > b ? a : b;
}

static uint32_t bits(float x)
{
	uint32_t u;
	memcpy(&u, &x, 4);
	return u;
}

static float of_bits(uint32_t u)
{
	float x;
	memcpy(&x, &u, 4);
	return x;
}

static float f_neg(float x)
{
	return of_bits(bits(x) ^ 0x80000000u);
}

static float f_abs(float x)
{
	return of_bits(bits(x) & 0x7fffffffu);
}

static float f_sqrt(float x)
{
	return sqrtf(flush(x));
}

static float f_floor(float x)
{
	return floorf(flush(x));
}

static float f_ceil(float x)
{
	return ceilf(flush(x));
}

static float f_rint(float x)
{
	return rintf(flush(x));
}

static float f_pow2(float x)
{
	return of_bits(bits(x) << 23);
}

static float f_getexp(float x)
{
	return (float)((int)(bits(x) >> 23 & 255) - 127);
}

static float f_getmant(float x)
{
	return of_bits((bits(x) & 0x7fffffu) | 0x3f800000u);
}

static float f_copy(float x)
{
	return x;
}

typedef float f1(float);
typedef float f2(float, float);

static f1 *const op1[V_OPS] = {
    [V_COPY] = f_copy, [V_NEG] = f_neg,   [V_ABS] = f_abs,   [V_SQRT] = f_sqrt,     [V_FLOOR] = f_floor,
    [V_CEIL] = f_ceil, [V_RINT] = f_rint, [V_POW2] = f_pow2, [V_GETEXP] = f_getexp, [V_GETMANT] = f_getmant};
static f2 *const op2[V_OPS] = {
    [V_ADD] = f_add, [V_SUB] = f_sub,  [V_MUL] = f_mul,  [V_DIV] = f_div,  [V_MIN] = f_min,
    [V_MAX] = f_max, [V_HADD] = f_add, [V_HMIN] = f_min, [V_HMAX] = f_max, [V_HMUL] = f_mul};

static float select_lane(enum vop op, const union lane *in)
{
	float a = flush(in[0].f), b = flush(in[1].f);
	bool yes = op == V_SEL_LT ? a < b : op == V_SEL_LE ? a <= b : a == b;
	return yes ? in[2].f : in[3].f;
}

static int64_t clamp(int64_t v, int64_t lo, int64_t hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

/* Part i of a group, of `bits` bits. */
static int64_t part(union lane v, int i, int bits, bool is_signed)
{
	int64_t x = v.u >> i * bits & ((UINT32_C(1) << bits) - 1);
	return is_signed && x >> (bits - 1) ? x - (INT64_C(1) << bits) : x;
}

static int64_t dot4(const union lane *in, bool is_signed)
{
	int64_t sum = in[2].s;
	for (int i = 0; i < 4; i++)
		sum += part(in[0], i, 8, is_signed) * part(in[1], i, 8, true);
	return sum;
}

static bool is_narrow(union lane b)
{
	for (int i = 0; i < 4; i++)
		if (part(b, i, 8, true) < -64 || part(b, i, 8, true) > 64)
			return false;
	return true;
}

static float bf16(union lane v, int i)
{
	return bf16_to_f32((uint16_t)part(v, i, 16, false));
}

static float bdot2(const union lane *in)
{
	float odd = f_fma(bf16(in[0], 1), bf16(in[1], 1), in[2].f);
	return f_fma(bf16(in[0], 0), bf16(in[1], 0), odd);
}

/* To nearest even. f32_to_f16 then finds the number exact, or infinite. */
static uint16_t f64_to_f16(double x)
{
	int e = 0;
	if (!isfinite(x) || x == 0)
		return f32_to_f16((float)x);
	frexp(x, &e);
	e = e - 11 < -24 ? -24 : e - 11; /* of the last digit */
	return f32_to_f16((float)ldexp(rint(ldexp(x, -e)), e));
}

/* Part i of a * b + c in f16, rounded once. In double the product, of 22 bits, is exact; the sum is not only
 * where the product is far below half of c's last place, and then it rounds to c. */
static uint32_t fma_f16(const union lane *in, int i)
{
	double x[3];
	for (int j = 0; j < 3; j++)
		x[j] = (double)f16_to_f32((uint16_t)part(in[j], i, 16, false));
	double product = x[0] * x[1];
	return f64_to_f16(product + x[2]);
}

static uint32_t fma2(const union lane *in)
{
	return fma_f16(in, 0) | fma_f16(in, 1) << 16;
}

static float sum2(const union lane *in)
{
	float first = f16_to_f32((uint16_t)part(in[0], 0, 16, false)),
	      second = f16_to_f32((uint16_t)part(in[0], 1, 16, false));
	return f_add(in[1].f, f_add(first, second));
}

static uint32_t quad(const union lane *in, int64_t lo, int64_t hi)
{
	uint32_t r = 0;
	for (int i = 0; i < 4; i++)
		r |= ((uint32_t)clamp(in[i].s, lo, hi) & 255) << 8 * i;
	return r;
}

static bool is_s32(float f)
{
	return f >= -0x1p31f && f <= 0x1p31f - 128;
}

static int64_t s32_op(enum vop op, const union lane *in)
{
	int64_t a = in[0].s, b = in[1].s;
	switch (op) {
	case V_COPY:
		return a;
	case V_ADD:
	case V_HADD:
		return a + b;
	case V_SUB:
		return a - b;
	case V_MUL:
	case V_HMUL:
		return a * b;
	case V_MIN:
	case V_HMIN:
		return a < b ? a : b;
	case V_MAX:
	case V_HMAX:
		return a > b ? a : b;
	case V_DOT4U:
	case V_DOT4S:
		return dot4(in, op == V_DOT4S);
	case V_DOT2:
		return in[2].s + part(in[0], 0, 16, true) * part(in[1], 0, 16, true) +
		       part(in[0], 1, 16, true) * part(in[1], 1, 16, true);
	case V_FMA2:
		return (int32_t)fma2(in);
	case V_CVT:
		return (int64_t)rintf(flush(in[0].f));
	case V_QUADU:
		return (int32_t)quad(in, 0, 255);
	default:
		return (int32_t)quad(in, -128, 127);
	}
}

static float f32_op(enum vop op, const union lane *in, bool fma)
{
	if (op == V_FMA)
		return fma ? f_fma(in[0].f, in[1].f, in[2].f) : f_add(f_mul(in[0].f, in[1].f), in[2].f);
	if (op == V_BDOT2)
		return bdot2(in);
	if (op == V_SUM2)
		return sum2(in);
	if (op == V_CVT)
		return (float)in[0].s;
	if (op >= V_SEL_LT && op <= V_SEL_EQ)
		return select_lane(op, in);
	return op2[op] ? op2[op](in[0].f, in[1].f) : op1[op](in[0].f);
}

enum lane_fault lane_op(const struct stmt *s, enum lv_type type, const union lane *in, bool fma,
			union lane *out)
{
	if (type == LV_F32) {
		out->f = f32_op(s->vop, in, fma);
		return LANE_GOOD;
	}
	if (dot_narrow(s) && !is_narrow(in[1]))
		return LANE_NOT_NARROW;
	if (s->vop == V_CVT && !is_s32(in[0].f))
		return LANE_NOT_S32;
	int64_t v = s32_op(s->vop, in);
	out->s = (int32_t)v;
	return v == out->s ? LANE_GOOD : LANE_OVERFLOW;
}

enum lane_fault lane_mmla(enum vop op, const union lane *a, const union lane *b, const union lane *c, int i,
			  union lane *out)
{
	int64_t v = c[i].s;
	for (int k = 0; k < 2; k++)
		v += dot4((union lane[]){a[2 * (i / 2) + k], b[2 * (i % 2) + k], {.s = 0}}, op == V_MMLAS);
	out->s = (int32_t)v;
	return v == out->s ? LANE_GOOD : LANE_OVERFLOW;
}

static int64_t load_int(enum dtype t, const void *p, int64_t at)
{
	int32_t v = 0;
	memcpy(&v, (const char *)p + at * (int64_t)dtype_bytes(t), dtype_bytes(t));
	return t == DT_I8 ? (int8_t)v : t == DT_I16 ? (int16_t)v : v;
}

/* Bits that an element has in a group: bytes in pairs are widened. */
static int part_bits(struct lane_type t)
{
	return 32 / t.group;
}

union lane lane_load(struct lane_type t, const void *p, int64_t at)
{
	uint32_t mask = t.group > 1 ? (UINT32_C(1) << part_bits(t)) - 1 : UINT32_MAX;
	union lane r = {.u = 0};
	if (t.elem == DT_F32) {
		memcpy(&r, (const char *)p + at * 4, 4);
		return r;
	}
	if (t.type == LV_F32) {
		uint32_t half = (uint32_t)load_int(t.elem, p, at);
		return t.elem == DT_F16 ? (union lane){.f = f16_to_f32((uint16_t)half)}
					: (union lane){.u = half << 16};
	}
	for (int i = 0; i < t.group; i++)
		r.u |= ((uint32_t)load_int(t.elem, p, at + i) & mask) << i * part_bits(t) % 32;
	return r;
}

static void store_int(enum dtype t, void *p, int64_t at, int64_t v)
{
	uint32_t u = (uint32_t)(t == DT_I8    ? clamp(v, INT8_MIN, INT8_MAX)
				: t == DT_U8  ? clamp(v, 0, UINT8_MAX)
				: t == DT_I16 ? clamp(v, INT16_MIN, INT16_MAX)
					      : v);
	memcpy((char *)p + at * (int64_t)dtype_bytes(t), &u, dtype_bytes(t));
}

void lane_store(struct lane_type t, void *p, int64_t at, union lane v)
{
	if (t.elem == DT_F32)
		memcpy((char *)p + at * 4, &v, 4);
	else if (t.type == LV_F32)
		store_int(t.elem, p, at, t.elem == DT_F16 ? f32_to_f16(v.f) : f32_to_bf16(flush(v.f)));
	else if (t.group == 1)
		store_int(t.elem, p, at, v.s);
	else
		for (int i = 0; i < t.group; i++)
			store_int(t.elem, p, at + i,
				  part(v, i, part_bits(t), t.elem == DT_I8 || t.elem == DT_I16));
}

union lane lane_fill(struct lane_type t, float fill)
{
	union lane r = {.f = fill};
	if (t.type == LV_F32)
		return r;
	if (t.group == 1)
		return (union lane){.s = (int32_t)fill};
	r.u = 0;
	for (int i = 0; i < t.group; i++)
		r.u |= ((uint32_t)(int32_t)fill & ((UINT32_C(1) << part_bits(t)) - 1)) << i * part_bits(t);
	return r;
}
