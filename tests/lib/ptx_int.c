/* SPDX-License-Identifier: Apache-2.0 */
/* Integer operations on the 32 lanes of a warp. */
#include "tests/lib/ptx_parts.h"

#include <limits.h>
#include <stdlib.h>

/* d and the sources may be the same register, so results go through `r`. */
#define DEF(name, D, A, B, C, expr)                                                                          \
	static void name(void *restrict dst, const void *const *s, const struct ptx_ins *in)                 \
	{                                                                                                    \
		D *restrict r = dst;                                                                         \
		const A *x = s[0];                                                                           \
		const B *y = s[1];                                                                           \
		const C *z = s[2];                                                                           \
		(void)y;                                                                                     \
		(void)z;                                                                                     \
		(void)in;                                                                                    \
		for (int i = 0; i < LANES; i++)                                                              \
			r[i] = (D)(expr);                                                                    \
	}

typedef uint16_t u16;
typedef int16_t s16;
typedef uint32_t u32;
typedef int32_t s32;
typedef uint64_t u64;
typedef int64_t s64;
typedef unsigned __int128 u128;
typedef __int128 s128;
#define T_u16 T_U16
#define T_s16 T_S16
#define T_u32 T_U32
#define T_s32 T_S32
#define T_u64 T_U64
#define T_s64 T_S64

