/* SPDX-License-Identifier: Apache-2.0 */
/* Random ConvInteger and MatMulInteger nodes as ONNX models: all types and zero points, groups, strides,
 * pads, dilations, batches; alone, or quantised dynamically: DynamicQuantizeLinear, the node, Cast, Mul, Add,
 * Relu. */
#ifndef TESTS_INTEGER_NET_H
#define TESTS_INTEGER_NET_H

#include "tests/lib/byte_net.h"

/* How the input's zero point is known. */
enum zero_kind { ZERO_ABSENT, ZERO_CONSTANT, ZERO_INPUT, ZERO_DYNAMIC, ZERO_KINDS };

struct integer_net {
	struct byte_net m;
	bool conv, same_pads; /* by auto_pad SAME_UPPER */
	enum zero_kind zero;
	int xt, wt, x_zero, nzeros;  /* types; zero points of the weights: 0 (absent), 1 or n */
	int xrank, wrank, bias_rank; /* of bias: 0: none */
	int64_t x[5], w[5], n, group, stride[2], dilation[2], pad[4]; /* n: filters or columns */
	uint8_t *weights, *zeros;
};

static inline int some(struct integer_net *d, int lo, int hi)
{
	return lo + (int)rng_below(&d->m.rng, (uint32_t)(hi - lo + 1));
}

static inline const char *dims_text(struct integer_net *d, const int64_t *dims, int rank)
{
	const char *s = "";
	for (int i = 0; i < rank; i++)
		s = arena_printf(&d->m.k.a, "%s%s%d", s, i ? " " : "", (int)dims[i]);
	return s;
}

static inline void draw_conv(struct integer_net *d)
{
	int spatial = some(d, 0, 4) ? 2 : 1, kind = some(d, 0, 3), per = kind == 1 ? 1 : some(d, 1, 18);
	d->group = kind < 2 ? some(d, 1, 9) : 1;
	d->n = d->group * (kind == 1 ? 1 : some(d, 1, 20));
	d->xrank = d->wrank = 2 + spatial;
	d->x[0] = some(d, 1, 2);
	d->x[1] = d->group * per;
	d->w[0] = d->n;
	d->w[1] = per;
	d->same_pads = !some(d, 0, 3);
	for (int i = 0; i < spatial; i++) {
		d->w[2 + i] = some(d, 1, 3);
		d->stride[i] = some(d, 1, 2);
		d->dilation[i] = some(d, 0, 4) ? 1 : 2;
		d->pad[i] = some(d, 0, 1) * some(d, 0, 2);
		d->pad[spatial + i] = some(d, 0, 1) * some(d, 0, 2);
		d->x[2 + i] = (d->w[2 + i] - 1) * d->dilation[i] + some(d, 1, 9);
	}
}

static inline void draw_matmul(struct integer_net *d)
{
	int64_t k = some(d, 0, 1) ? 4 * some(d, 1, 20) : some(d, 1, 40);
	d->xrank = some(d, 2, 4);
	d->wrank = some(d, 0, 3) ? 2 : some(d, 2, d->xrank);
	d->n = some(d, 1, 40);
	for (int i = 0; i < d->xrank - 2; i++)
		d->x[i] = some(d, 1, 3);
	d->x[d->xrank - 2] = some(d, 1, 9);
	d->x[d->xrank - 1] = d->w[d->wrank - 2] = k;
	for (int i = 0; i < d->wrank - 2; i++)
		d->w[i] = some(d, 0, 2) ? d->x[d->xrank - d->wrank + i] : 1;
	d->w[d->wrank - 1] = d->n;
}

/* Zero points of the weights, and weights whose differences from them are s8, but for one in nine nodes. */
static inline void draw_weights(struct integer_net *d)
{
	int64_t count = 1, per;
	bool wide = !some(d, 0, 8);
	for (int i = 0; i < d->wrank; i++)
		count *= d->w[i];
	per = d->conv ? count / d->n : 1;
	d->nzeros = some(d, 0, 2) == 2 ? (int)d->n : some(d, 0, 1);
	d->weights = arena_alloc(&d->m.k.a, (size_t)count);
	d->zeros = arena_alloc(&d->m.k.a, (size_t)d->n);
	for (int i = 0; i < d->n; i++)
		d->zeros[i] = (uint8_t)(d->wt == U8 ? some(d, 90, 150) : some(d, -20, 20) * some(d, 0, 1));
	if (d->wt == U8 && some(d, 0, 1))
		memset(d->zeros, 128, (size_t)d->n);
	for (int64_t i = 0; i < count; i++) {
		int64_t column = i / per % d->n;
		uint8_t raw = d->nzeros ? d->zeros[d->nzeros > 1 ? column : 0] : 0;
		int zero = d->wt == U8 ? raw : (int8_t)raw, low = d->wt == U8 ? 0 : -128, v;
		do
			v = low + some(d, 0, 255);
		while (!wide && (v - zero < -128 || v - zero > 127));
		d->weights[i] = (uint8_t)v;
	}
}

