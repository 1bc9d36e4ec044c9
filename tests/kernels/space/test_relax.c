/* SPDX-License-Identifier: Apache-2.0 */
/* Relaxed schedules: exact gradients, the draft's ranking, and rounding that always gives a legal
 * schedule. */
#include "kernels/space/draft.h"
#include "kernels/space/relax.h"
#include "tests/lib/items_cases.h"
#include "tests/lib/kernel_cases.h"
#include "tests/lib/tasks.h"

static const char *const known[] = {
    /* a convolution, also as Winograd */
    "task syms=0\noperand X in f32 [1,64,28,28] 0.1/16.2.3.1;2+1+1;3+1+1\n"
    "operand W const f32 [64,64,3,3] plain\noperand Y out f32 [1,64,28,28] 0.1/16.2.3.1\n"
    "stage n:1 k:64 y:28 x:28 | c:64 r:3 s:3\nread X [n,c,y+r-1,x+s-1]\nread W [k,c,r,s]\n"
    "body r0 r1 mul\nsum\npost acc 0 max\nwrite Y [n,k,y,x]\n",
    /* 1x1 */
    "task syms=0\noperand X in f32 [1,96,14,14] 0.1/16.2.3.1\noperand W const f32 [576,96] plain\n"
    "operand Y out f32 [1,576,14,14] 0.1/16.2.3.1\nstage n:1 k:576 y:14 x:14 | c:96\nread X [n,c,y,x]\n"
    "read W [k,c]\nbody r0 r1 mul\nsum\nwrite Y [n,k,y,x]\n",
    /* depthwise */
    "task syms=0\noperand X in f32 [1,64,40,40] 0.1/16.2.3.1;2+1+1;3+1+1\n"
    "operand W const f32 [64,1,3,3] plain\noperand Y out f32 [1,64,40,40] 0.1/16.2.3.1\n"
    "stage n:1 k:64 y:40 x:40 | r:3 s:3\nread X [n,k,y+r-1,x+s-1]\nread W [k,0,r,s]\n"
    "body r0 r1 mul\nsum\nwrite Y [n,k,y,x]\n",
    /* a product of matrices */
    "task syms=0\noperand A in f32 [197,192] plain\noperand B const f32 [192,576] plain\n"
    "operand Y out f32 [197,576] plain\nstage m:197 n:576 | k:192\nread A [m,k]\nread B [k,n]\n"
    "body r0 r1 mul\nsum\nwrite Y [m,n]\n",
    /* 1x1 and depthwise in a ring of rows */
    "task syms=0\noperand X in f32 [1,32,40,40] 0.1/16.2.3.1\noperand W const f32 [64,32] plain\n"
    "operand H tmp f32 [1,64,40,40] 0.1/16.2.3.1;2+1+1;3+1+1\noperand D const f32 [64,1,3,3] plain\n"
    "operand Y out f32 [1,64,40,40] 0.1/16.2.3.1\nstage n:1 k:64 y:40 x:40 | c:32\nread X [n,c,y,x]\n"
    "read W [k,c]\nbody r0 r1 mul\nsum\npost acc 0 max\nwrite H [n,k,y,x]\n"
    "stage n:1 k:64 y:40 x:40 | r:3 s:3\nread H [n,k,y+r-1,x+s-1]\nread D [k,0,r,s]\nbody r0 r1 mul\nsum\n"
    "write Y [n,k,y,x]\n",
};

enum { KNOWN = sizeof known / sizeof *known };

struct setup {
	struct arena a;
	struct task t;
	struct space *s;
	struct relax *x;
	struct rng r;
};

static bool open_text(struct setup *u, const char *text, const struct target *tg)
{
	memset(u, 0, sizeof *u);
	rng_seed(&u->r, 1);
	CHECK_OK(task_parse(text, &u->t));
	CHECK_OK(test_bad ? -1 : space_make(&u->a, &u->t, tg, NULL, &u->s));
	u->x = relax_new(&u->a);
	return !test_bad;
}

