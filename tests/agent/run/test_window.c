/* SPDX-License-Identifier: Apache-2.0 */
/* Random windows between random layouts, element by element against operand_offset. */
#include "tests/lib/test.h"
#include "agent/run/window.h"
#include "platform/base/rng.h"

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

/* Random elements, and as many bytes behind them that no window may touch. */
static uint8_t *filled(struct arena *a, struct rng *r, const struct operand *o)
{
	size_t bytes = (size_t)operand_elems(o) * dtype_bytes(o->dtype);
	uint8_t *p = arena_alloc(a, 2 * bytes);
	for (size_t i = 0; i < 2 * bytes; i++)
		p[i] = (uint8_t)rng_below(r, 256);
	return p;
}

/* Every logical element of the small tensor is the big one's at its place; halos are untouched. */
static bool windows_agree(struct rng *r, bool into, enum dtype type)
{
	struct arena a = {0};
	struct operand small = {.dtype = type}, big = {.dtype = type};
	const size_t unit = dtype_bytes(type);
	int64_t at[MAX_RANK] = {0}, i[MAX_RANK] = {0};
	small.dims.rank = big.dims.rank = (int)rng_below(r, 5);
	for (int d = 0; d < small.dims.rank; d++) {
		small.dims.d[d] = 1 + rng_below(r, 20);
		at[d] = rng_below(r, 3) ? 0 : rng_below(r, 18);
		big.dims.d[d] = small.dims.d[d] + at[d] + rng_below(r, 5);
	}
	random_layout(r, &small);
	random_layout(r, &big);
	uint8_t *sp = filled(&a, r, &small), *bp = filled(&a, r, &big), *to = into ? bp : sp;
	size_t bytes = (size_t)operand_elems(into ? &big : &small) * unit;
	uint8_t *behind = arena_memdup(&a, to + bytes, bytes);
	struct window w;
	window_make(&small, &big, at, &w);
	int64_t extent = window_extent(&w), cut = (int64_t)rng_below(r, (uint32_t)extent + 1);
	for (int part = 0; part < 2; part++)
		if (into)
			window_in(&w, sp, bp, part ? cut : 0, part ? extent : cut);
		else
			window_out(&w, bp, sp, part ? cut : 0, part ? extent : cut);
	bool good = !memcmp(to + bytes, behind, bytes);
	int64_t n = shape_count(&small.dims);
	for (int64_t k = 0; k < n && good; k++) {
		int64_t where[MAX_RANK] = {0};
		for (int d = 0; d < small.dims.rank; d++)
			where[d] = i[d] + at[d];
		good = !memcmp(sp + (size_t)operand_offset(&small, i) * unit,
			       bp + (size_t)operand_offset(&big, where) * unit, unit);
		for (int d = small.dims.rank - 1; d >= 0 && ++i[d] == small.dims.d[d]; d--)
			i[d] = 0;
	}
	arena_free(&a);
	return good;
}

TEST(random_windows)
{
	static const enum dtype types[] = {DT_F32, DT_U8, DT_I8, DT_F16, DT_I64, DT_F32};
	struct rng r;
	for (uint64_t seed = 1; seed <= 8000; seed += (uint64_t)test_share()) {
		rng_seed(&r, seed);
		if (!windows_agree(&r, seed % 2, types[seed / 2 % (sizeof types / sizeof *types)])) {
			printf("seed %d\n", (int)seed);
			test_bad = 1;
			return;
		}
	}
}

static int64_t odd_at(const struct window_dim *d, int64_t i)
{
	i += d->first;
	return d->block > 1 ? i / d->block * d->outer + i % d->block * d->inner : i * d->inner;
}

/* One past the last element of each tensor that the copy touches; false: it touches one before the first. */
static bool walk(const struct window *w, int64_t end[2])
{
	int64_t i[2 * MAX_RANK + 2] = {0};
	int k, n = w->nloops + w->nodd;
	end[0] = end[1] = 0;
	for (k = 0; k < n; k++)
		if ((k < w->nloops ? w->loop[k].n : w->odd[k - w->nloops].n) < 1)
			return true;
	do {
		int64_t at[2] = {w->s0, w->b0};
		for (k = 0; k < n; k++) {
			const struct window_loop *l = k < w->nloops ? &w->loop[k] : NULL;
			int o = k - w->nloops;
			at[0] += l ? i[k] * l->s : odd_at(&w->odd[o].s, i[k]);
			at[1] += l ? i[k] * l->b : odd_at(&w->odd[o].b, i[k]);
		}
		for (k = 0; k < 2; k++) {
			if (at[k] < 0)
				return false;
			end[k] = at[k] >= end[k] ? at[k] + 1 : end[k];
		}
		for (k = n - 1; k >= 0; k--) {
			if (++i[k] < (k < w->nloops ? w->loop[k].n : w->odd[k - w->nloops].n))
				break;
			i[k] = 0;
		}
	} while (k >= 0);
	return true;
}

