/* SPDX-License-Identifier: Apache-2.0 */
/* The command line's words: what it says of free sizes, of files that are no ONNX, of misspelt words. Past
 * 800 lines because all cases look at the words of commands on the one small model. */
#include "kernels/task/tensor.h"
#include "platform/base/arena.h"
#include "tests/lib/cli_model.h"
#include "tools/hone/glossary.h"
#include "tools/fleet/db.h"
#include "tools/hone/cmd.h"

#include <math.h>
#include <sched.h>

TEST(free_sizes_must_be_given)
{
	static const char *const with_model[] = {
	    "tasks",   "tune",    "bench",          "run --random --output /tmp/none", "verify",
	    "compile", "explain", "forget --model", "report -o /tmp/none.html"};
	char model[256];
	snprintf(model, sizeof model, "%s", one_node("detector.onnx", "Relu", "batch 3 h w"));
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

/* A model with fixed sizes and one with free ones are compared: each takes the sizes that it has. */
TEST(bench_compares_a_fixed_and_a_free_model)
{
	char fixed[256], open[256], cache[256];
	snprintf(cache, sizeof cache, "%s", in_dir("cache"));
	snprintf(fixed, sizeof fixed, "%s", one_node("fixed.onnx", "Relu", "1 3 4 5"));
	snprintf(open, sizeof open, "%s", one_node("open.onnx", "Relu", "1 3 h w"));
	CHECK_RUN(0, "bench %s %s --shape h=4 --shape w=5 --runs 1 --threads 1 --cache %s", fixed, open, cache);
	CHECK_SAYS(cli_out, "/open.onnx (");
	CHECK_SAYS(cli_err, "Next: hone tune ");
	CHECK_SAYS(cli_err, "/open.onnx --budget 20s"); /* the model that takes these sizes */
	CHECK_RUN(2, "bench %s %s --shape h=4 --runs 1 --cache %s", fixed, open, cache);
	CHECK_SAYS(cli_err, "/open.onnx: ");
	CHECK_RUN(2, "bench %s %s --shape h=4 --shape w=5 --shape z=2 --runs 1 --cache %s", fixed, open, cache);
	CHECK_SAYS(cli_err, "--shape z=2: none of the models has such an input or symbolic dimension");
	CHECK(!cli_out[0]);
	CHECK_RUN(2, "bench %s --shape h=4 --runs 1 --cache %s", fixed, cache);
	CHECK_SAYS(cli_err, "the model has no input or symbolic dimension 'h'");
}

TEST(sizes_that_replace_fixed_ones_are_said)
{
	char model[256];
	snprintf(model, sizeof model, "%s", one_node("sized.onnx", "Relu", "1 3 8"));
	CHECK_RUN(0, "tasks %s --shape x=2x3x8 --json", model);
	CHECK_SAYS(cli_err, "/sized.onnx: given sizes replace those that the model fixes: 2x3x8 for input 'x', "
			    "which is [1, 3, 8]");
	json_decref(parse_out());
	CHECK_RUN(0, "tasks %s --shape x=1x3x8", model);
	CHECK(!strstr(cli_err, "replace"));
	snprintf(model, sizeof model, "%s", one_node("open.onnx", "Relu", "n 3 height width"));
	CHECK_RUN(0, "tasks %s --shape x=1x4x8x8", model);
	CHECK_SAYS(cli_err, "1x4x8x8 for input 'x', which is [n, 3, height, width]"); /* as in the file */
}

TEST(a_batch_size_that_is_assumed_is_said_once)
{
	static const char *const commands[] = {"bench --runs 1 --kernels fallback",
					       "verify --kernels fallback"};
	char model[256];
	snprintf(model, sizeof model, "%s", one_node("batch.onnx", "Relu", "batch_size 6"));
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
	CHECK_RUN(0, "explain %s --threads 1 --cache %s", model, in_dir("cache")); /* tuning said it */
	CHECK(!strstr(cli_err, "is taken"));
	char other[256];
	snprintf(other, sizeof other, "%s", one_node("other.onnx", "Relu", "batch_size 7"));
	CHECK_RUN(0, "bench %s %s %s --runs 1 --kernels fallback --threads 1 --cache %s", model, other, model,
		  in_dir("cache"));
	const char *one = strstr(cli_err, "is [batch_size, 6]");
	CHECK(one && !strstr(one + 1, "is [batch_size, 6]") && strstr(cli_err, "is [batch_size, 7]"));
}

TEST(a_shape_replaces_fixed_sizes)
{
	char model[256];
	snprintf(model, sizeof model, "%s", one_node("fixed.onnx", "Relu", "1 3 8 8"));
	CHECK_RUN(0, "tasks %s --shape x=1x3x16x16", model);
	CHECK_SAYS(cli_out, "map 768 relu");
	CHECK_RUN(2, "tasks %s --shape x=3x16x16", model);
	CHECK_SAYS(cli_err, "has rank 3, the model's has 4");
	CHECK_RUN(0, "tasks --help");
	CHECK_SAYS(cli_out, "replaces");
}

TEST(an_input_file_gives_free_sizes)
{
	char model[256], file[256];
	float six[6] = {-1, 2, -3, 4, -5, 6};
	struct tensor t = {DT_F32, {4, {1, 3, 1, 2}}, six};
	snprintf(model, sizeof model, "%s", one_node("detector.onnx", "Relu", "batch 3 h w"));
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

/* Runs the command of the last Next: line, with more options, and checks that it works. */
static void paste_next(const char *more)
{
	char line[1024];
	const char *next = strstr(cli_err, "Next: hone ");
	REQUIRE(next);
	snprintf(line, sizeof line, "%.*s", (int)strcspn(next + 11, "\n"), next + 11);
	CHECK_RUN(0, "%s%s", line, more);
}

/* The next command needs the shapes, and works in the same cache with the same kernels. */
TEST(next_repeats_the_options)
{
	static const char *const commands[] = {
	    "tasks",  "inspect", "tasks --unsupported", "bench --runs 2", "bench --kernels fallback --runs 2",
	    "explain"};
	static const char *const checks[] = {"verify", "verify --kernels fallback", "run --random"};
	char model[256], cache[256], file[256], where[700];
	float six[6] = {-1, 2, -3, 4, -5, 6};
	struct tensor t = {DT_F32, {4, {1, 3, 1, 2}}, six};
	setenv("XDG_CACHE_HOME", in_dir("home"), 1); /* not the caches of who runs this */
	snprintf(model, sizeof model, "%s", one_node("next.onnx", "Relu", "batch 3 h w"));
	snprintf(cache, sizeof cache, "%s", in_dir("cache"));
	snprintf(file, sizeof file, "%s", in_dir("next.npy"));
	REQUIRE_OK(tensor_write(file, &t, "x"));
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		bool cached = i > 2;
		snprintf(where, sizeof where, "%s%s", cached ? " --threads 1 --cache " : "",
			 cached ? cache : "");
		CHECK_RUN(0, "%s %s --shape h=4 --shape w=5%s", commands[i], model, where);
		CHECK_SAYS(cli_err, "--shape h=4 --shape w=5\n");
		CHECK(!cached || strstr(cli_err, where));
		CHECK(!strstr(cli_err, "Next: hone tune") || strstr(cli_err, " --budget 20s"));
		if (worker() || !strstr(cli_err, "Next: hone tune"))
			paste_next(strstr(cli_err, "Next: hone tune") ? " --rigor estimate" : "");
	}
	for (int i = 0; i < 3; i++) {
		CHECK_RUN(0, "%s %s --threads 1 --exact --cache %s --shape x=1x3x4x5", checks[i], model,
			  cache);
		CHECK_SAYS(cli_err,
			   i ? "Next: hone bench " : "Next: hone tune "); /* nothing exact is tuned */
		CHECK_SAYS(cli_err, " --threads 1 --exact");
		CHECK(i != 1 || strstr(cli_err, " --kernels fallback"));
		CHECK_SAYS(cli_err, " --shape x=1x3x4x5\n");
		if (i || worker())
			paste_next(i ? " --runs 2" : " --rigor estimate");
	}
	/* The input's file gave the sizes. */
	CHECK_RUN(0, "run %s --cache %s --input %s", model, cache, file);
	CHECK_SAYS(cli_err, " --shape batch=1 --shape h=1 --shape w=2 ");
	paste_next(" --runs 2");
	CHECK_RUN(0, "run %s --cache %s --shape batch=1 --input x=%s", model, cache, file);
	CHECK_SAYS(cli_err, " --shape h=1 --shape w=2 "); /* each size once */
	CHECK(strstr(cli_err, "batch=1\n") && !strstr(strstr(cli_err, "batch=") + 1, "batch="));
	paste_next(" --runs 2");
	unsetenv("XDG_CACHE_HOME");
	if (!worker())
		return;
	CHECK_RUN(0, "tune %s --rigor estimate --budget 60s --threads 1 --shape x=1x3x4x5 --cache %s", model,
		  in_dir("fresh"));
	CHECK_SAYS(cli_err, "Next: hone bench ");
	CHECK_SAYS(cli_err, " --threads 1 --cache ");
	CHECK_SAYS(cli_err, " --shape x=1x3x4x5\n");
	paste_next(" --runs 2");
	CHECK_RUN(1, "bench %s --require-cache --cache %s --shape x=1x3x8x9", model, cache);
	CHECK_SAYS(cli_err, ": 1 of 1 kernel is not in the cache: ");
	CHECK_SAYS(cli_err, " --rigor estimate --cache ");
	CHECK_SAYS(cli_err, " --shape x=1x3x8x9` makes it");
}

/* Default schedules that run now are not given two times. */
TEST(equal_kernels_have_one_time)
{
	char model[256];
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	snprintf(model, sizeof model, "%s", one_node("equal.onnx", "Relu", "batch 6"));
	CHECK_RUN(0, "tune %s --rigor estimate --budget 60s --threads 1 --cache %s", model, in_dir("equal"));
	if (strstr(cli_out, "every kernel is at its default schedule"))
		CHECK(strstr(cli_out, ", now ") && !strstr(cli_out, ", default schedules "));
}

/* Relu makes 0 of a NaN, so nothing in the outputs would tell of it. */
TEST(run_warns_of_inputs_that_are_not_numbers)
{
	char model[256], file[256];
	float six[6] = {1, 2, NAN, 4, -INFINITY, 6};
	struct tensor t = {DT_F32, {2, {1, 6}}, six};
	snprintf(model, sizeof model, "%s", one_node("nan.onnx", "Relu", "batch 6"));
	snprintf(file, sizeof file, "%s", in_dir("nan.npy"));
	REQUIRE_OK(tensor_write(file, &t, "x"));
	CHECK_RUN(0, "run %s --cache %s --input %s", model, in_dir("cache"), file);
	CHECK_SAYS(cli_err, "2 of the 6 values for input 'x' are NaN or infinite");
	CHECK_RUN(0, "run %s -q --json --cache %s --input %s", model, in_dir("cache"), file);
	CHECK_SAYS(cli_err, "2 of the 6 values for input 'x' are NaN or infinite");
	CHECK(out_number("inputs_not_finite") == 2);
	CHECK_RUN(2, "run %s --cache %s --input %s --input x=%s", model, in_dir("cache"), file, file);
	CHECK_SAYS(cli_err, "--input gives 'x' twice");
	six[2] = six[4] = 0;
	REQUIRE_OK(tensor_write(file, &t, "x"));
	CHECK_RUN(0, "run %s --cache %s --input %s", model, in_dir("cache"), file);
	CHECK(!strstr(cli_err, "NaN"));
}

/* Without --output the outputs are shown, and no file is written. */
TEST(run_without_output)
{
	char model[256];
	snprintf(model, sizeof model, "%s", one_node("six.onnx", "Relu", "batch 6"));
	CHECK_RUN(0, "run %s --random --cache %s", model, in_dir("cache"));
	CHECK_SAYS(cli_out, "output y f32 1x6: ");
	CHECK_SAYS(cli_out, "highest: ");
	CHECK(!strstr(cli_err, ".npy"));
	CHECK_RUN(0, "run %s --random --json --cache %s", model, in_dir("cache"));
	json_t *j = parse_out(), *row = json_array_get(json_object_get(j, "outputs"), 0);
	CHECK(json_is_null(json_object_get(row, "file")) && json_object_get(row, "file"));
	json_decref(j);
	CHECK_RUN(2, "run %s --random --pb --cache %s", model, in_dir("cache"));
	CHECK_SAYS(cli_err, "it goes with --output DIR");
}

TEST(misspelt_words_have_a_suggestion)
{
	char model[256];
	snprintf(model, sizeof model, "%s", one_node("one.onnx", "Relu", "batch 6"));
	CHECK_RUN(2, "tuen %s", model);
	CHECK_SAYS(cli_err, "did you mean 'tune'?");
	CHECK_RUN(2, "train folder -o prior.txt");
	CHECK_SAYS(cli_err, "needs no training");
	CHECK_RUN(2, "tune %s --buget 3s", model);
	CHECK_SAYS(cli_err, "did you mean --budget?");
	CHECK_RUN(2, "zoo mobilenetv2 -o %s", in_dir("m.onnx"));
	CHECK_SAYS(cli_err, "did you mean 'mobilenet_v2'?");
	CHECK_RUN(2, "tune %s --strategy aneal --cache %s", model, in_dir("cache"));
	CHECK_SAYS(cli_err, "did you mean 'anneal'? Choose one of:");
	CHECK_RUN(2, "tune %s --cost draf --cache %s", model, in_dir("cache"));
	CHECK_SAYS(cli_err, "did you mean 'draft'?");
	CHECK_RUN(2, "tune %s --cost mlp --cache %s", model, in_dir("cache"));
	CHECK_SAYS(cli_err, "--cost mlp: the cost models that learnt are gone");
	CHECK_RUN(2, "tune %s --cost trees --cache %s", model, in_dir("cache"));
	CHECK_SAYS(cli_err, "leave --cost out, or use draft");
	CHECK_RUN(2, "tasks %s --shape bacth=3", model);
	CHECK_SAYS(cli_err, "did you mean 'batch'?");
	CHECK_RUN(2, "run %s --input camera_=x.npy --output %s", steering(), in_dir("o"));
	CHECK_SAYS(cli_err, "the model has no input 'camera_'; did you mean 'camera'?");
}

/* An option that another command takes is named with that command, whichever names are near. */
TEST(options_of_other_commands)
{
	int pairs = 0;
	CHECK_RUN(2, "bench %s --budget 3s", steering());
	CHECK_SAYS(cli_err, "unknown option --budget; it is an option of image, tune");
	CHECK(!strstr(cli_err, "quiet"));
	for (int i = 0; cmd_table[i]; i++)
		for (const struct opt *o = cmd_table[i]->opts; o && o->name; o++) {
			bool its = false, meant = false;
			for (const struct opt *k = cmd_find(&hone_program, "bench")->opts; k->name; k++) {
				its |= !strcmp(k->name, o->name);
				meant |= k->also && strstr(k->also, o->name);
			}
			if (its || meant)
				continue;
			CHECK_RUN(2, "bench %s --%s", steering(), o->name);
			CHECK_SAYS(cli_err, "; it is an option of ");
			CHECK_SAYS(cli_err, cmd_table[i]->name);
			pairs++;
		}
	CHECK(pairs > 20);
	CHECK_RUN(2, "bench %s --qwertz", steering());
	CHECK(!strstr(cli_err, "option of") && !strstr(cli_err, "did you mean"));
}

/* Also where the first letter is that of another option, which takes the rest as its value. */
TEST(one_dash_before_a_long_name)
{
	static const char *const words[][2] = {
	    {"-budget 1s", "-budget; write --budget (see"},
	    {"-budget=1s", "-budget; write --budget (see"},
	    {"-help", "-help; write --help (see"},
	    {"-quiet", "-quiet; write --quiet (see"},
	    {"-treads 2", "--treads"},
	};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		CHECK_RUN(2, "tune %s --cache %s %s", steering(), in_dir("cache"), words[i][0]);
		CHECK_SAYS(cli_err, "unknown option -");
		CHECK_SAYS(cli_err, words[i][1]);
	}
	CHECK_RUN(2, "run %s -output %s", steering(), in_dir("o"));
	CHECK_SAYS(cli_err, "unknown option -output; write --output (see");
}

