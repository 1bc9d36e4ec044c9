/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/log.h"
#include "tools/cmd.h"
#include "tools/json.h"
#include "tools/onnx_case.h"
#include <stdio.h>

struct counts {
	int of[3]; /* by enum case_result */
};

/* One folder's cases; a line on stdout for each that did not pass. */
static int check_folder(const char *dir, bool quiet, struct counts *c)
{
	static const char *const words[] = {"passed", "FAILED", "skipped"};
	struct arena a = {0};
	char **cases;
	int n = case_find(&a, dir, &cases);
	for (int i = 0; i < n; i++) {
		char why[512];
		enum case_result r = case_check(cases[i], &case_reference, &case_gate_onnx, why, NULL);
		c->of[r]++;
		if (r == CASE_PASSED)
			log_more("passed %s", cases[i]);
		else if (!quiet)
			printf("%s %s: %s\n", words[r], cases[i], why);
	}
	arena_free(&a);
	return n < 0 ? n : E_OK;
}

static int run_onnx_test(const struct args *a)
{
	struct counts c = {0};
	for (int i = 0; i < a->npos; i++) {
		int rc = check_folder(a->pos[i], a->json, &c);
		if (rc < 0)
			return rc;
	}
	int passed = c.of[CASE_PASSED], failed = c.of[CASE_FAILED], skipped = c.of[CASE_SKIPPED];
	if (a->json) {
		int rc =
		    json_out(json_pack("{si si si}", "passed", passed, "failed", failed, "skipped", skipped));
		return rc ? rc : failed != 0;
	}
	printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
	if (failed)
		printf("Next: hone verify MODEL --bisect finds the first wrong operator.\n");
	return failed != 0;
}

static const struct opt opts[] = {{NULL}};

const struct cmd cmd_onnx_test = {
    .usage = "DIR...",
    .summary = "run ONNX test folders against their expected outputs",
    .details = "A test is a folder with a model.onnx and test_data_set_N folders of input_K.pb and "
	       "output_K.pb; subfolders are "
	       "searched. A case passes when every value is within 1e-3 of itself, or all are within 2e-4 of "
	       "the largest. A "
	       "case that needs an operator, attribute or type that is not supported is skipped, and named.",
    .min_pos = 1,
    .max_pos = -1,
    .opts = opts,
    .run = run_onnx_test,
    .name = "onnx-test",
};
