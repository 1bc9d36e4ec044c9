/* SPDX-License-Identifier: Apache-2.0 */
/* The PTX interpreter's arithmetic, one instruction at a time on many operands. Integers are compared with
 * 128-bit arithmetic. Results of floats are proven: the exact result must lie between the midpoints to both
 * neighbours (or on the right side, for directed roundings), which is decided without rounding. PTX_ROUNDS
 * repeats everything with other values. */
#include "tests/lib/test.h"
#include "tests/lib/ptx_exact.h"
#include "tests/lib/ptx_op.h"

#include <fenv.h>
#include <math.h>

/* ---- integers ---- */

static uint64_t low_bits(s128 v, int bits)
{
	return (uint64_t)((u128)v & (((u128)1 << bits) - 1));
}

enum {
	ADD,
	SUB,
	MUL_LO,
	MUL_HI,
	MUL_WIDE,
	MAD_LO,
	MAD_HI,
	MAD_WIDE,
	DIV,
	REM,
	MIN,
	MAX,
	SAD,
	SHR,
	ABS,
	NEG,
	AND,
	OR,
	XOR,
	NOT,
	SHL,
	POPC,
	CLZ,
	BREV,
	BFE,
	BFI,
	CNOT,
	BFIND
};
static const struct int_row {
	const char *name;
	int op;
	const char *types; /* u: u16 u32 u64, s: signed, b: bits; capital: without 16, W: without 64 */
	const char *kinds; /* t: of the type's width, T: twice as wide, w: 32 bits */
} int_rows[] = {
    {"add", ADD, "us", "ttt"},
    {"sub", SUB, "us", "ttt"},
    {"mul.lo", MUL_LO, "us", "ttt"},
    {"mul.hi", MUL_HI, "us", "ttt"},
    {"mul.wide", MUL_WIDE, "us-", "Ttt"},
    {"mad.lo", MAD_LO, "us", "tttt"},
    {"mad.hi", MAD_HI, "us", "tttt"},
    {"mad.wide", MAD_WIDE, "us-", "TttT"},
    {"div", DIV, "us", "ttt"},
    {"rem", REM, "us", "ttt"},
    {"min", MIN, "us", "ttt"},
    {"max", MAX, "us", "ttt"},
    {"sad", SAD, "us", "tttt"},
    {"shr", SHR, "usb", "ttw"},
    {"abs", ABS, "s", "tt"},
    {"neg", NEG, "s", "tt"},
    {"and", AND, "b", "ttt"},
    {"or", OR, "b", "ttt"},
    {"xor", XOR, "b", "ttt"},
    {"not", NOT, "b", "tt"},
    {"cnot", CNOT, "b", "tt"},
    {"shl", SHL, "b", "ttw"},
    {"popc", POPC, "b+", "wt"},
    {"clz", CLZ, "b+", "wt"},
    {"brev", BREV, "b+", "tt"},
    {"bfe", BFE, "us+", "ttww"},
    {"bfi", BFI, "b+", "tttww"},
    {"bfind", BFIND, "us+", "wt"},
};

static uint64_t bit_field(s128 v, uint32_t pos, uint32_t len, int bits, bool sign)
{
	uint64_t r = 0;
	pos &= 255;
	len &= 255;
	int last = pos + len - 1 < (uint32_t)bits - 1 && len ? (int)(pos + len - 1) : bits - 1;
	bool fill = sign && len && ((u128)v >> last & 1);
	for (int i = 0; i < bits; i++) {
		bool bit = i < (int)len && (int)pos + i < bits ? (u128)v >> (pos + (uint32_t)i) & 1 : fill;
		r |= (uint64_t)bit << i;
	}
	return r;
}

