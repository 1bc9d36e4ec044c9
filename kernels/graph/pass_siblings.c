/* SPDX-License-Identifier: Apache-2.0 */
/* Merges 1x1 convolutions of one value with a few filters each, as in detection heads, into one convolution
 * and Slices of its output: together they fill vectors that each alone would leave partly empty, and they
 * read the value once. */
#include "kernels/graph/pass.h"

#include <string.h>

enum { FEW = 16 /* filters: less than a vector of the widest machines */, MAX_SIBLINGS = 8 };

static bool narrow(const struct graph *g, const struct node *n)
{
	return pass_is_pointwise(g, n) && pass_all(node_attr(n, "strides"), 1) &&
	       g->value[n->in[1]].t.shape.d[0] < FEW && pass_is_f32_constant(g, n->in[1]) &&
	       (n->nin < 3 || n->in[2] < 0 || pass_is_f32_constant(g, n->in[2]));
}

/* Whether a convolution reads the output, so that no elementwise node is lost that would have been fused into
 * the store. */
static bool feeds_convolution(const struct graph *g, const int *uses, const struct node *n)
{
	int reader = pass_reader(g, uses, n->out[0]);
	return reader >= 0 && !strcmp(node_type(&g->node[reader]), "Conv");
}

/* Finds the siblings of node i from i on, i included, among the first `nodes` nodes (`uses` covers only their
 * values); returns their number. */
static int siblings(const struct graph *g, const int *uses, int i, int nodes, int *of)
{
	int n = 0;
	if (!narrow(g, &g->node[i]) || !feeds_convolution(g, uses, &g->node[i]))
		return 0;
	for (int j = i; j < nodes && n < MAX_SIBLINGS; j++)
		if (narrow(g, &g->node[j]) && g->node[j].in[0] == g->node[i].in[0] &&
		    feeds_convolution(g, uses, &g->node[j]))
			of[n++] = j;
	return n;
}

/* Concatenates filters and biases. */
static int joined(struct graph *g, const int *of, int n, int64_t all, int in[2])
{
	const struct shape *first = &g->value[g->node[of[0]].in[1]].t.shape;
	int64_t channels = first->d[1], done = 0;
	float *w, *b;
	in[0] = pass_constant(g, "filters", &(struct shape){4, {all, channels, 1, 1}}, &w);
	if (in[0] < 0)
		return in[0];
	in[1] = pass_constant(g, "biases", &(struct shape){1, {all}}, &b);
	for (int i = 0; i < n && in[1] >= 0; i++) {
		const struct node *c = &g->node[of[i]];
		int64_t k = g->value[c->in[1]].t.shape.d[0];
		memcpy(w + done * channels, g->value[c->in[1]].t.data, (size_t)(k * channels) * sizeof *w);
		if (c->nin > 2 && c->in[2] >= 0)
			memcpy(b + done, g->value[c->in[2]].t.data, (size_t)k * sizeof *b);
		done += k;
	}
	return in[1] < 0 ? in[1] : E_OK;
}

/* Makes value y from channels [from, to) of value x. */
static int slice(struct graph *g, const char *name, int x, int64_t from, int64_t to, int y)
{
	static const int64_t axis = 1;
	const struct attr attr[] = {{.name = "axes", .kind = ATTR_INTS, .n = 1, .ints = &axis},
				    {.name = "starts", .kind = ATTR_INTS, .n = 1, .ints = &from},
				    {.name = "ends", .kind = ATTR_INTS, .n = 1, .ints = &to}};
	return graph_add_node(g, "Slice", name, 9, 1, &x, 1, &y, 3, attr);
}

static int join(struct graph *g, const int *of, int n, int64_t all)
{
	int in[3] = {g->node[of[0]].in[0]};
	const char *name = g->node[of[0]].name;
	int rc = joined(g, of, n, all, in + 1), y = graph_add_value(g, name);
	if (rc < 0 || y < 0)
		return rc < 0 ? rc : y;
	g->value[y].t = (struct tensor){.dtype = DT_F32, .shape = g->value[g->node[of[0]].out[0]].t.shape};
	g->value[y].t.shape.d[1] = all;
	rc = graph_add_node(g, "Conv", name, g->node[of[0]].opset, 3, in, 1, &y, 0, NULL);
	int64_t done = 0;
	for (int i = 0; i < n && rc >= 0; i++) {
		int part = g->node[of[i]].out[0];
		int64_t k = g->value[part].t.shape.d[1];
		g->node[of[i]].dead = true;
		rc = slice(g, g->node[of[i]].name, y, done, done + k, part);
		done += k;
	}
	return rc < 0 ? rc : 1;
}

int pass_siblings(struct graph *g, struct arena *scratch)
{
	int *uses = pass_uses(g, scratch), nodes = g->nnodes, done = 0;
	for (int i = 0; i < nodes; i++) {
		int of[MAX_SIBLINGS], n = siblings(g, uses, i, nodes, of);
		int64_t all = 0;
		for (int k = 0; k < n; k++)
			all += g->value[g->node[of[k]].in[1]].t.shape.d[0];
		if (n < 2 || (all + FEW - 1) / FEW >= n)
			continue;
		int rc = join(g, of, n, all);
		if (rc < 0)
			return rc;
		done += rc;
	}
	return done;
}
