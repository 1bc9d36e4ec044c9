/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the board: load, pressure, heat, throttling, clocks, memory, battery, from the kernel's files.
 * Only reads; a value that a board does not report is no error (`has`). Every path is below `sysroot` ("":
 * the real root), so that a folder can stand for any board.
 *
 * Sources: /proc/stat; /proc/pressure/{cpu,io,memory}; /proc/meminfo; /sys/class/thermal/thermal_zone*
 * {temp,trip_point_*_temp,trip_point_*_type}; the Raspberry Pi firmware's get_throttled (bits 0-3 now, 16-19
 * since boot; read from sysfs, nothing is run); /sys/class/hwmon/hwmon*: oc{1,2,3}_event_cnt (Jetson),
 * rpi_volt's in0_lcrit_alarm; /sys/class/devfreq/<gpu>/{cur_freq,max_freq};
 * /sys/devices/system/cpu/cpufreq/policy* {scaling_cur_freq,scaling_max_freq,scaling_governor};
 * /sys/class/thermal/cooling_device* cur_state; /sys/class/power_supply.
 *
 * Files are opened once and read again from their beginning: a device that appears later is not seen, one
 * that goes away (or returns EAGAIN: a GPU without power) counts as absent.
 *
 * Heat: passive, hot and critical trip points from 20 to 130 C count. Where no zone has one, 85 C is assumed
 * for each (`trip_assumed`); no trip of a Raspberry Pi counts as more than that, as its firmware slows all
 * down at 85 C whatever the kernel's trip (110 C) says. Zones of a power chip with a constant value
 * (PMIC-Die) do not count. */
#ifndef PLATFORM_VITALS_H
#define PLATFORM_VITALS_H

#include "platform/base/err.h"
#include <stdbool.h>
#include <stdint.h>

enum vital { /* what the board tells */
	     VITAL_LOAD = 1,
	     VITAL_PRESSURE = 2,
	     VITAL_HEAT = 4,
	     VITAL_THROTTLE = 8,
	     VITAL_CLOCK = 16,
	     VITAL_MEMORY = 32,
	     VITAL_BATTERY = 64,
};

enum throttle { /* now, or reported for the first time since this reader last looked */
		THROTTLE_VOLTAGE = 1,
		THROTTLE_CAPPED = 2,
		THROTTLE_SLOWED = 4,
		THROTTLE_SOFT_LIMIT = 8,
		THROTTLE_CURRENT = 16,
		THROTTLE_COOLING = 32, /* a cooling device holds a processor back */
};

struct vitals {
	unsigned has; /* enum vital, or-ed */
	int64_t at_ns;
	int cpus; /* online */
	/* Processor time of all cpus since boot, in steps of 10 ms. busy_ns includes honed's own processes,
	 * which the gate subtracts, and what a hypervisor took; it does not include waiting for io. */
	int64_t busy_ns, total_ns;
	int64_t stalled_ns[3]; /* since boot, some task: cpu, io, memory */
	int headroom_mc; /* least distance of a zone from its lowest passive, hot or critical trip point */
	int temp_mc;     /* of that zone */
	char zone[32];
	bool trip_assumed;
	unsigned throttle;     /* enum throttle, or-ed */
	unsigned throttled_by; /* the same, everything since boot that the board reports */
	int64_t throttled;     /* events since boot; a change taints what was measured meanwhile */
	int64_t clock_khz, clock_most_khz; /* sums over policies: now, and the highest allowed now */
	bool clock_held;                   /* every policy's governor is performance or userspace, and no
					      driver lets the processor choose its clock (intel, amd) */
	int64_t gpu_khz, gpu_most_khz;     /* 0: not known */
	int64_t memory_free_bytes, memory_bytes; /* MemAvailable, MemTotal */
	int battery_pct;                         /* of the emptiest battery */
	bool discharging;
};

struct vitals_reader; /* knows which of the files exist */

int vitals_open(const char *sysroot, struct vitals_reader **out) MUST_CHECK;
void vitals_close(struct vitals_reader *r);
/* vitals_read and vitals_glance do not allocate. */
void vitals_read(struct vitals_reader *r, int64_t now_ns, struct vitals *out);
/* Reads only what can taint a measurement (throttle, clock), in microseconds; the rest of *out is 0. */
void vitals_glance(struct vitals_reader *r, int64_t now_ns, struct vitals *out);
/* NULL, or why a measurement between the two is not reliable: the board throttled, or began or ceased to; the
 * highest allowed clock changed; a clock that a governor holds fell. (A governor that follows the load
 * changes clocks all the time, which alone taints nothing. Nor does a state that lasts: races are
 * interleaved, and the gate is closed.) */
const char *vitals_taint(const struct vitals *before, const struct vitals *after);
/* "under-voltage, over-current" */
const char *vitals_throttle_text(unsigned throttle, char *out, int n);

#endif