/* Every kind of task that lowering supports. */
static bool open_case(struct setup *u, uint64_t seed, const struct target *tg)
{
	struct buf text = {0};
	struct rng r;
	rng_seed(&r, seed);
	case_text(&text, &r);
	bool good = open_text(u, buf_str(&text), tg);
	buf_free(&text);
	return good;
}

static void anywhere(struct relax *x, struct rng *r, double *at)
{
	for (int i = 0; i < relax_size(x); i++) {
		double low, top;
		relax_range(x, i, &low, &top);
		at[i] = low + (top - low) * rng_unit(r);
	}
}

typedef double relax_function(struct relax *x, const double *at, double *grad);

/* 1: the derivative is right; 0: wrong; -1: there are only one-sided derivatives. */
static int derivative(relax_function *f, struct relax *x, const double *at, int i, double g)
{
	double p[RELAX_MAX], h = 1e-6, here = f(x, at, NULL);
	memcpy(p, at, sizeof p);
	p[i] = at[i] + h;
	double right = (f(x, p, NULL) - here) / h;
	p[i] = at[i] - h;
	double left = (here - f(x, p, NULL)) / h;
	if (fabs(right - left) > 1e-3 * (1 + fabs(right) + fabs(left)))
		return -1;
	return fabs(.5 * (left + right) - g) < 1e-3 * (1 + fabs(g));
}

static void count_derivatives(relax_function *f, struct relax *x, const double *at, int *all, int *kinks)
{
	double g[RELAX_MAX];
	CHECK(isfinite(f(x, at, g)));
	for (int i = 0; i < relax_size(x); i++) {
		int right = derivative(f, x, at, i, g[i]);
		CHECK(right);
		*kinks += right < 0;
		*all += 1;
	}
}

TEST(gradients_are_limits_of_differences)
{
	const struct target tg[] = {case_board(16, 32), case_board(8, 16), case_board(4, 32), case_gpu()};
	int all = 0, kinks = 0;
	for (uint64_t seed = 1; seed <= 150 + KNOWN && !test_bad; seed++) {
		struct setup u;
		bool open = seed > 150 ? open_text(&u, known[seed - 151], &tg[seed % 4])
				       : open_case(&u, seed, &tg[seed % 4]);
		for (int k = 0; k < 6 && open; k++) {
			char cand[CAND_MAX];
			double at[RELAX_MAX];
			CHECK_OK(space_random(u.s, &u.r, cand));
			if (relax_sketch(u.x, u.s, cand) < 0)
				continue;
			anywhere(u.x, &u.r, at);
			count_derivatives(relax_cost, u.x, at, &all, &kinks);
			count_derivatives(relax_penalty, u.x, at, &all, &kinks);
			if (test_bad)
				printf("seed %d: %s\n", (int)seed, cand);
		}
		arena_free(&u.a);
	}
	CHECK(all > 4000 && kinks * 50 < all);
}

TEST(roundings_are_legal)
{
	const struct target tg[] = {case_board(16, 32), case_board(8, 16), case_board(4, 32)};
	for (uint64_t seed = 1; seed <= 200 + KNOWN && !test_bad; seed++) {
		struct setup u;
		bool open = seed > 200 ? open_text(&u, known[seed - 201], &tg[seed % 3])
				       : open_case(&u, seed, &tg[seed % 3]);
		for (int k = 0; k < 8 && open; k++) {
			char cand[CAND_MAX], out[CAND_MAX];
			double at[RELAX_MAX];
			CHECK_OK(space_random(u.s, &u.r, cand));
			if (relax_sketch(u.x, u.s, cand) < 0)
				continue;
			for (int way = 0; way < 2 * RELAX_ROUNDINGS; way++) {
				anywhere(u.x, &u.r, at);
				relax_round(u.x, at, way % RELAX_ROUNDINGS, out);
				CHECK_OK(space_legal(u.s, out));
			}
			if (test_bad)
				printf("seed %d: %s: %s\n", (int)seed, cand, out);
		}
		arena_free(&u.a);
	}
}

