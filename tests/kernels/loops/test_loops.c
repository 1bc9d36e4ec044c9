/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/loops/loops.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"
#include <math.h>

static struct arena arena;
static struct loops l;

static void fresh(void)
{
	arena_reset(&arena);
	loops_init(&l, &arena, true);
}

static const struct ix *c(int64_t v)
{
	return ix_c(&l, v);
}

/* Opens a loop over [0, n) at the top of a new entry; returns its variable. */
static const struct ix *open_loop(int64_t n)
{
	const struct ix *x;
	if (!l.nentries)
		loops_entry(&l, c(1));
	for_begin(&l, c(0), c(n), 1, false, &x);
	return x;
}

TEST(ix_sums_are_canonical)
{
	fresh();
	const struct ix *x = open_loop(100), *y = open_loop(100);
	CHECK(ix_same(ix_sub(&l, x, x), c(0)));
	const struct ix *a = ix_add(&l, ix_mul(&l, c(3), x), ix_add(&l, y, c(5)));
	const struct ix *b =
	    ix_add(&l, ix_add(&l, c(2), x), ix_add(&l, ix_add(&l, x, c(3)), ix_add(&l, y, x)));
	CHECK(ix_same(a, b));
	CHECK(a->lo == 5 && a->hi == 3 * 99 + 99 + 5);
	/* (x + 2) * (y + 3) distributes */
	const struct ix *p = ix_mul(&l, ix_add(&l, x, c(2)), ix_add(&l, y, c(3)));
	int64_t k, coef[8];
	const struct ix *atom[8];
	CHECK(ix_terms(p, &k, 8, coef, atom) == 3 && k == 6);
	CHECK(ix_terms(p, &k, 2, coef, atom) == -1);
	CHECK(ix_same(ix_sub(&l, p, ix_mul(&l, ix_add(&l, y, c(3)), ix_add(&l, x, c(2)))), c(0)));
	CHECK(!l.failed);
}

TEST(ix_division_by_ranges)
{
	fresh();
	const struct ix *q = open_loop(50), *r = open_loop(16);
	const struct ix *x = ix_add(&l, ix_mul(&l, c(16), q), r);
	CHECK(ix_same(ix_div(&l, x, c(16)), q));
	CHECK(ix_same(ix_mod(&l, x, c(16)), r));
	CHECK(ix_same(ix_div(&l, ix_add(&l, x, c(32)), c(16)), ix_add(&l, q, c(2))));
	/* 8 (2q) + 4 (r/4 part unknown): the common factor goes */
	const struct ix *e = ix_div(&l, ix_add(&l, ix_mul(&l, c(4), q), c(3)), c(8));
	CHECK(e->op == IX_DIV && ix_same(e->a, q) && e->b->c == 2);
	/* h * 7 + w with h = p / 7, w = p mod 7 is p */
	const struct ix *p = open_loop(49);
	const struct ix *back = ix_add(&l, ix_mul(&l, ix_div(&l, p, c(7)), c(7)), ix_mod(&l, p, c(7)));
	CHECK(ix_same(back, p));
	CHECK(ix_same(ix_mod(&l, ix_mod(&l, p, c(21)), c(7)), ix_mod(&l, p, c(7))));
}

TEST(ix_minmax_by_ranges)
{
	fresh();
	const struct ix *x = open_loop(100), *v;
	CHECK(ix_same(ix_min(&l, x, c(99)), x));
	CHECK(ix_same(ix_max(&l, ix_add(&l, x, c(3)), ix_add(&l, x, c(1))), ix_add(&l, x, c(3))));
	CHECK(ix_min(&l, x, c(98))->op == IX_MIN);
	/* the last start of a stepped loop is known: no tail in 16 of 96 */
	for_begin(&l, c(0), c(96), 16, false, &v);
	CHECK(v->hi == 80 && ix_same(ix_min(&l, c(16), ix_sub(&l, c(96), v)), c(16)));
	CHECK(ix_same(ix_lt(&l, v, c(96)), c(1)));
	/* one iteration: the variable is its start */
	for_begin(&l, x, ix_add(&l, x, c(4)), 4, false, &v);
	CHECK(ix_same(v, x));
}

TEST(ix_parameters)
{
	fresh();
	int n = loops_param(&l, "n", 1, 1000), m = loops_param(&l, "m", 0, 9);
	const struct ix *pn = ix_param(&l, n), *pm = ix_param(&l, m);
	loops_entry(&l, pn);
	const struct ix *i = ix_var(&l, l.entry[0].var);
	CHECK(i->depth == 1 && i->lo == 0 && i->hi == 999);
	CHECK(ix_same(ix_div(&l, i, pn), c(0)) && ix_same(ix_mod(&l, i, pn), i) &&
	      ix_same(ix_lt(&l, i, pn), c(1)));
	const struct ix *s = ix_sub(&l, ix_mul(&l, pn, pm), ix_mul(&l, pm, pn));
	CHECK(ix_same(s, c(0)));
	int64_t params[2] = {37, 5}, vars[1] = {36};
	CHECK(ix_eval(ix_add(&l, ix_mul(&l, pn, pm), i), params, vars, NULL) == 37 * 5 + 36);
}

