/* SPDX-License-Identifier: Apache-2.0 */
/* 1x1 convolutions of an enlarged image that is joined to others: which of them move before the enlargement,
 * and equal answers. */
#include "kernels/graph/eval.h"
#include "kernels/group/group.h"
#include "kernels/graph/optimize.h"
#include "tests/lib/net.h"

enum how { BY_ATTRIBUTE, BY_SCALES, BY_SIZES };

/* The difference of two convolutions of x, its enlarged maxima and, with three parts, x's largest channel. */
struct joined {
	const char *type, *mode;
	int opset; /* of the Resize or Upsample */
	enum how how;
	float scale;   /* for channels */
	int parts, at; /* parts in all; index of the enlarged one */
	int64_t axis, kernel;
	enum { READ_ONCE, JOINED_ASKED, ENLARGED_READ } also;
	bool divided;
};

static const struct joined usual = {"Resize", "nearest", 13, BY_SCALES, 1, 3, 1, 1, 1, READ_ONCE, true};

static int enlarge(struct zoo *z, const struct joined *j, int x)
{
	static const int64_t size[] = {1, 3, 6, 8};
	const float f[] = {1, j->scale, 2, 2};
	struct attr a[] = {{.name = "mode", .kind = ATTR_STRING, .s = j->mode, .n = (int)strlen(j->mode)},
			   {.name = "scales", .kind = ATTR_FLOATS, .n = 4, .floats = f}};
	int in[] = {x, -1, -1, -1}, nin = 1, opset = z->opset;
	if (j->how == BY_SCALES) {
		int scales = zoo_normal(z, "scales", &(struct shape){1, {4}}, 0, 1);
		memcpy(z->g->value[scales].t.data, f, sizeof f);
		nin = strcmp(j->type, "Resize") ? 2 : 3;
		in[nin - 1] = scales;
	} else if (j->how == BY_SIZES) {
		in[3] = zoo_ints(z, "size", 4, size);
		nin = 4;
	}
	z->opset = j->opset;
	int y = zoo_node(z, j->type, nin, in, j->how == BY_ATTRIBUTE ? 2 : 1, a);
	z->opset = opset;
	return y;
}

static struct graph *build(const struct joined *j)
{
	static const int64_t two[] = {2, 2}, one[] = {1};
	struct attr pool[] = {zoo_attr_ints("kernel_shape", 2, two), zoo_attr_ints("strides", 2, two)},
		    axis = zoo_attr_int("axis", j->axis), first = zoo_attr_ints("axes", 1, one);
	struct zoo z = net_begin("net");
	int x = zoo_input(&z, "x", 3, 6, 8).value, part[3], y[2], n = 0;
	int large = enlarge(&z, j, zoo_node(&z, "MaxPool", 1, &x, 2, pool));
	int other[] = {x, j->parts < 3 ? -1 : zoo_node(&z, "ReduceMax", 1, &x, 1, &first)};
	for (int i = 0; i < j->parts; i++)
		part[i] = i == j->at ? large : other[n++];
	int all = zoo_node(&z, "Concat", j->parts, part, 1, &axis);
	for (int i = 0; i < 2; i++) {
		int channels = j->axis == -1 ? 3 : j->parts < 3 ? 6 : 7;
		struct shape w = {4, {4, channels, j->kernel, j->kernel}};
		int in[] = {all, zoo_normal(&z, "w", &w, 0, 1),
			    zoo_normal(&z, "b", &(struct shape){1, {4}}, 0, 1)};
		y[i] = zoo_node(&z, "Conv", 3, in, 0, NULL);
	}
	int out = zoo_binary(&z, "Sub", y[0], y[1]);
	if (j->also == ENLARGED_READ)
		out = zoo_binary(&z, "Add", out, zoo_unary(&z, "ReduceMax", large));
	zoo_output(&z, out, "y");
	if (j->also == JOINED_ASKED) {
		z.g->value[all].is_output = true;
		z.g->output = ARENA_ARRAY(&z.g->arena, int, 2);
		z.g->output[0] = out;
		z.g->output[z.g->noutputs++] = all;
	}
	CHECK_OK(z.rc);
	CHECK_OK(graph_infer(z.g));
	return z.g;
}

