/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions over a set of axes. Floats accumulate in double, integers in int64; an empty set gives the
 * neutral element. */
#include "kernels/graph/shapes.h"
#include "kernels/graph/structure.h"
#include "kernels/task/walk.h"

#include <math.h>

enum { R_L1, R_L2, R_LOGSUM, R_LOGSUMEXP, R_MAX, R_MEAN, R_MIN, R_PROD, R_SUM, R_SUMSQUARE };

#define OLD "axes keepdims"
#define NEW "keepdims noop_with_empty_axes"
static const struct op_row rows[] = {
    {"ReduceL1", 1, 17, 1, 1, 1, 1, R_L1, OLD},
    {"ReduceL1", 18, 0, 1, 2, 1, 1, R_L1, NEW},
    {"ReduceL2", 1, 17, 1, 1, 1, 1, R_L2, OLD},
    {"ReduceL2", 18, 0, 1, 2, 1, 1, R_L2, NEW},
    {"ReduceLogSum", 1, 17, 1, 1, 1, 1, R_LOGSUM, OLD},
    {"ReduceLogSum", 18, 0, 1, 2, 1, 1, R_LOGSUM, NEW},
    {"ReduceLogSumExp", 1, 17, 1, 1, 1, 1, R_LOGSUMEXP, OLD},
    {"ReduceLogSumExp", 18, 0, 1, 2, 1, 1, R_LOGSUMEXP, NEW},
    {"ReduceMax", 1, 17, 1, 1, 1, 1, R_MAX, OLD},
    {"ReduceMax", 18, 0, 1, 2, 1, 1, R_MAX, NEW},
    {"ReduceMean", 1, 17, 1, 1, 1, 1, R_MEAN, OLD},
    {"ReduceMean", 18, 0, 1, 2, 1, 1, R_MEAN, NEW},
    {"ReduceMin", 1, 17, 1, 1, 1, 1, R_MIN, OLD},
    {"ReduceMin", 18, 0, 1, 2, 1, 1, R_MIN, NEW},
    {"ReduceProd", 1, 17, 1, 1, 1, 1, R_PROD, OLD},
    {"ReduceProd", 18, 0, 1, 2, 1, 1, R_PROD, NEW},
    {"ReduceSum", 1, 12, 1, 1, 1, 1, R_SUM, OLD},
    {"ReduceSum", 13, 0, 1, 2, 1, 1, R_SUM, NEW},
    {"ReduceSumSquare", 1, 17, 1, 1, 1, 1, R_SUMSQUARE, OLD},
    {"ReduceSumSquare", 18, 0, 1, 2, 1, 1, R_SUMSQUARE, NEW},
    {""},
};

/* The reduced axes as a mask. */
static int plan(const struct opctx *c, unsigned *mask)
{
	int64_t axes[MAX_RANK];
	bool there;
	int rank = c->in[0].shape.rank, n = axes_list(c, 1, axes, &there);
	if (n < 0)
		return n;
	if (n == 0) {
		*mask = node_int(c->node, "noop_with_empty_axes", 0) ? 0 : (1u << rank) - 1;
		return E_OK;
	}
	return axes_mask(axes, n, rank, mask);
}

static int infer(struct opctx *c)
{
	unsigned mask, dtypes = DTYPES_NUMBER;
	struct shape out = {0};
	if (c->code == R_MAX || c->code == R_MIN)
		dtypes |= DTYPE_BIT(DT_BOOL);
	int rc = in_need(c, 0, dtypes);
	if (rc < 0 || (rc = plan(c, &mask)) < 0)
		return rc;
	bool keep = node_int(c->node, "keepdims", 1) != 0;
	for (int i = 0; i < c->in[0].shape.rank; i++) {
		if (!(mask >> i & 1))
			out.d[out.rank++] = c->in[0].shape.d[i];
		else if (keep)
			out.d[out.rank++] = 1;
	}
	return out_set(c, 0, c->in[0].dtype, &out);
}

static double real_start(int code)
{
	return code == R_MAX ? -INFINITY : code == R_MIN ? INFINITY : code == R_PROD ? 1 : 0;
}

static double real_step(int code, double acc, double v)
{
	switch (code) {
	case R_L1:
		return acc + fabs(v);
	case R_L2:
	case R_SUMSQUARE:
		return acc + v * v;
	case R_MAX:
		return v != v || v > acc ? v : acc;
	case R_MIN:
		return v != v || v < acc ? v : acc;
	case R_PROD:
		return acc * v;
	default:
		return acc + v;
	}
}

static double real_end(int code, double acc, double n)
{
	switch (code) {
	case R_L2:
		return sqrt(acc);
	case R_LOGSUM:
		return log(acc);
	case R_MEAN:
		return acc / n;
	default:
		return acc;
	}
}

static int64_t whole_start(int code, enum dtype t)
{
	struct tensor one = {t, {0}, &(int64_t){0}};
	if (code != R_MAX && code != R_MIN)
		return code == R_PROD;
	tensor_set(&one, 0, code == R_MAX ? -INFINITY : INFINITY);
	return t == DT_BOOL ? code == R_MIN : tensor_get_i64(&one, 0);
}

