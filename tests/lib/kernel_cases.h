/* SPDX-License-Identifier: Apache-2.0 */
/* Random tasks of every kind that lowering must know, and a run of one schedule against the reference: shared
 * by test_lower.c (interpreter) and test_llvm_kernels.c (machine code). Every draw comes from the caller's
 * generator. Past 800 lines because it is one grammar of tasks: each kind draws shapes and programs by the
 * same rules. */
#ifndef TESTS_KERNEL_CASES_H
#define TESTS_KERNEL_CASES_H

#include "kernels/loops/lower.h"
#include "kernels/space/sched.h"
#include "kernels/space/space.h"
#include "tests/lib/test.h"

#include <math.h>

struct kcase {
	struct arena a;
	struct task t;
	int64_t param[LOOPS_MAX_PARAMS];
	void *plain[MAX_OPERANDS], *phys[MAX_OPERANDS], *ref[MAX_OPERANDS];
	int64_t elems[MAX_OPERANDS];
};

/* A target for schedules and the interpreter, without any figure of its speed. */
static inline struct target case_board(int lanes, int regs)
{
	return (struct target){.isa = "x86-64-v4",
			       .lanes = lanes,
			       .regs = regs,
			       .fma = true,
			       .l1_bytes = 32768,
			       .l2_bytes = 1 << 20,
			       .l3_bytes = 32 << 20,
			       .cores = 1};
}

/* A large GPU through OpenCL, with the peaks that were measured on one. */
static inline struct target case_gpu(void)
{
	return (struct target){.isa = "opencl",
			       .soc = "gpu",
			       .cpu = "generic",
			       .lanes = 4,
			       .regs = 32,
			       .fma = true,
			       .l1_bytes = 16 << 10,
			       .l2_bytes = 512 << 10,
			       .line_bytes = 64,
			       .cores = 132,
			       .group = 1024,
			       .fma_gflops = 59923,
			       .bw_gbs = {11776, 11689, 11479, 3601},
			       .copy_gbs = 3129};
}

/* A processor of two cores through OpenCL. */
static inline struct target case_slow_items(void)
{
	struct target tg = case_gpu();
	tg.cores = 2;
	tg.serial = 1;
	tg.fma_gflops = 200;
	for (int i = 0; i < 4; i++)
		tg.bw_gbs[i] = 200 >> i;
	return tg;
}

/* The space of the task with this text, in the arena. */
static inline struct space *case_space(struct arena *a, const char *text, const struct target *tg)
{
	struct task *t = ARENA_NEW(a, struct task);
	struct space *s = NULL;
	CHECK_OK(task_parse(text, t));
	CHECK_OK(space_make(a, t, tg, NULL, &s));
	return s;
}

/* Draws, changes and crosses n candidates, which must all be legal. Returns how many have the key. */
static inline int case_drawn(const struct space *s, uint64_t seed, int n, const char *key)
{
	char last[CAND_MAX], cand[CAND_MAX], mixed[CAND_MAX];
	struct rng r;
	int found = 0;
	rng_seed(&r, seed);
	space_default(s, last);
	for (int i = 0; i < n; i++) {
		CHECK_OK(i % 2 ? space_mutate(s, &r, last, cand) : space_random(s, &r, cand));
		CHECK_OK(space_cross(s, &r, last, cand, mixed));
		CHECK_OK(space_legal(s, cand));
		CHECK_OK(space_legal(s, mixed));
		found += strstr(cand, key) != NULL;
		memcpy(last, mixed, sizeof last);
	}
	return found;
}

static inline int pick(struct rng *r, int lo, int hi)
{
	return lo + (int)rng_below(r, (uint32_t)(hi - lo + 1));
}

static inline const char *one_of(struct rng *r, const char *const *list, int n)
{
	return list[rng_below(r, (uint32_t)n)];
}

/* An image layout: plain or blocked channels. */
static inline void image(struct buf *b, struct rng *r, const char *name, const char *role, int n, int c,
			 int h, int w, int halo, int block)
{
	buf_printf(b, "operand %s %s f32 [%d,%d,%d,%d] ", name, role, n, c, h, w);
	if (block)
		buf_printf(b, "0.1/%d.2.3.1", block);
	else
		buf_puts(b, halo ? "0.1.2.3" : "plain");
	if (halo)
		buf_printf(b, ";2+%d+%d;3+%d+%d", halo, halo, halo, halo);
	buf_puts(b, "\n");
	(void)r;
}

static const char *const post_conv[] = {"",
					"post acc r2 add\n",
					"post acc r2 add 0 max\n",
					"post acc r2 add 0 max 6 min\n",
					"post acc r2 add sigmoid\n",
					"post acc r2 add r3 add 0 max\n",
					"post acc r2 add tanh r3 mul\n"};

static inline int block_of(struct rng *r)
{
	static const int b[] = {16, 16, 16, 8, 0};
	return b[rng_below(r, 5)];
}

/* Writes an index such as y*2+r-1 of one image dimension. */
static inline void window(struct buf *b, const char *axis, const char *tap, int stride, int dil, int pad)
{
	if (stride != 1)
		buf_printf(b, "%d*", stride);
	buf_printf(b, "%s+", axis);
	if (dil != 1)
		buf_printf(b, "%d*", dil);
	buf_puts(b, tap);
	if (pad)
		buf_printf(b, "-%d", pad);
}

