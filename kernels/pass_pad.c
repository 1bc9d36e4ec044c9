/* SPDX-License-Identifier: Apache-2.0 */
/* A Pad with zeros on spatial dims before a Conv becomes the Conv's own padding. */
#include "kernels/pass.h"

#include <string.h>

enum { MAX_SPATIAL = 3 };

/* Pads per dim of the Pad node, begins then ends; false: not a constant zero padding of spatial dims alone.
 */
static bool read_pads(const struct graph *g, const struct node *n, int rank, int64_t pads[2 * MAX_RANK])
{
	const struct attr *attr = node_attr(n, "pads");
	bool value = n->nin > 2 && n->in[2] >= 0;
	if (strcmp(node_str(n, "mode", "constant"), "constant") != 0 || (n->nin > 3 && n->in[3] >= 0))
		return false;
	if (node_float(n, "value", 0) != 0 ||
	    (value && (!pass_is_f32_constant(g, n->in[2]) || *(float *)g->value[n->in[2]].t.data != 0)))
		return false;
	const struct tensor *t = n->nin > 1 && n->in[1] >= 0 ? &g->value[n->in[1]].t : NULL;
	int64_t count = attr ? attr->n : t && t->data && t->dtype == DT_I64 ? shape_count(&t->shape) : 0;
	if (count != 2 * rank)
		return false;
	memcpy(pads, attr ? attr->ints : t->data, sizeof *pads * (size_t)count);
	for (int d = 0; d < rank; d++)
		if (pads[d] < 0 || pads[rank + d] < 0 || (d < 2 && (pads[d] || pads[rank + d])))
			return false;
	return true;
}

/* The Conv's attributes with `pads` in place of its own. */
static int set_pads(struct graph *g, struct node *conv, const int64_t *pads, int n)
{
	int64_t *ints = arena_try(&g->arena, (size_t)n, sizeof *ints);
	struct attr *attr = arena_try(&g->arena, (size_t)conv->nattr + 1, sizeof *attr);
	if (!ints || !attr)
		return E_NOMEM;
	memcpy(ints, pads, sizeof *ints * (size_t)n);
	int count = 0;
	for (int i = 0; i < conv->nattr; i++)
		if (strcmp(conv->attr[i].name, "pads") != 0)
			attr[count++] = conv->attr[i];
	attr[count++] = (struct attr){.name = "pads", .kind = ATTR_INTS, .n = n, .ints = ints};
	conv->attr = attr;
	conv->nattr = count;
	return E_OK;
}

static int fold_pad(struct graph *g, int i, const int *uses)
{
	struct node *pad = &g->node[i];
	int64_t p[2 * MAX_RANK], sum[2 * MAX_SPATIAL];
	if (pad->nin < 1 || pad->in[0] < 0)
		return 0;
	int rank = g->value[pad->in[0]].t.shape.rank, spatial = rank - 2;
	int reader = pass_reader(g, uses, pad->out[0]);
	if (reader < 0 || spatial < 1 || spatial > MAX_SPATIAL || !read_pads(g, pad, rank, p))
		return 0;
	struct node *conv = &g->node[reader];
	if (strcmp(node_type(conv), "Conv") != 0 || conv->in[0] != pad->out[0] ||
	    strcmp(node_str(conv, "auto_pad", "NOTSET"), "NOTSET") != 0)
		return 0;
	const struct attr *own = node_attr(conv, "pads");
	for (int d = 0; d < spatial; d++) {
		sum[d] = p[2 + d] + (own ? own->ints[d] : 0);
		sum[spatial + d] = p[rank + 2 + d] + (own ? own->ints[spatial + d] : 0);
	}
	int rc = set_pads(g, conv, sum, 2 * spatial);
	if (rc < 0)
		return rc;
	conv->in[0] = pad->in[0];
	pad->dead = true;
	return 1;
}

int pass_pad(struct graph *g, struct arena *scratch)
{
	int *uses = pass_uses(g, scratch);
	int folded = 0;
	for (int i = 0; i < g->nnodes; i++) {
		if (g->node[i].dead || strcmp(node_type(&g->node[i]), "Pad") != 0)
			continue;
		int rc = fold_pad(g, i, uses);
		if (rc < 0)
			return rc;
		folded += rc;
	}
	return folded;
}