/* How often something fits, rounded up: never more often than it has parts. */
TEST(ix_rounded_up)
{
	fresh();
	const struct ix *b = ix_param(&l, loops_param(&l, "b", 1, 1 << 30)),
			*times = ix_div(&l, ix_add(&l, b, c(13)), b);
	CHECK(times->lo == 1 && times->hi == 14);
	const struct ix *wide = ix_param(&l, loops_param(&l, "w", 5, 9));
	times = ix_div(&l, ix_add(&l, wide, c(13)), wide);
	CHECK(times->lo == 2 && times->hi == 3);
	times = ix_div(&l, ix_sub(&l, wide, c(6)), wide); /* less than one */
	CHECK(times->lo == -1 && times->hi == 0);
}

/* This bounds a variable and its quotient together, whose coefficients may have different signs: the range is
 * that of (e mod d) and the quotient, as an index of taps r and s that one loop runs through needs. */
TEST(ix_remainders_have_their_range)
{
	struct rng r;
	rng_seed(&r, 3);
	for (int i = 0; i < 300 && !test_bad; i++) {
		const struct ix *x;
		int64_t d = 2 + rng_below(&r, 5), n = 2 + rng_below(&r, 6), a = 1 + rng_below(&r, 9),
			b = (int64_t)rng_below(&r, 40) - 20, k = (int64_t)rng_below(&r, 9) - 4;
		fresh();
		loops_entry(&l, c(1));
		for_begin(&l, c(0), c(d * n), 1, true, &x);
		const struct ix *q = ix_div(&l, x, c(d)), *e = ix_sub(&l, x, ix_mul(&l, q, c(d)));
		e = ix_add(&l, ix_add(&l, ix_mul(&l, e, c(a)), ix_mul(&l, q, c(b))), c(k));
		int64_t lo = k + (b < 0 ? b * (n - 1) : 0), hi = k + a * (d - 1) + (b > 0 ? b * (n - 1) : 0);
		CHECK(e->lo >= lo && e->hi <= hi);
		if (test_bad)
			printf("%d (x %% %d) + %d (x / %d) + %d, x < %d: %lld to %lld\n", (int)a, (int)d,
			       (int)b, (int)d, (int)k, (int)(d * n), (long long)e->lo, (long long)e->hi);
	}
}

/* Compares random expressions with a value computed directly from the same operands, for 64 valuations
 * each. */

enum { POINTS = 64, POOL = 40 };
static struct {
	const struct ix *x;
	int64_t v[POINTS];
} pool[POOL];

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

static void random_node(struct rng *r, int n)
{
	int a = (int)rng_below(r, (uint32_t)n), b = (int)rng_below(r, (uint32_t)n),
	    op = (int)rng_below(r, 12);
	int64_t k = 1 + rng_below(r, 24);
	const struct ix *x = pool[a].x, *y = pool[b].x, *d = ix_max(&l, y, c(1));
	const struct ix *made[12] = {ix_add(&l, x, y),
				     ix_sub(&l, x, y),
				     ix_mul(&l, x, c(k - 8)),
				     ix_div(&l, x, c(k)),
				     ix_mod(&l, x, c(k)),
				     ix_min(&l, x, y),
				     ix_max(&l, x, y),
				     ix_lt(&l, x, y),
				     ix_eq(&l, x, y),
				     ix_div(&l, x, d),
				     ix_div(&l, ix_add(&l, d, c(k)), d),
				     ix_mod(&l, x, d)};
	pool[n].x = made[op];
	for (int i = 0; i < POINTS; i++) {
		int64_t p = pool[a].v[i], q = pool[b].v[i], e = q > 1 ? q : 1;
		const int64_t v[12] = {p + q,
				       p - q,
				       p * (k - 8),
				       floor_div(p, k),
				       p - k * floor_div(p, k),
				       p < q ? p : q,
				       p > q ? p : q,
				       p < q,
				       p == q,
				       floor_div(p, e),
				       floor_div(e + k, e),
				       p - e * floor_div(p, e)};
		pool[n].v[i] = v[op];
	}
}

TEST(ix_random_expressions_mean_what_they_say)
{
	for (uint64_t seed = 1; seed <= 400 && !test_bad; seed++) {
		struct rng r;
		int64_t vars[POINTS][8] = {{0}}, params[1];
		rng_seed(&r, seed);
		fresh();
		loops_entry(&l, c(1));
		for (int i = 0; i < 4; i++) {
			int64_t step = 1 + rng_below(&r, 5), n = 1 + rng_below(&r, 60);
			struct stmt *f = for_begin(&l, c(0), c(n), step, true, &pool[i].x);
			for (int k = 0; k < POINTS; k++)
				pool[i].v[k] = vars[k][f->var] =
				    step * rng_below(&r, (uint32_t)((n + step - 1) / step));
		}
		for (int n = 4; n < POOL && !l.failed; n++) {
			random_node(&r, n);
			const struct ix *x = pool[n].x;
			for (int k = 0; k < POINTS && !l.failed; k++) {
				int64_t v = ix_eval(x, params, vars[k], NULL);
				if (v == pool[n].v[k] && v >= x->lo && v <= x->hi)
					continue;
				printf("seed %d: node %d is %lld, not %lld, range %lld..%lld\n", (int)seed, n,
				       (long long)v, (long long)pool[n].v[k], (long long)x->lo,
				       (long long)x->hi);
				test_bad = 1;
				break;
			}
			if (x->lo < -1000000 || x->hi > 1000000)
				break;
		}
	}
}

