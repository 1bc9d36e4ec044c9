/* SPDX-License-Identifier: Apache-2.0 */
/* Division, comparison and evaluation of integer expressions. */
#include "kernels/loops/loops_ix.h"

/* Division. */

static int64_t gcd(int64_t a, int64_t b)
{
	while (b) {
		int64_t t = a % b;
		a = b;
		b = t;
	}
	return a < 0 ? -a : a;
}

/* x = d * q + r: terms divisible by d go into q, the rest into r with 0 <= r's constant < d. */
static bool split(const struct ix *x, int64_t d, struct sum *q, struct sum *r)
{
	struct sum s = {0};
	ix_sum_add(&s, x, 1);
	q->c = ix_floor_div(s.c, d);
	r->c = ix_floor_mod(s.c, d);
	q->n = r->n = 0;
	q->bad = r->bad = false;
	for (int i = 0; i < s.n; i++) {
		bool whole = s.coef[i] % d == 0;
		ix_sum_term(whole ? q : r, whole ? s.coef[i] / d : s.coef[i], s.atom[i], NULL);
	}
	return !s.bad;
}

/* Divides r and d by their common factor g: floor((g*e + c) / (g*d)) = floor((e + floor(c/g)) / d). Returns
 * g; *low = c mod g. */
static int64_t reduce(struct sum *r, int64_t *d, int64_t *low)
{
	int64_t g = *d;
	for (int i = 0; i < r->n; i++)
		g = gcd(r->coef[i], g);
	*low = ix_floor_mod(r->c, g);
	r->c = ix_floor_div(r->c, g);
	*d /= g;
	for (int i = 0; i < r->n; i++) {
		r->coef[i] /= g;
		r->term[i] = NULL;
	}
	return g;
}

static struct range difference(const struct ix *a, const struct ix *b)
{
	struct sum s;
	s.c = 0;
	s.n = 0;
	s.bad = false;
	ix_sum_add(&s, a, 1);
	ix_sum_add(&s, b, -1);
	return s.bad ? (struct range){NEG_INF, POS_INF} : ix_sum_range(&s);
}

/* Whether a is a loop variable that starts at 0 or above and ends below b. */
static bool runs_below(const struct loops *l, const struct ix *a, const struct ix *b)
{
	return a->op == IX_VAR && a->lo >= 0 && ix_same(l->loopvar[a->id].hi, b);
}

/* floor(r / d), if r's range lies within one multiple of d. */
static bool one_quotient(struct range r, int64_t d, int64_t *q)
{
	if (inf(r.lo) || inf(r.hi))
		return false;
	*q = ix_floor_div(r.lo, d);
	return *q == ix_floor_div(r.hi, d);
}

static const struct ix *div_const(struct loops *l, const struct ix *a, int64_t d)
{
	struct sum q, r;
	int64_t k, low;
	if (!split(a, d, &q, &r)) {
		l->failed = true;
		return a;
	}
	if (one_quotient(ix_sum_range(&r), d, &k)) {
		q.bad |= __builtin_add_overflow(q.c, k, &q.c);
		return ix_sum(l, &q);
	}
	reduce(&r, &d, &low);
	const struct ix *rest = ix_sum(l, &r), *e;
	if (rest->op == IX_DIV && rest->b->op == IX_CONST && rest->b->c < INT32_MAX && d < INT32_MAX)
		e = ix_div(l, rest->a, ix_constant(l, rest->b->c * d));
	else
		e = d == 1 ? rest
			   : ix_node(l, IX_DIV, 0, rest, ix_constant(l, d),
				     range_div(range_of(rest), (struct range){d, d}));
	ix_sum_add(&q, e, 1);
	return ix_sum(l, &q);
}

/* The range of floor(a / b). Where a is b and something known, as in (b + n - 1) / b, which is n / b rounded
 * up, it is narrower than the ranges of a and b alone say. */
static struct range quotient(const struct ix *a, const struct ix *b)
{
	struct range r = range_div(range_of(a), range_of(b)), more = difference(a, b);
	if (b->lo < 1 || more.lo < 0 || inf(more.hi))
		return r;
	int64_t most = 1 + more.hi / b->lo;
	return (struct range){r.lo > 1 ? r.lo : 1, r.hi < most ? r.hi : most};
}

const struct ix *ix_div(struct loops *l, const struct ix *a, const struct ix *b)
{
	if (a->op == IX_CONST && b->op == IX_CONST)
		return ix_constant(l, ix_floor_div(a->c, b->c));
	if (b->op == IX_CONST && b->c == 1)
		return a;
	if (b->op == IX_CONST && b->c > 1)
		return div_const(l, a, b->c);
	if (runs_below(l, a, b) || (a->lo >= 0 && a->hi < b->lo))
		return ix_constant(l, 0);
	if (ix_same(a, b) && a->lo >= 1)
		return ix_constant(l, 1);
	return ix_node(l, IX_DIV, 0, a, b, quotient(a, b));
}

