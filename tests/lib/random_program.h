/* SPDX-License-Identifier: Apache-2.0 */
/* Random programs of loops for tests of emitters, one at a time in `l`: five buffers, everything that loops
 * can express, within bounds and without NaNs that would hide a difference. */
#ifndef TESTS_RANDOM_PROGRAM_H
#define TESTS_RANDOM_PROGRAM_H

#include "kernels/loops/loops.h"
#include "platform/base/rng.h"

#include <string.h>

enum { ELEMS = 1024, NBUFS = 5 };
enum { B_A, B_B, B_T, B_O, B_S }; /* input, input, table, output, scratch */

static struct arena arena; /* of the program */
static struct loops l;

static const struct ix *c(int64_t v)
{
	return ix_c(&l, v);
}

static void begin_program(bool fma)
{
	static const enum buf_role role[NBUFS] = {BUF_IN, BUF_IN, BUF_CONST, BUF_OUT, BUF_SCRATCH};
	static const char *const name[NBUFS] = {"a", "b", "t", "o", "s"};
	arena_reset(&arena);
	loops_init(&l, &arena, fma);
	for (int i = 0; i < NBUFS; i++)
		loops_buf(&l, name[i], role[i], i == B_T ? DT_I32 : DT_F32, c(ELEMS));
	loops_table_range(&l, B_T, 0, 299);
}

static struct mem at(int buf, const struct ix *x)
{
	return (struct mem){.buf = buf, .at = x, .stride = 1};
}

enum { VARS_EACH = 3, KINDS = 5, MAX_NEST = 3 };

struct maker {
	struct rng r;
	int var[KINDS][VARS_EACH];
	bool defined[KINDS * VARS_EACH];
	const struct ix *x[16]; /* in scope */
	int nx, statements;
};

static int pick(struct maker *m, int n)
{
	return (int)rng_below(&m->r, (uint32_t)n);
}

/* A small expression of values in scope, perhaps with divisions, bounds and table reads. */
static const struct ix *some_ix(struct maker *m)
{
	const struct ix *x = ix_mul(&l, m->x[pick(m, m->nx)], c(1 + pick(m, 20)));
	for (int n = pick(m, 3); n > 0; n--)
		x = ix_add(&l, x, ix_mul(&l, m->x[pick(m, m->nx)], c(pick(m, 40) - 8)));
	const struct ix *y = m->x[pick(m, m->nx)];
	switch (pick(m, 14)) {
	case 0:
		return ix_div(&l, x, c(1 + pick(m, 9)));
	case 1:
		return ix_mod(&l, x, c(1 + pick(m, 40)));
	case 2:
		return ix_min(&l, x, ix_add(&l, y, c(pick(m, 9))));
	case 3:
		return ix_max(&l, x, ix_sub(&l, y, c(pick(m, 9))));
	case 4:
		return ix_add(&l, x, ix_mul(&l, ix_lt(&l, x, y), c(5)));
	case 5:
		return ix_add(&l, ix_eq(&l, x, y), y);
	case 6:
		return ix_add(&l, y, ix_table(&l, B_T, ix_mod(&l, x, c(ELEMS))));
	case 7:
		return ix_div(&l, x, ix_add(&l, ix_max(&l, y, c(0)), c(1)));
	case 8:
		return ix_mod(&l, x, ix_add(&l, ix_max(&l, y, c(0)), c(3)));
	default:
		return x;
	}
}

/* An index for which all lanes lie in the buffer. */
static const struct ix *some_place(struct maker *m, int64_t stride, int lanes)
{
	int64_t span = stride * (lanes - 1), low = span < 0 ? -span : 0, high = ELEMS - (span > 0 ? span : 0);
	const struct ix *x = ix_add(&l, some_ix(m), c(low));
	if (x->lo >= low && x->hi < high)
		return x;
	return ix_add(&l, ix_mod(&l, x, c(high - low)), c(low));
}

