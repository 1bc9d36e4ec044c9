/* SPDX-License-Identifier: Apache-2.0 */
/* Time to quality: how near a search is to the best result ever found, second by second.
 *
 * Quality is the network's time with the best kernels ever found, divided by its time with the kernels that
 * the search had found by then: 1 means equally good, above 1 means better than anything before.
 * tools/bench/score.h describes how the times are measured. */
#ifndef TOOLS_QUALITY_H
#define TOOLS_QUALITY_H

#include "agent/cache/json.h"
#include <stdint.h>

enum { MOMENTS_MAX = 16 };

struct moment {
	double at_s;                 /* since the start of the search's process */
	double ms;                   /* time of the network: tenth percentile of whole runs, for display */
	double quality, least, most; /* least, most: when each opening of the plans (tools/bench/score.h) is
					evaluated by itself */
	double median;               /* median of the ratios of neighbouring whole runs */
	/* number of kernels by origin; standard: default schedules */
	int tuned, standard, fallback, portable;
};

/* The course of one search. */
struct course {
	const char *network, *strategy;
	uint64_t seed;
	int trials;
	double elapsed_s;
	double own_pct;     /* share of the box that the search itself used; NAN: not known */
	double state_bytes; /* memory of the search; NAN: not known */
	int n;
	struct moment moment[MOMENTS_MAX]; /* ascending */
};

/* Quality at the last moment that is not after at_s; 0: there is none. */
double quality_at(const struct course *c, double at_s);
/* The first moment from which the quality stays at least `level`; NAN: none. */
double quality_seconds(const struct course *c, double level);

/* Summary over the courses of a network (NULL: all networks) with a strategy. */
struct quality_sum {
	int n;              /* courses */
	double mean, worst; /* geometric mean and smallest value; NAN if n is 0 */
};
struct quality_sum quality_sum(const struct course *c, int n, const char *network, const char *strategy,
			       double at_s);

json_t *quality_json(const struct course *c);

#endif
