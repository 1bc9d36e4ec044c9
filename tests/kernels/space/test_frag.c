/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules with fragments: what sched_check refuses and why, where they are drawn, and kernels that lack a
 * barrier or a wait. */
#include "kernels/loops/lower.h"
#include "kernels/space/features.h"
#include "kernels/space/frag.h"
#include "kernels/space/relax.h"
#include "kernels/space/transfer.h"
#include "tests/lib/ptx_cases.h"
#include "tests/lib/test.h"

#include <math.h>

static const char product[] =
    "task syms=0\noperand X in f32 [100,64] plain\noperand W const f32 [64,72] plain\noperand Y out f32 "
    "[100,72] plain\nstage m:100 n:72 | k:64\nread X [m,k]\nread W [k,n]\nbody r0 r1 mul\nsum\nwrite Y "
    "[m,n]\n";
/* Channels that do not lie side by side in fours. */
static const char apart[] =
    "task syms=0\noperand X in f32 [1,64,5,6] 0.1/2.2.3.1\noperand W const f32 [32,64] plain\noperand Y out "
    "f32 [1,32,5,6] plain\nstage k:32 y:5 x:6 | c:64\nread X [0,c,y,x]\nread W [k,c]\nbody r0 r1 mul\nsum\n"
    "write Y [0,k,y,x]\n";
/* A constant for each group of channels. */
static const char groups[] =
    "task syms=0\noperand X in f32 [1,5,6,64] plain\noperand W const f32 [64,32] plain\noperand Y out "
    "f32 [1,5,6,64] plain\nstage g:2 k:32 y:5 x:6 | c:32\nread X [0,y,x,32*g+c]\nread W [32*g+k,c]\nbody r0 "
    "r1 "
    "mul\nsum\nwrite Y [0,y,x,32*g+k]\n";

/* Products of bytes, and a sum whose padding is no zero. */
static const char bytes[] =
    "task syms=0\noperand X in u8 [100,64] plain\noperand W const i8 [72,64] plain\noperand Y out i8 "
    "[100,72] plain\nstage m:100 n:72 | k:64\nread X [m,k]\nread W [n,k]\nbody r0 r1 mul\nsum\n"
    "post acc 0.00100000005 mul rint\nwrite Y [m,n]\n";
static const char padded[] =
    "task syms=0\noperand X in u8 [1,32,6,7] 0.2.3.1 fill=9\noperand W const i8 [40,32,3,3] plain\n"
    "operand Y out u8 [1,40,6,7] 0.2.3.1\nstage k:40 y:6 x:7 | c:32 r:3 s:3\nread X [0,c,y+r-1,x+s-1]\n"
    "read W [k,c,r,s]\nbody r0 r1 mul\nsum\npost acc 0.00100000005 mul rint 3 add\nwrite Y [0,k,y,x]\n";

/* Of two inputs, with more points of k than whole steps. */
static const char heads[] =
    "task syms=0\noperand A in i8 [2,40,40] plain\noperand B in u8 [2,40,32] plain\noperand Y out i32 "
    "[2,40,32] plain\nstage h:2 m:40 n:32 | k:40\nread A [h,m,k]\nread B [h,k,n]\nbody r0 r1 mul\nsum\n"
    "write Y [h,m,n]\n";

/* The same in another order, of which the sum of f32 would be exact. */
static const char scores[] =
    "task syms=0\noperand A in i8 [40,2,56] plain\noperand B in i8 [2,64,56] plain\noperand Y out i32 "
    "[2,40,64] plain\nstage h:2 m:40 n:64 | k:56\nread A [m,h,k]\nread B [h,n,k]\nbody r0 r1 mul\nsum\n"
    "write Y [h,m,n]\n";

static const char floats[] =
    "task syms=0\noperand A in f32 [2,40,64] plain\noperand B in f32 [2,40,64] plain\noperand Y out f32 "
    "[2,40,40] plain\nstage h:2 m:40 n:40 | k:64\nread A [h,m,k]\nread B [h,n,k]\nbody r0 r1 mul\nsum\n"
    "post acc 0.125 mul\nwrite Y [h,m,n]\n";

static const char across[] =
    "task syms=0\noperand A in f32 [2,40,64] plain\noperand B in f32 [2,64,40] plain\noperand Y out f32 "
    "[2,40,40] plain\nstage h:2 m:40 n:40 | k:64\nread A [h,m,k]\nread B [h,k,n]\nbody r0 r1 mul\nsum\n"
    "write Y [h,m,n]\n";

/* Sums of which two parts are over 16 MB. */
static const char wide[] =
    "task syms=0\noperand X in f32 [2048,64] plain\noperand W const f32 [64,2048] plain\noperand Y out f32 "
    "[2048,2048] plain\nstage m:2048 n:2048 | k:64\nread X [m,k]\nread W [k,n]\nbody r0 r1 mul\nsum\n"
    "write Y [m,n]\n";

/* Few points and long sums, as networks have them at the end: of 7 x 7 points, and of one. */
static const char last_conv[] =
    "task syms=0\noperand X in f32 [1,7,7,512] plain\noperand W const f32 [512,512,3,3] plain\n"
    "operand B const f32 [512] plain\noperand Y out f32 [1,7,7,512] plain\nstage y:7 x:7 k:512 | r:3 s:3 "
    "c:512\nread X [0,y+r-1,x+s-1,c]\nread W [k,c,r,s]\nread B [k]\nbody r0 r1 mul\nsum\n"
    "post acc r2 add 0 max\nwrite Y [0,y,x,k]\n";
