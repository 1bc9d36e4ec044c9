/* SPDX-License-Identifier: Apache-2.0 */
/* Random tasks over bytes: convolutions, products, depthwise, maps, pools and chains, quantized as ONNX
 * Runtime does it, with constant zero points or one that is known at run time, to bytes, s32 or floats, in
 * layouts that allow dot products of four channels and in others. */
#ifndef TESTS_BYTE_CASES_H
#define TESTS_BYTE_CASES_H

#include "tests/lib/kernel_cases.h"

static const char *const byte_types[] = {"u8", "i8"};

/* An image of bytes with any order of channels: plain, last, or in blocks. */
static inline void byte_image(struct buf *b, struct rng *r, const char *name, const char *role,
			      const char *type, const int *dims, int halo, int fill)
{
	static const char *const layouts[] = {"0.1/16.2.3.1", "0.1/64.2.3.1", "0.1/4.2.3.1",
					      "0.1/8.2.3.1",  "0.2.3.1",      "0.1.2.3"};
	buf_printf(b, "operand %s %s %s [%d,%d,%d,%d] %s", name, role, type, dims[0], dims[1], dims[2],
		   dims[3], one_of(r, layouts, 6));
	if (halo)
		buf_printf(b, ";2+%d+%d;3+%d+%d", halo, halo, halo, halo);
	if (fill)
		buf_printf(b, " fill=%d", fill);
	buf_puts(b, "\n");
}

static inline int byte_zero(struct rng *r, const char *type)
{
	return !pick(r, 0, 2) ? 0 : type[0] == 'u' ? pick(r, 0, 255) : pick(r, -128, 127);
}

/* Epilogues: r2 is a bias, r3 a scale per channel, r4 a residual. */
static const char *const byte_post[] = {
    "", "post acc 0.00123 mul rint\n", "post acc r2 add\n", "post acc r2 add r3 mul 0.003 mul rint 7 add\n",
    "post acc r2 add r3 mul 0.003 mul rint 7 add\n", "post acc r2 add r3 mul 0.003 mul rint 7 add\n",
    "post acc r2 add r3 mul 0.003 mul 128.5 add\n", "post acc r2 add r3 mul 0.003 mul 4 add\n",
    "post acc r2 add r3 mul 0.01 mul r4 0.71 mul add rint 3 sub\n",
    "post acc r2 add r3 mul 0.01 mul 0 max r4 add 3 div rint\n",
    "post acc r2 add acc r3 div acc select abs sqrt\n",
    /* what differs if sums are rounded, or if products are fused */
    "post acc r2 add 16777216 sub 0.0123 mul rint\n",
    "post acc r3 mul 0.1 add acc r3 mul sub 0.1 sub 1000 mul rint 9 add\n"};

static const char *const float_post[] = {"", "post acc r2 add\n",
					 "post acc r2 add r3 mul 0.003 mul 128.5 add\n"};

/* Here r2 is a factor per channel, and r3 a zero point that is known at run time. */
#define DYNAMIC "r2 r3 mul add"
static const char *const dynamic_post[] = {"post acc " DYNAMIC " 0.0001 mul rint\n",
					   "post acc " DYNAMIC " 0.003 mul 128.5 add\n"};
static const char *const word_post[] = {"", "post acc r2 add\n", "post acc " DYNAMIC "\n"};

/* The program of a product that writes this type. */
static inline const char *byte_program(struct rng *r, const char *type)
{
	if (type[1] == '3' && type[0] == 'i')
		return one_of(r, word_post, 3);
	if (!pick(r, 0, 4))
		return dynamic_post[type[0] == 'f'];
	return type[0] == 'f' ? one_of(r, float_post, 3) : one_of(r, byte_post, 13);
}

/* The type of a product. */
static inline const char *byte_result(struct rng *r)
{
	int kind = pick(r, 0, 9);
	return kind < 6 ? one_of(r, byte_types, 2) : kind < 8 ? "f32" : "i32";
}

/* A zero point, of one element or of no dim. */
static inline void byte_zero_point(struct buf *b, struct rng *r, const char *type)
{
	buf_printf(b, "operand Z in %s [%s] plain\n", type, pick(r, 0, 1) ? "1" : "");
}

/* BYTES_SIXTEENS: of one group or two of whole sixteens of channels. */
enum byte_conv { BYTES_ANY, BYTES_DEPTHWISE, BYTES_GROUPS, BYTES_SIXTEENS };

