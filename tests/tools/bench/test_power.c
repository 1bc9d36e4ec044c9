/* SPDX-License-Identifier: Apache-2.0 */
/* Boards that all get power at the same moment: a twentieth of a million with a twentieth of the interval, so
 * that they ask as often per second as 10^6 that ask every 6 hours (make bench-herd ARGS=--power). */
#include "tests/lib/test.h"
#include "tools/bench/herd_power.h"

enum { BOARDS = 50000 };
#define EVERY_S 1080.
#define BOUND 2.

static struct herd_peak run(struct herd_power c)
{
	struct herd_peak p;
	c.boards = BOARDS;
	c.every_s = EVERY_S;
	c.seed = 1;
	CHECK_OK(herd_power(&c, &p));
	return p;
}

static void check_bound(struct herd_peak p)
{
	CHECK(p.asks > BOARDS && p.one < BOUND && p.ten < BOUND && p.one > 1);
	if (p.one >= BOUND || p.ten >= BOUND)
		printf("1 s: %.2f at %.1f s, 10 s: %.2f\n", p.one, p.one_at_s, p.ten);
}

TEST(a_server_that_answers)
{
	struct herd_peak p = run((struct herd_power){.run_s = 4 * EVERY_S});
	check_bound(p);
	CHECK(p.ten < 1.4 && p.mean_late > 0.98 && p.mean_late < 1.02 && p.failed == 0);
	CHECK(p.planned > 46 && p.planned < 46.5 && p.starts == BOARDS);
}

TEST(a_server_that_fails_at_first)
{
	check_bound(run((struct herd_power){.run_s = 6 * EVERY_S, .fails_to = EVERY_S / 6}));
	check_bound(run((struct herd_power){.run_s = 6 * EVERY_S, .fails_to = EVERY_S / 6, .retry_s = 180}));
	check_bound(run((struct herd_power){.run_s = 6 * EVERY_S, .fails_to = EVERY_S / 6, .retry_s = 2160}));
	struct herd_peak p = run((struct herd_power){.run_s = 9 * EVERY_S, .fails_to = 3 * EVERY_S});
	check_bound(p);
	CHECK(p.failed > BOARDS);
}

TEST(power_that_comes_and_goes)
{
	struct herd_peak p = run((struct herd_power){.run_s = 4 * EVERY_S, .again_s = EVERY_S / 6});
	check_bound(p);
	CHECK(p.starts == 24 * BOARDS && p.mean_late < 1.05);
}

TEST(a_server_that_asks_for_another_pace)
{
	struct herd_peak p = run((struct herd_power){
	    .run_s = 8 * EVERY_S, .poll_from = EVERY_S, .poll_s = EVERY_S / 3, .again_s = 5 * EVERY_S});
	check_bound(p);
	CHECK(p.mean_late > 0.95 && p.mean_late < 1.05);
	p = run((struct herd_power){.run_s = 16 * EVERY_S, .poll_from = EVERY_S, .poll_s = EVERY_S * 2});
	CHECK(p.ten < BOUND && p.mean_late > 0.9 && p.mean_late < 1.1);
}

TEST(a_simulation_has_an_end)
{
	struct herd_peak p;
	const struct herd_power forever = {.boards = 1, .every_s = 60, .run_s = 1e9};
	CHECK_FAILS(herd_power(&forever, &p), E_USAGE, "week");
}

TEST_MAIN
