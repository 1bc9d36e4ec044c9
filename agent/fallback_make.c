/* SPDX-License-Identifier: Apache-2.0 */
/* The samples that fallback kernels are made of. Sizes are odd on purpose: none is equal by chance to another
 * that generic text would tie to it. Forms differ in what generic text keeps: halos, unit strides, zero
 * offsets, layouts. */
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
	if (fallback_split(t, m->target.lanes, parts) < 0 || task_abstract(&parts->core, g, params) < 0)
		return E_OK;
	struct key key = task_key(g);
	for (int i = 0; i < m->n; i++)
		if (key_equal(m->done[i], key))
			return E_OK;
	if (m->n == (int)(sizeof m->done / sizeof *m->done) || space_make(&m->a, g, &m->target, &space) < 0)
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
	bool dense, pool, mean, bias;
	int xblock, stride, pad, kernel;
	int xhalo[2], yhalo[2];
};

/* Convolution, depthwise convolution and pooling over a 2-D image, as groups write them. */
static int add_window(struct maker *m, const struct window *w)
{
	struct buf b = {0};
	int y = 29, x = 31, k = w->kernel, s = w->stride, block = w->xblock || w->dense ? m->target.lanes : 0,
	    c = 37;
	int need = (y - 1) * s + k - w->pad - w->xhalo[1], needx = (x - 1) * s + k - w->pad - w->xhalo[1];
	buf_puts(&b, "task syms=0\n");
	image(&b, "X", "in", c, need, needx, w->xblock ? m->target.lanes : 0, w->xhalo,
	      w->pool && !w->mean && w->pad ? " fill=-3.40282347e+38" : "");
	if (!w->pool)
		buf_printf(&b, "operand W const f32 [%d,%d,%d,%d] plain\n", w->dense ? 41 : c,
			   w->dense ? c : 1, k, k);
	if (w->bias)
		buf_printf(&b, "operand B const f32 [%d] plain\n", w->dense ? 41 : c);
	image(&b, "Y", "out", w->dense ? 41 : c, y, x, block, w->yhalo, "");
	buf_printf(&b, "stage n:3 k:%d y:%d x:%d |", w->dense ? 41 : c, y, x);
	if (w->dense)
		buf_printf(&b, " c:%d", c);
	buf_printf(&b, " r:%d s:%d\nread X [n,%c,", k, k, w->dense ? 'c' : 'k');
	for (int d = 0; d < 2; d++) {
		if (s > 1)
			buf_printf(&b, "%d*", s);
		buf_printf(&b, d ? "x+s" : "y+r");
		if (w->pad)
			buf_printf(&b, "-%d", w->pad);
		buf_puts(&b, d ? "]\n" : ",");
	}
	if (!w->pool)
		buf_printf(&b, "read W [k,%s,r,s]\n", w->dense ? "c" : "0");
	if (w->bias)
		buf_puts(&b, "read B [k]\n");
	buf_puts(&b, w->pool ? w->mean ? "body r0\nsum\n" : "body r0\nmax\n" : "body r0 r1 mul\nsum\n");
	if (w->bias)
		buf_puts(&b, "post acc r2 add\n");
	buf_puts(&b, "write Y [n,k,y,x]\n");
	int rc = add(m, buf_str(&b));
	buf_free(&b);
	return rc;
}

enum { DENSE, FIRST, DEPTHWISE, MAXIMUM, MEAN };

/* Blocked and first (plain input) convolution, depthwise, pooling: with and without halos, padding and
 * strides. */
static int add_windows(struct maker *m)
{
	static const int halos[2][2] = {{0, 0}, {2, 3}};
	int rc = E_OK;
	for (int i = 0; i < 5 * 64 && rc >= 0; i++) {
		int kind = i / 64;
		bool pad = i & 1, xhalo = i & 2, yhalo = i & 4, one = i & 16, bias = i & 32;
		struct window w = {.dense = kind <= FIRST,
				   .pool = kind >= MAXIMUM,
				   .mean = kind == MEAN,
				   .xblock = kind != FIRST};
		if ((pad && (!xhalo || one)) || (one && kind != DENSE) || (bias && w.pool) ||
		    (!bias && kind == FIRST) || (!bias && kind == DEPTHWISE))
			continue;
		w.bias = bias;
		w.stride = i & 8 ? 2 : 1;
		w.kernel = one ? 1 : 5;
		w.pad = pad ? 2 : 0;
		memcpy(w.xhalo, halos[xhalo], sizeof w.xhalo);
		memcpy(w.yhalo, halos[yhalo], sizeof w.yhalo);
		rc = add_window(m, &w);
	}
	return rc;
}

/* Products: weights [k,n] or [n,k], with and without bias; both operands computed, batched. */
static int add_products(struct maker *m)
{
	static const char *const form[] = {
	    "task syms=0\noperand A in f32 [13,37] plain\noperand B const f32 [37,29] plain\n%s"
	    "operand Y out f32 [13,29] plain\nstage m:13 n:29 | k:37\nread A [m,k]\nread B [k,n]\n%sbody r0 "
	    "r1 mul\nsum\n"
	    "%swrite Y [m,n]\n",
	    "task syms=0\noperand A in f32 [13,37] plain\noperand B const f32 [29,37] plain\n%s"
	    "operand Y out f32 [13,29] plain\nstage m:13 n:29 | k:37\nread A [m,k]\nread B [n,k]\n%sbody r0 "
	    "r1 mul\nsum\n"
	    "%swrite Y [m,n]\n",
	    "task syms=0\noperand A in f32 [5,7,13,37] plain\noperand B in f32 [5,7,37,29] plain\n%s"
	    "operand Y out f32 [5,7,13,29] plain\nstage d0:5 d1:7 m:13 n:29 | k:37\nread A [d0,d1,m,k]\n"
	    "read B [d0,d1,k,n]\n%sbody r0 r1 mul\nsum\n%swrite Y [d0,d1,m,n]\n",
	};
	int rc = E_OK;
	for (int i = 0; i < 6 && rc >= 0; i++) {
		struct buf b = {0};
		const char *f = form[i / 2];
		int part = 0;
		for (const char *p = f; *p; p++) { /* the three %s in turn */
			static const char *const words[] = {"operand C const f32 [29] plain\n",
							    "read C [n]\n", "post acc r2 add\n"};
			if (*p == '%') {
				buf_puts(&b, i % 2 && i < 4 ? words[part] : "");
				part++;
				p++;
			} else {
				buf_add(&b, p, 1);
			}
		}
		rc = add(m, buf_str(&b));
		buf_free(&b);
	}
	return rc;
}

static int add_global(struct maker *m)
{
	struct buf b = {0};
	int rc = E_OK;
	for (int i = 0; i < 4 && rc >= 0; i++) {
		static const int halos[][2] = {{0, 0}, {2, 3}};
		buf_clear(&b);
		buf_puts(&b, "task syms=0\n");
		image(&b, "X", "in", 37, 29, 31, i & 1 ? m->target.lanes : 0, halos[i / 2], "");
		buf_puts(&b, "operand Y out f32 [3,37,1,1] plain\nstage n:3 k:37 | y:29 x:31\nread X "
			     "[n,k,y,x]\nbody r0\nsum\n"
			     "write Y [n,k,0,0]\n");
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
