/* SPDX-License-Identifier: Apache-2.0 */
/* Integers, halves and groups: emitted code against the interpreter, bit for bit (NaNs are one class), in
 * random programs over buffers of every type, for the host and every baseline that it can run. */
#include "kernels/emit/emit.h"
#include "kernels/loops/loops.h"
#include "platform/base/rng.h"
#include "platform/machine/target.h"
#include "platform/run/dev.h"
#include "platform/run/pool.h"
#include "tests/lib/host_targets.h"
#include "tests/lib/test.h"
#include <math.h>

enum { TYPES = 7, NBUFS = 2 * TYPES, ELEMS = 512, MARGIN = 16, KINDS = 5, EACH = 4 };

static const enum dtype types[TYPES] = {DT_F32, DT_F16, DT_BF16, DT_I8, DT_U8, DT_I16, DT_I32};

static struct arena arena, objects;
static struct loops l;

struct memory {
	char bytes[NBUFS][(ELEMS + 2 * MARGIN) * 4];
	void *bufs[NBUFS];
};
static struct memory start, want, got;

static void fill_memory(struct rng *r)
{
	static const uint32_t special[] = {0,          0x80000000, 1,          0x007fffff, 0x00800000,
					   0x7f800000, 0xff800000, 0x7fc00000, 0x477fefff, 0x477ff000,
					   0x387fffff, 0x33000000, 0x33000001, 0x3f808000, 0x3f818000,
					   0x80808080, 0x7f7f7f7f, 0xffffffff};
	for (int b = 0; b < NBUFS; b++) {
		for (size_t i = 0; i < sizeof start.bytes[b]; i += 4) {
			uint32_t x = (uint32_t)rng_u64(r);
			if (types[b % TYPES] == DT_F32) {
				float f = ((float)(x & 0xffff) - 32768) / 4095; /* sums round */
				memcpy(&x, &f, 4);
			}
			if (types[b % TYPES] == DT_BF16) /* near 1, where the order of sums shows */
				x = (x & 0x80ff80ff) | 0x3f003f00;
			if (rng_below(r, 10) == 0)
				x = special[rng_below(r, 18)];
			memcpy(start.bytes[b] + i, &x, 4);
		}
	}
}

static void place(struct memory *m)
{
	memcpy(m, &start, sizeof *m);
	for (int b = 0; b < NBUFS; b++)
		m->bufs[b] = m->bytes[b] + MARGIN * dtype_bytes(types[b % TYPES]);
}

static bool is_nan(enum dtype t, const char *p)
{
	uint32_t x = 0;
	memcpy(&x, p, dtype_bytes(t));
	return t == DT_F32    ? (x & 0x7fffffff) > 0x7f800000
	       : t == DT_F16  ? (x & 0x7fff) > 0x7c00
	       : t == DT_BF16 ? (x & 0x7fff) > 0x7f80
			      : false;
}

static bool differ(const char *target, uint64_t seed)
{
	for (int b = 0; b < NBUFS; b++) {
		enum dtype t = types[b % TYPES];
		size_t n = dtype_bytes(t);
		for (size_t i = 0; i < sizeof want.bytes[b]; i += n) {
			const char *p = want.bytes[b] + i, *q = got.bytes[b] + i;
			if (memcmp(p, q, n) == 0 || (is_nan(t, p) && is_nan(t, q)))
				continue;
			uint32_t w = 0, g = 0;
			memcpy(&w, p, n);
			memcpy(&g, q, n);
			printf("seed %llu, %s: %s[%d] is %x, interpreted %x\n", (unsigned long long)seed,
			       target, l.buf[b].name, (int)(i / n) - MARGIN, g, w);
			return true;
		}
	}
	return false;
}

static int emit_on(const struct target *t, struct blob *o)
{
	arena_reset(&objects);
	return emit_find("llvm")->emit(&l, t, &objects, o);
}

