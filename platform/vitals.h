/* SPDX-License-Identifier: Apache-2.0 */
/* How the board is: load, pressure, heat, throttling, clocks, memory, battery, as the kernel's files tell it.
 * Only reads; what a board does not tell is not an error (`has`). Every path is below `sysroot` ("": the real
 * root), so that a folder can stand for any board.
 *
 * Sources: /proc/stat; /proc/pressure/{cpu,io,memory}; /proc/meminfo; /sys/class/thermal/thermal_zone*
 * {temp,trip_point_*_temp,trip_point_*_type}; the Raspberry Pi firmware's get_throttled (bits 0-3 now, 16-19
 * since boot; read from sysfs, nothing is run); /sys/class/hwmon/hwmon*: oc{1,2,3}_event_cnt (Jetson),
 * rpi_volt's alarm; /sys/class/devfreq/<gpu>; /sys/devices/system/cpu/cpufreq/policy*
 * {scaling_cur_freq,scaling_max_freq, cpuinfo_max_freq}; /sys/class/thermal/cooling_device* cur_state;
 * /sys/class/power_supply. */
#ifndef PLATFORM_VITALS_H
#define PLATFORM_VITALS_H

#include "platform/err.h"
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

enum throttle { /* holds now */
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
	int64_t busy_ns,
	    total_ns; /* since boot, of all cpus; without what idle-priority work took where the kernel
			 tells (it does not tell of SCHED_IDLE: gate subtracts what is our own) */
	int64_t stalled_ns[3]; /* since boot, some task: cpu, io, memory */
	int headroom_mc; /* least distance of a zone from its lowest passive, hot or critical trip point */
	int temp_mc;     /* of that zone */
	char zone[32];
	unsigned throttle; /* enum throttle, or-ed */
	int64_t throttled; /* events since boot; any change taints what was measured meanwhile */
	int64_t clock_khz, clock_most_khz;       /* sums over policies: now, and what is allowed now */
	int64_t memory_free_bytes, memory_bytes; /* MemAvailable, MemTotal */
	int battery_pct;
	bool discharging;
};

struct vitals_reader; /* knows which of the files are there */

int vitals_open(const char *sysroot, struct vitals_reader **out) MUST_CHECK;
void vitals_close(struct vitals_reader *r);
void vitals_read(struct vitals_reader *r, int64_t now_ns, struct vitals *out);
/* Only what can taint a measurement (throttle, clock), in microseconds; the rest of *out is 0. */
void vitals_glance(struct vitals_reader *r, int64_t now_ns, struct vitals *out);
/* NULL, or why what was measured between the two is not to be believed. */
const char *vitals_taint(const struct vitals *before, const struct vitals *after);

#endif
