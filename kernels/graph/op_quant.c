/* SPDX-License-Identifier: Apache-2.0 */
/* Quantised operators. Products are in kernels/graph/product8.h; rounding to bytes is the formula of
 * kernels/graph/dense8.h. */
#include "kernels/graph/add8.h"
#include "kernels/graph/dense8.h"
#include "kernels/graph/geometry.h"
#include "kernels/graph/matmul.h"
#include "kernels/graph/op_quant.h"
#include "kernels/graph/product8.h"
#include "kernels/graph/shapes.h"
#include "kernels/graph/structure.h"
#include "kernels/task/runs.h"
#include "kernels/task/walk.h"

#include <math.h>
#include <string.h>

enum { Q_QUANTIZE, Q_DEQUANTIZE, Q_DYNAMIC, Q_CONV_INT, Q_MATMUL_INT, Q_CONV, Q_MATMUL, Q_ADD };

#define QUANTIZE "axis block_size output_dtype precision saturate"
#define WINDOW "auto_pad dilations group kernel_shape pads strides"
static const struct op_row rows[] = {
    {"ConvInteger", 10, QUANT_OPSET - 1, 2, 4, 1, 1, Q_CONV_INT, WINDOW},
    {"ConvInteger", QUANT_OPSET, 0, 6, 6, 1, 1, Q_CONV_INT, WINDOW},
    {"DequantizeLinear", 10, 0, 2, 3, 1, 1, Q_DEQUANTIZE, "axis block_size output_dtype"},
    {"DynamicQuantizeLinear", 11, 0, 1, 1, 0, 3, Q_DYNAMIC},
    {"MatMulInteger", 10, QUANT_OPSET - 1, 2, 4, 1, 1, Q_MATMUL_INT},
    {"MatMulInteger", QUANT_OPSET, 0, 6, 6, 1, 1, Q_MATMUL_INT},
    {"QLinearAdd", QUANT_OPSET, 0, 8, 8, 1, 1, Q_ADD, "low high"},
    {"QLinearConv", 10, QUANT_OPSET - 1, 8, 9, 1, 1, Q_CONV, WINDOW},
    {"QLinearConv", QUANT_OPSET, 0, 8, 9, 1, 1, Q_CONV, WINDOW " low high"},
    {"QLinearMatMul", 10, QUANT_OPSET - 1, 8, 8, 1, 1, Q_MATMUL},
    {"QLinearMatMul", QUANT_OPSET, 0, 8, 9, 1, 1, Q_MATMUL, "low high"},
    {"QuantizeLinear", 10, QUANT_OPSET - 1, 2, 3, 1, 1, Q_QUANTIZE, QUANTIZE},
    {"QuantizeLinear", QUANT_OPSET, 0, 2, 3, 1, 1, Q_QUANTIZE, QUANTIZE " pads"},
    {""},
};

#define DTYPES_8 (DTYPE_BIT(DT_I8) | DTYPE_BIT(DT_U8))
#define DTYPES_16 (DTYPES_8 | DTYPE_BIT(DT_I16) | DTYPE_BIT(DT_U16))

/* ---- QuantizeLinear, DequantizeLinear ---- */

/* Parameters (scale, zero point) of element i of x[outer][n][inner]: one for all, one per n, or one per block
 * of n. */
struct params {
	int64_t n, inner, block; /* block 0: one for all */
	int64_t blocks;          /* per line of n */
};

static int params_plan(const struct opctx *c, struct params *p)
{
	const struct shape *x = &c->in[0].shape, *s = &c->in[1].shape;
	int64_t block = node_int(c->node, "block_size", 0);
	*p = (struct params){1, 1, 0, 1};
	if (s->rank == 0 || (s->rank == 1 && s->d[0] == 1 && !block))
		return E_OK;
	int axis, rc = attr_axis(c, "axis", 1, x->rank, &axis);
	if (rc < 0)
		return rc;
	p->n = x->d[axis];
	p->inner = shape_span(x, axis + 1, x->rank);
	p->block = block > 0 ? block : 1;
	if (block < 0 || p->block > MAX_ELEMS)
		return fail(E_CORRUPT, "block_size %lld is out of range", (long long)block);
	p->blocks = (p->n + p->block - 1) / p->block;
	if (!block)
		return s->rank == 1 && s->d[0] == p->n
			   ? E_OK
			   : fail(E_CORRUPT, "scale is not a vector of %lld", (long long)p->n);
	struct shape want = *x;
	want.d[axis] = p->blocks;
	return shape_equal(s, &want) ? E_OK
				     : fail(E_CORRUPT, "scale does not fit blocks of %lld", (long long)block);
}

