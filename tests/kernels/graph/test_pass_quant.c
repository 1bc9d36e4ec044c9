/* SPDX-License-Identifier: Apache-2.0 */
/* Random QDQ networks, rewritten by pass_quant, against an integer oracle of the fused formula that shares no
 * code with the operators; and against f32 arithmetic, layer by layer, within one step. */
#include "tests/lib/test.h"
#include "kernels/graph/dense8.h"
#include "kernels/graph/eval.h"
#include "kernels/graph/op.h"
#include "kernels/graph/op_quant.h"
#include "kernels/graph/optimize.h"
#include "platform/base/rng.h"

#include <math.h>

enum { NETS = 300, MAX_LAYERS = 6, IMAGE = 4 };

/* Integers with their parameters: what the oracle computes, and the value of bytes that it stands for. */
struct ints {
	int value;
	enum dtype type;
	struct shape shape;
	float scale;
	int zero;
	int32_t *v;
};

struct net {
	struct graph *g;
	struct rng rng;
	int opset, products;
	int off; /* greatest distance from f32 arithmetic, in steps */
	struct ints now;
};

static int below(struct net *n, int k)
{
	return (int)rng_below(&n->rng, (uint32_t)k);
}

static int between(struct net *n, int lo, int hi)
{
	return lo + below(n, hi - lo + 1);
}

static int low_of(enum dtype t)
{
	return t == DT_I8 ? -128 : 0;
}

/* ---- the graph ---- */

static int constant(struct net *n, enum dtype type, struct shape s, const double *v)
{
	int at = graph_add_value(n->g, "c");
	struct tensor *t = &n->g->value[at].t;
	if (tensor_alloc(&n->g->arena, type, &s, t) < 0)
		abort();
	for (int64_t i = 0; i < shape_count(&s) && v; i++)
		tensor_set(&n->g->value[at].t, i, v[i]);
	return at;
}

static int number(struct net *n, enum dtype type, double v)
{
	return constant(n, type, (struct shape){0}, &v);
}

static int64_t *list(struct net *n, int count, const int64_t *v)
{
	return memcpy(ARENA_ARRAY(&n->g->arena, int64_t, count), v, sizeof *v * (size_t)count);
}

static int list_value(struct net *n, int count, const int64_t *v)
{
	int at = constant(n, DT_I64, (struct shape){1, {count}}, NULL);
	memcpy(n->g->value[at].t.data, v, sizeof *v * (size_t)count);
	return at;
}

static int node(struct net *n, const char *type, int nin, const int *in, int nattr, const struct attr *attr)
{
	int out = graph_add_value(n->g, type);
	CHECK_OK(graph_add_node(n->g, type, type, n->opset, nin, in, 1, &out, nattr, attr));
	return out;
}

static int dequantise(struct net *n, const struct ints *x)
{
	int in[] = {x->value, number(n, DT_F32, x->scale), number(n, x->type, x->zero)};
	/* an absent zero point is 0 */
	return node(n, "DequantizeLinear", !x->zero && below(n, 2) ? 2 : 3, in, 0, NULL);
}

static void quantise(struct net *n, int v, struct ints *y)
{
	int in[] = {v, number(n, DT_F32, y->scale), number(n, y->type, y->zero)};
	y->value =
	    node(n, "QuantizeLinear", !y->zero && y->type == DT_U8 && below(n, 2) ? 2 : 3, in, 0, NULL);
}

static struct attr int_attr(const char *name, int64_t v)
{
	return (struct attr){.name = name, .kind = ATTR_INT, .i = v};
}

static struct attr ints_attr(struct net *n, const char *name, int count, const int64_t *v)
{
	return (struct attr){.name = name, .kind = ATTR_INTS, .n = count, .ints = list(n, count, v)};
}

/* ---- the oracle ---- */

/* The formula in doubles, whose products and quotients of floats are rounded to f32 by hand. */
static int32_t saturate(double v, const struct ints *y, double low, double high)
{
	double q = nearbyint(v) + y->zero;
	q = q < low ? low : q;
	return (int32_t)(q > high ? high : q);
}

static float f32(double v)
{
	volatile float f = (float)v;
	return f;
}

struct product {
	struct ints x, w; /* w: scale and zero point of filter 0 */
	double *w_scale, *w_zero, *bias;
	int per_axis, bias_kind; /* bias: 0 none, 1 s32, 2 f32 */
	int64_t n;
	double low, high; /* limits of the floats */
};

