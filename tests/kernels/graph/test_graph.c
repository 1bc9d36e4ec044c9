/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/test.h"
#include "kernels/graph/eval.h"
#include "kernels/graph/names.h"
#include "kernels/graph/op.h"

static struct graph *new_graph(void)
{
	struct arena a = {0};
	struct graph *g = ARENA_NEW(&a, struct graph);
	g->arena = a;
	g->name = "test";
	return g;
}

static int value(struct graph *g, const char *name)
{
	return graph_add_value(g, name);
}

static int node1(struct graph *g, const char *type, int in, int out)
{
	return graph_add_node(g, type, type, 17, 1, &in, 1, &out, 0, NULL);
}

static int node2(struct graph *g, const char *type, int a, int b, int out)
{
	int in[] = {a, b};
	return graph_add_node(g, type, type, 17, 2, in, 1, &out, 0, NULL);
}

static void input(struct graph *g, int v, int64_t n)
{
	g->input = ARENA_ARRAY(&g->arena, int, 1);
	g->input[0] = v;
	g->ninputs = 1;
	g->value[v].is_input = true;
	g->value[v].t = (struct tensor){DT_F32, {1, {n}}, NULL};
}

static bool order_is(const struct graph *g, const char *types)
{
	struct buf b = {0};
	for (int i = 0; i < g->nnodes; i++)
		buf_printf(&b, "%s%s", i ? " " : "", node_type(&g->node[i]));
	bool same = !strcmp(buf_str(&b), types);
	if (!same)
		printf("order: %s\n", buf_str(&b));
	buf_free(&b);
	return same;
}

TEST(add_and_ask)
{
	struct graph *g = new_graph();
	const int64_t ints[] = {1, 2};
	const char *const strings[] = {"p", "q"};
	char word[] = "text";
	const struct attr attrs[] = {
	    {.name = "i", .kind = ATTR_INT, .i = -3},
	    {.name = "f", .kind = ATTR_FLOAT, .f = 0.5f},
	    {.name = "s", .kind = ATTR_STRING, .s = word},
	    {.name = "is", .kind = ATTR_INTS, .n = 2, .ints = ints},
	    {.name = "ss", .kind = ATTR_STRINGS, .n = 2, .strings = strings},
	};
	int x = value(g, "x"), y = value(g, "y");
	CHECK(graph_add_node(g, "Relu", "r", 17, 1, &x, 1, &y, 5, attrs) == 0);
	word[0] = '!';
	const struct node *n = &g->node[0];
	CHECK(node_int(n, "i", 9) == -3 && node_int(n, "none", 9) == 9 && node_int(n, "f", 9) == 9);
	CHECK(node_float(n, "f", 1) == 0.5f && node_float(n, "i", 1) == 1);
	CHECK(!strcmp(node_str(n, "s", ""), "text") && !strcmp(node_str(n, "i", "no"), "no"));
	CHECK(node_attr(n, "is")->ints[1] == 2 && !strcmp(node_attr(n, "ss")->strings[1], "q"));
	CHECK(g->value[y].producer == 0 && !strcmp(node_type(n), "Relu"));
	CHECK_FAILS(graph_add_node(g, "Nonesuch", "", 17, 1, &x, 1, &y, 0, NULL), E_NOTFOUND, "Nonesuch");
	graph_free(g);
}

TEST(sort_is_stable_and_pulls_in)
{
	struct graph *g = new_graph();
	int v[6];
	for (int i = 0; i < 6; i++)
		v[i] = value(g, "v");
	input(g, v[0], 4);
	node1(g, "Abs", v[0], v[1]);
	node1(g, "Neg", v[0], v[2]);
	node2(g, "Add", v[5], v[2], v[3]);
	node1(g, "Relu", v[3], v[4]);
	node1(g, "Exp", v[1], v[5]); /* appended late, used by Add */
	REQUIRE_OK(graph_sort(g));
	CHECK(order_is(g, "Abs Neg Exp Add Relu"));
	for (int i = 0; i < g->nnodes; i++)
		CHECK(g->value[g->node[i].out[0]].producer == i);
	REQUIRE_OK(graph_sort(g));
	CHECK(order_is(g, "Abs Neg Exp Add Relu"));
	g->node[4].dead = true;
	REQUIRE_OK(graph_sort(g));
	CHECK(order_is(g, "Abs Neg Exp Add") && g->value[v[4]].producer == -1);
	graph_free(g);
}

TEST(sort_names_a_cycle)
{
	struct graph *g = new_graph();
	int x = value(g, "x"), a = value(g, "a"), b = value(g, "b");
	input(g, x, 4);
	node2(g, "Add", x, b, a);
	node1(g, "Neg", a, b);
	CHECK_FAILS(graph_sort(g), E_CORRUPT, "cycle");
	graph_free(g);
}

/* A chain in the worst order, so long that recursion would overflow the stack. */
TEST(sort_deep)
{
	enum { DEEP = 300000 };
	struct graph *g = new_graph();
	for (int i = 0; i <= DEEP; i++)
		value(g, "v");
	input(g, 0, 1);
	for (int i = DEEP; i > 0; i--)
		REQUIRE(node1(g, "Neg", i - 1, i) >= 0);
	REQUIRE_OK(graph_sort(g));
	CHECK(g->nnodes == DEEP && g->node[0].in[0] == 0 && g->node[DEEP - 1].out[0] == DEEP);
	graph_free(g);
}

