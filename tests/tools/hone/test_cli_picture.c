/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: hone run on pictures and other files that people have, and what it prints. */
#include "kernels/task/tensor.h"
#include "platform/base/arena.h"
#include "tests/lib/cli_model.h"
#include "tests/lib/pictures.h"
#include <math.h>

static void write_buf(const char *name, struct buf *b)
{
	CHECK_OK(file_write(in_dir(name), buf_str(b), b->n));
	buf_free(b);
}

/* Runs the model on a file with more options and reads output y. */
static void run_on(struct arena *a, const char *model, const char *file, const char *options,
		   struct tensor *y)
{
	CHECK_RUN(0, "run %s --json --threads 1 --cache %s --input %s --output %s %s", model, in_dir("cache"),
		  in_dir(file), in_dir("out"), options);
	CHECK_OK(tensor_read(a, in_dir("out/y.npy"), y, NULL));
}

TEST(pictures_as_inputs)
{
	struct arena a = {0};
	struct buf png = {0}, jpeg = {0};
	struct tensor y;
	char model[256];
	snprintf(model, sizeof model, "%s", one_node("id.onnx", "Identity", "1 3 7 9"));
	pic_png(9, 7, PNG_COLOR_TYPE_RGB, 8, false, &png);
	pic_jpeg(9, 7, JCS_RGB, 0, &jpeg);
	write_buf("a.png", &png);
	write_buf("a.jpg", &jpeg);
	run_on(&a, model, "a.png", "", &y);
	REQUIRE(shape_count(&y.shape) == 189);
	for (int i = 0; i < 189; i++)
		CHECK(((float *)y.data)[i] == (float)pic_sample(i % 9, i / 9 % 7, i / 63));
	run_on(&a, model, "a.jpg", "--mean 1,2,3 --scale=1/2,1/4,-1 --channels bgr", &y);
	REQUIRE(shape_count(&y.shape) == 189);
	for (int i = 0; i < 189; i++) {
		int c = 2 - i / 63;
		double want =
		    (pic_sample(i % 9, i / 9 % 7, c) - (double)(c + 1)) * (double[]){0.5, 0.25, -1}[c];
		CHECK(fabs(((float *)y.data)[i] - want) <= 4);
	}
	/* The hint is for words, and only where no scale is given. */
	CHECK_RUN(0, "run %s --cache %s --input %s --output %s", model, in_dir("cache"), in_dir("a.png"),
		  in_dir("out"));
	CHECK_SAYS(cli_err, "9x7, as f32 1x3x7x9");
	CHECK_SAYS(cli_err, "--scale 1/255");
	CHECK_RUN(0, "run %s --scale 1/255 --cache %s --input x=%s --output %s", model, in_dir("cache"),
		  in_dir("a.png"), in_dir("out"));
	CHECK(!strstr(cli_err, "--scale 1/255"));
	arena_free(&a);
}

/* Where the model leaves height and width free, the picture gives them, after --resize; what --shape gives,
 * it does not. */
