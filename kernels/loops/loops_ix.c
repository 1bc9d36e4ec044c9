/* SPDX-License-Identifier: Apache-2.0 */
/* Integer expressions, simplified when made.
 *
 * Canonical form: a sum is a left chain ADD(ADD(t1, t2), ...) of terms in the order of term_less, a constant
 * last; a term is an atom or MUL(atom, constant); an atom is no sum and no constant; a product of atoms is a
 * left chain MUL(MUL(f1, f2), f3) in the same order. An expression whose range is one value is that constant.
 * So equal sums have equal structure. */
#include "kernels/loops/loops_ix.h"

#include <string.h>

/* Nodes. */

static uint32_t mix(uint32_t h, uint64_t v)
{
	uint64_t m = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(m >> 32) ^ (uint32_t)m;
}

const struct ix *ix_constant(struct loops *l, int64_t c)
{
	struct ix *x = ARENA_NEW(l->arena, struct ix);
	*x = (struct ix){
	    .op = IX_CONST, .c = c, .lo = c, .hi = c, .height = 1, .hash = mix(IX_CONST, (uint64_t)c)};
	return x;
}

const struct ix *ix_node(struct loops *l, enum ix_op op, int id, const struct ix *a, const struct ix *b,
			 struct range r)
{
	if (r.lo == r.hi)
		return ix_constant(l, r.lo);
	int depth = a ? a->depth : 0, height = a ? a->height : 0;
	uint32_t hash = mix(mix((uint32_t)op + 77, (uint64_t)id), a ? a->hash : 0);
	if (b) {
		depth = b->depth > depth ? b->depth : depth;
		height = b->height > height ? b->height : height;
		hash = mix(hash, b->hash + 1);
	}
	if (height >= IX_MAX_HEIGHT) {
		l->failed = true;
		return ix_constant(l, 0);
	}
	struct ix *x = ARENA_NEW(l->arena, struct ix);
	*x = (struct ix){op, id, hash, height + 1, 0, a, b, r.lo, r.hi, depth};
	return x;
}

const struct ix *ix_c(struct loops *l, int64_t c)
{
	return ix_constant(l, c);
}

const struct ix *ix_param(struct loops *l, int param)
{
	return ix_node(l, IX_PARAM, param, NULL, NULL,
		       (struct range){l->param[param].lo, l->param[param].hi});
}

bool ix_is_const(const struct ix *x, int64_t *c)
{
	if (x->op != IX_CONST)
		return false;
	*c = x->c;
	return true;
}

/* A total order of structures, 0 only if they are equal; compares the depth first. Recursion is bounded by
 * IX_MAX_HEIGHT. */
int ix_compare(const struct ix *a, const struct ix *b)
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
	int r = a->a ? ix_compare(a->a, b->a) : 0;
	return r || !a->b ? r : ix_compare(a->b, b->b);
}

bool ix_same(const struct ix *a, const struct ix *b)
{
	return a == b || (a->hash == b->hash && ix_compare(a, b) == 0);
}

/* Sums. */

void ix_sum_term(struct sum *s, int64_t coef, const struct ix *atom, const struct ix *term)
{
	int i = 0, r = 1;
	while (i < s->n && (r = ix_compare(s->atom[i], atom)) < 0)
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
	ix_sum_term(s, v, atom, v == coef ? t : NULL);
}

/* s += k * x */
void ix_sum_add(struct sum *s, const struct ix *x, int64_t k)
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
			ix_sum_term(s, -k, m, NULL);
			ix_sum_term(s, -want, d, NULL);
			ix_sum_add(s, m->a, k);
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

/* The term of e where term j is of e div d, and d; -1: there is none. */
static int find_dividend(const struct sum *s, int j, int64_t *d)
{
	const struct ix *q = s->atom[j];
	if (q->op != IX_DIV || !ix_is_const(q->b, d) || *d < 1)
		return -1;
	for (int i = 0; i < s->n; i++)
		if (ix_same(s->atom[i], q->a))
			return i;
	return -1;
}

/* a * e + b * (e div d) = (a * d + b) * (e div d) + a * (e mod d), so a and b of opposite signs do not widen
 * the range by e's. */
static struct range pair_range(const struct sum *s, int i, int j, int64_t d)
{
	struct range r = range_add(term_range(s, i), term_range(s, j)), rest = {0, d - 1};
	int64_t a = s->coef[i], both;
	if (__builtin_mul_overflow(a, d, &both) || __builtin_add_overflow(both, s->coef[j], &both))
		return r;
	struct range other = range_add(range_mul(range_of(s->atom[j]), (struct range){both, both}),
				       range_mul(rest, (struct range){a, a}));
	struct range of_both = {r.lo > other.lo ? r.lo : other.lo, r.hi < other.hi ? r.hi : other.hi};
	return of_both.lo > of_both.hi ? r : of_both; /* e has no value at all */
}