/* Interprets the program and runs its code. True: they agree, or the code spills, or an s32 overflows. */
static bool agree(const struct target *t, uint64_t seed, int *ran)
{
	struct blob o;
	struct dev_code *code;
	int64_t extent = ix_eval(l.entry[0].extent, NULL, NULL, NULL);
	int rc = emit_on(t, &o);
	if (rc == E_SPILL)
		return true;
	if (rc < 0) {
		printf("seed %llu, %s: %s\n", (unsigned long long)seed, t->isa, err_text());
		return false;
	}
	place(&want);
	place(&got);
	if (loops_run(&l, 0, want.bufs, NULL, 0, extent) < 0) {
		bool over = strstr(err_text(), "the result overflows s32") != NULL;
		if (!over)
			printf("seed %llu: %s\n", (unsigned long long)seed, err_text());
		return over;
	}
	const struct dev *dev = dev_find("cpu");
	CHECK_OK(dev->load(o.p, o.n, &code));
	unsigned old = fpu_flush();
	dev->run(code, dev->entry(code, "k0"), got.bufs, NULL, 0, extent);
	fpu_restore(old);
	dev->unload(code);
	++*ran;
	return !differ(t->isa, seed);
}

/* Programs. Variables are f32 and s32 of each number of lanes. */

struct maker {
	struct rng r;
	int var[2][KINDS][EACH];
	const struct ix *x; /* an index in scope, below 8 */
};

static int pick(struct maker *m, int n)
{
	return (int)rng_below(&m->r, (uint32_t)n);
}

static const struct ix *c(int64_t v)
{
	return ix_c(&l, v);
}

static int any(struct maker *m, enum lv_type t, int kind)
{
	return m->var[t][kind][pick(m, EACH)];
}

static struct mem some_mem(struct maker *m, enum lv_type t, int lanes, bool load)
{
	static const int f_types[] = {0, 1, 2}, s_types[] = {3, 4, 5, 6, 3, 4, 5, 2};
	int which = pick(m, 8), b = t == LV_F32 ? f_types[which % 3] : s_types[which];
	struct mem x = {.buf = load && pick(m, 3) ? b : b + TYPES};
	if (t == LV_S32 && which >= 4)
		x.group = b == 3 || b == 4 ? (load && pick(m, 3) == 0 ? 2 : 4) : 2;
	int g = mem_group(&x);
	x.stride = pick(m, 3) ? g : (int[]){g, 2 * g, 1, -g, 3, 0, 5}[pick(m, load ? 7 : 5)];
	if (!load && x.stride < g && x.stride > -g)
		x.stride = g; /* lanes of a store do not overlap */
	int64_t span = x.stride * (lanes - 1), low = span < 0 ? -span : 0, most = span > 0 ? span : 0;
	int room = (int)(ELEMS - low - most - g - 8 * 4);
	x.at = ix_add(&l, ix_mul(&l, m->x, c(pick(m, 5))), c(low + pick(m, room > 1 ? room : 1)));
	if (pick(m, 4) == 0)
		x.valid = ix_sub(&l, ix_add(&l, m->x, c(pick(m, lanes + 1))), c(3));
	if (load && pick(m, 4) == 0) {
		x.guard = ix_lt(&l, m->x, c(pick(m, 6)));
		x.fill = b == 4                  ? (float)pick(m, 256)
			 : b == 2 && t == LV_S32 ? 0
						 : (float)(pick(m, 200) - 100);
	}
	return x;
}

/* Clamps a variable to [-n, n]. */
static int tame(enum lv_type t, int v, int n)
{
	int lanes = l.lanes[v], lo = t ? lv_new_s32(&l, lanes) : lv_new(&l, lanes);
	int hi = t ? lv_new_s32(&l, lanes) : lv_new(&l, lanes),
	    r = t ? lv_new_s32(&l, lanes) : lv_new(&l, lanes);
	if (t) {
		lv_const_s32(&l, lo, -n);
		lv_const_s32(&l, hi, n);
	} else {
		lv_const(&l, lo, (float)-n);
		lv_const(&l, hi, (float)n);
	}
	lv_set(&l, r, V_MAX, v, lo, -1, -1);
	lv_set(&l, r, V_MIN, r, hi, -1, -1);
	return r;
}

