/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of the roofline: what they count, and an explanation for each above 100 %. */
#include "tests/lib/tasks.h"
#include "tests/lib/test.h"
#include "tools/hone/roof.h"

#include <math.h>

static const struct target target = {.fma_gflops = 100,
				     .l1_bytes = 32 << 10,
				     .l2_bytes = 1 << 20,
				     .l3_bytes = 32 << 20,
				     .bw_gbs = {200, 100, 50, 10}};

static bool near(double a, double b)
{
	return fabs(a - b) <= 1e-9 * fabs(b);
}

/* 14 x 32 x 40 products; the constant B, 5 KB, comes from memory, A and C from the L1. */
TEST(constants_come_from_memory)
{
	static struct task t;
	REQUIRE_OK(task_parse(task_matmul, &t));
	struct roof r = roof_of_task(&target, &t, "no schedule");
	double memory = 4. * 40 * 32 / 10 + 4. * (14 * 40 + 14 * 32) / 200, flops = 2. * 14 * 32 * 40 / 100;
	CHECK(near(r.ns, fmax(memory, flops)) && r.memory_bound == (memory > flops));
	struct target slow = target;
	slow.fma_gflops = 1;
	r = roof_of_task(&slow, &t, "no schedule");
	CHECK(near(r.ns, 100 * flops) && !r.memory_bound);
	slow.fma_gflops = 0;
	CHECK(roof_of_task(&slow, &t, "").ns == 0 && roof_pct(&(struct roof){0}, 1, 5) == 0);
}

/* explain and bench say the same of a kernel. */
TEST(a_task_and_its_kernel_agree)
{
	static struct task t;
	REQUIRE_OK(task_parse(task_matmul, &t));
	struct plan_kernel k = {.flops = task_flops(&t), .bytes = task_bytes(&t, true)};
	k.roofline_ns = plan_roofline_ns(&target, k.flops, k.bytes, task_bytes(&t, false));
	struct roof a = roof_of_task(&target, &t, ""), b = roof_of_kernel(&target, &k);
	CHECK(a.ns == b.ns && a.memory_bound == b.memory_bound);
	CHECK(near(roof_pct(&b, 2, b.ns), 50));
}

TEST(above_100_is_explained)
{
	struct roof_notes n = {0};
	char cell[24];
	struct buf text = {0};
	roof_cell(&n, &(struct roof){1, true}, 100.4, cell);
	CHECK(!strcmp(cell, "100 %") && n.n == 0);
	roof_cell(&n, &(struct roof){1, false}, 103, cell);
	CHECK(!strcmp(cell, "103 % [1]"));
	roof_cell(&n, &(struct roof){1, true}, 147, cell);
	CHECK(!strcmp(cell, "147 % [2]"));
	roof_cell(&n, &(struct roof){1, false}, 101, cell);
	CHECK(!strcmp(cell, "101 % [1]") && n.n == 2);
	roof_cell(&n, &(struct roof){0, false}, 0, cell);
	CHECK(!strcmp(cell, "-"));
	roof_notes_text(&n, "<", ">", &text);
	CHECK(strstr(buf_str(&text), "<of roofline: share") == buf_str(&text));
	CHECK(strstr(buf_str(&text), "<[1] above 100 %: the peak was measured too low"));
	CHECK(strstr(buf_str(&text), "<[2] above 100 %: a cache kept data"));
	buf_free(&text);
}

TEST(shares_of_the_peak_are_explained)
{
	CHECK(!roof_peak_why(104, false, false) && !roof_peak_why(104, true, true));
	CHECK(strstr(roof_peak_why(106, false, false), "measured too low"));
	CHECK(strstr(roof_peak_why(106, true, false), "dot products of bytes"));
	CHECK(strstr(roof_peak_why(106, false, true), "products of 16-bit floats"));
	CHECK(roof_low(&(struct roof){1, false}, 103) && !roof_low(&(struct roof){1, true}, 147));
	CHECK(!roof_low(&(struct roof){1, false}, 100));
}

TEST_MAIN
