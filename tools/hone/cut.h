/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts a piece of a graph out as a model of its own; `hone verify --bisect` writes such pieces. */
#ifndef TOOLS_CUT_H
#define TOOLS_CUT_H

#include "kernels/graph/graph.h"
#include "tools/hone/cmd.h"

/* Takes the nodes that value `out` depends on, back to the values where stop[v] is true. Those of these
 * values that are used become the inputs of the new graph, in the order of g's values. from[i] (nvalues of
 * the new graph, in its arena) is the value in g. Constants are copied. */
int cut_graph(const struct graph *g, int out, const bool *stop, struct graph **piece, int **from) MUST_CHECK;
/* Checks, before any work is done, that cut_write can write the folder: a model that is there must be one of
 * cut_write, and without one there must be no data. */
int cut_check(const struct args *args, const char *dir) MUST_CHECK;
/* Writes the piece and its data as an ONNX test folder: DIR/model.onnx and DIR/test_data_set_0. t: g's
 * values. */
int cut_write(const struct graph *piece, const int *from, const struct tensor *t, const char *dir) MUST_CHECK;

#endif