static const char last_product[] =
    "task syms=0\noperand X in f32 [1,2048] plain\noperand W const f32 [2048,1000] plain\noperand Y out f32 "
    "[1,1000] plain\nstage m:1 n:1000 | k:2048\nread X [m,k]\nread W [k,n]\nbody r0 r1 mul\nsum\n"
    "write Y [m,n]\n";

/* The reason for which a candidate is refused; "": it is not. */
static const char *verdict(const char *text, const char *cand, const struct target *tg)
{
	static char why[512];
	struct arena a = {0};
	struct task *t = ARENA_NEW(&a, struct task);
	struct sched s;
	snprintf(why, sizeof why, "no task");
	if (task_parse(text, t) >= 0) {
		const struct task *view = task_view(&a, t, cand);
		int rc = sched_parse(view, cand, &s);
		if (rc >= 0)
			rc = sched_check(view, tg, &s);
		snprintf(why, sizeof why, "%s", rc < 0 ? err_text() : "");
	}
	arena_free(&a);
	return why;
}

/* Schedules, and why sched_check refuses them. */
static const struct {
	const char *text, *cand, *cpu, *why; /* why NULL: accepted */
} verdicts[] = {
    {product, "f16; ; fragrows=2 fragcols=2 warprows=2 warpcols=1 fragk=2", "sm_72", NULL},
    {product, "bf16; ; fragrows=2 fragcols=2 warprows=2 warpcols=1 fragk=2", "sm_80", NULL},
    {product, "bf16; ; fragrows=2 fragcols=2 warprows=2 warpcols=1 fragk=2", "sm_75", "none of bf16"},
    {product, "fragrows=2 fragcols=2 warprows=2 warpcols=1 fragk=2", "sm_80", "no product"},
    {product, "bf16; ; tile=m:2", "sm_80", "fragments alone"},
    {product, "f16; ; fragrows=2 fragcols=2 warprows=2 warpcols=1", "sm_72", "not 1 to"},
    {product, "f16; ; fragrows=2", "sm_72", "not 1 to"},
    {product, "f16; ; fragrows=8 fragcols=4 warprows=1 warpcols=1 fragk=1", "sm_72", "not 1 to"},
    {product, "f16; ; fragrows=1 fragcols=1 warprows=8 warpcols=4 fragk=1", "sm_72", "not 1 to"},
    {product, "f16; ; fragrows=1 fragcols=1 warprows=1 warpcols=1 fragk=3", "sm_72", "in steps of 48"},
    {product, "f16; ; fragrows=1 fragcols=4 warprows=1 warpcols=4 fragk=1", "sm_72", "outside"},
    {product, "f16; ; fragrows=1 fragcols=8 warprows=1 warpcols=6 fragk=1", "sm_75", "shared buffers"},
    {product, "f16; ; tile=m:2 fragrows=1 fragcols=1 warprows=1 warpcols=1 fragk=1", "sm_72", "other keys"},
    {product, "f16; lane=d1:4; fragrows=1 fragcols=1 warprows=1 warpcols=1 fragk=1", "sm_72", "other keys"},
    {product, "f16; fragk=1; fragrows=1 fragcols=1 warprows=1 warpcols=1 fragk=1", "sm_72", "other keys"},
    {product, "f16; ; fragrows=1 fragcols=1 warprows=1 warpcols=1 fragk=1 fragring=3", "sm_72", NULL},
    {product, "f16; ; fragrows=1 fragcols=1 warprows=1 warpcols=1 fragk=2 fragring=3", "sm_72", "of 2 with"},
    {product, "f16; ; fragrows=4 fragcols=1 warprows=2 warpcols=1 fragk=4 fragring=2", "sm_72",
     "a ring of 2"},
    {product, "f16; ; fragring=2", "sm_72", "not 1 to"},
    {product, "f16; ; fragrows=4 fragcols=4 warprows=2 warpcols=6 fragk=1", "sm_72", "registers each"},
    {floats, "f16; fragrows=1 fragcols=2 warprows=1 warpcols=1 fragk=2 fragring=2", "sm_72", NULL},
    {floats, "f16; tile=m:2", "sm_90", "fragments alone"},
    {floats, "bf16; fragrows=1 fragcols=1 warprows=1 warpcols=1 fragk=1", "sm_90", NULL},
    {floats, "bf16; fragrows=1 fragcols=1 warprows=1 warpcols=1 fragk=1", "sm_75", "none of bf16"},
    {floats, "bf16; tile=m:2", "sm_90", "fragments alone"},
    {product, "tf32; fragrows=2 fragcols=2 warprows=2 warpcols=1 fragk=2 fragring=2", "sm_80", NULL},
    {product, "tf32; fragrows=2 fragcols=2 warprows=2 warpcols=1 fragk=2", "sm_75", "none of tf32"},
    {product, "tf32; fragrows=2 fragcols=2 warprows=2 warpcols=1 fragk=2", "sm_72", "none of tf32"},
    {product, "tf32; fragrows=1 fragcols=1 warprows=1 warpcols=1 fragk=3", "sm_80", "in steps of 48"},
    {product, "tf32; tile=m:2", "sm_90", "fragments alone"},
    {product, "tf32; tile=m:2 fragrows=1 fragcols=1 warprows=1 warpcols=1 fragk=1", "sm_80", "other keys"},
    {floats, "tf32; fragrows=1 fragcols=2 warprows=1 warpcols=1 fragk=2 fragring=3", "sm_87", "ring of 3"},
    {floats, "tf32; fragrows=1 fragcols=2 warprows=1 warpcols=1 fragk=1 fragring=3", "sm_87", NULL},
    {apart, "tf32; fragrows=1 fragcols=1 warprows=1 warpcols=1 fragk=1", "sm_80", "no product"},
    {groups, "tf32; fragrows=1 fragcols=1 warprows=1 warpcols=1 fragk=1", "sm_80", NULL},
    {bytes, "tf32; fragrows=1 fragcols=1 warprows=1 warpcols=1 fragk=1", "sm_80", "\"tf32\" is unknown"},
    {bytes, "fragrows=1 fragcols=1 warprows=2 warpcols=1 fragk=2 fragring=2", "sm_72", NULL},
    {bytes, "fragrows=1 fragcols=1 warprows=2 warpcols=1 fragk=2 fragring=3", "sm_72", "a ring of 3"},
    {bytes, "fragrows=1 fragcols=1 warprows=1 warpcols=1 fragk=3", "sm_72", "in steps of 48"},
    {bytes, "fragrows=1 fragcols=1 warprows=1 warpcols=1 fragk=1", "sm_70", "none of u8"},
    {padded, "fragrows=2 fragcols=1 warprows=1 warpcols=1 fragk=2 fragring=3", "sm_72", NULL},
    {apart, "f16; ; fragrows=1 fragcols=1 warprows=1 warpcols=1 fragk=1", "sm_72", "side by side"},
    {groups, "f16; ; fragrows=1 fragcols=1 warprows=1 warpcols=1 fragk=1", "sm_72", NULL},
    {heads, "fragrows=1 fragcols=2 warprows=1 warpcols=1 fragk=2 fragring=2", "sm_72", NULL},
    /* Parts: of 64 products of k, which are 32 pairs of f16. */
    {product, "f16; ; split=k:16 spread=1 fragrows=2 fragcols=2 warprows=2 warpcols=1 fragk=1", "sm_72",
     NULL},
    {product, "f16; ; split=k:8 spread=1 blocks=2 fragrows=1 fragcols=2 warprows=2 warpcols=1 fragk=1",
     "sm_72", NULL},
    {product,
     "tf32; split=k:32 spread=1 fragrows=2 fragcols=2 warprows=2 warpcols=1 fragk=1 "
     "fragring=2",
     "sm_80", NULL},
    {heads, "split=k:16 spread=1 fragrows=1 fragcols=2 warprows=1 warpcols=1 fragk=1", "sm_72", NULL},
    {product, "f16; ; split=k:16 fragrows=2 fragcols=2 warprows=2 warpcols=1 fragk=1", "sm_72",
     "with spread=1"},
    {product, "f16; ; spread=1 fragrows=2 fragcols=2 warprows=2 warpcols=1 fragk=1", "sm_72",
     "spread without split"},
    {product, "f16; ; split=m:50 spread=1 fragrows=2 fragcols=2 warprows=2 warpcols=1 fragk=1", "sm_72",
     "the axis k"},
    {product, "f16; ; split=k:0 spread=1 fragrows=2 fragcols=2 warprows=2 warpcols=1 fragk=1", "sm_72",
     "the axis k"},
    {product, "f16; ; split=k:32 spread=1 fragrows=2 fragcols=2 warprows=2 warpcols=1 fragk=1", "sm_72",
     "1 parts of 4"},
    {product, "f16; ; split=k:12 spread=1 fragrows=2 fragcols=2 warprows=2 warpcols=1 fragk=1", "sm_72",
     "3 parts of 4"},
    {product, "f16; ; split=k:24 spread=1 fragrows=2 fragcols=2 warprows=2 warpcols=1 fragk=1", "sm_72",
     "split of 24 points, not 16"},
    {product, "f16; ; split=k:8 spread=1 fragrows=2 fragcols=2 warprows=2 warpcols=1 fragk=2", "sm_72",
     "4 parts of 2"},
    {last_product, "f16; ; split=k:8 spread=1 fragrows=1 fragcols=2 warprows=1 warpcols=1 fragk=1", "sm_72",
     "2 to 64 equal"},
    {last_product, "f16; ; split=k:16 spread=1 fragrows=1 fragcols=2 warprows=1 warpcols=1 fragk=1", "sm_72",
     NULL},
    {product,
     "f16; ; split=k:16 spread=1 fragrows=1 fragcols=1 warprows=1 warpcols=1 fragk=1 "
     "fragring=3",
     "sm_72", "3 steps, of 2 of a part"},
    {wide, "f16; ; split=k:16 spread=1 fragrows=2 fragcols=2 warprows=2 warpcols=1 fragk=1", "sm_72",
     "over 16 MB"},
    {wide, "f16; split=d1:16 spread=1; fragrows=2 fragcols=2 warprows=2 warpcols=1 fragk=1", "sm_72",
     "other keys"},
    {product, "f16; ; blocks=4 fragrows=2 fragcols=2 warprows=2 warpcols=2 fragk=1", "sm_90", NULL},
    {product, "f16; ; blocks=9 fragrows=2 fragcols=2 warprows=2 warpcols=2 fragk=1", "sm_90",
     "no room for 9 blocks of 128 threads"},
    {product, "f16; ; blocks=4 fragrows=4 fragcols=4 warprows=2 warpcols=2 fragk=1", "sm_90",
     "no room for 4 blocks of 128 threads with 168"},
    {wide, "f16; ; blocks=4 fragrows=2 fragcols=2 warprows=2 warpcols=2 fragk=4", "sm_90", NULL},
    {wide, "f16; ; blocks=4 fragrows=2 fragcols=2 warprows=2 warpcols=2 fragk=4", "sm_72",
     "bytes of shared buffers"},
    {product, "f16; blocks=2; fragrows=2 fragcols=2 warprows=2 warpcols=2 fragk=1", "sm_90", "other keys"}};

