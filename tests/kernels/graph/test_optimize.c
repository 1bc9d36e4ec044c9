/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/test.h"
#include "kernels/graph/eval.h"
#include "kernels/group/group.h"
#include "kernels/graph/optimize.h"
#include "platform/base/rng.h"

#include <math.h>

/* Pad -> Conv (grouped, own pads) -> BatchNormalization -> Mul -> Add -> Identity -> Relu, channels 4 -> 6.
 */
struct net {
	struct graph *g;
	struct rng rng;
	int last;
};

static int constant(struct net *n, const char *name, struct shape s, bool positive)
{
	struct graph *g = n->g;
	int v = graph_add_value(g, name);
	if (tensor_alloc(&g->arena, DT_F32, &s, &g->value[v].t) < 0)
		return -1;
	float *p = g->value[v].t.data;
	rng_fill(&n->rng, p, (size_t)shape_count(&s));
	for (int64_t i = 0; positive && i < shape_count(&s); i++)
		p[i] = fabsf(p[i]) + 0.1f;
	return v;
}

static int ints(struct net *n, const char *name, const int64_t *p, int count)
{
	struct graph *g = n->g;
	int v = graph_add_value(g, name);
	struct shape s = {1, {count}};
	if (tensor_alloc(&g->arena, DT_I64, &s, &g->value[v].t) < 0)
		return -1;
	memcpy(g->value[v].t.data, p, sizeof *p * (size_t)count);
	return v;
}

static void add(struct net *n, const char *type, int nin, const int *more, int nattr, const struct attr *attr)
{
	int in[8] = {n->last}, out = graph_add_value(n->g, type);
	for (int i = 1; i < nin; i++)
		in[i] = more[i - 1];
	CHECK_OK(graph_add_node(n->g, type, type, 13, nin, in, 1, &out, nattr, attr));
	n->last = out;
}

static void start(struct net *n, struct shape input)
{
	struct arena a = {0};
	struct graph *g = ARENA_NEW(&a, struct graph);
	g->arena = a;
	g->name = "net";
	*n = (struct net){.g = g};
	rng_seed(&n->rng, 7);
	g->input = ARENA_ARRAY(&g->arena, int, 1);
	g->output = ARENA_ARRAY(&g->arena, int, 2);
	n->last = g->input[0] = graph_add_value(g, "x");
	g->ninputs = 1;
	g->value[n->last].is_input = true;
	g->value[n->last].t = (struct tensor){DT_F32, input, NULL};
}

static void finish(struct net *n)
{
	n->g->output[n->g->noutputs++] = n->last;
	n->g->value[n->last].is_output = true;
	CHECK_OK(graph_infer(n->g));
}

static void build(struct net *n, float pad_value)
{
	static const int64_t pads[] = {0, 0, 1, 2, 0, 0, 0, 1}, own[] = {1, 0, 0, 1};
	struct attr group[] = {{.name = "group", .kind = ATTR_INT, .i = 2},
			       {.name = "pads", .kind = ATTR_INTS, .n = 4, .ints = own}};
	start(n, (struct shape){4, {1, 4, 7, 9}});
	int fill = constant(n, "fill", (struct shape){.rank = 0}, false);
	*(float *)n->g->value[fill].t.data = pad_value;
	add(n, "Pad", 3, (int[]){ints(n, "pads", pads, 8), fill}, 0, NULL);
	add(n, "Conv", 2, (int[]){constant(n, "w", (struct shape){4, {6, 2, 3, 3}}, false)}, 2, group);
	struct shape c6 = {1, {6}};
	add(n, "BatchNormalization", 5,
	    (int[]){constant(n, "s", c6, false), constant(n, "b", c6, false), constant(n, "m", c6, false),
		    constant(n, "v", c6, true)},
	    0, NULL);
	add(n, "Mul", 2, (int[]){constant(n, "k", (struct shape){3, {6, 1, 1}}, false)}, 0, NULL);
	add(n, "Add", 2, (int[]){constant(n, "o", (struct shape){.rank = 0}, false)}, 0, NULL);
	add(n, "Identity", 1, NULL, 0, NULL);
	add(n, "Relu", 1, NULL, 0, NULL);
	finish(n);
}

