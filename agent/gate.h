/* SPDX-License-Identifier: Apache-2.0 */
/* The gate: whether the board can be tuned on now. A value and a function: vitals and the clock in, a verdict
 * out; no file is read here. Never changes clocks or governors; it waits, and says why.
 *
 * Opening needs everything to hold for `settle_ns`; closing takes one look. Load is what others use: what our
 * own children used is taken away from it, as pressure on the processor is not asked of while they run (they
 * wait for the robot at idle priority, which counts as pressure). */
#ifndef AGENT_GATE_H
#define AGENT_GATE_H

#include "platform/vitals.h"

enum gate_why {
	GATE_OPEN,
	GATE_SETTLING,  /* all is well, for too short a time */
	GATE_INHIBITED, /* a file, or hone inhibit */
	GATE_HOURS,     /* not at this time of day */
	GATE_THROTTLED,
	GATE_HOT,
	GATE_BATTERY,
	GATE_MEMORY,
	GATE_LOAD,
	GATE_PRESSURE,
	GATE_WHYS
};

struct gate_limits {     /* 0: the default */
	double load_pct; /* of all processors, used by others: 25 */
	double
	    pressure_pct; /* of the time, some task waits for memory or io (processor: while we rest): 10 */
	int headroom_mc;  /* below the lowest trip point: 15000 */
	int battery_pct;  /* while discharging: 30 */
	int64_t memory_bytes;       /* that must be free: 128 MiB */
	int64_t settle_ns;          /* 10 s */
	int from_minute, to_minute; /* of the day, local time; equal: always. May span midnight. */
};

struct gate {
	struct gate_limits limits;
	struct vitals last;
	int64_t last_own_ns, well_since_ns;
	bool open, looked;
};

struct gate_look {
	const struct vitals *v;
	int64_t own_ns;        /* processor time that our children have used, ever */
	const char *inhibited; /* who and why; NULL: nobody */
	int minute;            /* of the day; -1: not known */
};

struct verdict {
	enum gate_why why;
	bool open;
	bool free_memory; /* jobs should end, not only rest */
	int64_t again_ns; /* look again after so long; less while it is open */
	double load_pct;  /* of others; < 0: not known yet */
	char text[200];   /* for people: "zone cpu-thermal is at 71 C, 14 C below its limit; tuning goes on at
			     15 C" */
};

void gate_init(struct gate *g, const struct gate_limits *limits);
void gate_look(struct gate *g, int64_t now_ns, const struct gate_look *look, struct verdict *out);
const char *gate_word(enum gate_why why); /* "hot": stable, for --json and metrics */

#endif
