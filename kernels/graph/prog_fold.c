/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/graph/prog_fold.h"

#include <math.h>
#include <string.h>

/* Steps [from, to) of a program that compute one value. */
struct part {
	const struct prog *p;
	int from, to;
};

static enum prog_op op_of(struct part x)
{
	return (enum prog_op)x.p->at[x.to - 1].op;
}

/* Operand i of x's operator, counted from the last one. */
static struct part operand(struct part x, int i)
{
	int to = x.to - 1, from;
	for (;; to = from) {
		int wanted = 1;
		for (from = to; wanted; wanted += prog_op_arity((enum prog_op)x.p->at[from].op) - 1)
			from--;
		if (i-- == 0)
			return (struct part){x.p, from, to};
	}
}

static bool same(struct part a, struct part b)
{
	if (a.to - a.from != b.to - b.from)
		return false;
	for (int i = 0; i < a.to - a.from; i++)
		if (a.p->at[a.from + i].op != b.p->at[b.from + i].op ||
		    a.p->at[a.from + i].arg != b.p->at[b.from + i].arg ||
		    a.p->at[a.from + i].imm != b.p->at[b.from + i].imm)
			return false;
	return true;
}

static bool is_imm(struct part x, double v)
{
	return op_of(x) == P_IMM && fabs((double)x.p->at[x.to - 1].imm - v) < 1e-6;
}

/* Whether one of x's two operands is `v`; *other: the other operand. */
static bool beside_imm(struct part x, double v, struct part *other)
{
	for (int i = 0; i < 2; i++)
		if (is_imm(operand(x, i), v)) {
			*other = operand(x, 1 - i);
			return true;
		}
	return false;
}

/* Whether x is 1 + erf(*y / sqrt 2). */
static bool is_normal(struct part x, struct part *y)
{
	struct part e, a;
	if (op_of(x) != P_ADD || !beside_imm(x, 1, &e) || op_of(e) != P_ERF)
		return false;
	a = operand(e, 0);
	if (op_of(a) == P_MUL)
		return beside_imm(a, M_SQRT1_2, y);
	*y = op_of(a) == P_DIV ? operand(a, 1) : a;
	return op_of(a) == P_DIV && is_imm(operand(a, 0), M_SQRT2);
}

/* Whether f[0] f[1] f[2] are y, 1 + erf(y / sqrt 2) and 0.5 in some order. */
static bool is_gelu(const struct part *f, struct part *y)
{
	for (int i = 0; i < 3; i++) {
		struct part a = f[(i + 1) % 3], b = f[(i + 2) % 3];
		if (is_normal(f[i], y) && ((is_imm(a, .5) && same(b, *y)) || (is_imm(b, .5) && same(a, *y))))
			return true;
	}
	return false;
}

/* Whether the product x is one function of *y. */
static bool find(struct part x, struct part *y, enum prog_op *op)
{
	for (int i = 0; i < 2; i++) {
		struct part a = operand(x, i), b = operand(x, 1 - i);
		*y = b;
		*op = P_SILU;
		if (op_of(a) == P_SIGMOID && same(operand(a, 0), b))
			return true;
		*op = P_GELU;
		if (op_of(a) == P_MUL && is_gelu((struct part[]){operand(a, 0), operand(a, 1), b}, y))
			return true;
	}
	return false;
}

static bool fold_at(struct prog *p, int i)
{
	struct part x = {p, 0, i + 1}, y, first;
	enum prog_op op;
	if (p->at[i].op != P_MUL || !find(x, &y, &op))
		return false;
	first = operand(x, 1);
	memmove(&p->at[first.from], &p->at[y.from], sizeof p->at[0] * (size_t)(y.to - y.from));
	int end = first.from + y.to - y.from;
	p->at[end] = p->at[i];
	p->at[end++].op = (uint8_t)op;
	memmove(&p->at[end], &p->at[i + 1], sizeof p->at[0] * (size_t)(p->n - i - 1));
	p->n -= i + 1 - end;
	return true;
}

void prog_fold(struct prog *p)
{
	for (int i = 0; i < p->n; i++)
		if (fold_at(p, i))
			i = -1;
}
