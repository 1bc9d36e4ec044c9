/* SPDX-License-Identifier: Apache-2.0 */
/* Random small quantised networks (QDQ), as ONNX models. */
#ifndef TESTS_BYTE_NET_H
#define TESTS_BYTE_NET_H

#include "platform/base/rng.h"
#include "tests/lib/onnx_make.h"

enum { F32 = 1, U8 = 2, I8 = 3, I32 = 6, BYTE_NODES = 160 };

/* A network being made. */
struct byte_net {
	struct onnx_maker k;
	struct rng rng;
	int n, type, weights; /* names so far; types of activations and weights */
	char name[BYTE_NODES][32];
};

static inline const char *fresh(struct byte_net *m, const char *stem)
{
	snprintf(m->name[m->n], sizeof *m->name, "%s%d", stem, m->n);
	return m->name[m->n++];
}

static inline const char *text_of(struct byte_net *m, const char *a, const char *b, const char *c)
{
	return arena_printf(&m->k.a, "%s %s %s", a, b, c);
}

static inline const char *scalar(struct byte_net *m, float v)
{
	const char *name = fresh(m, "s");
	mk_init(&m->k, name, F32, "", &v, sizeof v);
	return name;
}

static inline const char *zero_point(struct byte_net *m, int type)
{
	uint8_t v = (uint8_t)(type == I8 ? rng_below(&m->rng, 31) - 15 : rng_below(&m->rng, 256));
	const char *name = fresh(m, "z");
	mk_init(&m->k, name, type, "", &v, 1);
	return name;
}

/* v as bytes and back. */
static inline const char *with_params(struct byte_net *m, const char *v, const char *s, const char *z)
{
	const char *q = fresh(m, "q"), *d = fresh(m, "d");
	mk_node(&m->k, "QuantizeLinear", text_of(m, v, s, z), q)->name = mk_text(q);
	mk_node(&m->k, "DequantizeLinear", text_of(m, q, s, z), d)->name = mk_text(d);
	return d;
}

static inline const char *through_bytes(struct byte_net *m, const char *v, float scale)
{
	const char *s = scalar(m, scale);
	return with_params(m, v, s, zero_point(m, m->type));
}

/* Dequantised random weights or bias, with n scales along axis 0. Zero points are 0, or 128 of u8. */
static inline const char *constant(struct byte_net *m, int type, const char *dims, int64_t elems, int n,
				   float scale)
{
	const char *w = fresh(m, "w"), *s = fresh(m, "ws"), *z = fresh(m, "wz"), *d = fresh(m, "wd");
	void *data = ARENA_ARRAY(&m->k.a, int32_t, elems), *zero = ARENA_ARRAY(&m->k.a, int32_t, n);
	float *scales = ARENA_ARRAY(&m->k.a, float, n);
	for (int64_t i = 0; i < elems; i++)
		if (type == I32)
			((int32_t *)data)[i] = (int32_t)rng_below(&m->rng, 4001) - 2000;
		else
			((int8_t *)data)[i] = (int8_t)(rng_below(&m->rng, 256) - 128);
	for (int i = 0; i < n; i++)
		scales[i] = scale * (float)(1 + i % 3);
	if (type == U8)
		memset(zero, 128, (size_t)n);
	size_t bytes = type == I32 ? sizeof(int32_t) : 1;
	mk_init(&m->k, w, type, dims, data, (size_t)elems * bytes);
	mk_init(&m->k, s, F32, arena_printf(&m->k.a, "%d", n), scales, (size_t)n * sizeof *scales);
	mk_init(&m->k, z, type, arena_printf(&m->k.a, "%d", n), zero, (size_t)n * bytes);
	mk_attr_int(&m->k, mk_node(&m->k, "DequantizeLinear", text_of(m, w, s, z), d), "axis", 0);
	return d;
}

struct qdq_conv {
	int64_t c, k, r, stride, group;
	bool no_bias;
};

static inline const char *convolve(struct byte_net *m, const char *x, const struct qdq_conv *v)
{
	int64_t per = v->c / v->group, pad = v->r / 2, pads[] = {pad, pad, pad, pad},
		strides[] = {v->stride, v->stride};
	const char *dims = arena_printf(&m->k.a, "%d %d %d %d", (int)v->k, (int)per, (int)v->r, (int)v->r);
	const char *w = constant(m, m->weights, dims, v->k * per * v->r * v->r, (int)v->k, 1 / 256.0f);
	const char *y = fresh(m, "y"), *b = "";
	if (!v->no_bias)
		b = constant(m, I32, arena_printf(&m->k.a, "%d", (int)v->k), v->k, 1, 1 / 4096.0f);
	Onnx__NodeProto *n = mk_node(&m->k, "Conv", text_of(m, x, w, b), y);
	n->name = mk_text(y);
	mk_attr_ints(&m->k, n, "pads", 4, pads);
	mk_attr_ints(&m->k, n, "strides", 2, strides);
	mk_attr_int(&m->k, n, "group", v->group);
	return y;
}

static inline const char *apply(struct byte_net *m, const char *type, const char *x, const char *other)
{
	const char *y = fresh(m, "y");
	mk_node(&m->k, type, text_of(m, x, other, ""), y)->name = mk_text(y);
	return y;
}

static inline const char *clip(struct byte_net *m, const char *x, float low, float high)
{
	const char *from = scalar(m, low), *to = scalar(m, high), *y = fresh(m, "y");
	mk_node(&m->k, "Clip", text_of(m, x, from, to), y)->name = mk_text(y);
	return y;
}