static inline void gen_byte_conv(struct buf *b, struct rng *r, enum byte_conv kind)
{
	const char *xt = one_of(r, byte_types, 2), *wt = pick(r, 0, 5) ? "i8" : "u8", *yt = byte_result(r),
		   *post = byte_program(r, yt);
	int g = kind == BYTES_GROUPS     ? pick(r, 2, 3)
		: kind == BYTES_SIXTEENS ? pick(r, 1, 2)
					 : 1,
	    kg = pick(r, 1, kind == BYTES_GROUPS ? 18 : 40);
	int cg = kind == BYTES_DEPTHWISE  ? 1
		 : kind == BYTES_SIXTEENS ? 16 * pick(r, 1, 5)
		 : pick(r, 0, 1)          ? 4 * pick(r, 1, 9)
					  : pick(r, 1, 36);
	int k = g * kg, c = kind == BYTES_DEPTHWISE ? k : g * cg, rs = pick(r, 1, 3), stride = pick(r, 1, 2),
	    dil = pick(r, 1, 4) == 1 ? 2 : 1, pad = rs > 1 ? pick(r, 0, 1) : 0, oh = pick(r, 1, 6),
	    ow = pick(r, 1, 15), n = pick(r, 1, 4) == 1 ? 2 : 1;
	int h = (oh - 1) * stride + (rs - 1) * dil + 1 - 2 * pad,
	    w = (ow - 1) * stride + (rs - 1) * dil + 1 - 2 * pad;
	const int in[] = {n, c, h < 1 ? 1 : h, w < 1 ? 1 : w}, out[] = {n, k, oh, ow};
	bool residual = strstr(post, "r4"), dynamic = strstr(post, DYNAMIC),
	     scale = !dynamic && (residual || strstr(post, "r3")), bias = scale || strstr(post, "r2");
	buf_puts(b, "task syms=0\n");
	byte_image(b, r, "X", "in", xt, in, pick(r, 0, 1) ? pad : 0, pad ? byte_zero(r, xt) : 0);
	buf_printf(b, "operand W const %s [%d,%d,%d,%d] plain\n", wt, k, cg, rs, rs);
	if (bias)
		buf_printf(b, "operand B const i32 [%d] plain\n", k);
	if (scale)
		buf_printf(b, "operand S const f32 [%d] plain\n", k);
	if (dynamic)
		byte_zero_point(b, r, xt);
	if (residual)
		byte_image(b, r, "R", "in", one_of(r, byte_types, 2), out, 0, 0);
	byte_image(b, r, "Y", "out", yt, out, pick(r, 0, 1), 0);
	buf_printf(b, "stage n:%d g:%d k:%d y:%d x:%d |", n, g, kg, oh, ow);
	if (kind != BYTES_DEPTHWISE)
		buf_printf(b, " c:%d", cg);
	buf_printf(b, " r:%d s:%d\nread X [n,", rs, rs);
	if (kind == BYTES_DEPTHWISE)
		buf_puts(b, "k,");
	else if (cg == 1)
		buf_puts(b, "g+c,");
	else
		buf_printf(b, "%d*g+c,", cg);
	window(b, "y", "r", stride, dil, pad);
	buf_puts(b, ",");
	window(b, "x", "s", stride, dil, pad);
	char ch[24];
	snprintf(ch, sizeof ch, kg == 1 ? "g+k" : "%d*g+k", kg);
	buf_printf(b, "]\nread W [%s,%s,r,s]\n", ch, kind == BYTES_DEPTHWISE ? "0" : "c");
	if (bias)
		buf_printf(b, "read B [%s]\n", ch);
	if (scale)
		buf_printf(b, "read S [%s]\n", ch);
	if (dynamic)
		buf_puts(b, strstr(buf_str(b), "Z in u8 [1]") || strstr(buf_str(b), "Z in i8 [1]")
				? "read Z [0]\n"
				: "read Z []\n");
	if (residual)
		buf_printf(b, "read R [n,%s,y,x]\n", ch);
	buf_printf(b, "body r0 r1 mul\nsum\n%swrite Y [n,%s,y,x]\n", post, ch);
}

/* A depthwise convolution whose image has its channels in blocks and its padding in memory, as dot products
 * of pixels need it; sometimes the outputs lie otherwise, or windows of two more axes have their own place.
 */