/* CONV_3X3: a convolution that has Winograd schedules. */
enum conv_kind { CONV_ANY, CONV_DEPTHWISE, CONV_3X3 };

static inline void gen_conv(struct buf *b, struct rng *r, enum conv_kind kind)
{
	bool depthwise = kind == CONV_DEPTHWISE, plain = kind == CONV_3X3;
	int k = pick(r, 1, 40), c = depthwise ? k : pick(r, 1, 36), rs = plain ? 3 : pick(r, 1, 3),
	    stride = plain ? 1 : pick(r, 1, 2);
	int dil = !plain && pick(r, 1, 4) == 1 ? 2 : 1, pad = rs > 1 ? pick(r, 0, 1) : 0, oh = pick(r, 1, 7),
	    ow = pick(r, 1, 19);
	int h = (oh - 1) * stride + (rs - 1) * dil + 1 - 2 * pad,
	    w = (ow - 1) * stride + (rs - 1) * dil + 1 - 2 * pad;
	int n = pick(r, 1, 4) == 1 ? 2 : 1, xb = block_of(r), yb = depthwise ? xb : block_of(r);
	h = h < 1 ? 1 : h;
	w = w < 1 ? 1 : w;
	const char *post = one_of(r, post_conv, 7);
	bool bias = strstr(post, "r2"), residual = strstr(post, "r3");
	buf_puts(b, "task syms=0\n");
	image(b, r, "X", "in", n, c, h, w, pick(r, 0, 1) ? pad : 0, xb);
	buf_printf(b, "operand W const f32 [%d,%d,%d,%d] plain\n", k, depthwise ? 1 : c, rs, rs);
	if (bias)
		buf_printf(b, "operand B const f32 [%d] plain\n", k);
	if (residual)
		image(b, r, "R", "in", n, k, oh, ow, pick(r, 0, 1), yb);
	image(b, r, "Y", "out", n, k, oh, ow, pick(r, 0, 1), yb);
	buf_printf(b, "stage n:%d k:%d y:%d x:%d |", n, k, oh, ow);
	if (!depthwise)
		buf_printf(b, " c:%d", c);
	buf_printf(b, " r:%d s:%d\nread X [n,%s,", rs, rs, depthwise ? "k" : "c");
	window(b, "y", "r", stride, dil, pad);
	buf_puts(b, ",");
	window(b, "x", "s", stride, dil, pad);
	buf_printf(b, "]\nread W [k,%s,r,s]\n", depthwise ? "0" : "c");
	if (bias)
		buf_puts(b, "read B [k]\n");
	if (residual)
		buf_puts(b, "read R [n,k,y,x]\n");
	buf_printf(b, "body r0 r1 mul\nsum\n%swrite Y [n,k,y,x]\n", post);
}

static inline void gen_group(struct buf *b, struct rng *r)
{
	int g = pick(r, 2, 4), kg = 2 * pick(r, 1, 16), cg = pick(r, 2, 18), s = pick(r, 2, 9),
	    xb = block_of(r);
	buf_puts(b, "task syms=0\n");
	image(b, r, "X", "in", 1, g * cg, s, s, 1, xb);
	buf_printf(b, "operand W const f32 [%d,%d,3,3] plain\n", g * kg, cg);
	image(b, r, "Y", "out", 1, g * kg, s, s, 0, block_of(r));
	buf_printf(b, "stage g:%d k:%d y:%d x:%d | c:%d r:3 s:3\n", g, kg, s, s, cg);
	buf_printf(b, "read X [0,%d*g+c,y+r-1,x+s-1]\nread W [%d*g+k,c,r,s]\nbody r0 r1 mul\nsum\n", cg, kg);
	buf_printf(b, "write Y [0,%d*g+k,y,x]\n", kg);
}

static inline void gen_gemm(struct buf *b, struct rng *r)
{
	int m = pick(r, 1, 33), n = pick(r, 1, 70), k = pick(r, 1, 50), trans = pick(r, 0, 1);
	const char *role = pick(r, 0, 2) ? "const" : "in";
	buf_printf(b, "task syms=0\noperand A in f32 [%d,%d] plain\n", m, k);
	buf_printf(b, "operand B %s f32 [%d,%d] plain\n", role, trans ? n : k, trans ? k : n);
	buf_printf(b, "operand D const f32 [%d] plain\noperand Y out f32 [%d,%d] plain\n", n, m, n);
	buf_printf(b, "stage m:%d n:%d | k:%d\nread A [m,k]\nread B [%s]\nread D [n]\nbody r0 r1 mul\nsum\n",
		   m, n, k, trans ? "n,k" : "k,n");
	buf_printf(b, "post acc r2 add%s\nwrite Y [m,n]\n", pick(r, 0, 1) ? " 0 max" : "");
}

