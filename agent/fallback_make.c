/* SPDX-License-Identifier: Apache-2.0 */
/* The samples that fallback kernels are made of. Sizes are odd on purpose: none is equal by chance to another
 * that generic text would tie to it. Forms differ in what generic text keeps: unit strides, layouts,
 * epilogues. */
#include "agent/fallback.h"
#include "kernels/group_parts.h"
#include "kernels/space.h"

#include <string.h>

struct maker {
	const struct emit *e;
	struct target target;
	struct arena a;
	struct buf out;
	int n;
	struct key done[1024];
};

/* One kernel from a task's text; forms that cannot be lowered, and repeated ones, are left out. */
static int add(struct maker *m, const char *text)
{
	struct task *t = ARENA_NEW(&m->a, struct task), *g = ARENA_NEW(&m->a, struct task);
	struct fallback_parts *parts = ARENA_NEW(&m->a, struct fallback_parts);
	struct space *space;
	struct loops *l;
	struct code *code = ARENA_NEW(&m->a, struct code);
	int64_t params[MAX_SYMS];
	char cand[CAND_MAX];
	int rc = task_parse(text, t);
	if (rc < 0)
		return fail_in(rc, "fallback sample");
	task_simplify(t);
	if (fallback_split(t, m->target.lanes, true, parts) < 0 || task_abstract(&parts->core, g, params) < 0)
		return E_OK;
	struct key key = task_key(g);
	for (int i = 0; i < m->n; i++)
		if (key_equal(m->done[i], key))
			return E_OK;
	if (m->n == (int)(sizeof m->done / sizeof *m->done) ||
	    space_make(&m->a, g, &m->target, NULL, &space) < 0)
		return E_OK;
	space_default(space, cand);
	if (lower(g, cand, &m->target, &m->a, &l, &code->m) < 0 ||
	    m->e->emit(l, &m->target, &m->a, &code->object) < 0)
		return E_OK;
	struct buf bytes = {0};
	code_bytes(code, &bytes);
	buf_u64(&m->out, key.hi);
	buf_u64(&m->out, key.lo);
	buf_u32(&m->out, (uint32_t)bytes.n);
	buf_add(&m->out, bytes.p, bytes.n);
	m->done[m->n++] = key;
	buf_free(&bytes);
	return E_OK;
}

static void image(struct buf *b, const char *name, const char *role, int c, int y, int x, int block,
		  const int halo[2], const char *fill)
{
	buf_printf(b, "operand %s %s f32 [3,%d,%d,%d] ", name, role, c, y, x);
	if (block)
		buf_printf(b, "0.1/%d.2.3.1", block);
	else
		buf_puts(b, "plain");
	if (halo[0] || halo[1])
		buf_printf(b, ";2+%d+%d;3+%d+%d", halo[0], halo[1], halo[0], halo[1]);
	buf_printf(b, "%s\n", fill);
}

struct window {
	bool dense, pool, mean;
	bool flat;   /* no halos, so that simplified tasks have one axis of pixels */
	bool single; /* one input channel */
	bool block;  /* the input is blocked; else plain */
	int kernel[2], stride, dilation;
	const char *post; /* after "acc": r2 is a bias, r3 something of the output's form */
};

static void read_pixels(struct buf *b, const struct window *w)
{
	for (int d = 0; d < 2; d++) {
		if (w->stride > 1)
			buf_printf(b, "%d*", w->stride);
		buf_puts(b, d ? "x+" : "y+");
		if (w->dilation > 1)
			buf_printf(b, "%d*", w->dilation);
		buf_puts(b, d ? "s]\n" : "r,");
	}
}