static struct mem some_mem(struct maker *m, int buf, int lanes, bool load)
{
	static const int64_t strides[9] = {1, 1, 1, 7, -3, 2, 3, 4, 0};
	struct mem r = {.buf = buf, .stride = strides[pick(m, load ? 9 : 8)]};
	r.at = some_place(m, r.stride, lanes);
	if (pick(m, 4) == 0)
		r.valid = ix_sub(&l, ix_mod(&l, some_ix(m), c(lanes + 4)), c(2));
	if (load && pick(m, 4) == 0) {
		r.guard = ix_lt(&l, some_ix(m), some_ix(m));
		r.fill = pick(m, 2) ? 0 : -1.5f;
		/* where the guard is 0 the index may be out of bounds */
		if (pick(m, 2))
			r.at = ix_add(&l, r.at, ix_mul(&l, ix_sub(&l, c(1), r.guard), c(INT32_MAX)));
	}
	return r;
}

/* A variable of the kind that already has a value; -1: none. */
static int some_var(struct maker *m, int kind)
{
	int first = pick(m, VARS_EACH);
	for (int i = 0; i < VARS_EACH; i++) {
		int k = (first + i) % VARS_EACH;
		if (m->defined[kind * VARS_EACH + k])
			return m->var[kind][k];
	}
	return -1;
}

static int target_var(struct maker *m, int kind)
{
	int k = pick(m, VARS_EACH);
	m->defined[kind * VARS_EACH + k] = true;
	return m->var[kind][k];
}

/* Brings v into the domain of op: 1.5 2^23 and a whole number for pow2; positive, no NaN for getexp and
 * getmant. */
static int tame(struct maker *m, enum vop op, int kind, int v)
{
	int lo = lv_new(&l, 1 << kind), r = lv_new(&l, 1 << kind);
	(void)m;
	if (op == V_POW2) {
		lv_const(&l, lo, -9);
		lv_set(&l, r, V_MAX, v, lo, -1, -1);
		lv_const(&l, lo, 9);
		lv_set(&l, r, V_MIN, r, lo, -1, -1);
		lv_const(&l, lo, 0x1.8p23f + 127);
		lv_set(&l, r, V_ADD, r, lo, -1, -1);
		return r;
	}
	lv_const(&l, lo, 0.001f);
	lv_set(&l, r, V_MAX, v, lo, -1, -1);
	return r;
}

static void some_set(struct maker *m)
{
	int kind = pick(m, KINDS), other = pick(m, KINDS), lanes = 1 << kind;
	int drawn = pick(m, V_F32_OPS - 3); /* trn0, trn1 and lace are drawn below, in place of some abs */
	enum vop op = (enum vop)(drawn >= V_TRN0 ? drawn + 3 : drawn);
	int a = some_var(m, kind), b = some_var(m, kind), cc = some_var(m, kind), d = some_var(m, kind);
	if (op == V_CONST || a < 0)
		lv_const(&l, target_var(m, kind), (float)(pick(m, 9) - 4) / 4);
	else if (op == V_LOAD)
		lv_load(&l, target_var(m, kind),
			some_mem(m,
				 pick(m, 2)   ? B_A
				 : pick(m, 2) ? B_S
					      : B_O,
				 lanes, true));
	else if (op == V_LANE && some_var(m, other) >= 0) {
		int lane = pick(m, 1 << other), from = some_var(m, other); /* before its target has a value */
		lv_lane(&l, target_var(m, kind), from, lane);
	} else if (vop_across(op) && some_var(m, other) >= 0) {
		int from = some_var(m, other);
		lv_set(&l, target_var(m, kind), op, from, -1, -1, -1);
	} else if (op == V_POW2 || op == V_GETEXP || op == V_GETMANT)
		lv_set(&l, target_var(m, kind), op, tame(m, op, kind, a), -1, -1, -1);
	else if (op == V_ABS && kind && a != b && (a & 2))
		lv_lace(&l, target_var(m, kind), a, b, 2 + b % (lanes - 1), a % 2, (a + b) % 2);
	else if (op == V_ABS && kind && a != b)
		lv_trn(&l, target_var(m, kind), b & 1 ? V_TRN0 : V_TRN1, a, b, 1 << (a + b) % kind);
	else if (op != V_LANE)
		lv_set(&l, target_var(m, kind), op, a, b, cc, d);
}

