/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/clock.h"
#include "tests/lib/test.h"

TEST(real_moves_forward)
{
	int64_t a = clock_now(&clock_real);
	clock_real.sleep(&clock_real, 2 * NS_PER_MS);
	int64_t b = clock_now(&clock_real);
	CHECK(b - a >= 2 * NS_PER_MS);
	clock_real.sleep(&clock_real, -5);
}

TEST(start_of_the_process)
{
	int64_t a = clock_since_start(&clock_real);
	CHECK(a >= 0 && a < 600 * NS_PER_S);
	clock_real.sleep(&clock_real, NS_PER_MS);
	int64_t b = clock_since_start(&clock_real);
	CHECK(b - a >= NS_PER_MS);
}

TEST(virtual_moves_when_told)
{
	struct clock c = clock_virtual(100);
	CHECK(clock_now(&c) == 100 && clock_now(&c) == 100);
	clock_advance(&c, 7);
	CHECK(clock_now(&c) == 107);
	c.sleep(&c, 3);
	c.sleep(&c, -3);
	CHECK(clock_now(&c) == 110);
	CHECK(clock_since_start(&c) == 0);
}

TEST_MAIN
