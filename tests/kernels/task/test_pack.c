/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/test.h"
#include "kernels/task/pack.h"
#include "platform/base/rng.h"

#include <math.h>

/* Packs straight from pack.h's definition. */
static void slow(const struct packing *p, const float *src, float *dst)
{
	int64_t at[PACK_MAX] = {0}, n = pack_elems(p);
	for (int64_t i = 0; i < n; i++) {
		int64_t flat = 0;
		bool in = true;
		for (int d = 0; d < p->src.rank; d++) {
			int64_t v = p->off[d];
			for (int j = 0; j < p->n; j++)
				v += p->coef[d][j] * at[j];
			in &= v >= 0 && v < p->src.d[d];
			flat = flat * p->src.d[d] + v;
		}
		dst[i] = in ? src[flat] : p->fill;
		for (int j = p->n - 1; j >= 0 && ++at[j] == p->extent[j]; j--)
			at[j] = 0;
	}
}

static void random_packing(struct rng *r, struct packing *p)
{
	memset(p, 0, sizeof *p);
	p->n = (int)rng_below(r, 5);
	p->src.rank = (int)rng_below(r, 4);
	p->fill = (float)rng_below(r, 3) - 1.5f;
	for (int j = 0; j < p->n; j++)
		p->extent[j] = 1 + rng_below(r, 6);
	for (int d = 0; d < p->src.rank; d++) {
		p->src.d[d] = 1 + rng_below(r, 7);
		p->off[d] = (int64_t)rng_below(r, 7) - 2;
		for (int j = 0; j < p->n; j++)
			p->coef[d][j] = rng_below(r, 2) ? (int)rng_below(r, 7) - 3 : 0;
	}
}

/* A change of any part that packing depends on is detected. */
TEST(same_packing)
{
	struct rng r;
	struct packing a, b;
	rng_seed(&r, 3);
	for (int i = 0; i < 200; i++) {
		random_packing(&r, &a);
		b = a;
		CHECK(pack_same(&a, &b));
		b.fill += 1;
		CHECK(!pack_same(&a, &b));
		b = a;
		b.f16 = true;
		CHECK(!pack_same(&a, &b));
		b = a;
		b.winograd.m = 2;
		CHECK(!pack_same(&a, &b));
		if (!a.n || !a.src.rank)
			continue;
		int j = (int)rng_below(&r, (uint32_t)a.n), d = (int)rng_below(&r, (uint32_t)a.src.rank);
		b = a;
		b.extent[j]++;
		CHECK(!pack_same(&a, &b));
		b = a;
		b.coef[d][j]++;
		CHECK(!pack_same(&a, &b));
		b = a;
		b.off[d]--;
		CHECK(!pack_same(&a, &b));
		b = a;
		b.src.d[d]++;
		CHECK(!pack_same(&a, &b));
	}
}

/* Whether each of n f16 is the nearest one to the float. */
static bool all_nearest(const uint16_t *got, const float *want, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		if (got[i] != f32_to_f16(want[i]))
			return false;
	return true;
}

TEST(run_follows_the_definition)
{
	struct rng r;
	static float src[512], a[2048], b[2048];
	static uint16_t half[2049];
	rng_seed(&r, 1);
	rng_fill(&r, src, 512);
	for (int i = 0; i < 5000; i++) {
		struct packing p, q;
		struct buf text = {0};
		random_packing(&r, &p);
		REQUIRE_OK(pack_check(&p));
		pack_run(&p, src, a);
		slow(&p, src, b);
		REQUIRE(!memcmp(a, b, sizeof *a * (size_t)pack_elems(&p)));
		p.f16 = i % 2;
		half[pack_elems(&p)] = 0xbeef;
		if (p.f16)
			pack_run_type(&p, DT_F32, src, half);
		REQUIRE(!p.f16 || (all_nearest(half, b, pack_elems(&p)) && half[pack_elems(&p)] == 0xbeef));
		pack_text(&p, &text);
		REQUIRE_OK(pack_parse(buf_str(&text), &q));
		CHECK(!memcmp(&p, &q, sizeof p));
		buf_free(&text);
	}
}

