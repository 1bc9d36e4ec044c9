/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes through nodes that only move elements: which steps remain, and equal answers. */
#include "agent/run/plan.h"
#include "kernels/graph/eval.h"
#include "kernels/group/group.h"
#include "tests/lib/net.h"
#include "tests/lib/plan_error.h"

#include <math.h>

enum { TOKENS = 7, HEADS = 2, HEAD = 5 };

static int reshape(struct zoo *z, int x, int n, const int64_t *dims)
{
	return zoo_binary(z, "Reshape", x, zoo_ints(z, "shape", n, dims));
}

static int transpose(struct zoo *z, int x, int n, const int64_t *perm)
{
	struct attr p = zoo_attr_ints("perm", n, perm);
	return zoo_node(z, "Transpose", 1, &x, 1, &p);
}

static int input(struct zoo *z, int64_t rows, int64_t columns)
{
	return reshape(z, zoo_input(z, "x", 1, rows, columns).value, 2, (int64_t[]){rows, columns});
}

/* Query, key or value: [1, HEADS, TOKENS, HEAD]. */
static int part(struct zoo *z, int qkv, int64_t which)
{
	int i = zoo_ints(z, "index", 1, &which);
	z->g->value[i].t.shape.rank = 0;
	struct attr a = zoo_attr_int("axis", 0);
	return zoo_node(z, "Gather", 2, (int[]){qkv, i}, 1, &a);
}

static int softmax(struct zoo *z, int x)
{
	struct attr axis = zoo_attr_int("axis", -1);
	return zoo_node(z, "Softmax", 1, &x, 1, &axis);
}

static int tasks(const struct graph *g, const struct steps *s, const char *type)
{
	int n = 0;
	for (int i = 0; i < s->nsteps; i++)
		n += s->step[i].kind == STEP_TASK &&
		     (!type ||
		      (s->step[i].anchor >= 0 && !strcmp(node_type(&g->node[s->step[i].anchor]), type)));
	return n;
}

static int nothing(void *ctx, const struct task *t, const char *text, struct arena *a, struct code *out,
		   enum kernel_origin *origin)
{
	(void)ctx, (void)t, (void)text, (void)a, (void)out, (void)origin;
	return E_NOTFOUND;
}

static const struct target lanes16 = {.lanes = 16, .regs = 32, .l1_bytes = 1 << 15, .l2_bytes = 1 << 20};

static const struct steps *steps_of(struct graph *g, struct arena *a)
{
	struct steps *s = NULL;
	CHECK_OK(graph_steps(g, &lanes16, NULL, a, &s));
	return s;
}

static double error(struct graph *g, const struct steps *s)
{
	return plan_error(g, s, &lanes16, &(struct kernel_source){.ctx = NULL, .find = nothing}, 1);
}

TEST(attention_reads_and_writes_in_place)
{
	struct zoo z = net_begin("views");
	struct arena a = {0};
	int qkv = reshape(&z, input(&z, TOKENS, 3 * HEADS * HEAD), 5, (int64_t[]){1, TOKENS, 3, HEADS, HEAD});
	qkv = transpose(&z, qkv, 5, (int64_t[]){2, 0, 3, 1, 4});
	int q = part(&z, qkv, 0), k = part(&z, qkv, 1), v = part(&z, qkv, 2);
	int p = softmax(&z, zoo_binary(&z, "MatMul", q, transpose(&z, k, 4, (int64_t[]){0, 1, 3, 2})));
	int y = transpose(&z, zoo_binary(&z, "MatMul", p, v), 4, (int64_t[]){0, 2, 1, 3});
	struct graph *g = net_end(&z, reshape(&z, y, 2, (int64_t[]){TOKENS, HEADS * HEAD}));
	const struct steps *s = steps_of(g, &a);
	/* what remains: transposed keys, values in contiguous rows, two products, the softmax */
	CHECK(tasks(g, s, "Transpose") == 1 + 1 && tasks(g, s, "Gather") == 1 && tasks(g, s, "MatMul") == 2);
	/* and one kernel for all of it if there is code, named after the first of them */
	int parts = 0;
	for (int i = 0; i < s->nsteps; i++)
		parts += s->step[i].fused_by >= 0;
	CHECK(tasks(g, s, NULL) == 6 && parts == 5);
	CHECK(error(g, s) < 1e-5);
	graph_free(g);
	arena_free(&a);
}

