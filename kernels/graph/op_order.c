/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that depend on the order of elements along one axis: ArgMax, ArgMin, TopK, CumSum. */
#include "kernels/task/runs.h"
#include "kernels/graph/shapes.h"
#include "kernels/task/walk.h"

#include <stdlib.h>
#include <string.h>

enum { O_ARGMAX, O_ARGMIN, O_TOPK_OLD, O_TOPK, O_CUMSUM };

static const struct op_row rows[] = {
    {"ArgMax", 1, 11, 1, 1, 1, 1, O_ARGMAX, "axis keepdims"},
    {"ArgMax", 12, 0, 1, 1, 1, 1, O_ARGMAX, "axis keepdims select_last_index"},
    {"ArgMin", 1, 11, 1, 1, 1, 1, O_ARGMIN, "axis keepdims"},
    {"ArgMin", 12, 0, 1, 1, 1, 1, O_ARGMIN, "axis keepdims select_last_index"},
    {"CumSum", 11, 0, 2, 2, 1, 1, O_CUMSUM, "exclusive reverse"},
    {"TopK", 1, 9, 1, 1, 0, 2, O_TOPK_OLD, "axis k"},
    {"TopK", 10, 0, 2, 2, 0, 2, O_TOPK, "axis largest sorted"},
    {""},
};

/* x[outer][n][inner]: a line is n elements, `inner` apart. */
struct lines {
	int axis;
	int64_t outer, n, inner;
	int64_t k; /* TopK */
};

static int top_count(const struct opctx *c, struct lines *l)
{
	int rc = E_OK;
	l->k = node_int(c->node, "k", 0);
	if (c->code == O_TOPK) {
		rc = in_list(c, 1, &l->k, 1);
		if (rc == 0)
			return fail(E_CORRUPT, "input k is empty");
	}
	if (rc >= 0 && (l->k < 0 || l->k > l->n))
		return fail(E_CORRUPT, "k %lld of %lld elements", (long long)l->k, (long long)l->n);
	return rc;
}

static int plan(const struct opctx *c, struct lines *l)
{
	const struct shape *x = &c->in[0].shape;
	int64_t axis = node_int(c->node, "axis", c->code >= O_TOPK_OLD ? -1 : 0);
	int rc = E_OK;
	if (c->code == O_CUMSUM && (rc = in_list(c, 1, &axis, 1)) == 0)
		return fail(E_CORRUPT, "axis is empty");
	if (rc < 0 || (rc = axis_norm(axis, x->rank, &l->axis)) < 0)
		return rc;
	l->outer = shape_span(x, 0, l->axis);
	l->n = x->d[l->axis];
	l->inner = shape_span(x, l->axis + 1, x->rank);
	l->k = l->n;
	return c->code == O_TOPK || c->code == O_TOPK_OLD ? top_count(c, l) : E_OK;
}

static int infer(struct opctx *c)
{
	struct lines l;
	int rc = in_need(c, 0, DTYPES_NUMBER);
	if (rc < 0 || (rc = plan(c, &l)) < 0)
		return rc;
	struct shape out = c->in[0].shape;
	if (c->code == O_CUMSUM)
		return out_set(c, 0, c->in[0].dtype, &out);
	if (c->code == O_TOPK || c->code == O_TOPK_OLD) {
		out.d[l.axis] = l.k;
		rc = out_set(c, 1, DT_I64, &out);
		return rc < 0 ? rc : out_set(c, 0, c->in[0].dtype, &out);
	}
	if (l.n < 1)
		return fail(E_CORRUPT, "axis %d is empty", l.axis);
	out.d[l.axis] = 1;
	if (!node_int(c->node, "keepdims", 1)) {
		out.rank--;
		memmove(out.d + l.axis, out.d + l.axis + 1, sizeof *out.d * (size_t)(out.rank - l.axis));
	}
	return out_set(c, 0, DT_I64, &out);
}

/* One element of a line: floats compare by `real`, integers by `whole`. NaN is above all numbers. */
struct item {
	double real;
	int64_t whole, index;
};

