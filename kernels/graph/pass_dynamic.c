/* SPDX-License-Identifier: Apache-2.0 */
/* Splits DynamicQuantizeLinear, so that what is large becomes kernels: the node itself keeps only scale and
 * zero point, which need the least and the greatest element, and a QuantizeLinear with these makes the bytes.
 * A ConvInteger with padding gets bytes of its own that hold the zero point around the image: the quantised 0
 * is the zero point. Then its task needs no padding, whose value is not known before it runs. Where others
 * compute or give bytes and zero point, a Pad with that value makes them. */
#include "kernels/graph/geometry.h"
#include "kernels/graph/op.h"
#include "kernels/graph/op_quant.h"
#include "kernels/graph/pass.h"

#include <string.h>

enum { BYTES, SCALE, ZERO, OUTPUTS };

enum { PAD_OPSET = 13 };

/* Padded bytes may be so many, or so many times the others: strides can make a small result of a huge image.
 */
enum { MOST_BYTES = 1 << 20, MOST_TIMES = 4 };

/* Adds the outputs scale and zero point where the node lacks them. */
static int complete_outputs(struct graph *g, int node)
{
	static const enum dtype types[] = {DT_U8, DT_F32, DT_U8};
	static const char *const suffix[] = {"", "scale", "zero_point"};
	int *out = arena_try(&g->arena, OUTPUTS, sizeof *out);
	if (!out)
		return E_NOMEM;
	for (int k = 0; k < OUTPUTS; k++) {
		out[k] = k < g->node[node].nout ? g->node[node].out[k] : -1;
		if (out[k] >= 0 || k == BYTES)
			continue;
		if ((out[k] = graph_add_value(g, pass_name(g, g->node[node].name, suffix[k]))) < 0)
			return out[k];
		g->value[out[k]].t = (struct tensor){.dtype = types[k]};
		g->value[out[k]].producer = node;
	}
	g->node[node].out = out;
	g->node[node].nout = OUTPUTS;
	return E_OK;
}

/* Adds a QuantizeLinear of the input of the node, by its scale and zero point, that writes `out`. */
static int add_quantise(struct graph *g, int node, const char *name, int out, int nattr,
			const struct attr *attr)
{
	const struct node *n = &g->node[node];
	const int in[] = {n->in[0], n->out[SCALE], n->out[ZERO]};
	return graph_add_node(g, "QuantizeLinear", name, QUANT_OPSET, 3, in, 1, &out, nattr, attr);
}

/* Removes the node's padding. */
static int drop_pads(struct graph *g, struct node *n)
{
	struct attr *attr = arena_try(&g->arena, (size_t)n->nattr + 1, sizeof *attr);
	int count = 0;
	if (!attr)
		return E_NOMEM;
	for (int i = 0; i < n->nattr; i++)
		if (strcmp(n->attr[i].name, "pads") != 0 && strcmp(n->attr[i].name, "auto_pad") != 0)
			attr[count++] = n->attr[i];
	n->attr = attr;
	n->nattr = count;
	return E_OK;
}

/* The pads of a ConvInteger as begins and ends of all dims; false: it has none, or it is no such node. */
static bool read_pads(const struct graph *g, const struct node *n, int64_t pads[2 * MAX_RANK])
{
	struct filter_window w;
	struct arena a = {0};
	const struct opctx c = {.node = n, .opset = n->opset, .arena = &a};
	const struct shape *x = &g->value[n->in[0]].t.shape;
	bool any = false;
	if (strcmp(node_type(n), "ConvInteger") != 0)
		return false;
	int rc = conv_window(&c, x, &g->value[n->in[1]].t.shape, &w);
	arena_free(&a);
	memset(pads, 0, 2 * MAX_RANK * sizeof *pads);
	for (int i = 0; rc >= 0 && i < w.rank; i++) {
		pads[2 + i] = w.begin[3 - w.rank + i];
		pads[x->rank + 2 + i] = w.end[3 - w.rank + i];
		any |= pads[2 + i] || pads[x->rank + 2 + i];
	}
	return any;
}

