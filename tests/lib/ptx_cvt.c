/* SPDX-License-Identifier: Apache-2.0 */
/* cvt: between integers and floats of all sizes. A lane passes through an int64_t or a double, which hold
 * each source exactly. */
#include "tests/lib/ptx_parts.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* Sources lie in registers that may be wider than they. */
#define READ(T, to)                                                                                          \
	for (int i = 0; i < LANES; i++)                                                                      \
	(to)[i] = *(const T *)(from + (size_t)i * step)
#define READ_WITH(T, to, convert)                                                                            \
	for (int i = 0; i < LANES; i++)                                                                      \
	(to)[i] = convert(*(const T *)(from + (size_t)i * step))

static void read_ints(const uint8_t *from, unsigned step, int type, int64_t *v)
{
	switch (type) {
	case T_U8:
		READ(uint8_t, v);
		break;
	case T_S8:
		READ(int8_t, v);
		break;
	case T_U16:
		READ(uint16_t, v);
		break;
	case T_S16:
		READ(int16_t, v);
		break;
	case T_U32:
		READ(uint32_t, v);
		break;
	case T_S32:
		READ(int32_t, v);
		break;
	default:
		READ(int64_t, v);
		break;
	}
}

static void read_floats(const uint8_t *from, unsigned step, int type, double *v)
{
	switch (type) {
	case T_F16:
		READ_WITH(uint16_t, v, ptx_f16_to_f32);
		break;
	case T_BF16:
		READ_WITH(uint16_t, v, ptx_bf16_to_f32);
		break;
	case T_F32:
		READ(float, v);
		break;
	default:
		READ(double, v);
		break;
	}
}

/* The result register may be wider: it holds the value extended by its sign, or zeros. */
static void write_ints(uint8_t *to, unsigned bytes, const int64_t *v)
{
	switch (bytes) {
	case 2:
		for (int i = 0; i < LANES; i++)
			((uint16_t *)to)[i] = (uint16_t)v[i];
		break;
	case 4:
		for (int i = 0; i < LANES; i++)
			((uint32_t *)to)[i] = (uint32_t)v[i];
		break;
	default:
		memcpy(to, v, sizeof *v * LANES);
		break;
	}
}

static const int64_t int_least[T_TYPES] = {
    [T_S8] = INT8_MIN, [T_S16] = INT16_MIN, [T_S32] = INT32_MIN, [T_S64] = INT64_MIN};
static const int64_t int_most[T_TYPES] = {
    [T_U8] = UINT8_MAX, [T_U16] = UINT16_MAX, [T_U32] = UINT32_MAX, [T_U64] = -1,
    [T_S8] = INT8_MAX,  [T_S16] = INT16_MAX,  [T_S32] = INT32_MAX,  [T_S64] = INT64_MAX};

/* Cuts to the type's bits, and extends. */
static int64_t cut(int64_t v, int type)
{
	switch (type) {
	case T_U8:
		return (uint8_t)v;
	case T_S8:
		return (int8_t)v;
	case T_U16:
		return (uint16_t)v;
	case T_S16:
		return (int16_t)v;
	case T_U32:
		return (uint32_t)v;
	case T_S32:
		return (int32_t)v;
	default:
		return v;
	}
}

static int64_t clamped(int64_t v, int from, int to)
{
	if (from == T_U64) { /* v's bits are unsigned */
		uint64_t most = to == T_U64 ? UINT64_MAX : (uint64_t)int_most[to];
		return (uint64_t)v > most ? (int64_t)most : v;
	}
	if (v < int_least[to])
		return int_least[to];
	return to != T_U64 && v > int_most[to] ? int_most[to] : v;
}

static double whole(double v, int round)
{
	switch (round) {
	case R_RZI:
	case R_RZ:
		return trunc(v);
	case R_RMI:
	case R_RM:
		return floor(v);
	case R_RPI:
	case R_RP:
		return ceil(v);
	default:
		return rint(v);
	}
}

/* Conversions to integers saturate. A NaN becomes 0, or with 64 bits on either side the bit pattern 1000...
 */
static int64_t float_to_int(double v, const struct ptx_ins *in)
{
	int to = in->type;
	if (v != v)
		return in->stype == T_F64 || to == T_S64 || to == T_U64
			   ? cut((int64_t)((uint64_t)1 << (8 * ptx_type_bytes(to) - 1)), to)
			   : 0;
	v = whole(v, in->round);
	if (to == T_U64)
		return v <= 0 ? 0 : v >= 0x1p64 ? -1 : (int64_t)(uint64_t)v;
	if (to == T_S64)
		return v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v;
	return v < (double)int_least[to]  ? int_least[to]
	       : v > (double)int_most[to] ? int_most[to]
					  : (int64_t)v;
}

