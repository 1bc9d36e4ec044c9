/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent nodes that were expanded give the same as their own eval; unusual ones are not expanded. */
#include "tests/lib/test.h"
#include "kernels/graph/eval.h"
#include "kernels/group/group.h"
#include "kernels/graph/optimize.h"
#include "kernels/graph/pass.h"
#include "platform/base/rng.h"

#include <math.h>

enum { I = 5, H = 7, MAX_OUT = 3 };

struct cell {
	const char *type;
	int gates, t, n, dirs;
	bool bias, state;
	int nattr;
	struct attr attr[3];
	int lens; /* 0: no sequence lengths */
	bool apart;
};

struct net {
	struct graph *g;
	struct rng rng;
};

static int value(struct net *n, const char *name, const struct shape *s, bool known)
{
	int v = graph_add_value(n->g, name);
	struct tensor *t = &n->g->value[v].t;
	*t = (struct tensor){DT_F32, *s, NULL};
	if (!known) {
		n->g->input[n->g->ninputs++] = v;
		n->g->value[v].is_input = true;
		return v;
	}
	CHECK_OK(tensor_alloc(&n->g->arena, DT_F32, s, t));
	rng_fill(&n->rng, t->data, (size_t)shape_count(s));
	return v;
}

static int lengths(struct net *n, int count, int each)
{
	int v = graph_add_value(n->g, "lens");
	CHECK_OK(tensor_alloc(&n->g->arena, DT_I32, &(struct shape){1, {count}}, &n->g->value[v].t));
	for (int i = 0; i < count; i++)
		tensor_set(&n->g->value[v].t, i, each);
	return v;
}

static void build(struct net *n, const struct cell *c)
{
	struct arena a = {0};
	struct graph *g = ARENA_NEW(&a, struct graph);
	g->arena = a;
	g->name = "net";
	*n = (struct net){.g = g};
	rng_seed(&n->rng, 11);
	g->input = ARENA_ARRAY(&g->arena, int, 4);
	g->output = ARENA_ARRAY(&g->arena, int, MAX_OUT);
	int in[7] = {-1, -1, -1, -1, -1, -1, -1}, out[MAX_OUT], lstm = c->gates == 4;
	in[0] = value(n, "x", &(struct shape){3, {c->t, c->n, I}}, false);
	in[1] = value(n, "w", &(struct shape){3, {c->dirs, c->gates * H, I}}, true);
	in[2] = value(n, "r", &(struct shape){3, {c->dirs, c->gates * H, H}}, true);
	if (c->bias)
		in[3] = value(n, "b", &(struct shape){2, {c->dirs, 2 * c->gates * H}}, true);
	if (c->lens)
		in[4] = lengths(n, c->n, c->lens);
	for (int k = 0; k < 1 + lstm && c->state; k++)
		in[5 + k] = value(n, k ? "c" : "h", &(struct shape){3, {c->dirs, c->n, H}}, false);
	for (int k = 0; k < 2 + lstm; k++) {
		out[k] = graph_add_value(g, "y");
		g->output[g->noutputs++] = out[k];
		g->value[out[k]].is_output = true;
	}
	CHECK_OK(graph_add_node(g, c->type, "cell", 13, 6 + lstm, in, 2 + lstm, out, c->nattr, c->attr));
	CHECK_OK(graph_infer(g));
}

static void run(struct net *n, struct arena *a, struct tensor out[MAX_OUT])
{
	struct tensor *t = ARENA_ARRAY(a, struct tensor, n->g->nvalues), in[4];
	struct rng r;
	rng_seed(&r, 3);
	for (int i = 0; i < n->g->ninputs; i++) {
		CHECK_OK(tensor_alloc(a, DT_F32, &n->g->value[n->g->input[i]].t.shape, &in[i]));
		rng_fill(&r, in[i].data, (size_t)shape_count(&in[i].shape));
	}
	CHECK_OK(eval_graph(n->g, in, t, a));
	for (int k = 0; k < n->g->noutputs; k++)
		out[k] = t[n->g->output[k]];
}