static inline void add_attributes(struct integer_net *d, Onnx__NodeProto *n)
{
	int spatial = d->xrank - 2;
	mk_attr_int(&d->m.k, n, "group", d->group);
	mk_attr_ints(&d->m.k, n, "strides", spatial, d->stride);
	mk_attr_ints(&d->m.k, n, "dilations", spatial, d->dilation);
	if (d->same_pads)
		mk_attr_str(&d->m.k, n, "auto_pad", "SAME_UPPER");
	else
		mk_attr_ints(&d->m.k, n, "pads", 2 * spatial, d->pad);
}

/* Float scales and biases of the columns or filters, shaped so that they are broadcast along them. */
static inline void add_floats(struct integer_net *d, const char *name, float scale, bool one)
{
	float *v = ARENA_ARRAY(&d->m.k.a, float, d->n);
	int64_t dims[4] = {1, d->n, 1, 1};
	for (int64_t i = 0; i < d->n; i++)
		v[i] = scale * (float)some(d, 1, 9);
	mk_init(&d->m.k, name, F32,
		one       ? "1"
		: d->conv ? dims_text(d, dims, d->xrank)
			  : dims_text(d, &d->n, 1),
		v, sizeof *v * (size_t)(one ? 1 : d->n));
}

/* Adds the nodes that follow the product in a dynamically quantised network. */
static inline void add_float_end(struct integer_net *d)
{
	struct onnx_maker *k = &d->m.k;
	bool one = some(d, 0, 1);
	add_floats(d, "ws", .003f, one);
	mk_node(k, "Mul", "xs ws", "s")->name = mk_text("s");
	Onnx__NodeProto *cast = mk_node(k, "Cast", "y", "yf");
	cast->name = mk_text("cast");
	mk_attr_int(k, cast, "to", F32);
	mk_node(k, "Mul", "yf s", "ys")->name = mk_text("scale");
	add_floats(d, "b", .1f, false);
	mk_node(k, "Add", "ys b", "yb")->name = mk_text("bias");
	mk_node(k, "Relu", "yb", "out")->name = mk_text("relu");
	mk_output(k, "out");
}

/* Inputs: "x" (f32 if it is quantised dynamically), and "xz" of one element if zero is ZERO_INPUT. Outputs:
 * "y", s32; dynamically "out", f32, is the first. Until the caller frees d->m.k.a. */
static inline struct blob integer_net(struct integer_net *d, uint64_t seed)
{
	*d = (struct integer_net){0};
	rng_seed(&d->m.rng, seed);
	struct onnx_maker *k = &d->m.k;
	mk_start(k, 13, BYTE_NODES);
	d->conv = some(d, 0, 1);
	d->zero = (enum zero_kind)some(d, 0, ZERO_KINDS - 1);
	d->xt = d->zero == ZERO_DYNAMIC || some(d, 0, 2) ? U8 : I8;
	d->wt = some(d, 0, 1) ? U8 : I8;
	(d->conv ? draw_conv : draw_matmul)(d);
	draw_weights(d);
	d->x_zero = d->zero == ZERO_ABSENT ? 0 : d->xt == U8 ? some(d, 0, 255) : some(d, -128, 127);
	uint8_t zero = (uint8_t)d->x_zero;
	bool dynamic = d->zero == ZERO_DYNAMIC;
	mk_input(k, dynamic ? "xf" : "x", dynamic ? F32 : d->xt, dims_text(d, d->x, d->xrank));
	if (d->zero == ZERO_INPUT)
		mk_input(k, "xz", d->xt, some(d, 0, 1) ? "1" : "");
	if (d->zero == ZERO_CONSTANT)
		mk_init(k, "xz", d->xt, some(d, 0, 1) ? "1" : "", &zero, 1);
	int64_t count = 1;
	for (int i = 0; i < d->wrank; i++)
		count *= d->w[i];
	mk_init(k, "w", d->wt, dims_text(d, d->w, d->wrank), d->weights, (size_t)count);
	if (d->nzeros)
		mk_init(k, "wz", d->wt, d->nzeros > 1 ? dims_text(d, &d->n, 1) : "", d->zeros,
			(size_t)d->nzeros);
	if (dynamic)
		mk_node(k, "DynamicQuantizeLinear", "xf", "x xs xz")->name = mk_text("dynamic");
	const char *in =
	    arena_printf(&k->a, "x w %s %s", d->zero == ZERO_ABSENT ? "-" : "xz", d->nzeros ? "wz" : "-");
	Onnx__NodeProto *n = mk_node(k, d->conv ? "ConvInteger" : "MatMulInteger", in, "y");
	n->name = mk_text("product");
	if (d->conv)
		add_attributes(d, n);
	if (dynamic)
		add_float_end(d);
	if (!dynamic || some(d, 0, 2) == 0)
		mk_output(k, "y");
	return mk_bytes(k);
}

#endif