TEST(schedules_that_do_not_fit_are_refused)
{
	for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++) {
		struct target tg = ptx_target(verdicts[i].cpu);
		const char *why = verdict(verdicts[i].text, verdicts[i].cand, &tg);
		bool good = verdicts[i].why ? strstr(why, verdicts[i].why) != NULL : !*why;
		if (!good)
			printf("%s on %s: \"%s\"\n", verdicts[i].cand, verdicts[i].cpu, why);
		CHECK(good);
	}
	struct target small = ptx_target("sm_72"), other = case_gpu();
	small.group = 64;
	CHECK(strstr(verdict(product, "f16; ; fragrows=1 fragcols=1 warprows=2 warpcols=2 fragk=1", &small),
		     "128 threads"));
	CHECK(strstr(verdict(product, "f16; ; fragrows=1 fragcols=1 warprows=1 warpcols=1 fragk=1", &other),
		     "multiplies none"));
}

/* Drawn candidates with fragments that have parts, and blocks of a unit. */
static int drawn_parts, drawn_blocks;

/* How many of 200 drawn candidates have fragments and begin so. Each is legal, and so is what is made of it.
 */
static int drawn_of(const char *begin, const char *text, const struct target *tg, enum level level)
{
	struct arena a = {0};
	struct task *t = ARENA_NEW(&a, struct task);
	const struct space_want want = {.level = level};
	struct space *s;
	struct rng r;
	char cand[CAND_MAX], more[CAND_MAX], last[CAND_MAX] = "";
	float f[FEATURES];
	struct relax *relax = relax_new(&a);
	int n = 0;
	rng_seed(&r, 5);
	bool made = task_parse(text, t) >= 0 && space_make(&a, t, tg, &want, &s) >= 0;
	CHECK(made);
	for (int i = 0; i < 200 && made; i++) {
		CHECK_OK(space_random(s, &r, cand));
		CHECK_OK(space_legal(s, cand));
		if (!strstr(cand, "fragrows="))
			continue;
		n += !strncmp(cand, begin, strlen(begin));
		drawn_parts += strstr(cand, "spread=1 ") != NULL;
		drawn_blocks += strstr(cand, "blocks=") != NULL;
		CHECK(space_draft(s, cand) < 1e12);
		space_features(s, cand, f);
		for (int k = 0; k < FEATURES; k++)
			CHECK(isfinite(f[k]));
		CHECK(relax_sketch(relax, s, cand) == E_NOTFOUND);
		CHECK(space_transfer(s, t, 0, cand, more) >= 0 && !strcmp(more, cand));
		CHECK_OK(space_mutate(s, &r, cand, more));
		CHECK_OK(space_legal(s, more));
		CHECK(strstr(more, "fragrows=") && strcmp(more, cand) != 0);
		if (*last) {
			CHECK_OK(space_cross(s, &r, cand, last, more));
			CHECK_OK(space_legal(s, more));
		}
		strcpy(last, cand);
	}
	arena_free(&a);
	return n;
}