static struct tensor run(struct net *n, struct arena *a)
{
	struct tensor in, *t = ARENA_ARRAY(a, struct tensor, n->g->nvalues);
	struct rng r;
	rng_seed(&r, 3);
	CHECK_OK(tensor_alloc(a, DT_F32, &n->g->value[n->g->input[0]].t.shape, &in));
	rng_fill(&r, in.data, (size_t)shape_count(&in.shape));
	CHECK_OK(eval_graph(n->g, &in, t, a));
	return t[n->g->output[0]];
}

static int live(const struct graph *g)
{
	int count = 0;
	for (int i = 0; i < g->nnodes; i++)
		count += !g->node[i].dead;
	return count;
}

static void same_answer(struct net *before, struct net *after)
{
	struct arena a = {0};
	double diff = 0, most = 0;
	struct tensor ref = run(before, &a), got = run(after, &a);
	CHECK_OK(tensor_compare(&got, &ref, &diff, &most));
	CHECK(most > 0.1);
	CHECK(diff <= 1e-5 * most);
	arena_free(&a);
}

TEST(chain_becomes_one_convolution)
{
	struct net before, after;
	build(&before, 0);
	build(&after, 0);
	CHECK_OK(graph_optimize(after.g));
	CHECK(live(after.g) == 2); /* Conv, Relu */
	same_answer(&before, &after);
	graph_free(before.g);
	graph_free(after.g);
}

/* A convolution pads with zeros only. */
TEST(pad_with_a_value_stays)
{
	struct net before, after;
	build(&before, 0.5f);
	build(&after, 0.5f);
	CHECK_OK(graph_optimize(after.g));
	CHECK(live(after.g) == 3);
	same_answer(&before, &after);
	graph_free(before.g);
	graph_free(after.g);
}

static void build_pool(struct net *n, int64_t own_pad, int64_t counted)
{
	static const int64_t pads[] = {0, 0, 1, 1, 0, 0, 0, 1}, kernel[] = {3, 3}, strides[] = {2, 2};
	int64_t own[] = {0, own_pad, 0, 0};
	struct attr attr[] = {{.name = "kernel_shape", .kind = ATTR_INTS, .n = 2, .ints = kernel},
			      {.name = "strides", .kind = ATTR_INTS, .n = 2, .ints = strides},
			      {.name = "pads", .kind = ATTR_INTS, .n = 4, .ints = own},
			      {.name = "count_include_pad", .kind = ATTR_INT, .i = counted}};
	start(n, (struct shape){4, {1, 4, 7, 9}});
	add(n, "Pad", 2, (int[]){ints(n, "pads", pads, 8)}, 0, NULL);
	add(n, "AveragePool", 1, NULL, 4, attr);
	finish(n);
}

/* The zeros count in the average, which the pool's own padding may not do. */
TEST(pad_goes_into_an_average)
{
	static const int64_t cases[][3] = {{0, 0, 1}, {0, 1, 1}, {1, 1, 1}, {1, 0, 2}, {2, 1, 2}};
	for (int i = 0; i < 5; i++) {
		struct net before, after;
		build_pool(&before, cases[i][0], cases[i][1]);
		build_pool(&after, cases[i][0], cases[i][1]);
		CHECK_OK(graph_optimize(after.g));
		CHECK(live(after.g) == cases[i][2]);
		same_answer(&before, &after);
		graph_free(before.g);
		graph_free(after.g);
	}
}