TEST(weights_to_blocks_of_outputs)
{
	/* [k 5][c 2] -> [k/4][c][4], padded with zeros */
	struct packing p = {.n = 3, .extent = {2, 2, 4}, .src = {2, {5, 2}}, .coef = {{4, 0, 1}, {0, 1, 0}}};
	float src[10], dst[16];
	for (int i = 0; i < 10; i++)
		src[i] = (float)i;
	pack_run(&p, src, dst);
	const float want[16] = {0, 2, 4, 6, 1, 3, 5, 7, 8, 0, 0, 0, 9, 0, 0, 0};
	CHECK(!memcmp(dst, want, sizeof dst));
}

/* Point (i, j) of G g G' for F(4x4, 3x3). */
static double winograd_point(const float *g, int i, int j)
{
	static const double G[6][3] = {{1. / 4, 0, 0},
				       {-1. / 6, -1. / 6, -1. / 6},
				       {-1. / 6, 1. / 6, -1. / 6},
				       {1. / 24, 1. / 12, 1. / 6},
				       {1. / 24, -1. / 12, 1. / 6},
				       {0, 0, 1}};
	double sum = 0;
	for (int r = 0; r < 3; r++)
		for (int s = 0; s < 3; s++)
			sum += G[i][r] * G[j][s] * (double)g[r * 3 + s];
	return sum;
}

/* Filters of whole blocks are read without bounds, those of a source that ends within the last block with
 * them; blocks of 4 to 24 are gathered in different pieces. */
TEST(winograd_follows_the_definition)
{
	enum { C = 5, BLOCKS = 3 };
	static float src[24 * BLOCKS * C * 9], dst[24 * BLOCKS * C * 36];
	static uint16_t half[24 * BLOCKS * C * 36];
	struct rng r;
	rng_seed(&r, 4);
	rng_fill(&r, src, sizeof src / sizeof *src);
	for (int lanes = 4; lanes <= 24; lanes += 4)
		for (int missing = 0; missing < 4; missing += 3) {
			char text[128];
			struct packing p;
			int n = BLOCKS * lanes - missing;
			snprintf(
			    text, sizeof text,
			    "%d,6,6,%d,%d < %d,%d,3,3 fill=0 winograd=4,2,3,1,2 | 0 %d,0,0,0,1 | 0 0,0,0,1,0"
			    " | 0 0,0,0,0,0 | 0 0,0,0,0,0",
			    BLOCKS, C, lanes, n, C, lanes);
			REQUIRE_OK(pack_parse(text, &p));
			pack_run(&p, src, dst);
			for (int i = 0; i < BLOCKS * 36 * C * lanes; i++) {
				int c = i / lanes % C, point = i / lanes / C % 36;
				int k = i / lanes / C / 36 * lanes + i % lanes;
				double want =
				    k < n ? winograd_point(src + (k * C + c) * 9, point / 6, point % 6) : 0;
				REQUIRE(fabs((double)dst[i] - want) < 1e-6);
			}
			p.f16 = true;
			pack_run(&p, src, half);
			REQUIRE(all_nearest(half, dst, pack_elems(&p)));
		}
}

/* Taps that an offset moves out of the source are filled. */
TEST(winograd_taps_outside)
{
	static const char text[] = "1,6,6,1,4 < 4,1,3,3 fill=0 winograd=4,2,3,1,2 | 0 4,0,0,0,1 | 0 0,0,0,1,0"
				   " | 1 0,0,0,0,0 | 0 0,0,0,0,0";
	float src[36], moved[36] = {0}, dst[4 * 36];
	struct packing p;
	for (int i = 0; i < 36; i++)
		src[i] = (float)(i + 1);
	for (int k = 0; k < 4; k++)
		memcpy(moved + k * 9, src + k * 9 + 3, 6 * sizeof *src);
	REQUIRE_OK(pack_parse(text, &p));
	pack_run(&p, src, dst);
	for (int i = 0; i < 4 * 36; i++)
		CHECK(fabs((double)dst[i] - winograd_point(moved + i % 4 * 9, i / 4 / 6, i / 4 % 6)) < 1e-5);
}

