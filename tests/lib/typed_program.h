/* SPDX-License-Identifier: Apache-2.0 */
/* Random programs over buffers of every type, and the memory that they run on. */
#ifndef TESTS_TYPED_PROGRAM_H
#define TESTS_TYPED_PROGRAM_H

#include "kernels/loops/loops.h"
#include "platform/base/rng.h"
#include "platform/machine/target.h"
#include "tests/lib/test.h"

enum { TYPES = 7, NBUFS = 2 * TYPES, ELEMS = 512, MARGIN = 16, KINDS = 5, EACH = 4 };

static const enum dtype types[TYPES] = {DT_F32, DT_F16, DT_BF16, DT_I8, DT_U8, DT_I16, DT_I32};

static struct arena arena;
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
			if (rng_below(r, dtype_bytes(types[b % TYPES]) == 1 ? 3 : 10) == 0)
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

/* Programs. Variables are f32, s32 and pairs of f16 of each number of lanes. No integer operation sees the
 * pairs, since it would tell one NaN from another. */

enum { PAIRS_F16 = LV_S32 + 1 };

struct typed_maker {
	struct rng r;
	int var[PAIRS_F16 + 1][KINDS][EACH];
	const struct ix *x; /* an index in scope, below 8 */
};

static int pick(struct typed_maker *m, int n)
{
	return (int)rng_below(&m->r, (uint32_t)n);
}

static const struct ix *c(int64_t v)
{
	return ix_c(&l, v);
}

static int any(struct typed_maker *m, int t, int kind)
{
	return m->var[t][kind][pick(m, EACH)];
}

/* Chooses where the access lies, and which lanes it has; a load may have a guard. */
static void place_access(struct typed_maker *m, struct mem *x, int lanes, bool load)
{
	int g = mem_group(x);
	x->stride = pick(m, 3) ? g : (int[]){g, 2 * g, 1, -g, 3, 0, 5}[pick(m, load ? 7 : 5)];
	if (!load && x->stride < g && x->stride > -g)
		x->stride = g; /* lanes of a store do not overlap */
	int64_t span = x->stride * (lanes - 1), low = span < 0 ? -span : 0, most = span > 0 ? span : 0;
	int room = (int)(ELEMS - low - most - g - 8 * 4);
	x->at = ix_add(&l, ix_mul(&l, m->x, c(pick(m, 5))), c(low + pick(m, room > 1 ? room : 1)));
	if (pick(m, 4) == 0)
		x->valid = ix_sub(&l, ix_add(&l, m->x, c(pick(m, lanes + 1))), c(3));
	if (load && pick(m, 4) == 0)
		x->guard = ix_lt(&l, m->x, c(pick(m, 6)));
}

static struct mem some_mem(struct typed_maker *m, enum lv_type t, int lanes, bool load)
{
	static const int f_types[] = {0, 1, 2}, s_types[] = {3, 4, 5, 6, 3, 4, 5, 2};
	int which = pick(m, 8), b = t == LV_F32 ? f_types[which % 3] : s_types[which];
	struct mem x = {.buf = load && pick(m, 3) ? b : b + TYPES};
	if (t == LV_S32 && which >= 4)
		x.group = b == 3 || b == 4 ? (load && pick(m, 3) == 0 ? 2 : 4) : 2;
	place_access(m, &x, lanes, load);
	if (x.guard)
		x.fill = b == 4                  ? (float)pick(m, 256)
			 : b == 2 && t == LV_S32 ? 0
						 : (float)(pick(m, 200) - 100);
	return x;
}

static struct mem some_pairs_mem(struct typed_maker *m, int lanes, bool load)
{
	struct mem x = {.buf = load && pick(m, 3) ? 1 : 1 + TYPES, .group = 2};
	place_access(m, &x, lanes, load);
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

static void some_dot(struct typed_maker *m, int dst, int kind)
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
static void some_across(struct typed_maker *m, int dst, enum vop op, int kind)
{
	lv_set(&l, dst, op, tame(LV_S32, any(m, LV_S32, kind), op == V_HMUL ? 3 : 1 << 25), -1, -1, -1);
}

static void some_lace(struct typed_maker *m, int dst, int a, int b, int lanes)
{
	int n = 2 + pick(m, lanes - 1);
	lv_lace(&l, dst, a, b, n, pick(m, n), pick(m, n));
}

static void some_s32(struct typed_maker *m)
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
		lv_set(&l, dst, pick(m, 2) ? V_BTURN : V_BBACK, a, -1, -1, -1);
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

static void some_blocks(struct typed_maker *m)
{
	int kind = 2 + pick(m, KINDS - 2), c = tame(LV_S32, any(m, LV_S32, kind), 1 << 28);
	lv_set(&l, any(m, LV_S32, kind), pick(m, 2) ? V_MMLAU : V_MMLAS, any(m, LV_S32, kind),
	       any(m, LV_S32, kind), c, -1);
}

static void some_f32(struct typed_maker *m, bool fma)
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

static void some_f16(struct typed_maker *m)
{
	int kind = pick(m, KINDS), dst = any(m, PAIRS_F16, kind), k = pick(m, 10);
	int a = any(m, PAIRS_F16, kind), b = any(m, PAIRS_F16, kind);
	if (k < 2)
		lv_load(&l, dst, some_pairs_mem(m, 1 << kind, true));
	else if (k < 4)
		lv_store(&l, dst, some_pairs_mem(m, 1 << kind, false));
	else if (k < 7)
		lv_set(&l, dst, V_FMA2, a, b, any(m, PAIRS_F16, kind), -1);
	else if (k < 9)
		lv_set(&l, any(m, LV_F32, kind), V_SUM2, a, any(m, LV_F32, kind), -1, -1);
	else if (kind)
		lv_trn(&l, dst, pick(m, 2) ? V_TRN0 : V_TRN1, a, b, 1 << pick(m, kind));
	else
		lv_set(&l, dst, V_COPY, a, -1, -1, -1);
}

static void some_statements(struct typed_maker *m, bool fma, int n)
{
	for (; n > 0; n--) {
		int k = pick(m, 10), kind = pick(m, KINDS);
		enum lv_type t = k % 2 ? LV_S32 : LV_F32;
		if (l.f16 && pick(m, 2))
			some_f16(m);
		else if (l.blocks && pick(m, 6) == 0)
			some_blocks(m);
		else if (k < 4)
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

/* With the operations that the target has. */
static void random_program(struct typed_maker *m, const struct target *tg)
{
	const struct ix *x;
	bool fma = tg->fma, f16 = target_sums_f16(tg);
	begin_program(fma);
	l.f16 = f16;
	l.blocks = target_multiplies_blocks(tg);
	for (int t = 0; t < 2 + f16; t++)
		for (int k = 0; k < KINDS; k++)
			for (int i = 0; i < EACH; i++)
				m->var[t][k][i] = t ? lv_new_s32(&l, 1 << k) : lv_new(&l, 1 << k);
	loops_entry(&l, c(1 + pick(m, 3)));
	m->x = ix_var(&l, l.entry[0].var);
	for (int k = 0; k < KINDS; k++)
		for (int i = 0; i < EACH; i++) {
			lv_load(&l, m->var[0][k][i], some_mem(m, LV_F32, 1 << k, true));
			lv_load(&l, m->var[1][k][i], some_mem(m, LV_S32, 1 << k, true));
			if (f16)
				lv_load(&l, m->var[2][k][i], some_pairs_mem(m, 1 << k, true));
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

#endif
