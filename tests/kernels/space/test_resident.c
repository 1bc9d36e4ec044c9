/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that a unit of a GPU runs side by side: by hand and at random against the documented limits, and
 * their part in the draft. */
#include "kernels/space/draft.h"
#include "kernels/space/resident.h"
#include "kernels/space/share.h"
#include "tests/lib/kernel_cases.h"
#include "tests/lib/test.h"

static struct target gpu(const char *cpu)
{
	struct target tg = case_gpu();
	strcpy(tg.isa, "cuda");
	snprintf(tg.cpu, sizeof tg.cpu, "%s", cpu);
	return tg;
}

/* CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": resident blocks, warps and
 * threads, and KB of shared memory, of a unit and of a block. */
static const struct {
	char cpu[8];
	int blocks, warps, threads, unit_kb, block_kb;
} guide[] = {{"sm_72", 32, 64, 2048, 96, 96},   {"sm_75", 16, 32, 1024, 64, 64},
	     {"sm_80", 32, 64, 2048, 164, 163}, {"sm_86", 16, 48, 1536, 100, 99},
	     {"sm_87", 16, 48, 1536, 164, 163}, {"sm_89", 24, 48, 1536, 100, 99},
	     {"sm_90", 32, 64, 2048, 228, 227}};
enum { GPUS = sizeof guide / sizeof *guide };

/* Whether n blocks fit, counted warp by warp and byte by byte. */
static bool fit(int gpu, int n, int threads, int registers, int shared)
{
	int taken = (guide[gpu].unit_kb - guide[gpu].block_kb) * 1024, warps = (threads + 31) / 32, free = 0;
	int of_warp = 32 * registers, left = 65536;
	while (of_warp % 256)
		of_warp++;
	while (left >= 4 * of_warp) { /* registers are in four parts, one for each scheduler */
		left -= 4 * of_warp;
		free += 4;
	}
	while (shared % 128)
		shared++;
	return n <= guide[gpu].blocks && n * warps <= guide[gpu].warps && n * threads <= guide[gpu].threads &&
	       n * warps <= free && n * (shared + taken) <= guide[gpu].unit_kb * 1024;
}

TEST(as_many_as_fit)
{
	struct rng r;
	rng_seed(&r, 11);
	for (int i = 0; i < 20000 && !test_bad; i++) {
		int k = (int)rng_below(&r, GPUS), threads = 1 + (int)rng_below(&r, 1024),
		    registers = 1 + (int)rng_below(&r, 255), n = 0,
		    shared =
			rng_below(&r, 2) ? (int)rng_below(&r, (uint32_t)guide[k].block_kb * 1024 + 1) : 0;
		const struct target tg = gpu(guide[k].cpu);
		while (fit(k, n + 1, threads, registers, shared))
			n++;
		CHECK(resident_blocks(&tg, threads, registers, shared) == n);
		if (test_bad)
			printf("%s: %d threads, %d registers, %d bytes: %d\n", tg.cpu, threads, registers,
			       shared, n);
	}
}

TEST(known_numbers)
{
	static const struct {
		char cpu[8];
		int threads, registers, shared, blocks;
	} cases[] = {
	    {"sm_80", 256, 32, 0, 8},         {"sm_80", 256, 64, 0, 4},  {"sm_80", 256, 37, 0, 6},
	    {"sm_80", 256, 128, 0, 2},        {"sm_80", 32, 16, 0, 32},  {"sm_80", 128, 32, 48 << 10, 3},
	    {"sm_86", 256, 32, 0, 6},         {"sm_86", 32, 32, 0, 16},  {"sm_75", 256, 32, 0, 4},
	    {"sm_72", 128, 32, 48 << 10, 2},  {"sm_87", 33, 32, 0, 16},  {"sm_89", 64, 32, 0, 24},
	    {"sm_90", 128, 32, 113 << 10, 2}, {"sm_90", 1024, 64, 0, 1}, {"sm_90", 1024, 65, 0, 0},
	    {"sm_90", 64, 256, 0, 0},         {"sm_90", 64, 0, 0, 32},   {"sm_99", 64, 32, 0, 0}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct target tg = gpu(cases[i].cpu);
		CHECK(resident_blocks(&tg, cases[i].threads, cases[i].registers, cases[i].shared) ==
		      cases[i].blocks);
	}
	for (int k = 0; k < GPUS; k++) {
		const struct target tg = gpu(guide[k].cpu);
		CHECK(share_most(&tg) == guide[k].block_kb * 1024);
	}
	const struct target opencl = case_gpu();
	CHECK(resident_blocks(&opencl, 64, 32, 0) == 0);
}

/* The same schedule takes longer where rings of shared boxes leave room for fewer blocks, and no longer where
 * the device does not say how many there are. */
TEST(the_draft_counts_resident_blocks)
{
	static const char text[] =
	    "task syms=0\noperand A in f32 [4096,512] plain\noperand B const f32 [512,4096] plain\n"
	    "operand C out f32 [4096,4096] plain\nstage y:4096 x:4096 | k:512\nread A [y,k]\n"
	    "read B [k,x]\nbody r0 r1 mul\nsum\nwrite C [y,x]\n";
	static const char *const cand[] = {
	    "lane=x:4 tile=y:4,x:2 unroll=k:4 par=2 threads=y:8,x:8 share=k:16",
	    "lane=x:4 tile=y:4,x:2 unroll=k:4 par=2 threads=y:8,x:8 share=k:128"};
	struct arena a = {0};
	double ratio[3];
	const struct target on[] = {gpu("sm_90"), gpu("sm_72"), gpu("sm_99")};
	for (int i = 0; i < 3; i++) {
		struct task t;
		double cycles[2];
		struct target tg = on[i];
		tg.cores = 132;
		REQUIRE_OK(task_parse(text, &t));
		for (int k = 0; k < 2; k++) {
			struct sched c;
			REQUIRE_OK(sched_parse(&t, cand[k], &c));
			cycles[k] = draft_rows(&t, &tg, 0, &c.st[0], 0, 0).of[DRAFT_LATENCY];
		}
		ratio[i] = cycles[1] / cycles[0];
	}
	CHECK(ratio[0] > 1.5 && ratio[1] > ratio[0] && ratio[2] < 1.2);
	arena_free(&a);
}

TEST_MAIN
