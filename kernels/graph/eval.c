/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/graph/eval.h"
#include "kernels/graph/einsum.h"
#include "kernels/graph/op.h"
#include "platform/base/until.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_ELEMS = 1 << 30, /* of one tensor: 4 GiB of f32 */
	FOLD_ELEMS =
	    1 << 16,    /* shape arithmetic and index grids; larger constants are folded by graph_optimize */
	FOLD_TINY = 64, /* always folded: typical of shape arithmetic */
	FOLD_TINY_WORK = 1 << 16,
	FOLD_BYTES = 64 << 20, /* of all constants that are folded here */
	MAX_LINES = 64,        /* in one error message; the text is cut at 4 KiB anyway */
};

/* Limit on multiplications during folding, whatever a file contains. */
#define FOLD_WORK (INT64_C(1) << 34)

/* One operator call: its tensors live in `scratch` until the next call. */
static int bind_call(struct opctx *c, const struct graph *g, const struct node *n, struct arena *scratch)
{
	*c = (struct opctx){n, n->op->rows[n->row].code, n->opset, scratch, n->nin, n->nout, NULL, NULL};
	c->in = arena_try(scratch, (size_t)n->nin + 1, sizeof *c->in);
	c->out = arena_try(scratch, (size_t)n->nout + 1, sizeof *c->out);
	if (!c->in || !c->out)
		return E_NOMEM;
	for (int i = 0; i < n->nin; i++)
		if (n->in[i] >= 0)
			c->in[i] = g->value[n->in[i]].t;
	return E_OK;
}

static int alloc_outputs(struct opctx *c, struct arena *arena)
{
	for (int i = 0; i < c->nout; i++) {
		if (c->node->out[i] < 0)
			continue;
		struct shape s = c->out[i].shape;
		int rc = tensor_alloc(arena, c->out[i].dtype, &s, &c->out[i]);
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

/* The value of these nodes depends only on the input's shape, and shapes are static. */
static bool reads_shape_only(const struct node *n)
{
	return !strcmp(node_type(n), "Shape") || !strcmp(node_type(n), "Size");
}

/* No operator but Einsum multiplies more often than inputs x outputs. */
static int64_t work_of(const struct opctx *c, int64_t in, int64_t out)
{
	struct einsum e;
	if (!strcmp(node_type(c->node), "Einsum") &&
	    einsum_read(node_str(c->node, "equation", ""), c->nin, c->in, &e) >= 0)
		return (int64_t)e.products;
	return in > FOLD_ELEMS || out > FOLD_ELEMS ? FOLD_WORK : in * out;
}

static bool may_fold(struct infer *f, const struct opctx *c)
{
	int64_t in = 1, out = 0, bytes = 0;
	bool shape_only = reads_shape_only(c->node);
	for (int i = 0; i < c->nin; i++) {
		if (c->in[i].dtype != DT_NONE && !c->in[i].data && !shape_only)
			return false;
		if (!shape_only)
			in += c->in[i].dtype ? shape_count(&c->in[i].shape) : 0;
	}
	for (int i = 0; i < c->nout; i++) {
		out += c->out[i].dtype ? shape_count(&c->out[i].shape) : 0;
		bytes += c->out[i].dtype
			     ? shape_count(&c->out[i].shape) * (int64_t)dtype_bytes(c->out[i].dtype)
			     : 0;
	}
	int64_t work = work_of(c, in, out);
	if (in <= FOLD_TINY && out <= FOLD_TINY && work <= FOLD_TINY_WORK)
		return true;
	if (in > FOLD_ELEMS || out > FOLD_ELEMS || f->work + work > FOLD_WORK ||
	    f->bytes + bytes > FOLD_BYTES)
		return false;
	f->work += work;
	f->bytes += bytes;
	return true;
}

static int fold(struct graph *g, struct opctx *c)
{
	int rc = alloc_outputs(c, &g->arena);
	if (rc >= 0)
		rc = c->node->op->eval(c);
	return rc < 0 ? rc : until_check(); /* what was cut is no value */
}

static int check_outputs(const struct opctx *c)
{
	for (int i = 0; i < c->nout; i++) {
		if (c->out[i].dtype == DT_NONE && c->node->out[i] >= 0)
			return fail(E_UNSUPPORTED, "output %d is not supported", i);
		int rc = shape_check(&c->out[i].shape, MAX_ELEMS);
		if (rc < 0)
			return fail_in(rc, "output %d", i);
	}
	return E_OK;
}

static int infer_node(struct graph *g, const struct node *n, struct infer *f)
{
	struct opctx c;
	int rc = bind_call(&c, g, n, &f->scratch);
	if (rc >= 0)
		rc = n->op->infer(&c);
	if (rc >= 0)
		rc = check_outputs(&c);
	if (rc >= 0 && may_fold(f, &c))
		rc = fold(g, &c);
	if (rc < 0)
		return rc;
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] >= 0)
			g->value[n->out[i]].t = c.out[i];
	return E_OK;
}