/* Changes one of its numbers by a little. */
static void move_one(struct rng *r, struct window *w)
{
	static const int64_t by[] = {1, -1, 2, 8, -8};
	int64_t *at[] = {&w->s0, &w->b0, NULL, NULL, NULL}, v = by[rng_below(r, 5)];
	int k = w->nloops ? (int)rng_below(r, (uint32_t)w->nloops) : 0;
	if (w->nloops) {
		at[2] = &w->loop[k].n;
		at[3] = &w->loop[k].s;
		at[4] = &w->loop[k].b;
	}
	if (w->nodd && rng_below(r, 2)) {
		struct window_dim *d = rng_below(r, 2) ? &w->odd[0].s : &w->odd[0].b;
		int64_t *of[] = {&w->odd[0].n, &d->first, &d->block, &d->outer, &d->inner};
		at[0] = of[rng_below(r, 5)];
		at[1] = at[2] = at[3] = at[4] = NULL;
	}
	int64_t *p = at[rng_below(r, 5)];
	p = p ? p : at[0];
	*p += v;
}

/* Windows of window_make fit exactly; with a number changed, no window that passes leaves its tensors. */
TEST(windows_that_fit_stay_inside)
{
	struct rng r;
	int refused = 0, kept = 0;
	for (uint64_t seed = 1; seed <= 20000; seed++) {
		struct operand small = {.dtype = DT_F32}, big = {.dtype = DT_F32};
		int64_t at[MAX_RANK] = {0}, end[2];
		struct window w;
		rng_seed(&r, seed);
		small.dims.rank = big.dims.rank = (int)rng_below(&r, 4);
		for (int d = 0; d < small.dims.rank; d++) {
			small.dims.d[d] = 1 + rng_below(&r, 9);
			at[d] = rng_below(&r, 3) ? 0 : rng_below(&r, 9);
			big.dims.d[d] = small.dims.d[d] + at[d] + rng_below(&r, 3);
		}
		random_layout(&r, &small);
		random_layout(&r, &big);
		window_make(&small, &big, at, &w);
		int64_t s = operand_elems(&small), b = operand_elems(&big);
		CHECK(window_fits(&w, s, b, WINDOW_APART));
		REQUIRE(walk(&w, end));
		CHECK(!window_fits(&w, end[0] - 1, b, WINDOW_APART) &&
		      !window_fits(&w, s, end[1] - 1, WINDOW_APART));
		CHECK(!window_fits(&w, s, b, end[0] - 1 - w.b0) && !window_fits(&w, s, b, w.s0 - end[1] + 1));
		CHECK(w.nodd ||
		      (window_fits(&w, s, b, end[0] - w.b0) && window_fits(&w, s, b, w.s0 - end[1])));
		move_one(&r, &w);
		bool fits = window_fits(&w, s, b, WINDOW_APART);
		CHECK(!fits || (walk(&w, end) && end[0] <= s && end[1] <= b));
		refused += !fits;
		kept += fits;
	}
	CHECK(refused > 3000 && kept > 3000);
}

TEST(hostile_windows_do_not_overflow)
{
	struct window w;
	struct rng r;
	rng_seed(&r, 5);
	for (int i = 0; i < 200000; i++) {
		unsigned char *p = (unsigned char *)&w;
		memset(&w, 0, sizeof w);
		for (size_t k = 0; k < sizeof w; k++)
			p[k] = rng_below(&r, 3) ? 0 : (unsigned char)rng_below(&r, 256);
		w.unit = (int)rng_below(&r, 9);
		w.nloops = (int)rng_below(&r, 4);
		w.nodd = (int)rng_below(&r, 4);
		w.shared = (int)rng_below(&r, 5) - 1;
		for (int k = 0; k < w.nloops && rng_below(&r, 2); k++)
			w.loop[k] = (struct window_loop){(int64_t)1 << rng_below(&r, 63), 1,
							 INT64_MAX >> rng_below(&r, 60)};
		if (window_fits(&w, 1000, 1000, WINDOW_APART))
			CHECK(w.nodd <= 2 && w.shared < w.nloops && w.unit > 0);
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
