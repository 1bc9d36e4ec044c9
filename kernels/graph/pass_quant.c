/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrites DequantizeLinear, an operator, QuantizeLinear (QDQ) into the operator on bytes:
 *
 *   DQ(x), DQ(w), bias -> Conv, Gemm or MatMul (+ Add) -> Relu, Clip -> Q   QLinearConv, QLinearMatMul
 *   DQ, DQ -> Add -> Relu, Clip -> Q, equal shapes                           QLinearAdd
 *   DQ -> MaxPool, Reshape, Transpose, ... -> Q, equal parameters            the same on bytes
 *   DQs -> Concat -> Q, other parameters                                     a Q for each, Concat of bytes
 *   DQ -> Relu, Clip -> Q, equal parameters, limits those of the type        nothing
 *
 * The first form is ONNX Runtime's fused formula (kernels/graph/dense8.h) instead of f32 sums; results differ
 * from those only where a sum lies within rounding errors of the middle between two integers. The others are
 * exact. Relu and Clip become limits of the integers, because rounding keeps the order. Scales must be normal
 * numbers, and so must their quotients. Block-wise parameters are left alone. */
#include "kernels/graph/op.h"
#include "kernels/graph/op_quant.h"
#include "kernels/graph/pass.h"

#include <math.h>
#include <string.h>

enum {
	MAX_CHAIN = 16, /* operators that only move elements, between DQ and Q */
	BIAS_LIMIT = 1 << 30,
};

/* A bias of floats is rounded to a multiple of x_scale * w_scale. This is left alone where half of that is
 * more of an output's step. */
#define BIAS_ERROR (1 / 64.0)
#define SCALE_MOST 1e30f

/* The quantised value that a DequantizeLinear reads or a QuantizeLinear writes, and its parameters. */
struct bytes {
	int node, value; /* the node; the value of bytes */
	enum dtype type;
	int scale, zero; /* values; zero -1: absent */
	int count, axis; /* of scales; of more than one, their axis */
};

/* The formula's pieces of one product. */
struct match {
	int node; /* Conv, Gemm or MatMul */
	int add;  /* an Add that follows MatMul, -1 */
	int bias; /* a value; -1: absent */
	struct bytes x, w, y;
	float low, high; /* limits of the output */
	int64_t n;       /* filters or columns */
	bool turned;     /* w is [n][k] */
};

static bool is_byte(enum dtype t)
{
	return t == DT_U8 || t == DT_I8;
}

static int producer(const struct graph *g, int v, const char *type)
{
	int i = v >= 0 ? g->value[v].producer : -1;
	return i >= 0 && !g->node[i].dead && (!type || !strcmp(node_type(&g->node[i]), type)) ? i : -1;
}

static bool is_good_scale(float s)
{
	return isnormal(s) && s > 0 && s < SCALE_MOST;
}

static float scale_at(const struct graph *g, const struct bytes *b, int64_t k)
{
	return ((const float *)g->value[b->scale].t.data)[b->count > 1 ? k : 0];
}

static int32_t zero_at(const struct graph *g, const struct bytes *b, int64_t k)
{
	return b->zero < 0 ? 0 : (int32_t)tensor_get_i64(&g->value[b->zero].t, b->count > 1 ? k : 0);
}

/* Reads the parameters of a Q or DQ, which must be constant. `value` is the one of integers. */
static bool read_bytes(const struct graph *g, int node, int value, struct bytes *b)
{
	const struct node *n = &g->node[node];
	const struct tensor *scale = &g->value[n->in[1]].t;
	*b = (struct bytes){node, value, g->value[value].t.dtype, n->in[1], n->nin > 2 ? n->in[2] : -1, 0, 0};
	if (!scale->data || scale->dtype != DT_F32 || scale->shape.rank > 1 ||
	    (b->zero >= 0 && !g->value[b->zero].t.data) || node_int(n, "block_size", 0))
		return false;
	b->count = (int)shape_count(&scale->shape);
	for (int k = 0; k < b->count; k++)
		if (!is_good_scale(scale_at(g, b, k)))
			return false;
	int rank = g->value[value].t.shape.rank;
	int64_t axis = node_int(n, "axis", 1);
	b->axis = (int)(axis < 0 ? axis + rank : axis);
	return b->count > 0;
}

