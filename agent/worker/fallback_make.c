/* SPDX-License-Identifier: Apache-2.0 */
/* The sample tasks from which fallback kernels are made. Sizes are odd on purpose: generic text would tie
 * sizes together that are equal by chance. Samples differ in what generic text keeps: unit strides, layouts,
 * epilogues. */
#include "agent/run/fallback.h"
#include "kernels/group/group_parts.h"
#include "kernels/loops/lower.h"
#include "kernels/space/space.h"

#include <string.h>

struct maker {
	const struct emit *e;
	struct target target;
	struct arena a;
	struct buf index, out;
	int n;
	bool few;
	int last; /* index of the last post */
	struct key done[1024];
};

/* Emits code by the first rule whose schedule can be lowered and does not spill. */
static bool emit(struct maker *m, const struct task *g, struct code *code)
{
	struct space *space;
	struct loops *l;
	char cand[CAND_MAX];
	const struct space_want want = {.threads =
					    4}; /* cores of a usual board; one thread can do all of it */
	if (space_make(&m->a, g, &m->target, &want, &space) < 0)
		return false;
	space_default(space, cand);
	for (int rule = 0;;) {
		if (lower(g, cand, &m->target, &m->a, &l, &code->m) >= 0 &&
		    m->e->emit(l, &m->target, &m->a, &code->object) >= 0)
			return true;
		if (space_portfolio(space, &rule, cand) < 0)
			return false;
	}
}

/* Adds a kernel for a task's text; tasks for which no rule gives code, and repeated ones, are left out. */
static int add(struct maker *m, const char *text)
{
	struct task *t = ARENA_NEW(&m->a, struct task), *g = ARENA_NEW(&m->a, struct task);
	struct fallback_parts *parts = ARENA_NEW(&m->a, struct fallback_parts);
	struct code *code = ARENA_NEW(&m->a, struct code);
	int64_t params[MAX_SYMS];
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
	if (m->n == (int)(sizeof m->done / sizeof *m->done) || !emit(m, g, code))
		return E_OK;
	struct buf bytes = {0};
	code_bytes(code, &bytes);
	buf_u64(&m->index, key.hi);
	buf_u64(&m->index, key.lo);
	buf_u32(&m->index, (uint32_t)bytes.n);
	buf_add(&m->out, bytes.p, bytes.n);
	m->done[m->n++] = key;
	buf_free(&bytes);
	return E_OK;
}

enum { MAX_DIMS = 3 };

/* Writes the operand [3,c,pixels...], channels plain or in blocks, with or without halos. */
static void image(struct buf *b, const char *name, const char *role, int c, int rank, const int *pixels,
		  int block, bool halo)
{
	buf_printf(b, "operand %s %s f32 [3,%d", name, role, c);
	for (int d = 0; d < rank; d++)
		buf_printf(b, ",%d", pixels[d]);
	buf_puts(b, "] ");
	if (block) {
		buf_printf(b, "0.1/%d", block);
		for (int d = 0; d < rank; d++)
			buf_printf(b, ".%d", 2 + d);
		buf_puts(b, ".1");
	} else {
		buf_puts(b, "plain");
	}
	for (int d = 0; d < rank && halo; d++)
		buf_printf(b, ";%d+%d+%d", 2 + d, 2 + d, 2 + d);
	buf_puts(b, "\n");
}

enum kind { DENSE, SINGLE /* one input channel */, DEPTHWISE, MAXIMUM, MEAN };
enum { OUT = 37, IN = 41 };

struct window {
	enum kind kind;
	int rank;
	bool flat;             /* no halos, so that simplified tasks have one axis of pixels */
	bool block, plain_out; /* block: input in blocks; plain_out: output not in blocks */
	int kernel[MAX_DIMS], stride[MAX_DIMS], dilation;
	const char *post; /* after "acc"; r2: a bias, r3: an operand of the output's shape */
};

static const char *const pixel_names[] = {"z", "y", "x"}, *const tap_names[] = {"q", "r", "s"};

static void read_pixels(struct buf *b, const struct window *w)
{
	for (int d = 0; d < w->rank; d++) {
		int name = MAX_DIMS - w->rank + d;
		if (w->stride[d] > 1)
			buf_printf(b, "%d*", w->stride[d]);
		buf_printf(b, "%s+", pixel_names[name]);
		if (w->dilation > 1)
			buf_printf(b, "%d*", w->dilation);
		buf_printf(b, "%s%s", tap_names[name], d == w->rank - 1 ? "]\n" : ",");
	}
}

