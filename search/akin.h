/* SPDX-License-Identifier: Apache-2.0 */
/* The winners of a job's tasks, as known candidates for its other tasks of the same kind. A task gets the
 * winners of the tasks nearest to it in size first; kernels/space/transfer.h says how their schedules are
 * fitted to it. */
#ifndef SEARCH_AKIN_H
#define SEARCH_AKIN_H

#include "kernels/space/transfer.h"

enum { AKIN_MAX = 64 };

struct winner {
	struct key kind;
	const struct task *task;
	const char *cand;
	int from; /* task of the job */
	double flops;
};

struct akin {
	struct arena arena;
	int n;
	struct winner w[AKIN_MAX]; /* once it is full, further winners are left out */
};

/* Which winners a task has been given already. */
struct heard {
	struct key kind;
	double flops;
	uint64_t told; /* bit per winner */
};

/* The task must outlive it. */
void akin_add(struct akin *k, const struct task *t, int from, const char *cand);
void heard_open(struct heard *h, const struct task *t);
/* The winner nearest in size that task `self` of the job has not been given yet; marks it as given. NULL:
 * none is left. */
const struct winner *akin_next(const struct akin *k, struct heard *h, int self);

#endif
