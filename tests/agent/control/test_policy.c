/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/control/policy.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"

#include <limits.h>
#include <math.h>

enum { N = 6, GRANTS = 10000 };

typedef int ask_fn(const struct contender *c, int n);

static ask_fn *question(const struct policy *p, int k)
{
	return k ? p->slice : p->lease;
}

static struct contender usual(int i)
{
	return (struct contender){.id = i,
				  .order = i,
				  .waits_ns = NS_PER_MS,
				  .had_ns = NS_PER_S,
				  .wants_ns = 20 * NS_PER_MS,
				  .ms = 10,
				  .promise = 0.1};
}

#define EVERY(p) for (const struct policy *p, *const *at_ = policy_table; (p = *at_); at_++)

TEST(default_is_there)
{
	CHECK(policy_find(POLICY_DEFAULT));
	CHECK(!policy_find("") && !policy_find("none such"));
	EVERY(p)
	{
		CHECK(policy_find(p->name) == p);
		CHECK(p->summary && p->summary[0]);
	}
}

TEST(a_single_model_is_served)
{
	struct contender c = usual(0);
	EVERY(p)
	CHECK(p->lease(&c, 1) == 0 && p->slice(&c, 1) == 0);
}

TEST(equals_are_served_in_order)
{
	struct contender c[N];
	for (int i = 0; i < N; i++)
		c[i] = usual(N - i);
	EVERY(p)
	for (int k = 0; k < 2; k++)
		CHECK(question(p, k)(c, N) == N - 1);
	for (int i = 0; i < N; i++)
		c[i].order = 0;
	EVERY(p)
	for (int k = 0; k < 2; k++)
		CHECK(question(p, k)(c, N) == 0);
}

TEST(priority_comes_first)
{
	struct contender c[N];
	for (int i = 0; i < N; i++)
		c[i] = usual(i);
	c[4].priority = 1;
	EVERY(p)
	if (p != policy_find("fifo"))
		CHECK(p->lease(c, N) == 4 && p->slice(c, N) == 4);
}

TEST(starving_models_come_before_priority)
{
	struct contender c[N];
	for (int i = 0; i < N; i++)
		c[i] = usual(i);
	c[4].priority = 100;
	c[2].waits_ns = POLICY_SLICE_WAIT_NS;
	c[3].waits_ns = POLICY_SLICE_WAIT_NS + 1;
	EVERY(p)
	CHECK(p->lease(c, N) == 3 && p->slice(c, N) == 3);
}

/* Returns the longest wait of jobs that want the machine again as soon as they were served. */
static int64_t longest_wait(const struct policy *p, uint64_t seed, int64_t had[N])
{
	struct rng r;
	struct contender c[N];
	int64_t longest_ns = 0;
	rng_seed(&r, seed);
	for (int i = 0; i < N; i++) {
		c[i] = usual(i);
		c[i].had_ns = 0;
		c[i].priority = (int)rng_below(&r, 3) - 1;
		c[i].wants_ns = 1 + (int64_t)rng_below(&r, 200) * NS_PER_MS;
		c[i].ms = (double)rng_below(&r, 1000) / 10;
		c[i].promise = (double)rng_below(&r, 100) / 100;
		c[i].bare = rng_below(&r, 4) == 0;
	}
	for (int g = 0; g < GRANTS; g++) {
		int k = p->lease(c, N);
		int64_t held_ns = c[k].wants_ns / 2 + (int64_t)rng_below(&r, (uint32_t)c[k].wants_ns);
		longest_ns = c[k].waits_ns > longest_ns ? c[k].waits_ns : longest_ns;
		for (int i = 0; i < N; i++)
			c[i].waits_ns += held_ns;
		c[k].waits_ns = 0;
		c[k].had_ns += held_ns;
	}
	for (int i = 0; i < N; i++)
		had[i] = c[i].had_ns;
	return longest_ns;
}

