/* SPDX-License-Identifier: Apache-2.0 */
/* Raises a graph to a newer opset, for files whose operators need one (DequantizeLinear with an axis is of
 * opset 13). Operators whose form changed get the new form: attributes become constant inputs, Upsample
 * becomes Resize. */
#ifndef KERNELS_UPGRADE_H
#define KERNELS_UPGRADE_H

#include "kernels/graph/graph.h"

enum { UPGRADE_OPSET = 13 };

/* Nodes of opset UPGRADE_OPSET or later stay as they are. Shapes must be known. E_UNSUPPORTED names a node
 * that has no equal of the new opset. */
int graph_upgrade(struct graph *g) MUST_CHECK;

#endif