TEST(hostile_text_is_corrupt)
{
	static const char good[] = "2,2,4 < 5,2 fill=0 | 0 4,0,1 | 0 0,1,0";
	static const char letters[] = "0123456789,-<|. e";
	struct rng r;
	struct packing p;
	rng_seed(&r, 2);
	CHECK_OK(pack_parse(good, &p));
	CHECK_FAILS(pack_parse("0 < 1 fill=0 | 0 1", &p), E_CORRUPT, "extent 0");
	CHECK_FAILS(pack_parse("99999999,99999999 < 1 fill=0 | 0 1,1", &p), E_CORRUPT, "extent 1");
	CHECK_FAILS(pack_parse("2 < 2 fill=nan | 0 1", &p), E_CORRUPT, "packing");
	CHECK_FAILS(pack_parse("2 < 2 fill=0 | 0 1 ", &p), E_CORRUPT, "after the end");
	for (int i = 0; i < 20000; i++) {
		char text[sizeof good];
		memcpy(text, good, sizeof good);
		for (int k = 0; k < 3; k++)
			text[rng_below(&r, sizeof good - 1)] = letters[rng_below(&r, sizeof letters - 1)];
		int rc = pack_parse(text, &p);
		CHECK(rc == E_OK || rc == E_CORRUPT);
	}
}

