/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules that store weights as f16: where they are allowed, what they make, and that they pay. */
#include "kernels/space/draft.h"
#include "kernels/space/relax.h"
#include "kernels/space/transfer.h"
#include "tests/lib/kernel_cases.h"

static const char vector[] =
    "task syms=0\noperand X in f32 [1,2048] plain\noperand W const f32 [2048,2048] plain\n"
    "operand B const f32 [2048] plain\noperand Y out f32 [1,2048] plain\nstage m:1 n:2048 | k:2048\n"
    "read X [m,k]\nread W [n,k]\nread B [n]\nbody r0 r1 mul\nsum\npost acc r2 add\nwrite Y [m,n]\n";
static const char conv[] =
    "task syms=0\noperand X in f32 [1,512,9,9] 0.1/16.2.3.1\noperand W const f32 [512,512,3,3] plain\n"
    "operand Y out f32 [1,512,7,7] 0.1/16.2.3.1\nstage n:1 k:512 y:7 x:7 | c:512 r:3 s:3\n"
    "read X [n,c,y+r,x+s]\nread W [k,c,r,s]\nbody r0 r1 mul\nsum\nwrite Y [n,k,y,x]\n";
/* W is read twice; S has no sum */
static const char none[] =
    "task syms=0\noperand X in f32 [8,64] plain\noperand W const f32 [64,64] plain\n"
    "operand S const f32 [64] plain\noperand Y out f32 [8,64] plain\nstage m:8 n:64 | k:64\n"
    "read X [m,k]\nread W [n,k]\nread W [k,n]\nread S [n]\nbody r0 r1 mul r2 mul\nsum\n"
    "post acc r3 mul\nwrite Y [m,n]\n";

static struct space *open_space(struct arena *a, const char *text, const struct target *tg, enum level level)
{
	const struct space_want want = {.level = level};
	struct task *t = ARENA_NEW(a, struct task);
	struct space *s = NULL;
	CHECK_OK(task_parse(text, t));
	CHECK_OK(space_make(a, t, tg, &want, &s));
	return s;
}

TEST(only_at_its_level)
{
	struct arena a = {0};
	const struct target tg = case_board(16, 32);
	static const char *const texts[] = {vector, conv};
	for (int i = 0; i < 2; i++) {
		char cand[CAND_MAX];
		struct space *low = open_space(&a, texts[i], &tg, LEVEL_FP32),
			     *high = open_space(&a, texts[i], &tg, LEVEL_W16);
		int n = case_drawn(high, 7, 200, "w16=1"), at = 0, stored = 0;
		CHECK(n > 40 && n < 160);
		CHECK(case_drawn(low, 7, 200, "w16=1") == 0);
		while (space_portfolio(high, &at, cand) >= 0) {
			CHECK_OK(space_legal(high, cand));
			if (!strstr(cand, "w16=1"))
				continue;
			stored++;
			CHECK_FAILS(space_legal(low, cand), E_INFEASIBLE, "not allowed at level fp32");
		}
		CHECK(stored == (i ? 3 : 1)); /* direct; F(4,3) and F(2,3) */
		at = 0;
		while (space_portfolio(low, &at, cand) >= 0)
			CHECK(!strstr(cand, "w16"));
		/* the default is the same */
		char standard[CAND_MAX];
		space_default(low, standard);
		space_default(high, cand);
		CHECK(!strcmp(cand, standard) && !strstr(cand, "w16"));
	}
	arena_free(&a);
}

/* Boards that convert in several instructions gain nothing. */
TEST(only_where_it_is_converted)
{
	static const struct {
		const char *isa;
		bool has;
	} of[] = {{"x86-64-v2", false}, {"x86-64-v3", true},   {"x86-64-v4", true},
		  {"armv8-a", true},    {"armv7-neon", false}, {"opencl", true}};
	struct arena a = {0};
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		struct target tg = case_gpu();
		if (strcmp(of[i].isa, "opencl"))
			REQUIRE_OK(target_baseline(of[i].isa, &tg));
		struct space *s = open_space(&a, vector, &tg, LEVEL_W16);
		CHECK((case_drawn(s, 7, 60, "w16=1") > 0) == of[i].has);
		CHECK(target_converts_f16(&tg) == of[i].has);
		int rc = space_legal(s, "lane=n:4 w16=1");
		CHECK(of[i].has ? rc >= 0 : rc == E_INFEASIBLE && strstr(err_text(), "does not convert"));
	}
	arena_free(&a);
}