static struct ints like(struct net *n, struct shape s)
{
	struct ints y = {.type = below(n, 2) ? DT_U8 : DT_I8, .shape = s};
	y.zero = below(n, 3) ? between(n, low_of(y.type), low_of(y.type) + 255) : low_of(y.type);
	y.v = ARENA_ARRAY(&n->g->arena, int32_t, shape_count(&s) + 1);
	return y;
}

/* Finishes one sum: the formula, and beside it f32 arithmetic on the same integers. */
static int32_t finish(struct net *n, const struct product *p, const struct ints *y, int64_t k, int64_t sum)
{
	int64_t b = p->bias_kind == 1   ? (int64_t)p->bias[k]
		    : p->bias_kind == 2 ? (int64_t)rint(p->bias[k] / ((double)p->x.scale * p->w_scale[k]))
					: 0;
	float factor = f32((double)f32((double)p->x.scale * p->w_scale[k]) / y->scale);
	double low = saturate(f32(p->low / y->scale), y, low_of(y->type), low_of(y->type) + 255);
	double high = saturate(f32(p->high / y->scale), y, low_of(y->type), low_of(y->type) + 255);
	int32_t q = saturate(f32((double)f32((double)(sum + b)) * factor), y, low, high);
	double real = (double)sum * p->x.scale * p->w_scale[k];
	real += p->bias_kind == 2 ? p->bias[k] : (double)b * p->x.scale * p->w_scale[k];
	real = fmin(fmax(real, p->low), p->high);
	int off = abs(saturate(real / y->scale, y, low_of(y->type), low_of(y->type) + 255) - q);
	n->off = off > n->off ? off : n->off;
	return q;
}

/* Chooses weights and parameters for n filters of `depth` elements. */
static struct product choose(struct net *n, struct shape s, int64_t filters, int64_t depth, struct ints *y,
			     bool conv)
{
	struct product p = {
	    .x = n->now, .n = filters, .per_axis = below(n, 2), .low = -INFINITY, .high = INFINITY};
	struct arena *a = &n->g->arena;
	p.w = (struct ints){.type = below(n, 3) ? DT_I8 : DT_U8, .shape = s};
	p.w.v = ARENA_ARRAY(a, int32_t, shape_count(&s) + 1);
	for (int64_t i = 0; i < shape_count(&s); i++)
		p.w.v[i] = between(n, low_of(p.w.type), low_of(p.w.type) + 255);
	p.w_scale = ARENA_ARRAY(a, double, filters + 1);
	p.w_zero = ARENA_ARRAY(a, double, filters + 1);
	p.bias = ARENA_ARRAY(a, double, filters + 1);
	int zero = below(n, 2) ? 0 : between(n, low_of(p.w.type), low_of(p.w.type) + 255);
	for (int64_t k = 0; k < filters; k++) {
		bool own = p.per_axis && k;
		p.w_scale[k] = own || !k ? f32(0.001 + 0.01 * rng_unit(&n->rng)) : p.w_scale[0];
		p.w_zero[k] = own && zero ? between(n, low_of(p.w.type), low_of(p.w.type) + 255) : zero;
	}
	y->scale = f32(p.x.scale * p.w_scale[0] * 40 * sqrt((double)depth) * (0.5 + 2 * rng_unit(&n->rng)));
	p.bias_kind = conv || below(n, 2) ? below(n, 3) : 0;
	for (int64_t k = 0; k < filters; k++) /* a bias in f32 would be left alone */
		if (p.bias_kind == 2 && p.x.scale * p.w_scale[k] / y->scale > 1 / 33.0)
			p.bias_kind = 1;
	for (int64_t k = 0; k < filters; k++)
		p.bias[k] = p.bias_kind == 1 ? between(n, -9000, 9000)
					     : f32(20 * y->scale * (rng_unit(&n->rng) - 0.5));
	return p;
}

static int weights(struct net *n, const struct product *p, int axis)
{
	double *v = ARENA_ARRAY(&n->g->arena, double, shape_count(&p->w.shape) + 1);
	for (int64_t i = 0; i < shape_count(&p->w.shape); i++)
		v[i] = p->w.v[i];
	struct shape s = {p->per_axis ? 1 : below(n, 2), {p->per_axis ? p->n : 1}};
	bool zeros = false;
	for (int64_t k = 0; k < p->n; k++)
		zeros |= p->w_zero[k] != 0;
	int in[] = {constant(n, p->w.type, p->w.shape, v), constant(n, DT_F32, s, p->w_scale),
		    constant(n, p->w.type, s, p->w_zero)};
	struct attr attr = int_attr("axis", below(n, 2) ? axis : axis - p->w.shape.rank);
	return node(n, "DequantizeLinear", zeros || below(n, 2) ? 3 : 2, in, p->per_axis, &attr);
}