/* Arithmetic wraps: it is done in unsigned types. t: the type; u: its unsigned; w, uw: twice as wide. */
#define ARITHMETIC(t, u, w, uw, bits)                                                                        \
	DEF(add_##t, t, u, u, u, (u)(x[i] + y[i]))                                                           \
	DEF(sub_##t, t, u, u, u, (u)(x[i] - y[i]))                                                           \
	DEF(mul_lo_##t, t, u, u, u, (u)((uw)x[i] * y[i]))                                                    \
	DEF(mul_hi_##t, t, t, t, t, (uw)((w)x[i] * (w)y[i]) >> bits)                                         \
	DEF(mad_lo_##t, t, u, u, u, (u)((uw)x[i] * y[i] + z[i]))                                             \
	DEF(mad_hi_##t, t, t, t, u, (u)((u)((uw)((w)x[i] * (w)y[i]) >> bits) + z[i]))                        \
	DEF(div_##t, t, t, t, t, divide_##t(x[i], y[i]))                                                     \
	DEF(rem_##t, t, t, t, t, remain_##t(x[i], y[i]))                                                     \
	DEF(min_##t, t, t, t, t, x[i] < y[i] ? x[i] : y[i])                                                  \
	DEF(max_##t, t, t, t, t, x[i] > y[i] ? x[i] : y[i])                                                  \
	DEF(sad_##t, t, t, t, u, (u)(z[i] + (x[i] < y[i] ? (u)y[i] - (u)x[i] : (u)x[i] - (u)y[i])))          \
	DEF(shr_##t, t, t, u32, t, y[i] < bits ? x[i] >> y[i] : x[i] >> (bits - 1) >> 1)

/* Lanes that are not active hold anything; for active ones the run checks divisors. */
#define UNSIGNED_DIVISION(t)                                                                                 \
	static t divide_##t(t a, t b)                                                                        \
	{                                                                                                    \
		return (t)(b ? a / b : (t)-1);                                                               \
	}                                                                                                    \
	static t remain_##t(t a, t b)                                                                        \
	{                                                                                                    \
		return (t)(b ? a % b : a);                                                                   \
	}
#define SIGNED_DIVISION(t, u)                                                                                \
	static t divide_##t(t a, t b)                                                                        \
	{                                                                                                    \
		return b == -1 ? (t)(0 - (u)a) : b ? (t)(a / b) : (t)-1;                                     \
	}                                                                                                    \
	static t remain_##t(t a, t b)                                                                        \
	{                                                                                                    \
		return b == -1 ? 0 : b ? (t)(a % b) : a;                                                     \
	}
UNSIGNED_DIVISION(u16)
UNSIGNED_DIVISION(u32)
UNSIGNED_DIVISION(u64)
SIGNED_DIVISION(s16, u16)
SIGNED_DIVISION(s32, u32)
SIGNED_DIVISION(s64, u64)

ARITHMETIC(u16, u16, u32, u32, 16)
ARITHMETIC(s16, u16, s32, u32, 16)
ARITHMETIC(u32, u32, u64, u64, 32)
ARITHMETIC(s32, u32, s64, u64, 32)
ARITHMETIC(u64, u64, u128, u128, 64)
ARITHMETIC(s64, u64, s128, u128, 64)

#define WIDE(t, w, uw)                                                                                       \
	DEF(mul_wide_##t, w, t, t, t, (uw)((w)x[i] * (w)y[i]))                                               \
	DEF(mad_wide_##t, w, t, t, uw, (uw)((uw)((w)x[i] * (w)y[i]) + z[i]))
WIDE(u16, u32, u32)
WIDE(s16, s32, u32)
WIDE(u32, u64, u64)
WIDE(s32, s64, u64)

#define SIGNED(t, u)                                                                                         \
	DEF(abs_##t, t, t, t, t, x[i] < 0 ? 0 - (u)x[i] : (u)x[i])                                           \
	DEF(neg_##t, t, u, u, u, (u)(0 - x[i]))
SIGNED(s16, u16)
SIGNED(s32, u32)
SIGNED(s64, u64)

static s32 clamped(s64 v)
{
	return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (s32)v;
}
DEF(add_sat_s32, s32, s32, s32, s32, clamped((s64)x[i] + y[i]))
DEF(sub_sat_s32, s32, s32, s32, s32, clamped((s64)x[i] - y[i]))
DEF(mad_hi_sat_s32, s32, s32, s32, s32, clamped((((s64)x[i] * y[i]) >> 32) + z[i]))

DEF(mul24_lo_u32, u32, u32, u32, u32, (u32)((u64)(x[i] & 0xffffff) * (y[i] & 0xffffff)))
DEF(mul24_lo_s32, s32, s32, s32, s32, (u32)((s64)((s32)((u32)x[i] << 8) >> 8) * ((s32)((u32)y[i] << 8) >> 8)))
DEF(mad24_lo_u32, u32, u32, u32, u32, (u32)((u64)(x[i] & 0xffffff) * (y[i] & 0xffffff)) + z[i])
DEF(mad24_lo_s32, s32, s32, s32, u32,
    (u32)((s64)((s32)((u32)x[i] << 8) >> 8) * ((s32)((u32)y[i] << 8) >> 8)) + z[i])

#define BITS(u, bits)                                                                                        \
	DEF(and_##u, u, u, u, u, x[i] & y[i])                                                                \
	DEF(or_##u, u, u, u, u, x[i] | y[i])                                                                 \
	DEF(xor_##u, u, u, u, u, x[i] ^ y[i])                                                                \
	DEF(not_##u, u, u, u, u, ~x[i])                                                                      \
	DEF(cnot_##u, u, u, u, u, x[i] == 0)                                                                 \
	DEF(shl_##u, u, u, u32, u, y[i] < bits ? (u)(x[i] << y[i]) : 0)                                      \
	DEF(selp_##u, u, u, u, u32, z[0] >> i & 1 ? x[i] : y[i])                                             \
	DEF(slct_s32_##u, u, u, u, s32, z[i] >= 0 ? x[i] : y[i])                                             \
	DEF(slct_f32_##u, u, u, u, float, z[i] >= 0 ? x[i] : y[i])
BITS(u16, 16)
BITS(u32, 32)
BITS(u64, 64)

static u32 reversed(u32 v)
{
	v = (v >> 1 & 0x55555555) | (v & 0x55555555) << 1;
	v = (v >> 2 & 0x33333333) | (v & 0x33333333) << 2;
	v = (v >> 4 & 0x0f0f0f0f) | (v & 0x0f0f0f0f) << 4;
	return __builtin_bswap32(v);
}
DEF(popc_b32, u32, u32, u32, u32, __builtin_popcount(x[i]))
DEF(popc_b64, u32, u64, u64, u64, __builtin_popcountll(x[i]))
DEF(clz_b32, u32, u32, u32, u32, x[i] ? __builtin_clz(x[i]) : 32)
DEF(clz_b64, u32, u64, u64, u64, x[i] ? __builtin_clzll(x[i]) : 64)
DEF(brev_b32, u32, u32, u32, u32, reversed(x[i]))
DEF(brev_b64, u64, u64, u64, u64, (u64)reversed((u32)x[i]) << 32 | reversed((u32)(x[i] >> 32)))

/* The highest bit that differs from the sign; all ones: there is none. */
static u32 find_bit(u64 v, bool negative, int bits)
{
	u64 all = bits == 64 ? UINT64_MAX : UINT32_MAX;
	v = (negative ? ~v : v) & all;
	return v ? (u32)(63 - __builtin_clzll(v)) : UINT32_MAX;
}
static u32 shift_of(u32 at, u32 bits)
{
	return at == UINT32_MAX ? at : bits - 1 - at;
}
#define FIND(t, bits)                                                                                        \
	DEF(bfind_##t, u32, t, t, t, find_bit((u64)x[i], x[i] < 0, bits))                                    \
	DEF(bfind_shiftamt_##t, u32, t, t, t, shift_of(find_bit((u64)x[i], x[i] < 0, bits), bits))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits"
FIND(u32, 32)
FIND(s32, 32)
FIND(u64, 64)
FIND(s64, 64)
#pragma GCC diagnostic pop

/* A field of len bits from bit pos on, in the low bits; bits beyond the value repeat the sign. */
static u64 field(u64 v, u32 pos, u32 len, int bits, bool sign)
{
	pos &= 0xff;
	len &= 0xff;
	u32 top = pos + len - 1 < (u32)bits - 1 ? pos + len - 1 : (u32)bits - 1;
	u64 fill = sign && len && (v >> top & 1) ? UINT64_MAX : 0;
	u64 low = pos < (u32)bits ? v >> pos : 0;
	u32 have = pos < (u32)bits ? (u32)bits - pos : 0;
	if (have < 64)
		low = (low & (((u64)1 << have) - 1)) | fill << have;
	return len >= 64 ? low : (low & (((u64)1 << len) - 1)) | fill << len;
}
DEF(bfe_u32, u32, u32, u32, u32, field(x[i], y[i], z[i], 32, false))
DEF(bfe_s32, u32, u32, u32, u32, field(x[i], y[i], z[i], 32, true))
DEF(bfe_u64, u64, u64, u32, u32, field(x[i], y[i], z[i], 64, false))
DEF(bfe_s64, u64, u64, u32, u32, field(x[i], y[i], z[i], 64, true))

static u64 insert(u64 a, u64 b, u32 pos, u32 len, u32 bits)
{
	pos &= 0xff;
	len &= 0xff;
	if (!len || pos >= bits)
		return b;
	u64 mask = (len >= 64 ? UINT64_MAX : ((u64)1 << len) - 1) << pos;
	return (b & ~mask) | (a << pos & mask);
}
DEF(bfi_b32, u32, u32, u32, u32, insert(x[i], y[i], z[i], ((const u32 *)s[3])[i], 32))
DEF(bfi_b64, u64, u64, u64, u32, insert(x[i], y[i], z[i], ((const u32 *)s[3])[i], 64))

/* Picks four of the eight bytes of b:a; bit 3 of a selector repeats the byte's sign. */
static u32 permuted(u32 a, u32 b, u32 select)
{
	u64 v = (u64)b << 32 | a;
	u32 r = 0;
	for (int k = 0; k < 4; k++, select >>= 4) {
		u32 byte = (u32)(v >> 8 * (select & 7)) & 0xff;
		r |= (select & 8 ? (byte & 0x80 ? 0xff : 0) : byte) << 8 * k;
	}
	return r;
}
/* The selectors of the modes f4e b4e rc8 ecl ecr rc16, by the low two bits of the third operand. */
static u32 mode_permuted(u32 a, u32 b, u32 at, const u16 selectors[4])
{
	return permuted(a, b, selectors[at & 3]);
}
static const u16 f4e[] = {0x3210, 0x4321, 0x5432, 0x6543}, b4e[] = {0x5670, 0x6701, 0x7012, 0x0123},
		 rc8[] = {0x0000, 0x1111, 0x2222, 0x3333}, ecl[] = {0x3210, 0x3211, 0x3222, 0x3333},
		 ecr[] = {0x0000, 0x1110, 0x2210, 0x3210}, rc16[] = {0x1010, 0x3232, 0x1010, 0x3232};
DEF(prmt_b32, u32, u32, u32, u32, permuted(x[i], y[i], z[i]))
DEF(prmt_f4e, u32, u32, u32, u32, mode_permuted(x[i], y[i], z[i], f4e))
DEF(prmt_b4e, u32, u32, u32, u32, mode_permuted(x[i], y[i], z[i], b4e))
DEF(prmt_rc8, u32, u32, u32, u32, mode_permuted(x[i], y[i], z[i], rc8))
DEF(prmt_ecl, u32, u32, u32, u32, mode_permuted(x[i], y[i], z[i], ecl))
DEF(prmt_ecr, u32, u32, u32, u32, mode_permuted(x[i], y[i], z[i], ecr))
DEF(prmt_rc16, u32, u32, u32, u32, mode_permuted(x[i], y[i], z[i], rc16))

/* Funnel shifts of the 64 bits y:x. */
static u32 funnel_left(u32 a, u32 b, u32 by)
{
	return (u32)(((u64)b << 32 | a) << by >> 32);
}
static u32 funnel_right(u32 a, u32 b, u32 by)
{
	return (u32)(((u64)b << 32 | a) >> by);
}
static u32 most32(u32 v)
{
	return v < 32 ? v : 32;
}
DEF(shf_l_wrap, u32, u32, u32, u32, funnel_left(x[i], y[i], z[i] & 31))
DEF(shf_r_wrap, u32, u32, u32, u32, funnel_right(x[i], y[i], z[i] & 31))
DEF(shf_l_clamp, u32, u32, u32, u32, funnel_left(x[i], y[i], most32(z[i])))
DEF(shf_r_clamp, u32, u32, u32, u32, funnel_right(x[i], y[i], most32(z[i])))

/* `len` ones from bit `from` on. */
static u32 mask_bits(u32 from, u32 len)
{
	u64 ones = len < 32 ? ((u64)1 << len) - 1 : UINT32_MAX;
	return from < 32 ? (u32)(ones << from) : 0;
}
DEF(bmsk_clamp, u32, u32, u32, u32, mask_bits(x[i], y[i]))
DEF(bmsk_wrap, u32, u32, u32, u32, mask_bits(x[i] & 31, y[i] & 31))

/* Any function of three bits: bit abc of the table is the result for a, b, c. */
static u32 logic3(u32 a, u32 b, u32 c, u32 table)
{
	u32 r = 0;
	for (int k = 0; k < 8; k++)
		if (table >> k & 1)
			r |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
	return r;
}
DEF(lop3_b32, u32, u32, u32, u32, logic3(x[i], y[i], z[i], (u32)in->imm))

static u32 byte_of(u32 v, int k, bool sign)
{
	u32 b = v >> 8 * k & 0xff;
	return sign ? (b ^ 0x80) - 0x80 : b;
}
static u32 half_of(u32 v, int k, bool sign)
{
	u32 h = v >> 16 * k & 0xffff;
	return sign ? (h ^ 0x8000) - 0x8000 : h;
}
static u32 dot4(u32 a, u32 b, u32 c, bool sa, bool sb)
{
	for (int k = 0; k < 4; k++)
		c += byte_of(a, k, sa) * byte_of(b, k, sb);
	return c;
}
static u32 dot2(u32 a, u32 b, u32 c, bool sa, bool sb, int first)
{
	for (int k = 0; k < 2; k++)
		c += half_of(a, k, sa) * byte_of(b, first + k, sb);
	return c;
}
#define DOTS(ta, tb, sa, sb)                                                                                 \
	DEF(dp4a_##ta##_##tb, u32, u32, u32, u32, dot4(x[i], y[i], z[i], sa, sb))                            \
	DEF(dp2a_lo_##ta##_##tb, u32, u32, u32, u32, dot2(x[i], y[i], z[i], sa, sb, 0))                      \
	DEF(dp2a_hi_##ta##_##tb, u32, u32, u32, u32, dot2(x[i], y[i], z[i], sa, sb, 2))
DOTS(u32, u32, false, false)
DOTS(u32, s32, false, true)
DOTS(s32, u32, true, false)
DOTS(s32, s32, true, true)

#define ROWS3(t)                                                                                             \
	{"add." #t, add_##t, T_##t, {T_##t, T_##t}}, {"sub." #t, sub_##t, T_##t, {T_##t, T_##t}},            \
	    {"mul.lo." #t, mul_lo_##t, T_##t, {T_##t, T_##t}},                                               \
	    {"mul.hi." #t, mul_hi_##t, T_##t, {T_##t, T_##t}},                                               \
	    {"mad.lo." #t, mad_lo_##t, T_##t, {T_##t, T_##t, T_##t}},                                        \
	    {"mad.hi." #t, mad_hi_##t, T_##t, {T_##t, T_##t, T_##t}},                                        \
	    {"div." #t, div_##t, T_##t, {T_##t, T_##t}}, {"rem." #t, rem_##t, T_##t, {T_##t, T_##t}},        \
	    {"min." #t, min_##t, T_##t, {T_##t, T_##t}}, {"max." #t, max_##t, T_##t, {T_##t, T_##t}},        \
	    {"sad." #t, sad_##t, T_##t, {T_##t, T_##t, T_##t}},                                              \
	{                                                                                                    \
		"shr." #t, shr_##t, T_##t,                                                                   \
		{                                                                                            \
			T_##t, T_U32                                                                         \
		}                                                                                            \
	}
#define WIDES(t, w)                                                                                          \
	{"mul.wide." #t, mul_wide_##t, T_##w, {T_##t, T_##t}},                                               \
	{                                                                                                    \
		"mad.wide." #t, mad_wide_##t, T_##w,                                                         \
		{                                                                                            \
			T_##t, T_##t, T_##w                                                                  \
		}                                                                                            \
	}
#define SIGNEDS(t)                                                                                           \
	{"abs." #t, abs_##t, T_##t, {T_##t}},                                                                \
	{                                                                                                    \
		"neg." #t, neg_##t, T_##t,                                                                   \
		{                                                                                            \
			T_##t                                                                                \
		}                                                                                            \
	}
#define SELECT(t, u)                                                                                         \
	{"selp." #t, selp_##u, T_##u, {T_##u, T_##u, T_PRED}},                                               \
	    {"slct." #t ".s32", slct_s32_##u, T_##u, {T_##u, T_##u, T_S32}},                                 \
	{                                                                                                    \
		"slct." #t ".f32", slct_f32_##u, T_##u,                                                      \
		{                                                                                            \
			T_##u, T_##u, T_F32                                                                  \
		}                                                                                            \
	}
#define BITROWS(t, u)                                                                                        \
	{"and." #t, and_##u, T_##u, {T_##u, T_##u}}, {"or." #t, or_##u, T_##u, {T_##u, T_##u}},              \
	    {"xor." #t, xor_##u, T_##u, {T_##u, T_##u}}, {"not." #t, not_##u, T_##u, {T_##u}},               \
	    {"cnot." #t, cnot_##u, T_##u, {T_##u}}, {"shl." #t, shl_##u, T_##u, {T_##u, T_U32}},             \
	{                                                                                                    \
		"shr." #t, shr_##u, T_##u,                                                                   \
		{                                                                                            \
			T_##u, T_U32                                                                         \
		}                                                                                            \
	}
#define DOTROWS(ta, tb)                                                                                      \
	{"dp4a." #ta "." #tb, dp4a_##ta##_##tb, T_U32, {T_U32, T_U32, T_U32}},                               \
	    {"dp2a.lo." #ta "." #tb, dp2a_lo_##ta##_##tb, T_U32, {T_U32, T_U32, T_U32}},                     \
	{                                                                                                    \
		"dp2a.hi." #ta "." #tb, dp2a_hi_##ta##_##tb, T_U32,                                          \
		{                                                                                            \
			T_U32, T_U32, T_U32                                                                  \
		}                                                                                            \
	}

const struct ptx_row ptx_int_rows[] = {
    ROWS3(u16),
    ROWS3(s16),
    ROWS3(u32),
    ROWS3(s32),
    ROWS3(u64),
    ROWS3(s64),
    WIDES(u16, u32),
    WIDES(s16, s32),
    WIDES(u32, u64),
    WIDES(s32, s64),
    SIGNEDS(s16),
    SIGNEDS(s32),
    SIGNEDS(s64),
    BITROWS(b16, u16),
    BITROWS(b32, u32),
    BITROWS(b64, u64),
    SELECT(b16, u16),
    SELECT(u16, u16),
    SELECT(s16, u16),
    SELECT(f16, u16),
    SELECT(bf16, u16),
    SELECT(b32, u32),
    SELECT(u32, u32),
    SELECT(s32, u32),
    SELECT(f32, u32),
    SELECT(b64, u64),
    SELECT(u64, u64),
    SELECT(s64, u64),
    SELECT(f64, u64),
    {"add.sat.s32", add_sat_s32, T_S32, {T_S32, T_S32}},
    {"sub.sat.s32", sub_sat_s32, T_S32, {T_S32, T_S32}},
    {"mad.hi.sat.s32", mad_hi_sat_s32, T_S32, {T_S32, T_S32, T_S32}},
    {"mul24.lo.u32", mul24_lo_u32, T_U32, {T_U32, T_U32}},
    {"mul24.lo.s32", mul24_lo_s32, T_S32, {T_S32, T_S32}},
    {"mad24.lo.u32", mad24_lo_u32, T_U32, {T_U32, T_U32, T_U32}},
    {"mad24.lo.s32", mad24_lo_s32, T_S32, {T_S32, T_S32, T_S32}},
    {"popc.b32", popc_b32, T_U32, {T_B32}},
    {"popc.b64", popc_b64, T_U32, {T_B64}},
    {"clz.b32", clz_b32, T_U32, {T_B32}},
    {"clz.b64", clz_b64, T_U32, {T_B64}},
    {"brev.b32", brev_b32, T_B32, {T_B32}},
    {"brev.b64", brev_b64, T_B64, {T_B64}},
    {"bfind.u32", bfind_u32, T_U32, {T_U32}},
    {"bfind.s32", bfind_s32, T_U32, {T_S32}},
    {"bfind.u64", bfind_u64, T_U32, {T_U64}},
    {"bfind.s64", bfind_s64, T_U32, {T_S64}},
    {"bfind.shiftamt.u32", bfind_shiftamt_u32, T_U32, {T_U32}},
    {"bfind.shiftamt.s32", bfind_shiftamt_s32, T_U32, {T_S32}},
    {"bfind.shiftamt.u64", bfind_shiftamt_u64, T_U32, {T_U64}},
    {"bfind.shiftamt.s64", bfind_shiftamt_s64, T_U32, {T_S64}},
    {"bfe.u32", bfe_u32, T_U32, {T_U32, T_U32, T_U32}},
    {"bfe.s32", bfe_s32, T_U32, {T_U32, T_U32, T_U32}},
    {"bfe.u64", bfe_u64, T_U64, {T_U64, T_U32, T_U32}},
    {"bfe.s64", bfe_s64, T_U64, {T_U64, T_U32, T_U32}},
    {"bfi.b32", bfi_b32, T_U32, {T_U32, T_U32, T_U32, T_U32}},
    {"bfi.b64", bfi_b64, T_U64, {T_U64, T_U64, T_U32, T_U32}},
    {"prmt.b32", prmt_b32, T_U32, {T_U32, T_U32, T_U32}},
    {"prmt.f4e.b32", prmt_f4e, T_U32, {T_U32, T_U32, T_U32}},
    {"prmt.b4e.b32", prmt_b4e, T_U32, {T_U32, T_U32, T_U32}},
    {"prmt.rc8.b32", prmt_rc8, T_U32, {T_U32, T_U32, T_U32}},
    {"prmt.ecl.b32", prmt_ecl, T_U32, {T_U32, T_U32, T_U32}},
    {"prmt.ecr.b32", prmt_ecr, T_U32, {T_U32, T_U32, T_U32}},
    {"prmt.rc16.b32", prmt_rc16, T_U32, {T_U32, T_U32, T_U32}},
    {"shf.l.wrap.b32", shf_l_wrap, T_U32, {T_U32, T_U32, T_U32}},
    {"shf.r.wrap.b32", shf_r_wrap, T_U32, {T_U32, T_U32, T_U32}},
    {"shf.l.clamp.b32", shf_l_clamp, T_U32, {T_U32, T_U32, T_U32}},
    {"shf.r.clamp.b32", shf_r_clamp, T_U32, {T_U32, T_U32, T_U32}},
    {"bmsk.clamp.b32", bmsk_clamp, T_B32, {T_U32, T_U32}},
    {"bmsk.wrap.b32", bmsk_wrap, T_B32, {T_U32, T_U32}},
    {"lop3.b32", lop3_b32, T_U32, {T_U32, T_U32, T_U32}},
    DOTROWS(u32, u32),
    DOTROWS(u32, s32),
    DOTROWS(s32, u32),
    DOTROWS(s32, s32),
    {NULL},
};

#define COMPARE(name, t, op)                                                                                 \
	static uint32_t cmp_##name##_##t(const void *a, const void *b, uint32_t *second)                     \
	{                                                                                                    \
		const t *x = a, *y = b;                                                                      \
		uint32_t m = 0;                                                                              \
		for (int i = 0; i < LANES; i++)                                                              \
			m |= (uint32_t)(x[i] op y[i]) << i;                                                  \
		*second = ~m;                                                                                \
		return m;                                                                                    \
	}
#define COMPARES(t)                                                                                          \
	COMPARE(eq, t, ==)                                                                                   \
	COMPARE(ne, t, !=)                                                                                   \
	COMPARE(lt, t, <)                                                                                    \
	COMPARE(le, t, <=)                                                                                   \
	COMPARE(gt, t, >)                                                                                    \
	COMPARE(ge, t, >=)
COMPARES(u16)
COMPARES(s16)
COMPARES(u32)
COMPARES(s32)
COMPARES(u64)
COMPARES(s64)
#define CMPROWS(t)                                                                                           \
	{"eq", T_##t, cmp_eq_##t}, {"ne", T_##t, cmp_ne_##t}, {"lt", T_##t, cmp_lt_##t},                     \
	    {"le", T_##t, cmp_le_##t}, {"gt", T_##t, cmp_gt_##t},                                            \
	{                                                                                                    \
		"ge", T_##t, cmp_ge_##t                                                                      \
	}
#define CMPUNSIGNED(t)                                                                                       \
	{"lo", T_##t, cmp_lt_##t}, {"ls", T_##t, cmp_le_##t}, {"hi", T_##t, cmp_gt_##t},                     \
	{                                                                                                    \
		"hs", T_##t, cmp_ge_##t                                                                      \
	}

const struct ptx_cmp_row ptx_int_cmps[] = {
    CMPROWS(u16), CMPROWS(s16),     CMPROWS(u32),     CMPROWS(s32),     CMPROWS(u64),
    CMPROWS(s64), CMPUNSIGNED(u16), CMPUNSIGNED(u32), CMPUNSIGNED(u64), {NULL},
};