/* The numbers of a schedule round to that schedule, and neighbouring numbers to different ones. */
TEST(roundings_of_integers)
{
	const struct target tg = case_board(16, 32);
	for (int i = 0; i < KNOWN; i++) {
		struct setup u;
		char cand[CAND_MAX], out[CAND_MAX];
		double at[RELAX_MAX];
		REQUIRE(open_text(&u, known[i], &tg));
		space_default(u.s, cand);
		REQUIRE_OK(relax_sketch(u.x, u.s, cand));
		relax_start(u.x, at);
		relax_round(u.x, at, 0, out);
		CHECK(!strcmp(cand, out));
		struct key k = relax_key(u.x, at, 0);
		for (int v = 0; v < relax_size(u.x); v++) {
			double low, top, old = at[v];
			relax_range(u.x, v, &low, &top);
			at[v] = old > .5 * (low + top) ? low : top;
			CHECK(!key_equal(k, relax_key(u.x, at, 0)));
			at[v] = old;
		}
		arena_free(&u.a);
	}
}

static double rank_of(const double *v, int n, int i)
{
	double below = 0;
	for (int j = 0; j < n; j++)
		below += (v[j] < v[i]) + .5 * (v[j] == v[i]);
	return below;
}

/* Spearman's rank correlation. */
static double correlation(const double *a, const double *b, int n)
{
	double xy = 0, xx = 0, yy = 0;
	for (int i = 0; i < n; i++) {
		double x = rank_of(a, n, i) - .5 * n, y = rank_of(b, n, i) - .5 * n;
		xy += x * y;
		xx += x * x;
		yy += y * y;
	}
	return xy / sqrt(xx * yy);
}

static void check_ranks(const struct target *tg, int n_known, const double *least)
{
	for (int i = 0; i < n_known; i++) {
		struct setup u;
		double draft[450], cost[450];
		int n = 0;
		REQUIRE(open_text(&u, known[i], tg));
		for (int k = 0; k < 450; k++) {
			char cand[CAND_MAX];
			double at[RELAX_MAX];
			CHECK_OK(space_random(u.s, &u.r, cand));
			if (relax_sketch(u.x, u.s, cand) < 0) /* of threads, too */
				continue;
			relax_start(u.x, at);
			cost[n] = relax_cost(u.x, at, NULL);
			draft[n++] = space_draft(u.s, cand);
		}
		double rho = correlation(draft, cost, n);
		CHECK(n > 250 && rho > least[i]);
		if (test_bad)
			printf("task %d: %d candidates, rank correlation %g\n", i, n, rho);
		arena_free(&u.a);
	}
}

TEST(integers_rank_as_the_draft_has_them)
{
	static const double least[KNOWN] = {.97, .95, .9, .97, .95};
	const struct target tg = case_board(16, 32);
	check_ranks(&tg, KNOWN, least);
}

/* Blocks of rings are not for a GPU. */
TEST(integers_rank_as_the_draft_of_work_items_has_them)
{
	static const double least[KNOWN - 1] = {.95, .95, .9, .95};
	const struct target tg = case_gpu();
	check_ranks(&tg, KNOWN - 1, least);
}

TEST(integers_rank_as_the_draft_of_items_on_a_processor)
{
	static const double least[KNOWN - 1] = {.95, .95, .9, .95};
	const struct target tg = case_slow_items();
	check_ranks(&tg, KNOWN - 1, least);
}

/* Mean of log(cost / draft) over Winograd schedules, raw ones or others. */
static double mean_error(const struct target *tg, bool raw)
{
	struct setup u;
	double sum = 0;
	int n = 0;
	CHECK(open_text(&u, known[0], tg));
	for (int k = 0; k < 1000 && !test_bad; k++) {
		char cand[CAND_MAX];
		double at[RELAX_MAX];
		CHECK_OK(space_random(u.s, &u.r, cand));
		if (!strstr(cand, "winograd") || (strstr(cand, "raw=1") != NULL) != raw ||
		    relax_sketch(u.x, u.s, cand) < 0)
			continue;
		relax_start(u.x, at);
		sum += relax_cost(u.x, at, NULL) - log(draft_ghz(tg) * space_draft(u.s, cand));
		n++;
	}
	CHECK(n > 80);
	arena_free(&u.a);
	return sum / n;
}

