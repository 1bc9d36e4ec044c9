/* SPDX-License-Identifier: Apache-2.0 */
/* Quantised operators. Integers become doubles with their zero point subtracted. Every product and sum of
 * 8-bit values is exact, so the shared inner products are used; results are rounded half to even and
 * saturated. */
#include "kernels/graph/dense.h"
#include "kernels/graph/matmul.h"
#include "kernels/graph/shapes.h"
#include "kernels/task/walk.h"

#include <math.h>
#include <string.h>

enum { Q_QUANTIZE, Q_DEQUANTIZE, Q_DYNAMIC, Q_CONV_INT, Q_MATMUL_INT, Q_CONV, Q_MATMUL };

#define WINDOW "auto_pad dilations group kernel_shape pads strides"
static const struct op_row rows[] = {
    {"ConvInteger", 10, 0, 2, 4, 1, 1, Q_CONV_INT, WINDOW},
    {"DequantizeLinear", 10, 0, 2, 3, 1, 1, Q_DEQUANTIZE, "axis block_size output_dtype"},
    {"DynamicQuantizeLinear", 11, 0, 1, 1, 0, 3, Q_DYNAMIC, ""},
    {"MatMulInteger", 10, 0, 2, 4, 1, 1, Q_MATMUL_INT, ""},
    {"QLinearConv", 10, 0, 8, 9, 1, 1, Q_CONV, WINDOW},
    {"QLinearMatMul", 10, 0, 8, 8, 1, 1, Q_MATMUL, ""},
    {"QuantizeLinear", 10, 0, 2, 3, 1, 1, Q_QUANTIZE, "axis block_size output_dtype precision saturate"},
    {0},
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
	return out_set(c, 0, to, &c->in[0].shape);
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

static int eval_linear(struct opctx *c)
{
	struct params p;
	int rc = params_plan(c, &p);
	int64_t count = shape_count(&c->in[0].shape);
	for (int64_t i = 0; rc >= 0 && i < count; i++) {
		int64_t k = params_at(&p, c, i);
		double scale = tensor_get(&c->in[1], k), zero = in_there(c, 2) ? tensor_get(&c->in[2], k) : 0;
		double v = tensor_get(&c->in[0], i);
		/* the quotient is rounded to float first, because the operator is defined on floats */
		v = c->code == Q_QUANTIZE ? rint((float)(v / scale)) + zero : (v - zero) * scale;
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
	for (int64_t i = 0; i < count; i++) {
		lo = x[i] < lo ? x[i] : lo;
		hi = x[i] > hi ? x[i] : hi;
	}
	float scale = (hi - lo) / 255;
	double zero = scale > 0 ? rint(fmin(255, fmax(0, -lo / scale))) : 0, s = scale;
	for (int64_t i = 0; i < count && out_wanted(c, 0); i++) {
		double v = scale > 0 ? rint(x[i] / scale) + zero : 0;
		store_f64(&c->out[0], i, 1, &v);
	}
	if (out_wanted(c, 1))
		store_f64(&c->out[1], 0, 1, &s);
	if (out_wanted(c, 2))
		store_f64(&c->out[2], 0, 1, &zero);
	return E_OK;
}

/* ---- products ---- */

/* Input numbers of the four product operators; -1: none. */
struct places {
	int x, w, x_scale, x_zero, w_scale, w_zero, y_scale, y_zero, bias;
};

static struct places places_of(const struct opctx *c)
{
	if (c->code == Q_CONV_INT || c->code == Q_MATMUL_INT)
		return (struct places){0, 1, -1, 2, -1, 3, -1, -1, -1};
	return (struct places){0, 3, 1, 2, 4, 5, 6, 7, c->code == Q_CONV ? 8 : -1};
}

/* Element k of a parameter, or its only element; `fallback` if absent. */
static double param(const struct opctx *c, int in, int64_t k, double fallback)
{
	if (in < 0 || !in_there(c, in))
		return fallback;
	return tensor_get(&c->in[in], shape_count(&c->in[in].shape) > 1 ? k : 0);
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

static int check_product(const struct opctx *c, const struct places *p, int64_t x_n, int64_t w_n)
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

static int infer_product(struct opctx *c)
{
	struct places p = places_of(c);
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
	if ((rc = check_product(c, &p, x_n, w_n)) < 0)
		return rc;
	return out_set(c, 0, p.y_zero >= 0 ? c->in[p.y_zero].dtype : DT_I32, &out);
}

/* Stores exact sums to outputs [at, at + n), unscaled or scaled (row r of x, column or filter k of w). */
static void finish(struct opctx *c, const struct places *p, int64_t r, int64_t k, int64_t k_step, int64_t at,
		   int64_t n, double *sum)
{
	for (int64_t j = 0; p->y_scale >= 0 && j < n; j++) {
		int64_t f = k + j * k_step;
		double scale =
		    param(c, p->x_scale, r, 1) * param(c, p->w_scale, f, 1) / param(c, p->y_scale, 0, 1);
		sum[j] = rint(sum[j] * scale) + param(c, p->y_zero, 0, 0);
	}
	store_f64(&c->out[0], at, n, sum);
}

static int eval_conv(struct opctx *c, const struct places *p)
{
	const struct shape *x = &c->in[p->x].shape, *s = &c->in[p->w].shape;
	struct filter_window w;
	struct conv v;
	int rc = conv_window(c, x, s, &w);
	int64_t group = conv_group(c);
	if (rc < 0 || (rc = conv_open(&v, &w, s->d[1], c->arena)) < 0)
		return rc;
	int64_t out = span3(w.out), filters = s->d[0], part = filters / group;
	double *sum = arena_try(c->arena, (size_t)out + 1, sizeof *sum);
	double *filter = arena_try(c->arena, (size_t)v.taps + 1, sizeof *filter);
	if (!sum || !filter)
		return E_NOMEM;
	for (int64_t i = 0; i < x->d[0] * filters; i++) {
		int64_t image = i / filters, f = i % filters;
		if (f % part == 0)
			conv_load(&v, &c->in[p->x], (image * group + f / part) * s->d[1] * span3(w.in),
				  param(c, p->x_zero, 0, 0));
		load_f64(&c->in[p->w], f * v.taps, 1, v.taps, filter);
		for (int64_t t = 0; t < v.taps; t++)
			filter[t] -= param(c, p->w_zero, f, 0);
		for (int64_t j = 0; j < out; j++)
			sum[j] = param(c, p->bias, f, 0);
		conv_apply(&v, 1, filter, sum);
		finish(c, p, 0, f, 0, i * out, out, sum);
	}
	return E_OK;
}

static int eval_matmul(struct opctx *c, const struct places *p)
{
	struct matmul m;
	struct walk w;
	int rc = matmul_plan(&c->in[p->x].shape, &c->in[p->w].shape, &m);
	if (rc < 0)
		return rc;
	double *a = arena_try(c->arena, (size_t)(m.m * m.k) + 1, sizeof *a);
	double *b = arena_try(c->arena, (size_t)(m.k * m.n) + 1, sizeof *b);
	double *y = arena_try(c->arena, (size_t)(m.m * m.n) + 1, sizeof *y);
	if (!a || !b || !y)
		return E_NOMEM;
	walk_open(&w, c->arena, m.batch.rank, m.batch.d, 3);
	walk_like(&w, 0, &m.batch);
	walk_like(&w, 1, &m.a);
	walk_like(&w, 2, &m.b);
	for (walk_start(&w); !w.done; walk_next(&w))
		for (int64_t i = 0; i < w.n; i++) {
			load_f64(&c->in[p->x], (w.at[1] + i * w.run[1]) * m.m * m.k, 1, m.m * m.k, a);
			load_f64(&c->in[p->w], (w.at[2] + i * w.run[2]) * m.k * m.n, 1, m.k * m.n, b);
			for (int64_t j = 0; j < m.m * m.k; j++)
				a[j] -= param(c, p->x_zero, j / m.k, 0);
			for (int64_t j = 0; j < m.k * m.n; j++)
				b[j] -= param(c, p->w_zero, j % m.n, 0);
			matmul_f64(m.m, m.n, m.k, a, b, y);
			for (int64_t r = 0; r < m.m; r++)
				finish(c, p, r, 0, 1, ((w.at[0] + i) * m.m + r) * m.n, m.n, y + r * m.n);
		}
	return E_OK;
}

/* ---- */

static int infer(struct opctx *c)
{
	static int (*const by_code[])(struct opctx *) = {
	    [Q_QUANTIZE] = infer_quantize, [Q_DEQUANTIZE] = infer_dequantize, [Q_DYNAMIC] = infer_dynamic};
	return c->code <= Q_DYNAMIC ? by_code[c->code](c) : infer_product(c);
}

static int eval(struct opctx *c)
{
	struct places p = places_of(c);
	if (c->code == Q_DYNAMIC)
		return eval_dynamic(c);
	if (c->code <= Q_DEQUANTIZE)
		return eval_linear(c);
	return c->code == Q_CONV_INT || c->code == Q_CONV ? eval_conv(c, &p) : eval_matmul(c, &p);
}

const struct op op_quant = {.name = "quant", .rows = rows, .infer = infer, .eval = eval};