TEST(infer_folds_small_constants)
{
	struct graph *g = new_graph();
	int x = value(g, "x"), c = value(g, "c"), d = value(g, "d"), y = value(g, "y");
	static float data[] = {1, -2, 3, -4};
	input(g, x, 4);
	g->value[c].t = (struct tensor){DT_F32, {1, {4}}, data};
	node1(g, "Abs", c, d);
	node2(g, "Add", x, d, y);
	REQUIRE_OK(graph_infer(g));
	CHECK(g->value[d].t.data && tensor_get(&g->value[d].t, 3) == 4);
	CHECK(!g->value[y].t.data && g->value[y].t.shape.d[0] == 4);
	struct arena a = {0};
	struct tensor in = {DT_F32, {1, {4}}, data}, t[4];
	REQUIRE_OK(eval_graph(g, &in, t, &a));
	CHECK(tensor_get(&t[y], 0) == 2 && tensor_get(&t[y], 1) == 0);
	arena_free(&a);
	graph_free(g);
}

TEST(infer_reports_each_node_once)
{
	struct graph *g = new_graph();
	int x = value(g, "x"), c = value(g, "c"), y = value(g, "y"), z = value(g, "z"), w = value(g, "w");
	static float data[3];
	input(g, x, 4);
	g->value[c].t = (struct tensor){DT_F32, {1, {3}}, data};
	node2(g, "Add", x, c, y); /* shapes do not broadcast */
	node1(g, "Relu", y, z);   /* a consequence: gets no line */
	node2(g, "Mul", x, c, w); /* again */
	struct buf lines = {0};
	int worst = E_OK;
	CHECK(graph_infer_lines(g, &lines, &worst) == 2);
	CHECK(worst == E_CORRUPT);
	CHECK(strstr(buf_str(&lines), "'Add' (Add, opset 17)") && strstr(buf_str(&lines), "\nnode 'Mul'"));
	CHECK(!strstr(buf_str(&lines), "Relu"));
	buf_free(&lines);
	CHECK_FAILS(graph_infer(g), E_CORRUPT, "node 'Add'");
	graph_free(g);
}

TEST(check_finds_what_a_pass_could_break)
{
	struct graph *g = new_graph();
	int x = value(g, "x"), y = value(g, "y"), z = value(g, "z");
	input(g, x, 4);
	int first = node1(g, "Relu", x, y), second = node1(g, "Neg", y, z);
	g->output = &z;
	g->noutputs = 1;
	CHECK_OK(graph_check(g, true));
	g->node[first].in[0] = g->nvalues;
	CHECK_FAILS(graph_check(g, true), E_CORRUPT, "Relu reads value 3 of 3");
	g->node[first].in[0] = z;
	CHECK_FAILS(graph_check(g, true), E_CORRUPT, "Relu reads 'z' before it is computed");
	CHECK_OK(graph_check(g, false));
	g->node[first].in[0] = x;
	g->node[second].out[0] = y;
	CHECK_FAILS(graph_check(g, true), E_CORRUPT, "'Neg' writes 'y', which has another producer");
	g->node[second].out[0] = z;
	g->node[first].dead = true;
	CHECK_FAILS(graph_check(g, true), E_CORRUPT, "Neg reads 'y', which no node computes");
	g->node[second].dead = true;
	CHECK_FAILS(graph_check(g, true), E_CORRUPT, "the graph's output reads 'z', which no node computes");
	graph_free(g);
}

TEST(key_knows_structure_not_weights)
{
	struct key k[4];
	for (int i = 0; i < 4; i++) {
		struct graph *g = new_graph();
		int x = value(g, i == 1 ? "renamed" : "x"), c = value(g, "c"), y = value(g, "y");
		input(g, x, 100);
		g->value[c].t.dtype = DT_F32;
		REQUIRE_OK(tensor_alloc(&g->arena, DT_F32, &g->value[x].t.shape, &g->value[c].t));
		tensor_set(&g->value[c].t, 7, i == 2 ? 5 : 1);
		node2(g, i == 3 ? "Mul" : "Add", x, c, y);
		REQUIRE_OK(graph_infer(g));
		k[i] = graph_key(g);
		graph_free(g);
	}
	CHECK(key_equal(k[0], k[1]) && key_equal(k[0], k[2]) && !key_equal(k[0], k[3]));
}

TEST(names)
{
	struct arena a = {0};
	struct names m = {.a = &a};
	CHECK(!names_find(&m, "x"));
	for (int i = 0; i < 20000; i++)
		REQUIRE_OK(names_add(&m, arena_printf(&a, "name%d", i), i));
	for (int i = 0; i < 20000; i += 77)
		CHECK(*names_find(&m, arena_printf(&a, "name%d", i)) == i);
	CHECK(!names_find(&m, "name20000"));
	CHECK_FAILS(names_add(&m, "name5", 1), E_CORRUPT, "'name5' is used twice");
	arena_free(&a);
}

TEST_MAIN