TEST(a_picture_gives_free_sizes)
{
	static const struct {
		const char *dims, *options, *shape;
	} good[] = {{"n 3 h w", "", "1x3x7x9"},
		    {"n 3 h w", "--resize 20x10", "1x3x10x20"},
		    {"n 3 h w", "--resize none", "1x3x7x9"},
		    {"n 3 h w", "--shape h=4", "1x3x4x9"},
		    {"n 3 h w", "--shape x=1x3x5x6", "1x3x5x6"},
		    {"n 3 4 w", "", "1x3x4x9"},
		    {"n h w 3", "", "1x7x9x3"},
		    {"-1 3 -1 -1", "", "1x3x7x9"},
		    {"n num_channels h w", "--channels gray", "1x1x7x9"},
		    {"n k h w", "--layout nhwc", "1x7x9x3"},
		    {"n k h w", "--shape k=3", "1x3x7x9"},
		    {"h w", "", "7x9"}};
	struct buf png = {0};
	pic_png(9, 7, PNG_COLOR_TYPE_RGB, 8, false, &png);
	write_buf("f.png", &png);
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		struct arena a = {0};
		struct tensor y = {0};
		char shape[160], model[256];
		snprintf(model, sizeof model, "%s", one_node("free.onnx", "Identity", good[i].dims));
		run_on(&a, model, "f.png", good[i].options, &y);
		shape_text(&y.shape, shape);
		if (strcmp(shape, good[i].shape)) {
			printf("%s %s: %s\n", good[i].dims, good[i].options, shape);
			test_bad = 1;
		}
		arena_free(&a);
	}
	char model[256];
	snprintf(model, sizeof model, "%s", one_node("free.onnx", "Identity", "n k h w"));
	CHECK_RUN(2, "run %s --input x=%s", model, in_dir("f.png"));
	CHECK_SAYS(
	    cli_err,
	    "input 'x' leaves sizes free, and nothing says where the height and the width of a picture "
	    "belong: give --layout nchw or nhwc, or its shape, for example --shape x=1x3x224x224");
	CHECK_RUN(1, "run %s --layout nchw --input %s", model, in_dir("not-there.png"));
	CHECK_SAYS(cli_err, "not-there.png: No such file");
	snprintf(model, sizeof model, "%s",
		 one_node("batch.onnx", "Identity", "n 5 7 9")); /* as if its batch were fixed */
	CHECK_RUN(2, "run %s --input %s", model, in_dir("f.png"));
	CHECK_SAYS(cli_err, "an input of shape 1x5x7x9 does not hold one picture");
	/* --shape of another input gives sizes that both have in common. */
	struct onnx_maker k;
	struct arena a = {0};
	struct tensor y = {0};
	char options[300], shape[160];
	mk_start(&k, 17, 4);
	mk_input(&k, "x", 1, "1 3 h w");
	mk_input(&k, "m", 1, "1 1 h w");
	mk_node(&k, "Mul", "x m", "y");
	mk_output(&k, "y");
	snprintf(model, sizeof model, "%s", write_model(&k, "mask.onnx"));
	float mask[20] = {1};
	const struct tensor m = {DT_F32, {4, {1, 1, 4, 5}}, mask};
	CHECK_OK(tensor_write(in_dir("m.npy"), &m, NULL));
	snprintf(options, sizeof options, "--shape m=1x1x4x5 --input m=%s", in_dir("m.npy"));
	CHECK_RUN(0, "run %s --json --threads 1 --cache %s --input x=%s --output %s %s", model,
		  in_dir("cache"), in_dir("f.png"), in_dir("out"), options);
	CHECK_OK(tensor_read(&a, in_dir("out/y.npy"), &y, NULL));
	shape_text(&y.shape, shape);
	CHECK(!strcmp(shape, "1x3x4x5"));
	arena_free(&a);
}

/* A picture with transparency is read as if it had none, and hone says so. */
TEST(transparency_is_ignored_aloud)
{
	char model[256];
	snprintf(model, sizeof model, "%s", one_node("id.onnx", "Identity", "1 3 7 9"));
	for (int alpha = 0; alpha < 2; alpha++) {
		struct buf png = {0};
		pic_png(9, 7, alpha ? PNG_COLOR_TYPE_RGB_ALPHA : PNG_COLOR_TYPE_RGB, 8, false, &png);
		write_buf("t.png", &png);
		CHECK_RUN(0, "run %s --cache %s --input %s", model, in_dir("cache"), in_dir("t.png"));
		CHECK(!strstr(cli_err, "t.png is transparent in parts, which is ignored") == !alpha);
	}
}