static inline void gen_byte_rows(struct buf *b, struct rng *r)
{
	int block = 4 << pick(r, 0, 2), c = pick(r, 0, 2) ? pick(r, 1, 40) : pick(r, 1, 200),
	    kh = pick(r, 0, 2) ? 3 : pick(r, 1, 5), kw = pick(r, 0, 2) ? 3 : pick(r, 2, 7),
	    sy = pick(r, 1, 2), sx = pick(r, 0, 5) ? pick(r, 1, 2) : 3, oh = pick(r, 1, 7),
	    ow = pick(r, 1, 17), n = pick(r, 0, 3) ? 1 : 2, top = pick(r, 0, kh - 1),
	    left = pick(r, 0, kw - 1);
	int need_h = (oh - 1) * sy + kh, need_w = (ow - 1) * sx + kw, bottom = pick(r, 0, kh - 1),
	    right = pick(r, 0, kw - 1), h = need_h - top - bottom, w = need_w - left - right;
	bool image_i8 = pick(r, 0, 2) == 0, weights_u8 = image_i8 && !pick(r, 0, 3);
	const char *xt = image_i8 ? "i8" : "u8", *yt = pick(r, 0, 5) ? one_of(r, byte_types, 2) : "f32",
		   *post = one_of(r, yt[0] == 'f' ? float_post : byte_post, yt[0] == 'f' ? 3 : 8);
	int before = pick(r, 0, 5) ? 0 : block,
	    behind = pick(r, 0, 3) ? 0 : pick(r, 1, 20); /* other channels of the image */
	const int out[] = {n, c, oh, ow};
	bool scale = strstr(post, "r3"), bias = scale || strstr(post, "r2"), same = pick(r, 0, 4);
	if (h < 1) {
		h = 1;
		bottom = need_h - top - 1 > 0 ? need_h - top - 1 : 0;
	}
	if (w < 1) {
		w = 1;
		right = need_w - left - 1 > 0 ? need_w - left - 1 : 0;
	}
	buf_printf(b, "task syms=0\noperand X in %s [%d,%d,%d,%d] 0.1/%d.2.3.1", xt, n, before + c + behind,
		   h, w, block);
	if (top || bottom)
		buf_printf(b, ";2+%d+%d", top, bottom);
	if (left || right)
		buf_printf(b, ";3+%d+%d", left, right);
	int fill = byte_zero(r, xt);
	if (fill && (top || bottom || left || right))
		buf_printf(b, " fill=%d", fill);
	buf_printf(b, "\noperand W const %s [%d,1,%d,%d] plain\n", weights_u8 ? "u8" : "i8", c, kh, kw);
	if (bias)
		buf_printf(b, "operand B const i32 [%d] plain\n", c);
	if (scale)
		buf_printf(b, "operand S const f32 [%d] plain\n", c);
	if (same)
		buf_printf(b, "operand Y out %s [%d,%d,%d,%d] 0.1/%d.2.3.1%s\n", yt, n, c, oh, ow, block,
			   pick(r, 0, 1) ? ";2+1+1;3+1+1" : "");
	else
		byte_image(b, r, "Y", "out", yt, out, pick(r, 0, 1), 0);
	const char *channel = before ? block == 4 ? "k+4" : block == 8 ? "k+8" : "k+16" : "k";
	buf_printf(b, "stage n:%d k:%d y:%d x:%d | r:%d s:%d\nread X [n,%s,", n, c, oh, ow, kh, kw, channel);
	window(b, "y", "r", sy, 1, top);
	buf_puts(b, ",");
	window(b, "x", "s", sx, 1, left);
	buf_puts(b, "]\nread W [k,0,r,s]\n");
	if (bias)
		buf_puts(b, "read B [k]\n");
	if (scale)
		buf_puts(b, "read S [k]\n");
	buf_printf(b, "body %s mul\nsum\n%swrite Y [n,k,y,x]\n", pick(r, 0, 3) ? "r0 r1" : "r1 r0", post);
}

static inline int gemm_depth(struct rng *r)
{
	return pick(r, 0, 1) ? 4 * pick(r, 1, 20) : pick(r, 1, 80);
}

