/* SPDX-License-Identifier: Apache-2.0 */
/* --level: what is refused, which results serve which level, and weights in f16 from the search to a bundle.
 */
#include "kernels/task/tensor.h"
#include "platform/base/rng.h"
#include "tests/lib/cli_model.h"
#include "tests/lib/plan_c.h"

#include <glob.h>
#include <math.h>

enum { K = 256, N = 512 };
static float weights[K * N]; /* of the last model: [K][N] */

/* Writes a product of a vector with K x N weights of at most this magnitude. Returns its path, until the next
 * call. */
static const char *product(const char *file, float largest)
{
	static char path[256];
	struct onnx_maker k;
	struct rng r;
	rng_seed(&r, 1);
	rng_fill(&r, weights, K * N);
	for (int i = 0; i < K * N; i++)
		weights[i] *= largest;
	mk_start(&k, 17, 4);
	mk_input(&k, "x", 1, "1 256");
	mk_init(&k, "W", 1, "256 512", weights, sizeof weights);
	mk_node(&k, "MatMul", "x W", "y");
	mk_output(&k, "y");
	snprintf(path, sizeof path, "%s", write_model(&k, file));
	return path;
}

TEST(what_is_refused)
{
	CHECK_RUN(2, "bench %s --level w8", steering());
	CHECK_SAYS(cli_err, "no level 'w8'");
	CHECK_RUN(2, "run %s --random --level fp32 --exact", steering());
	CHECK_SAYS(cli_err, "exclude each other");
	CHECK_RUN(2, "explain %s --level w16 --exact", steering());
	CHECK_SAYS(cli_err, "exclude each other");
	CHECK_RUN(2, "tune %s --background --level w16", steering());
	CHECK_SAYS(cli_err, "cannot be combined with --level");
}

/* At levels that the kernels do not serve, hone explain says where they are, and a command that shows them. */
static void check_other_levels(const char *model, const char *level, const char *served, const char *cache)
{
	bool of_fp32 = strstr(served, "fp32") != NULL;
	char want[128];
	CHECK_RUN(0, "explain %s --threads 1 --cache %s", model, cache);
	CHECK(of_fp32 == !strstr(cli_out, "(only at level "));
	snprintf(want, sizeof want, "1 task without a kernel at level fp32 has one at level %s: ", level);
	CHECK(of_fp32 == !strstr(cli_out, want));
	snprintf(want, sizeof want, "--level %s", level);
	CHECK(of_fp32 || strstr(cli_out, want));
	CHECK_RUN(0, "explain %s 1 --threads 1 --cache %s", model, cache);
	CHECK(of_fp32 || strstr(cli_out, want));
	CHECK_RUN(0, "explain %s --json --threads 1 --cache %s", model, cache);
	snprintf(want, sizeof want, "\"other_levels\":[\"%s\"]", level);
	CHECK_SAYS(cli_out, of_fp32 ? "\"other_levels\":[]" : want);
}

/* Tunes at one level; then each of the levels in `served` finds all kernels in the cache, and no other. */
static void check_level(const char *model, const char *level, const char *served)
{
	static const char *const all[] = {"exact", "fp32", "w16", "half", "half-sum"};
	char cache[256], words[64], word[16];
	snprintf(words, sizeof words, " %s ", served);
	snprintf(cache, sizeof cache, "%s", in_dir(level));
	char option[32];
	snprintf(option, sizeof option, "--level %s", level);
	CHECK_RUN(0, KERNELS_ONCE, model, option, cache);
	check_other_levels(model, level, served, cache);
	CHECK_RUN(0, "show --json --cache %s", cache);
	char want[64];
	snprintf(want, sizeof want, "\"level\":\"%s\"", level);
	CHECK_SAYS(cli_out, want);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		snprintf(word, sizeof word, " %s ", all[i]);
		bool serves = strstr(words, word) != NULL;
		CHECK_RUN(serves ? 0 : 1,
			  "run %s --random --require-cache --threads 1 --level %s --cache %s -o %s", model,
			  all[i], cache, in_dir("out"));
		CHECK_RUN(0, "explain %s 1 --threads 1 --level %s --cache %s", model, all[i], cache);
		snprintf(want, sizeof want, "  level    %s", serves ? level : all[i]);
		CHECK_SAYS(cli_out, want);
	}
}

