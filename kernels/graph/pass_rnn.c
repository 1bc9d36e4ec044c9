/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces LSTM, GRU and RNN by products and elementwise nodes, per gate: one Gemm over all times for the
 * input, and per time one Gemm for the state, with the gate's function and the cell's update in its epilogue.
 * Only for usual cells (default functions, constant weights, full sequences) with few enough times. */
#include "kernels/graph/pass.h"

#include <stdio.h>
#include <string.h>

enum { MAX_NODES = 4096, MAX_GATES = 4, OPSET = 13 };

static const struct kind {
	const char *type;
	int gates;
	const char *functions[3];
} kinds[] = {{"RNN", 1, {"Tanh"}}, {"GRU", 3, {"Sigmoid", "Tanh"}}, {"LSTM", 4, {"Sigmoid", "Tanh", "Tanh"}}};

/* An error is sticky: after it nothing is added. */
struct rnn {
	struct graph *g;
	const struct kind *kind;
	struct node node; /* a copy, because the array of nodes moves */
	int64_t t, n, i, h;
	int dirs, rc, serial;
	bool reset_after;
	int zeros;
};

static int value(struct rnn *r, const struct shape *s, enum dtype type)
{
	char name[160];
	if (r->rc < 0)
		return 0;
	snprintf(name, sizeof name, "%s/%d", r->node.name, r->serial++);
	int v = graph_add_value(r->g, name);
	if (v < 0) {
		r->rc = v;
		return 0;
	}
	r->g->value[v].t.dtype = type;
	r->g->value[v].t.shape = *s;
	return v;
}

static int add(struct rnn *r, const char *type, const struct shape *out, int nin, const int *in)
{
	static const struct attr transposed = {.name = "transB", .kind = ATTR_INT, .i = 1};
	int v = value(r, out, DT_F32);
	bool gemm = !strcmp(type, "Gemm");
	if (r->rc >= 0)
		r->rc =
		    graph_add_node(r->g, type, r->g->value[v].name, OPSET, nin, in, 1, &v, gemm, &transposed);
	return v;
}

static int unary(struct rnn *r, const char *type, int a)
{
	return r->rc < 0 ? 0 : add(r, type, &(struct shape){2, {r->n, r->h}}, 1, (int[]){a});
}

static int binary(struct rnn *r, const char *type, int a, int b)
{
	return r->rc < 0 ? 0 : add(r, type, &(struct shape){2, {r->n, r->h}}, 2, (int[]){a, b});
}

/* Adds a constant vector of integers. */
static int integers(struct rnn *r, int n, const int64_t *d)
{
	struct shape s = {1, {n}};
	int v = value(r, &s, DT_I64);
	if (r->rc >= 0)
		r->rc = tensor_alloc(&r->g->arena, DT_I64, &s, &r->g->value[v].t);
	if (r->rc >= 0)
		memcpy(r->g->value[v].t.data, d, sizeof *d * (size_t)n);
	return v;
}

static int reshape(struct rnn *r, int v, const struct shape *to)
{
	int shape = integers(r, to->rank, to->d);
	return add(r, "Reshape", to, 2, (int[]){v, shape});
}

/* Adds a slice of rows [from, to) of dim 0. */
static int slice(struct rnn *r, int v, int64_t from, int64_t to)
{
	if (r->rc < 0 || (from == 0 && to == r->g->value[v].t.shape.d[0]))
		return v;
	struct shape s = r->g->value[v].t.shape;
	s.d[0] = to - from;
	int begin = integers(r, 1, &from), end = integers(r, 1, &to), axes = integers(r, 1, &(int64_t){0});
	return add(r, "Slice", &s, 4, (int[]){v, begin, end, axes});
}

static int concat(struct rnn *r, int n, const int *in, int axis)
{
	if (n == 1 || r->rc < 0)
		return in[0];
	struct attr at = {.name = "axis", .kind = ATTR_INT, .i = axis};
	struct shape s = r->g->value[in[0]].t.shape;
	s.d[axis] *= n;
	int v = value(r, &s, DT_F32);
	if (r->rc >= 0)
		r->rc = graph_add_node(r->g, "Concat", r->g->value[v].name, OPSET, n, in, 1, &v, 1, &at);
	return v;
}

/* Part of input k, a constant, from element `at` on. */
static int part(struct rnn *r, int k, int64_t at, const struct shape *s)
{
	int v = value(r, s, DT_F32);
	if (r->rc >= 0)
		r->g->value[v].t.data = (float *)r->g->value[r->node.in[k]].t.data + at;
	return v;
}

static bool there(const struct rnn *r, int k)
{
	return k < r->node.nin && r->node.in[k] >= 0;
}

