/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces (x - mean) / sqrt(mean((x - mean)^2) + epsilon) * scale + shift over the last dim, which exporters
 * wrote as single nodes before opset 17, by one LayerNormalization. */
#include "kernels/graph/pass.h"

#include <string.h>

static const struct node *maker(const struct graph *g, int v, const char *type)
{
	int i = v < 0 ? -1 : g->value[v].producer;
	return i >= 0 && !g->node[i].dead && !strcmp(node_type(&g->node[i]), type) ? &g->node[i] : NULL;
}

/* If v is the mean over the last dim, and keeps that dim, returns its input; -1: another node. */
static int mean_of(const struct graph *g, int v)
{
	const struct node *n = maker(g, v, "ReduceMean");
	if (!n || !node_int(n, "keepdims", 1) || g->value[n->in[0]].t.dtype != DT_F32)
		return -1;
	const struct attr *a = node_attr(n, "axes");
	const struct tensor *t = n->nin > 1 && n->in[1] >= 0 ? &g->value[n->in[1]].t : NULL;
	int rank = g->value[n->in[0]].t.shape.rank;
	if (t ? !t->data || shape_count(&t->shape) != 1 : !a || a->n != 1)
		return -1;
	int64_t axis = t ? tensor_get_i64(t, 0) : a->ints[0];
	return axis == -1 || axis == rank - 1 ? n->in[0] : -1;
}

/* Reads a constant with one element. */
static bool number(const struct graph *g, int v, float *out)
{
	if (!pass_is_f32_constant(g, v) || shape_count(&g->value[v].t.shape) != 1)
		return false;
	*out = *(const float *)g->value[v].t.data;
	return true;
}

/* If v = d * d, returns d; -1: another node. */
static int square_of(const struct graph *g, int v)
{
	const struct node *pow = maker(g, v, "Pow"), *mul = maker(g, v, "Mul");
	float two;
	if (mul)
		return mul->in[0] == mul->in[1] ? mul->in[0] : -1;
	return pow && number(g, pow->in[1], &two) && two == 2 ? pow->in[0] : -1;
}

/* If the Div normalises some x, returns x; -1: another node. */
static int normalized(const struct graph *g, const struct node *div, float *epsilon)
{
	const struct node *sub = maker(g, div->in[0], "Sub"), *root = maker(g, div->in[1], "Sqrt");
	const struct node *add = root ? maker(g, root->in[0], "Add") : NULL;
	if (!sub || !add)
		return -1;
	int other = number(g, add->in[1], epsilon) ? 0 : 1;
	if (other && !number(g, add->in[0], epsilon))
		return -1;
	int squares = mean_of(g, add->in[other]), d = squares < 0 ? -1 : square_of(g, squares);
	/* some exporters compute the difference twice */
	const struct node *same = d < 0 ? NULL : maker(g, d, "Sub");
	bool good = same && same->in[0] == sub->in[0] && same->in[1] == sub->in[1];
	good = good && mean_of(g, sub->in[1]) == sub->in[0];
	return good && shape_equal(&g->value[sub->in[0]].t.shape, &g->value[div->out[0]].t.shape) ? sub->in[0]
												  : -1;
}

/* Returns the only reader of v, if it has this type and a constant with one element per element of the last
 * dim, which goes to *other; -1: another node. */
static int affine(const struct graph *g, const int *uses, int v, const char *type, int *other)
{
	int i = pass_reader(g, uses, v);
	if (i < 0 || strcmp(node_type(&g->node[i]), type) || g->node[i].in[0] == g->node[i].in[1])
		return -1;
	const struct shape *x = &g->value[v].t.shape;
	*other = g->node[i].in[g->node[i].in[0] == v];
	if (!pass_is_f32_constant(g, *other))
		return -1;
	const struct shape *c = &g->value[*other].t.shape;
	int64_t n = x->d[x->rank - 1];
	return c->rank == 1 && c->d[0] == n ? i : -1;
}

static int ones(struct graph *g, const char *name, int64_t n)
{
	float *data;
	int v = pass_constant(g, name, &(struct shape){.rank = 1, .d = {n}}, &data);
	for (int64_t i = 0; i < n && v >= 0; i++)
		data[i] = 1;
	return v;
}

static int rewrite(struct graph *g, const int *uses, int div, int x, float epsilon)
{
	const struct shape *s = &g->value[x].t.shape;
	int in[3] = {x, -1, -1}, y = g->node[div].out[0], last = div;
	int mul = affine(g, uses, y, "Mul", &in[1]);
	if (mul >= 0) {
		y = g->node[last = mul].out[0];
		int add = affine(g, uses, y, "Add", &in[2]);
		if (add >= 0)
			y = g->node[last = add].out[0];
		else
			in[2] = -1;
		g->node[mul].dead = true;
	} else if ((in[1] = ones(g, g->node[div].name, s->d[s->rank - 1])) < 0) {
		return in[1];
	}
	struct attr attr[] = {{.name = "axis", .kind = ATTR_INT, .i = -1},
			      {.name = "epsilon", .kind = ATTR_FLOAT, .f = epsilon}};
	g->node[div].dead = g->node[last].dead = true;
	int rc = graph_add_node(g, "LayerNormalization", g->node[div].name, 17, in[2] < 0 ? 2 : 3, in, 1, &y,
				2, attr);
	return rc < 0 ? rc : 1;
}

int pass_norm(struct graph *g, struct arena *scratch)
{
	int *uses = pass_uses(g, scratch), n = g->nnodes, done = 0;
	for (int i = 0; i < n; i++) {
		float epsilon;
		const struct node *div = &g->node[i];
		if (div->dead || strcmp(node_type(div), "Div"))
			continue;
		int x = normalized(g, div, &epsilon), rc = x < 0 ? 0 : rewrite(g, uses, i, x, epsilon);
		if (rc < 0)
			return rc;
		done += rc;
	}
	return done;
}