TEST(ix_limits_make_loops_failed)
{
	fresh();
	const struct ix *x = open_loop(10);
	ix_mul(&l, ix_mul(&l, x, c(INT64_MAX / 2)), c(16));
	CHECK(l.failed);
	fresh();
	for (int i = 0; i <= LOOPS_MAX_DEPTH; i++)
		open_loop(3);
	CHECK(l.failed);
	fresh();
	for (int i = 0; i <= LOOPS_MAX_BUFS; i++)
		loops_buf(&l, "b", BUF_IN, DT_F32, c(1));
	CHECK(l.failed);
	fresh();
	for (int i = 0; i <= LOOPS_MAX_VARS; i++)
		lv_new(&l, 16);
	CHECK(l.failed);
	fresh();
	lv_new(&l, 3);
	CHECK(l.failed);
	fresh();
	const struct ix *s = c(0);
	loops_entry(&l, c(1));
	for (int i = 0; i <= IX_MAX_TERMS; i++) {
		const struct ix *v;
		struct stmt *f = for_begin(&l, c(0), c(5), 1, true, &v);
		s = ix_add(&l, s, v);
		for_end(&l, f);
	}
	CHECK(l.failed);
}

/* A dot product of n elements by 8 lanes, masked, with a guard that adds 1 once; out[i] for i in [0, 3). */
static void dot_program(int64_t n)
{
	const struct ix *x, *i;
	fresh();
	int a = loops_buf(&l, "a", BUF_IN, DT_F32, c(3 * n)), o = loops_buf(&l, "o", BUF_OUT, DT_F32, c(3));
	loops_entry(&l, c(3));
	i = ix_var(&l, l.entry[0].var);
	int acc = lv_new(&l, 8), v = lv_new(&l, 8), one = lv_new(&l, 1);
	lv_const(&l, acc, 0);
	struct stmt *f = for_begin(&l, c(0), c(n), 8, false, &x);
	struct mem m = {.buf = a, .at = ix_add(&l, ix_mul(&l, i, c(n)), x), .stride = 1};
	m.valid = ix_min(&l, c(8), ix_sub(&l, c(n), x));
	lv_load(&l, v, m);
	lv_set(&l, acc, V_FMA, v, v, acc, -1);
	for_end(&l, f);
	lv_set(&l, one, V_HADD, acc, -1, -1, -1);
	lv_store(&l, one, (struct mem){.buf = o, .at = i, .stride = 1});
	loops_entry_end(&l);
}

TEST(transposing_steps)
{
	static const float want[2][2][4] = {{{0, 10, 2, 12}, {1, 11, 3, 13}},
					    {{0, 1, 10, 11}, {2, 3, 12, 13}}};
	float in[8] = {0, 1, 2, 3, 10, 11, 12, 13}, out[4];
	void *bufs[2] = {in, out};
	for (int i = 0; i < 4; i++) {
		fresh();
		int a = loops_buf(&l, "a", BUF_IN, DT_F32, c(8)),
		    o = loops_buf(&l, "o", BUF_OUT, DT_F32, c(4));
		loops_entry(&l, c(1));
		int x = lv_new(&l, 4), y = lv_new(&l, 4), z = lv_new(&l, 4);
		lv_load(&l, x, (struct mem){.buf = a, .at = c(0), .stride = 1});
		lv_load(&l, y, (struct mem){.buf = a, .at = c(4), .stride = 1});
		lv_trn(&l, z, i & 1 ? V_TRN1 : V_TRN0, x, y, 1 + i / 2);
		lv_store(&l, z, (struct mem){.buf = o, .at = c(0), .stride = 1});
		loops_entry_end(&l);
		REQUIRE_OK(loops_check(&l));
		CHECK_OK(loops_run(&l, 0, bufs, NULL, 0, 1));
		CHECK(!memcmp(out, want[i / 2][i & 1], sizeof out));
	}
	fresh();
	loops_entry(&l, c(1));
	int v = lv_new(&l, 4);
	lv_const(&l, v, 0);
	lv_trn(&l, v, V_TRN0, v, v, 4);
	loops_entry_end(&l);
	CHECK_FAILS(loops_check(&l), E_CORRUPT, "step");
}

