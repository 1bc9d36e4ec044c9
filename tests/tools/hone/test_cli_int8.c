/* SPDX-License-Identifier: Apache-2.0 */
/* --level int8 and --error: a model of floats is quantised by a recipe, which all commands and libhone use.
 */
#include "agent/run/hone.h"
#include "tests/lib/cli_quantize.h"

#include <math.h>

enum { OUT = 4 * (SIDE - 2) * (SIDE - 2) };

static char model[256], data[256], cache[256];

static bool begin(const char *name)
{
	snprintf(model, sizeof model, "%s", small_model("small.onnx", false));
	snprintf(data, sizeof data, "%s", examples("data", 10));
	snprintf(cache, sizeof cache, "%s", in_dir(name));
	return worker() != NULL;
}

#define TUNE "tune %s --data %s --budget 3s --threads 1 --cache %s"

/* Runs the first example and reads the output. */
static void run_floats(const char *options, float *out)
{
	struct arena a = {0};
	struct tensor t;
	CHECK_RUN(0, "run %s --input x=%s/0.npy --threads 1 -o %s %s", model, data, in_dir("out"), options);
	CHECK_OK(tensor_read(&a, in_dir("out/y.npy"), &t, NULL));
	CHECK(shape_count(&t.shape) == OUT);
	memcpy(out, t.data, sizeof *out * OUT);
	arena_free(&a);
}

static double distance(const float *x, const float *y)
{
	double diff = 0, most = 0;
	for (int i = 0; i < OUT; i++) {
		diff += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
		most += (double)y[i] * (double)y[i];
	}
	return sqrt(diff / most);
}

/* libhone with these flags on the same input. */
static void run_libhone(unsigned flags, float *out)
{
	const char *const caches[] = {cache};
	struct hone_options o = {
	    .size = sizeof o, .caches = caches, .ncaches = 1, .threads = 1, .flags = flags};
	struct hone_handle *h;
	struct hone_model *m;
	struct arena a = {0};
	struct tensor t;
	char path[300];
	snprintf(path, sizeof path, "%s/0.npy", data);
	CHECK_OK(tensor_read(&a, path, &t, NULL));
	REQUIRE_OK(hone_open(&o, &h));
	REQUIRE_OK(hone_load(h, model, NULL, &m));
	CHECK_OK(hone_bind_input(m, 0, t.data, sizeof(float) * 3 * SIDE * SIDE));
	CHECK_OK(hone_bind_output(m, 0, out, sizeof *out * OUT));
	CHECK_OK(hone_run(m));
	hone_model_close(m);
	hone_close(h);
	arena_free(&a);
}

static void check_report(const json_t *j)
{
	const json_t *q = json_object_get(j, "quantized");
	check_keys(q, "layers quantized examples held_out error held_out_error limit");
	CHECK(json_integer_value(json_object_get(q, "layers")) == 2);
	CHECK(json_integer_value(json_object_get(q, "quantized")) == 2);
	CHECK(json_integer_value(json_object_get(q, "held_out")) == 2);
	CHECK(json_number_value(json_object_get(q, "error")) <= .05);
	CHECK(json_number_value(json_object_get(q, "held_out_error")) <= .05);
	CHECK(json_number_value(json_object_get(q, "limit")) == .05);
}

