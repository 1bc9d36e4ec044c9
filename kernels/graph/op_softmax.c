/* SPDX-License-Identifier: Apache-2.0 */
/* Operators on lines of elements along one axis, or along all axes from one on (Softmax before opset 13):
 * Softmax, LogSoftmax, Hardmax, LpNormalization, and LRN along channels. */
#include "kernels/graph/shapes.h"
#include "kernels/graph/structure.h"
#include "kernels/task/walk.h"

#include <math.h>

enum { X_SOFTMAX, X_LOGSOFTMAX, X_HARDMAX, X_LPNORM, X_LRN, X_FLAT = 8 /* axis as before opset 13 */ };

static const struct op_row rows[] = {
    {"Hardmax", 1, 12, 1, 1, 1, 1, X_HARDMAX | X_FLAT, "axis"},
    {"Hardmax", 13, 0, 1, 1, 1, 1, X_HARDMAX, "axis"},
    {"LRN", 1, 0, 1, 1, 1, 1, X_LRN, "alpha beta bias size"},
    {"LogSoftmax", 1, 12, 1, 1, 1, 1, X_LOGSOFTMAX | X_FLAT, "axis"},
    {"LogSoftmax", 13, 0, 1, 1, 1, 1, X_LOGSOFTMAX, "axis"},
    {"LpNormalization", 1, 0, 1, 1, 1, 1, X_LPNORM, "axis p"},
    {"Softmax", 1, 12, 1, 1, 1, 1, X_SOFTMAX | X_FLAT, "axis"},
    {"Softmax", 13, 0, 1, 1, 1, 1, X_SOFTMAX, "axis"},
    {""},
};

/* x[outer][n][inner]: a line is n elements, `inner` apart. */
struct lines {
	int64_t outer, n, inner;
};

static int plan(const struct opctx *c, struct lines *l)
{
	const struct shape *x = &c->in[0].shape;
	bool flat = c->code & X_FLAT;
	int axis = 1, rc = E_OK;
	if (c->code != X_LRN)
		rc = attr_axis(c, "axis", flat ? 1 : -1, x->rank, &axis);
	if (rc < 0)
		return rc;
	l->outer = shape_span(x, 0, axis);
	l->n = flat ? shape_span(x, axis, x->rank) : x->d[axis];
	l->inner = flat ? 1 : shape_span(x, axis + 1, x->rank);
	return E_OK;
}

static int infer(struct opctx *c)
{
	struct lines l;
	int rc = in_need(c, 0, DTYPES_FLOAT);
	if (rc < 0)
		return rc;
	if (c->code == X_LRN) {
		if ((rc = in_need_rank(c, 0, 2, MAX_RANK)) < 0)
			return rc;
		if (node_int(c->node, "size", 0) < 1)
			return fail(E_CORRUPT, "size %lld is not positive",
				    (long long)node_int(c->node, "size", 0));
	}
	int64_t p = node_int(c->node, "p", 2);
	if (c->code == X_LPNORM && p != 1 && p != 2)
		return fail(E_CORRUPT, "p %lld is neither 1 nor 2", (long long)p);
	if ((rc = plan(c, &l)) < 0)
		return rc;
	return out_set(c, 0, c->in[0].dtype, &c->in[0].shape);
}

static void softmax(double *x, int64_t n, bool logarithm)
{
	double top = -INFINITY, sum = 0;
	for (int64_t i = 0; i < n; i++)
		top = x[i] > top ? x[i] : top;
	for (int64_t i = 0; i < n; i++)
		sum += exp(x[i] - top);
	double whole = logarithm ? top + log(sum) : 0;
	for (int64_t i = 0; i < n; i++)
		x[i] = logarithm ? x[i] - whole : exp(x[i] - top) / sum;
}

static void hardmax(double *x, int64_t n)
{
	int64_t best = 0;
	for (int64_t i = 1; i < n; i++)
		if (x[i] > x[best])
			best = i;
	for (int64_t i = 0; i < n; i++)
		x[i] = i == best;
}

static void lp_normalize(double *x, int64_t n, bool squares)
{
	double sum = 0;
	for (int64_t i = 0; i < n; i++)
		sum += squares ? x[i] * x[i] : fabs(x[i]);
	double norm = squares ? sqrt(sum) : sum;
	for (int64_t i = 0; i < n; i++)
		x[i] = norm != 0 ? x[i] / norm : 0;
}

/* x[n] across channels into y[n]. */
static void lrn(const struct opctx *c, const double *x, int64_t n, double *y)
{
	double alpha = node_float(c->node, "alpha", 1e-4f), beta = node_float(c->node, "beta", 0.75f);
	double bias = node_float(c->node, "bias", 1);
	int64_t size = node_int(c->node, "size", 1), before = (size - 1) / 2, after = size - 1 - before;
	for (int64_t i = 0; i < n; i++) {
		double sum = 0;
		for (int64_t j = i > before ? i - before : 0; j < n && j - i <= after; j++)
			sum += x[j] * x[j];
		y[i] = x[i] * pow(bias + alpha / (double)size * sum, -beta);
	}
}

static int eval(struct opctx *c)
{
	struct lines l;
	int rc = plan(c, &l), code = c->code & ~X_FLAT;
	if (rc < 0)
		return rc;
	double *x = arena_try(c->arena, (size_t)l.n + 1, sizeof *x),
	       *y = arena_try(c->arena, (size_t)l.n + 1, sizeof *y);
	if (!x || !y)
		return E_NOMEM;
	for (int64_t i = 0; i < l.outer * l.inner; i++) {
		int64_t at = i / l.inner * l.n * l.inner + i % l.inner;
		load_f64(&c->in[0], at, l.inner, l.n, x);
		double *from = code == X_LRN ? y : x;
		if (code == X_LRN)
			lrn(c, x, l.n, y);
		else if (code == X_HARDMAX)
			hardmax(x, l.n);
		else if (code == X_LPNORM)
			lp_normalize(x, l.n, node_int(c->node, "p", 2) == 2);
		else
			softmax(x, l.n, code == X_LOGSOFTMAX);
		for (int64_t j = 0; j < l.n; j++)
			store_f64(&c->out[0], at + j * l.inner, 1, from + j);
	}
	return E_OK;
}

const struct op op_softmax = {.rows = rows, .infer = infer, .eval = eval, .task = structure_task};
