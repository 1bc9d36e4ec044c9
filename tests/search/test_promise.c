/* SPDX-License-Identifier: Apache-2.0 */
#include "search/promise.h"
#include "tests/lib/test.h"

#include <math.h>

TEST(a_task_at_its_roofline_has_no_room)
{
	CHECK(promise_room(100, 100, 1) == 0);
	CHECK(promise_room(90, 100, 1) == 0);
	CHECK(promise_room(200, 100, 10) == 0.5);
	CHECK(promise_room(200, 100, 0) == 0); /* nor has a task of whose time the model is certain */
	CHECK(promise_room(200, 100, 0.1) < promise_room(200, 100, 0.2));
	CHECK(promise_room(0, 0, 10) > 0.99);
	struct promise p = {{0}};
	CHECK(promise_expect(&p, 0, 0, 0) == 0);
}

TEST(slices_without_gain_promise_less)
{
	struct promise p = {{0}};
	double before = INFINITY;
	for (int slice = 0; slice < 16; slice++) {
		double e = promise_expect(&p, slice, 0.5, 0);
		CHECK(e > 0 && e < 2 * before);
		before = e;
		promise_learn(&p, slice, 0.5, 0);
	}
	CHECK(before < promise_expect(&(struct promise){{0}}, 0, 0.5, 0) / 8);
	CHECK(promise_expect(&p, 15, 0.5, 0.1) > before + 0.01); /* but a task that just gained may again */
}

/* If first slices gain much, tasks without a slice promise more than by the first guess; if they gain
 * nothing, less. */
TEST(tasks_learn_from_each_other)
{
	struct promise none = {{0}}, rich = {{0}}, poor = {{0}};
	for (int i = 0; i < 6; i++) {
		promise_learn(&rich, 0, 0.4, 0.2);
		promise_learn(&poor, 0, 0.4, 0);
	}
	CHECK(promise_expect(&rich, 0, 0.4, 0) > 2 * promise_expect(&none, 0, 0.4, 0));
	CHECK(promise_expect(&poor, 0, 0.4, 0) < promise_expect(&none, 0, 0.4, 0) / 2);
	CHECK(promise_expect(&rich, 5, 0.4, 0) == promise_expect(&none, 5, 0.4, 0));
}

TEST_MAIN
