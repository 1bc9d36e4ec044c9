/* SPDX-License-Identifier: Apache-2.0 */
/* Emitted code against the interpreter, bit for bit (NaNs are one class): single operations on special
 * values, then random programs for the host and every x86 baseline that it runs. */
#include "kernels/emit.h"
#include "platform/dev.h"
#include "platform/pool.h"
#include "platform/rng.h"
#include "tests/test.h"
#include <malloc.h>
#include <math.h>

enum { ELEMS = 1024, MARGIN = 64, NBUFS = 5, MAX_TARGETS = 4 };
enum { B_A, B_B, B_T, B_O, B_S }; /* in, in, table, out, scratch */

static struct arena arena, objects;
static struct loops l;
static struct target targets[MAX_TARGETS];
static int ntargets;

static const struct ix *c(int64_t v)
{
	return ix_c(&l, v);
}

/* The host first, then baselines that it runs. */
static void find_targets(void)
{
	static const char *const names[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "armv8-a"};
	if (ntargets)
		return;
	CHECK(dev_find("cpu") && dev_find("cpu")->probe(&targets[0]) == 1);
	ntargets = 1;
	for (size_t i = 0; i < sizeof names / sizeof *names && ntargets < MAX_TARGETS; i++) {
		struct target *t = &targets[ntargets];
		CHECK_OK(target_baseline(names[i], t));
		ntargets += target_runs(&targets[0], t) && strcmp(t->isa, targets[0].isa) != 0;
	}
}

struct memory {
	float f[NBUFS][ELEMS + 2 * MARGIN];
	void *bufs[NBUFS];
};
static struct memory start, want, got;

static void fill_memory(struct memory *m, uint64_t seed)
{
	static const uint32_t special[] = {0,          0x80000000, 1,          0x80000001,
					   0x007fffff, 0x00800000, 0x80800000, 0x7f800000,
					   0xff800000, 0x7fc00000, 0x3f800000, 0xbf000000};
	struct rng r;
	rng_seed(&r, seed);
	memset(m, 0, sizeof *m);
	for (int b = 0; b < NBUFS; b++)
		rng_fill(&r, m->f[b], ELEMS + 2 * MARGIN);
	for (int i = 0; i < ELEMS; i += 1 + (int)rng_below(&r, 40))
		memcpy(&m->f[B_B][MARGIN + i], &special[rng_below(&r, 12)], 4);
	for (int i = 0; i < ELEMS; i++) {
		int32_t t = (int32_t)rng_below(&r, 300);
		memcpy(&m->f[B_T][MARGIN + i], &t, 4);
	}
}

static void place(struct memory *m)
{
	memcpy(m, &start, sizeof *m);
	for (int b = 0; b < NBUFS; b++)
		m->bufs[b] = m->f[b] + MARGIN;
}

static bool same(float a, float b)
{
	return memcmp(&a, &b, 4) == 0 || (isnan(a) && isnan(b));
}

/* First difference in any buffer, margins included; false: none. */
static bool differ(const char *target, uint64_t seed)
{
	for (int b = 0; b < NBUFS; b++)
		for (int i = 0; i < ELEMS + 2 * MARGIN; i++)
			if (!same(want.f[b][i], got.f[b][i])) {
				uint32_t w, g;
				memcpy(&w, &want.f[b][i], 4);
				memcpy(&g, &got.f[b][i], 4);
				printf("seed %llu, %s: buffer %s[%d] is %08x, interpreted %08x\n",
				       (unsigned long long)seed, target, l.buf[b].name, i - MARGIN, g, w);
				return true;
			}
	return false;
}

static void run_object(const struct blob *o, const int64_t *params, const int64_t *extent)
{
	const struct dev *dev = dev_find("cpu");
	struct dev_code *code;
	REQUIRE_OK(dev->load(o->p, o->n, &code));
	unsigned old = fpu_flush();
	for (int e = 0; e < l.nentries; e++) {
		int k = dev->entry(code, l.entry[e].name);
		CHECK(k >= 0);
		/* in two parts, the second first */
		dev->run(code, k, got.bufs, params, extent[e] / 2, extent[e]);
		dev->run(code, k, got.bufs, params, 0, extent[e] / 2);
	}
	fpu_restore(old);
	dev->unload(code);
}

