/* SPDX-License-Identifier: Apache-2.0 */
/* The passes of graph_optimize, and functions that they share. To add a pass, add a file pass_NAME.c that
 * defines pass_NAME, declare it here, and put it into pass[] of kernels/graph/optimize.c, which runs the
 * passes once, in that order. What must hold: a pass walks the nodes in order, rewrites only where it can
 * prove that results stay the same, sets `dead` of nodes that it replaces, and returns the number of changed
 * places, or an error. Constants that it makes are new values in the graph's arena; a weight that several
 * nodes share is never changed in place. `scratch` is reset after each pass.
 * tests/kernels/graph/test_optimize.c compares results before and after. */
#ifndef KERNELS_PASS_H
#define KERNELS_PASS_H

#include "kernels/graph/graph.h"

int pass_quant(struct graph *g, struct arena *scratch) MUST_CHECK; /* DQ, operator, Q into one of bytes */
int pass_dynamic(struct graph *g,
		 struct arena *scratch) MUST_CHECK; /* DynamicQuantizeLinear into parameters and bytes */
int pass_integer(struct graph *g,
		 struct arena *scratch) MUST_CHECK; /* ConvInteger, MatMulInteger with weights of s8 */
int pass_scale(struct graph *g,
	       struct arena *scratch) MUST_CHECK; /* BatchNormalization, Mul, Add into Conv, Gemm */
int pass_focus(struct graph *g, struct arena *scratch) MUST_CHECK; /* Slices and Concat into a strided Conv */
int pass_pad(struct graph *g, struct arena *scratch) MUST_CHECK;   /* Pad into Conv, AveragePool */
int pass_norm(struct graph *g, struct arena *scratch) MUST_CHECK;  /* nodes into LayerNormalization */
int pass_concat(struct graph *g, struct arena *scratch) MUST_CHECK;  /* Transpose of Concat */
int pass_product(struct graph *g, struct arena *scratch) MUST_CHECK; /* factors behind MatMul */
int pass_pool(struct graph *g, struct arena *scratch) MUST_CHECK; /* large MaxPool into rows, then columns */
int pass_stride(struct graph *g, struct arena *scratch) MUST_CHECK; /* strided 1x1 Conv: pixels, then Conv */
int pass_siblings(struct graph *g, struct arena *scratch) MUST_CHECK; /* narrow Convs of one value into one */
int pass_resize(struct graph *g, struct arena *scratch) MUST_CHECK;   /* 1x1 Conv before its enlarged input */
int pass_einsum(struct graph *g, struct arena *scratch) MUST_CHECK;   /* Einsum of two operands into MatMul */
int pass_rnn(struct graph *g, struct arena *scratch) MUST_CHECK;      /* LSTM, GRU, RNN into Gemm and maps */

/* "NAME_SUFFIX", with a number behind it if a node or a value has that name: choices that are stored find
 * nodes and values by their names, so each that a pass makes has one of its own. In the graph's arena. */
const char *pass_name(struct graph *g, const char *name, const char *suffix);
/* Number of uses of each value by live nodes; being a graph output counts as one use. nvalues entries in
 * `a`. */
int *pass_uses(const struct graph *g, struct arena *a);
/* The only live node that reads value v, if v has one use and is no graph output; else -1. */
int pass_reader(const struct graph *g, const int *uses, int v);
/* Makes every reader of `from` read `to` instead. */
void pass_replace(struct graph *g, int from, int to);
/* A new f32 constant with zeroed data; < 0: E_NOMEM. */
int pass_constant(struct graph *g, const char *name, const struct shape *s, float **data) MUST_CHECK;
/* Appends a node with one output of its name, and infers its type and shape; returns the output's value. */
int pass_add(struct graph *g, const char *type, const char *name, int opset, int nin, const int *in,
	     int nattr, const struct attr *attr) MUST_CHECK;
bool pass_is_f32_constant(const struct graph *g, int v);
/* Whether all integers of an attribute, which must exist, equal `value`. */
bool pass_all(const struct attr *a, int64_t value);
/* Whether the node is a live Conv with one group, 1x1 windows and no pads, on an image that is not
 * constant. */
bool pass_is_pointwise(const struct graph *g, const struct node *n);

#endif
