/* SPDX-License-Identifier: Apache-2.0 */
/* `hone tune` without its output: takes a model, puts tuned kernels into the cache, and measures the whole
 * network before and after, all within a box that begins with the process. If the cache had kernels at the
 * start, `before` is measured again at the end, in turns with `after`.
 *
 * model -> graph -> steps -> tasks -> job -> cache -> plan. The job puts results into the cache at once. A
 * cache that cannot be written is an error before anything is searched, unless nothing is to be kept
 * (`unkept`); if it can no longer be written later, tuning goes on in memory, and `warning` and the log say
 * so. The worker builds and times candidates.
 *
 * The model is read first: a box that is too short for that changes nothing and fails with E_TIMEOUT. A box
 * that is long enough ends well, whatever it had time for. Its end is reserved for measuring the network
 * again; whatever could take longer is cancelled (platform/base/until.h), and in the worst case abandoned
 * (`late`). */
#ifndef AGENT_TUNE_MODEL_H
#define AGENT_TUNE_MODEL_H

#include "agent/cache/gain.h"
#include "agent/cache/recipe.h"
#include "agent/run/plan.h"
#include "kernels/onnx/import.h"
#include "kernels/task/level.h"
#include "search/job.h"

/* How much work is done for a network. */
enum rigor {
	RIGOR_PATIENT, /* all of the box, unless the search of every task ends before (enum search_end) */
	RIGOR_QUICK,   /* ends by itself when gains dry up */
	/* no search: makes default schedules for tasks that the cache lacks, and makes and times again what
	 * is stale in it (agent/cache/stale.h) */
	RIGOR_ESTIMATE,
	RIGOR_CACHED, /* nothing is built or measured: not for tune_model */
};

struct tune_report;
struct library_state;

struct tune_options {
	const char *model; /* path of an ONNX file */
	int nbinds;
	const struct import_bind *binds;
	const char *shape_option; /* as in struct import_opts */
	bool said_notes;          /* the notes of the import were already printed */
	int64_t budget_ns;        /* the box, from the start of the process */
	int threads;              /* >= 1 */
	const int *cpus;          /* one per thread, or NULL: not pinned */
	int host_threads;         /* of what runs on the processor beside a device; 0: threads */
	const char *device;       /* one with memory of its own ("opencl:0"), and threads is 1; NULL: the
				     processor */
	const char *cluster;      /* "cpu:NAME" that the process is bound to; NULL: the fastest */
	int builders;             /* cores that build while others measure; -1: the unused ones, 0 to 2 */
	const char *cache;        /* folder; NULL: the user's (file_cache_dir) */
	bool unkept;              /* the cache is only read, and all results are lost at the end */
	int lock_fd;              /* > 0: the cache's lock (cache_lock_wait); the job owns it */
	int64_t waited_ns;        /* what the process waited for it: the box begins so much later */
	int64_t quantised_ns;     /* of waited_ns: what quantising took */
	int64_t cache_bytes;      /* its limit; 0: the default of agent/cache/cache.h */
	const char *record;   /* folder of landscapes in which all measurements are recorded; NULL: none */
	const char *strategy; /* NULL: STRATEGY_DEFAULT */
	const char *cost;     /* cost model of the search; NULL: "draft" */
	uint64_t seed;
	enum level level;
	const struct buf *recipe; /* agent/cache/recipe.h: put into the cache; NULL: LEVEL_INT8 takes that of
				     the cache */
	const char *recipes;      /* of a replay: a cache that is only read, for a recipe; NULL: none */
	enum rigor rigor;
	bool fresh;                  /* repeats what earlier boxes tried */
	bool careful;                /* as on a risky device: agent/worker/marked.h */
	const char *worker;          /* path; NULL: beside the executable */
	const char *libraries; /* that compete with own kernels (agent/worker/libraries.h); NULL: none */
	volatile sig_atomic_t *stop; /* set by a signal handler: end at once; may be NULL */
	void *ctx;
	void (*progress)(void *ctx, const struct job_progress *p); /* may be NULL */
	/* Called on another thread if the box is over and the job, which still runs, can neither end nor be
	 * cancelled. It must answer with the report (rc < 0: with err_text()), and end the process at once.
	 * Records of the last second may be lost. NULL: such a box ends late. */
	void (*late)(void *ctx, int rc, const struct tune_report *r);
};

