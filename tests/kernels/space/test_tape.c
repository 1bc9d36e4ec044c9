/* SPDX-License-Identifier: Apache-2.0 */
/* Compares derivatives from a tape with finite differences. */
#include "kernels/space/tape.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"

#include <math.h>

/* Every operation, of two variables in (0.5, 3.5). */
static struct num expression(struct tape *p, struct num x, struct num y, int which)
{
	switch (which) {
	case 0:
		return num_add(p, num_mul(p, x, y), num_add(p, num(3), x));
	case 1:
		return num_sub(p, num_div(p, x, y), num_sub(p, num(1), num_scale(p, y, 2.5)));
	case 2:
		return num_mul(p, num_min(p, x, y), num_max(p, x, num_scale(p, y, .7)));
	case 3:
		return num_log(p, num_add(p, num_exp(p, x), num_exp(p, num_scale(p, y, -1))));
	case 4:
		return num_norm(p, num_norm(p, x, y, 6), num_mul(p, num(2), x), 2);
	case 5:
		return num_add(p, num_sigmoid(p, num_sub(p, x, y)), num_above(p, num_sub(p, y, num(2))));
	case 6:
		return num_add(p, num_switch(p, num_scale(p, x, .6)), num_switch(p, num_scale(p, y, 1e31)));
	default:
		return num_mul(p, num_ceil(p, x), num_ceil(p, num_mul(p, x, y)));
	}
}

static double at(struct tape *p, double x, double y, int which, double *grad)
{
	tape_start(p);
	struct num a = tape_variable(p, x), b = tape_variable(p, y), z = expression(p, a, b, which);
	if (grad)
		tape_gradient(p, z, 2, grad);
	return z.v;
}

TEST(derivatives_are_limits_of_differences)
{
	struct arena a = {0};
	struct tape p = {.arena = &a};
	struct rng r;
	rng_seed(&r, 1);
	for (int i = 0; i < 4000 && !test_bad; i++) {
		double x = .5 + 3 * rng_unit(&r), y = .5 + 3 * rng_unit(&r), g[2], h = 1e-6;
		int which = i % 8;
		at(&p, x, y, which, g);
		double dx = (at(&p, x + h, y, which, NULL) - at(&p, x - h, y, which, NULL)) / (2 * h);
		double dy = (at(&p, x, y + h, which, NULL) - at(&p, x, y - h, which, NULL)) / (2 * h);
		CHECK(fabs(dx - g[0]) < 1e-4 * (1 + fabs(dx)) && fabs(dy - g[1]) < 1e-4 * (1 + fabs(dy)));
		if (test_bad)
			printf("expression %d at %g %g: %g %g, tape %g %g\n", which, x, y, dx, dy, g[0],
			       g[1]);
	}
	arena_free(&a);
}

TEST(smooth_steps)
{
	struct arena a = {0};
	struct tape p = {.arena = &a};
	tape_start(&p);
	for (int i = 0; i < 100; i++) {
		struct num x = tape_variable(&p, i * .1);
		double c = num_ceil(&p, x).v;
		CHECK(c >= floor(x.v) && c <= ceil(x.v + 1e-9) && (i % 10 || fabs(c - x.v) < 1e-9));
		CHECK(i % 10 < 5 || fabs(c - ceil(x.v)) < 1e-9);
	}
	CHECK(num_switch(&p, num(0)).v == 0 && num_switch(&p, num(1)).v == .5);
	CHECK(num_switch(&p, num(.5)).v < .005 && num_switch(&p, num(2)).v > .995);
	CHECK(num_norm(&p, num(0), num(0), 6).v == 0 && fabs(num_norm(&p, num(3), num(4), 2).v - 5) < 1e-12);
	CHECK(num_sigmoid(&p, num(0)).v == .5 && num_above(&p, num(-100)).v < .001);
	arena_free(&a);
}

/* Constants record nothing, and infinities that do not contribute to the result do not matter. */
TEST(constants_and_ways_not_taken)
{
	struct arena a = {0};
	struct tape p = {.arena = &a};
	double g[1] = {7};
	tape_start(&p);
	struct num x = tape_variable(&p, 0);
	int before = p.n;
	struct num c = num_mul(&p, num_exp(&p, num(1)), num_add(&p, num(2), num(3)));
	CHECK(p.n == before && !c.at);
	tape_gradient(&p, c, 1, g);
	CHECK(g[0] == 0);
	struct num lost = num_div(&p, num(1), x), kept = num_scale(&p, x, 3);
	CHECK(isinf(lost.v));
	tape_gradient(&p, num_min(&p, kept, lost), 1, g);
	CHECK(g[0] == 3);
	arena_free(&a);
}

TEST_MAIN