static int drawn(const char *text, const struct target *tg, enum level level)
{
	return drawn_of("", text, tg, level);
}

/* No level below half has TF32, nor any target before sm_80: not even if a text says so. */
TEST(tf32_is_refused_below_level_half)
{
	static const char *const cands[][2] = {
	    {product, "tf32; fragrows=2 fragcols=2 warprows=2 warpcols=1 fragk=2"},
	    {floats, "tf32; fragrows=1 fragcols=2 warprows=1 warpcols=1 fragk=2"}};
	for (int i = 0; i < 2 * PTX_CPUS; i++)
		for (int level = 0; level < LEVELS; level++) {
			struct arena a = {0};
			struct task *t = ARENA_NEW(&a, struct task);
			struct target tg = ptx_target(ptx_cpus[i / 2]);
			const struct space_want want = {.level = (enum level)level};
			bool loose = level == LEVEL_HALF || level == LEVEL_HALF_SUM;
			struct space *s;
			char cand[CAND_MAX];
			int n = 0;
			REQUIRE_OK(task_parse(cands[i % 2][0], t));
			REQUIRE_OK(space_make(&a, t, &tg, &want, &s));
			int rc = space_legal(s, cands[i % 2][1]);
			CHECK(rc == (loose && i / 2 >= 2 ? E_OK : E_INFEASIBLE));
			if (!loose)
				CHECK(strstr(err_text(), "tf32: not allowed at level"));
			for (int at = 0; space_portfolio(s, &at, cand) >= 0;)
				n += cand_pairs(cand) == DT_F32;
			CHECK(loose && i / 2 >= 2 ? n == 3 : !n);
			arena_free(&a);
		}
}

/* The same of two inputs as bf16. */
TEST(bf16_of_inputs_is_refused_below_level_half)
{
	for (int c = 0; c < PTX_CPUS; c++)
		for (int level = 0; level < LEVELS; level++) {
			struct arena a = {0};
			struct task *t = ARENA_NEW(&a, struct task);
			struct target tg = ptx_target(ptx_cpus[c]);
			const struct space_want want = {.level = (enum level)level};
			bool good = level == LEVEL_HALF && c >= 2; /* half-sum takes f16 */
			struct space *s;
			REQUIRE_OK(task_parse(floats, t));
			REQUIRE_OK(space_make(&a, t, &tg, &want, &s));
			int rc = space_legal(s, "bf16; fragrows=1 fragcols=2 warprows=1 warpcols=1 fragk=2");
			CHECK(rc == (good ? E_OK : E_INFEASIBLE));
			int n = drawn_of("bf16; ", floats, &tg, (enum level)level);
			CHECK(good ? n > 10 : n == 0);
			arena_free(&a);
		}
}