static uint64_t want_int(int op, int bits, bool sign, const uint64_t *in)
{
	s128 a = as_int(in[0], bits, sign), b = as_int(in[1], bits, sign), c = as_int(in[2], bits, sign);
	u128 m = (u128)as_int(in[0], bits, false);
	uint32_t y = (uint32_t)in[1], z = (uint32_t)in[2];
	uint64_t r = 0;
	switch (op) {
	case ADD:
		return low_bits(a + b, bits);
	case SUB:
		return low_bits(a - b, bits);
	case MUL_LO:
		return low_bits((s128)((u128)a * (u128)b), bits);
	case MUL_HI:
		return low_bits(sign ? (a * b) >> bits : (s128)(((u128)a * (u128)b) >> bits), bits);
	case MUL_WIDE:
		return low_bits(a * b, 2 * bits);
	case MAD_LO:
		return low_bits((s128)((u128)a * (u128)b + (u128)c), bits);
	case MAD_HI:
		return low_bits((sign ? (a * b) >> bits : (s128)(((u128)a * (u128)b) >> bits)) + c, bits);
	case MAD_WIDE:
		return low_bits((s128)((u128)(a * b) + in[2]), 2 * bits);
	case DIV:
		return low_bits(a / b, bits);
	case REM:
		return low_bits(a % b, bits);
	case MIN:
		return low_bits(a < b ? a : b, bits);
	case MAX:
		return low_bits(a < b ? b : a, bits);
	case SAD:
		return low_bits(c + (a < b ? b - a : a - b), bits);
	case SHR:
		return low_bits(a >> (y > 126 ? 126 : y), bits);
	case ABS:
		return low_bits(a < 0 ? -a : a, bits);
	case NEG:
		return low_bits(-a, bits);
	case AND:
		return low_bits(a & b, bits);
	case OR:
		return low_bits(a | b, bits);
	case XOR:
		return low_bits(a ^ b, bits);
	case NOT:
		return low_bits(~a, bits);
	case CNOT:
		return m == 0;
	case SHL:
		return y >= (uint32_t)bits ? 0 : low_bits((s128)(m << y), bits);
	case POPC:
		for (int i = 0; i < bits; i++)
			r += m >> i & 1;
		return r;
	case CLZ:
		while (r < (uint64_t)bits && !(m >> (bits - 1 - (int)r) & 1))
			r++;
		return r;
	case BREV:
		for (int i = 0; i < bits; i++)
			r |= (uint64_t)(m >> i & 1) << (bits - 1 - i);
		return r;
	case BFE:
		return bit_field(a, y, z, bits, sign);
	case BFIND:
		for (int i = bits - 1; i >= 0; i--)
			if ((bool)((u128)a >> i & 1) != (sign && a < 0))
				return (uint64_t)i;
		return UINT32_MAX;
	default: /* BFI */
		for (int i = 0; i < bits; i++) {
			uint32_t pos = z & 255, len = (uint32_t)in[3] & 255;
			bool in_field = i >= (int)pos && i < (int)(pos + len);
			r |= (uint64_t)(in_field ? m >> (i - (int)pos) & 1
						 : (u128)as_int(in[1], bits, false) >> i & 1)
			     << i;
		}
		return r;
	}
}

TEST(integer_operations)
{
	struct rng r;
	rng_seed(&r, 1);
	for (int round = 0; round < rounds(); round++)
		for (size_t k = 0; k < sizeof int_rows / sizeof *int_rows; k++)
			for (const char *t = int_rows[k].types; *t; t++)
				for (int bits = 16; bits <= 64; bits *= 2) {
					const struct int_row *row = &int_rows[k];
					if (*t == '-' || *t == '+' ||
					    (strchr(row->types, '-') && bits == 64) ||
					    (strchr(row->types, '+') && bits == 16))
						continue;
					struct ptx_op o = {0};
					char name[32], kinds[6];
					snprintf(name, sizeof name, "%s.%c%d", row->name, *t, bits);
					for (size_t i = 0; i <= strlen(row->kinds); i++) {
						int width = row->kinds[i] == 't'   ? bits
							    : row->kinds[i] == 'T' ? 2 * bits
										   : 32;
						kinds[i] = row->kinds[i] ? (width == 16   ? 'h'
									    : width == 32 ? 'w'
											  : 'l')
									 : 0;
					}
					o.name = name;
					o.kinds = kinds;
					for (int i = 0; i < OP_ITEMS; i++)
						for (int a = 0; a < 4; a++) {
							do
								o.in[i][a] = ptx_op_value(&r, 'l');
							while (a == 1 && (row->op == DIV || row->op == REM) &&
							       !low_bits(o.in[i][a], bits));
							if (a + 1 < (int)strlen(row->kinds) &&
							    row->kinds[a + 1] == 'w' && rng_below(&r, 2))
								o.in[i][a] %= 70;
						}
					REQUIRE_OK(ptx_op_run(&o));
					for (int i = 0; i < OP_ITEMS; i++) {
						uint64_t want = want_int(row->op, bits, *t == 's', o.in[i]);
						if (o.out[i] != want)
							show(&o, i, want);
					}
				}
}

