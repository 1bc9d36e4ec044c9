/* SPDX-License-Identifier: Apache-2.0 */
/* Real networks on the portable reference, compared with outputs of other runtimes: the fp32 gate. */
#include "tests/lib/onnx_data.h"
#include "kernels/graph/eval.h"
#include "kernels/onnx/import.h"
#include "kernels/onnx/onnx_pb.h"
#include "tests/lib/trace.h"
#include "tools/hone/onnx_case.h"

enum { MODELS = 22 };

/* Runs a network on the reference and keeps the trace of its first data set. */
struct traced {
	char path[640], text[1024];
	int runs;
};

static int run_traced(void *ctx, struct graph *g, const struct tensor *in, struct tensor *out,
		      struct arena *a)
{
	struct traced *tr = ctx;
	struct tensor *t = ARENA_ARRAY(a, struct tensor, g->nvalues + 1);
	int rc = eval_graph(g, in, t, a);
	for (int i = 0; rc >= 0 && i < g->noutputs; i++)
		out[i] = t[g->output[i]];
	if (rc >= 0 && tr->runs++ == 0)
		trace_first_wrong(tr->path, g, t, tr->text);
	return rc;
}

static enum case_result check_network(const char *dir)
{
	struct traced tr = {.runs = 0};
	const struct case_runner runner = {run_traced, &tr};
	char why[512];
	double worst = 0;
	snprintf(tr.path, sizeof tr.path, "%s/trace.tsv", dir);
	enum case_result r = case_check(dir, &runner, &case_gate_fp32, why, &worst);
	printf("%-28s %s %.1e of the largest value\n", strrchr(dir, '/') + 1,
	       r == CASE_PASSED ? "good" : "BAD", worst);
	if (r != CASE_PASSED)
		printf("  %s\n  %s\n", why, tr.text);
	return r;
}

TEST(all_within_the_fp32_gate)
{
	struct arena a = {0};
	char **cases, dir[512];
	if (!test_data())
		SKIP("no data folder (set HONE_DATA)");
	snprintf(dir, sizeof dir, "%s/models", test_data());
	int n = case_find(&a, dir, &cases);
	CHECK(n == MODELS);
	for (int i = 0; i < n; i++)
		CHECK(check_network(cases[i]) == CASE_PASSED);
	arena_free(&a);
}

/* The standard networks are skeletons with a program that writes their weights. Those that take the reference
 * more than two seconds each are covered by the tests of the kernels. */
TEST(standard_networks)
{
	static const char copy[] =
	    "mkdir $T/nets && cp -r $D/nets/. $T/nets && chmod -R u+w $T/nets && cd $T/nets && "
	    "rm -r r3d_18 resnet50 cropfollow_nav light_bvlc_alexnet light_inception_v1 "
	    "ncnn_googlenet resnet18 && cc -O2 -o fill fill.c && ./fill */ && rm fill";
	enum { NETS = 25 - 7 };
	struct arena a = {0};
	char **cases, dir[128];
	if (!test_data())
		SKIP("no data folder (set HONE_DATA)");
	REQUIRE(onnx_shell(copy) == 0);
	snprintf(dir, sizeof dir, "%s/nets", onnx_tmp_dir());
	int n = case_find(&a, dir, &cases);
	CHECK(n == NETS);
	for (int i = 0; i < n; i++)
		CHECK(check_network(cases[i]) == CASE_PASSED);
	arena_free(&a);
}

/* Halves the float weights of a model file. Returns their number. */
static int halve(const char *from, const char *to)
{
	struct arena a = {0};
	struct blob f;
	Onnx__ModelProto *m = NULL;
	int count = 0, rc = file_read(&a, from, 0, &f);
	if (rc >= 0)
		rc = pb_unpack(&a, &onnx__model_proto__descriptor, f.p, f.n, &m);
	for (size_t i = 0; rc >= 0 && i < m->graph->n_initializer; i++) {
		Onnx__TensorProto *p = m->graph->initializer[i];
		struct tensor t, h;
		if (p->data_type != 1)
			continue;
		rc = pb_tensor(&a, p, &(struct pb_home){NULL, -1}, false, &t);
		if (rc >= 0)
			rc = tensor_alloc(&a, DT_F16, &t.shape, &h);
		for (int64_t k = 0; rc >= 0 && k < shape_count(&t.shape); k++)
			tensor_set(&h, k, tensor_get(&t, k));
		if (rc >= 0)
			pb_from_tensor(&h, p->name, p->dims, p);
		count++;
	}
	/* ... and the types of its inputs and outputs, as a converter to fp16 writes them. */
	for (size_t i = 0; rc >= 0 && i < m->graph->n_input; i++)
		m->graph->input[i]->type->tensor_type->elem_type = 10;
	if (rc >= 0) {
		uint8_t *bytes = ARENA_ARRAY(&a, uint8_t, onnx__model_proto__get_packed_size(m));
		rc = file_write(to, bytes, onnx__model_proto__pack(m, bytes));
	}
	arena_free(&a);
	return rc < 0 ? rc : count;
}

TEST(half_weights)
{
	static const struct case_gate gate = {0, 0, 5e-3, 1e-6};
	char from[512], dir[128], to[192], why[512];
	double worst = 0;
	if (!test_data())
		SKIP("no data folder (set HONE_DATA)");
	snprintf(from, sizeof from, "%s/models/wml_image_classifier/model.onnx", test_data());
	snprintf(dir, sizeof dir, "%s/half", onnx_tmp_dir());
	snprintf(to, sizeof to, "%s/model.onnx", dir);
	REQUIRE(onnx_shell("cp -r $D/models/wml_image_classifier $T/half && chmod -R u+w $T/half") == 0);
	CHECK(halve(from, to) > 0);
	enum case_result r = case_check(dir, &case_reference, &gate, why, &worst);
	printf("half weights: %.1e of the largest value %s\n", worst, why);
	CHECK(r == CASE_PASSED && worst > 1e-6);
}

TEST_MAIN
