/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of a plan's launches, each of which one call into the driver starts, where the device can record
 * them (platform/run/dev.h). A graph has what the device runs between two moments at which the plan moves
 * tensors, and at least two launches. Where recording or starting a graph fails, its launches are started one
 * by one, which gives the same answers. */
#ifndef AGENT_PLAN_GRAPH_H
#define AGENT_PLAN_GRAPH_H

#include "platform/run/dev.h"

struct plan_graphs;

/* The launches that a step of the plan starts on the device. */
struct plan_graph_step {
	bool moves;                       /* tensors are moved before it */
	int nlaunches;                    /* 0: the step runs on the processor */
	struct dev_launch *const *launch; /* they outlive the graphs */
};

/* Records what it can. NULL: no memory. */
struct plan_graphs *plan_graphs_record(const struct dev_own *dev, struct dev_unit *u,
				       const struct plan_graph_step *step, int nsteps);
/* Starts the graph that begins at a step, and returns the step behind its last one. If none begins there, or
 * the device did not start it, it returns `step`. */
int plan_graphs_start(struct plan_graphs *g, int step);
int plan_graphs_count(const struct plan_graphs *g); /* graphs that are recorded */
/* The first error of recording or starting a graph; "": there was none. */
const char *plan_graphs_why(const struct plan_graphs *g);
void plan_graphs_drop(struct plan_graphs *g); /* before the launches */

#endif
