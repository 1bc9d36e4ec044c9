/* SPDX-License-Identifier: Apache-2.0 */
/* Puts QuantizeLinear and DequantizeLinear into a graph. Parameters are constants of their own
 * for each place, as ONNX Runtime's quantiser makes them, and so are the weights of layers that share some.
 */
#include "kernels/qdq/qdq.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *name_of(struct graph *g, const char *stem, const char *end)
{
	return arena_printf(&g->arena, "%.200s_%s", stem, end);
}

/* Adds QuantizeLinear or DequantizeLinear of `from` to the new value, or to `to` if that is one (>= 0). */
static int add_linear(struct graph *g, const char *type, const char *name, const int in[3], int axis, int to,
		      enum dtype t, const struct shape *s, int opset)
{
	const struct attr attr = {.name = "axis", .kind = ATTR_INT, .i = axis};
	int v = to >= 0 ? to : graph_add_value(g, name);
	if (v < 0)
		return v;
	int rc = graph_add_node(g, type, name, opset, in[2] < 0 ? 2 : 3, in, 1, &v, axis >= 0, &attr);
	if (rc < 0)
		return rc;
	g->value[v].t = (struct tensor){t, *s, NULL};
	return v;
}

static int opset_of(const struct qdq *q)
{
	return q->g->node[q->layer[0].node].opset;
}

/* Quantises `from`, and dequantises it to value `to`, a new one if -1. */
static int add_pair(const struct qdq *q, struct graph *g, int from, int to, const struct qvalue *v)
{
	const struct qgroup *p = &q->group[v->group];
	const struct value *x = &q->g->value[v->value];
	const struct shape one = {0}, shape = x->t.shape;
	const char *name = x->name;
	int scale = graph_add_constant(g, name_of(g, name, "scale"), DT_F32, &one, &p->scale);
	int zero = graph_add_constant(g, name_of(g, name, "zero_point"), DT_U8, &one, &p->zero);
	if (scale < 0 || zero < 0)
		return E_NOMEM;
	int bytes = add_linear(g, "QuantizeLinear", name_of(g, name, "QuantizeLinear"),
			       (int[]){from, scale, zero}, -1, -1, DT_U8, &shape, opset_of(q));
	return bytes < 0 ? bytes
			 : add_linear(g, "DequantizeLinear", name_of(g, name, "DequantizeLinear"),
				      (int[]){bytes, scale, zero}, -1, to, DT_F32, &shape, opset_of(q));
}

int qdq_add_pair(const struct qdq *q, struct graph *g, int from, const struct qvalue *v)
{
	return add_pair(q, g, from, -1, v);
}

int qdq_add_weights(const struct qdq *q, struct graph *g, const struct qlayer *l)
{
	const struct value w = q->g->value[q->g->node[l->node].in[1]];
	const struct shape row = {1, {l->n}}, shape = w.t.shape;
	int8_t *none = ARENA_ARRAY(&g->arena, int8_t, l->n);
	int bytes = graph_add_constant(g, name_of(g, w.name, "quantized"), DT_I8, &shape, l->weight);
	int scale = graph_add_constant(g, name_of(g, w.name, "scale"), DT_F32, &row, l->scale);
	int zero = graph_add_constant(g, name_of(g, w.name, "zero_point"), DT_I8, &row, none);
	if (bytes < 0 || scale < 0 || zero < 0)
		return E_NOMEM;
	return add_linear(g, "DequantizeLinear", name_of(g, w.name, "DequantizeLinear"),
			  (int[]){bytes, scale, zero}, l->axis, -1, DT_F32, &shape, opset_of(q));
}

/* ---- bias ---- */

static double bias_at(const struct qdq *q, const struct qlayer *l, int64_t k)
{
	return qdq_bias(q, l, k) + l->shift[k];
}

/* Whether the layer has a bias, or needs one because of its correction. */
static bool wants_bias(const struct qdq *q, const struct qlayer *l)
{
	bool any = l->bias >= 0;
	for (int64_t k = 0; k < l->n && !any; k++)
		any = l->shift[k] != 0;
	return any && (l->bias >= 0 || strcmp(node_type(&q->g->node[l->node]), "MatMul") != 0);
}

static const char *bias_name(const struct qdq *q, const struct qlayer *l, struct graph *g)
{
	return l->bias >= 0 ? q->g->value[l->bias].name : name_of(g, q->g->node[l->node].name, "bias");
}

static int add_float_bias(const struct qdq *q, struct graph *g, const struct qlayer *l)
{
	float *b = ARENA_ARRAY(&g->arena, float, l->n);
	for (int64_t k = 0; k < l->n; k++)
		b[k] = (float)bias_at(q, l, k);
	return graph_add_constant(g, name_of(g, bias_name(q, l, g), "corrected"), DT_F32,
				  &(struct shape){1, {l->n}}, b);
}

