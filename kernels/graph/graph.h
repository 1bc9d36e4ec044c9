/* SPDX-License-Identifier: Apache-2.0 */
/* The graph: values (tensors) and nodes (operators) in topological order. Made by import, changed by passes.
 *
 * Everything lives in graph.arena and is freed with it. Values and nodes are referred to by index; an index
 * stays valid (dead ones are marked). Static shapes only: every live value has its final shape and dtype
 * after graph_infer. A value with data != NULL is a constant. Optional inputs that are absent are index -1.
 */
#ifndef KERNELS_GRAPH_H
#define KERNELS_GRAPH_H

#include "kernels/task/tensor.h"
#include "platform/base/buf.h"
#include "platform/base/hash.h"

enum attr_kind { ATTR_INT, ATTR_FLOAT, ATTR_STRING, ATTR_TENSOR, ATTR_INTS, ATTR_FLOATS, ATTR_STRINGS };

struct attr {
	const char *name;
	enum attr_kind kind;
	int n; /* elements of ints, floats, strings */
	int64_t i;
	float f;
	const char *s;
	struct tensor t;
	const int64_t *ints;
	const float *floats;
	const char *const *strings;
};

struct op; /* kernels/graph/op.h */

struct node {
	const struct op *op;
	int row;          /* which of the op's rows (operator names) */
	const char *name; /* the model's, or "Conv_12" */
	int opset;        /* of its domain */
	int nin, nout;
	int *in, *out; /* value indexes; -1 = absent */
	int nattr;
	struct attr *attr;
	bool dead;
};

struct value {
	const char *name;
	struct tensor t; /* t.data != NULL: constant */
	int producer;    /* node index; -1: graph input or constant */
	bool is_input, is_output;
};

struct graph {
	struct arena arena;
	const char *name;
	int nnodes, nvalues, ninputs, noutputs;
	int cap_nodes, cap_values;
	struct node *node;
	struct value *value;
	int *input, *output;        /* value indexes in the model's order; initialisers are not inputs */
	bool external;              /* some of its data was in other files than the model's */
	struct layout_costs *costs; /* kernels/group/layout_cost.h, kept between divisions; NULL: none yet */
};

void graph_free(struct graph *g);
int graph_add_value(struct graph *g, const char *name); /* index; E_NOMEM only where the arena has a cap */
/* Appends at the end of the order; arrays, names and texts are copied, tensor data of attributes is not (it
 * must live in the graph's arena). Makes the node the producer of its outputs. Returns its index; E_NOTFOUND:
 * unknown operator. */
int graph_add_node(struct graph *g, const char *op_type, const char *name, int opset, int nin, const int *in,
		   int nout, const int *out, int nattr, const struct attr *attr) MUST_CHECK;
const struct attr *node_attr(const struct node *n, const char *name); /* NULL: absent */
int64_t node_int(const struct node *n, const char *name, int64_t fallback);
float node_float(const struct node *n, const char *name, float fallback);
const char *node_str(const struct node *n, const char *name, const char *fallback);
const char *node_type(const struct node *n); /* "Conv" */
/* Topological order, stable where it is one already; drops dead nodes and renumbers the others (values keep
 * theirs). E_CORRUPT names a node on a cycle. */
int graph_sort(struct graph *g) MUST_CHECK;
/* Structure, shapes, dtypes, attributes and small constants (<= 64 elements), not weights: the model's key.
 */
struct key graph_key(const struct graph *g);
void graph_print(const struct graph *g, struct buf *out);

#endif
