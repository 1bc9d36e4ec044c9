/* SPDX-License-Identifier: Apache-2.0 */
/* Random windows between random layouts, element by element against operand_offset. */
#include "tests/test.h"
#include "agent/window.h"
#include "platform/rng.h"

static void random_layout(struct rng *r, struct operand *o)
{
	int rank = o->dims.rank, dim = rank ? (int)rng_below(r, (uint32_t)rank) : 0;
	int block = 1 << rng_below(r, 4);
	if (rank && block > 1)
		layout_blocked(&o->layout, rank, dim, block);
	for (int d = 0; d < rank; d++)
		if (d != dim) {
			o->layout.lo[d] = rng_below(r, 3);
			o->layout.hi[d] = rng_below(r, 3);
		}
}

static float *filled(struct arena *a, struct rng *r, const struct operand *o)
{
	float *p = arena_alloc(a, sizeof *p * (size_t)operand_elems(o));
	rng_fill(r, p, (size_t)operand_elems(o));
	return p;
}

/* Every logical element of the small tensor is the big one's at its place; halos are untouched. */
static bool windows_agree(struct rng *r, bool into)
{
	struct arena a = {0};
	struct operand small = {.dtype = DT_F32}, big = {.dtype = DT_F32};
	int64_t at[MAX_RANK] = {0}, i[MAX_RANK] = {0};
	small.dims.rank = big.dims.rank = (int)rng_below(r, 5);
	for (int d = 0; d < small.dims.rank; d++) {
		small.dims.d[d] = 1 + rng_below(r, 20);
		at[d] = rng_below(r, 3) ? 0 : rng_below(r, 18);
		big.dims.d[d] = small.dims.d[d] + at[d] + rng_below(r, 5);
	}
	random_layout(r, &small);
	random_layout(r, &big);
	float *sp = filled(&a, r, &small), *bp = filled(&a, r, &big);
	struct window w;
	window_make(&small, &big, at, &w);
	int64_t extent = window_extent(&w), cut = (int64_t)rng_below(r, (uint32_t)extent + 1);
	for (int part = 0; part < 2; part++)
		if (into)
			window_in(&w, sp, bp, part ? cut : 0, part ? extent : cut);
		else
			window_out(&w, bp, sp, part ? cut : 0, part ? extent : cut);
	bool good = true;
	int64_t n = shape_count(&small.dims);
	for (int64_t k = 0; k < n && good; k++) {
		int64_t where[MAX_RANK] = {0};
		for (int d = 0; d < small.dims.rank; d++)
			where[d] = i[d] + at[d];
		good = sp[operand_offset(&small, i)] == bp[operand_offset(&big, where)];
		for (int d = small.dims.rank - 1; d >= 0 && ++i[d] == small.dims.d[d]; d--)
			i[d] = 0;
	}
	arena_free(&a);
	return good;
}

TEST(random_windows)
{
	struct rng r;
	for (uint64_t seed = 1; seed <= 4000; seed++) {
		rng_seed(&r, seed);
		if (!windows_agree(&r, seed % 2)) {
			printf("seed %d\n", (int)seed);
			test_bad = 1;
			return;
		}
	}
}

TEST(parts_in_order_make_the_whole)
{
	struct operand part = {.dtype = DT_F32, .dims = {2, {24, 3}}},
		       whole = {.dtype = DT_F32, .dims = {2, {72, 3}}};
	layout_blocked(&part.layout, 2, 0, 16);
	layout_blocked(&whole.layout, 2, 0, 16);
	float p[32 * 3], w[80 * 3] = {0};
	for (int64_t k = 0; k < 3; k++) {
		for (int i = 0; i < 32 * 3; i++)
			p[i] = (float)(k + 1);
		struct window in;
		window_make(&part, &whole, (int64_t[]){k * 24, 0}, &in);
		window_in(&in, p, w, 0, window_extent(&in));
	}
	for (int64_t c = 0; c < 72; c++)
		for (int64_t x = 0; x < 3; x++)
			CHECK(w[operand_offset(&whole, (int64_t[]){c, x})] == (float)(c / 24 + 1));
}

/* Threads have something to divide: rows rather than the few channels around them. */
TEST(the_longest_loop_is_shared)
{
	static const struct {
		int64_t d[4], extent;
		int block;
	} cases[] = {{{1, 3, 224, 200}, 224, 1}, {{1, 2, 3, 100}, 100, 1}, {{1, 64, 20, 20}, 20, 16}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct operand small = {.dtype = DT_F32, .dims = {.rank = 4}}, big;
		struct window w;
		memcpy(small.dims.d, cases[i].d, sizeof cases[i].d);
		big = small;
		if (cases[i].block > 1)
			layout_blocked(&big.layout, 4, 1, cases[i].block);
		big.layout.lo[2] = big.layout.lo[3] = 1;
		window_make(&small, &big, (int64_t[MAX_RANK]){0}, &w);
		CHECK(window_extent(&w) == cases[i].extent);
	}
}

TEST(an_empty_window_copies_nothing)
{
	struct operand o = {.dtype = DT_F32, .dims = {2, {0, 3}}};
	float one = 1, two = 2;
	struct window w;
	window_make(&o, &o, (int64_t[]){0, 0}, &w);
	window_in(&w, &one, &two, 0, window_extent(&w));
	CHECK(two == 2);
}

TEST_MAIN