static inline void gen_byte_gemm(struct buf *b, struct rng *r, int k)
{
	int m = pick(r, 1, 33), n = pick(r, 1, 70), trans = pick(r, 0, 1);
	const char *role = pick(r, 0, 3) ? "const" : "in", *yt = byte_result(r);
	bool words = !strcmp(yt, "i32"), dynamic = words || !pick(r, 0, 3);
	buf_printf(b, "task syms=0\noperand A in %s [%d,%d] plain\n", one_of(r, byte_types, 2), m, k);
	buf_printf(b, "operand B %s i8 [%d,%d] plain\n", role, trans ? n : k, trans ? k : n);
	buf_printf(b, "operand D %s i32 [%d] plain\n", pick(r, 0, 3) ? "const" : "in", n);
	if (!words)
		buf_printf(b, "operand S const f32 [%d] plain\n", n);
	if (dynamic)
		buf_puts(b, "operand Z in u8 [] plain\n");
	buf_printf(b, "operand Y out %s [%d,%d] plain\n", yt, m, n);
	buf_printf(b, "stage m:%d n:%d | k:%d\nread A [m,k]\nread B [%s]\nread D [n]\n", m, n, k,
		   trans ? "n,k" : "k,n");
	buf_printf(b, "%s%sbody r0 r1 mul\nsum\npost acc r2 %s", words ? "" : "read S [n]\n",
		   dynamic ? "read Z []\n" : "", dynamic ? words ? "r3 mul add" : "r4 mul add" : "add");
	buf_printf(b, "%s%s\nwrite Y [m,n]\n", words ? "" : " r3 mul 0.004 mul",
		   words || yt[0] == 'f' ? "" : " rint 11 add");
}

static inline void gen_byte_pool(struct buf *b, struct rng *r)
{
	const char *type = one_of(r, byte_types, 2);
	int c = pick(r, 1, 40), oh = pick(r, 1, 5), ow = pick(r, 1, 9), f = pick(r, 1, 3),
	    stride = pick(r, 1, 3), pad = f > 1 ? pick(r, 0, 1) : 0, max = pick(r, 0, 1),
	    fill = pad ? byte_zero(r, type) : 0;
	int h = (oh - 1) * stride + f - 2 * pad, w = (ow - 1) * stride + f - 2 * pad;
	const int in[] = {1, c, h < 1 ? 1 : h, w < 1 ? 1 : w}, out[] = {1, c, oh, ow};
	if (max && pad)
		fill = type[0] == 'u' ? 0 : -128;
	buf_puts(b, "task syms=0\n");
	byte_image(b, r, "X", "in", type, in, pick(r, 0, 1) ? pad : 0, fill);
	byte_image(b, r, "Y", "out", pick(r, 0, 3) ? type : "f32", out, 0, 0);
	buf_printf(b, "stage c:%d y:%d x:%d | r:%d s:%d\nread X [0,c,", c, oh, ow, f, f);
	window(b, "y", "r", stride, 1, pad);
	buf_puts(b, ",");
	window(b, "x", "s", stride, 1, pad);
	buf_printf(b, "]\nbody r0\n%s", max ? "max\n" : "sum\n");
	if (!max || pick(r, 0, 1))
		buf_printf(b, "post acc %.9g mul 3.7 sub rint\n", (double)(1.f / (float)(f * f)));
	buf_puts(b, "write Y [0,c,y,x]\n");
}

static inline void gen_byte_map(struct buf *b, struct rng *r)
{
	static const char *const body[] = {
	    "r0 3 sub 0.37 mul r1 5 sub 1.21 mul add 0.77 mul rint 9 add",
	    "r0 0.011 div rint 128 add",
	    "r0 r1 max",
	    "r0 r1 lt r0 r1 select",
	    "r0 r1 div",
	    "r0 abs sqrt r1 mul 3.3 sub",
	    "r0 128 sub neg r1 square min",
	    ("r0 0.37 mul r1 1.21 mul add r0 0.37 mul sub r1 1.21 mul sub 524288 mul rint 100 "
	     "add"),
	    "r0 0.5 mul"};
	static const char *const types[] = {"u8", "i8", "u8", "i8", "f32"};
	int c = pick(r, 1, 35), h = pick(r, 1, 6), w = pick(r, 1, 21), kind = pick(r, 0, 3);
	const char *text = one_of(r, body, 9), *const second[] = {"n,c,y,x", "0,c,0,0", "0,0,y,x", "0,0,0,0"};
	const int dims[] = {1, c, h, w}, other[] = {1, kind < 2 ? c : 1, kind % 2 ? 1 : h, kind % 2 ? 1 : w};
	buf_puts(b, "task syms=0\n");
	byte_image(b, r, "X", "in", one_of(r, types, 5), dims, pick(r, 0, 1), 0);
	bool two = strstr(text, "r1");
	if (two)
		byte_image(b, r, "Z", pick(r, 0, 1) ? "in" : "const", one_of(r, types, 5), other, 0, 0);
	byte_image(b, r, "Y", "out", one_of(r, types, strstr(text, "524288") ? 4 : 5), dims, pick(r, 0, 1),
		   0);
	buf_printf(b, "stage n:1 c:%d y:%d x:%d\nread X [n,c,y,x]\n", c, h, w);
	if (two)
		buf_printf(b, "read Z [%s]\n", second[kind]);
	buf_printf(b, "body %s\nwrite Y [n,c,y,x]\n", text);
}