static bool has(const struct graph *g, const char *type)
{
	for (int i = 0; i < g->nnodes; i++)
		if (!g->node[i].dead && !strcmp(node_type(&g->node[i]), type))
			return true;
	return false;
}

static void check_cell(const struct cell *c)
{
	struct net n;
	struct arena a = {0};
	struct tensor want[MAX_OUT], got[MAX_OUT];
	int before = test_bad;
	build(&n, c);
	run(&n, &a, want);
	CHECK_OK(graph_optimize(n.g));
	CHECK(has(n.g, c->type) == !c->apart);
	run(&n, &a, got);
	for (int k = 0; k < n.g->noutputs; k++) {
		CHECK(shape_equal(&want[k].shape, &got[k].shape));
		double worst = 0;
		for (int64_t i = 0; i < shape_count(&want[k].shape); i++)
			worst = fmax(worst, fabs(tensor_get(&want[k], i) - tensor_get(&got[k], i)));
		CHECK(worst <= 3e-6);
	}
	if (test_bad && !before)
		printf("  %s t %d n %d directions %d attributes %d\n", c->type, c->t, c->n, c->dirs,
		       c->nattr);
	arena_free(&a);
	graph_free(n.g);
}

#define TEXT(n, v)                                                                                           \
	{                                                                                                    \
		.name = n, .kind = ATTR_STRING, .s = v                                                       \
	}
#define NUMBER(n, v)                                                                                         \
	{                                                                                                    \
		.name = n, .kind = ATTR_INT, .i = v                                                          \
	}
static const char *const usual[] = {"Sigmoid", "Tanh", "Tanh"}, *const unusual[] = {"Relu", "Tanh", "Tanh"};

TEST(usual_cells)
{
	static const struct cell cells[] = {
	    {"LSTM", 4, 1, 1, 1, true, true, .apart = true},
	    {"LSTM", 4, 3, 2, 1, false, false, .apart = true},
	    {"LSTM", 4, 4, 3, 1, true, true, 1, {TEXT("direction", "reverse")}, .apart = true},
	    {"LSTM",
	     4,
	     3,
	     2,
	     2,
	     true,
	     true,
	     1,
	     {TEXT("direction", "bidirectional")},
	     .lens = 3,
	     .apart = true},
	    {"LSTM",
	     4,
	     2,
	     1,
	     1,
	     true,
	     false,
	     1,
	     {{.name = "activations", .kind = ATTR_STRINGS, .n = 3, .strings = usual}},
	     .apart = true},
	    {"GRU", 3, 3, 2, 1, true, true, .apart = true},
	    {"GRU", 3, 3, 2, 1, true, true, 1, {NUMBER("linear_before_reset", 1)}, .apart = true},
	    {"GRU",
	     3,
	     2,
	     1,
	     2,
	     false,
	     false,
	     2,
	     {TEXT("direction", "bidirectional"), NUMBER("linear_before_reset", 1)},
	     .apart = true},
	    {"RNN", 1, 4, 2, 1, true, false, .apart = true},
	    {"RNN", 1, 2, 1, 1, false, true, 1, {TEXT("direction", "reverse")}, .apart = true},
	};
	for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
		check_cell(&cells[i]);
}

TEST(others_stay_whole)
{
	static const struct cell cells[] = {
	    {"LSTM", 4, 3, 2, 1, true, true, .lens = 2},
	    {"LSTM", 4, 2, 1, 1, true, true, 1, {NUMBER("input_forget", 1)}},
	    {"LSTM", 4, 2, 1, 1, true, true, 1, {{.name = "clip", .kind = ATTR_FLOAT, .f = 0.5f}}},
	    {"LSTM",
	     4,
	     2,
	     1,
	     1,
	     true,
	     true,
	     1,
	     {{.name = "activations", .kind = ATTR_STRINGS, .n = 3, .strings = unusual}}},
	    {"GRU", 3, 1000, 1, 1, true, true}, /* too many nodes */
	};
	for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
		check_cell(&cells[i]);
}

TEST_MAIN
