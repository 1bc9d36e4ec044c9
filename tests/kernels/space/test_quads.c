/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules that sum a depthwise convolution of bytes by dot products of neighbouring pixels: where they are
 * legal, where the default takes them, and that their largest sums are right. Random tasks are in
 * test_llvm_kernels.c and test_lower.c. */
#include "kernels/space/quads.h"
#include "kernels/space/draft.h"
#include "kernels/space/relax.h"
#include "kernels/space/transfer.h"
#include "tests/lib/kernel_cases.h"

#include <stdio.h>

/* A depthwise convolution of k x k taps of one image. */
struct form {
	const char *x, *w, *y, *layout, *halo;
	int c, size, k, pad, dil;
};

static const struct form usual = {"u8", "i8", "u8", "0.1/16.2.3.1", ";2+1+1;3+1+1", 40, 9, 3, 1, 1};

static const char *text_of(struct arena *a, const struct form *f)
{
	const char *dil = f->dil > 1 ? arena_printf(a, "%d*", f->dil) : "",
		   *pad = f->pad ? arena_printf(a, "-%d", f->pad) : "";
	int out = f->size + 2 * f->pad - f->dil * (f->k - 1);
	return arena_printf(
	    a,
	    "task syms=0\noperand X in %s [1,%d,%d,%d] %s%s\noperand W const %s [%d,1,%d,%d] plain\n"
	    "operand S const f32 [%d] plain\noperand Y out %s [1,%d,%d,%d] %s\n"
	    "stage n:1 k:%d y:%d x:%d | r:%d s:%d\nread X [n,k,y+%sr%s,x+%ss%s]\nread W [k,0,r,s]\n"
	    "read S [k]\nbody r0 r1 mul\nsum\npost acc r2 mul rint 3 add\nwrite Y [n,k,y,x]\n",
	    f->x, f->c, f->size, f->size, f->layout, f->halo, f->w, f->c, f->k, f->k, f->c, f->y, f->c, out,
	    out, f->layout, f->c, out, out, f->k, f->k, dil, pad, dil, pad);
}

static struct space *open_space(struct arena *a, const struct form *f, const struct target *tg)
{
	return case_space(a, text_of(a, f), tg);
}

static struct target vnni_board(int lanes)
{
	struct target tg = case_board(lanes, 32);
	strcpy(tg.features, "+avx512vnni,+avx512vl");
	return tg;
}

TEST(where_it_is_legal)
{
	static const char good[] = "lane=k:16 tile=x:4 unroll=r:3,s:3 quads=1";
	static const struct {
		const char *cand, *why;
	} bad[] = {{"lane=k:8 tile=x:4 unroll=r:3,s:3 quads=1", "block of channels in the lanes"},
		   {"lane=x:4 unroll=r:3,s:3 quads=1", "block of channels in the lanes"},
		   {"unroll=r:3,s:3 quads=1", "block of channels in the lanes"},
		   {"lane=k:16 tile=x:4 unroll=r:3 quads=1", "not all in the body"},
		   {"lane=k:16 unroll=r:3,s:3 chains=3 quads=1", "block of channels in the lanes"}};
	struct arena a = {0};
	const struct target tg = vnni_board(16);
	struct space *s = open_space(&a, &usual, &tg);
	CHECK_OK(space_legal(s, good));
	CHECK_OK(space_legal(s, "lane=k:16 tile=k:2,y:3,x:5 unroll=s:3 order=n,y,x,k,r,s quads=1"));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(space_legal(s, bad[i].cand), E_INFEASIBLE, bad[i].why);
	CHECK_FAILS(space_legal(s, "lane=k:16 unroll=r:3,s:3 quads=2"), E_CORRUPT, "number over 1");
	CHECK_FAILS(space_legal(s, "lane=k:16 unroll=r:3,s:3 quads=0"), E_CORRUPT, "number under 1");
	struct form f[] = {usual, usual, usual, usual, usual, usual};
	f[0].x = "f32", f[0].w = "f32", f[0].y = "f32";
	f[1].w = "u8";                /* no operand is signed */
	f[2].halo = "";               /* reads need guards */
	f[3].dil = 2, f[3].pad = 0;   /* taps lie apart */
	f[4].layout = "0.1/64.2.3.1"; /* pixels lie apart */
	f[5].layout = "0.1/16.3.2.1"; /* columns instead of rows */
	for (size_t i = 0; i < sizeof f / sizeof *f; i++) {
		s = open_space(&a, &f[i], &tg);
		CHECK((space_legal(s, good) >= 0) == (i == 5));
	}
	f[0] = usual;
	f[0].layout = "0.2.3.1"; /* all channels are one block */
	f[0].c = 16;
	CHECK_OK(space_legal(open_space(&a, &f[0], &tg), good));
	f[0].c = 32;
	CHECK_FAILS(space_legal(open_space(&a, &f[0], &tg), good), E_INFEASIBLE, "block of channels");
	arena_free(&a);
}

