/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the local runner: shared by runner_local.c (building and checking), local_kernel.c (a built
 * candidate and its buffers), local_own.c (its memory on a device that has its own), local_first.c (first
 * runs) and local_time.c (timing). Not for others. */
#ifndef AGENT_LOCAL_H
#define AGENT_LOCAL_H

#include "agent/worker/exercise.h"
#include "agent/worker/wire.h"
#include "kernels/emit/emit.h"
#include "platform/run/dev.h"
#include "platform/run/gpu_state.h"
#include "platform/run/pool.h"
#include "platform/base/rng.h"

/* Loaded code, shared by candidates that differ only in numbers. */
struct local_object {
	struct local_object *next; /* newest use first */
	struct key key;            /* of task and loops */
	int users;
	void *bytes; /* malloc'd */
	size_t n;
	struct dev_code *code; /* NULL: not loaded, because it was made for another process */
};

/* A built candidate. */
struct local_built {
	struct exercise *x;
	struct local_object *object;
	struct manifest m;
	int entry[LOOPS_MAX_ENTRIES];
	int64_t extent[LOOPS_MAX_ENTRIES];
	int threads;
	struct packed *packed[CODE_MAX_BUFS];
	struct pages *scratch;             /* per thread */
	void **bufs;                       /* [thread][CODE_MAX_BUFS + 1] */
	size_t const_bytes[CODE_MAX_BUFS]; /* 0: not a constant */
	size_t bytes[CODE_MAX_BUFS];       /* of the process's memory; 0: scratch */
	struct built_own *own;             /* NULL: the device has no memory of its own */
};

enum { BUFS = CODE_MAX_BUFS + 1, SENSED_CPUS = 64 };

/* System files that are read around each timing; they are kept open, because a confined worker cannot open
 * any. */
struct sensors {
	int mhz[SENSED_CPUS]; /* descriptors; -1: not available */
	int mc;
};

struct local {
	struct runner base;
	const struct dev *dev;
	struct dev_unit *unit; /* NULL: the device has no memory of its own */
	const struct emit *emit;
	struct target target;
	bool isolate;
	struct arena arena; /* of one candidate: reset at each build */
	struct exercise *exercises;
	struct constant *constants; /* of the exercises */
	struct local_object *objects;
	struct local_built **built; /* by handle; NULL: free */
	int cap;
	struct pool *pool; /* NULL: one thread */
	int cpu;           /* cpu of the calling thread while timing; -1: any */
	struct rng rng;
	/* buffer that is read to evict caches if the CPU cannot flush lines; opened at first use */
	struct pages sweep;
	void *stack;                   /* stack of candidates' first runs; NULL: not needed yet */
	bool (*cage)(const void *ctx); /* confines a candidate's process before it runs; NULL: none */
	const void *cage_ctx;
	struct sensors sensors;
	struct gpu_watch *gpu; /* NULL: the device does not tell its state */
};

/* local_kernel.c */
int built_open(const struct local *l, struct exercise *x, struct local_object *o, const struct manifest *m,
	       struct local_built **out) MUST_CHECK;
void built_close(struct local_built *b);
/* Flushes constants out of the caches; false: this CPU cannot, or a library has packed them elsewhere. */
bool built_chill(const struct local_built *b);
void built_touch_inputs(const struct local_built *b, struct pool *pool);
/* Runs all entries once, in the pool or (NULL) in this thread. Not of a device with memory of its own. */
void built_run(const struct local_built *b, const struct dev *dev, struct pool *pool);
/* Runs a quarter of the work in this thread, in evenly spread parts. Returns by what factor the whole is
 * more; 1: all of it was run, because there are too few parts. The output is invalid. */
double built_run_part(const struct local_built *b, const struct dev *dev);

/* local_own.c: built_open has set all but `own`. E_CHILD: the device is lost, and so is this worker. */
int own_open(struct local_built *b, const struct dev_own *dev, struct dev_unit *unit) MUST_CHECK;
void own_close(struct local_built *b);
/* Runs a kernel, which has run before, `repeats` times. *ns is the time of these runs by the clock. Where the
 * device records graphs, other numbers of runs may be timed, and *ns is their time in proportion.
 *
 * A driver cannot be interrupted. So the device counts as hanging, and this process ends with last words
 * about `at` (agent/worker/wire.h), when the runs take ten times as long as expected and 2 s more, or, once
 * the deadline has come, ten times as long and 0.2 s more. Time in which the process is stopped does not
 * count. */
int own_run(const struct local_built *b, int at, int repeats, struct clock *clock, int64_t deadline_ns,
	    int64_t *ns) MUST_CHECK;
/* For tests: the room for scratch of work items that run at a time (default: 64 MiB). */
void own_scratch_room(int64_t bytes);
/* Runs once on what the process's buffers hold, and copies the output back. E_WRONG: it wrote outside of its
 * buffers; *status: MEAS_TIMEOUT after patience_ns. */
int own_first_run(struct local_built *b, int64_t patience_ns, int64_t deadline_ns,
		  enum meas_status *status) MUST_CHECK;

/* local_first.c: fills the output with poison and runs once (bytes: twice). *status is unchanged if all is
 * well. */
int local_first_run(struct local *l, struct local_built *b, int64_t deadline_ns,
		    enum meas_status *status) MUST_CHECK;
void local_first_close(struct local *l);

/* local_time.c */
void sensors_open(struct sensors *s);
void sensors_close(struct sensors *s);
int local_time(struct runner *r, const int *handles, int n, int rounds, int64_t abort_ns, unsigned how,
	       int64_t deadline_ns, struct meas *m);

#endif
