/* SPDX-License-Identifier: Apache-2.0 */
/* Integer expressions, simplified when made.
 *
 * Canonical form: a sum is a left chain ADD(ADD(t1, t2), ...) of terms in the order of term_less, a constant
 * last; a term is an atom or MUL(atom, constant); an atom is no sum and no constant; a product of atoms is a
 * left chain MUL(MUL(f1, f2), f3) in the same order. An expression whose range is one value is that constant.
 * So equal sums have equal structure. */
#include "kernels/loops.h"
#include <string.h>

#define NEG_INF INT64_MIN
#define POS_INF INT64_MAX

struct range {
	int64_t lo, hi;
};

struct sum {
	int64_t c;
	int n;
	bool bad; /* overflow of a coefficient, or too many terms */
	int64_t coef[IX_MAX_TERMS];
	const struct ix *atom[IX_MAX_TERMS];
	const struct ix *term[IX_MAX_TERMS]; /* the node coef * atom where there is one already */
};

/* Ranges. INT64_MIN and INT64_MAX stand for infinity; what overflows is infinite. */

static bool inf(int64_t v)
{
	return v == NEG_INF || v == POS_INF;
}

static int64_t add_sat(int64_t a, int64_t b, int64_t over)
{
	int64_t r;
	return inf(a) || inf(b) || __builtin_add_overflow(a, b, &r) ? over : r;
}

static int64_t mul_sat(int64_t a, int64_t b)
{
	int64_t r;
	if (a == 0 || b == 0)
		return 0;
	if (inf(a) || inf(b) || __builtin_mul_overflow(a, b, &r))
		return (a < 0) == (b < 0) ? POS_INF : NEG_INF;
	return r;
}

static struct range range_add(struct range a, struct range b)
{
	return (struct range){add_sat(a.lo, b.lo, NEG_INF), add_sat(a.hi, b.hi, POS_INF)};
}

static struct range range_mul(struct range a, struct range b)
{
	int64_t p[4] = {mul_sat(a.lo, b.lo), mul_sat(a.lo, b.hi), mul_sat(a.hi, b.lo), mul_sat(a.hi, b.hi)};
	struct range r = {p[0], p[0]};
	for (int i = 1; i < 4; i++) {
		r.lo = p[i] < r.lo ? p[i] : r.lo;
		r.hi = p[i] > r.hi ? p[i] : r.hi;
	}
	return r;
}

static struct range range_of(const struct ix *x)
{
	return (struct range){x->lo, x->hi};
}

static int64_t floor_div(int64_t a, int64_t b)
{
	if (b == 0)
		return 0;
	if (b == -1)
		return a == INT64_MIN ? a : -a;
	int64_t q = a / b;
	return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}

