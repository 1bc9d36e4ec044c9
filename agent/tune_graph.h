/* SPDX-License-Identifier: Apache-2.0 */
/* Other divisions of a model's graph, measured against the present one: both with default schedules, kernels
 * timed inside the whole network, interleaved; only tasks that differ count, the others have the kernels that
 * the cache gives. One that is faster every time by more than GRAPH_GAIN becomes the present one. Default
 * kernels that the cache has are not built again. The cache is told later, by the caller, once there are
 * kernels for it. */
#ifndef AGENT_TUNE_GRAPH_H
#define AGENT_TUNE_GRAPH_H

#include "agent/chosen.h"
#include "platform/pool.h"
#include "platform/runner.h"
#include <signal.h>

#define GRAPH_GAIN 0.02

struct tune_graph_options {
	const struct chosen_for *chosen;
	struct pool *pool;
	struct clock *clock;
	int64_t deadline_ns; /* on the clock: nothing is begun after it, nor what will not end by then */
	int64_t kernel_ns, net_ns, run_ns; /* what it takes to build a kernel and a network, and to run one */
	volatile sig_atomic_t *stop;       /* may be NULL */
};

/* The runner builds the kernels; it is left without handles. *c, *steps: the present ones, and where
 * something better was found (1 is returned, else 0) the new ones, in the arena. */
int tune_graph(const struct tune_graph_options *o, struct graph *g, struct runner *r, struct arena *a,
	       struct choices *c, struct steps **steps) MUST_CHECK;

#endif