/* With an unknown operator, and one that runs in portable C. */
static const char *odd_model(void)
{
	struct onnx_maker k;
	mk_start(&k, 17, 4);
	mk_input(&k, "x", 1, "batch 6");
	mk_node(&k, "Relu", "x", "r");
	mk_node(&k, "Relu", "r", "s");
	mk_node(&k, "Frobnicate", "s", "y");
	mk_output(&k, "y");
	return write_model(&k, "odd.onnx");
}

TEST(inspect_as_json)
{
	char odd[256];
	CHECK_RUN(0, "inspect %s --json", steering());
	json_t *j = parse_out(), *in = json_array_get(json_object_get(j, "inputs"), 0);
	check_keys(
	    j, "model inputs outputs opset free unsupported operators untuned_operators nodes weights ir");
	CHECK(json_integer_value(json_object_get(j, "opset")) >= 7);
	CHECK(!strcmp(json_string_value(json_object_get(in, "name")), "camera"));
	CHECK(!strcmp(json_string_value(json_object_get(in, "dtype")), "f32"));
	CHECK(json_integer_value(json_array_get(json_object_get(in, "shape"), 3)) == 200);
	CHECK(json_array_size(json_object_get(j, "free")) == 0);
	CHECK(json_integer_value(json_object_get(j, "weights")) > 100000);
	json_decref(j);
	CHECK_RUN(0, "inspect %s --json", one_node("detector.onnx", "Relu", "batch 3 h w"));
	j = parse_out();
	json_t *free_dims = json_object_get(j, "free");
	REQUIRE(json_array_size(free_dims) == 3);
	in = json_array_get(json_object_get(j, "inputs"), 0);
	CHECK(json_is_null(json_array_get(json_object_get(in, "shape"), 3)));
	CHECK(!strcmp(json_string_value(json_array_get(json_object_get(in, "dims"), 3)), "w"));
	CHECK(!strcmp(json_string_value(json_array_get(json_object_get(in, "dims"), 1)), "3"));
	CHECK(json_integer_value(json_object_get(json_array_get(free_dims, 2), "axis")) == 3);
	CHECK(!strcmp(json_string_value(json_object_get(json_array_get(free_dims, 2), "name")), "w"));
	CHECK(json_is_null(json_object_get(j, "untuned_operators")));
	CHECK(strstr(json_string_value(json_object_get(j, "needs_sizes")), "--shape x=1x3x224x224"));
	json_decref(j);
	snprintf(odd, sizeof odd, "%s", odd_model());
	CHECK_RUN(1, "inspect %s --json", odd);
	j = parse_out();
	json_t *ops = json_object_get(j, "operators"), *bad = json_object_get(j, "unsupported");
	REQUIRE(json_array_size(ops) == 2 && json_array_size(bad) == 1);
	CHECK(!strcmp(json_string_value(json_object_get(json_array_get(ops, 0), "op_type")), "Relu"));
	CHECK(json_integer_value(json_object_get(json_array_get(ops, 0), "nodes")) == 2);
	CHECK(strstr(json_string_value(json_array_get(bad, 0)), "Frobnicate"));
	json_decref(j);
}

