/* SPDX-License-Identifier: Apache-2.0 */
/* How well cost models rank candidates whose times are known: what the benchmarks of models share.
 *
 * A problem is one task with its timed candidates, as the samples that models learn from. A model is judged
 * by a problem it did not learn: by the share of pairs more than 5 % apart that it puts in the right order (a
 * tie is half right), by what its first pick, and the best of its first five, reach of the problem's best,
 * and by how far off it is in its own opinion: 1 where its guesses' deviations are what its errors are, all
 * candidates of a task being off alike left aside. */
#ifndef TOOLS_JUDGE_H
#define TOOLS_JUDGE_H

#include "agent/worker/landscape.h"
#include "kernels/space/space.h"
#include "search/cost.h"

struct problem {
	const char *name, *network; /* network "": unknown */
	const char *family;         /* dense, depthwise, chain, other */
	int n;
	struct sample *sample; /* their task is the problem's number */
	double *ns;            /* measured */
};

/* One per landscape whose task makes a space here and that has at least two timed candidates; the others are
 * told in the log. What a protocol has before a colon is the network. */
int problems_of(const struct landscape *l, int n, struct arena *a, struct problem **out) MUST_CHECK;
/* of a task's label */
const char *judge_family(const char *label);
/* Sample of a candidate that took ns. */
struct sample judge_sample(const struct space *s, int task, const char *cand, double ns);

struct score {
	double pairs;      /* 0..1; NAN: no pair is more than 5 % apart */
	double top1, top5; /* best time over that of the pick */
	double off;        /* root mean square of log errors over their guesses' sd */
	double ns;         /* of a guess, of this machine */
};

enum { JUDGE_PASSES = 4 };
/* A model learns the problems for which `use` is not 0, a few candidates of each in turn, as in a job, then
 * all of them a few times again, as a prior is made. Returns the ns that each took it. */
double judge_teach(const struct cost *c, void *state, const struct problem *p, int n, const char *use);
struct score judge_score(const struct cost *c, const void *state, const struct problem *p);

#endif