static uint32_t bytes_permuted(uint32_t a, uint32_t b, const int sel[4], const bool sign[4])
{
	uint8_t from[8], to[4];
	uint32_t r;
	memcpy(from, &a, 4);
	memcpy(from + 4, &b, 4);
	for (int i = 0; i < 4; i++)
		to[i] = sign[i] ? (from[sel[i]] & 0x80 ? 0xff : 0) : from[sel[i]];
	memcpy(&r, to, 4);
	return r;
}

static uint64_t want_special(const char *name, const uint64_t *in, uint64_t imm)
{
	uint32_t a = (uint32_t)in[0], b = (uint32_t)in[1], c = (uint32_t)in[2];
	uint64_t both = (uint64_t)b << 32 | a;
	const int d = (int)(c & 3);
	if (!strcmp(name, "prmt.b32"))
		return bytes_permuted(a, b, (int[]){c & 7, c >> 4 & 7, c >> 8 & 7, c >> 12 & 7},
				      (bool[]){c & 8, c & 0x80, c & 0x800, c & 0x8000});
	static const bool plain[4];
	if (!strcmp(name, "prmt.b32.f4e"))
		return bytes_permuted(a, b, (int[]){d, d + 1, d + 2, d + 3}, plain);
	if (!strcmp(name, "prmt.b32.b4e"))
		return bytes_permuted(a, b, (int[]){d, (d + 7) & 7, (d + 6) & 7, (d + 5) & 7}, plain);
	if (!strcmp(name, "prmt.b32.rc8"))
		return bytes_permuted(a, b, (int[]){d, d, d, d}, plain);
	if (!strcmp(name, "prmt.b32.rc16"))
		return bytes_permuted(
		    a, b, (int[]){d & 1 ? 2 : 0, d & 1 ? 3 : 1, d & 1 ? 2 : 0, d & 1 ? 3 : 1}, plain);
	if (!strcmp(name, "prmt.b32.ecl"))
		return bytes_permuted(a, b, (int[]){d > 0 ? d : 0, d > 1 ? d : 1, d > 2 ? d : 2, 3}, plain);
	if (!strcmp(name, "prmt.b32.ecr"))
		return bytes_permuted(a, b, (int[]){0, d < 1 ? d : 1, d < 2 ? d : 2, d}, plain);
	if (!strcmp(name, "shf.l.wrap.b32"))
		return c & 31 ? (uint32_t)(both >> (32 - (c & 31))) : b;
	if (!strcmp(name, "shf.r.wrap.b32"))
		return (uint32_t)(both >> (c & 31));
	if (!strcmp(name, "shf.l.clamp.b32"))
		return c >= 32 ? a : c ? (uint32_t)(both >> (32 - c)) : b;
	if (!strcmp(name, "shf.r.clamp.b32"))
		return c >= 32 ? b : (uint32_t)(both >> c);
	if (!strcmp(name, "add.sat.s32") || !strcmp(name, "sub.sat.s32")) {
		int64_t v =
		    *name == 'a' ? (int64_t)(int32_t)a + (int32_t)b : (int64_t)(int32_t)a - (int32_t)b;
		return (uint32_t)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
	}
	if (!strncmp(name, "lop3", 4)) {
		uint32_t v = 0;
		for (int i = 0; i < 32; i++)
			v |= (uint32_t)(imm >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i;
		return v;
	}
	if (!strncmp(name, "slct", 4)) {
		float f;
		memcpy(&f, &c, 4);
		return (strstr(name, ".f32") ? f >= 0 : (int32_t)c >= 0) ? a : b;
	}
	if (!strncmp(name, "selp", 4))
		return c & 1 ? a : b;
	if (!strcmp(name, "mad.hi.sat.s32")) {
		int64_t v = (((int64_t)(int32_t)a * (int32_t)b) >> 32) + (int32_t)c;
		return (uint32_t)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
	}
	if (strstr(name, "24")) {
		int64_t p = a & 0xffffff, q = b & 0xffffff;
		if (strstr(name, "s32")) {
			p -= p >> 23 << 24;
			q -= q >> 23 << 24;
		}
		return (uint32_t)(p * q + (name[1] == 'a' ? c : 0));
	}
	if (!strncmp(name, "bmsk", 4)) {
		uint32_t v = 0, from = strstr(name, "wrap") ? a & 31 : a,
			 len = strstr(name, "wrap") ? b & 31 : b;
		for (uint32_t i = 0; i < 32; i++)
			v |= (uint32_t)(i >= from && i - from < len) << i;
		return v;
	}
	if (!strncmp(name, "set.", 4)) {
		bool is = strstr(name, "f32.f32") || strstr(name, "u32.f32") ? f32(a) < f32(b)
									     : (int32_t)a < (int32_t)b;
		return is ? strstr(name, ".f32.") ? 0x3f800000 : UINT32_MAX : 0;
	}
	bool sa = strstr(name, "a.s32.") || strstr(name, "lo.s32.") || strstr(name, "hi.s32."),
	     sb = name[strlen(name) - 3] == 's';
	uint32_t v = c;
	if (!strncmp(name, "dp4a", 4))
		for (int i = 0; i < 4; i++)
			v += (uint32_t)((sa ? (int8_t)(a >> 8 * i) : (int)(uint8_t)(a >> 8 * i)) *
					(sb ? (int8_t)(b >> 8 * i) : (int)(uint8_t)(b >> 8 * i)));
	int first = strstr(name, ".hi") ? 16 : 0;
	if (!strncmp(name, "dp2a", 4))
		for (int i = 0; i < 2; i++)
			v += (uint32_t)((sa ? (int16_t)(a >> 16 * i) : (int)(uint16_t)(a >> 16 * i)) *
					(sb ? (int8_t)(b >> (first + 8 * i))
					    : (int)(uint8_t)(b >> (first + 8 * i))));
	return v;
}

TEST(integer_instructions_of_their_own)
{
	static const struct {
		const char *name, *kinds;
	} rows[] = {
	    {"prmt.b32", "wwww"},
	    {"prmt.b32.f4e", "wwww"},
	    {"prmt.b32.b4e", "wwww"},
	    {"prmt.b32.rc8", "wwww"},
	    {"prmt.b32.rc16", "wwww"},
	    {"prmt.b32.ecl", "wwww"},
	    {"prmt.b32.ecr", "wwww"},
	    {"shf.l.wrap.b32", "wwww"},
	    {"shf.r.wrap.b32", "wwww"},
	    {"shf.l.clamp.b32", "wwww"},
	    {"shf.r.clamp.b32", "wwww"},
	    {"add.sat.s32", "www"},
	    {"sub.sat.s32", "www"},
	    {"mad.hi.sat.s32", "wwww"},
	    {"mul24.lo.u32", "www"},
	    {"mul24.lo.s32", "www"},
	    {"mad24.lo.u32", "wwww"},
	    {"mad24.lo.s32", "wwww"},
	    {"bmsk.clamp.b32", "www"},
	    {"bmsk.wrap.b32", "www"},
	    {"set.lt.u32.s32", "www"},
	    {"set.lt.f32.s32", "fww"},
	    {"set.lt.u32.f32", "wff"},
	    {"lop3.b32", "wwwwi"},
	    {"slct.u32.s32", "wwww"},
	    {"slct.f32.f32", "fff"
			     "f"},
	    {"selp.b32", "wwwp"},
	    {"selp.f32", "fffp"},
	    {"dp4a.s32.s32", "wwww"},
	    {"dp4a.u32.u32", "wwww"},
	    {"dp4a.s32.u32", "wwww"},
	    {"dp4a.u32.s32", "wwww"},
	    {"dp2a.lo.s32.s32", "wwww"},
	    {"dp2a.hi.u32.s32", "wwww"},
	    {"dp2a.hi.s32.u32", "wwww"},
	    {"dp2a.lo.u32.u32", "wwww"},
	};
	struct rng r;
	rng_seed(&r, 2);
	for (int round = 0; round < rounds(); round++)
		for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
			struct ptx_op o = {
			    .name = rows[k].name, .kinds = rows[k].kinds, .imm = rng_below(&r, 256)};
			ptx_op_fill(&o, &r);
			REQUIRE_OK(ptx_op_run(&o));
			for (int i = 0; i < OP_ITEMS; i++) {
				uint64_t want = want_special(o.name, o.in[i], o.imm);
				if (o.out[i] != want)
					show(&o, i, want);
			}
		}
}

