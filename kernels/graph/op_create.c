/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that make a tensor from attributes and constants: Constant, ConstantOfShape, Range, EyeLike. */
#include "kernels/graph/shapes.h"
#include "kernels/task/walk.h"

#include <math.h>
#include <string.h>

enum { N_CONSTANT, N_FILL, N_RANGE, N_EYE };

static const struct op_row rows[] = {
    {"Constant", 1, 0, 0, 0, 1, 1, N_CONSTANT, "value value_float value_floats value_int value_ints"},
    {"ConstantOfShape", 9, 0, 1, 1, 1, 1, N_FILL, "value"},
    {"EyeLike", 9, 0, 1, 1, 1, 1, N_EYE, "dtype k"},
    {"Range", 11, 0, 3, 3, 1, 1, N_RANGE, "stash_type"},
    {""},
};

/* The one attribute of a Constant as a tensor that points into the attribute. */
static int constant(const struct opctx *c, struct tensor *t)
{
	if (c->node->nattr != 1)
		return fail(E_CORRUPT, "%d attributes, one value is needed", c->node->nattr);
	const struct attr *a = &c->node->attr[0];
	switch (a->kind) {
	case ATTR_TENSOR:
		*t = a->t;
		return dtype_in(t->dtype, DTYPES_ANY) ? E_OK
						      : fail(E_UNSUPPORTED, "value has an unsupported type");
	case ATTR_INT:
		*t = (struct tensor){DT_I64, {0}, (void *)&a->i};
		return E_OK;
	case ATTR_FLOAT:
		*t = (struct tensor){DT_F32, {0}, (void *)&a->f};
		return E_OK;
	case ATTR_INTS:
		*t = (struct tensor){DT_I64, {1, {a->n}}, (void *)a->ints};
		return E_OK;
	case ATTR_FLOATS:
		*t = (struct tensor){DT_F32, {1, {a->n}}, (void *)a->floats};
		return E_OK;
	default:
		return fail(E_UNSUPPORTED, "attribute %s is not supported", a->name);
	}
}

static int infer_constant(struct opctx *c)
{
	struct tensor t;
	int rc = constant(c, &t);
	if (rc < 0)
		return rc;
	if (shape_count(&t.shape) && !t.data)
		return fail(E_CORRUPT, "value has no data");
	return out_set(c, 0, t.dtype, &t.shape);
}

static int infer_fill(struct opctx *c)
{
	const struct attr *a = node_attr(c->node, "value");
	struct shape out = {0};
	out.rank = in_list(c, 0, out.d, MAX_RANK);
	if (out.rank < 0)
		return out.rank;
	if (!a)
		return out_set(c, 0, DT_F32, &out);
	if (a->kind != ATTR_TENSOR || !a->t.data || shape_count(&a->t.shape) != 1)
		return fail(E_CORRUPT, "attribute value is not a tensor of one element");
	if (!dtype_in(a->t.dtype, DTYPES_ANY))
		return fail(E_UNSUPPORTED, "value of type %s is not supported", dtype_name(a->t.dtype));
	return out_set(c, 0, a->t.dtype, &out);
}

static int infer_range(struct opctx *c)
{
	double v[3];
	for (int i = 0; i < 3; i++) {
		int rc = in_need(c, i, DTYPES_NUMBER);
		if (rc < 0 || (rc = in_need_scalar(c, i)) < 0)
			return rc;
		if (c->in[i].dtype != c->in[0].dtype)
			return fail(E_CORRUPT, "types %s and %s differ", dtype_name(c->in[0].dtype),
				    dtype_name(c->in[i].dtype));
		if (!c->in[i].data)
			return fail(E_UNSUPPORTED, "input %d needs a constant: shapes are static", i);
		v[i] = tensor_get(&c->in[i], 0);
		if (!(fabs(v[i]) < 0x1p53))
			return fail(E_UNSUPPORTED, "limit %g is too large", v[i]);
	}
	if (v[2] == 0)
		return fail(E_CORRUPT, "delta is zero");
	double n = ceil((v[1] - v[0]) / v[2]);
	if (n > (double)MAX_ELEMS)
		return fail(E_CORRUPT, "range of %g elements is too long", n);
	return out_set(c, 0, c->in[0].dtype, &(struct shape){1, {n > 0 ? (int64_t)n : 0}});
}

static int infer_eye(struct opctx *c)
{
	enum dtype t = c->in[0].dtype;
	int rc = in_need(c, 0, DTYPES_ANY);
	if (rc < 0 || (rc = in_need_rank(c, 0, 2, 2)) < 0)
		return rc;
	if (node_attr(c->node, "dtype") && (rc = dtype_of_onnx(node_int(c->node, "dtype", 0), &t)) < 0)
		return rc;
	return out_set(c, 0, t, &c->in[0].shape);
}

static int infer(struct opctx *c)
{
	static int (*const by_code[])(struct opctx *) = {[N_CONSTANT] = infer_constant,
							 [N_FILL] = infer_fill,
							 [N_RANGE] = infer_range,
							 [N_EYE] = infer_eye};
	return by_code[c->code](c);
}

static int eval_constant(struct opctx *c)
{
	struct tensor t;
	int rc = constant(c, &t);
	if (rc < 0)
		return rc;
	size_t n = (size_t)shape_count(&t.shape) * dtype_bytes(t.dtype);
	if (n)
		memcpy(c->out[0].data, t.data, n);
	return E_OK;
}

static int eval_fill(struct opctx *c)
{
	const struct attr *a = node_attr(c->node, "value");
	size_t bytes = dtype_bytes(c->out[0].dtype);
	char *y = c->out[0].data;
	int64_t n = shape_count(&c->out[0].shape);
	for (int64_t i = 0; i < n; i++) {
		if (a)
			memcpy(y + i * (int64_t)bytes, a->t.data, bytes);
		else
			memset(y + i * (int64_t)bytes, 0, bytes);
	}
	return E_OK;
}

static int eval_range(struct opctx *c)
{
	double start = tensor_get(&c->in[0], 0), delta = tensor_get(&c->in[2], 0);
	int64_t n = c->out[0].shape.d[0];
	for (int64_t i = 0; i < n; i++) {
		double v = start + (double)i * delta;
		store_f64(&c->out[0], i, 1, &v);
	}
	return E_OK;
}

static int eval_eye(struct opctx *c)
{
	int64_t rows_n = c->out[0].shape.d[0], cols = c->out[0].shape.d[1], k = node_int(c->node, "k", 0),
		one = 1;
	memset(c->out[0].data, 0, (size_t)(rows_n * cols) * dtype_bytes(c->out[0].dtype));
	if (k <= -rows_n || k >= cols)
		return E_OK;
	for (int64_t i = 0; i < rows_n; i++)
		if (i + k >= 0 && i + k < cols)
			store_i64(&c->out[0], i * cols + i + k, 1, &one);
	return E_OK;
}

static int eval(struct opctx *c)
{
	static int (*const by_code[])(struct opctx *) = {
	    [N_CONSTANT] = eval_constant, [N_FILL] = eval_fill, [N_RANGE] = eval_range, [N_EYE] = eval_eye};
	return by_code[c->code](c);
}

const struct op op_create = {.rows = rows, .infer = infer, .eval = eval};
