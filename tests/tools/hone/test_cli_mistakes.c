/* SPDX-License-Identifier: Apache-2.0 */
/* A user's mistakes with models and inputs: each error names the cause and what to do, and nothing else. */
#include "tests/lib/cli_model.h"
#include "tests/lib/onnx_make.h"
#include "kernels/task/tensor.h"
#include "tests/lib/pictures.h"
#include "tools/hone/interrupt.h"

#include <signal.h>
#include <sys/stat.h>

enum { F32 = 1, I64 = 7 };

/* A default cache that is a file, which root cannot "read" as a folder either. */
TEST(a_cache_that_is_a_file)
{
	static const char *const words[] = {"run %s --random", "bench %s --runs 1", "show",
					    "compile %s -o o"};
	char model[256], home[256], was[256];
	snprintf(model, sizeof model, "%s", steering());
	snprintf(home, sizeof home, "%s", in_dir("xdg"));
	snprintf(was, sizeof was, "%s", getenv("XDG_CACHE_HOME") ? getenv("XDG_CACHE_HOME") : "");
	REQUIRE(mkdir(home, 0755) == 0);
	REQUIRE_OK(file_write(in_dir("xdg/hone"), "", 0));
	setenv("XDG_CACHE_HOME", home, 1);
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		char line[600];
		snprintf(line, sizeof line, words[i], model);
		CHECK_RUN(2, "%s", line);
		CHECK_SAYS(cli_err,
			   "xdg/hone is not a folder, so it is no cache: name a folder (--cache DIR), or "
			   "move it away");
		CHECK(!strstr(cli_err, "Permission"));
	}
	*was ? setenv("XDG_CACHE_HOME", was, 1) : unsetenv("XDG_CACHE_HOME");
}

/* A table of 100 rows, whose row numbers come from the input "ids" by two nodes. */
static const char *tokens(void)
{
	static float table[100 * 2];
	static const int64_t flat[1] = {4};
	struct onnx_maker k;
	mk_start(&k, 13, 4);
	mk_input(&k, "ids", I64, "2 2");
	mk_init(&k, "t", F32, "100 2", table, sizeof table);
	mk_init(&k, "flat", I64, "1", flat, sizeof flat);
	mk_node(&k, "Reshape", "ids flat", "f");
	mk_node(&k, "Gather", "t f", "y");
	mk_output(&k, "y");
	return write_model(&k, "tokens.onnx");
}

TEST(a_token_out_of_range_names_its_input)
{
	static const int64_t bad[] = {100, -101};
	char model[256], says[200];
	snprintf(model, sizeof model, "%s", tokens());
	for (int i = 0; i < 3; i++) {
		int64_t ids[4] = {0, -100, i < 2 ? bad[i] : 99, 5};
		struct tensor t = {DT_I64, {2, {2, 2}}, ids};
		REQUIRE_OK(tensor_write(in_dir("ids.npy"), &t, "ids"));
		CHECK_RUN(i < 2 ? 2 : 0, "run %s --input ids=%s --cache %s", model, in_dir("ids.npy"),
			  in_dir("cache"));
		if (i == 2)
			continue;
		snprintf(says, sizeof says, "input 'ids': its element 2 is %lld, but -100 to 99 are possible",
			 (long long)bad[i]);
		CHECK_SAYS(cli_err, says);
	}
}

TEST(a_picture_is_no_token)
{
	char model[256];
	snprintf(model, sizeof model, "%s", tokens());
	REQUIRE_OK(file_write(in_dir("p.png"), "", 0));
	CHECK_RUN(2, "run %s --input ids=%s --cache %s", model, in_dir("p.png"), in_dir("cache"));
	CHECK_SAYS(cli_err,
		   "input 'ids' takes i64, as of tokens or indices, and no pixels: give it a tensor");
}

TEST(a_declared_output_is_compared)
{
	struct onnx_maker k;
	for (int i = 0; i < 2; i++) {
		mk_start(&k, 13, 4);
		mk_input(&k, "x", F32, "1 3");
		mk_node(&k, "Relu", "x", "y");
		k.g.output[k.g.n_output++] = mk_value(&k, "y", F32, i ? "1 3" : "1 7");
		CHECK_RUN(0, "inspect %s", write_model(&k, "declared.onnx"));
		bool said = strstr(cli_err,
				   "output 'y' is declared with the shape [1, 7], but the nodes compute 1x3");
		CHECK(said == !i);
	}
}

/* What follows from an input without a shape is no fault of its own. */
TEST(a_missing_shape_is_the_only_fault)
{
	static float w[6];
	struct onnx_maker k;
	mk_start(&k, 13, 4);
	mk_input(&k, "x", F32, NULL);
	mk_init(&k, "w", F32, "3 2", w, sizeof w);
	mk_node(&k, "MatMul", "x w", "y");
	mk_output(&k, "y");
	CHECK_RUN(1, "run %s --random --cache %s", write_model(&k, "norank.onnx"), in_dir("cache"));
	CHECK_SAYS(cli_err, "its shape is not in the file: give it, as in --shape x=1x3x224x224");
	CHECK(!strstr(cli_err, "MatMul") && !strstr(cli_err, "parts of the model"));
}

