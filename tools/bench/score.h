/* SPDX-License-Identifier: Apache-2.0 */
/* Several caches of one network against the first of them: each runs in turns with the first in one process,
 * so that what else happens on the machine hits both alike.
 *
 * On a busy machine no run of a network is left alone from beginning to end, and quiet instants are not
 * everybody's. So the two are compared kernel by kernel: the median of the ratios of neighbouring runs,
 * weighted by the kernel's time. Copies of one cache, on a machine that took 2.5 times its time in the
 * median, were within 0.7 % (one standard deviation, 18 comparisons); whole runs' ratios within 3 %, tenth
 * percentiles within 25 %. Where two divide the graph otherwise, kernels are summed up between the nodes that
 * both have. */
#ifndef TOOLS_SCORE_H
#define TOOLS_SCORE_H

#include "tools/hone/ready.h"
#include "tools/hone/stats.h"

enum { SCORE_MAX = 20 };

struct net_score {
	const char *cache;
	enum ready_kernels kernels;
	int count[FROM_HOST + 1]; /* kernels, by enum kernel_origin */
	double quality;           /* the first's time over this one's: above 1 is faster */
	double least, most;       /* of that, of the openings each for itself */
	struct interval gain;     /* the same of neighbouring whole runs */
	double low_ns, median_ns; /* of whole runs: the tenth percentile, the median */
};

/* Every plan is made anew `openings` times, because where its memory lies decides a few percent too, and runs
 * `rounds` times in each, as warm as a network that runs alone. 1 < n <= SCORE_MAX. */
int score_run(const struct args *a, const char *model, struct host *h, int openings, int rounds, int n,
	      struct net_score *s) MUST_CHECK;

/* Kernels of two plans in their order: groups of them that do the same. part[g]: where the g-th begins in
 * each. The names are of anchor nodes; what lies between two that both have belongs to the former. Returns
 * the number of groups, at most the lesser of na and nb, and 1 at least. */
struct score_part {
	int a, b;
};
int score_parts(const char *const *a, int na, const char *const *b, int nb, struct score_part *part);

#endif