/* A line says how a picture of another size is changed, and that EXIF's orientation is not applied. */
TEST(changes_of_a_picture_are_said)
{
	static const struct {
		const char *dims, *options, *says;
	} of[] = {
	    {"1 3 7 9", "", "9x7, as f32"},
	    {"1 3 4 4", "", "9x7, resized to 4x4, as f32"},
	    {"1 3 4 4", "--resize none", "9x7, of which the middle 4x4 is taken, as f32"},
	    {"1 3 4 4", "--resize 6x5", "9x7, resized to 6x5, of which the middle 4x4 is taken, as f32"}};
	static const char exif[] = "\xff\xe1\0\x22"
				   "Exif\0\0MM\0*\0\0\0\x08\0\1\x01\x12\0\3\0\0\0\1\0\6\0\0\0\0\0";
	struct buf png = {0}, jpeg = {0}, turned = {0};
	char model[256];
	pic_png(9, 7, PNG_COLOR_TYPE_RGB, 8, false, &png);
	write_buf("s.png", &png);
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		snprintf(model, sizeof model, "%s", one_node("size.onnx", "Identity", of[i].dims));
		CHECK_RUN(0, "run %s %s --cache %s --input %s", model, of[i].options, in_dir("cache"),
			  in_dir("s.png"));
		CHECK_SAYS(cli_err, of[i].says);
		CHECK(!strstr(cli_err, "EXIF"));
	}
	pic_jpeg(9, 7, JCS_RGB, 0, &jpeg);
	buf_add(&turned, buf_str(&jpeg), 2);
	buf_add(&turned, exif, sizeof exif - 1);
	buf_add(&turned, buf_str(&jpeg) + 2, jpeg.n - 2);
	write_buf("plain.jpg", &jpeg);
	write_buf("turned.jpg", &turned);
	CHECK_RUN(0, "run %s --cache %s --input %s", model, in_dir("cache"), in_dir("plain.jpg"));
	CHECK(!strstr(cli_err, "EXIF"));
	CHECK_RUN(0, "run %s --cache %s --input %s", model, in_dir("cache"), in_dir("turned.jpg"));
	CHECK_SAYS(cli_err,
		   "turned.jpg: its EXIF orientation, 6, is not applied: the model gets the picture on "
		   "its left side");
}

TEST(resize_takes_the_middle)
{
	struct arena a = {0};
	struct buf png = {0};
	struct tensor y;
	char model[256];
	snprintf(model, sizeof model, "%s", one_node("nhwc.onnx", "Identity", "1 4 4 3"));
	pic_png(9, 7, PNG_COLOR_TYPE_RGB, 8, true, &png);
	write_buf("b.png", &png);
	run_on(&a, model, "b.png", "--resize none", &y);
	REQUIRE(shape_count(&y.shape) == 48);
	for (int i = 0; i < 48; i++)
		CHECK(((float *)y.data)[i] == (float)pic_sample(i / 3 % 4 + 2, i / 12 + 1, i % 3));
	run_on(&a, model, "b.png", "--resize 18x14 --layout nhwc", &y);
	/* Output (0, 0) is pixel (7, 5) of 18x14: 3.25, 2.25 in the picture. */
	double red = 0.75 * 0.75 * pic_sample(3, 2, 0) + 0.25 * 0.75 * pic_sample(4, 2, 0) +
		     0.75 * 0.25 * pic_sample(3, 3, 0) + 0.25 * 0.25 * pic_sample(4, 3, 0);
	CHECK(fabs(*(float *)y.data - red) < 1e-4);
	arena_free(&a);
}