TEST(only_weights)
{
	struct arena a = {0};
	const struct target tg = case_board(16, 32);
	struct space *s = open_space(&a, none, &tg, LEVEL_W16), *v = open_space(&a, vector, &tg, LEVEL_W16);
	CHECK(case_drawn(s, 7, 60, "w16=1") == 0);
	CHECK_FAILS(space_legal(s, "lane=n:16 w16=1"), E_INFEASIBLE, "no packed weights");
	CHECK_FAILS(space_legal(v, "lane=k:16 order=m,n,k w16=1"), E_CORRUPT, "canonical");
	CHECK_FAILS(space_legal(v, "lane=k:16 w16=1"), E_INFEASIBLE, "no packed weights");
	CHECK_FAILS(space_legal(v, "lane=n:16 w16=0"), E_CORRUPT, "");
	CHECK_FAILS(space_legal(v, "lane=n:16 w16=2"), E_CORRUPT, "");
	const struct task *t = space_task(v);
	CHECK(!task_stores(t, 0) && task_stores(t, 1) && !task_stores(t, 2) && !task_stores(t, 3));
	for (int i = 0; i < 4; i++)
		CHECK(!task_stores(space_task(s), i));
	arena_free(&a);
}

/* The kernel's buffer and its packing are of f16, with half of the bytes. */
TEST(what_it_makes)
{
	struct arena a = {0};
	const struct target tg = case_board(16, 32);
	static const char *const cands[] = {"lane=n:16 w16=1",
					    "lane=k:16 winograd=4 tiles=4 gemm=4x2 chunk=2 w16=1",
					    "lane=k:16 winograd=2 tiles=4 gemm=2x1 chunk=1 raw=4 w16=1"};
	for (int i = 0; i < 3; i++) {
		struct loops *l;
		struct manifest m;
		struct space *s = open_space(&a, i ? conv : vector, &tg, LEVEL_W16);
		REQUIRE_OK(lower(space_task(s), cands[i], &tg, &a, &l, &m));
		CHECK_OK(loops_check(l));
		CHECK(m.buf[1].operand == 1 && m.buf[1].packed && m.buf[1].packing.f16);
		CHECK(l->buf[1].dtype == DT_F16 && m.buf[1].packing.winograd.m == (i == 1 ? 4 : 0));
		CHECK(l->buf[0].dtype == DT_F32 && !m.buf[2].packing.f16);
	}
	arena_free(&a);
}

/* Weights that come from memory take half as long, also by the smooth draft; those of a vector even less, as
 * large panels are drafted as slower. */
TEST(the_draft_counts_bytes)
{
	struct arena a = {0};
	struct target tg = case_board(16, 32);
	tg.fma_gflops = 200;
	tg.bw_gbs[0] = 400, tg.bw_gbs[1] = 200, tg.bw_gbs[2] = 40, tg.bw_gbs[3] = 10;
	static const char *const cands[2][2] = {
	    {"lane=n:16 tile=n:4 unroll=k:2 par=2 prefetch=1",
	     "lane=n:16 tile=n:4 unroll=k:2 par=2 prefetch=1 w16=1"},
	    {"lane=k:16 winograd=4 tiles=4 gemm=4x2 chunk=2 prefetch=1",
	     "lane=k:16 winograd=4 tiles=4 gemm=4x2 chunk=2 prefetch=1 w16=1"}};
	for (int i = 0; i < 2; i++) {
		struct space *s = open_space(&a, i ? conv : vector, &tg, LEVEL_W16),
			     *low = open_space(&a, i ? conv : vector, &tg, LEVEL_FP32);
		double cost[2], smooth[2];
		for (int k = 0; k < 2; k++) {
			struct relax *r = relax_new(&a);
			double x[RELAX_MAX];
			cost[k] = space_draft(s, cands[i][k]);
			REQUIRE_OK(relax_sketch(r, s, cands[i][k]));
			relax_start(r, x);
			smooth[k] = exp(relax_cost(r, x, NULL));
		}
		CHECK(cost[0] / cost[1] > 1.6 && cost[0] / cost[1] < 4.1);
		CHECK(smooth[0] / smooth[1] > 1.6 && smooth[0] / smooth[1] < 4.1);
		CHECK(i || space_roofline(low) / space_roofline(s) > 1.9);
	}
	arena_free(&a);
}

/* A winner goes to similar tasks; one whose weights cannot be stored so gets the rest of it. */
TEST(transfer)
{
	struct arena a = {0};
	const struct target tg = case_board(16, 32);
	char out[CAND_MAX];
	struct space *s = open_space(&a, vector, &tg, LEVEL_W16),
		     *low = open_space(&a, vector, &tg, LEVEL_FP32);
	REQUIRE_OK(space_transfer(s, space_task(s), 0, "lane=n:16 w16=1", out));
	CHECK(!strcmp(out, "lane=n:16 w16=1"));
	REQUIRE_OK(space_transfer(low, space_task(s), 0, "lane=n:16 w16=1", out));
	CHECK(!strcmp(out, "lane=n:16"));
	arena_free(&a);
}

