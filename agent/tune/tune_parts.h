/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of a tuning job: tune_model.c opens, divides, searches and saves; tune_measure.c
 * measures the whole network before and after; tune_box.c ends the box in time; tune_rows.c makes the rows of
 * the report; tune_apart.c keeps strangers' candidates away from the worker
 * whose code is kept; tune_leash.c opens the cache and reports to honed; tune_recipe.c
 * quantises the model at level int8; tune_log.c keeps the logs of trials.
 * tune_graph.c (compares divisions) and tune_net.c (one network, ready to run) have headers of their own, as
 * tune_replay.c has, which tunes from recorded times instead. */
#ifndef AGENT_TUNE_PARTS_H
#define AGENT_TUNE_PARTS_H

#include "agent/cache/chosen.h"
#include "agent/cache/history.h"
#include "agent/cache/revert.h"
#include "agent/control/leash.h"
#include "agent/cache/trials.h"
#include "agent/tune/guard.h"
#include "agent/tune/tune_model.h"
#include "agent/tune/tune_net.h"
#include "platform/base/until.h"

#include <limits.h>
#include <pthread.h>

struct task_log {
	struct trials trials;
	int64_t spent_before_ns; /* by earlier boxes */
	bool changed;            /* since it was last put into the cache */
};

/* A candidate that a stranger proposed. */
struct foreign {
	const char *task, *cand;
};

/* When the parts of the box end, and what they are expected to take. */
struct box_times {
	int64_t end_ns;        /* end of the box */
	int64_t reading_ns;    /* when reading the model began */
	int64_t reserve_ns;    /* reserved at the end for measuring the whole network */
	int64_t race_ns;       /* part of that for the race against default kernels */
	int64_t round_ns;      /* estimated time of a round */
	int64_t run_ns;        /* estimated time of a round with the best kernels alone */
	int64_t least_ns;      /* with less time left, nothing is compared */
	int64_t alone_ns;      /* with less time left, nothing is measured */
	int64_t missing_by_ns; /* until then missing kernels may still be made */
	int64_t defaults_ns;   /* time that making all default kernels took */
	int64_t commit_ns;     /* held back besides the reserve, for a commit on slow flash, */
	int64_t commits_ns;    /* and for all that follow the search */
	int64_t processor_ns;  /* the last part of the reserve, for tune_processor_compare */
};

/* Measured costs from which tune_reserve plans the end of the box, after the first run of the network. */
struct box_costs {
	int64_t budget_ns, left_ns; /* the whole box, and what is left of it */
	int64_t build_ns, run_ns;   /* building a plan, and a run with tuned kernels */
	int64_t again_ns;           /* a run of the network before, if it is measured again; else 0 */
	int64_t closing_ns;         /* tune_closing_ns, for the memory that the process will have then */
};

/* The cache that keeps the results, and what waits to be put into it. */
struct box_store {
	char dir[PATH_MAX];
	struct leash *leash;
	struct cache_through through; /* writes the cache through the leash */
	struct cache *cache;
	int64_t commit_at_ns; /* when the next commit is due */
	int64_t commit_ns;    /* the longest of the last commits, less a quarter for each later one */
	int nlogs;
	struct task_log *log; /* per task */
	int64_t logged_ns;    /* when the logs were last put into the cache */
	struct history history;
};

/* The job that made the default kernels of the tasks that quantised operators could be. */
struct box_bytes {
	int n;
	struct job_task *job;
	struct job_result *result;
	bool refused; /* these tasks are not compared with portable code in this box */
};

/* The model, and how it is divided into tasks. */
struct box_model {
	struct graph *graph;
	struct chosen_for chosen;
	struct choices choices;
	struct steps *steps;
	bool redivided; /* the division is not the cache's any more */
	bool trial;     /* session.task holds the tasks of box_bytes, not those of `steps` */
	struct box_bytes bytes;
	bool warm; /* the whole network fits into a core's L2 cache */
};

/* The kernels of a plan, as the report prints them. They stay valid after the plan is closed. */
struct kept_kernels {
	int n;
	enum kernel_origin *origin;
	bool *at_default;
	enum kernel_why *why;
	const char **name, **label;
};