static int64_t params_at(const struct params *p, const struct opctx *c, int64_t i)
{
	if (!p->block)
		return 0;
	int64_t k = i / p->inner % p->n;
	if (c->in[1].shape.rank == 1 && !node_int(c->node, "block_size", 0))
		return k;
	return (i / p->inner / p->n * p->blocks + k / p->block) * p->inner + i % p->inner;
}

/* Checks that the zero point, if present, has the scale's shape. */
static int check_zero(const struct opctx *c, int zero, int scale)
{
	if (!in_there(c, zero))
		return E_OK;
	if (shape_count(&c->in[zero].shape) != shape_count(&c->in[scale].shape))
		return fail(E_CORRUPT, "zero point and scale differ in shape");
	return E_OK;
}

static int infer_quantize(struct opctx *c)
{
	struct params p;
	enum dtype to = DT_U8;
	int rc;
	if ((rc = in_need(c, 0, DTYPES_FLOAT | DTYPE_BIT(DT_I32))) < 0 ||
	    (rc = in_need(c, 1, DTYPES_FLOAT)) < 0)
		return rc;
	if (in_there(c, 2) && (rc = in_need(c, 2, DTYPES_16)) < 0)
		return rc;
	if (node_int(c->node, "output_dtype", 0) &&
	    (rc = dtype_of_onnx(node_int(c->node, "output_dtype", 0), &to)) < 0)
		return rc;
	to = in_there(c, 2) ? c->in[2].dtype : to;
	if (!dtype_in(to, DTYPES_16))
		return fail(E_UNSUPPORTED, "output of type %s is not supported", dtype_name(to));
	if ((rc = check_zero(c, 2, 1)) < 0 || (rc = params_plan(c, &p)) < 0)
		return rc;
	struct shape out = c->in[0].shape;
	const struct attr *pads = node_attr(c->node, "pads");
	if (pads && (pads->n != 2 * out.rank || p.block || out.rank < 1))
		return fail(E_CORRUPT, "%d pads for rank %d", pads->n, out.rank);
	for (int d = 0; pads && d < out.rank; d++)
		out.d[d] += pads->ints[d] + pads->ints[out.rank + d];
	return out_set(c, 0, to, &out);
}

static int infer_dequantize(struct opctx *c)
{
	struct params p;
	int rc;
	if ((rc = in_need(c, 0, DTYPES_16 | DTYPE_BIT(DT_I32))) < 0 || (rc = in_need(c, 1, DTYPES_FLOAT)) < 0)
		return rc;
	enum dtype to = c->in[1].dtype;
	if (in_there(c, 2) && (rc = in_need(c, 2, DTYPE_BIT(c->in[0].dtype))) < 0)
		return rc;
	if (node_int(c->node, "output_dtype", 0) &&
	    (rc = dtype_of_onnx(node_int(c->node, "output_dtype", 0), &to)) < 0)
		return rc;
	if (!dtype_in(to, DTYPES_FLOAT))
		return fail(E_UNSUPPORTED, "output of type %s is not supported", dtype_name(to));
	if ((rc = check_zero(c, 2, 1)) < 0 || (rc = params_plan(c, &p)) < 0)
		return rc;
	return out_set(c, 0, to, &c->in[0].shape);
}

/* Whether lines of elements with the same parameters, f32 to bytes or back, are long enough for the fast
 * loops. */
static bool has_lines(const struct opctx *c, const struct params *p)
{
	const struct tensor *byte = c->code == Q_QUANTIZE ? &c->out[0] : &c->in[0];
	const struct tensor *real = c->code == Q_QUANTIZE ? &c->in[0] : &c->out[0];
	bool lines = !p->block || (p->inner >= 8 && !node_int(c->node, "block_size", 0));
	return lines && real->dtype == DT_F32 && c->in[1].dtype == DT_F32 && dtype_in(byte->dtype, DTYPES_8);
}

