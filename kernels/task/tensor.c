/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/task/tensor.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	char name[5];
	uint8_t bytes;
} dtypes[DTYPES] = {
    [DT_NONE] = {"none", 0}, [DT_F32] = {"f32", 4},   [DT_F64] = {"f64", 8}, [DT_F16] = {"f16", 2},
    [DT_BF16] = {"bf16", 2}, [DT_I8] = {"i8", 1},     [DT_U8] = {"u8", 1},   [DT_I16] = {"i16", 2},
    [DT_U16] = {"u16", 2},   [DT_I32] = {"i32", 4},   [DT_U32] = {"u32", 4}, [DT_I64] = {"i64", 8},
    [DT_U64] = {"u64", 8},   [DT_BOOL] = {"bool", 1},
};

size_t dtype_bytes(enum dtype t)
{
	return (unsigned)t < DTYPES ? dtypes[t].bytes : 0;
}

const char *dtype_name(enum dtype t)
{
	return (unsigned)t < DTYPES ? dtypes[t].name : "unknown";
}

bool dtype_is_half(enum dtype t)
{
	return t == DT_F16 || t == DT_BF16;
}

int64_t shape_count(const struct shape *s)
{
	int64_t n = 1;
	for (int i = 0; i < s->rank; i++)
		n *= s->d[i];
	return n;
}

int shape_check(const struct shape *s, int64_t max_elems)
{
	if (s->rank < 0 || s->rank > MAX_RANK)
		return fail(E_CORRUPT, "rank %d is outside 0..%d", s->rank, MAX_RANK);
	char text[160];
	shape_text(s, text);
	int64_t n = 1;
	for (int i = 0; i < s->rank; i++) {
		if (s->d[i] < 0)
			return fail(E_CORRUPT, "shape %s has a negative dimension", text);
		/* a zero dimension must not hide an overflow of the others, because strides are their
		 * products */
		int64_t d = s->d[i] ? s->d[i] : 1;
		if (__builtin_mul_overflow(n, d, &n) || n > max_elems)
			return fail(E_CORRUPT, "shape %s has more than %" PRId64 " elements", text,
				    max_elems);
	}
	return E_OK;
}

bool shape_equal(const struct shape *a, const struct shape *b)
{
	return a->rank == b->rank && !memcmp(a->d, b->d, sizeof a->d[0] * (size_t)a->rank);
}

void shape_text(const struct shape *s, char out[160])
{
	size_t at = 0;
	snprintf(out, 160, "scalar");
	for (int i = 0; i < s->rank && i < MAX_RANK && at < 160; i++)
		at += (size_t)snprintf(out + at, 160 - at, "%s%" PRId64, i ? "x" : "", s->d[i]);
}

int shape_parse(const char *text, struct shape *out)
{
	*out = (struct shape){0};
	if (!strcmp(text, "scalar"))
		return E_OK;
	const char *p = text;
	for (;;) {
		if (*p < '0' || *p > '9' || out->rank == MAX_RANK)
			return fail(E_USAGE,
				    "shape '%.80s' is not of the form 1x3x224x224 (at most %d numbers)", text,
				    MAX_RANK);
		char *end;
		long long v = strtoll(p, &end, 10);
		if (v > INT32_MAX)
			return fail(E_USAGE, "shape '%.80s' has a dimension over %d", text, INT32_MAX);
		out->d[out->rank++] = v;
		if (!*end)
			return E_OK;
		p = *end == 'x' ? end + 1 : "";
	}
}

int shape_broadcast(const struct shape *a, const struct shape *b, struct shape *out)
{
	struct shape r = {.rank = a->rank > b->rank ? a->rank : b->rank};
	for (int i = 1; i <= r.rank; i++) { /* starting with the last dimension */
		int64_t x = i <= a->rank ? a->d[a->rank - i] : 1;
		int64_t y = i <= b->rank ? b->d[b->rank - i] : 1;
		if (x != y && x != 1 && y != 1) {
			char ta[160], tb[160];
			shape_text(a, ta);
			shape_text(b, tb);
			return fail(E_CORRUPT, "shapes %s and %s do not broadcast", ta, tb);
		}
		r.d[r.rank - i] = x == 1 ? y : x;
	}
	*out = r;
	return E_OK;
}

