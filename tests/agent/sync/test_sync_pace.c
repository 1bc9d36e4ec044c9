/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/sync_pace.h"
#include "tests/lib/test.h"

#include <math.h>

enum { DRAWS = 100000, BINS = 20 };
#define HOUR (3600 * NS_PER_S)

struct spread {
	double mean, least, most; /* as shares of the span */
	int bin[BINS];
};

/* Draws many waits after `end`, as shares of span_ns. */
static struct spread waits(enum pace_end end, int failures, int64_t every_ns, int64_t retry_ns,
			   int64_t span_ns)
{
	struct spread s = {.least = 1e9, .most = -1e9};
	struct rng r;
	rng_seed(&r, 7);
	for (int i = 0; i < DRAWS; i++) {
		struct sync_pace p = {.failures = failures};
		pace_next(&p, end, 1000, every_ns, retry_ns, &r);
		double x = (double)(p.next_ns - 1000) / (double)span_ns;
		s.mean += x / DRAWS;
		s.least = fmin(s.least, x);
		s.most = fmax(s.most, x);
		int b = (int)(x * BINS);
		s.bin[b < 0 ? 0 : b >= BINS ? BINS - 1 : b]++;
	}
	return s;
}

/* Checks a uniform distribution in [0, 1] by its mean, its ends, and Pearson's chi-square of 20 bins (43.8:
 * one in a thousand). */
static void check_uniform(const struct spread *s)
{
	double chi = 0, want = (double)DRAWS / BINS;
	for (int i = 0; i < BINS; i++)
		chi += (s->bin[i] - want) * (s->bin[i] - want) / want;
	CHECK(fabs(s->mean - 0.5) < 0.005);
	CHECK(s->least >= 0 && s->least < 0.001 && s->most <= 1 && s->most > 0.999);
	CHECK(chi < 43.8);
}

TEST(after_a_success_the_mean_is_every)
{
	struct spread s = waits(PACE_GOOD, 3, 6 * HOUR, 0, 12 * HOUR);
	check_uniform(&s);
}

/* The density is (1 - x) x 2 in [0, 1], so the share below x is 1 - (1 - x)^2. */
TEST(a_start_waits_as_one_in_the_middle_of_it)
{
	struct spread s = waits(PACE_START, 0, 6 * HOUR, 0, 12 * HOUR);
	double below = 0;
	CHECK(fabs(s.mean - 1. / 3) < 0.005 && s.least >= 0 && s.most <= 1);
	for (int i = 0; i < BINS; i++) {
		double x = (i + 1.) / BINS;
		below += (double)s.bin[i] / DRAWS;
		CHECK(fabs(below - (1 - (1 - x) * (1 - x))) < 0.006);
	}
}

TEST(failures_double_the_span_up_to_a_day)
{
	int64_t span = PACE_BASE_NS;
	for (int n = 1; n <= 14; n++) {
		span = 2 * span < PACE_MOST_NS ? 2 * span : PACE_MOST_NS;
		struct spread s = waits(PACE_FAILED, n - 1, 0, 0, span);
		check_uniform(&s);
	}
	struct spread s = waits(PACE_FAILED, INT32_MAX, 6 * HOUR, 0, PACE_MOST_NS);
	check_uniform(&s);
}

/* The first failure waits like a success; where that is more than a day, all failures do. */
TEST(a_failure_does_not_ask_sooner_than_a_success)
{
	struct spread s = waits(PACE_FAILED, 0, 6 * HOUR, 0, 12 * HOUR);
	check_uniform(&s);
	s = waits(PACE_FAILED, 1, 6 * HOUR, 0, 24 * HOUR);
	check_uniform(&s);
	for (int n = 0; n < 3; n++) {
		s = waits(PACE_FAILED, n, 48 * HOUR, 0, 96 * HOUR);
		check_uniform(&s);
	}
}

TEST(failures_are_counted_until_a_success)
{
	struct sync_pace p = {0};
	struct rng r;
	rng_seed(&r, 1);
	for (int i = 1; i <= 5; i++) {
		pace_next(&p, PACE_FAILED, 0, HOUR, 0, &r);
		CHECK(p.failures == i);
	}
	pace_next(&p, PACE_START, 0, HOUR, 0, &r);
	CHECK(p.failures == 5);
	pace_next(&p, PACE_GOOD, 0, HOUR, 0, &r);
	CHECK(p.failures == 0);
}