/* The pixels of the output, "z,y,x]". */
static void pixels(struct buf *b, const struct window *w)
{
	for (int d = MAX_DIMS - w->rank; d < MAX_DIMS; d++)
		buf_printf(b, ",%s", pixel_names[d]);
	buf_puts(b, "]\n");
}

static void operands(struct buf *b, const struct window *w, int lanes)
{
	static const int out[] = {23, 29, 31};
	const int *y = out + MAX_DIMS - w->rank;
	int x[MAX_DIMS], block = w->plain_out ? 0 : lanes;
	bool pools = w->kind >= MAXIMUM, halo = !w->flat;
	int channels = w->kind == SINGLE ? 1 : w->kind >= DEPTHWISE ? OUT : IN;
	for (int d = 0; d < w->rank; d++)
		x[d] = (y[d] - 1) * w->stride[d] + (w->kernel[d] - 1) * w->dilation + 1;
	image(b, "X", "in", channels, w->rank, x, w->block ? lanes : 0, halo);
	if (!pools) {
		buf_printf(b, "operand W const f32 [%d,%d", OUT, w->kind == DEPTHWISE ? 1 : channels);
		for (int d = 0; d < w->rank; d++)
			buf_printf(b, ",%d", w->kernel[d]);
		buf_puts(b, "] plain\n");
	}
	if (strstr(w->post, "r2"))
		buf_printf(b, "operand B const f32 [%d] plain\n", OUT);
	if (strstr(w->post, "r3"))
		image(b, "Z", "in", OUT, w->rank, y, block, halo);
	image(b, "Y", "out", OUT, w->rank, y, block, halo);
	buf_printf(b, "stage n:3 k:%d", OUT);
	for (int d = 0; d < w->rank; d++)
		buf_printf(b, " %s:%d", pixel_names[MAX_DIMS - w->rank + d], y[d]);
	buf_puts(b, " |");
	if (w->kind == DENSE)
		buf_printf(b, " c:%d", IN);
	for (int d = 0; d < w->rank; d++)
		buf_printf(b, " %s:%d", tap_names[MAX_DIMS - w->rank + d], w->kernel[d]);
}

/* Adds a convolution, depthwise convolution or pooling, in the form that groups write. */
static int add_window(struct maker *m, const struct window *w)
{
	static const char *const channel[] = {"c", "0", "k", "k", "k"}, *const of_weights[] = {"c", "0", "0"};
	struct buf b = {0};
	buf_puts(&b, "task syms=0\n");
	operands(&b, w, m->target.lanes);
	buf_printf(&b, "\nread X [n,%s,", channel[w->kind]);
	read_pixels(&b, w);
	if (w->kind < MAXIMUM) {
		buf_printf(&b, "read W [k,%s", of_weights[w->kind]);
		for (int d = MAX_DIMS - w->rank; d < MAX_DIMS; d++)
			buf_printf(&b, ",%s", tap_names[d]);
		buf_puts(&b, "]\n");
	}
	if (strstr(w->post, "r2"))
		buf_puts(&b, "read B [k]\n");
	if (strstr(w->post, "r3")) {
		buf_puts(&b, "read Z [n,k");
		pixels(&b, w);
	}
	buf_puts(&b, w->kind < MAXIMUM ? "body r0 r1 mul\nsum\n" : "body r0\n");
	if (w->kind >= MAXIMUM)
		buf_puts(&b, w->kind == MEAN ? "sum\n" : "max\n");
	if (w->post[0])
		buf_printf(&b, "post acc %s\n", w->post);
	buf_puts(&b, "write Y [n,k");
	pixels(&b, w);
	int rc = add(m, buf_str(&b));
	buf_free(&b);
	return rc;
}

enum { NOTHING = 0, BIAS = 1, RELU = 2, CLAMPS = 3, ALL = 5 };
static const char *const posts[] = {
    "", "r2 add", "r2 add 0 max", "r2 add 0 max 6 min", "r2 add r3 add", "r2 add r3 add 0 max"};

/* Adds each form with stride 1 and, if strides is 2, stride 2 (first: that of the outermost dim), with posts
 * up to `last`. */