static inline void gen_pool(struct buf *b, struct rng *r)
{
	int c = pick(r, 1, 33), oh = pick(r, 1, 5), ow = pick(r, 1, 9), f = pick(r, 1, 3),
	    stride = pick(r, 1, 3);
	int h = (oh - 1) * stride + f, w = (ow - 1) * stride + f, pad = f > 1 ? pick(r, 0, 1) : 0,
	    max = pick(r, 0, 1);
	int blk = block_of(r);
	struct buf x = {0};
	h = h - 2 * pad < 1 ? 1 : h - 2 * pad;
	w = w - 2 * pad < 1 ? 1 : w - 2 * pad;
	image(&x, r, "X", "in", 1, c, h, w, pick(r, 0, 1) ? pad : 0, blk);
	x.p[x.n - 1] = 0;
	buf_printf(b, "task syms=0\n%s%s\n", buf_str(&x), max ? " fill=-3.40282347e+38" : "");
	buf_free(&x);
	image(b, r, "Y", "out", 1, c, oh, ow, 0, blk);
	buf_printf(b, "stage c:%d y:%d x:%d | r:%d s:%d\nread X [0,c,", c, oh, ow, f, f);
	window(b, "y", "r", stride, 1, pad);
	buf_puts(b, ",");
	window(b, "x", "s", stride, 1, pad);
	buf_printf(b, "]\nbody r0\n%s", max ? "max\n" : "sum\n");
	if (!max)
		buf_printf(b, "post acc %.9g mul\n", (double)(1.f / (float)(f * f)));
	buf_puts(b, "write Y [0,c,y,x]\n");
}

static inline void gen_map(struct buf *b, struct rng *r)
{
	static const char *const body[] = {"r0 r1 add",
					   "r0 exp r1 mul",
					   "r0 sigmoid r0 mul",
					   "r0 tanh r1 sub",
					   "r0 erf 1 add r0 mul",
					   "r0 abs 0.125 add log",
					   "r0 abs sqrt r1 max",
					   "r0 r1 lt r0 r1 select",
					   "r0 floor r1 min",
					   "r0 3 pow r1 add",
					   "r0 abs 0.125 add r1 pow",
					   "r0 neg recip sign r1 div",
					   "r0 square r1 ceil add",
					   "r0 r1 le r0 rint sub",
					   "r0 r0 eq 0.5 pow r1 mul"};
	int c = pick(r, 1, 35), h = pick(r, 1, 6), w = pick(r, 1, 21), kind = pick(r, 0, 3);
	const char *const second[] = {"n,c,y,x", "0,c,0,0", "0,0,y,x", "0,0,0,0"};
	const char *text = one_of(r, body, 15);
	buf_puts(b, "task syms=0\n");
	image(b, r, "X", "in", 1, c, h, w, pick(r, 0, 1), block_of(r));
	bool two = strstr(text, "r1");
	if (two)
		image(b, r, "Z", pick(r, 0, 1) ? "in" : "const", 1, kind < 2 ? c : 1,
		      kind == 0 || kind == 2 ? h : 1, kind == 0 || kind == 2 ? w : 1, 0,
		      kind < 2 ? block_of(r) : 0);
	image(b, r, "Y", "out", 1, c, h, w, pick(r, 0, 1), block_of(r));
	buf_printf(b, "stage n:1 c:%d y:%d x:%d\nread X [n,c,y,x]\n", c, h, w);
	if (two)
		buf_printf(b, "read Z [%s]\n", second[kind]);
	buf_printf(b, "body %s\nwrite Y [n,c,y,x]\n", text);
}

static inline void gen_reduce(struct buf *b, struct rng *r)
{
	static const char *const comb[] = {"sum", "max", "min", "prod"};
	static const char *const body[] = {"r0", "r0 square", "r0 exp", "r0 abs"};
	int c = pick(r, 1, 20), h = pick(r, 1, 9), w = pick(r, 1, 40), which = pick(r, 0, 2),
	    blk = block_of(r);
	const char *const axes[] = {"c:%d y:%d | x:%d", "c:%d | y:%d x:%d", "y:%d x:%d | c:%d"};
	const int size[3][3] = {{c, h, w}, {c, h, w}, {h, w, c}};
	const char *const dims[] = {"c,y", "c,0", "y,x"};
	buf_puts(b, "task syms=0\n");
	image(b, r, "X", "in", 1, c, h, w, pick(r, 0, 1), blk);
	buf_printf(b, "operand Y out f32 [%d,%d] plain\nstage ", size[which][0],
		   which == 1 ? 1 : size[which][1]);
	buf_printf(b, axes[which], size[which][0], size[which][1], size[which][2]);
	buf_printf(b, "\nread X [0,c,y,x]\nbody %s\n%s\nwrite Y [%s]\n", one_of(r, body, 4),
		   one_of(r, comb, 4), dims[which]);
}

