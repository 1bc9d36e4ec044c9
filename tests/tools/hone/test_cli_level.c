/* SPDX-License-Identifier: Apache-2.0 */
/* --level: what is refused, which results serve which level, and weights in f16 from the search to a bundle.
 */
#include "platform/base/rng.h"
#include "tests/lib/cli_model.h"

#include <glob.h>

enum { K = 256, N = 512 };

/* Writes a product of a vector with K x N weights of at most this magnitude. Returns its path, until the next
 * call. */
static const char *product(const char *file, float largest)
{
	static char path[256];
	static float w[K * N];
	struct onnx_maker k;
	struct rng r;
	rng_seed(&r, 1);
	rng_fill(&r, w, K * N);
	for (int i = 0; i < K * N; i++)
		w[i] *= largest;
	mk_start(&k, 17, 4);
	mk_input(&k, "x", 1, "1 256");
	mk_init(&k, "W", 1, "256 512", w, sizeof w);
	mk_node(&k, "MatMul", "x W", "y");
	mk_output(&k, "y");
	snprintf(path, sizeof path, "%s", write_model(&k, file));
	return path;
}

TEST(what_is_refused)
{
	static const char *const later[] = {"half", "half-sum", "int8"};
	for (int i = 0; i < 3; i++) {
		CHECK_RUN(2, "tune %s --level %s", steering(), later[i]);
		CHECK_SAYS(cli_err, "is not supported yet");
	}
	CHECK_RUN(2, "bench %s --level w8", steering());
	CHECK_SAYS(cli_err, "no level 'w8'");
	CHECK_RUN(2, "run %s --random --level fp32 --exact", steering());
	CHECK_SAYS(cli_err, "exclude each other");
	CHECK_RUN(2, "explain %s --level w16 --exact", steering());
	CHECK_SAYS(cli_err, "exclude each other");
	CHECK_RUN(2, "tune %s --background --level w16", steering());
	CHECK_SAYS(cli_err, "cannot be combined with --level");
}

/* Tunes at one level; then each of the levels in `served` finds all kernels in the cache, and no other. */
static void check_level(const char *model, const char *level, const char *served)
{
	static const char *const all[] = {"exact", "fp32", "w16"};
	char cache[256];
	snprintf(cache, sizeof cache, "%s", in_dir(level));
	char option[32];
	snprintf(option, sizeof option, "--level %s", level);
	CHECK_RUN(0, KERNELS_ONCE, model, option, cache);
	CHECK_RUN(0, "show --json --cache %s", cache);
	char want[64];
	snprintf(want, sizeof want, "\"level\":\"%s\"", level);
	CHECK_SAYS(cli_out, want);
	for (int i = 0; i < 3; i++) {
		bool serves = strstr(served, all[i]) != NULL;
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
	check_level(model, "exact", "exact fp32 w16");
	check_level(model, "fp32", "fp32 w16");
	check_level(model, "w16", "w16");
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

TEST_MAIN