/* ---- floats ---- */

static const struct float_row {
	const char *name;
	int op, args;
} float_rows[] = {{"add", F_ADD, 2}, {"sub", F_SUB, 2},   {"mul", F_MUL, 2}, {"fma", F_FMA, 3},
		  {"div", F_DIV, 2}, {"sqrt", F_SQRT, 1}, {"rcp", F_RCP, 1}};

/* What the host says, for results that are no rounded numbers. */
static float plain_result(int op, float x, float y, float z)
{
	switch (op) {
	case F_ADD:
		return x + y;
	case F_SUB:
		return x - y;
	case F_MUL:
		return x * y;
	case F_FMA:
		return fmaf(x, y, z);
	case F_DIV:
		return x / y;
	case F_SQRT:
		return sqrtf(x);
	default:
		return 1 / x;
	}
}

static float flushed(float f)
{
	return fabsf(f) < 0x1p-126f ? copysignf(0, f) : f;
}

#define TINY (0x1p-126 - 0x1p-151)

static void check_f32(const struct ptx_op *o, int i, const struct float_row *row, int round, bool ftz,
		      bool sat)
{
	float v[3];
	bool special = false;
	for (int k = 0; k < 3; k++) {
		v[k] = k < row->args ? f32(o->in[i][k]) : 0;
		v[k] = ftz ? flushed(v[k]) : v[k];
		special |= !isfinite(v[k]);
	}
	float x = v[0], y = v[1], z = v[2];
	fesetround(round == 'z'   ? FE_TOWARDZERO
		   : round == 'm' ? FE_DOWNWARD
		   : round == 'p' ? FE_UPWARD
				  : FE_TONEAREST);
	volatile float host = plain_result(row->op, x, y, z);
	fesetround(FE_TONEAREST);
	float got = f32(o->out[i]);
	special |=
	    (row->op == F_DIV && y == 0) || (row->op == F_RCP && x == 0) || (row->op == F_SQRT && x < 0);
	if (sat) {
		uint64_t want = bits32(host > 0 ? host < 1 ? host : 1 : 0);
		if (o->out[i] != want)
			show(o, i, want);
	} else if (special || (host == 0 && got == 0)) {
		if (o->out[i] != bits32(host))
			show(o, i, bits32(host));
	} else if (ftz && exact_sign(row->op, x, y, z, TINY) < 0 && exact_sign(row->op, x, y, z, -TINY) > 0) {
		bool minus = exact_sign(row->op, x, y, z, 0) < 0;
		if (o->out[i] != (minus ? 0x80000000 : 0))
			show(o, i, minus ? 0x80000000 : 0);
	} else if (isnan(got) || !rounded_right(&single, round, row->op, x, y, z, (uint32_t)o->out[i])) {
		show(o, i, bits32(host));
	}
}

