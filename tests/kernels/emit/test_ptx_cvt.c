/* SPDX-License-Identifier: Apache-2.0 */
/* The PTX interpreter's conversions, all pairs of types, on many operands. PTX_ROUNDS repeats everything. */
#include "tests/lib/ptx_exact.h"

static const struct type {
	const char *name;
	int kind; /* of registers: 16 bits hold 8, too */
	int bits;
	bool sign;
	const struct format *f;
} types[] = {
    {"u8", 'h', 8},
    {"u16", 'h', 16},
    {"u32", 'w', 32},
    {"u64", 'l', 64},
    {"s8", 'h', 8, true},
    {"s16", 'h', 16, true},
    {"s32", 'w', 32, true},
    {"s64", 'l', 64, true},
    {"f16", 'h', 16, true, &half},
    {"bf16", 'h', 16, true, &brain},
    {"f32", 'f', 32, true, &single},
    {"f64", 'd', 64, true},
};
enum { INTS = 8, TYPES = 12 };

static bool is_double(const struct type *t)
{
	return t->kind == 'd';
}

static double read_float(const struct type *t, uint64_t v)
{
	double d;
	if (is_double(t)) {
		memcpy(&d, &v, 8);
		return d;
	}
	uint32_t u = (uint32_t)as_int(v, t->bits, false), m = u & (t->f->sign - 1);
	d = m > t->f->infinity ? NAN : m == t->f->infinity ? INFINITY : value_of(t->f, m);
	return u & t->f->sign ? -d : d;
}

static s128 least_of(const struct type *t)
{
	return t->sign ? -((s128)1 << (t->bits - 1)) : 0;
}

static s128 most_of(const struct type *t)
{
	return ((s128)1 << (t->bits - t->sign)) - 1;
}

static s128 clamped(s128 v, const struct type *t)
{
	return v < least_of(t) ? least_of(t) : v > most_of(t) ? most_of(t) : v;
}

/* An integer result in a register of the type, which may be wider than it. */
static uint64_t in_register(s128 v, const struct type *t)
{
	int bits = t->kind == 'h' ? 16 : t->bits;
	return (uint64_t)as_int((uint64_t)as_int((uint64_t)v, t->bits, t->sign), bits, false);
}

static int run_cvt(struct ptx_op *o, char *name, const char *modifiers, const struct type *to,
		   const struct type *from, char *kinds, struct rng *r)
{
	sprintf(name, "cvt%s.%s.%s", modifiers, to->name, from->name);
	kinds[0] = (char)to->kind;
	kinds[1] = (char)from->kind;
	kinds[2] = 0;
	o->name = name;
	o->kinds = kinds;
	for (int i = 0; i < OP_ITEMS; i++)
		o->in[i][0] = ptx_op_value(r, from->f || is_double(from) ? from->kind : 'l');
	return ptx_op_run(o);
}

TEST(between_integers)
{
	struct rng r;
	rng_seed(&r, 1);
	for (int n = 0; n < rounds() * INTS * INTS * 2; n++) {
		const struct type *to = &types[n / 2 % INTS], *from = &types[n / 2 / INTS % INTS];
		struct ptx_op o = {0};
		char name[40], kinds[3];
		REQUIRE_OK(run_cvt(&o, name, n & 1 ? ".sat" : "", to, from, kinds, &r));
		for (int i = 0; i < OP_ITEMS; i++) {
			s128 v = as_int(o.in[i][0], from->bits, from->sign);
			uint64_t want = in_register(n & 1 ? clamped(v, to) : v, to);
			if (o.out[i] != want)
				show(&o, i, want);
		}
	}
}

TEST(from_floats_to_integers)
{
	struct rng r;
	rng_seed(&r, 2);
	for (int n = 0; n < rounds() * INTS * 4 * 4 * 2; n++) {
		const struct type *to = &types[n % INTS], *from = &types[INTS + n / INTS % 4];
		int round = n / INTS / 4 % 4;
		bool ftz = n / INTS / 16 % 2;
		struct ptx_op o = {0};
		char name[40], kinds[3], modifiers[16];
		snprintf(modifiers, sizeof modifiers, ".r%ci%s", "nzmp"[round], ftz ? ".ftz" : "");
		REQUIRE_OK(run_cvt(&o, name, modifiers, to, from, kinds, &r));
		for (int i = 0; i < OP_ITEMS; i++) {
			double v = read_float(from, o.in[i][0]);
			v = ftz && from->kind == 'f' && fabs(v) < 0x1p-126 ? 0 : v;
			uint64_t want;
			if (v != v) {
				bool odd = is_double(from) || to->bits == 64;
				want = odd ? in_register((s128)1 << (to->bits - 1), to) : 0;
			} else {
				double whole = floor(v), left = v - whole;
				bool up = round == 0   ? left > 0.5 || (left == 0.5 && fmod(whole, 2) != 0)
					  : round == 1 ? v < 0 && left > 0
						       : round == 3 && left > 0;
				whole += up;
				s128 w = whole > 0x1p100    ? (s128)1 << 100
					 : whole < -0x1p100 ? -((s128)1 << 100)
							    : (s128)whole;
				want = in_register(clamped(w, to), to);
			}
			if (o.out[i] != want)
				show(&o, i, want);
		}
	}
}

