/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that change or read a shape and leave the elements as they are. */
#include "kernels/graph/shapes.h"
#include "kernels/graph/structure.h"
#include "kernels/task/walk.h"

#include <string.h>

enum { S_RESHAPE, S_FLATTEN, S_SQUEEZE, S_UNSQUEEZE, S_IDENTITY, S_DROPOUT_OLD, S_DROPOUT, S_SHAPE, S_SIZE };

static const struct op_row rows[] = {
    {"Dropout", 7, 9, 1, 1, 1, 2, S_DROPOUT_OLD, "ratio"},
    {"Dropout", 10, 11, 1, 1, 1, 2, S_DROPOUT, "ratio"},
    {"Dropout", 12, 0, 1, 3, 1, 2, S_DROPOUT, "seed"},
    {"Flatten", 1, 0, 1, 1, 1, 1, S_FLATTEN, "axis"},
    {"Identity", 1, 0, 1, 1, 1, 1, S_IDENTITY},
    {"Reshape", 5, 0, 2, 2, 1, 1, S_RESHAPE, "allowzero"},
    {"Shape", 1, 0, 1, 1, 1, 1, S_SHAPE, "end start"},
    {"Size", 1, 0, 1, 1, 1, 1, S_SIZE},
    {"Squeeze", 1, 12, 1, 1, 1, 1, S_SQUEEZE, "axes"},
    {"Squeeze", 13, 0, 1, 2, 1, 1, S_SQUEEZE},
    {"Unsqueeze", 1, 12, 1, 1, 1, 1, S_UNSQUEEZE, "axes"},
    {"Unsqueeze", 13, 0, 2, 2, 1, 1, S_UNSQUEEZE},
    {""},
};

static int reshape(const struct opctx *c, struct shape *out)
{
	const struct shape *x = &c->in[0].shape;
	bool keep_zero = node_int(c->node, "allowzero", 0) != 0;
	int64_t want[MAX_RANK], known = 1;
	int n = in_list(c, 1, want, MAX_RANK), unknown = -1;
	if (n < 0)
		return n;
	*out = (struct shape){.rank = n};
	for (int i = 0; i < n; i++) {
		if (want[i] == -1 && unknown >= 0)
			return fail(E_CORRUPT, "shape has -1 twice");
		if (want[i] < -1 || (want[i] == 0 && !keep_zero && i >= x->rank))
			return fail(E_CORRUPT, "shape entry %lld at %d is not possible", (long long)want[i],
				    i);
		if (want[i] == -1) {
			unknown = i;
			out->d[i] = 1;
			continue;
		}
		out->d[i] = want[i] == 0 && !keep_zero ? x->d[i] : want[i];
	}
	int rc = shape_check(out, MAX_ELEMS);
	if (rc < 0)
		return rc;
	known = shape_count(out);
	int64_t count = shape_count(x);
	if (unknown >= 0 && known > 0)
		out->d[unknown] = count / known;
	if (shape_count(out) != count || (unknown >= 0 && known == 0)) {
		char from[160], to[160];
		shape_text(x, from);
		shape_text(out, to);
		return fail(E_CORRUPT, "shape %s cannot become %s", from, to);
	}
	return E_OK;
}

static int flatten(const struct opctx *c, struct shape *out)
{
	const struct shape *x = &c->in[0].shape;
	int64_t axis = node_int(c->node, "axis", 1);
	if (axis < -x->rank || axis > x->rank)
		return fail(E_CORRUPT, "axis %lld of rank %d", (long long)axis, x->rank);
	int at = (int)(axis < 0 ? axis + x->rank : axis);
	*out = (struct shape){2, {shape_span(x, 0, at), shape_span(x, at, x->rank)}};
	return E_OK;
}

static int squeeze(const struct opctx *c, struct shape *out)
{
	const struct shape *x = &c->in[0].shape;
	int64_t axes[MAX_RANK];
	bool there;
	unsigned mask = 0;
	int n = axes_list(c, 1, axes, &there), rc = n < 0 ? n : axes_mask(axes, n, x->rank, &mask);
	if (rc < 0)
		return rc;
	*out = (struct shape){0};
	for (int i = 0; i < x->rank; i++) {
		bool drop = there ? mask >> i & 1 : x->d[i] == 1;
		if (drop && x->d[i] != 1)
			return fail(E_CORRUPT, "axis %d of extent %lld cannot be squeezed", i,
				    (long long)x->d[i]);
		if (!drop)
			out->d[out->rank++] = x->d[i];
	}
	return E_OK;
}

