/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/graph/graph.h"

#include "kernels/graph/op.h"

static bool is_value(const struct graph *g, int v)
{
	return v >= 0 && v < g->nvalues;
}

static bool writes(const struct node *n, int v)
{
	for (int k = 0; k < n->nout; k++)
		if (n->out[k] == v)
			return true;
	return false;
}

/* Checks that a value is an input, a constant, or the output of a live node before node `before`. */
static int check_defined(const struct graph *g, int v, int before, const char *reader)
{
	if (!is_value(g, v))
		return fail(E_CORRUPT, "%s reads value %d of %d", reader, v, g->nvalues);
	const struct value *x = &g->value[v];
	if (x->is_input || x->t.data)
		return E_OK;
	if (x->producer < 0 || x->producer >= g->nnodes || g->node[x->producer].dead)
		return fail(E_CORRUPT, "%s reads '%s', which no node computes", reader, x->name);
	if (!writes(&g->node[x->producer], v))
		return fail(E_CORRUPT, "'%s' is not an output of its producer '%s'", x->name,
			    g->node[x->producer].name);
	if (x->producer >= before)
		return fail(E_CORRUPT, "%s reads '%s' before it is computed", reader, x->name);
	return E_OK;
}

static int check_outputs(const struct graph *g, int i)
{
	const struct node *n = &g->node[i];
	for (int k = 0; k < n->nout; k++) {
		if (n->out[k] == -1)
			continue;
		if (!is_value(g, n->out[k]))
			return fail(E_CORRUPT, "'%s' writes value %d of %d", n->name, n->out[k], g->nvalues);
		if (g->value[n->out[k]].producer != i && !g->value[n->out[k]].t.data)
			return fail(E_CORRUPT, "'%s' writes '%s', which has another producer", n->name,
				    g->value[n->out[k]].name);
	}
	return E_OK;
}

int graph_check(const struct graph *g, bool ordered)
{
	for (int i = 0, rc; i < g->nnodes; i++) {
		const struct node *n = &g->node[i];
		if (n->dead)
			continue;
		if ((rc = check_outputs(g, i)) < 0)
			return rc;
		for (int k = 0; k < n->nin; k++)
			if (n->in[k] != -1 &&
			    (rc = check_defined(g, n->in[k], ordered ? i : g->nnodes, n->name)) < 0)
				return rc;
	}
	for (int i = 0, rc; i < g->noutputs; i++)
		if ((rc = check_defined(g, g->output[i], g->nnodes, "the graph's output")) < 0)
			return rc;
	return E_OK;
}
