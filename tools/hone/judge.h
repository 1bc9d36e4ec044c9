/* SPDX-License-Identifier: Apache-2.0 */
/* Judges how well cost models rank candidates whose times are known. The benchmarks of cost models share it.
 *
 * A problem is one task with its timed candidates, as the samples that models learn from. A model is judged
 * on a problem that it did not learn, by these figures:
 * - the share of pairs more than 5 % apart that it orders correctly (a tie counts half);
 * - how its first pick, and the best of its first five, compare with the problem's best;
 * - its errors in units of its own predicted deviation: 1 means the deviations are right. An error that all
 * candidates of a task share is not counted. */
#ifndef TOOLS_JUDGE_H
#define TOOLS_JUDGE_H

#include "agent/worker/landscape.h"
#include "kernels/space/space.h"
#include "search/cost.h"

struct problem {
	const char *name, *network; /* network "": unknown */
	const char *family;         /* "dense", "depthwise", "chain" or "other" */
	int n;
	struct sample *sample; /* their task field is the problem's index */
	double *ns;            /* measured */
};

/* One problem for each landscape whose task makes a space here and that has at least two timed candidates;
 * the log names the landscapes left out. The part of a landscape's protocol before a colon is the network. */
int problems_of(const struct landscape *l, int n, struct arena *a, struct problem **out) MUST_CHECK;
/* Family of a task, by its label. */
const char *judge_family(const char *label);
/* The sample of a candidate that took ns. */
struct sample judge_sample(const struct space *s, int task, const char *cand, double ns);

struct score {
	double pairs;      /* 0..1; NAN: no pair is more than 5 % apart */
	double top1, top5; /* best time over the time of the pick */
	double off;        /* root mean square of log errors over their predicted sd */
	double ns;         /* time of one prediction on this machine */
};

enum { JUDGE_PASSES = 4 };
/* Teaches a model the problems for which `use` is not 0: first a few candidates of each in turn, as a job
 * does, then all of them a few times again, as training a prior does. Returns the ns per candidate. */
double judge_teach(const struct cost *c, void *state, const struct problem *p, int n, const char *use);
struct score judge_score(const struct cost *c, const void *state, const struct problem *p);

#endif