static void some_dot(struct maker *m, int dst, int kind)
{
	int a = any(m, LV_S32, kind), b = any(m, LV_S32, kind),
	    x = tame(LV_S32, any(m, LV_S32, kind), 1 << 28);
	int which = pick(m, 5);
	if (which == 3) {
		lv_set(&l, dst, V_DOT2, a, b, x, -1);
		return;
	}
	if (which % 2 == 0 && which) {
		int q = lv_new_s32(&l, 1 << kind), t = tame(LV_S32, b, 64);
		lv_set(&l, q, V_QUADS, t, tame(LV_S32, a, 64), t, tame(LV_S32, x, 64));
		b = q;
	}
	lv_dot4(&l, dst, which % 3 == 1 ? V_DOT4S : V_DOT4U, a, b, x, which % 2 == 0 && which);
}

/* Products of 16 factors in [-3, 3] fit. */
static void some_across(struct maker *m, int dst, enum vop op, int kind)
{
	lv_set(&l, dst, op, tame(LV_S32, any(m, LV_S32, kind), op == V_HMUL ? 3 : 1 << 25), -1, -1, -1);
}

static void some_lace(struct maker *m, int dst, int a, int b, int lanes)
{
	int n = 2 + pick(m, lanes - 1);
	lv_lace(&l, dst, a, b, n, pick(m, n), pick(m, n));
}

static void some_s32(struct maker *m)
{
	static const enum vop plain[] = {V_ADD, V_SUB, V_MIN, V_MAX, V_MUL};
	static const enum vop across[] = {V_HADD, V_HMIN, V_HMAX, V_HMUL};
	int kind = pick(m, KINDS), other = pick(m, KINDS), dst = any(m, LV_S32, kind);
	int a = any(m, LV_S32, kind), b = any(m, LV_S32, kind), d = any(m, LV_S32, kind), k = pick(m, 19);
	if (k < 4)
		some_dot(m, dst, kind);
	else if (k < 8)
		lv_load(&l, dst, some_mem(m, LV_S32, 1 << kind, true));
	else if (k < 9)
		lv_set(&l, dst, pick(m, 2) ? V_QUADU : V_QUADS, a, b, d, dst);
	else if (k < 11)
		lv_trn(&l, dst, pick(m, 2) ? V_BTRN0 : V_BTRN1, a, b, 1 + pick(m, 2));
	else if (k < 12)
		lv_set(&l, dst, V_CVT, tame(LV_F32, any(m, LV_F32, kind), 1 << 30), -1, -1, -1);
	else if (k < 13)
		some_across(m, dst, across[pick(m, 4)], other);
	else if (k < 14 && kind)
		lv_trn(&l, dst, pick(m, 2) ? V_TRN0 : V_TRN1, a, b, 1 << pick(m, kind));
	else if (k < 14)
		lv_const_s32(&l, dst, (int32_t)rng_u64(&m->r));
	else if (k < 15)
		lv_lane(&l, dst, any(m, LV_S32, other), pick(m, 1 << other));
	else if (k < 16)
		lv_set(&l, dst, V_COPY, a, -1, -1, -1);
	else if (k < 17 && kind)
		some_lace(m, dst, a, b, 1 << kind);
	else
		lv_set(&l, dst, plain[pick(m, 5)], tame(LV_S32, a, 60000), tame(LV_S32, b, 30000), -1, -1);
}

static void some_f32(struct maker *m, bool fma)
{
	int kind = pick(m, KINDS), dst = any(m, LV_F32, kind), k = pick(m, 8);
	int a = any(m, LV_F32, kind), b = any(m, LV_F32, kind);
	if (k < 3)
		lv_load(&l, dst, some_mem(m, LV_F32, 1 << kind, true));
	else if (k < 4)
		lv_set(&l, dst, V_CVT, any(m, LV_S32, kind), -1, -1, -1);
	else if (k < 6 && fma)
		lv_set(&l, dst, V_BDOT2, any(m, LV_S32, kind), any(m, LV_S32, kind), a, -1);
	else
		lv_set(&l, dst, pick(m, 2) ? V_ADD : V_MUL, a, b, -1, -1);
}

