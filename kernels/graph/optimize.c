/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/graph/optimize.h"

#include "kernels/graph/eval.h"
#include "kernels/graph/pass.h"
#include "platform/base/sanitized.h"
#include "platform/base/until.h"

#include <assert.h>
#include <string.h>

static bool all_constant(const struct graph *g, const int *v, int n)
{
	for (int i = 0; i < n; i++)
		if (v[i] >= 0 && !g->value[v[i]].t.data)
			return false;
	return true;
}

static void now_constant(struct graph *g, struct node *n, const struct tensor *t)
{
	for (int k = 0; k < n->nout; k++) {
		if (n->out[k] < 0)
			continue;
		g->value[n->out[k]].t = t[n->out[k]];
		g->value[n->out[k]].producer = -1;
	}
	n->dead = true;
}

/* Computes nodes whose inputs are all constant, once. Their outputs stay in the graph's arena. Nodes of type
 * `but` are left out; NULL: none. */
static int fold_nodes(struct graph *g, const char *but, struct arena *scratch)
{
	struct tensor *t = ARENA_ARRAY(scratch, struct tensor, g->nvalues + 1);
	int folded = 0;
	for (int i = 0; i < g->nvalues; i++)
		t[i] = g->value[i].t;
	for (int i = 0; i < g->nnodes; i++) {
		struct node *n = &g->node[i];
		bool known = all_constant(g, n->out, n->nout);
		if (n->dead || (but && !strcmp(node_type(n), but)) ||
		    (!known && !all_constant(g, n->in, n->nin)))
			continue;
		int rc = known ? E_OK : until_check();
		if (rc >= 0 && !known)
			rc = eval_node(g, i, t, &g->arena);
		if (rc < 0)
			return fail_in(rc, "folding node '%s'", n->name);
		now_constant(g, n, t);
		folded++;
	}
	return folded;
}

static int fold_constants(struct graph *g, struct arena *scratch)
{
	return fold_nodes(g, NULL, scratch);
}

/* Leaves dequantised constants as they are, for pass_quant. */
static int fold_quantised(struct graph *g, struct arena *scratch)
{
	return fold_nodes(g, "DequantizeLinear", scratch);
}

/* Whether the node returns its first input unchanged. */
static bool passes_through(const struct graph *g, const struct node *n, const int *uses)
{
	const char *type = node_type(n);
	const struct tensor *in = n->nin && n->in[0] >= 0 ? &g->value[n->in[0]].t : NULL;
	const struct tensor *out = n->nout && n->out[0] >= 0 ? &g->value[n->out[0]].t : NULL;
	if (!in || !out || in->dtype != out->dtype || !shape_equal(&in->shape, &out->shape))
		return false;
	if (!strcmp(type, "Dropout")) {
		bool training = n->nin > 2 && n->in[2] >= 0;
		bool mask = n->nout > 1 && n->out[1] >= 0 && uses[n->out[1]] > 0;
		return !training && !mask;
	}
	return !strcmp(type, "Identity") || !strcmp(type, "Cast") || !strcmp(type, "CastLike");
}

static int drop_identities(struct graph *g, struct arena *scratch)
{
	int *uses = pass_uses(g, scratch);
	int dropped = 0;
	for (int i = 0; i < g->nnodes; i++) {
		struct node *n = &g->node[i];
		if (n->dead || !passes_through(g, n, uses) || g->value[n->out[0]].is_output)
			continue;
		pass_replace(g, n->out[0], n->in[0]);
		n->dead = true;
		dropped++;
	}
	return dropped;
}

static bool any_used(const struct node *n, const int *uses)
{
	for (int k = 0; k < n->nout; k++)
		if (n->out[k] >= 0 && uses[n->out[k]])
			return true;
	return false;
}

/* Goes backwards, so that a whole unused chain is dropped in one sweep. */
static void drop_dead(struct graph *g, struct arena *scratch)
{
	int *uses = pass_uses(g, scratch);
	for (int i = g->nnodes - 1; i >= 0; i--) {
		struct node *n = &g->node[i];
		if (n->dead || any_used(n, uses))
			continue;
		n->dead = true;
		for (int k = 0; k < n->nin; k++)
			if (n->in[k] >= 0)
				uses[n->in[k]]--;
	}
}

typedef int pass_fn(struct graph *g, struct arena *scratch);

static int run_passes(struct graph *g, pass_fn *const pass[], size_t n)
{
	struct arena scratch = {0};
	int rc = graph_sort(g);
	for (size_t i = 0; i < n && rc >= 0; i++) {
		rc = until_check();
		if (rc >= 0)
			rc = pass[i](g, &scratch);
		assert(!SANITIZED_ADDRESS || rc < 0 || graph_check(g, false) >= 0);
		arena_reset(&scratch);
	}
	if (rc >= 0)
		drop_dead(g, &scratch);
	arena_free(&scratch);
	if (rc >= 0)
		rc = graph_sort(g);
	assert(!SANITIZED_ADDRESS || rc < 0 || graph_check(g, true) >= 0);
	return fail_in(rc, "optimising '%s'", g->name ? g->name : "graph");
}

int graph_quantize(struct graph *g)
{
	static pass_fn *const pass[] = {fold_quantised, pass_quant};
	return run_passes(g, pass, sizeof pass / sizeof *pass);
}

int graph_fold(struct graph *g)
{
	static pass_fn *const pass[] = {fold_constants, drop_identities, pass_pad, pass_scale};
	return run_passes(g, pass, sizeof pass / sizeof *pass);
}

int graph_optimize(struct graph *g)
{
	static pass_fn *const pass[] = {
	    fold_quantised, pass_quant,      pass_einsum, fold_constants, pass_dynamic, pass_integer,
	    pass_rnn,       drop_identities, pass_norm,   pass_product,   pass_pad,     pass_focus,
	    pass_pool,      pass_stride,     pass_concat, pass_scale,     pass_resize,  pass_siblings};
	return run_passes(g, pass, sizeof pass / sizeof *pass);
}
