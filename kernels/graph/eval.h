/* SPDX-License-Identifier: Apache-2.0 */
/* The portable reference: runs a whole graph in order with the operators' eval. Slow, but simple enough to be
 * trusted. */
#ifndef KERNELS_EVAL_H
#define KERNELS_EVAL_H

#include "kernels/graph/graph.h"

/* Infers dtypes and shapes for all nodes in order (the graph must be sorted). It also computes small constant
 * values (shape arithmetic), so that infer sees for example the shape input of Reshape: the outputs become
 * constants, the nodes stay. The error names every node without a shape, one per line; it is E_UNSUPPORTED if
 * any node is unsupported. */
int graph_infer(struct graph *g) MUST_CHECK;
/* The same, for callers that add lines of their own: appends the lines to `lines` and returns their number or
 * E_NOMEM, or the error of the thread's limit (platform/base/until.h); *worst is the error code. */
int graph_infer_lines(struct graph *g, struct buf *lines, int *worst) MUST_CHECK;
/* The state of a graph's inference that goes node by node. Zeroed at first, but for lines and worst. */
struct infer {
	struct buf *lines;   /* one for each node without a shape */
	int count, worst;    /* number of these nodes, including those whose lines were cut off; error code */
	int64_t work, bytes; /* used so far for folding */
	struct arena scratch; /* freed by the caller */
};
/* Infers one node as graph_infer does. Its inputs must have types. Returns whether its outputs have now; 0: a
 * line says why not. E_NOMEM, or the error of the thread's limit. */
int graph_infer_node(struct graph *g, int node, struct infer *s) MUST_CHECK;
/* Evaluates one node on given tensors (by value index: t[v].data). Output data is allocated in `arena`;
 * dtypes and shapes are the graph's. */
int eval_node(const struct graph *g, int node, struct tensor *t, struct arena *arena) MUST_CHECK;
/* Begins to evaluate a graph node by node: t[] gets the inputs, which must have the graph's dtypes and shapes
 * (else E_USAGE), and the constants. */
int eval_begin(const struct graph *g, const struct tensor *inputs, struct tensor *t) MUST_CHECK;
/* Whether the node is to be evaluated: it is not dead, and its outputs are not known. */
bool eval_has(const struct graph *g, int node);
/* Evaluates all nodes. `inputs` are in graph order and must have the graph's dtypes and shapes (else
 * E_USAGE). t: nvalues entries, which are filled. */
int eval_graph(const struct graph *g, const struct tensor *inputs, struct tensor *t,
	       struct arena *arena) MUST_CHECK;

#endif
