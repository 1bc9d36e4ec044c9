/* SPDX-License-Identifier: Apache-2.0 */
/* Passes over the graph: constant folding, dead code, identity removal, BatchNorm and scale folding into
 * convolutions, Pad into convolution and pooling, canonical forms (x*sigmoid(x), MatMul+Add, ...). Each pass
 * is one file pass_*.c (kernels/graph/pass.h). */
#ifndef KERNELS_OPTIMIZE_H
#define KERNELS_OPTIMIZE_H

#include "kernels/graph/graph.h"

/* Runs the passes until none changes anything. Results stay within fp32 rounding. Errors: E_NOMEM, or those
 * of an operator that is evaluated. */
int graph_optimize(struct graph *g) MUST_CHECK;

#endif