static int bias(struct net *n, const struct product *p)
{
	struct shape s = {1, {p->n}};
	if (p->bias_kind == 2)
		return constant(n, DT_F32, s, p->bias);
	double *scale = ARENA_ARRAY(&n->g->arena, double, p->n);
	for (int64_t k = 0; k < p->n; k++)
		scale[k] = f32(p->x.scale * p->w_scale[k]);
	int in[] = {constant(n, DT_I32, s, p->bias), constant(n, DT_F32, s, scale)};
	struct attr attr = int_attr("axis", 0);
	return node(n, "DequantizeLinear", 2, in, 1, &attr);
}

/* Perhaps a Relu or a Clip, and its limits. */
static int limits(struct net *n, int v, struct product *p, float step)
{
	int kind = below(n, 4);
	if (kind == 1) {
		p->low = 0;
		return node(n, "Relu", 1, &v, 0, NULL);
	}
	if (kind != 2)
		return v;
	float lo = f32(-step * below(n, 90)), hi = f32(step * below(n, 140));
	p->low = lo;
	p->high = hi;
	struct attr attr[] = {{.name = "min", .kind = ATTR_FLOAT, .f = lo},
			      {.name = "max", .kind = ATTR_FLOAT, .f = hi}};
	int in[] = {v, n->opset >= 11 ? number(n, DT_F32, lo) : -1,
		    n->opset >= 11 ? number(n, DT_F32, hi) : -1};
	return node(n, "Clip", n->opset >= 11 ? 3 : 1, in, n->opset >= 11 ? 0 : 2, attr);
}

static void add_conv(struct net *n)
{
	static const int groups[] = {1, 1, 2, 3, 6};
	const struct shape *x = &n->now.shape;
	int64_t c = x->d[1], group = groups[below(n, 5)], part = between(n, 1, 9);
	group = c % group ? 1 : group;
	if (!below(n, 4)) { /* depthwise */
		group = c;
		part = 1;
	}
	int64_t kernel[2], stride[2], dilation[2], pads[4], out[2];
	for (int i = 0; i < 2; i++) {
		kernel[i] = between(n, 1, 3);
		stride[i] = between(n, 1, 3);
		dilation[i] = between(n, 1, 2);
		pads[i] = below(n, 3);
		pads[2 + i] = below(n, 3);
		int64_t room = x->d[2 + i] + pads[i] + pads[2 + i] - (kernel[i] - 1) * dilation[i] - 1;
		if (room < 0) {
			kernel[i] = 1;
			room = x->d[2 + i] + pads[i] + pads[2 + i] - 1;
		}
		out[i] = room / stride[i] + 1;
	}
	int64_t filters = part * group, cg = c / group, taps = cg * kernel[0] * kernel[1];
	struct ints y = like(n, (struct shape){IMAGE, {x->d[0], filters, out[0], out[1]}});
	struct product p =
	    choose(n, (struct shape){4, {filters, cg, kernel[0], kernel[1]}}, filters, taps, &y, true);
	int in[] = {dequantise(n, &n->now), weights(n, &p, 0), p.bias_kind ? bias(n, &p) : -1};
	struct attr attr[] = {ints_attr(n, "kernel_shape", 2, kernel), ints_attr(n, "strides", 2, stride),
			      ints_attr(n, "dilations", 2, dilation), ints_attr(n, "pads", 4, pads),
			      int_attr("group", group)};
	int v = node(n, "Conv", p.bias_kind ? 3 : 2, in, 5, attr);
	quantise(n, limits(n, v, &p, y.scale), &y);
	int64_t at = 0;
	for (int64_t b = 0; b < x->d[0]; b++)
		for (int64_t f = 0; f < filters; f++)
			for (int64_t oh = 0; oh < out[0]; oh++)
				for (int64_t ow = 0; ow < out[1]; ow++) {
					int64_t sum = 0;
					for (int64_t t = 0; t < taps; t++) {
						int64_t ic = f / part * cg + t / (kernel[0] * kernel[1]);
						int64_t h = oh * stride[0] - pads[0] +
							    t / kernel[1] % kernel[0] * dilation[0];
						int64_t w =
						    ow * stride[1] - pads[1] + t % kernel[1] * dilation[1];
						if (h < 0 || w < 0 || h >= x->d[2] || w >= x->d[3])
							continue;
						int64_t q = p.x.v[((b * c + ic) * x->d[2] + h) * x->d[3] + w];
						sum += (q - p.x.zero) *
						       (p.w.v[f * taps + t] - (int64_t)p.w_zero[f]);
					}
					y.v[at++] = finish(n, &p, &y, f, sum);
				}
	n->now = y;
	n->products++;
}