/* Maps of s32: conversions, sums, products with a byte. */
static inline void gen_byte_words(struct buf *b, struct rng *r)
{
	static const char *const body[] = {"r0", "r0 r1 add", "r0 r1 add r0 add", "r0 0.001 mul"};
	int c = pick(r, 1, 35), h = pick(r, 1, 6), w = pick(r, 1, 21), kind = pick(r, 0, 3);
	const int dims[] = {1, c, h, w};
	buf_puts(b, "task syms=0\n");
	byte_image(b, r, "X", "in", "i32", dims, 0, 0);
	if (kind == 1 || kind == 2)
		byte_image(b, r, "Z", "in", pick(r, 0, 1) ? "i32" : one_of(r, byte_types, 2), dims, 0, 0);
	byte_image(b, r, "Y", "out", kind < 3 && pick(r, 0, 1) ? "i32" : "f32", dims, pick(r, 0, 1), 0);
	buf_printf(b, "stage n:1 c:%d y:%d x:%d\nread X [n,c,y,x]\n", c, h, w);
	if (kind == 1 || kind == 2)
		buf_puts(b, "read Z [n,c,y,x]\n");
	buf_printf(b, "body %s\nwrite Y [n,c,y,x]\n", body[kind]);
}

/* Averages, and copies to other orders. */
static inline void gen_byte_index(struct buf *b, struct rng *r)
{
	int c = pick(r, 1, 40), h = pick(r, 1, 9), w = pick(r, 1, 30);
	const int dims[] = {1, c, h, w};
	const char *type = one_of(r, byte_types, 2);
	buf_puts(b, "task syms=0\n");
	byte_image(b, r, "X", "in", type, dims, pick(r, 0, 1), 0);
	switch (pick(r, 0, 3)) {
	case 0:
		buf_printf(b, "operand Y out %s [%d,1] plain\nstage c:%d | y:%d x:%d\nread X [0,c,y,x]\n",
			   type, c, c, h, w);
		buf_printf(b, "body r0\nsum\npost acc %.9g mul rint\nwrite Y [c,0]\n",
			   (double)(1.f / (float)(h * w)));
		break;
	case 1:
		buf_printf(b, "operand Y out %s [%d,%d,%d] plain\nstage y:%d x:%d c:%d\nread X [0,c,y,x]\n",
			   type, h, w, c, h, w, c);
		buf_puts(b, "body r0\nwrite Y [y,x,c]\n");
		break;
	case 2:
		buf_printf(b, "operand T const i32 [%d] plain\noperand Y out %s [%d,%d,%d] plain\n", w, type,
			   c, h, w);
		buf_printf(b, "stage c:%d y:%d x:%d\nread X [0,c,y,@T(x)]\nbody r0\nwrite Y [c,y,x]\n", c, h,
			   w);
		break;
	default:
		buf_printf(b, "operand Y out %s [%d,%d] plain\nstage y:%d x:%d | c:%d\nread X [0,c,y,x]\n",
			   type, h, w, h, w, c);
		buf_puts(b, "body r0\nmax\nwrite Y [y,x]\n");
	}
}