/* Whether v is dequantised from `type`, 8-bit integers if DT_NONE. */
static bool dequantised(const struct graph *g, int v, enum dtype type, struct bytes *b)
{
	int node = producer(g, v, "DequantizeLinear");
	if (node < 0 || g->value[v].t.dtype != DT_F32)
		return false;
	int from = g->node[node].in[0];
	enum dtype t = g->value[from].t.dtype;
	return (type ? t == type : is_byte(t)) && read_bytes(g, node, from, b);
}

static bool same_parameters(const struct graph *g, const struct bytes *a, const struct bytes *b)
{
	return a->type == b->type && a->count == 1 && b->count == 1 &&
	       scale_at(g, a, 0) == scale_at(g, b, 0) && zero_at(g, a, 0) == zero_at(g, b, 0);
}

/* ---- limits ---- */

static float clamped(float v, float low, float high)
{
	v = v > low ? v : low;
	return v < high ? v : high;
}

/* The limits of a Clip; false: they are not constant. */
static bool clip_limits(const struct graph *g, const struct node *n, float *low, float *high)
{
	float *to[] = {low, high};
	*low = node_float(n, "min", -INFINITY);
	*high = node_float(n, "max", INFINITY);
	for (int k = 0; k < 2; k++) {
		int v = 1 + k < n->nin ? n->in[1 + k] : -1;
		if (v < 0)
			continue;
		if (!pass_is_f32_constant(g, v) || shape_count(&g->value[v].t.shape) != 1)
			return false;
		*to[k] = *(const float *)g->value[v].t.data;
	}
	return *low <= *high;
}

/* Goes from a value that one node reads back through Relu and Clip, whose limits are added to *low, *high.
 * Returns the value that they limit. */
static int before_limits(const struct graph *g, const int *uses, int v, float *low, float *high)
{
	*low = -INFINITY;
	*high = INFINITY;
	for (;;) {
		int i = uses[v] == 1 ? producer(g, v, NULL) : -1;
		float lo = 0, hi = INFINITY;
		if (i < 0 || g->value[v].t.dtype != DT_F32)
			return v;
		const struct node *n = &g->node[i];
		bool relu = !strcmp(node_type(n), "Relu");
		if (!relu && (strcmp(node_type(n), "Clip") != 0 || !clip_limits(g, n, &lo, &hi)))
			return v;
		lo = clamped(lo, *low, *high);
		*high = clamped(hi, *low, *high);
		*low = lo;
		v = n->in[0];
	}
}

static int64_t type_low(enum dtype t)
{
	return t == DT_I8 ? -128 : 0;
}

/* QuantizeLinear of one number. */
static int64_t quantised(const struct graph *g, const struct bytes *y, float v)
{
	float low = (float)(type_low(y->type) - zero_at(g, y, 0));
	return (int64_t)rintf(clamped(v / scale_at(g, y, 0), low, low + 255)) + zero_at(g, y, 0);
}

/* Whether limits are closer than those of the type. */
static bool limits_matter(const struct graph *g, const struct bytes *y, float low, float high)
{
	return quantised(g, y, low) > type_low(y->type) || quantised(g, y, high) < type_low(y->type) + 255;
}

/* Limits of the output as attributes; returns how many. */
static int limit_attrs(const struct graph *g, const struct match *m, struct attr attr[2])
{
	if (!limits_matter(g, &m->y, m->low, m->high))
		return 0;
	attr[0] = (struct attr){.name = "low", .kind = ATTR_INT, .i = quantised(g, &m->y, m->low)};
	attr[1] = (struct attr){.name = "high", .kind = ATTR_INT, .i = quantised(g, &m->y, m->high)};
	return 2;
}

/* ---- new values and nodes ---- */

/* The zero point's value; a new one if it is absent. */
static int zero_value(struct graph *g, const struct bytes *b)
{
	return b->zero >= 0 ? b->zero : graph_add_constant(g, "zero", b->type, &(struct shape){0}, NULL);
}

/* ---- products ---- */

static bool is_plain_gemm(const struct node *n)
{
	bool c = n->nin > 2 && n->in[2] >= 0;
	return !node_int(n, "transA", 0) && node_float(n, "alpha", 1) == 1 &&
	       (!c || node_float(n, "beta", 1) == 1);
}