/* Convolution, depthwise convolution and pooling over a 2-D image, as groups write them. */
static int add_window(struct maker *m, const struct window *w)
{
	const int halo[2] = {w->flat ? 0 : 2, w->flat ? 0 : 3};
	struct buf b = {0};
	int y = 29, x = 31, s = w->stride, lanes = m->target.lanes, c = w->single ? 1 : 37;
	int out = w->dense ? 41 : c, *k = (int[]){w->kernel[0], w->kernel[1]};
	bool bias = strstr(w->post, "r2"), more = strstr(w->post, "r3");
	buf_puts(&b, "task syms=0\n");
	image(&b, "X", "in", c, (y - 1) * s + (k[0] - 1) * w->dilation + 1,
	      (x - 1) * s + (k[1] - 1) * w->dilation + 1, w->block ? lanes : 0, halo, "");
	if (!w->pool)
		buf_printf(&b, "operand W const f32 [%d,%d,%d,%d] plain\n", out, w->dense ? c : 1, k[0],
			   k[1]);
	if (bias)
		buf_printf(&b, "operand B const f32 [%d] plain\n", out);
	if (more)
		image(&b, "Z", "in", out, y, x, lanes, halo, "");
	image(&b, "Y", "out", out, y, x, lanes, halo, "");
	buf_printf(&b, "stage n:3 k:%d y:%d x:%d |", out, y, x);
	if (w->dense)
		buf_printf(&b, " c:%d", c);
	buf_printf(&b, " r:%d s:%d\nread X [n,%c,", k[0], k[1], w->dense ? 'c' : 'k');
	read_pixels(&b, w);
	if (!w->pool)
		buf_printf(&b, "read W [k,%s,r,s]\n", w->dense ? "c" : "0");
	buf_printf(&b, "%s%s", bias ? "read B [k]\n" : "", more ? "read Z [n,k,y,x]\n" : "");
	buf_puts(&b, w->pool ? w->mean ? "body r0\nsum\n" : "body r0\nmax\n" : "body r0 r1 mul\nsum\n");
	if (w->post[0])
		buf_printf(&b, "post acc %s\n", w->post);
	buf_puts(&b, "write Y [n,k,y,x]\n");
	int rc = add(m, buf_str(&b));
	buf_free(&b);
	return rc;
}

enum { NOTHING = 0, CLAMPS = 3, ALL = 5 };
static const char *const posts[] = {
    "", "r2 add", "r2 add 0 max", "r2 add 0 max 6 min", "r2 add r3 add", "r2 add r3 add 0 max"};

/* Blocked and first (plain input) convolution, depthwise, pooling: strides and epilogues. */
static int add_windows(struct maker *m)
{
	static const struct {
		int strides, last; /* of posts */
		struct window w;
	} form[] = {
	    {2, ALL, {.dense = true, .block = true, .kernel = {5, 5}}},
	    {2, ALL, {.dense = true, .block = true, .kernel = {1, 1}}},
	    {1, ALL, {.dense = true, .block = true, .kernel = {1, 1}, .flat = true}},
	    {1, CLAMPS, {.dense = true, .block = true, .kernel = {1, 5}}},
	    {1, CLAMPS, {.dense = true, .block = true, .kernel = {5, 1}}},
	    {1, CLAMPS, {.dense = true, .block = true, .kernel = {5, 5}, .dilation = 2}},
	    {2, CLAMPS, {.dense = true, .kernel = {5, 5}}},
	    {2, CLAMPS, {.dense = true, .kernel = {5, 5}, .single = true}},
	    {2, CLAMPS, {.block = true, .kernel = {5, 5}}},
	    {2, NOTHING, {.pool = true, .block = true, .kernel = {5, 5}}},
	    {2, NOTHING, {.pool = true, .mean = true, .block = true, .kernel = {5, 5}}},
	};
	int rc = E_OK;
	for (size_t i = 0; i < sizeof form / sizeof *form; i++)
		for (int s = 1; s <= form[i].strides; s++)
			for (int p = 0; p <= form[i].last && rc >= 0; p++) {
				struct window w = form[i].w;
				w.dilation = w.dilation ? w.dilation : 1;
				w.stride = s;
				w.post = posts[p];
				rc = add_window(m, &w);
			}
	return rc;
}