/* Transposes, reshapes, gathers: indices that need a general address. */
static inline void gen_index(struct buf *b, struct rng *r)
{
	int c = pick(r, 1, 20), h = pick(r, 1, 7), w = pick(r, 1, 20), which = pick(r, 0, 3),
	    xb = block_of(r);
	buf_puts(b, "task syms=0\n");
	image(b, r, "X", "in", 1, c, h, w, 0, xb);
	if (which == 0)
		buf_printf(b,
			   "operand Y out f32 [%d,%d,%d] plain\nstage y:%d x:%d c:%d\nread X [0,c,y,x]\nbody "
			   "r0\nwrite Y [y,x,c]\n",
			   h, w, c, h, w, c);
	else if (which == 1)
		buf_printf(b,
			   "operand Y out f32 [%d] plain\nstage i:%d\nread X "
			   "[0,(i)/%d,(i)/%d%%%d,(i)%%%d]\nbody r0\nwrite Y [i]\n",
			   c * h * w, c * h * w, h * w < 2 ? 2 : h * w, w < 2 ? 2 : w, h < 2 ? 2 : h,
			   w < 2 ? 2 : w);
	else if (which == 2)
		buf_printf(b,
			   "operand T in i32 [%d] plain\noperand Y out f32 [%d,%d,%d] plain\nstage c:%d y:%d "
			   "x:%d\nread X [0,c,y,@T(x)]\nbody r0\nwrite Y [c,y,x]\n",
			   w, c, h, w, c, h, w);
	else
		buf_printf(b,
			   "operand Y out f32 [%d,%d,%d] plain\nstage c:%d y:%d x:%d\nread X "
			   "[0,c,(y)/2,(x)/2]\nbody r0\nwrite Y [c,y,x]\n",
			   c, 2 * h, 2 * w, c, 2 * h, 2 * w);
}

static inline void gen_chain(struct buf *b, struct rng *r)
{
	int n = pick(r, 1, 6), c = pick(r, 1, 50), inner = pick(r, 0, 3) ? 1 : pick(r, 2, 20);
	const char *dims = "n,c,i", *red = "n,i";
	buf_printf(b, "task syms=0\noperand X in f32 [%d,%d,%d] plain\n", n, c, inner);
	buf_printf(b, "operand M tmp f32 [%d,%d] plain\noperand S tmp f32 [%d,%d] plain\n", n, inner, n,
		   inner);
	buf_printf(b, "operand Y out f32 [%d,%d,%d] plain\n", n, c, inner);
	bool norm = pick(r, 0, 1);
	buf_printf(b, "stage n:%d i:%d | c:%d\nread X [%s]\nbody r0\n%s", n, inner, c, dims,
		   norm ? "sum\n" : "max\n");
	if (norm)
		buf_printf(b, "post acc %.9g mul\n", (double)(1.f / (float)c));
	buf_printf(b,
		   "write M [%s]\nstage n:%d i:%d | c:%d\nread X [%s]\nread M [%s]\nbody r0 r1 sub %s\nsum\n",
		   red, n, inner, c, dims, red, norm ? "square" : "exp");
	if (norm)
		buf_printf(b, "post acc %.9g mul 1.52587891e-05 add sqrt\n", (double)(1.f / (float)c));
	buf_printf(b, "write S [%s]\nstage n:%d i:%d c:%d\nread X [%s]\nread M [%s]\nread S [%s]\n", red, n,
		   inner, c, dims, red, red);
	buf_printf(b, "body r0 r1 sub %sr2 div\nwrite Y [%s]\n", norm ? "" : "exp ", dims);
}

/* Softmax of rows, e^(x - max) kept in a row of scratch. */
static inline void gen_rows(struct buf *b, struct rng *r)
{
	int n = pick(r, 1, 6), c = pick(r, 1, 70);
	buf_printf(b, "task syms=0\noperand X in f32 [%d,%d] plain\noperand M tmp f32 [%d,1] plain\n", n, c,
		   n);
	buf_printf(b, "operand E tmp f32 [%d,%d] plain\noperand S tmp f32 [%d,1] plain\n", n, c, n);
	buf_printf(b, "operand Y out f32 [%d,%d] plain\n", n, c);
	buf_printf(b, "stage n:%d | c:%d\nread X [n,c]\nbody r0\nmax\nwrite M [n,0]\n", n, c);
	buf_printf(b, "stage n:%d c:%d\nread X [n,c]\nread M [n,0]\nbody r0 r1 sub exp\nwrite E [n,c]\n", n,
		   c);
	buf_printf(b, "stage n:%d | c:%d\nread E [n,c]\nbody r0\nsum\npost acc recip\nwrite S [n,0]\n", n, c);
	buf_printf(b, "stage n:%d c:%d\nread E [n,c]\nread S [n,0]\nbody r0 r1 mul\nwrite Y [n,c]\n", n, c);
}

