/* SPDX-License-Identifier: Apache-2.0 */
/* Simulates several tuning jobs under honed's own decisions (agent/honed/honed.h), in virtual time: what a
 * policy and the rules of leases achieve for four networks whose stages take as long as they took on a board.
 * Deterministic.
 *
 * A job runs on one processor, which it may share; stages of other jobs slow it down a little, because they
 * share memory. A job times nothing while another job's lease excludes that. On each further processor that
 * honed gives it, a builder makes candidates ahead, as agent/worker/builders.h does. */
#ifndef TOOLS_JOBS_SIM_H
#define TOOLS_JOBS_SIM_H

#include "platform/base/err.h"
#include <stdbool.h>
#include <stdint.h>

enum { SIM_NETS = 4, SIM_JOBS = 8 };

struct sim_want {
	const char *policy;
	int cores;        /* 1 to 8 */
	int64_t slice_ns; /* resident mode: length of a slice, one job at a time; 0: one box, all at once */
	int jobs;         /* 1 to SIM_JOBS; they take the networks in turn, beginning with `first` */
	int first;
	int at_once; /* most jobs of the box at once; 0: as many as honed chooses */
	uint64_t seed;
	int priority; /* of the first job; the others have 0 */
	bool drains;  /* jobs cannot be stopped midway, so honed waits for them */
};

struct sim_told {
	double alone_s;    /* one job after another, without overlap */
	double ahead_s;    /* the same with the jobs' own builders. 0 in slices, and for one job */
	double together_s; /* until the last job has ended */
	double good_s;     /* until each job has reached 99 % of its gain */
	double alone_good_s;
	double behind;    /* slowdown against the network at its end, mean over models and the time until
			   * good_s */
	double fairness;  /* Jain's index of the jobs' slowdowns: 1 is equal */
	double first;     /* slowdown of the first job over that of the others */
	double draining;  /* share of the time in which a job waits to measure and none measures */
	double idle;      /* share of the processors' time in which a job of theirs waits and none runs */
	double quiet;     /* share of the time in which one job has the whole machine */
	double wait_ms;   /* longest wait for a lease */
	int leases, both; /* both: times that two leases were held that exclude each other */
};

int jobs_sim(const struct sim_want *w, struct sim_told *out) MUST_CHECK;

#endif