TEST(they_are_drawn_where_the_target_and_the_level_have_them)
{
	struct target gpu = ptx_target("sm_72"), other = case_gpu();
	strcpy(other.features, "+cl_khr_fp16");
	CHECK(drawn(product, &gpu, LEVEL_HALF_SUM) > 40 && drawn_parts > 10 && drawn_blocks > 10);
	drawn_parts = drawn_blocks = 0;
	CHECK(drawn(product, &gpu, LEVEL_HALF) == 0 && drawn(product, &gpu, LEVEL_FP32) == 0);
	CHECK(drawn(product, &other, LEVEL_HALF_SUM) == 0);
	CHECK(drawn(bytes, &gpu, LEVEL_EXACT) > 40 && drawn_parts > 10 && drawn_blocks > 10);
	CHECK(drawn(padded, &gpu, LEVEL_INT8) > 40);
	CHECK(drawn(bytes, &other, LEVEL_EXACT) == 0);
	CHECK(drawn(floats, &gpu, LEVEL_HALF_SUM) > 100 && drawn(floats, &gpu, LEVEL_HALF) == 0);
	static const char *const floating[] = {product, groups, floats};
	for (int c = 0; c < PTX_CPUS; c++)
		for (int t = 0; t < 3; t++)
			for (int level = 0; level < LEVELS; level++) {
				struct target tg = ptx_target(ptx_cpus[c]);
				bool loose = level == LEVEL_HALF || level == LEVEL_HALF_SUM;
				int n = drawn_of("tf32; ", floating[t], &tg, (enum level)level);
				CHECK(c >= 2 && loose ? n > 10 : n == 0);
			}
	CHECK(drawn(floats, &other, LEVEL_HALF_SUM) == 0 && drawn(heads, &gpu, LEVEL_EXACT) > 40);
	struct target late = ptx_target("sm_80");
	CHECK(drawn(product, &late, LEVEL_HALF) > 100 && drawn(product, &late, LEVEL_W16) == 0);
	CHECK(drawn(apart, &late, LEVEL_HALF) == 0);
	strcpy(late.features, "+ptx65"); /* has no bf16 */
	CHECK(drawn(product, &late, LEVEL_HALF) == 0 && drawn(product, &late, LEVEL_HALF_SUM) > 40);
	strcpy(gpu.features, "+ptx61");
	CHECK(drawn(bytes, &gpu, LEVEL_EXACT) == 0);
}

/* The roofline knows what fragments multiply in the time of one product of f32. */
TEST(rooflines_have_the_rates_of_fragments)
{
	static const struct {
		const char *text, *cand, *cpu;
		double rate;
	} rows[] = {{product, "f16; ", "sm_72", 8},  {product, "bf16; ", "sm_80", 16},
		    {product, "bf16; ", "sm_87", 8}, {floats, "bf16; ", "sm_90", 16},
		    {floats, "tf32; ", "sm_87", 4},  {floats, "tf32; ", "sm_90", 8},
		    {bytes, "", "sm_72", 16},        {heads, "", "sm_80", 32},
		    {product, "", "sm_90", 1},       {apart, "", "sm_90", 1},
		    {groups, "tf32; ", "sm_80", 8}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct arena a = {0};
		struct task *t = ARENA_NEW(&a, struct task);
		struct target tg = ptx_target(rows[i].cpu);
		REQUIRE_OK(task_parse(rows[i].text, t));
		double rate = space_rate(t, &tg, rows[i].cand);
		if (rate != rows[i].rate)
			printf("%s%s: %g\n", rows[i].cand, rows[i].cpu, rate);
		CHECK(rate == rows[i].rate);
		const struct space_want loose = {.level = LEVEL_HALF}, tight = {.level = LEVEL_FP32};
		struct space *s[2];
		tg.fma_gflops = 1;
		tg.bw_gbs[0] = tg.bw_gbs[1] = tg.bw_gbs[2] = tg.bw_gbs[3] = 1e6;
		REQUIRE_OK(space_make(&a, t, &tg, &tight, &s[0]));
		REQUIRE_OK(space_make(&a, t, &tg, &loose, &s[1]));
		bool faster = rows[i].text != apart && rows[i].text != bytes && rows[i].text != heads &&
			      strcmp(rows[i].cpu, "sm_72") != 0;
		CHECK(space_roofline(s[1]) * (faster ? 3.9 : 1) <= space_roofline(s[0]));
		arena_free(&a);
	}
}

/* The portfolio has fragments where the space has them, those of the best draft first; and where all
 * schedules of a view have them, its default has. */
TEST(rules_have_fragments)
{
	static const struct {
		const char *text, *cpu;
		enum level level;
		const char *begin; /* of the first rule that has them; NULL: none has */
	} rows[] = {{product, "sm_72", LEVEL_HALF_SUM, "f16; "}, {product, "sm_90", LEVEL_HALF, "bf16; "},
		    {product, "sm_75", LEVEL_HALF, NULL},        {bytes, "sm_72", LEVEL_EXACT, "frag"},
		    {apart, "sm_90", LEVEL_HALF, NULL},          {apart, "sm_90", LEVEL_HALF_SUM, NULL},
		    {floats, "sm_75", LEVEL_HALF_SUM, "f16; "},  {floats, "sm_90", LEVEL_HALF, "bf16; "}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct arena a = {0};
		struct task *t = ARENA_NEW(&a, struct task);
		struct target tg = ptx_target(rows[i].cpu);
		const struct space_want want = {.level = rows[i].level};
		struct space *s;
		char cand[CAND_MAX];
		double draft[2] = {0, 0};
		int n = 0;
		REQUIRE_OK(task_parse(rows[i].text, t));
		REQUIRE_OK(space_make(&a, t, &tg, &want, &s));
		for (int at = 0; space_portfolio(s, &at, cand) >= 0;) {
			CHECK_OK(space_legal(s, cand));
			if (!strstr(cand, "fragrows="))
				continue;
			CHECK(rows[i].begin && (n || !strncmp(cand, rows[i].begin, strlen(rows[i].begin))));
			draft[n++ > 0] = space_draft(s, cand);
		}
		CHECK(rows[i].begin ? n >= 2 && draft[0] <= draft[1] && draft[1] < 1e12 : !n);
		arena_free(&a);
	}
}