/* Attention: keys in order first, then in rows of the scores products, softmax, products. */
static inline void gen_attention(struct buf *b, struct rng *r)
{
	int h = pick(r, 1, 3), m = pick(r, 1, 30), n = pick(r, 1, 40), k = pick(r, 1, 20), v = pick(r, 1, 40);
	buf_printf(b, "task syms=0\noperand Q in f32 [%d,%d,%d] plain\n", m, h, k);
	buf_printf(b, "operand K in f32 [%d,%d,%d] plain\noperand T tmp f32 [%d,%d,%d] plain\n", n, h, k, h,
		   k, n);
	buf_printf(b, "operand S tmp f32 [%d,%d,%d] plain\noperand M tmp f32 [%d,%d,1] plain\n", h, m, n, h,
		   m);
	buf_printf(b, "operand E tmp f32 [%d,%d,%d] plain\noperand Z tmp f32 [%d,%d,1] plain\n", h, m, n, h,
		   m);
	buf_printf(b, "operand V in f32 [%d,%d,%d] plain\noperand Y out f32 [%d,%d,%d] plain\n", n, h, v, m,
		   h, v);
	buf_printf(b, "stage h:%d k:%d n:%d\nread K [n,h,k]\nbody r0\nwrite T [h,k,n]\n", h, k, n);
	buf_printf(b, "stage h:%d m:%d n:%d | k:%d\nread Q [m,h,k]\nread T [h,k,n]\nbody r0 r1 mul\nsum\n", h,
		   m, n, k);
	buf_printf(b, "post acc 0.25 mul\nwrite S [h,m,n]\n");
	buf_printf(b, "stage h:%d m:%d | n:%d\nread S [h,m,n]\nbody r0\nmax\nwrite M [h,m,0]\n", h, m, n);
	buf_printf(
	    b, "stage h:%d m:%d n:%d\nread S [h,m,n]\nread M [h,m,0]\nbody r0 r1 sub exp\nwrite E [h,m,n]\n",
	    h, m, n);
	buf_printf(b,
		   "stage h:%d m:%d | n:%d\nread E [h,m,n]\nbody r0\nsum\npost acc recip\nwrite Z [h,m,0]\n",
		   h, m, n);
	buf_printf(b, "stage h:%d m:%d v:%d | n:%d\nread E [h,m,n]\nread V [n,h,v]\nread Z [h,m,0]\n", h, m,
		   v, n);
	buf_printf(b, "body r0 r1 mul\nsum\npost acc r2 mul\nwrite Y [m,h,v]\n");
}

/* Blocks whose inner stages are computed in a ring of rows: 1x1, depthwise, 1x1; depthwise, 1x1; convolution,
 * pooling. Odd sizes, strides, ragged channels, intermediates blocked or plain, with halos or with guards. */
static inline void gen_block(struct buf *b, struct rng *r)
{
	int kind = pick(r, 0, 2), c = pick(r, 1, 20), hid = kind ? c : pick(r, 1, 40), k = pick(r, 1, 40),
	    f = pick(r, 1, 3), stride = pick(r, 1, 2), pad = f > 1 ? pick(r, 0, 1) : 0, oh = pick(r, 1, 9),
	    ow = pick(r, 1, 9), xb = block_of(r), tb = block_of(r), halo = pick(r, 0, 2) ? pad : 0;
	int h = (oh - 1) * stride + f - 2 * pad, w = (ow - 1) * stride + f - 2 * pad;
	h = h < 1 ? 1 : h;
	w = w < 1 ? 1 : w;
	if (kind == 2)
		k = hid = pick(r, 1, 40);
	bool residual = pick(r, 0, 1);
	buf_puts(b, "task syms=0\n");
	image(b, r, "X", "in", 1, c, h, w, kind == 1 && halo ? halo : 0, xb);
	if (kind != 1) {
		buf_printf(b, "operand W const f32 [%d,%d,1,1] plain\n", hid, c);
		image(b, r, "H", "tmp", 1, hid, h, w, halo, tb);
		if (kind == 2) {
			b->n--;
			buf_puts(b, " fill=-3.40282347e+38\n");
		}
	}
	if (kind != 2) {
		buf_printf(b, "operand V const f32 [%d,1,%d,%d] plain\n", hid, f, f);
		image(b, r, "D", "tmp", 1, hid, oh, ow, 0, tb);
		buf_printf(b, "operand U const f32 [%d,%d,1,1] plain\n", k, hid);
	}
	if (residual)
		image(b, r, "R", "in", 1, k, oh, ow, pick(r, 0, 1), xb);
	image(b, r, "Y", "out", 1, k, oh, ow, pick(r, 0, 1), xb);
	if (kind != 1)
		buf_printf(b,
			   "stage n:1 k:%d y:%d x:%d | c:%d\nread X [n,c,y,x]\nread W [k,c,0,0]\nbody r0 r1 "
			   "mul\nsum\npost acc 0.5 add 0 max\nwrite H [n,k,y,x]\n",
			   hid, h, w, c);
	buf_printf(b, "stage n:1 k:%d y:%d x:%d | r:%d s:%d\nread %s [n,k,", hid, oh, ow, f, f,
		   kind == 1 ? "X" : "H");
	window(b, "y", "r", stride, 1, pad);
	buf_puts(b, ",");
	window(b, "x", "s", stride, 1, pad);
	if (kind == 2)
		buf_printf(b, "]\n%sbody r0\nmax\n%swrite Y [n,k,y,x]\n",
			   residual ? "read R [n,k,y,x]\n" : "", residual ? "post acc r1 add\n" : "");
	else
		buf_printf(
		    b,
		    "]\nread V [k,0,r,s]\nbody r0 r1 mul\nsum\nwrite D [n,k,y,x]\nstage n:1 k:%d y:%d "
		    "x:%d | c:%d\nread D [n,c,y,x]\nread U [k,c,0,0]\n%sbody r0 r1 mul\nsum\n%swrite Y "
		    "[n,k,y,x]\n",
		    k, oh, ow, hid, residual ? "read R [n,k,y,x]\n" : "",
		    residual ? "post acc r2 add\n" : "");
}

