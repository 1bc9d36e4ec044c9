/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/graph/graph.h"

/* Passes change a node's inputs and outputs in place. */
static void own_lists(struct graph *g, struct node *n)
{
	n->in = arena_memdup(&g->arena, n->in, sizeof *n->in * (size_t)n->nin);
	n->out = arena_memdup(&g->arena, n->out, sizeof *n->out * (size_t)n->nout);
	n->attr = arena_memdup(&g->arena, n->attr, sizeof *n->attr * (size_t)n->nattr);
}

struct graph *graph_copy(const struct graph *from)
{
	struct arena own = {0};
	struct graph *g = ARENA_NEW(&own, struct graph);
	*g = *from;
	g->arena = own;
	g->costs = NULL;
	g->node = arena_memdup(&g->arena, from->node, sizeof *g->node * (size_t)from->nnodes);
	g->value = arena_memdup(&g->arena, from->value, sizeof *g->value * (size_t)from->nvalues);
	g->cap_nodes = g->nnodes;
	g->cap_values = g->nvalues;
	for (int i = 0; i < g->nnodes; i++)
		own_lists(g, &g->node[i]);
	g->input = arena_memdup(&g->arena, from->input, sizeof *g->input * (size_t)from->ninputs);
	g->output = arena_memdup(&g->arena, from->output, sizeof *g->output * (size_t)from->noutputs);
	return g;
}