/* Three vectors of four lanes whose elements are interleaved in memory. */
TEST(lace_puts_vectors_between_each_other)
{
	float in[12], out[12];
	void *bufs[2] = {in, out};
	for (int i = 0; i < 12; i++)
		in[i] = (float)(i % 4 * 3 + i / 4);
	fresh();
	int a = loops_buf(&l, "a", BUF_IN, DT_F32, c(12)), o = loops_buf(&l, "o", BUF_OUT, DT_F32, c(12)),
	    x[3];
	loops_entry(&l, c(1));
	for (int m = 0; m < 3; m++)
		lv_load(&l, x[m] = lv_new(&l, 4), (struct mem){.buf = a, .at = c(4 * m), .stride = 1});
	for (int k = 0; k < 3; k++) {
		int v = lv_new(&l, 4);
		for (int m = 0; m < 3; m++)
			lv_lace(&l, v, m ? v : x[0], x[m], 3, k, m);
		lv_store(&l, v, (struct mem){.buf = o, .at = c(4 * k), .stride = 1});
	}
	loops_entry_end(&l);
	REQUIRE_OK(loops_check(&l));
	CHECK_OK(loops_run(&l, 0, bufs, NULL, 0, 1));
	for (int i = 0; i < 12; i++)
		CHECK(out[i] == (float)i);
	struct stmt *s = l.entry[0].body;
	while (s->vop != V_LACE)
		s = s->next;
	s->imm = (float)lace_imm(3, 3, 0);
	CHECK_FAILS(loops_check(&l), E_CORRUPT, "lace");
	s->imm = (float)lace_imm(5, 0, 0);
	CHECK_FAILS(loops_check(&l), E_CORRUPT, "lace");
}

TEST(run_dot)
{
	float in[3 * 13], out[3] = {0};
	void *bufs[2] = {in, out};
	for (int i = 0; i < 39; i++)
		in[i] = (float)(i % 13 + 1);
	dot_program(13);
	REQUIRE_OK(loops_check(&l));
	CHECK_OK(loops_run(&l, 0, bufs, NULL, 1, 3));
	CHECK(out[0] == 0 && out[1] == 819 && out[2] == 819);
	CHECK_FAILS(loops_run(&l, 0, bufs, NULL, 0, 4), E_CORRUPT, "extent");
	CHECK_FAILS(loops_run(&l, 1, bufs, NULL, 0, 1), E_CORRUPT, "entry");
	CHECK(loops_pressure(&l) == 2);
}

/* Runs of unequal length, of which the second reads what the first sets and the last is empty. */
TEST(interleaved_runs)
{
	fresh();
	int out = loops_buf(&l, "o", BUF_OUT, DT_F32, c(3)), v[6];
	struct stmt **mark[4];
	for (int i = 0; i < 6; i++)
		v[i] = lv_new(&l, 1);
	loops_entry(&l, c(1));
	mark[0] = loops_mark(&l);
	lv_const(&l, v[0], 2);
	lv_const(&l, v[1], 3);
	lv_set(&l, v[2], V_ADD, v[0], v[1], -1, -1);
	lv_store(&l, v[2], (struct mem){.buf = out, .at = c(0), .stride = 1});
	mark[1] = loops_mark(&l);
	lv_set(&l, v[3], V_MUL, v[1], v[1], -1, -1);
	lv_store(&l, v[3], (struct mem){.buf = out, .at = c(1), .stride = 1});
	mark[2] = loops_mark(&l);
	lv_const(&l, v[4], 7);
	mark[3] = loops_mark(&l);
	loops_interleave(&l, mark, 4);
	lv_store(&l, v[4], (struct mem){.buf = out, .at = c(2), .stride = 1});
	loops_entry_end(&l);
	static const int order[] = {0, 4, 1, 3, 2};
	const struct stmt *s = l.entry[0].body;
	for (int i = 0; i < 5; i++, s = s->next)
		REQUIRE(s && (s->op == ST_STORE ? s->a == v[3] : s->dst == v[order[i]]));
	int n = 0;
	for (; s; s = s->next)
		n++;
	CHECK(n == 3 && loops_check(&l) >= 0);
}

TEST(print_is_readable)
{
	struct buf b = {0};
	dot_program(13);
	loops_print(&l, &b);
	CHECK(strstr(buf_str(&b), "entry k0: i0 to 3\n"));
	CHECK(strstr(buf_str(&b), "  for i1 = 0 to 13 step 8\n"));
	CHECK(strstr(buf_str(&b), "    v1.8 = load a[i0 * 13 + i1] valid min(8, i1 * -1 + 13)\n"));
	CHECK(strstr(buf_str(&b), "  o[i0] = v2\n"));
	buf_free(&b);
}

/* One statement after a proper beginning: buffers a (in, 64), o (out, 64), t (table, 4); v0.8 and v1.1 set,
 * v2.8 not. */
static void beginning(void)
{
	fresh();
	loops_buf(&l, "a", BUF_IN, DT_F32, c(64));
	loops_buf(&l, "o", BUF_OUT, DT_F32, c(64));
	loops_buf(&l, "t", BUF_CONST, DT_I32, c(4));
	loops_entry(&l, c(2));
	lv_new(&l, 8);
	lv_new(&l, 1);
	lv_new(&l, 8);
	lv_const(&l, 0, 1);
	lv_const(&l, 1, 2);
}