TEST(wrong_picture_options_are_usage_errors)
{
	static const char *const wrong[][2] = {
	    {"--resize 4", "--resize 4 is not possible; it takes WIDTHxHEIGHT"},
	    {"--resize 0x4", "1 to 16384"},
	    {"--resize 4x4x4", "WIDTHxHEIGHT"},
	    {"--resize 99999x4", "16384"},
	    {"--resize 2x2", "after --resize"},
	    {"--mean 1,2", "one number or three"},
	    {"--mean 1,2,3,4", "one number or three"},
	    {"--mean 1,,3", "one number or three"},
	    {"--mean nan", "one number or three"},
	    {"--scale 1/0", "all finite, as in --scale 1/255 or 1/58.4,"},
	    {"--std 58.4", "did you mean --scale (then multiplied by this, as 1/255, or 1/STD"},
	    {"--scale 0", "all pixels the same"},
	    {"--scale 1,1,0", "all pixels the same"},
	    {"--layout hwc", "--layout hwc is not possible; it takes one of nchw, nhwc"},
	    {"--layout nhwc", "--layout nhwc does not fit an input of shape 1x3x7x9, whose channels are "
			      "those of nchw: give --layout nchw, or leave it out"},
	    {"--channels cmyk", "rgb, bgr, gray"},
	    {"--channels gray", "3 channels"}};
	struct buf png = {0};
	char model[256], last[256];
	snprintf(model, sizeof model, "%s", one_node("c.onnx", "Identity", "1 3 7 9"));
	pic_png(9, 7, PNG_COLOR_TYPE_RGB, 8, false, &png);
	write_buf("c.png", &png);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		CHECK_RUN(2, "run %s %s --cache %s --input %s --output %s", model, wrong[i][0],
			  in_dir("cache"), in_dir("c.png"), in_dir("none"));
		CHECK_SAYS(cli_err, wrong[i][1]);
	}
	snprintf(last, sizeof last, "%s", one_node("last.onnx", "Identity", "1 7 9 3"));
	CHECK_RUN(2, "run %s --layout nchw --input %s --output %s", last, in_dir("c.png"), in_dir("none"));
	CHECK_SAYS(cli_err,
		   "--layout nchw does not fit an input of shape 1x7x9x3, whose channels are those of "
		   "nhwc: give --layout nhwc");
	/* Options of pictures do nothing for tensors, so they are refused there. */
	CHECK_RUN(2, "run %s --random --scale 1/255 --cache %s --output %s", model, in_dir("cache"),
		  in_dir("none"));
	CHECK_SAYS(cli_err, "--scale is for pictures");
	CHECK_SAYS(cli_err, "other formats, such as BMP, are not read");
	CHECK_RUN(2, "run %s --cache %s --input x=a.webp --output %s", model, in_dir("cache"),
		  in_dir("none"));
	CHECK_SAYS(cli_err, "a.webp: an input is a tensor, .npy or ONNX .pb, or a picture, .png or .jpg");
	CHECK(!file_exists(in_dir("none")));
}

TEST(damaged_pictures_are_named)
{
	struct buf png = {0};
	char model[256];
	snprintf(model, sizeof model, "%s", one_node("d.onnx", "Identity", "1 3 7 9"));
	pic_png(9, 7, PNG_COLOR_TYPE_RGB, 8, false, &png);
	png.n -= 30;
	write_buf("cut.png", &png);
	REQUIRE_OK(file_write(in_dir("text.jpg"), "hello, world", 12));
	CHECK_RUN(1, "run %s --cache %s --input %s --output %s", model, in_dir("cache"), in_dir("cut.png"),
		  in_dir("none"));
	CHECK_SAYS(cli_err, "cut.png");
	CHECK_SAYS(cli_err, "truncated");
	CHECK_RUN(1, "run %s --cache %s --input %s --output %s", model, in_dir("cache"), in_dir("text.jpg"),
		  in_dir("none"));
	CHECK_SAYS(cli_err, "text.jpg: neither a PNG nor a JPEG");
	CHECK_RUN(1, "run %s --cache %s --input x=/nowhere.png --output %s", model, in_dir("cache"),
		  in_dir("none"));
	CHECK_SAYS(cli_err, "/nowhere.png");
	CHECK(!file_exists(in_dir("none")));
}

TEST(float64_becomes_float32_with_a_hint)
{
	double eight[8];
	struct arena a = {0};
	struct tensor t = {DT_F64, {2, {1, 8}}, eight}, y;
	char model[256];
	for (int i = 0; i < 8; i++)
		eight[i] = 0.1 * i - 0.35;
	snprintf(model, sizeof model, "%s", one_node("e.onnx", "Neg", "1 8"));
	REQUIRE_OK(tensor_write(in_dir("wide.npy"), &t, "x"));
	run_on(&a, model, "wide.npy", "", &y);
	REQUIRE(y.dtype == DT_F32 && shape_count(&y.shape) == 8);
	for (int i = 0; i < 8; i++)
		CHECK(((float *)y.data)[i] == -(float)eight[i]);
	CHECK_SAYS(cli_err, "is float64");
	CHECK_SAYS(cli_err, "astype(\"float32\")");
	int64_t whole[8] = {0};
	t = (struct tensor){DT_I64, {2, {1, 8}}, whole}; /* integers are still refused */
	REQUIRE_OK(tensor_write(in_dir("whole.npy"), &t, "x"));
	CHECK_RUN(2, "run %s --cache %s --input %s --output %s", model, in_dir("cache"), in_dir("whole.npy"),
		  in_dir("none"));
	CHECK_SAYS(cli_err, "is i64 1x8");
	arena_free(&a);
}