struct tune_kernel {
	const char *name;  /* anchor node */
	const char *label; /* what it computes */
	enum kernel_origin before, after;
	enum kernel_why why; /* `after` runs on the processor though the box is for a device */
	/* `before` or `after` is FROM_CACHE, and the best schedule there is the default one */
	bool before_default, at_default;
	int64_t before_ns, after_ns; /* in the whole network, all threads; 0: not measured */
	int64_t alone_ns;            /* of the task alone, as the search timed it; 0: it did not */
	double roofline;             /* share that `after` reaches, in the network, else alone; 0: unknown */
	bool memory_bound;           /* the roofline is that of the bytes, not of the flops */
};

struct tune_spent {         /* how the box's time was spent; all except the builders' work adds up to it */
	int64_t start_ns;   /* the process, import, the cache, the machine's peaks */
	int64_t network_ns; /* running the whole network, before and after */
	int64_t graph_ns;   /* other divisions of the graph */
	struct job_spent job;
};

/* The whole network on the processor alone, with its own kernels, after a box for a device. */
struct tune_processor {
	int threads;
	double ms, device_ms;  /* medians; 0: not known */
	int kernels, tuned;    /* tuned: from the cache, the others are built in */
	struct faster faster;  /* the device's network against it; no rounds: not measured by this box */
	char date[24];         /* of the box that measured ms; "": this one */
};

struct tune_report {
	struct recipe recipe; /* layers 0: the model was not quantised */
	bool recipe_replaced; /* it took the place of another one in the cache */
	bool recipe_stays;    /* the cache's stays, as the given one quantises nothing */
	struct recipe former; /* the cache's, of recipe_replaced and recipe_stays; layers 0: not readable */
	int tasks, trials;
	int known;          /* candidates of earlier boxes that were not tried again; */
	int earlier_trials; /* of these boxes: their logs do not keep all of them */
	int hints;          /* tasks whose search began with what another board found */
	int cached;         /* tasks of the model for which the cache had a kernel at the start */
	int stale;          /* kernels of the cache that were stale at the start and were timed again */
	double budget_s, elapsed_s;
	bool early;                             /* the search ended before the time for it was over: */
	int ended[SEARCH_ENDS];                 /* tasks, by the reason for which their search ended */
	double before_ms, default_ms, after_ms; /* whole network, median; 0: not measured */
	bool interleaved;                       /* before_ms was measured in turns with after_ms */
	/* of a box for a device: before_ms is of the processor alone, with its own kernels, because the cache
	 * had none for the device, and hone run would have left it */
	bool before_left;
	struct faster before;                   /* `after` against it; no rounds: not compared */
	struct gain gain;           /* `after` against default schedules; no rounds: not compared */
	struct disturbance machine; /* during those rounds */
	int kept;                   /* records put and divisions changed; `unkept`: 0 */
	/* tasks that use default kernels again, as these win inside the network; 0 if all were restored */
	int reverted;
	/* tasks that use their kernels from before the box again, as the network is faster with those */
	int restored;
	bool untunable;   /* the model has no task, so there was nothing to do */
	bool at_defaults; /* in the end every kernel is the default one: nothing was gained or lost */
	struct tune_spent spent;
	const char *strategy, *cache, *target;
	int nlibraries; /* that compete: */
	const struct library_state *library;
	int library_tasks;  /* tasks whose best kernel is a library's */
	int kernels_before; /* of the network as it was; 0: it was not measured after the search */
	int nkernels;
	const struct tune_kernel *kernel; /* in the order of execution */
	int no_turn, untried;             /* tasks that neither this box nor an earlier one came to: at most
					   * their default was tried; no schedule was tried in this box */
	struct tune_processor processor;  /* of a box for a device */
	int missing;                      /* of them: can have a kernel of their own, but run without */
	bool stopped;                     /* by o->stop */
	bool late;                        /* o->late was called */
	bool leashed;                     /* honed lends the processors */
	const char *warning;              /* NULL: everything is saved */
};

int tune_model(const struct tune_options *o, struct arena *a, struct tune_report *out) MUST_CHECK;

#endif
