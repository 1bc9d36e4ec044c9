/* SPDX-License-Identifier: Apache-2.0 */
/* Boundaries of tolerated errors: charts of generated ones against dense grids. */
#include "platform/base/rng.h"
#include "search/boundary.h"
#include "tests/lib/test.h"

#include <math.h>

enum { KINDS = 5, STEPS = 6, BOXES = 5 };

/* A monotone region of the unit cube. */
struct region {
	int kind, axes;
	double size[BOUNDARY_AXES], power;
	double box[BOXES][BOUNDARY_AXES];
};

static bool tolerates(const struct region *r, const double *x)
{
	double sum = 0, product = 1;
	switch (r->kind) {
	case 0: /* a superellipse */
		for (int i = 0; i < r->axes; i++)
			sum += pow(x[i] / r->size[i], r->power);
		return sum <= 1;
	case 1: /* a box */
		for (int i = 0; i < r->axes; i++)
			if (x[i] > r->size[i])
				return false;
		return true;
	case 2: /* a plane */
		for (int i = 0; i < r->axes; i++)
			sum += x[i] / r->size[i];
		return sum <= 1;
	case 3: /* a union of boxes */
		for (int k = 0; k < BOXES; k++) {
			bool in = true;
			for (int i = 0; i < r->axes; i++)
				in &= x[i] <= r->box[k][i];
			if (in)
				return true;
		}
		return false;
	default: /* a hyperbola: errors that multiply */
		for (int i = 0; i < r->axes; i++)
			product *= 1 + 3 * x[i] / r->size[i];
		return product <= 4;
	}
}

static double area(const struct region *r)
{
	static const int side[] = {0, 4000, 400, 80, 30};
	int n = 1, in = 0;
	for (int i = 0; i < r->axes; i++)
		n *= side[r->axes];
	for (int c = 0; c < n; c++) {
		double x[BOUNDARY_AXES];
		for (int i = 0, k = c; i < r->axes; i++, k /= side[r->axes])
			x[i] = (k % side[r->axes] + .5) / side[r->axes];
		in += tolerates(r, x);
	}
	return in / (double)n;
}

static void draw(struct rng *g, int axes, struct region *r)
{
	do {
		r->kind = (int)rng_below(g, KINDS);
		r->axes = axes;
		r->power = exp2(-.7 + 2.7 * rng_unit(g));
		for (int i = 0; i < axes; i++)
			r->size[i] = .25 + rng_unit(g);
		for (int k = 0; k < BOXES; k++)
			for (int i = 0; i < axes; i++)
				r->box[k][i] = rng_unit(g);
	} while (area(r) < .1 || area(r) > .9);
}

struct score {
	double certain, guess; /* shares of the true area */
	int evals;
	bool sound;
};