TEST(ranges_and_the_highest_scores)
{
	float v[8] = {3, -1, 7, 7, 0.5f, NAN, 2, -4};
	struct tensor t = {DT_F32, {2, {1, 8}}, v};
	char model[256];
	snprintf(model, sizeof model, "%s", one_node("f.onnx", "Identity", "1 8"));
	REQUIRE_OK(tensor_write(in_dir("v.npy"), &t, "x"));
	CHECK_RUN(0, "run %s --json --cache %s --input %s --output %s", model, in_dir("cache"),
		  in_dir("v.npy"), in_dir("out"));
	json_t *j = parse_out(), *o = json_array_get(json_object_get(j, "outputs"), 0);
	static const int top[] = {2, 3, 0, 6, 4};
	check_keys(j, "run_ms load_ms outputs");
	check_keys(o, "name shape dtype file min max mean nan_count top");
	CHECK(json_number_value(json_object_get(j, "run_ms")) > 0);
	CHECK(json_number_value(json_object_get(o, "min")) == -4);
	CHECK(json_number_value(json_object_get(o, "max")) == 7);
	CHECK(fabs(json_number_value(json_object_get(o, "mean")) - 14.5 / 7) < 1e-4);
	CHECK(json_integer_value(json_object_get(o, "nan_count")) == 1);
	CHECK(json_array_size(json_object_get(o, "top")) == 5);
	for (int i = 0; i < 5; i++) {
		json_t *row = json_array_get(json_object_get(o, "top"), (size_t)i);
		CHECK(json_integer_value(json_object_get(row, "index")) == top[i]);
		CHECK(json_number_value(json_object_get(row, "value")) == (double)v[top[i]]);
	}
	json_decref(j);
	CHECK_RUN(0, "run %s --cache %s --input %s --output %s", model, in_dir("cache"), in_dir("v.npy"),
		  in_dir("out"));
	CHECK_SAYS(cli_out, "output y f32 1x8: -4 to 7, mean 2.07143; 1 of 8 are NaN");
	CHECK_SAYS(cli_out, "highest: [2] 7, [3] 7, [0] 3, [6] 2, [4] 0.5");
	CHECK_SAYS(cli_out, "ran once in ");
	/* Neither a matrix nor nothing but NaN has highest values. */
	for (int i = 0; i < 8; i++)
		v[i] = NAN;
	snprintf(model, sizeof model, "%s", one_node("g.onnx", "Identity", "2 4"));
	t.shape = (struct shape){2, {2, 4}};
	REQUIRE_OK(tensor_write(in_dir("m.npy"), &t, "x"));
	CHECK_RUN(0, "run %s --json --cache %s --input %s --output %s", model, in_dir("cache"),
		  in_dir("m.npy"), in_dir("out"));
	j = parse_out();
	o = json_array_get(json_object_get(j, "outputs"), 0);
	CHECK(json_is_null(json_object_get(o, "min")) &&
	      json_integer_value(json_object_get(o, "nan_count")) == 8);
	CHECK(!json_object_get(o, "top"));
	json_decref(j);
}

/* Writes Gemm and Relu with a bad value in weight w at the index (-1: none). */
static const char *with_bad(const char *file, int index, float bad)
{
	static float w[2048 * 2];
	struct onnx_maker k;
	for (int i = 0; i < 4096; i++)
		w[i] = i == index ? bad : isinf(bad) && i == index + 2 ? -bad : (float)(i % 7) - 3;
	mk_start(&k, 13, 4);
	mk_input(&k, "x", 1, "1 2048");
	mk_init(&k, "w", 1, "2048 2", w, sizeof w);
	mk_node(&k, "Gemm", "x w", "t");
	mk_node(&k, "Relu", "t", "y");
	mk_output(&k, "y");
	return write_model(&k, file);
}