static void some_statements(struct maker *m, bool fma, int n)
{
	for (; n > 0; n--) {
		int k = pick(m, 10), kind = pick(m, KINDS);
		enum lv_type t = k % 2 ? LV_S32 : LV_F32;
		if (k < 4)
			lv_store(&l, any(m, t, kind), some_mem(m, t, 1 << kind, false));
		else if (k < 8)
			some_s32(m);
		else
			some_f32(m, fma);
	}
}

static void begin_program(bool fma)
{
	arena_reset(&arena);
	loops_init(&l, &arena, fma);
	for (int b = 0; b < NBUFS; b++) {
		char name[8];
		snprintf(name, sizeof name, "%s%s", b < TYPES ? "i_" : "o_", dtype_name(types[b % TYPES]));
		loops_buf(&l, name, b < TYPES ? BUF_IN : BUF_OUT, types[b % TYPES], c(ELEMS));
	}
}

static void random_program(struct maker *m, bool fma)
{
	const struct ix *x;
	begin_program(fma);
	for (int t = 0; t < 2; t++)
		for (int k = 0; k < KINDS; k++)
			for (int i = 0; i < EACH; i++)
				m->var[t][k][i] = t ? lv_new_s32(&l, 1 << k) : lv_new(&l, 1 << k);
	loops_entry(&l, c(1 + pick(m, 3)));
	m->x = ix_var(&l, l.entry[0].var);
	for (int k = 0; k < KINDS; k++)
		for (int i = 0; i < EACH; i++) {
			lv_load(&l, m->var[0][k][i], some_mem(m, LV_F32, 1 << k, true));
			lv_load(&l, m->var[1][k][i], some_mem(m, LV_S32, 1 << k, true));
		}
	some_statements(m, fma, 6);
	struct stmt *f = for_begin(&l, c(0), c(1 + pick(m, 3)), 1, false, &x);
	m->x = x;
	some_statements(m, fma, 4 + pick(m, 10));
	for_end(&l, f);
	m->x = c(1);
	some_statements(m, fma, 6);
	loops_entry_end(&l);
}

static void random_programs(uint64_t first, uint64_t last)
{
	int ran = 0;
	find_targets(true);
	for (uint64_t seed = first; seed <= last && !test_bad; seed++) {
		struct maker m = {0};
		const struct target *t = &targets[seed % (uint64_t)ntargets];
		rng_seed(&m.r, seed);
		fill_memory(&m.r);
		random_program(&m, t->fma);
		int rc = loops_check(&l);
		if (rc < 0)
			printf("seed %llu: %s\n", (unsigned long long)seed, err_text());
		if (rc >= 0 && agree(t, seed, &ran))
			continue;
		struct buf b = {0};
		loops_print(&l, &b);
		if (getenv("HONE_PRINT"))
			puts(buf_str(&b));
		buf_free(&b);
		test_bad = 1;
	}
	printf("%d of %d programs ran\n", ran, (int)(last - first + 1));
	CHECK(3 * ran >= 2 * (int)(last - first));
}

TEST(random_typed_programs_equal_the_interpreter)
{
	const char *seed = getenv("HONE_SEED");
	if (seed)
		random_programs(strtoull(seed, NULL, 10), strtoull(seed, NULL, 10));
	else
		random_programs(1, 1000);
}

/* A program that copies 256 elements of buffer `from` to buffer `to` through vectors of a type. */
static void copy_program(enum lv_type t, int from, int to, int lanes)
{
	begin_program(true);
	int v = t ? lv_new_s32(&l, lanes) : lv_new(&l, lanes);
	loops_entry(&l, c(ELEMS / lanes));
	const struct ix *i = ix_mul(&l, ix_var(&l, l.entry[0].var), c(lanes));
	lv_load(&l, v, (struct mem){.buf = from, .at = i, .stride = 1});
	lv_store(&l, v, (struct mem){.buf = to + TYPES, .at = i, .stride = 1});
	loops_entry_end(&l);
	REQUIRE_OK(loops_check(&l));
}

