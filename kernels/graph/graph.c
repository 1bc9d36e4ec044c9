/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/graph/graph.h"
#include "kernels/graph/op.h"
#include "platform/base/mix.h"
#include <inttypes.h>
#include <string.h>

enum { KEY_CONST_ELEMS = 64 }; /* larger constants are weights and not part of the key */

void graph_free(struct graph *g)
{
	if (!g)
		return;
	struct arena a = g->arena; /* the graph itself lies in the arena */
	arena_free(&a);
}

/* Makes room for one more element by doubling the array in the arena. Old arrays are not freed; together they
 * are at most as large as the new one. */
static int grow(struct arena *a, void *array, int n, int *cap, size_t elem_bytes)
{
	if (n < *cap)
		return E_OK;
	int want = *cap ? *cap * 2 : 16;
	if (n >= INT32_MAX / 4)
		return fail(E_NOMEM, "a graph of more than %d nodes or values", n);
	void *old, *p = arena_try(a, (size_t)want, elem_bytes);
	if (!p)
		return E_NOMEM;
	memcpy(&old, array, sizeof old);
	if (n)
		memcpy(p, old, (size_t)n * elem_bytes);
	memcpy(array, &p, sizeof p);
	*cap = want;
	return E_OK;
}

static void *copy(struct arena *a, const void *p, int n, size_t elem_bytes)
{
	void *to = arena_try(a, n > 0 ? (size_t)n : 1, elem_bytes);
	if (to && n > 0)
		memcpy(to, p, (size_t)n * elem_bytes);
	return to;
}

static const char *copy_text(struct arena *a, const char *s)
{
	return copy(a, s, (int)strnlen(s, INT32_MAX - 1) + 1, 1);
}

int graph_add_value(struct graph *g, const char *name)
{
	int rc = grow(&g->arena, &g->value, g->nvalues, &g->cap_values, sizeof *g->value);
	const char *text = rc < 0 ? NULL : copy_text(&g->arena, name);
	if (!text)
		return E_NOMEM;
	g->value[g->nvalues] = (struct value){.name = text, .producer = -1};
	return g->nvalues++;
}

int graph_add_constant(struct graph *g, const char *name, enum dtype t, const struct shape *s,
		       const void *data)
{
	int v = graph_add_value(g, name);
	int rc = v < 0 ? v : tensor_alloc(&g->arena, t, s, &g->value[v].t);
	if (rc < 0)
		return rc;
	if (data)
		memcpy(g->value[v].t.data, data, (size_t)shape_count(s) * dtype_bytes(t));
	return v;
}

static int copy_strings(struct arena *a, int n, const char *const *from, const char *const **to)
{
	const char **s = copy(a, from, n, sizeof *s);
	for (int i = 0; s && i < n; i++)
		if (!(s[i] = copy_text(a, from[i])))
			return E_NOMEM;
	*to = s;
	return s ? E_OK : E_NOMEM;
}

/* Attribute tensors are not copied: their data already lives in the graph's arena. */
static int copy_attr(struct arena *a, const struct attr *from, struct attr *to)
{
	*to = *from;
	if (!(to->name = copy_text(a, from->name)))
		return E_NOMEM;
	switch (from->kind) {
	case ATTR_STRING:
		return (to->s = copy_text(a, from->s)) ? E_OK : E_NOMEM;
	case ATTR_INTS:
		return (to->ints = copy(a, from->ints, from->n, sizeof *to->ints)) ? E_OK : E_NOMEM;
	case ATTR_FLOATS:
		return (to->floats = copy(a, from->floats, from->n, sizeof *to->floats)) ? E_OK : E_NOMEM;
	case ATTR_STRINGS:
		return copy_strings(a, from->n, from->strings, &to->strings);
	default:
		return E_OK;
	}
}