/* Whether r is the exact value v, rounded so. */
static bool is_rounded(const struct format *f, int round, long double v, uint32_t r)
{
	uint32_t m = r & (f->sign - 1);
	bool minus = r & f->sign;
	if (v == 0)
		return m == 0;
	if (m > f->infinity || minus != (v < 0))
		return false;
	long double x = fabsl(v), at = value_of(f, m), above = value_of(f, m + 1),
		    below = m ? value_of(f, m - 1) : 0;
	bool away = (round == 'p' && !minus) || (round == 'm' && minus);
	if (away)
		return m && x > below && (m == f->infinity || x <= at);
	if (round != 'n')
		return m < f->infinity && x >= at && (m == f->infinity - 1 || x < above);
	long double low = (below + at) / 2, high = (above + at) / 2;
	return (!m || x > low || (x == low && !(m & 1))) &&
	       (m == f->infinity || x < high || (x == high && !(m & 1)));
}

TEST(from_integers_to_floats)
{
	struct rng r;
	rng_seed(&r, 3);
	for (int n = 0; n < rounds() * INTS * 4 * 4; n++) {
		const struct type *from = &types[n % INTS], *to = &types[INTS + n / INTS % 4];
		int round = "nzmp"[n / INTS / 4 % 4];
		struct ptx_op o = {0};
		char name[40], kinds[3], modifiers[8];
		snprintf(modifiers, sizeof modifiers, ".r%c", round);
		REQUIRE_OK(run_cvt(&o, name, modifiers, to, from, kinds, &r));
		for (int i = 0; i < OP_ITEMS && is_double(to) && round == 'n'; i++) {
			double want = (double)as_int(o.in[i][0], from->bits, from->sign),
			       got = read_float(to, o.out[i]);
			if (want != got)
				show(&o, i, 0);
		}
		for (int i = 0; i < OP_ITEMS && !is_double(to); i++)
			if (!is_rounded(to->f, round, (long double)as_int(o.in[i][0], from->bits, from->sign),
					(uint32_t)o.out[i]))
				show(&o, i, 0);
	}
}

TEST(between_floats)
{
	struct rng r;
	rng_seed(&r, 4);
	for (int n = 0; n < rounds() * 4 * 3 * 4; n++) {
		const struct type *from = &types[INTS + n % 4], *to = &types[INTS + n / 4 % 3];
		int round = "nzmp"[n / 12 % 4];
		struct ptx_op o = {0};
		char name[40], kinds[3], modifiers[8];
		if (from->f == to->f)
			continue;
		snprintf(modifiers, sizeof modifiers, ".r%c", round);
		REQUIRE_OK(run_cvt(&o, name, modifiers, to, from, kinds, &r));
		for (int i = 0; i < OP_ITEMS; i++) {
			double v = read_float(from, o.in[i][0]);
			uint32_t u = (uint32_t)o.out[i], m = u & (to->f->sign - 1);
			bool good = v != v     ? u == to->f->sign - 1
				    : isinf(v) ? m == to->f->infinity && (v < 0) == (bool)(u & to->f->sign)
					       : is_rounded(to->f, round, v, u);
			if (!good)
				show(&o, i, 0);
		}
	}
}

