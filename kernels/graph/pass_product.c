/* SPDX-License-Identifier: Apache-2.0 */
/* Moves a number that multiplies the first operand of a MatMul behind the MatMul, where it costs nothing; the
 * operand can then be read in place. */
#include "kernels/graph/pass.h"

#include <math.h>
#include <string.h>

/* Whether sums of products neither overflow nor underflow without this factor. */
static bool mild(double factor)
{
	return fabs(factor) > 1e-4 && fabs(factor) < 1e4;
}

/* The constant factor of the Mul that makes v, if v has only one reader; -1: none. *x: the value that it
 * multiplies. */
static int factor(const struct graph *g, const int *uses, int v, int *x)
{
	int i = v < 0 || uses[v] != 1 ? -1 : g->value[v].producer;
	if (i < 0 || g->node[i].dead || strcmp(node_type(&g->node[i]), "Mul"))
		return -1;
	for (int k = 0; k < 2; k++) {
		int c = g->node[i].in[k], other = g->node[i].in[!k];
		if (pass_is_f32_constant(g, c) && shape_count(&g->value[c].t.shape) == 1 &&
		    mild(tensor_get(&g->value[c].t, 0)) && !g->value[other].t.data &&
		    shape_equal(&g->value[other].t.shape, &g->value[v].t.shape)) {
			*x = other;
			return c;
		}
	}
	return -1;
}

static int delay(struct graph *g, int i, int x, int number)
{
	int y = g->node[i].out[0], raw = graph_add_value(g, g->node[i].name);
	if (raw < 0)
		return raw;
	g->value[raw].t = (struct tensor){.dtype = DT_F32, .shape = g->value[y].t.shape};
	g->value[raw].producer = i;
	g->node[i].in[0] = x;
	g->node[i].out[0] = raw;
	int rc = graph_add_node(g, "Mul", g->node[i].name, g->node[i].opset, 2, (int[]){raw, number}, 1, &y,
				0, NULL);
	return rc < 0 ? rc : 1;
}

int pass_product(struct graph *g, struct arena *scratch)
{
	int *uses = pass_uses(g, scratch), n = g->nnodes, done = 0;
	for (int i = 0; i < n; i++) {
		const struct node *m = &g->node[i];
		int x = -1,
		    number = m->dead || strcmp(node_type(m), "MatMul") ? -1 : factor(g, uses, m->in[0], &x);
		if (number < 0 || g->value[m->in[1]].t.data || g->value[m->out[0]].t.shape.rank < 1)
			continue;
		int rc = delay(g, i, x, number);
		if (rc < 0)
			return rc;
		done += rc;
	}
	return done;
}
