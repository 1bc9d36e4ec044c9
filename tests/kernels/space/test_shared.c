/* SPDX-License-Identifier: Apache-2.0 */
/* The portfolio's schedules of threads that share tiles. */
#include "tests/lib/kernel_cases.h"
#include "tests/lib/test.h"

/* A product of few tiles is proposed in parts, by threads that share tiles; one that fills the device is not.
 */
TEST(few_blocks_are_shared_in_parts)
{
	static const struct {
		int m, n, k;
		bool few;
	} cases[] = {{16, 64, 4096, true},     {32, 64, 4096, true}, {64, 128, 1024, true},
		     {2048, 2048, 512, false}, {32, 64, 4, false}, /* one box */
		     {48, 96, 2304, true}};
	const struct target tg = case_gpu();
	struct target serial = tg, cpu = case_board(4, 32);
	struct arena a = {0};
	serial.serial = true;
	const struct target *const on[] = {&tg, &serial, &cpu};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (int k = 0; k < 3; k++) {
			char text[400], cand[CAND_MAX], plain[CAND_MAX];
			int m = cases[i].m, n = cases[i].n, depth = cases[i].k, at = 0, shared = 0;
			snprintf(
			    text, sizeof text,
			    "task syms=0\noperand A in f32 [%d,%d] plain\noperand B const f32 [%d,%d] plain\n"
			    "operand C out f32 [%d,%d] plain\nstage y:%d x:%d | k:%d\nread A [y,k]\n"
			    "read B [k,x]\nbody r0 r1 mul\nsum\nwrite C [y,x]\n",
			    m, depth, depth, n, m, n, m, n, depth);
			struct space *s = case_space(&a, text, on[k]);
			REQUIRE(s);
			space_default(s, plain);
			while (space_portfolio(s, &at, cand) >= 0) {
				if (!strstr(cand, "share="))
					continue;
				shared++;
				CHECK_OK(space_legal(s, cand));
				CHECK(strstr(cand, "spread=1") && strstr(cand, "threads="));
				CHECK(space_draft(s, cand) < space_draft(s, plain) / 4);
			}
			CHECK(k == 0 && cases[i].few ? shared > 0 : !shared);
			if (test_bad)
				printf("%d x %d x %d, target %d: %d\n", m, n, depth, k, shared);
		}
	arena_free(&a);
}

TEST_MAIN