int graph_add_node(struct graph *g, const char *op_type, const char *name, int opset, int nin, const int *in,
		   int nout, const int *out, int nattr, const struct attr *attr)
{
	int row;
	const struct op *op = op_find(op_type, opset, &row);
	if (!op)
		return fail(E_NOTFOUND, "unknown operator %s of opset %d", op_type, opset);
	struct arena *a = &g->arena;
	int rc = grow(a, &g->node, g->nnodes, &g->cap_nodes, sizeof *g->node);
	if (rc < 0)
		return rc;
	struct node n = {.op = op, .row = row, .opset = opset, .nin = nin, .nout = nout, .nattr = nattr};
	n.name = copy_text(a, name);
	n.in = copy(a, in, nin, sizeof *in);
	n.out = copy(a, out, nout, sizeof *out);
	n.attr = copy(a, attr, nattr, sizeof *attr);
	if (!n.name || !n.in || !n.out || !n.attr)
		return E_NOMEM;
	for (int i = 0; i < nattr; i++)
		if ((rc = copy_attr(a, &attr[i], &n.attr[i])) < 0)
			return rc;
	for (int i = 0; i < nout; i++)
		if (out[i] >= 0)
			g->value[out[i]].producer = g->nnodes;
	g->node[g->nnodes] = n;
	return g->nnodes++;
}

int graph_replace_node(struct graph *g, int at, const char *op_type, const char *name, int opset, int nin,
		       const int *in, int nattr, const struct attr *attr)
{
	int nout = g->node[at].nout, *out = g->node[at].out;
	int made = graph_add_node(g, op_type, name, opset, nin, in, nout, out, nattr, attr);
	if (made < 0)
		return made;
	g->node[at] = g->node[made];
	g->nnodes--;
	for (int k = 0; k < nout; k++)
		if (out[k] >= 0)
			g->value[out[k]].producer = at;
	return E_OK;
}

const struct attr *node_attr(const struct node *n, const char *name)
{
	for (int i = 0; i < n->nattr; i++)
		if (!strcmp(n->attr[i].name, name))
			return &n->attr[i];
	return NULL;
}

int64_t node_int(const struct node *n, const char *name, int64_t fallback)
{
	const struct attr *a = node_attr(n, name);
	return a && a->kind == ATTR_INT ? a->i : fallback;
}

float node_float(const struct node *n, const char *name, float fallback)
{
	const struct attr *a = node_attr(n, name);
	return a && a->kind == ATTR_FLOAT ? a->f : fallback;
}

const char *node_str(const struct node *n, const char *name, const char *fallback)
{
	const struct attr *a = node_attr(n, name);
	return a && a->kind == ATTR_STRING ? a->s : fallback;
}

const char *node_type(const struct node *n)
{
	return n->op->rows[n->row].type;
}

/* Depth-first search with an explicit stack: a node is placed after the nodes that it reads, which are placed
 * as late as possible, so a sorted graph keeps its order and appended nodes move to where they are used. */
struct sorter {
	const struct graph *g;
	int *next;  /* per node: the next input to visit; nin + 1: placed */
	int *stack; /* nodes being visited */
	bool *open; /* on the stack */
	int *order;
	int norder;
};

static int visit(struct sorter *s, int root)
{
	int depth = 0;
	s->stack[depth++] = root;
	while (depth) {
		int i = s->stack[depth - 1];
		const struct node *n = &s->g->node[i];
		s->open[i] = true;
		if (s->next[i] >= n->nin) {
			s->next[i] = n->nin + 1;
			s->open[i] = false;
			s->order[s->norder++] = i;
			depth--;
			continue;
		}
		int v = n->in[s->next[i]++];
		int p = v < 0 ? -1 : s->g->value[v].producer;
		if (p < 0 || s->g->node[p].dead || s->next[p] > s->g->node[p].nin)
			continue;
		if (s->open[p])
			return fail(E_CORRUPT,
				    "node '%s' (%s) depends on its own output: the graph has a cycle",
				    s->g->node[p].name, node_type(&s->g->node[p]));
		s->stack[depth++] = p;
	}
	return E_OK;
}

static void apply_order(struct graph *g, const struct sorter *s, struct node *sorted)
{
	for (int v = 0; v < g->nvalues; v++)
		g->value[v].producer = -1; /* also of values that a pass took from their nodes */
	for (int i = 0; i < s->norder; i++) {
		sorted[i] = g->node[s->order[i]];
		for (int o = 0; o < sorted[i].nout; o++)
			if (sorted[i].out[o] >= 0)
				g->value[sorted[i].out[o]].producer = i;
	}
	g->node = sorted;
	g->nnodes = g->cap_nodes = s->norder;
}

