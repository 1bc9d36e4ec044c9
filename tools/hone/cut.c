/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/cut.h"
#include "kernels/onnx/import.h"
#include "tools/hone/output.h"
#include <string.h>

struct cut {
	const struct graph *g;
	struct graph *piece;
	bool *used; /* values of g that are needed */
	int *to;    /* value of g -> value of the piece; -1: not yet */
	int *from;
};

/* A node is needed if an output of it is used, is not a constant, and is not an input of the piece. */
static bool is_needed(const struct cut *c, const struct node *n, const bool *stop)
{
	for (int k = 0; k < n->nout && !n->dead; k++)
		if (n->out[k] >= 0 && c->used[n->out[k]] && !stop[n->out[k]] &&
		    !c->g->value[n->out[k]].t.data)
			return true;
	return false;
}

/* Walks the nodes backwards: the inputs of a needed node are used. */
static void mark(struct cut *c, const bool *stop)
{
	for (int i = c->g->nnodes - 1; i >= 0; i--) {
		const struct node *n = &c->g->node[i];
		bool needed = is_needed(c, n, stop);
		for (int k = 0; needed && k < n->nin; k++)
			if (n->in[k] >= 0)
				c->used[n->in[k]] = true;
	}
}

static int add_value(struct cut *c, int v)
{
	if (v < 0 || c->to[v] >= 0)
		return v < 0 ? -1 : c->to[v];
	const struct value *old = &c->g->value[v];
	int to = graph_add_value(c->piece, old->name && *old->name ? old->name : "value");
	if (to < 0)
		return to;
	struct value *x = &c->piece->value[to];
	x->producer = -1;
	x->t = old->t;
	if (old->t.data)
		x->t.data = arena_memdup(&c->piece->arena, old->t.data,
					 (size_t)shape_count(&old->t.shape) * dtype_bytes(old->t.dtype));
	c->from[to] = v;
	c->to[v] = to;
	return to;
}

static void add_inputs(struct cut *c, const bool *stop)
{
	struct graph *p = c->piece;
	p->input = ARENA_ARRAY(&p->arena, int, c->g->nvalues + 1);
	for (int v = 0; v < c->g->nvalues; v++) {
		const struct value *x = &c->g->value[v];
		if (!c->used[v] || x->t.data || !(stop[v] || x->is_input))
			continue;
		int to = add_value(c, v);
		p->value[to].is_input = true;
		p->input[p->ninputs++] = to;
	}
}

static int add_node(struct cut *c, const struct node *n)
{
	struct arena a = {0};
	int *in = ARENA_ARRAY(&a, int, n->nin + 1), *out = ARENA_ARRAY(&a, int, n->nout + 1);
	for (int k = 0; k < n->nin; k++)
		in[k] = add_value(c, n->in[k]);
	for (int k = 0; k < n->nout; k++)
		out[k] = add_value(c, n->out[k]);
	int rc = graph_add_node(c->piece, node_type(n), n->name, n->opset, n->nin, in, n->nout, out, n->nattr,
				n->attr);
	arena_free(&a);
	return rc;
}

static int add_nodes(struct cut *c, const bool *stop)
{
	for (int i = 0; i < c->g->nnodes; i++) {
		const struct node *n = &c->g->node[i];
		int rc = is_needed(c, n, stop) ? add_node(c, n) : 0;
		if (rc < 0)
			return rc;
	}
	return 0;
}

static void set_output(struct cut *c, int out)
{
	struct graph *p = c->piece;
	p->output = ARENA_ARRAY(&p->arena, int, 1);
	p->output[p->noutputs++] = c->to[out];
	p->value[c->to[out]].is_output = true;
}

int cut_graph(const struct graph *g, int out, const bool *stop, struct graph **piece, int **from)
{
	struct arena own = {0}, scratch = {0};
	struct graph *p = ARENA_NEW(&own, struct graph);
	p->arena = own;
	p->name = arena_strdup(&p->arena, g->name ? g->name : "piece");
	struct cut c = {.g = g, .piece = p, .used = ARENA_ARRAY(&scratch, bool, g->nvalues)};
	c.to = ARENA_ARRAY(&scratch, int, g->nvalues);
	c.from = ARENA_ARRAY(&p->arena, int, g->nvalues);
	memset(c.to, -1, sizeof *c.to * (size_t)g->nvalues);
	c.used[out] = true;
	mark(&c, stop);
	add_inputs(&c, stop);
	int rc = add_nodes(&c, stop);
	if (rc >= 0 && p->nnodes == 0)
		rc = fail(E_NOTFOUND, "no node writes '%s'", g->value[out].name);
	if (rc >= 0)
		set_output(&c, out);
	arena_free(&scratch);
	if (rc < 0) {
		graph_free(p);
		return rc;
	}
	*piece = p;
	*from = c.from;
	return 0;
}

static int write_set(const struct graph *p, const char *kind, int n, const int *value, const int *from,
		     const struct tensor *t, const char *dir)
{
	struct arena a = {0};
	int rc = 0;
	for (int i = 0; i < n && rc >= 0; i++)
		rc = tensor_write(arena_printf(&a, "%s/%s_%d.pb", dir, kind, i), &t[from[value[i]]],
				  p->value[value[i]].name);
	arena_free(&a);
	return rc;
}

int cut_check(const struct args *args, const char *dir)
{
	struct arena a = {0};
	const char *set = arena_printf(&a, "%s/test_data_set_0", dir);
	int rc = file_can_mkdirs(dir);
	if (rc >= 0)
		rc = output_in(args, arena_printf(&a, "%s/model.onnx", dir), OUTPUT_BISECTED);
	if (rc == 0 && file_exists(set))
		rc = fail(
		    E_USAGE,
		    "%s exists, beside no model that `hone verify` wrote: name another folder, or remove it",
		    set);
	arena_free(&a);
	return rc < 0 ? rc : E_OK;
}

int cut_write(const struct graph *p, const int *from, const struct tensor *t, const char *dir)
{
	struct arena a = {0};
	const char *set = arena_printf(&a, "%s/test_data_set_0", dir);
	int rc = file_mkdirs(dir, 0755);
	if (rc >= 0)
		rc = export_file_by(p, OUTPUT_BY_VERIFY, arena_printf(&a, "%s/model.onnx", dir));
	if (rc >= 0)
		rc = file_mkdirs(set, 0755); /* after the model, which tells cut_check whose folder it is */
	if (rc >= 0)
		rc = write_set(p, "input", p->ninputs, p->input, from, t, set);
	if (rc >= 0)
		rc = write_set(p, "output", p->noutputs, p->output, from, t, set);
	arena_free(&a);
	return rc;
}