/* The network before tuning. */
struct box_start {
	struct net
	    net;    /* open until the end if it is measured again then; of a sole device closed meanwhile */
	bool again; /* it is measured again at the end */
	const struct steps *steps;
	bool alone;                /* it had too little work for its threads: kernels are timed on one */
	struct kept_kernels ran;   /* kernels of `net` */
	struct kept_kernels there; /* of the plan with the device; without a device: the same */
	/* No step of the plan with the device ran there, so `net` is the processor's own plan, as hone run
	 * would use it. costs: of the plan with the device: to build and to run it. */
	bool left;
	struct box_costs costs;
	int64_t ran_ns;    /* what its last run, kernels timed, took */
	struct bests best; /* in the cache at that time */
	int nbuilt_in;
	struct built_in *built_in; /* times of the tasks on fallback kernels */
};

/* The guard and the report that it prints if the job does not end in time. */
struct box_late {
	struct guard *guard;
	pthread_mutex_t mutex;     /* guards the report, and the rows it points to */
	bool read;                 /* the model; before that there is nothing to report */
	struct tune_report report; /* as it was last published */
};

/* The rows of the report for which the search has times of tasks. */
struct box_rows {
	int n;
	struct tune_kernel *row;
	int *task; /* index of the task; -1: none */
};

struct session {
	const struct tune_options *o;
	struct arena *a; /* the caller's: what the report points to */
	struct tune_report *report;
	struct clock *clock;
	struct target target;
	struct plan_device *device; /* open now (tune_device_open); NULL: the processor, or a worker's turn */
	bool sole;                  /* the device is open here or in the worker, never in both */
	int64_t device_ns;          /* the longest that opening it has taken; 0: the processor */
	struct share share;         /* this board's share of the fleet's search */
	struct pool *pool;
	struct runner *runner;
	struct until until;        /* the limit of the job's thread */
	_Atomic int64_t all_bytes; /* of the model's files */
	struct box_times times;
	struct box_late late;
	struct box_rows rows;
	struct box_store store;
	struct box_model model;
	struct box_start start;
	int turns; /* number of jobs whose tasks were made */
	int ntasks;
	struct step_task *task;
	struct job_task *job;
	struct job_result *result; /* of the last job */
	int nforeign, foreign_cap;
	struct foreign *foreign; /* candidates that strangers proposed for this box's tasks */
};

/* From now on results are in memory only; err_text() says why. */
void tune_warn(struct session *s);

static inline bool tune_stopped(const struct session *s)
{
	return s->o->stop && *s->o->stop;
}

/* Reads the tasks' logs from the cache and gives the job the known trials; call it after make_tasks, and when
 * the runner is open. */
int tune_log_open(struct session *s) MUST_CHECK;
void tune_log_close(struct session *s);
/* Callback of struct job: adds a trial. */
void tune_log_add(void *session, int task, const struct tried *t);
/* From now on the runner runs strangers' candidates in workers of their own (agent/worker/runner_apart.h). */
int tune_apart(struct session *s) MUST_CHECK;
/* Collects strangers' candidates of the job's tasks before it runs. They stay foreign until the box is over,
 * whatever the results. */
void tune_apart_tasks(struct session *s);
/* True: a stranger proposed this candidate of a task to this box. */
bool tune_is_foreign(const struct session *s, const char *task, const char *cand);

/* Puts the logs that changed into the cache. */
int tune_log_put(struct session *s) MUST_CHECK;

/* tune_library.c: finds the libraries that compete. One that is named and cannot be opened is an error. */
int tune_libraries_open(struct session *s) MUST_CHECK;
/* Offers their candidates to task i of the job. */
int tune_libraries_offer(struct session *s, int i) MUST_CHECK;
/* For the cache's best record of task i. If it is a library's candidate that is offered, it stays, and the
 * job gets hone's own best beside it. If it is one that is not offered, *r becomes the record of hone's own
 * best kernel. E_NOTFOUND: there is none. */
int tune_libraries_own(struct session *s, int i, struct arena *a, struct rec *r) MUST_CHECK;
/* How much of the box trying them may still take. */
int64_t tune_libraries_ns(const struct session *s);