/* Gemm, or MatMul with an Add for the bias. */
static void add_matrix(struct net *n)
{
	int64_t m = n->now.shape.d[0], k = n->now.shape.d[1], cols = between(n, 1, 90);
	bool gemm = below(n, 2), turned = gemm && below(n, 2);
	struct ints y = like(n, (struct shape){2, {m, cols}});
	struct shape s = {2, {turned ? cols : k, turned ? k : cols}};
	struct product p = choose(n, s, cols, k, &y, gemm);
	int in[] = {dequantise(n, &n->now), weights(n, &p, turned ? 0 : 1), p.bias_kind ? bias(n, &p) : -1};
	struct attr attr = int_attr("transB", 1);
	int v = gemm ? node(n, "Gemm", p.bias_kind ? 3 : 2, in, turned, &attr)
		     : node(n, "MatMul", 2, in, 0, NULL);
	if (!gemm && p.bias_kind) {
		int two[] = {below(n, 2) ? v : in[2], v};
		two[1] = two[0] == v ? in[2] : v;
		v = node(n, "Add", 2, two, 0, NULL);
	}
	quantise(n, limits(n, v, &p, y.scale), &y);
	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < cols; j++) {
			int64_t sum = 0;
			for (int64_t t = 0; t < k; t++)
				sum += (p.x.v[i * k + t] - p.x.zero) *
				       (p.w.v[turned ? j * k + t : t * cols + j] - (int64_t)p.w_zero[j]);
			y.v[i * cols + j] = finish(n, &p, &y, j, sum);
		}
	n->now = y;
	n->products++;
}

/* An operator that moves elements; the parameters stay. */
static struct ints moved(struct net *n, struct shape s)
{
	struct ints y = n->now;
	y.shape = s;
	y.v = ARENA_ARRAY(&n->g->arena, int32_t, shape_count(&s) + 1);
	return y;
}

static void add_pool(struct net *n)
{
	const struct shape *x = &n->now.shape;
	int64_t kernel[2], stride[2], pads[4], out[2], at = 0;
	for (int i = 0; i < 2; i++) {
		kernel[i] = between(n, 1, x->d[2 + i] < 3 ? 1 : 3);
		stride[i] = between(n, 1, 3);
		pads[i] = below(n, (int)kernel[i]);
		pads[2 + i] = below(n, (int)kernel[i]);
		out[i] = (x->d[2 + i] + pads[i] + pads[2 + i] - kernel[i]) / stride[i] + 1;
	}
	struct ints y = moved(n, (struct shape){4, {x->d[0], x->d[1], out[0], out[1]}});
	struct attr attr[] = {ints_attr(n, "kernel_shape", 2, kernel), ints_attr(n, "strides", 2, stride),
			      ints_attr(n, "pads", 4, pads)};
	int v = dequantise(n, &n->now);
	quantise(n, node(n, "MaxPool", 1, &v, 3, attr), &y);
	for (int64_t c = 0; c < x->d[0] * x->d[1]; c++)
		for (int64_t o = 0; o < out[0] * out[1]; o++) {
			int32_t most = low_of(y.type);
			for (int64_t t = 0; t < kernel[0] * kernel[1]; t++) {
				int64_t h = o / out[1] * stride[0] - pads[0] + t / kernel[1];
				int64_t w = o % out[1] * stride[1] - pads[1] + t % kernel[1];
				if (h < 0 || w < 0 || h >= x->d[2] || w >= x->d[3])
					continue;
				int32_t q = n->now.v[(c * x->d[2] + h) * x->d[3] + w];
				most = q > most ? q : most;
			}
			y.v[at++] = most;
		}
	n->now = y;
}

