/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/window.h"
#include "agent/run/vec4.h"

#include <assert.h>
#include <string.h>

static const int64_t MOST = INT64_C(1) << 48; /* of offsets and steps */

static struct window_dim dim_of(const struct operand *o, int d, int64_t at)
{
	struct phys_axis ax[MAX_SPLITS];
	struct window_dim r = {.first = at + o->layout.lo[d], .block = 1};
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

/* Offset of the window's i-th index. */
static int64_t offset_in(const struct window_dim *x, int64_t i)
{
	i += x->first;
	return x->block > 1 ? i / x->block * x->outer + i % x->block * x->inner : i * x->inner;
}

static void add_loop(struct window *c, int64_t n, int64_t s, int64_t b)
{
	if (n != 1)
		c->loop[c->nloops++] = (struct window_loop){n, s, b};
}

/* A dim that both split alike and that starts at a block is copied in whole blocks, padding lanes too: they
 * mean nothing, and a part that follows overwrites them. */
static void plan_dim(struct window *c, const struct operand *small, const struct operand *big, int d,
		     int64_t at)
{
	struct window_dim s = dim_of(small, d, 0), b = dim_of(big, d, at);
	int64_t n = small->dims.d[d];
	if (s.block != b.block || (s.block > 1 && at % b.block)) {
		assert(c->nodd < 2);
		c->odd[c->nodd].n = n;
		c->odd[c->nodd].s = s;
		c->odd[c->nodd++].b = b;
		return;
	}
	c->s0 += offset_in(&s, 0);
	c->b0 += offset_in(&b, 0);
	if (s.block > 1)
		add_loop(c, (n + s.block - 1) / s.block, s.outer, b.outer);
	add_loop(c, s.block > 1 ? s.block : n, s.inner, b.inner);
}

/* Largest steps outermost, and loops that continue each other made one. */
static void order_loops(struct window *c)
{
	for (int i = 1; i < c->nloops; i++) {
		struct window_loop l = c->loop[i];
		int k = i;
		for (; k > 0 && c->loop[k - 1].b < l.b; k--)
			c->loop[k] = c->loop[k - 1];
		c->loop[k] = l;
	}
	int n = 0;
	for (int i = 0; i < c->nloops; i++) {
		struct window_loop l = c->loop[i], *last = n ? &c->loop[n - 1] : NULL;
		if (last && last->s == l.n * l.s && last->b == l.n * l.b)
			*last = (struct window_loop){last->n * l.n, l.s, l.b};
		else
			c->loop[n++] = l;
	}
	c->nloops = n;
}

/* The longest loop around the innermost is divided where it is long enough, else the longest of all. */
static int choose_shared(const struct window *c)
{
	int best = -1;
	for (int i = 0; i < c->nloops; i++)
		if (best < 0 || c->loop[i].n > c->loop[best].n)
			best = i;
	for (int i = 0; i < c->nloops - 1; i++)
		if (c->loop[i].n >= 16 && (best == c->nloops - 1 || c->loop[i].n > c->loop[best].n))
			best = i;
	return best;
}

void window_make(const struct operand *small, const struct operand *big, const int64_t *at,
		 struct window *out)
{
	*out = (struct window){.unit = (int)dtype_bytes(small->dtype)};
	assert(small->dtype == big->dtype);
	for (int d = 0; d < small->dims.rank; d++)
		plan_dim(out, small, big, d, at[d]);
	order_loops(out);
	out->shared = choose_shared(out);
}

int64_t window_extent(const struct window *w)
{
	return w->shared < 0 ? 1 : w->loop[w->shared].n;
}

static bool in_range(int64_t v)
{
	return v >= 0 && v <= MOST;
}

/* *end += how far n steps of s elements reach. False: out of range. */
static bool reach_loop(int64_t n, int64_t s, int64_t *end)
{
	int64_t by;
	return in_range(s) && !__builtin_mul_overflow(n ? n - 1 : 0, s, &by) && by <= MOST &&
	       in_range(*end += by);
}

static bool reach_odd(const struct window_dim *d, int64_t n, int64_t *end)
{
	if (!in_range(d->first) || d->block < 1 || !in_range(d->block))
		return false;
	int64_t last = d->first + (n ? n - 1 : 0), inside = last < d->block ? last : d->block - 1;
	if (d->block == 1)
		return reach_loop(last + 1, d->inner, end);
	return reach_loop(last / d->block + 1, d->outer, end) && reach_loop(inside + 1, d->inner, end);
}

/* The elements that it copies, 0 where a dim has none; -1: more than `most` in loops or in odd dims. */
static int64_t count_elems(const struct window *w, int64_t most)
{
	int64_t all = 1, odd = 1;
	for (int i = 0; i < w->nloops; i++)
		if (w->loop[i].n < 0 || __builtin_mul_overflow(all, w->loop[i].n, &all) || all > most)
			return -1;
	for (int i = 0; i < w->nodd; i++)
		if (w->odd[i].n < 0 || __builtin_mul_overflow(odd, w->odd[i].n, &odd) ||
		    odd > (most ? most : 1))
			return -1;
	return __builtin_mul_overflow(all, odd, &all) || all > most ? -1 : all;
}

bool window_fits(const struct window *w, int64_t small, int64_t big, int64_t away)
{
	int64_t s = w->s0, b = w->b0;
	if (w->unit < 1 || w->unit > (int)sizeof(double) || w->nloops < 0 || w->nloops > 2 * MAX_RANK ||
	    w->nodd < 0 || w->nodd > 2 || w->shared >= w->nloops || !in_range(s) || !in_range(b) || small < 0)
		return false;
	int64_t n = count_elems(w, small);
	for (int i = 0; i < w->nloops && n >= 0; i++)
		if (!reach_loop(w->loop[i].n, w->loop[i].s, &s) ||
		    !reach_loop(w->loop[i].n, w->loop[i].b, &b))
			return false;
	for (int i = 0; i < w->nodd && n >= 0; i++)
		if (!reach_odd(&w->odd[i].s, w->odd[i].n, &s) || !reach_odd(&w->odd[i].b, w->odd[i].n, &b))
			return false;
	return n == 0 || (n > 0 && s < small && b < big && (s < away + w->b0 || w->s0 > away + b));
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

/* Lines that lie beside each other: element i of line k is at i * step + k * line. */
struct lines {
	int64_t step, line;
};

/* Pieces of m elements that lie in sequence on both sides. */
static void copy_pieces(const float *from, int64_t sf, float *to, int64_t st, int64_t n, int64_t m)
{
	if (m == 4)
		for (int64_t i = 0; i < n; i++)
			memcpy(to + i * st, from + i * sf, 4 * sizeof *to);
	else if (m == 8)
		for (int64_t i = 0; i < n; i++)
			memcpy(to + i * st, from + i * sf, 8 * sizeof *to);
	else if (m == 16)
		for (int64_t i = 0; i < n; i++)
			memcpy(to + i * st, from + i * sf, 16 * sizeof *to);
	else if (m < 16)
		for (int64_t i = 0; i < n; i++)
			for (int64_t k = 0; k < m; k++)
				to[i * st + k] = from[i * sf + k];
	else
		for (int64_t i = 0; i < n; i++)
			vec4_copy(to + i * st, from + i * sf, m);
}

/* to[4][4] = the transpose of from[4][4], rows `fr` and `tr` elements apart. */
static void transpose4(const float *from, int64_t fr, float *to, int64_t tr)
{
	vec4 a = *(const vec4 *)from, b = *(const vec4 *)(from + fr), c = *(const vec4 *)(from + 2 * fr),
	     d = *(const vec4 *)(from + 3 * fr);
	vec4 ab = VEC_SHUFFLE(mask4, a, b, 0, 4, 1, 5), cd = VEC_SHUFFLE(mask4, c, d, 0, 4, 1, 5);
	vec4 ef = VEC_SHUFFLE(mask4, a, b, 2, 6, 3, 7), gh = VEC_SHUFFLE(mask4, c, d, 2, 6, 3, 7);
	*(vec4 *)to = VEC_SHUFFLE(mask4, ab, cd, 0, 1, 4, 5);
	*(vec4 *)(to + tr) = VEC_SHUFFLE(mask4, ab, cd, 2, 3, 6, 7);
	*(vec4 *)(to + 2 * tr) = VEC_SHUFFLE(mask4, ef, gh, 0, 1, 4, 5);
	*(vec4 *)(to + 3 * tr) = VEC_SHUFFLE(mask4, ef, gh, 2, 3, 6, 7);
}

/* m lines of n elements. Where lines run along memory on one side and across it on the other, in tiles of 4
 * by 4. */
static void copy_lines(const float *from, struct lines f, float *to, struct lines t, int64_t n, int64_t m)
{
	bool in = f.step == 1 && t.line == 1, out = f.line == 1 && t.step == 1;
	int64_t k = 0;
	if (m > 1 && f.line == 1 && t.line == 1) {
		copy_pieces(from, f.step, to, t.step, n, m);
		return;
	}
	if (m > 1 && f.step == 1 && t.step == 1) {
		copy_pieces(from, f.line, to, t.line, m, n);
		return;
	}
	for (; (in || out) && k + 4 <= m; k += 4) {
		const float *a = from + k * f.line;
		float *b = to + k * t.line;
		int64_t i = 0;
		for (; i + 4 <= n; i += 4)
			transpose4(a + i * f.step, in ? f.line : f.step, b + i * t.step,
				   in ? t.step : t.line);
		for (int64_t x = 0; x < 4 && i < n; x++)
			copy_line(a + i * f.step + x * f.line, f.step, b + i * t.step + x * t.line, t.step,
				  n - i);
	}
	for (; k < m; k++)
		copy_line(from + k * f.line, f.step, to + k * t.line, t.step, n);
}

/* A line of elements of `unit` bytes; steps in elements. */
static void copy_units(const char *from, int64_t sf, char *to, int64_t st, int64_t n, int unit)
{
	if (sf == 1 && st == 1)
		memcpy(to, from, (size_t)(n * unit));
	else if (unit == 1)
		for (int64_t i = 0; i < n; i++)
			to[i * st] = from[i * sf];
	else
		for (int64_t i = 0; i < n; i++)
			memcpy(to + i * st * unit, from + i * sf * unit, (size_t)unit);
}

/* As copy_lines, for elements of any size: the lines, or the pieces across them, are copied one by one. */
static void copy_any(const char *from, struct lines f, char *to, struct lines t, int64_t n, int64_t m,
		     int unit)
{
	if (unit == (int)sizeof(float)) {
		copy_lines((const float *)(const void *)from, f, (float *)(void *)to, t, n, m);
		return;
	}
	bool across = m > 1 && f.line == 1 && t.line == 1;
	for (int64_t i = 0; across && i < n; i++)
		copy_units(from + i * f.step * unit, 1, to + i * t.step * unit, 1, m, unit);
	for (int64_t k = 0; !across && k < m; k++)
		copy_units(from + k * f.line * unit, f.step, to + k * t.line * unit, t.step, n, unit);
}

/* Slices along an odd dim whose offsets grow evenly. */
struct group {
	int64_t m, s, b; /* of them; elements from slice to slice */
};

static void run_loops(const struct window *c, char *sp, char *bp, struct group g, bool into, int64_t begin,
		      int64_t end)
{
	struct window_loop l[2 * MAX_RANK];
	int64_t i[2 * MAX_RANK] = {0}, last = c->nloops - 1;
	memcpy(l, c->loop, sizeof l);
	if (c->shared >= 0) {
		l[c->shared].n = end - begin;
		sp += begin * l[c->shared].s * c->unit;
		bp += begin * l[c->shared].b * c->unit;
	}
	struct window_loop in = last >= 0 ? l[last] : (struct window_loop){1, 1, 1};
	if (g.m == 1 && last > 0) { /* the lines of the loop around it are a group, too */
		g = (struct group){l[last - 1].n, l[last - 1].s, l[last - 1].b};
		last--;
	}
	const struct lines small = {in.s, g.s}, big = {in.b, g.b};
	for (int k = 0; k < c->nloops; k++)
		if (!l[k].n)
			return;
	for (;;) {
		if (into)
			copy_any(sp, small, bp, big, in.n, g.m, c->unit);
		else
			copy_any(bp, big, sp, small, in.n, g.m, c->unit);
		int64_t k = last - 1;
		for (; k >= 0; k--) {
			sp += l[k].s * c->unit;
			bp += l[k].b * c->unit;
			if (++i[k] < l[k].n)
				break;
			sp -= l[k].n * l[k].s * c->unit;
			bp -= l[k].n * l[k].b * c->unit;
			i[k] = 0;
		}
		if (k < 0)
			return;
	}
}

/* Slices from the i-th on that stay inside of a block on both sides. */
static struct group group_at(const struct window *c, int64_t i)
{
	const struct window_dim *s = &c->odd[0].s, *b = &c->odd[0].b;
	int64_t m = c->odd[0].n - i;
	if (s->block > 1 && m > s->block - (i + s->first) % s->block)
		m = s->block - (i + s->first) % s->block;
	if (b->block > 1 && m > b->block - (i + b->first) % b->block)
		m = b->block - (i + b->first) % b->block;
	return (struct group){m, s->inner, b->inner};
}

/* One group of slices after the other along the odd dims. */
static void run_odd(const struct window *c, char *sp, char *bp, bool into, int64_t begin, int64_t end)
{
	int64_t n0 = c->nodd > 0 ? c->odd[0].n : 1, n1 = c->nodd > 1 ? c->odd[1].n : 1;
	struct group g;
	for (int64_t i = 0; i < n0 * n1; i += g.m) {
		int64_t at[2] = {i / n1, i % n1}, s = c->s0, b = c->b0;
		for (int k = 0; k < c->nodd; k++) {
			s += offset_in(&c->odd[k].s, at[k]);
			b += offset_in(&c->odd[k].b, at[k]);
		}
		g = c->nodd == 1 ? group_at(c, i) : (struct group){1, 1, 1};
		run_loops(c, sp + s * c->unit, bp + b * c->unit, g, into, begin, end);
	}
}

void window_in(const struct window *w, const void *small, void *big, int64_t begin, int64_t end)
{
	run_odd(w, (char *)(uintptr_t)small, big, true, begin, end);
}

void window_out(const struct window *w, const void *big, void *small, int64_t begin, int64_t end)
{
	run_odd(w, small, (char *)(uintptr_t)big, false, begin, end);
}
