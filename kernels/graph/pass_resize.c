/* SPDX-License-Identifier: Apache-2.0 */
/* For a 1x1 convolution of a Concat, one of whose parts is an enlarged image: convolves that part before it
 * is enlarged, if it has at most a quarter of the pixels, and adds it to the convolution of the other parts.
 * The products are the same, but each is computed once. */
#include "kernels/graph/pass.h"

#include <string.h>

enum { MAX_JOINED = 16 };

struct joint {
	int concat, part, resize; /* nodes; the index of the part in the Concat */
	int64_t from, channels;   /* channels of the part */
	int rest;                 /* value of the other parts; -1: not made yet */
};

/* Whether the Resize leaves channels alone. A scale near 1 can keep their number and still repeat one of
 * them. */
static bool keeps_channels(const struct graph *g, const struct node *n)
{
	const struct attr *a = node_attr(n, "scales"); /* attribute of old Upsample */
	int scales = n->nin > 2 ? 2 : 1;
	if (a)
		return a->kind == ATTR_FLOATS && a->n == 4 && a->floats[1] == 1;
	if (n->nin > 3 && n->in[3] >= 0 && shape_count(&g->value[n->in[3]].t.shape) > 0)
		return true; /* the node has sizes, which determine the scale */
	if (scales >= n->nin || n->in[scales] < 0)
		return false;
	const struct tensor *t = &g->value[n->in[scales]].t;
	return t->data && shape_count(&t->shape) == 4 && tensor_get(t, 1) == 1;
}

/* Whether the node repeats the pixels of an image at least fourfold. (tf_half_pixel_for_nn may move channels
 * too.) */
static bool enlarges(const struct graph *g, const int *uses, const struct node *n)
{
	if (n->dead || (strcmp(node_type(n), "Resize") != 0 && strcmp(node_type(n), "Upsample") != 0))
		return false;
	const struct tensor *x = &g->value[n->in[0]].t, *y = &g->value[n->out[0]].t;
	const char *where = node_str(n, "coordinate_transformation_mode", "");
	bool plain = !strcmp(node_str(n, "mode", "nearest"), "nearest") && !node_attr(n, "axes") &&
		     !node_attr(n, "keep_aspect_ratio_policy") && strncmp(where, "tf_", 3) != 0 &&
		     keeps_channels(g, n);
	return plain && x->dtype == DT_F32 && !x->data && x->shape.rank == 4 &&
	       x->shape.d[0] == y->shape.d[0] && x->shape.d[1] == y->shape.d[1] && uses[n->out[0]] == 1 &&
	       4 * x->shape.d[2] * x->shape.d[3] <= y->shape.d[2] * y->shape.d[3];
}

/* Whether all readers of v are 1x1 convolutions with stride one and constant filters. */
static bool feeds_pointwise(const struct graph *g, const int *uses, int v)
{
	int readers = 0;
	for (int i = 0; i < g->nnodes; i++) {
		const struct node *n = &g->node[i];
		if (n->dead || n->nin < 2 || n->in[0] != v)
			continue;
		if (!pass_is_pointwise(g, n) || !pass_all(node_attr(n, "strides"), 1) ||
		    !pass_is_f32_constant(g, n->in[1]))
			return false;
		readers++;
	}
	return readers > 0 && readers == uses[v];
}

static bool find(const struct graph *g, const int *uses, int concat, struct joint *out)
{
	const struct node *n = &g->node[concat];
	if (n->dead || strcmp(node_type(n), "Concat") != 0 || g->value[n->out[0]].t.shape.rank != 4 ||
	    n->nin < 2)
		return false;
	int64_t axis = node_int(n, "axis", 1), at = 0;
	*out = (struct joint){.concat = concat, .part = -1, .rest = -1};
	for (int k = 0; k < n->nin; k++) {
		if (n->in[k] < 0 || g->value[n->in[k]].t.data)
			return false;
		int maker = g->value[n->in[k]].producer;
		if (maker >= 0 && out->part < 0 && enlarges(g, uses, &g->node[maker])) {
			out->part = k;
			out->resize = maker;
			out->from = at;
			out->channels = g->value[n->in[k]].t.shape.d[1];
		}
		at += g->value[n->in[k]].t.shape.d[1];
	}
	return (axis == 1 || axis == -3) && out->part >= 0 && feeds_pointwise(g, uses, n->out[0]);
}

/* Adds a value like `like` with another number of channels. */
static int image(struct graph *g, const char *name, int like, int64_t channels)
{
	int v = graph_add_value(g, name);
	if (v < 0)
		return v;
	g->value[v].t = (struct tensor){.dtype = DT_F32, .shape = g->value[like].t.shape};
	g->value[v].t.shape.d[1] = channels;
	return v;
}