TEST(inspect_for_people)
{
	char model[256];
	snprintf(model, sizeof model, "%s", one_node("detector.onnx", "Relu", "batch 3 h w"));
	CHECK_RUN(0, "inspect %s", model);
	CHECK_SAYS(cli_out, "opset 17");
	CHECK_SAYS(cli_out, "[batch, 3, h, w]");
	CHECK_SAYS(cli_out, "--shape x=1x3x224x224");
	CHECK_RUN(0, "inspect %s --shape x=1x3x8x8", model);
	CHECK_SAYS(cli_out, "[1, 3, 8, 8]");
	CHECK(!strstr(cli_out, "[batch") && !strstr(cli_out, "?"));
	CHECK_SAYS(cli_out, "Every operator has kernels that can be tuned");
	CHECK_SAYS(cli_err, "--budget 20s --shape x=1x3x8x8\n");
	CHECK_RUN(2, "inspect %s --shape x=1x3x8", model);
	CHECK_SAYS(cli_err, "has rank 3");
	CHECK(!cli_out[0]);
	CHECK_RUN(2, "inspect %s --shape x=1x3x0x8", model);
	CHECK_SAYS(cli_err, "a size is at least 1");
	CHECK_RUN(2, "inspect %s --shape h=0 --shape w=8", model);
	CHECK_SAYS(cli_err, "size h=0: write a number from 1 to 2147483647");
	CHECK_RUN(1, "inspect /nowhere/m.onnx");
	CHECK_SAYS(cli_err, "/nowhere/m.onnx");
}