#define REJECTED(part, ...)                                                                                  \
	do {                                                                                                 \
		beginning();                                                                                 \
		__VA_ARGS__;                                                                                 \
		loops_entry_end(&l);                                                                         \
		CHECK_FAILS(loops_check(&l), E_CORRUPT, part);                                               \
		CHECK(strstr(err_text(), "entry k0, statement 2"));                                          \
	} while (0)

TEST(check_says_where)
{
	const struct ix *x;
	beginning();
	loops_entry_end(&l);
	CHECK_OK(loops_check(&l));
	REJECTED("v2 may be used before", lv_set(&l, 0, V_ADD, 0, 2, -1, -1));
	REJECTED("add of 8 lanes from v1 of 1", lv_set(&l, 0, V_ADD, 0, 1, -1, -1));
	REJECTED("lane 8 of v0", lv_lane(&l, 1, 0, 8));
	REJECTED("no variable v3", lv_set(&l, 3, V_NEG, 0, -1, -1, -1));
	REJECTED("no buffer 5", lv_load(&l, 2, (struct mem){.buf = 5, .at = c(0), .stride = 1}));
	REJECTED("no load in groups of 1 from t, which holds i32",
		 lv_load(&l, 2, (struct mem){.buf = 2, .at = c(0), .stride = 1}));
	REJECTED("not to be written", lv_store(&l, 0, (struct mem){.buf = 0, .at = c(0), .stride = 1}));
	REJECTED("has a guard",
		 lv_store(&l, 0, (struct mem){.buf = 1, .at = c(0), .stride = 1, .guard = c(1)}));
	REJECTED("8 lanes to one element", lv_store(&l, 0, (struct mem){.buf = 1, .at = c(0)}));
	REJECTED("60 to 67 of o", lv_store(&l, 0, (struct mem){.buf = 1, .at = c(60), .stride = 1}));
	REJECTED("-8 to -1", lv_load(&l, 0, (struct mem){.buf = 0, .at = c(-8), .stride = 1}));
	REJECTED("of a are outside", lv_load(&l, 0, (struct mem){.buf = 0, .at = c(8), .stride = 8}));
	REJECTED("is no table",
		 lv_load(&l, 0, (struct mem){.buf = 0, .at = ix_table(&l, 0, c(0)), .stride = 1}));
	REJECTED("prefetch level 3", lv_prefetch(&l, 0, c(0), 3));
	beginning();
	for_end(&l, for_begin(&l, c(0), c(9), 1, true, &x));
	lv_load(&l, 0, (struct mem){.buf = 0, .at = x, .stride = 1});
	loops_entry_end(&l);
	CHECK_FAILS(loops_check(&l), E_CORRUPT, "i1 is used outside its loop");
	beginning();
	CHECK_FAILS(loops_check(&l), E_CORRUPT, "not closed");
	fresh();
	CHECK_FAILS(loops_check(&l), E_CORRUPT, "no entry");
	l.failed = true;
	CHECK_FAILS(loops_check(&l), E_INFEASIBLE, "limit");
}

/* Each node holds the one before twice, so that the tree has 2^n of them. Only what is small is walked. */
TEST(expressions_that_share_nodes_are_bounded)
{
	for (int n = 4; n <= 36; n += 16) {
		beginning();
		const struct ix *x = ix_var(&l, l.entry[0].var);
		for (int i = 0; i < n; i++)
			x = ix_table(&l, 2, ix_mod(&l, ix_mul(&l, x, ix_add(&l, x, c(1 + i))), c(64)));
		lv_load(&l, 0, (struct mem){.buf = 0, .at = ix_mod(&l, x, c(8)), .stride = 1});
		loops_entry_end(&l);
		if (n < 10)
			CHECK_OK(loops_check(&l));
		else
			CHECK_FAILS(loops_check(&l), E_CORRUPT, "its expressions have more than");
	}
}

TEST(definite_assignment)
{
	const struct ix *x;
	/* set in a loop that may not run */
	beginning();
	int n = loops_param(&l, "n", 0, 4);
	struct stmt *f = for_begin(&l, c(0), ix_param(&l, n), 1, false, &x);
	lv_const(&l, 2, 1);
	for_end(&l, f);
	lv_set(&l, 0, V_NEG, 2, -1, -1, -1);
	loops_entry_end(&l);
	CHECK_FAILS(loops_check(&l), E_CORRUPT, "v2 may be used before");
	CHECK(strstr(err_text(), "statement 4"));
	/* in one arm only, then in both */
	for (int both = 0; both < 2; both++) {
		beginning();
		n = loops_param(&l, "n", 0, 4);
		struct stmt *s = if_begin(&l, ix_lt(&l, ix_param(&l, n), c(2)));
		lv_const(&l, 2, 1);
		if_else(&l, s);
		lv_const(&l, both ? 2 : 0, 1);
		if_end(&l, s);
		lv_set(&l, 0, V_NEG, 2, -1, -1, -1);
		loops_entry_end(&l);
		CHECK(loops_check(&l) == (both ? E_OK : E_CORRUPT));
	}
}

