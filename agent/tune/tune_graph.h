/* SPDX-License-Identifier: Apache-2.0 */
/* Compares other divisions of a model's graph with the present one, one after the other, as long as that
 * promises more than another slice of a task. Both sides use default schedules, and kernels are timed inside
 * the whole network, interleaved. Only tasks that differ count; the others use the cache's kernels. Choices
 * of strangers (agent/cache/hint.h) come first, are used only if they win, and are compared once. A division
 * that is faster in every series by more than GRAPH_GAIN becomes the present one. Default kernels that the
 * cache has are not built again. The caller puts the choices into the cache later, once there are kernels for
 * them.
 *
 * Promise, as of a task (search/promise.h): time of what differs x share of it that alternatives saved so far
 * / cost of the comparison. The share begins at a prior, and falls with each alternative that saves
 * nothing. */
#ifndef AGENT_TUNE_GRAPH_H
#define AGENT_TUNE_GRAPH_H

#include "agent/cache/chosen.h"
#include "agent/control/leash.h"
#include "platform/run/pool.h"
#include "platform/run/runner.h"
#include <signal.h>

#define GRAPH_GAIN 0.02
/* Kernels for operators on bytes may take so much more time than the portable code that they replace, as a
 * share of it, if the box goes on to tune them: default schedules become faster, portable code does not. */
#define BYTES_LOSS 0.3

struct plan_device;

struct graph_time {
	struct key task;
	int64_t ns; /* of one use */
};

struct tune_graph_options {
	const struct chosen_for *chosen;
	struct pool *pool;
	struct plan_device *device; /* of the kernels; NULL: the processor, or `sole` */
	/* A device that is opened while networks run there, when the runner has left it; NULL: none */
	const char *sole;
	int64_t device_ns; /* that opening it takes */
	struct clock *clock;
	int64_t deadline_ns;               /* on the clock; nothing begins that cannot end before it */
	int64_t kernel_ns, net_ns, run_ns; /* time to build a kernel, to open a network, and to run one */
	bool tunes;                        /* the box tunes what wins */
	int ntimes;
	const struct graph_time *time; /* of the tasks whose time is known */
	volatile sig_atomic_t *stop;   /* may be NULL */
	struct leash *leash;           /* networks run under its leases; NULL: without */
};

struct graph_search;

/* c, steps: the present ones. What the options point to, the graph and the arena must outlive the search; the
 * runner builds kernels. */
int graph_search_open(const struct tune_graph_options *o, struct graph *g, struct runner *r, struct arena *a,
		      const struct choices *c, const struct steps *steps,
		      struct graph_search **out) MUST_CHECK;
void graph_search_close(struct graph_search *x); /* NULL: nothing; leaves the runner without handles */
/* Whether the next alternative puts operators on bytes into kernels. NULL: no. */
bool graph_search_takes_bytes(const struct graph_search *x);
/* Promise of comparing the next alternative: ns of the network's time saved per ns spent. 0: there is none
 * left, or no time for it. */
double graph_search_promise(struct graph_search *x);
/* Compares the next alternative. 1: it is now the present division, and *c and *steps describe it, in the
 * arena; else 0. */
int graph_search_next(struct graph_search *x, struct choices *c, struct steps **steps) MUST_CHECK;

#endif
