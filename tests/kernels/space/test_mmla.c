/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules that sum products of bytes by products of matrices: where they are legal, where the default takes
 * them, and that interpreted they give the integers of the reference. Compiled ones are in test_llvm_tasks.c.
 */
#include "kernels/space/mmla.h"
#include "kernels/space/draft.h"
#include "kernels/space/relax.h"
#include "kernels/space/transfer.h"
#include "tests/lib/byte_cases.h"

#include <stdio.h>

/* A convolution of one image. */
struct form {
	const char *x, *w, *y, *layout, *halo;
	int c, k, size, taps, pad, stride;
};

static const struct form usual = {"u8", "i8", "u8", "0.1/4.2.3.1", ";2+1+1;3+1+1", 40, 24, 9, 3, 1, 1};

static const char *text_of(struct arena *a, const struct form *f)
{
	const char *pad = f->pad ? arena_printf(a, "-%d", f->pad) : "",
		   *by = f->stride > 1 ? arena_printf(a, "%d*", f->stride) : "";
	int out = (f->size + 2 * f->pad - f->taps) / f->stride + 1;
	return arena_printf(
	    a,
	    "task syms=0\noperand X in %s [1,%d,%d,%d] %s%s\noperand W const %s [%d,%d,%d,%d] plain\n"
	    "operand S const f32 [%d] plain\noperand Y out %s [1,%d,%d,%d] %s\n"
	    "stage n:1 k:%d y:%d x:%d | c:%d r:%d s:%d\nread X [n,c,%sy+r%s,%sx+s%s]\nread W [k,c,r,s]\n"
	    "read S [k]\nbody r0 r1 mul\nsum\npost acc r2 mul rint 3 add\nwrite Y [n,k,y,x]\n",
	    f->x, f->c, f->size, f->size, f->layout, f->halo, f->w, f->k, f->c, f->taps, f->taps, f->k, f->y,
	    f->k, out, out, f->layout, f->k, out, out, f->c, f->taps, f->taps, by, pad, by, pad);
}

static struct target board(const char *extras)
{
	struct target tg;
	CHECK_OK(target_baseline("armv8-a", &tg));
	strcat(tg.features, extras);
	CHECK_OK(target_check(&tg));
	return tg;
}

#define I8MM ",+dotprod,+i8mm"

static struct space *open_space(struct arena *a, const struct form *f, const struct target *tg)
{
	return case_space(a, text_of(a, f), tg);
}

TEST(where_it_is_legal)
{
	static const char good[] = "lane=k:4 tile=k:2,x:4 unroll=c:2 mmla=1";
	static const struct {
		const char *cand, *why;
	} bad[] = {{"lane=x:4 tile=k:4 unroll=c:2 mmla=1", "not with these lanes and points"},
		   {"tile=k:2,x:4 unroll=c:2 mmla=1", "not with these lanes and points"},
		   {"lane=k:4 tile=k:2 unroll=c:2 mmla=1", "not with these lanes and points"},
		   {"lane=k:4 tile=x:4 unroll=c:5 mmla=1", "half a step"},
		   {"lane=k:4 tile=x:4 mmla=1", "half a step"},
		   {"lane=k:4 tile=x:4 unroll=c:2 chains=2 mmla=1", "not with these lanes and points"}};
	struct arena a = {0};
	const struct target tg = board(I8MM), old = board(",+dotprod");
	struct space *s = open_space(&a, &usual, &tg);
	CHECK_OK(space_legal(s, good));
	CHECK_OK(space_legal(s, "lane=k:4 tile=k:3,y:2,x:3 unroll=c:10 order=n,y,x,k,r,c,s mmla=1"));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(space_legal(s, bad[i].cand), E_INFEASIBLE, bad[i].why);
	CHECK_FAILS(space_legal(open_space(&a, &usual, &old), good), E_INFEASIBLE, "no i8mm");
	CHECK_FAILS(space_legal(s, "lane=k:4 tile=x:4 unroll=c:2 mmla=0"), E_CORRUPT, "number under 1");
	struct form f[] = {usual, usual, usual, usual, usual, usual};
	f[0].x = "i8", f[0].w = "u8"; /* signed bytes come second */
	f[1].w = "u8";                /* no operand is signed */
	f[2].x = "i8";
	f[3].halo = ""; /* reads with guards */
	f[4].layout = "0.2.3.1";
	f[5].layout = "0.1.2.3"; /* no groups of channels */
	for (size_t i = 0; i < sizeof f / sizeof *f; i++) {
		s = open_space(&a, &f[i], &tg);
		CHECK((space_legal(s, good) >= 0) == (i >= 2 && i < 5));
	}
	arena_free(&a);
}