static void some_store(struct maker *m)
{
	int kind = pick(m, KINDS), v = some_var(m, kind);
	if (v < 0)
		return;
	struct mem to = some_mem(m, pick(m, 2) ? B_O : B_S, 1 << kind, false);
	lv_store(&l, v, to);
}

static void some_statements(struct maker *m, int nest);

static void some_for(struct maker *m, int nest)
{
	bool was[KINDS * VARS_EACH];
	memcpy(was, m->defined, sizeof was);
	const struct ix *lo = pick(m, 3) ? c(pick(m, 3)) : m->x[pick(m, m->nx)], *x;
	int64_t trips = 1 + pick(m, 4), step = 1 + pick(m, 3);
	int how = pick(m, 3);
	const struct ix *hi = how ? ix_add(&l, lo, c(trips * step - pick(m, (int)step)))
				  : ix_min(&l, m->x[pick(m, m->nx)], c(6)); /* perhaps no trip */
	struct stmt *f = for_begin(&l, lo, hi, step, how == 2, &x);
	m->x[m->nx++] = x;
	some_statements(m, nest + 1);
	m->nx--;
	for_end(&l, f);
	if (!f->at_least_once)
		memcpy(m->defined, was, sizeof was);
}

static void some_if(struct maker *m, int nest)
{
	bool was[KINDS * VARS_EACH], then[KINDS * VARS_EACH];
	memcpy(was, m->defined, sizeof was);
	struct stmt *s = if_begin(&l, ix_lt(&l, some_ix(m), some_ix(m)));
	some_statements(m, nest + 1);
	memcpy(then, m->defined, sizeof then);
	memcpy(m->defined, was, sizeof was);
	if (pick(m, 2)) {
		if_else(&l, s);
		some_statements(m, nest + 1);
	}
	if_end(&l, s);
	for (int i = 0; i < KINDS * VARS_EACH; i++)
		m->defined[i] &= then[i];
}

static void some_statements(struct maker *m, int nest)
{
	for (int n = 2 + pick(m, 8); n > 0 && m->statements < 120; n--, m->statements++) {
		int k = pick(m, 20);
		if (k < 3 && nest < MAX_NEST)
			some_for(m, nest);
		else if (k < 4 && nest < MAX_NEST)
			some_if(m, nest);
		else if (k < 7)
			some_store(m);
		else if (k < 8)
			lv_prefetch(&l, B_A, some_ix(m), 1 + pick(m, 2));
		else
			some_set(m);
	}
}

static void random_program(uint64_t seed, bool fma, int64_t *params)
{
	struct maker m = {0};
	rng_seed(&m.r, seed);
	begin_program(fma);
	for (int i = 0; i < 2; i++) {
		int lo = pick(&m, 3) - 1;
		params[i] = lo + pick(&m, 8);
		m.x[m.nx++] = ix_param(&l, loops_param(&l, i ? "q" : "p", lo, lo + 7));
	}
	for (int k = 0; k < KINDS; k++)
		for (int i = 0; i < VARS_EACH; i++)
			m.var[k][i] = lv_new(&l, 1 << k);
	for (int e = 1 + pick(&m, 2); e > 0; e--) {
		/* The second entry runs from 0 to a parameter. */
		const struct ix *n = e == 1 ? c(1 + pick(&m, 4)) : ix_max(&l, m.x[0], c(0));
		loops_entry(&l, n);
		m.x[m.nx++] = ix_var(&l, l.entry[l.nentries - 1].var);
		memset(m.defined, 0, sizeof m.defined);
		m.statements = 0;
		lv_load(&l, target_var(&m, pick(&m, KINDS)), at(B_A, c(3)));
		some_statements(&m, 0);
		some_store(&m);
		some_store(&m);
		m.nx--;
		loops_entry_end(&l);
	}
}

#endif