/* A NaN is a fill that every buffer of floats can hold. A value without a guard is not looked at. */
TEST(fills_of_nan)
{
	find_targets(true);
	memset(&start, 0, sizeof start);
	for (int k = 0; k < ntargets; k++)
		for (int b = 0; b < 3; b++) {
			int ran = 0;
			begin_program(targets[k].fma);
			int v = lv_new(&l, 4), w = lv_new_s32(&l, 4);
			loops_entry(&l, c(2));
			const struct ix *x = ix_var(&l, l.entry[0].var), *at = ix_mul(&l, x, c(4));
			lv_load(&l, v,
				(struct mem){.buf = b, .at = at, .stride = 1, .guard = x, .fill = NAN});
			lv_load(&l, w, (struct mem){.buf = 3, .at = at, .stride = 1, .fill = 1e30f});
			lv_store(&l, v, (struct mem){.buf = b + TYPES, .at = at, .stride = 1});
			lv_store(&l, w, (struct mem){.buf = 3 + TYPES, .at = at, .stride = 1});
			loops_entry_end(&l);
			REQUIRE_OK(loops_check(&l));
			CHECK(agree(&targets[k], 0, &ran) && ran);
			CHECK(is_nan(types[b], (char *)want.bufs[b + TYPES]));
		}
}

/* Every f16, then f32 values around the places where f16 and bf16 round, on every target. */
TEST(halves_in_every_form)
{
	find_targets(true);
	struct rng r;
	rng_seed(&r, 7);
	for (int k = 0; k < ntargets && !test_bad; k++)
		for (int part = 0; part < 65536 / ELEMS && !test_bad; part++) {
			int ran = 0;
			fill_memory(&r);
			for (int i = 0; i < ELEMS; i++) {
				uint16_t h = (uint16_t)(part * ELEMS + i);
				uint32_t f =
				    (uint32_t)h << 16 | (uint32_t[]){0, 1, 0x7fff, 0x8000, 0x8001}[i % 5];
				float near = f16_to_f32(h) * (1 + (float)(i % 3 - 1) * 0x1p-12f);
				memcpy(start.bytes[1] + 2 * (MARGIN + i), &h, 2);
				memcpy(start.bytes[0] + 4 * (MARGIN + i), &f, 4);
				if (part % 2)
					memcpy(start.bytes[0] + 4 * (MARGIN + i), &near, 4);
			}
			copy_program(LV_F32, 1, 0, 8);
			CHECK(agree(&targets[k], (uint64_t)part, &ran));
			copy_program(LV_F32, 0, 1, 4 << part % 3);
			CHECK(agree(&targets[k], (uint64_t)part, &ran));
			copy_program(LV_F32, 0, 2, 4 << part % 3);
			CHECK(agree(&targets[k], (uint64_t)part, &ran) && ran == 3);
		}
}

/* Sums of 4 x 64 products of the largest bytes: no form may saturate. */
TEST(dot_products_of_extremes)
{
	static const uint32_t a[] = {0xffffffff, 0x80808080, 0x7f7f7f7f, 0xff00ff00, 0x807f80ff};
	static const uint32_t b[] = {0x80808080, 0x7f7f7f7f, 0x81818181, 0x807f807f, 0x40c040c0};
	static const uint32_t narrow[] = {0x40404040, 0xc0c0c0c0, 0x40c040c0, 0x3fc0c03f, 0xc03f40c0};
	find_targets(true);
	memset(&start, 0, sizeof start);
	for (int k = 0; k < ntargets; k++)
		for (int i = 0; i < 25 * 4 * 5; i++) {
			int lanes = 1 << i / 100, which = i / 25 % 4, ran = 0;
			const struct ix *x;
			begin_program(targets[k].fma);
			int u = lv_new_s32(&l, lanes), v = lv_new_s32(&l, lanes), sum = lv_new_s32(&l, lanes);
			loops_entry(&l, c(1));
			lv_const_s32(&l, u, (int32_t)a[i % 5]);
			lv_const_s32(&l, v, (int32_t)(which == 3 ? narrow : b)[i / 5 % 5]);
			lv_const_s32(&l, sum, 0);
			struct stmt *f = for_begin(&l, c(0), c(64), 1, true, &x);
			if (which == 3)
				lv_dot4(&l, sum, V_DOT4U, u, v, sum, true);
			else
				lv_set(&l, sum,
				       which == 0   ? V_DOT4U
				       : which == 1 ? V_DOT4S
						    : V_DOT2,
				       u, v, sum, -1);
			for_end(&l, f);
			lv_store(&l, sum, (struct mem){.buf = 2 * TYPES - 1, .at = c(0), .stride = 1});
			loops_entry_end(&l);
			REQUIRE_OK(loops_check(&l));
			CHECK(agree(&targets[k], (uint64_t)i, &ran) && (ran || which == 2));
		}
}

