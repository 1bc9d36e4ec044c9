/* SPDX-License-Identifier: Apache-2.0 */
/* What a newcomer reads when a command line is not quite right, or when two commands speak of one model. */
#include "tests/lib/cli_quantize.h"

/* y = [x, Softmax(x)]: the cache can hold a kernel for one of them, the Concat is portable C. */
static const char *partly_portable(void)
{
	struct onnx_maker k;
	mk_start(&k, 17, 4);
	mk_input(&k, "x", F32, "1 64 32 32");
	mk_node(&k, "Softmax", "x", "a");
	mk_attr_int(&k, mk_node(&k, "Concat", "x a", "y"), "axis", 1);
	mk_output(&k, "y");
	return write_model(&k, "partly.onnx");
}

/* The number of kernels in all, from "N of M kernel"; 0: the text has no such words. */
static int counted(const char *text)
{
	int n, all, end = 0;
	for (const char *p = text; (p = strstr(p, " of ")); p++) {
		const char *from = p;
		while (from > text && strchr("0123456789", from[-1]))
			from--;
		if (sscanf(from, "%d of %d kernel%n", &n, &all, &end) == 2 && end)
			return all;
	}
	return 0;
}

TEST(all_lines_count_the_same_kernels)
{
	char model[256], cache[256];
	snprintf(model, sizeof model, "%s", partly_portable());
	snprintf(cache, sizeof cache, "%s", in_dir("cache"));
	CHECK_RUN(1, "tune %s --rigor cached --threads 1 --cache %s", model, cache);
	CHECK(counted(cli_out) == 1 && counted(cli_err) == 1);
	CHECK_SAYS(cli_out, "not counted: 1 operator that runs in portable C");
	CHECK_RUN(1, "bench %s --require-cache --threads 1 --cache %s", model, cache);
	CHECK(counted(cli_err) == 1);
	CHECK_RUN(1, "tune %s --rigor cached --threads 1 --cache %s", steering(), cache);
	CHECK(counted(cli_out) == 10 && !strstr(cli_out, "not counted"));
}

TEST_MAIN
