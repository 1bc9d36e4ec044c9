/* SPDX-License-Identifier: Apache-2.0 */
/* What a new user reads in the first hour: errors say what is meant, and advice fits what is there. */
#include "tests/lib/cli_model.h"

static int times(const char *text, const char *part)
{
	int n = 0;
	for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
		n++;
	return n;
}

/* A name without a common letter is not what was meant: the names that there are do help. */
TEST(a_shape_of_an_unknown_name_lists_the_names)
{
	char model[256];
	snprintf(model, sizeof model, "%s", one_node("free.onnx", "Relu", "1 3 h w"));
	CHECK_RUN(2, "tune %s --shape N=4 --cache %s", model, in_dir("cache"));
	CHECK_SAYS(cli_err, "dimension 'N'; it has 'x' 'h' 'w'");
	CHECK(!strstr(cli_err, "did you mean"));
	CHECK_RUN(2, "tasks %s --shape H=4 --shape w1=4", model);
	CHECK_SAYS(cli_err, "did you mean 'h'?");
}

TEST(bench_explains_the_roofline_once)
{
	CHECK_RUN(0, "bench %s --kernels fallback --kernels best --runs 2 --threads 1 --cache %s", steering(),
		  in_dir("cache"));
	CHECK(times(cli_out, "of roofline  ") == 2); /* two tables */
	CHECK(times(cli_out, "of roofline: share of the speed") == 1);
	CHECK_RUN(0, "bench %s --kernels fallback --runs 2 --threads 1 --cache %s", steering(),
		  in_dir("cache"));
	CHECK(times(cli_out, "of roofline: share of the speed") == 1);
}

TEST_MAIN
