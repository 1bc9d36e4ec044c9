/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/test.h"
#include "tools/bench/judge.h"
#include "tools/bench/recorded.h"

#include <math.h>

enum { N = 12 };

/* A model that predicts its first feature. */
static struct guess pupil_guess(const float f[FEATURES])
{
	return (struct guess){.ns = (double)f[0], .sd = 1};
}

static const struct cost pupil = {.name = "pupil", .guess = pupil_guess};

static struct problem make(struct arena *a, int n, const double *ns, const double *guess)
{
	struct problem p = {.name = "made up", .family = "dense", .n = n};
	problem_room(&p, n, a);
	for (int i = 0; i < n; i++) {
		p.ns[i] = ns[i];
		p.f[i][0] = (float)guess[i];
	}
	return p;
}

TEST(scores)
{
	static const struct {
		double guess[N], pairs, top1, top5;
	} cases[] = {
	    {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 1, 1, 1},
	    {{12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 0, 1. / 12, 1. / 8},
	    {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 0.5, 1, 1},
	    {{9, 2, 1, 3, 4, 5, 6, 7, 8, 10, 11, 12}, 1 - 9. / 66, 1. / 3, 1. / 2},
	};
	static const double ns[N] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct arena a = {0};
		struct problem p = make(&a, N, ns, cases[i].guess);
		struct score s = judge_score(&pupil, &p);
		CHECK(fabs(s.pairs - cases[i].pairs) < 1e-9);
		CHECK(fabs(s.top1 - cases[i].top1) < 1e-9 && fabs(s.top5 - cases[i].top5) < 1e-9);
		arena_free(&a);
	}
}

/* The pupil predicts a deviation of e for its errors. */
TEST(errors_in_its_own_opinion)
{
	struct arena a = {0};
	struct problem p = make(&a, 2, (double[]){1, 1}, (double[]){1, exp(2)});
	CHECK(fabs(judge_score(&pupil, &p).off - 1) < 1e-6);
	p = make(&a, 3, (double[]){1, 2, 3}, (double[]){5, 10, 15});
	CHECK(judge_score(&pupil, &p).off < 1e-6);
	arena_free(&a);
}

/* Pairs closer than 5 % do not count. */
TEST(near_pairs)
{
	struct arena a = {0};
	struct problem p = make(&a, 3, (double[]){100, 104, 110}, (double[]){2, 1, 3});
	CHECK(judge_score(&pupil, &p).pairs == 1);
	p = make(&a, 2, (double[]){100, 104}, (double[]){2, 1});
	CHECK(isnan(judge_score(&pupil, &p).pairs));
	arena_free(&a);
}

TEST(families)
{
	static const struct {
		const char *label, *family;
	} cases[] = {{"conv 3x3 64->64 56x56 relu", "dense"},
		     {"matmul 1x64x196 k192", "dense"},
		     {"dwconv 3x3/2 64->64 56x56", "depthwise"},
		     {"conv 1x1 + dwconv 3x3 16->16 160x160", "chain"},
		     {"max 2x2/2 1x16x80x80", "other"}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		CHECK(!strcmp(judge_family(cases[i].label), cases[i].family));
}

static const char product[] =
    "task syms=0\noperand A in f32 [14,40] plain\noperand B const f32 [40,32] plain\n"
    "operand C out f32 [14,32] plain\nstage m:14 n:32 | k:40\nread A [m,k]\n"
    "read B [k,n]\nbody r0 r1 mul\nsum\nwrite C [m,n]\n";

TEST(landscapes_as_problems)
{
	struct landscape_point point[] = {{MEAS_OK, 100, 110, 5, 1, 0, "lane=n:8 tile=m:2"},
					  {MEAS_OK, 200, 210, 5, 1, 0, "lane=n:8 tile=m:3"},
					  {MEAS_OK, 200, 210, 5, 1, 0, "lane=n:77 tile=m:3"},
					  {MEAS_OK, 200, 210, 5, 1, 0, "nonsense"},
					  {MEAS_SPILL, 0, 0, 0, 1, 0, "lane=n:8 tile=m:4"}};
	struct landscape l[3] = {
	    {.task = product,
	     .label = "matmul",
	     .threads = 1,
	     .protocol = "net: words",
	     .n = 5,
	     .point = point},
	    {.task = "nonsense", .label = "?", .threads = 1, .protocol = "words", .n = 5, .point = point},
	    {.task = product, .label = "one", .threads = 1, .protocol = "words", .n = 1, .point = point}};
	struct arena a = {0};
	struct problem *p;
	for (int i = 0; i < 3; i++)
		REQUIRE_OK(target_baseline("x86-64-v3", &l[i].target));
	REQUIRE(problems_of(l, 3, &a, &p) == 1);
	CHECK(p[0].n == 2 && !strcmp(p[0].family, "dense"));
	for (int i = 0; i < p[0].n; i++) {
		CHECK(p[0].ns[i] == (i ? 206 : 103) && isfinite(p[0].f[i][FEATURE_DRAFT]) &&
		      p[0].f[i][FEATURE_DRAFT] > 0);
	}
	arena_free(&a);
}

TEST(recorded_schedules)
{
	const char *data = recorded_folder();
	if (!data)
		SKIP("no recorded schedules (HONE_DATA)");
	static const int least[2] = {8, 5};
	for (int narrow = 0; narrow < 2; narrow++) {
		struct arena a = {0};
		struct problem *p;
		struct recorded_count count;
		int n = recorded_problems(data, narrow, &a, &p, &count);
		CHECK(n == least[narrow] && 2 * count.said > count.all);
		for (int i = 0; i < n; i++)
			CHECK(p[i].n > 100 && judge_score(cost_find("draft"), &p[i]).pairs > 0.55);
		arena_free(&a);
	}
}

TEST_MAIN
