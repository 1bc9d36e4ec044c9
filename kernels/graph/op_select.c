/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that keep, drop or reverse elements by their index: OneHot, Trilu, ReverseSequence. */
#include "kernels/graph/shapes.h"

#include <string.h>

enum { S_ONE_HOT, S_TRIANGLE, S_REVERSE };

static const struct op_row rows[] = {
    {"OneHot", 9, 0, 3, 3, 1, 1, S_ONE_HOT, "axis"},
    {"ReverseSequence", 10, 0, 2, 2, 1, 1, S_REVERSE, "batch_axis time_axis"},
    {"Trilu", 14, 0, 1, 2, 1, 1, S_TRIANGLE, "upper"},
    {""},
};

static int infer_one_hot(struct opctx *c)
{
	const struct shape *x = &c->in[0].shape;
	struct shape out = {.rank = x->rank + 1};
	int axis, rc = in_need(c, 0, DTYPES_NUMBER);
	if (rc < 0 || (rc = in_need(c, 1, DTYPES_NUMBER)) < 0 || (rc = in_need_scalar(c, 1)) < 0 ||
	    (rc = in_need(c, 2, DTYPES_ANY)) < 0)
		return rc;
	if (c->in[2].shape.rank != 1 || c->in[2].shape.d[0] != 2)
		return fail(E_CORRUPT, "values are not the two for off and on");
	if (x->rank == MAX_RANK)
		return fail(E_UNSUPPORTED, "rank %d of the result is over %d", x->rank + 1, MAX_RANK);
	if (!c->in[1].data)
		return fail(E_UNSUPPORTED, "the depth needs a constant: shapes are static");
	if ((rc = attr_axis(c, "axis", -1, out.rank, &axis)) < 0)
		return rc;
	for (int k = 0; k < out.rank; k++)
		out.d[k] = k == axis ? tensor_get_i64(&c->in[1], 0) : x->d[k - (k > axis)];
	if (out.d[axis] < 0)
		return fail(E_CORRUPT, "depth %lld is negative", (long long)out.d[axis]);
	return out_set(c, 0, c->in[2].dtype, &out);
}

/* The two axes of a ReverseSequence, which are the first two. */
static int reverse_axes(const struct opctx *c, int *batch, int *time)
{
	int rc = attr_axis(c, "batch_axis", 1, c->in[0].shape.rank, batch);
	if (rc >= 0)
		rc = attr_axis(c, "time_axis", 0, c->in[0].shape.rank, time);
	if (rc >= 0 && *batch + *time != 1)
		rc = fail(E_CORRUPT, "batch_axis and time_axis are not 0 and 1");
	return rc;
}

static int infer(struct opctx *c)
{
	int batch, time, rc;
	if (c->code == S_ONE_HOT)
		return infer_one_hot(c);
	if ((rc = in_need(c, 0, DTYPES_ANY)) < 0 || (rc = in_need_rank(c, 0, 2, MAX_RANK)) < 0)
		return rc;
	if (c->code == S_TRIANGLE && in_there(c, 1))
		rc = (rc = in_need(c, 1, DTYPES_INDEX)) < 0 ? rc : in_need_scalar(c, 1);
	if (c->code == S_REVERSE) {
		const struct shape *n = &c->in[1].shape;
		if ((rc = in_need(c, 1, DTYPES_INDEX)) < 0 || (rc = reverse_axes(c, &batch, &time)) < 0)
			return rc;
		if (n->rank != 1 || n->d[0] != c->in[0].shape.d[batch])
			return fail(E_CORRUPT, "sequence_lens is not a vector of %lld",
				    (long long)c->in[0].shape.d[batch]);
	}
	return rc < 0 ? rc : out_set(c, 0, c->in[0].dtype, &c->in[0].shape);
}

/* An index beyond the depth is nowhere. */
static int eval_one_hot(struct opctx *c)
{
	const struct shape *x = &c->in[0].shape;
	size_t bytes = dtype_bytes(c->out[0].dtype);
	const char *values = c->in[2].data;
	char *y = c->out[0].data;
	int axis, rc = attr_axis(c, "axis", -1, x->rank + 1, &axis);
	if (rc < 0)
		return rc;
	int64_t depth = c->out[0].shape.d[axis], inner = shape_span(x, axis, x->rank),
		n = shape_count(&c->out[0].shape);
	for (int64_t i = 0; i < n; i++) {
		int64_t at = i / inner / depth * inner + i % inner, hot = tensor_get_i64(&c->in[0], at);
		bool on = i / inner % depth == (hot < 0 && hot >= -depth ? hot + depth : hot);
		memcpy(y + (size_t)i * bytes, values + on * bytes, bytes);
	}
	return E_OK;
}

/* Keeps the columns from row + k on, or those up to it. */
static int eval_triangle(struct opctx *c)
{
	const struct shape *s = &c->in[0].shape;
	size_t bytes = dtype_bytes(c->in[0].dtype);
	int64_t columns = s->d[s->rank - 1], high = s->d[s->rank - 2], n = shape_count(s),
		k = in_there(c, 1) ? tensor_get_i64(&c->in[1], 0) : 0;
	bool upper = node_int(c->node, "upper", 1) != 0;
	k = k > columns ? columns : k < -high ? -high : k;
	for (int64_t i = 0; i < n; i++) {
		int64_t beyond = i % columns - i / columns % high - k;
		if (upper ? beyond >= 0 : beyond <= 0)
			memcpy((char *)c->out[0].data + (size_t)i * bytes,
			       (const char *)c->in[0].data + (size_t)i * bytes, bytes);
		else
			memset((char *)c->out[0].data + (size_t)i * bytes, 0, bytes);
	}
	return E_OK;
}

static int eval_reverse(struct opctx *c)
{
	const struct shape *s = &c->in[0].shape;
	int batch, time, rc = reverse_axes(c, &batch, &time);
	size_t bytes = (size_t)shape_span(s, 2, s->rank) * dtype_bytes(c->in[0].dtype);
	if (rc < 0)
		return rc;
	for (int64_t i = 0; i < s->d[0] * s->d[1]; i++) {
		int64_t at[2] = {i / s->d[1], i % s->d[1]}, n = tensor_get_i64(&c->in[1], at[batch]);
		if (n < 0 || n > s->d[time])
			return fail(E_CORRUPT, "length %lld of extent %lld", (long long)n,
				    (long long)s->d[time]);
		at[time] = at[time] < n ? n - 1 - at[time] : at[time];
		memcpy((char *)c->out[0].data + (size_t)i * bytes,
		       (const char *)c->in[0].data + (size_t)(at[0] * s->d[1] + at[1]) * bytes, bytes);
	}
	return E_OK;
}

static int eval(struct opctx *c)
{
	return c->code == S_ONE_HOT    ? eval_one_hot(c)
	       : c->code == S_TRIANGLE ? eval_triangle(c)
				       : eval_reverse(c);
}

const struct op op_select = {.rows = rows, .infer = infer, .eval = eval};