TEST(no_model_starves)
{
	int64_t had[N];
	EVERY(p)
	for (uint64_t seed = 1; seed <= 20; seed++) {
		CHECK(longest_wait(p, seed, had) < POLICY_WAIT_NS + 2 * N * 300 * NS_PER_MS);
		for (int i = 0; i < N; i++)
			CHECK(had[i] > 0);
	}
}

TEST(fair_gives_shares_by_priority)
{
	const struct policy *p = policy_find("fair");
	struct contender c[3] = {usual(0), usual(1), usual(2)};
	REQUIRE(p);
	c[1].priority = 1;
	for (int i = 0; i < 3; i++)
		c[i].had_ns = 0;
	for (int g = 0; g < GRANTS; g++) {
		int k = p->lease(c, 3);
		c[k].had_ns += (k + 1) * NS_PER_MS;
	}
	CHECK(fabs((double)c[1].had_ns / (double)c[0].had_ns - 2) < 0.01);
	CHECK(fabs((double)c[2].had_ns / (double)c[0].had_ns - 1) < 0.01);
}

TEST(gain_prefers_bare_then_what_pays)
{
	const struct policy *p = policy_find("gain");
	struct contender c[4] = {usual(0), usual(1), usual(2), usual(3)};
	REQUIRE(p);
	c[0].promise = 0.2;
	c[3].bare = true;
	c[3].promise = 0;
	CHECK(p->lease(c, 4) == 3 && p->slice(c, 4) == 3);
	CHECK(p->lease(c, 3) == 0 && p->slice(c, 3) == 0);
	c[1].wants_ns = c[0].wants_ns / 3; /* half the gain, in a third of the time */
	CHECK(p->lease(c, 3) == 1 && p->slice(c, 3) == 1);
	c[2].ms = 100;
	CHECK(p->lease(c, 3) == 2 && p->slice(c, 3) == 2);
}

TEST(gain_gives_no_slice_to_the_exhausted)
{
	const struct policy *p = policy_find("gain");
	struct contender c[2] = {usual(0), usual(1)};
	REQUIRE(p);
	c[0].promise = 0;
	c[0].priority = 9;
	CHECK(p->slice(c, 2) == 1);
}

TEST(shortest_serves_the_shortest)
{
	const struct policy *p = policy_find("shortest");
	struct contender c[3] = {usual(0), usual(1), usual(2)};
	REQUIRE(p);
	c[1].wants_ns /= 2;
	CHECK(p->lease(c, 3) == 1 && p->slice(c, 3) == 1);
	c[2].wants_ns = 0; /* unknown counts as shortest */
	CHECK(p->lease(c, 3) == 2 && p->slice(c, 3) == 2);
}

/* With invalid rows some contender is still served, the same one each time. */
TEST(nonsense_is_harmless)
{
	static const int64_t times[] = {INT64_MIN, -1, 0, 1, POLICY_WAIT_NS, INT64_MAX};
	static const double reals[] = {NAN, -INFINITY, -1, 0, 0.5, 1e300, INFINITY};
	static const int numbers[] = {INT_MIN, -100, 0, 100, INT_MAX};
	struct rng r;
	struct contender c[N];
	rng_seed(&r, 7);
	for (int turn = 0; turn < GRANTS; turn++) {
		for (int i = 0; i < N; i++)
			c[i] = (struct contender){.priority = numbers[rng_below(&r, 5)],
						  .order = numbers[rng_below(&r, 5)],
						  .waits_ns = times[rng_below(&r, 6)],
						  .had_ns = times[rng_below(&r, 6)],
						  .wants_ns = times[rng_below(&r, 6)],
						  .ms = reals[rng_below(&r, 7)],
						  .promise = reals[rng_below(&r, 7)],
						  .bare = rng_below(&r, 2)};
		EVERY(p)
		for (int k = 0; k < 2; k++) {
			int i = question(p, k)(c, N);
			CHECK(i >= 0 && i < N && i == question(p, k)(c, N));
		}
	}
}

TEST_MAIN