/* An input that --shape gives a value is no input any more; those behind it keep their sizes apart. */
TEST(inspect_with_a_scalar_that_has_a_value)
{
	char model[256];
	struct onnx_maker k;
	mk_start(&k, 17, 4);
	mk_input(&k, "rate", 7, "");
	mk_input(&k, "x", 1, "1 w");
	mk_node(&k, "CastLike", "rate x", "f");
	mk_node(&k, "Mul", "x f", "y");
	mk_output(&k, "y");
	snprintf(model, sizeof model, "%s", write_model(&k, "rate.onnx"));
	CHECK_RUN(0, "inspect %s --shape rate=2 --shape x=1x5", model);
	CHECK_SAYS(cli_out, "[1, 5]");
	CHECK(!strstr(cli_out, "w]"));
	CHECK_RUN(0, "inspect %s --shape rate=2 --shape x=1x5 --json", model);
	json_t *j = parse_out();
	CHECK(json_array_size(json_object_get(j, "free")) == 0);
	json_decref(j);
}

/* Sizes that the model's nodes refuse are the caller's: the text says so, and the command fails. */
TEST(inspect_fails_with_sizes_that_do_not_fit)
{
	char model[256];
	struct onnx_maker k;
	mk_start(&k, 17, 4);
	mk_input(&k, "x", 1, "1 w");
	mk_input(&k, "z", 1, "1 v");
	mk_node(&k, "Add", "x z", "y");
	mk_output(&k, "y");
	snprintf(model, sizeof model, "%s", write_model(&k, "add.onnx"));
	CHECK_RUN(2, "inspect %s --shape x=1x3 --shape z=1x5", model);
	CHECK_SAYS(cli_err, "--shape x=1x3 or --shape z=1x5 may be a size that the model does not work with: "
			    "node 'Add_0'");
	CHECK_RUN(2, "inspect %s --shape x=1x3 --shape z=1x5 --json", model);
	CHECK_RUN(0, "inspect %s --shape x=1x5 --shape z=1x5", model);
	CHECK_RUN(0, "inspect %s", model);
}

