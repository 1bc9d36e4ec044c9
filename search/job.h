/* SPDX-License-Identifier: Apache-2.0 */
/* A tuning job takes tasks, a hard box, a runner and known candidates (seeds); it hands over records as soon
 * as they are certain.
 *
 * Candidate 0 of every task, the default (space_default), is measured first, so the result is never worse
 * than not tuning. Challengers are raced interleaved against the incumbent, and replace it only on a gain
 * above the race's own noise (at least 1 %). The next slice goes to the task that promises most
 * (search/promise.h), first slices before all others, and those of tasks that no earlier box searched before
 * these. The sink gets every accepted incumbent (first the
 * default, checked), so a stop at any instant loses nothing. The box is a deadline on the runner's clock:
 * job_run returns before it. Tasks without a kernel come first, those before all whose kernel saves most,
 * with one build each: the incumbent's if the cache lost only its code (an upgrade, an import), else the
 * default's. Only they may take longer, because a network that lacks a kernel loses more than any search
 * gains. */
#ifndef SEARCH_JOB_H
#define SEARCH_JOB_H

#include "kernels/task/level.h"
#include "platform/base/hash.h"
#include "platform/base/meas.h"
#include "platform/run/runner.h"
#include "search/share.h"
#include "search/tried.h"
#include <signal.h>

/* A candidate that is known from elsewhere. Its claims are not trusted. */
struct job_seed {
	const char *cand;
	const char *task; /* text of the task that it was found for; NULL: the task that it is given to */
	int lanes;        /* of the board that it was found on; 0: this one */
	bool foreign;     /* a stranger's, not yet tried on this board; used by the runner, not by the job */
};

struct job_task {
	const char *text;  /* canonical task text */
	const char *label; /* for people */
	int uses;
	int64_t now_ns; /* what runs the task in the network as long as it has no kernel takes so long; 0: not
			   known */
	int nseeds;     /* tried right after the default, best first */
	const struct job_seed *seed;
	/* The best candidate by the cache's record; NULL: none. Its recorded time is not trusted: it is
	 * measured interleaved with the default, which replaces it if it wins that race (search/race.h), or
	 * if the incumbent no longer works. */
	const char *incumbent;
	/* Candidates from outside of the space, as those of libraries. Each is tried once the task's first
	 * slice has shown what there is to beat, raced like others, and never varied. */
	int noffers;
	const char *const *offer;
	/* The best candidate of the space by the cache's record, if the incumbent is an offer; NULL: none. */
	const char *own;
	bool f32;      /* f16 does not hold its weights, whatever the level */
	bool codeless; /* no code of the incumbent can run: it is made before any other task's default */
	/* > 0: the incumbent is a stranger's, and this is the time that he claims. It gets one try. The try
	 * is aborted if its first run takes more than ten times the larger of the claim and the default's
	 * draft, or more than three times the default's time if that is known. It replaces the default only
	 * if it wins their race. After JOB_LIES such failures in a box, defaults go before strangers'
	 * candidates. */
	int64_t claim_ns;
	/* Candidates that earlier boxes, or earlier jobs of this box, have tried. The strategy
	 * learns from them, and they are not measured again. Their times are scaled by the default's. */
	int ntried;
	const struct tried *tried;
	const struct job_result *earlier; /* of an earlier job in the same box: its default and its best are
					     not built and measured again; NULL: none */
};

enum { JOB_LIES = 3 };

/* Whether the trials of earlier boxes and jobs are of more than the default and the incumbent. */
bool job_had_turn(const struct job_task *t);

/* Why the search of a task ended before the box did. */
enum search_end {
	SEARCH_OPEN,      /* it did not */
	SEARCH_ROOFLINE,  /* its best kernel came within 3 % of its roofline */
	SEARCH_EXHAUSTED, /* all its candidates were tried, or the strategy proposes no others */
	SEARCH_FAILED,    /* it has no candidates, or none of them works */
	SEARCH_LATE,      /* its builds take longer than what was left of the box */
	SEARCH_DRY,       /* limits.quick: it no longer gained anything */
	SEARCH_ENDS
};