TEST(nan_in_a_weight_is_called_that)
{
	static const int at[] = {0, 1023, 1024, 4095};
	char model[256], says[64];
	for (int i = 0; i < 4; i++) {
		snprintf(model, sizeof model, "%s", with_bad("nan.onnx", at[i], NAN));
		snprintf(says, sizeof says, "weight 'w' holds NaN at index %d of 4096", at[i]);
		CHECK_RUN(0, "run %s --random --cache %s --output %s", model, in_dir("cache"), in_dir("out"));
		CHECK_SAYS(cli_err, says);
	}
	CHECK_RUN(0, "tasks %s", model);
	CHECK_SAYS(cli_err, says);
	hone("tune %s --threads 1 --budget 1s --no-cache",
	     model); /* whether it finds kernels does not matter */
	CHECK_SAYS(cli_err, says);
	CHECK(test_count(cli_err, says) == 1);
	CHECK_RUN(1, "verify %s --threads 1 --cache %s", model, in_dir("cache"));
	CHECK_SAYS(cli_out, says);
	CHECK_SAYS(cli_err, "repair the model's weights");
	CHECK(!strstr(cli_err, "--bisect"));
	CHECK_RUN(1, "verify %s --json --threads 1 --cache %s", model, in_dir("cache"));
	json_t *j = parse_out();
	REQUIRE(json_is_string(json_object_get(j, "nan")));
	CHECK_SAYS(json_string_value(json_object_get(j, "nan")), says);
	json_decref(j);
	snprintf(model, sizeof model, "%s", with_bad("good.onnx", -1, NAN));
	CHECK_RUN(0, "verify %s --json --threads 1 --cache %s", model, in_dir("cache"));
	CHECK(!strstr(cli_err, "NaN"));
	j = parse_out();
	CHECK(json_is_null(json_object_get(j, "nan")) && json_is_null(json_object_get(j, "infinite")));
	json_decref(j);
}

TEST(an_infinity_in_a_weight_is_called_that)
{
	static const char says[] = "weight 'w' holds an infinity at index 1023 of 4096";
	char model[256];
	snprintf(model, sizeof model, "%s", with_bad("inf.onnx", 1023, -INFINITY));
	CHECK_RUN(0, "run %s --random --cache %s --output %s", model, in_dir("cache"), in_dir("out"));
	CHECK_SAYS(cli_err, says);
	CHECK_RUN(0, "inspect %s", model);
	CHECK_SAYS(cli_err, says);
	hone("tune %s --threads 1 --budget 1s --no-cache",
	     model); /* whether it finds kernels does not matter */
	CHECK(test_count(cli_err, says) == 1);
	CHECK_RUN(1, "verify %s --threads 1 --cache %s", model, in_dir("cache"));
	CHECK_SAYS(cli_out, "comparisons differ, because weight 'w' holds an infinity");
	CHECK_SAYS(cli_err, "repair the model's weights");
	CHECK_RUN(1, "verify %s --json --threads 1 --cache %s", model, in_dir("cache"));
	json_t *j = parse_out();
	CHECK(json_is_string(json_object_get(j, "infinite")) && json_is_null(json_object_get(j, "nan")));
	json_decref(j);
	/* A mask may hold them: x + m, where nothing multiplies m. */
	struct onnx_maker k;
	const float mask[2] = {0, -INFINITY};
	mk_start(&k, 13, 4);
	mk_input(&k, "x", 1, "1 2");
	mk_init(&k, "m", 1, "2", mask, sizeof mask);
	mk_node(&k, "Add", "x m", "y");
	mk_output(&k, "y");
	CHECK_RUN(0, "run %s --random --cache %s --output %s", write_model(&k, "mask.onnx"), in_dir("cache"),
		  in_dir("out"));
	CHECK(!strstr(cli_err, "infinity"));
}

TEST_MAIN