static void add_pad(struct net *n)
{
	const struct shape *x = &n->now.shape;
	int64_t pads[8] = {0, 0, below(n, 3), below(n, 3), 0, 0, below(n, 3), below(n, 3)};
	struct shape s = {4, {x->d[0], x->d[1], x->d[2] + pads[2] + pads[6], x->d[3] + pads[3] + pads[7]}};
	struct ints y = moved(n, s);
	float fill = below(n, 2) ? 0 : f32(y.scale * between(n, -300, 300) * 1.3);
	int in[] = {dequantise(n, &n->now), list_value(n, 8, pads), number(n, DT_F32, fill)};
	quantise(n, node(n, "Pad", fill == 0 && below(n, 2) ? 2 : 3, in, 0, NULL), &y);
	for (int64_t i = 0; i < shape_count(&s); i++) {
		int64_t h = i / s.d[3] % s.d[2] - pads[2], w = i % s.d[3] - pads[3], c = i / s.d[3] / s.d[2];
		bool in_there = h >= 0 && w >= 0 && h < x->d[2] && w < x->d[3];
		y.v[i] = in_there ? n->now.v[(c * x->d[2] + h) * x->d[3] + w]
				  : saturate(f32((double)fill / y.scale), &y, low_of(y.type),
					     low_of(y.type) + 255);
	}
	n->now = y;
}

static void add_resize(struct net *n)
{
	const struct shape *x = &n->now.shape;
	struct shape s = {4, {x->d[0], x->d[1], 2 * x->d[2], 2 * x->d[3]}};
	struct ints y = moved(n, s);
	int in[] = {dequantise(n, &n->now), -1,
		    constant(n, DT_F32, (struct shape){1, {4}}, (double[]){1, 1, 2, 2})};
	struct attr attr[] = {
	    {.name = "mode", .kind = ATTR_STRING, .s = "nearest"},
	    {.name = "coordinate_transformation_mode", .kind = ATTR_STRING, .s = "asymmetric"},
	    {.name = "nearest_mode", .kind = ATTR_STRING, .s = "floor"}};
	quantise(n, node(n, "Resize", 3, in, 3, attr), &y);
	for (int64_t i = 0; i < shape_count(&s); i++) {
		int64_t h = i / s.d[3] % s.d[2] / 2, w = i % s.d[3] / 2, c = i / s.d[3] / s.d[2];
		y.v[i] = n->now.v[(c * x->d[2] + h) * x->d[3] + w];
	}
	n->now = y;
}

/* Transpose, then Reshape to the same dims: two operators between DQ and Q. */
static void add_transpose(struct net *n)
{
	const struct shape *x = &n->now.shape;
	int64_t perm[] = {0, 2, 3, 1}, dims[] = {x->d[0], x->d[2], x->d[3] * x->d[1], 1};
	struct ints y = moved(n, (struct shape){4, {dims[0], dims[1], dims[2], 1}});
	struct attr attr = ints_attr(n, "perm", 4, perm);
	int v = dequantise(n, &n->now);
	int in[] = {node(n, "Transpose", 1, &v, 1, &attr), list_value(n, 4, dims)};
	quantise(n, node(n, "Reshape", 2, in, 0, NULL), &y);
	for (int64_t i = 0, b = 0; b < x->d[0]; b++)
		for (int64_t h = 0; h < x->d[2] * x->d[3]; h++)
			for (int64_t c = 0; c < x->d[1]; c++)
				y.v[i++] = n->now.v[(b * x->d[1] + c) * x->d[2] * x->d[3] + h];
	n->now = y;
}

/* Returns the byte that QuantizeLinear, with the parameters of y, makes of element i of the dequantised x. */
static int32_t again(const struct ints *x, const struct ints *y, int64_t i)
{
	float v = f32((double)(x->v[i] - x->zero) * x->scale);
	return saturate(f32((double)v / y->scale), y, low_of(y->type), low_of(y->type) + 255);
}

/* Q directly behind DQ: with the same parameters nothing, else a requantisation. */
static void add_requantise(struct net *n)
{
	struct ints y = below(n, 2) ? moved(n, n->now.shape) : like(n, n->now.shape);
	y.scale = y.scale > 0 ? y.scale : f32(n->now.scale * 1.37);
	quantise(n, dequantise(n, &n->now), &y);
	for (int64_t i = 0; i < shape_count(&y.shape); i++)
		y.v[i] = again(&n->now, &y, i);
	n->now = y;
}

/* The same bytes twice along the channels, from two DQ or from one; the result's parameters are those of the
 * bytes, or others, also of another type. */
