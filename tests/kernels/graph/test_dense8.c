/* SPDX-License-Identifier: Apache-2.0 */
/* Every version of the loops that this machine runs, against the formula of dense8.h, one sum at a time. */
#include "kernels/graph/add8.h"
#include "kernels/graph/dense8.h"
#include "kernels/graph/depthwise8.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"

#include <math.h>

enum { W = DENSE8_WIDTH };

static uint8_t formula(int64_t sum, uint32_t add, float factor, const struct dense8_bytes *b)
{
	float v = (float)(int32_t)((uint32_t)sum + add) * factor;
	double y = isnan(v) ? b->low : nearbyint((double)v) + b->zero;
	y = y < b->low ? b->low : y > b->high ? b->high : y;
	return (uint8_t)(int)y;
}

static struct dense8_bytes random_bytes(struct rng *r)
{
	bool sign = rng_below(r, 2);
	int low = sign ? -128 : 0, high = sign ? 127 : 255;
	if (rng_below(r, 2)) { /* closer limits */
		low += (int)rng_below(r, 100);
		high -= (int)rng_below(r, 100);
	}
	return (struct dense8_bytes){low, high, low + (int)rng_below(r, (uint64_t)(high - low) + 1), sign};
}

static float random_factor(struct rng *r)
{
	static const float odd[] = {INFINITY, NAN, 0, 1e-30f, 1e30f};
	return rng_below(r, 20) ? (float)(1 + rng_below(r, 1000)) * 1e-6f : odd[rng_below(r, 5)];
}

static void fill(struct rng *r, void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)p)[i] = (uint8_t)rng_below(r, 256);
}

TEST(rows_become_bytes)
{
	enum { ROWS = 15, MOST = 70 };
	struct rng r;
	rng_seed(&r, 11);
	for (int isa = 0; isa <= (int)dense8_isa(); isa++)
		for (int i = 0; i < 200; i++) {
			int64_t depth = (int64_t)rng_below(&r, MOST), offset[MOST];
			int rows = 1 + (int)rng_below(&r, ROWS), width = 1 + (int)rng_below(&r, W), bad = 0;
			uint8_t flip = rng_below(&r, 2) ? 0x80 : 0, b[MOST * W + W], out[ROWS * 80];
			int8_t a[ROWS * MOST + 1];
			uint32_t add[ROWS], sum[ROWS * W];
			float factor[ROWS];
			fill(&r, b, sizeof b);
			fill(&r, a, sizeof a);
			memset(out, 0x5a, sizeof out);
			for (int k = 0; k < rows; k++) {
				add[k] = (uint32_t)rng_below(&r, 1 << 20) - (1 << 19);
				factor[k] = random_factor(&r);
			}
			for (int64_t t = 0; t < depth; t++)
				offset[t] = t * W;
			char *panel = malloc(dense8_panel_bytes(depth) + W),
			     *scratch = malloc(dense8_scratch_bytes(depth) + W);
			/* of the panel's columns, only some may count */
			int count = 1 + (int)rng_below(&r, (uint64_t)width);
			const struct dense8_ends e = {random_bytes(&r), add, factor, out, 80, count};
			dense8_pack((enum dense8_isa)isa, depth, b, offset, width, flip, panel);
			dense8_rows_to_bytes((enum dense8_isa)isa, depth, rows, a, panel, width, scratch, sum,
					     &e);
			for (int k = 0; k < rows; k++)
				for (int x = 0; x < 80; x++) {
					int64_t s = 0;
					for (int64_t t = 0; t < depth && x < W; t++)
						s += a[k * depth + t] * (uint8_t)(b[t * W + x] ^ flip);
					bad += out[k * 80 + x] !=
					       (x < count ? formula(s, add[k], factor[k], &e.bytes) : 0x5a);
				}
			CHECK(!bad);
			free(panel);
			free(scratch);
		}
}

TEST(one_row_without_a_panel)
{
	enum { DEPTH = 40, N = 200 };
	struct rng r;
	rng_seed(&r, 15);
	for (int i = 0; i < 200; i++) {
		int64_t depth = (int64_t)rng_below(&r, DEPTH), n = 1 + (int64_t)rng_below(&r, N), bad = 0;
		uint8_t flip = i % 2 ? 0x80 : 0,
			*b = malloc((size_t)(depth * n) + 1); /* nothing is read behind it */
		int8_t a[DEPTH];
		uint32_t sum[N + W];
		fill(&r, b, (size_t)(depth * n));
		fill(&r, a, sizeof a);
		bool there = dense8_row(dense8_isa(), depth, n, a, b, flip, sum);
		CHECK(there == (dense8_isa() == DENSE8_VNNI));
		for (int64_t x = 0; x < n && there; x++) {
			int32_t want = 0;
			for (int64_t t = 0; t < depth; t++)
				want += a[t] * (uint8_t)(b[t * n + x] ^ flip);
			bad += (int32_t)sum[x] != want;
		}
		CHECK(!bad);
		free(b);
	}
}

