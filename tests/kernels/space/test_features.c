/* SPDX-License-Identifier: Apache-2.0 */
/* Features are finite and of order 1 for random candidates, the draft's own time is first, and each feature
 * measures what its name says. */
#include "kernels/space/features.h"
#include "kernels/space/space_rules.h"
#include "tests/lib/kernel_cases.h"
#include "tests/lib/tasks.h"

#include <math.h>

static struct space *space_of(struct arena *a, const char *text, int threads)
{
	struct target tg = case_board(16, 32);
	struct space *s = NULL;
	struct task *t = ARENA_NEW(a, struct task);
	const struct space_want want = {.threads = threads};
	CHECK_OK(task_parse(text, t));
	CHECK_OK(space_make(a, t, &tg, &want, &s));
	return s;
}

static void check_order(const struct space *s, const char *cand)
{
	float f[FEATURES];
	space_features(s, cand, f);
	CHECK(fabs(exp((double)f[FEATURE_DRAFT]) / space_draft(s, cand) - 1) < 1e-4);
	for (int i = FEATURE_DRAFT + 1; i < FEATURES; i++) {
		if (!isfinite(f[i]) || fabsf(f[i]) > 4.5f)
			printf("feature %d is %g: %s\n", i, (double)f[i], cand);
		CHECK(isfinite(f[i]) && fabsf(f[i]) <= 4.5f);
	}
}

TEST(finite_and_of_order_1)
{
	const struct target tg[] = {
	    case_board(16, 32), case_board(8, 16), case_board(4, 32), {.isa = "sim", .lanes = 1}};
	for (uint64_t seed = 1; seed <= 200 && !test_bad; seed++) {
		struct arena a = {0};
		struct buf text = {0};
		struct task *t = ARENA_NEW(&a, struct task);
		struct space *s = NULL;
		struct rng r;
		const struct space_want want = {.threads = (int)(seed % 3) * 2};
		char cand[CAND_MAX];
		rng_seed(&r, seed);
		case_text(&text, &r);
		CHECK_OK(task_parse(buf_str(&text), t));
		CHECK_OK(space_make(&a, t, &tg[seed % 4], &want, &s));
		REQUIRE(s);
		space_default(s, cand);
		check_order(s, cand);
		for (int i = 0; i < 20; i++) {
			CHECK_OK(space_random(s, &r, cand));
			check_order(s, cand);
		}
		buf_free(&text);
		arena_free(&a);
	}
}

TEST(nonsense_is_zero)
{
	struct arena a = {0};
	float f[FEATURES];
	const struct space *s = space_of(&a, task_conv, 1);
	static const char *const bad[] = {"", "lane", "lane=q:4", "tile=k:999999999999", " | ", "; ; ;"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		memset(f, 7, sizeof f);
		if (space_legal(s, bad[i]) >= 0)
			continue;
		space_features(s, bad[i], f);
		for (int k = 0; k < FEATURES && i > 0; k++)
			CHECK(isfinite(f[k]));
	}
	space_features(s, "lane=q:4", f);
	for (int k = 0; k < FEATURES; k++)
		CHECK(f[k] == 0);
	arena_free(&a);
}

/* The feature of one schedule minus that of another. */
static float step(const struct space *s, enum feature k, const char *more, const char *less)
{
	float f[FEATURES], g[FEATURES];
	CHECK_OK(space_legal(s, more));
	CHECK_OK(space_legal(s, less));
	space_features(s, more, f);
	space_features(s, less, g);
	return f[k] - g[k];
}

static const char conv[] = "task syms=0\n"
			   "operand X in f32 [1,64,30,30] 0.1/16.2.3.1;2+1+1;3+1+1\n"
			   "operand W const f32 [64,64,3,3] plain\n"
			   "operand Y out f32 [1,64,28,28] 0.1/16.2.3.1\n"
			   "stage n:1 k:64 y:28 x:28 | c:64 r:3 s:3\n"
			   "read X [n,c,y+r,x+s]\n"
			   "read W [k,c,r,s]\n"
			   "body r0 r1 mul\n"
			   "sum\n"
			   "write Y [n,k,y,x]\n";

