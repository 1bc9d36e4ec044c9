/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes are layers, and which values are quantised with them. */
#include "kernels/qdq/qdq.h"
#include "kernels/graph/op_quant.h"
#include "kernels/graph/optimize.h"
#include "kernels/graph/pass.h"
#include "kernels/graph/upgrade.h"

#include <math.h>
#include <string.h>

enum {
	MOST_DEPTH = 65000, /* products of 255 * 127 that 32 bits can sum up */
	LOST_RANGE = 4      /* a value may lose so much of its range to others of a Concat: 2 bits */
};

static bool is(const struct node *n, const char *type)
{
	return !strcmp(node_type(n), type);
}

static int producer(const struct graph *g, int v)
{
	int i = v >= 0 ? g->value[v].producer : -1;
	return i >= 0 && !g->node[i].dead ? i : -1;
}

static const struct shape *shape_of(const struct graph *g, int v)
{
	return &g->value[v].t.shape;
}

/* ---- values ---- */

static bool can_be_bytes(const struct graph *g, int v)
{
	return v >= 0 && g->value[v].t.dtype == DT_F32 && !g->value[v].t.data;
}

/* The qvalue of a value; a new one of its own group if it has none. */
static int add_value(struct qdq *q, int v)
{
	if (q->at[v] >= 0)
		return q->at[v];
	q->value[q->nvalues] = (struct qvalue){.value = v, .group = q->nvalues};
	return q->at[v] = q->nvalues++;
}

static void join_groups(struct qdq *q, int one, int other)
{
	int to = q->value[one].group, from = q->value[other].group;
	for (int i = 0; i < q->nvalues; i++)
		if (q->value[i].group == from)
			q->value[i].group = to;
}

static const struct node *mover_of(const struct qdq *q, int i)
{
	int p = producer(q->g, q->value[i].value);
	return p >= 0 && pass_quant_moves(q->g, &q->g->node[p]) ? &q->g->node[p] : NULL;
}

static void connect(struct qdq *q, int i, const struct node *n, int inputs)
{
	struct qvalue *v = &q->value[i];
	v->from = ARENA_ARRAY(q->a, int, inputs);
	for (int k = 0; k < inputs; k++) {
		v->from[k] = q->at[n->in[k]];
		join_groups(q, i, v->from[k]);
	}
	v->nfrom = inputs;
}

/* Adds the values from which elements are moved to qvalue i. */
static void add_sources(struct qdq *q, int i)
{
	const struct node *n = mover_of(q, i);
	int inputs = n && is(n, "Concat") ? n->nin : 1;
	for (int k = 0; n && k < inputs; k++)
		if (!can_be_bytes(q->g, n->in[k]))
			return;
	for (int k = 0; n && k < inputs; k++)
		add_value(q, n->in[k]);
	if (n && inputs == 1)
		connect(q, i, n, 1);
}

/* Whether a Concat's values have similar ranges, so that one scale fits all. */
static bool ranges_fit(const struct qdq *q, const struct node *n)
{
	double low = 0, high = 0, least = INFINITY;
	for (int k = 0; k < n->nin; k++) {
		const struct qvalue *v = &q->value[q->at[n->in[k]]];
		low = fmin(low, v->low);
		high = fmax(high, v->high);
		least = fmin(least, v->high - v->low);
	}
	return least * LOST_RANGE >= high - low;
}

void qdq_join(struct qdq *q)
{
	for (int i = 0; i < q->nvalues; i++) {
		const struct node *n = mover_of(q, i);
		if (!n || !is(n, "Concat"))
			continue;
		bool known = true;
		for (int k = 0; k < n->nin; k++)
			known &= q->at[n->in[k]] >= 0;
		if (known && ranges_fit(q, n))
			connect(q, i, n, n->nin);
	}
}

/* ---- layers ---- */

