/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes at indices that are data. Negative indices count from the end; an index out of range is an
 * error. */
#include "kernels/graph/shapes.h"
#include "kernels/graph/structure.h"
#include "kernels/task/walk.h"

#include <string.h>

enum { I_GATHER, I_ELEMENTS, I_ND, I_SCATTER_ELEMENTS, I_SCATTER_ND };

/* How an update changes an element, as the attribute "reduction" says it: the numbers of its words below. */
enum { R_NONE, R_ADD, R_MUL, R_MAX, R_MIN };
#define REDUCTIONS "none add mul max min"

static const struct op_row rows[] = {
    {"Gather", 1, 0, 2, 2, 1, 1, I_GATHER, "axis"},
    {"GatherElements", 11, 0, 2, 2, 1, 1, I_ELEMENTS, "axis"},
    {"GatherND", 11, 0, 2, 2, 1, 1, I_ND, "batch_dims"},
    {"ScatterElements", 11, 0, 3, 3, 1, 1, I_SCATTER_ELEMENTS, "axis reduction"},
    {"ScatterND", 11, 0, 3, 3, 1, 1, I_SCATTER_ND, "reduction"},
    {""},
};

static int infer_gather(struct opctx *c)
{
	const struct shape *x = &c->in[0].shape, *i = &c->in[1].shape;
	struct shape out = {0};
	int axis, rc = attr_axis(c, "axis", 0, x->rank, &axis);
	if (rc < 0)
		return rc;
	if (x->rank - 1 + i->rank > MAX_RANK)
		return fail(E_UNSUPPORTED, "rank %d of the result is over %d", x->rank - 1 + i->rank,
			    MAX_RANK);
	for (int k = 0; k < axis; k++)
		out.d[out.rank++] = x->d[k];
	for (int k = 0; k < i->rank; k++)
		out.d[out.rank++] = i->d[k];
	for (int k = axis + 1; k < x->rank; k++)
		out.d[out.rank++] = x->d[k];
	return out_set(c, 0, c->in[0].dtype, &out);
}

/* Indices have the same rank as the data, and their other extents are not larger than the data's. */
static int infer_elements(struct opctx *c)
{
	const struct shape *x = &c->in[0].shape, *i = &c->in[1].shape;
	int axis, rc = attr_axis(c, "axis", 0, x->rank, &axis);
	if (rc < 0)
		return rc;
	bool fits = i->rank == x->rank;
	for (int k = 0; fits && k < x->rank; k++)
		fits = k == axis || i->d[k] <= x->d[k];
	if (!fits)
		return fail(E_CORRUPT, "indices do not fit the data beside axis %d", axis);
	if (c->code == I_SCATTER_ELEMENTS && !shape_equal(&c->in[2].shape, i))
		return fail(E_CORRUPT, "updates and indices differ in shape");
	return out_set(c, 0, c->in[0].dtype, c->code == I_SCATTER_ELEMENTS ? x : i);
}

static int infer_nd(struct opctx *c)
{
	const struct shape *x = &c->in[0].shape, *i = &c->in[1].shape;
	int64_t batch = c->code == I_ND ? node_int(c->node, "batch_dims", 0) : 0;
	struct shape out = {0};
	if (i->rank < 1 || x->rank < 1 || batch < 0 || batch >= i->rank || batch >= x->rank)
		return fail(E_CORRUPT, "batch_dims %lld does not fit ranks %d and %d", (long long)batch,
			    x->rank, i->rank);
	int64_t depth = i->d[i->rank - 1];
	if (depth < 1 || depth > x->rank - batch)
		return fail(E_CORRUPT, "indices of length %lld into rank %d", (long long)depth, x->rank);
	for (int k = 0; k < batch; k++)
		if (i->d[k] != x->d[k])
			return fail(E_CORRUPT, "batch extents %lld and %lld differ", (long long)x->d[k],
				    (long long)i->d[k]);
	int tail = x->rank - (int)(batch + depth);
	if (i->rank - 1 + tail > MAX_RANK)
		return fail(E_UNSUPPORTED, "rank %d of the result is over %d", i->rank - 1 + tail, MAX_RANK);
	for (int k = 0; k < i->rank - 1; k++)
		out.d[out.rank++] = i->d[k];
	for (int k = x->rank - tail; k < x->rank; k++)
		out.d[out.rank++] = x->d[k];
	if (c->code == I_ND)
		return out_set(c, 0, c->in[0].dtype, &out);
	if (!shape_equal(&out, &c->in[2].shape))
		return fail(E_CORRUPT, "updates do not fit the indices");
	return out_set(c, 0, c->in[0].dtype, x);
}

