/* SPDX-License-Identifier: Apache-2.0 */
/* Other divisions of a model's graph, measured against the present one, one after the other, as long as that
 * promises more than another slice of a task does: both with default schedules, kernels timed inside the
 * whole network, interleaved; only tasks that differ count, the others have the kernels that the cache gives.
 * What strangers chose (agent/cache/hint.h) comes first, is used only if it wins, and is compared once.
 * One that is faster every time by more than GRAPH_GAIN becomes the present one. Default kernels that the
 * cache has are not built again. The cache is told later, by the caller, once there are kernels for it.
 *
 * Promise, as of a task (search/promise.h): the time of what differs x the share of it that alternatives
 * saved so far / what the comparison costs. The share begins at a guess, and falls with each that saves
 * nothing. */
#ifndef AGENT_TUNE_GRAPH_H
#define AGENT_TUNE_GRAPH_H

#include "agent/cache/chosen.h"
#include "agent/control/leash.h"
#include "platform/run/pool.h"
#include "platform/run/runner.h"
#include <signal.h>

#define GRAPH_GAIN 0.02

struct graph_time {
	struct key task;
	int64_t ns; /* of one use */
};

struct tune_graph_options {
	const struct chosen_for *chosen;
	struct pool *pool;
	struct clock *clock;
	int64_t deadline_ns; /* on the clock: nothing is begun after it, nor what will not end by then */
	int64_t kernel_ns, net_ns, run_ns; /* what it takes to build a kernel and a network, and to run one */
	int ntimes;
	const struct graph_time *time; /* of tasks, as far as they are known */
	volatile sig_atomic_t *stop;   /* may be NULL */
	struct leash *leash;           /* under which networks run; NULL: none */
};

struct graph_search;

/* c, steps: the present ones. What the options point to, the graph and the arena must outlive it; the runner
 * builds kernels. */
int graph_search_open(const struct tune_graph_options *o, struct graph *g, struct runner *r, struct arena *a,
		      const struct choices *c, const struct steps *steps,
		      struct graph_search **out) MUST_CHECK;
void graph_search_close(struct graph_search *x); /* NULL: nothing; leaves the runner without handles */
/* What meeting the next alternative promises: ns of the network's time per ns. 0: none is left, or none that
 * there is time for. */
double graph_search_promise(struct graph_search *x);
/* Meets it. 1: it is the present one now, *c and *steps are it, in the arena; else 0. */
int graph_search_next(struct graph_search *x, struct choices *c, struct steps **steps) MUST_CHECK;

#endif