static int compare(const struct item *a, const struct item *b)
{
	if (a->whole != b->whole)
		return a->whole < b->whole ? -1 : 1;
	bool nan_a = a->real != a->real, nan_b = b->real != b->real;
	if (nan_a || nan_b)
		return nan_a - nan_b;
	return (a->real > b->real) - (a->real < b->real);
}

static int rising(const void *p, const void *q)
{
	const struct item *a = p, *b = q;
	int order = compare(a, b);
	return order ? order : (a->index > b->index) - (a->index < b->index);
}

static int falling(const void *p, const void *q)
{
	const struct item *a = p, *b = q;
	int order = compare(b, a);
	return order ? order : (a->index > b->index) - (a->index < b->index);
}

static void load_line(const struct opctx *c, const struct lines *l, int64_t at, struct item *item)
{
	bool real = dtype_in(c->in[0].dtype, DTYPES_FLOAT);
	double v[RUN];
	int64_t k[RUN];
	for (int64_t i = 0; i < l->n; i += RUN) {
		int64_t n = l->n - i < RUN ? l->n - i : RUN;
		if (real)
			load_f64(&c->in[0], at + i * l->inner, l->inner, n, v);
		else
			load_i64(&c->in[0], at + i * l->inner, l->inner, n, k);
		for (int64_t j = 0; j < n; j++)
			item[i + j] = (struct item){real ? v[j] : 0, real ? 0 : k[j], i + j};
	}
}

static int64_t arg_best(const struct opctx *c, const struct item *item, int64_t n)
{
	bool last = node_int(c->node, "select_last_index", 0) != 0;
	int64_t best = 0;
	for (int64_t i = 1; i < n; i++) {
		int order = compare(&item[i], &item[best]);
		order = c->code == O_ARGMIN ? -order : order;
		if (order > 0 || (order == 0 && last))
			best = i;
	}
	return best;
}

/* ArgMax and ArgMin of f32, a few columns at a time. */
static void arg_f32(struct opctx *c, const struct lines *l)
{
	const struct run_order o = {c->code == O_ARGMIN, node_int(c->node, "select_last_index", 0) != 0};
	const float *x = c->in[0].data;
	int64_t *y = c->out[0].data;
	int32_t best[RUN_COLUMNS];
	for (int64_t i = 0; i < l->outer; i++) {
		if (l->inner == 1)
			y[i] = run_arg(x + i * l->n, l->n, o);
		for (int64_t j = 0; j < l->inner && l->inner > 1; j += RUN_COLUMNS) {
			int n = l->inner - j < RUN_COLUMNS ? (int)(l->inner - j) : RUN_COLUMNS;
			run_arg_columns(x + i * l->n * l->inner + j, l->n, l->inner, n, o, best);
			for (int k = 0; k < n; k++)
				y[i * l->inner + j + k] = best[k];
		}
	}
}

static void store_item(const struct opctx *c, int64_t at, const struct item *item)
{
	if (dtype_in(c->in[0].dtype, DTYPES_FLOAT))
		store_f64(&c->out[0], at, 1, &item->real);
	else
		store_i64(&c->out[0], at, 1, &item->whole);
}

typedef int order_fn(const void *a, const void *b);

/* Moves the first k of n items to the front in order; uses insertion if k is small. */
static void order_first(struct item *item, int64_t n, int64_t k, order_fn *order)
{
	if (k > 64 || k < 1) {
		qsort(item, (size_t)n, sizeof *item, order);
		return;
	}
	for (int64_t i = 1; i < n; i++) {
		struct item x = item[i];
		int64_t j = i < k ? i : k - 1;
		if (i >= k && order(&x, &item[j]) > 0)
			continue;
		for (; j > 0 && order(&x, &item[j - 1]) < 0; j--)
			item[j] = item[j - 1];
		item[j] = x;
	}
}

