/* SPDX-License-Identifier: Apache-2.0 */
/* Tuning one task, in slices, inside the box that all tasks share.
 * Calls return what search/box.h's do; after E_STOPPED, what was found is in the sink. A candidate that fails
 * is counted and told to the strategy. E_STOPPED while the box is not over: this task's builds no longer fit
 * in it. */
#ifndef SEARCH_TUNE_H
#define SEARCH_TUNE_H

#include "search/learn.h"
#include "search/race.h"
#include "search/strategy.h"

struct trial {
	const char *cand;
	struct key key; /* of the text */
	int64_t ns;     /* fastest run; INT64_MAX: failed */
	struct built code;
	struct tried tried; /* what the job's caller is told */
};

struct tune {
	struct box *box;
	const struct job_task *task;
	struct job_result *result;
	int index; /* of the task in the job */
	struct arena arena;
	struct space *space;
	const char *standard; /* candidate 0, in the result */
	struct learn *learn;  /* the job's */
	struct guide guide;
	const struct strategy *strategy;
	void *state;
	struct rng rng;
	struct trial *trial;
	int ntrials, cap;
	int best;               /* trial that is the incumbent; -1: none yet */
	int known;              /* trial of the caller's, built before all else; -1: not */
	struct meas known_meas; /* what became of that, */
	int64_t known_ns;       /* and how long it took */
	float f[FEATURES];      /* the incumbent's */
	int64_t default_ns;     /* fastest run of candidate 0; 0: none */
	enum tried_by by;       /* where the candidate that is tried next comes from */
	int seeds, rules;       /* known candidates and portfolio rules already proposed */
	struct heard heard;     /* of what won in tasks of its kind */
	double luck;            /* of a divided search, with its first slice; else 1 */
	bool met;               /* its default, as far as that was possible */
	int slices;
	int64_t slice_ns; /* of the last slice */
	struct pace pace; /* of its builds */
	double saved;     /* by the last slice, as a share of the task's time */
	int fruitless;    /* slices in a row that brought next to nothing */
	bool dense;       /* limited by arithmetic, not by memory */
	bool late;        /* what it would build does not fit in the box any more */
	bool done;        /* at its roofline, nothing left to propose, or cannot be tuned */
};

/* Reads the task and makes its space, in which the guide asks the job's model. A task that no space can be
 * made of is done at once, and says why in the log. */
int tune_open(struct tune *t, struct box *b, struct learn *learn, int index,
	      struct job_result *result) MUST_CHECK;
void tune_close(struct tune *t);
/* A kernel of it is missing, and tune_known makes one. */
bool tune_is_known(const struct tune *t);
/* Begins on other cores what tune_known or tune_default will build first, and returns that. The task is not
 * done. */
const char *tune_ahead(struct tune *t);
/* The caller's incumbent, built, checked and timed alone, in the sink. tune_default judges it. */
int tune_known(struct tune *t) MUST_CHECK;
/* Candidate 0, and the caller's incumbent if it has one: built, checked, timed, the faster of them in the
 * sink. */
int tune_default(struct tune *t) MUST_CHECK;
/* Boards divide the search, and the best that is known of this task was not tried yet, or not raced:
 * tune_told does that alone, which is no slice. */
bool tune_is_told(const struct tune *t);
int tune_told(struct tune *t) MUST_CHECK;
/* Some more candidates, and a race of the best of them against the incumbent. */
int tune_slice(struct tune *t) MUST_CHECK;
/* What another slice promises (search/promise.h): ns saved per ns spent. 0: done. */
double tune_promise(const struct tune *t);
void tune_progress(const struct tune *t); /* tells the job's caller */

#endif
