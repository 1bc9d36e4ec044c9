/* SPDX-License-Identifier: Apache-2.0 */
/* The portable reference: runs a whole graph with the operators' eval, in order. Slow and obviously right. */
#ifndef KERNELS_EVAL_H
#define KERNELS_EVAL_H

#include "kernels/graph/graph.h"

/* Infers dtypes and shapes for all nodes in order (the graph is sorted), and computes small constant values
 * (shape arithmetic) on the way, so that infer sees e.g. the shape input of Reshape: the outputs become
 * constants, the nodes stay. An error names every node that has no shape, a line each: E_UNSUPPORTED if any
 * of them is. */
int graph_infer(struct graph *g) MUST_CHECK;
/* The same, for callers that have lines of their own: appends them, returns their number or E_NOMEM; *worst
 * is the code. */
int graph_infer_lines(struct graph *g, struct buf *lines, int *worst) MUST_CHECK;
/* One node on given tensors (by value index: t[v].data). Output data is allocated in `arena`, dtypes and
 * shapes are the graph's. */
int eval_node(const struct graph *g, int node, struct tensor *t, struct arena *arena) MUST_CHECK;
/* All nodes; `inputs` in graph order, with the graph's dtypes and shapes (else E_USAGE). t: nvalues entries,
 * filled. */
int eval_graph(const struct graph *g, const struct tensor *inputs, struct tensor *t,
	       struct arena *arena) MUST_CHECK;

#endif