/* A vector of 16 channels that begins behind the first ones of a pixel would end in the next pixel. */
TEST(lanes_are_one_pixel)
{
	static const char *const channel[] = {"k", "k+4"};
	struct arena a = {0};
	const struct target tg = vnni_board(16);
	for (int i = 0; i < 2; i++) {
		struct task t;
		struct space *s;
		CHECK_OK(task_parse(
		    arena_printf(
			&a,
			"task syms=0\noperand X in u8 [1,16,9,9] 0.2.3.1\noperand W const i8 [12,1,1,3] "
			"plain\n"
			"operand Y out f32 [1,12,9,7] plain\nstage n:1 k:12 y:9 x:7 | r:1 s:3\n"
			"read X [n,%s,y+r,x+s]\nread W [k,0,r,s]\nbody r0 r1 mul\nsum\nwrite Y [n,k,y,x]\n",
			channel[i]),
		    &t));
		CHECK_OK(space_make(&a, &t, &tg, NULL, &s));
		CHECK((space_legal(s, "lane=k:16 unroll=s:3 quads=1") >= 0) == !i);
	}
	arena_free(&a);
}

/* Four neighbours of a ring's row dim do not follow one another in its scratch. */
TEST(not_along_a_ring)
{
	static const char text[] =
	    "task syms=0\noperand X in u8 [1,4,9,9] 0.1/4.2.3.1\noperand W const i8 [4,4,1,1] plain\n"
	    "operand H tmp u8 [1,4,9,9] 0.1/4.2.3.1;2+1+1;3+1+1\noperand V const i8 [4,1,3,3] plain\n"
	    "operand Y out u8 [1,4,9,9] 0.1/4.2.3.1\nstage n:1 k:4 y:9 x:9 | c:4\nread X [n,c,y,x]\n"
	    "read W [k,c,0,0]\nbody r0 r1 mul\nsum\npost acc 0.5 mul rint\nwrite H [n,k,y,x]\n"
	    "stage n:1 k:4 y:9 x:9 | r:3 s:3\nread H [n,k,y+r-1,x+s-1]\nread V [k,0,r,s]\n"
	    "body r0 r1 mul\nsum\npost acc 0.5 mul rint\nwrite Y [n,k,y,x]\n";
	struct arena a = {0};
	const struct target tg = vnni_board(4);
	struct space *s = case_space(&a, text, &tg);
	CHECK_OK(space_legal(s, "lane=k:4; lane=k:4 unroll=r:3,s:3 ring=y:2 quads=1"));
	CHECK_FAILS(space_legal(s, "lane=k:4; lane=k:4 unroll=r:3,s:3 ring=x:2 quads=1"), E_INFEASIBLE,
		    "neighbours in other rows");
	arena_free(&a);
}

/* It is the default where one instruction multiplies these bytes. */
TEST(default_and_portfolio)
{
	struct arena a = {0};
	char cand[CAND_MAX], other[CAND_MAX];
	for (int i = 0; i < 4; i++) {
		struct target tg = i == 1 ? case_board(16, 32) : vnni_board(i == 3 ? 8 : 16);
		struct form f = usual;
		f.c = 64;
		f.size = 56;
		f.x = i == 2 ? "i8" : "u8";
		f.layout = i == 3 ? "0.1/8.2.3.1" : f.layout;
		struct space *s = open_space(&a, &f, &tg);
		int at = 0, with = 0, without = 0;
		space_default(s, cand);
		CHECK((strstr(cand, "quads=1") != NULL) == (i != 1 && i != 2));
		CHECK(space_rate(space_task(s), &tg, cand) > (i == 1 || i == 2 ? 1 : 2.9));
		while (space_portfolio(s, &at, other) >= 0) {
			CHECK_OK(space_legal(s, other));
			*(strstr(other, "quads=1") ? &with : &without) += strcmp(other, cand) != 0;
		}
		CHECK(with > 0 && without > 0);
	}
	arena_free(&a);
}

TEST(drawn_and_crossed)
{
	struct arena a = {0};
	const struct target tg = vnni_board(16);
	struct form f = usual;
	int n = case_drawn(open_space(&a, &f, &tg), 5, 200, "quads=1");
	CHECK(n > 40 && n < 180);
	f.halo = "";
	CHECK(case_drawn(open_space(&a, &f, &tg), 5, 100, "quads=1") == 0);
	arena_free(&a);
}

/* Chains hold all taps of their points, and lie inside of the pixels that the tile needs. */
TEST(chains_stay_inside)
{
	for (int taps = 2; taps <= QUADS_TAPS; taps++)
		for (int64_t stride = 1; stride <= 4; stride++)
			for (int points = 1; points <= 16; points++) {
				int n = (taps + QUAD - 1) / QUAD;
				struct quads q = {.taps = taps, .n = n, .phases = QUAD * n - taps + 1};
				int64_t pixels = (points - 1) * stride + taps, chain = -1;
				for (int p = 0; p < points; p++) {
					chain = quads_chain(&q, p * stride, chain, pixels);
					int64_t phase = p * stride - chain;
					CHECK(chain >= 0 && phase >= 0 && phase < q.phases);
					CHECK(chain + QUAD * n <= pixels || (pixels < QUAD * n && !chain));
					CHECK(chain + QUAD * (n - 1) < pixels);
				}
			}
}

