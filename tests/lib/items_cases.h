/* SPDX-License-Identifier: Apache-2.0 */
/* Devices of work items, and candidates on them that have a key. */
#ifndef TESTS_ITEMS_CASES_H
#define TESTS_ITEMS_CASES_H

#include "tests/lib/kernel_cases.h"

/* A device of work items with few, usual or many registers. */
static inline struct target items_board(uint64_t seed)
{
	static const int regs[] = {16, 32, 60};
	struct target tg = case_board(4, regs[seed % 3]);
	strcpy(tg.isa, "opencl");
	tg.group = 256;
	return tg;
}

/* The same with a cache for textures. */
static inline struct target textures_board(uint64_t seed)
{
	struct target tg = items_board(seed);
	strcpy(tg.features, "+textures");
	return tg;
}

/* Whether shared buffers of the candidate are rings of boxes: share=k:16x2. */
static inline bool has_ring_of_boxes(const char *cand)
{
	const char *share = strstr(cand, "share=");
	const char *size = share ? strchr(share, ':') : NULL;
	return size && strchr(size, 'x');
}

/* Whether threads share the sums of a tile: threads=k:64 of a reduction axis. */
static inline bool has_team(const char *cand)
{
	return strstr(cand, "threads=") && !strstr(cand, "share=") && !strchr(cand, ';');
}

/* Whether blocks of threads share the tiles of a part of the reduction. */
static inline bool has_parts(const char *cand)
{
	return strstr(cand, "share=") && strstr(cand, "spread=1");
}

/* Whether fragments make the sums of parts of the reduction. */
static inline bool has_fragments_of_parts(const char *cand)
{
	return strstr(cand, "fragrows=") && strstr(cand, "spread=1");
}

/* Draws until the candidate has the key; false: none of many has. "ring" is the key of rings of boxes, "team"
 * that of threads that share sums, "parts" that of parts of a reduction whose tiles threads share, "split"
 * that of parts whose sums fragments make. */
static inline bool draw_with(const struct space *s, struct rng *r, const char *key, char cand[CAND_MAX])
{
	int tries = strcmp(key, "parts") ? 60 : 240;
	for (int i = 0; i < tries; i++)
		if (space_random(s, r, cand) >= 0 && (!strcmp(key, "ring")    ? has_ring_of_boxes(cand)
						      : !strcmp(key, "team")  ? has_team(cand)
						      : !strcmp(key, "parts") ? has_parts(cand)
						      : !strcmp(key, "split") ? has_fragments_of_parts(cand)
									      : strstr(cand, key) != NULL))
			return true;
	return false;
}

/* A sum, product or maximum of long rows, or a product with a vector; with a program after it or without. */
static inline void rows_text(struct buf *b, struct rng *r)
{
	static const char *const comb[] = {"sum", "max", "min", "prod"}, *const post[] = {
									     "", "post acc 2 mul 1 add\n",
									     "post acc exp 1 add log\n"};
	int y = pick(r, 1, 9), k = pick(r, 0, 1) ? 4 * pick(r, 16, 200) : pick(r, 64, 800),
	    which = pick(r, 0, 5);
	bool vector = pick(r, 0, 1);
	if (vector && pick(r, 0, 1))
		y *= 4;
	if (vector)
		buf_printf(b,
			   "task syms=0\noperand X in f32 [%d] plain\noperand W const f32 [%d,%d] plain\n"
			   "operand Y out f32 [%d] plain\nstage y:%d | k:%d\nread X [k]\nread W [y,k]\n"
			   "body r0 r1 mul\nsum\n",
			   k, y, k, y, y, k);
	else
		buf_printf(b,
			   "task syms=0\noperand X in f32 [%d,%d] plain\noperand Y out f32 [%d] plain\n"
			   "stage y:%d | k:%d\nread X [y,k]\nbody r0 %s\n%s\n",
			   y, k, y, y, k, which ? "1 mul" : "0.0078125 mul 1 add",
			   comb[which ? which % 3 : 3]);
	buf_printf(b, "%swrite Y [y]\n", which ? post[pick(r, 0, 2)] : "");
}

