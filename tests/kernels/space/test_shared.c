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

/* Points of a block of threads along axis y, by the text. */
static int span_of_y(const char *cand)
{
	const char *tile = strstr(cand, " tile="), *threads = strstr(cand, " threads=");
	const char *t = tile ? strstr(tile, "y:") : NULL, *n = threads ? strstr(threads, "y:") : NULL;
	const char *tile_end = tile ? strchr(tile + 1, ' ') : NULL,
		   *threads_end = threads ? strchr(threads + 1, ' ') : NULL;
	return (t && t < tile_end ? atoi(t + 2) : 1) *
	       (n && (!threads_end || n < threads_end) ? atoi(n + 2) : 1);
}

/* Rows that no tile divides are proposed in blocks of which the last one overlaps another and repeats at most
 * a quarter of the rows; a power of two is not. */
TEST(rows_that_do_not_divide_overlap)
{
	static const int rows[] = {197, 211, 331, 443, 577, 1021};
	const struct target tg = case_gpu();
	struct arena a = {0};
	for (int i = 0; i < 12; i++) {
		char text[400], cand[CAND_MAX];
		int m = i % 2 ? rows[i / 2] : 256 << i / 4, at = 0, ragged = 0;
		snprintf(
		    text, sizeof text,
		    "task syms=0\noperand A in f32 [%d,192] plain\noperand B const f32 [192,1536] plain\n"
		    "operand C out f32 [%d,1536] plain\nstage y:%d x:1536 | k:192\nread A [y,k]\n"
		    "read B [k,x]\nbody r0 r1 mul\nsum\nwrite C [y,x]\n",
		    m, m, m);
		struct space *s = case_space(&a, text, &tg);
		REQUIRE(s);
		while (space_portfolio(s, &at, cand) >= 0) {
			if (!strstr(cand, "share="))
				continue;
			int span = span_of_y(cand), blocks = (m + span - 1) / span;
			CHECK_OK(space_legal(s, cand));
			CHECK(blocks * span * 4 <= m * 5);
			ragged += m % span != 0 && span > 1;
		}
		CHECK((ragged > 0) == i % 2);
		if (test_bad)
			printf("%d rows: %d candidates\n", m, ragged);
	}
	arena_free(&a);
}

/* A warp's threads are a box of those of the block, 32 of them. */
TEST(shapes_of_warps)
{
	static const struct {
		const char *keys, *why;
	} cases[] = {{"threads=y:8,x:8 warp=y:4,x:8 share=k:16", NULL},
		     {"threads=y:8,x:8 warp=y:8,x:4 share=k:16", NULL},
		     {"threads=y:8,x:8 warp=y:8,x:8 share=k:16", "not 32 threads"},
		     {"threads=y:8,x:8 warp=x:8 share=k:16", "not 32 threads"},
		     {"threads=y:8,x:8 warp=y:2,x:16 share=k:16", "divide"},
		     {"threads=k:64 warp=y:4,x:8", "that shares tiles"},
		     {"warp=y:4,x:8", "that shares tiles"}};
	const struct target tg = case_gpu();
	struct arena a = {0};
	struct space *s =
	    case_space(&a,
		       "task syms=0\noperand A in f32 [128,256] plain\n"
		       "operand B const f32 [256,128] plain\noperand C out f32 [128,128] plain\n"
		       "stage y:128 x:128 | k:256\nread A [y,k]\nread B [k,x]\n"
		       "body r0 r1 mul\nsum\nwrite C [y,x]\n",
		       &tg);
	REQUIRE(s);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char cand[CAND_MAX];
		snprintf(cand, sizeof cand, "lane=x:4 tile=y:4 par=2 %s", cases[i].keys);
		int rc = space_legal(s, cand);
		if (cases[i].why)
			CHECK_FAILS(rc, E_INFEASIBLE, cases[i].why);
		else
			CHECK_OK(rc);
	}
	CHECK(case_drawn(s, 1, 300, "warp=") > 5);
	/* by lines of memory, a warp of one column of blocks moves more than one of rows */
	CHECK(space_draft(s, "lane=x:4 tile=y:4 par=2 threads=y:32,x:8 warp=y:32 share=k:16") >
	      space_draft(s, "lane=x:4 tile=y:4 par=2 threads=y:32,x:8 warp=y:4,x:8 share=k:16"));
	arena_free(&a);
}

TEST_MAIN
