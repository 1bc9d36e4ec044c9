/* SPDX-License-Identifier: Apache-2.0 */
/* A tuning job: tasks, a hard box, a runner, seeds in; records out as soon as they are certain.
 *
 * Candidate 0 of every task is the default schedule, measured first, so the result is never worse than not
 * tuning. Winners are raced interleaved against the incumbent, and replace it only on a gain above the race's
 * own noise (at least 1 %). The next slice goes to the task that promises most (search/promise.h), first
 * slices before all others. The sink is told of every accepted incumbent (first the default, checked), so a
 * stop at any instant loses nothing. The box is a deadline on the runner's clock: job_run returns before it.
 * Tasks without a kernel come first, the dearest of them before all, with one build each: the incumbent's
 * where the cache lost its code alone (an upgrade, an import), else the default's. They alone may take
 * longer, as a network that lacks one loses more than any search gains. */
#ifndef SEARCH_JOB_H
#define SEARCH_JOB_H

#include "platform/base/hash.h"
#include "platform/base/meas.h"
#include "platform/run/runner.h"
#include "search/share.h"
#include "search/tried.h"
#include <signal.h>

/* A candidate that is known from elsewhere. What it says is not trusted. */
struct job_seed {
	const char *cand;
	const char *task; /* text of the one it was found for; NULL: the one that it is given to */
	int lanes;        /* of the board it was found on; 0: this one */
	bool foreign;     /* a stranger's, that nothing here has tried: for the runner, not for the job */
};

struct job_task {
	const char *text;  /* canonical task text */
	const char *label; /* for people */
	int uses;
	int nseeds; /* tried right after the default, best first */
	const struct job_seed *seed;
	/* What the cache's record says runs best, NULL: nothing. Its time is not believed: it is measured
	 * beside the default, which takes its place if it is faster, or if the incumbent does not work any
	 * more. */
	const char *incumbent;
	bool codeless; /* no code of the incumbent can be run: it is made before any other task's default */
	/* > 0: a stranger said that the incumbent takes so long. It gets one try, which is over where its
	 * first run takes ten times that and the default's draft, or thrice the default. After JOB_LIES that
	 * fail in a box defaults come before what strangers said. */
	int64_t claim_ns;
	/* Of earlier boxes, and of earlier jobs of this one: told to strategy and model, not measured again.
	 * Times count in proportion to the default's. */
	int ntried;
	const struct tried *tried;
	const struct job_result *earlier; /* of an earlier job in the same box: its default and its best are
					     not made and measured again; NULL: none */
};

enum { JOB_LIES = 3 };

struct job_result {         /* one per task, also while running */
	int64_t before_ns;  /* the incumbent at the start (0: none) */
	int64_t default_ns; /* candidate 0 (0: not measured) */
	int64_t best_ns;
	double roofline_ns;
	int trials, failed;
	int64_t spent_ns;   /* of the box, on this task */
	double promise;     /* what another slice would be thought to save, network's ns per ns; 0: done */
	char best[512];     /* candidate text; "" = nothing yet */
	char standard[512]; /* candidate 0; "": the task cannot be tuned */
};

struct job_progress {
	int task, ntasks, trials;
	int measured;             /* tasks that have a time by now */
	double before_ms, now_ms; /* whole model so far: sum of uses x time over measured tasks */
	int64_t left_ns;
	const char *label;
};

struct job_spent {          /* where the time of a job went */
	int64_t build_ns;   /* compiling and loading, in the worker that measures */
	int64_t wait_ns;    /* for a build ahead that was not done yet */
	int64_t check_ns;   /* that answers are right, with making the task's inputs */
	int64_t time_ns;    /* timing candidates, */
	int64_t race_ns;    /* and racing the best of them */
	int64_t own_ns;     /* all else: search, saving results */
	int64_t ahead_ns;   /* of builders, beside all that */
	size_t state_bytes; /* memory of the search */
};

struct job {
	int ntasks;
	const struct job_task *task;
	const char *strategy, *cost; /* by name; NULL: the ones that serve best */
	struct blob prior;           /* what the cost model begins with; empty: nothing */
	struct share share;          /* of a fleet's search, with this board; {0}: not divided */
	bool exact;                  /* only schedules that do the operator's own multiplications */
	bool warm; /* a core's cache keeps all of the network between its runs: weights are timed there, not
		      in memory */
	uint64_t seed;
	int64_t deadline_ns;         /* on the runner's clock */
	int64_t missing_by_ns;       /* tasks without a kernel may get their first so much later; 0: not */
	bool defaults_only;          /* candidate 0 of every task and its incumbent, no search */
	bool quick;                  /* the search ends when gains dry up, if the box does not, */
	double least;                /* or when no task promises more than that; 0: not */
	volatile sig_atomic_t *stop; /* set by a signal handler: finish at once; may be NULL */
	void *ctx;
	/* A new certain result: the best candidate so far, or (best false) candidate 0, with its measurement
	 * and the bytes of its code. Must keep copies. < 0 stops the job with that error. */
	int (*sink)(void *ctx, int task, bool best, const char *cand, const struct meas *m, struct blob code);
	void (*progress)(void *ctx, const struct job_progress *p); /* often; may be NULL */
	/* After every trial, and once more for one that lost a race. May be NULL. */
	void (*tried)(void *ctx, int task, const struct tried *t);
	struct job_spent *spent; /* told at the end; may be NULL */
};

/* result: ntasks entries. Returns the number of trials, or < 0 for a broken machine. */
int job_run(const struct job *j, struct runner *r, struct job_result *result) MUST_CHECK;

#endif