static void top(struct opctx *c, const struct lines *l, int64_t line, struct item *item)
{
	int64_t at = line / l->inner * l->k * l->inner + line % l->inner;
	order_first(item, l->n, l->k, node_int(c->node, "largest", 1) ? falling : rising);
	for (int64_t i = 0; i < l->k; i++) {
		if (out_wanted(c, 0))
			store_item(c, at + i * l->inner, &item[i]);
		if (out_wanted(c, 1))
			store_i64(&c->out[1], at + i * l->inner, 1, &item[i].index);
	}
}

static void cumulate(struct opctx *c, const struct lines *l, int64_t at, const struct item *item)
{
	bool exclusive = node_int(c->node, "exclusive", 0), reverse = node_int(c->node, "reverse", 0);
	struct item sum = {0};
	for (int64_t i = 0; i < l->n; i++) {
		int64_t j = reverse ? l->n - 1 - i : i;
		if (exclusive)
			store_item(c, at + j * l->inner, &sum);
		sum.real += item[j].real;
		sum.whole = (int64_t)((uint64_t)sum.whole + (uint64_t)item[j].whole);
		if (!exclusive)
			store_item(c, at + j * l->inner, &sum);
	}
}

static void cumulate_f32(struct opctx *c, const struct lines *l)
{
	bool reverse = node_int(c->node, "reverse", 0);
	struct run_lines r = {.n = l->n,
			      .step = reverse ? -l->inner : l->inner,
			      .lines = l->inner != 1 ? l->inner : l->outer,
			      .line = l->inner != 1 ? 1 : l->n,
			      .exclusive = node_int(c->node, "exclusive", 0)};
	for (int64_t i = 0; i < (l->inner != 1 ? l->outer : 1) && l->n; i++) {
		int64_t at = i * l->n * l->inner + (reverse ? (l->n - 1) * l->inner : 0);
		run_sums((const float *)c->in[0].data + at, r, (float *)c->out[0].data + at);
	}
}

/* TopK with small k of lines whose elements are contiguous. */
static void top_f32(struct opctx *c, const struct lines *l, int32_t *key)
{
	int32_t index[RUN_TOP];
	for (int64_t i = 0; i < l->outer; i++) {
		const float *x = (const float *)c->in[0].data + i * l->n;
		run_keys(x, l->n, !node_int(c->node, "largest", 1), key);
		run_top(key, l->n, (int)l->k, index);
		for (int64_t j = 0; j < l->k; j++) {
			if (out_wanted(c, 0))
				((float *)c->out[0].data)[i * l->k + j] = x[index[j]];
			if (out_wanted(c, 1))
				((int64_t *)c->out[1].data)[i * l->k + j] = index[j];
		}
	}
}

/* Evaluates lines of f32 with a fast form if there is one. True: done. */
static bool eval_f32(struct opctx *c, const struct lines *l, void *scratch)
{
	if (c->in[0].dtype != DT_F32 || l->n > INT32_MAX)
		return false;
	if (c->code == O_ARGMAX || c->code == O_ARGMIN)
		arg_f32(c, l);
	else if (c->code == O_CUMSUM)
		cumulate_f32(c, l);
	else if (l->inner == 1 && l->k <= RUN_TOP)
		top_f32(c, l, scratch);
	else
		return false;
	return true;
}

static int eval(struct opctx *c)
{
	struct lines l;
	int rc = plan(c, &l);
	if (rc < 0)
		return rc;
	bool arg = c->code == O_ARGMAX || c->code == O_ARGMIN;
	struct item *item = arena_try(c->arena, (size_t)l.n + 1, sizeof *item);
	if (!item)
		return E_NOMEM;
	if (eval_f32(c, &l, item))
		return E_OK;
	for (int64_t i = 0; i < l.outer * l.inner; i++) {
		int64_t at = i / l.inner * l.n * l.inner + i % l.inner;
		load_line(c, &l, at, item);
		if (arg) {
			int64_t best = arg_best(c, item, l.n);
			store_i64(&c->out[0], i, 1, &best);
		} else if (c->code == O_CUMSUM) {
			cumulate(c, &l, at, item);
		} else {
			top(c, &l, i, item);
		}
	}
	return E_OK;
}

const struct op op_order = {.rows = rows, .infer = infer, .eval = eval};