static inline void case_text(struct buf *b, struct rng *r)
{
	switch (rng_below(r, 16)) {
	case 0:
		gen_conv(b, r, CONV_3X3);
		break;
	case 1:
	case 2:
		gen_conv(b, r, CONV_ANY);
		break;
	case 3:
		gen_conv(b, r, CONV_DEPTHWISE);
		break;
	case 4:
		gen_group(b, r);
		break;
	case 5:
	case 6:
		gen_gemm(b, r);
		break;
	case 7:
		gen_pool(b, r);
		break;
	case 8:
		gen_map(b, r);
		break;
	case 9:
		gen_reduce(b, r);
		break;
	case 10:
		gen_index(b, r);
		break;
	case 11:
	case 12:
		gen_block(b, r);
		break;
	case 13:
		gen_rows(b, r);
		break;
	case 14:
		gen_attention(b, r);
		break;
	default:
		gen_chain(b, r);
	}
}

/* A convolution whose channels, up to 2 * most, lie side by side in twos, maybe grouped, padded in memory or
 * not; sometimes of a part of the channels, whose number may be odd. */
static inline void paired_conv(struct buf *b, struct rng *r, int most)
{
	int groups = pick(r, 0, 3) ? 1 : pick(r, 2, 3), c = 2 * pick(r, 1, most), k = pick(r, 4, 40),
	    taps = pick(r, 0, 1) ? 1 : pick(r, 2, 3), stride = pick(r, 1, 2), pad = pick(r, 0, taps - 1),
	    oh = pick(r, 1, 9), ow = pick(r, 1, 17), block = 2 << pick(r, 0, 3);
	int h = (oh - 1) * stride + taps - 2 * pad, w = (ow - 1) * stride + taps - 2 * pad;
	int from = pick(r, 0, 3) ? 0 : pick(r, 1, 4), used = c - !pick(r, 0, 4);
	h = h < 1 ? 1 : h;
	w = w < 1 ? 1 : w;
	buf_puts(b, "task syms=0\n");
	image(b, r, "X", "in", 1, groups * c + from, h, w, pick(r, 0, 1) ? pad : 0, block);
	buf_printf(b, "operand W const f32 [%d,%d,%d,%d] plain\noperand B const f32 [%d] plain\n", groups * k,
		   used, taps, taps, groups * k);
	image(b, r, "Y", "out", 1, groups * k, oh, ow, pick(r, 0, 1), block_of(r));
	buf_printf(b, "stage g:%d k:%d y:%d x:%d | c:%d r:%d s:%d\nread X [0,%d*g+c+%d,", groups, k, oh, ow,
		   used, taps, taps, c, from);
	window(b, "y", "r", stride, 1, pad);
	buf_puts(b, ",");
	window(b, "x", "s", stride, 1, pad);
	buf_printf(b,
		   "]\nread W [%d*g+k,c,r,s]\nread B [%d*g+k]\nbody %s mul\nsum\npost acc r2 add%s\nwrite Y "
		   "[0,%d*g+k,y,x]\n",
		   k, k, pick(r, 0, 1) ? "r0 r1" : "r1 r0", pick(r, 0, 1) ? " 0 max" : "", k);
}

/* A product, a convolution, or a chain of them. */
static inline void products_text(struct buf *b, struct rng *r)
{
	switch (rng_below(r, 8)) {
	case 0:
		gen_gemm(b, r);
		break;
	case 1:
		gen_conv(b, r, CONV_3X3);
		break;
	case 2:
	case 3:
		gen_block(b, r);
		break;
	default:
		paired_conv(b, r, 18);
	}
}

/* A canary surrounds every buffer: `slack` floats on both sides. */
enum { SLACK = 64 };
static const float CANARY = 12345.5f;

/* n elements of `each` bytes. */
static inline void *guarded_type(struct arena *a, int64_t n, int64_t each)
{
	int64_t all = (n * each + 3) / 4 + 2 * SLACK;
	float *p = arena_aligned(a, (size_t)all * 4, 64);
	for (int64_t i = 0; i < all; i++)
		p[i] = CANARY;
	return p + SLACK;
}

static inline bool intact_type(const void *p, int64_t n, int64_t each)
{
	const char *c = (const char *)p, *canary = (const char *)&CANARY;
	for (int i = 0; i < SLACK * 4; i++)
		if (c[i - SLACK * 4] != canary[i % 4])
			return false;
	for (int64_t i = n * each; i < n * each + SLACK * 4 - 4; i++)
		if (c[i] != canary[i % 4])
			return false;
	return true;
}

static inline float *guarded(struct arena *a, int64_t n)
{
	return guarded_type(a, n, 4);
}

static inline bool intact(const float *p, int64_t n)
{
	return intact_type(p, n, 4);
}

/* Bytes of an element of a manifest's buffer. */
static inline int64_t case_each(const struct kcase *c, const struct code_buf *b)
{
	if (b->operand < 0)
		return 4;
	return (int64_t)dtype_bytes(pack_type(&b->packing, c->t.operand[b->operand].dtype));
}

/* Whether the operand is a table. */
static inline bool case_is_table(const struct kcase *c, int i)
{
	for (int k = 0; k < c->t.nstages; k++)
		for (int j = 0; j < c->t.stage[k].nreads; j++)
			for (int d = 0; d < MAX_RANK; d++)
				if (c->t.stage[k].read[j].dim[d].table == i)
					return true;
	return false;
}

