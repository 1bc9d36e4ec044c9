/* SPDX-License-Identifier: Apache-2.0 */
/* The box: the runner with a deadline. Every call to the runner goes through here.
 *
 * Calls return E_OK (look at meas.status), E_STOPPED (time is up, or the caller asked to stop) or the error
 * of a broken machine. A dead worker is survived: its handles are gone, and what is needed again is built
 * again; ten deaths in a row are an error. */
#ifndef SEARCH_BOX_H
#define SEARCH_BOX_H

#include "search/akin.h"
#include "search/job.h"
#include "search/promise.h"
#include <stdbool.h>

enum { BOX_MAX_RACE = 6, BOX_WINDOW = 16 };

/* What the last builds of a task took. The second slowest of them has to fit in what is left, for another to
 * be begun: one slow build among fast ones says nothing of the next, and one that does not end in time is cut
 * short at the deadline. A task that has had less than two has to expect the middle one of all tasks' builds.
 */
struct pace {
	int n; /* builds so far */
	int64_t ns[8];
};

struct box {
	const struct job *job;
	struct runner *runner;
	int64_t deadline_ns;  /* of runner calls: the job's, less what it takes to end */
	struct arena scratch; /* for code on its way to the sink; reset by who used it */
	int trials;           /* candidates tried, in all tasks */
	int lies;             /* what strangers said, and was not so (struct job_task) */
	int deaths_in_row;
	uint32_t generation;    /* of the worker: handles of an older one are gone */
	struct akin akin;       /* what won until now */
	struct promise promise; /* what slices brought until now */
	int64_t build_ns;       /* what a build takes: the mean of all tasks' lately */
	struct pace pace;       /* of all tasks */
	struct job_spent spent; /* so far, but for what is the job's own */
};

/* A built candidate; worth nothing once the worker has been replaced. */
struct built {
	int handle; /* -1: none */
	uint32_t generation;
};

int64_t box_left_ns(const struct box *b);
bool box_over(const struct box *b);
/* E_STOPPED also where no build of this pace fits any more: box_over() tells the two apart. */
int box_build(struct box *b, struct pace *p, const char *task, const char *cand, struct built *out,
	      struct meas *m) MUST_CHECK;
/* Begins it on another core, if one is free for that: asked for in the order in which it will be wanted. */
void box_ahead(struct box *b, const char *task, const char *cand);
/* How many candidates are worth having begun at a time, the one that is measured with them: at most
 * BOX_WINDOW, 1 without builders. */
int box_window(const struct box *b);
/* Which of n to build next: one that was built ahead, else one that nobody has begun, else the first. */
int box_next(struct box *b, const char *const *task, const char *const *cand, int n);
bool box_alive(const struct box *b, const struct built *c);
/* n <= BOX_MAX_RACE candidates, all alive, interleaved, with what a network gives them: weights in memory, or
 * in the cache if the job is warm. Times of the other kind would hide what a candidate does about that.
 * how: TIME_QUIET, TIME_PART. */
int box_time(struct box *b, const struct built *c, int n, int rounds, int64_t abort_ns, unsigned how,
	     struct meas *m) MUST_CHECK;
int box_code(struct box *b, const struct built *c,
	     struct blob *out) MUST_CHECK; /* 1: there; 0: the worker died */
void box_drop(struct box *b, struct built *c);
void box_drop_all(struct box *b);

#endif
