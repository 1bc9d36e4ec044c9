/* SPDX-License-Identifier: Apache-2.0 */
/* Automatic differentiation in reverse mode: exact derivatives of an expression of many variables at the
 * price of a few evaluations. Each operation records its partial derivatives on a tape, which is then read
 * backwards (Wengert 1964, Linnainmaa 1970). Operations on constants record nothing.
 *
 * min and max have the derivative of the argument that is chosen. The other functions here are smooth. Those
 * that approximate steps have heavy tails, so that a descent far from a step still has a gradient. */
#ifndef KERNELS_TAPE_H
#define KERNELS_TAPE_H

#include "platform/base/arena.h"

struct num {
	double v;
	int at; /* entry of the tape; 0: a constant */
};

struct tape_entry {
	int a, b;      /* entries of the arguments */
	double da, db; /* partial derivatives */
};

struct tape {
	struct arena *arena; /* the tape grows there and its memory is reused */
	struct tape_entry *entry;
	double *adjoint;
	int n, cap;
};

void tape_start(struct tape *p);                    /* clears the tape; call it before the first variable */
struct num tape_variable(struct tape *p, double v); /* the first variable is number 0 */
/* Derivatives of y by the first n variables, which must have been made before all other numbers. */
void tape_gradient(struct tape *p, struct num y, int n, double *grad);

static inline struct num num(double v)
{
	return (struct num){v, 0};
}

void tape_grow(struct tape *p);

static inline int tape_push(struct tape *p, int a, double da, int b, double db)
{
	if (p->n >= p->cap)
		tape_grow(p);
	p->entry[p->n] = (struct tape_entry){a, b, da, db};
	return p->n++;
}

static inline struct num num_add(struct tape *p, struct num a, struct num b)
{
	if (!a.at || !b.at) /* one is constant: the sum has the other's derivatives */
		return (struct num){a.v + b.v, a.at + b.at};
	return (struct num){a.v + b.v, tape_push(p, a.at, 1, b.at, 1)};
}

static inline struct num num_scale(struct tape *p, struct num a, double by)
{
	return (struct num){a.v * by, a.at && by != 1 ? tape_push(p, a.at, by, 0, 0) : a.at};
}

static inline struct num num_sub(struct tape *p, struct num a, struct num b)
{
	if (!b.at)
		return (struct num){a.v - b.v, a.at};
	return (struct num){a.v - b.v, tape_push(p, a.at, 1, b.at, -1)};
}

static inline struct num num_mul(struct tape *p, struct num a, struct num b)
{
	if (!a.at || !b.at)
		return a.at ? num_scale(p, a, b.v) : num_scale(p, b, a.v);
	return (struct num){a.v * b.v, tape_push(p, a.at, b.v, b.at, a.v)};
}

struct num num_div(struct tape *p, struct num a, struct num b);
struct num num_min(struct tape *p, struct num a, struct num b);
struct num num_max(struct tape *p, struct num a, struct num b);
struct num num_exp(struct tape *p, struct num a);
struct num num_log(struct tape *p, struct num a);                           /* a > 0 */
struct num num_norm(struct tape *p, struct num a, struct num b, int order); /* a, b >= 0 */
struct num num_sigmoid(struct tape *p, struct num a); /* 1/2 + a / 2 sqrt(1 + a^2): no exp, heavy tails */
struct num num_above(struct tape *p, struct num a);   /* max(a, 0), with a corner rounded by 1/4 */
/* 0 while a is far below 1, 1 far above: a^8 / (1 + a^8). It is for counts that reach thousands, where a
 * heavy tail would outweigh everything else. */
struct num num_switch(struct tape *p, struct num a);
/* Smooth ceiling: exact at integers, and reaches the next integer half-way to it. a >= 0 */
struct num num_ceil(struct tape *p, struct num a);

#endif