/* With few points the rules begin with parts, on a GPU of 132 units; with many they have none. */
TEST(rules_have_parts_where_units_would_be_idle)
{
	static const struct {
		const char *text, *cpu;
		bool parts;
	} rows[] = {{last_conv, "sm_90", true}, {last_product, "sm_90", true}, {last_conv, "sm_72", true},
		    {wide, "sm_90", false},     {wide, "sm_72", false},        {last_product, "sm_80", true}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct arena a = {0};
		struct task *t = ARENA_NEW(&a, struct task);
		struct target tg = ptx_target(rows[i].cpu);
		const struct space_want want = {.level = LEVEL_HALF_SUM};
		struct space *s;
		char cand[CAND_MAX], none[CAND_MAX] = "";
		int at = 0;
		REQUIRE_OK(task_parse(rows[i].text, t));
		REQUIRE_OK(space_make(&a, t, &tg, &want, &s));
		do
			REQUIRE_OK(space_portfolio(s, &at, cand));
		while (!strstr(cand, "fragrows="));
		CHECK((strstr(cand, "spread=1") != NULL) == rows[i].parts);
		if (test_bad)
			printf("%s: %s\n", rows[i].cpu, cand);
		const char *first = strstr(cand, "split="), *last = strstr(cand, "fragrows=");
		if (first) {
			snprintf(none, sizeof none, "%.*s%s", (int)(first - cand), cand, last);
			CHECK_OK(space_legal(s, none));
			CHECK(space_draft(s, cand) < .8 * space_draft(s, none));
		}
		arena_free(&a);
	}
}

static double draft_of(const char *text, const struct target *tg, const char *cand)
{
	struct arena a = {0};
	struct task *t = ARENA_NEW(&a, struct task);
	const struct space_want want = {.level = LEVEL_HALF_SUM};
	struct space *s;
	bool made = task_parse(text, t) >= 0 && space_make(&a, t, tg, &want, &s) >= 0;
	double d = made && space_legal(s, cand) >= 0 ? space_draft(s, cand) : -1;
	if (d < 0)
		printf("%s: %s\n", cand, err_text());
	CHECK(d >= 0);
	arena_free(&a);
	return d;
}

/* The draft counts a second launch, the bytes of the sums, and the blocks that fit the unit's registers and
 * shared memory. */
TEST(drafts_count_parts_and_blocks)
{
	static const char *const parts[] = {
	    "f16; ; fragrows=1 fragcols=2 warprows=1 warpcols=1 fragk=1",
	    "f16; ; split=k:512 spread=1 fragrows=1 fragcols=2 warprows=1 warpcols=1 fragk=1",
	    "f16; ; split=k:16 spread=1 fragrows=1 fragcols=2 warprows=1 warpcols=1 fragk=1"};
	struct target tg = ptx_target("sm_90"), slow = tg;
	double d[3], e[3];
	tg.launch_ns[1] = 1000;
	slow.launch_ns[1] = 50000;
	for (int i = 0; i < 3; i++) {
		d[i] = draft_of(last_product, &tg, parts[i]);
		e[i] = draft_of(last_product, &slow, parts[i]);
	}
	CHECK(d[1] < d[0] && d[2] < d[0]);
	for (int i = 0; i < 3; i++)
		CHECK(fabs(e[i] - d[i] - (i ? 2 : 1) * 49000.) < 1);
	tg.bw_gbs[1] = 1; /* bytes decide */
	CHECK(draft_of(last_product, &tg, parts[2]) > 1.3 * draft_of(last_product, &tg, parts[1]));
	tg = ptx_target("sm_90");
	static const char block[] = "fragrows=4 fragcols=3 warprows=2 warpcols=2 fragk=1";
	char cand[2][CAND_MAX];
	for (int i = 0; i < 2; i++)
		snprintf(cand[i], CAND_MAX, "f16; ; %s%s", i ? "blocks=4 " : "", block);
	tg.cores = 2; /* whose blocks wait for each other */
	tg.fma_gflops = 1e6;
	CHECK(draft_of(wide, &tg, cand[1]) < .9 * draft_of(wide, &tg, cand[0]));
	struct target other = tg;
	strcpy(other.cpu, "sm_100"); /* of which it is not known: by what all have */
	CHECK(draft_of(wide, &other, cand[0]) < 1e12);
}