/* Limits must be constant to become limits of integers. */
static bool is_limit(const struct graph *g, const struct node *n)
{
	if (is(n, "Relu"))
		return true;
	for (int k = 1; k < n->nin; k++)
		if (n->in[k] >= 0 && !pass_is_f32_constant(g, n->in[k]))
			return false;
	return is(n, "Clip");
}

/* The value behind the Relus and Clips that alone read v. */
static int behind_limits(const struct qdq *q, int v)
{
	for (;;) {
		int i = pass_reader(q->g, q->uses, v);
		if (i < 0 || !is_limit(q->g, &q->g->node[i]))
			return v;
		v = q->g->node[i].out[0];
	}
}

/* Whether v can be a bias of n channels. It becomes a vector, so it must not raise the rank of a sum. */
static bool is_bias(const struct graph *g, int v, int64_t n)
{
	return pass_is_f32_constant(g, v) && shape_of(g, v)->rank == 1 && shape_of(g, v)->d[0] == n;
}

/* Finds an Add of a bias that alone reads a MatMul. */
static void find_add(const struct qdq *q, struct qlayer *l)
{
	int i = pass_reader(q->g, q->uses, q->g->node[l->node].out[0]);
	const struct node *n = i >= 0 ? &q->g->node[i] : NULL;
	for (int k = 0; n && is(n, "Add") && k < 2; k++)
		if (is_bias(q->g, n->in[k], l->n)) {
			l->add = i;
			l->bias = n->in[k];
		}
}

static void view_weights(const struct graph *g, struct qlayer *l)
{
	const struct node *n = &g->node[l->node];
	const struct shape *s = shape_of(g, n->in[1]);
	int64_t count = shape_count(s);
	l->axis = is(n, "Conv") || (is(n, "Gemm") && node_int(n, "transB", 0)) ? 0 : 1;
	l->n = s->d[l->axis];
	l->depth = l->n ? count / l->n : 0;
	l->next = l->axis ? 1 : l->depth;
	l->step = l->axis ? l->n : 1;
}

static const char *bad_weights(const struct graph *g, const struct qlayer *l)
{
	const struct tensor *w = &g->value[g->node[l->node].in[1]].t;
	if (l->depth > MOST_DEPTH)
		return "sums of so many products may leave 32 bits";
	for (int64_t i = 0; i < shape_count(&w->shape); i++)
		if (!(fabsf(((const float *)w->data)[i]) < (float)QDQ_MOST_VALUE))
			return "a weight is NaN, infinite or above 1e18";
	for (int64_t i = 0; l->bias >= 0 && i < l->n; i++)
		if (!(fabsf(((const float *)g->value[l->bias].t.data)[i]) < (float)QDQ_MOST_VALUE))
			return "a bias is NaN, infinite or above 1e18";
	return NULL;
}

/* Says why the form of a node is none that runs as integers; NULL: it does. Sets the layer's bias. */
static const char *bad_form(const struct qdq *q, struct qlayer *l)
{
	const struct node *n = &q->g->node[l->node];
	bool gemm = is(n, "Gemm"), bias = !is(n, "MatMul") && n->nin > 2 && n->in[2] >= 0;
	int rank = shape_of(q->g, n->in[1])->rank;
	if (is(n, "ConvTranspose"))
		return "ConvTranspose has no integer form";
	if (is(n, "Conv") ? rank < 3 : rank != 2)
		return "its weights are no matrix";
	view_weights(q->g, l);
	if (l->n < 1 || l->depth < 1)
		return "it has no weights";
	if (gemm && (node_int(n, "transA", 0) || node_float(n, "alpha", 1) != 1 ||
		     (bias && node_float(n, "beta", 1) != 1)))
		return "transA, alpha and beta have no integer form";
	if (bias && !is_bias(q->g, n->in[2], l->n))
		return "its bias is no constant row";
	l->bias = bias ? n->in[2] : -1;
	if (is(n, "MatMul"))
		find_add(q, l);
	return bad_weights(q->g, l);
}

