/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: hone quantize, its files, its report and its refusals. */
#include "tests/lib/cli_quantize.h"
#include "tests/lib/pictures.h"

#include "kernels/graph/graph.h"
#include "tools/hone/zoo.h"

#include <math.h>

static double number(const json_t *j, const char *key)
{
	return json_number_value(json_object_get(j, key));
}

TEST(a_model_is_quantised_and_runs)
{
	char model[256], out[256];
	snprintf(model, sizeof model, "%s", small_model("small.onnx", false));
	snprintf(out, sizeof out, "%s", in_dir("int8.onnx"));
	CHECK_RUN(0, "quantize %s --data %s -o %s --json -q", model, examples("ten", 10), out);
	json_t *j = parse_out();
	check_keys(j, "model file examples held_out layers quantized_layers predicted_error measured_error "
		      "held_out_error");
	CHECK(number(j, "examples") == 8 && number(j, "held_out") == 2 && number(j, "quantized_layers") == 2);
	CHECK(number(j, "measured_error") > 1e-4 && number(j, "measured_error") < 0.03 &&
	      number(j, "held_out_error") < 0.03);
	const json_t *first = json_array_get(json_object_get(j, "layers"), 0);
	CHECK(!strcmp(json_string_value(json_object_get(first, "name")), "first"));
	CHECK(json_is_true(json_object_get(first, "quantized")) && number(first, "layer_error") > 1e-5);
	json_decref(j);
	CHECK_RUN(0, "inspect %s", out);
	CHECK_SAYS(cli_out, "QuantizeLinear");
	CHECK_SAYS(cli_out, "opset 13");
	CHECK_RUN(0, "tasks %s", out);
	CHECK_SAYS(cli_out, "conv 3x3 3->8 10x10 mul u8");
	CHECK_RUN(0, "run %s --random --threads 1 -o %s", out, in_dir("answers"));
	CHECK_RUN(2, "quantize %s --data %s -o %s", out, in_dir("ten"), in_dir("twice.onnx"));
	CHECK_SAYS(cli_err, "quantised already");
}

TEST(the_report_is_a_table)
{
	char model[256];
	snprintf(model, sizeof model, "%s", small_model("small.onnx", false));
	CHECK_RUN(0, "quantize %s --data %s -o %s --keep first --ranges minmax --weight-bits 7", model,
		  examples("three", 3), in_dir("kept.onnx"));
	CHECK_SAYS(cli_out, "fp32: it was named");
	CHECK_SAYS(cli_out, "1 of 2 layers quantised");
	CHECK_SAYS(cli_out, "on 2 examples");
	CHECK_SAYS(cli_out, "on 1 held out");
	CHECK_SAYS(cli_err, "Next: hone tune");
	CHECK_RUN(0, "quantize -q %s --data random -o %s --scan 0 --no-bias-correction", model,
		  in_dir("r.onnx"));
	CHECK(!cli_err[0]);
	CHECK(!strstr(cli_out, "predicted"));
	CHECK_RUN(0, "quantize %s --data random -o %s", model, in_dir("r.onnx"));
	CHECK_SAYS(cli_err, "warning: ranges come from random inputs");
}