TEST(results_stay_at_their_level)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	const char *model = product("level.onnx", .1f);
	check_level(model, "exact", "exact fp32 w16 half half-sum");
	check_level(model, "fp32", "fp32 w16 half half-sum");
	check_level(model, "w16", "w16 half half-sum");
	check_level(model, "half", "half half-sum");
	check_level(model, "half-sum", "half-sum");
}

/* Candidates of a search at level w16 that store weights as f16. */
static int count_w16(const char *model, const char *folder)
{
	static char text[1 << 20];
	char pattern[300], record[256];
	glob_t found;
	int n = 0;
	snprintf(record, sizeof record, "%s", in_dir(folder));
	CHECK_RUN(0, "tune %s --budget 2s --threads 1 --level w16 --record %s --cache %s", model, record,
		  in_dir("search"));
	snprintf(pattern, sizeof pattern, "%s/*.land", record);
	if (glob(pattern, 0, NULL, &found))
		return -1;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		slurp(found.gl_pathv[i], text, sizeof text);
		for (const char *p = text; (p = strstr(p, "w16=1")); p++)
			n++;
	}
	globfree(&found);
	return n;
}

/* Weights beyond 65504, or all of them tiny, stay in f32. */
TEST(weights_that_f16_does_not_hold)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	CHECK(count_w16(product("large.onnx", 1e6f), "large") == 0);
	CHECK(count_w16(product("tiny.onnx", 1e-4f), "tiny") == 0);
	CHECK(count_w16(product("usual.onnx", .1f), "usual") > 0);
}

TEST(bundles_have_their_level)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	const char *model = product("bundle.onnx", .1f);
	char bundle[256], cache[256], out[256];
	snprintf(bundle, sizeof bundle, "%s", in_dir("bundle"));
	snprintf(cache, sizeof cache, "%s", in_dir("bundled"));
	snprintf(out, sizeof out, "%s", in_dir("out"));
	CHECK_RUN(0, KERNELS_ONCE, model, "--level w16", cache);
	CHECK_RUN(0, "compile %s -o %s --threads 1 --level w16 --cache %s", model, bundle, cache);
	CHECK_RUN(0, "run %s --random --threads 1 -o %s", bundle, out);
	CHECK_RUN(0, "run %s --random --threads 1 --level w16 -o %s", bundle, out);
	CHECK_RUN(2, "run %s --random --threads 1 --level fp32 -o %s", bundle, out);
	CHECK_SAYS(cli_err, "was not compiled with --level fp32, but with --level w16");
	CHECK_RUN(2, "run %s --random --threads 1 --exact -o %s", bundle, out);
}

/* C that hone compile wrote sums the rounded weights, which the default kernel would not. */
static const char main_c[] = "#include \"net.h\"\n#include <stdio.h>\n"
			     "static unsigned char arena[NET_ARENA_BYTES] __attribute__((aligned(64)));\n"
			     "int main(void)\n{\n\tstatic float x[256], y[512];\n"
			     "\tfor (int i = 0; i < 256; i++)\n\t\tx[i] = 1;\n"
			     "\tconst struct net_io io = {.in_x = x, .out_y = y};\n\tnet_init(arena);\n"
			     "\tint rc = net_run(&io, arena);\n\tfor (int i = 0; i < 512; "
			     "i++)\n\t\tprintf(\"%.9g\\n\", (double)y[i]);\n"
			     "\treturn rc;\n}\n";

/* Largest difference of the program's output from the sums of the weights, rounded or not. */
static double off_by(const char *out, bool rounded)
{
	double worst = 0;
	char *end;
	for (int j = 0; j < N; j++, out = end) {
		double sum = 0, got = strtod(out, &end);
		for (int k = 0; k < K; k++) {
			float w = weights[k * N + j];
			sum += (double)(rounded ? f16_to_f32(f32_to_f16(w)) : w);
		}
		worst = fmax(worst, end == out ? INFINITY : fabs(got - sum));
	}
	return worst;
}