static int unsqueeze(const struct opctx *c, struct shape *out)
{
	const struct shape *x = &c->in[0].shape;
	int64_t axes[MAX_RANK];
	bool there;
	unsigned mask;
	int n = axes_list(c, 1, axes, &there);
	if (n < 0)
		return n;
	if (!there)
		return fail(E_CORRUPT, "axes are missing");
	if (x->rank + n > MAX_RANK)
		return fail(E_UNSUPPORTED, "rank %d of the result is over %d", x->rank + n, MAX_RANK);
	int rc = axes_mask(axes, n, x->rank + n, &mask);
	if (rc < 0)
		return rc;
	*out = (struct shape){.rank = x->rank + n};
	for (int i = 0, j = 0; i < out->rank; i++)
		out->d[i] = mask >> i & 1 ? 1 : x->d[j++];
	return E_OK;
}

static int dropout(struct opctx *c, struct shape *out)
{
	*out = c->in[0].shape;
	if (in_there(c, 2)) {
		int rc = in_need(c, 2, DTYPE_BIT(DT_BOOL));
		if (rc < 0 || (rc = in_need_scalar(c, 2)) < 0)
			return rc;
		if (!c->in[2].data)
			return fail(E_UNSUPPORTED,
				    "training_mode needs a constant; export the model for inference");
		if (tensor_get_i64(&c->in[2], 0))
			return fail(E_UNSUPPORTED,
				    "training_mode is not supported; export the model for inference");
	}
	return out_set(c, 1, c->code == S_DROPOUT ? DT_BOOL : c->in[0].dtype, out);
}

/* The range of dims [from, to) that Shape returns. */
static void shape_range(const struct opctx *c, int *from, int *to)
{
	int rank = c->in[0].shape.rank;
	int64_t lo = node_int(c->node, "start", 0), hi = node_int(c->node, "end", rank);
	lo = lo < -rank ? 0 : lo < 0 ? lo + rank : lo > rank ? rank : lo;
	hi = hi < -rank ? 0 : hi < 0 ? hi + rank : hi > rank ? rank : hi;
	*from = (int)lo;
	*to = (int)(hi < lo ? lo : hi);
}

static int result_shape(struct opctx *c, struct shape *out)
{
	int from, to;
	switch (c->code) {
	case S_RESHAPE:
		return reshape(c, out);
	case S_FLATTEN:
		return flatten(c, out);
	case S_SQUEEZE:
		return squeeze(c, out);
	case S_UNSQUEEZE:
		return unsqueeze(c, out);
	case S_SHAPE:
		shape_range(c, &from, &to);
		*out = (struct shape){1, {to - from}};
		return E_OK;
	case S_SIZE:
		*out = (struct shape){0};
		return E_OK;
	case S_IDENTITY:
		*out = c->in[0].shape;
		return E_OK;
	default:
		return dropout(c, out);
	}
}

static int infer(struct opctx *c)
{
	struct shape out;
	int rc = in_need(c, 0, DTYPES_ANY);
	if (rc < 0 || (rc = result_shape(c, &out)) < 0)
		return rc;
	return out_set(c, 0, c->code == S_SHAPE || c->code == S_SIZE ? DT_I64 : c->in[0].dtype, &out);
}

static int eval(struct opctx *c)
{
	const struct shape *x = &c->in[0].shape;
	int64_t one = 1, count = shape_count(x);
	if (c->code == S_SIZE) {
		store_i64(&c->out[0], 0, 1, &count);
		return E_OK;
	}
	if (c->code == S_SHAPE) {
		int from, to;
		shape_range(c, &from, &to);
		store_i64(&c->out[0], 0, to - from, x->d + from);
		return E_OK;
	}
	if (count)
		memcpy(c->out[0].data, c->in[0].data, (size_t)count * dtype_bytes(c->in[0].dtype));
	for (int64_t i = 0; out_wanted(c, 1) && i < count; i++)
		store_i64(&c->out[1], i, 1, &one); /* Dropout's mask: nothing is dropped */
	return E_OK;
}

const struct op op_shape = {.rows = rows, .infer = infer, .eval = eval, .task = structure_task};
