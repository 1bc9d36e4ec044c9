/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs raised to a newer opset, folded and copied compute the same as before. */
#include "kernels/graph/eval.h"
#include "kernels/graph/optimize.h"
#include "kernels/graph/upgrade.h"
#include "platform/base/rng.h"
#include "tests/lib/onnx_make.h"

#include <math.h>

enum { F32 = 1, I64 = 7 };

static struct graph *import(struct onnx_maker *k)
{
	struct graph *g = NULL;
	CHECK_OK(mk_import(k, NULL, NULL, &g));
	arena_free(&k->a);
	return g;
}

/* Evaluates the graph on seeded inputs. */
static void evaluate(const struct graph *g, struct arena *a, struct tensor *out)
{
	struct rng rng;
	rng_seed(&rng, 5);
	struct tensor *in = ARENA_ARRAY(a, struct tensor, g->ninputs + 1);
	struct tensor *t = ARENA_ARRAY(a, struct tensor, g->nvalues + 1);
	for (int i = 0; i < g->ninputs; i++) {
		const struct tensor *x = &g->value[g->input[i]].t;
		CHECK_OK(tensor_alloc(a, x->dtype, &x->shape, &in[i]));
		rng_fill(&rng, in[i].data, (size_t)shape_count(&x->shape));
	}
	CHECK_OK(eval_graph(g, in, t, a));
	*out = t[g->output[0]];
}

static bool same(const struct tensor *x, const struct tensor *y)
{
	double diff = 1, most;
	return shape_equal(&x->shape, &y->shape) && tensor_compare(x, y, &diff, &most) >= 0 && diff == 0;
}

static bool all_are_new(const struct graph *g)
{
	for (int i = 0; i < g->nnodes; i++)
		if (!g->node[i].dead && g->node[i].opset < UPGRADE_OPSET)
			return false;
	return true;
}

/* Whether the model gives the same after its upgrade, by nodes that are all of the new opset. */
static bool survives(struct onnx_maker *k)
{
	struct arena a = {0};
	struct tensor before, after;
	struct graph *g = import(k);
	if (!g)
		return false;
	evaluate(g, &a, &before);
	CHECK_OK(graph_upgrade(g));
	CHECK_OK(graph_infer(g));
	CHECK_OK(graph_check(g, true));
	evaluate(g, &a, &after);
	bool good = all_are_new(g) && same(&before, &after);
	graph_free(g);
	arena_free(&a);
	return good;
}

struct old_node {
	const char *type;
	int opset;
	const char *ints;   /* "axes 1 2; starts 0": attributes */
	const char *floats; /* likewise */
};

static void add_attrs(struct onnx_maker *k, Onnx__NodeProto *n, const char *text, bool floats)
{
	char *copy = arena_strdup(&k->a, text), *save = NULL;
	for (char *one = strtok_r(copy, ";", &save); one; one = strtok_r(NULL, ";", &save)) {
		char *name = ARENA_ARRAY(&k->a, char, 32);
		int at = 0;
		sscanf(one, " %31s %n", name, &at);
		int64_t ints[8];
		float *v = ARENA_ARRAY(&k->a, float, 8);
		int count = 0;
		for (char *p = one + at, *end; count < 8; p = end, count++) {
			double d = strtod(p, &end);
			if (end == p)
				break;
			ints[count] = (int64_t)d;
			v[count] = (float)d;
		}
		bool list = !strcmp(name, "axes") || !strcmp(name, "split") || !strcmp(name, "pads") ||
			    !strcmp(name, "starts") || !strcmp(name, "ends") || !strcmp(name, "scales");
		if (!floats && list)
			mk_attr_ints(k, n, name, count, ints);
		else if (!floats)
			mk_attr_int(k, n, name, ints[0]);
		else {
			Onnx__AttributeProto *p = mk_attr(k, n, name, list ? 6 : 1);
			p->has_f = !list;
			p->f = v[0];
			p->n_floats = list ? (size_t)count : 0;
			p->floats = v;
		}
	}
}

