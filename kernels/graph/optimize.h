/* SPDX-License-Identifier: Apache-2.0 */
/* Passes over the graph. Constant folding and the removal of identities and of dead nodes are in optimize.c;
 * every other pass is one file pass_*.c (kernels/graph/pass.h says what each one does). */
#ifndef KERNELS_OPTIMIZE_H
#define KERNELS_OPTIMIZE_H

#include "kernels/graph/graph.h"

/* Makes integer operators of dequantised ones (pass_quant.c), whose results are those that the fused formula
 * defines: a byte may differ by a step from what the float operators give, and later ones by more. */
int graph_quantize(struct graph *g) MUST_CHECK;
/* Computes constants, drops identities and dead nodes, and folds Pad, BatchNormalization, Mul and Add into
 * products. For graphs that are changed further and written to a file: every node is one of ONNX. Results
 * stay within fp32 rounding. */
int graph_fold(struct graph *g) MUST_CHECK;
/* Runs each pass once, graph_quantize's first, in the order of pass[] in optimize.c, and then removes dead
 * nodes. Results stay within fp32 rounding of those after graph_quantize. Errors: E_NOMEM, or those of an
 * operator that is evaluated. */
int graph_optimize(struct graph *g) MUST_CHECK;

#endif