TEST(taps_of_one_channel)
{
	enum { FOURS = 12, N = 200, BYTES = 2 * (N + W) + 600 + DENSE8_PAST };
	struct rng r;
	rng_seed(&r, 12);
	for (int isa = 0; isa <= (int)dense8_isa(); isa++)
		for (int i = 0; i < 200; i++) {
			int32_t four[FOURS];
			int64_t at[FOURS], n = 1 + (int64_t)rng_below(&r, N);
			uint8_t x[BYTES], out[N + W];
			uint32_t add = (uint32_t)rng_below(&r, 1 << 16);
			float factor = random_factor(&r);
			int bad = 0;
			struct dense8_taps t = {1 + (int)rng_below(&r, FOURS), 1 + (int)rng_below(&r, 2),
						rng_below(&r, 2) ? 0x80 : 0, four, at};
			const struct dense8_ends e = {random_bytes(&r), &add, &factor, out, 0, W};
			fill(&r, x, sizeof x);
			fill(&r, four, sizeof four);
			for (int q = 0; q < t.n; q++)
				at[q] = (int64_t)rng_below(&r, 600);
			dense8_depthwise((enum dense8_isa)isa, &t, x, &e, n);
			for (int64_t k = 0; k < n; k++) {
				int64_t s = 0;
				for (int q = 0; q < 4 * t.n; q++)
					s += (int8_t)(four[q / 4] >> 8 * (q % 4)) *
					     (uint8_t)(x[at[q / 4] + q % 4 + k * t.stride] ^ t.flip);
				bad += out[k] != formula(s, add, factor, &e.bytes);
			}
			CHECK(!bad);
		}
}

/* Each operation is rounded to binary32, as this file's compiler does it without contraction. */
TEST(sums_of_two_tensors)
{
	enum { N = 200 };
	struct rng r;
	rng_seed(&r, 16);
	for (int i = 0; i < 300; i++) {
		uint8_t x[2][N], y[N];
		struct add8_term t[2];
		struct dense8_bytes to = random_bytes(&r);
		float scale = rng_below(&r, 30) ? (float)(1 + rng_below(&r, 999)) * 1e-3f : NAN;
		int64_t n = 1 + (int64_t)rng_below(&r, N), bad = 0;
		fill(&r, x, sizeof x);
		for (int k = 0; k < 2; k++)
			t[k] = (struct add8_term){x[k], rng_below(&r, 2),
						  (float)(1 + rng_below(&r, 999)) * 1e-3f,
						  (int32_t)rng_below(&r, 128)};
		add8(n, &t[0], &t[1], scale, to, y);
		for (int64_t k = 0; k < n; k++) {
			volatile float term[2], sum, v;
			for (int j = 0; j < 2; j++) {
				term[j] = (float)((t[j].sign ? (int8_t)x[j][k] : x[j][k]) - t[j].zero);
				term[j] = term[j] * t[j].scale;
			}
			sum = term[0] + term[1];
			v = sum / scale;
			double want = isnan(v) ? to.low : nearbyint((double)v) + to.zero;
			want = want < to.low ? to.low : want > to.high ? to.high : want;
			bad += y[k] != (uint8_t)(int)want;
		}
		CHECK(!bad);
	}
}

TEST(maxima)
{
	struct rng r;
	rng_seed(&r, 13);
	for (int isa = 0; isa <= (int)dense8_isa(); isa++)
		for (int i = 0; i < 300; i++) {
			int64_t n = 1 + (int64_t)rng_below(&r, 150), step = 1 + (int64_t)rng_below(&r, 3);
			uint8_t *x = malloc((size_t)((n - 1) * step) + 1), best[160], was[160];
			uint8_t flip = rng_below(&r, 2) ? 0x80 : 0;
			int bad = 0;
			fill(&r, x, (size_t)((n - 1) * step) + 1);
			fill(&r, best, sizeof best);
			memcpy(was, best, sizeof was);
			dense8_max((enum dense8_isa)isa, n, x, step, flip, best);
			for (int64_t k = 0; k < 160; k++) {
				uint8_t v = k < n ? x[k * step] ^ flip : 0;
				bad += best[k] != (v > was[k] ? v : was[k]);
			}
			CHECK(!bad);
			free(x);
		}
}

