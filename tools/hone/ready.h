/* SPDX-License-Identifier: Apache-2.0 */
/* A model ready to run: the machine, the source of kernels, the plan, inputs and outputs. Shared by bench,
 * run and verify. */
#ifndef TOOLS_READY_H
#define TOOLS_READY_H

#include "agent/run/plan.h"
#include "kernels/task/level.h"
#include "tools/hone/model.h"

enum ready_kernels { KERNELS_BEST, KERNELS_DEFAULT, KERNELS_FALLBACK };

struct host {
	struct target target;
	int threads; /* 1 on a device */
	enum level level;
	struct pool *pool; /* of the processor; beside a device, of what it runs there */
	const char *name;           /* of a device with memory of its own; NULL: the processor */
	struct plan_device *device; /* NULL: the processor */
};

#define OPT_REQUIRE_CACHE                                                                                    \
	{                                                                                                    \
		"require-cache", OPT_FLAG, NULL,                                                             \
		    "fail if a kernel is not in the cache, and list the missing ones"                        \
	}

struct ready {
	struct host *host;   /* owned by the caller */
	struct model model;  /* if the model is compiled, only its path is set */
	struct cache *cache; /* read only; NULL: none */
	const char *cache_dir;
	enum ready_kernels kernels;
	struct kernel_source source;
	struct plan *plan;
	const struct graph *g; /* the plan's graph: its inputs and outputs */
	struct arena arena;
	struct tensor *in, *out;
	struct key history; /* key of its tuning history (agent/cache/history.h) */
	int64_t not_finite; /* values of the inputs that are NaN or infinite (feed.h) */
	int64_t load_ns;    /* time from reading the file to the plan */
	enum level level;   /* of the kernels: as asked, or what a compiled model was compiled for */
	int image_threads;  /* of a compiled model: what it was compiled for; 0: another model */
};

/* For commands with OPT_LEVEL. peaks: also get the target's peaks, kept in the cache folder or measured now
 * ("": none are kept). Nothing is written, but for a device's peaks that were found to be too low
 * (device_doubt). */
int host_open(const struct args *a, const char *cache_dir, bool peaks, struct host *h) MUST_CHECK;
/* After a plan was built. E_IO: the device has built none of its kernels (plan_device_built). */
int host_built(const struct host *h) MUST_CHECK;
void host_close(struct host *h);

/* Parses "best", "default" or "fallback". */
int ready_kernels_parse(const char *text, enum ready_kernels *out) MUST_CHECK;
const char *ready_kernels_name(enum ready_kernels k);
/* Opens the source of kernels. *cache is opened read-only if the choice needs one; if cache_dir is "", only
 * fallback and default kernels are found. cache_dir must outlive the source. */
int source_open(enum ready_kernels k, const char *cache_dir, struct host *h, struct cache **cache,
		struct kernel_source *out) MUST_CHECK;
/* How the graph is divided: by the cache's choices for the best kernels, else by rules alone; ready_open puts
 * operators on bytes into kernels for default kernels. */
struct chosen_for ready_chosen(const struct host *h, enum ready_kernels k, struct cache *cache);
void source_close(enum ready_kernels k, struct cache **cache, struct kernel_source *s);

/* Opens a model; its inputs are filled with seeded numbers. cache_dir must outlive r. A path that `hone
 * compile` wrote brings its own kernels. E_USAGE: `default` kernels are asked for and no worker can make
 * them. */
int ready_open(const struct args *a, const char *path, const char *cache_dir, enum ready_kernels k,
	       struct host *h, struct ready *r) MUST_CHECK;
void ready_close(struct ready *r);
/* Whether the kernel is one of a task and did not come from a record of the cache. */
bool ready_missing(const struct ready *r, const struct plan_kernel *k);
/* For OPT_REQUIRE_CACHE. E_NOTFOUND: the message names the missing kernels and the command that fills the
 * cache. It counts kernels of tasks alone, as other operators have none that a cache could hold. */
int ready_require(const struct args *a, const struct ready *r) MUST_CHECK;
/* Prints that some tuned kernels were tuned for another number of threads, which serves where there is none
 * for this one; nothing, if that is so of none. */
void ready_say_threads(int others, int tuned, int threads);
/* The same for the kernels of a model that is ready; and how many kernels the cache has for --level int8
 * alone. */
void ready_look_at_records(const struct ready *r);
struct kernel_time {
	double median_ns, min_ns;
};
/* Times every kernel of n models, which take turns, `runs` times or until limit_ns has passed (at least
 * once), or until Ctrl-C. time[i][k] is of model i's kernel k. */
int ready_time_kernels(struct ready *const *r, int n, int runs, int64_t limit_ns, struct arena *a,
		       struct kernel_time **time) MUST_CHECK;
/* Context for case_runner: it optimises a case's graph and runs it as a plan. ctx: struct ready_case. */
struct ready_case {
	const struct host *host;
	enum ready_kernels from;
	struct cache *cache;                /* source of choices; NULL: rules alone */
	const struct kernel_source *source; /* NULL: fallback kernels */
	int kernels;                        /* number of kernels in all cases so far */
};
int ready_run_case(void *ctx, struct graph *g, const struct tensor *in, struct tensor *out,
		   struct arena *a) MUST_CHECK;
/* Source of kernels at their default schedules or, with `best`, at the best known ones: those in the cache
 * (NULL: none), else made now by hone-worker. The cache must outlive it. */
int defaults_open(struct cache *c, struct host *h, bool best, struct kernel_source *out) MUST_CHECK;
void defaults_close(struct kernel_source *s);
/* Why it could make no kernel for some task; "": it made all that were asked for. */
const char *defaults_why(const struct kernel_source *s);
/* Tasks of a model with KERNELS_DEFAULT that run without a default kernel: with fallback kernels or in
 * portable C, whose reference for bytes is slow. 0 for other models. *why (NULL: not known) says the reason.
 */
int ready_not_default(const struct ready *r, const char **why);
const char *ready_origin(enum kernel_origin o); /* "tuned", "default", "fallback", "portable" */
const char *ready_kind(const struct plan_kernel *k); /* ready_origin of its kernel_origin_kind */

#endif
