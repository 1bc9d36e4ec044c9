/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a tuning share: tune_model.c opens, divides, searches and keeps; tune_measure.c measures
 * the whole network before and after; tune_apart.c keeps strangers' candidates away from the worker whose
 * code is kept. */
#ifndef AGENT_TUNE_PARTS_H
#define AGENT_TUNE_PARTS_H

#include "agent/cache/chosen.h"
#include "agent/cache/history.h"
#include "agent/control/leash.h"
#include "agent/cache/trials.h"
#include "agent/tune/tune_model.h"
#include "agent/tune/tune_net.h"

#include <limits.h>

struct task_log {
	struct trials trials;
	int64_t spent_before_ns; /* by earlier boxes */
	bool changed;            /* since the cache was given it */
};

/* A stranger's candidate. */
struct foreign {
	const char *task, *cand;
};

struct session {
	const struct tune_options *o;
	struct arena *a; /* the caller's: what the report points to */
	struct tune_report *report;
	struct clock *clock;
	int64_t end_ns;        /* of the box */
	int64_t reserve_ns;    /* of its end, for measuring the whole network; */
	int64_t race_ns;       /* of that, for what loses inside it */
	int64_t round_ns;      /* what one round of that is thought to take, */
	int64_t run_ns;        /* and one of the best kernels alone */
	int64_t ran_ns;        /* what the last run of `before`, kernels timed, took */
	int64_t least_ns;      /* less than that is too little to compare with anything; */
	int64_t alone_ns;      /* less than that, to begin with it */
	int64_t missing_by_ns; /* kernels that are missing altogether are made until then */
	int64_t defaults_ns;   /* what it took to give every task one */
	char dir[PATH_MAX];
	struct leash *leash;
	struct cache_through through; /* of it */
	struct cache *cache;
	struct target target;
	struct share share; /* of the fleet's search, with this board */
	struct pool *pool;
	struct graph *graph;
	struct chosen_for chosen;
	struct choices choices;
	struct steps *steps;
	int ntasks;
	struct step_task *task;
	struct job_task *job;
	struct job_result *result; /* of the last job */
	int nlogs;
	struct task_log *log; /* per task */
	int64_t logged_ns;    /* when the cache was given logs */
	int nbuilt_in;
	struct built_in *built_in;         /* what tasks took before anything was tuned */
	struct net before;                 /* open to the end where it is measured again then */
	enum kernel_origin *before_origin; /* per kernel of it */
	const char **before_name, **before_label;
	struct runner *runner;
	int nforeign, foreign_cap;
	struct foreign *foreign; /* what strangers said of this box's tasks */
	int64_t commit_at_ns;    /* the next */
	struct history history;
	int turns;      /* jobs whose tasks were made */
	bool redivided; /* not the division that the cache gave */
	bool warm;      /* all of the network fits into a core's own cache */
};

/* Results are in memory only from now on: the text of the last error says why. */
void tune_warn(struct session *s);

static inline bool tune_stopped(const struct session *s)
{
	return s->o->stop && *s->o->stop;
}

/* The tasks' logs out of the cache, and from them what the job knows already; after make_tasks, and with the
 * runner. */
int tune_log_open(struct session *s) MUST_CHECK;
void tune_log_close(struct session *s);
/* For struct job: a trial. */
void tune_log_add(void *session, int task, const struct tried *t);
/* The runner runs strangers' candidates in workers of their own from now on (agent/worker/runner_apart.h). */
int tune_apart(struct session *s) MUST_CHECK;
/* Those of the job's tasks, before it runs. They stay foreign until the box is over, whatever comes of them.
 */
void tune_apart_tasks(struct session *s);

/* What changed goes to the cache. */
int tune_log_put(struct session *s) MUST_CHECK;

/* The leash, then the cache: through it where a honed keeps it. */
int tune_cache_open(struct session *s) MUST_CHECK;
void tune_say_progress(struct session *s, const struct job_progress *p);
/* What came of the box, to honed. */
void tune_say_done(struct session *s);

/* The network as it is, within a small part of the box; reserves its end for tune_measure_after. */
int tune_measure_before(struct session *s) MUST_CHECK;
/* What loses to default kernels inside the network goes back to them; then what was before, default schedules
 * and the best, interleaved. Less, or nothing, is measured where there was no time left for it, and nothing
 * after a signal. */
int tune_measure_after(struct session *s) MUST_CHECK;

#endif