/* Large windows become rows, then columns; a small window stays. */
TEST(a_large_maximum_is_two)
{
	for (int i = 0; i < 2; i++) {
		int64_t kernel[] = {i ? 3 : 5, 4}, strides[] = {2, 1}, pads[] = {2, 0, 1, 3},
			dilations[] = {1, 2};
		struct attr attr[] = {{.name = "kernel_shape", .kind = ATTR_INTS, .n = 2, .ints = kernel},
				      {.name = "strides", .kind = ATTR_INTS, .n = 2, .ints = strides},
				      {.name = "pads", .kind = ATTR_INTS, .n = 4, .ints = pads},
				      {.name = "dilations", .kind = ATTR_INTS, .n = 2, .ints = dilations}};
		struct net net[2];
		for (int k = 0; k < 2; k++) {
			start(&net[k], (struct shape){4, {1, 4, 11, 9}});
			add(&net[k], "MaxPool", 1, NULL, 4, attr);
			finish(&net[k]);
		}
		CHECK_OK(graph_optimize(net[1].g));
		CHECK(live(net[1].g) == 2 - i);
		same_answer(&net[0], &net[1]);
		graph_free(net[0].g);
		graph_free(net[1].g);
	}
}

/* Two strided convolutions of the same pixels share a copy of them; convolutions with few filters, or with
 * larger windows, stay strided. */
TEST(a_strided_convolution_reads_pixels)
{
	static const struct {
		int64_t filters, kernel, strides[2], second[2];
		int live; /* including the sum */
	} k[] = {{512, 1, {2, 3}, {2, 3}, 4},
		 {512, 1, {2, 3}, {1, 1}, 4},
		 {511, 1, {2, 3}, {2, 3}, 3},
		 {512, 2, {2, 3}, {2, 3}, 3}};
	for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
		struct net net[2];
		for (int j = 0; j < 2; j++) {
			struct net *n = &net[j];
			struct attr by[2] = {
			    {.name = "strides", .kind = ATTR_INTS, .n = 2, .ints = k[i].strides},
			    {.name = "strides", .kind = ATTR_INTS, .n = 2, .ints = k[i].second}};
			start(n, (struct shape){4, {1, 2, 9, 8}});
			int x = n->last, y[2];
			for (int c = 0; c < 2; c++) {
				struct shape w = {4, {k[i].filters, 2, k[i].kernel, k[i].kernel}};
				n->last = x;
				add(n, "Conv", 2, (int[]){constant(n, "w", w, false)}, 1, &by[c]);
				add(n, "ReduceSum", 1, NULL, 0, NULL);
				y[c] = n->last;
			}
			add(n, "Add", 2, y, 0, NULL);
			finish(n);
		}
		CHECK_OK(graph_optimize(net[1].g));
		CHECK(live(net[1].g) == k[i].live + 2);
		same_answer(&net[0], &net[1]);
		graph_free(net[0].g);
		graph_free(net[1].g);
	}
}

/* Narrow convolutions of one value that other convolutions read become one. With more filters, or with
 * another reader, they stay apart, also if only the last of three differs. */
TEST(narrow_siblings_are_one_convolution)
{
	static const int64_t column[] = {3, 1};
	static const struct attr window = {.name = "kernel_shape", .kind = ATTR_INTS, .n = 2, .ints = column};
	static const struct {
		int64_t filters[3];
		const char *reader;
		int live;
	} k[] = {{{1, 4, 3}, "Conv", 1 + 3 + 3}, {{8, 7, 15}, "Conv", 1 + 3 + 3},
		 {{15, 15, 15}, "Conv", 6},      {{16, 4, 3}, "Conv", 1 + 1 + 2 + 3},
		 {{1, 4, 3}, "Exp", 6},          {{1, 4, 3}, "MaxPool", 1 + 2 + 2 + 2}};
	for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
		struct net net[2];
		for (int j = 0; j < 2; j++) {
			struct net *n = &net[j];
			start(n, (struct shape){4, {1, 5, 3, 4}});
			int x = n->last, y[3];
			for (int c = 0; c < 3; c++) {
				int w = constant(n, "w", (struct shape){4, {k[i].filters[c], 5, 1, 1}},
						 false),
				    b = constant(n, "b", (struct shape){1, {k[i].filters[c]}}, false),
				    v = constant(n, "v", (struct shape){4, {2, k[i].filters[c], 3, 1}},
						 false);
				n->last = x;
				add(n, "Conv", c ? 3 : 2, (int[]){w, b}, 0, NULL);
				if (strcmp(k[i].reader, "MaxPool") != 0)
					add(n, k[i].reader, k[i].reader[0] == 'C' ? 2 : 1, &v, 0, NULL);
				else if (c < 2)
					add(n, "Conv", 2, &v, 0, NULL);
				else
					add(n, "MaxPool", 1, NULL, 1, &window);
				y[c] = n->last;
			}
			n->last = y[0];
			struct attr axis = {.name = "axis", .kind = ATTR_INT, .i = 1};
			add(n, "Concat", 3, y + 1, 1, &axis);
			finish(n);
		}
		CHECK_OK(graph_optimize(net[1].g));
		CHECK(live(net[1].g) == k[i].live + 1);
		same_answer(&net[0], &net[1]);
		graph_free(net[0].g);
		graph_free(net[1].g);
	}
}