/* "untuned" is what `hone tasks --unsupported` lists as portable. */
TEST(inspect_counts_portable_operators)
{
	char model[256];
	struct onnx_maker k;
	const int64_t two[] = {2};
	mk_start(&k, 17, 4);
	mk_input(&k, "x", 1, "1 6");
	mk_init(&k, "k", 7, "1", two, sizeof two);
	mk_node(&k, "Relu", "x", "r");
	mk_node(&k, "TopK", "r k", "y i");
	mk_output(&k, "y");
	snprintf(model, sizeof model, "%s", write_model(&k, "topk.onnx"));
	CHECK_RUN(0, "inspect %s --json", model);
	json_t *j = parse_out(), *untuned = json_object_get(j, "untuned_operators");
	REQUIRE(json_array_size(untuned) == 1);
	CHECK(!strcmp(json_string_value(json_object_get(json_array_get(untuned, 0), "op_type")), "TopK"));
	json_decref(j);
	CHECK_RUN(0, "inspect %s", model);
	CHECK_SAYS(cli_out, "Without tuned kernels, in portable C: TopK (1)");
	CHECK_RUN(0, "bench %s --runs 2 --threads 1", model);
	CHECK_SAYS(cli_out, "portable kernels, fp32, 1 thread): ");
	CHECK_RUN(0, "bench %s --runs 2 --threads 1 --level exact", model);
	CHECK_SAYS(cli_out, "portable kernels, exact, 1 thread): ");
	CHECK_RUN(0, "bench %s --runs 2 --threads 1 --level half --json", model);
	j = parse_out();
	CHECK(!strcmp(json_string_value(json_object_get(j, "level")), "half"));
	json_decref(j);
	CHECK(!strstr(cli_out, "best kernels"));
	if (!worker())
		return;
	CHECK_RUN(0, "compile %s -o %s", model, in_dir("topk"));
	CHECK_SAYS(cli_out, "\n1 portable kernel\n");
}

/* Models without a task: nothing is promised of tuning, and no speedup is claimed. */
TEST(models_without_a_task)
{
	const float scale[] = {.1f};
	char quant[256], bare[256];
	struct onnx_maker k;
	mk_start(&k, 17, 4);
	mk_input(&k, "x", 1, "1 6");
	mk_init(&k, "s", 1, "", scale, sizeof scale);
	mk_node(&k, "QuantizeLinear", "x s", "y");
	mk_output(&k, "y");
	snprintf(quant, sizeof quant, "%s", write_model(&k, "quant.onnx"));
	mk_start(&k, 17, 4);
	mk_input(&k, "x", 1, "1 6");
	mk_output(&k, "x");
	snprintf(bare, sizeof bare, "%s", write_model(&k, "bare.onnx"));
	for (int i = 0; i < 2; i++) {
		const char *model = i ? bare : quant;
		CHECK_RUN(0, "inspect %s", model);
		CHECK_SAYS(cli_out, "Nothing of this model can be tuned");
		CHECK(!strstr(cli_out, "Every operator"));
		CHECK_SAYS(cli_err, "Next: hone bench ");
		CHECK_RUN(0, "bench %s --runs 2 --threads 1", model);
		CHECK_SAYS(cli_out, i ? "onnx (no kernels, fp32, 1 thread): "
				      : "onnx (portable kernels, fp32, 1 thread): ");
		if (!worker())
			continue;
		CHECK_RUN(0, "tune %s --budget 2s --threads 1 --cache %s", model, in_dir("untuned"));
		CHECK_SAYS(cli_out, "nothing of this model can be tuned");
		CHECK(!strstr(cli_out, "faster") && !strstr(cli_out, "as fast") &&
		      !strstr(cli_err, "longer"));
		CHECK_SAYS(cli_err, "Next: hone bench ");
	}
}

TEST(formats_of_others_name_the_converter)
{
	static const char *const commands[] = {"tasks", "inspect", "tune", "bench", "verify"};
	static const char flat[] = "\x1c\0\0\0TFL3\x14\0\x20\0";
	char path[256], folder[256];
	snprintf(path, sizeof path, "%s", in_dir("m.tflite"));
	snprintf(folder, sizeof folder, "%s", in_dir("saved"));
	REQUIRE_OK(file_write(path, flat, sizeof flat - 1));
	REQUIRE_OK(file_mkdirs(folder, 0755));
	REQUIRE_OK(file_write(in_dir("saved/saved_model.pb"), "x", 1));
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		const char *cache = i > 1 ? in_dir("cache") : "";
		CHECK_RUN(1, "%s %s %s %s", commands[i], path, i > 1 ? "--cache" : "", cache);
		CHECK_SAYS(cli_err,
			   "it is a TensorFlow Lite model; convert it: python3 -m tf2onnx.convert --tflite ");
		CHECK_SAYS(cli_err, path);
		CHECK(strchr(cli_err, '\n') == cli_err + strlen(cli_err) - 1);
		CHECK(!cli_out[0]);
		CHECK_RUN(1, "%s %s %s %s", commands[i], folder, i > 1 ? "--cache" : "", cache);
		CHECK_SAYS(cli_err, "tf2onnx.convert --saved-model ");
	}
}

TEST(help_and_version_are_commands)
{
	static char by_option[sizeof cli_out];
	CHECK_RUN(0, "tune --help");
	snprintf(by_option, sizeof by_option, "%s", cli_out);
	CHECK_RUN(0, "help tune");
	CHECK(!strcmp(by_option, cli_out));
	CHECK_RUN(0, "help");
	CHECK_SAYS(cli_out, "commands:");
	CHECK_SAYS(cli_out, "`hone help words` explains the words of tables.\n");
	CHECK_RUN(2, "help tuen");
	CHECK_SAYS(cli_err, "did you mean 'tune'?");
	CHECK_RUN(0, "help --json");
	json_t *j = parse_out();
	int n = 0;
	while (cmd_table[n])
		n++;
	CHECK(json_array_size(json_object_get(j, "commands")) == (size_t)n);
	json_decref(j);
	CHECK_RUN(0, "help tune --json");
	j = parse_out();
	CHECK(!strcmp(
	    json_string_value(json_object_get(json_array_get(json_object_get(j, "options"), 0), "name")),
	    "budget"));
	json_decref(j);
	CHECK_RUN(0, "version");
	CHECK(!strcmp(cli_out, "hone " HONE_VERSION "\n"));
	CHECK_RUN(0, "version --json");
	j = parse_out();
	CHECK(!strcmp(json_string_value(json_object_get(j, "version")), HONE_VERSION));
	json_decref(j);
}

