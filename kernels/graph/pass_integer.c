/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrites ConvInteger and MatMulInteger with constant weights w whose differences from their zero points wz
 * are no s8, so that the weights become s8 less another zero point p, 128 of u8 and 0 of s8:
 *
 *   sum (x - xz) (w - wz) = sum (x - xz) (w - p) + (p - wz) sum (x - xz)
 *
 * The last sum is a product of its own, with weights of one: a column, or a filter for each group. The form
 * of the node with the inputs 4 and 5 (kernels/graph/op_quant.h) adds it. */
#include "kernels/graph/op_quant.h"
#include "kernels/graph/op.h"
#include "kernels/graph/pass.h"

#include <string.h>

enum { X, W, X_ZERO, W_ZERO, INPUTS };

/* A product of rows with ones, which products of the same rows share. */
struct rows {
	int x, zero, sums; /* values */
};

struct rewriter {
	struct graph *g;
	int nrows;
	struct rows *rows;
};

static int input(const struct node *n, int k)
{
	return k < n->nin ? n->in[k] : -1;
}

/* Filters or columns. */
static int64_t columns(const struct shape *w, bool conv)
{
	return w->d[conv ? 0 : w->rank - 1];
}

static int32_t zero_at(const struct tensor *zero, int64_t i)
{
	return !zero ? 0 : (int32_t)tensor_get_i64(zero, shape_count(&zero->shape) > 1 ? i : 0);
}

/* Whether weights and their zero points are known, and some difference is no s8. */
static bool is_wide(const struct graph *g, const struct node *n, bool conv)
{
	const struct tensor *w = &g->value[n->in[W]].t;
	int z = input(n, W_ZERO);
	const struct tensor *zero = z >= 0 ? &g->value[z].t : NULL;
	int64_t count = shape_count(&w->shape);
	if (!w->data || w->shape.rank < 2 || !count || (zero && !zero->data))
		return false;
	int64_t ncolumns = columns(&w->shape, conv), next = conv ? count / ncolumns : 1;
	bool wide = false;
	for (int64_t i = 0; i < count && !wide; i++) {
		int64_t v = tensor_get_i64(w, i) - zero_at(zero, i / next % ncolumns);
		wide = v < INT8_MIN || v > INT8_MAX;
	}
	return wide;
}

/* Adds a node of the same type and attributes whose weights are ones. Returns its output. */
static int sum_inputs(struct rewriter *r, int node, bool conv)
{
	struct graph *g = r->g;
	const struct node *n = &g->node[node];
	struct shape w = g->value[n->in[W]].t.shape, s = g->value[n->out[0]].t.shape;
	int zero = input(n, X_ZERO), in[] = {n->in[X], -1, zero};
	for (int i = 0; i < r->nrows && !conv; i++)
		if (r->rows[i].x == n->in[X] && r->rows[i].zero == zero)
			return r->rows[i].sums;
	if (conv)
		w.d[0] = s.d[1] = node_int(n, "group", 1);
	else
		w = (struct shape){2, {w.d[w.rank - 2], s.d[s.rank - 1] = 1}};
	int out = graph_add_value(g, n->name), ones = graph_add_constant(g, "ones", DT_I8, &w, NULL);
	if (out < 0 || ones < 0)
		return out < 0 ? out : ones;
	memset(g->value[ones].t.data, 1, (size_t)shape_count(&w));
	g->value[out].t = (struct tensor){.dtype = DT_I32, .shape = s};
	in[W] = ones;
	n = &g->node[node];
	int rc = graph_add_node(g, node_type(n), pass_name(g, n->name, "sums"), n->opset, 3, in, 1, &out,
				n->nattr, n->attr);
	if (rc >= 0 && !conv)
		r->rows[r->nrows++] = (struct rows){g->node[node].in[X], zero, out};
	return rc < 0 ? rc : out;
}

/* Makes p - wz of each column. */
static int make_factors(struct graph *g, const struct node *n, bool conv)
{
	const struct tensor *w = &g->value[n->in[W]].t;
	struct shape s = {1, {columns(&w->shape, conv)}};
	int32_t plain = w->dtype == DT_U8 ? 128 : 0;
	int z = input(n, W_ZERO), v = graph_add_constant(g, "factors", DT_I32, &s, NULL);
	for (int64_t i = 0; i < s.d[0] && v >= 0; i++)
		((int32_t *)g->value[v].t.data)[i] = plain - zero_at(z >= 0 ? &g->value[z].t : NULL, i);
	return v;
}

static int rewrite(struct rewriter *r, int node, bool conv)
{
	struct graph *g = r->g;
	const struct node *n = &g->node[node];
	bool is_u8 = g->value[n->in[W]].t.dtype == DT_U8;
	/* sums of MatMul have one for each row of the output, so x must have all of the output's batches */
	if (!conv && g->value[n->in[X]].t.shape.rank != g->value[n->out[0]].t.shape.rank)
		return 0;
	for (int d = 0; d + 1 < g->value[n->out[0]].t.shape.rank && !conv; d++)
		if (g->value[n->in[X]].t.shape.d[d] != g->value[n->out[0]].t.shape.d[d])
			return 0;
	int sums = sum_inputs(r, node, conv), factors = make_factors(g, &g->node[node], conv), zero = -1;
	if (sums < 0 || factors < 0)
		return sums < 0 ? sums : factors;
	if (is_u8) {
		if ((zero = graph_add_constant(g, "plain", DT_U8, &(struct shape){0}, NULL)) < 0)
			return zero;
		*(uint8_t *)g->value[zero].t.data = 128;
	}
	n = &g->node[node];
	const int in[] = {n->in[X], n->in[W], input(n, X_ZERO), zero, sums, factors};
	int rc = graph_replace_node(g, node, node_type(n), n->name, QUANT_OPSET, 6, in, n->nattr, n->attr);
	return rc < 0 ? rc : 1;
}

int pass_integer(struct graph *g, struct arena *scratch)
{
	int n = g->nnodes, done = 0;
	struct rewriter r = {.g = g, .rows = ARENA_ARRAY(scratch, struct rows, n + 1)};
	for (int i = 0; i < n; i++) {
		const struct node *x = &g->node[i];
		bool conv = !strcmp(node_type(x), "ConvInteger");
		if (x->dead || x->nin > INPUTS || (!conv && strcmp(node_type(x), "MatMulInteger") != 0) ||
		    !is_wide(g, x, conv))
			continue;
		int rc = rewrite(&r, i, conv);
		if (rc < 0)
			return rc;
		done += rc;
	}
	return done;
}
