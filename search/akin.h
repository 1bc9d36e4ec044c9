/* SPDX-License-Identifier: Apache-2.0 */
/* What won in a job's tasks of a kind, for the others of that kind. A task is told the nearest in size first;
 * how its schedule fits is kernels/space/transfer.h's. */
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
	struct winner w[AKIN_MAX]; /* those that come when it is full are left out */
};

/* What a task has been told of them. */
struct heard {
	struct key kind;
	double flops;
	uint64_t told; /* bit per winner */
};

/* The task must outlive it. */
void akin_add(struct akin *k, const struct task *t, int from, const char *cand);
void heard_open(struct heard *h, const struct task *t);
/* The nearest that task `self` of the job has not been told yet, now it is. NULL: none. */
const struct winner *akin_next(const struct akin *k, struct heard *h, int self);

#endif