/* Finds the product that computes v, and its bias. */
static bool find_product(const struct graph *g, const int *uses, int v, struct match *m)
{
	int i = uses[v] == 1 ? producer(g, v, NULL) : -1;
	m->add = m->bias = -1;
	if (i < 0)
		return false;
	const struct node *n = &g->node[i];
	for (int k = 0; k < 2 && !strcmp(node_type(n), "Add"); k++) {
		int of = uses[n->in[k]] == 1 ? producer(g, n->in[k], "MatMul") : -1;
		if (of < 0)
			continue;
		m->add = i;
		m->bias = n->in[1 - k];
		i = of;
		n = &g->node[i];
		break;
	}
	const char *type = node_type(n);
	m->node = i;
	if (!strcmp(type, "MatMul"))
		return true;
	if (strcmp(type, "Conv") != 0 && (strcmp(type, "Gemm") != 0 || !is_plain_gemm(n)))
		return false;
	m->bias = n->nin > 2 ? n->in[2] : -1;
	return true;
}

/* Whether w has the form that the product needs; sets n and turned. */
static bool weights_fit(const struct graph *g, struct match *m)
{
	const struct node *n = &g->node[m->node];
	const struct tensor *w = &g->value[m->w.value].t;
	const struct shape *s = &w->shape;
	bool conv = !strcmp(node_type(n), "Conv");
	m->turned = !conv && node_int(n, "transB", 0);
	if (!conv && strcmp(node_type(n), "Gemm") != 0 && m->w.count == 1 && m->bias < 0 && s->rank >= 1) {
		m->n = s->rank > 1 ? s->d[s->rank - 1] : 1;
		return true;
	}
	if (!w->data || (!conv && s->rank != 2))
		return false;
	int axis = conv || m->turned ? 0 : 1;
	m->n = s->d[axis];
	return m->w.count == 1 || (m->w.axis == axis && m->w.count == m->n);
}

/* Whether (float)(x_scale * w_scale / y_scale) is a normal number for all n. */
static bool factors_fit(const struct graph *g, const struct match *m)
{
	for (int k = 0; k < m->w.count; k++) {
		float product = scale_at(g, &m->x, 0) * scale_at(g, &m->w, k);
		if (!isnormal(product) || !isnormal(product / scale_at(g, &m->y, 0)))
			return false;
	}
	return true;
}

/* Element k of a bias of s32 or f32, as a multiple of x_scale * w_scale; *exact: it is one. */
static double bias_at(const struct graph *g, const struct match *m, const struct bytes *from, int64_t k,
		      bool *exact)
{
	double unit = (double)scale_at(g, &m->x, 0) * scale_at(g, &m->w, k);
	if (!from)
		return ((const float *)g->value[m->bias].t.data)[k] / unit;
	int64_t q = tensor_get_i64(&g->value[from->value].t, k) - zero_at(g, from, k);
	double scale = scale_at(g, from, k);
	*exact = fabs(scale - unit) <= unit / (1 << 20);
	return *exact ? (double)q : (double)q * scale / unit;
}

/* Whether no sum of s32 reaches half a step of the output: weights that are all nearly 0 have a tiny scale,
 * and a bias by that scale is so large that sums with it could leave s32. */
static bool is_dead(double bias, double step)
{
	return fabs(bias) >= BIAS_LIMIT && (fabs(bias) + (double)INT32_MAX) * step < 0.25;
}

/* Makes the s32 bias. Returns its value, -1: there is none, or E_UNSUPPORTED: it has none that is close. */
static int make_bias(struct graph *g, const struct match *m)
{
	struct bytes from;
	if (m->bias < 0)
		return -1;
	bool quantised_bias = dequantised(g, m->bias, DT_I32, &from);
	const struct shape *s = &g->value[m->bias].t.shape;
	if ((quantised_bias ? !g->value[from.value].t.data : !pass_is_f32_constant(g, m->bias)) ||
	    shape_count(s) != m->n || s->rank < 1 || s->d[s->rank - 1] != m->n)
		return E_UNSUPPORTED;
	int v = graph_add_constant(g, g->value[m->bias].name, DT_I32, &(struct shape){1, {m->n}}, NULL);
	for (int64_t k = 0; v >= 0 && k < m->n; k++) {
		bool exact = false;
		double b = bias_at(g, m, quantised_bias ? &from : NULL, k, &exact);
		double step = (double)scale_at(g, &m->x, 0) * scale_at(g, &m->w, k) / scale_at(g, &m->y, 0);
		if (is_dead(b, step))
			b = 0;
		if (!(fabs(b) < BIAS_LIMIT) || (!exact && b != rint(b) && step / 2 > BIAS_ERROR))
			return E_UNSUPPORTED;
		((int32_t *)g->value[v].t.data)[k] = (int32_t)rint(b);
	}
	return v;
}

