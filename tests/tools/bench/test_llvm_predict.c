/* SPDX-License-Identifier: Apache-2.0 */
/* Predictions of kernels: every loop of a kernel has its loop of machine code, on x86 and Arm, and the work
 * of a small layer is what can be counted by hand. SEEDS=n tries n random kernels. */
#include "kernels/emit/emit.h"
#include "tests/lib/kernel_cases.h"
#include "tests/lib/scratch.h"
#include "tests/lib/tasks.h"
#include "tools/bench/predict_board.h"

static const char *folder(void)
{
	static char dir[256];
	if (!dir[0]) {
		snprintf(dir, sizeof dir, "%s", scratch("x"));
		*strrchr(dir, '/') = 0;
	}
	return dir;
}

static struct predict_cpu x86(void)
{
	struct predict_cpu c = {.triple = "x86_64-linux-gnu",
				.features = "+sse4.2",
				.model = "znver4",
				.mhz = 2000,
				.gbs = {64, 32, 16, 8}};
	CHECK_OK(target_baseline("x86-64-v2", &c.target));
	c.target.l2_bytes = 1 << 20;
	c.target.l3_bytes = 8 << 20;
	return c;
}

static struct predict_cpu arm(const char *board)
{
	struct predict_cpu c = {.mhz = 0};
	CHECK_OK(predict_board("configs/boards", board, &c));
	return c;
}

#define NEEDS_LLVM                                                                                           \
	if (!machine_is_here())                                                                              \
	SKIP("llvm-mca-19 and llvm-objdump-19 (package llvm-19) are needed to model processors")

TEST(every_loop_has_its_machine_code)
{
	NEEDS_LLVM;
	const char *n = getenv("SEEDS");
	const uint64_t seeds = n ? strtoull(n, NULL, 0) : 16;
	const struct predict_cpu cpu[] = {x86(), arm("rpi4"), arm("rpi3")};
	int tried = 0;
	for (uint64_t seed = 1; seed <= seeds && !test_bad; seed++) {
		struct rng r;
		struct buf text = {0};
		struct arena a = {0};
		struct task *t = ARENA_NEW(&a, struct task);
		struct space *s;
		struct predict_work w;
		char cand[CAND_MAX];
		const struct predict_cpu *c = &cpu[seed % 3];
		rng_seed(&r, seed);
		case_text(&text, &r);
		CHECK_OK(task_parse(buf_str(&text), t));
		CHECK_OK(space_make(&a, t, &c->target, NULL, &s));
		space_default(s, cand);
		if (seed % 4)
			CHECK_OK(space_random(s, &r, cand));
		int rc = predict_work(t, cand, c, folder(), &w);
		if (rc != E_UNSUPPORTED && rc != E_INFEASIBLE) {
			CHECK_OK(rc);
			tried++;
		}
		if (rc >= 0 &&
		    (w.unmatched || !(w.cycles > 0) || !(predict_ns(&w, c, &predict_fitted) > 0))) {
			printf("seed %llu: %d of %d loops are not found: %s\n%s", (unsigned long long)seed,
			       w.unmatched, w.loops, cand, buf_str(&text));
			test_bad = 1;
		}
		buf_free(&text);
		arena_free(&a);
	}
	CHECK(test_bad || (uint64_t)tried > seeds / 3);
}

/* A product of 6 x 20 and 20 x 32: all constants come from memory once, and each of the 1,280 multiplications
 * of four lanes is an instruction. */
TEST(a_small_product)
{
	NEEDS_LLVM;
	const struct predict_cpu cpu[] = {x86(), arm("rpi4"), arm("rpi3")};
	for (int i = 0; i < 3; i++) {
		struct task t;
		struct predict_work w;
		CHECK_OK(task_parse(task_matmul, &t));
		CHECK_OK(predict_work(&t, "lane=n:4 tile=m:2,n:4", &cpu[i], folder(), &w));
		double macs = 14 * 32 * 40 / 4, constants = 40 * 32 * 4;
		CHECK(w.bytes[2] >= constants && w.bytes[2] <= constants + 4 * 64);
		CHECK(w.instructions > macs && w.instructions < 8 * macs);
		CHECK(w.cycles > macs / 2 && w.cycles < 8 * macs);
		CHECK(!w.unmatched && w.loops >= 3);
	}
}

