/* SPDX-License-Identifier: Apache-2.0 */
/* Runs against one element at a time. */
#include "kernels/runs.h"
#include "kernels/walk.h"
#include "platform/rng.h"
#include "tests/test.h"

#include <math.h>

enum { MOST = 300 };

/* Few values, so that some are equal; now and then NaN and infinities. */
static void draw(struct rng *r, float *x, int n)
{
	static const float odd[] = {NAN, INFINITY, -INFINITY, -0.f, 3e9f, -3e9f, 300.5f, -300.5f};
	for (int i = 0; i < n; i++)
		x[i] = rng_below(r, 40) ? (float)((int)rng_below(r, 9) - 4) / 2 : odd[rng_below(r, 8)];
}

TEST(tests_and_selections_with_each_step)
{
	struct rng r;
	float a[MOST], b[MOST];
	uint8_t got[MOST];
	uint32_t picked[MOST];
	rng_seed(&r, 1);
	for (int round = 0; round < 400; round++) {
		int n = 1 + (int)rng_below(&r, MOST - 1), sa = round & 1, sb = round >> 1 & 1,
		    sc = round >> 2 & 1;
		draw(&r, a, MOST);
		draw(&r, b, MOST);
		for (int t = RUN_LESS; t <= RUN_EQUAL; t++) {
			run_test((enum run_test)t, a, sa, b, sb, got, n);
			for (int i = 0; i < n; i++) {
				float x = a[sa * i], y = b[sb * i];
				CHECK(got[i] == (t == RUN_LESS ? x < y : t == RUN_LESSEQ ? x <= y : x == y));
			}
		}
		run_select(got, sc, (uint32_t *)a, sa, (uint32_t *)b, sb, picked, n);
		for (int i = 0; i < n; i++)
			CHECK(!memcmp(&picked[i], got[sc * i] ? &a[sa * i] : &b[sb * i], 4));
	}
}

TEST(casts_saturate_as_others_do)
{
	static const enum dtype types[] = {DT_BOOL, DT_U8, DT_I8, DT_I32};
	struct rng r;
	struct arena a = {0};
	float x[MOST];
	rng_seed(&r, 2);
	for (int k = 0; k < 4; k++) {
		struct tensor got, want;
		struct shape s = {1, {MOST}};
		double v[MOST];
		draw(&r, x, MOST);
		REQUIRE_OK(tensor_alloc(&a, types[k], &s, &got));
		REQUIRE_OK(tensor_alloc(&a, types[k], &s, &want));
		for (int i = 0; i < MOST; i++)
			v[i] = (double)x[i];
		store_f64(&want, 0, MOST, v);
		CHECK(run_cast(x, types[k], got.data, MOST));
		CHECK(!memcmp(got.data, want.data, MOST * dtype_bytes(types[k])));
	}
	CHECK(!run_cast(x, DT_I64, x, MOST));
	arena_free(&a);
}

/* By definition: the first, or last, that no other is above; NaN is above all. */
static bool above(float a, float b, bool least)
{
	if (least)
		return a < b || (b != b && a == a);
	return a > b || (a != a && b == b);
}

static int64_t slow(const float *x, int64_t n, int64_t stride, struct run_order o)
{
	int64_t best = 0;
	for (int64_t i = 1; i < n; i++)
		if (above(x[i * stride], x[best * stride], o.least) ||
		    (o.last && !above(x[best * stride], x[i * stride], o.least)))
			best = i;
	return best;
}

TEST(which_is_greatest)
{
	struct rng r;
	float x[MOST];
	int32_t best[RUN_COLUMNS];
	rng_seed(&r, 3);
	for (int round = 0; round < 800; round++) {
		struct run_order o = {round & 1, round >> 1 & 1};
		int n = 1 + (int)rng_below(&r, MOST - 1), columns = 1 + (int)rng_below(&r, RUN_COLUMNS);
		draw(&r, x, MOST);
		if (round & 4)
			for (int i = 0; i < MOST; i++)
				x[i] = (float)rng_unit(&r);
		CHECK(run_arg(x, n, o) == slow(x, n, 1, o));
		int rows = MOST / columns;
		run_arg_columns(x, rows, columns, columns, o, best);
		for (int j = 0; j < columns; j++)
			CHECK(best[j] == slow(x + j, rows, columns, o));
	}
}

TEST_MAIN
