/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/log.h"
#include "tools/hone/cmd.h"
#include "tools/hone/next.h"
#include "agent/cache/json.h"
#include "tools/hone/onnx_case.h"
#include "tools/hone/guard.h"
#include "tools/hone/ready.h"
#include <limits.h>
#include <stdio.h>

struct counts {
	int of[3];             /* number of cases, by enum case_result */
	char model[PATH_MAX + sizeof "/model.onnx"]; /* the first one with a wrong answer */
};

/* Runs the cases of one folder; prints a line on stdout for each that did not pass. kernels: how many kernels
 * have run so far (NULL: none do), which tells a wrong answer from a case that could not be run. */
static int check_folder(const char *dir, const struct case_runner *run, const struct case_gate *gate,
			const int *kernels, bool quiet, struct counts *c)
{
	static const char *const words[] = {"passed", "FAILED", "skipped"};
	struct arena a = {0};
	char **cases;
	int n = case_find(&a, dir, &cases);
	for (int i = 0; i < n; i++) {
		char why[512];
		const int before = kernels ? *kernels : 0;
		enum case_result r = case_check(cases[i], run, gate, why, NULL);
		c->of[r]++;
		if (r == CASE_FAILED && kernels && *kernels > before && !c->model[0])
			snprintf(c->model, sizeof c->model, "%s/model.onnx", cases[i]);
		if (r == CASE_PASSED)
			log_more("passed %s", cases[i]);
		else if (!quiet)
			printf("%s %s: %s\n", words[r], cases[i], why);
	}
	arena_free(&a);
	return n < 0 ? n : E_OK;
}

static int report(const struct args *a, const struct counts *c)
{
	int passed = c->of[CASE_PASSED], failed = c->of[CASE_FAILED], skipped = c->of[CASE_SKIPPED];
	if (a->json) {
		int rc =
		    json_out(json_pack("{si si si}", "passed", passed, "failed", failed, "skipped", skipped));
		return rc ? rc : failed != 0;
	}
	printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
	if (failed && c->model[0])
		next_hone(a, "verify", c->model, " --bisect");
	return failed != 0;
}

/* ONNX's own tolerance, or that of a level which rounds more. */
static const struct case_gate *gate_of(enum level level)
{
	const struct case_gate *g = case_gate_of(level, false);
	return g == &case_gate_fp32 ? &case_gate_onnx : g;
}

static int check_plans(const struct args *a, struct counts *c)
{
	char dir[4096];
	enum ready_kernels kernels = KERNELS_FALLBACK;
	struct host host = {0};
	struct cache *cache = NULL;
	struct kernel_source source = {0};
	struct ready_case plan = {.host = &host};
	const struct case_runner run = {ready_run_case, &plan};
	int rc = ready_kernels_parse(arg_str(a, "kernels", "fallback"), &kernels);
	if (rc >= 0)
		rc = model_cache_or_none(a, dir, sizeof dir);
	if (rc >= 0)
		rc = host_open(a, dir, false, &host);
	if (rc >= 0)
		rc = source_open(kernels, dir, &host, &cache, &source);
	plan.from = kernels;
	plan.cache = cache;
	plan.source = source.find ? &source : NULL;
	for (int i = 0; i < a->npos && rc >= 0; i++)
		rc = check_folder(a->pos[i], &run, gate_of(host.level), &plan.kernels, a->json, c);
	source_close(kernels, &cache, &source);
	host_close(&host);
	return rc;
}

static int test_all(const struct args *a)
{
	struct counts c = {0};
	int rc = arg_flag(a, "reference") ? 0 : check_plans(a, &c);
	for (int i = 0; arg_flag(a, "reference") && i < a->npos && rc >= 0; i++)
		rc = check_folder(a->pos[i], &case_reference, &case_gate_onnx, NULL, a->json, &c);
	return rc < 0 ? rc : report(a, &c);
}

static int run_onnx_test(const struct args *a)
{
	return guard_run(a, test_all, GUARD_FAILS);
}

static const struct opt opts[] = {
    {"reference", OPT_FLAG, NULL, "run the operators' reference instead of the network's plan"},
    {"kernels", OPT_STR, "KIND", "fallback (default: built in), default (untuned schedules) or best",
     .values = "best default fallback"},
    OPT_THREADS,
    OPT_DEVICE,
    OPT_LEVEL,
    OPT_CACHE,
    {NULL},
};

const struct cmd cmd_onnx_test = {
    .usage = "DIR... [--reference | --kernels KIND] [--device cpu[:CLUSTER]|opencl:N|cuda:N] [--level LEVEL]",
    .summary = "run ONNX test folders against their expected outputs",
    .details = "A test is a folder with a model.onnx and test_data_set_N folders of input_K.pb and "
	       "output_K.pb; subfolders are "
	       "searched. A case passes when every value is within 1e-3 of itself, or all are within 2e-4 of "
	       "the largest; at --level w16 all may be within 1e-2 of it, and at the others that round more, "
	       "within .2. A case that needs an operator, attribute or type that is not supported is "
	       "skipped, and named.",
    .min_pos = 1,
    .max_pos = -1,
    .opts = opts,
    .run = run_onnx_test,
    .name = "onnx-test",
};
