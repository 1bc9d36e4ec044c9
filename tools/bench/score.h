/* SPDX-License-Identifier: Apache-2.0 */
/* Times several caches of one network against the first of them: each runs in turns with the first in one
 * process, so that disturbances on the machine hit both alike.
 *
 * On a busy machine no run of a network is undisturbed from beginning to end, and two runs are not
 * undisturbed at the same instants. So the two are compared kernel by kernel: the median of the ratios of
 * neighbouring runs, weighted by the kernel's time. Copies of one cache, on a machine that took 2.5 times its
 * time in the median, agreed within 0.7 % (one standard deviation, 18 comparisons); ratios of whole runs
 * within 3 %, tenth percentiles within 25 %. If two caches divide the graph differently, kernels are summed
 * up between the nodes that both have. */
#ifndef TOOLS_SCORE_H
#define TOOLS_SCORE_H

#include "tools/hone/ready.h"
#include "platform/base/stats.h"

enum { SCORE_MAX = 20 };

struct net_score {
	const char *cache;
	enum ready_kernels kernels;
	int count[FROM_HOST + 1]; /* number of kernels, by enum kernel_origin */
	double quality;           /* the first's time over this one's: above 1 is faster */
	double least, most;       /* range of quality over the openings, each evaluated by itself */
	struct interval gain;     /* ratios of neighbouring whole runs */
	double low_ns, median_ns; /* of whole runs: tenth percentile and median */
};

/* Makes every plan anew `openings` times, because the place of its memory changes times by a few percent, and
 * runs it `rounds` times in each, with caches as warm as for a network that runs alone. 1 < n <=
 * SCORE_MAX. */
int score_run(const struct args *a, const char *model, struct host *h, int openings, int rounds, int n,
	      struct net_score *s) MUST_CHECK;

/* Splits the kernels of two plans, in their order, into groups that do the same work. part[g]: first kernel
 * of the g-th group in each plan. Names are those of anchor nodes; kernels between two nodes that both plans
 * have belong to the former node. Returns the number of groups: at least 1, at most the lesser of na and
 * nb. */
struct score_part {
	int a, b;
};
int score_parts(const char *const *a, int na, const char *const *b, int nb, struct score_part *part);

#endif