/* Products: weights [k,n] or [n,k], with and without bias; both operands computed, batched; pixels in blocks
 * (1x1 convolution without halos). */
static int add_products(struct maker *m)
{
	static const char *const form[] = {
	    "operand A in f32 [13,37] plain\noperand B const f32 [37,29] plain\n%operand Y out f32 [13,29] "
	    "plain\nstage m:13 n:29 | k:37\nread A [m,k]\nread B [k,n]\n%write Y [m,n]\n",
	    "operand A in f32 [13,37] plain\noperand B const f32 [29,37] plain\n%operand Y out f32 [13,29] "
	    "plain\nstage m:13 n:29 | k:37\nread A [m,k]\nread B [n,k]\n%write Y [m,n]\n",
	    "operand A in f32 [5,7,13,37] plain\noperand B in f32 [5,7,37,29] plain\n%operand Y out f32 "
	    "[5,7,13,29] plain\nstage d0:5 d1:7 m:13 n:29 | k:37\nread A [d0,d1,m,k]\nread B "
	    "[d0,d1,k,n]\n%write Y [d0,d1,m,n]\n",
	};
	int rc = E_OK;
	for (int i = 0; i < 18 && rc >= 0; i++) {
		const char *post = posts[i % 6];
		if (i >= 12 && post[0])
			continue;
		struct buf b = {0};
		bool constants = true;
		buf_puts(&b, "task syms=0\n");
		for (const char *p = form[i / 6]; *p;
		     p++) { /* operands at the first %, program at the second */
			if (*p != '%') {
				buf_add(&b, p, 1);
				continue;
			}
			bool bias = strstr(post, "r2"), more = strstr(post, "r3");
			if (constants)
				buf_printf(&b, "%s%s", bias ? "operand C const f32 [29] plain\n" : "",
					   more ? "operand Z in f32 [13,29] plain\n" : "");
			else
				buf_printf(&b, "%s%sbody r0 r1 mul\nsum\n%s%s%s", bias ? "read C [n]\n" : "",
					   more ? "read Z [m,n]\n" : "", bias ? "post acc " : "", post,
					   bias ? "\n" : "");
			constants = false;
		}
		rc = add(m, buf_str(&b));
		buf_free(&b);
	}
	return rc;
}

static int add_global(struct maker *m)
{
	static const int none[2] = {0};
	struct buf b = {0};
	int rc = E_OK;
	for (int i = 0; i < 2 && rc >= 0; i++) {
		buf_clear(&b);
		buf_puts(&b, "task syms=0\n");
		image(&b, "X", "in", 37, 29, 31, i ? m->target.lanes : 0, none, "");
		buf_puts(&b, "operand Y out f32 [3,37,1,1] plain\nstage n:3 k:37 | y:29 x:31\nread X "
			     "[n,k,y,x]\nbody r0\nsum\npost acc 0.5 mul\nwrite Y [n,k,0,0]\n");
		rc = add(m, buf_str(&b));
	}
	buf_free(&b);
	return rc;
}

int fallback_make(const char *isa, const struct emit *e, const char *path)
{
	struct maker m = {.e = e};
	int rc = target_baseline(isa, &m.target);
	if (rc >= 0)
		rc = add_windows(&m);
	if (rc >= 0)
		rc = add_products(&m);
	if (rc >= 0)
		rc = add_global(&m);
	struct buf all = {0};
	buf_puts(&all, "HFB1");
	buf_u32(&all, (uint32_t)m.n);
	buf_add(&all, m.out.p, m.out.n);
	if (rc >= 0 && (!buf_ok(&all) || !buf_ok(&m.out)))
		rc = fail(E_NOMEM, "no memory for the archive");
	if (rc >= 0)
		rc = file_write(path, all.p, all.n);
	buf_free(&all);
	buf_free(&m.out);
	arena_free(&m.a);
	return rc < 0 ? fail_in(rc, "fallback kernels for %s", isa) : m.n;
}
