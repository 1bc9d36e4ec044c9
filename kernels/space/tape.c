/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/space/tape.h"

#include <math.h>
#include <string.h>

/* num_ceil rises over this first part of the way from one integer to the next. */
#define RISE .5

void tape_start(struct tape *p)
{
	p->n = 1; /* entry 0 collects the derivatives of constants */
}

void tape_grow(struct tape *p)
{
	int cap = p->cap ? 2 * p->cap : 1024;
	struct tape_entry *e = ARENA_ARRAY(p->arena, struct tape_entry, cap);
	if (p->cap)
		memcpy(e, p->entry, sizeof *e * (size_t)p->cap);
	p->entry = e;
	p->adjoint = ARENA_ARRAY(p->arena, double, cap);
	p->cap = cap;
}

static struct num one(struct tape *p, double v, struct num a, double da)
{
	return (struct num){v, a.at ? tape_push(p, a.at, da, 0, 0) : 0};
}

static struct num two(struct tape *p, double v, struct num a, double da, struct num b, double db)
{
	return (struct num){v, a.at || b.at ? tape_push(p, a.at, da, b.at, db) : 0};
}

struct num tape_variable(struct tape *p, double v)
{
	return (struct num){v, tape_push(p, 0, 0, 0, 0)};
}

void tape_gradient(struct tape *p, struct num y, int n, double *grad)
{
	memset(p->adjoint, 0, sizeof *p->adjoint * (size_t)p->n);
	p->adjoint[y.at] = 1;
	for (int i = y.at; i > n; i--) {
		const struct tape_entry *e = &p->entry[i];
		double g = p->adjoint[i];
		if (g == 0) /* y does not depend on it; its partial derivatives may be infinite */
			continue;
		p->adjoint[e->a] += g * e->da;
		p->adjoint[e->b] += g * e->db;
	}
	for (int i = 0; i < n; i++)
		grad[i] = y.at ? p->adjoint[i + 1] : 0;
}

struct num num_div(struct tape *p, struct num a, struct num b)
{
	return two(p, a.v / b.v, a, 1 / b.v, b, -a.v / (b.v * b.v));
}

struct num num_min(struct tape *p, struct num a, struct num b)
{
	(void)p;
	return a.v <= b.v ? a : b;
}

struct num num_max(struct tape *p, struct num a, struct num b)
{
	(void)p;
	return a.v >= b.v ? a : b;
}

struct num num_exp(struct tape *p, struct num a)
{
	double v = exp(a.v);
	return one(p, v, a, v);
}

struct num num_log(struct tape *p, struct num a)
{
	return one(p, log(a.v), a, 1 / a.v);
}

struct num num_norm(struct tape *p, struct num a, struct num b, int order)
{
	double most = fmax(a.v, b.v);
	if (most <= 0)
		return num(0);
	double x = a.v / most, y = b.v / most, px = 1, py = 1;
	for (int i = 1; i < order; i++) {
		px *= x;
		py *= y;
	}
	double root = pow(px * x + py * y, 1. / order), slope = root / (px * x + py * y);
	return two(p, most * root, a, px * slope, b, py * slope);
}

struct num num_sigmoid(struct tape *p, struct num a)
{
	double root = sqrt(1 + a.v * a.v);
	return one(p, .5 + .5 * a.v / root, a, .5 / (root * root * root));
}

struct num num_above(struct tape *p, struct num a)
{
	double root = sqrt(a.v * a.v + .25);
	return one(p, .5 * (a.v + root), a, .5 * (1 + a.v / root));
}

struct num num_switch(struct tape *p, struct num a)
{
	double a2 = a.v * a.v, a4 = a2 * a2, a8 = a4 * a4;
	if (a.v > 1e30)
		return num(1);
	return one(p, a8 / (1 + a8), a, 8 * a4 * a2 * a.v / ((1 + a8) * (1 + a8)));
}

struct num num_ceil(struct tape *p, struct num a)
{
	double whole = floor(a.v), part = (a.v - whole) / RISE;
	if (part >= 1)
		return num(whole + 1);
	return one(p, whole + part * part * (3 - 2 * part), a, 6 * part * (1 - part) / RISE);
}