/* 1x1, depthwise, 1x1 with bytes between them, often of whole groups of four channels. */
static inline void gen_byte_block(struct buf *b, struct rng *r)
{
	const char *type = one_of(r, byte_types, 2), *first = one_of(r, byte_types, 2),
		   *second = one_of(r, byte_types, 2);
	int c = pick(r, 1, 20), hid = pick(r, 0, 1) ? 4 * pick(r, 1, 16) : pick(r, 1, 40), k = pick(r, 1, 40),
	    f = pick(r, 1, 3), stride = pick(r, 1, 2), pad = f > 1 ? pick(r, 0, 1) : 0, oh = pick(r, 1, 9),
	    ow = pick(r, 1, 9), fill = pad ? 3 : 0;
	int h = (oh - 1) * stride + f - 2 * pad, w = (ow - 1) * stride + f - 2 * pad;
	h = h < 1 ? 1 : h;
	w = w < 1 ? 1 : w;
	const int in[] = {1, c, h, w}, mid[] = {1, hid, h, w}, down[] = {1, hid, oh, ow},
		  out[] = {1, k, oh, ow};
	buf_puts(b, "task syms=0\n");
	byte_image(b, r, "X", "in", type, in, 0, 0);
	buf_printf(b, "operand W const i8 [%d,%d,1,1] plain\noperand S const f32 [%d] plain\n", hid, c, hid);
	byte_image(b, r, "H", "tmp", first, mid, pick(r, 0, 1) ? pad : 0, fill);
	buf_printf(b, "operand V const i8 [%d,1,%d,%d] plain\n", hid, f, f);
	byte_image(b, r, "D", "tmp", second, down, 0, 0);
	buf_printf(b, "operand U const i8 [%d,%d,1,1] plain\noperand B const i32 [%d] plain\n", k, hid, k);
	byte_image(b, r, "Y", "out", type, out, pick(r, 0, 1), 0);
	buf_printf(b, "stage n:1 k:%d y:%d x:%d | c:%d\nread X [n,c,y,x]\nread W [k,c,0,0]\nread S [k]\n",
		   hid, h, w, c);
	buf_puts(b, "body r0 r1 mul\nsum\npost acc r2 mul 0.01 mul rint 3 add\nwrite H [n,k,y,x]\n");
	buf_printf(b, "stage n:1 k:%d y:%d x:%d | r:%d s:%d\nread H [n,k,", hid, oh, ow, f, f);
	window(b, "y", "r", stride, 1, pad);
	buf_puts(b, ",");
	window(b, "x", "s", stride, 1, pad);
	buf_puts(
	    b,
	    "]\nread V [k,0,r,s]\nbody r0 r1 mul\nsum\npost acc 0.007 mul rint 3 add\nwrite D [n,k,y,x]\n");
	buf_printf(b, "stage n:1 k:%d y:%d x:%d | c:%d\nread D [n,c,y,x]\nread U [k,c,0,0]\nread B [k]\n", k,
		   oh, ow, hid);
	buf_puts(b, "body r0 r1 mul\nsum\npost acc r2 add 0.0011 mul rint 3 add\nwrite Y [n,k,y,x]\n");
}

/* Copies a text and writes every number with a point as the task's text does. */
static inline void round_numbers(const char *s, struct buf *out)
{
	while (*s) {
		size_t n = strcspn(s, " \n");
		float v = strtof(s, NULL);
		const char *point = memchr(s, '.', n);
		if (point && !memchr(point + 1, '.', n - (size_t)(point + 1 - s)) &&
		    strspn(s, "-.0123456789") == n)
			buf_printf(out, "%.9g", (double)v);
		else
			buf_add(out, s, n);
		s += n;
		if (*s)
			buf_add(out, s++, 1);
	}
}

static inline void byte_draft(struct buf *b, struct rng *r)
{
	switch (rng_below(r, 13)) {
	case 0:
	case 1:
	case 2:
		gen_byte_conv(b, r, BYTES_ANY);
		break;
	case 3:
		if (pick(r, 0, 1))
			gen_byte_conv(b, r, BYTES_DEPTHWISE);
		else
			gen_byte_rows(b, r);
		break;
	case 4:
		gen_byte_conv(b, r, BYTES_GROUPS);
		break;
	case 5:
	case 6:
		gen_byte_gemm(b, r, gemm_depth(r));
		break;
	case 7:
		gen_byte_pool(b, r);
		break;
	case 8:
	case 9:
		gen_byte_map(b, r);
		break;
	case 10:
		gen_byte_block(b, r);
		break;
	case 11:
		gen_byte_words(b, r);
		break;
	default:
		gen_byte_index(b, r);
	}
}

static inline void byte_text(struct buf *b, struct rng *r)
{
	struct buf draft = {0};
	byte_draft(&draft, r);
	round_numbers(buf_str(&draft), b);
	buf_free(&draft);
}