/* First operands of products may have rows that lie apart. */
TEST(through_split_and_dims_of_one)
{
	struct zoo z = net_begin("views");
	struct arena a = {0};
	int x = input(&z, TOKENS, 2 * HEAD), half[2], y[2];
	struct attr axis = zoo_attr_int("axis", 1);
	for (int i = 0; i < 2; i++)
		half[i] = graph_add_value(z.g, i ? "right" : "left");
	CHECK_OK(graph_add_node(z.g, "Split", "halves", 17, 1, &x, 2, half, 1, &axis));
	for (int i = 0; i < 2; i++) {
		int w = zoo_normal(&z, "w", &(struct shape){2, {HEAD, 4}}, 0, 1);
		y[i] = zoo_binary(&z, "MatMul", reshape(&z, half[i], 3, (int64_t[]){1, TOKENS, HEAD}), w);
	}
	struct graph *g = net_end(&z, zoo_binary(&z, "Sub", y[0], y[1]));
	const struct steps *s = steps_of(g, &a);
	int hosts = 0;
	for (int i = 0; i < s->nsteps; i++)
		hosts += s->step[i].kind == STEP_HOST;
	CHECK(hosts == 0 && tasks(g, s, NULL) == 2);
	CHECK(error(g, s) < 1e-5);
	graph_free(g);
	arena_free(&a);
}

/* A second operand must have contiguous rows, and contiguous reads must stay contiguous. */
TEST(values_that_would_be_read_slowly_are_copied)
{
	struct zoo z = net_begin("views");
	struct arena a = {0};
	int x = input(&z, TOKENS, 2 * HEAD);
	int right = zoo_node(&z, "Slice", 4,
			     (int[]){x, zoo_ints(&z, "from", 1, (int64_t[]){HEAD}),
				     zoo_ints(&z, "to", 1, (int64_t[]){2 * HEAD}),
				     zoo_ints(&z, "axes", 1, (int64_t[]){1})},
			     0, NULL);
	int y = zoo_binary(&z, "MatMul", transpose(&z, x, 2, (int64_t[]){1, 0}), right);
	struct graph *g = net_end(&z, softmax(&z, y));
	const struct steps *s = steps_of(g, &a);
	CHECK(tasks(g, s, "Transpose") == 1 && tasks(g, s, "Slice") == 1);
	CHECK(error(g, s) < 1e-5);
	graph_free(g);
	arena_free(&a);
}

/* A value with other readers, or an output of the graph, is kept. */
TEST(values_with_other_readers_stay)
{
	struct zoo z = net_begin("views");
	struct arena a = {0};
	int x = reshape(&z, input(&z, TOKENS, HEADS * HEAD), 3, (int64_t[]){TOKENS, HEADS, HEAD});
	int t = transpose(&z, x, 3, (int64_t[]){1, 0, 2});
	int w = zoo_normal(&z, "w", &(struct shape){2, {HEAD, HEAD}}, 0, 1);
	int y = zoo_binary(&z, "MatMul", t, w);
	int back = transpose(&z, y, 3, (int64_t[]){1, 0, 2});
	int both = zoo_binary(&z, "Mul", back, zoo_unary(&z, "Sigmoid", back));
	struct graph *g = net_end(&z, zoo_binary(&z, "Add", transpose(&z, both, 3, (int64_t[]){1, 0, 2}), y));
	const struct steps *s = steps_of(g, &a);
	CHECK(tasks(g, s, "Transpose") == 2); /* y has two readers, so it is not written transposed */
	CHECK(error(g, s) < 1e-5);
	graph_free(g);
	arena_free(&a);
}