/* The bias of a gate: that of the input, that of the state (if `state`), or their sum. */
static int bias(struct rnn *r, int dir, int gate, bool input, bool state)
{
	struct shape s = {1, {r->h}};
	float *to;
	int v = r->rc < 0 ? 0 : pass_constant(r->g, "bias", &s, &to);
	if (r->rc < 0 || v < 0) {
		r->rc = v < 0 ? v : r->rc;
		return 0;
	}
	if (!there(r, 3))
		return v;
	const float *b = r->g->value[r->node.in[3]].t.data;
	b += (dir * 2 * r->kind->gates + gate) * r->h;
	for (int64_t j = 0; j < r->h; j++)
		to[j] = (input ? b[j] : 0) + (state ? b[r->kind->gates * r->h + j] : 0);
	return v;
}

/* State of one direction while it is built. */
struct cell {
	int dir, x;                               /* [t n][i] */
	int input[MAX_GATES], weights[MAX_GATES]; /* [t n][h]; [h][h] */
	int reset_bias;
	int h, c; /* state and cell, [n][h] */
};

static void open(struct rnn *r, struct cell *c)
{
	int gates = r->kind->gates;
	bool gru = !strcmp(r->kind->type, "GRU"), after = gru && r->reset_after;
	for (int k = 0; k < gates; k++) {
		int64_t at = c->dir * gates + k;
		int w = part(r, 1, at * r->h * r->i, &(struct shape){2, {r->h, r->i}});
		int b = bias(r, c->dir, k, true, !after || k < 2);
		c->weights[k] = part(r, 2, at * r->h * r->h, &(struct shape){2, {r->h, r->h}});
		c->input[k] = add(r, "Gemm", &(struct shape){2, {r->t * r->n, r->h}}, 3, (int[]){c->x, w, b});
	}
	c->reset_bias = after ? bias(r, c->dir, 2, false, true) : -1;
	int *state[] = {&c->h, &c->c};
	for (int k = 0; k < 2; k++) {
		*state[k] = r->zeros;
		if (there(r, 5 + k) && (k == 0 || gates == 4))
			*state[k] = reshape(r, slice(r, r->node.in[5 + k], c->dir, c->dir + 1),
					    &(struct shape){2, {r->n, r->h}});
	}
}

/* Adds gate k at time t with its function; from: the value that the state's weights multiply. */
static int gate(struct rnn *r, const struct cell *c, int k, int64_t t, int from, const char *function)
{
	int x = slice(r, c->input[k], t * r->n, (t + 1) * r->n);
	int sum = add(r, "Gemm", &(struct shape){2, {r->n, r->h}}, 3, (int[]){from, c->weights[k], x});
	return unary(r, function, sum);
}

static void step_rnn(struct rnn *r, struct cell *c, int64_t t)
{
	c->h = gate(r, c, 0, t, c->h, "Tanh");
}

static void step_gru(struct rnn *r, struct cell *c, int64_t t)
{
	int z = gate(r, c, 0, t, c->h, "Sigmoid"), reset = gate(r, c, 1, t, c->h, "Sigmoid"), fresh;
	if (c->reset_bias >= 0) {
		struct shape s = {2, {r->n, r->h}};
		int x = slice(r, c->input[2], t * r->n, (t + 1) * r->n);
		int product = add(r, "Gemm", &s, 3, (int[]){c->h, c->weights[2], c->reset_bias});
		fresh = unary(r, "Tanh", binary(r, "Add", binary(r, "Mul", product, reset), x));
	} else {
		fresh = gate(r, c, 2, t, binary(r, "Mul", reset, c->h), "Tanh");
	}
	c->h = binary(r, "Add", fresh, binary(r, "Mul", binary(r, "Sub", c->h, fresh), z));
}

/* Gates i o f c. */
static void step_lstm(struct rnn *r, struct cell *c, int64_t t)
{
	int in = gate(r, c, 0, t, c->h, "Sigmoid"), forget = gate(r, c, 2, t, c->h, "Sigmoid");
	int kept = binary(r, "Mul", forget, c->c), fresh = gate(r, c, 3, t, c->h, "Tanh");
	c->c = binary(r, "Add", binary(r, "Mul", fresh, in), kept);
	int seen = unary(r, "Tanh", c->c), out = gate(r, c, 1, t, c->h, "Sigmoid");
	c->h = binary(r, "Mul", out, seen);
}