/* Runs hone-fleet with its standard error in cli_err. */
static int fleet(const char *words)
{
	char folder[3000], cmd[4096], out[256], err[256];
	if (file_self_dir(folder, sizeof folder) < 0)
		return -1;
	snprintf(out, sizeof out, "%s", in_dir("fleet-out"));
	snprintf(err, sizeof err, "%s", in_dir("fleet-err"));
	snprintf(cmd, sizeof cmd, "%s/../hone-fleet %s >%s 2>%s", folder, words, out, err);
	int status = system(cmd);
	slurp(out, cli_out, sizeof cli_out);
	slurp(err, cli_err, sizeof cli_err);
	return WEXITSTATUS(status);
}

/* A wrong name, as of a key, costs nobody a file. */
TEST(hone_fleet_root_replaces_only_roots)
{
	char at[256], file[300], key[300], words[900], text[64];
	snprintf(at, sizeof at, "%s", in_dir("fleet-keys"));
	snprintf(file, sizeof file, "%s", in_dir("root.next"));
	snprintf(key, sizeof key, "%s/offline/root-1.key", at);
	snprintf(words, sizeof words, "init --keys %s", at);
	CHECK(fleet(words) == 0);
	snprintf(words, sizeof words, "root next %s --keys %s --sign %s", file, at, key);
	CHECK_OK(file_write(file, "-----BEGIN", 10));
	CHECK(fleet(words) == 2);
	CHECK_SAYS(cli_err, "root.next exists and is not a file that `hone-fleet root` writes");
	slurp(file, text, sizeof text);
	CHECK(!strcmp(text, "-----BEGIN"));
	unlink(file);
	CHECK(fleet(words) == 0);
	CHECK(fleet(words) == 0);
	snprintf(words, sizeof words, "root key %s", key);
	CHECK(fleet(words) != 0);
}

/* Heads of tables, kinds of kernels, and what the lines below a table say. */
TEST(words_of_tables_are_explained)
{
	static const char *const printed[] = {
	    "us",     "gain",    "roofline",  "node",  "task",     "share", "peak",  "GFLOP/s",  "uses",
	    "tuned",  "default", "fallback",  "alone", "portable", "rigor", "lanes", "level",    "limited by",
	    "F(4,3)", "trial",   "candidate", "stale", "hint",     "conv",  "copy",  "matmul",   "median",
	    "record", "rounds",  "disturbed", "CI",    "draft",    "box",   "race",  "schedule", "recipe"};
	for (size_t i = 0; i < sizeof printed / sizeof *printed; i++)
		if (!term_find(hone_terms, printed[i])) {
			printf("no word '%s'\n", printed[i]);
			test_bad = 1;
		}
	for (const struct term *t = hone_terms; t->name; t++) {
		CHECK(t == hone_terms || strcasecmp(t[-1].name, t->name) < 0);
		CHECK(t->text[strlen(t->text) - 1] == '.');
		CHECK(!cmd_find(&hone_program, t->name)); /* `hone help NAME` is the command's */
	}
	CHECK_RUN(0, "help words");
	CHECK_SAYS(cli_out, "\nlanes       How many 32-bit floats one vector instruction of the processor\n");
	CHECK_RUN(0, "help roofline");
	CHECK(!strncmp(cli_out, "roofline    The speed ", 22));
	CHECK_RUN(0, "help ROOFLINE --json");
	json_t *j = parse_out();
	CHECK(!strcmp(json_string_value(json_object_get(j, "name")), "roofline"));
	json_decref(j);
	CHECK_RUN(2, "help rigour");
	CHECK_SAYS(cli_err, "no help on 'rigour'; did you mean 'rigor'?");
	CHECK_RUN(2, "help wrods");
	CHECK_SAYS(cli_err, "did you mean 'words'?");
	CHECK_RUN(2, "rigor");
	CHECK_SAYS(cli_err, "unknown command 'rigor'; `hone help rigor` explains the word");
	CHECK(fleet("help words") == 2);
}

TEST(hone_fleet_has_the_same_words)
{
	CHECK(fleet("help") == 0);
	CHECK_SAYS(cli_out, "usage: hone-fleet COMMAND");
	CHECK(fleet("help token") == 0);
	CHECK_SAYS(cli_out, "hone-fleet token: ");
	CHECK(fleet("version") == 0 && !strcmp(cli_out, "hone-fleet " HONE_VERSION "\n"));
	CHECK(fleet("tokne") == 2 && !cli_out[0]);
	CHECK_SAYS(cli_err, "did you mean 'token'?");
	CHECK(fleet("token --expirse 5") == 2);
	CHECK_SAYS(cli_err, "did you mean --expires?");
	CHECK(fleet("--bash-completion") == 0);
	CHECK_SAYS(cli_out, "_hone_fleet() {");
	if (system("command -v bash >/dev/null") != 0)
		return;
	static const char *const cases[][2] = {{"ro", "root"},
					       {"root ", "key next sign check add"},
					       {"root c", "check"},
					       {"root check fo", "folder.key"},
					       {"root sign x --sign fo", "folder.key"},
					       {"root --keys pl", "place"}};
	REQUIRE_OK(file_mkdirs(in_dir("completes/place"), 0755));
	REQUIRE_OK(file_write(in_dir("completes/folder.key"), "", 0));
	REQUIRE_OK(file_write(in_dir("completes/by"), cli_out, strlen(cli_out)));
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char cmd[1024];
		bool none = file_ends_with(cases[i][0], " ");
		snprintf(
		    cmd, sizeof cmd,
		    "cd %s && bash -c '. ./by; COMP_WORDS=(hone-fleet %s%s); "
		    "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _hone_fleet; [ \"${COMPREPLY[*]}\" = \"%s\" ] "
		    "|| { echo \"%s: ${COMPREPLY[*]}\"; false; }'",
		    in_dir("completes"), cases[i][0], none ? "\"\"" : "", cases[i][1], cases[i][0]);
		CHECK(system(cmd) == 0);
	}
}

