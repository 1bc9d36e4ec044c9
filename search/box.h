/* SPDX-License-Identifier: Apache-2.0 */
/* The box: the runner with a deadline. Every call to the runner goes through here.
 *
 * Calls return E_OK (then look at meas.status), E_STOPPED (time is up, or the caller asked to stop) or the
 * error of a broken machine. The box survives a worker that dies, or that hangs (E_TIMEOUT before the box
 * ends): the worker's handles are lost, and candidates that are still needed are built again. Ten deaths in a
 * row are an error. */
#ifndef SEARCH_BOX_H
#define SEARCH_BOX_H

#include "search/akin.h"
#include "search/job.h"
#include "search/promise.h"
#include <stdbool.h>

enum { BOX_MAX_RACE = 6, BOX_WINDOW = 16 };

/* How long the last builds of a task took. Another build begins only if the second slowest of them fits in
 * the time that is left: one slow build among fast ones says nothing about the next, and a build that does
 * not end in time is cut off at the deadline. A task with fewer than two builds expects the median of all
 * tasks' builds. */
struct pace {
	int n; /* builds so far */
	int64_t ns[8];
};

struct box {
	const struct job *job;
	struct runner *runner;
	int64_t deadline_ns;  /* the job's, less the margin that it needs to end; box_deadline_ns: of runner
				 calls */
	bool missing;         /* it is the one for missing kernels */
	struct arena scratch; /* for code on its way to the sink; its user resets it */
	int trials;           /* candidates tried, in all tasks */
	int lies;             /* strangers' claims that failed (struct job_task) */
	int deaths_in_row;
	uint32_t generation;    /* of the worker: handles of an older one are lost */
	struct akin akin;       /* winners of the job's tasks so far */
	struct promise promise; /* what slices have gained so far */
	int64_t build_ns;       /* running mean of the build times of all tasks */
	struct pace pace;       /* builds of all tasks */
	struct job_spent spent; /* so far, without own_ns, which the job computes */
};

/* A built candidate. It is lost when the worker is replaced. */
struct built {
	int handle; /* -1: none */
	uint32_t generation;
};

int64_t box_deadline_ns(const struct box *b); /* less what the caller holds back */
int64_t box_left_ns(const struct box *b);
bool box_over(const struct box *b);
/* Also returns E_STOPPED when no build of this pace fits in the time left: box_over() tells the two apart. */
int box_build(struct box *b, struct pace *p, const char *task, const char *cand, struct built *out,
	      struct meas *m) MUST_CHECK;
/* Begins a build on another core, if a builder is free. Call it in the order in which the candidates will be
 * needed. */
void box_ahead(struct box *b, const char *task, const char *cand);
/* How many candidates are worth having in work at a time, with the one that is being measured: at most
 * BOX_WINDOW, and 1 without builders. */
int box_window(const struct box *b);
/* Which of n candidates to build next: one that a builder has finished, else one that no builder has begun,
 * else the first. */
int box_next(struct box *b, const char *const *task, const char *const *cand, int n);
bool box_alive(const struct box *b, const struct built *c);
/* Times n <= BOX_MAX_RACE built candidates, interleaved, under the conditions of a network: weights come from
 * memory, or from the cache if the job is warm. Timing under the other condition would hide how a candidate
 * deals with it. how: TIME_QUIET, TIME_PART. If one of them loses the worker, and it is known which, only
 * that one's status says so: the others were not measured (MEAS_OK with runs 0). */
int box_time(struct box *b, const struct built *c, int n, int rounds, int64_t abort_ns, unsigned how,
	     struct meas *m) MUST_CHECK;
int box_code(struct box *b, const struct built *c,
	     struct blob *out) MUST_CHECK; /* 1: there; 0: the worker died */
void box_drop(struct box *b, struct built *c);
void box_drop_all(struct box *b);

#endif