/* Schedules of boards with other vectors, and of tasks that cannot have quads. */
TEST(transferred)
{
	struct arena a = {0};
	struct target wide = vnni_board(16), narrow = vnni_board(8);
	struct form f = usual, five = usual;
	struct task from;
	char out[CAND_MAX];
	static const char cand[] = "lane=k:16 tile=y:2,x:4 unroll=r:3,s:3 par=1 quads=1";
	CHECK_OK(task_parse(text_of(&a, &usual), &from));
	f.layout = "0.1/8.2.3.1";
	CHECK_OK(space_transfer(open_space(&a, &f, &narrow), &from, 16, cand, out));
	CHECK(!strcmp(out, "lane=k:8 tile=y:2,x:4 unroll=r:3,s:3 par=1 quads=1"));
	five.c = 48; /* whole tiles, so that the body is not too large */
	five.size = 8;
	five.k = 5;
	five.pad = 2;
	five.halo = ";2+2+2;3+2+2";
	CHECK_OK(space_transfer(open_space(&a, &five, &wide), &from, 16, cand, out));
	CHECK(!strcmp(out, "lane=k:16 tile=y:2,x:4 unroll=r:3,s:5 par=1 quads=1"));
	f = usual;
	f.halo = "";
	CHECK_OK(space_transfer(open_space(&a, &f, &wide), &from, 16, cand, out));
	CHECK(!strstr(out, "quads"));
	arena_free(&a);
}

/* The smooth draft follows the draft. */
TEST(relaxed)
{
	static const char *const cands[] = {"lane=k:16 tile=y:2,x:4 unroll=r:3,s:3 par=2 quads=1",
					    "lane=k:16 tile=x:8 unroll=r:3,s:3 par=2 quads=1",
					    "lane=k:16 tile=x:14 unroll=s:3 par=2 quads=1"};
	struct arena a = {0};
	const struct target tg = vnni_board(16);
	struct form f = usual;
	f.c = 64;
	f.size = 56;
	struct space *s = open_space(&a, &f, &tg);
	struct relax *r = relax_new(&a);
	for (int i = 0; i < 3; i++) {
		double x[RELAX_MAX], grad[RELAX_MAX];
		char back[CAND_MAX];
		REQUIRE_OK(relax_sketch(r, s, cands[i]));
		relax_start(r, x);
		double smooth = exp(relax_cost(r, x, grad)) / draft_ghz(&tg),
		       draft = space_draft(s, cands[i]);
		CHECK(fabs(log(smooth / draft)) < .1);
		relax_round(r, x, 0, back);
		CHECK(!strcmp(back, cands[i]));
	}
	arena_free(&a);
}

/* No sum saturates: all taps and pixels are the largest, and the scale spreads the results over the bytes. */
TEST(largest_sums)
{
	static const struct {
		const char *x, *w;
		int value, weight;
	} k[] = {{"u8", "i8", 255, 127},   {"u8", "i8", 255, -128}, {"u8", "i8", 255, -127},
		 {"i8", "i8", -128, -128}, {"i8", "i8", -128, 127}, {"i8", "u8", -128, 255},
		 {"i8", "i8", 127, -127}};
	static const int taps[] = {2, 3, 4, 5, 7};
	for (size_t i = 0; i < sizeof k / sizeof *k; i++)
		for (int j = 0; j < 5; j++) {
			struct kcase c;
			struct rng r;
			struct form f = usual;
			char cand[96];
			struct target tg = vnni_board(16);
			bool infeasible;
			f.x = k[i].x;
			f.w = k[i].w;
			f.k = taps[j];
			f.pad = 0;
			f.halo = "";
			struct arena a = {0};
			rng_seed(&r, 1);
			REQUIRE_OK(case_parse(&c, text_of(&a, &f), &r));
			for (int n = 0; n < c.elems[0]; n++)
				((uint8_t *)c.phys[0])[n] = ((uint8_t *)c.ref[0])[n] = (uint8_t)k[i].value;
			memset(c.plain[1], k[i].weight, (size_t)(f.c * f.k * f.k));
			memset(c.phys[1], k[i].weight, (size_t)(f.c * f.k * f.k));
			memset(c.ref[1], k[i].weight, (size_t)(f.c * f.k * f.k));
			for (int v = 0; v < f.c; v++)
				((float *)c.ref[2])[v] = ((float *)c.phys[2])[v] = ((float *)c.plain[2])[v] =
				    (float)(v - 20) * 12.3f / ((float)(f.k * f.k * k[i].value * k[i].weight));
			REQUIRE_OK(task_reference(&c.t, c.ref, &c.a));
			snprintf(cand, sizeof cand, "lane=k:16 tile=x:3 unroll=r:2,s:%d quads=1", f.k);
			CHECK(case_interpret(&c, cand, &tg, &infeasible) == 0);
			CHECK(!infeasible);
			arena_free(&c.a);
			arena_free(&a);
		}
}

TEST_MAIN