TEST(run_finds_faults)
{
	float a[64] = {0}, o[64] = {0};
	int32_t t[4] = {0, 70, 2, 3};
	int64_t params[1] = {3};
	void *bufs[3] = {a, o, t};
	const struct ix *x;
	beginning();
	lv_load(&l, 0, (struct mem){.buf = 0, .at = ix_table(&l, 2, c(1)), .stride = 1});
	loops_entry_end(&l);
	CHECK_FAILS(loops_run(&l, 0, bufs, params, 0, 1), E_CORRUPT, "a[t[1]] is element 70, outside its 64");
	beginning();
	int n = loops_param(&l, "n", 0, 4);
	for_end(&l, for_begin(&l, ix_param(&l, n), c(3), 1, true, &x));
	loops_entry_end(&l);
	CHECK_FAILS(loops_run(&l, 0, bufs, params, 0, 1), E_CORRUPT, "at least once");
	beginning();
	n = loops_param(&l, "n", 0, 9);
	lv_load(&l, 1, (struct mem){.buf = 0, .at = ix_table(&l, 2, ix_add(&l, ix_param(&l, n), c(1)))});
	loops_entry_end(&l);
	CHECK_FAILS(loops_run(&l, 0, bufs, params, 0, 1), E_CORRUPT, "table read");
	/* a guard that is 0 touches nothing, nor does an invalid lane */
	beginning();
	lv_load(&l, 0, (struct mem){.buf = 0, .at = c(1000), .stride = 1, .guard = c(0), .fill = 7});
	lv_store(&l, 0, (struct mem){.buf = 1, .at = c(61), .stride = 1, .valid = c(3)});
	loops_entry_end(&l);
	CHECK_OK(loops_run(&l, 0, bufs, params, 0, 1));
	CHECK(o[60] == 0 && o[61] == 7 && o[63] == 7);
}

/* One operation on scalars. */
static float once(enum vop op, float p, float q, float r, float s)
{
	float in[4] = {p, q, r, s}, out[1];
	void *bufs[2] = {in, out};
	int v[5];
	arena_reset(&arena);
	loops_init(&l, &arena, true);
	loops_buf(&l, "a", BUF_IN, DT_F32, c(4));
	loops_buf(&l, "o", BUF_OUT, DT_F32, c(1));
	loops_entry(&l, c(1));
	for (int i = 0; i < 5; i++)
		v[i] = lv_new(&l, 1);
	for (int i = 0; i < 4; i++)
		lv_load(&l, v[i], (struct mem){.buf = 0, .at = c(i), .stride = 1});
	lv_set(&l, v[4], op, v[0], v[1], v[2], v[3]);
	lv_store(&l, v[4], (struct mem){.buf = 1, .at = c(0), .stride = 1});
	loops_entry_end(&l);
	CHECK_OK(loops_check(&l));
	CHECK_OK(loops_run(&l, 0, bufs, NULL, 0, 1));
	return out[0];
}

static int same_bits(float a, float b)
{
	return memcmp(&a, &b, 4) == 0;
}

TEST(arithmetic_flushes)
{
	const float sub = 0x1p-127f, min = 0x1p-126f, below_one = 0x1.fffffep-1f;
	CHECK(once(V_ADD, sub, sub, 0, 0) == 0 && once(V_ADD, 0x1.8p-126f, -min, 0, 0) == 0);
	CHECK(same_bits(once(V_SUB, -0x1.8p-126f, -min, 0, 0), -0.0f));
	CHECK(once(V_MUL, min, below_one, 0, 0) == 0);
	/* 2^-126 (1 - 2^-48), rounded before tininess is looked at: the smallest normal */
	CHECK(once(V_MUL, 0x1.000002p-63f, 0x1.fffffcp-64f, 0, 0) == min);
	CHECK(once(V_FMA, 0x1.000002p-63f, 0x1.fffffcp-64f, 0.0f, 0) == min);
	CHECK(once(V_FMA, min, 1, -0x1.4p-126f * 0x1p0f, 0) == 0);
	CHECK(once(V_DIV, min, 2, 0, 0) == 0 && once(V_DIV, 1, sub, 0, 0) > 3e38f);
	CHECK(same_bits(once(V_MIN, 1, -sub, 0, 0), -0.0f) && same_bits(once(V_NEG, sub, 0, 0, 0), -sub));
	CHECK(once(V_SEL_EQ, sub, 0, sub, 3) == sub && once(V_SEL_LT, 0, sub, 1, 2) == 2);
	CHECK(same_bits(once(V_FLOOR, -sub, 0, 0, 0), -0.0f) && once(V_RINT, 2.5f, 0, 0, 0) == 2);
	CHECK(once(V_POW2, 0x1.8p23f + 1, 0, 0, 0) == min && once(V_POW2, 0x1.8p23f, 0, 0, 0) == 0 &&
	      once(V_POW2, 0x1.8p23f + 134, 0, 0, 0) == 128 && once(V_GETEXP, 12, 0, 0, 0) == 3 &&
	      once(V_GETMANT, 12, 0, 0, 0) == 1.5f);
	/* the second operand where the comparison does not hold */
	CHECK(once(V_MAX, NAN, 5, 0, 0) == 5 && isnan(once(V_MAX, 5, NAN, 0, 0)) &&
	      same_bits(once(V_MIN, 0.0f, -0.0f, 0, 0), -0.0f));
}

