/* SPDX-License-Identifier: Apache-2.0 */
/* A virtual board that changes only when told: four processors that get hot, a robot that comes and goes, a
 * battery, a firmware that throttles, a wall clock that jumps. */
#ifndef TESTS_SCENARIO_BOARD_H
#define TESTS_SCENARIO_BOARD_H

#include "platform/base/clock.h"
#include "platform/base/rng.h"
#include "platform/machine/vitals.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BOARD_CPUS = 4, BOARD_CLOCK_KHZ = 1500000 };
#define BOARD_TRIP_C 80.0
#define BOARD_HEAT_S 40.0 /* time constant */

struct virtual_board {
	struct rng rng;
	unsigned has;            /* what it reports: enum vital */
	int64_t now_ns, next_ns; /* time of its next change */
	double temp_c, ambient_c;
	double robot;         /* processors that the robot uses */
	double busy_s, own_s; /* processor time: all, our jobs' */
	double stalled_s;
	bool hot, voltage; /* throttled, for either reason */
	int64_t throttled;
	int64_t memory_free;
	int battery;
	bool discharging;
	const char *file;  /* text of the inhibit file; NULL: none */
	int shift_minutes; /* of the wall clock */
	bool full;         /* no room on flash */
	int changes;
};

static inline void virtual_board_open(struct virtual_board *b, uint64_t seed)
{
	*b = (struct virtual_board){.now_ns = NS_PER_S,
				    .next_ns = 2 * NS_PER_S,
				    .temp_c = 45,
				    .ambient_c = 40,
				    .memory_free = INT64_C(600) << 20,
				    .battery = 80};
	rng_seed(&b->rng, seed);
	b->ambient_c = 25 + 25 * rng_unit(&b->rng);
	static const unsigned boards[] = {127u, 127u & ~(unsigned)VITAL_PRESSURE, VITAL_LOAD | VITAL_MEMORY,
					  127u & ~(unsigned)VITAL_BATTERY, 0};
	b->has = boards[rng_below(&b->rng, 5)];
}

static inline double virtual_board_pause_s(struct virtual_board *b, double mean_s)
{
	return -mean_s * log(1 - rng_unit(&b->rng));
}

/* Lets time pass while `jobs` of ours compute. */
static inline void virtual_board_pass(struct virtual_board *b, int64_t dt_ns, int jobs)
{
	double dt = (double)dt_ns / 1e9, ours = fmin(jobs, fmax(BOARD_CPUS - b->robot, 0));
	double to_c = b->ambient_c + 9 * (b->robot + ours);
	b->temp_c = to_c + (b->temp_c - to_c) * exp(-dt / BOARD_HEAT_S);
	b->busy_s += dt * (b->robot + ours);
	b->own_s += dt * ours;
	b->stalled_s += b->robot > 3 ? dt * 0.5 : 0;
	b->now_ns += dt_ns;
	bool hot = b->temp_c > BOARD_TRIP_C + (b->hot ? -5 : 0);
	b->throttled += hot && !b->hot;
	b->hot = hot;
}

static inline void change_robot(struct virtual_board *b)
{
	b->robot = rng_below(&b->rng, 2) ? 0.1 * rng_unit(&b->rng) : BOARD_CPUS * rng_unit(&b->rng);
}

static inline void change_heat(struct virtual_board *b)
{
	b->ambient_c = 25 + 60 * rng_unit(&b->rng) * rng_unit(&b->rng);
}

static inline void change_voltage(struct virtual_board *b)
{
	b->voltage = !b->voltage && rng_below(&b->rng, 3) == 0;
	b->throttled += b->voltage;
}

static inline void change_memory(struct virtual_board *b)
{
	b->memory_free = (int64_t)(rng_below(&b->rng, 4) ? 600 : 10) << 20;
}

static inline void change_battery(struct virtual_board *b)
{
	b->discharging = rng_below(&b->rng, 2);
	b->battery = (int)rng_below(&b->rng, 101);
}

static inline void change_file(struct virtual_board *b)
{
	b->file = b->file || rng_below(&b->rng, 2) ? NULL : "the arm is moving";
}

static inline void change_clock(struct virtual_board *b)
{
	b->shift_minutes += (int)rng_below(&b->rng, 2880) - 1440;
}

static inline void change_flash(struct virtual_board *b)
{
	b->full = !b->full && rng_below(&b->rng, 3) == 0;
}

/* Makes one random change. */
static inline void virtual_board_change(struct virtual_board *b)
{
	static void (*const change[])(struct virtual_board * b) = {
	    change_robot,  change_robot,   change_robot, change_heat,  change_voltage,
	    change_memory, change_battery, change_file,  change_clock, change_flash};
	change[rng_below(&b->rng, sizeof change / sizeof *change)](b);
	b->next_ns =
	    b->now_ns + (int64_t)(virtual_board_pause_s(b, rng_below(&b->rng, 10) ? 1 : 60) * 1e9) + 1;
	b->changes++;
}

static inline void virtual_board_vitals(const struct virtual_board *b, struct vitals *v)
{
	bool slow = b->hot || b->voltage;
	*v = (struct vitals){.has = b->has,
			     .at_ns = b->now_ns,
			     .cpus = BOARD_CPUS,
			     .busy_ns = (int64_t)(b->busy_s * 1e9),
			     .total_ns = b->now_ns * BOARD_CPUS,
			     .stalled_ns = {0, (int64_t)(b->stalled_s * 1e9), 0},
			     .headroom_mc = (int)((BOARD_TRIP_C - b->temp_c) * 1000),
			     .temp_mc = (int)(b->temp_c * 1000),
			     .zone = "cpu-thermal",
			     .throttle =
				 (b->hot ? THROTTLE_SLOWED : 0u) | (b->voltage ? THROTTLE_VOLTAGE : 0u),
			     .throttled = b->throttled,
			     .clock_khz = slow ? BOARD_CLOCK_KHZ / 2 : BOARD_CLOCK_KHZ,
			     .clock_most_khz = BOARD_CLOCK_KHZ,
			     .memory_free_bytes = b->memory_free,
			     .memory_bytes = INT64_C(1) << 30,
			     .battery_pct = b->battery,
			     .discharging = b->discharging};
}

static inline int virtual_board_minute(const struct virtual_board *b)
{
	int64_t m = b->now_ns / (60 * NS_PER_S) + b->shift_minutes;
	return (int)((m % 1440 + 1440) % 1440);
}

#endif