static void eval_lines(struct opctx *c, const struct params *p)
{
	enum dense8_isa isa = dense8_isa();
	int64_t count = shape_count(&c->in[0].shape), n = p->block ? p->inner : count;
	for (int64_t at = 0; at < count; at += n) {
		int64_t k = params_at(p, c, at);
		float scale = ((const float *)c->in[1].data)[k];
		int32_t zero = in_there(c, 2) ? (int32_t)tensor_get_i64(&c->in[2], k) : 0;
		if (c->code == Q_QUANTIZE)
			dense8_quantise(isa, n, (const float *)c->in[0].data + at, scale,
					product8_limits(c->out[0].dtype, zero),
					(uint8_t *)c->out[0].data + at);
		else
			dense8_dequantise(isa, n, (const uint8_t *)c->in[0].data + at,
					  c->in[0].dtype == DT_I8, scale, zero, (float *)c->out[0].data + at);
	}
}

/* QuantizeLinear with pads, line by line. */
static void eval_padded(struct opctx *c, const int64_t *pads)
{
	const struct shape *x = &c->in[0].shape, *y = &c->out[0].shape;
	int32_t zero = in_there(c, 2) ? (int32_t)tensor_get_i64(&c->in[2], 0) : 0;
	struct dense8_bytes to = product8_limits(c->out[0].dtype, zero);
	int64_t n = x->d[x->rank - 1], count = shape_count(x);
	memset(c->out[0].data, zero, (size_t)shape_count(y));
	for (int64_t at = 0; at < count; at += n) {
		int64_t out = 0, step = 1, rest = at;
		for (int d = x->rank - 1; d >= 0; rest /= x->d[d], step *= y->d[d], d--)
			out += (rest % x->d[d] + pads[d]) * step;
		dense8_quantise(dense8_isa(), n, (const float *)c->in[0].data + at,
				((const float *)c->in[1].data)[0], to, (uint8_t *)c->out[0].data + out);
	}
}

static int eval_linear(struct opctx *c)
{
	struct params p;
	int rc = params_plan(c, &p);
	int64_t count = shape_count(&c->in[0].shape);
	const struct attr *pads = node_attr(c->node, "pads");
	if (rc >= 0 && pads) {
		eval_padded(c, pads->ints);
		return E_OK;
	}
	if (rc >= 0 && has_lines(c, &p)) {
		eval_lines(c, &p);
		return E_OK;
	}
	for (int64_t i = 0; rc >= 0 && i < count; i++) {
		int64_t k = params_at(&p, c, i);
		double scale = tensor_get(&c->in[1], k), zero = in_there(c, 2) ? tensor_get(&c->in[2], k) : 0;
		double v = tensor_get(&c->in[0], i);
		/* the quotient is rounded to float first, because the operator is defined on floats */
		v = c->code == Q_QUANTIZE ? rint((float)(v / scale)) + zero : (v - zero) * scale;
		if (c->code == Q_QUANTIZE && isnan(v))
			v = -INFINITY; /* ONNX Runtime: the lowest integer */
		store_f64(&c->out[0], i, 1, &v);
	}
	return rc;
}

/* ---- DynamicQuantizeLinear ---- */

static int infer_dynamic(struct opctx *c)
{
	struct shape one = {0};
	int rc = in_need(c, 0, DTYPE_BIT(DT_F32));
	if (rc < 0 || (rc = out_set(c, 1, DT_F32, &one)) < 0 || (rc = out_set(c, 2, DT_U8, &one)) < 0)
		return rc;
	return out_set(c, 0, DT_U8, &c->in[0].shape);
}

static int eval_dynamic(struct opctx *c)
{
	const float *x = c->in[0].data;
	int64_t count = shape_count(&c->in[0].shape);
	float lo = 0, hi = 0;
	run_range(x, count, &lo, &hi);
	float scale = (hi - lo) / 255;
	double zero = scale > 0 ? rint(fmin(255, fmax(0, -lo / scale))) : 0, s = scale;
	if (out_wanted(c, 0) && scale > 0)
		dense8_quantise(dense8_isa(), count, x, scale, product8_limits(DT_U8, (int32_t)zero),
				c->out[0].data);
	else if (out_wanted(c, 0))
		memset(c->out[0].data, 0, (size_t)count);
	if (out_wanted(c, 1))
		store_f64(&c->out[1], 0, 1, &s);
	if (out_wanted(c, 2))
		store_f64(&c->out[2], 0, 1, &zero);
	return E_OK;
}