int tensor_alloc(struct arena *a, enum dtype t, const struct shape *s, struct tensor *out)
{
	int rc = shape_check(s, INT64_MAX / 16);
	if (rc < 0)
		return rc;
	if (!dtype_bytes(t))
		return fail(E_CORRUPT, "a tensor of type %s cannot be made", dtype_name(t));
	size_t n = (size_t)shape_count(s);
	void *p = arena_try(a, n ? n : 1, dtype_bytes(t));
	if (!p)
		return E_NOMEM;
	*out = (struct tensor){t, *s, p};
	return E_OK;
}

float f16_to_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, mant = h & 0x3ff, exp = (h >> 10) & 0x1f, bits;
	if (exp == 31)
		bits = 0x7f800000 | mant << 13;
	else if (exp)
		bits = (exp + 112) << 23 | mant << 13;
	else { /* zero and subnormals: mant * 2^-24 is exact in f32 */
		float f = (float)mant * 0x1p-24f;
		memcpy(&bits, &f, 4);
	}
	bits |= sign;
	float f;
	memcpy(&f, &bits, 4);
	return f;
}

/* Round to nearest even. */
uint16_t f32_to_f16(float f)
{
	uint32_t x;
	memcpy(&x, &f, 4);
	uint32_t sign = x >> 16 & 0x8000, mag = x & 0x7fffffff;
	if (mag > 0x7f800000)
		return (uint16_t)(sign | 0x7e00);
	if (mag >= 0x477ff000) /* 65520 and up round to infinity */
		return (uint16_t)(sign | 0x7c00);
	if (mag < 0x38800000) { /* below 2^-14: a multiple of 2^-24 */
		float r = rintf(fabsf(f) * 0x1p24f);
		return (uint16_t)(sign | (uint32_t)r);
	}
	uint32_t odd = mag >> 13 & 1;
	return (uint16_t)(sign | (mag - 0x38000000 + 0xfff + odd) >> 13);
}

float bf16_to_f32(uint16_t h)
{
	uint32_t bits = (uint32_t)h << 16;
	float f;
	memcpy(&f, &bits, 4);
	return f;
}