/* Sums of products over channels: dense and grouped convolutions, products, blocks. */
static inline void byte_products_text(struct buf *b, struct rng *r)
{
	struct buf draft = {0};
	switch (rng_below(r, 6)) {
	case 0:
		gen_byte_conv(&draft, r, BYTES_GROUPS);
		break;
	case 1:
		gen_byte_gemm(&draft, r, gemm_depth(r));
		break;
	case 2:
		gen_byte_block(&draft, r);
		break;
	default:
		gen_byte_conv(&draft, r, BYTES_ANY);
	}
	round_numbers(buf_str(&draft), b);
	buf_free(&draft);
}

/* Products of two inputs, of bytes or floats, for each head, with k, the rows or the columns side by side in
 * memory. */
static inline void gen_heads(struct buf *b, struct rng *r, bool floats)
{
	static const char *const from[2][3] = {{"h,m,k", "m,h,k", "h,k,m"}, {"h,n,k", "n,h,k", "h,k,n"}};
	int h = pick(r, 1, 3), size[] = {pick(r, 0, 1) ? 16 * pick(r, 1, 3) : pick(r, 1, 50),
					 pick(r, 0, 1) ? 16 * pick(r, 1, 4) : pick(r, 1, 60),
					 pick(r, 0, 1) ? 16 * pick(r, 1, 5) : pick(r, 16, 80)};
	const char *yt = floats ? "f32" : byte_result(r), *order[2];
	bool words = yt[0] == 'i' && yt[1] == '3', real = yt[0] == 'f';
	buf_puts(b, "task syms=0\n");
	for (int i = 0; i < 2; i++) {
		order[i] = from[i][pick(r, 0, 2)];
		buf_printf(b, "operand %s in %s [", i ? "B" : "A", floats ? "f32" : one_of(r, byte_types, 2));
		for (int d = 0; d < 5; d += 2)
			buf_printf(b, "%s%d", d ? "," : "",
				   order[i][d] == 'h'   ? h
				   : order[i][d] == 'm' ? size[0]
				   : order[i][d] == 'n' ? size[1]
							: size[2]);
		buf_puts(b, "] plain\n");
	}
	buf_printf(b, "operand Y out %s [%d,%d,%d] plain\nstage h:%d m:%d n:%d | k:%d\n", yt, h, size[0],
		   size[1], h, size[0], size[1], size[2]);
	buf_printf(b, "read A [%s]\nread B [%s]\nbody %s mul\nsum\n", order[0], order[1],
		   pick(r, 0, 1) ? "r0 r1" : "r1 r0");
	buf_printf(b, "%swrite Y [h,m,n]\n",
		   words  ? ""
		   : real ? "post acc 0.003 mul 1.5 add\n"
			  : "post acc 0.0021 mul rint 7 add\n");
}

static inline void byte_heads_text(struct buf *b, struct rng *r)
{
	struct buf draft = {0};
	gen_heads(&draft, r, false);
	round_numbers(buf_str(&draft), b);
	buf_free(&draft);
}

/* Sums of products that fragments can make, if the layout allows it. */
static inline void byte_sixteens_text(struct buf *b, struct rng *r)
{
	struct buf draft = {0};
	if (pick(r, 0, 2))
		gen_byte_conv(&draft, r, BYTES_SIXTEENS);
	else
		gen_byte_gemm(&draft, r, 16 * pick(r, 1, 8));
	round_numbers(buf_str(&draft), b);
	buf_free(&draft);
}

/* Draws a candidate, if possible one that has the key. Returns whether it has. */
static inline bool byte_cand(const struct space *s, struct rng *r, const char *key, char cand[CAND_MAX])
{
	for (int i = 0; i < 24; i++) {
		CHECK_OK(space_random(s, r, cand));
		if (strstr(cand, key))
			return true;
	}
	return false;
}

static inline void byte_block_text(struct buf *b, struct rng *r)
{
	struct buf draft = {0};
	gen_byte_block(&draft, r);
	round_numbers(buf_str(&draft), b);
	buf_free(&draft);
}

