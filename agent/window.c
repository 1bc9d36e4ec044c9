/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/window.h"

#include <assert.h>
#include <string.h>

enum { MAX_LOOPS = 2 * MAX_RANK };

/* One loop of a copy: n steps of `s` elements in the small tensor and `b` in the big one. */
struct loop {
	int64_t n, s, b;
};

struct copy {
	int nloops;
	struct loop loop[MAX_LOOPS]; /* outermost first */
	int64_t s0, b0;              /* offsets of the first element */
	int nodd, odd[2]; /* dims that go element by element: split in one tensor only, or out of step */
};

/* Strides of a dim in one layout; block 1: not split. */
struct dim_steps {
	int64_t block, outer, inner;
};

static struct dim_steps steps_of(const struct operand *o, int d)
{
	struct phys_axis ax[MAX_SPLITS];
	struct dim_steps r = {1, 0, 0};
	int n = operand_axes(o, ax);
	for (int j = 0; j < n; j++) {
		if (ax[j].dim != d)
			continue;
		if (ax[j].div > 1) {
			r.block = ax[j].div;
			r.outer = ax[j].stride;
		} else {
			r.inner = ax[j].stride;
		}
	}
	return r;
}

static int64_t offset_in(const struct operand *o, int d, const struct dim_steps *x, int64_t i)
{
	i += o->layout.lo[d];
	return x->block > 1 ? i / x->block * x->outer + i % x->block * x->inner : i * x->inner;
}

static void add_loop(struct copy *c, int64_t n, int64_t s, int64_t b)
{
	if (n != 1)
		c->loop[c->nloops++] = (struct loop){n, s, b};
}

/* A dim that both split alike and that starts at a block is copied in whole blocks, padding lanes too: they
 * mean nothing, and a part that follows overwrites them. */
static void plan_dim(struct copy *c, const struct operand *small, const struct operand *big, int d,
		     int64_t at)
{
	struct dim_steps s = steps_of(small, d), b = steps_of(big, d);
	int64_t n = small->dims.d[d], first = offset_in(small, d, &s, 0);
	if (s.block == 1 && b.block == 1) {
		c->s0 += first;
		c->b0 += offset_in(big, d, &b, at);
		add_loop(c, n, s.inner, b.inner);
	} else if (s.block == b.block && at % b.block == 0) {
		c->s0 += first;
		c->b0 += offset_in(big, d, &b, at);
		add_loop(c, (n + s.block - 1) / s.block, s.outer, b.outer);
		add_loop(c, s.block, s.inner, b.inner);
	} else {
		assert(c->nodd < 2); /* a layout splits one dim at most */
		c->odd[c->nodd++] = d;
	}
}

/* Largest steps outermost, and loops that continue each other made one. */
static void order_loops(struct copy *c)
{
	for (int i = 1; i < c->nloops; i++) {
		struct loop l = c->loop[i];
		int k = i;
		for (; k > 0 && c->loop[k - 1].b < l.b; k--)
			c->loop[k] = c->loop[k - 1];
		c->loop[k] = l;
	}
	int n = 0;
	for (int i = 0; i < c->nloops; i++) {
		struct loop l = c->loop[i], *last = n ? &c->loop[n - 1] : NULL;
		if (last && last->s == l.n * l.s && last->b == l.n * l.b)
			*last = (struct loop){last->n * l.n, l.s, l.b};
		else
			c->loop[n++] = l;
	}
	c->nloops = n;
}

static void copy_line(const float *from, int64_t sf, float *to, int64_t st, int64_t n)
{
	if (sf == 1 && st == 1) {
		memcpy(to, from, sizeof *to * (size_t)n);
		return;
	}
	for (int64_t i = 0; i < n; i++)
		to[i * st] = from[i * sf];
}

static void run_loops(const struct copy *c, float *sp, float *bp, bool into)
{
	int64_t i[MAX_LOOPS] = {0}, last = c->nloops - 1;
	struct loop in = last >= 0 ? c->loop[last] : (struct loop){1, 1, 1};
	for (int k = 0; k < c->nloops; k++)
		if (!c->loop[k].n)
			return;
	for (;;) {
		if (into)
			copy_line(sp, in.s, bp, in.b, in.n);
		else
			copy_line(bp, in.b, sp, in.s, in.n);
		int64_t k = last - 1;
		for (; k >= 0; k--) {
			sp += c->loop[k].s;
			bp += c->loop[k].b;
			if (++i[k] < c->loop[k].n)
				break;
			sp -= c->loop[k].n * c->loop[k].s;
			bp -= c->loop[k].n * c->loop[k].b;
			i[k] = 0;
		}
		if (k < 0)
			return;
	}
}

/* One slice after the other along the odd dim `k`. */
static void run_odd(const struct copy *c, int k, const struct operand *small, float *sp,
		    const struct operand *big, float *bp, const int64_t *at, bool into)
{
	if (k == c->nodd) {
		run_loops(c, sp, bp, into);
		return;
	}
	int d = c->odd[k];
	struct dim_steps s = steps_of(small, d), b = steps_of(big, d);
	for (int64_t i = 0; i < small->dims.d[d]; i++)
		run_odd(c, k + 1, small, sp + offset_in(small, d, &s, i), big,
			bp + offset_in(big, d, &b, at[d] + i), at, into);
}

/* A layout splits one dim at most, so two dims at most are odd. */
static void copy_window(const struct operand *small, float *sp, const struct operand *big, float *bp,
			const int64_t *at, bool into)
{
	struct copy c = {0};
	for (int d = 0; d < small->dims.rank; d++)
		plan_dim(&c, small, big, d, at[d]);
	order_loops(&c);
	run_odd(&c, 0, small, sp + c.s0, big, bp + c.b0, at, into);
}

void window_in(const struct operand *from, const float *src, const struct operand *to, float *dst,
	       const int64_t *at)
{
	copy_window(from, (float *)(uintptr_t)src, to, dst, at, true);
}

void window_out(const struct operand *from, const float *src, const int64_t *at, const struct operand *to,
		float *dst)
{
	copy_window(to, dst, from, (float *)(uintptr_t)src, at, false);
}
