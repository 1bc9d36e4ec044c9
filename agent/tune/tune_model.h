/* SPDX-License-Identifier: Apache-2.0 */
/* `hone tune` without its words: a model in, tuned kernels in the cache, before and after measured on the
 * whole network, all within a box that is counted from the start of the process. Where the cache gave kernels
 * at the start, before is measured again at the end, in turns with after.
 *
 * model -> graph -> steps -> tasks -> job -> cache -> plan. What the job finds is in the cache at once; if
 * the cache's folder cannot be written, tuning goes on in memory, and `warning` and the log say so. The
 * worker does the building and timing. */
#ifndef AGENT_TUNE_MODEL_H
#define AGENT_TUNE_MODEL_H

#include "agent/run/plan.h"
#include "kernels/onnx/import.h"
#include "search/job.h"

/* How much is done for a network. */
enum rigor {
	RIGOR_PATIENT,  /* all of the box, unless every task is at its roofline or exhausted */
	RIGOR_QUICK,    /* ends by itself when gains dry up */
	RIGOR_ESTIMATE, /* default schedules for what the cache has not, what is stale there
			   (agent/cache/stale.h) made and timed again; no search */
	RIGOR_CACHED,   /* nothing is built or measured: not for tune_model */
};

struct tune_options {
	const char *model; /* path of an ONNX file */
	int nbinds;
	const struct import_bind *binds;
	int64_t budget_ns;    /* the box, from the start of the process */
	int threads;          /* >= 1 */
	const int *cpus;      /* one per thread, or NULL: not pinned */
	int builders;         /* cores that build while others measure; -1: what is left, 0 to 2 */
	const char *cache;    /* folder; NULL: the user's (file_cache_dir) */
	int64_t cache_bytes;  /* what it may take; 0: as agent/cache/cache.h says */
	const char *record;   /* folder of landscapes that gets all that is measured; NULL: none */
	const char *strategy; /* NULL: STRATEGY_DEFAULT */
	const char *cost;     /* model that guides it; NULL: "draft" */
	uint64_t seed;
	bool exact;
	enum rigor rigor;
	bool fresh;                  /* what earlier boxes tried is tried again */
	bool careful;                /* as on a risky device: agent/worker/marked.h */
	const char *worker;          /* path; NULL: beside the executable */
	volatile sig_atomic_t *stop; /* set by a signal handler: end at once; may be NULL */
	void *ctx;
	void (*progress)(void *ctx, const struct job_progress *p); /* may be NULL */
};

struct tune_kernel {
	const char *name;  /* anchor node */
	const char *label; /* what it computes */
	enum kernel_origin before, after;
	int64_t before_ns, after_ns; /* in the whole network, all threads; 0: not measured */
	double roofline;             /* share of the roofline that `after` reaches; 0: unknown */
};

struct tune_spent {         /* where the box went; all but the builders' work adds up to it */
	int64_t start_ns;   /* the process, import, the cache, the machine's peaks */
	int64_t network_ns; /* running the whole network, before and after */
	int64_t graph_ns;   /* other divisions of the graph */
	struct job_spent job;
};

struct tune_report {
	int tasks, trials;
	int known; /* trials of earlier boxes, which were not repeated */
	int stale; /* of the cache's kernels, at the start: timed again before they were believed */
	double budget_s, elapsed_s;
	double before_ms, default_ms, after_ms; /* whole network, median; 0: not measured */
	bool interleaved;                       /* before_ms was measured in turns with after_ms */
	int kept;                               /* records put and divisions changed */
	int reverted;                           /* tasks that lose to default kernels inside the network */
	struct tune_spent spent;
	const char *strategy, *cache, *target;
	int nkernels;
	const struct tune_kernel *kernel; /* in the order of execution */
	bool stopped;                     /* by o->stop */
	const char *warning;              /* NULL: all is saved */
};

int tune_model(const struct tune_options *o, struct arena *a, struct tune_report *out) MUST_CHECK;

#endif