static bool is_layer(const struct graph *g, const struct node *n)
{
	static const char *const types[] = {"Conv", "ConvTranspose", "Gemm", "MatMul"};
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (!n->dead && is(n, types[i]))
			return can_be_bytes(g, n->in[0]) && pass_is_f32_constant(g, n->in[1]);
	return false;
}

static void add_layer(struct qdq *q, int node)
{
	const struct node *n = &q->g->node[node];
	struct qlayer *l = &q->layer[q->nlayers++];
	*l = (struct qlayer){.name = n->name,
			     .type = node_type(n),
			     .node = node,
			     .add = -1,
			     .bias = -1,
			     .x = -1,
			     .y = -1,
			     .error = NAN};
	l->why = bad_form(q, l);
	if (l->why)
		return;
	l->x = add_value(q, n->in[0]);
	l->y = add_value(q, behind_limits(q, l->add >= 0 ? q->g->node[l->add].out[0] : n->out[0]));
}

const struct node *qdq_node(const struct graph *g)
{
	static const char *const types[] = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear",
					    "QLinearConv",    "QLinearMatMul",    "ConvInteger",
					    "MatMulInteger"};
	for (int i = 0; i < g->nnodes; i++)
		for (size_t k = 0; k < sizeof types / sizeof *types; k++)
			if (!g->node[i].dead && is(&g->node[i], types[k]))
				return &g->node[i];
	return NULL;
}

/* No QuantizeLinear may come upon another. */
static int check_floats(const struct graph *g)
{
	const struct node *n = qdq_node(g);
	return n ? fail(E_USAGE,
			"the model is quantised already: node '%s' is a %s; give the model of floats",
			n->name, node_type(n))
		 : E_OK;
}

static int count_layers(const struct graph *g)
{
	int count = 0;
	for (int i = 0; i < g->nnodes; i++)
		count += is_layer(g, &g->node[i]);
	return count;
}

int qdq_find(struct qdq *q)
{
	struct graph *g = q->g;
	int rc = graph_fold(g);
	if (rc >= 0)
		rc = graph_upgrade(g);
	if (rc >= 0)
		rc = check_floats(g);
	if (rc < 0)
		return rc;
	int count = count_layers(g);
	q->uses = pass_uses(g, q->a);
	q->at = ARENA_ARRAY(q->a, int, g->nvalues + 1);
	q->value = ARENA_ARRAY(q->a, struct qvalue, g->nvalues + 1);
	memset(q->at, -1, sizeof *q->at * (size_t)g->nvalues);
	q->layer = ARENA_ARRAY(q->a, struct qlayer, count + 1);
	for (int i = 0; i < g->nnodes; i++)
		if (is_layer(g, &g->node[i]))
			add_layer(q, i);
	for (int i = 0; i < q->nvalues; i++)
		add_sources(q, i);
	return count
		   ? E_OK
		   : fail(E_USAGE, "the model has no Conv, Gemm or MatMul with constant weights: nothing to "
				   "quantise");
}

/* ---- selections ---- */

void qdq_select_none(const struct qdq *q, struct arena *a, struct qselection *s)
{
	s->value = ARENA_ARRAY(a, bool, q->nvalues + 1);
	s->weights = ARENA_ARRAY(a, bool, q->nlayers + 1);
}

/* Selects what elements are moved from to selected values; returns whether there was more to select. */
static bool select_sources(const struct qdq *q, struct qselection *s)
{
	bool more = false;
	for (int i = 0; i < q->nvalues; i++)
		for (int k = 0; k < q->value[i].nfrom && s->value[i]; k++) {
			more |= !s->value[q->value[i].from[k]];
			s->value[q->value[i].from[k]] = true;
		}
	return more;
}

void qdq_select(const struct qdq *q, struct arena *a, struct qselection *s)
{
	qdq_select_none(q, a, s);
	for (int i = 0; i < q->nlayers; i++) {
		const struct qlayer *l = &q->layer[i];
		if (l->why)
			continue;
		s->weights[i] = s->value[l->x] = s->value[l->y] = true;
	}
	while (select_sources(q, s))
		;
}