int graph_sort(struct graph *g)
{
	struct arena scratch = {0};
	size_t n = (size_t)g->nnodes + 1;
	struct sorter s = {.g = g};
	s.next = arena_try(&scratch, n, sizeof *s.next);
	s.stack = arena_try(&scratch, n, sizeof *s.stack);
	s.open = arena_try(&scratch, n, sizeof *s.open);
	s.order = arena_try(&scratch, n, sizeof *s.order);
	struct node *sorted = arena_try(&g->arena, n, sizeof *sorted);
	int rc = s.next && s.stack && s.open && s.order && sorted ? E_OK : E_NOMEM;
	for (int i = 0; rc >= 0 && i < g->nnodes; i++)
		if (!g->node[i].dead && s.next[i] <= g->node[i].nin)
			rc = visit(&s, i);
	if (rc >= 0)
		apply_order(g, &s, sorted);
	arena_free(&scratch);
	return rc;
}

static void put_tensor(const struct tensor *t, struct buf *out)
{
	buf_printf(out, "%s[", dtype_name(t->dtype));
	for (int i = 0; i < t->shape.rank; i++)
		buf_printf(out, "%s%" PRId64, i ? "," : "", t->shape.d[i]);
	buf_puts(out, "]");
}

static void put_small(const struct tensor *t, struct buf *out)
{
	int64_t n = shape_count(&t->shape);
	if (!t->data || n > KEY_CONST_ELEMS)
		return;
	buf_puts(out, "{");
	for (int64_t i = 0; i < n; i++)
		buf_printf(out, "%s%.9g", i ? " " : "", tensor_get(t, i));
	buf_puts(out, "}");
}

static void put_attr(const struct attr *a, struct buf *out)
{
	buf_printf(out, " %s=", a->name);
	switch (a->kind) {
	case ATTR_INT:
		buf_printf(out, "%" PRId64, a->i);
		break;
	case ATTR_FLOAT:
		buf_printf(out, "%.9g", (double)a->f);
		break;
	case ATTR_STRING:
		buf_printf(out, "'%s'", a->s);
		break;
	case ATTR_TENSOR:
		put_tensor(&a->t, out);
		put_small(&a->t, out);
		break;
	default:
		for (int i = 0; i < a->n; i++)
			if (a->kind == ATTR_INTS)
				buf_printf(out, "%s%" PRId64, i ? "," : "", a->ints[i]);
			else if (a->kind == ATTR_FLOATS)
				buf_printf(out, "%s%.9g", i ? "," : "", (double)a->floats[i]);
			else
				buf_printf(out, "%s'%s'", i ? "," : "", a->strings[i]);
	}
}

/* names: print names, for people. Without them, two exports of one model that use different names have the
 * same key. */
static void put_value(const struct graph *g, int v, bool names, struct buf *out)
{
	if (v < 0) {
		buf_puts(out, " -");
		return;
	}
	buf_printf(out, names ? " %%%d:" : " %d:", v);
	if (names)
		buf_printf(out, "%s:", g->value[v].name);
	put_tensor(&g->value[v].t, out);
	put_small(&g->value[v].t, out);
}

static void put_graph(const struct graph *g, bool names, struct buf *out)
{
	buf_puts(out, "in");
	for (int i = 0; i < g->ninputs; i++)
		put_value(g, g->input[i], names, out);
	buf_puts(out, "\n");
	for (int i = 0; i < g->nnodes; i++) {
		const struct node *n = &g->node[i];
		if (n->dead)
			continue;
		buf_printf(out, "%s/%d", node_type(n), n->opset);
		if (names)
			buf_printf(out, " '%s'", n->name);
		for (int k = 0; k < n->nattr; k++)
			put_attr(&n->attr[k], out);
		buf_puts(out, " (");
		for (int k = 0; k < n->nin; k++)
			put_value(g, n->in[k], names, out);
		buf_puts(out, " ) ->");
		for (int k = 0; k < n->nout; k++)
			put_value(g, n->out[k], names, out);
		buf_puts(out, "\n");
	}
	buf_puts(out, "out");
	for (int i = 0; i < g->noutputs; i++)
		put_value(g, g->output[i], names, out);
	buf_puts(out, "\n");
}

struct key graph_key(const struct graph *g)
{
	struct buf b = {0};
	put_graph(g, false, &b);
	struct key k = mix_bytes(buf_str(&b), b.n, 0);
	buf_free(&b);
	return k;
}

void graph_print(const struct graph *g, struct buf *out)
{
	put_graph(g, true, out);
}