/* Whether a program multiplies the operand with another. */
static inline bool case_is_factor(const struct kcase *c, int i)
{
	for (int k = 0; k < c->t.nstages; k++) {
		const struct stage *s = &c->t.stage[k];
		for (int j = 0; j + 2 < s->post.n; j++)
			if (s->post.at[j].op == P_READ && s->post.at[j + 1].op == P_READ &&
			    s->post.at[j + 2].op == P_MUL &&
			    (s->read[s->post.at[j].arg].operand == i ||
			     s->read[s->post.at[j + 1].arg].operand == i))
				return true;
	}
	return false;
}

/* Positions that a table may hold: those of every dim that it is the index of. */
static inline int64_t case_positions(const struct kcase *c, int i)
{
	int64_t most = c->t.operand[i].dims.d[0];
	for (int k = 0; k < c->t.nstages; k++)
		for (int j = 0; j < c->t.stage[k].nreads; j++) {
			const struct read *x = &c->t.stage[k].read[j];
			const struct shape *dims = &c->t.operand[x->operand].dims;
			for (int d = 0; d < dims->rank; d++)
				if (x->dim[d].table == i && dims->d[d] < most)
					most = dims->d[d];
		}
	return most;
}

static inline void case_table(struct kcase *c, int i, struct rng *r)
{
	int32_t *p = arena_alloc(&c->a, (size_t)c->t.operand[i].dims.d[0] * 4);
	for (int64_t j = 0; j < c->t.operand[i].dims.d[0]; j++)
		p[j] = (int32_t)rng_below(r, (uint32_t)case_positions(c, i));
	c->plain[i] = c->phys[i] = c->ref[i] = p;
	c->elems[i] = c->t.operand[i].dims.d[0];
}

/* Numbers like biases, some of which no float has; products of two factors stay within s32. */
static inline void case_words(struct rng *r, bool factor, int32_t *p, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		p[i] = factor ? (int32_t)rng_below(r, 1 << 15) - (1 << 14)
			      : (int32_t)rng_below(r, 1 << (rng_below(r, 4) ? 17 : 29)) - (1 << 16) +
				    (rng_below(r, 4) ? 0 : 1 << 24);
}

/* Values of the whole range; every fourth is the least or the greatest. */
static inline void case_fill(struct rng *r, enum dtype t, void *p, int64_t n)
{
	if (t == DT_F32)
		rng_fill(r, p, (size_t)n);
	for (int64_t i = 0; i < n && t != DT_F32; i++) {
		uint32_t v = rng_below(r, 256), low = t == DT_U8 ? 0 : 128, high = t == DT_U8 ? 255 : 127;
		((uint8_t *)p)[i] = (uint8_t)(rng_below(r, 4) ? v : v & 1 ? low : high);
	}
}

/* Makes the data of every operand, and the reference's answer in ref[]. */
static inline int case_data(struct kcase *c, struct rng *r)
{
	for (int i = 0; i < c->t.noperands; i++) {
		const struct operand *o = &c->t.operand[i];
		if (o->role == ROLE_TMP)
			continue;
		if (case_is_table(c, i)) {
			case_table(c, i, r);
			continue;
		}
		int64_t n = shape_count(&o->dims);
		c->elems[i] = operand_elems(o);
		int64_t each = (int64_t)dtype_bytes(o->dtype);
		c->plain[i] = arena_alloc(&c->a, (size_t)(n * each));
		if (o->dtype == DT_I32)
			case_words(r, case_is_factor(c, i), c->plain[i], n);
		else
			case_fill(r, o->dtype, c->plain[i], n);
		c->phys[i] = guarded_type(&c->a, c->elems[i], each);
		c->ref[i] = guarded_type(&c->a, c->elems[i], each);
		if (o->role == ROLE_OUT) /* kernels leave halos as the plan filled them */
			memset(c->plain[i], 0, (size_t)(n * each));
		operand_pack(o, c->plain[i], c->phys[i]);
		operand_pack(o, c->plain[i], c->ref[i]);
	}
	return task_reference(&c->t, c->ref, &c->a);
}

static inline int case_parse(struct kcase *c, const char *text, struct rng *r)
{
	memset(c, 0, sizeof *c);
	int rc = task_parse(text, &c->t);
	return rc < 0 ? rc : case_data(c, r);
}

/* Gives the weights that a schedule may store as f16 or bf16 values that both hold, and with `inputs` the
 * inputs values that bf16 holds; computes the reference's answer from these. */
static inline int case_round(struct kcase *c, bool inputs)
{
	for (int i = 0; i < c->t.noperands; i++) {
		const struct operand *o = &c->t.operand[i];
		float *v = c->plain[i];
		bool stored = task_stores(&c->t, i),
		     in = inputs && o->role != ROLE_TMP && o->dtype == DT_F32 && !stored;
		for (int64_t j = 0; (stored || in) && j < shape_count(&o->dims); j++)
			v[j] = stored ? pack_exact(v[j]) : bf16_to_f32(f32_to_bf16(v[j]));
		if (stored || in) {
			operand_pack(o, v, c->phys[i]);
			operand_pack(o, v, c->ref[i]);
		}
	}
	return task_reference(&c->t, c->ref, &c->a);
}