TEST(pictures_stacks_and_test_folders)
{
	char model[256], path[400], set[400];
	struct buf png = {0};
	snprintf(model, sizeof model, "%s", small_model("small.onnx", false));
	pic_png(20, 16, PNG_COLOR_TYPE_RGB, 8, false, &png);
	snprintf(path, sizeof path, "%s/a.png", folder("pictures"));
	CHECK_OK(file_write(path, png.p, png.n));
	buf_free(&png);
	CHECK_RUN(0, "quantize %s --data %s -o %s --scale 1/255 --json", model, in_dir("pictures"),
		  in_dir("p.onnx"));
	CHECK(out_number("examples") == 1 && out_number("held_out") == 0);
	CHECK(!strstr(cli_err, "prove nothing"));
	CHECK_RUN(0, "zoo steering -q -o %s", in_dir("steering.onnx")); /* its tanh saturates */
	CHECK_RUN(0, "quantize %s --data %s -o %s", in_dir("steering.onnx"), in_dir("pictures"),
		  in_dir("p.onnx"));
	CHECK_SAYS(cli_err, "they prove nothing");
	snprintf(path, sizeof path, "%s/many.npy", folder("stack"));
	write_tensor(path, "x", 7, 3, 1);
	CHECK_RUN(0, "quantize %s --data %s -o %s --json --examples 6", model, in_dir("stack"),
		  in_dir("s.onnx"));
	CHECK(out_number("examples") == 5 && out_number("held_out") == 1);
	snprintf(path, sizeof path, "%s/x.npy", folder("subs/a"));
	write_tensor(path, "x", 1, 3, 1);
	CHECK_RUN(0, "quantize %s --data %s -o %s --json", model, in_dir("subs"), in_dir("s.onnx"));
	CHECK(out_number("examples") == 1);
	snprintf(model, sizeof model, "%s", small_model("two.onnx", true));
	for (int i = 0; i < 2; i++) {
		snprintf(set, sizeof set, "sets/test_data_set_%d", i);
		snprintf(path, sizeof path, "%s/input_0.pb", folder(set));
		write_tensor(path, "x2", 1, 3, 1);
		snprintf(path, sizeof path, "%s/%s", in_dir(set), i ? "input_1.pb" : "x.npy");
		write_tensor(path, "x", 1, 3, 1);
	}
	CHECK_RUN(0, "quantize %s --data %s -o %s --json", model, in_dir("sets"), in_dir("two8.onnx"));
	CHECK(out_number("examples") == 1 && out_number("held_out") == 1);
	CHECK_RUN(0, "quantize %s --data %s/test_data_set_1 -o %s --json", model, in_dir("sets"),
		  in_dir("two8.onnx"));
	CHECK(out_number("examples") == 1 && out_number("held_out") == 0);
	for (int i = 0; i < 2; i++) { /* the same as .npy, which name no input: by their numbers */
		snprintf(path, sizeof path, "%s/input_%d.npy", folder("npy/a"), i);
		write_tensor(path, "", 1, 3, 1);
	}
	for (int i = 0; i < 2; i++) {
		CHECK_RUN(0, "quantize %s --data %s%s -o %s --json", model, in_dir("npy"), i ? "/a" : "",
			  in_dir("two8.onnx"));
		CHECK(out_number("examples") == 1 && out_number("held_out") == 0);
	}
	/* of one input: a set with its output, else examples */
	snprintf(model, sizeof model, "%s", small_model("small.onnx", false));
	for (int with = 0; with < 2; with++) {
		if (with)
			CHECK_OK(file_write(in_dir("npy/a/output_0.npy"), "junk", 4));
		CHECK_RUN(0, "quantize %s --data %s/a -o %s --json", model, in_dir("npy"), in_dir("s.onnx"));
		CHECK(out_number("examples") + out_number("held_out") == 2 - with);
	}
	snprintf(model, sizeof model, "%s", in_dir("two.onnx"));
	CHECK_RUN(1, "quantize %s --data %s -o %s", model, examples("three", 3), in_dir("two8.onnx"));
	CHECK_SAYS(cli_err, "the model has 2 inputs");
}

/* Runs with files as in `words`, whose letters M, D and O are the model, a good folder and an output. */
static void check_refused(int status, const char *words, const char *part)
{
	char line[1024];
	const char *const path[] = {in_dir("small.onnx"), in_dir("three"), in_dir("no.onnx")};
	fill_words(words, "MDO", path, line);
	CHECK_RUN(status, "quantize %s", line);
	CHECK_SAYS(cli_err, part);
	CHECK(!file_exists(path[2]));
}

TEST(options_are_checked)
{
	small_model("small.onnx", false);
	examples("three", 3);
	check_refused(2, "M -o O", "missing option --data DIR");
	check_refused(2, "M --data D", "missing option -o");
	check_refused(2, "M --data D -o M", "is the model itself");
	check_refused(2, "M --data D -o O --ranges kl",
		      "--ranges kl is not possible; it takes minmax or mse");
	check_refused(2, "M --data D -o O --weight-bits 4",
		      "--weight-bits 4 is not possible; it takes 7 or 8");
	check_refused(2, "M --data D -o O --error 0", "--error 0: a number above 0");
	check_refused(2, "M --data D -o O --error nan", "--error nan: a number above 0");
	check_refused(2, "M --data D -o O --scan 0 --error .1", "--scan 0 measures no layer");
	check_refused(2, "M --data D -o O --examples 0", "--examples 0: 1 to 4096");
	check_refused(2, "M --data D -o O --keep firts", "no layer 'firts'; did you mean 'first'?");
	check_refused(1, "M --data D -o O --error 1e-9", /* a result of the search, not a wrong argument */
		      "no layer can be quantised within an error of 1e-09");
	check_refused(1, "M --data /nowhere/at/all -o O", "cannot read the folder /nowhere/at/all");
	check_refused(1, "M --data D -o /nowhere/at/all/x.onnx", "/nowhere/at/all/x.onnx");
}