TEST(retry_after_is_never_undercut_and_is_spread)
{
	for (enum pace_end end = 0; end < PACE_END_COUNT; end++)
		for (int64_t retry = NS_PER_S; retry <= 20 * PACE_DAY_NS; retry *= 3) {
			int64_t least = retry < PACE_RETRY_MOST_NS ? retry : PACE_RETRY_MOST_NS;
			struct spread s = waits(end, 4, NS_PER_S, retry, least);
			CHECK(s.least >= 1 && (s.most <= 1.5 || retry < PACE_DAY_NS));
			CHECK(s.mean > 1.24);
		}
	struct spread s = waits(PACE_GOOD, 0, 0, HOUR, HOUR);
	CHECK(s.least >= 1 && s.most <= 1.5 && fabs(s.mean - 1.25) < 0.01);
}

TEST(numbers_out_of_range_do_no_harm)
{
	struct rng r;
	rng_seed(&r, 1);
	static const int64_t odd[] = {INT64_MIN, -1, 0, 1, PACE_EVERY_MOST_NS, INT64_MAX};
	enum { N = sizeof odd / sizeof *odd };
	for (int i = 0; i < N * N * N; i++) {
		struct sync_pace p = {.failures = INT32_MAX, .bytes = INT64_MAX - 5, .day = INT64_MAX};
		int64_t now = odd[i % N];
		pace_next(&p, i % PACE_END_COUNT, now, odd[i / N % N], odd[i / N / N], &r);
		CHECK(p.next_ns >= now);
		pace_moved(&p, now, odd[i / N % N]);
		CHECK(p.bytes >= 0);
		CHECK(pace_left(&p, now, odd[i / N % N]) >= 0);
	}
}

/* N boards get power at one moment: the most requests in any slot of every / 20, relative to the mean. */
static double peak(enum pace_end then, int n, int rounds)
{
	enum { SLOTS = 20 };
	int slot[200] = {0}, most = 0;
	struct rng r;
	rng_seed(&r, 11);
	for (int i = 0; i < n; i++) {
		struct sync_pace p = {0};
		pace_next(&p, PACE_START, 0, HOUR, 0, &r);
		for (int k = 0; k < rounds; k++) {
			int64_t at = p.next_ns * SLOTS / HOUR;
			if (at < 200)
				slot[at]++;
			pace_next(&p, then, p.next_ns, HOUR, 0, &r);
		}
	}
	for (int i = 0; i < 200; i++)
		most = slot[i] > most ? slot[i] : most;
	return (double)most * SLOTS / n;
}

/* A slot has 5000 requests, so four deviations are 6 %. */
TEST(boards_that_start_together_do_not_ask_together)
{
	CHECK(peak(PACE_GOOD, DRAWS, 12) < 1.08);
	CHECK(peak(PACE_FAILED, DRAWS, 12) < 1.08);
	CHECK(peak(PACE_GOOD, DRAWS, 1) < 1.08);
}

TEST(bytes_of_a_day)
{
	struct sync_pace p = {0};
	CHECK(pace_left(&p, 0, 0) == INT64_MAX);
	CHECK(pace_left(&p, 0, 100) == 100);
	pace_moved(&p, HOUR, 60);
	CHECK(pace_left(&p, 2 * HOUR, 100) == 40);
	pace_moved(&p, 2 * HOUR, 60);
	CHECK(pace_left(&p, 23 * HOUR, 100) == 0);
	CHECK(pace_left(&p, 24 * HOUR, 100) == 100);
	pace_moved(&p, 24 * HOUR, 10);
	CHECK(pace_left(&p, 2 * HOUR, 100) == 90); /* the clock was set back: the same day continues */
	CHECK(pace_left(&p, 23 * HOUR, 100) == 90);
	CHECK(pace_left(&p, 24 * HOUR, 100) == 100);
}

TEST_MAIN