/* Registers that a plan expects, beside those that ptxas 12.4 gives (make bench-ptxas tries many more). */
TEST(plans_know_their_registers)
{
	enum { NEAR = 9 };
	static const struct {
		const char *text, *cand, *cpu;
		int registers;
	} rows[] = {
	    {product, "f16; ; fragrows=1 fragcols=1 warprows=1 warpcols=1 fragk=1", "sm_72", 43},
	    {product, "f16; ; fragrows=1 fragcols=2 warprows=2 warpcols=1 fragk=1", "sm_72", 62},
	    {product, "f16; ; fragrows=1 fragcols=2 warprows=2 warpcols=1 fragk=1", "sm_90", 46},
	    {product, "f16; ; fragrows=1 fragcols=2 warprows=2 warpcols=1 fragk=2", "sm_90", 54},
	    {product, "f16; ; fragrows=1 fragcols=2 warprows=2 warpcols=1 fragk=4", "sm_80", 52},
	    {product, "f16; ; fragrows=2 fragcols=1 warprows=1 warpcols=1 fragk=2 fragring=2", "sm_87", 115},
	    {wide, "f16; ; fragrows=2 fragcols=2 warprows=2 warpcols=2 fragk=1", "sm_72", 88},
	    {wide, "f16; ; fragrows=2 fragcols=2 warprows=2 warpcols=2 fragk=1", "sm_80", 64},
	    {wide, "tf32; fragrows=2 fragcols=2 warprows=2 warpcols=2 fragk=2", "sm_87", 76},
	    {wide, "tf32; fragrows=2 fragcols=2 warprows=2 warpcols=2 fragk=2 fragring=2", "sm_90", 88},
	    {last_conv, "f16; ; fragrows=1 fragcols=4 warprows=1 warpcols=2 fragk=1", "sm_80", 73},
	    {product, "f16; ; split=k:8 spread=1 fragrows=1 fragcols=2 warprows=2 warpcols=1 fragk=1",
	     "sm_80", 32},
	    {product, "f16; ; split=k:16 spread=1 fragrows=1 fragcols=2 warprows=2 warpcols=1 fragk=2",
	     "sm_80", 43},
	    {last_product, "f16; ; split=k:64 spread=1 fragrows=1 fragcols=2 warprows=1 warpcols=2 fragk=2",
	     "sm_80", 56},
	    {bytes, "fragrows=2 fragcols=2 warprows=2 warpcols=1 fragk=2 fragring=2", "sm_90", 68},
	    {floats, "f16; fragrows=1 fragcols=2 warprows=1 warpcols=1 fragk=2 fragring=2", "sm_87", 123},
	    {floats, "bf16; fragrows=2 fragcols=2 warprows=1 warpcols=1 fragk=1", "sm_90", 64}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct arena a = {0};
		struct task *t = ARENA_NEW(&a, struct task);
		struct target tg = ptx_target(rows[i].cpu);
		REQUIRE_OK(task_parse(rows[i].text, t));
		int n = ptx_planned(t, &tg, rows[i].cand, &a);
		if (abs(n - rows[i].registers) > NEAR)
			printf("%s on %s: %d registers, not %d\n", rows[i].cand, rows[i].cpu, n,
			       rows[i].registers);
		CHECK(abs(n - rows[i].registers) <= NEAR);
		arena_free(&a);
	}
}

/* The banks in which 8 neighbouring rows of 16 bytes begin, of 8. */
static int banks(const struct target *tg, const char *text, const char *cand)
{
	struct arena a = {0};
	struct task *t = ARENA_NEW(&a, struct task);
	struct sched s;
	struct frag_plan p = {.k = 0};
	unsigned used = 0;
	bool made = task_parse(text, t) >= 0 && sched_parse(task_view(&a, t, cand), cand, &s) >= 0 &&
		    frag_plan_make(task_view(&a, t, cand), tg, &s, &p) >= 0;
	CHECK(made);
	for (int64_t row = 0; row < 8 && made; row++) {
		CHECK(p.of[0].pitch * (int64_t)dtype_bytes(p.of[0].type) % 16 == 0);
		used |= 1u << (row * p.of[0].pitch * (int64_t)dtype_bytes(p.of[0].type) / 16 % 8);
	}
	arena_free(&a);
	return __builtin_popcount(used);
}

/* The banks of 4 bytes of 8 neighbours of each of 4 points of k. */
static int banks_across(const struct target *tg, const char *cand)
{
	struct arena a = {0};
	struct task *t = ARENA_NEW(&a, struct task);
	struct sched s;
	struct frag_plan p = {.k = 0};
	unsigned used = 0;
	bool made = task_parse(across, t) >= 0 && sched_parse(task_view(&a, t, cand), cand, &s) >= 0 &&
		    frag_plan_make(task_view(&a, t, cand), tg, &s, &p) >= 0;
	CHECK(made && p.of[0].along_k && !p.of[1].along_k && p.of[0].moves && p.of[1].moves);
	for (int i = 0; i < 32 && made; i++)
		used |= 1u << (i / 8 * p.of[1].pitch + i % 8) % 32;
	arena_free(&a);
	return __builtin_popcount(used);
}

TEST(rows_begin_in_different_banks)
{
	static const char *const cands[] = {"fragrows=1 fragcols=1 warprows=1 warpcols=1 fragk=1",
					    "fragrows=1 fragcols=1 warprows=1 warpcols=1 fragk=2",
					    "fragrows=1 fragcols=1 warprows=1 warpcols=1 fragk=4"};
	for (int i = 0; i < 3; i++)
		for (int c = 1; c < PTX_CPUS; c++) { /* from sm_75 on */
			struct target tg = ptx_target(ptx_cpus[c]);
			char pairs[CAND_MAX];
			snprintf(pairs, sizeof pairs, "f16; ; %s", cands[i]);
			CHECK(banks(&tg, bytes, cands[i]) == 8 && banks(&tg, product, pairs) == 8);
			snprintf(pairs, sizeof pairs, "bf16; ; %s", cands[i]);
			CHECK(c < 2 || banks(&tg, product, pairs) == 8);
			snprintf(pairs, sizeof pairs, "tf32; %s", cands[i]);
			CHECK(c < 2 || (banks(&tg, product, pairs) == 8 && banks_across(&tg, pairs) == 32));
		}
}

/* Removes the n-th barrier or wait of a list, counted in *at. */
static bool remove_meeting(struct stmt **list, int n, int *at)
{
	for (; *list; list = &(*list)->next) {
		struct stmt *s = *list;
		if ((s->op == ST_BARRIER || s->op == ST_WAIT) && (*at)++ == n) {
			*list = s->next;
			return true;
		}
		if (remove_meeting(&s->body, n, at) || remove_meeting(&s->other, n, at))
			return true;
	}
	return false;
}