/* Depthwise rows of an input, and 1x1 of their bytes. */
static inline void gen_byte_down(struct buf *b, struct rng *r)
{
	int block = 4 << pick(r, 0, 2), c = pick(r, 1, 40), k = pick(r, 1, 40), stride = pick(r, 1, 2),
	    oh = pick(r, 1, 9), ow = pick(r, 1, 9), h = (oh - 1) * stride + 1, w = (ow - 1) * stride + 1;
	const int mid[] = {1, c, oh, ow}, out[] = {1, k, oh, ow};
	buf_printf(b, "task syms=0\noperand X in u8 [1,%d,%d,%d] 0.1/%d.2.3.1;2+1+1;3+1+1 fill=9\n", c, h, w,
		   block);
	buf_printf(b, "operand V const i8 [%d,1,3,3] plain\noperand S const f32 [%d] plain\n", c, c);
	byte_image(b, r, "D", "tmp", "u8", mid, 0, 0);
	buf_printf(b, "operand U const i8 [%d,%d,1,1] plain\n", k, c);
	byte_image(b, r, "Y", "out", "i8", out, pick(r, 0, 1), 0);
	buf_printf(b, "stage n:1 k:%d y:%d x:%d | r:3 s:3\nread X [n,k,", c, oh, ow);
	window(b, "y", "r", stride, 1, 1);
	buf_puts(b, ",");
	window(b, "x", "s", stride, 1, 1);
	buf_puts(b,
		 "]\nread V [k,0,r,s]\nread S [k]\nbody r0 r1 mul\nsum\npost acc r2 mul 0.01 mul rint 3 add\n"
		 "write D [n,k,y,x]\n");
	buf_printf(
	    b,
	    "stage n:1 k:%d y:%d x:%d | c:%d\nread D [n,c,y,x]\nread U [k,c,0,0]\nbody r0 r1 mul\nsum\n"
	    "post acc 0.0011 mul rint 3 sub\nwrite Y [n,k,y,x]\n",
	    k, oh, ow, c);
}

static inline void byte_rows_text(struct buf *b, struct rng *r)
{
	struct buf draft = {0};
	(pick(r, 0, 6) ? gen_byte_rows : gen_byte_down)(&draft, r);
	round_numbers(buf_str(&draft), b);
	buf_free(&draft);
}

/* Products of the largest bytes, and the longest sums of them that s32 holds (255 * -128 * 65792). */
enum { LARGEST_BYTES = 6, LARGEST_LENGTHS = 4, LARGEST = LARGEST_BYTES * LARGEST_LENGTHS };

/* Makes case `which` below LARGEST of these. */
static inline void largest_case(struct kcase *c, int which)
{
	static const struct {
		const char *x, *w;
		int value, weight;
	} k[LARGEST_BYTES] = {{"u8", "i8", 255, 127},  {"u8", "i8", 255, -128}, {"i8", "i8", -128, -128},
			      {"i8", "i8", -128, 127}, {"i8", "u8", -128, 255}, {"u8", "u8", 255, 255}};
	static const int lengths[LARGEST_LENGTHS] = {65792, 33023, 515, 4};
	int i = which / LARGEST_LENGTHS, n = lengths[which % LARGEST_LENGTHS];
	char text[512];
	struct rng r;
	if (i == 5 && n > lengths[1])
		n = lengths[1]; /* 255 * 255 * 33023 is just below 2^31 */
	snprintf(text, sizeof text,
		 "task syms=0\noperand X in %s [3,%d] 1/16.0.1\noperand W const %s [20,%d] plain\n"
		 "operand S const f32 [20] plain\noperand Y out i8 [3,20] plain\n"
		 "stage y:3 k:20 | c:%d\nread X [y,c]\nread W [k,c]\nread S [k]\n"
		 "body r0 r1 mul\nsum\npost acc r2 mul rint 5 add\nwrite Y [y,k]\n",
		 k[i].x, n, k[i].w, n, n);
	rng_seed(&r, 1);
	CHECK_OK(case_parse(c, text, &r));
	memset(c->phys[0], k[i].value, (size_t)c->elems[0]);
	memset(c->ref[0], k[i].value, (size_t)c->elems[0]);
	memset(c->plain[1], k[i].weight, (size_t)n * 20);
	memset(c->phys[1], k[i].weight, (size_t)n * 20);
	memset(c->ref[1], k[i].weight, (size_t)n * 20);
	for (int v = 0; v < 20; v++) { /* results are spread over all bytes */
		float scale = (float)(v - 10) * 12.3f / ((float)n * (float)k[i].value * (float)k[i].weight);
		((float *)c->ref[2])[v] = ((float *)c->phys[2])[v] = ((float *)c->plain[2])[v] = scale;
	}
	CHECK_OK(task_reference(&c->t, c->ref, &c->a));
}

#endif