/* Copies of a Pad read its input, and the Pad's constant outside of it. */
TEST(a_view_of_a_pad_has_its_constant)
{
	struct zoo z = net_begin("views");
	struct arena a = {0};
	int x = zoo_input(&z, "x", 4, 5, 7).value;
	int pads = zoo_ints(&z, "pads", 8, (int64_t[]){0, 0, 1, 2, 0, 0, 1, 0});
	int y = zoo_node(&z, "Pad", 3, (int[]){x, pads, zoo_scalar(&z, "v", 0.25F)}, 0, NULL);
	struct graph *g = net_end(&z, transpose(&z, y, 4, (int64_t[]){0, 2, 3, 1}));
	CHECK(error(g, steps_of(g, &a)) < 1e-5);
	graph_free(g);
	arena_free(&a);
}

/* A map reads one value through two Pads: two operands with a constant each. */
TEST(pads_of_one_value_stay_apart)
{
	struct zoo z = net_begin("views");
	struct arena a = {0};
	int x = input(&z, 5, 7), y[2];
	for (int i = 0; i < 2; i++) {
		int pads = zoo_ints(&z, "pads", 4, (int64_t[]){i, 0, 1 - i, 0});
		y[i] = zoo_node(&z, "Pad", 3, (int[]){x, pads, zoo_scalar(&z, "v", i ? -3 : 0.25F)}, 0, NULL);
	}
	struct graph *g = net_end(&z, zoo_binary(&z, "Sub", y[0], y[1]));
	const struct steps *s = steps_of(g, &a);
	CHECK(tasks(g, s, "Pad") == 1); /* with the subtraction */
	CHECK(error(g, s) < 1e-5);
	graph_free(g);
	arena_free(&a);
}

/* Interleaved channels of two groups are reordered: each is read in place. */
TEST(shuffled_channels_are_copied_once)
{
	struct zoo z = net_begin("views");
	struct arena a = {0};
	int x = reshape(&z, zoo_input(&z, "x", 6, 3, 4).value, 3, (int64_t[]){3, 2, 12});
	x = transpose(&z, x, 3, (int64_t[]){1, 0, 2});
	x = reshape(&z, x, 5, (int64_t[]){2, 1, 3, 3, 4});
	int even = part(&z, x, 0), odd = part(&z, x, 1);
	struct graph *g = net_end(&z, zoo_binary(&z, "Sub", softmax(&z, even), softmax(&z, odd)));
	const struct steps *s = steps_of(g, &a);
	CHECK(tasks(g, s, "Transpose") == 0 && tasks(g, s, "Gather") == 2);
	CHECK(error(g, s) < 1e-5);
	graph_free(g);
	arena_free(&a);
}

/* Rows cut in two where two of them make a row of the other shape: there is no index of single dims. */
TEST(rows_that_would_be_divided_stay)
{
	struct zoo z = net_begin("views");
	struct arena a = {0};
	int x = transpose(&z, input(&z, 6, 4), 2, (int64_t[]){1, 0});
	x = transpose(&z, reshape(&z, x, 2, (int64_t[]){3, 8}), 2, (int64_t[]){1, 0});
	struct graph *g = net_end(&z, softmax(&z, x));
	const struct steps *s = steps_of(g, &a);
	CHECK(tasks(g, s, "Transpose") == 2);
	CHECK(error(g, s) < 1e-5);
	graph_free(g);
	arena_free(&a);
}

TEST(dims_of_one_change_places_for_nothing)
{
	struct zoo z = net_begin("views");
	struct arena a = {0};
	int x = reshape(&z, input(&z, TOKENS, HEAD), 4, (int64_t[]){1, 1, TOKENS, HEAD});
	int y = transpose(&z, softmax(&z, x), 4, (int64_t[]){0, 2, 3, 1});
	struct graph *g = net_end(&z, reshape(&z, y, 2, (int64_t[]){HEAD, TOKENS}));
	const struct steps *s = steps_of(g, &a);
	CHECK(tasks(g, s, NULL) == 1);
	CHECK(error(g, s) < 1e-5);
	graph_free(g);
	arena_free(&a);
}