/* Runs the launch behind the first, if there is one; whether the answer is right. */
static bool near_reference(struct kcase *c, const struct loops *l, const struct manifest *m, void **bufs,
			   const char *cand)
{
	int rc = m->nentries > 1 ? loops_run(l, 1, bufs, m->param, 0, code_extent(m, 1, m->param)) : E_OK;
	for (int i = 0; i < m->nbufs && rc >= 0; i++)
		if (m->buf[i].role == BUF_OUT && case_error(c, bufs[i]) <= (cand_pairs(cand) ? 1e-2 : 0))
			return true;
	printf("%s: %s\n", cand, rc < 0 ? err_text() : "another answer than the reference's");
	return false;
}

TEST(kernels_without_a_meeting_are_found)
{
	static const char *const cases[][2] = {
	    {product, "f16; ; fragrows=2 fragcols=1 warprows=1 warpcols=2 fragk=1"},
	    {product, "f16; ; fragrows=1 fragcols=2 warprows=2 warpcols=1 fragk=2"},
	    {product, "f16; ; fragrows=1 fragcols=1 warprows=2 warpcols=2 fragk=1 fragring=2"},
	    {product, "f16; ; fragrows=1 fragcols=1 warprows=1 warpcols=2 fragk=1 fragring=3"},
	    {bytes, "fragrows=2 fragcols=1 warprows=1 warpcols=2 fragk=2"},
	    {bytes, "fragrows=1 fragcols=1 warprows=2 warpcols=2 fragk=1 fragring=3"},
	    {padded, "fragrows=1 fragcols=1 warprows=2 warpcols=2 fragk=1 fragring=2"},
	    {heads, "fragrows=1 fragcols=1 warprows=2 warpcols=2 fragk=1 fragring=2"},
	    {floats, "f16; fragrows=1 fragcols=1 warprows=2 warpcols=1 fragk=2"},
	    {product, "tf32; fragrows=2 fragcols=1 warprows=1 warpcols=2 fragk=1"},
	    {across, "tf32; fragrows=1 fragcols=2 warprows=1 warpcols=2 fragk=2"},
	    {product, "tf32; fragrows=1 fragcols=1 warprows=2 warpcols=2 fragk=1 fragring=3"},
	    {floats, "tf32; fragrows=1 fragcols=1 warprows=2 warpcols=1 fragk=1 fragring=3"},
	    {floats, "bf16; fragrows=1 fragcols=1 warprows=2 warpcols=1 fragk=2"},
	    {across, "bf16; fragrows=1 fragcols=2 warprows=1 warpcols=2 fragk=2"},
	    {product, "f16; ; split=k:16 spread=1 fragrows=2 fragcols=1 warprows=1 warpcols=2 fragk=1"},
	    {product, "f16; ; split=k:16 spread=1 fragrows=1 fragcols=1 warprows=2 warpcols=2 fragk=1 "
		      "fragring=2"},
	    {bytes, "split=k:8 spread=1 fragrows=1 fragcols=1 warprows=2 warpcols=2 fragk=1 fragring=2"},
	    {scores, "split=k:32 spread=1 fragrows=1 fragcols=1 warprows=2 warpcols=2 fragk=1"},
	    {across,
	     "tf32; split=k:32 spread=1 blocks=2 fragrows=1 fragcols=2 warprows=1 warpcols=2 fragk=1"},
	    {floats, "bf16; split=k:32 spread=1 fragrows=1 fragcols=1 warprows=2 warpcols=1 fragk=1 "
		     "fragring=2"}};
	struct target tg = ptx_target("sm_80");
	int found = 0;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (int n = 0;; n++) {
			struct kcase c;
			struct rng r;
			struct loops *l;
			struct manifest m;
			void *bufs[CODE_MAX_BUFS];
			int64_t elems[CODE_MAX_BUFS];
			int at = 0;
			rng_seed(&r, 3);
			REQUIRE_OK(case_parse(&c, cases[i][0], &r));
			REQUIRE_OK(lower(&c.t, cases[i][1], &tg, &c.a, &l, &m));
			REQUIRE_OK(loops_check(l));
			CHECK(code_pairs(&m) == cand_pairs(cases[i][1]));
			case_bind(&c, &m, bufs, elems);
			bool some = remove_meeting(&l->entry[0].body, n, &at);
			int rc = loops_run(l, 0, bufs, m.param, 0, code_extent(&m, 0, m.param));
			if (some ? rc != E_CORRUPT : rc != E_OK)
				printf("%s without meeting %d: %s\n", cases[i][1], n,
				       rc < 0 ? err_text() : "runs");
			CHECK(some ? rc == E_CORRUPT : rc == E_OK);
			CHECK((m.nentries == 2) == (strstr(cases[i][1], "spread=1") != NULL));
			CHECK(l->entry[0].blocks == (strstr(cases[i][1], "blocks=2") ? 2 : 1));
			CHECK(m.nentries == 1 || l->entry[1].blocks == 1);
			if (!some)
				CHECK(near_reference(&c, l, &m, bufs, cases[i][1]));
			found += some;
			arena_free(&c.a);
			if (!some)
				break;
		}
	/* Three in a step, two with a ring; one behind the sums of a row of fragments, and one between rows.
	 */
	CHECK(found == (3 + 3) + (3 + 1) + (2 + 1) + (2 + 1) + (3 + 3) + (2 + 1) + (2 + 1) + (2 + 1) +
			   (2 + 1) + (3 + 3) + (3 + 1) + (2 + 1) + (2 + 1) + (2 + 1) + (2 + 1) + /* parts: */
			   (3 + 3) + (2 + 1) + (2 + 1) + (3 + 1) + (3 + 1) + (1 + 1));
}

TEST_MAIN
