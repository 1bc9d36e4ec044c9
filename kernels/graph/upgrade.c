/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/graph/upgrade.h"
#include "kernels/graph/op.h"

#include <math.h>
#include <string.h>

enum { MOST_INPUTS = 5 };

/* A node being given its new form: the inputs and attributes that it will have. */
struct change {
	struct graph *g;
	int at; /* the node */
	const char *type;
	int nin, in[MOST_INPUTS];
	int nattr;
	struct attr *attr;
	int rc; /* first failure */
};

static const struct node *node_of(const struct change *c)
{
	return &c->g->node[c->at];
}

static int add_constant(struct change *c, const char *name, enum dtype t, const struct shape *s,
			const void *data)
{
	int v = c->rc < 0 ? c->rc : graph_add_constant(c->g, name, t, s, data);
	c->rc = v < 0 ? v : c->rc;
	return v < 0 ? -1 : v;
}

static void drop_attr(struct change *c, const char *name)
{
	int kept = 0;
	for (int i = 0; i < c->nattr; i++)
		if (strcmp(c->attr[i].name, name) != 0)
			c->attr[kept++] = c->attr[i];
	c->nattr = kept;
}

/* Makes an input of an attribute of integers; an absent one stays absent. */
static void ints_to_input(struct change *c, const char *name, int input)
{
	const struct attr *a = node_attr(node_of(c), name);
	int value = -1;
	if (a && a->kind == ATTR_INTS)
		value = add_constant(c, name, DT_I64, &(struct shape){1, {a->n}}, a->ints);
	while (c->nin <= input)
		c->in[c->nin++] = -1;
	c->in[input] = value;
	drop_attr(c, name);
}

static void float_to_input(struct change *c, const char *name, float fallback, int input)
{
	float v = node_float(node_of(c), name, fallback);
	while (c->nin <= input)
		c->in[c->nin++] = -1;
	if (isfinite(v))
		c->in[input] = add_constant(c, name, DT_F32, &(struct shape){0}, &v);
	drop_attr(c, name);
}

static void change_clip(struct change *c)
{
	float_to_input(c, "min", -INFINITY, 1);
	float_to_input(c, "max", INFINITY, 2);
}

static void change_axes(struct change *c)
{
	ints_to_input(c, "axes", 1);
}

static void change_split(struct change *c)
{
	ints_to_input(c, "split", 1);
}

static void change_pad(struct change *c)
{
	ints_to_input(c, "pads", 1);
	float_to_input(c, "value", 0, 2);
}

static void change_slice(struct change *c)
{
	ints_to_input(c, "starts", 1);
	ints_to_input(c, "ends", 2);
	ints_to_input(c, "axes", 3);
}

static void change_topk(struct change *c)
{
	int64_t k = node_int(node_of(c), "k", 1);
	c->nin = 2;
	c->in[1] = add_constant(c, "k", DT_I64, &(struct shape){1, {1}}, &k);
	drop_attr(c, "k");
}

static void change_norm(struct change *c)
{
	if (!node_int(node_of(c), "spatial", 1))
		c->rc = fail(E_UNSUPPORTED, "spatial=0 has no equal");
	drop_attr(c, "spatial");
}

static void change_dropout(struct change *c)
{
	drop_attr(c, "ratio");
}

/* Before opset 13, all dimensions from the axis on were one. */
static void change_softmax(struct change *c)
{
	const struct shape *s = &c->g->value[node_of(c)->in[0]].t.shape;
	int64_t axis = node_int(node_of(c), "axis", 1);
	axis += axis < 0 ? s->rank : 0;
	for (int64_t d = axis + 1; d < s->rank; d++)
		if (s->d[d] != 1)
			c->rc = fail(E_UNSUPPORTED, "axis %lld of %d has no equal", (long long)axis, s->rank);
	drop_attr(c, "axis");
	c->attr[c->nattr++] =
	    (struct attr){.name = "axis", .kind = ATTR_INT, .i = axis < s->rank ? axis : -1};
}

