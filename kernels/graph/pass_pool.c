/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces a MaxPool with a large window by one over rows and one over columns: 13 + 13 comparisons instead
 * of 169. */
#include "kernels/graph/pass.h"

#include <string.h>

enum { MIN_TAPS = 16 };

/* A window in two dims; the arrays are in ONNX order. */
struct pool {
	int64_t kernel[2], strides[2], pads[4], dilations[2];
};

static bool read_ints(const struct node *n, const char *name, int count, int64_t fallback, int64_t *out)
{
	const struct attr *a = node_attr(n, name);
	if (a && a->n != count)
		return false;
	for (int i = 0; i < count; i++)
		out[i] = a ? a->ints[i] : fallback;
	return true;
}

static bool read_pool(const struct graph *g, const struct node *n, const int *uses, struct pool *p)
{
	bool indexes = n->nout > 1 && n->out[1] >= 0 && uses[n->out[1]];
	if (strcmp(node_type(n), "MaxPool") != 0 || indexes || node_int(n, "ceil_mode", 0) ||
	    strcmp(node_str(n, "auto_pad", "NOTSET"), "NOTSET") != 0 ||
	    g->value[n->in[0]].t.dtype != DT_F32 || g->value[n->in[0]].t.shape.rank != 4)
		return false;
	return node_attr(n, "kernel_shape") && read_ints(n, "kernel_shape", 2, 1, p->kernel) &&
	       read_ints(n, "strides", 2, 1, p->strides) && read_ints(n, "pads", 4, 0, p->pads) &&
	       read_ints(n, "dilations", 2, 1, p->dilations) && p->kernel[0] > 1 && p->kernel[1] > 1 &&
	       p->kernel[0] * p->kernel[1] >= MIN_TAPS &&
	       2 * (p->kernel[0] * p->strides[1] + p->kernel[1]) <= p->kernel[0] * p->kernel[1];
}

/* The attributes of the window along dim d only, in the graph's arena. */
static struct attr *along(struct graph *g, const struct pool *p, int d)
{
	struct pool *one = arena_try(&g->arena, 1, sizeof *one);
	struct attr *a = arena_try(&g->arena, 4, sizeof *a);
	if (!one || !a)
		return NULL;
	*one = (struct pool){{1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}};
	one->kernel[d] = p->kernel[d];
	one->strides[d] = p->strides[d];
	one->dilations[d] = p->dilations[d];
	one->pads[d] = p->pads[d];
	one->pads[2 + d] = p->pads[2 + d];
	a[0] = (struct attr){.name = "kernel_shape", .kind = ATTR_INTS, .n = 2, .ints = one->kernel};
	a[1] = (struct attr){.name = "strides", .kind = ATTR_INTS, .n = 2, .ints = one->strides};
	a[2] = (struct attr){.name = "pads", .kind = ATTR_INTS, .n = 4, .ints = one->pads};
	a[3] = (struct attr){.name = "dilations", .kind = ATTR_INTS, .n = 2, .ints = one->dilations};
	return a;
}

static int split(struct graph *g, int i, const struct pool *p)
{
	int x = g->node[i].in[0], opset = g->node[i].opset, rows = graph_add_value(g, g->node[i].name);
	struct attr *first = along(g, p, 0), *second = along(g, p, 1);
	if (rows < 0)
		return rows;
	if (!first || !second)
		return fail(E_NOMEM, "no memory for the attributes of a pooling");
	g->value[rows].t = (struct tensor){.dtype = DT_F32, .shape = g->value[x].t.shape};
	g->value[rows].t.shape.d[2] = g->value[g->node[i].out[0]].t.shape.d[2];
	int rc = graph_add_node(g, "MaxPool", g->node[i].name, opset, 1, &x, 1, &rows, 4, first);
	if (rc < 0)
		return rc;
	g->node[i].in[0] = rows;
	g->node[i].attr = second;
	g->node[i].nattr = 4;
	return 1;
}

int pass_pool(struct graph *g, struct arena *scratch)
{
	int *uses = pass_uses(g, scratch), n = g->nnodes, done = 0;
	for (int i = 0; i < n; i++) {
		struct pool p;
		if (g->node[i].dead || !read_pool(g, &g->node[i], uses, &p))
			continue;
		int rc = split(g, i, &p);
		if (rc < 0)
			return rc;
		done += rc;
	}
	return done;
}