/* Collects buffers in ABI order for a manifest, with packed constants and a cleared output. */
static inline void case_bind_in(struct kcase *c, struct arena *a, const struct manifest *m, void **bufs,
				int64_t *elems)
{
	for (int i = 0; i < m->nbufs; i++) {
		const struct code_buf *b = &m->buf[i];
		bufs[i] = b->operand >= 0 ? c->phys[b->operand] : guarded(a, m->scratch_bytes / 4);
		elems[i] = b->operand >= 0 ? c->elems[b->operand] : m->scratch_bytes / 4;
		if (b->packed) {
			elems[i] = pack_elems(&b->packing);
			bufs[i] = guarded_type(a, elems[i], case_each(c, b));
			pack_run_type(&b->packing, c->t.operand[b->operand].dtype, c->plain[b->operand],
				      bufs[i]);
		}
		if (b->role == BUF_OUT)
			operand_pack(&c->t.operand[b->operand], c->plain[b->operand], bufs[i]);
	}
}

static inline void case_bind(struct kcase *c, const struct manifest *m, void **bufs, int64_t *elems)
{
	case_bind_in(c, &c->a, m, bufs, elems);
}

/* The largest allowed case_error. It is wide for tanh, whose result is at most 1 while the sum before it has
 * a larger error. */
static inline double case_tolerance(const char *text, const char *cand)
{
	bool four = strstr(cand, "winograd=4"),
	     deep = strstr(text, "tanh") || (four && strstr(text, "sigmoid"));
	bool wide = strstr(text, "r1 pow") || strstr(text, "prod") || deep || four;
	return deep && four ? 5e-5 : wide ? 2e-5 : 4e-6;
}

/* Number of bytes of the output, of integers, that differ from the reference's. */
static inline int64_t case_wrong(const struct kcase *c, const void *got)
{
	int out = c->t.stage[c->t.nstages - 1].out.operand;
	const struct operand *o = &c->t.operand[out];
	int64_t n = shape_count(&o->dims) * (int64_t)dtype_bytes(o->dtype), wrong = 0;
	uint8_t *a = malloc((size_t)n), *b = malloc((size_t)n);
	operand_unpack(o, got, a);
	operand_unpack(o, c->ref[out], b);
	for (int64_t i = 0; i < n; i++)
		wrong += a[i] != b[i];
	free(a);
	free(b);
	return wrong;
}

/* Largest |got - ref| over the output's elements, relative to max |ref|; > 1 where NaNs differ. Of
 * integers: case_wrong. */
static inline double case_error(const struct kcase *c, const void *got)
{
	int out = c->t.stage[c->t.nstages - 1].out.operand;
	const struct operand *o = &c->t.operand[out];
	int64_t n = shape_count(&o->dims);
	if (o->dtype != DT_F32)
		return (double)case_wrong(c, got);
	float *a = malloc((size_t)n * 4), *b = malloc((size_t)n * 4);
	double worst = 0, top = 1e-30;
	operand_unpack(o, got, a);
	operand_unpack(o, c->ref[out], b);
	for (int64_t i = 0; i < n; i++) {
		if (isnan(a[i]) != isnan(b[i]))
			worst = 1e30;
		if (isfinite(b[i]))
			top = fmax(top, fabs((double)b[i]));
		if (!isnan(a[i]) && !isnan(b[i]) && a[i] != b[i])
			worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
	}
	free(a);
	free(b);
	return worst / top;
}

/* Lowers, checks and interprets; returns the error against the reference, or -1 after it printed the
 * cause. */
static inline double case_interpret_task(struct kcase *c, const struct task *t, const int64_t *syms,
					 const char *cand, const struct target *tg, bool *infeasible)
{
	struct loops *l;
	struct manifest m;
	void *bufs[CODE_MAX_BUFS];
	int64_t elems[CODE_MAX_BUFS];
	int rc = lower(t, cand, tg, &c->a, &l, &m);
	*infeasible = rc == E_INFEASIBLE;
	if (rc < 0 || (rc = loops_check(l)) < 0) {
		if (rc != E_INFEASIBLE || !*infeasible)
			printf("%s: %s\n", cand, err_text());
		*infeasible &= rc == E_INFEASIBLE;
		return -1;
	}
	for (int i = 0; i < m.nsyms; i++)
		m.param[i] = syms[i];
	case_bind(c, &m, bufs, elems);
	for (int e = 0; e < m.nentries; e++) {
		int64_t extent = code_extent(&m, e, m.param);
		if (extent < 0 || (rc = loops_run(l, e, bufs, m.param, 0, extent)) < 0) {
			printf("%s: %s\n", cand, err_text());
			return -1;
		}
	}
	double err = -1;
	for (int i = 0; i < m.nbufs; i++) {
		if (m.buf[i].operand >= 0 && !case_is_table(c, m.buf[i].operand) &&
		    !intact_type(bufs[i], elems[i], case_each(c, &m.buf[i]))) {
			printf("%s: wrote outside of %s\n", cand, m.buf[i].name);
			return -1;
		}
		if (m.buf[i].role == BUF_OUT)
			err = case_error(c, bufs[i]);
	}
	return err;
}

static inline double case_interpret(struct kcase *c, const char *cand, const struct target *tg,
				    bool *infeasible)
{
	return case_interpret_task(c, &c->t, NULL, cand, tg, infeasible);
}

#endif