/* Constant filters: the transform of ones at the points 0, 1, -1, 2, -2 and infinity. */
TEST(winograd)
{
	static const char text[] = "6,6,2 < 2,3,3 fill=0 winograd=4,1,2,0,1 | 0 0,0,1 | 0 0,0,0 | 0 0,0,0";
	static const double point[6] = {.25, -.5, -1. / 6, 7. / 24, 1. / 8, 1};
	float src[18], dst[72];
	struct packing p;
	struct buf again = {0};
	REQUIRE_OK(pack_parse(text, &p));
	pack_text(&p, &again);
	CHECK(!strcmp(buf_str(&again), text));
	for (int i = 0; i < 18; i++)
		src[i] = i < 9 ? 1 : -2;
	pack_run(&p, src, dst);
	for (int i = 0; i < 72; i++) {
		double want = point[i / 12] * point[i / 2 % 6] * (i % 2 ? -2 : 1);
		CHECK(fabs((double)dst[i] - want) < 1e-7);
	}
	buf_free(&again);
	static const struct {
		const char *text, *why;
	} bad[] = {
	    {"6,6,2 < 2,3,3 fill=0 winograd=3,1,2,0,1 | 0 0,0,1 | 0 0,0,0 | 0 0,0,0", "winograd of 3"},
	    {"6,6,2 < 2,3,3 fill=0 winograd=0,1,2,0,1 | 0 0,0,1 | 0 0,0,0 | 0 0,0,0", "winograd of 0"},
	    {"6,6,2 < 2,3,3 fill=0 winograd=4,1,1,0,1 | 0 0,0,1 | 0 0,0,0 | 0 0,0,0", "winograd of 4"},
	    {"6,6,2 < 2,3,3 fill=0 winograd=4,0,2,0,1 | 0 0,0,1 | 0 0,0,0 | 0 0,0,0", "dim 0"},
	    {"6,6,2 < 2,3,3 fill=0 winograd=4,1,7,0,1 | 0 0,0,1 | 0 0,0,0 | 0 0,0,0", "dim 7"},
	    {"6,6,2 < 2,3,3 fill=0 winograd=4,1,2,0,2 | 0 0,0,1 | 0 0,0,0 | 0 0,0,0", "loop 2"},
	    {"6,5,2 < 2,3,3 fill=0 winograd=4,1,2,0,1 | 0 0,0,1 | 0 0,0,0 | 0 0,0,0", "loop 1"},
	    {"6,6,2 < 2,3,3 fill=0 winograd=4,1,2,0,1 | 0 0,1,1 | 0 0,0,0 | 0 0,0,0", "moves"},
	    {"6,6,2 < 2,3,3 fill=0 winograd=4,1,2,0 | 0 0,0,1 | 0 0,0,0 | 0 0,0,0", "winograd"},
	    {"6,6,2 < 2,3,3 fill=0 winograd=4,1,2,99,1 | 0 0,0,1 | 0 0,0,0 | 0 0,0,0", "winograd of 99"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(pack_parse(bad[i].text, &p), E_CORRUPT, bad[i].why);
}

/* Filters that lie partly outside of the source, more of them than are transformed at once. */
TEST(winograd_filters_outside)
{
	static const char text[] = "4,4,37 < 20,3,3 fill=2 winograd=2,1,2,0,1 | -1 0,0,1 | 0 0,0,0 | 0 0,0,0";
	float src[180], dst[592];
	struct packing p;
	REQUIRE_OK(pack_parse(text, &p));
	for (int i = 0; i < 180; i++)
		src[i] = (float)(i / 9);
	pack_run(&p, src, dst);
	for (int f = 0; f < 37; f++) {
		CHECK(dst[f] == (f < 1 || f > 20 ? 2 : (float)(f - 1)));                  /* G's row 1 0 0 */
		CHECK(dst[5 * 37 + f] == 2.25f * (f < 1 || f > 20 ? 2 : (float)(f - 1))); /* .5 .5 .5 */
	}
}

/* f16 holds the numbers that pack_exact makes, and what becomes of filters that are made of them. */
TEST(exact_numbers)
{
	static const char text[] =
	    "%d,%d,64 < 64,3,3 fill=0 winograd=%d,1,2,0,1 | 0 0,0,1 | 0 0,0,0 | 0 0,0,0";
	static float src[64 * 9], dst[64 * 36];
	struct rng r;
	rng_seed(&r, 5);
	for (int i = 0; i < 2000; i++) {
		char of[128];
		struct packing p;
		int m = i % 2 ? 2 : 4;
		rng_fill(&r, src, 64 * 9);
		for (int k = 0; k < 64 * 9; k++) {
			float v = src[k];
			src[k] = pack_exact(i % 8 ? v : v < 0 ? -1 : 1);
			REQUIRE(src[k] != 0 && f16_to_f32(f32_to_f16(src[k])) == src[k]);
			REQUIRE(i % 8 == 0 || fabsf(src[k] * 10 / 9 - v * 25 / 26) < .08f);
		}
		snprintf(of, sizeof of, text, m + 2, m + 2, m);
		REQUIRE_OK(pack_parse(of, &p));
		pack_run(&p, src, dst);
		for (int64_t k = 0; k < pack_elems(&p); k++)
			REQUIRE(f16_to_f32(f32_to_f16(dst[k])) == dst[k]);
	}
}

/* f16 ends at 65504. F(2,3) makes 9 equal weights 2.25 times as large, F(4,3) at most as large as they are.
 */
TEST(f16_holds)
{
	static const char text[] =
	    "4,4,1 < 1,3,3 fill=0 f16 winograd=2,1,2,0,1 | 0 0,0,1 | 0 0,0,0 | 0 0,0,0";
	struct packing direct = {.f16 = true}, two, four = {.f16 = true, .winograd.m = 4};
	struct buf again = {0};
	REQUIRE_OK(pack_parse(text, &two));
	pack_text(&two, &again);
	CHECK(two.f16 && !strcmp(buf_str(&again), text));
	buf_free(&again);
	CHECK(pack_type(&two, DT_F32) == DT_F16 && pack_type(&(struct packing){0}, DT_U8) == DT_U8);
	const float edge = 65504 / 2.25f, big[9] = {edge, edge, edge, edge, edge, edge, edge, edge, edge};
	uint16_t dst[16];
	pack_run(&two, big, dst);
	CHECK(f16_to_f32(dst[5]) == 65504);
	CHECK(pack_holds(&two, edge) && !pack_holds(&two, edge * 1.001f));
	CHECK(pack_holds_any(edge) && !pack_holds_any(edge * 1.001f));
	CHECK(pack_holds(&direct, 65504) && !pack_holds(&direct, 65505));
	CHECK(pack_holds(&four, 65504) && !pack_holds(&four, 65505));
	CHECK(pack_holds(&direct, 0) && pack_holds(&direct, .004f) && !pack_holds(&direct, .003f));
	const float bad[4] = {1, NAN, 2, -INFINITY};
	CHECK(pack_largest(bad, 1) == 1 && isinf(pack_largest(bad, 3)) && isinf(pack_largest(bad + 2, 2)));
	CHECK(pack_largest((const float[]){1, -3, 2}, 3) == 3 && pack_largest(NULL, 0) == 0);
	CHECK(!pack_holds(&direct, pack_largest(bad, 3)));
	CHECK_FAILS(pack_parse("2 < 2 fill=70000 f16 | 0 1", &two), E_CORRUPT, "fill value");
}

TEST_MAIN