/* Panels of an odd number of groups end in half a step, which prefetches do not count. */
TEST(prefetches_of_whole_steps)
{
	struct arena a = {0};
	const struct target tg = board(I8MM);
	struct form f = usual;
	static const char cand[] = "lane=k:4 tile=x:4 unroll=c:2 prefetch=1 mmla=1";
	f.k = 4;
	CHECK_OK(space_legal(open_space(&a, &f, &tg), cand));
	f.c = 36;
	CHECK_FAILS(space_legal(open_space(&a, &f, &tg), cand), E_INFEASIBLE, "half a step");
	arena_free(&a);
}

static const char *const layouts[] = {"0.1/4.2.3.1", "0.1/8.2.3.1", "0.1/16.2.3.1", "0.2.3.1"};

/* It is the default where the target has the instruction, with whole pairs of points where they fit. */
TEST(default_and_portfolio)
{
	struct arena a = {0};
	char cand[CAND_MAX], other[CAND_MAX];
	for (int i = 0; i < 16; i++) {
		bool has = i / 4 == 0 || i / 4 == 3;
		struct target tg = board(has ? I8MM : i / 4 == 1 ? ",+dotprod" : "");
		struct form f = usual;
		f.c = f.k = 64;
		f.size = 28;
		f.taps = i / 4 == 3 ? 1 : 3;
		f.pad = f.taps / 2;
		f.halo = f.pad ? usual.halo : "";
		f.layout = layouts[i % 4];
		f.x = i % 8 < 4 ? "u8" : "i8";
		struct space *s = open_space(&a, &f, &tg);
		int at = 0, with = 0, without = 0;
		space_default(s, cand);
		if (has != (strstr(cand, "mmla=1") != NULL))
			printf("%d: %s\n", i, cand);
		CHECK(has == (strstr(cand, "mmla=1") != NULL));
		CHECK((space_rate(space_task(s), &tg, cand) == 8) == has);
		while (space_portfolio(s, &at, other) >= 0) {
			CHECK_OK(space_legal(s, other));
			*(strstr(other, "mmla=1") ? &with : &without) += strcmp(other, cand) != 0;
		}
		CHECK((has || !with) && without > 0);
	}
	arena_free(&a);
}

TEST(drawn_and_crossed)
{
	struct arena a = {0};
	const struct target tg = board(I8MM), old = board(",+dotprod");
	int n = case_drawn(open_space(&a, &usual, &tg), 5, 200, "mmla=1");
	CHECK(n > 40 && n < 190);
	CHECK(case_drawn(open_space(&a, &usual, &old), 5, 100, "mmla=1") == 0);
	arena_free(&a);
}

/* A target without the instruction does without it; one with it keeps it. */
TEST(transferred)
{
	struct arena a = {0};
	const struct target tg = board(I8MM), old = board(",+dotprod");
	struct form odd = usual;
	struct task from;
	char out[CAND_MAX];
	static const char cand[] = "lane=k:4 tile=k:2,x:4 unroll=c:2 par=1 mmla=1";
	CHECK_OK(task_parse(text_of(&a, &usual), &from));
	odd.c = 12;
	odd.k = 3;
	CHECK_OK(space_transfer(open_space(&a, &odd, &tg), &from, 0, cand, out));
	CHECK(!strcmp(out, "lane=k:4 tile=x:4 unroll=c:2 par=1 mmla=1"));
	CHECK_OK(space_transfer(open_space(&a, &usual, &old), &from, 0, cand, out));
	CHECK(!strcmp(out, "lane=k:4 tile=k:2,x:4 unroll=c:2 par=1"));
	odd.c = 4; /* one group */
	CHECK_OK(space_transfer(open_space(&a, &odd, &tg), &from, 0, cand, out));
	CHECK(!strstr(out, "mmla"));
	arena_free(&a);
}

/* The smooth draft follows the draft. */
TEST(relaxed)
{
	static const char *const cands[] = {"lane=k:4 tile=k:2,x:8 unroll=c:4 par=3 mmla=1",
					    "lane=k:4 tile=k:4,x:4 unroll=c:2 par=3 mmla=1",
					    "lane=k:4 tile=x:14 unroll=c:4 par=2 mmla=1"};
	struct arena a = {0};
	const struct target tg = board(I8MM);
	struct form f = usual;
	f.c = f.k = 64;
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
		if (strcmp(back, cands[i]) != 0)
			printf("%s\n%s\n", cands[i], back);
		CHECK(!strcmp(back, cands[i]));
	}
	arena_free(&a);
}

/* Interprets a candidate of a task; all integers are right, floats near. */
static bool right(struct kcase *c, const char *cand, const struct target *tg)
{
	bool infeasible;
	int out = c->t.stage[c->t.nstages - 1].out.operand;
	double err = case_interpret(c, cand, tg, &infeasible),
	       most = c->t.operand[out].dtype == DT_F32 ? case_tolerance("", cand) : 0;
	if (infeasible)
		printf("%s\n", err_text());
	return !infeasible && err >= 0 && err <= most;
}