/* ---- products ---- */

static struct product8_places places_of(const struct opctx *c)
{
	if (c->code == Q_CONV_INT || c->code == Q_MATMUL_INT)
		return (struct product8_places){0, 1, -1, 2, -1, 3, -1, -1, -1};
	return (struct product8_places){0, 3, 1, 2, 4, 5, 6, 7, 8};
}

/* Checks that input `in` is absent, has one element, or has n. */
static int check_param(const struct opctx *c, int in, unsigned dtypes, int64_t n)
{
	if (in < 0 || !in_there(c, in))
		return E_OK;
	int rc = in_need(c, in, dtypes);
	int64_t count = shape_count(&c->in[in].shape);
	if (rc >= 0 && count != 1 && count != n)
		return fail(E_CORRUPT, "input %d has %lld elements, not %lld", in, (long long)count,
			    (long long)n);
	return rc;
}

static int check_product(const struct opctx *c, const struct product8_places *p, int64_t x_n, int64_t w_n)
{
	int rc;
	if ((rc = check_param(c, p->x_scale, DTYPES_FLOAT, x_n)) < 0 ||
	    (rc = check_param(c, p->w_scale, DTYPES_FLOAT, w_n)) < 0 ||
	    (rc = check_param(c, p->x_zero, DTYPE_BIT(c->in[p->x].dtype), x_n)) < 0 ||
	    (rc = check_param(c, p->w_zero, DTYPE_BIT(c->in[p->w].dtype), w_n)) < 0 ||
	    (rc = check_param(c, p->y_scale, DTYPES_FLOAT, 1)) < 0 ||
	    (rc = check_param(c, p->y_zero, DTYPES_8, 1)) < 0)
		return rc;
	if (p->bias >= 0 && in_there(c, p->bias)) {
		if ((rc = in_need(c, p->bias, DTYPE_BIT(DT_I32))) < 0)
			return rc;
		if (shape_count(&c->in[p->bias].shape) != w_n)
			return fail(E_CORRUPT, "bias is not a vector of %lld", (long long)w_n);
	}
	return E_OK;
}

/* Inputs 4 and 5 of the Integer operators as pass_integer makes them. */
enum { SUMS = 4, FACTORS };

/* Checks them for an output of this shape, whose dim `axis` counts the n filters or columns. */
static int check_sums(const struct opctx *c, const struct shape *out, int axis, int64_t n)
{
	int rc;
	if ((rc = in_need(c, SUMS, DTYPE_BIT(DT_I32))) < 0 ||
	    (rc = in_need(c, FACTORS, DTYPE_BIT(DT_I32))) < 0)
		return rc;
	struct shape want = *out;
	want.d[axis] = c->in[SUMS].shape.d[axis];
	if (!shape_equal(&want, &c->in[SUMS].shape) || want.d[axis] < 1 || n % want.d[axis] ||
	    shape_count(&c->in[FACTORS].shape) != n)
		return fail(E_CORRUPT, "the sums do not fit the output");
	return E_OK;
}

/* Adds the product of sums and factors to the output. */
static void add_sums(struct opctx *c)
{
	const struct shape *y = &c->out[0].shape, *r = &c->in[SUMS].shape;
	int axis = c->code == Q_CONV_INT ? 1 : y->rank - 1;
	int64_t n = y->d[axis], per = n / r->d[axis], inner = shape_span(y, axis + 1, y->rank);
	const int32_t *sums = c->in[SUMS].data, *factor = c->in[FACTORS].data;
	uint32_t *out = c->out[0].data;
	for (int64_t row = 0; row < shape_span(y, 0, axis); row++)
		for (int64_t k = 0; k < n; k++, out += inner) {
			const int32_t *from = sums + (row * r->d[axis] + k / per) * inner;
			for (int64_t i = 0; i < inner; i++)
				out[i] += (uint32_t)from[i] * (uint32_t)factor[k];
		}
}