/* The second product of a pair is added first: with sums that round, the order shows. */
TEST(bf16_products_in_order)
{
	struct rng r;
	find_targets(true);
	rng_seed(&r, 11);
	fill_memory(&r);
	for (int k = 0; k < ntargets; k++)
		for (int lanes = 1; lanes <= 16 && targets[k].fma; lanes *= 2) {
			int ran = 0;
			begin_program(true);
			int a = lv_new_s32(&l, lanes), b = lv_new_s32(&l, lanes), v = lv_new(&l, lanes);
			loops_entry(&l, c(128 / lanes));
			const struct ix *i = ix_mul(&l, ix_var(&l, l.entry[0].var), c(lanes));
			const struct ix *i2 = ix_mul(&l, i, c(2));
			lv_load(&l, a, (struct mem){.buf = 2, .at = i2, .stride = 2, .group = 2});
			lv_load(
			    &l, b,
			    (struct mem){.buf = 2, .at = ix_add(&l, i2, c(256)), .stride = 2, .group = 2});
			lv_load(&l, v, (struct mem){.buf = 0, .at = i, .stride = 1});
			lv_set(&l, v, V_BDOT2, a, b, v, -1);
			lv_store(&l, v, (struct mem){.buf = TYPES, .at = i, .stride = 1});
			loops_entry_end(&l);
			REQUIRE_OK(loops_check(&l));
			CHECK(agree(&targets[k], (uint64_t)lanes, &ran) && ran);
		}
}

/* Other machines get whole objects: no instruction that they lack, and no call. */
TEST(other_targets)
{
	static const char *const names[] = {"x86-64-v2", "x86-64-v3",       "x86-64-v4", "x86-64-v4+",
					    "armv8-a",   "armv8-a+dotprod", "armv7-neon"};
	for (int i = 0; i < 7; i++)
		for (uint64_t seed = 1; seed <= 10; seed++) {
			struct target t;
			struct blob o;
			struct maker m = {0};
			char isa[24];
			snprintf(isa, sizeof isa, "%.*s", (int)strcspn(names[i], "+"), names[i]);
			REQUIRE_OK(target_baseline(isa, &t));
			if (strchr(names[i], '+'))
				snprintf(t.features + strlen(t.features), 64, "%s",
					 i == 3 ? ",+avx512vnni,+avx512bf16" : ",+dotprod");
			rng_seed(&m.r, seed);
			random_program(&m, t.fma);
			int rc = emit_on(&t, &o);
			if (rc < 0 && rc != E_SPILL) {
				printf("%s, seed %d: %s\n", names[i], (int)seed, err_text());
				test_bad = 1;
			}
		}
}

/* One statement that the checker or the interpreter refuses. */
#define REFUSED(text, statement)                                                                             \
	do {                                                                                                 \
		begin_program(false);                                                                        \
		int f = lv_new(&l, 4), s = lv_new_s32(&l, 4);                                                \
		loops_entry(&l, c(1));                                                                       \
		lv_const(&l, f, 3e9f);                                                                       \
		lv_const_s32(&l, s, 0x7fff7f7f);                                                             \
		statement;                                                                                   \
		loops_entry_end(&l);                                                                         \
		int rc = loops_check(&l);                                                                    \
		place(&want);                                                                                \
		if (rc >= 0)                                                                                 \
			rc = loops_run(&l, 0, want.bufs, NULL, 0, 1);                                        \
		CHECK_FAILS(rc, E_CORRUPT, text);                                                            \
	} while (0)

