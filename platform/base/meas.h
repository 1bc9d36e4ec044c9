/* SPDX-License-Identifier: Apache-2.0 */
/* A measurement: the result of trying one candidate. A candidate that fails is data: a meas with that
 * status. */
#ifndef PLATFORM_MEAS_H
#define PLATFORM_MEAS_H

#include <stdint.h>

enum meas_status {
	MEAS_OK,         /* built, checked, timed */
	MEAS_INFEASIBLE, /* the schedule does not fit the task or the machine */
	MEAS_BUILD,      /* the emitter failed */
	MEAS_SPILL,      /* vector registers spilled: rejected before timing */
	MEAS_WRONG,      /* wrong answer */
	MEAS_CRASH,      /* the candidate's process died */
	MEAS_TIMEOUT,    /* too slow, or the deadline passed */
	MEAS_ABORTED,    /* slower than abort_ns after a first run; min_ns is that run */
	MEAS_STATUSES
};

struct meas {
	enum meas_status status;
	int32_t runs;   /* timed runs */
	int64_t min_ns; /* per run of the whole kernel */
	int64_t median_ns;
	int64_t spread_ns;             /* median absolute deviation */
	int64_t build_ns;              /* from task text to loadable object */
	int64_t check_ns;              /* checking the answer, with the first run */
	double max_rel_err;            /* |a - b| / max|reference| over the points checked */
	int32_t mhz_before, mhz_after; /* clock of the measuring core; 0: unknown */
	int32_t mc_before, mc_after;   /* milli-degrees C; 0: unknown */
	int32_t threads;
	int32_t throttled; /* 1: the device began or ceased to throttle in every try to time it, so that its
			      times are not comparable */
};

const char *meas_status_name(enum meas_status s);
int meas_status_parse(const char *name, enum meas_status *out); /* E_CORRUPT: no such name */
/* Relative standard error of the median; 1: too few runs to tell. */
double meas_error(const struct meas *m);
/* The kernels of one call were timed together, and the call ended in kernel `at`, whose status is `how`: the
 * others were not measured, so that they are MEAS_OK with no runs. */
void meas_blame(struct meas *m, int n, int at, enum meas_status how);
/* The kernel that meas_blame() named; -1: none. */
int meas_blamed(const struct meas *m, int n);
/* Sets runs, min_ns, median_ns and spread_ns from the times of n > 0 runs; overwrites the times. */
void meas_summarize(int64_t *ns, int n, struct meas *m);

#endif
