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