static int add_windows(struct maker *m)
{
	static const struct {
		int strides, last; /* index of the last post */
		struct window w;
	} form[] = {
	    {2, ALL, {DENSE, 2, .block = true, .kernel = {5, 5}}},
	    {2, ALL, {DENSE, 2, .block = true, .kernel = {1, 1}}},
	    {1, ALL, {DENSE, 2, .block = true, .kernel = {1, 1}, .flat = true}},
	    {1, CLAMPS, {DENSE, 2, .block = true, .kernel = {1, 5}}},
	    {1, CLAMPS, {DENSE, 2, .block = true, .kernel = {5, 1}}},
	    {1, CLAMPS, {DENSE, 2, .block = true, .kernel = {5, 5}, .dilation = 2}},
	    {2, CLAMPS, {DENSE, 2, .kernel = {5, 5}}},
	    {2, CLAMPS, {SINGLE, 2, .kernel = {5, 5}}},
	    {2, CLAMPS, {DEPTHWISE, 2, .block = true, .kernel = {5, 5}}},
	    {2, NOTHING, {MAXIMUM, 2, .block = true, .kernel = {5, 5}}},
	    {2, NOTHING, {MEAN, 2, .block = true, .kernel = {5, 5}}},
	    /* few channels: plain on one side or both */
	    {2, BIAS, {DENSE, 2, .block = true, .plain_out = true, .kernel = {5, 5}}},
	    {1, BIAS, {DENSE, 2, .block = true, .plain_out = true, .kernel = {1, 1}}},
	    {1, BIAS, {DENSE, 2, .block = true, .plain_out = true, .kernel = {1, 1}, .flat = true}},
	    {1, BIAS, {DENSE, 2, .block = true, .plain_out = true, .kernel = {5, 1}}},
	    {1, CLAMPS, {DENSE, 2, .plain_out = true, .kernel = {5, 5}}},
	    {1, CLAMPS, {DENSE, 2, .plain_out = true, .kernel = {1, 1}}},
	    {1, CLAMPS, {DENSE, 2, .plain_out = true, .kernel = {1, 1}, .flat = true}},
	    {1, CLAMPS, {DENSE, 2, .kernel = {1, 1}}},
	    {1, CLAMPS, {DENSE, 2, .kernel = {1, 1}, .flat = true}},
	    {2, CLAMPS, {SINGLE, 2, .plain_out = true, .kernel = {5, 5}}},
	    {2, CLAMPS, {DEPTHWISE, 2, .plain_out = true, .kernel = {5, 5}}},
	    {2, NOTHING, {MAXIMUM, 2, .plain_out = true, .kernel = {5, 5}}},
	    {2, NOTHING, {MEAN, 2, .plain_out = true, .kernel = {5, 5}}},
	    {2, NOTHING, {MAXIMUM, 2, .block = true, .kernel = {1, 5}, .stride = {1}}},
	    /* other ranks */
	    {2, BIAS, {DENSE, 1, .block = true, .kernel = {5}}},
	    {2, BIAS, {DENSE, 1, .block = true, .plain_out = true, .kernel = {5}}},
	    {2, BIAS, {DENSE, 1, .plain_out = true, .kernel = {5}}},
	    {2, BIAS, {DENSE, 1, .kernel = {5}}},
	    {1, BIAS, {DENSE, 1, .plain_out = true, .kernel = {1}, .flat = true}},
	    {1, BIAS, {DENSE, 1, .block = true, .plain_out = true, .kernel = {1}, .flat = true}},
	    {2, BIAS, {SINGLE, 1, .kernel = {5}}},
	    {2, BIAS, {DEPTHWISE, 1, .block = true, .kernel = {5}}},
	    {2, NOTHING, {MAXIMUM, 1, .block = true, .kernel = {5}}},
	    {2, NOTHING, {MAXIMUM, 1, .plain_out = true, .kernel = {5}}},
	    {2, NOTHING, {MEAN, 1, .block = true, .kernel = {5}}},
	    {2, NOTHING, {MEAN, 1, .plain_out = true, .kernel = {5}}},
	    {2, ALL, {DENSE, 3, .block = true, .kernel = {5, 5, 5}}},
	    {2, BIAS, {DENSE, 3, .block = true, .kernel = {1, 1, 1}}},
	    {2, CLAMPS, {DENSE, 3, .kernel = {5, 5, 5}}},
	    {1, CLAMPS, {DENSE, 3, .kernel = {5, 5, 5}, .stride = {1, 2, 2}}},
	    {1, CLAMPS, {DENSE, 3, .block = true, .kernel = {1, 5, 5}}},
	    {1, CLAMPS, {DENSE, 3, .block = true, .kernel = {5, 1, 1}}},
	    {2, BIAS, {DEPTHWISE, 3, .block = true, .kernel = {5, 5, 5}}},
	    {2, NOTHING, {MAXIMUM, 3, .block = true, .kernel = {5, 5, 5}}},
	    {2, NOTHING, {MEAN, 3, .block = true, .kernel = {5, 5, 5}}},
	};
	int rc = E_OK;
	for (size_t i = 0; i < sizeof form / sizeof *form; i++)
		for (int s = 1; s <= form[i].strides && !(m->few && form[i].w.rank != 2); s++)
			for (int p = 0; p <= form[i].last && p <= m->last && rc >= 0; p++) {
				struct window w = form[i].w;
				w.dilation = w.dilation ? w.dilation : 1;
				for (int d = 0; d < w.rank; d++)
					w.stride[d] = w.stride[d] ? w.stride[d] : s;
				w.post = posts[p];
				rc = add_window(m, &w);
			}
	return rc;
}

