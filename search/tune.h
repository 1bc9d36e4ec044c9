/* SPDX-License-Identifier: Apache-2.0 */
/* Tuning one task, in slices, inside the box that all tasks share.
 * Calls return the codes of search/box.h; after E_STOPPED, all results so far are in the sink. A candidate
 * that fails is counted, and the strategy is told. E_STOPPED while the box is not over means that this task's
 * builds no longer fit in it. */
#ifndef SEARCH_TUNE_H
#define SEARCH_TUNE_H

#include "search/race.h"
#include "search/strategy.h"

struct trial {
	const char *cand;
	struct key key; /* of the text */
	int64_t ns;     /* fastest run; INT64_MAX: failed */
	struct built code;
	bool own_lost;      /* it lost a race of candidates of the space (search/tune_offer.c) */
	struct tried tried; /* what the job's caller is told */
};

struct tune {
	struct box *box;
	const struct job_task *task;
	struct job_result *result;
	int index; /* of the task in the job */
	struct arena arena;
	struct space *space;
	const char *standard; /* the default, in the result */
	struct guide guide;
	const struct strategy *strategy;
	void *state;
	struct rng rng;
	struct trial *trial;
	int ntrials, cap;
	int best;               /* index of the incumbent's trial; -1: none yet, or it failed */
	bool fallen;            /* it failed, and has no successor yet */
	int kept;               /* the last incumbent that the sink took; -1: none */
	int64_t kept_ns;        /* its time */
	int before_offer;       /* the incumbent of the space that an offer replaced last; -1: none */
	int own;                /* the best of the space that the sink took, if the incumbent is an offer;
				   -1: none */
	int known;              /* trial of the caller's incumbent, if it was built first; -1: it was not */
	struct meas known_meas; /* result of that trial, */
	int64_t known_ns;       /* and how long it took */
	float f[FEATURES];      /* the incumbent's */
	int64_t default_ns;     /* fastest run of the default; 0: none */
	enum tried_by by;       /* where the candidate that is tried next comes from */
	int seeds, rules;       /* known candidates and portfolio rules already proposed */
	struct heard heard;     /* winners of its kind that it was given */
	double luck;            /* random factor on the first slice's promise in a divided search; else 1 */
	bool met;               /* its default was tried */
	int slices;
	int64_t slice_ns; /* of the last slice */
	struct pace pace; /* of its builds */
	double saved;     /* by the last slice, as a share of the task's time */
	int fruitless;    /* slices in a row with next to no gain */
	bool dense;       /* limited by arithmetic, not by memory */
	bool late;        /* its builds no longer fit in the box */
	/* why its search goes on no more: SEARCH_ROOFLINE, _EXHAUSTED or _FAILED; else SEARCH_OPEN */
	enum search_end end;
};

/* Reads the task and makes its space, in which the guide asks the job's model. A task for which no space can
 * be made ends at once (SEARCH_FAILED), and the log says why. */
int tune_open(struct tune *t, struct box *b, const struct cost *cost, int index,
	      struct job_result *result) MUST_CHECK;
/* Ends the search. The result's best is the incumbent that the sink took last, for a box can end between a
 * measurement and its handover. */
void tune_close(struct tune *t);
/* Whether the task lacks a kernel that tune_known can make from the incumbent. */
bool tune_is_known(const struct tune *t);
/* Begins the builds that tune_known or tune_default will need first on other cores, and returns the first of
 * them. The task must be open. */
const char *tune_ahead(struct tune *t);
/* Builds, checks and times the caller's incumbent alone and hands it to the sink. tune_default compares
 * it. */
int tune_known(struct tune *t) MUST_CHECK;
/* Whether tune_default goes on from what an earlier job of this box found, so that it builds nothing. */
bool tune_resumes(const struct tune *t);
/* Builds, checks and times the default, and the caller's incumbent if there is one, and hands the faster of
 * them to the sink. */
int tune_default(struct tune *t) MUST_CHECK;
/* Whether boards divide the search, and the best that is known of this task was not tried or raced yet.
 * tune_told does only that; it does not count as a slice. */
bool tune_is_told(const struct tune *t);
int tune_told(struct tune *t) MUST_CHECK;
/* Tries some more candidates, and races the best of them against the incumbent. */
int tune_slice(struct tune *t) MUST_CHECK;
/* What another slice promises (search/promise.h): ns saved per ns spent; 0: nothing. */
double tune_promise(const struct tune *t);
void tune_progress(const struct tune *t); /* reports to the job's caller */

#endif