/* Loads of groups along the sum, of neighbours, of every second one, and of single ones; odd numbers of
 * groups, points and channels; whole and partial blocks. */
TEST(by_hand)
{
	static const char *const cands[] = {
	    "lane=k:4 tile=x:2 unroll=c:2 mmla=1",
	    "lane=k:4 tile=k:2,x:7 unroll=c:2 mmla=1",
	    "lane=k:4 tile=k:2,x:6 unroll=c:4 mmla=1",
	    "lane=k:4 tile=k:3,y:2,x:3 unroll=c:2,s:3 order=n,y,k,x,r,c,s par=2 mmla=1",
	    "lane=k:4 tile=k:2,y:5 unroll=c:2 par=3 mmla=1",
	    "lane=k:4 tile=y:2,x:5 unroll=c:6 mmla=1",
	    "lane=k:4 tile=k:2,x:4 unroll=c:2 par=2 outer=y mmla=1 | block=y:2",
	};
	struct target tg = board(I8MM);
	int ran = 0;
	for (int i = 0; i < 4 * 2 * 2 * 6; i += test_share())
		for (size_t j = 0; j < sizeof cands / sizeof *cands; j++) {
			static const int channels[] = {8, 12, 16, 20, 24, 40};
			struct arena a = {0};
			struct kcase c;
			struct rng r;
			struct space *s;
			struct form f = usual;
			f.layout = layouts[i % 4];
			f.stride = 1 + i / 4 % 2;
			f.halo = i / 8 % 2 ? usual.halo : "";
			f.c = channels[i / 16];
			f.k = 10 + (int)j;
			f.size = 12;
			f.x = j % 2 ? "i8" : "u8";
			rng_seed(&r, (uint64_t)i);
			REQUIRE_OK(case_parse(&c, text_of(&a, &f), &r));
			REQUIRE_OK(space_make(&a, &c.t, &tg, NULL, &s));
			if (space_legal(s, cands[j]) >= 0) {
				bool good = right(&c, cands[j], &tg);
				if (!good)
					printf("%s\n%s\n", cands[j], text_of(&a, &f));
				CHECK(good);
				ran++;
			}
			arena_free(&c.a);
			arena_free(&a);
		}
	CHECK(test_share() > 1 || ran > 300);
}

/* Random products, with defaults and drawn schedules. */
TEST(random_products)
{
	struct target tg = board(I8MM);
	const char *from = getenv("SEED"), *count = getenv("SEEDS");
	uint64_t first = from ? strtoull(from, NULL, 0) : 1, n = from    ? 1
								 : count ? strtoull(count, NULL, 0)
									 : 250;
	int with = 0, lone = 0;
	for (uint64_t seed = first; seed < first + n && !test_bad; seed++) {
		struct kcase c;
		struct rng r;
		struct space *s;
		struct buf text = {0};
		char cand[CAND_MAX];
		rng_seed(&r, seed);
		byte_products_text(&text, &r);
		REQUIRE_OK(case_parse(&c, buf_str(&text), &r));
		REQUIRE_OK(space_make(&c.a, &c.t, &tg, NULL, &s));
		space_default(s, cand);
		for (int i = 0; i < 2; i++) {
			if (i)
				with += byte_cand(s, &r, "mmla=1", cand);
			bool good = right(&c, cand, &tg);
			if (!good)
				printf("seed %llu\n%s\n%s", (unsigned long long)seed, cand, buf_str(&text));
			CHECK(good);
			lone += !i && strstr(cand, "mmla=1") != NULL;
		}
		arena_free(&c.a);
		buf_free(&text);
	}
	printf("%d drawn schedules and %d defaults with products of matrices\n", with, lone);
	CHECK(from || count || (with > 50 && lone > 50));
}

/* The longest sums of the largest bytes. */
TEST(largest_sums)
{
	struct target tg = board(I8MM);
	for (int i = 0; i < LARGEST; i += test_share()) {
		struct kcase c;
		struct space *s;
		largest_case(&c, i);
		static const char *const cands[] = {"lane=k:4 tile=y:3,k:2 unroll=c:2 mmla=1",
						    "lane=k:4 tile=y:2,k:5 unroll=c:4 mmla=1",
						    "lane=k:4 tile=y:3 mmla=1"};
		REQUIRE_OK(space_make(&c.a, &c.t, &tg, NULL, &s));
		int ran = 0;
		for (int j = 0; j < 3; j++)
			if (space_legal(s, cands[j]) >= 0) {
				CHECK(right(&c, cands[j], &tg));
				ran++;
			}
		bool is_signed = i / LARGEST_LENGTHS < 4,
		     whole = i % LARGEST_LENGTHS < 2; /* weights; blocks */
		CHECK((ran > 0) == (is_signed && whole));
		arena_free(&c.a);
	}
}

TEST_MAIN
