/* SPDX-License-Identifier: Apache-2.0 */
/* Transpose of a Concat: transposes the parts instead if they are contiguous in the result, so that the
 * Concat needs no copy. */
#include "kernels/graph/pass.h"

#include <string.h>

/* The dim of the transposed value that `axis` becomes, if all dims before it have one element; -1: they have
 * not. */
static int leading_dim(const struct graph *g, const struct node *t, int axis)
{
	const struct shape *y = &g->value[t->out[0]].t.shape;
	const struct attr *perm = node_attr(t, "perm");
	for (int j = 0; j < y->rank && perm && perm->n == y->rank; j++) {
		if (perm->ints[j] == axis)
			return j;
		if (y->d[j] != 1)
			return -1;
	}
	return -1;
}

static bool parts_known(const struct graph *g, const struct node *n)
{
	for (int i = 0; i < n->nin; i++)
		if (n->in[i] < 0 || g->value[n->in[i]].t.data || g->value[n->in[i]].t.dtype != DT_F32)
			return false;
	return true;
}

/* Adds a Transpose of value x; returns its output. */
static int transposed(struct graph *g, const struct node *t, int x)
{
	const struct attr *perm = node_attr(t, "perm");
	struct attr own = *perm;
	int opset = t->opset, y = graph_add_value(g, g->value[x].name);
	if (y < 0)
		return y;
	struct tensor *to = &g->value[y].t;
	*to = (struct tensor){.dtype = DT_F32, .shape = {.rank = (int)own.n}};
	for (int d = 0; d < own.n; d++)
		to->shape.d[d] = g->value[x].t.shape.d[own.ints[d]];
	int rc = graph_add_node(g, "Transpose", g->value[x].name, opset, 1, &x, 1, &y, 1, &own);
	return rc < 0 ? rc : y;
}

static int swap(struct graph *g, int concat, int transpose, int dim)
{
	struct attr *axis = arena_try(&g->arena, 1, sizeof *axis);
	if (!axis)
		return E_NOMEM;
	*axis = (struct attr){.name = "axis", .kind = ATTR_INT, .i = dim};
	for (int i = 0; i < g->node[concat].nin; i++) {
		int y = transposed(g, &g->node[transpose], g->node[concat].in[i]);
		if (y < 0)
			return y;
		g->node[concat].in[i] = y;
	}
	struct node *n = &g->node[concat];
	n->attr = axis;
	n->nattr = 1;
	n->out[0] = g->node[transpose].out[0];
	g->value[n->out[0]].producer = concat;
	g->node[transpose].dead = true;
	return 1;
}

int pass_concat(struct graph *g, struct arena *scratch)
{
	int *uses = pass_uses(g, scratch), n = g->nnodes, done = 0;
	for (int i = 0; i < n; i++) {
		const struct node *c = &g->node[i];
		if (c->dead || strcmp(node_type(c), "Concat") != 0 || !parts_known(g, c))
			continue;
		int reader = pass_reader(g, uses, c->out[0]), rank = g->value[c->out[0]].t.shape.rank;
		if (reader < 0 || strcmp(node_type(&g->node[reader]), "Transpose") != 0)
			continue;
		int axis = (int)node_int(c, "axis", 1);
		int dim = leading_dim(g, &g->node[reader], axis < 0 ? axis + rank : axis);
		int rc = dim < 0 ? 0 : swap(g, i, reader, dim);
		if (rc < 0)
			return rc;
		done += rc;
	}
	return done;
}