TEST(hone_fleet_makes_no_database_to_read_it)
{
	static const char *const reads[] = {"boards",
					    "boards --json",
					    "rename 00112233445566778899aabbccddeeff robot",
					    "revoke 00112233445566778899aabbccddeeff --why lost",
					    "token",
					    "token --uses 3"};
	char words[512], db[256], lock[300];
	snprintf(db, sizeof db, "%s", in_dir("typo.db"));
	snprintf(lock, sizeof lock, "%s-lock", db);
	for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
		snprintf(words, sizeof words, "%s --db %s", reads[i], db);
		CHECK(fleet(words) == 1);
		CHECK_SAYS(cli_err, "there is no database ");
		CHECK_SAYS(cli_err, "/hone-fleet serve --db ");
		CHECK(!file_exists(db) && !file_exists(lock));
	}
	CHECK_OK(file_write(db, "", 0)); /* an empty file is a new database */
	snprintf(words, sizeof words, "token --db %s", db);
	CHECK(fleet(words) == 0);
	snprintf(words, sizeof words, "boards --db %s", db);
	CHECK(fleet(words) == 0);
}

static int has_note(void *ctx, const struct db_value *col, int n)
{
	(void)n;
	CHECK(!strcmp(col[0].p, ctx));
	return E_OK;
}

/* Checks what the last line of the log of administration says. */
static void check_note(const char *db, const char *want)
{
	char text[128];
	struct db_conn *c;
	snprintf(text, sizeof text, "%s", want);
	REQUIRE_OK(db_open(db, &c));
	CHECK(db_exec(c, "SELECT what FROM admin ORDER BY at_us DESC LIMIT 1", NULL, 0, has_note, text) == 1);
	db_close(c);
}

/* The log of administration says for what a token is, and for how long. */
TEST(a_token_is_noted)
{
	char words[512], db[256];
	snprintf(db, sizeof db, "%s", in_dir("noted.db"));
	CHECK_OK(file_write(db, "", 0));
	snprintf(words, sizeof words, "token --db %s", db);
	CHECK(fleet(words) == 0);
	check_note(db, "token for 1 board, for 24h");
	sleep(1); /* notes have whole seconds */
	snprintf(words, sizeof words, "token --uses 3 --expires 90m --note lab --db %s", db);
	CHECK(fleet(words) == 0);
	check_note(db, "token for 3 boards, for 90m: lab");
}

/* A node or a task by its whole name or its number, else by parts of names. */
TEST(explain_finds_one_task)
{
	char model[256], key[16];
	struct onnx_maker k;
	mk_start(&k, 17, 4);
	mk_input(&k, "x", 1, "1 3 5 7");
	mk_node(&k, "GlobalAveragePool", "x", "p");
	mk_node(&k, "Softmax", "p", "y");
	mk_output(&k, "y");
	snprintf(model, sizeof model, "%s", write_model(&k, "two.onnx"));
	static const struct {
		const char *word;
		size_t tasks;
	} cases[] = {{"1", 1}, {"2", 1}, {"GlobalAveragePool_0", 1}, {"_", 2}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		CHECK_RUN(0, "explain %s %s --json --cache %s", model, cases[i].word, in_dir("cache"));
		json_t *j = parse_out(), *list = json_object_get(j, "tasks");
		CHECK(json_array_size(list) == cases[i].tasks);
		snprintf(key, sizeof key, "%.8s",
			 json_string_value(json_object_get(json_array_get(list, 0), "task_key")));
		json_decref(j);
	}
	CHECK_RUN(0, "explain %s %s --json --cache %s", model, key, in_dir("cache"));
	json_t *j = parse_out();
	CHECK(json_array_size(json_object_get(j, "tasks")) == 1);
	json_decref(j);
	CHECK_RUN(1, "explain %s GlobalAveragPool_0 --cache %s", model, in_dir("cache"));
	CHECK_SAYS(cli_err, "did you mean 'GlobalAveragePool_0'? `hone explain ");
	CHECK_RUN(1, "explain %s 3 --cache %s", model, in_dir("cache"));
	CHECK(!strstr(cli_err, "did you mean") && !cli_out[0]);
}

/* A word that fits many tasks shows the slowest three in full, the others in a line each. */
TEST(explain_shows_the_slowest_of_many)
{
	const char *at;
	int n = 0;
	CHECK_RUN(0, "explain %s conv --cache %s", steering(), in_dir("cache"));
	for (at = cli_out; (at = strstr(at, "\n  task\n")); at++)
		n++;
	CHECK(n == 3);
	CHECK_SAYS(cli_out, " tasks contain 'conv'; in full: those that take the most time\n");
	CHECK_SAYS(cli_out, "more tasks, ");
	at = strstr(cli_out, " shows the first of these in full");
	REQUIRE(at);
	CHECK_RUN(0, "explain %s 4 --cache %s", steering(), in_dir("cache"));
	CHECK(strstr(cli_out, "\n  task\n") && !strstr(cli_out, " more task"));
	CHECK_RUN(0, "explain %s conv --json --cache %s", steering(), in_dir("cache"));
	json_t *j = parse_out();
	CHECK(json_array_size(json_object_get(j, "tasks")) > 3); /* data has all of them */
	json_decref(j);
	CHECK_RUN(0, "explain %s --cache %s", steering(), in_dir("cache"));
	const char *next =
	    strrchr(cli_err, ':') ? strstr(cli_err, "steering") : NULL; /* a number of the table */
	REQUIRE(next && (next = strchr(next, ' ')));
	CHECK(strtol(next, NULL, 10) > 0 && strspn(next + 1, "0123456789") < 3);
}

/* Commands that write a file at their end check its name before they measure or make anything: here even
 * before the model or the input that is missing. */