/* To whole numbers, .sat, .relu, .ftz, and pairs. */
TEST(other_modifiers)
{
	struct rng r;
	rng_seed(&r, 5);
	for (int n = 0; n < 4; n++) {
		char name[40], kinds[3], modifiers[16];
		struct ptx_op o = {0};
		snprintf(modifiers, sizeof modifiers, ".r%ci.ftz", "nzmp"[n]);
		REQUIRE_OK(run_cvt(&o, name, modifiers, &types[10], &types[10], kinds, &r));
		for (int i = 0; i < OP_ITEMS; i++) {
			float v = f32(o.in[i][0]), z = fabsf(v) < 0x1p-126f ? copysignf(0, v) : v;
			float want = n == 0   ? nearbyintf(z)
				     : n == 1 ? truncf(z)
				     : n == 2 ? floorf(z)
					      : ceilf(z);
			if (o.out[i] != bits32(want))
				show(&o, i, bits32(want));
		}
	}
	struct ptx_op o = {.name = "cvt.rn.relu.f16x2.f32", .kinds = "wff"},
		      single_op = {.name = "cvt.rn.f16.f32", .kinds = "hf"};
	ptx_op_fill(&o, &r);
	REQUIRE_OK(ptx_op_run(&o));
	for (int part = 0; part < 2; part++) {
		for (int i = 0; i < OP_ITEMS; i++)
			single_op.in[i][0] = o.in[i][!part];
		REQUIRE_OK(ptx_op_run(&single_op));
		for (int i = 0; i < OP_ITEMS; i++) {
			uint64_t want =
			    single_op.out[i] & 0x8000 && single_op.out[i] != 0x8000 ? 0 : single_op.out[i];
			uint64_t got = o.out[i] >> 16 * part & 0xffff;
			if (got != want && !(want == 0x8000 && got == 0))
				show(&o, i, want);
		}
	}
	struct ptx_op sat = {.name = "cvt.sat.f32.f32", .kinds = "ff"};
	ptx_op_fill(&sat, &r);
	REQUIRE_OK(ptx_op_run(&sat));
	for (int i = 0; i < OP_ITEMS; i++) {
		float v = f32(sat.in[i][0]), want = v >= 1 ? 1 : v > 0 ? v : 0;
		if (sat.out[i] != bits32(want))
			show(&sat, i, bits32(want));
	}
}

/* v rounded to 10 bits of fraction, to nearest, ties away from zero. */
static uint32_t to_tf32(uint32_t bits)
{
	float v;
	memcpy(&v, &bits, sizeof v);
	if (!isfinite(v))
		return isnan(v) ? 0x7fffffff : bits;
	int e = 0;
	(void)frexp(v, &e);
	e = e - 11 < -136 ? -136 : e - 11; /* of the last bit; subnormals have fewer bits */
	v = (float)ldexp(round(ldexp(v, -e)), e);
	memcpy(&bits, &v, sizeof bits);
	return bits;
}

TEST(tf32)
{
	static const char *const others[] = {"cvt.rn.tf32.f32", "cvt.tf32.f32", "cvt.rna.f32.f32",
					     "cvt.rna.ftz.tf32.f32"};
	struct rng r;
	struct ptx_op o = {.name = "cvt.rna.tf32.f32", .kinds = "wf"};
	rng_seed(&r, 7);
	ptx_op_fill(&o, &r);
	for (int i = 0; i < 32; i++) /* ties */
		o.in[i][0] = (o.in[i][0] & ~(uint64_t)0x1fff) | 0x1000;
	REQUIRE_OK(ptx_op_run(&o));
	for (int i = 0; i < OP_ITEMS; i++)
		CHECK((uint32_t)o.out[i] == to_tf32((uint32_t)o.in[i][0]));
	for (int i = 0; i < 4; i++) {
		struct ptx_op other = {.name = others[i], .kinds = i == 2 ? "ff" : "wf"};
		ptx_op_fill(&other, &r);
		CHECK_FAILS(ptx_op_run(&other), E_UNSUPPORTED, "conversion");
	}
}

/* .sat and .relu of a product of 16-bit floats, from the product without them. */
TEST(clamped_16_bit_floats)
{
	struct rng r;
	rng_seed(&r, 6);
	for (int n = 0; n < 4; n++) {
		bool relu = n & 1, is_brain = n & 2;
		const struct format *f = is_brain ? &brain : &half;
		char plain_name[32], name[32];
		snprintf(plain_name, sizeof plain_name, "fma.rn.%s", f == &brain ? "bf16" : "f16");
		snprintf(name, sizeof name, "fma.rn.%s.%s", relu ? "relu" : "sat",
			 f == &brain ? "bf16" : "f16");
		struct ptx_op o = {.name = name, .kinds = "hhhh"},
			      plain = {.name = plain_name, .kinds = "hhhh"};
		ptx_op_fill(&plain, &r);
		memcpy(o.in, plain.in, sizeof o.in);
		REQUIRE_OK(ptx_op_run(&plain));
		REQUIRE_OK(ptx_op_run(&o));
		for (int i = 0; i < OP_ITEMS; i++) {
			uint32_t v = (uint32_t)plain.out[i], one = is_brain ? 0x3f80 : 0x3c00, m = v & 0x7fff;
			bool nan = m > f->infinity;
			uint32_t want = nan ? (relu ? v : 0) : v & 0x8000 ? 0 : !relu && v > one ? one : v;
			if (o.out[i] != want && !(v == 0x8000 && o.out[i] == v))
				show(&o, i, want);
		}
	}
}

TEST_MAIN