enum norm {
	NORM,
	NORM_PLAIN,
	NORM_PRODUCT,
	NORM_TWICE,
	NORM_OTHER_MEAN,
	NORM_OTHER_POWER,
	NORM_OTHER_AXIS,
	NORM_KINDS
};

static int scalar(struct net *n, float v)
{
	int c = constant(n, "number", (struct shape){0, {0}}, true);
	*(float *)n->g->value[c].t.data = v;
	return c;
}

/* LayerNormalization of the last dim, as older exporters write it. */
static void build_norm(struct net *n, enum norm kind)
{
	int64_t last = -1, other = 1;
	struct attr mean = {.name = "axes", .kind = ATTR_INTS, .n = 1, .ints = &last}, odd = mean;
	odd.ints = &other;
	start(n, (struct shape){3, {1, 4, 9}});
	int x = n->last;
	add(n, "ReduceMean", 1, NULL, 1, kind == NORM_OTHER_MEAN ? &odd : &mean);
	int m = n->last;
	n->last = x;
	add(n, "Sub", 2, &m, 0, NULL);
	int d = n->last;
	if (kind == NORM_TWICE) {
		n->last = x;
		add(n, "Sub", 2, &m, 0, NULL);
	}
	if (kind == NORM_PRODUCT)
		add(n, "Mul", 2, &d, 0, NULL);
	else
		add(n, "Pow", 2, (int[]){scalar(n, kind == NORM_OTHER_POWER ? 4 : 2)}, 0, NULL);
	add(n, "ReduceMean", 1, NULL, 1, kind == NORM_OTHER_AXIS ? &odd : &mean);
	add(n, "Add", 2, (int[]){scalar(n, 0.01f)}, 0, NULL);
	add(n, "Sqrt", 1, NULL, 0, NULL);
	int root = n->last;
	n->last = d;
	add(n, "Div", 2, &root, 0, NULL);
	if (kind != NORM_PLAIN) {
		add(n, "Mul", 2, (int[]){constant(n, "scale", (struct shape){1, {9}}, false)}, 0, NULL);
		add(n, "Add", 2, (int[]){constant(n, "shift", (struct shape){1, {9}}, false)}, 0, NULL);
	}
	finish(n);
}

TEST(nodes_are_a_layer_normalization)
{
	for (int i = 0; i < NORM_KINDS; i++) {
		struct net net[2];
		for (int k = 0; k < 2; k++)
			build_norm(&net[k], (enum norm)i);
		CHECK_OK(graph_optimize(net[1].g));
		CHECK((live(net[1].g) == 1) == (i < NORM_OTHER_MEAN));
		same_answer(&net[0], &net[1]);
		graph_free(net[0].g);
		graph_free(net[1].g);
	}
}

/* number * x, multiplied by x transposed. If the scaled value has other readers, or the factor is no number,
 * nothing changes. */