/* Whole channels: padding, strides, dilations along columns, several filters of a channel. */
TEST(channels_by_themselves)
{
	struct rng r;
	rng_seed(&r, 14);
	for (int i = 0; i < 200; i++) {
		struct arena a = {0};
		struct filter_window w = {
		    .in = {1}, .kernel = {1}, .stride = {1}, .dilation = {1}, .out = {1}};
		for (int k = 1; k < 3; k++) {
			w.kernel[k] = 1 + (int64_t)rng_below(&r, 6);
			w.stride[k] = 1 + (int64_t)rng_below(&r, k == 1 ? 3 : 2);
			w.dilation[k] = k == 1 ? 1 + (int64_t)rng_below(&r, 2) : 1;
			w.begin[k] = (int64_t)rng_below(&r, 3);
			w.end[k] = (int64_t)rng_below(&r, 3);
			w.in[k] = window_reach(&w, k) + (int64_t)rng_below(&r, 40);
			w.out[k] = (w.in[k] + w.begin[k] + w.end[k] - window_reach(&w, k)) / w.stride[k] + 1;
		}
		int64_t in = w.in[1] * w.in[2], out = w.out[1] * w.out[2], taps = w.kernel[1] * w.kernel[2];
		int64_t channels = 1 + (int64_t)rng_below(&r, 3), each = 1 + (int64_t)rng_below(&r, 2);
		uint8_t *x = ARENA_ARRAY(&a, uint8_t, channels * in),
			*y = ARENA_ARRAY(&a, uint8_t, channels * each * out);
		int8_t *weights = ARENA_ARRAY(&a, int8_t, channels * each * taps);
		uint32_t add[6] = {5, 4, 3, 2, 1, 0};
		float factor[6] = {1e-3f, 2e-3f, 3e-3f, 4e-3f, 5e-3f, 6e-3f};
		const struct depthwise8 d = {w,
					     1,
					     channels,
					     each,
					     x,
					     (uint8_t)rng_below(&r, 256),
					     i % 2 ? 0x80 : 0,
					     weights,
					     add,
					     factor,
					     random_bytes(&r),
					     y};
		int64_t bad = 0;
		REQUIRE(depthwise8_fits(&w));
		fill(&r, x, (size_t)(channels * in));
		fill(&r, weights, (size_t)(channels * each * taps));
		REQUIRE_OK(depthwise8(&d, &a));
		for (int64_t o = 0; o < channels * each * out; o++) {
			int64_t f = o / out, h = o % out / w.out[2] * w.stride[1] - w.begin[1], s = 0;
			int64_t v = o % w.out[2] * w.stride[2] - w.begin[2];
			for (int64_t t = 0; t < taps; t++) {
				int64_t row = h + t / w.kernel[2] * w.dilation[1], col = v + t % w.kernel[2];
				bool inside = row >= 0 && row < w.in[1] && col >= 0 && col < w.in[2];
				uint8_t b = inside ? x[f / each * in + row * w.in[2] + col] : d.zero;
				s += weights[f * taps + t] * (uint8_t)(b ^ d.flip);
			}
			bad += y[o] != formula(s, add[f], factor[f], &d.bytes);
		}
		CHECK(!bad);
		arena_free(&a);
	}
}

/* Every version of the loops that this machine runs, on depths and widths around their tiles, with the
 * greatest products. */
TEST(products_of_bytes_are_exact)
{
	static const int depths[] = {0, 1, 2, 3, 4, 5, 7, 8, 63, 64, 65, 130};
	enum { ROWS = 15, MOST = 130 };
	static uint8_t b[MOST * W + W];
	static int8_t a[ROWS * MOST];
	static uint32_t sum[ROWS * W];
	struct rng r;
	rng_seed(&r, 5);
	for (int isa = 0; isa <= (int)dense8_isa(); isa++)
		for (size_t i = 0; i < 12 * 3; i++) {
			int64_t depth = depths[i / 3], offset[MOST];
			int width = (int)i % 3 == 0 ? W : (int)rng_below(&r, W) + 1;
			int rows = (int)rng_below(&r, ROWS) + 1;
			uint8_t flip = rng_below(&r, 2) ? 0x80 : 0;
			bool extreme = !rng_below(&r, 3);
			for (size_t k = 0; k < sizeof b; k++)
				b[k] = extreme ? (uint8_t)(255 ^ flip) : (uint8_t)rng_below(&r, 256);
			for (size_t k = 0; k < sizeof a; k++)
				a[k] =
				    extreme ? (i % 2 ? -128 : 127) : (int8_t)((int)rng_below(&r, 256) - 128);
			for (int64_t t = 0; t < depth; t++)
				offset[t] = t * W;
			char *panel = malloc(dense8_panel_bytes(depth) + 64);
			char *scratch = malloc(dense8_scratch_bytes(depth) + 64);
			dense8_pack((enum dense8_isa)isa, depth, b, offset, width, flip, panel);
			dense8_rows((enum dense8_isa)isa, depth, rows, a, panel, width, scratch, sum);
			int bad = 0;
			for (int k = 0; k < rows; k++)
				for (int x = 0; x < width; x++) {
					int32_t want = 0;
					for (int64_t t = 0; t < depth; t++)
						want += a[k * depth + t] * (uint8_t)(b[t * W + x] ^ flip);
					bad += (int32_t)sum[k * W + x] != want;
				}
			CHECK(!bad);
			free(panel);
			free(scratch);
		}
}

