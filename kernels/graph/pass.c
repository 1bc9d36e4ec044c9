/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/graph/pass.h"
#include "kernels/graph/eval.h"

#include <string.h>

int *pass_uses(const struct graph *g, struct arena *a)
{
	int *uses = ARENA_ARRAY(a, int, g->nvalues + 1);
	for (int i = 0; i < g->nnodes; i++) {
		const struct node *n = &g->node[i];
		for (int k = 0; k < n->nin && !n->dead; k++)
			if (n->in[k] >= 0)
				uses[n->in[k]]++;
	}
	for (int i = 0; i < g->noutputs; i++)
		uses[g->output[i]]++;
	return uses;
}

static bool node_reads(const struct node *n, int v)
{
	for (int k = 0; k < n->nin; k++)
		if (n->in[k] == v)
			return true;
	return false;
}

int pass_reader(const struct graph *g, const int *uses, int v)
{
	if (uses[v] != 1 || g->value[v].is_output)
		return -1;
	for (int i = 0; i < g->nnodes; i++)
		if (!g->node[i].dead && node_reads(&g->node[i], v))
			return i;
	return -1;
}

void pass_replace(struct graph *g, int from, int to)
{
	for (int i = 0; i < g->nnodes; i++)
		for (int k = 0; k < g->node[i].nin; k++)
			if (g->node[i].in[k] == from)
				g->node[i].in[k] = to;
}

bool pass_is_f32_constant(const struct graph *g, int v)
{
	return v >= 0 && g->value[v].t.data && g->value[v].t.dtype == DT_F32;
}

bool pass_all(const struct attr *a, int64_t value)
{
	for (int i = 0; a && i < a->n; i++)
		if (a->ints[i] != value)
			return false;
	return true;
}

bool pass_is_pointwise(const struct graph *g, const struct node *n)
{
	if (n->dead || strcmp(node_type(n), "Conv") != 0 || node_int(n, "group", 1) != 1 ||
	    strcmp(node_str(n, "auto_pad", "NOTSET"), "NOTSET") != 0 || !pass_all(node_attr(n, "pads"), 0))
		return false;
	const struct tensor *x = &g->value[n->in[0]].t, *w = &g->value[n->in[1]].t;
	return x->dtype == DT_F32 && !x->data && x->shape.rank == 4 && w->shape.rank == 4 &&
	       w->shape.d[2] == 1 && w->shape.d[3] == 1;
}

static bool is_name(const struct graph *g, const char *name)
{
	bool is = false;
	for (int i = 0; i < g->nnodes && !is; i++)
		is = !strcmp(g->node[i].name, name);
	for (int i = 0; i < g->nvalues && !is; i++)
		is = !strcmp(g->value[i].name, name);
	return is;
}

const char *pass_name(struct graph *g, const char *name, const char *suffix)
{
	const char *own = arena_printf(&g->arena, "%s_%s", name, suffix);
	for (int n = g->nnodes + g->nvalues; is_name(g, own); n++)
		own = arena_printf(&g->arena, "%s_%s.%d", name, suffix, n);
	return own;
}

int pass_constant(struct graph *g, const char *name, const struct shape *s, float **data)
{
	int v = graph_add_value(g, name);
	if (v < 0)
		return v;
	int rc = tensor_alloc(&g->arena, DT_F32, s, &g->value[v].t);
	*data = g->value[v].t.data;
	return rc < 0 ? rc : v;
}

int pass_add(struct graph *g, const char *type, const char *name, int opset, int nin, const int *in,
	     int nattr, const struct attr *attr)
{
	struct buf lines = {0};
	struct infer s = {.lines = &lines};
	int out = graph_add_value(g, name);
	int rc = out < 0 ? out : graph_add_node(g, type, name, opset, nin, in, 1, &out, nattr, attr);
	if (rc >= 0 && (rc = graph_infer_node(g, rc, &s)) == 0)
		rc = fail(s.worst, "%s", buf_str(&lines));
	arena_free(&s.scratch);
	buf_free(&lines);
	return rc < 0 ? rc : out;
}
