/* SPDX-License-Identifier: Apache-2.0 */
/* Judges how well cost models rank candidates whose times are known.
 *
 * A problem is one task with its timed candidates. A model is judged by these figures:
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
	const char *name;
	const char *family; /* "dense", "depthwise", "chain" or "other" */
	int n;
	float (*f)[FEATURES]; /* of candidate i: f[i] */
	double *ns;           /* measured */
};

/* One problem for each landscape whose task makes a space here and that has at least two timed candidates;
 * the log names the landscapes left out. */
int problems_of(const struct landscape *l, int n, struct arena *a, struct problem **out) MUST_CHECK;
/* Family of a task, by its label. */
const char *judge_family(const char *label);
/* Makes room for so many candidates in the arena; adds one that took ns. */
void problem_room(struct problem *p, int room, struct arena *a);
void problem_add(struct problem *p, const struct space *s, const char *cand, double ns);

struct score {
	double pairs;      /* 0..1; NAN: no pair is more than 5 % apart */
	double top1, top5; /* best time over the time of the pick */
	double off;        /* root mean square of log errors over their predicted sd */
	double ns;         /* time of one prediction on this machine */
};

struct score judge_score(const struct cost *c, const struct problem *p);

#endif