/* A depthwise convolution or a pool, whose windows slide over rows and columns. */
static inline void windows_text(struct buf *b, struct rng *r)
{
	static const char *const pool[] = {"body r0\nmax\n", "body r0 0.25 mul\nsum\n"};
	int c = pick(r, 1, 36), rows = pick(r, 2, 4), cols = pick(r, 1, 3), stride = pick(r, 1, 2),
	    dil = pick(r, 1, 4) == 1 ? 2 : 1, pad = pick(r, 0, 1), oh = pick(r, 2, 17), ow = pick(r, 1, 9);
	int h = (oh - 1) * stride + (rows - 1) * dil + 1 - 2 * pad,
	    w = (ow - 1) * stride + (cols - 1) * dil + 1 - 2 * pad, xb = block_of(r);
	h = h < 1 ? 1 : h;
	w = w < 1 ? 1 : w;
	bool weights = pick(r, 0, 3), bias = weights && pick(r, 0, 1), residual = bias && pick(r, 0, 1);
	buf_puts(b, "task syms=0\n");
	image(b, r, "X", "in", 1, c, h, w, pick(r, 0, 2) ? pad : 0, xb);
	if (weights)
		buf_printf(b, "operand W const f32 [%d,1,%d,%d] plain\n", c, rows, cols);
	if (bias)
		buf_printf(b, "operand B const f32 [%d] plain\n", c);
	if (residual)
		image(b, r, "R", "in", 1, c, oh, ow, pick(r, 0, 1), xb);
	image(b, r, "Y", "out", 1, c, oh, ow, pick(r, 0, 1), xb);
	buf_printf(b, "stage k:%d y:%d x:%d | r:%d s:%d\nread X [0,k,", c, oh, ow, rows, cols);
	window(b, "y", "r", stride, dil, pad);
	buf_puts(b, ",");
	window(b, "x", "s", stride, dil, pad);
	buf_printf(b, "]\n%s%s%s%s%swrite Y [0,k,y,x]\n", weights ? "read W [k,0,r,s]\n" : "",
		   bias ? "read B [k]\n" : "", residual ? "read R [0,k,y,x]\n" : "",
		   weights ? "body r0 r1 mul\nsum\n" : pool[pick(r, 0, 1)],
		   residual ? "post acc r2 add r3 add 0 max\n"
		   : bias   ? "post acc r2 add 0 max 6 min\n"
			    : "");
}

/* A product of matrices with tiles for several warps. */
static inline void tiles_text(struct buf *b, struct rng *r)
{
	int y = 16 * pick(r, 2, 5), x = 32 * pick(r, 1, 3), k = 8 * pick(r, 1, 4);
	buf_printf(b,
		   "task syms=0\noperand A in f32 [%d,%d] plain\noperand B const f32 [%d,%d] plain\n"
		   "operand C out f32 [%d,%d] plain\nstage y:%d x:%d | k:%d\nread A [y,k]\nread B [k,x]\n"
		   "body r0 r1 mul\nsum\n%swrite C [y,x]\n",
		   y, k, k, x, y, x, y, x, k, pick(r, 0, 1) ? "post acc 0 max\n" : "");
}

static inline void conv_3x3_text(struct buf *b, struct rng *r)
{
	gen_conv(b, r, CONV_3X3);
}

/* Softmax or a norm of rows, as a chain. */
static inline void chain_text(struct buf *b, struct rng *r)
{
	int n = pick(r, 1, 4), c = pick(r, 0, 2) ? 4 * pick(r, 8, 150) : pick(r, 33, 300);
	buf_printf(b, "task syms=0\noperand X in f32 [%d,%d] plain\noperand M tmp f32 [%d,1] plain\n", n, c,
		   n);
	if (pick(r, 0, 1)) {
		buf_printf(b, "operand S tmp f32 [%d,1] plain\noperand Y out f32 [%d,%d] plain\n", n, n, c);
		buf_printf(
		    b, "stage n:%d | c:%d\nread X [n,c]\nbody r0\nsum\npost acc %.9g mul\nwrite M [n,0]\n", n,
		    c, (double)(1.f / (float)c));
		buf_printf(b, "stage n:%d | c:%d\nread X [n,c]\nread M [n,0]\nbody r0 r1 sub square\nsum\n",
			   n, c);
		buf_printf(b, "post acc %.9g mul 1.52587891e-05 add sqrt\nwrite S [n,0]\n",
			   (double)(1.f / (float)c));
		buf_printf(b, "stage n:%d c:%d\nread X [n,c]\nread M [n,0]\nread S [n,0]\n", n, c);
		buf_puts(b, "body r0 r1 sub r2 div\nwrite Y [n,c]\n");
		return;
	}
	buf_printf(b, "operand E tmp f32 [%d,%d] plain\noperand S tmp f32 [%d,1] plain\n", n, c, n);
	buf_printf(b, "operand Y out f32 [%d,%d] plain\n", n, c);
	buf_printf(b, "stage n:%d | c:%d\nread X [n,c]\nbody r0\nmax\nwrite M [n,0]\n", n, c);
	buf_printf(b, "stage n:%d c:%d\nread X [n,c]\nread M [n,0]\nbody r0 r1 sub exp\nwrite E [n,c]\n", n,
		   c);
	buf_printf(b, "stage n:%d | c:%d\nread E [n,c]\nbody r0\nsum\npost acc recip\nwrite S [n,0]\n", n, c);
	buf_printf(b, "stage n:%d c:%d\nread E [n,c]\nread S [n,0]\nbody r0 r1 mul\nwrite Y [n,c]\n", n, c);
}

#endif