TEST(c_with_weights_in_f16)
{
	static char out[1 << 16];
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	const char *model = product("c.onnx", .1f);
	char folder[256], cache[256], path[300], cmd[1200];
	snprintf(folder, sizeof folder, "%s", in_dir("c"));
	snprintf(cache, sizeof cache, "%s", in_dir("c-cache"));
	/* until a kernel with weights in f16 has won: it is always faster here, but a race may be disturbed
	 */
	for (int i = 0; i < 5 && !strstr(cli_out, "w16=1"); i++) {
		CHECK_RUN(0, "tune %s --budget 2s --threads 1 --level w16 --cache %s", model, cache);
		CHECK_RUN(0, "show --json --cache %s", cache);
	}
	if (!strstr(cli_out, "w16=1"))
		SKIP("this machine gains nothing by weights in f16");
	CHECK_RUN(0, "compile %s -o %s --c --name net --threads 1 --level w16 --cache %s", model, folder,
		  cache);
	snprintf(path, sizeof path, "%s/main.c", folder);
	CHECK_OK(file_write(path, main_c, strlen(main_c)));
	snprintf(cmd, sizeof cmd,
		 "cd %s && cc -O1 -o main main.c net.c net_kernels.o net_weights.o && ./main >out", folder);
	CHECK(system(cmd) == 0);
	snprintf(path, sizeof path, "%s/out", folder);
	slurp(path, out, sizeof out);
	CHECK(off_by(out, true) < 1e-5 && off_by(out, false) > 1e-4);
}

enum { CHANNELS = 64, SIDE = 16, VALUES = CHANNELS * SIDE * SIDE };

/* Writes a convolution with strides, for which products of bf16 take half of the time. */
static const char *convolution(void)
{
	struct onnx_maker k;
	struct rng r;
	enum { W = CHANNELS * CHANNELS * 9 };
	_Static_assert(W <= K * N, "room for the weights");
	rng_seed(&r, 2);
	rng_fill(&r, weights, W);
	mk_start(&k, 17, 4);
	mk_input(&k, "x", 1, "1 64 32 32");
	mk_init(&k, "W", 1, "64 64 3 3", weights, W * sizeof *weights);
	Onnx__NodeProto *n = mk_node(&k, "Conv", "x W", "y");
	mk_attr_ints(&k, n, "pads", 4, (int64_t[]){1, 1, 1, 1});
	mk_attr_ints(&k, n, "strides", 2, (int64_t[]){2, 2});
	mk_output(&k, "y");
	return write_model(&k, "conv.onnx");
}

/* Runs it on seeded inputs, and reads the output. */
static void run_seeded(const char *path, const char *options, float *out)
{
	struct arena a = {0};
	struct tensor t;
	CHECK_RUN(0, "run %s --random --threads 1 -o %s %s", path, in_dir("y"), options);
	REQUIRE_OK(tensor_read(&a, in_dir("y/y.npy"), &t, NULL));
	REQUIRE(shape_count(&t.shape) == VALUES);
	memcpy(out, t.data, sizeof *out * VALUES);
	arena_free(&a);
}

/* Kernels that multiply 16-bit floats are in bundles and in C as they were tuned: these give the numbers of
 * hone run, bit for bit, which are not those of products of 32 bits. */
TEST(bundles_and_c_multiply_bf16)
{
	static float want[VALUES], floats[VALUES], got[VALUES];
	struct target t;
	REQUIRE_OK(target_host(&t));
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	if (!target_multiplies_bf16(&t))
		SKIP("the processor has no AVX512-BF16");
	char model[256], bundle[256], options[300];
	snprintf(model, sizeof model, "%s", convolution());
	snprintf(bundle, sizeof bundle, "%s", in_dir("half-bundle"));
	snprintf(options, sizeof options, "--level half --cache %s", in_dir("half-cache"));
	*cli_out = 0;
	for (int i = 0; i < 5 && !strstr(cli_out, "bf16; "); i++) { /* a race may be disturbed */
		CHECK_RUN(0, "tune %s --budget 2s --threads 1 --record %s %s", model, in_dir("half-land"),
			  options);
		CHECK_RUN(0, "show --json --cache %s", in_dir("half-cache"));
	}
	CHECK_SAYS(cli_out, "bf16; ");
	CHECK_RUN(0, "tune %s --budget 2s --level half --device replay:%s --cache %s", model,
		  in_dir("half-land"), in_dir("half-replay"));
	CHECK_RUN(0, "show --json --cache %s", in_dir("half-replay"));
	CHECK_SAYS(cli_out, "bf16; ");
	run_seeded(model, options, want);
	run_seeded(model, "", floats);
	CHECK(memcmp(want, floats, sizeof want) != 0);
	CHECK_RUN(0, "compile %s -o %s --threads 1 %s", model, bundle, options);
	run_seeded(bundle, "", got);
	CHECK(!memcmp(got, want, sizeof want));
	memset(got, 0, sizeof got);
	CHECK(run_c(model, options, NULL, got, sizeof got) == sizeof got);
	CHECK(!memcmp(got, want, sizeof want));
}

TEST_MAIN