TEST(wrong_types_and_overflows_are_refused)
{
	REFUSED("add needs v", lv_set(&l, f, V_ADD, f, s, -1, -1));
	REFUSED("sqrt needs v", lv_set(&l, s, V_SQRT, s, -1, -1, -1));
	REFUSED("dot4u needs v", lv_dot4(&l, s, V_DOT4U, s, f, s, false));
	REFUSED("cvt needs v", lv_set(&l, f, V_CVT, f, -1, -1, -1));
	REFUSED("bdot2 needs a fused", lv_set(&l, f, V_BDOT2, s, s, f, -1));
	REFUSED("btrn0: step 3, must be 1 or 2", lv_trn(&l, s, V_BTRN0, s, s, 3));
	REFUSED("is f32: no load in groups of 1 from i_i8, which holds i8",
		lv_load(&l, f, (struct mem){.buf = 3, .at = c(0), .stride = 1}));
	REFUSED("no load in groups of 1 from i_f32",
		lv_load(&l, s, (struct mem){.buf = 0, .at = c(0), .stride = 1}));
	REFUSED("is s32: no load in groups of 4 from i_i16, which holds i16",
		lv_load(&l, s, (struct mem){.buf = 5, .at = c(0), .stride = 4, .group = 4}));
	REFUSED("no load in groups of 3",
		lv_load(&l, s, (struct mem){.buf = 4, .at = c(0), .stride = 3, .group = 3}));
	REFUSED("no store in groups of 2 to o_u8",
		lv_store(&l, s, (struct mem){.buf = 4 + TYPES, .at = c(0), .stride = 2, .group = 2}));
	REFUSED("buffer i_f32 is of f64", {
		l.buf[0].dtype = DT_F64;
		lv_set(&l, f, V_ADD, f, f, -1, -1);
	});
	REFUSED("is no table", {
		loops_table_range(&l, 2 * TYPES - 1, 0, 9);
		lv_load(&l, s, (struct mem){.buf = 6, .at = ix_table(&l, 2 * TYPES - 1, c(0)), .stride = 1});
	});
	REFUSED("dot4u: imm is 3, must be 0 or 7", {
		lv_dot4(&l, s, V_DOT4U, s, s, s, false);
		l.entry[0].body->next->next->imm = 3;
	});
	REFUSED("cannot hold the fill 256",
		lv_load(&l, s, (struct mem){.buf = 4, .at = c(0), .stride = 1, .guard = c(1), .fill = 256}));
	REFUSED("cannot hold the fill 0.5",
		lv_load(&l, s, (struct mem){.buf = 6, .at = c(0), .stride = 1, .guard = c(1), .fill = 0.5f}));
	REFUSED("cannot hold the fill nan",
		lv_load(&l, s, (struct mem){.buf = 6, .at = c(0), .stride = 1, .guard = c(1), .fill = NAN}));
	REFUSED(
	    "cannot hold the fill 1.00098",
	    lv_load(&l, f,
		    (struct mem){.buf = 2, .at = c(0), .stride = 1, .guard = c(1), .fill = 1 + 0x1p-10f}));
	REFUSED(
	    "cannot hold the fill 1",
	    lv_load(&l, s,
		    (struct mem){.buf = 2, .at = c(0), .stride = 2, .group = 2, .guard = c(1), .fill = 1}));
	REFUSED("are outside its 512",
		lv_load(&l, s, (struct mem){.buf = 4, .at = c(ELEMS - 15), .stride = 4, .group = 4}));
	REFUSED("add: the result overflows s32", lv_set(&l, s, V_ADD, s, s, -1, -1));
	REFUSED("cvt: the operand is outside of [-2^31", lv_set(&l, s, V_CVT, f, -1, -1, -1));
	REFUSED("dot4u: the result overflows s32", lv_dot4(&l, s, V_DOT4U, s, s, s, false));
	REFUSED("dot4u: a byte of b is outside of [-64, 64], although it is marked narrow", {
		lv_const_s32(&l, s, 65);
		lv_dot4(&l, s, V_DOT4U, s, s, s, true);
	});
}

TEST_MAIN
