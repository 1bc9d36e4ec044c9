/* SPDX-License-Identifier: Apache-2.0 */
/* A piece of a graph as a model of its own: what `hone verify --bisect` writes. */
#ifndef TOOLS_CUT_H
#define TOOLS_CUT_H

#include "kernels/graph/graph.h"

/* The nodes that value `out` depends on, up to the values where stop[v] is true: those, where used, are the
 * inputs of the new graph, in the order of g's values. from[i] (nvalues of the new graph, in its arena) is
 * the value in g. Constants are copied. */
int cut_graph(const struct graph *g, int out, const bool *stop, struct graph **piece, int **from) MUST_CHECK;
/* The piece with data as an ONNX test folder: DIR/model.onnx and DIR/test_data_set_0. t: g's values. */
int cut_write(const struct graph *piece, const int *from, const struct tensor *t, const char *dir) MUST_CHECK;

#endif
