/* SPDX-License-Identifier: Apache-2.0 */
/* Merges a Pad with zeros on spatial dims into the padding of the Conv or AveragePool that follows it. */
#include "kernels/graph/pass.h"

#include <string.h>

enum { MAX_SPATIAL = 3 };

/* Reads the pads per dim of the Pad node, begins then ends. False: it is not a constant zero padding of
 * spatial dims only. */
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

/* Replaces the node's pads by `pads`; a pool then counts them in its average. */
static int set_pads(struct graph *g, struct node *to, const int64_t *pads, int n, bool pool)
{
	int64_t *ints = arena_try(&g->arena, (size_t)n, sizeof *ints);
	struct attr *attr = arena_try(&g->arena, (size_t)to->nattr + 2, sizeof *attr);
	if (!ints || !attr)
		return E_NOMEM;
	memcpy(ints, pads, sizeof *ints * (size_t)n);
	int count = 0;
	for (int i = 0; i < to->nattr; i++)
		if (strcmp(to->attr[i].name, "pads") != 0 &&
		    strcmp(to->attr[i].name, "count_include_pad") != 0)
			attr[count++] = to->attr[i];
	attr[count++] = (struct attr){.name = "pads", .kind = ATTR_INTS, .n = n, .ints = ints};
	if (pool)
		attr[count++] = (struct attr){.name = "count_include_pad", .kind = ATTR_INT, .i = 1};
	to->attr = attr;
	to->nattr = count;
	return E_OK;
}

/* Whether an AveragePool can take the pads: they must lie within its windows. Otherwise own pads that it does
 * not count, and windows that reach past the end, would be averaged differently. */
static bool pool_takes(const struct node *n, const int64_t *sum, int spatial)
{
	const struct attr *kernel = node_attr(n, "kernel_shape"), *own = node_attr(n, "pads");
	if (strcmp(node_type(n), "AveragePool") != 0 || node_int(n, "ceil_mode", 0) || !kernel ||
	    kernel->n != spatial)
		return false;
	for (int d = 0; d < 2 * spatial; d++)
		if (sum[d] >= kernel->ints[d % spatial] ||
		    (own && own->ints[d] && !node_int(n, "count_include_pad", 0)))
			return false;
	return true;
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
	struct node *to = &g->node[reader];
	if (to->in[0] != pad->out[0] || strcmp(node_str(to, "auto_pad", "NOTSET"), "NOTSET") != 0)
		return 0;
	const struct attr *own = node_attr(to, "pads");
	for (int d = 0; d < spatial; d++) {
		sum[d] = p[2 + d] + (own ? own->ints[d] : 0);
		sum[spatial + d] = p[rank + 2 + d] + (own ? own->ints[spatial + d] : 0);
	}
	bool pool = pool_takes(to, sum, spatial);
	if (!pool && strcmp(node_type(to), "Conv") != 0)
		return 0;
	int rc = set_pads(g, to, sum, 2 * spatial, pool);
	if (rc < 0)
		return rc;
	to->in[0] = pad->in[0];
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