static int add_int_bias(const struct qdq *q, struct graph *g, const struct qlayer *l)
{
	const struct shape row = {1, {l->n}};
	const char *name = bias_name(q, l, g);
	int32_t *b = ARENA_ARRAY(&g->arena, int32_t, l->n);
	float *step = ARENA_ARRAY(&g->arena, float, l->n);
	for (int64_t k = 0; k < l->n; k++) {
		step[k] = qdq_bias_step(q, l, k);
		b[k] = (int32_t)fmax(-INT32_MAX, fmin(INT32_MAX, rint(bias_at(q, l, k) / (double)step[k])));
	}
	int bytes = graph_add_constant(g, name_of(g, name, "quantized"), DT_I32, &row, b);
	int scale = graph_add_constant(g, name_of(g, name, "scale"), DT_F32, &row, step);
	if (bytes < 0 || scale < 0)
		return E_NOMEM;
	return add_linear(g, "DequantizeLinear", name_of(g, name, "DequantizeLinear"),
			  (int[]){bytes, scale, -1}, 0, -1, DT_F32, &row, opset_of(q));
}

static int set_input(struct graph *g, struct node *n, int k, int v)
{
	int *in = arena_try(&g->arena, (size_t)n->nin + 3, sizeof *in);
	if (!in)
		return E_NOMEM;
	memcpy(in, n->in, sizeof *in * (size_t)n->nin);
	for (; n->nin <= k; n->nin++)
		in[n->nin] = -1;
	in[k] = v;
	n->in = in;
	return E_OK;
}

/* integer: the layer's input is quantised, too. */
static int rewrite_layer(const struct qdq *q, struct graph *g, const struct qlayer *l, bool integer)
{
	int w = qdq_add_weights(q, g, l);
	int rc = w < 0 ? w : set_input(g, &g->node[l->node], 1, w);
	if (rc < 0 || !wants_bias(q, l))
		return rc;
	int b = integer ? add_int_bias(q, g, l) : add_float_bias(q, g, l);
	if (b < 0)
		return b;
	if (l->add < 0)
		return set_input(g, &g->node[l->node], 2, b);
	struct node *add = &g->node[l->add];
	return set_input(g, add, add->in[0] == l->bias ? 0 : 1, b);
}

/* ---- values ---- */

/* Whether a layer that is not to stay fp32 writes the value. */
static bool is_written(const struct qdq *q, int i)
{
	for (int k = 0; k < q->nlayers; k++)
		if (!q->layer[k].why && q->layer[k].y == i)
			return true;
	return false;
}

/* Lets the nodes that read v read `to` instead, but for the last `but` of them. */
static void read_instead(struct graph *g, int v, int to, int but)
{
	for (int i = 0; i < g->nnodes - but; i++)
		for (int k = 0; k < g->node[i].nin; k++)
			if (g->node[i].in[k] == v)
				g->node[i].in[k] = to;
}

/* Quantises a value where it is read. An output of the graph stays what it is. */
static int rewrite_reads(const struct qdq *q, struct graph *g, const struct qvalue *v)
{
	int to = add_pair(q, g, v->value, -1, v);
	if (to >= 0)
		read_instead(g, v->value, to, 2);
	return to;
}

/* Quantises a value where it is written: its name becomes that of the dequantised one. */
static int rewrite_write(const struct qdq *q, struct graph *g, const struct qvalue *v)
{
	int producer = g->value[v->value].producer;
	int from = graph_add_value(g, name_of(g, g->value[v->value].name, "float"));
	if (from < 0)
		return from;
	g->value[from].t = g->value[v->value].t;
	g->value[from].producer = producer;
	for (int k = 0; k < g->node[producer].nout; k++)
		if (g->node[producer].out[k] == v->value)
			g->node[producer].out[k] = from;
	return add_pair(q, g, from, v->value, v);
}

static int rewrite_value(const struct qdq *q, struct graph *g, int i)
{
	const struct qvalue *v = &q->value[i];
	const struct value *x = &q->g->value[v->value];
	bool write = x->producer >= 0 && (!x->is_output || is_written(q, i));
	return write ? rewrite_write(q, g, v) : rewrite_reads(q, g, v);
}

int qdq_rewrite(const struct qdq *q, const struct qselection *s, struct graph *g)
{
	int rc = E_OK;
	for (int i = 0; i < q->nlayers && rc >= 0; i++)
		if (s->weights[i])
			rc = rewrite_layer(q, g, &q->layer[i], s->value[q->layer[i].x]);
	for (int i = 0; i < q->nvalues && rc >= 0; i++)
		if (s->value[i])
			rc = rewrite_value(q, g, i);
	if (rc >= 0)
		rc = graph_sort(g);
	return rc < 0 ? rc : E_OK;
}