TEST(a_factor_goes_behind_the_product)
{
	for (int i = 0; i < 4; i++) { /* the third has two readers, the last number is too large to be
				       * moved */
		static const int64_t perm[] = {0, 2, 1};
		struct attr attr = {.name = "perm", .kind = ATTR_INTS, .n = 3, .ints = perm};
		struct net net[2];
		for (int k = 0; k < 2; k++) {
			struct net *n = &net[k];
			start(n, (struct shape){3, {1, 4, 5}});
			int x = n->last;
			add(n, "Transpose", 1, NULL, 1, &attr);
			int t = n->last;
			n->last = x;
			add(n, "Mul", 2,
			    (int[]){i == 1 ? constant(n, "c", (struct shape){1, {5}}, true)
					   : scalar(n, i == 3 ? 1e6f : 0.25f)},
			    0, NULL);
			int scaled = n->last;
			add(n, "MatMul", 2, &t, 0, NULL);
			if (i == 2) {
				int y = n->last;
				n->last = scaled;
				add(n, "MatMul", 2, (int[]){(add(n, "Sigmoid", 1, NULL, 0, NULL), t)}, 0,
				    NULL);
				add(n, "Add", 2, &y, 0, NULL);
			}
			finish(n);
		}
		CHECK_OK(graph_optimize(net[1].g));
		int first = -1;
		for (int k = 0; k < net[1].g->nnodes; k++)
			if (first < 0 && !strcmp(node_type(&net[1].g->node[k]), "MatMul"))
				first = net[1].g->node[k].in[0];
		CHECK((first == net[1].g->input[0]) == (i == 0));
		same_answer(&net[0], &net[1]);
		graph_free(net[0].g);
		graph_free(net[1].g);
	}
}

/* Rows from `row` on, then columns from `column` on, every second one. */
static int phase(struct net *n, int x, int64_t row, int64_t column)
{
	const int64_t begin[] = {row, column}, end[] = {INT64_MAX, INT64_MAX}, axis[] = {2, -1},
		      by[] = {2, 2};
	for (int d = 0; d < 2; d++) {
		n->last = d ? n->last : x;
		add(n, "Slice", 5,
		    (int[]){ints(n, "begin", begin + d, 1), ints(n, "end", end + d, 1),
			    ints(n, "axis", axis + d, 1), ints(n, "step", by + d, 1)},
		    0, NULL);
	}
	return n->last;
}

enum focus { FOCUS, FOCUS_TWICE, FOCUS_READ, FOCUS_DILATED, FOCUS_KINDS };

static void build_focus(struct net *n, enum focus kind)
{
	static const int64_t pads[] = {1, 0, 1, 2}, strides[] = {1, 2}, dilations[] = {1, 2};
	struct attr attr[] = {{.name = "pads", .kind = ATTR_INTS, .n = 4, .ints = pads},
			      {.name = "strides", .kind = ATTR_INTS, .n = 2, .ints = strides},
			      {.name = "dilations", .kind = ATTR_INTS, .n = 2, .ints = dilations}};
	start(n, (struct shape){4, {1, 3, 8, 10}});
	int x = n->last, part[4];
	for (int i = 0; i < 4; i++)
		part[i] = phase(n, x, kind == FOCUS_TWICE ? 1 : i % 2, i / 2 - 10);
	n->last = part[0];
	struct attr axis = {.name = "axis", .kind = ATTR_INT, .i = 1};
	add(n, "Concat", 4, part + 1, 1, &axis);
	int joined = n->last;
	add(n, "Conv", 2, (int[]){constant(n, "w", (struct shape){4, {5, 12, 3, 2}}, false)},
	    kind == FOCUS_DILATED ? 3 : 2, attr);
	if (kind == FOCUS_READ) {
		int y = n->last;
		n->last = joined;
		add(n, "ReduceMax", 1, NULL, 0, NULL);
		add(n, "Add", 2, &y, 0, NULL);
	}
	finish(n);
}

/* The phases become a strided convolution, unless a phase is missing, the image is read differently too, or
 * taps would not be adjacent. */
