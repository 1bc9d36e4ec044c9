/* SPDX-License-Identifier: Apache-2.0 */
/* Random equations of two operands: what pass_einsum makes equals Einsum's own evaluation, and products of
 * matrices do become MatMul. Under emulation a share of them runs (test_share). */
#include "tests/lib/test.h"
#include "kernels/graph/eval.h"
#include "kernels/graph/optimize.h"
#include "platform/base/rng.h"
#include "platform/base/until.h"

struct equation {
	char text[64];
	struct shape in[2];
	bool product; /* is one of matrices */
};

static void append(char *text, char c)
{
	size_t n = strlen(text);
	text[n] = c;
	text[n + 1] = 0;
}

static void shuffle(struct rng *r, char *text)
{
	for (int i = (int)strlen(text) - 1; i > 0; i--) {
		int k = (int)rng_below(r, (uint32_t)i + 1);
		char c = text[i];
		text[i] = text[k];
		text[k] = c;
	}
}

/* Labels a, b, ... each in the first operand, the second or both, and in the output or not. */
static struct equation draw(struct rng *r)
{
	struct equation e = {.product = true};
	char in[2][8] = {"", ""}, out[8] = "";
	int64_t size[8];
	int n = 1 + (int)rng_below(r, 6);
	for (int l = 0; l < n; l++) {
		int where = 1 + (int)rng_below(r, 3);
		bool lasts = rng_below(r, where == 3 ? 2 : 8) != 0;
		size[l] = 1 + (int64_t)rng_below(r, 4);
		for (int k = 0; k < 2; k++)
			if (where >> k & 1)
				append(in[k], (char)('a' + l));
		if (lasts)
			append(out, (char)('a' + l));
		e.product &= lasts || where == 3;
	}
	shuffle(r, in[0]), shuffle(r, in[1]), shuffle(r, out);
	for (int k = 0; k < 2; k++)
		for (const char *c = in[k]; *c; c++)
			e.in[k].d[e.in[k].rank++] = size[*c - 'a'];
	snprintf(e.text, sizeof e.text, "%s,%s->%s", in[0], in[1], out);
	return e;
}

/* The second operand may be a constant, as weights are. */
static struct graph *build(const struct equation *e, bool weights, struct rng *r)
{
	struct arena a = {0};
	struct graph *g = ARENA_NEW(&a, struct graph);
	const struct attr text = {.name = "equation", .kind = ATTR_STRING, .s = arena_strdup(&a, e->text)};
	int in[2];
	g->arena = a;
	g->name = "net";
	g->input = ARENA_ARRAY(&g->arena, int, 2);
	g->output = ARENA_ARRAY(&g->arena, int, 1);
	for (int k = 0; k < 2; k++) {
		in[k] = graph_add_value(g, k ? "y" : "x");
		struct value *v = &g->value[in[k]];
		v->t = (struct tensor){DT_F32, e->in[k], NULL};
		v->producer = -1;
		if (k && weights) {
			CHECK_OK(tensor_alloc(&g->arena, DT_F32, &e->in[k], &v->t));
			rng_fill(r, v->t.data, (size_t)shape_count(&e->in[k]));
			continue;
		}
		v->is_input = true;
		g->input[g->ninputs++] = in[k];
	}
	int out = graph_add_value(g, "z");
	g->value[out].is_output = true;
	g->output[g->noutputs++] = out;
	CHECK_OK(graph_add_node(g, "Einsum", "einsum", 13, 2, in, 1, &out, 1, &text));
	CHECK_OK(graph_infer(g));
	return g;
}

static struct tensor run(struct graph *g, const struct tensor *in, struct arena *a)
{
	struct tensor *t = ARENA_ARRAY(a, struct tensor, g->nvalues);
	CHECK_OK(eval_graph(g, in, t, a));
	return t[g->output[0]];
}

static int count(const struct graph *g, const char *type)
{
	int n = 0;
	for (int i = 0; i < g->nnodes; i++)
		n += !g->node[i].dead && !strcmp(node_type(&g->node[i]), type);
	return n;
}

TEST(products_of_matrices_become_matmul)
{
	struct rng r;
	int n = 2000 / test_share(), products = 0;
	rng_seed(&r, 27);
	for (int i = 0; i < n && !test_bad; i++) {
		struct equation e = draw(&r);
		struct arena a = {0};
		struct graph *g = build(&e, rng_below(&r, 2), &r);
		struct tensor in[2], want, got;
		double diff = 0, most = 0;
		for (int k = 0; k < g->ninputs; k++) {
			CHECK_OK(tensor_alloc(&a, DT_F32, &e.in[k], &in[k]));
			rng_fill(&r, in[k].data, (size_t)shape_count(&e.in[k]));
		}
		want = run(g, in, &a);
		CHECK_OK(graph_optimize(g));
		CHECK_OK(graph_check(g, true));
		got = run(g, in, &a);
		CHECK(shape_equal(&got.shape, &want.shape));
		CHECK_OK(tensor_compare(&got, &want, &diff, &most));
		CHECK(diff <= 1e-5 * most + 1e-6);
		CHECK(count(g, "Einsum") == !e.product);
		products += count(g, "MatMul") == 1;
		if (test_bad)
			printf("  equation %d: %s\n", i, e.text);
		graph_free(g);
		arena_free(&a);
	}
	CHECK(products > n / 4);
}

/* The pass copies no operand of the equations that models use most. */
TEST(operands_in_the_order_of_products_stay_as_they_are)
{
	static const struct equation cases[] = {
	    {"ab,bc->ac", {{2, {3, 4}}, {2, {4, 5}}}, true},
	    {"abcd,cde->abe", {{4, {2, 3, 4, 5}}, {3, {4, 5, 6}}}, true},
	    {"abc,cde->abde", {{3, {2, 3, 4}}, {3, {4, 5, 6}}}, true},
	    {"abcd,abde->abce", {{4, {2, 3, 4, 5}}, {4, {2, 3, 5, 6}}}, true},
	};
	struct rng r;
	rng_seed(&r, 1);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct graph *g = build(&cases[i], false, &r);
		CHECK_OK(graph_optimize(g));
		CHECK(count(g, "MatMul") == 1 && count(g, "Transpose") == 0);
		graph_free(g);
	}
}

TEST(a_long_sum_ends_with_the_time)
{
	struct rng r;
	struct equation sums = {"abc,def->", {{3, {100, 100, 10}}, {3, {100, 100, 10}}}, false};
	struct until until = {.clock = &clock_real, .end_ns = clock_now(&clock_real) + 100 * NS_PER_MS};
	struct arena a = {0};
	struct tensor in[2], *t;
	rng_seed(&r, 1);
	struct graph *g = build(&sums, false, &r);
	for (int k = 0; k < 2; k++) {
		CHECK_OK(tensor_alloc(&a, DT_F32, &sums.in[k], &in[k]));
		rng_fill(&r, in[k].data, (size_t)shape_count(&sums.in[k]));
	}
	t = ARENA_ARRAY(&a, struct tensor, g->nvalues);
	until_set(&until);
	double begun_s = test_now_s();
	CHECK_FAILS(eval_graph(g, in, t, &a), E_TIMEOUT, "");
	CHECK(test_now_s() - begun_s < 10);
	until_set(NULL);
	graph_free(g);
	arena_free(&a);
}

TEST_MAIN
