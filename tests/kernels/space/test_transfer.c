/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/space/transfer.h"
#include "tests/lib/kernel_cases.h"
#include "tests/lib/test.h"

#include <stdlib.h>

static const struct target tg = {.isa = "x86-64-v4",
				 .lanes = 16,
				 .regs = 32,
				 .l1_bytes = 49152,
				 .l2_bytes = 2 << 20,
				 .l3_bytes = 32 << 20};

static struct task task[4];
static struct space *space[4];
static struct arena a;

static void conv(int i, int c, int k, int size, int stride, const char *post)
{
	struct buf b = {0};
	buf_printf(&b,
		   "task syms=0\noperand X in f32 [1,%d,%d,%d] 0.1/16.2.3.1;2+1+1;3+1+1\n"
		   "operand W const f32 [%d,%d,3,3] plain\noperand Y out f32 [1,%d,%d,%d] 0.1/16.2.3.1\n"
		   "stage n:1 k:%d y:%d x:%d | c:%d r:3 s:3\n",
		   c, size, size, k, c, k, size / stride, size / stride, k, size / stride, size / stride, c);
	buf_puts(&b, stride == 1 ? "read X [n,c,y+r-1,x+s-1]\n" : "read X [n,c,2*y+r-1,2*x+s-1]\n");
	buf_printf(&b, "read W [k,c,r,s]\nbody r0 r1 mul\nsum\n%swrite Y [n,k,y,x]\n", post);
	REQUIRE_OK(task_parse(buf_str(&b), &task[i]));
	REQUIRE_OK(space_make(&a, &task[i], &tg, NULL, &space[i]));
	buf_free(&b);
}

static void make(void)
{
	conv(0, 64, 64, 56, 1, "post acc 0 max\n");
	conv(1, 32, 48, 14, 1, "");
	conv(2, 16, 128, 28, 1, "post acc 0 max\n");
	conv(3, 64, 64, 56, 2, "post acc 0 max\n");
}

static bool akin(int i, int k)
{
	return key_equal(task_kind(&task[i]), task_kind(&task[k]));
}

TEST(kinds)
{
	make();
	CHECK(akin(0, 1) && akin(0, 2)); /* other extents, another epilogue */
	CHECK(!akin(0, 3));              /* another stride */
	arena_free(&a);
}

/* The result is legal for any schedule, and keeps most of it; a transfer to its own task keeps all of it. */
TEST(random_schedules)
{
	struct rng r;
	char cand[CAND_MAX], out[CAND_MAX];
	int came = 0;
	make();
	rng_seed(&r, 1);
	for (int i = 0; i < 600; i++) {
		int from = i % 3, to = (i + 1 + i / 3 % 2) % 3;
		REQUIRE_OK(space_random(space[from], &r, cand));
		REQUIRE_OK(space_transfer(space[from], &task[from], 0, cand, out));
		CHECK(!strcmp(cand, out));
		REQUIRE_OK(
		    space_transfer(space[from], &task[from], 16, cand, out)); /* a board like this one */
		CHECK(!strcmp(cand, out));
		int rc = space_transfer(space[to], &task[from], 0, cand, out);
		CHECK(rc >= 0 || rc == E_INFEASIBLE);
		if (rc >= 0)
			CHECK_OK(space_legal(space[to], out));
		came += rc >= 0;
	}
	CHECK(came > 500);
	arena_free(&a);
}

TEST(schedules_that_do_not_fit_are_clipped)
{
	char out[CAND_MAX];
	make();
	REQUIRE_OK(space_transfer(space[1], &task[0], 0, "lane=k:16 tile=x:28 unroll=c:2", out));
	CHECK(!strcmp(out, "lane=k:16 tile=x:14 unroll=c:2"));
	REQUIRE_OK(space_transfer(space[1], &task[0], 0, "lane=k:16 tile=k:4,x:6 unroll=c:2", out));
	CHECK(!strcmp(out, "lane=k:16 tile=k:3,x:6 unroll=c:2"));
	arena_free(&a);
}

/* From a board with other lanes and registers: uses all lanes of this board, and no more registers than it
 * has. */
