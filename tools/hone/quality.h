/* SPDX-License-Identifier: Apache-2.0 */
/* Time to quality: how near a search is to the best that was ever found, second by second.
 *
 * Quality is the time of the network with the best kernels ever found over its time with what a search had
 * found by then: 1 is as good, more is better than anything before. tools/bench/score.h
 * says how they are timed. */
#ifndef TOOLS_QUALITY_H
#define TOOLS_QUALITY_H

#include "agent/cache/json.h"
#include <stdint.h>

enum { MOMENTS_MAX = 16 };

struct moment {
	double at_s;                 /* since the start of the search's process */
	double ms;                   /* of the network: tenth percentile of whole runs, for people */
	double quality, least, most; /* least, most: of the openings, each for itself */
	double median;               /* of the ratios of whole neighbouring runs */
	int tuned, standard, fallback, portable; /* kernels, by where they come from */
};

/* One search. */
struct course {
	const char *network, *strategy;
	uint64_t seed;
	int trials;
	double elapsed_s;
	double own_pct;     /* of the box, the search's own time; NAN: not known */
	double state_bytes; /* of the search; NAN: not known */
	int n;
	struct moment moment[MOMENTS_MAX]; /* ascending */
};

/* Of the last moment that is not later; 0: there is none. */
double quality_at(const struct course *c, double at_s);
/* The first moment from which on the quality is at least `level`; NAN: none. */
double quality_seconds(const struct course *c, double level);

/* Of the courses of a network (NULL: all) with a strategy. */
struct quality_sum {
	int n;              /* courses */
	double mean, worst; /* geometric mean, least; NAN where n is 0 */
};
struct quality_sum quality_sum(const struct course *c, int n, const char *network, const char *strategy,
			       double at_s);

json_t *quality_json(const struct course *c);

#endif
