/* SPDX-License-Identifier: Apache-2.0 */
/* Compares runs with one element at a time. */
#include "kernels/task/runs.h"
#include "kernels/task/walk.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"

#include <math.h>

enum { MOST = 300 };

/* Draws from few values, so that some are equal; sometimes NaN and infinities. */
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
	static const enum dtype types[] = {DT_BOOL, DT_U8, DT_I8, DT_I32, DT_I64};
	struct rng r;
	struct arena a = {0};
	float x[MOST];
	rng_seed(&r, 2);
	for (int k = 0; k < 5; k++) {
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
	CHECK(!run_cast(x, DT_I16, x, MOST));
	arena_free(&a);
}

/* The definition: the first, or last, element that no other is above; NaN is above all. */
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

TEST(the_greatest_element)
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

TEST(keys_are_in_the_order_of_floats)
{
	static const float rising[] = {-INFINITY, -3e9f, -1, -1e-40f, 0, 1e-40f, 1, 3e9f, INFINITY, NAN};
	enum { N = sizeof rising / sizeof *rising };
	int32_t key[N], turned[N], zero[2];
	run_keys(rising, N, false, key);
	run_keys(rising, N, true, turned);
	for (int i = 1; i < N; i++) {
		CHECK(key[i] > key[i - 1]);
		CHECK(turned[i] < turned[i - 1]);
	}
	run_keys((float[]){0.f, -0.f}, 2, false, zero);
	CHECK(zero[0] == zero[1]);
	run_keys((float[]){-NAN, NAN}, 2, false, zero);
	CHECK(zero[0] == INT32_MAX && zero[1] == INT32_MAX);
}

TEST(largest_first)
{
	struct rng r;
	int32_t key[MOST], got[RUN_TOP];
	rng_seed(&r, 4);
	for (int round = 0; round < 800; round++) {
		int n = (int)rng_below(&r, MOST), most = n < RUN_TOP ? n : RUN_TOP,
		    k = (int)rng_below(&r, (uint32_t)most + 1);
		for (int i = 0; i < n; i++)
			key[i] = round % 3 == 0   ? i
				 : round % 3 == 1 ? (int32_t)rng_below(&r, 20)
						  : (int32_t)(rng_below(&r, UINT32_MAX) ^ 0x80000000u);
		run_top(key, n, k, got);
		for (int i = 0; i < k; i++) {
			int before = 0; /* number of keys that rank before this one */
			for (int j = 0; j < n; j++)
				before += key[j] > key[got[i]] || (key[j] == key[got[i]] && j < got[i]);
			CHECK(before == i);
		}
	}
}

TEST(range_of_numbers)
{
	struct rng r;
	float x[300];
	rng_seed(&r, 11);
	for (int n = 0; n <= 300; n++) {
		float low = (float)rng_normal(&r), high = low + 1, want_low = low, want_high = high;
		for (int i = 0; i < n; i++) {
			x[i] = rng_below(&r, 9) ? 3 * (float)rng_normal(&r) : NAN;
			want_low = fminf(want_low, x[i]);
			want_high = fmaxf(want_high, x[i]);
		}
		run_range(x, n, &low, &high);
		CHECK(low == want_low && high == want_high);
	}
}

TEST(running_sums)
{
	enum { ROWS = 19, COLUMNS = 15 };
	struct rng r;
	float x[ROWS * COLUMNS], got[ROWS * COLUMNS];
	rng_seed(&r, 5);
	for (int i = 0; i < ROWS * COLUMNS; i++)
		x[i] = (float)rng_normal(&r);
	for (int kind = 0; kind < 8; kind++) {
		bool down = kind & 1, back = kind & 2;
		struct run_lines l = {.n = down ? ROWS : COLUMNS,
				      .step = down ? COLUMNS : 1,
				      .lines = down ? COLUMNS : ROWS,
				      .line = down ? 1 : COLUMNS,
				      .exclusive = kind & 4};
		int64_t first = back ? (l.n - 1) * l.step : 0;
		l.step = back ? -l.step : l.step;
		memset(got, 0x7f, sizeof got);
		run_sums(x + first, l, got + first);
		for (int64_t j = 0; j < l.lines; j++) {
			double sum = 0;
			for (int64_t i = 0; i < l.n; i++) {
				int64_t at = first + j * l.line + i * l.step;
				double with = sum + (double)x[at];
				CHECK(got[at] == (float)(l.exclusive ? sum : with));
				sum = with;
			}
		}
	}
}

TEST_MAIN