/* w as [k][n]: its value, or that of a turned copy. */
static int columns_of(struct graph *g, const struct match *m)
{
	if (!m->turned)
		return m->w.value;
	const struct shape *s = &g->value[m->w.value].t.shape;
	int64_t n = s->d[0], k = s->d[1];
	int v = graph_add_constant(g, g->value[m->w.value].name, m->w.type, &(struct shape){2, {k, n}}, NULL);
	if (v < 0)
		return v;
	const uint8_t *from = g->value[m->w.value].t.data;
	uint8_t *to = g->value[v].t.data;
	for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j < k; j++)
			to[j * n + i] = from[i * k + j];
	return v;
}

/* Attributes of the product that the integer form has too, then its limits. */
static int make_attrs(const struct graph *g, const struct match *m, struct attr *attr, int *opset)
{
	const struct node *n = &g->node[m->node];
	int count = 0;
	bool limits = limits_matter(g, &m->y, m->low, m->high);
	bool conv = !strcmp(node_type(n), "Conv");
	for (int i = 0; i < n->nattr && conv; i++)
		attr[count++] = n->attr[i];
	count += limit_attrs(g, m, attr + count);
	*opset = limits || (!conv && m->bias >= 0) ? QUANT_OPSET : n->opset;
	return count;
}

static int write_product(struct graph *g, const struct match *m, int bias, struct arena *scratch)
{
	int opset, w = columns_of(g, m), zeros[3];
	const struct bytes *b[] = {&m->x, &m->w, &m->y};
	if (w < 0)
		return w;
	for (int k = 0; k < 3; k++) {
		/* scales of each filter need as many zero points */
		zeros[k] =
		    k == 1 && m->w.count > 1 && m->w.zero < 0
			? graph_add_constant(g, "zero", m->w.type, &(struct shape){1, {m->w.count}}, NULL)
			: zero_value(g, b[k]);
		if (zeros[k] < 0)
			return zeros[k];
	}
	int in[] = {m->x.value, m->x.scale, zeros[0], w, m->w.scale, zeros[1], m->y.scale, zeros[2], bias};
	struct attr *attr = ARENA_ARRAY(scratch, struct attr, g->node[m->node].nattr + 2);
	int nattr = make_attrs(g, m, attr, &opset);
	bool conv = !strcmp(node_type(&g->node[m->node]), "Conv");
	int rc = graph_replace_node(g, m->y.node, conv ? "QLinearConv" : "QLinearMatMul",
				    g->node[m->node].name, opset, bias >= 0 ? 9 : 8, in, nattr, attr);
	if (rc < 0)
		return rc;
	g->node[m->node].dead = true;
	if (m->add >= 0)
		g->node[m->add].dead = true;
	return 1;
}

static int fuse_product(struct graph *g, const int *uses, int v, struct match *m, struct arena *scratch)
{
	if (!find_product(g, uses, v, m))
		return 0;
	const struct node *n = &g->node[m->node];
	if (!dequantised(g, n->in[0], DT_NONE, &m->x) || !dequantised(g, n->in[1], DT_NONE, &m->w) ||
	    m->x.count != 1 || !weights_fit(g, m) || !factors_fit(g, m))
		return 0;
	int bias = make_bias(g, m);
	if (bias == E_UNSUPPORTED)
		return 0;
	if (bias < -1)
		return bias;
	return write_product(g, m, bias, scratch);
}

/* ---- sums ---- */