/* A convolution whose loop over channels and taps kernels/emit/llvm_pipe.c makes for a cortex-a53: one run of
 * the loop of machine code does 1 to 9 steps of the program's. Returns its multiply-adds of four floats. */
static double draw_piped(struct rng *r, char text[1024], char cand[CAND_MAX])
{
	int c = 4 * (1 + (int)rng_below(r, 12)), k = 8 * (1 + (int)rng_below(r, 3));
	int h = 2 + (int)rng_below(r, 6), w = 8 + (int)rng_below(r, 15), taps = rng_below(r, 2) ? 3 : 1;
	const char *border = taps == 3 ? ";2+1+1;3+1+1" : "", *less = taps == 3 ? "-1" : "";
	bool panels = rng_below(r, 2);
	snprintf(text, 1024,
		 "task syms=0\noperand X in f32 [1,%d,%d,%d] 0.1/4.2.3.1%s\n"
		 "operand W const f32 [%d,%d,%d,%d] plain\noperand Y out f32 [1,%d,%d,%d] 0.1/4.2.3.1\n"
		 "stage n:1 k:%d y:%d x:%d | c:%d r:%d s:%d\nread X [n,c,y+r%s,x+s%s]\n"
		 "read W [k,c,r,s]\nbody r0 r1 mul\nsum\npost acc\nwrite Y [n,k,y,x]\n",
		 c, h, w, border, k, c, taps, taps, k, h, w, k, h, w, c, taps, taps, less, less);
	snprintf(cand, CAND_MAX, "lane=k:4 tile=k:2,x:%u unroll=c:4 order=%s%s",
		 4 + (unsigned)rng_below(r, 5), panels ? "k,n,y,x,c,r,s par=1" : "n,y,x,k,c,r,s par=2",
		 panels && rng_below(r, 2) ? " prefetch=1" : "");
	return (double)k * h * w * c * taps * taps / 4;
}

/* A core that executes in order gets no more instructions than another one, and at least the multiply-adds.
 */
TEST(a_loop_of_several_steps)
{
	NEEDS_LLVM;
	const struct predict_cpu in_order = arm("rpi3"), other = arm("rpi4");
	const char *n = getenv("SEEDS");
	const uint64_t seeds = n ? strtoull(n, NULL, 0) : 12;
	int tried = 0, fewer = 0;
	for (uint64_t seed = 1; seed <= seeds && !test_bad; seed++) {
		struct rng r;
		struct task t;
		struct predict_work one, two;
		char text[1024], cand[CAND_MAX];
		rng_seed(&r, seed);
		double macs = draw_piped(&r, text, cand);
		REQUIRE_OK(task_parse(text, &t));
		int rc = predict_work(&t, cand, &in_order, folder(), &one);
		if (rc == E_INFEASIBLE)
			continue;
		CHECK_OK(rc);
		CHECK_OK(predict_work(&t, cand, &other, folder(), &two));
		tried++;
		fewer += one.instructions < .95 * two.instructions; /* as such a loop loads nothing twice */
		if (one.unmatched || one.instructions < macs || one.instructions > 1.2 * two.instructions) {
			printf("seed %llu: %.0f instructions, %.0f of another core, %.0f multiply-adds, %d "
			       "loops are "
			       "not found: %s\n%s",
			       (unsigned long long)seed, one.instructions, two.instructions, macs,
			       one.unmatched, cand, text);
			test_bad = 1;
		}
	}
	CHECK(test_bad || ((uint64_t)tried > seeds / 3 && (2 * fewer > tried)));
}

TEST(what_cannot_be_predicted_says_why)
{
	NEEDS_LLVM;
	struct predict_cpu cpu = x86();
	struct task t;
	struct predict_work w;
	CHECK_OK(task_parse(task_matmul, &t));
	CHECK_FAILS(predict_work(&t, "lane=n:8", &cpu, folder(), &w), E_INFEASIBLE, "8");
	snprintf(cpu.model, sizeof cpu.model, "no-such-cpu");
	CHECK_FAILS(predict_work(&t, "lane=n:4", &cpu, folder(), &w), E_IO, "llvm-mca-19");
}

TEST_MAIN