uint16_t f32_to_bf16(float f)
{
	uint32_t x;
	memcpy(&x, &f, 4);
	if ((x & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(x >> 16 | 0x40);
	return (uint16_t)((x + 0x7fff + (x >> 16 & 1)) >> 16);
}

double tensor_get(const struct tensor *t, int64_t i)
{
	switch (t->dtype) {
	case DT_F32:
		return ((const float *)t->data)[i];
	case DT_F64:
		return ((const double *)t->data)[i];
	case DT_F16:
		return f16_to_f32(((const uint16_t *)t->data)[i]);
	case DT_BF16:
		return bf16_to_f32(((const uint16_t *)t->data)[i]);
	case DT_U64:
		return (double)((const uint64_t *)t->data)[i];
	default:
		return (double)tensor_get_i64(t, i);
	}
}

/* A double as an integer in [lo, hi]; NaN is 0. hi is compared as a double: 2^63 - 1 rounds up to 2^63, hence
 * >=. */
static int64_t saturate(double v, int64_t lo, int64_t hi)
{
	if (isnan(v))
		return 0;
	return v <= (double)lo ? lo : v >= (double)hi ? hi : (int64_t)v;
}

static uint64_t saturate_u64(double v)
{
	return !(v > 0) ? 0 : v >= 0x1p64 ? UINT64_MAX : (uint64_t)v;
}

void tensor_set(struct tensor *t, int64_t i, double v)
{
	switch (t->dtype) {
	case DT_F32:
		((float *)t->data)[i] = (float)v;
		break;
	case DT_F64:
		((double *)t->data)[i] = v;
		break;
	case DT_F16:
		((uint16_t *)t->data)[i] = f32_to_f16((float)v);
		break;
	case DT_BF16:
		((uint16_t *)t->data)[i] = f32_to_bf16((float)v);
		break;
	case DT_U64:
		((uint64_t *)t->data)[i] = saturate_u64(v);
		break;
	case DT_BOOL:
		((uint8_t *)t->data)[i] = v != 0;
		break;
	default:
		tensor_set_i64(t, i, saturate(v, INT64_MIN, INT64_MAX));
		break;
	}
}

int64_t tensor_get_i64(const struct tensor *t, int64_t i)
{
	switch (t->dtype) {
	case DT_I8:
		return ((const int8_t *)t->data)[i];
	case DT_U8:
		return ((const uint8_t *)t->data)[i];
	case DT_BOOL:
		return ((const uint8_t *)t->data)[i] != 0;
	case DT_I16:
		return ((const int16_t *)t->data)[i];
	case DT_U16:
		return ((const uint16_t *)t->data)[i];
	case DT_I32:
		return ((const int32_t *)t->data)[i];
	case DT_U32:
		return ((const uint32_t *)t->data)[i];
	case DT_I64:
		return ((const int64_t *)t->data)[i];
	case DT_U64: {
		uint64_t v = ((const uint64_t *)t->data)[i];
		return v > INT64_MAX ? INT64_MAX : (int64_t)v;
	}
	default:
		return dtype_bytes(t->dtype) ? saturate(tensor_get(t, i), INT64_MIN, INT64_MAX) : 0;
	}
}

static int64_t clamp(int64_t v, int64_t lo, int64_t hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

void tensor_set_i64(struct tensor *t, int64_t i, int64_t v)
{
	switch (t->dtype) {
	case DT_I8:
		((int8_t *)t->data)[i] = (int8_t)clamp(v, INT8_MIN, INT8_MAX);
		break;
	case DT_U8:
		((uint8_t *)t->data)[i] = (uint8_t)clamp(v, 0, UINT8_MAX);
		break;
	case DT_I16:
		((int16_t *)t->data)[i] = (int16_t)clamp(v, INT16_MIN, INT16_MAX);
		break;
	case DT_U16:
		((uint16_t *)t->data)[i] = (uint16_t)clamp(v, 0, UINT16_MAX);
		break;
	case DT_I32:
		((int32_t *)t->data)[i] = (int32_t)clamp(v, INT32_MIN, INT32_MAX);
		break;
	case DT_U32:
		((uint32_t *)t->data)[i] = (uint32_t)clamp(v, 0, UINT32_MAX);
		break;
	case DT_I64:
		((int64_t *)t->data)[i] = v;
		break;
	case DT_U64:
		((uint64_t *)t->data)[i] = v < 0 ? 0 : (uint64_t)v;
		break;
	case DT_NONE:
		break;
	default:
		tensor_set(t, i, (double)v);
		break;
	}
}

static bool is_real(enum dtype t)
{
	return t == DT_F32 || t == DT_F64 || t == DT_F16 || t == DT_BF16;
}

static void compare_real(const struct tensor *got, const struct tensor *ref, double *diff, double *absmax)
{
	for (int64_t i = 0, n = shape_count(&ref->shape); i < n; i++) {
		double g = tensor_get(got, i), r = tensor_get(ref, i);
		double d = (isnan(g) && isnan(r)) || g == r ? 0 : fabs(g - r);
		if (isnan(d))
			d = INFINITY;
		*diff = d > *diff ? d : *diff;
		/* an infinite reference must not widen a tolerance that scales with the largest value */
		if (isfinite(r) && fabs(r) > *absmax)
			*absmax = fabs(r);
	}
}

int tensor_compare(const struct tensor *got, const struct tensor *ref, double *diff, double *absmax)
{
	*diff = *absmax = 0;
	if (got->dtype != ref->dtype)
		return fail(E_WRONG, "type %s where %s is expected", dtype_name(got->dtype),
			    dtype_name(ref->dtype));
	if (!shape_equal(&got->shape, &ref->shape)) {
		char tg[160], tr[160];
		shape_text(&got->shape, tg);
		shape_text(&ref->shape, tr);
		return fail(E_WRONG, "shape %s where %s is expected", tg, tr);
	}
	if (is_real(ref->dtype)) {
		compare_real(got, ref, diff, absmax);
		return E_OK;
	}
	size_t w = dtype_bytes(ref->dtype);
	for (int64_t i = 0, n = shape_count(&ref->shape); i < n; i++) {
		const char *g = (const char *)got->data + (size_t)i * w,
			   *r = (const char *)ref->data + (size_t)i * w;
		*diff += ref->dtype == DT_BOOL ? !*g != !*r : memcmp(g, r, w) != 0;
		*absmax = fmax(*absmax, fabs(tensor_get(ref, i)));
	}
	return E_OK;
}