/* Costs of Winograd schedules are the draft's, up to the rounding of sizes, and as near to it on a core that
 * splits its widest vectors. */
TEST(winograd_costs_as_the_draft)
{
	struct target plain = case_board(16, 32), split = plain;
	snprintf(split.cpu, sizeof split.cpu, "znver4");
	for (int raw = 0; raw < 2; raw++) {
		double error = mean_error(&plain, raw), other = mean_error(&split, raw);
		CHECK(fabs(error) < .06 && fabs(error - other) < .01);
		if (test_bad)
			printf("raw %d: mean errors %g and %g\n", raw, error, other);
	}
}

/* Takes steps of a fixed length against the gradient; returns the lowest draft of the schedules that the
 * points round to. */
static double descend(const struct setup *u, double *at)
{
	double best = 1e300;
	for (int step = 0; step < 30; step++) {
		char out[CAND_MAX];
		double g[RELAX_MAX], gp[RELAX_MAX], norm = 1e-9;
		relax_cost(u->x, at, g);
		relax_penalty(u->x, at, gp);
		for (int i = 0; i < relax_size(u->x); i++) {
			g[i] += gp[i];
			norm += fabs(g[i]);
		}
		for (int i = 0; i < relax_size(u->x); i++) {
			double low, top;
			relax_range(u->x, i, &low, &top);
			at[i] = fmin(top, fmax(low, at[i] - .5 * g[i] / norm));
		}
		for (int way = 0; way < RELAX_ROUNDINGS; way++) {
			relax_round(u->x, at, way, out);
			best = fmin(best, space_draft(u->s, out));
		}
	}
	return best;
}

TEST(descent_lowers_the_draft)
{
	const struct target tg[] = {case_board(16, 32), case_board(8, 16), case_gpu()};
	for (int i = 0; i < 2 * KNOWN - 1; i++) {
		struct setup u;
		double gain = 0;
		int worse = 0, n = 0;
		REQUIRE(open_text(&u, known[i % KNOWN], &tg[i < KNOWN ? i % 2 : 2]));
		for (int k = 0; k < 40; k++) {
			char cand[CAND_MAX];
			double at[RELAX_MAX];
			CHECK_OK(space_random(u.s, &u.r, cand));
			if (relax_sketch(u.x, u.s, cand) < 0)
				continue;
			anywhere(u.x, &u.r, at);
			relax_round(u.x, at, 0, cand);
			double before = space_draft(u.s, cand), after = descend(&u, at);
			gain += log(before / after);
			worse += after > before * 1.02;
			n++;
		}
		CHECK(gain > .1 * n && worse * 10 <= n);
		if (test_bad)
			printf("task %d: mean gain %g, %d of %d worse\n", i, gain / n, worse, n);
		arena_free(&u.a);
	}
}

/* Violated constraints are repaired: after steps against the penalty alone, fewer registers are needed. */
TEST(penalties_lead_back)
{
	const struct target tg = case_board(16, 32);
	struct setup u;
	char cand[CAND_MAX];
	double at[RELAX_MAX], g[RELAX_MAX];
	REQUIRE(open_text(&u, known[1], &tg));
	space_default(u.s, cand);
	REQUIRE_OK(relax_sketch(u.x, u.s, cand));
	relax_start(u.x, at);
	CHECK(relax_penalty(u.x, at, g) == 0);
	for (int i = 0; i < relax_size(u.x); i++) {
		double low;
		CHECK(g[i] == 0);
		relax_range(u.x, i, &low, &at[i]);
	}
	double first = relax_penalty(u.x, at, g), last = first;
	CHECK(first > .5);
	for (int step = 0; step < 400; step++) {
		last = relax_penalty(u.x, at, g);
		for (int i = 0; i < relax_size(u.x); i++)
			at[i] -= .05 * g[i];
	}
	CHECK(last < .01);
	arena_free(&u.a);
}