TEST(phases_are_a_strided_convolution)
{
	for (int kind = 0; kind < FOCUS_KINDS; kind++) {
		struct net before, after;
		build_focus(&before, (enum focus)kind);
		build_focus(&after, (enum focus)kind);
		int all = live(before.g);
		CHECK_OK(graph_optimize(after.g));
		CHECK(live(after.g) == (kind == FOCUS ? 1 : all));
		same_answer(&before, &after);
		graph_free(before.g);
		graph_free(after.g);
	}
}

/* The parts are transposed instead if they are contiguous then: [1,a,b] by its last dim, not [2,a,b]. */
TEST(a_transposed_concat_joins_transposed_parts)
{
	static const int64_t perm[] = {0, 2, 1};
	for (int batch = 1; batch <= 2; batch++) {
		struct attr axis = {.name = "axis", .kind = ATTR_INT, .i = -1},
			    order = {.name = "perm", .kind = ATTR_INTS, .n = 3, .ints = perm};
		struct net net[2];
		for (int k = 0; k < 2; k++) {
			struct net *n = &net[k];
			start(n, (struct shape){3, {batch, 4, 5}});
			int x = n->last;
			add(n, "Neg", 1, NULL, 0, NULL);
			add(n, "Concat", 2, (int[]){x}, 1, &axis);
			add(n, "Transpose", 1, NULL, 1, &order);
			finish(n);
		}
		CHECK_OK(graph_optimize(net[1].g));
		CHECK(live(net[1].g) == (batch == 1 ? 4 : 3));
		same_answer(&net[0], &net[1]);
		graph_free(net[0].g);
		graph_free(net[1].g);
	}
}

TEST(shared_weights_are_not_scaled_in_place)
{
	struct net n;
	start(&n, (struct shape){2, {3, 5}});
	int w = constant(&n, "w", (struct shape){2, {5, 4}}, false), x = n.last;
	float first = *(float *)n.g->value[w].t.data;
	add(&n, "Gemm", 2, (int[]){w}, 0, NULL);
	add(&n, "Mul", 2, (int[]){constant(&n, "k", (struct shape){1, {4}}, false)}, 0, NULL);
	int left = n.last;
	n.last = x;
	add(&n, "Gemm", 2, (int[]){w}, 0, NULL);
	add(&n, "Sub", 2, (int[]){left}, 0, NULL);
	finish(&n);
	CHECK_OK(graph_optimize(n.g));
	CHECK(live(n.g) == 3);
	CHECK(*(float *)n.g->value[w].t.data == first);
	graph_free(n.g);
}

/* The convolution's own output is an output of the graph: nothing may be folded into it. */
TEST(an_output_keeps_its_value)
{
	struct net n;
	start(&n, (struct shape){4, {1, 2, 5, 5}});
	add(&n, "Conv", 2, (int[]){constant(&n, "w", (struct shape){4, {3, 2, 1, 1}}, false)}, 0, NULL);
	n.g->value[n.last].is_output = true;
	n.g->output[n.g->noutputs++] = n.last;
	add(&n, "Mul", 2, (int[]){constant(&n, "k", (struct shape){.rank = 0}, false)}, 0, NULL);
	finish(&n);
	CHECK_OK(graph_optimize(n.g));
	CHECK(live(n.g) == 2);
	graph_free(n.g);
}

TEST(constants_fold_and_the_unused_goes)
{
	struct net n;
	start(&n, (struct shape){1, {4}});
	int x = n.last;
	n.last = constant(&n, "c", (struct shape){1, {4}}, false);
	add(&n, "Exp", 1, NULL, 0, NULL);
	int e = n.last;
	n.last = x;
	add(&n, "Sqrt", 1, NULL, 0, NULL); /* is not read */
	n.last = x;
	add(&n, "Add", 2, (int[]){e}, 0, NULL);
	finish(&n);
	CHECK_OK(graph_optimize(n.g));
	CHECK(live(n.g) == 1);
	graph_free(n.g);
}

TEST_MAIN