/* A space transfers schedules of pairs within its level, and refuses them at other levels and targets. */
TEST(transfer_of_pairs)
{
	struct arena a = {0};
	struct target tg = case_board(16, 32);
	char cand[CAND_MAX], out[CAND_MAX];
	strcpy(tg.features, "+avx512bf16");
	const struct target without = case_board(16, 32);
	struct space *s = open_space(&a, vector, &tg, LEVEL_HALF),
		     *low = open_space(&a, vector, &tg, LEVEL_W16),
		     *other = open_space(&a, vector, &without, LEVEL_HALF);
	int at = 0;
	REQUIRE_OK(space_portfolio(s, &at, cand));
	CHECK(cand_pairs(cand) && space_legal(s, cand) >= 0);
	REQUIRE_OK(space_transfer(s, space_task(s), 0, cand, out));
	CHECK(!strcmp(out, cand));
	CHECK_FAILS(space_transfer(low, space_task(s), 0, cand, out), E_INFEASIBLE, "bf16");
	CHECK_FAILS(space_legal(low, cand), E_INFEASIBLE, "not allowed at level w16");
	CHECK_FAILS(space_legal(other, cand), E_INFEASIBLE, "bf16: no stage");
	CHECK(space_draft(s, cand) < 1e29 && space_draft(other, cand) > 1e29);
	space_default(s, out);
	CHECK(!cand_pairs(out)); /* the default is that of all levels */
	arena_free(&a);
}

/* Level half-sum has schedules of f16 where the target adds f16, and elsewhere those of level half. */
TEST(sums_in_f16_at_their_level)
{
	struct arena a = {0};
	struct target tg, with = case_board(4, 32);
	static const char *const isas[] = {"x86-64-v4", "armv8-a", "armv7-neon"};
	static const char *const texts[] = {vector, conv};
	strcpy(with.isa, "armv8-a");
	strcpy(with.features, "+fullfp16");
	for (int i = 0; i < 2; i++) {
		char cand[CAND_MAX], standard[CAND_MAX], out[CAND_MAX];
		struct rng r;
		int at = 0, halves = 0;
		struct space *s = open_space(&a, texts[i], &with, LEVEL_HALF_SUM),
			     *half = open_space(&a, texts[i], &with, LEVEL_HALF);
		rng_seed(&r, 3);
		space_default(half, standard);
		space_default(s, cand);
		CHECK(!strcmp(cand, standard)); /* the default is that of all levels */
		REQUIRE_OK(space_portfolio(s, &at, cand));
		CHECK(cand_pairs(cand) == DT_F16 && space_legal(s, cand) >= 0);
		CHECK(space_draft(s, cand) < space_draft(s, standard));
		CHECK(space_rate(space_task(s), &with, cand) == 2);
		CHECK_FAILS(space_legal(half, cand), E_INFEASIBLE, "f16: not allowed at level half");
		REQUIRE_OK(space_transfer(s, space_task(s), 0, cand, out));
		CHECK(!strcmp(out, cand));
		CHECK_FAILS(space_transfer(half, space_task(s), 0, cand, out), E_INFEASIBLE, "f16: not in");
		if (!i) {
			CHECK_OK(space_legal(s, "f16; lane=d1:4; lane=n:4 unroll=k:72"));
			CHECK_FAILS(space_legal(s, "f16; lane=d1:4; lane=n:4 unroll=k:73"), E_INFEASIBLE,
				    "a body has 73 steps");
		}
		for (int n = 0; n < 200; n++) {
			REQUIRE_OK(n % 2 ? space_random(s, &r, out) : space_mutate(s, &r, cand, out));
			CHECK_OK(space_legal(s, out));
			halves += cand_pairs(out) == DT_F16;
		}
		CHECK(halves > 100 && halves < 200);
		for (size_t k = 0; k < sizeof isas / sizeof *isas; k++) {
			REQUIRE_OK(target_baseline(isas[k], &tg));
			s = open_space(&a, texts[i], &tg, LEVEL_HALF_SUM);
			CHECK_FAILS(space_legal(s, cand), E_INFEASIBLE, "f16: no stage");
			for (int n = 0; n < 60; n++) {
				REQUIRE_OK(space_random(s, &r, out));
				CHECK(!cand_pairs(out));
			}
			struct loops *l;
			struct manifest m;
			CHECK_FAILS(lower(space_task(s), cand, &tg, &a, &l, &m), E_INFEASIBLE,
				    "has no arithmetic in f16");
		}
		/* A target that multiplies bf16 does so at level half-sum, too. */
		tg = case_board(16, 32);
		strcpy(tg.features, "+avx512bf16");
		s = open_space(&a, texts[i], &tg, LEVEL_HALF_SUM);
		at = 0;
		REQUIRE_OK(space_portfolio(s, &at, out));
		CHECK(cand_pairs(out) == DT_BF16);
		CHECK_FAILS(space_legal(s, cand), E_INFEASIBLE, "f16: no stage");
	}
	arena_free(&a);
}

TEST_MAIN