static void add_concat(struct net *n)
{
	const struct shape *x = &n->now.shape, twice = {4, {x->d[0], 2 * x->d[1], x->d[2], x->d[3]}};
	bool same = below(n, 2);
	struct ints y = same ? moved(n, twice) : like(n, twice);
	y.scale = same ? y.scale : f32(n->now.scale * 1.37);
	int in[] = {dequantise(n, &n->now), 0};
	in[1] = below(n, 2) ? in[0] : dequantise(n, &n->now);
	struct attr attr = int_attr("axis", 1);
	quantise(n, node(n, "Concat", 2, in, 1, &attr), &y);
	int64_t half = x->d[1] * x->d[2] * x->d[3];
	for (int64_t i = 0; i < shape_count(&y.shape); i++)
		y.v[i] = again(&n->now, &y, i / (2 * half) * half + i % half);
	n->now = y;
}

/* A residual: x + x, which stays an f32 operator. */
static void add_sum(struct net *n)
{
	struct ints y = like(n, n->now.shape);
	y.scale = f32(n->now.scale * (1 + rng_unit(&n->rng)));
	int in[] = {dequantise(n, &n->now), dequantise(n, &n->now)};
	quantise(n, node(n, "Add", 2, in, 0, NULL), &y);
	for (int64_t i = 0; i < shape_count(&y.shape); i++) {
		float v = f32((double)(n->now.v[i] - n->now.zero) * n->now.scale);
		y.v[i] = saturate(f32((double)f32((double)v + v) / y.scale), &y, low_of(y.type),
				  low_of(y.type) + 255);
	}
	n->now = y;
}

static void add_flatten(struct net *n)
{
	struct shape s = {2, {n->now.shape.d[0], shape_count(&n->now.shape) / n->now.shape.d[0]}};
	struct ints y = moved(n, s);
	int v = dequantise(n, &n->now);
	quantise(n, node(n, "Flatten", 1, &v, 0, NULL), &y);
	memcpy(y.v, n->now.v, sizeof *y.v * (size_t)shape_count(&s));
	n->now = y;
}

/* The product of a matrix and its transpose: both operands are computed. */
static void add_square(struct net *n)
{
	int64_t m = n->now.shape.d[0], k = n->now.shape.d[1], perm[] = {1, 0};
	struct ints t = moved(n, (struct shape){2, {k, m}}), y = like(n, (struct shape){2, {m, m}});
	struct attr attr = ints_attr(n, "perm", 2, perm);
	int v = dequantise(n, &n->now);
	quantise(n, node(n, "Transpose", 1, &v, 1, &attr), &t);
	double scale = n->now.scale, zero = n->now.zero;
	struct product p = {
	    .x = n->now, .w_scale = &scale, .w_zero = &zero, .n = m, .low = -INFINITY, .high = INFINITY};
	y.scale = f32(scale * scale * 40 * sqrt((double)k));
	int in[] = {dequantise(n, &n->now), dequantise(n, &t)};
	quantise(n, limits(n, node(n, "MatMul", 2, in, 0, NULL), &p, y.scale), &y);
	for (int64_t i = 0; i < m * m; i++) {
		int64_t sum = 0;
		for (int64_t j = 0; j < k; j++)
			sum += (p.x.v[i / m * k + j] - p.x.zero) * (p.x.v[i % m * k + j] - p.x.zero);
		y.v[i] = finish(n, &p, &y, 0, sum);
	}
	n->now = y;
	n->products++;
}

/* ---- networks ---- */

static void start(struct net *n, uint64_t seed)
{
	static const int opsets[] = {10, 13, 19, 21}, channels[] = {1, 2, 3, 6, 8};
	struct arena a = {0};
	struct graph *g = ARENA_NEW(&a, struct graph);
	g->arena = a;
	g->name = "net";
	*n = (struct net){.g = g};
	rng_seed(&n->rng, seed);
	n->opset = opsets[below(n, 4)];
	g->input = ARENA_ARRAY(&g->arena, int, 1);
	g->output = ARENA_ARRAY(&g->arena, int, 1);
	n->now =
	    like(n, (struct shape){
			4, {between(n, 1, 2), channels[below(n, 5)], between(n, 1, 11), between(n, 1, 13)}});
	n->now.scale = f32(0.01 + 0.05 * rng_unit(&n->rng));
	n->now.value = g->input[0] = graph_add_value(g, "x");
	g->ninputs = 1;
	g->value[n->now.value].is_input = true;
	g->value[n->now.value].t = (struct tensor){n->now.type, n->now.shape, NULL};
	for (int64_t i = 0; i < shape_count(&n->now.shape); i++)
		n->now.v[i] = between(n, low_of(n->now.type), low_of(n->now.type) + 255);
}