static int infer(struct opctx *c)
{
	int rc = in_need(c, 0, DTYPES_ANY);
	if (rc < 0 || (rc = in_need(c, 1, DTYPES_INDEX)) < 0)
		return rc;
	if (c->code >= I_SCATTER_ELEMENTS) {
		if ((rc = in_need(c, 2, DTYPE_BIT(c->in[0].dtype))) < 0 ||
		    (rc = attr_choice(c, "reduction", REDUCTIONS, R_NONE)) < 0 ||
		    (rc != R_NONE && (rc = in_need(c, 0, DTYPES_NUMBER)) < 0))
			return rc;
	}
	if (c->code == I_GATHER)
		return infer_gather(c);
	return c->code == I_ELEMENTS || c->code == I_SCATTER_ELEMENTS ? infer_elements(c) : infer_nd(c);
}

/* Index number i, counted from the front and in [0, extent). */
static int index_at(const struct opctx *c, int64_t i, int64_t extent, int64_t *out)
{
	int64_t v = tensor_get_i64(&c->in[1], i);
	if (v < -extent || v >= extent)
		return fail(E_CORRUPT, "index %lld is outside %lld to %lld", (long long)v, (long long)-extent,
			    (long long)extent - 1);
	*out = v < 0 ? v + extent : v;
	return E_OK;
}

static int eval_gather(struct opctx *c)
{
	const struct shape *x = &c->in[0].shape;
	int axis, rc = attr_axis(c, "axis", 0, x->rank, &axis);
	if (rc < 0)
		return rc;
	int64_t outer = shape_span(x, 0, axis), inner = shape_span(x, axis + 1, x->rank);
	int64_t n = shape_count(&c->in[1].shape), extent = x->d[axis], at = 0;
	size_t bytes = (size_t)inner * dtype_bytes(c->in[0].dtype);
	for (int64_t i = 0; i < n && bytes && outer; i++) {
		if ((rc = index_at(c, i, extent, &at)) < 0)
			return rc;
		for (int64_t o = 0; o < outer; o++)
			memcpy((char *)c->out[0].data + (size_t)(o * n + i) * bytes,
			       (const char *)c->in[0].data + (size_t)(o * extent + at) * bytes, bytes);
	}
	return E_OK;
}

/* A NaN remains. */
static double reduced(int how, double a, double b)
{
	bool stays = a != a || (how == R_MAX ? a > b : a < b);
	return how == R_ADD ? a + b : how == R_MUL ? a * b : stays ? a : b;
}

/* Integers wrap. */
static int64_t reduced_whole(int how, int64_t a, int64_t b)
{
	if (how >= R_MAX)
		return (how == R_MAX) == (a > b) ? a : b;
	return (int64_t)(how == R_ADD ? (uint64_t)a + (uint64_t)b : (uint64_t)a * (uint64_t)b);
}