/* The greatest depth whose sum fits s32. */
TEST(the_largest_sum_is_exact)
{
	enum { DEPTH = 65793 };
	uint8_t *b = malloc(DEPTH + W);
	int8_t *a = malloc(DEPTH);
	int64_t *offset = malloc(sizeof *offset * DEPTH);
	void *panel = malloc(dense8_panel_bytes(DEPTH)), *scratch = malloc(dense8_scratch_bytes(DEPTH));
	memset(b, 255, DEPTH + W);
	for (int64_t t = 0; t < DEPTH; t++)
		offset[t] = t;
	for (int isa = 0; isa <= (int)dense8_isa(); isa++)
		for (int sign = 0; sign < 2; sign++) {
			uint32_t sum[W];
			memset(a, sign ? -128 : 127, DEPTH);
			dense8_pack((enum dense8_isa)isa, DEPTH, b, offset, W, 0, panel);
			dense8_rows((enum dense8_isa)isa, DEPTH, 1, a, panel, W, scratch, sum);
			CHECK((int32_t)sum[0] == (int32_t)((sign ? -128 : 127) * 255 * (int64_t)DEPTH));
			CHECK(sum[0] == sum[W - 1]);
			CHECK(dense8_total((enum dense8_isa)isa, a, DEPTH) == (sign ? -128 : 127) * DEPTH);
		}
	free(b);
	free(a);
	free(offset);
	free(panel);
	free(scratch);
}

/* Halves go to even, NaN to the lowest integer, infinities and large numbers to the limits. */
TEST(rounding_saturates)
{
	static const float x[] = {0.5f,     1.5f,      -0.5f, -2.5f,  1e30f, -1e30f,
				  INFINITY, -INFINITY, NAN,   126.5f, 0};
	static const int want[] = {0, 2, 0, -2, 127, -128, 127, -128, -128, 126, 0};
	const struct dense8_bytes s8 = {-128, 127, 0, true}, u8 = {0, 255, 128}, some = {-3, 4, 1, true};
	for (int isa = 0; isa <= (int)dense8_isa(); isa++) {
		uint8_t y[11], z[11], l[11];
		dense8_quantise((enum dense8_isa)isa, 11, x, 1, s8, y);
		dense8_quantise((enum dense8_isa)isa, 11, x, 1, u8, z);
		dense8_quantise((enum dense8_isa)isa, 11, x, 1, some, l);
		for (int i = 0; i < 11; i++) {
			int limited = want[i] + 1 < -3 ? -3 : want[i] + 1 > 4 ? 4 : want[i] + 1;
			CHECK((int8_t)y[i] == want[i]);
			CHECK(z[i] == want[i] + 128);
			CHECK((int8_t)l[i] == limited);
		}
		/* a scale of 0 or NaN gives some integer */
		dense8_quantise((enum dense8_isa)isa, 11, x, 0, s8, y);
		CHECK((int8_t)y[0] == 127 && (int8_t)y[2] == -128 && (int8_t)y[10] == -128);
		dense8_quantise((enum dense8_isa)isa, 11, x, NAN, s8, y);
		CHECK((int8_t)y[0] == -128);
		/* sums near 2^31, and a factor of infinity */
		const uint32_t sum[] = {0x7fffffff, 0x80000000, 3, 0};
		const float factor[] = {1, 1, 0.5f, INFINITY};
		dense8_requantise((enum dense8_isa)isa, 4, sum, factor, s8, y);
		CHECK((int8_t)y[0] == 127 && (int8_t)y[1] == -128 && (int8_t)y[2] == 2 &&
		      (int8_t)y[3] == -128);
		dense8_requantise_row((enum dense8_isa)isa, 3, sum, 2, 0.5f, u8, z);
		CHECK(z[0] == 0 && z[1] == 0 && z[2] == 130);
	}
}

TEST_MAIN
