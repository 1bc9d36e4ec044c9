/* SPDX-License-Identifier: Apache-2.0 */
/* The graph: values (tensors) and nodes (operators) in topological order. The importer makes it, passes
 * change it.
 *
 * Everything lives in graph.arena and is freed with it. Values and nodes are referred to by index; an index
 * stays valid (dead ones are marked). Static shapes only: after graph_infer every live value has its final
 * shape and dtype. A value with data != NULL is a constant. Absent optional inputs have index -1. */
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
	int row;          /* index into the op's rows (operator names) */
	const char *name; /* the model's name for it, or "Conv_12" */
	int opset;        /* opset version of its domain */
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
	bool external;              /* some of its data came from files beside the model */
	struct layout_costs *costs; /* kernels/group/layout_cost.h; reused by later divisions of the graph;
				     * NULL: none yet */
};

void graph_free(struct graph *g);
/* A copy that shares names, attributes and the data of constants: the original must outlive it, and neither
 * may change these in place. */
struct graph *graph_copy(const struct graph *g);
int graph_add_value(struct graph *g, const char *name); /* returns the index; E_NOMEM only if the arena has
							 * a limit */
/* Adds a constant; data NULL: zeros. Returns its index; < 0: E_NOMEM. */
int graph_add_constant(struct graph *g, const char *name, enum dtype t, const struct shape *s,
		       const void *data) MUST_CHECK;
/* Appends a node at the end of the order. Arrays, names and texts are copied; the tensor data of attributes
 * is not (it must live in the graph's arena). Makes the node the producer of its outputs. Returns its index;
 * E_NOTFOUND: unknown operator. */
int graph_add_node(struct graph *g, const char *op_type, const char *name, int opset, int nin, const int *in,
		   int nout, const int *out, int nattr, const struct attr *attr) MUST_CHECK;
/* Puts a new node in the place of node `at`, whose outputs it takes. */
int graph_replace_node(struct graph *g, int at, const char *op_type, const char *name, int opset, int nin,
		       const int *in, int nattr, const struct attr *attr) MUST_CHECK;
const struct attr *node_attr(const struct node *n, const char *name); /* NULL: absent */
int64_t node_int(const struct node *n, const char *name, int64_t fallback);
float node_float(const struct node *n, const char *name, float fallback);
const char *node_str(const struct node *n, const char *name, const char *fallback);
const char *node_type(const struct node *n); /* "Conv" */
/* Sorts the nodes topologically; an order that is topological already is kept. Drops dead nodes and renumbers
 * the others (values keep their indexes). E_CORRUPT names a node on a cycle. */
int graph_sort(struct graph *g) MUST_CHECK;
/* Checks that live nodes read what inputs, constants or other live nodes give, each value from its one
 * producer, and with `ordered` from an earlier one. E_CORRUPT names the place: a pass broke the graph. */
int graph_check(const struct graph *g, bool ordered) MUST_CHECK;
/* The model's key: a hash of structure, shapes, dtypes, attributes and small constants (<= 64 elements), but
 * not of weights. */
struct key graph_key(const struct graph *g);
void graph_print(const struct graph *g, struct buf *out);

#endif