/* The mean of each channel, times a matrix. */
static inline const char *classify(struct byte_net *m, const char *x, int64_t c)
{
	const char *s = through_bytes(m, apply(m, "GlobalAveragePool", x, ""), .05f);
	s = apply(m, "Flatten", s, "");
	const char *w = constant(m, m->weights, arena_printf(&m->k.a, "%d 5", (int)c), c * 5, 1, 1 / 64.0f);
	return through_bytes(m, apply(m, "MatMul", s, w), .2f);
}

static inline const char *pool(struct byte_net *m, const char *x)
{
	const char *y = fresh(m, "y");
	Onnx__NodeProto *n = mk_node(&m->k, "MaxPool", x, y);
	n->name = mk_text(y);
	mk_attr_ints(&m->k, n, "kernel_shape", 2, (int64_t[]){3, 3});
	mk_attr_ints(&m->k, n, "pads", 4, (int64_t[]){1, 1, 1, 1});
	mk_attr_ints(&m->k, n, "strides", 2, (int64_t[]){2, 2});
	return y;
}

/* Repeats pixels: whole numbers of them, or in turns. */
static inline const char *grow(struct byte_net *m, const char *x, bool whole)
{
	const float scales[] = {1, 1, 2, whole ? 2 : 1.5f};
	const char *y = fresh(m, "y"), *by = fresh(m, "s");
	mk_init(&m->k, by, F32, "4", scales, sizeof scales);
	Onnx__NodeProto *n = mk_node(&m->k, "Resize", text_of(m, x, "-", by), y);
	n->name = mk_text(y);
	if (whole) {
		mk_attr_str(&m->k, n, "coordinate_transformation_mode", "asymmetric");
		mk_attr_str(&m->k, n, "nearest_mode", "floor");
	}
	return y;
}

/* Expands k channels to e, convolves each, with this stride, and sums them to k again. */
static inline const char *expand(struct byte_net *m, const char *x, int64_t k, int64_t e, int64_t stride)
{
	x = through_bytes(m, apply(m, "Relu", convolve(m, x, &(struct qdq_conv){k, e, 1, 1, 1}), "-"), .1f);
	x = through_bytes(m, clip(m, convolve(m, x, &(struct qdq_conv){e, e, 3, stride, e}), 0, 6), .05f);
	return through_bytes(m, convolve(m, x, &(struct qdq_conv){e, k, 1, 1, 1}), .1f);
}

/* Channels of the input and of the convolutions, and rows of the image; 0: random, up to 40 and 9;
 * the input has few channels, as an image, if the seed is 4 more than a multiple of 9. expand: channels of a
 * block of a 1x1, a depthwise and a 1x1 convolution after the pooling; 0: none. */
struct byte_net_size {
	int64_t c, k, h, expand;
};

/* A block of a residual network between two quantisations: 3x3, depthwise, 1x1 and grouped convolutions, with
 * and without bias, limits, a sum of two quantised values, pooling and repeating of bytes, and a classifier.
 * Its activations are u8, or s8 if the seed is odd; its weights s8, or u8 if the seed is a multiple of 5. The
 * maker's arena holds the model. */
static inline struct blob byte_net(struct byte_net *m, uint64_t seed, const struct byte_net_size *size)
{
	*m = (struct byte_net){.type = seed % 2 ? I8 : U8, .weights = seed % 5 ? I8 : U8};
	rng_seed(&m->rng, seed);
	mk_start(&m->k, 13, BYTE_NODES);
	int64_t c = 1 + rng_below(&m->rng, 40), k = 1 + rng_below(&m->rng, 40), h = 4 + rng_below(&m->rng, 6);
	c = size->c ? size->c : seed % 9 == 4 ? 3 + (int64_t)(seed / 9 % 2) : c;
	k = size->k ? size->k : k;
	h = size->h ? size->h : h;
	mk_input(&m->k, "x", F32, arena_printf(&m->k.a, "1 %d %d %d", (int)c, (int)h, (int)h + 1));
	const char *x = through_bytes(m, "x", 1 / 100.0f);
	const char *a = convolve(m, x, &(struct qdq_conv){c, k, 3, 1, 1});
	a = through_bytes(m, seed % 4 == 2 ? clip(m, a, -1, 3) : apply(m, "Relu", a, "-"), .1f);
	const char *b =
	    through_bytes(m, convolve(m, a, &(struct qdq_conv){k, k, 3, 1, k, seed % 4 == 1}), .05f);
	const char *s = through_bytes(m, convolve(m, b, &(struct qdq_conv){k, k, 1, 1, 1}), .1f);
	if (seed % 3) /* else bytes that only the sum reads */
		s = apply(m, "Relu", apply(m, "Add", s, a), "-");
	else
		s = apply(m, "Add", s,
			  through_bytes(m, convolve(m, a, &(struct qdq_conv){k, k, 1, 1, 1}), .1f));
	const char *scale = scalar(m, .1f), *zero = zero_point(m, m->type);
	s = with_params(m, pool(m, with_params(m, s, scale, zero)), scale, zero);
	if (seed % 3 == 1)
		s = with_params(m, grow(m, s, seed % 2), scale, zero);
	if (size->expand)
		s = expand(m, s, k, size->expand, 1 + (int64_t)(seed % 2));
	s = through_bytes(m, convolve(m, s, &(struct qdq_conv){k, c, 1, 2, 1 + (k % 2 == 0 && c % 2 == 0)}),
			  .2f);
	if (seed % 7 == 0)
		s = classify(m, s, c);
	mk_node(&m->k, "Relu", s, "out")->name = mk_text("out");
	mk_output(&m->k, "out");
	return mk_bytes(&m->k);
}

#endif