/* Upsample, and Resize of opset 10: from pixel floor(x / scale), or between it and the next. */
static void change_resize(struct change *c)
{
	const struct attr *a = node_attr(node_of(c), "scales");
	int scales = c->nin > 1 ? c->in[1] : -1;
	if (a && a->kind == ATTR_FLOATS)
		scales = add_constant(c, "scales", DT_F32, &(struct shape){1, {a->n}}, a->floats);
	c->type = "Resize";
	c->nin = 3;
	c->in[1] = -1;
	c->in[2] = scales;
	drop_attr(c, "scales");
	c->attr[c->nattr++] =
	    (struct attr){.name = "coordinate_transformation_mode", .kind = ATTR_STRING, .s = "asymmetric"};
	c->attr[c->nattr++] = (struct attr){.name = "nearest_mode", .kind = ATTR_STRING, .s = "floor"};
}

static const struct {
	char type[19];
	void (*fn)(struct change *c);
} changes[] = {
    {"Clip", change_clip},       {"Squeeze", change_axes},    {"Unsqueeze", change_axes},
    {"ReduceSum", change_axes},  {"Split", change_split},     {"Pad", change_pad},
    {"Slice", change_slice},     {"TopK", change_topk},       {"BatchNormalization", change_norm},
    {"Softmax", change_softmax}, {"Hardmax", change_softmax}, {"LogSoftmax", change_softmax},
    {"Resize", change_resize},   {"Upsample", change_resize}, {"Dropout", change_dropout},
};

static int replace_node(struct change *c)
{
	while (c->nin && c->in[c->nin - 1] < 0)
		c->nin--;
	return graph_replace_node(c->g, c->at, c->type, node_of(c)->name, UPGRADE_OPSET, c->nin, c->in,
				  c->nattr, c->attr);
}

static bool in_words(const char *words, const char *w)
{
	size_t n = strlen(w);
	for (const char *p = words; (p = strstr(p, w)); p += n)
		if ((p == words || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
			return true;
	return false;
}

/* Whether the operator's later form only has more attributes or inputs, or other types. */
static bool still_fits(const struct node *n, const struct op_row *row)
{
	for (int i = 0; i < n->nattr; i++)
		if (!*n->attr[i].name || !row->attrs || !in_words(row->attrs, n->attr[i].name))
			return false;
	return n->nin >= row->min_in && (row->max_in < 0 || n->nin <= row->max_in) &&
	       row->code == n->op->rows[n->row].code;
}

/* row: of the operator in the new opset; -1: it has none. */
static int change_node(struct graph *g, int at, int row, struct arena *scratch)
{
	struct node *n = &g->node[at];
	struct change c = {.g = g, .at = at, .type = node_type(n), .nin = n->nin, .nattr = n->nattr};
	c.attr = ARENA_ARRAY(scratch, struct attr, n->nattr + 2);
	for (int i = 0; i < n->nattr; i++)
		c.attr[i] = n->attr[i];
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		if (strcmp(changes[i].type, c.type) != 0 || n->nin > MOST_INPUTS)
			continue;
		for (int k = 0; k < n->nin; k++)
			c.in[k] = n->in[k];
		changes[i].fn(&c);
		return c.rc < 0 ? c.rc : replace_node(&c);
	}
	if (row < 0 || !still_fits(n, &n->op->rows[row]))
		return fail(E_UNSUPPORTED, "no equal of opset %d is known", UPGRADE_OPSET);
	n->row = row;
	n->opset = UPGRADE_OPSET;
	return E_OK;
}

static int upgrade_node(struct graph *g, int at, struct arena *scratch)
{
	struct node *n = &g->node[at];
	int row, rc = E_OK;
	if (n->dead || n->opset >= UPGRADE_OPSET)
		return E_OK;
	bool same = op_find(node_type(n), UPGRADE_OPSET, &row) == n->op;
	const struct node old = *n;
	if (!same || row != n->row)
		rc = change_node(g, at, same ? row : -1, scratch);
	else
		n->opset = UPGRADE_OPSET;
	return fail_in(rc, "node '%s' (%s, opset %d): convert the model to opset %d", old.name,
		       node_type(&old), old.opset, UPGRADE_OPSET);
}

int graph_upgrade(struct graph *g)
{
	struct arena scratch = {0};
	int rc = E_OK;
	for (int i = 0, n = g->nnodes; i < n && rc >= 0; i++) {
		rc = upgrade_node(g, i, &scratch);
		arena_reset(&scratch);
	}
	arena_free(&scratch);
	return rc;
}