/* Interprets and runs the program in `l`; true: equal, or no code for a reason that is data (a spill). */
static bool agree(const struct target *t, const int64_t *params, uint64_t seed, int *ran)
{
	struct blob o;
	int64_t extent[LOOPS_MAX_ENTRIES];
	arena_reset(&objects);
	int rc = emit_find("llvm")->emit(&l, t, &objects, &o);
	if (rc == E_INFEASIBLE && strstr(err_text(), "spill:"))
		return true;
	if (rc < 0) {
		printf("seed %llu, %s: %s\n", (unsigned long long)seed, t->isa, err_text());
		return false;
	}
	place(&want);
	place(&got);
	for (int e = 0; e < l.nentries; e++) {
		extent[e] = ix_eval(l.entry[e].extent, params, NULL, NULL);
		rc = loops_run(&l, e, want.bufs, params, extent[e] / 2, extent[e]);
		if (rc >= 0)
			rc = loops_run(&l, e, want.bufs, params, 0, extent[e] / 2);
		if (rc < 0) {
			printf("seed %llu: interpreter: %s\n", (unsigned long long)seed, err_text());
			return false;
		}
	}
	run_object(&o, params, extent);
	++*ran;
	memset(want.bufs, 0, sizeof want.bufs);
	memset(got.bufs, 0, sizeof got.bufs);
	return !differ(t->isa, seed);
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

/* Every operation on every pair of special values, for each number of lanes. */
static void all_operations(const struct target *t, enum vop op, int lanes)
{
	int v[5], ran = 0;
	begin_program(t->fma);
	loops_entry(&l, c(240 / lanes));
	const struct ix *i = ix_mul(&l, ix_var(&l, l.entry[0].var), c(lanes));
	for (int k = 0; k < 5; k++)
		v[k] = lv_new(&l, lanes);
	for (int k = 0; k < 4; k++)
		lv_load(&l, v[k], at(k < 2 ? B_A : B_B, ix_add(&l, i, c(k % 2 * 256))));
	if (op == V_LANE)
		lv_lane(&l, v[4], v[0], lanes - 1);
	else
		lv_set(&l, v[4], op, v[0], v[1], v[2], v[3]);
	lv_store(&l, v[4], at(B_O, i));
	loops_entry_end(&l);
	REQUIRE_OK(loops_check(&l));
	if (!agree(t, NULL, op * 100u + (unsigned)lanes, &ran) || !ran) {
		printf("operation %s, %d lanes, %s\n", vop_info[op].name, lanes, t->isa);
		test_bad = 1;
	}
}

/* a[0..] and a[256..]: all pairs of 15 special values; b: such triples' third and fourth operand. */
static void fill_specials(enum vop op)
{
	static const uint32_t s[15] = {0,          0x80000000, 1,          0x80000001, 0x007fffff,
				       0x807fffff, 0x00800000, 0x80800001, 0x7f800000, 0xff800000,
				       0x7fc00000, 0x3f800001, 0xbf800000, 0x4b000001, 0xc0200000};
	bool mantissa = op == V_GETMANT || op == V_GETEXP;
	fill_memory(&start, 1);
	for (int i = 0; i < 240; i++) {
		float p, q;
		memcpy(&p, &s[i / 15 % 15], 4);
		memcpy(&q, &s[i % 15], 4);
		if (op == V_POW2)
			p = (float)(i - 119);
		if (mantissa)
			p = ldexpf(1 + (float)i / 240, i - 120);
		start.f[B_A][MARGIN + i] = p;
		start.f[B_A][MARGIN + 256 + i] = q;
		start.f[B_B][MARGIN + i] = (float)i;
		start.f[B_B][MARGIN + 256 + i] = -0x1p-126f * (float)(i % 7);
	}
}

TEST(operations_on_special_values)
{
	find_targets();
	for (int k = 0; k < ntargets && !test_bad; k++)
		for (enum vop op = V_COPY; op < V_OPS; op++) {
			fill_specials(op);
			if (op != V_LOAD)
				for (int lanes = 1; lanes <= 16; lanes *= 2)
					all_operations(&targets[k], op, lanes);
		}
}

/* Products and quotients on both sides of 2^-126 - 2^-151: x86 looks at tininess after rounding. */
TEST(tiny_results)
{
	find_targets();
	if (strncmp(targets[0].isa, "x86", 3) != 0)
		SKIP("tininess is another on this ISA");
	fill_memory(&start, 2);
	struct rng r;
	rng_seed(&r, 3);
	for (int i = 0; i < 240; i++) {
		float m = 1 + (float)rng_below(&r, 4000) * 0x1p-23f;
		int d = (int)rng_below(&r, 5) - 2;
		uint32_t u;
		float inv = (float)(1 / (double)m);
		memcpy(&u, &inv, 4);
		u += (uint32_t)d;
		memcpy(&inv, &u, 4);
		start.f[B_A][MARGIN + i] = m * 0x1p-63f;
		start.f[B_A][MARGIN + 256 + i] = inv * 0x1p-63f;
		start.f[B_B][MARGIN + i] = i % 3 ? 0 : i % 2 ? 0x1p-126f : -0x1p-126f;
	}
	for (int k = 0; k < ntargets; k++) {
		all_operations(&targets[k], V_MUL, 4);
		all_operations(&targets[k], V_FMA, 8);
	}
}

/* Random programs. */

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

/* A small expression of what is in scope, perhaps with divisions, bounds and table reads. */
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

/* An element such that it and the lanes from it are in a buffer. */
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
	static const int64_t strides[6] = {1, 1, 1, 7, -3, 0};
	struct mem r = {.buf = buf, .stride = strides[pick(m, load ? 6 : 5)]};
	r.at = some_place(m, r.stride, lanes);
	if (pick(m, 4) == 0)
		r.valid = ix_sub(&l, ix_mod(&l, some_ix(m), c(lanes + 4)), c(2));
	if (load && pick(m, 4) == 0) {
		r.guard = ix_lt(&l, some_ix(m), some_ix(m));
		r.fill = pick(m, 2) ? 0 : -1.5f;
		/* where the guard is 0 the place may be anywhere */
		if (pick(m, 2))
			r.at = ix_add(&l, r.at, ix_mul(&l, ix_sub(&l, c(1), r.guard), c(INT32_MAX)));
	}
	return r;
}