static int infer_product(struct opctx *c)
{
	struct product8_places p = places_of(c);
	struct shape out;
	bool conv = c->code == Q_CONV_INT || c->code == Q_CONV;
	int64_t x_n = 1, w_n;
	int rc;
	if ((rc = in_need(c, p.x, DTYPES_8)) < 0 || (rc = in_need(c, p.w, DTYPES_8)) < 0)
		return rc;
	for (int i = 1; i < 8 && p.y_scale >= 0; i++)
		if ((rc = in_need(c, i, DTYPES_ANY)) < 0)
			return rc;
	const struct shape *x = &c->in[p.x].shape, *w = &c->in[p.w].shape;
	if (conv) {
		struct filter_window win;
		if ((rc = conv_window(c, x, w, &win)) < 0)
			return rc;
		window_shape(&win, x->d[0], w->d[0], &out);
		w_n = w->d[0];
	} else {
		struct matmul m;
		if ((rc = matmul_plan(x, w, &m)) < 0)
			return rc;
		out = m.out;
		x_n = m.m;
		w_n = m.n;
	}
	if ((rc = check_product(c, &p, x_n, w_n)) < 0 ||
	    (p.y_scale < 0 && c->nin > SUMS && (rc = check_sums(c, &out, conv ? 1 : out.rank - 1, w_n)) < 0))
		return rc;
	return out_set(c, 0, p.y_zero >= 0 ? c->in[p.y_zero].dtype : DT_I32, &out);
}

/* ---- QLinearAdd: made by pass_quant alone, of tensors of one shape ---- */

enum { ADD_A, ADD_B = 3, ADD_SCALE = 6, ADD_ZERO };

static int infer_add(struct opctx *c)
{
	int rc = E_OK;
	for (int i = 0; i < 8 && rc >= 0; i++) {
		bool scale = i == ADD_A + 1 || i == ADD_B + 1 || i == ADD_SCALE;
		rc = in_need(c, i, scale ? DTYPE_BIT(DT_F32) : DTYPES_8);
		if (rc >= 0 && i != ADD_A && i != ADD_B && shape_count(&c->in[i].shape) != 1)
			return fail(E_CORRUPT, "input %d has %lld elements, not 1", i,
				    (long long)shape_count(&c->in[i].shape));
	}
	if (rc >= 0 && !shape_equal(&c->in[ADD_A].shape, &c->in[ADD_B].shape))
		return fail(E_CORRUPT, "the terms differ in shape");
	return rc < 0 ? rc : out_set(c, 0, c->in[ADD_ZERO].dtype, &c->in[ADD_A].shape);
}

static struct add8_term term_of(const struct opctx *c, int in)
{
	return (struct add8_term){c->in[in].data, c->in[in].dtype == DT_I8,
				  ((const float *)c->in[in + 1].data)[0],
				  (int32_t)tensor_get_i64(&c->in[in + 2], 0)};
}

static int eval_add(struct opctx *c)
{
	const struct add8_term a = term_of(c, ADD_A), b = term_of(c, ADD_B);
	add8(shape_count(&c->out[0].shape), &a, &b, ((const float *)c->in[ADD_SCALE].data)[0],
	     product8_bytes(c, (int32_t)tensor_get_i64(&c->in[ADD_ZERO], 0)), c->out[0].data);
	return E_OK;
}

/* ---- */

static int infer(struct opctx *c)
{
	static int (*const by_code[])(struct opctx *) = {
	    [Q_QUANTIZE] = infer_quantize, [Q_DEQUANTIZE] = infer_dequantize, [Q_DYNAMIC] = infer_dynamic};
	if (c->code == Q_ADD)
		return infer_add(c);
	return c->code <= Q_DYNAMIC ? by_code[c->code](c) : infer_product(c);
}

static int eval(struct opctx *c)
{
	struct product8_places p = places_of(c);
	if (c->code == Q_DYNAMIC)
		return eval_dynamic(c);
	if (c->code <= Q_DEQUANTIZE)
		return eval_linear(c);
	if (c->code == Q_ADD)
		return eval_add(c);
	bool conv = c->code == Q_CONV_INT || c->code == Q_CONV;
	int rc = conv ? product8_conv(c, &p) : product8_matmul(c, &p);
	if (rc >= 0 && p.y_scale < 0 && c->nin > SUMS)
		add_sums(c);
	return rc;
}

const struct op op_quant = {.rows = rows, .infer = infer, .eval = eval, .task = structure_task};