TEST(every_command_runs_the_recipe)
{
	static float exact[OUT], bytes[OUT], lib[OUT];
	char options[400];
	if (!begin("all"))
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(options, sizeof options, "--cache %s", cache);
	CHECK_RUN(0, TUNE " --error .05 --json", model, data, cache);
	json_t *j = parse_out();
	check_report(j);
	json_decref(j);
	run_floats("", exact);
	strcat(options, " --level int8 --require-cache");
	run_floats(options, bytes);
	double error = distance(bytes, exact);
	CHECK(error > 1e-5 && error < .05);
	CHECK_RUN(0, "explain %s --level int8 --threads 1 --cache %s --json", model, cache);
	j = parse_out();
	check_report(j);
	json_decref(j);
	CHECK_RUN(0, "explain %s --level int8 --threads 1 --cache %s", model, cache);
	CHECK_SAYS(cli_out, "int8: 2 of 2 layers quantised; error of the outputs ");
	CHECK_SAYS(cli_out, "; at most 5.00e-02 was asked for");
	CHECK_RUN(0, "explain %s --threads 1 --cache %s --json", model, cache);
	CHECK_SAYS(cli_out, "\"quantized\":null");
	CHECK_RUN(0, "bench %s --level int8 --runs 2 --threads 1 --cache %s", model, cache);
	CHECK_RUN(0, "verify %s --level int8 --threads 1 --cache %s", model, cache);
	CHECK_RUN(0, "bench %s --level int8 --kernels default --runs 2 --threads 1 --cache %s", model, cache);
	CHECK_RUN(0, "bench %s --level int8 --kernels fallback --runs 2 --threads 1 --cache %s", model, cache);
	CHECK_RUN(0, "verify %s --level int8 --kernels fallback --threads 1 --cache %s", model, cache);
	CHECK_RUN(2, "tune %s --level int8 --device replay:%s", model, data);
	CHECK_SAYS(cli_err, "a replay is of kernels");
	CHECK_RUN(0, "compile %s --level int8 --threads 1 --cache %s -o %s", model, cache, in_dir("bundle"));
	run_libhone(HONE_INT8, lib);
	CHECK(!memcmp(lib, bytes, sizeof lib));
	run_libhone(0, lib);
	CHECK(distance(lib, exact) < 1e-5);
	CHECK_RUN(0, "tune %s --level int8 --budget 1s --threads 1 --cache %s", model,
		  cache); /* no examples */
	CHECK_RUN(0, "forget --model %s --cache %s", model, cache);
	CHECK_RUN(1, "bench %s --level int8 --runs 2 --threads 1 --cache %s", model, cache);
	run_libhone(HONE_INT8, lib); /* floats stay floats */
	CHECK(distance(lib, exact) < 1e-2 && memcmp(lib, bytes, sizeof lib));
}

TEST(a_limit_that_no_layer_keeps)
{
	if (!begin("none"))
		SKIP("no hone-worker (HONE_WORKER)");
	CHECK_RUN(0, TUNE " --error 1e-6", model, data, cache);
	CHECK_SAYS(cli_out, "int8: no layer is quantised: none keeps the error within 1.00e-06");
	CHECK_RUN(0, "bench %s --level int8 --runs 2 --threads 1 --cache %s", model, cache);
}

/* There is nothing to quantise, so nothing is missing. */
TEST(a_model_without_layers)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	const char *relu = one_node("relu.onnx", "Relu", "1 4 9 9");
	snprintf(cache, sizeof cache, "%s", in_dir("layers"));
	CHECK_RUN(0, "tune %s --level int8 --budget 1s --threads 1 --cache %s", relu, cache);
	CHECK_RUN(0, "bench %s --level int8 --runs 2 --threads 1 --cache %s", relu, cache);
}

TEST(what_is_refused)
{
	begin("refused");
	CHECK_RUN(2, "tune %s --error 1e-2 --cache %s", model, cache);
	CHECK_SAYS(cli_err, "--error needs examples of inputs: --data DIR");
	CHECK_RUN(2, "tune %s --data %s --level fp32 --cache %s", model, data, cache);
	CHECK_SAYS(cli_err, "--data is for --level int8, not for fp32");
	CHECK_RUN(2, "tune %s --data %s --exact --cache %s", model, data, cache);
	CHECK_RUN(2, "tune %s --data %s --rigor cached --cache %s", model, data, cache);
	CHECK_RUN(2, "tune %s --data %s --error none --cache %s", model, data, cache);
	CHECK_SAYS(cli_err, "--error none: a number above 0");
	CHECK_RUN(1, "tune %s --data %s --cache %s", model, in_dir("no-such-folder"), cache);
	CHECK_RUN(2, "tune %s --data %s --background", model, data);
	CHECK_RUN(1, "tune %s --level int8 --budget 1s --cache %s", model, cache);
	CHECK_SAYS(cli_err, "level int8 needs examples of inputs");
	CHECK_SAYS(cli_err, "--level int8 --data DIR");
}

TEST_MAIN