static struct score chart(const struct region *r, int evals, double wrong, struct rng *g)
{
	struct arena a = {0};
	struct boundary_opts o = {.axes = r->axes, .evals = evals, .wrong = wrong};
	struct boundary *b;
	struct boundary_ask ask;
	struct score s = {0, 0, 0, true};
	double truth = area(r), x[BOUNDARY_AXES];
	for (int i = 0; i < r->axes; i++)
		o.most[i] = 1;
	CHECK_OK(boundary_new(&a, &o, &b));
	while (boundary_next(b, &ask)) {
		bool yes = tolerates(r, ask.error);
		boundary_answer(b, rng_unit(g) < wrong ? !yes : yes);
		s.evals++;
	}
	struct boundary_area got = boundary_area(b);
	s.certain = got.tolerated / truth;
	s.guess = got.guess / truth;
	for (int i = 0; boundary_point(b, i, x); i++)
		s.sound &= tolerates(r, x);
	arena_free(&a);
	return s;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Charts many regions; returns in certain[] and off[], sorted, how they compare with dense grids, and how
 * many charts call a point tolerated that is not. */
static int chart_many(int axes, int evals, double wrong, int n, double *certain, double *off)
{
	struct rng g;
	int unsound = 0;
	rng_seed(&g, (uint64_t)(7 + axes));
	for (int k = 0; k < n; k++) {
		struct region r;
		draw(&g, axes, &r);
		struct score s = chart(&r, evals, wrong, &g);
		certain[k] = s.certain;
		off[k] = fabs(s.guess - 1);
		unsound += !s.sound;
	}
	qsort(certain, (size_t)n, sizeof *certain, by_value);
	qsort(off, (size_t)n, sizeof *off, by_value);
	printf("%d networks, %d evaluations, %g wrong: certain: median %.3f, worst tenth %.3f; area off: "
	       "median %.3f, "
	       "worst tenth %.3f\n",
	       axes, evals, wrong, certain[n / 2], certain[n / 10], off[n / 2], off[n - 1 - n / 10]);
	return unsound;
}

enum { MANY = 100 };

TEST(two_networks_in_25_evaluations)
{
	double certain[MANY], off[MANY];
	CHECK(chart_many(2, 25, 0, MANY, certain, off) == 0);
	CHECK(certain[MANY / 2] >= 0.85);
	CHECK(certain[MANY / 10] >= 0.72);
	CHECK(off[MANY / 2] <= 0.05);
	CHECK(off[MANY - 1 - MANY / 10] <= 0.08);
}

TEST(three_networks_in_60_evaluations)
{
	double certain[MANY], off[MANY];
	CHECK(chart_many(3, 60, 0, MANY, certain, off) == 0);
	CHECK(off[MANY / 2] <= 0.15);
	CHECK(off[MANY - 1 - MANY / 10] <= 0.25);
}

TEST(one_wrong_answer_in_ten)
{
	double certain[MANY], off[MANY];
	CHECK(chart_many(2, 150, 0.1, MANY, certain, off) == 0);
	CHECK(off[MANY / 2] <= 0.10);
}

TEST(one_network_and_four)
{
	double certain[20], off[20];
	CHECK(chart_many(1, 10, 0, 20, certain, off) == 0);
	CHECK(certain[2] >= 0.95);
	CHECK(chart_many(4, 100, 0, 20, certain, off) == 0);
}

static void tell(struct boundary *b, double x, double y, bool tolerated)
{
	struct boundary_ask ask;
	CHECK(boundary_next(b, &ask));
	CHECK(fabs(ask.error[0] - x) < 1e-9 && fabs(ask.error[1] - y) < 1e-9);
	boundary_answer(b, tolerated);
}

TEST(an_answer_decides_a_box)
{
	struct arena a = {0};
	struct boundary *b;
	struct boundary_ask ask;
	const struct boundary_opts o = {.axes = 2, .most = {2, 1}, .evals = 3};
	CHECK_OK(boundary_new(&a, &o, &b));
	CHECK(boundary_next(b, &ask));
	CHECK(ask.again == 0 && ask.below > 0.2 && ask.beyond > 0.2 && ask.likely > 0.4 && ask.likely < 0.6);
	double x = ask.error[0], y = ask.error[1];
	boundary_answer(b, true);
	CHECK(boundary_left(b) == 2);
	const double within[] = {x, y / 2}, beside[] = {x / 2, y * 1.01}, none[] = {0, 0}, all[] = {2, 1};
	CHECK(boundary_state(b, within) == BOUNDARY_TOLERATED);
	CHECK(boundary_state(b, beside) == BOUNDARY_OPEN);
	CHECK(boundary_state(b, none) == BOUNDARY_TOLERATED);
	CHECK(boundary_state(b, all) == BOUNDARY_OPEN);
	CHECK(boundary_next(b, &ask));
	const double asked[] = {ask.error[0], ask.error[1]};
	boundary_answer(b, false);
	CHECK(boundary_state(b, asked) == BOUNDARY_NOT_TOLERATED);
	CHECK(boundary_state(b, all) == BOUNDARY_NOT_TOLERATED);
	struct boundary_area area = boundary_area(b);
	CHECK(fabs(area.tolerated - x / 2 * y) < 1e-9);
	CHECK(area.guess > area.tolerated && area.guess < 1 - area.not_tolerated);
	CHECK(boundary_next(b, &ask));
	boundary_answer(b, false);
	CHECK(!boundary_next(b, &ask)); /* as many as were allowed */
	arena_free(&a);
}

/* The same answers lead to the same questions, also with more evaluations: that is how a log is resumed. */
TEST(it_can_be_resumed)
{
	struct arena a = {0};
	struct boundary *first, *second;
	struct boundary_ask ask;
	struct rng g;
	struct region r;
	rng_seed(&g, 5);
	draw(&g, 2, &r);
	CHECK_OK(boundary_new(&a, &(struct boundary_opts){.axes = 2, .most = {1, 1}, .evals = 12}, &first));
	CHECK_OK(boundary_new(&a, &(struct boundary_opts){.axes = 2, .most = {1, 1}, .evals = 30}, &second));
	while (boundary_next(first, &ask)) {
		bool yes = tolerates(&r, ask.error);
		tell(second, ask.error[0], ask.error[1], yes);
		boundary_answer(first, yes);
	}
	CHECK(boundary_left(second) == 18);
	arena_free(&a);
}

/* With wrong answers a point is asked until one kind is ahead by enough; one answer alone decides nothing. */
TEST(wrong_answers_are_outvoted)
{
	struct arena a = {0};
	struct boundary *b;
	struct boundary_ask first, ask;
	CHECK_OK(boundary_new(
	    &a, &(struct boundary_opts){.axes = 2, .most = {1, 1}, .evals = 50, .wrong = 0.1}, &b));
	CHECK(boundary_next(b, &first));
	int n = 0;
	bool same = true;
	for (; same && n < 50; n++) {
		boundary_answer(b, n != 0); /* the first one is wrong */
		CHECK(boundary_next(b, &ask));
		same = ask.error[0] == first.error[0] && ask.error[1] == first.error[1];
		CHECK(!same || ask.again == n + 1);
	}
	CHECK(n >= 5);
	CHECK(boundary_state(b, first.error) == BOUNDARY_TOLERATED);
	CHECK(boundary_decided(b, 1, 0) == -1 && boundary_decided(b, n - 1, 1) == 1 &&
	      boundary_decided(b, 0, n) == 0);
	arena_free(&a);
}

TEST(bad_options)
{
	struct arena a = {0};
	struct boundary *b;
	CHECK_FAILS(boundary_new(&a, &(struct boundary_opts){.axes = 5, .most = {1}, .evals = 5}, &b),
		    E_USAGE, "5 networks");
	CHECK_FAILS(boundary_new(&a, &(struct boundary_opts){.axes = 1, .most = {1}}, &b), E_USAGE,
		    "0 evaluations");
	CHECK_FAILS(
	    boundary_new(&a, &(struct boundary_opts){.axes = 1, .most = {1}, .evals = 5, .wrong = .4}, &b),
	    E_USAGE, "wrong answers");
	CHECK_FAILS(boundary_new(&a, &(struct boundary_opts){.axes = 1, .most = {NAN}, .evals = 5}, &b),
		    E_USAGE, "largest error");
	arena_free(&a);
}

TEST_MAIN