struct range ix_sum_range(const struct sum *s)
{
	struct range r = {s->c, s->c};
	bool done[IX_MAX_TERMS] = {false};
	int64_t d;
	for (int j = 0; j < s->n; j++) {
		int i = find_dividend(s, j, &d);
		if (i < 0 || done[i] || done[j])
			continue;
		done[i] = done[j] = true;
		r = range_add(r, pair_range(s, i, j, d));
	}
	for (int i = 0; i < s->n; i++)
		r = done[i] ? r : range_add(r, term_range(s, i));
	return r;
}

const struct ix *ix_sum(struct loops *l, struct sum *s)
{
	while (join_div_mod(s))
		;
	if (s->bad) {
		l->failed = true;
		return ix_constant(l, 0);
	}
	const struct ix *x = NULL;
	struct range all = ix_sum_range(s);
	for (int i = 0; i < s->n; i++) {
		const struct ix *t = s->term[i];
		bool last = i == s->n - 1 && !s->c;
		if (!t && s->coef[i] == 1)
			t = s->atom[i];
		if (!t)
			t = ix_node(l, IX_MUL, 0, s->atom[i], ix_constant(l, s->coef[i]), term_range(s, i));
		x = x ? ix_node(l, IX_ADD, 0, x, t, last ? all : range_add(range_of(x), range_of(t))) : t;
	}
	if (!x)
		return ix_constant(l, s->c);
	return s->c ? ix_node(l, IX_ADD, 0, x, ix_constant(l, s->c), all) : x;
}

const struct ix *ix_linear(struct loops *l, const struct ix *a, int64_t ka, const struct ix *b, int64_t kb)
{
	struct sum s;
	s.c = 0;
	s.n = 0;
	s.bad = false;
	ix_sum_add(&s, a, ka);
	ix_sum_add(&s, b, kb);
	return ix_sum(l, &s);
}

const struct ix *ix_add(struct loops *l, const struct ix *a, const struct ix *b)
{
	if (a->op == IX_CONST && a->c == 0)
		return b;
	if (b->op == IX_CONST && b->c == 0)
		return a;
	return ix_linear(l, a, 1, b, 1);
}

const struct ix *ix_sub(struct loops *l, const struct ix *a, const struct ix *b)
{
	if (b->op == IX_CONST && b->c == 0)
		return a;
	return ix_linear(l, a, 1, b, -1);
}

int ix_terms(const struct ix *x, int64_t *c, int max, int64_t *coef, const struct ix **atom)
{
	struct sum s;
	s.c = 0;
	s.n = 0;
	s.bad = false;
	ix_sum_add(&s, x, 1);
	if (s.bad || s.n > max)
		return -1;
	*c = s.c;
	memcpy(coef, s.coef, (size_t)s.n * sizeof *coef);
	memcpy(atom, s.atom, (size_t)s.n * sizeof *atom);
	return s.n;
}

/* Products. */

/* The product of two atoms; the factors are merged in order. */
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
		for (int j = i; j && ix_compare(f[j], f[j - 1]) < 0; j--) {
			const struct ix *t = f[j];
			f[j] = f[j - 1];
			f[j - 1] = t;
		}
	const struct ix *x = f[0];
	for (int i = 1; i < n; i++)
		x = ix_node(l, IX_MUL, 0, x, f[i], range_mul(range_of(x), range_of(f[i])));
	return x;
}

const struct ix *ix_mul(struct loops *l, const struct ix *a, const struct ix *b)
{
	const struct ix *zero = ix_constant(l, 0), *at[2][IX_MAX_TERMS];
	int64_t c[2], coef[2][IX_MAX_TERMS];
	if (a->op == IX_CONST)
		return a->c == 1 ? b : ix_linear(l, b, a->c, zero, 0);
	if (b->op == IX_CONST)
		return b->c == 1 ? a : ix_linear(l, a, b->c, zero, 0);
	int na = ix_terms(a, &c[0], IX_MAX_TERMS, coef[0], at[0]);
	int nb = ix_terms(b, &c[1], IX_MAX_TERMS, coef[1], at[1]);
	struct sum s = {0};
	s.bad = na < 0 || nb < 0 || __builtin_mul_overflow(c[0], c[1], &s.c);
	for (int i = 0; i < na && !s.bad; i++) {
		int64_t k;
		for (int j = 0; j < nb && !s.bad; j++) {
			s.bad |= __builtin_mul_overflow(coef[0][i], coef[1][j], &k);
			ix_sum_add(&s, atom_product(l, at[0][i], at[1][j]), k);
		}
		s.bad |= __builtin_mul_overflow(coef[0][i], c[1], &k);
		if (k)
			ix_sum_term(&s, k, at[0][i], NULL);
	}
	for (int j = 0; j < nb && !s.bad && c[0]; j++) {
		int64_t k;
		s.bad |= __builtin_mul_overflow(coef[1][j], c[0], &k);
		ix_sum_term(&s, k, at[1][j], NULL);
	}
	return ix_sum(l, &s);
}