/* A sum with an enlarged image: the map then goes over its rows and columns in pairs. */
TEST(a_map_reads_what_is_repeated)
{
	for (int c = 2; c <= 32; c += 30) { /* channels that fill no vector keep their lanes over columns */
		struct zoo z = net_begin("views");
		struct arena a = {0};
		struct fmap x = zoo_input(&z, "x", c, 6, 8);
		int scales = zoo_normal(&z, "scales", &(struct shape){1, {4}}, 0, 1);
		static const int64_t two[] = {2, 2};
		struct attr pool[] = {zoo_attr_ints("kernel_shape", 2, two),
				      zoo_attr_ints("strides", 2, two)};
		for (int d = 0; d < 4; d++)
			((float *)z.g->value[scales].t.data)[d] = d < 2 ? 1 : 2;
		int map = zoo_unary(&z, "Tanh", x.value);
		int small = zoo_node(&z, "MaxPool", 1, &x.value, 2, pool);
		int large = zoo_node(&z, "Resize", 3, (int[]){small, -1, scales}, 0, NULL);
		int y = zoo_binary(&z, "Add", map, large);
		struct graph *g = net_end(&z, reshape(&z, y, 2, (int64_t[]){c, 48}));
		const struct steps *s = steps_of(g, &a);
		CHECK(tasks(g, s, "Resize") == (c == 2));
		CHECK(error(g, s) < 1e-5);
		graph_free(g);
		arena_free(&a);
	}
}

static int enlarge(struct zoo *z, int x, int64_t h, int64_t w)
{
	int size = zoo_ints(z, "size", 4, (int64_t[]){1, 32, h, w});
	return zoo_node(z, "Resize", 4, (int[]){x, -1, -1, size}, 0, NULL);
}

/* Rows are doubled, columns use a table, which the map that reads them lacks: it has its own two operands. */
TEST(values_that_a_table_repeats_are_no_part_of_a_map)
{
	struct zoo z = net_begin("views");
	struct arena a = {0};
	int x = zoo_input(&z, "x", 32, 20, 18).value;
	struct attr window = zoo_attr_ints("kernel_shape", 2, (int64_t[]){9, 3});
	int p = enlarge(&z, x, 24, 24); /* made first: the sum is its */
	int q = enlarge(&z, zoo_node(&z, "MaxPool", 1, &x, 1, &window), 24, 24);
	p = zoo_binary(&z, "Add", p, q);
	struct graph *g = net_end(&z, reshape(&z, p, 2, (int64_t[]){32, 24 * 24}));
	const struct steps *s = steps_of(g, &a);
	CHECK(tasks(g, s, "Resize") == 2);
	CHECK(error(g, s) < 1e-5);
	graph_free(g);
	arena_free(&a);
}

/* A copy that outputs the value of a node which changes nothing. */
TEST(a_copy_that_took_in_a_node_stays)
{
	for (int last = 0; last < 2; last++) {
		struct zoo z = net_begin("views");
		struct arena a = {0};
		int t = transpose(&z, input(&z, TOKENS, HEAD), 2, (int64_t[]){1, 0});
		int y = zoo_node(&z, "Max", 1, &t, 0, NULL);
		struct graph *g = net_end(&z, last ? y : softmax(&z, y));
		const struct steps *s = steps_of(g, &a);
		CHECK(error(g, s) < 1e-5);
		graph_free(g);
		arena_free(&a);
	}
}

TEST(check_finds_a_broken_division)
{
	struct zoo z = net_begin("views");
	struct arena a = {0};
	int t = transpose(&z, softmax(&z, input(&z, TOKENS, HEAD)), 2, (int64_t[]){1, 0});
	struct graph *g = net_end(&z, softmax(&z, t));
	struct steps s = *steps_of(g, &a);
	CHECK_OK(steps_check(g, &s));
	s.nsteps--;
	CHECK_FAILS(steps_check(g, &s), E_CORRUPT, "no step computes the output");
	s.nsteps++;
	s.step++;
	s.nsteps--;
	CHECK_FAILS(steps_check(g, &s), E_CORRUPT, "before it is computed");
	graph_free(g);
	arena_free(&a);
}

TEST_MAIN