TEST(operations_of_f32)
{
	struct rng r;
	rng_seed(&r, 3);
	for (int n = 0; n < rounds(); n++)
		for (size_t k = 0; k < sizeof float_rows / sizeof *float_rows; k++)
			for (const char *round = "nzmp"; *round; round++)
				for (int mode = 0; mode < 3; mode++) {
					const struct float_row *row = &float_rows[k];
					char name[32];
					snprintf(name, sizeof name, "%s.r%c%s.f32", row->name, *round,
						 mode == 1   ? ".ftz"
						 : mode == 2 ? ".sat"
							     : "");
					struct ptx_op o = {.name = name, .kinds = &"ffff"[3 - row->args]};
					bool directed = *round != 'n';
					if (mode == 2 && row->op > F_FMA)
						continue;
					ptx_op_fill(&o, &r);
					for (int i = 0; mode == 1 && i < OP_ITEMS / 4;
					     i++) { /* results near 2^-126 */
						o.in[i][0] = (rng_u64(&r) & 0x807fffff) |
							     (uint64_t)(64 + rng_below(&r, 2)) << 23;
						if (row->op == F_MUL || row->op == F_FMA)
							o.in[i][1] =
							    rng_below(&r, 2)
								? (uint64_t)(64 - rng_below(&r, 2)) << 23
								: (rng_u64(&r) & 0x807fffff) | (uint64_t)63
												   << 23;
						if (row->op == F_DIV)
							o.in[i][1] =
							    (rng_u64(&r) & 0x807fffff) | (uint64_t)190 << 23;
						if (row->op == F_FMA)
							o.in[i][2] = rng_below(&r, 3) << 23;
					}
					REQUIRE_OK(ptx_op_run(&o));
					for (int i = 0; i < OP_ITEMS; i++)
						if (!(mode == 1 &&
						      directed)) /* their tiny results: either way */
							check_f32(&o, i, row, *round, mode == 1, mode == 2);
				}
}

