/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/loops.h"
#include "platform/rng.h"
#include "tests/test.h"

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

/* An open loop over [0, n) at the top of a new entry; its variable. */
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

/* Random expressions next to a value computed directly from the same operands: for 64 valuations each. */

enum { POINTS = 64, POOL = 40 };
static struct {
	const struct ix *x;
	int64_t v[POINTS];
} pool[POOL];

static int64_t fdiv(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

static void random_node(struct rng *r, int n)
{
	int a = (int)rng_below(r, (uint32_t)n), b = (int)rng_below(r, (uint32_t)n), op = (int)rng_below(r, 9);
	int64_t k = 1 + rng_below(r, 24);
	const struct ix *x = pool[a].x, *y = pool[b].x;
	const struct ix *made[9] = {ix_add(&l, x, y),    ix_sub(&l, x, y),    ix_mul(&l, x, c(k - 8)),
				    ix_div(&l, x, c(k)), ix_mod(&l, x, c(k)), ix_min(&l, x, y),
				    ix_max(&l, x, y),    ix_lt(&l, x, y),     ix_eq(&l, x, y)};
	pool[n].x = made[op];
	for (int i = 0; i < POINTS; i++) {
		int64_t p = pool[a].v[i], q = pool[b].v[i];
		const int64_t v[9] = {
		    p + q,         p - q,         p * (k - 8), fdiv(p, k), p - k * fdiv(p, k),
		    p < q ? p : q, p > q ? p : q, p < q,       p == q};
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

TEST_MAIN
