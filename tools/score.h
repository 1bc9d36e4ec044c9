/* SPDX-License-Identifier: Apache-2.0 */
/* Several caches of one network against the first of them: each runs in turns with the first in one process,
 * so that what else happens on the machine hits both alike. On a busy machine the ratio of neighbouring runs
 * is steady where even the tenth percentiles of the two are not: the quiet instants are few, and are not
 * everybody's. */
#ifndef TOOLS_SCORE_H
#define TOOLS_SCORE_H

#include "tools/ready.h"
#include "tools/stats.h"

enum { SCORE_MAX = 20 };

struct score {
	const char *cache;
	enum ready_kernels kernels;
	int count[FROM_HOST + 1]; /* kernels, by enum kernel_origin */
	double low_ns, median_ns; /* tenth percentile, median */
	double low;               /* the first's tenth percentile over this one's: above 1 is faster */
	struct interval gain;     /* the first's time over this one's, of neighbouring runs */
};

/* Every plan is made anew `openings` times, because where its memory lies decides a few percent too, and runs
 * `rounds` times in each, as warm as a network that runs alone. 1 < n <= SCORE_MAX. */
int score_run(const struct args *a, const char *model, struct host *h, int openings, int rounds, int n,
	      struct score *s) MUST_CHECK;

#endif
