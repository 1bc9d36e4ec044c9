/* SPDX-License-Identifier: Apache-2.0 */
/* Explains why a model refused the values of its inputs: an index, such as a token, that is outside the table
 * in which a Gather looks it up. */
#ifndef TOOLS_INDICES_H
#define TOOLS_INDICES_H

#include "kernels/graph/graph.h"

/* Called with the error of a run on these inputs, in[g->ninputs]. If an input's elements are indices of a
 * Gather, and one of them is out of range, the error becomes E_USAGE and names the input, the element and the
 * range; else it stays. */
int indices_explain(const struct graph *g, const struct tensor *in, int rc) MUST_CHECK;

#endif
