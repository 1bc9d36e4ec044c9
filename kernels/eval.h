/* SPDX-License-Identifier: Apache-2.0 */
/* The portable reference: runs a whole graph with the operators' eval, in order. Slow and obviously right. */
#ifndef KERNELS_EVAL_H
#define KERNELS_EVAL_H

#include "kernels/graph.h"

/* Infers shapes (and folds what infer needs, e.g. the shape input of Reshape) for all nodes in order. */
int graph_infer(struct graph *g) MUST_CHECK;
/* One node on given tensors (by value index: t[v].data). Output data is allocated in `arena`. */
int eval_node(const struct graph *g, int node, struct tensor *t, struct arena *arena) MUST_CHECK;
/* All nodes; `inputs` in graph order. t: nvalues entries, filled. */
int eval_graph(const struct graph *g, const struct tensor *inputs, struct tensor *t, struct arena *arena) MUST_CHECK;

#endif
