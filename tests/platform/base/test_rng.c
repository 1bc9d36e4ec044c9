/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/rng.h"
#include "tests/lib/test.h"

#include <math.h>

TEST(same_on_every_machine)
{
	struct rng r;
	rng_seed(&r, 0);
	CHECK(r.s[0] == UINT64_C(0xe220a8397b1dcdaf)); /* splitmix64 of 0 */
	CHECK(r.s[1] == UINT64_C(0x6e789e6aa1b965f4));
	CHECK(rng_u64(&r) == UINT64_C(0x99ec5f36cb75f2b4));
}

TEST(below_is_uniform)
{
	struct rng r;
	int count[7] = {0};
	rng_seed(&r, 1);
	for (int i = 0; i < 70000; i++) {
		uint32_t v = rng_below(&r, 7);
		REQUIRE(v < 7);
		count[v]++;
	}
	for (int i = 0; i < 7; i++)
		CHECK(count[i] > 9600 && count[i] < 10400);
	CHECK(rng_below(&r, 1) == 0);
	for (int i = 0; i < 1000; i++)
		CHECK(rng_below(&r, 0xC0000000u) < 0xC0000000u);
}

TEST(unit_and_normal)
{
	struct rng r;
	double sum = 0, square = 0, low = 1, high = 0;
	rng_seed(&r, 2);
	for (int i = 0; i < 50000; i++) {
		double u = rng_unit(&r), n = rng_normal(&r);
		low = u < low ? u : low;
		high = u > high ? u : high;
		sum += n;
		square += n * n;
	}
	CHECK(low >= 0 && low < 0.001 && high < 1 && high > 0.999);
	CHECK(fabs(sum / 50000) < 0.03 && fabs(square / 50000 - 1) < 0.03);
}

TEST(fill_is_never_tiny)
{
	struct rng r, again;
	static float p[10001], q[10001];
	int negative = 0;
	rng_seed(&r, 3);
	rng_fill(&r, p, 10001);
	for (int i = 0; i < 10001; i++) {
		CHECK(fabsf(p[i]) >= 0x1p-6f && fabsf(p[i]) <= 1);
		negative += p[i] < 0;
	}
	CHECK(negative > 4700 && negative < 5300);
	rng_seed(&again, 3);
	rng_fill(&again, q, 10001);
	CHECK(memcmp(p, q, sizeof p) == 0);
}

TEST_MAIN