/* Adds a Pad of the bytes with the zero point that the node has. */
static int add_pad(struct graph *g, int conv, const char *name, int out, const int64_t *pads, int rank)
{
	const struct shape n = {1, {2 * rank}};
	int list = graph_add_constant(g, pass_name(g, name, "pads"), DT_I64, &n, pads);
	const struct node *x = &g->node[conv];
	const int in[] = {x->in[0], list, x->in[2]};
	return list < 0 ? list : graph_add_node(g, "Pad", name, PAD_OPSET, 3, in, 1, &out, 0, NULL);
}

/* Gives node `conv` bytes with padding, unless these are too many. `node` made its bytes and zero point; -1:
 * another kind of node did. Returns whether it did. */
static int pad_bytes(struct graph *g, int node, int conv, const int64_t *pads)
{
	int bytes = g->node[conv].in[0], rc;
	struct shape s = g->value[bytes].t.shape;
	int64_t most = MOST_TIMES * shape_count(&s);
	for (int d = 0; d < s.rank; d++)
		s.d[d] += pads[d] + pads[s.rank + d];
	if (shape_check(&s, most > MOST_BYTES ? most : MOST_BYTES) < 0)
		return 0;
	const char *name = pass_name(g, g->node[conv].name, "padded");
	int out = graph_add_value(g, name);
	if (out < 0)
		return out;
	int64_t *ints = arena_memdup(&g->arena, pads, 2 * (size_t)s.rank * sizeof *pads);
	const struct attr attr = {.name = "pads", .kind = ATTR_INTS, .n = 2 * s.rank, .ints = ints};
	g->value[out].t = (struct tensor){.dtype = g->value[bytes].t.dtype, .shape = s};
	rc =
	    node < 0 ? add_pad(g, conv, name, out, pads, s.rank) : add_quantise(g, node, name, out, 1, &attr);
	g->node[conv].in[0] = out;
	if (rc >= 0)
		rc = drop_pads(g, &g->node[conv]);
	return rc < 0 ? rc : 1;
}

/* Whether the node is a ConvInteger with constant weights, and its zero point is one that is not known. */
static bool lacks_zero(const struct graph *g, const struct node *n)
{
	return !n->dead && !strcmp(node_type(n), "ConvInteger") && n->nin > 2 && n->in[2] >= 0 &&
	       !g->value[n->in[2]].t.data && shape_count(&g->value[n->in[2]].t.shape) == 1 &&
	       g->value[n->in[1]].t.data;
}

static int split(struct graph *g, int node)
{
	int bytes = g->node[node].nout > 0 ? g->node[node].out[BYTES] : -1, rc;
	int64_t pads[2 * MAX_RANK];
	if (bytes < 0)
		return 0;
	if ((rc = complete_outputs(g, node)) < 0)
		return rc;
	int zero = g->node[node].out[ZERO], n = g->nnodes;
	g->node[node].out[BYTES] = -1;
	g->value[bytes].producer = -1;
	rc = add_quantise(g, node, pass_name(g, g->node[node].name, "bytes"), bytes, 0, NULL);
	for (int i = 0; i < n && rc >= 0; i++) {
		const struct node *x = &g->node[i];
		if (!x->dead && x->nin > 2 && x->in[0] == bytes && x->in[2] == zero && read_pads(g, x, pads))
			rc = pad_bytes(g, node, i, pads);
	}
	return rc < 0 ? rc : 1;
}

int pass_dynamic(struct graph *g, struct arena *scratch)
{
	int n = g->nnodes, done = 0;
	(void)scratch;
	for (int i = 0; i < n; i++) {
		if (g->node[i].dead || strcmp(node_type(&g->node[i]), "DynamicQuantizeLinear") != 0)
			continue;
		int rc = split(g, i);
		if (rc < 0)
			return rc;
		done += rc;
	}
	for (int i = 0; i < n; i++) {
		int64_t pads[2 * MAX_RANK];
		int rc = lacks_zero(g, &g->node[i]) && read_pads(g, &g->node[i], pads)
			     ? pad_bytes(g, -1, i, pads)
			     : 0;
		if (rc < 0)
			return rc;
		done += rc;
	}
	return done;
}