static int64_t floor_mod(int64_t a, int64_t b)
{
	if (b == 0 || b == -1)
		return 0;
	int64_t r = a % b;
	return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* Of floor(a / b), b >= 1. */
static struct range range_div(struct range a, struct range b)
{
	struct range r = {a.lo, a.hi};
	int64_t small = b.lo >= 1 ? b.lo : 1;
	if (!inf(a.lo))
		r.lo = a.lo < 0 ? floor_div(a.lo, small) : inf(b.hi) ? 0 : floor_div(a.lo, b.hi);
	if (!inf(a.hi))
		r.hi = a.hi >= 0 ? floor_div(a.hi, small) : inf(b.hi) ? -1 : floor_div(a.hi, b.hi);
	return r;
}

/* Nodes. */

static uint32_t mix(uint32_t h, uint64_t v)
{
	uint64_t m = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(m >> 32) ^ (uint32_t)m;
}

static const struct ix *constant(struct loops *l, int64_t c)
{
	struct ix *x = ARENA_NEW(l->arena, struct ix);
	*x = (struct ix){
	    .op = IX_CONST, .c = c, .lo = c, .hi = c, .height = 1, .hash = mix(IX_CONST, (uint64_t)c)};
	return x;
}

static const struct ix *node(struct loops *l, enum ix_op op, int id, const struct ix *a, const struct ix *b,
			     struct range r)
{
	if (r.lo == r.hi)
		return constant(l, r.lo);
	int depth = a ? a->depth : 0, height = a ? a->height : 0;
	uint32_t hash = mix(mix((uint32_t)op + 77, (uint64_t)id), a ? a->hash : 0);
	if (b) {
		depth = b->depth > depth ? b->depth : depth;
		height = b->height > height ? b->height : height;
		hash = mix(hash, b->hash + 1);
	}
	if (height >= IX_MAX_HEIGHT) {
		l->failed = true;
		return constant(l, 0);
	}
	struct ix *x = ARENA_NEW(l->arena, struct ix);
	*x = (struct ix){op, id, hash, height + 1, 0, a, b, r.lo, r.hi, depth};
	return x;
}

const struct ix *ix_c(struct loops *l, int64_t c)
{
	return constant(l, c);
}

const struct ix *ix_param(struct loops *l, int param)
{
	return node(l, IX_PARAM, param, NULL, NULL, (struct range){l->param[param].lo, l->param[param].hi});
}

bool ix_is_const(const struct ix *x, int64_t *c)
{
	if (x->op != IX_CONST)
		return false;
	*c = x->c;
	return true;
}

/* A total order of structures, equal only where the structure is; depth first. Recursion is bounded by
 * IX_MAX_HEIGHT. */
static int compare(const struct ix *a, const struct ix *b)
{
	if (a == b)
		return 0;
	if (a->depth != b->depth)
		return a->depth < b->depth ? -1 : 1;
	if (a->op != b->op)
		return a->op < b->op ? -1 : 1;
	if (a->id != b->id)
		return a->id < b->id ? -1 : 1;
	if (a->c != b->c)
		return a->c < b->c ? -1 : 1;
	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	int r = a->a ? compare(a->a, b->a) : 0;
	return r || !a->b ? r : compare(a->b, b->b);
}

bool ix_same(const struct ix *a, const struct ix *b)
{
	return a == b || (a->hash == b->hash && compare(a, b) == 0);
}

/* Sums. */

static void sum_term(struct sum *s, int64_t coef, const struct ix *atom, const struct ix *term)
{
	int i = 0, r = 1;
	while (i < s->n && (r = compare(s->atom[i], atom)) < 0)
		i++;
	if (i < s->n && r == 0) {
		s->bad |= __builtin_add_overflow(s->coef[i], coef, &s->coef[i]);
		s->term[i] = NULL;
		if (s->coef[i])
			return;
		s->n--;
		memmove(&s->coef[i], &s->coef[i + 1], (size_t)(s->n - i) * sizeof s->coef[0]);
		memmove(&s->atom[i], &s->atom[i + 1], (size_t)(s->n - i) * sizeof s->atom[0]);
		memmove(&s->term[i], &s->term[i + 1], (size_t)(s->n - i) * sizeof s->term[0]);
		return;
	}
	if (s->n == IX_MAX_TERMS) {
		s->bad = true;
		return;
	}
	memmove(&s->coef[i + 1], &s->coef[i], (size_t)(s->n - i) * sizeof s->coef[0]);
	memmove(&s->atom[i + 1], &s->atom[i], (size_t)(s->n - i) * sizeof s->atom[0]);
	memmove(&s->term[i + 1], &s->term[i], (size_t)(s->n - i) * sizeof s->term[0]);
	s->coef[i] = coef;
	s->atom[i] = atom;
	s->term[i] = term;
	s->n++;
}

/* s += k * t, t one term of a canonical sum. */
static void sum_one(struct sum *s, const struct ix *t, int64_t k)
{
	int64_t v, coef = 1;
	const struct ix *atom = t;
	if (t->op == IX_CONST) {
		s->bad |= __builtin_mul_overflow(t->c, k, &v) || __builtin_add_overflow(s->c, v, &s->c);
		return;
	}
	if (t->op == IX_MUL && t->b->op == IX_CONST) {
		coef = t->b->c;
		atom = t->a;
	}
	s->bad |= __builtin_mul_overflow(coef, k, &v);
	sum_term(s, v, atom, v == coef ? t : NULL);
}

/* s += k * x */
static void sum_add(struct sum *s, const struct ix *x, int64_t k)
{
	if (k == 0)
		return;
	for (; x->op == IX_ADD; x = x->a)
		sum_one(s, x->b, k);
	sum_one(s, x, k);
}

/* k*d * (e div d) + k * (e mod d) = k * e */
static bool join_div_mod(struct sum *s)
{
	for (int i = 0; i < s->n; i++) {
		int64_t want;
		const struct ix *m = s->atom[i];
		if (m->op != IX_MOD || m->b->op != IX_CONST ||
		    __builtin_mul_overflow(s->coef[i], m->b->c, &want))
			continue;
		for (int j = 0; j < s->n; j++) {
			const struct ix *d = s->atom[j];
			if (d->op != IX_DIV || s->coef[j] != want || !ix_same(d->a, m->a) ||
			    !ix_same(d->b, m->b))
				continue;
			int64_t k = s->coef[i];
			sum_term(s, -k, m, NULL);
			sum_term(s, -want, d, NULL);
			sum_add(s, m->a, k);
			return true;
		}
	}
	return false;
}

static struct range term_range(const struct sum *s, int i)
{
	if (s->term[i])
		return range_of(s->term[i]);
	return range_mul(range_of(s->atom[i]), (struct range){s->coef[i], s->coef[i]});
}

static struct range sum_range(const struct sum *s)
{
	struct range r = {s->c, s->c};
	for (int i = 0; i < s->n; i++)
		r = range_add(r, term_range(s, i));
	return r;
}

static const struct ix *sum_ix(struct loops *l, struct sum *s)
{
	while (join_div_mod(s))
		;
	if (s->bad) {
		l->failed = true;
		return constant(l, 0);
	}
	const struct ix *x = NULL;
	for (int i = 0; i < s->n; i++) {
		const struct ix *t = s->term[i];
		if (!t && s->coef[i] == 1)
			t = s->atom[i];
		if (!t)
			t = node(l, IX_MUL, 0, s->atom[i], constant(l, s->coef[i]), term_range(s, i));
		x = x ? node(l, IX_ADD, 0, x, t, range_add(range_of(x), range_of(t))) : t;
	}
	if (!x)
		return constant(l, s->c);
	if (!s->c)
		return x;
	struct range c = {s->c, s->c};
	return node(l, IX_ADD, 0, x, constant(l, s->c), range_add(range_of(x), c));
}

static const struct ix *linear(struct loops *l, const struct ix *a, int64_t ka, const struct ix *b,
			       int64_t kb)
{
	struct sum s;
	s.c = 0;
	s.n = 0;
	s.bad = false;
	sum_add(&s, a, ka);
	sum_add(&s, b, kb);
	return sum_ix(l, &s);
}

const struct ix *ix_add(struct loops *l, const struct ix *a, const struct ix *b)
{
	if (a->op == IX_CONST && a->c == 0)
		return b;
	if (b->op == IX_CONST && b->c == 0)
		return a;
	return linear(l, a, 1, b, 1);
}

const struct ix *ix_sub(struct loops *l, const struct ix *a, const struct ix *b)
{
	if (b->op == IX_CONST && b->c == 0)
		return a;
	return linear(l, a, 1, b, -1);
}

int ix_terms(const struct ix *x, int64_t *c, int max, int64_t *coef, const struct ix **atom)
{
	struct sum s;
	s.c = 0;
	s.n = 0;
	s.bad = false;
	sum_add(&s, x, 1);
	if (s.bad || s.n > max)
		return -1;
	*c = s.c;
	memcpy(coef, s.coef, (size_t)s.n * sizeof *coef);
	memcpy(atom, s.atom, (size_t)s.n * sizeof *atom);
	return s.n;
}

/* Products. */

/* The product of two atoms, its factors merged in order. */
static const struct ix *atom_product(struct loops *l, const struct ix *a, const struct ix *b)
{
	const struct ix *f[2 * IX_MAX_TERMS];
	int n = 0;
	for (int k = 0; k < 2; k++) {
		const struct ix *x = k ? b : a;
		for (; x->op == IX_MUL && n < IX_MAX_TERMS - 1; x = x->a)
			f[n++] = x->b;
		f[n++] = x;
	}
	for (int i = 1; i < n; i++)
		for (int j = i; j && compare(f[j], f[j - 1]) < 0; j--) {
			const struct ix *t = f[j];
			f[j] = f[j - 1];
			f[j - 1] = t;
		}
	const struct ix *x = f[0];
	for (int i = 1; i < n; i++)
		x = node(l, IX_MUL, 0, x, f[i], range_mul(range_of(x), range_of(f[i])));
	return x;
}

const struct ix *ix_mul(struct loops *l, const struct ix *a, const struct ix *b)
{
	const struct ix *zero = constant(l, 0), *at[2][IX_MAX_TERMS];
	int64_t c[2], coef[2][IX_MAX_TERMS];
	if (a->op == IX_CONST)
		return a->c == 1 ? b : linear(l, b, a->c, zero, 0);
	if (b->op == IX_CONST)
		return b->c == 1 ? a : linear(l, a, b->c, zero, 0);
	int na = ix_terms(a, &c[0], IX_MAX_TERMS, coef[0], at[0]);
	int nb = ix_terms(b, &c[1], IX_MAX_TERMS, coef[1], at[1]);
	struct sum s = {0};
	s.bad = na < 0 || nb < 0 || __builtin_mul_overflow(c[0], c[1], &s.c);
	for (int i = 0; i < na && !s.bad; i++) {
		int64_t k;
		for (int j = 0; j < nb && !s.bad; j++) {
			s.bad |= __builtin_mul_overflow(coef[0][i], coef[1][j], &k);
			sum_add(&s, atom_product(l, at[0][i], at[1][j]), k);
		}
		s.bad |= __builtin_mul_overflow(coef[0][i], c[1], &k);
		if (k)
			sum_term(&s, k, at[0][i], NULL);
	}
	for (int j = 0; j < nb && !s.bad && c[0]; j++) {
		int64_t k;
		s.bad |= __builtin_mul_overflow(coef[1][j], c[0], &k);
		sum_term(&s, k, at[1][j], NULL);
	}
	return sum_ix(l, &s);
}

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

/* x = d * q + r: the terms divisible by d into q, the rest into r with 0 <= r's constant < d. */
static bool split(const struct ix *x, int64_t d, struct sum *q, struct sum *r)
{
	struct sum s = {0};
	sum_add(&s, x, 1);
	q->c = floor_div(s.c, d);
	r->c = floor_mod(s.c, d);
	q->n = r->n = 0;
	q->bad = r->bad = false;
	for (int i = 0; i < s.n; i++) {
		bool whole = s.coef[i] % d == 0;
		sum_term(whole ? q : r, whole ? s.coef[i] / d : s.coef[i], s.atom[i], NULL);
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
	*low = floor_mod(r->c, g);
	r->c = floor_div(r->c, g);
	*d /= g;
	for (int i = 0; i < r->n; i++) {
		r->coef[i] /= g;
		r->term[i] = NULL;
	}
	return g;
}

/* a is a loop variable that starts at 0 or above and ends below b. */
static bool runs_below(const struct loops *l, const struct ix *a, const struct ix *b)
{
	return a->op == IX_VAR && a->lo >= 0 && ix_same(l->loopvar[a->id].hi, b);
}

/* floor(r / d) where r's range lies within one multiple of d. */
static bool one_quotient(struct range r, int64_t d, int64_t *q)
{
	if (inf(r.lo) || inf(r.hi))
		return false;
	*q = floor_div(r.lo, d);
	return *q == floor_div(r.hi, d);
}

static const struct ix *div_const(struct loops *l, const struct ix *a, int64_t d)
{
	struct sum q, r;
	int64_t k, low;
	if (!split(a, d, &q, &r)) {
		l->failed = true;
		return a;
	}
	if (one_quotient(sum_range(&r), d, &k)) {
		q.bad |= __builtin_add_overflow(q.c, k, &q.c);
		return sum_ix(l, &q);
	}
	reduce(&r, &d, &low);
	const struct ix *rest = sum_ix(l, &r), *e;
	if (rest->op == IX_DIV && rest->b->op == IX_CONST && rest->b->c < INT32_MAX && d < INT32_MAX)
		e = ix_div(l, rest->a, constant(l, rest->b->c * d));
	else
		e = d == 1 ? rest
			   : node(l, IX_DIV, 0, rest, constant(l, d),
				  range_div(range_of(rest), (struct range){d, d}));
	sum_add(&q, e, 1);
	return sum_ix(l, &q);
}

const struct ix *ix_div(struct loops *l, const struct ix *a, const struct ix *b)
{
	if (a->op == IX_CONST && b->op == IX_CONST)
		return constant(l, floor_div(a->c, b->c));
	if (b->op == IX_CONST && b->c == 1)
		return a;
	if (b->op == IX_CONST && b->c > 1)
		return div_const(l, a, b->c);
	if (runs_below(l, a, b) || (a->lo >= 0 && a->hi < b->lo))
		return constant(l, 0);
	if (ix_same(a, b) && a->lo >= 1)
		return constant(l, 1);
	return node(l, IX_DIV, 0, a, b, range_div(range_of(a), range_of(b)));
}

static const struct ix *mod_const(struct loops *l, const struct ix *a, int64_t d)
{
	struct sum q, r;
	int64_t k, low, m = d;
	if (!split(a, d, &q, &r)) {
		l->failed = true;
		return a;
	}
	if (one_quotient(sum_range(&r), d, &k)) {
		r.c -= k * d;
		return sum_ix(l, &r);
	}
	int64_t g = reduce(&r, &m, &low);
	const struct ix *rest = sum_ix(l, &r);
	while (rest->op == IX_MOD && rest->b->op == IX_CONST && rest->b->c % m == 0)
		rest = rest->a;
	rest = m == 1 ? constant(l, 0) : node(l, IX_MOD, 0, rest, constant(l, m), (struct range){0, m - 1});
	return linear(l, rest, g, constant(l, low), 1);
}

const struct ix *ix_mod(struct loops *l, const struct ix *a, const struct ix *b)
{
	if (a->op == IX_CONST && b->op == IX_CONST)
		return constant(l, floor_mod(a->c, b->c));
	if (b->op == IX_CONST && b->c == 1)
		return constant(l, 0);
	if (b->op == IX_CONST && b->c > 1)
		return mod_const(l, a, b->c);
	if (runs_below(l, a, b) || (a->lo >= 0 && a->hi < b->lo))
		return a;
	if (ix_same(a, b))
		return constant(l, 0);
	int64_t hi = inf(b->hi) ? POS_INF : b->hi - 1;
	if (a->lo >= 0 && a->hi < hi)
		hi = a->hi;
	return node(l, IX_MOD, 0, a, b, (struct range){0, hi});
}

/* Comparisons. */

static struct range difference(const struct ix *a, const struct ix *b)
{
	struct sum s;
	s.c = 0;
	s.n = 0;
	s.bad = false;
	sum_add(&s, a, 1);
	sum_add(&s, b, -1);
	return s.bad ? (struct range){NEG_INF, POS_INF} : sum_range(&s);
}

const struct ix *ix_min(struct loops *l, const struct ix *a, const struct ix *b)
{
	struct range d = difference(a, b);
	if (d.hi <= 0)
		return a;
	if (d.lo >= 0)
		return b;
	if (compare(a, b) > 0) {
		const struct ix *t = a;
		a = b;
		b = t;
	}
	return node(l, IX_MIN, 0, a, b,
		    (struct range){a->lo < b->lo ? a->lo : b->lo, a->hi < b->hi ? a->hi : b->hi});
}

const struct ix *ix_max(struct loops *l, const struct ix *a, const struct ix *b)
{
	struct range d = difference(a, b);
	if (d.lo >= 0)
		return a;
	if (d.hi <= 0)
		return b;
	if (compare(a, b) > 0) {
		const struct ix *t = a;
		a = b;
		b = t;
	}
	return node(l, IX_MAX, 0, a, b,
		    (struct range){a->lo > b->lo ? a->lo : b->lo, a->hi > b->hi ? a->hi : b->hi});
}

const struct ix *ix_lt(struct loops *l, const struct ix *a, const struct ix *b)
{
	struct range d = difference(a, b);
	if (a->op == IX_VAR && ix_same(l->loopvar[a->id].hi, b))
		return constant(l, 1);
	return node(l, IX_LT, 0, a, b, (struct range){d.hi < 0, d.lo < 0});
}

const struct ix *ix_eq(struct loops *l, const struct ix *a, const struct ix *b)
{
	struct range d = difference(a, b);
	return node(l, IX_EQ, 0, a, b, (struct range){d.lo == 0 && d.hi == 0, d.lo <= 0 && d.hi >= 0});
}

const struct ix *ix_table(struct loops *l, int buf, const struct ix *at)
{
	return node(l, IX_TABLE, buf, at, NULL, (struct range){l->buf[buf].lo, l->buf[buf].hi});
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
		return floor_div(a, b);
	case IX_MOD:
		return floor_mod(a, b);
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