static int direction(struct rnn *r, int dir, bool backward, int x, int *all, int *last_h, int *last_c)
{
	static void (*const step[])(struct rnn *, struct cell *, int64_t) = {step_rnn, step_gru, step_lstm};
	struct cell c = {.dir = dir, .x = x};
	struct shape one = {4, {1, 1, r->n, r->h}}, state = {3, {1, r->n, r->h}};
	open(r, &c);
	for (int64_t k = 0; k < r->t && r->rc >= 0; k++) {
		int64_t t = backward ? r->t - 1 - k : k;
		step[r->kind - kinds](r, &c, t);
		all[t] = reshape(r, c.h, &one);
	}
	*last_h = reshape(r, c.h, &state);
	*last_c = reshape(r, c.c, &state);
	return concat(r, (int)r->t, all, 0);
}

static void give(struct rnn *r, int k, int v)
{
	if (r->rc < 0 || k >= r->node.nout || r->node.out[k] < 0)
		return;
	int to = r->node.out[k];
	r->rc = graph_add_node(r->g, "Identity", r->g->value[to].name, OPSET, 1, &v, 1, &to, 0, NULL);
}

static int expand(struct rnn *r, bool backward, struct arena *scratch)
{
	int h[2], c[2], y[2], *all = arena_try(scratch, (size_t)r->t, sizeof *all);
	float *zeros;
	if (!all)
		return E_NOMEM;
	r->zeros = pass_constant(r->g, "zeros", &(struct shape){2, {r->n, r->h}}, &zeros);
	if (r->zeros < 0)
		return r->zeros;
	int x = reshape(r, r->node.in[0], &(struct shape){2, {r->t * r->n, r->i}});
	for (int d = 0; d < r->dirs; d++)
		y[d] = direction(r, d, d == 1 || backward, x, all, &h[d], &c[d]);
	give(r, 0, concat(r, r->dirs, y, 1));
	give(r, 1, concat(r, r->dirs, h, 0));
	give(r, 2, concat(r, r->dirs, c, 0));
	return r->rc;
}

/* Whether all functions are the kind's default ones. */
static bool usual_functions(const struct rnn *r)
{
	const struct attr *a = node_attr(&r->node, "activations");
	int n = 0;
	while (n < 3 && r->kind->functions[n])
		n++;
	if (a && (a->kind != ATTR_STRINGS || a->n != n * r->dirs))
		return false;
	for (int k = 0; a && k < a->n; k++)
		if (strcmp(a->strings[k], r->kind->functions[k % n]))
			return false;
	return true;
}

static bool full_sequences(const struct rnn *r)
{
	const struct tensor *len = there(r, 4) ? &r->g->value[r->node.in[4]].t : NULL;
	for (int64_t k = 0; len && len->data && k < r->n; k++)
		if (tensor_get_i64(len, k) != r->t)
			return false;
	return !len || len->data;
}

/* Fills r from a node that inference has checked. False: the node stays unchanged. */
static bool read_node(struct graph *g, int i, struct rnn *r)
{
	const struct node *n = &g->node[i];
	*r = (struct rnn){.g = g, .node = *n};
	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
		if (!strcmp(kinds[k].type, node_type(n)))
			r->kind = &kinds[k];
	if (!r->kind || n->dead || node_int(n, "layout", 0) || node_int(n, "input_forget", 0) ||
	    node_float(n, "clip", 0) > 0 || there(r, 7))
		return false;
	for (int k = 1; k < 4; k++)
		if (there(r, k) && !pass_is_f32_constant(g, n->in[k]))
			return false;
	for (int k = 0; k < 7; k += k ? 1 : 5)
		if (there(r, k) && g->value[n->in[k]].t.dtype != DT_F32)
			return false;
	const struct shape *x = &g->value[n->in[0]].t.shape, *w = &g->value[n->in[2]].t.shape;
	r->t = x->d[0];
	r->n = x->d[1];
	r->i = x->d[2];
	r->h = w->d[2];
	r->dirs = (int)w->d[0];
	r->reset_after = node_int(n, "linear_before_reset", 0) != 0;
	return r->t > 0 && r->n > 0 && r->i > 0 && r->h > 0 &&
	       r->t * r->dirs * r->kind->gates * 4 <= MAX_NODES && usual_functions(r) && full_sequences(r);
}

int pass_rnn(struct graph *g, struct arena *scratch)
{
	int changed = 0, nnodes = g->nnodes;
	for (int i = 0; i < nnodes; i++) {
		struct rnn r;
		if (!read_node(g, i, &r))
			continue;
		g->node[i].dead = true;
		const char *direction = node_str(&r.node, "direction", "forward");
		int rc = expand(&r, !strcmp(direction, "reverse"), scratch);
		if (rc < 0)
			return fail_in(rc, "taking node '%s' apart", r.node.name);
		changed++;
	}
	int rc = changed ? graph_sort(g) : E_OK;
	return rc < 0 ? rc : changed;
}
