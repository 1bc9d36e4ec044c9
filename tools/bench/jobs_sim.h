/* SPDX-License-Identifier: Apache-2.0 */
/* Several tuning jobs under honed's own decisions (agent/honed/honed.h), in virtual time: what a policy and
 * the rules of leases make of four networks whose stages take what they took on a board. Deterministic.
 *
 * A job is on one processor, which it shares with whoever else is there; stages of others slow it down a
 * little, as they share memory. Nothing of it is timed while a lease of another excludes that. On each
 * processor more that honed gives it a builder makes candidates ahead, as agent/worker/builders.h does. */
#ifndef TOOLS_JOBS_SIM_H
#define TOOLS_JOBS_SIM_H

#include "platform/base/err.h"
#include <stdbool.h>
#include <stdint.h>

enum { SIM_NETS = 4, SIM_JOBS = 8 };

struct sim_want {
	const char *policy;
	int cores;        /* 1 to 8 */
	int64_t slice_ns; /* resident, one job at a time for so long; 0: one box, all at once */
	int jobs;         /* 1 to SIM_JOBS; of the networks in turn, from `first` on */
	int first;
	int at_once; /* jobs of the box; 0: as many as honed thinks best */
	uint64_t seed;
	int priority; /* of the first; the others have 0 */
	bool drains;  /* jobs cannot be stopped midway, and are waited for */
};

struct sim_told {
	double alone_s;    /* one after another, without overlap; */
	double ahead_s;    /* with the jobs' own builders. 0 in slices, and for one job */
	double together_s; /* until the last has ended, */
	double good_s;     /* until each has won 99 % of what it wins */
	double alone_good_s;
	double behind;    /* mean over models and the time until good_s of how much slower than at its end */
	double fairness;  /* Jain's index of how much slower each was: 1 is equal */
	double first;     /* how much slower the first was, of how much the others were */
	double draining;  /* share of the time in which somebody waits to measure, and nobody does */
	double idle;      /* share of the processors' time in which a job of theirs waits, and none runs */
	double quiet;     /* share of the time in which one job has the whole machine */
	double wait_ms;   /* longest wait for a lease */
	int leases, both; /* both: times that two were held that exclude each other */
};

int jobs_sim(const struct sim_want *w, struct sim_told *out) MUST_CHECK;

#endif