static void build(struct net *n, uint64_t seed, struct tensor *input)
{
	static void (*const images[])(struct net *) = {add_conv,       add_conv,      add_conv,   add_conv,
						       add_pool,       add_transpose, add_concat, add_sum,
						       add_requantise, add_pad,       add_resize};
	start(n, seed);
	if (tensor_alloc(&n->g->arena, n->now.type, &n->now.shape, input) < 0)
		abort();
	for (int64_t i = 0; i < shape_count(&n->now.shape); i++)
		tensor_set(input, i, n->now.v[i]);
	int layers = between(n, 1, MAX_LAYERS),
	    some = n->opset < 11 ? 9 : 11; /* Pad and Resize take inputs since 11 */
	for (int i = 0; i < layers; i++) {
		int64_t big = shape_count(&n->now.shape);
		images[big > 6000 ? below(n, 2) : below(n, some)](n);
	}
	if (below(n, 2) && shape_count(&n->now.shape) < 4000) {
		add_flatten(n);
		(below(n, 3) ? add_matrix : add_square)(n);
	}
	n->g->output[0] = n->now.value;
	n->g->noutputs = 1;
	n->g->value[n->now.value].is_output = true;
	CHECK_OK(graph_infer(n->g));
}

static int count(const struct graph *g, const char *type)
{
	int k = 0;
	for (int i = 0; i < g->nnodes; i++)
		k += !g->node[i].dead && !strcmp(node_type(&g->node[i]), type);
	return k;
}

/* Number of Concats of floats. */
static int count_joined_floats(const struct graph *g)
{
	int k = 0;
	for (int i = 0; i < g->nnodes; i++)
		k += !g->node[i].dead && !strcmp(node_type(&g->node[i]), "Concat") &&
		     g->value[g->node[i].out[0]].t.dtype == DT_F32;
	return k;
}

/* Number of elements that differ from the oracle; *far: by more than one. */
static int differ(struct net *n, const struct tensor *input, int *far)
{
	struct arena a = {0};
	struct tensor *t = ARENA_ARRAY(&a, struct tensor, n->g->nvalues);
	int bad = 0;
	*far = 0;
	CHECK_OK(eval_graph(n->g, input, t, &a));
	const struct tensor *y = &t[n->g->output[0]];
	CHECK(shape_equal(&y->shape, &n->now.shape) && y->dtype == n->now.type);
	for (int64_t i = 0; i < shape_count(&n->now.shape) && y->data; i++) {
		int64_t off = llabs(tensor_get_i64(y, i) - n->now.v[i]);
		bad += off > 0;
		*far += off > 1;
	}
	arena_free(&a);
	return bad;
}

TEST(random_networks_equal_the_oracle)
{
	int products = 0;
	for (uint64_t seed = 1; seed <= NETS; seed++) {
		struct net n;
		struct tensor input;
		int far;
		build(&n, seed, &input);
		CHECK(n.off <= 1);
		CHECK_OK(seed % 2 ? graph_optimize(n.g) : graph_quantize(n.g)); /* both give the same bytes */
		CHECK(count(n.g, "Conv") + count(n.g, "Gemm") + count(n.g, "MatMul") == 0);
		CHECK(count(n.g, "QLinearConv") + count(n.g, "QLinearMatMul") == n.products);
		CHECK(count_joined_floats(n.g) == 0);
		int bad = differ(&n, &input, &far);
		if (bad || test_bad) {
			printf("seed %d: %d elements differ, %d by more than 1\n", (int)seed, bad, far);
			CHECK(!bad);
			graph_free(n.g);
			return;
		}
		products += n.products;
		graph_free(n.g);
	}
	CHECK(products > NETS);
}

