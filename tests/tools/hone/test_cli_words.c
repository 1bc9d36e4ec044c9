/* SPDX-License-Identifier: Apache-2.0 */
/* The command line's words: what it says of free sizes, of files that are no ONNX, of misspelt words. */
#include "kernels/task/tensor.h"
#include "platform/base/arena.h"
#include "tests/lib/cli.h"
#include "tests/lib/onnx_make.h"

/* A model of one operator whose input "x" has these dimensions. */
static const char *relu_model(const char *name, const char *dims)
{
	struct onnx_maker k;
	const char *path = in_dir(name);
	mk_start(&k, 17, 2);
	mk_input(&k, "x", 1, dims);
	mk_node(&k, "Relu", "x", "y");
	mk_output(&k, "y");
	struct blob b = mk_bytes(&k);
	if (file_write(path, b.p, b.n) < 0)
		abort();
	arena_free(&k.a);
	return path;
}

TEST(free_sizes_must_be_given)
{
	static const char *const with_model[] = {
	    "tasks",   "tune",    "bench",  "run --random --output /tmp/none", "verify",
	    "compile", "explain", "forget --model", "report -o /tmp/none.html"};
	char model[256];
	snprintf(model, sizeof model, "%s", relu_model("detector.onnx", "batch 3 h w"));
	CHECK_RUN(0, KERNELS_ONCE, steering(), "", in_dir("cache")); /* forget needs a cache */
	for (size_t i = 0; i < sizeof with_model / sizeof *with_model; i++) {
		char where[300];
		bool out = !strcmp(with_model[i], "compile");
		snprintf(where, sizeof where, "%s%s%s%s", i ? "--cache " : "", i ? in_dir("cache") : "",
			 out ? " -o " : "", out ? in_dir("compiled") : "");
		CHECK_RUN(2, "%s %s %s", with_model[i], model, where);
		CHECK_SAYS(cli_err, "input 'x' is [batch, 3, h, w]");
		CHECK_SAYS(cli_err, "--shape x=1x3x224x224");
		CHECK(!cli_out[0]);
	}
	CHECK_RUN(0, "tasks %s --shape x=1x3x224x224", model); /* the example as it is shown */
	CHECK_RUN(0, "tasks %s --shape h=4 --shape w=5", model);
}

TEST(a_batch_size_that_is_assumed_is_said_once)
{
	static const char *const commands[] = {"bench --runs 1 --kernels fallback",
					       "verify --kernels fallback"};
	char model[256];
	snprintf(model, sizeof model, "%s", relu_model("batch.onnx", "batch_size 6"));
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		CHECK_RUN(0, "%s %s --json --threads 1 --cache %s", commands[i], model, in_dir("cache"));
		const char *at = strstr(cli_err, "so 1 is taken: input 'x' is [batch_size, 6]");
		CHECK(at && !strstr(at + 1, "so 1 is taken"));
		json_decref(parse_out()); /* standard output has only data */
		CHECK_RUN(0, "%s %s -q --json --threads 1 --cache %s", commands[i], model, in_dir("cache"));
		CHECK(!cli_err[0]);
		CHECK_RUN(0, "%s %s --json --threads 1 --cache %s --shape batch_size=2", commands[i], model,
			  in_dir("cache"));
		CHECK(!strstr(cli_err, "is taken"));
	}
	CHECK_RUN(0, KERNELS_ONCE, model, "", in_dir("cache"));
	CHECK_SAYS(cli_err, "so 1 is taken");
}

TEST(an_input_file_gives_free_sizes)
{
	char model[256], file[256];
	float six[6] = {-1, 2, -3, 4, -5, 6};
	struct tensor t = {DT_F32, {4, {1, 3, 1, 2}}, six};
	snprintf(model, sizeof model, "%s", relu_model("detector.onnx", "batch 3 h w"));
	snprintf(file, sizeof file, "%s", in_dir("image.npy"));
	REQUIRE_OK(tensor_write(file, &t, "x"));
	for (int named = 0; named < 2; named++) {
		CHECK_RUN(0, "run %s --json --cache %s --input %s%s --output %s", model, in_dir("cache"),
			  named ? "x=" : "", file, in_dir("o"));
		json_t *j = parse_out(), *shape = NULL;
		shape = json_object_get(json_array_get(json_object_get(j, "outputs"), 0), "shape");
		REQUIRE(json_array_size(shape) == 4);
		CHECK(json_integer_value(json_array_get(shape, 3)) == 2);
		json_decref(j);
	}
	/* A size that the model fixes is not overridden. */
	t.shape = (struct shape){4, {1, 6, 1, 1}};
	REQUIRE_OK(tensor_write(file, &t, "x"));
	CHECK_RUN(2, "run %s --cache %s --input x=%s --output %s", model, in_dir("cache"), file, in_dir("o"));
	CHECK_SAYS(cli_err, "input 'x' is f32 1x3x1x1");
}

TEST(misspelt_words_have_a_suggestion)
{
	char model[256];
	snprintf(model, sizeof model, "%s", relu_model("one.onnx", "batch 6"));
	CHECK_RUN(2, "tuen %s", model);
	CHECK_SAYS(cli_err, "did you mean 'tune'?");
	CHECK_RUN(2, "tune %s --buget 3s", model);
	CHECK_SAYS(cli_err, "did you mean --budget?");
	CHECK_RUN(1, "zoo mobilenetv2 -o %s", in_dir("m.onnx"));
	CHECK_SAYS(cli_err, "did you mean 'mobilenet_v2'?");
	CHECK_RUN(2, "tune %s --strategy aneal --cache %s", model, in_dir("cache"));
	CHECK_SAYS(cli_err, "did you mean 'anneal'? Choose one of:");
	CHECK_RUN(2, "tune %s --cost tres --cache %s", model, in_dir("cache"));
	CHECK_SAYS(cli_err, "did you mean 'trees'?");
	CHECK_RUN(2, "tasks %s --shape bacth=3", model);
	CHECK_SAYS(cli_err, "did you mean 'batch'?");
	CHECK_RUN(2, "run %s --input camera_=x.npy --output %s", steering(), in_dir("o"));
	CHECK_SAYS(cli_err, "the model has no input 'camera_'; did you mean 'camera'?");
}

TEST_MAIN