/* The Concat of the other parts. */
static int rest_of(struct graph *g, const struct joint *j)
{
	const struct node n = g->node[j->concat];
	int in[MAX_JOINED], count = 0;
	for (int k = 0; k < n.nin; k++)
		if (k != j->part)
			in[count++] = n.in[k];
	if (count == 1)
		return in[0];
	int y = image(g, n.name, n.out[0], g->value[n.out[0]].t.shape.d[1] - j->channels);
	int rc = y < 0 ? y : graph_add_node(g, "Concat", n.name, n.opset, count, in, 1, &y, n.nattr, n.attr);
	return rc < 0 ? rc : y;
}

/* The filters of w for the channels [from, from + count), or with `others` for all other channels. */
static int filters(struct graph *g, int w, int64_t from, int64_t count, bool others)
{
	struct shape s = g->value[w].t.shape;
	int64_t all = s.d[1], kept = 0;
	float *to;
	s.d[1] = others ? all - count : count;
	int v = pass_constant(g, g->value[w].name, &s, &to);
	if (v < 0)
		return v;
	const float *src = g->value[w].t.data;
	for (int64_t i = 0; i < s.d[0] * all; i++)
		if ((i % all >= from && i % all < from + count) != others)
			to[kept++] = src[i];
	return v;
}

/* The sizes input of the Resize with another number of channels; -1: it uses scales. */
static int sizes(struct graph *g, const struct node *n, int64_t channels, int *out)
{
	*out = -1;
	if (n->nin < 4 || n->in[3] < 0)
		return E_OK;
	struct shape four = {1, {4}};
	int rc = *out = graph_add_value(g, g->value[n->in[3]].name);
	if (rc < 0 || (rc = tensor_alloc(&g->arena, DT_I64, &four, &g->value[*out].t)) < 0)
		return rc;
	for (int d = 0; d < 4; d++)
		tensor_set(&g->value[*out].t, d,
			   d == 1 ? (double)channels : (double)g->value[n->out[0]].t.shape.d[d]);
	return E_OK;
}

/* Adds the convolution of the part and its Resize; returns the value. */
static int before(struct graph *g, const struct joint *j, int conv)
{
	const struct node c = g->node[conv], n = g->node[j->resize];
	int64_t k = g->value[c.in[1]].t.shape.d[0];
	int in[2] = {n.in[0], filters(g, c.in[1], j->from, j->channels, false)}, more[4];
	int small = image(g, c.name, n.in[0], k), large = image(g, n.name, n.out[0], k);
	if (in[1] < 0 || small < 0 || large < 0)
		return E_NOMEM;
	int rc = graph_add_node(g, "Conv", c.name, c.opset, 2, in, 1, &small, c.nattr, c.attr);
	memcpy(more, n.in, sizeof *more * (size_t)n.nin);
	more[0] = small;
	if (rc < 0 || (n.nin > 3 && (rc = sizes(g, &n, k, &more[3])) < 0))
		return rc;
	rc = graph_add_node(g, node_type(&n), n.name, n.opset, n.nin, more, 1, &large, n.nattr, n.attr);
	return rc < 0 ? rc : large;
}

static int divide(struct graph *g, struct joint *j, int conv)
{
	int large = before(g, j, conv), y = g->node[conv].out[0];
	if (j->rest < 0)
		j->rest = rest_of(g, j);
	int w = filters(g, g->node[conv].in[1], j->from, j->channels, true);
	int sum[2] = {image(g, g->node[conv].name, y, g->value[y].t.shape.d[1]), large};
	if (large < 0 || j->rest < 0 || w < 0 || sum[0] < 0)
		return E_NOMEM;
	struct node *c = &g->node[conv];
	c->in[0] = j->rest;
	c->in[1] = w;
	c->out[0] = sum[0];
	g->value[sum[0]].producer = conv;
	return graph_add_node(g, "Add", c->name, 13, 2, sum, 1, &y, 0, NULL);
}

int pass_resize(struct graph *g, struct arena *scratch)
{
	int *uses = pass_uses(g, scratch), nodes = g->nnodes, done = 0;
	for (int i = 0; i < nodes; i++) {
		struct joint j;
		if (g->node[i].nin > MAX_JOINED || !find(g, uses, i, &j))
			continue;
		int joined = g->node[i].out[0];
		for (int n = 0; n < nodes; n++) {
			if (g->node[n].dead || g->node[n].nin < 2 || g->node[n].in[0] != joined)
				continue;
			int rc = divide(g, &j, n);
			if (rc < 0)
				return rc;
			done++;
		}
	}
	return done;
}