TEST(from_another_board)
{
	static const struct target small = {.isa = "x86-64-v3",
					    .lanes = 8,
					    .regs = 16,
					    .l1_bytes = 32768,
					    .l2_bytes = 512 << 10,
					    .l3_bytes = 4 << 20};
	char cand[CAND_MAX], out[CAND_MAX];
	struct space *wide, *narrow;
	struct rng r;
	int came = 0;
	make();
	wide = space[0];
	REQUIRE_OK(space_make(&a, &task[1], &small, NULL, &narrow));
	CHECK(space_transfer(narrow, &task[0], 0, "lane=k:16 tile=k:2,x:14", out) == E_INFEASIBLE);
	REQUIRE_OK(space_transfer(narrow, &task[0], 16, "lane=k:16 tile=k:2,x:14", out));
	CHECK(!strcmp(out, "lane=k:8 tile=k:2,x:6"));
	REQUIRE_OK(space_transfer(space[1], &task[0], 8, "lane=k:8 tile=k:2,x:6", out));
	CHECK(!strcmp(out, "lane=k:16 tile=k:2,x:6"));
	REQUIRE_OK(space_transfer(space[1], &task[0], 16, "lane=k:8 tile=k:2,x:6", out));
	CHECK(!strcmp(out, "lane=k:8 tile=k:2,x:6")); /* it did not use all lanes there */
	rng_seed(&r, 3);
	for (int i = 0; i < 300; i++) {
		REQUIRE_OK(space_random(wide, &r, cand));
		int rc = space_transfer(narrow, &task[0], 16, cand, out);
		CHECK(rc >= 0 || rc == E_INFEASIBLE);
		if (rc >= 0)
			CHECK_OK(space_legal(narrow, out));
		came += rc >= 0;
	}
	CHECK(came > 250);
	arena_free(&a);
}

/* A group that the device has not becomes the largest that it has. */
TEST(to_a_device_with_smaller_groups)
{
	struct target gpu = case_gpu();
	struct space *s;
	char out[CAND_MAX];
	make();
	gpu.group = 64;
	REQUIRE_OK(space_make(&a, &task[1], &gpu, NULL, &s));
	REQUIRE_OK(space_transfer(s, &task[0], 0, "lane=k:4 tile=x:6 par=4 group=256", out));
	CHECK(!strcmp(out, "lane=k:4 tile=x:6 par=4 group=64"));
	REQUIRE_OK(space_transfer(s, &task[0], 0, "par=4 group=64 blocks=2", out));
	CHECK(!strcmp(out, "par=4 group=64"));
	strcpy(gpu.isa, "cuda");
	REQUIRE_OK(space_make(&a, &task[1], &gpu, NULL, &s));
	REQUIRE_OK(space_transfer(s, &task[0], 0, "par=4 group=256 blocks=2", out));
	CHECK(!strcmp(out, "par=4 group=64 blocks=2"));
	strcpy(gpu.isa, "opencl");
	gpu.group = 0;
	REQUIRE_OK(space_make(&a, &task[1], &gpu, NULL, &s));
	CHECK(space_transfer(s, &task[0], 0, "lane=k:4 tile=x:6 par=4 group=256", out) == E_INFEASIBLE);
	REQUIRE_OK(space_transfer(s, &task[0], 4, "lane=k:2 tile=x:6 par=4", out));
	CHECK(!strcmp(out, "lane=k:2 tile=x:6 par=4"));
	arena_free(&a);
}

TEST(how_far_apart)
{
	make();
	CHECK(task_away(&task[0], &task[0]) == 0);
	CHECK(task_away(&task[0], &task[3]) > 0 && task_away(&task[0], &task[3]) < 3); /* y and x halved */
	CHECK(task_away(&task[0], &task[1]) > task_away(&task[0], &task[3]));
	CHECK(task_away(&task[0], &task[1]) == task_away(&task[1], &task[0]));
	arena_free(&a);
}

TEST(hostile)
{
	static const char *const bad[] = {"",
					  "tile",
					  "lane=q:16",
					  "tile=x:0",
					  "lane=k:16 tile=x:99999999999",
					  "order=x,y",
					  "no such schedule",
					  "lane=k:0",
					  "lane=k:0 tile=k:2,x:4 unroll=k:2",
					  "lane=k:16 winograd=4",
					  "lane=k:16 winograd=2 tiles=4",
					  "lane=k:16 | block=y:-1"};
	char out[CAND_MAX];
	struct task map;
	make();
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		for (int lanes = 0; lanes <= 16; lanes += 8) {
			int rc = space_transfer(space[1], &task[0], lanes, bad[i], out);
			CHECK(rc >= 0 || rc == E_CORRUPT || rc == E_INFEASIBLE);
			if (rc >= 0)
				CHECK_OK(space_legal(space[1], out));
		}
	}
	REQUIRE_OK(task_parse("task syms=0\noperand X in f32 [7] plain\noperand Y out f32 [7] plain\n"
			      "stage n:7\nread X [n]\nbody r0\nwrite Y [n]\n",
			      &map));
	CHECK(space_transfer(space[1], &map, 0, "lane=n:4", out) == E_INFEASIBLE);
	arena_free(&a);
}

TEST_MAIN