struct job_result {         /* one per task, also while running */
	int64_t before_ns;  /* the incumbent at the start (0: none) */
	int64_t default_ns; /* the default (0: not measured) */
	int64_t best_ns;
	double roofline_ns;
	int trials, failed;
	bool turn;  /* more than its default and its incumbent was tried, by this job or by an earlier one */
	bool met;   /* a schedule of it was tried, by this job or by `earlier` */
	bool works; /* a tried schedule gave right answers */
	int64_t spent_ns;    /* of the box, on this task */
	double promise;      /* predicted saving of another slice: ns of the network's time per ns spent; 0:
				nothing */
	enum search_end end; /* set at the end of the job */
	char best[512];      /* candidate text; "" = nothing yet */
	char standard[512];  /* the default; "": the task cannot be tuned */
};

struct job_progress {
	int task, ntasks, trials;
	int measured;             /* tasks that have a time by now */
	double before_ms, now_ms; /* whole model so far: sum of uses x time over measured tasks */
	int64_t left_ns;
	const char *label;
};

struct job_spent {          /* how the time of a job was spent */
	int64_t build_ns;   /* compiling and loading, in the worker that measures */
	int64_t wait_ns;    /* waiting for a builder that had not finished */
	int64_t check_ns;   /* checking answers, and making the task's inputs for that */
	int64_t time_ns;    /* timing candidates */
	int64_t race_ns;    /* racing the best candidates */
	int64_t own_ns;     /* everything else: search, saving results */
	int64_t offer_ns;   /* trying offers: a part of the above */
	int64_t ahead_ns;   /* work of builders, in parallel to the above */
	size_t state_bytes; /* memory of the search */
};

/* How a job searches. */
struct job_search {
	const char *strategy, *cost; /* by name; NULL: the default ones */
	struct share share;          /* this board's part of a fleet's search; {0}: not divided */
	enum level level;
	bool warm; /* the cache of a core keeps the whole network between its runs: weights are timed in
		      cache */
	uint64_t seed;
};

/* When a job ends. */
struct job_limits {
	int64_t deadline_ns;            /* on the runner's clock */
	int64_t missing_by_ns;          /* tasks without a kernel may get their first until then; 0: no extra
					   time */
	const int64_t *held_ns;         /* time before deadline_ns that the caller holds back; its sink may
					   change it while the job runs; may be NULL */
	const int64_t *missing_held_ns; /* the same before missing_by_ns */
	int64_t offer_ns;               /* what trying offers may take */
	bool defaults_only;             /* only the default and the incumbent of every task, no search */
	bool quick;                     /* end the search when gains dry up, even before the box is over */
	double least;                   /* end it when no task promises more than this; 0: no limit */
	volatile sig_atomic_t *stop;    /* set by a signal handler: finish at once; may be NULL */
};

/* Functions of the caller, which a job calls with ctx. */
struct job_calls {
	void *ctx;
	/* Takes a new certain result: the best candidate so far, or (best false) the default, with its
	 * measurement and the bytes of its code. It must copy what it keeps. < 0 stops the job with that
	 * error. */
	int (*sink)(void *ctx, int task, bool best, const char *cand, const struct meas *m, struct blob code);
	/* Takes the best candidate of the space, while the best of all is an offer. May be NULL. */
	int (*sink_own)(void *ctx, int task, const char *cand, const struct meas *m, struct blob code);
	void (*progress)(void *ctx, const struct job_progress *p); /* called often; may be NULL */
	/* Called after every trial, and once more for a trial that lost a race. May be NULL. */
	void (*tried)(void *ctx, int task, const struct tried *t);
};

struct job {
	int ntasks;
	const struct job_task *task;
	struct job_search search;
	struct job_limits limits;
	struct job_calls calls;
	struct job_spent *spent; /* filled in at the end; may be NULL */
};

/* result: ntasks entries. Returns the number of trials, or < 0 for a broken machine. */
int job_run(const struct job *j, struct runner *r, struct job_result *result) MUST_CHECK;
/* Counts why the searches of n tasks ended. */
void search_count_ends(const struct job_result *result, int n, int count[SEARCH_ENDS]);

#endif