static const struct ix *mod_const(struct loops *l, const struct ix *a, int64_t d)
{
	struct sum q, r;
	int64_t k, low, m = d;
	if (!split(a, d, &q, &r)) {
		l->failed = true;
		return a;
	}
	if (one_quotient(ix_sum_range(&r), d, &k)) {
		r.c -= k * d;
		return ix_sum(l, &r);
	}
	int64_t g = reduce(&r, &m, &low);
	const struct ix *rest = ix_sum(l, &r);
	while (rest->op == IX_MOD && rest->b->op == IX_CONST && rest->b->c % m == 0)
		rest = rest->a;
	rest = m == 1 ? ix_constant(l, 0)
		      : ix_node(l, IX_MOD, 0, rest, ix_constant(l, m), (struct range){0, m - 1});
	return ix_linear(l, rest, g, ix_constant(l, low), 1);
}

const struct ix *ix_mod(struct loops *l, const struct ix *a, const struct ix *b)
{
	if (a->op == IX_CONST && b->op == IX_CONST)
		return ix_constant(l, ix_floor_mod(a->c, b->c));
	if (b->op == IX_CONST && b->c == 1)
		return ix_constant(l, 0);
	if (b->op == IX_CONST && b->c > 1)
		return mod_const(l, a, b->c);
	if (runs_below(l, a, b) || (a->lo >= 0 && a->hi < b->lo))
		return a;
	if (ix_same(a, b))
		return ix_constant(l, 0);
	int64_t hi = inf(b->hi) ? POS_INF : b->hi - 1;
	if (a->lo >= 0 && a->hi < hi)
		hi = a->hi;
	return ix_node(l, IX_MOD, 0, a, b, (struct range){0, hi});
}

/* Comparisons. */

const struct ix *ix_min(struct loops *l, const struct ix *a, const struct ix *b)
{
	struct range d = difference(a, b);
	if (d.hi <= 0)
		return a;
	if (d.lo >= 0)
		return b;
	if (ix_compare(a, b) > 0) {
		const struct ix *t = a;
		a = b;
		b = t;
	}
	return ix_node(l, IX_MIN, 0, a, b,
		       (struct range){a->lo < b->lo ? a->lo : b->lo, a->hi < b->hi ? a->hi : b->hi});
}

const struct ix *ix_max(struct loops *l, const struct ix *a, const struct ix *b)
{
	struct range d = difference(a, b);
	if (d.lo >= 0)
		return a;
	if (d.hi <= 0)
		return b;
	if (ix_compare(a, b) > 0) {
		const struct ix *t = a;
		a = b;
		b = t;
	}
	return ix_node(l, IX_MAX, 0, a, b,
		       (struct range){a->lo > b->lo ? a->lo : b->lo, a->hi > b->hi ? a->hi : b->hi});
}

const struct ix *ix_lt(struct loops *l, const struct ix *a, const struct ix *b)
{
	struct range d = difference(a, b);
	if (a->op == IX_VAR && ix_same(l->loopvar[a->id].hi, b))
		return ix_constant(l, 1);
	return ix_node(l, IX_LT, 0, a, b, (struct range){d.hi < 0, d.lo < 0});
}

const struct ix *ix_eq(struct loops *l, const struct ix *a, const struct ix *b)
{
	struct range d = difference(a, b);
	return ix_node(l, IX_EQ, 0, a, b, (struct range){d.lo == 0 && d.hi == 0, d.lo <= 0 && d.hi >= 0});
}

const struct ix *ix_table(struct loops *l, int buf, const struct ix *at)
{
	return ix_node(l, IX_TABLE, buf, at, NULL, (struct range){l->buf[buf].lo, l->buf[buf].hi});
}

const struct ix *ix_atom(struct loops *l, const struct ix *x)
{
	return x->op == IX_ADD ? ix_node(l, IX_MIN, 0, x, x, (struct range){x->lo, x->hi}) : x;
}

/* Evaluation. */

static int64_t table_read(int buf, int64_t at, struct ix_env *e)
{
	if (e->elems && (at < 0 || at >= e->elems[buf])) {
		e->bad = true;
		return 0;
	}
	return ((const int32_t *)e->bufs[buf])[at];
}

static int64_t apply(enum ix_op op, int64_t a, int64_t b)
{
	switch (op) {
	case IX_ADD:
		return (int64_t)((uint64_t)a + (uint64_t)b);
	case IX_MUL:
		return (int64_t)((uint64_t)a * (uint64_t)b);
	case IX_DIV:
		return ix_floor_div(a, b);
	case IX_MOD:
		return ix_floor_mod(a, b);
	case IX_MIN:
		return a < b ? a : b;
	case IX_MAX:
		return a > b ? a : b;
	case IX_LT:
		return a < b;
	default:
		return a == b;
	}
}

/* Recursion is bounded by IX_MAX_HEIGHT. */
int64_t ix_eval_env(const struct ix *x, struct ix_env *e)
{
	switch (x->op) {
	case IX_CONST:
		return x->c;
	case IX_VAR:
		return e->vars[x->id];
	case IX_PARAM:
		return e->params[x->id];
	case IX_TABLE:
		return table_read(x->id, ix_eval_env(x->a, e), e);
	default:
		return apply(x->op, ix_eval_env(x->a, e), ix_eval_env(x->b, e));
	}
}

int64_t ix_eval(const struct ix *x, const int64_t *params, const int64_t *vars, void *const *bufs)
{
	return ix_eval_env(x, &(struct ix_env){params, vars, bufs, NULL, false});
}