TEST(each_says_what_it_is_named_after)
{
	struct arena a = {0};
	const struct space *s = space_of(&a, conv, 1), *four = space_of(&a, conv, 4);
	const char *base = "lane=k:16 tile=k:2,x:14 par=2";
	REQUIRE(!test_bad);
	CHECK(step(s, FEATURE_VECTORS, base, "lane=k:16 tile=x:14 par=2") > 0);
	CHECK(step(s, FEATURE_POINTS, base, "lane=k:16 tile=k:2,x:7 par=2") > 0);
	CHECK(step(s, FEATURE_LIVE, base, "lane=k:16 tile=k:2,x:7 par=2") > 0);
	CHECK(step(s, FEATURE_EXCESS, "lane=k:16 tile=k:4,x:14 par=2", base) > 1);
	CHECK(step(s, FEATURE_SPILL, "lane=k:16 tile=k:4,x:14 par=2", base) > 0);
	CHECK(step(s, FEATURE_UNROLL, "lane=k:16 tile=k:2,x:14 unroll=c:4 par=2", base) > 0);
	CHECK(step(s, FEATURE_TAIL, "lane=k:16 tile=k:2,x:13 par=2", base) > 0);
	CHECK(step(s, FEATURE_LATENCY, "lane=k:16 tile=x:2 par=2", base) > 0);
	CHECK(step(s, FEATURE_SCALAR, "par=2", base) == 1);
	CHECK(step(s, FEATURE_BLOCK, "lane=k:16 tile=k:2,x:14 par=2 outer=y | block=y:7", base) > 0);
	CHECK(step(s, FEATURE_BLOCKS, "lane=k:16 tile=k:2,x:14 par=2 outer=y | block=y:7", base) > 0);
	CHECK(step(s, FEATURE_INNER, "lane=k:16 tile=k:2,x:14 order=n,y,x,k,c,r,s par=2", base) == 1);
	CHECK(step(s, FEATURE_ORDER, "lane=k:16 tile=k:2,x:14 order=n,k,y,x,r,s,c par=2", base) == 1);
	CHECK(step(s, FEATURE_NARROW, "lane=k:8 tile=k:2,x:14 par=2", base) == .25f);
	CHECK(step(s, FEATURE_ROWS, "lane=k:16 tile=y:2,x:7 par=2", base) == .5f);
	CHECK(fabsf(step(s, FEATURE_RAGGED, "lane=k:16 tile=k:2,x:13 par=2", base) - 1 / 3.f) < 1e-6f);
	CHECK(step(s, FEATURE_TILES, "lane=k:16 tile=k:2,x:7 par=2", base) == 1 / 16.f);
	CHECK(step(s, FEATURE_TRIPS, "lane=k:16 tile=k:2,x:14 order=n,k,y,x,r,s,c par=2", base) > 0);
	CHECK(step(s, FEATURE_NEST, base, "lane=k:16 tile=k:2,x:14 unroll=s:3 par=2") == .25f);
	CHECK(step(s, FEATURE_STRIDE, base, "lane=k:16 tile=k:2,x:14 order=n,k,y,x,r,s,c par=2") > 0);
	CHECK(step(s, FEATURE_INDEXES, "lane=k:16 tile=k:2,x:14 par=3", base) > 0);
	CHECK(step(four, FEATURE_THREADS, "lane=k:16 tile=k:2,x:14 par=2", "lane=k:16 tile=x:14 par=2") > 0);
	arena_free(&a);
}

/* Rows of the left matrix are 4 KB apart: 14 points of a tile all fall into one set of the L1. */
TEST(operands_that_share_a_set)
{
	static const char product[] = "task syms=0\n"
				      "operand A in f32 [64,1024] plain\n"
				      "operand B const f32 [1024,64] plain\n"
				      "operand C out f32 [64,64] plain\n"
				      "stage m:64 n:64 | k:1024\n"
				      "read A [m,k]\nread B [k,n]\nbody r0 r1 mul\nsum\nwrite C [m,n]\n";
	struct arena a = {0};
	const struct space *s = space_of(&a, product, 1);
	REQUIRE(!test_bad);
	CHECK(fabsf(step(s, FEATURE_ALIAS, "lane=n:16 tile=m:14,n:2", "lane=n:16 tile=n:2") - log2f(14) / 4) <
	      1e-6f);
	arena_free(&a);
}

/* Terms are shares: their sum is about 1, and more because overlapping terms count too. */
TEST(terms_make_up_the_whole)
{
	struct arena a = {0};
	struct rng r;
	const struct space *s = space_of(&a, conv, 1);
	rng_seed(&r, 3);
	for (int i = 0; i < 200 && !test_bad; i++) {
		char cand[CAND_MAX];
		float f[FEATURES], sum = 0;
		CHECK_OK(space_random(s, &r, cand));
		space_features(s, cand, f);
		for (int k = FEATURE_ISSUE; k < FEATURE_ISSUE + DRAFT_TERMS; k++)
			sum += f[k];
		CHECK(sum > .9f);
		CHECK(f[FEATURE_ISSUE] <= 1.01f);
	}
	arena_free(&a);
}

TEST_MAIN