/* Neighbours of 2^-126 that no random operands meet: products and quotients that are just below it. */
TEST(tiny_results_are_flushed_as_if_exponents_had_no_limit)
{
	struct ptx_op o = {.name = "mul.rn.ftz.f32", .kinds = "fff"};
	for (int i = 0; i < OP_ITEMS; i++) {
		o.in[i][0] = 0x3f7fff00u + (uint64_t)i; /* up to 1 - 2^-24 */
		o.in[i][1] = 0x00800000u + (uint64_t)(i & 1);
	}
	REQUIRE_OK(ptx_op_run(&o));
	for (int i = 0; i < OP_ITEMS; i++)
		check_f32(&o, i, &float_rows[2], 'n', true, false);
	o.name = "div.rn.ftz.f32";
	for (int i = 0; i < OP_ITEMS; i++) {
		o.in[i][0] = 0x00800000u + (uint64_t)(i & 3);
		o.in[i][1] = 0x3f800000u + (uint64_t)(i / 4);
	}
	REQUIRE_OK(ptx_op_run(&o));
	for (int i = 0; i < OP_ITEMS; i++)
		check_f32(&o, i, &float_rows[4], 'n', true, false);
}

/* Results of 16-bit floats, alone and in pairs. */
static void check_half(const struct ptx_op *o, int i, const struct format *f, const struct float_row *row,
		       int shift, bool ftz)
{
	double v[3];
	bool special = false;
	for (int k = 0; k < 3; k++) {
		uint32_t bits = k < row->args ? (uint32_t)(o->in[i][k] >> shift) & 0xffff : 0,
			 m = bits & 0x7fff;
		special |= m >= f->infinity;
		v[k] = m > f->infinity ? NAN : m == f->infinity ? INFINITY : value_of(f, m);
		v[k] = ftz && m < 1u << (f->digits - 1) ? 0 : v[k];
		v[k] = bits & f->sign ? -v[k] : v[k];
	}
	uint32_t r = (uint32_t)(o->out[i] >> shift) & 0xffff, m = r & 0x7fff;
	double plain = row->op == F_ADD   ? v[0] + v[1]
		       : row->op == F_SUB ? v[0] - v[1]
		       : row->op == F_MUL ? v[0] * v[1]
					  : fma(v[0], v[1], v[2]);
	bool good;
	if (special || plain == 0)
		good = plain != plain
			   ? r == 0x7fff
			   : r == ((isinf(plain) ? f->infinity : 0) | (signbit(plain) ? f->sign : 0));
	else if (ftz && m == 0)
		good = fabs(plain) < ldexp(1, f->least + f->digits - 1) && signbit(plain) == (r != 0);
	else
		good = m <= f->infinity && rounded_right(f, 'n', row->op, v[0], v[1], v[2], r) &&
		       !(ftz && m < 1u << (f->digits - 1));
	if (!good)
		show(o, i, 0);
}

TEST(operations_of_16_bit_floats)
{
	struct rng r;
	rng_seed(&r, 4);
	for (int n = 0; n < rounds(); n++)
		for (size_t k = 0; k < 4; k++)
			for (int kind = 0; kind < 8; kind++) {
				const struct float_row *row = &float_rows[k];
				bool pair = kind & 1, ftz = kind & 2, is_brain = kind & 4;
				char name[32];
				snprintf(name, sizeof name, "%s.rn%s.%s%s", row->name, ftz ? ".ftz" : "",
					 is_brain ? "bf16" : "f16", pair ? "x2" : "");
				struct ptx_op o = {.name = name,
						   .kinds = pair ? &"wwww"[3 - row->args]
								 : &"hhhh"[3 - row->args]};
				for (int i = 0; i < OP_ITEMS; i++)
					for (int a = 0; a < 3; a++)
						o.in[i][a] = ptx_op_value(&r, 'h') | ptx_op_value(&r, 'h')
											 << 16;
				REQUIRE_OK(ptx_op_run(&o));
				for (int i = 0; i < OP_ITEMS; i++)
					for (int part = 0; part <= pair; part++)
						check_half(&o, i, is_brain ? &brain : &half, row, 16 * part,
							   ftz);
			}
}

/* Of a 16-bit float, by its value. */
static uint32_t least_half(const struct format *f, uint32_t a, uint32_t b, bool most, bool nan)
{
	bool na = (a & 0x7fff) > f->infinity, nb = (b & 0x7fff) > f->infinity;
	if (na || nb)
		return nan || (na && nb) ? 0x7fff : na ? b : a;
	double x = value_of(f, a), y = value_of(f, b);
	if (x == 0 && y == 0)
		return most ? a & b : a | b;
	return (x < y) != most ? a : b;
}