/* A finite f16 is the returned number times 2^(exp - 24). */
static uint64_t digits(uint16_t h, int *exp)
{
	int e = h >> 10 & 31;
	*exp = e ? e - 1 : 0;
	return e ? (h & 0x3ff) | 0x400 : h & 0x3ff;
}

/* a * b + c rounded to f16, in whole numbers below 2^64. For finite operands. */
static uint16_t slow_fma(uint16_t a, uint16_t b, uint16_t c16)
{
	int ea, eb, ec;
	uint64_t p = digits(a, &ea) * digits(b, &eb), s = digits(c16, &ec);
	int low = ea + eb < 24 ? ea + eb : 24; /* both count 2^(low - 48) */
	p <<= ea + eb - low;
	s <<= 24 + ec - low;
	unsigned minus_p = (a ^ b) >> 15, minus_s = c16 >> 15;
	uint64_t m = minus_p == minus_s ? p + s : p > s ? p - s : s - p;
	/* -0 is the sum of two of them */
	unsigned sign = p > s ? minus_p : p < s ? minus_s : minus_p & minus_s;
	int drop = 24 - low; /* bits below the last digit */
	while (m >> drop >= 2048)
		drop++;
	uint64_t q = m >> drop, last = 1ull << drop, rest = m - (q << drop);
	q += 2 * rest > last || (2 * rest == last && (q & 1));
	int exp = drop + low - 24; /* q 2^exp units of 2^-24; 2048 is 1024 of the next exponent */
	if (q == 2048) {
		q = 1024;
		exp++;
	}
	if (exp > 29)
		return (uint16_t)(sign << 15 | 0x7c00);
	return (uint16_t)(sign << 15 |
			  (q < 1024 ? (unsigned)q : (unsigned)(exp + 1) << 10 | ((unsigned)q & 0x3ff)));
}

enum { TRIPLES = 32 };

static void fma2_program(void)
{
	fresh();
	l.f16 = true;
	int v[3];
	for (int i = 0; i < 3; i++)
		loops_buf(&l, (const char[]){"abc"[i], 0}, BUF_IN, DT_F16, c(TRIPLES));
	loops_buf(&l, "r", BUF_OUT, DT_F16, c(TRIPLES));
	loops_entry(&l, c(1));
	for (int i = 0; i < 3; i++)
		lv_load(&l, v[i] = lv_new_s32(&l, TRIPLES / 2),
			(struct mem){.buf = i, .at = c(0), .stride = 2, .group = 2});
	lv_set(&l, v[0], V_FMA2, v[0], v[1], v[2], -1);
	lv_store(&l, v[0], (struct mem){.buf = 3, .at = c(0), .stride = 2, .group = 2});
	loops_entry_end(&l);
	REQUIRE_OK(loops_check(&l));
}

/* A sum near a tie, near the largest number, among subnormals, or any. */
static void some_triple(struct rng *r, uint16_t *a, uint16_t *b, uint16_t *s)
{
	*a = (uint16_t)rng_u64(r);
	*b = (uint16_t)rng_u64(r);
	*s = (uint16_t)rng_u64(r);
	int kind = (int)rng_below(r, 4), to = kind == 1 ? 29 : kind == 2 ? 2 : 4 + (int)rng_below(r, 20);
	if (kind == 3)
		return;
	int e = 5 + (int)rng_below(r, 20), f = to + 15 - e, g = to + (int)rng_below(r, 26) - 13;
	uint16_t few = rng_below(r, 2) ? 0x8300 : 0x83ff; /* sums with few digits are ties more often */
	*a = (uint16_t)((*a & few) | e << 10);
	*b = (uint16_t)((*b & few) | (f < 0 ? 0 : f > 30 ? 30 : f) << 10);
	*s = (uint16_t)((*s & 0x83ff) | (g < 0 ? 0 : g > 30 ? 30 : g) << 10);
}

TEST(f16_sums_are_rounded_once)
{
	struct rng r;
	uint16_t x[4][TRIPLES];
	void *bufs[4] = {x[0], x[1], x[2], x[3]};
	int ties = 0, infinite = 0, subnormal = 0;
	rng_seed(&r, 5);
	fma2_program();
	for (int n = 0; n < 20000; n++) {
		for (int i = 0; i < TRIPLES; i++)
			some_triple(&r, &x[0][i], &x[1][i], &x[2][i]);
		REQUIRE_OK(loops_run(&l, 0, bufs, NULL, 0, 1));
		for (int i = 0; i < TRIPLES; i++) {
			uint16_t a = x[0][i], b = x[1][i], s = x[2][i], got = x[3][i];
			if ((a & 0x7c00) == 0x7c00 || (b & 0x7c00) == 0x7c00 || (s & 0x7c00) == 0x7c00) {
				float want = f16_to_f32(a) * f16_to_f32(b) + f16_to_f32(s);
				CHECK(isnan(want) ? (got & 0x7fff) > 0x7c00 : got == f32_to_f16(want));
				continue;
			}
			if (got != slow_fma(a, b, s)) {
				printf("%04x * %04x + %04x is %04x, must be %04x\n", a, b, s, got,
				       slow_fma(a, b, s));
				test_bad = 1;
				return;
			}
			double twice = (double)f16_to_f32(a) * f16_to_f32(b) + f16_to_f32(s);
			ties += f32_to_f16((float)twice) != got;
			infinite += (got & 0x7fff) == 0x7c00;
			subnormal += (got & 0x7c00) == 0 && got & 0x3ff;
		}
	}
	printf("%d sums that f32 rounds wrong, %d infinite, %d subnormal\n", ties, infinite, subnormal);
	CHECK(ties > 10 && infinite > 1000 && subnormal > 1000);
}

