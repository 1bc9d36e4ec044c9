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
	if (into)
		window_in(&small, sp, &big, bp, at);
	else
		window_out(&big, bp, at, &small, sp);
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
		window_in(&part, p, &whole, w, (int64_t[]){k * 24, 0});
	}
	for (int64_t c = 0; c < 72; c++)
		for (int64_t x = 0; x < 3; x++)
			CHECK(w[operand_offset(&whole, (int64_t[]){c, x})] == (float)(c / 24 + 1));
}

TEST(an_empty_window_copies_nothing)
{
	struct operand o = {.dtype = DT_F32, .dims = {2, {0, 3}}};
	float one = 1, two = 2;
	window_in(&o, &one, &o, &two, (int64_t[]){0, 0});
	CHECK(two == 2);
}

TEST_MAIN
