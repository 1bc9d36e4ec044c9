/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/graph/eval.h"
#include "kernels/onnx/import.h"
#include "tests/lib/test.h"
#include "tools/hone/zoo.h"
#include <math.h>
#include <unistd.h>

static const struct {
	const char *name;
	int64_t h, w, out;
	double params; /* millions, as published (batch norms folded) */
} nets[] = {
    {"mobilenet_v2", 224, 224, 1000, 3.5},   {"mobilenet_v1", 224, 224, 1000, 4.25},
    {"resnet18", 224, 224, 1000, 11.7},      {"resnet50", 224, 224, 1000, 25.5},
    {"squeezenet1_1", 224, 224, 1000, 1.24}, {"efficientnet_lite0", 224, 224, 1000, 4.65},
    {"vit_tiny", 224, 224, 1000, 5.72},      {"steering", 66, 200, 1, 0.25},
};
enum { NETS = sizeof nets / sizeof *nets };

static const char *temp_path(const char *name)
{
	static char path[256];
	snprintf(path, sizeof path, "/tmp/hone-test-zoo-%d-%s.onnx", (int)getpid(), name);
	return path;
}

static double count_params(const struct graph *g)
{
	double n = 0;
	for (int i = 0; i < g->nvalues; i++)
		if (g->value[i].t.data && g->value[i].t.dtype == DT_F32 && g->value[i].producer < 0)
			n += (double)shape_count(&g->value[i].t.shape);
	return n / 1e6;
}

static void check_shapes(const struct graph *g, int i)
{
	REQUIRE(g->ninputs == 1 && g->noutputs == 1);
	const struct shape in = {4, {1, 3, nets[i].h, nets[i].w}}, out = {2, {1, nets[i].out}};
	CHECK(shape_equal(&g->value[g->input[0]].t.shape, &in));
	CHECK(shape_equal(&g->value[g->output[0]].t.shape, &out));
}

TEST(every_network_has_its_shapes_and_parameters)
{
	for (int i = 0; i < NETS; i++) {
		CHECK(zoo_nets[i].name && !strcmp(zoo_nets[i].name, nets[i].name));
		struct graph *g;
		REQUIRE_OK(zoo_make(nets[i].name, 1, &g));
		check_shapes(g, i);
		double params = count_params(g);
		if (fabs(params / nets[i].params - 1) > 0.02)
			printf("%s: %.3f M parameters\n", nets[i].name, params);
		CHECK(fabs(params / nets[i].params - 1) <= 0.02);
		graph_free(g);
	}
	CHECK(!zoo_nets[NETS].name);
}

/* The same operators on the same shapes, with the same weights. */
static void check_same_nodes(const struct graph *g, const struct graph *back)
{
	REQUIRE(back->nnodes == g->nnodes);
	for (int i = 0; i < g->nnodes; i++) {
		const struct node *x = &g->node[i], *y = &back->node[i];
		REQUIRE(!strcmp(node_type(x), node_type(y)) && x->nin == y->nin && x->opset == y->opset);
		for (int k = 0; k < x->nin; k++) {
			if (x->in[k] < 0)
				continue;
			const struct tensor *s = &g->value[x->in[k]].t, *t = &back->value[y->in[k]].t;
			REQUIRE(shape_equal(&s->shape, &t->shape) && s->dtype == t->dtype &&
				!s->data == !t->data);
			CHECK(!s->data || !memcmp(s->data, t->data,
						  (size_t)shape_count(&s->shape) * dtype_bytes(s->dtype)));
		}
	}
}

TEST(every_network_survives_export_and_import)
{
	struct import_opts none = {0};
	const bool share = test_share() > 1; /* every third, without the largest */
	for (int i = share ? 1 : 0; i < NETS; i += share ? 3 : 1) {
		const char *path = temp_path(nets[i].name);
		struct graph *g, *back;
		REQUIRE_OK(zoo_make(nets[i].name, 1, &g));
		REQUIRE_OK(export_file(g, path));
		REQUIRE_OK(import_file(path, &none, &back));
		unlink(path);
		check_shapes(back, i);
		check_same_nodes(g, back);
		graph_free(g);
		graph_free(back);
	}
}

/* Two inputs give two finite outputs that are not constant: activations neither die nor explode. */
static void check_alive(const char *name)
{
	struct graph *g;
	REQUIRE_OK(zoo_make(name, 7, &g));
	double out[2][4], most = 0;
	for (int k = 0; k < 2; k++) {
		struct arena a = {0};
		struct tensor in = g->value[g->input[0]].t, *t = ARENA_ARRAY(&a, struct tensor, g->nvalues);
		REQUIRE_OK(tensor_alloc(&a, DT_F32, &in.shape, &in));
		struct rng r;
		rng_seed(&r, (uint64_t)k);
		rng_fill(&r, in.data, (size_t)shape_count(&in.shape));
		REQUIRE_OK(eval_graph(g, &in, t, &a));
		const struct tensor *o = &t[g->output[0]];
		for (int64_t i = 0; i < shape_count(&o->shape); i++) {
			most = fmax(most, fabs(tensor_get(o, i)));
			if (i < 4)
				out[k][i] = tensor_get(o, i);
		}
		arena_free(&a);
	}
	CHECK(isfinite(most) && most > 1e-3 && most < 1e4);
	CHECK(fabs(out[0][0] - out[1][0]) > 1e-4 * most);
	graph_free(g);
}

TEST(activations_stay_alive)
{
	check_alive("steering");
	check_alive("squeezenet1_1");
	check_alive("mobilenet_v2");
}

static struct blob written(struct arena *a, const char *name, uint64_t seed)
{
	struct graph *g;
	struct blob b = {0};
	const char *path = temp_path(name);
	if (zoo_make(name, seed, &g) < 0)
		return b;
	if (export_file(g, path) < 0 || file_read(a, path, 0, &b) < 0)
		b.n = 0;
	unlink(path);
	graph_free(g);
	return b;
}

TEST(equal_seeds_equal_bytes)
{
	struct arena a = {0};
	struct blob x = written(&a, "steering", 1), y = written(&a, "steering", 1),
		    z = written(&a, "steering", 2);
	REQUIRE(x.n > 0);
	CHECK(x.n == y.n && !memcmp(x.p, y.p, x.n));
	CHECK(x.n == z.n && memcmp(x.p, z.p, x.n));
	arena_free(&a);
}

TEST(unknown_name_lists_the_known)
{
	struct graph *g;
	CHECK_FAILS(zoo_make("lenet", 1, &g), E_USAGE, "mobilenet_v2");
}

TEST_MAIN