TEST(a_file_that_cannot_be_written_is_noticed_first)
{
	static const char *const commands[] = {
	    "report M --cache C -o F/x.html", "bench M --kernels fallback --cache C --trace F/x",
	    "compile M --cache C -o P/x", "pack --cache C/nowhere -o F/x.seg",
	    "compile M --cache C --beside -o P/x"};
	char words[1024], file[256], path[3][256];
	snprintf(file, sizeof file, "%s", in_dir("plain-file"));
	REQUIRE_OK(file_write(file, "x", 1));
	snprintf(path[0], sizeof *path, "%s", in_dir("none.onnx"));
	snprintf(path[1], sizeof *path, "%s", in_dir("cache"));
	snprintf(path[2], sizeof *path, "%s", in_dir("no-such-folder"));
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		fill_words(commands[i], "MCFP", (const char *const[]){path[0], path[1], path[2], file},
			   words);
		CHECK_RUN(1, "%s", words);
		CHECK(strstr(cli_err, path[2]) || strstr(cli_err, file));
		CHECK(i || strstr(cli_err, "its folder does not exist; make the folder first"));
	}
	/* A page that could be written leaves no empty file if the report fails. */
	CHECK_RUN(1, "report %s --cache %s -o %s", path[0], path[1], in_dir("page.html"));
	CHECK(!file_exists(in_dir("page.html")));
}

TEST(processors_that_are_not_there)
{
	static const char *const lists[] = {"1023", "0,1023"};
	for (int i = 0; i < 2; i++) {
		CHECK_RUN(2, "tune %s --cpus %s", steering(), lists[i]);
		CHECK_SAYS(cli_err, "this process may use the processors 0");
		CHECK(!strstr(cli_err, "Invalid argument"));
	}
}

/* Has a box search with a worker that never answers. Returns whether the box ended while it waited for that; a
 * box on a busy machine may be too short to begin a search. */
static bool tries_nothing(int budget_s, const char *cache)
{
	char was[1024], mute[256];
	static const char text[] = "#!/bin/sh\nexec sleep 600\n";
	snprintf(was, sizeof was, "%s", worker());
	snprintf(mute, sizeof mute, "%s", in_dir("mute-worker"));
	CHECK_OK(file_write(mute, text, sizeof text - 1));
	CHECK(chmod(mute, 0755) == 0);
	setenv("HONE_WORKER", mute, 1);
	int status = hone("tune %s --budget %ds --threads 1 --cache %s", steering(), budget_s, cache);
	setenv("HONE_WORKER", was, 1);
	bool none = strstr(cli_out, " s ended before any kernel was tried") != NULL;
	CHECK(status == none);
	return none;
}

/* It prints no table, and names a box that is long enough. */
TEST(a_box_that_could_try_nothing)
{
	char cache[256];
	bool tried = true;
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	for (int s = 2; s <= 32 && tried && !test_bad; s *= 2) {
		/* a fresh one, as kernels that an earlier box kept are no longer untried */
		snprintf(cache, sizeof cache, "%s-%d", in_dir("untried"), s);
		tried = !tries_nothing(s, cache);
	}
	REQUIRE(!tried);
	CHECK_SAYS(cli_out, "; no kernel was kept\n"); /* a history was, and the division */
	CHECK(!strstr(cli_out, "roofline"));
	CHECK_SAYS(cli_err, "Next: hone tune ");
	CHECK_SAYS(cli_err, " --threads 1 --cache ");
	CHECK(strstr(cli_err, " --budget 20s ") || strstr(cli_err, " --budget 32s ") ||
	      strstr(cli_err, " --budget 64s "));
	CHECK_RUN(0, "show --json --cache %s", cache);
	json_t *j = parse_out();
	CHECK(json_array_size(json_object_get(j, "record_list")) == 0);
	json_decref(j);
	/* A box may be too short to read the model. */
	if (hone("tune %s --budget 100ms --threads 1 --cache %s", steering(), in_dir("unread")) == 1 && !cli_out[0])
		CHECK_SAYS(cli_err, "Give --budget ");
}

TEST(sync_names_the_file_that_was_given)
{
	char conf[256];
	snprintf(conf, sizeof conf, "%s", in_dir("bare.conf"));
	FILE *f = fopen(conf, "w");
	REQUIRE(f && fputs("[honed]\n", f) >= 0 && fclose(f) == 0);
	static const char *const words[] = {"", " --now", " --json", " --now --json"};
	for (int i = 0; i < 4; i++) {
		CHECK_RUN(1, "sync%s --config %s", words[i], conf);
		CHECK_SAYS(cli_err, "no fleet is configured: set server = URL in [sync] of ");
		CHECK_SAYS(cli_err, conf);
		CHECK_SAYS(cli_err, "hone sync --folder DIR --config ");
		if (i < 2) {
			CHECK(!cli_out[0]);
			continue;
		}
		json_t *j = parse_out();
		CHECK_SAYS(json_string_value(json_object_get(j, "error")), "no fleet is configured");
		CHECK(!strcmp(json_string_value(json_object_get(j, "code")), "not found"));
		json_decref(j);
	}
	CHECK_RUN(1, "sync --config %s.gone", conf);
	CHECK_SAYS(cli_err, "there is no configuration");
}

/* Words without the option that they belong to. */
TEST(a_time_and_a_model_without_their_options)
{
	CHECK_RUN(127, "inhibit 30s --why x");
	CHECK_SAYS(cli_err,
		   "cannot start 30s: No such file or directory; to inhibit for that long, give --for 30s");
	CHECK_RUN(127, "inhibit --why x -- 30s now");
	CHECK(!strstr(cli_err, "--for"));
	CHECK_RUN(2, "forget m.onnx");
	CHECK_SAYS(cli_err,
		   "unexpected argument 'm.onnx'; to remove its records: hone forget --model m.onnx");
	CHECK_RUN(2, "forget 0123abcd");
	CHECK_SAYS(cli_err, "hone forget --task 0123abcd");
	CHECK_RUN(2, "forget --all m.onnx");
	CHECK_SAYS(cli_err, "unexpected argument 'm.onnx'; leave it out");
}

/* hone tune --cpus 0 tunes for one thread, and other commands have no --cpus. */
TEST(next_says_the_threads_of_cpus)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char one[16];
	snprintf(one, sizeof one, "%d", sched_getcpu());
	CHECK_RUN(0, "tune %s --rigor estimate --budget 60s --cpus %s --cache %s", steering(), one,
		  in_dir("cpus"));
	CHECK_SAYS(cli_err, "Next: hone bench ");
	CHECK_SAYS(cli_err, " --threads 1");
}

TEST_MAIN