/* Makes a QLinearAdd of an Add of two tensors of one shape. */
static int fuse_add(struct graph *g, const int *uses, int v, const struct match *m)
{
	struct bytes term[2];
	struct attr attr[2];
	int add = producer(g, v, "Add"), in[8], zero = 0;
	if (add < 0 || uses[v] != 1 || g->value[v].is_output)
		return 0;
	for (int i = 0; i < 2; i++) {
		int x = g->node[add].in[i];
		if (!dequantised(g, x, DT_NONE, &term[i]) || term[i].count != 1 ||
		    g->value[term[i].value].t.data ||
		    !shape_equal(&g->value[x].t.shape, &g->value[v].t.shape))
			return 0;
	}
	for (int i = 0; i < 3 && zero >= 0; i++) {
		const struct bytes *b = i < 2 ? &term[i] : &m->y;
		zero = zero_value(g, b);
		if (i < 2)
			in[3 * i] = b->value;
		in[i < 2 ? 3 * i + 1 : 6] = b->scale;
		in[i < 2 ? 3 * i + 2 : 7] = zero;
	}
	if (zero < 0)
		return zero;
	int rc = graph_replace_node(g, m->y.node, "QLinearAdd", g->node[add].name, QUANT_OPSET, 8, in,
				    limit_attrs(g, m, attr), attr);
	if (rc < 0)
		return rc;
	g->node[add].dead = true;
	return 1;
}

/* ---- operators that only move elements ---- */

static bool is_nearest(const struct node *n)
{
	return !strcmp(node_str(n, "mode", "nearest"), "nearest") &&
	       strcmp(node_str(n, "coordinate_transformation_mode", ""), "tf_crop_and_resize") != 0;
}

/* The elements that a Pad adds are numbers that are known. */
static bool pads_constant(const struct graph *g, const struct node *n)
{
	int v = n->nin > 2 ? n->in[2] : -1;
	return n->nin > 1 &&
	       (v < 0 || (pass_is_f32_constant(g, v) && shape_count(&g->value[v].t.shape) == 1));
}

bool pass_quant_moves(const struct graph *g, const struct node *n)
{
	static const char *const types[] = {"MaxPool",   "Reshape", "Transpose",    "Flatten",      "Squeeze",
					    "Unsqueeze", "Slice",   "DepthToSpace", "SpaceToDepth", "Concat"};
	const char *type = node_type(n);
	if (n->nout != 1)
		return false;
	if (!strcmp(type, "Resize"))
		return is_nearest(n);
	if (!strcmp(type, "Pad"))
		return pads_constant(g, n);
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (!strcmp(type, types[i]))
			return true;
	return false;
}

/* Whether every input of a Concat is dequantised. */
static bool joins_bytes(const struct graph *g, const struct node *n)
{
	struct bytes x;
	for (int k = 0; k < n->nin; k++)
		if (!dequantised(g, n->in[k], DT_NONE, &x))
			return false;
	return true;
}

/* The nodes that move elements from a DQ to value v; 0: there are none, or something else is between. */
static int find_moves(const struct graph *g, const int *uses, int v, const struct bytes *y, int *chain)
{
	struct bytes x;
	for (int n = 0; n < MAX_CHAIN; n++) {
		if (dequantised(g, v, DT_NONE, &x))
			return same_parameters(g, &x, y) ? n : 0;
		int i = uses[v] == 1 ? producer(g, v, NULL) : -1;
		if (i < 0 || g->value[v].t.data || !pass_quant_moves(g, &g->node[i]))
			return 0;
		chain[n] = i;
		if (!strcmp(node_type(&g->node[i]), "Concat"))
			return joins_bytes(g, &g->node[i]) ? n + 1 : 0;
		v = g->node[i].in[0];
	}
	return 0;
}

/* Gives a Pad the byte that QuantizeLinear makes of its number. */
static int pad_bytes(struct graph *g, struct node *n, const struct bytes *y)
{
	int from = n->nin > 2 ? n->in[2] : -1;
	float v = from < 0 ? 0 : *(const float *)g->value[from].t.data;
	int fill = graph_add_constant(g, "fill", y->type, &(struct shape){0}, NULL);
	int *in = arena_try(&g->arena, (size_t)n->nin + 2, sizeof *in);
	if (fill < 0 || !in)
		return fill < 0 ? fill : E_NOMEM;
	tensor_set_i64(&g->value[fill].t, 0, quantised(g, y, v));
	memcpy(in, n->in, sizeof *in * (size_t)n->nin);
	in[2] = fill;
	n->nin = n->nin > 3 ? n->nin : 3;
	n->in = in;
	return E_OK;
}