/* Whether all inputs have a type. An input without one comes from a failed node, which is reported
 * already. */
static bool inputs_known(const struct graph *g, const struct node *n)
{
	for (int i = 0; i < n->nin; i++)
		if (n->in[i] >= 0 && g->value[n->in[i]].t.dtype == DT_NONE)
			return false;
	return true;
}

int graph_infer_node(struct graph *g, int node, struct infer *s)
{
	const struct node *n = &g->node[node];
	int rc = until_check();
	s->scratch.cap_bytes = g->arena.cap_bytes;
	if (rc >= 0)
		rc = infer_node(g, n, s);
	arena_reset(&s->scratch);
	if (rc >= 0)
		return 1;
	if (rc == E_NOMEM || rc == E_TIMEOUT || rc == E_STOPPED)
		return fail_in(rc, "node '%s' (%s)", n->name, node_type(n));
	s->worst = s->worst == E_UNSUPPORTED ? s->worst : rc;
	if (s->count++ < MAX_LINES)
		buf_printf(s->lines, "%snode '%s' (%s, opset %d): %s", s->lines->n ? "\n" : "", n->name,
			   node_type(n), n->opset, err_text());
	return 0;
}

int graph_infer_lines(struct graph *g, struct buf *lines, int *worst)
{
	struct infer s = {.lines = lines, .worst = *worst};
	int rc = E_OK;
	for (int i = 0; rc >= 0 && i < g->nnodes; i++)
		if (!g->node[i].dead && inputs_known(g, &g->node[i]))
			rc = graph_infer_node(g, i, &s);
	arena_free(&s.scratch);
	*worst = s.worst;
	return rc < 0 ? rc : s.count;
}

int graph_infer(struct graph *g)
{
	struct buf lines = {0};
	int worst = E_OK;
	int count = graph_infer_lines(g, &lines, &worst);
	if (count > 0)
		count = fail(worst, "%s", buf_str(&lines));
	buf_free(&lines);
	return count;
}

int eval_node(const struct graph *g, int node, struct tensor *t, struct arena *arena)
{
	const struct node *n = &g->node[node];
	struct arena scratch = {0};
	struct opctx c;
	int rc = bind_call(&c, g, n, &scratch);
	for (int i = 0; rc >= 0 && i < n->nin; i++)
		if (n->in[i] >= 0) {
			c.in[i] = t[n->in[i]];
			if (!c.in[i].data)
				rc = fail(E_USAGE, "input %d ('%s') has no data", i, g->value[n->in[i]].name);
		}
	for (int i = 0; rc >= 0 && i < n->nout; i++)
		if (n->out[i] >= 0)
			c.out[i] = g->value[n->out[i]].t;
	if (rc >= 0)
		rc = alloc_outputs(&c, arena);
	if (rc >= 0)
		rc = n->op->eval(&c);
	if (rc >= 0)
		rc = until_check(); /* what was cut is no value */
	for (int i = 0; rc >= 0 && i < n->nout; i++)
		if (n->out[i] >= 0)
			t[n->out[i]] = c.out[i];
	arena_free(&scratch);
	return fail_in(rc, "node '%s' (%s)", n->name, node_type(n));
}

int eval_begin(const struct graph *g, const struct tensor *inputs, struct tensor *t)
{
	for (int v = 0; v < g->nvalues; v++)
		t[v] = g->value[v].t;
	for (int i = 0; i < g->ninputs; i++) {
		const struct value *v = &g->value[g->input[i]];
		if (inputs[i].dtype != v->t.dtype || !shape_equal(&inputs[i].shape, &v->t.shape)) {
			char want[160], got[160];
			shape_text(&v->t.shape, want);
			shape_text(&inputs[i].shape, got);
			return fail(E_USAGE, "input '%s' is %s %s, not %s %s", v->name,
				    dtype_name(v->t.dtype), want, dtype_name(inputs[i].dtype), got);
		}
		t[g->input[i]] = inputs[i];
	}
	return E_OK;
}

/* Whether graph_infer has computed all outputs. */
static bool is_constant(const struct graph *g, const struct node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] >= 0 && !g->value[n->out[i]].t.data)
			return false;
	return true;
}

bool eval_has(const struct graph *g, int node)
{
	return !g->node[node].dead && !is_constant(g, &g->node[node]);
}

int eval_graph(const struct graph *g, const struct tensor *inputs, struct tensor *t, struct arena *arena)
{
	int rc = eval_begin(g, inputs, t);
	for (int i = 0; rc >= 0 && i < g->nnodes; i++) {
		if (!eval_has(g, i))
			continue;
		rc = until_check();
		if (rc >= 0)
			rc = eval_node(g, i, t, arena);
	}
	return rc;
}