/* Nodes of a type; of all if NULL. */
static int count(const struct graph *g, const char *type)
{
	int n = 0;
	for (int i = 0; i < g->nnodes; i++)
		n += !g->node[i].dead && (!type || !strcmp(node_type(&g->node[i]), type));
	return n;
}

static struct tensor run(struct graph *g, struct arena *a)
{
	struct tensor in, *t = ARENA_ARRAY(a, struct tensor, g->nvalues);
	struct rng r;
	rng_seed(&r, 3);
	CHECK_OK(tensor_alloc(a, DT_F32, &g->value[g->input[0]].t.shape, &in));
	rng_fill(&r, in.data, (size_t)shape_count(&in.shape));
	CHECK_OK(eval_graph(g, &in, t, a));
	return t[g->output[0]];
}

/* The other parts are joined once for both convolutions, in a Concat of their channels; a single other part
 * needs no Concat. */
static void check_rest(const struct graph *g, const struct joined *j)
{
	CHECK(count(g, "Concat") == (j->parts == 3));
	for (int i = 0; i < g->nnodes; i++) {
		const struct node *n = &g->node[i];
		if (!n->dead && !strcmp(node_type(n), "Concat"))
			CHECK(n->nin == 2 && g->value[n->out[0]].t.shape.d[1] == 4);
	}
}

static void check(const struct joined *j)
{
	struct arena a = {0};
	struct graph *before = build(j), *after = build(j);
	double diff = 0, most = 0;
	CHECK_OK(graph_optimize(after));
	struct tensor ref = run(before, &a), got = run(after, &a);
	CHECK_OK(tensor_compare(&got, &ref, &diff, &most));
	CHECK(most > 0.1 && diff <= 1e-5 * most);
	CHECK(count(after, "Conv") == (j->divided ? 4 : 2));
	CHECK(count(after, j->type) == (j->divided ? 2 : 1));
	/* adds a convolution, an enlargement and a sum per convolution; removes the old enlargement and its
	 * Concat */
	CHECK(count(after, NULL) == count(before, NULL) + (j->divided ? 5 - (j->parts == 2) : 0));
	if (j->divided)
		check_rest(after, j);
	graph_free(before);
	graph_free(after);
	arena_free(&a);
}

TEST(convolutions_go_before_an_enlargement)
{
	struct joined j = usual;
	check(&j);
	j.how = BY_SIZES;
	check(&j);
}

TEST(other_parts_are_joined_again)
{
	for (int parts = 2; parts <= 3; parts++)
		for (int at = 0; at < parts; at++) {
			struct joined j = usual;
			j.parts = parts;
			j.at = at;
			check(&j);
		}
}

TEST(channels_counted_from_the_end)
{
	struct joined j = usual;
	j.axis = -3;
	check(&j);
}

TEST(upsample_of_old)
{
	for (int opset = 8; opset <= 9; opset++) {
		struct joined j = usual;
		j.type = "Upsample";
		j.opset = opset;
		j.how = opset < 9 ? BY_ATTRIBUTE : BY_SCALES;
		check(&j);
		j.scale = 1.3f;
		j.divided = false;
		check(&j);
	}
}

/* Not changed: Resize that does not repeat pixels, larger windows, values with other readers, and joined
 * columns. */
TEST(graphs_that_stay)
{
	struct joined j[6];
	for (int i = 0; i < 6; i++) {
		j[i] = usual;
		j[i].divided = false;
	}
	j[0].mode = "linear";
	j[1].kernel = 3;
	j[2].scale = 1.3f; /* three channels of three: 0, 1, 1 */
	j[3].also = JOINED_ASKED;
	j[4].also = ENLARGED_READ;
	j[5].axis = -1;
	j[5].parts = 2;
	for (int i = 0; i < 6; i++)
		check(&j[i]);
}

TEST_MAIN