static int64_t whole_step(int code, int64_t acc, int64_t v)
{
	uint64_t a = (uint64_t)acc, b = (uint64_t)v;
	switch (code) {
	case R_L1:
		return (int64_t)(v < 0 ? a - b : a + b);
	case R_SUMSQUARE:
		return (int64_t)(a + b * b);
	case R_MAX:
		return v > acc ? v : acc;
	case R_MIN:
		return v < acc ? v : acc;
	case R_PROD:
		return (int64_t)(a * b);
	default:
		return (int64_t)(a + b);
	}
}

/* Walks the input in order; operand 0 is the place of an element in the output, operand 1 is the input. */
static void open_walk(struct walk *w, const struct opctx *c, unsigned mask)
{
	const struct shape *x = &c->in[0].shape;
	int64_t steps[MAX_RANK], n = 1;
	for (int i = x->rank - 1; i >= 0; i--) {
		steps[i] = mask >> i & 1 ? 0 : n;
		n *= mask >> i & 1 ? 1 : x->d[i];
	}
	walk_open(w, c->arena, x->rank, x->d, 2);
	walk_steps(w, 0, 0, steps);
	walk_like(w, 1, x);
}

/* One pass over the input: acc[out] = step(acc[out], x). */
static void pass(const struct opctx *c, int code, unsigned mask, double *acc, const double *top)
{
	struct walk w;
	double v[RUN];
	open_walk(&w, c, mask);
	for (walk_start(&w); !w.done; walk_next(&w))
		for (int64_t i = 0; i < w.n; i += RUN) {
			int64_t n = w.n - i < RUN ? w.n - i : RUN;
			load_f64(&c->in[0], w.at[1] + i * w.run[1], w.run[1], n, v);
			for (int64_t j = 0; j < n; j++) {
				int64_t to = w.at[0] + (i + j) * w.run[0];
				acc[to] = real_step(code, acc[to], top ? exp(v[j] - top[to]) : v[j]);
			}
		}
}

static int eval_real(struct opctx *c, unsigned mask)
{
	int64_t out = shape_count(&c->out[0].shape), in = shape_count(&c->in[0].shape);
	double *acc = arena_try(c->arena, (size_t)out + 1, sizeof *acc), *top = NULL;
	if (!acc)
		return E_NOMEM;
	if (c->code == R_LOGSUMEXP) {
		if (!(top = arena_try(c->arena, (size_t)out + 1, sizeof *top)))
			return E_NOMEM;
		for (int64_t i = 0; i < out; i++)
			top[i] = -INFINITY;
		pass(c, R_MAX, mask, top, NULL);
		for (int64_t i = 0; i < out; i++)
			top[i] = isfinite(top[i]) ? top[i] : 0;
	}
	for (int64_t i = 0; i < out; i++)
		acc[i] = real_start(c->code);
	pass(c, c->code, mask, acc, top);
	for (int64_t i = 0; i < out; i++)
		acc[i] = top ? log(acc[i]) + top[i] : real_end(c->code, acc[i], (double)in / (double)out);
	store_f64(&c->out[0], 0, out, acc);
	return E_OK;
}

static int eval_whole(struct opctx *c, unsigned mask)
{
	int64_t out = shape_count(&c->out[0].shape), in = shape_count(&c->in[0].shape), v[RUN];
	int64_t *acc = arena_try(c->arena, (size_t)out + 1, sizeof *acc);
	struct walk w;
	if (!acc)
		return E_NOMEM;
	for (int64_t i = 0; i < out; i++)
		acc[i] = whole_start(c->code, c->in[0].dtype);
	open_walk(&w, c, mask);
	for (walk_start(&w); !w.done; walk_next(&w))
		for (int64_t i = 0; i < w.n; i += RUN) {
			int64_t n = w.n - i < RUN ? w.n - i : RUN;
			load_i64(&c->in[0], w.at[1] + i * w.run[1], w.run[1], n, v);
			for (int64_t j = 0; j < n; j++) {
				int64_t to = w.at[0] + (i + j) * w.run[0];
				acc[to] = whole_step(c->code, acc[to], v[j]);
			}
		}
	for (int64_t i = 0; i < out && c->code == R_MEAN && in; i++)
		acc[i] /= in / out;
	store_i64(&c->out[0], 0, out, acc);
	return E_OK;
}

static int eval(struct opctx *c)
{
	unsigned mask;
	int rc = plan(c, &mask);
	if (rc < 0)
		return rc;
	bool roots = c->code == R_L2 || c->code == R_LOGSUM || c->code == R_LOGSUMEXP;
	bool real = roots || dtype_in(c->in[0].dtype, DTYPES_FLOAT);
	return real ? eval_real(c, mask) : eval_whole(c, mask);
}

const struct op op_reduce = {.rows = rows, .infer = infer, .eval = eval, .task = structure_task};