TEST(least_most_and_sign_of_16_bit_floats)
{
	static const char *const names[] = {"min", "max", "min.NaN", "max.NaN", "abs", "neg"};
	struct rng r;
	rng_seed(&r, 8);
	for (int n = 0; n < 6 * 4; n++) {
		bool pair = n / 6 & 1, is_brain = n / 12;
		const char *op = names[n % 6];
		const struct format *f = is_brain ? &brain : &half;
		char name[32];
		snprintf(name, sizeof name, "%s.%s%s", op, is_brain ? "bf16" : "f16", pair ? "x2" : "");
		const char *kinds = pair ? "www" : "hhh";
		struct ptx_op o = {.name = name, .kinds = n % 6 > 3 ? kinds + 1 : kinds};
		for (int i = 0; i < OP_ITEMS; i++)
			for (int a = 0; a < 2; a++)
				o.in[i][a] = ptx_op_value(&r, 'h') | ptx_op_value(&r, 'h') << 16;
		REQUIRE_OK(ptx_op_run(&o));
		for (int i = 0; i < OP_ITEMS; i++)
			for (int part = 0; part <= pair; part++) {
				uint32_t a = (uint32_t)(o.in[i][0] >> 16 * part) & 0xffff,
					 b = (uint32_t)(o.in[i][1] >> 16 * part) & 0xffff;
				uint32_t want = n % 6 == 4 ? a & 0x7fff
						: n % 6 == 5
						    ? a ^ 0x8000
						    : least_half(f, a, b, op[1] == 'a', strstr(op, "NaN"));
				if ((o.out[i] >> 16 * part & 0xffff) != want)
					show(&o, i, want);
			}
	}
}

static uint64_t want_least(uint32_t a, uint32_t b, bool most, bool nan)
{
	float x = f32(a), y = f32(b);
	if (x != x || y != y)
		return nan || (x != x && y != y) ? 0x7fffffff : x != x ? b : a;
	if (x == 0 && y == 0)
		return most ? a & b : a | b;
	return (x < y) != most ? a : b;
}

TEST(least_most_sign_and_tests_of_f32)
{
	struct rng r;
	rng_seed(&r, 5);
	static const char *const names[] = {"min.f32",     "max.f32",     "min.NaN.f32",
					    "max.NaN.f32", "min.ftz.f32", "max.NaN.ftz.f32"};
	for (int n = 0; n < 6; n++) {
		struct ptx_op o = {.name = names[n], .kinds = "fff"};
		ptx_op_fill(&o, &r);
		REQUIRE_OK(ptx_op_run(&o));
		for (int i = 0; i < OP_ITEMS; i++) {
			uint32_t a = (uint32_t)o.in[i][0], b = (uint32_t)o.in[i][1];
			if (n > 3) {
				a = a & 0x7f800000 ? a : a & 0x80000000;
				b = b & 0x7f800000 ? b : b & 0x80000000;
			}
			uint64_t want = want_least(a, b, names[n][1] == 'a', strstr(names[n], "NaN"));
			if (o.out[i] != want)
				show(&o, i, want);
		}
	}
	static const struct {
		const char *name;
		uint32_t keep, flip;
	} signs[] = {{"abs.f32", 0x7fffffff, 0}, {"neg.f32", UINT32_MAX, 0x80000000}};
	for (int n = 0; n < 2; n++) {
		struct ptx_op o = {.name = signs[n].name, .kinds = "ff"};
		ptx_op_fill(&o, &r);
		REQUIRE_OK(ptx_op_run(&o));
		for (int i = 0; i < OP_ITEMS; i++)
			if (o.out[i] != ((o.in[i][0] & signs[n].keep) ^ signs[n].flip))
				show(&o, i, (o.in[i][0] & signs[n].keep) ^ signs[n].flip);
	}
	static const char *const tests[] = {"finite",     "infinite", "number",
					    "notanumber", "normal",   "subnormal"};
	for (int n = 0; n < 6; n++) {
		char name[32];
		snprintf(name, sizeof name, "testp.%s.f32", tests[n]);
		struct ptx_op o = {.name = name, .kinds = "pf"};
		ptx_op_fill(&o, &r);
		REQUIRE_OK(ptx_op_run(&o));
		for (int i = 0; i < OP_ITEMS; i++) {
			int c = fpclassify(f32(o.in[i][0]));
			bool want[] = {c != FP_NAN && c != FP_INFINITE,
				       c == FP_INFINITE,
				       c != FP_NAN,
				       c == FP_NAN,
				       c == FP_NORMAL,
				       c == FP_SUBNORMAL};
			if (o.out[i] != want[n])
				show(&o, i, want[n]);
		}
	}
}

