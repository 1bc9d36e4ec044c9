/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/indices.h"
#include "kernels/graph/shapes.h"
#include <string.h>

static bool is_one_of(const char *const *types, const char *type)
{
	while (*types && strcmp(*types, type))
		types++;
	return *types;
}

/* The number of the input whose elements, perhaps in another order, are those of the value; -1: none. */
static int input_of(const struct graph *g, int value)
{
	static const char *const moves[] = {"Cast",    "Reshape",   "Unsqueeze", "Squeeze",
					    "Flatten", "Transpose", "Identity",  NULL};
	const struct node *n;
	for (int steps = 0; value >= 0 && g->value[value].producer >= 0; steps++) {
		n = &g->node[g->value[value].producer];
		if (steps > g->nnodes || !n->nin || !is_one_of(moves, node_type(n)))
			return -1;
		value = n->in[0];
	}
	for (int i = 0; i < g->ninputs; i++)
		if (g->input[i] == value)
			return i;
	return -1;
}

/* Number of the places that an index of the node chooses from; 0: the node has no such indices. */
static int64_t extent_of(const struct graph *g, const struct node *n)
{
	static const char *const types[] = {"Gather", "GatherElements", "ScatterElements", NULL};
	if (n->dead || n->nin < 2 || n->in[0] < 0 || !is_one_of(types, node_type(n)))
		return 0;
	const struct shape *s = &g->value[n->in[0]].t.shape;
	int64_t axis = node_int(n, "axis", 0);
	axis += axis < 0 ? s->rank : 0;
	return axis >= 0 && axis < s->rank ? s->d[axis] : 0;
}

static int refuse(const struct graph *g, const struct node *n, int input, const struct tensor *t,
		  int64_t extent)
{
	for (int64_t i = 0; i < shape_count(&t->shape); i++) {
		int64_t v = tensor_get_i64(t, i);
		if (v < -extent || v >= extent)
			return fail(
			    E_USAGE,
			    "input '%.200s': its element %lld is %lld, but %lld to %lld are possible: node "
			    "'%.200s' (%s) takes them as indices into %lld places",
			    g->value[g->input[input]].name, (long long)i, (long long)v, (long long)-extent,
			    (long long)extent - 1, n->name, node_type(n), (long long)extent);
	}
	return E_OK;
}

int indices_explain(const struct graph *g, const struct tensor *in, int rc)
{
	int why = E_OK;
	for (int i = 0; i < g->nnodes && rc < 0 && why >= 0; i++) {
		int64_t extent = extent_of(g, &g->node[i]);
		int input = extent ? input_of(g, g->node[i].in[1]) : -1;
		if (input >= 0 && dtype_in(in[input].dtype, DTYPES_INDEX) && in[input].data)
			why = refuse(g, &g->node[i], input, &in[input], extent);
	}
	return why < 0 ? why : rc;
}