/* Updates n elements of the output from `to` on by those of input 2 from `from` on. */
static void update(const struct opctx *c, int how, int64_t to, int64_t from, int64_t n)
{
	struct tensor *y = &c->out[0];
	const struct tensor *x = &c->in[2];
	size_t bytes = dtype_bytes(y->dtype);
	if (how == R_NONE)
		memcpy((char *)y->data + (size_t)to * bytes, (const char *)x->data + (size_t)from * bytes,
		       (size_t)n * bytes);
	for (int64_t i = 0; i < n && how != R_NONE; i++) {
		if (dtype_in(y->dtype, DTYPES_FLOAT)) {
			tensor_set(y, to + i, reduced(how, tensor_get(y, to + i), tensor_get(x, from + i)));
			continue;
		}
		int64_t v = reduced_whole(how, tensor_get_i64(y, to + i), tensor_get_i64(x, from + i));
		store_i64(y, to + i, 1, &v);
	}
}

/* Copies between the place in the data that index i selects and flat place i. */
static int eval_elements(struct opctx *c)
{
	const struct shape *x = &c->in[0].shape, *ix = &c->in[1].shape;
	bool scatter = c->code == I_SCATTER_ELEMENTS;
	int axis, rc = attr_axis(c, "axis", 0, x->rank, &axis);
	int how = scatter ? attr_choice(c, "reduction", REDUCTIONS, R_NONE) : R_NONE;
	int64_t steps[MAX_RANK], pos[MAX_RANK] = {0}, n = shape_count(ix);
	size_t bytes = dtype_bytes(c->in[0].dtype);
	char *y = c->out[0].data;
	if (rc < 0)
		return rc;
	shape_steps(x, steps);
	if (scatter && shape_count(x))
		memcpy(y, c->in[0].data, (size_t)shape_count(x) * bytes);
	for (int64_t i = 0; i < n; i++) {
		int64_t at = 0, k = 0;
		if ((rc = index_at(c, i, x->d[axis], &k)) < 0)
			return rc;
		for (int j = 0; j < x->rank; j++)
			at += (j == axis ? k : pos[j]) * steps[j];
		if (scatter)
			update(c, how, at, i, 1);
		else
			memcpy(y + (size_t)i * bytes, (const char *)c->in[0].data + (size_t)at * bytes,
			       bytes);
		for (int j = ix->rank - 1; j >= 0 && ++pos[j] == ix->d[j]; j--)
			pos[j] = 0;
	}
	return E_OK;
}

static int eval_nd(struct opctx *c)
{
	const struct shape *x = &c->in[0].shape, *ix = &c->in[1].shape;
	bool scatter = c->code == I_SCATTER_ND;
	int how = scatter ? attr_choice(c, "reduction", REDUCTIONS, R_NONE) : R_NONE;
	int batch = scatter ? 0 : (int)node_int(c->node, "batch_dims", 0), depth = (int)ix->d[ix->rank - 1];
	int64_t tuples = shape_span(ix, 0, ix->rank - 1), batches = shape_span(x, 0, batch);
	int64_t inner = shape_span(x, batch + depth, x->rank), each = shape_span(x, batch, x->rank);
	size_t bytes = (size_t)inner * dtype_bytes(c->in[0].dtype);
	char *y = c->out[0].data;
	if (scatter && shape_count(x))
		memcpy(y, c->in[0].data, (size_t)shape_count(x) * dtype_bytes(c->in[0].dtype));
	for (int64_t i = 0; i < tuples && bytes; i++) {
		int64_t at = 0, k = 0;
		for (int j = 0; j < depth; j++) {
			int rc = index_at(c, i * depth + j, x->d[batch + j], &k);
			if (rc < 0)
				return rc;
			at = at * x->d[batch + j] + k;
		}
		at += i / (tuples / batches) * (each / inner);
		if (scatter)
			update(c, how, at * inner, i * inner, inner);
		else
			memcpy(y + (size_t)i * bytes, (const char *)c->in[0].data + (size_t)at * bytes,
			       bytes);
	}
	return E_OK;
}

static int eval(struct opctx *c)
{
	if (c->code == I_GATHER)
		return eval_gather(c);
	return c->code == I_ELEMENTS || c->code == I_SCATTER_ELEMENTS ? eval_elements(c) : eval_nd(c);
}

const struct op op_gather = {.rows = rows, .infer = infer, .eval = eval, .task = structure_task};