TEST(data_is_checked)
{
	char path[400], model[256];
	snprintf(model, sizeof model, "%s", small_model("small.onnx", false));
	CHECK_RUN(1, "quantize %s --data %s -o %s", model, folder("empty"), in_dir("no.onnx"));
	CHECK_SAYS(cli_err, "has no examples: put .npy, .pb, .png or .jpg files of input 'x' into it");
	snprintf(path, sizeof path, "%s/a.npy", folder("wrong"));
	write_tensor(path, "x", 1, 4, 1);
	CHECK_RUN(2, "quantize %s --data %s -o %s", model, in_dir("wrong"), in_dir("no.onnx"));
	CHECK_SAYS(cli_err, "a.npy is f32 1x4x12x12; input 'x' is f32 1x3x12x12");
	snprintf(path, sizeof path, "%s/a.npy", folder("nan"));
	write_tensor(path, "x", 1, 3, NAN);
	CHECK_RUN(1, "quantize %s --data %s -o %s", model, in_dir("nan"), in_dir("no.onnx"));
	CHECK_SAYS(cli_err, "a.npy: a value for input 'x' is NaN or infinite");
	snprintf(path, sizeof path, "%s/a.npy", folder("junk"));
	CHECK_OK(file_write(path, "junk", 4));
	CHECK_RUN(1, "quantize %s --data %s -o %s", model, in_dir("junk"), in_dir("no.onnx"));
	CHECK_SAYS(cli_err, "a.npy");
	snprintf(path, sizeof path, "%s/x.txt", folder("half/0"));
	CHECK_OK(file_write(path, "junk", 4));
	CHECK_RUN(1, "quantize %s --data %s -o %s", model, in_dir("half"), in_dir("no.onnx"));
	CHECK_SAYS(cli_err, "has no file for input 'x': name it input_0.pb (.npy) or x.npy");
	CHECK(!file_exists(in_dir("no.onnx")));
}

/* Values of the last example, which is held out, are far beyond the ranges: the advice is not to tune at
 * once. */
TEST(a_large_error_is_a_warning)
{
	static const char warning[] = "hone: warning: the quantised outputs differ by ";
	char model[256], data[256], far[300];
	snprintf(model, sizeof model, "%s", small_model("small.onnx", false));
	snprintf(data, sizeof data, "%s", examples("far", 5));
	CHECK_RUN(0, "quantize %s --data %s -o %s", model, data, in_dir("q.onnx"));
	CHECK(!strstr(cli_err, warning));
	snprintf(far, sizeof far, "%s/4.npy", data);
	write_tensor(far, "x", 1, 3, 30);
	CHECK_RUN(0, "quantize %s --data %s -o %s", model, data, in_dir("q.onnx"));
	const char *at = strstr(cli_err, warning), *next = strstr(cli_err, "Next: hone tune ");
	CHECK(at && next && at < next && atoi(at + strlen(warning)) > 20);
	CHECK_SAYS(cli_err, "(5 were given), --error 0.05, which leaves");
	CHECK(strstr(cli_err, "--keep first for the worst") ||
	      strstr(cli_err, "--keep second for the worst"));
	CHECK_SAYS(cli_err, "small.onnx --level w16`");
	CHECK_RUN(0, "quantize %s --data %s -o %s --error 5", model, data, in_dir("q.onnx"));
	CHECK(!strstr(cli_err, warning)); /* it is allowed */
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	CHECK_RUN(0, "tune %s --level int8 --data %s --rigor estimate --budget 60s --threads 1 --no-cache",
		  model, data);
	CHECK_SAYS(cli_err, warning);
	CHECK(!strstr(cli_err, "--keep"));
}

TEST_MAIN