/* A detector that ends with a node of another runtime: the command keeps what comes before. */
TEST(a_model_is_cut_before_unsupported_nodes)
{
	char want[700], path[300];
	struct onnx_maker k;
	for (int i = 0; i < 3; i++) {
		mk_start(&k, 13, 8);
		mk_input(&k, "x", F32, "1 3 4 4");
		if (i < 2) {
			mk_node(&k, "Relu", "x", i ? "b'xes" : "boxes");
			mk_node(&k, "Sigmoid", "x", "scores");
			mk_node(&k, "NonMaxSuppression", i ? "b'xes scores" : "boxes scores", "chosen");
		} else {
			mk_node(&k, "NonZero", "x", "chosen");
		}
		mk_node(&k, "Cast", "chosen", "y");
		mk_output(&k, "y");
		snprintf(path, sizeof path, "%s", write_model(&k, "detector.onnx"));
		snprintf(want, sizeof want,
			 "`python3 -c \"import onnx; onnx.utils.extract_model('%s', '%s', ['x'], ['boxes', "
			 "'scores'])\"`",
			 path, in_dir("detector-cut.onnx"));
		CHECK_RUN(1, "run %s --random --cache %s", path, in_dir("cache"));
		CHECK_SAYS(cli_err, "the operator is not supported");
		CHECK(!strstr(cli_err, want) == (i != 0) && !strstr(cli_err, "extract_model") == (i != 0));
		CHECK_RUN(1, "tune %s --budget 1s --cache %s", path, in_dir("cache"));
		CHECK(!strstr(cli_err, want) == (i != 0));
		CHECK_RUN(1, "inspect %s", path);
		CHECK(!strstr(cli_out, want) == (i != 0));
	}
}

/* hone's own files are no models; the error names the command that reads them. */
TEST(own_files_are_recognised)
{
	static const char *const begins[][2] = {
	    {"HSEG\1\0\0\0\0", "is a pack or a part of a cache, and holds kernels, no model: `hone import`"},
	    {"hone-signed 1 pack 100\n", "is signed by hone, and no model: `hone import NAME.seg`"},
	    {"HIM", "is a compiled model"},
	};
	for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
		char path[256];
		snprintf(path, sizeof path, "%s", in_dir("robots.seg"));
		REQUIRE_OK(file_write(path, begins[i][0], i ? strlen(begins[i][0]) : 9));
		CHECK_RUN(2, "inspect %s", path);
		CHECK_SAYS(cli_err, begins[i][1]);
		CHECK_RUN(2, "tune %s --budget 1s --no-cache", path);
		CHECK_SAYS(cli_err, begins[i][1]);
	}
}

/* Ctrl-C before the files are written leaves no folder. */
TEST(an_interrupted_compile_leaves_nothing)
{
	char model[256];
	snprintf(model, sizeof model, "%s", steering());
	stop_with = SIGINT;
	CHECK_RUN(130, "compile %s -o %s --cache %s", model, in_dir("cm"), in_dir("cache"));
	stop_with = 0;
	CHECK_SAYS(cli_err, "interrupted; nothing was written");
	CHECK(!file_exists(in_dir("cm")));
}

/* A model whose inputs "ids" and "mask" leave sizes free. */
static const char *free_sizes(void)
{
	struct onnx_maker k;
	mk_start(&k, 13, 2);
	mk_input(&k, "ids", I64, "batch seq");
	mk_input(&k, "mask", I64, "batch seq");
	mk_node(&k, "Add", "ids mask", "y");
	mk_output(&k, "y");
	return write_model(&k, "free.onnx");
}

static void write_ids(const char *name, int rank)
{
	int64_t ids[4] = {1, 2, 3, 4};
	struct tensor t = {DT_I64, {rank, {rank > 1 ? 1 : 4, 4, 1, 1}}, ids};
	CHECK_OK(tensor_write(in_dir(name), &t, "ids"));
}

/* Where sizes are free, a file that cannot give them is the mistake, not the sizes. */
TEST(free_sizes_hide_no_other_mistake)
{
	char model[256];
	snprintf(model, sizeof model, "%s", free_sizes());
	write_ids("flat.npy", 1);
	write_ids("good.npy", 2);
	write_ids("deep.npy", 4);
	CHECK_OK(file_write(in_dir("bad.npy"), "no array", 8));
	CHECK_RUN(2, "run %s --input ids=%s --input mask=%s", model, in_dir("flat.npy"), in_dir("good.npy"));
	CHECK_SAYS(cli_err, "flat.npy is i64 4, of 1 dimension; its input has 2: ids i64 batch x seq");
	CHECK_RUN(2, "run %s --input ids=%s --input mask=%s", model, in_dir("deep.npy"), in_dir("good.npy"));
	CHECK_SAYS(cli_err, "deep.npy is i64 1x4x1x1, of 4 dimensions; its input has 2");
	CHECK_RUN(2, "run %s --input %s --input mask=%s", model, in_dir("good.npy"), in_dir("good.npy"));
	CHECK_SAYS(cli_err,
		   "write NAME=FILE; the model's inputs are: ids i64 batch x seq, mask i64 batch x seq");
	CHECK_RUN(2, "run %s --input id=%s --input mask=%s", model, in_dir("good.npy"), in_dir("good.npy"));
	CHECK_SAYS(cli_err, "the model has no input 'id'; did you mean 'ids'?");
	CHECK_RUN(1, "run %s --input ids=%s --input mask=%s", model, in_dir("bad.npy"), in_dir("good.npy"));
	CHECK_SAYS(cli_err, "bad.npy");
	CHECK(!strstr(cli_err, "leaves sizes free"));
	CHECK_RUN(0, "run %s --input ids=%s --input mask=%s", model, in_dir("good.npy"), in_dir("good.npy"));
	CHECK_RUN(2, "run %s --input ids=%s --input mask=%s --shape ids=1x4", model, in_dir("flat.npy"),
		  in_dir("good.npy"));
	CHECK_SAYS(cli_err,
		   "flat.npy is i64 4; input 'ids' is i64 1x4; array[None] in numpy adds the batch axis");
}

TEST_MAIN