/* Adds a QuantizeLinear of value v with the parameters of y. Returns its output. */
static int quantised_again(struct graph *g, int v, const struct bytes *y)
{
	int zero = zero_value(g, y), out = graph_add_value(g, g->value[v].name);
	if (zero < 0 || out < 0)
		return zero < 0 ? zero : out;
	g->value[out].t = (struct tensor){.dtype = y->type, .shape = g->value[v].t.shape};
	const int in[3] = {v, y->scale, zero};
	int rc = graph_add_node(g, "QuantizeLinear", g->value[v].name, QUANT_OPSET, 3, in, 1, &out, 0, NULL);
	return rc < 0 ? rc : out;
}

/* Gives the first node of the chain, which reads floats, bytes with the parameters of y. */
static int feed_bytes(struct graph *g, int node, int inputs, const struct bytes *y)
{
	for (int k = 0; k < inputs; k++) {
		struct bytes x;
		int v = g->node[node].in[k];
		if (!dequantised(g, v, DT_NONE, &x))
			continue;
		int in = same_parameters(g, &x, y) ? x.value : quantised_again(g, v, y);
		if (in < 0)
			return in;
		g->node[node].in[k] = in;
	}
	return E_OK;
}

/* Makes the nodes work on bytes; the last one gives what Q gave. */
static int move_bytes(struct graph *g, const int *chain, int n, const struct bytes *y)
{
	for (int i = n - 1; i >= 0; i--) {
		struct node *m = &g->node[chain[i]];
		int inputs = !strcmp(node_type(m), "Concat") ? m->nin : 1;
		int rc = !strcmp(node_type(m), "Pad") ? pad_bytes(g, m, y) : E_OK;
		if (rc >= 0 && i == n - 1)
			rc = feed_bytes(g, chain[i], inputs, y);
		if (rc < 0)
			return rc;
		g->value[g->node[chain[i]].out[0]].t.dtype = y->type;
	}
	int last = g->node[chain[0]].out[0], out = y->value;
	g->value[last].producer = -1;
	g->node[chain[0]].out[0] = out;
	g->value[out].producer = chain[0];
	g->node[y->node].dead = true;
	return 1;
}

/* ---- */

/* Rewrites what ends in QuantizeLinear node i. */
static int rewrite(struct graph *g, int i, const int *uses, struct arena *scratch)
{
	struct match m;
	struct bytes x;
	int chain[MAX_CHAIN], v = g->node[i].in[0], out = g->node[i].out[0];
	if (g->value[v].t.dtype != DT_F32 || !is_byte(g->value[out].t.dtype) || g->value[out].t.data ||
	    !read_bytes(g, i, out, &m.y) || m.y.count != 1)
		return 0;
	int limited = before_limits(g, uses, v, &m.low, &m.high);
	if (dequantised(g, limited, DT_NONE, &x) && same_parameters(g, &x, &m.y) &&
	    !limits_matter(g, &m.y, m.low, m.high) && !g->value[out].is_output) {
		pass_replace(g, out, x.value);
		g->node[i].dead = true;
		return 1;
	}
	int n = find_moves(g, uses, v, &m.y, chain);
	if (n > 0)
		return move_bytes(g, chain, n, &m.y);
	int sum = fuse_add(g, uses, limited, &m);
	return sum ? sum : fuse_product(g, uses, limited, &m, scratch);
}

/* Drops what nothing reads any more, before dequantised weights would be computed. */
static void drop_unread(struct graph *g, struct arena *scratch)
{
	int *uses = pass_uses(g, scratch);
	for (int i = g->nnodes - 1; i >= 0; i--) {
		struct node *n = &g->node[i];
		bool ours = !n->dead && (!strcmp(node_type(n), "DequantizeLinear") ||
					 !strcmp(node_type(n), "Relu") || !strcmp(node_type(n), "Clip"));
		if (!ours || uses[n->out[0]])
			continue;
		n->dead = true;
		for (int k = 0; k < n->nin; k++)
			if (n->in[k] >= 0)
				uses[n->in[k]]--;
	}
}

int pass_quant(struct graph *g, struct arena *scratch)
{
	int n = g->nnodes, done = 0;
	int *uses = pass_uses(g, scratch);
	for (int i = 0; i < n; i++) {
		if (g->node[i].dead || strcmp(node_type(&g->node[i]), "QuantizeLinear") != 0)
			continue;
		int rc = rewrite(g, i, uses, scratch);
		if (rc < 0)
			return rc;
		done += rc;
	}
	if (done)
		drop_unread(g, scratch);
	return done;
}
