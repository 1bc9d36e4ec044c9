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
	    "tasks",   "tune",    "bench",          "run --random --output /tmp/none", "verify",
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

/* With an unknown operator, and one that runs in portable C. */
static void odd_model(const char *path)
{
	struct onnx_maker k;
	mk_start(&k, 17, 4);
	mk_input(&k, "x", 1, "batch 6");
	mk_node(&k, "Relu", "x", "r");
	mk_node(&k, "Relu", "r", "s");
	mk_node(&k, "Frobnicate", "s", "y");
	mk_output(&k, "y");
	struct blob b = mk_bytes(&k);
	REQUIRE_OK(file_write(path, b.p, b.n));
	arena_free(&k.a);
}

TEST(inspect_as_json)
{
	char odd[256];
	CHECK_RUN(0, "inspect %s --json", steering());
	json_t *j = parse_out(), *in = json_array_get(json_object_get(j, "inputs"), 0);
	check_keys(j, "model inputs outputs opset free unsupported operators untuned nodes weights ir");
	CHECK(json_integer_value(json_object_get(j, "opset")) >= 7);
	CHECK(!strcmp(json_string_value(json_object_get(in, "name")), "camera"));
	CHECK(!strcmp(json_string_value(json_object_get(in, "type")), "f32"));
	CHECK(json_integer_value(json_array_get(json_object_get(in, "shape"), 3)) == 200);
	CHECK(json_array_size(json_object_get(j, "free")) == 0);
	CHECK(json_integer_value(json_object_get(j, "weights")) > 100000);
	json_decref(j);
	CHECK_RUN(0, "inspect %s --json", relu_model("detector.onnx", "batch 3 h w"));
	j = parse_out();
	json_t *free_dims = json_object_get(j, "free");
	REQUIRE(json_array_size(free_dims) == 3);
	CHECK(json_integer_value(json_object_get(json_array_get(free_dims, 2), "axis")) == 3);
	CHECK(!strcmp(json_string_value(json_object_get(json_array_get(free_dims, 2), "name")), "w"));
	CHECK(json_is_null(json_object_get(j, "untuned")));
	CHECK(strstr(json_string_value(json_object_get(j, "needs_sizes")), "--shape x=1x3x224x224"));
	json_decref(j);
	snprintf(odd, sizeof odd, "%s", in_dir("odd.onnx"));
	odd_model(odd);
	CHECK_RUN(0, "inspect %s --json", odd);
	j = parse_out();
	json_t *ops = json_object_get(j, "operators"), *bad = json_object_get(j, "unsupported");
	REQUIRE(json_array_size(ops) == 2 && json_array_size(bad) == 1);
	CHECK(!strcmp(json_string_value(json_object_get(json_array_get(ops, 0), "type")), "Relu"));
	CHECK(json_integer_value(json_object_get(json_array_get(ops, 0), "nodes")) == 2);
	CHECK(strstr(json_string_value(json_array_get(bad, 0)), "Frobnicate"));
	json_decref(j);
}

TEST(inspect_for_people)
{
	char model[256];
	snprintf(model, sizeof model, "%s", relu_model("detector.onnx", "batch 3 h w"));
	CHECK_RUN(0, "inspect %s", model);
	CHECK_SAYS(cli_out, "opset 17");
	CHECK_SAYS(cli_out, "[batch, 3, h, w]");
	CHECK_SAYS(cli_out, "--shape x=1x3x224x224");
	CHECK_RUN(0, "inspect %s --shape x=1x3x8x8", model);
	CHECK_SAYS(cli_out, "Every operator has kernels that can be tuned");
	CHECK_SAYS(cli_err, "--budget 20s --shape x=1x3x8x8\n");
	CHECK_RUN(2, "inspect %s --shape x=1x3x8", model);
	CHECK_SAYS(cli_err, "has rank 3");
	CHECK(!cli_out[0]);
	CHECK_RUN(1, "inspect /nowhere/m.onnx");
	CHECK_SAYS(cli_err, "/nowhere/m.onnx");
}

/* "untuned" is what `hone tasks --unsupported` lists as portable. */
TEST(inspect_counts_portable_operators)
{
	char model[256];
	struct onnx_maker k;
	const int64_t two[] = {2};
	snprintf(model, sizeof model, "%s", in_dir("topk.onnx"));
	mk_start(&k, 17, 4);
	mk_input(&k, "x", 1, "1 6");
	mk_init(&k, "k", 7, "1", two, sizeof two);
	mk_node(&k, "Relu", "x", "r");
	mk_node(&k, "TopK", "r k", "y i");
	mk_output(&k, "y");
	struct blob b = mk_bytes(&k);
	REQUIRE_OK(file_write(model, b.p, b.n));
	arena_free(&k.a);
	CHECK_RUN(0, "inspect %s --json", model);
	json_t *j = parse_out(), *untuned = json_object_get(j, "untuned");
	REQUIRE(json_array_size(untuned) == 1);
	CHECK(!strcmp(json_string_value(json_object_get(json_array_get(untuned, 0), "type")), "TopK"));
	json_decref(j);
	CHECK_RUN(0, "inspect %s", model);
	CHECK_SAYS(cli_out, "Without tuned kernels, in portable C: TopK (1)");
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
}

TEST_MAIN