/* Products of 2 x 8 and 8 x 2 bytes by the definition of the matrix product; extremes are frequent. */
TEST(blocks_are_products_of_matrices)
{
	struct rng r;
	rng_seed(&r, 9);
	for (int n = 0; n < 3000; n++) {
		uint8_t a[64], b[64];
		int32_t sum[16], got[16];
		void *bufs[4] = {a, b, sum, got};
		int lanes = 4 << n % 3, v[3];
		bool is_signed = n % 2;
		for (int i = 0; i < 64; i++) {
			static const uint8_t odd[] = {0, 127, 128, 255};
			a[i] = rng_below(&r, 2) ? odd[rng_below(&r, 4)] : (uint8_t)rng_u64(&r);
			b[i] = rng_below(&r, 2) ? odd[rng_below(&r, 4)] : (uint8_t)rng_u64(&r);
			sum[i % 16] = (int32_t)rng_u64(&r) / 2;
		}
		fresh();
		l.blocks = true;
		loops_buf(&l, "a", BUF_IN, is_signed ? DT_I8 : DT_U8, c(64));
		loops_buf(&l, "b", BUF_IN, DT_I8, c(64));
		loops_buf(&l, "c", BUF_IN, DT_I32, c(16));
		loops_buf(&l, "r", BUF_OUT, DT_I32, c(16));
		loops_entry(&l, c(1));
		for (int i = 0; i < 3; i++)
			lv_load(&l, v[i] = lv_new_s32(&l, lanes),
				(struct mem){
				    .buf = i, .at = c(0), .stride = i < 2 ? 4 : 1, .group = i < 2 ? 4 : 1});
		lv_set(&l, v[2], is_signed ? V_MMLAS : V_MMLAU, v[0], v[1], v[2], -1);
		lv_store(&l, v[2], (struct mem){.buf = 3, .at = c(0), .stride = 1});
		loops_entry_end(&l);
		REQUIRE_OK(loops_check(&l));
		REQUIRE_OK(loops_run(&l, 0, bufs, NULL, 0, 1));
		for (int i = 0; i < lanes; i++) {
			const uint8_t *row = a + i / 4 * 16 + i % 4 / 2 * 8,
				      *column = b + i / 4 * 16 + i % 2 * 8;
			int32_t want = sum[i];
			for (int k = 0; k < 8; k++)
				want += (is_signed ? (int8_t)row[k] : row[k]) * (int8_t)column[k];
			CHECK(got[i] == want);
		}
	}
}

/* Both f16 are added first, then the f32. */
TEST(f16_pairs_are_added_in_order)
{
	static const struct {
		float first, second, sum, want;
	} of[] = {{1, 2, 4, 7},
		  {1, 1, 0x1p24f, 0x1p24f + 2}, /* not 2^24 twice */
		  {1, -1, 0x1p-126f, 0x1p-126f},
		  {0x1p-24f, 0, 0, 0x1p-24f},
		  {0, 0, 0x1p-127f, 0}, /* flushed */
		  {-INFINITY, 1, 5, -INFINITY},
		  {65504, 65504, 0, 131008}};
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		uint16_t pair[2] = {f32_to_f16(of[i].first), f32_to_f16(of[i].second)};
		float sum = of[i].sum, got = 0;
		void *bufs[3] = {pair, &sum, &got};
		fresh();
		l.f16 = true;
		loops_buf(&l, "a", BUF_IN, DT_F16, c(2));
		loops_buf(&l, "c", BUF_IN, DT_F32, c(1));
		loops_buf(&l, "r", BUF_OUT, DT_F32, c(1));
		int a = lv_new_s32(&l, 1), v = lv_new(&l, 1);
		loops_entry(&l, c(1));
		lv_load(&l, a, (struct mem){.buf = 0, .at = c(0), .stride = 2, .group = 2});
		lv_load(&l, v, (struct mem){.buf = 1, .at = c(0), .stride = 1});
		lv_set(&l, v, V_SUM2, a, v, -1, -1);
		lv_store(&l, v, (struct mem){.buf = 2, .at = c(0), .stride = 1});
		loops_entry_end(&l);
		REQUIRE_OK(loops_check(&l));
		REQUIRE_OK(loops_run(&l, 0, bufs, NULL, 0, 1));
		CHECK(got == of[i].want);
	}
}

TEST_MAIN
