/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the state of a GPU of NVIDIA: clocks, temperature, power, load, and the reasons of a lower clock.
 * Sources: NVIDIA's management library (libnvidia-ml.so.1, "NVML"), opened at run time; of the GPU of a
 * Jetson, which shares the processor's memory and which NVML does not know, the kernel's files below a root:
 * devfreq, thermal zones, INA3221 power monitors, /sys/devices/gpu.0/load, and the throttling that
 * platform/machine/vitals.h knows. Neither is trusted: numbers that no GPU has count as not told, and a
 * source that does not answer in time is not asked again. A thread of its own asks, so that no caller hangs.
 */
#ifndef PLATFORM_GPU_STATE_H
#define PLATFORM_GPU_STATE_H

#include "platform/base/err.h"
#include <stdbool.h>
#include <stdint.h>

enum gpu_slowed { /* what holds the clock down */
		  GPU_SLOWED_POWER = 1,
		  GPU_SLOWED_HEAT = 2,
		  GPU_SLOWED_HARDWARE = 4, /* heat, power or a fault: it does not say which */
		  GPU_SLOWED_BRAKE = 8,    /* the power supply demands it */
		  GPU_SLOWED_BOARD = 16,   /* over-current, or a cooling device of a Jetson */
};

struct gpu_state { /* a number that is not told is -1 */
	int64_t clock_mhz, clock_most_mhz, memory_mhz;
	int64_t temp_mc, power_mw;
	int load_pct;
	unsigned slowed; /* enum gpu_slowed, or-ed */
	int64_t events;  /* of throttling that were counted: a change tells one that is over; -1: neither this
			    nor `slowed` is told */
};

#define GPU_STATE_NONE ((struct gpu_state){-1, -1, -1, -1, -1, -1, 0, -1})

struct gpu_watch;

/* uuid: that of CUDA's device, "01234567-89ab-...". shares: it shares the processor's memory. root: of the
 * files (NULL: $HONE_SYSROOT, else the real one). library: NVML's (NULL: its usual name). E_NOTFOUND: the
 * state is not told; the text says why. */
int gpu_watch_open(const char *uuid, bool shares, const char *root, const char *library,
		   struct gpu_watch **out) MUST_CHECK;
/* GPU_STATE_NONE once the source has not answered in time. */
void gpu_watch_read(struct gpu_watch *w, struct gpu_state *out);
void gpu_watch_close(struct gpu_watch *w); /* NULL: nothing */
/* For tests: how long a source may take to answer (default: 1 s). */
void gpu_watch_patience(int64_t ns);

/* Makes a state that another process sent as safe as those of gpu_watch_read. */
void gpu_state_clean(struct gpu_state *s);
/* "1980 of 1980 MHz, memory 2619 MHz, 45 C, 120.5 W, 3 % busy, held down by heat"; "": nothing is told. */
void gpu_state_text(const struct gpu_state *s, char *out, int n);
/* NULL, or why times measured between the two are not reliable: something but the power limit, which comes
 * and goes with the load, began or ceased to hold the clock down. (What lasts affects all candidates alike.)
 * A state that does not tell whether the clock is held down is no reason: a source that stopped answering is
 * not asked again, so its times are as reliable as those of a device that never had one. */
const char *gpu_state_taint(const struct gpu_state *before, const struct gpu_state *after);

#endif
