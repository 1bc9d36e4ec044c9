/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/graph/shapes.h"

#include <string.h>

int in_need(const struct opctx *c, int i, unsigned dtypes)
{
	if (!in_there(c, i))
		return fail(E_CORRUPT, "input %d is missing", i);
	if (!dtype_in(c->in[i].dtype, dtypes))
		return fail(E_UNSUPPORTED, "input %d of type %s is not supported", i,
			    dtype_name(c->in[i].dtype));
	return E_OK;
}

int in_need_rank(const struct opctx *c, int i, int lo, int hi)
{
	int rank = c->in[i].shape.rank;
	if (rank < lo || rank > hi)
		return fail(E_CORRUPT, "rank %d of input %d is not in %d..%d", rank, i, lo, hi);
	return E_OK;
}

int in_need_scalar(const struct opctx *c, int i)
{
	char text[160];
	if (shape_count(&c->in[i].shape) == 1)
		return E_OK;
	shape_text(&c->in[i].shape, text);
	return fail(E_CORRUPT, "input %d of shape %s is not a scalar", i, text);
}

int in_list(const struct opctx *c, int i, int64_t *out, int max)
{
	int rc = in_need(c, i, DTYPES_INDEX);
	if (rc < 0)
		return rc;
	const struct tensor *t = &c->in[i];
	int64_t n = shape_count(&t->shape);
	if (t->shape.rank > 1)
		return fail(E_CORRUPT, "input %d of rank %d is not a list", i, t->shape.rank);
	if (n > max)
		return fail(E_CORRUPT, "input %d has %lld entries; at most %d are possible", i, (long long)n,
			    max);
	if (n && !t->data)
		return fail(
		    E_UNSUPPORTED,
		    "input %d needs a constant: shapes are static; export the model with fixed shapes", i);
	for (int k = 0; k < n; k++)
		out[k] = tensor_get_i64(t, k);
	return (int)n;
}

int out_set(struct opctx *c, int i, enum dtype t, const struct shape *s)
{
	if (i >= c->nout)
		return E_OK;
	int rc = shape_check(s, MAX_ELEMS);
	if (rc < 0)
		return fail_in(rc, "output %d", i);
	c->out[i].dtype = t;
	c->out[i].shape = *s;
	return E_OK;
}

int axis_norm(int64_t axis, int rank, int *out)
{
	if (axis < -rank || axis >= rank)
		return fail(E_CORRUPT, "axis %lld of rank %d", (long long)axis, rank);
	*out = (int)(axis < 0 ? axis + rank : axis);
	return E_OK;
}

int attr_axis(const struct opctx *c, const char *name, int64_t fallback, int rank, int *out)
{
	return axis_norm(node_int(c->node, name, fallback), rank, out);
}

int axes_mask(const int64_t *axes, int n, int rank, unsigned *mask)
{
	*mask = 0;
	for (int i = 0; i < n; i++) {
		int axis = 0, rc = axis_norm(axes[i], rank, &axis);
		if (rc < 0)
			return rc;
		if (*mask >> axis & 1)
			return fail(E_CORRUPT, "axis %d is given twice", axis);
		*mask |= 1u << axis;
	}
	return E_OK;
}

int attr_some(const struct opctx *c, const char *name, int64_t *out, int max, bool *there)
{
	const struct attr *a = node_attr(c->node, name);
	*there = a != NULL;
	if (!a)
		return 0;
	if (a->kind != ATTR_INTS)
		return fail(E_CORRUPT, "attribute %s is not a list of integers", name);
	if (a->n > max)
		return fail(E_CORRUPT, "attribute %s has %d entries; at most %d are possible", name, a->n,
			    max);
	for (int i = 0; i < a->n; i++)
		out[i] = a->ints[i];
	return a->n;
}

int attr_list(const struct opctx *c, const char *name, int n, int64_t fallback, int64_t *out)
{
	bool there;
	int got = attr_some(c, name, out, n, &there);
	if (got < 0)
		return got;
	if (there && got != n)
		return fail(E_CORRUPT, "attribute %s has %d entries, not %d", name, got, n);
	for (int i = 0; !there && i < n; i++)
		out[i] = fallback;
	return E_OK;
}

int axes_list(const struct opctx *c, int input, int64_t out[MAX_RANK], bool *there)
{
	int n = attr_some(c, "axes", out, MAX_RANK, there);
	if (n < 0 || *there || !in_there(c, input))
		return n;
	*there = true;
	return in_list(c, input, out, MAX_RANK);
}

int attr_choice(const struct opctx *c, const char *name, const char *choices, int fallback)
{
	const struct attr *a = node_attr(c->node, name);
	if (!a)
		return fallback;
	if (a->kind != ATTR_STRING || !a->s)
		return fail(E_CORRUPT, "attribute %s is not a string", name);
	size_t n = strlen(a->s);
	int index = 0;
	for (const char *p = choices; *p; index++) {
		size_t m = strcspn(p, " ");
		if (m == n && !memcmp(p, a->s, n))
			return index;
		p += m + (p[m] == ' ');
	}
	return fail(E_UNSUPPORTED, "attribute %s=%.40s is not supported", name, a->s);
}

int dtype_of_onnx(int64_t number, enum dtype *out)
{
	static const enum dtype table[] = {
	    [1] = DT_F32,  [2] = DT_U8,   [3] = DT_I8,   [4] = DT_U16,  [5] = DT_I16,
	    [6] = DT_I32,  [7] = DT_I64,  [9] = DT_BOOL, [10] = DT_F16, [11] = DT_F64,
	    [12] = DT_U32, [13] = DT_U64, [16] = DT_BF16};
	int64_t n = sizeof table / sizeof *table;
	if (number < 0 || number >= n || table[number] == DT_NONE)
		return fail(E_UNSUPPORTED, "data type %lld is not supported", (long long)number);
	*out = table[number];
	return E_OK;
}

int64_t shape_span(const struct shape *s, int from, int to)
{
	int64_t n = 1;
	for (int i = from; i < to; i++)
		n *= s->d[i];
	return n;
}

void shape_steps(const struct shape *s, int64_t *steps)
{
	int64_t n = 1;
	for (int i = s->rank - 1; i >= 0; i--) {
		steps[i] = n;
		n *= s->d[i];
	}
}