TEST(tasks_that_cannot_be_relaxed)
{
	static const char *const texts[] = {
	    /* all extents are one */
	    "task syms=0\noperand X in f32 [1,1] plain\noperand Y out f32 [1,1] plain\n"
	    "stage i:1 j:1\nread X [i,j]\nbody r0 0 max\nwrite Y [i,j]\n",
	    /* symbols, and no lanes */
	    "task syms=1\noperand X in f32 [$0,3] plain\noperand Y out f32 [3,$0] plain\n"
	    "stage i:$0 j:3\nread X [i,j]\nbody r0 0 max\nwrite Y [j,i]\n",
	};
	const struct target tg = case_board(16, 32);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct setup u;
		char cand[CAND_MAX], out[CAND_MAX];
		double at[RELAX_MAX];
		REQUIRE(open_text(&u, texts[i], &tg));
		space_default(u.s, cand);
		int rc = relax_sketch(u.x, u.s, cand);
		CHECK(i == 0 ? rc == E_NOTFOUND : rc >= 0);
		for (int k = 0; k < 20 && rc >= 0; k++) {
			anywhere(u.x, &u.r, at);
			CHECK(isfinite(relax_cost(u.x, at, NULL)));
			relax_round(u.x, at, k % RELAX_ROUNDINGS, out);
			CHECK_OK(space_legal(u.s, out));
		}
		CHECK(relax_sketch(u.x, u.s, "lane=q:16") == E_CORRUPT);
		CHECK(relax_sketch(u.x, u.s, "tile=i:9999999") < 0);
		arena_free(&u.a);
	}
}

/* Items that make several tiles, for windows on GPUs: their number varies like others, and costs what the
 * draft says. */
TEST(tiles_of_an_item_vary)
{
	const struct target tg = case_gpu();
	struct setup u;
	double draft[400], cost[400];
	int n = 0, all = 0, kinks = 0, moved = 0, lower = 0;
	REQUIRE(open_text(&u, known[2], &tg));
	while (n < 400 && !test_bad) {
		char cand[CAND_MAX], out[CAND_MAX];
		double at[RELAX_MAX];
		if (!draw_with(u.s, &u.r, "down=", cand))
			break;
		CHECK_OK(relax_sketch(u.x, u.s, cand));
		relax_start(u.x, at);
		relax_round(u.x, at, 0, out);
		CHECK(!strcmp(cand, out));
		cost[n] = relax_cost(u.x, at, NULL);
		draft[n++] = space_draft(u.s, cand);
		anywhere(u.x, &u.r, at);
		count_derivatives(relax_cost, u.x, at, &all, &kinks);
		count_derivatives(relax_penalty, u.x, at, &all, &kinks);
		for (int way = 0; way < RELAX_ROUNDINGS; way++) {
			relax_round(u.x, at, way, out);
			CHECK_OK(space_legal(u.s, out));
			const char *a = strstr(cand, "down="), *b = strstr(out, "down=");
			moved += b && strncmp(a, b, strcspn(a, " ") + 1) != 0;
		}
		if (n % 10 == 0)
			lower += descend(&u, at) < draft[n - 1];
		if (test_bad)
			printf("%s: %s\n", cand, out);
	}
	CHECK(n == 400 && moved > 100 && kinks * 50 < all && lower > 20);
	double rho = n == 400 ? correlation(draft, cost, n) : 0;
	CHECK(rho > .95);
	if (test_bad)
		printf("%d candidates, %d roundings moved, %d kinks of %d, %d lower, rank correlation %g\n",
		       n, moved, kinks, all, lower, rho);
	arena_free(&u.a);
}

TEST_MAIN
