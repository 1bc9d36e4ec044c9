/* SPDX-License-Identifier: Apache-2.0 */
/* The gate decides whether the board can be tuned on now. A value and a function: vitals and the clock in, a
 * verdict out; it reads no file. It never changes clocks or governors; it waits, and says why.
 *
 * To open, all conditions must hold for `settle_ns`; to close, one look is enough. A condition that closed
 * the gate must be met by a margin before it opens again, so that it does not flap: 3 C more headroom
 * (sensors step by up to 1 C, and a board that rests cools by more in seconds), 5 % more battery, 1/4 more
 * memory, 4/5 of the limit of load and pressure.
 *
 * Load is what other processes use: the processor time of honed's own children is subtracted. It is judged
 * over the last 100 ms while the gate is open and looks are 25 ms apart, else since the last look. /proc/stat
 * counts in ticks of 10 ms: over less than a second one and a half of them may be missing, so the gate closes
 * that much earlier, but never for less than two ticks. So with the defaults one tick never closes it, a
 * process that takes one of four processors for 100 ms does, and a steady load below half of the limit does
 * not. A value that the system does not report (a load that does not change, a board without PSI) never
 * closes the gate.
 *
 * Pressure (some task waits for memory or io) is judged over 2 s, or sooner if the waits so far already
 * exceed the limit for 2 s. While the gate is open the limit for io is 4 times as high, since honed's own
 * commits wait for the card, too; pressure on the processor counts only while tuning rests, since honed's own
 * jobs wait for the robot at idle priority. */
#ifndef AGENT_GATE_H
#define AGENT_GATE_H

#include "platform/machine/vitals.h"

enum gate_why {
	GATE_OPEN,
	GATE_SETTLING,  /* all conditions hold, but not for long enough */
	GATE_INHIBITED, /* a file, or hone inhibit */
	GATE_HOURS,     /* outside of the configured hours, or the time of day is not known */
	GATE_THROTTLED, /* now, or since the last look */
	GATE_HOT,
	GATE_BATTERY,
	GATE_MEMORY,
	GATE_LOAD,
	GATE_PRESSURE,
	GATE_WHYS
};

struct gate_limits {                /* 0: the default */
	double load_pct;            /* of all processors, used by others: 25; from 100 on it is not checked */
	double pressure_pct;        /* share of the time in which some task waits: 10; from 100 on it is not
				       checked */
	int headroom_mc;            /* below the lowest trip point: 15000 */
	int battery_pct;            /* while discharging: 30 */
	int64_t memory_bytes;       /* free memory that is required: 128 MiB */
	int64_t settle_ns;          /* 10 s; < 0: none, the first look may open */
	int from_minute, to_minute; /* of the day, local time; equal: always. May span midnight. */
};

enum { GATE_LOADS = 8 };

struct gate {
	struct gate_limits limits;
	bool open, looked;
	enum gate_why why;
	int64_t why_since_ns, well_since_ns; /* why: since when the gate is closed for this reason; well:
						since when all conditions hold */
	int64_t throttled;                   /* count at the last look */
	int nloads;                          /* the newest last */
	struct gate_load {
		int64_t at_ns, others_ns, total_ns;
	} load[GATE_LOADS];
	double load_pct; /* < 0: not known */
	bool stalls_known;
	int64_t stalls_at_ns, stalls_own_ns, stalled_ns[3]; /* at the beginning of the 2 s */
	double stalled_pct[3];                              /* over the 2 s before */
};

struct gate_look {
	const struct vitals *v;
	int64_t own_ns;        /* processor time that honed's children have used so far */
	const char *inhibited; /* who inhibits and why; NULL: nobody */
	int minute;            /* of the day; -1: not known */
};

struct gate_verdict {
	enum gate_why why;
	bool open;
	bool free_memory; /* true: jobs should end, not only rest, since less than half of the memory limit is
			     free, or tasks wait for memory for twice the pressure limit */
	int64_t again_ns; /* look again after so long: 25 ms while it is open, 1 s at most while it settles;
			     else from 1 s to 60 s, a quarter of the time since it was open last or one
			     reason followed another at once; well for less than settle_ns restarts nothing */
	double load_pct;  /* used by others; < 0: not known yet */
	char text[200];   /* for users: "zone cpu-thermal is at 71 C, 14 C below its limit; tuning goes on at
			     18 C" */
};

void gate_init(struct gate *g, const struct gate_limits *limits);
/* Closes the gate for an inhibit without a look, even if the inhibit is lifted before the next look. */
void gate_shut(struct gate *g, int64_t now_ns);
void gate_look(struct gate *g, int64_t now_ns, const struct gate_look *look, struct gate_verdict *out);
const char *gate_word(enum gate_why why); /* "hot": stable, for --json and metrics */

#endif