/* Opens the leash; it changes no file. */
int tune_leash_open(struct session *s) MUST_CHECK;
/* Opens the cache, through honed if honed holds it. */
int tune_cache_open(struct session *s) MUST_CHECK;

/* tune_recipe.c: at level int8, keeps the recipe that is given, and quantises the model, which is as it was
 * imported, by that of the cache. Tells honed which recipe the model needs: honed tries again when the cache
 * gets it. */
int tune_quantise(struct session *s) MUST_CHECK;

/* tune_machine.c. Names the machine and the cache in the report: a box that is stopped at once reports them,
 * too. */
int tune_machine_name(struct session *s) MUST_CHECK;
/* Opens the cache, and learns the peaks, while no other job measures. */
int tune_machine_open(struct session *s) MUST_CHECK;
/* Opens the box's device in this process, if it has one that is not open: before a network runs there, while
 * no worker has it. */
int tune_device_open(struct session *s) MUST_CHECK;
/* Closes a sole device, whose plans are closed: before a worker starts. */
void tune_device_leave(struct session *s);
void tune_say_progress(struct session *s, const struct job_progress *p);
/* Sends the result of the box to honed. */
void tune_say_done(struct session *s, const char *why); /* why nothing was tried; NULL: something was */
/* The same from the guard's thread: what the report knows of it. */
void tune_say_late(struct session *s, const struct tune_report *r);
/* rc: of reading or dividing the model. Tells the honed that started this process if the failure would come
 * again with the same file and options. Returns rc. */
int tune_tell_lasting(struct session *s, int rc) MUST_CHECK;

/* The box begins: from now on the job's thread has a limit, and the guard watches. */
int tune_box_open(struct session *s) MUST_CHECK;
void tune_box_close(struct session *s);
/* Sets the limit anew, as the process may have grown. */
void tune_limit(struct session *s);
int64_t tune_commit_ns(const struct session *s); /* expected time of the last commit */
/* The part of the box in which the job only ends, if its memory grows by so much. */
int64_t tune_closing_ns(const struct session *s, size_t more_bytes);
int64_t tune_left_ns(const struct session *s); /* until that part begins */
int64_t tune_search_end_ns(const struct session *s);
int64_t tune_runs_end_ns(const struct session *s); /* when a run of a network is cut off */
/* Gives the report to the guard as it is, with the trials so far. */
void tune_publish(struct session *s, int trials);
/* The same for what was put into the cache since the last progress. */
void tune_publish_kept(struct session *s);
/* The error of a box that ended before the model was read. */
int tune_too_short(const struct session *s) MUST_CHECK;

/* Makes rows for the present division; their times after are those of the search (tune_rows_update). */
void tune_rows_make(struct session *s);
void tune_rows_update(struct session *s); /* the report has them then */
/* At the end of the search: their times are those of the records. */
void tune_rows_end(struct session *s);
/* Makes the rows of a network that was measured at the end; kernels that were not timed keep the times of the
 * search. */
/* reverted: `after` is the network of default kernels, which are the best ones now. */
void tune_rows_after(struct session *s, const struct net *after, bool reverted);

/* Divides what is left of the box: sets all but end_ns, reading_ns and defaults_ns. */
void tune_reserve(struct box_times *t, const struct box_costs *c);
/* Measures the network as it is within a small part of the box; reserves the end of the box for
 * tune_measure_after. */
int tune_measure_before(struct session *s) MUST_CHECK;
/* Lets tasks whose kernels lose inside the network use default ones again; then measures the network before,
 * with default schedules, and with the best kernels, interleaved. Measures less, or nothing, if there is no
 * time left, and nothing after a signal. */
int tune_measure_after(struct session *s) MUST_CHECK;
/* tune_processor.c: after a box for a device, runs the network without the device in turns with `after`, for
 * at most times.processor_ns, and fills in report.processor; if it cannot, by what the cache knows. */
void tune_processor_compare(struct session *s, struct net *after);
/* Opens the network as a command without the device would: with the processor's kernels of the cache, else
 * the built-in ones, on the threads of the pool. *steps: in the box's arena. */
int tune_processor_open(struct session *s, const struct target *host, struct steps **steps,
			struct net *out) MUST_CHECK;

#endif
