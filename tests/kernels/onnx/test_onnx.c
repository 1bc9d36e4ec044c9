/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX's conformance cases on the portable reference and as plans: no wrong answer, and enough of them pass.
 */
#include "tests/lib/onnx_data.h"
#include "tools/hone/onnx_case.h"
#include "tools/hone/ready.h"
#include "platform/base/arena.h"

enum { CORE_CASES = 695, CORE_PASS = 640 };

/* These cases expect something else than the operator's text says, which is a defect of the cases (see the
 * data folder's README). */
static const char *not_truth(const char *dir)
{
	if (strstr(dir, "training_dropout"))
		return "its expected output depends on a random generator of its own";
	return NULL;
}

static int run_all(const char *dir, const struct case_runner *run, int count[3])
{
	struct arena a = {0};
	char **cases;
	int n = case_find(&a, dir, &cases);
	count[0] = count[1] = count[2] = 0;
	for (int i = 0; i < n; i++) {
		char why[512];
		const char *reason = not_truth(cases[i]);
		enum case_result r = CASE_SKIPPED;
		if (!reason)
			r = case_check(cases[i], run, &case_gate_onnx, why, NULL);
		count[r]++;
		if (r != CASE_PASSED)
			printf("%s %s: %s\n", r == CASE_FAILED ? "WRONG" : "skip", strrchr(cases[i], '/') + 1,
			       reason ? reason : why);
	}
	printf("%s: %d cases, %d passed, %d wrong, %d skipped\n", dir, n, count[0], count[1], count[2]);
	arena_free(&a);
	return n;
}

/* Runs on the reference, or as plans on fallback kernels (which must be used) and two threads. */
static int check_both(const char *dir, bool plans, int count[3])
{
	struct host host = {.threads = 2};
	struct ready_case plan = {.host = &host};
	const struct case_runner run = {ready_run_case, &plan};
	if (!plans)
		return run_all(dir, &case_reference, count);
	int rc = target_host(&host.target);
	if (rc >= 0)
		rc = pool_open(&host.pool, host.threads, NULL);
	if (rc >= 0)
		rc = run_all(dir, &run, count);
	CHECK(plan.kernels > 0);
	printf("%d kernels\n", plan.kernels);
	host_close(&host);
	return rc;
}

TEST(core)
{
	int count[3];
	char dir[128];
	if (!test_data())
		SKIP("no data folder (set HONE_DATA)");
	REQUIRE(onnx_shell("mkdir $T/core && tar --zstd -xf $D/onnx/core-node.tar.zst -C $T/core") == 0);
	snprintf(dir, sizeof dir, "%s/core", onnx_tmp_dir());
	for (int plans = 0; plans < 2; plans++) {
		CHECK(check_both(dir, plans, count) == CORE_CASES);
		CHECK(count[CASE_FAILED] == 0);
		CHECK(count[CASE_PASSED] >= CORE_PASS);
	}
}

TEST(quant)
{
	int count[3];
	char dir[128];
	if (!test_data())
		SKIP("no data folder (set HONE_DATA)");
	REQUIRE(onnx_shell("mkdir $T/quant && tar --zstd -xf $D/onnx/quant.tar.zst -C $T/quant") == 0);
	snprintf(dir, sizeof dir, "%s/quant", onnx_tmp_dir());
	for (int plans = 0; plans < 2; plans++) {
		CHECK(check_both(dir, plans, count) > 0);
		CHECK(count[CASE_FAILED] == 0);
	}
}

TEST_MAIN