/* One convolution as it came, with f32 arithmetic: at most a step away, where rounding is near a half. */
TEST(f32_arithmetic_is_at_most_a_step_away)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct net n;
		struct tensor input;
		int far;
		start(&n, seed);
		if (tensor_alloc(&n.g->arena, n.now.type, &n.now.shape, &input) < 0)
			abort();
		for (int64_t i = 0; i < shape_count(&n.now.shape); i++)
			tensor_set(&input, i, n.now.v[i]);
		add_conv(&n);
		n.g->output[0] = n.now.value;
		n.g->noutputs = 1;
		n.g->value[n.now.value].is_output = true;
		CHECK_OK(graph_infer(n.g));
		differ(&n, &input, &far);
		CHECK(!far);
		graph_free(n.g);
	}
}

/* DQ -> Conv -> Q of one 1x1 filter, with parameters that the caller changes. */
struct odd {
	float x_scale, w_scale, y_scale, bias;
	enum dtype bias_type;
	bool twice; /* the convolution's output is also the graph's */
};

static bool fuses(struct odd o)
{
	struct net n;
	start(&n, 3);
	n.now.scale = o.x_scale;
	int w[] = {constant(&n, DT_I8, (struct shape){4, {1, n.now.shape.d[1], 1, 1}}, NULL),
		   number(&n, DT_F32, o.w_scale)};
	int in[] = {dequantise(&n, &n.now), node(&n, "DequantizeLinear", 2, w, 0, NULL), -1};
	if (o.bias_type)
		in[2] = constant(&n, DT_F32, (struct shape){1, {1}}, (double[]){o.bias});
	int v = node(&n, "Conv", o.bias_type ? 3 : 2, in, 0, NULL);
	struct ints y = like(&n, n.now.shape);
	y.scale = o.y_scale;
	quantise(&n, v, &y);
	n.g->output = ARENA_ARRAY(&n.g->arena, int, 2);
	n.g->output[n.g->noutputs++] = y.value;
	n.g->value[y.value].is_output = true;
	if (o.twice) {
		n.g->output[n.g->noutputs++] = v;
		n.g->value[v].is_output = true;
	}
	CHECK_OK(graph_infer(n.g));
	CHECK_OK(graph_optimize(n.g));
	bool fused = count(n.g, "QLinearConv") == 1;
	CHECK(fused == !count(n.g, "Conv"));
	graph_free(n.g);
	return fused;
}

TEST(odd_parameters_are_left_alone)
{
	CHECK(fuses((struct odd){0.1f, 0.1f, 0.1f}));
	CHECK(!fuses((struct odd){0, 0.1f, 0.1f}));
	CHECK(!fuses((struct odd){0.1f, 1e-40f, 0.1f}));
	CHECK(!fuses((struct odd){0.1f, 0.1f, NAN}));
	CHECK(!fuses((struct odd){0.1f, INFINITY, 0.1f}));
	CHECK(!fuses((struct odd){1e-20f, 1e-20f, 0.1f})); /* the product is denormal */
	CHECK(!fuses((struct odd){-0.1f, 0.1f, 0.1f}));
	CHECK(!fuses((struct odd){0.1f, 0.1f, 0.1f, .twice = true}));
	/* a bias in f32: rounded if that is a small part of a step, or nothing */
	CHECK(fuses((struct odd){0.01f, 0.01f, 0.1f, 0.12345f, DT_F32}));
	CHECK(!fuses((struct odd){0.5f, 0.5f, 0.1f, 0.12345f, DT_F32}));
	CHECK(fuses((struct odd){0.5f, 0.5f, 0.1f, 0.75f, DT_F32}));
	CHECK(!fuses((struct odd){0.01f, 0.01f, 0.1f, 1e9f, DT_F32}));
	CHECK(!fuses((struct odd){0.01f, 0.01f, 0.1f, NAN, DT_F32}));
	/* a bias of 2e9 units: nothing, if no sum of s32 reaches half a step */
	CHECK(fuses((struct odd){1e-3f, 1e-10f, 0.1f, 2e-4f, DT_F32}));
	CHECK(!fuses((struct odd){1e-3f, 1e-7f, 0.1f, 0.2f, DT_F32}));
}

/* The rows with limits are no operators of any operator set. */
TEST(models_cannot_ask_for_limits)
{
	static const char *const types[] = {"QLinearConv", "QLinearMatMul"};
	for (int i = 0; i < 2; i++)
		for (int opset = 10; opset <= QUANT_OPSET; opset += QUANT_OPSET - 10) {
			int row;
			const struct op *op = op_find(types[i], opset, &row);
			CHECK(op && (op->rows[row].attrs && strstr(op->rows[row].attrs, "low high")) ==
					(opset == QUANT_OPSET));
		}
}

TEST_MAIN