/* Adds matrix products: weights [k,n] or [n,k], with and without bias; both operands computed, batched;
 * pixels in blocks (1x1 convolution without halos). */
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
		if ((i >= 12 && post[0]) || (m->last < CLAMPS && i % 6 > BIAS))
			continue;
		struct buf b = {0};
		bool constants = true;
		buf_puts(&b, "task syms=0\n");
		for (const char *p = form[i / 6]; *p;
		     p++) { /* operands replace the first %, the program the second */
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
	static const char *const ones[] = {"", ",1", ",1,1", ",1,1,1"}, *const zeros[] = {"", ",0", ",0,0",
											  ",0,0,0"};
	static const int pixels[] = {29, 31};
	struct buf b = {0};
	int rc = E_OK;
	for (int i = 0; i < 2 && rc >= 0; i++) {
		buf_clear(&b);
		buf_puts(&b, "task syms=0\n");
		image(&b, "X", "in", 37, 2, pixels, i ? m->target.lanes : 0, false);
		buf_puts(&b, "operand Y out f32 [3,37,1,1] plain\nstage n:3 k:37 | y:29 x:31\nread X "
			     "[n,k,y,x]\nbody r0\nsum\npost acc 0.5 mul\nwrite Y [n,k,0,0]\n");
		rc = add(m, buf_str(&b));
	}
	for (int i = 0; i < 4 && rc >= 0; i++) { /* simplified: one axis of channels, one of pixels */
		buf_clear(&b);
		buf_printf(&b, "task syms=0\noperand X in f32 [3,37] plain\noperand Y out f32 [3%s] plain\n",
			   ones[i]);
		buf_printf(&b, "stage n:3 | k:37\nread X [n,k]\nbody r0\nsum\nwrite Y [n%s]\n", zeros[i]);
		rc = add(m, buf_str(&b));
	}
	buf_free(&b);
	return rc;
}

/* Adds ConvTranspose with stride 1; the portable path does other strides as fast. */
static int add_transposed(struct maker *m)
{
	static const int image_of[] = {29, 31};
	struct buf b = {0};
	int rc = E_OK;
	for (int i = 0; i < 12 && rc >= 0; i++) {
		bool block = i & 1, plain_out = i >> 1 & 1;
		const char *post = posts[i / 4];
		if (m->few && i / 4 > BIAS)
			continue;
		buf_clear(&b);
		buf_puts(&b, "task syms=0\n");
		image(&b, "X", "in", 41, 2, image_of, block ? m->target.lanes : 0, true);
		buf_puts(&b, "operand W const f32 [41,1,1,3,3,37] plain\n");
		if (post[0])
			buf_puts(&b, "operand B const f32 [37] plain\n");
		image(&b, "Y", "out", 37, 2, image_of, plain_out ? 0 : m->target.lanes, true);
		buf_puts(&b, "stage n:3 k:37 y:29 x:31 | c:41 r:3 s:3\nread X [n,c,y-r+1,x-s+1]\n"
			     "read W [c,0,0,r,s,k]\n");
		buf_printf(&b, "%sbody r0 r1 mul\nsum\n", post[0] ? "read B [k]\n" : "");
		if (post[0])
			buf_printf(&b, "post acc %s\n", post);
		buf_puts(&b, "write Y [n,k,y,x]\n");
		rc = add(m, buf_str(&b));
	}
	buf_free(&b);
	return rc;
}

/* Adds sums over neighbouring channels (LRN; of images with halos, which take 22 KB on Arm, unless few), and
 * chains: softmax along the last of 2 to 4 dims. */