/* An integer as a double, rounded to odd if it does not fit. */
static double odd_double(int64_t v, bool is_unsigned)
{
	bool negative = !is_unsigned && v < 0;
	uint64_t m = negative ? 0 - (uint64_t)v : (uint64_t)v, low = 0;
	int shift = m >> 53 ? 11 - __builtin_clzll(m) : 0;
	if (shift)
		low = m & (((uint64_t)1 << shift) - 1) ? 1 : 0;
	double d = ldexp((double)(m >> shift | low), shift);
	return negative ? -d : d;
}

/* To nearest, ties away from zero; the lowest 13 bits are 0. */
static uint32_t tf32_bits(float v)
{
	uint32_t bits;
	memcpy(&bits, &v, sizeof bits);
	if ((bits & 0x7fffffff) < 0x7f800000)
		bits = (bits + 0x1000) & ~UINT32_C(0x1fff);
	return bits;
}

static void write_floats(uint8_t *to, int type, int round, const double *v, int stride)
{
	for (int i = 0; i < LANES; i++) {
		if (type == T_F64)
			((double *)to)[i] = v[i];
		else if (type == T_F32)
			((float *)to)[i] = (float)v[i];
		else if (type == T_TF32)
			((uint32_t *)to)[i] = tf32_bits((float)v[i]);
		else if (type == T_F16)
			((uint16_t *)to)[i * stride] = ptx_to_f16(v[i], round);
		else
			((uint16_t *)to)[i * stride] = ptx_to_bf16(v[i], round);
	}
}

static void canonical_nans(uint8_t *to)
{
	for (int i = 0; i < LANES; i++) {
		uint32_t u;
		memcpy(&u, to + 4 * i, sizeof u);
		u = (u & 0x7fffffff) > 0x7f800000 ? 0x7fffffff : u;
		memcpy(to + 4 * i, &u, sizeof u);
	}
}

static void int_to_float(uint8_t *to, const int64_t *v, const struct ptx_ins *in)
{
	double d[LANES];
	for (int i = 0; in->type == T_F32 && i < LANES; i++)
		((float *)to)[i] = in->stype == T_U64 ? (float)(uint64_t)v[i] : (float)v[i];
	for (int i = 0; in->type == T_F64 && i < LANES; i++)
		((double *)to)[i] = in->stype == T_U64 ? (double)(uint64_t)v[i] : (double)v[i];
	if (in->type == T_F32 || in->type == T_F64)
		return;
	ptx_set_round(R_RN);
	for (int i = 0; i < LANES; i++)
		d[i] = odd_double(v[i], in->stype == T_U64);
	write_floats(to, in->type, in->round, d, 1);
}

static bool is_whole_round(int round)
{
	return round >= R_RNI && round <= R_RPI;
}

static void float_to_float(uint8_t *to, double *v, const struct ptx_ins *in, int stride)
{
	int type = in->type == T_F16X2 ? T_F16 : in->type == T_BF16X2 ? T_BF16 : in->type;
	for (int i = 0; i < LANES; i++) {
		if (is_whole_round(in->round))
			v[i] = whole(v[i], in->round);
		if (in->sat)
			v[i] = v[i] > 0 ? (v[i] < 1 ? v[i] : 1) : 0;
		if (in->relu && v[i] < 0)
			v[i] = 0;
	}
	bool f32 = type == T_F32 && !is_whole_round(in->round);
	if (f32)
		ptx_set_round(in->round);
	write_floats(to, type, in->round, v, stride);
	if (f32)
		ptx_set_round(R_RN);
	if (type == T_F32 || type == T_TF32)
		canonical_nans(to);
}

void ptx_convert(void *restrict d, const void *const *s, const struct ptx_ins *in)
{
	int64_t ints[LANES];
	double floats[LANES];
	bool from_float = ptx_floats(in->stype), to_float = ptx_floats(in->type);
	if (!from_float) {
		read_ints(s[0], in->s[0].bytes, in->stype, ints);
		if (to_float) {
			ptx_set_round(in->round);
			int_to_float(d, ints, in);
			ptx_set_round(R_RN);
			return;
		}
		for (int i = 0; i < LANES; i++)
			ints[i] = in->sat ? clamped(ints[i], in->stype, in->type) : cut(ints[i], in->type);
		write_ints(d, in->d[0].bytes, ints);
		return;
	}
	bool pair = in->type == T_F16X2 || in->type == T_BF16X2;
	for (int k = 0; k < (pair ? 2 : 1); k++) { /* the first source is the high half */
		read_floats(s[k], in->s[k].bytes, in->stype, floats);
		for (int i = 0; in->ftz && in->stype == T_F32 && i < LANES; i++)
			if (fabs(floats[i]) < 0x1p-126)
				floats[i] = copysign(0, floats[i]);
		if (to_float) {
			float_to_float((uint8_t *)d + (pair && k == 0 ? 2 : 0), floats, in, pair ? 2 : 1);
			continue;
		}
		for (int i = 0; i < LANES; i++)
			ints[i] = float_to_int(floats[i], in);
		write_ints(d, in->d[0].bytes, ints);
	}
	if (in->ftz && in->type == T_F32)
		ptx_flush_lanes(d, T_F32);
}
