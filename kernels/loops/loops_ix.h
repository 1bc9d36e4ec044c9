/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the integer expressions: loops_ix.c makes nodes, sums and products, loops_ix_div.c
 * divides, compares and evaluates. */
#ifndef KERNELS_LOOPS_IX_H
#define KERNELS_LOOPS_IX_H

#include "kernels/loops/loops.h"

#define NEG_INF INT64_MIN
#define POS_INF INT64_MAX

struct range {
	int64_t lo, hi;
};

struct sum {
	int64_t c;
	int n;
	bool bad; /* a coefficient overflowed, or there are too many terms */
	int64_t coef[IX_MAX_TERMS];
	const struct ix *atom[IX_MAX_TERMS];
	const struct ix *term[IX_MAX_TERMS]; /* the node coef * atom if it exists already */
};

/* Ranges. INT64_MIN and INT64_MAX stand for infinity; an overflow gives infinity. */

static inline bool inf(int64_t v)
{
	return v == NEG_INF || v == POS_INF;
}

static inline int64_t add_sat(int64_t a, int64_t b, int64_t over)
{
	int64_t r;
	return inf(a) || inf(b) || __builtin_add_overflow(a, b, &r) ? over : r;
}

static inline int64_t mul_sat(int64_t a, int64_t b)
{
	int64_t r;
	if (a == 0 || b == 0)
		return 0;
	if (inf(a) || inf(b) || __builtin_mul_overflow(a, b, &r))
		return (a < 0) == (b < 0) ? POS_INF : NEG_INF;
	return r;
}

static inline struct range range_add(struct range a, struct range b)
{
	return (struct range){add_sat(a.lo, b.lo, NEG_INF), add_sat(a.hi, b.hi, POS_INF)};
}

static inline struct range range_mul(struct range a, struct range b)
{
	int64_t p[4] = {mul_sat(a.lo, b.lo), mul_sat(a.lo, b.hi), mul_sat(a.hi, b.lo), mul_sat(a.hi, b.hi)};
	struct range r = {p[0], p[0]};
	for (int i = 1; i < 4; i++) {
		r.lo = p[i] < r.lo ? p[i] : r.lo;
		r.hi = p[i] > r.hi ? p[i] : r.hi;
	}
	return r;
}

static inline struct range range_of(const struct ix *x)
{
	return (struct range){x->lo, x->hi};
}

static inline int64_t ix_floor_div(int64_t a, int64_t b)
{
	if (b == 0)
		return 0;
	if (b == -1)
		return a == INT64_MIN ? a : -a;
	int64_t q = a / b;
	return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}

static inline int64_t ix_floor_mod(int64_t a, int64_t b)
{
	if (b == 0 || b == -1)
		return 0;
	int64_t r = a % b;
	return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* Range of floor(a / b), b >= 1. */
static inline struct range range_div(struct range a, struct range b)
{
	struct range r = {a.lo, a.hi};
	int64_t small = b.lo >= 1 ? b.lo : 1;
	if (!inf(a.lo))
		r.lo = a.lo < 0 ? ix_floor_div(a.lo, small) : inf(b.hi) ? 0 : ix_floor_div(a.lo, b.hi);
	if (!inf(a.hi))
		r.hi = a.hi >= 0 ? ix_floor_div(a.hi, small) : inf(b.hi) ? -1 : ix_floor_div(a.hi, b.hi);
	return r;
}

const struct ix *ix_constant(struct loops *l, int64_t c);
/* A total order of structures; 0 only if they are equal. */
int ix_compare(const struct ix *a, const struct ix *b);
/* Makes a node. If its range is a single value it becomes that constant. */
const struct ix *ix_node(struct loops *l, enum ix_op op, int id, const struct ix *a, const struct ix *b,
			 struct range r);
/* s += coef * atom; term: the node for that product if it exists already. */
void ix_sum_term(struct sum *s, int64_t coef, const struct ix *atom, const struct ix *term);
void ix_sum_add(struct sum *s, const struct ix *x, int64_t k); /* s += k * x */
struct range ix_sum_range(const struct sum *s);
const struct ix *ix_sum(struct loops *l, struct sum *s);
/* ka * a + kb * b */
const struct ix *ix_linear(struct loops *l, const struct ix *a, int64_t ka, const struct ix *b, int64_t kb);

#endif