static int add_chains(struct maker *m)
{
	static const char *const sums[] = {
	    "[3,37,29] plain\noperand Y out f32 [3,37,29] plain\nstage n:3 k:37 x:29 | j:5\nread X "
	    "[n,k+j-2,x]\nbody r0 "
	    "square\nsum\nwrite Y [n,k,x]\n",
	    "[3,37,29,31] plain;2+1+1;3+1+1\noperand Y out f32 [3,37,29,31] plain;2+1+1;3+1+1\nstage n:3 "
	    "k:37 y:29 "
	    "x:31 | j:5\nread X [n,k+j-2,y,x]\nbody r0 square\nsum\nwrite Y [n,k,y,x]\n"};
	static const struct {
		const char *dims, *axes, *at; /* all dims but the last */
	} row[] = {{"3,", "a:3", "a,"}, {"3,5,", "a:3 b:5", "a,b,"}, {"3,5,7,", "a:3 b:5 c:7", "a,b,c,"}};
	struct buf b = {0};
	int rc = E_OK;
	for (int i = 0; i < (m->few ? 1 : 2) && rc >= 0; i++) {
		buf_clear(&b);
		buf_printf(&b, "task syms=0\noperand X in f32 %s", sums[i]);
		rc = add(m, buf_str(&b));
	}
	for (int i = 0; i < 3 && rc >= 0; i++) {
		const char *d = row[i].dims, *x = row[i].axes, *at = row[i].at;
		buf_clear(&b);
		buf_printf(&b, "task syms=0\noperand X in f32 [%s37] plain\noperand U tmp f32 [%s1] plain\n",
			   d, d);
		buf_printf(&b, "operand V tmp f32 [%s1] plain\noperand Y out f32 [%s37] plain\n", d, d);
		buf_printf(&b, "stage %s | x:37\nread X [%sx]\nbody r0\nmax\nwrite U [%s0]\n", x, at, at);
		buf_printf(
		    &b,
		    "stage %s | x:37\nread X [%sx]\nread U [%s0]\nbody r0 r1 sub exp\nsum\npost acc recip\n",
		    x, at, at);
		buf_printf(&b, "write V [%s0]\nstage %s x:37\nread X [%sx]\nread U [%s0]\n", at, x, at, at);
		buf_printf(&b, "read V [%s0]\nbody r0 r1 sub exp r2 mul\nwrite Y [%sx]\n", at, at);
		rc = add(m, buf_str(&b));
	}
	buf_free(&b);
	return rc;
}

/* Adds image resizing by sums over taps, whose positions and weights are tables; blocked or plain. */
static int add_resized(struct maker *m)
{
	static const int in[] = {19, 17}, out[] = {23, 29};
	struct buf b = {0};
	int rc = E_OK;
	for (int i = 0; i < 2 && rc >= 0; i++) {
		int block = i ? m->target.lanes : 0;
		buf_clear(&b);
		buf_puts(&b, "task syms=0\n");
		image(&b, "X", "in", 37, 2, in, block, true);
		buf_puts(&b, "operand S const i32 [115] plain\noperand U const f32 [23,5] plain\n"
			     "operand T const i32 [145] plain\noperand V const f32 [29,5] plain\n");
		image(&b, "Y", "out", 37, 2, out, block, true);
		buf_puts(&b, "stage n:3 k:37 y:23 x:29 | r:5 s:5\nread X [n,k,@S(5*y+r),@T(5*x+s)]\n"
			     "read U [y,r]\nread V [x,s]\nbody r0 r1 mul r2 mul\nsum\nwrite Y [n,k,y,x]\n");
		rc = add(m, buf_str(&b));
	}
	buf_free(&b);
	return rc;
}

int fallback_make(const char *isa, const struct emit *e, bool few, const char *path)
{
	struct maker m = {.e = e, .few = few};
	int rc = target_baseline(isa, &m.target);
	/* With 32 registers tiles are larger, and kernels twice as long: there, products get a bias alone. */
	m.last = !few ? ALL : m.target.regs > 16 ? RELU : CLAMPS;
	if (rc >= 0)
		rc = add_windows(&m);
	if (rc >= 0)
		rc = add_products(&m);
	if (rc >= 0)
		rc = add_global(&m);
	if (rc >= 0)
		rc = add_transposed(&m);
	if (rc >= 0)
		rc = add_chains(&m);
	if (rc >= 0)
		rc = add_resized(&m);
	struct buf all = {0};
	buf_puts(&all, "HFB2");
	buf_u32(&all, (uint32_t)m.n);
	buf_add(&all, m.index.p, m.index.n);
	buf_add(&all, m.out.p, m.out.n);
	if (rc >= 0 && (!buf_ok(&all) || !buf_ok(&m.index) || !buf_ok(&m.out)))
		rc = fail(E_NOMEM, "no memory for the archive");
	if (rc >= 0)
		rc = file_write(path, all.p, all.n);
	buf_free(&all);
	buf_free(&m.index);
	buf_free(&m.out);
	arena_free(&m.a);
	return rc < 0 ? fail_in(rc, "fallback kernels for %s", isa) : m.n;
}