TEST(changed_operators_give_the_same)
{
	static const struct old_node nodes[] = {
	    {"Clip", 9, "", "min -0.5; max 0.25"},
	    {"Clip", 9, "", "max 0.25"},
	    {"Clip", 9, "", ""},
	    {"Squeeze", 11, "axes 0", ""},
	    {"Squeeze", 11, "", ""},
	    {"Unsqueeze", 11, "axes 0 3", ""},
	    {"ReduceSum", 11, "axes 1 2; keepdims 0", ""},
	    {"ReduceSum", 11, "", ""},
	    {"Pad", 9, "pads 0 1 0 2 0 1 0 0", "value 0.5"},
	    {"Slice", 9, "starts 1 0; ends 3 2; axes 1 3", ""},
	    {"Slice", 9, "starts 0 1; ends 1 3", ""},
	    {"Softmax", 11, "axis 3", ""},
	    {"LogSoftmax", 11, "axis -1", ""},
	    {"Dropout", 9, "", "ratio 0.5"},
	    {"Upsample", 8, "", "scales 1 1 2 2"},
	    {"TopK", 9, "k 2; axis 1", ""},
	    {"Split", 11, "axis 1; split 1 3", ""},
	    {"Split", 11, "axis 1", ""},
	    {"LeakyRelu", 7, "", "alpha 0.5"},
	    {"ReduceMean", 11, "axes 2 3", ""},
	    {"ArgMax", 11, "axis 1; keepdims 0", ""},
	};
	for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
		struct onnx_maker k;
		bool two = !strcmp(nodes[i].type, "Split") || !strcmp(nodes[i].type, "TopK");
		mk_start(&k, nodes[i].opset, 8);
		mk_input(&k, "x", F32, "1 4 3 5");
		Onnx__NodeProto *n = mk_node(&k, nodes[i].type, "x", two ? "y z" : "y");
		add_attrs(&k, n, nodes[i].ints, false);
		add_attrs(&k, n, nodes[i].floats, true);
		mk_output(&k, "y");
		if (!survives(&k)) {
			printf("%s %s %s\n", nodes[i].type, nodes[i].ints, nodes[i].floats);
			test_bad = 1;
		}
	}
}

TEST(resize_of_opset_10_and_upsample_of_9)
{
	for (int opset = 9; opset <= 10; opset++) {
		struct onnx_maker k;
		const float scales[] = {1, 1, 2, 3};
		mk_start(&k, opset, 8);
		mk_input(&k, "x", F32, "1 2 3 5");
		mk_init(&k, "s", F32, "4", scales, sizeof scales);
		Onnx__NodeProto *n = mk_node(&k, opset == 9 ? "Upsample" : "Resize", "x s", "y");
		Onnx__AttributeProto *mode = mk_attr(&k, n, "mode", 3);
		mode->has_s = 1;
		mode->s = (ProtobufCBinaryData){7, (uint8_t *)mk_text(opset == 9 ? "nearest" : "linear\0")};
		mode->s.len = opset == 9 ? 7 : 6;
		mk_output(&k, "y");
		CHECK(survives(&k));
	}
}

TEST(what_has_no_equal_is_named)
{
	struct onnx_maker k;
	struct graph *g;
	mk_start(&k, 11, 8);
	mk_input(&k, "x", F32, "1 4 3 5");
	Onnx__NodeProto *n = mk_node(&k, "Softmax", "x", "y");
	n->name = mk_text("flat");
	mk_attr_int(&k, n, "axis", 1);
	mk_output(&k, "y");
	g = import(&k);
	REQUIRE(g);
	CHECK_FAILS(graph_upgrade(g), E_UNSUPPORTED, "flat");
	CHECK(strstr(err_text(), "convert the model to opset 13") != NULL);
	graph_free(g);
}

/* Conv, BatchNormalization, Relu. */
static struct graph *normalised(void)
{
	struct onnx_maker k;
	struct rng rng;
	float w[4 * 3 * 9], p[4][4];
	rng_seed(&rng, 1);
	rng_fill(&rng, w, sizeof w / sizeof *w);
	rng_fill(&rng, p[0], 16);
	for (int i = 0; i < 4; i++)
		p[3][i] = fabsf(p[3][i]) + 0.1f;
	mk_start(&k, 13, 16);
	mk_input(&k, "x", F32, "1 3 6 6");
	mk_init(&k, "w", F32, "4 3 3 3", w, sizeof w);
	for (int i = 0; i < 4; i++)
		mk_init(&k, (const char *[]){"a", "b", "c", "d"}[i], F32, "4", p[i], sizeof p[i]);
	mk_node(&k, "Conv", "x w", "u");
	mk_node(&k, "BatchNormalization", "u a b c d", "v");
	mk_node(&k, "Relu", "v", "y");
	mk_output(&k, "y");
	return import(&k);
}

/* Whether each value's producer writes it. */
static bool producers_are_right(const struct graph *g)
{
	for (int v = 0; v < g->nvalues; v++) {
		int p = g->value[v].producer;
		bool writes = p < 0;
		for (int k = 0; p >= 0 && p < g->nnodes && k < g->node[p].nout; k++)
			writes |= g->node[p].out[k] == v;
		if (!writes)
			return false;
	}
	return true;
}

TEST(folding_a_copy_leaves_the_original)
{
	struct arena a = {0};
	struct tensor before, folded, after;
	double diff, most;
	struct graph *g = normalised();
	REQUIRE(g);
	evaluate(g, &a, &before);
	struct graph *copy = graph_copy(g);
	CHECK_OK(graph_fold(copy));
	CHECK(copy->nnodes == 2 && g->nnodes == 3);
	CHECK(producers_are_right(copy));
	evaluate(copy, &a, &folded);
	evaluate(g, &a, &after);
	CHECK(same(&before, &after));
	CHECK_OK(tensor_compare(&folded, &before, &diff, &most));
	CHECK(diff <= 1e-5 * most);
	graph_free(copy);
	graph_free(g);
	arena_free(&a);
}

TEST_MAIN