/* A variable of the kind that is set already, or -1. */
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

/* Puts v (of the kind) into what op takes: whole numbers for pow2; positive, no NaN for getexp and getmant.
 */
static int tame(struct maker *m, enum vop op, int kind, int v)
{
	int lo = lv_new(&l, 1 << kind), r = lv_new(&l, 1 << kind);
	(void)m;
	if (op == V_POW2) {
		lv_const(&l, lo, -9);
		lv_set(&l, r, V_MAX, v, lo, -1, -1);
		lv_const(&l, lo, 9);
		lv_set(&l, r, V_MIN, r, lo, -1, -1);
		lv_set(&l, r, V_RINT, r, -1, -1, -1);
		return r;
	}
	lv_const(&l, lo, 0.001f);
	lv_set(&l, r, V_MAX, v, lo, -1, -1);
	return r;
}

static void some_set(struct maker *m)
{
	int kind = pick(m, KINDS), other = pick(m, KINDS), lanes = 1 << kind;
	enum vop op = (enum vop)pick(m, V_OPS);
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
	else if (op == V_LANE && some_var(m, other) >= 0)
		lv_lane(&l, target_var(m, kind), some_var(m, other), pick(m, 1 << other));
	else if (op >= V_HADD && some_var(m, other) >= 0)
		lv_set(&l, target_var(m, kind), op, some_var(m, other), -1, -1, -1);
	else if (op == V_POW2 || op == V_GETEXP || op == V_GETMANT)
		lv_set(&l, target_var(m, kind), op, tame(m, op, kind, a), -1, -1, -1);
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
				  : ix_min(&l, m->x[pick(m, m->nx)], c(6)); /* perhaps none */
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

static void random_programs(uint64_t first, uint64_t last)
{
	int ran = 0, made = 0;
	find_targets();
	for (uint64_t seed = first; seed <= last && !test_bad; seed++) {
		int64_t params[2];
		const struct target *t = &targets[seed % (uint64_t)ntargets];
		random_program(seed, t->fma, params);
		fill_memory(&start, seed);
		int rc = loops_check(&l);
		made++;
		if (rc < 0 || !agree(t, params, seed, &ran)) {
			struct buf b = {0};
			if (rc < 0)
				printf("seed %llu: %s\n", (unsigned long long)seed, err_text());
			loops_print(&l, &b);
			if (getenv("HONE_PRINT"))
				puts(buf_str(&b));
			buf_free(&b);
			test_bad = 1;
		}
	}
	CHECK(ran >= made / 2);
}

TEST(random_programs_equal_the_interpreter)
{
	const char *seed = getenv("HONE_SEED");
	if (seed)
		random_programs(strtoull(seed, NULL, 10), strtoull(seed, NULL, 10));
	else
		random_programs(1, 400);
}

/* acc[i] += a * b over n accumulators of the target's lanes. */
static void tile(const struct target *t, int n)
{
	const struct ix *k;
	int x = lv_new(&l, t->lanes), y = lv_new(&l, t->lanes), first = l.nvars;
	loops_entry(&l, c(1));
	for (int i = 0; i < n; i++)
		lv_const(&l, lv_new(&l, t->lanes), 0);
	struct stmt *f = for_begin(&l, c(0), c(8), 1, true, &k);
	lv_load(&l, x, at(B_A, ix_mul(&l, k, c(16))));
	for (int i = 0; i < n; i++) {
		struct mem m = {.buf = B_B, .at = ix_add(&l, ix_mul(&l, k, c(64)), c(i))};
		lv_load(&l, y, m);
		lv_set(&l, first + i, V_FMA, x, y, first + i, -1);
	}
	for_end(&l, f);
	for (int i = 0; i < n; i++)
		lv_store(&l, first + i, at(B_O, c(i * t->lanes)));
	loops_entry_end(&l);
}

TEST(spills_are_infeasible)
{
	struct blob o;
	find_targets();
	for (int k = 0; k < ntargets; k++) {
		begin_program(targets[k].fma);
		tile(&targets[k], targets[k].regs - 4);
		CHECK_OK(emit_find("llvm")->emit(&l, &targets[k], &objects, &o));
		begin_program(targets[k].fma);
		tile(&targets[k], targets[k].regs + 4);
		CHECK_FAILS(emit_find("llvm")->emit(&l, &targets[k], &objects, &o), E_INFEASIBLE, "spill:");
	}
}

TEST(other_targets_get_whole_objects)
{
	static const char *const names[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "armv8-a", "armv7-neon"};
	for (int i = 0; i < 5; i++)
		for (uint64_t seed = 1; seed <= 12; seed++) {
			struct target t;
			struct blob o;
			int64_t params[2];
			REQUIRE_OK(target_baseline(names[i], &t));
			random_program(seed, t.fma, params);
			arena_reset(&objects);
			int rc = emit_find("llvm")->emit(&l, &t, &objects, &o);
			/* ARMv7 has no division instruction: a division by a run-time value is refused. */
			bool divides = rc == E_UNSUPPORTED && i == 4 && strstr(err_text(), "__aeabi_");
			if (rc < 0 && rc != E_INFEASIBLE && !divides) {
				printf("%s, seed %d: %s\n", names[i], (int)seed, err_text());
				test_bad = 1;
			}
		}
}

TEST(failures_say_why)
{
	struct target t;
	struct blob o;
	int64_t params[2];
	const struct emit *e = emit_find("llvm");
	REQUIRE(e && !emit_find("lvm"));
	CHECK(strncmp(e->version(), "llvm-", 5) == 0 && strchr(e->version(), '/'));
	find_targets();
	random_program(1, true, params);
	t = targets[0];
	strcpy(t.isa, "sim");
	CHECK_FAILS(e->emit(&l, &t, &objects, &o), E_UNSUPPORTED, "ISA sim");
	begin_program(true);
	int a = lv_new(&l, 4);
	loops_entry(&l, c(1));
	lv_set(&l, a, V_NEG, a, -1, -1, -1);
	loops_entry_end(&l);
	CHECK_FAILS(e->emit(&l, &targets[0], &objects, &o), E_CORRUPT, "entry k0, statement 0");
	/* a fused multiply-add where there is none would be a library call */
	CHECK_OK(target_baseline("x86-64-v2", &t));
	begin_program(true);
	tile(&t, 4);
	CHECK_FAILS(e->emit(&l, &t, &objects, &o), E_UNSUPPORTED, "fmaf");
}

TEST(same_input_same_bytes_and_no_growth)
{
	struct blob o, p;
	int64_t params[2];
	find_targets();
	random_program(5, targets[0].fma, params);
	arena_reset(&objects);
	REQUIRE_OK(emit_find("llvm")->emit(&l, &targets[0], &objects, &o));
	REQUIRE_OK(emit_find("llvm")->emit(&l, &targets[0], &objects, &p));
	CHECK(o.n == p.n && memcmp(o.p, p.p, o.n) == 0);
	size_t before = mallinfo2().uordblks;
	for (int i = 0; i < 100; i++) {
		arena_reset(&objects);
		CHECK_OK(emit_find("llvm")->emit(&l, &targets[0], &objects, &o));
	}
	CHECK(mallinfo2().uordblks < before + 100000);
}

TEST_MAIN