/* f64 is the host's. */
TEST(operations_of_f64)
{
	struct rng r;
	rng_seed(&r, 6);
	for (size_t k = 0; k < sizeof float_rows / sizeof *float_rows; k++) {
		const struct float_row *row = &float_rows[k];
		char name[32];
		snprintf(name, sizeof name, "%s.rn.f64", row->name);
		struct ptx_op o = {.name = name, .kinds = &"dddd"[3 - row->args]};
		ptx_op_fill(&o, &r);
		REQUIRE_OK(ptx_op_run(&o));
		for (int i = 0; i < OP_ITEMS; i++) {
			double x, y, z, got;
			memcpy(&x, &o.in[i][0], 8);
			memcpy(&y, &o.in[i][1], 8);
			memcpy(&z, &o.in[i][2], 8);
			memcpy(&got, &o.out[i], 8);
			const double want[] = {x + y, x - y, x * y, fma(x, y, z), x / y, sqrt(x), 1 / x};
			if (memcmp(&got, &want[row->op], 8) &&
			    !(got != got && want[row->op] != want[row->op]))
				show(&o, i, 0);
		}
	}
}

TEST(comparisons)
{
	static const struct {
		const char *name;
		bool less, equal, greater, nan;
	} rows[] = {{"eq", 0, 1, 0, 0},  {"ne", 1, 0, 1, 0},  {"lt", 1, 0, 0, 0},  {"le", 1, 1, 0, 0},
		    {"gt", 0, 0, 1, 0},  {"ge", 0, 1, 1, 0},  {"equ", 0, 1, 0, 1}, {"neu", 1, 0, 1, 1},
		    {"ltu", 1, 0, 0, 1}, {"leu", 1, 1, 0, 1}, {"gtu", 0, 0, 1, 1}, {"geu", 0, 1, 1, 1},
		    {"num", 1, 1, 1, 0}, {"nan", 0, 0, 0, 1}};
	static const struct {
		const char *type, *kinds;
	} types[] = {{"f32", "pff"}, {"ftz.f32", "pff"}, {"s32", "pww"}, {"u32", "pww"},
		     {"s16", "phh"}, {"u16", "phh"},     {"s64", "pll"}, {"u64", "pll"},
		     {"f16", "phh"}, {"bf16", "phh"},    {"f64", "pdd"}};
	struct rng r;
	rng_seed(&r, 7);
	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
		for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
			const char *type = types[t].type;
			int bits = atoi(type + strlen(type) - 2);
			bool is_float = strchr(type, 'f');
			char name[32];
			if (!is_float && k > 5)
				continue;
			snprintf(name, sizeof name, "setp.%s.%s", rows[k].name, type);
			struct ptx_op o = {.name = name, .kinds = types[t].kinds};
			ptx_op_fill(&o, &r);
			for (int i = 0; i < OP_ITEMS; i += 5)
				o.in[i][1] = o.in[i][0];
			REQUIRE_OK(ptx_op_run(&o));
			for (int i = 0; i < OP_ITEMS; i++) {
				s128 a = as_int(o.in[i][0], bits, *type == 's'),
				     b = as_int(o.in[i][1], bits, *type == 's');
				double x = (double)a, y = (double)b;
				int c = a < b ? -1 : a > b;
				if (is_float) {
					for (int side = 0; side < 2; side++) {
						double *to = side ? &y : &x;
						uint64_t v = o.in[i][side];
						if (bits == 64) {
							memcpy(to, &v, 8);
						} else if (bits == 32) {
							*to = *type == 'f' && type[1] == 't' ? flushed(f32(v))
											     : f32(v);
						} else {
							const struct format *f =
							    *type == 'b' ? &brain : &half;
							*to = (v & 0x7fff) > f->infinity
								  ? NAN
								  : value_of(f, (uint32_t)v & 0xffff);
						}
					}
					c = x < y ? -1 : x > y;
				}
				bool nan = is_float && (x != x || y != y);
				bool want = nan     ? rows[k].nan
					    : c < 0 ? rows[k].less
					    : c     ? rows[k].greater
						    : rows[k].equal;
				if (o.out[i] != want)
					show(&o, i, want);
			}
		}
}

TEST_MAIN
