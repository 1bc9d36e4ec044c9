/* SPDX-License-Identifier: Apache-2.0 */
/* QDQ form: which layers and values of a graph of floats can be quantised, and the rewriting that quantises
 * some of them, once their parameters are known.
 *
 * A layer is a Conv, Gemm or MatMul with constant weights. What it reads and what it writes, behind Relu and
 * Clip, become u8 with one scale and zero point (QuantizeLinear, DequantizeLinear); its weights become s8
 * with a scale for each output channel and zero points of 0; its bias becomes s32 in steps of the product of
 * both scales. Layers in that form run as integers (kernels/graph/pass_quant.c). Where a node only moves
 * elements to a quantised value, the values before it are quantised with the same parameters, so that it
 * moves bytes. Values that are quantised with the same parameters are a group. A layer that stays fp32 has
 * fp32 weights; values that no other layer needs as bytes stay fp32, too.
 *
 * qdq_find says what there is; the parameters come from examples (agent/quantize) or from a recipe
 * (agent/cache/recipe.h); qdq_rewrite makes the graph. Indexes of layers and values depend on the graph
 * alone. */
#ifndef KERNELS_QDQ_H
#define KERNELS_QDQ_H

#include "kernels/graph/graph.h"

/* A scale is at least this: a product of two, divided by a third, is a normal number. Values below it are as
 * good as 0. */
#define QDQ_LEAST_SCALE 1e-12f
/* The limit of values and weights: products of scales must stay far below the largest float. */
#define QDQ_MOST_VALUE 1e18

/* A value that is quantised if layers around it are. */
struct qvalue {
	int value; /* of the graph */
	int group;
	int nfrom, *from; /* indexes of qvalues: a node moves elements from these to it */
	double low, high; /* on examples, with 0 between them */
};

/* Values with the same parameters: the qvalues whose group it is. */
struct qgroup {
	double low, high;
	double *count, *sum; /* of the values in each bin from low to high; NULL: no histogram */
	float scale;
	uint8_t zero;
	double error; /* alone; NAN: not measured */
};

struct qlayer {
	const char *name, *type; /* of its node */
	const char *why;         /* why it stays fp32; NULL: it is quantised */
	int node;
	int add;  /* an Add of a constant behind a MatMul; -1: none */
	int bias; /* a value; -1: none */
	int x, y; /* indexes of qvalues; -1: its form has no integers */
	/* n filters or columns. Filter i has `depth` weights, from element i * next on, `step` apart. */
	int64_t n, depth, next, step;
	int axis; /* of the weights, over filters */
	float *scale;
	int8_t *weight; /* quantised, in the order of the floats; NULL: not yet */
	double *shift;  /* correction of the bias */
	double error;   /* of the weights alone; NAN: not measured */
};

/* A graph of floats, and what of it can be quantised. */
struct qdq {
	struct graph *g;
	struct arena *a;
	int weight_bits; /* 8; or 7: weights from -63 to 63 */
	int nvalues, ngroups, nlayers;
	struct qvalue *value;
	struct qgroup *group; /* by qvalue.group; the caller's */
	struct qlayer *layer; /* in the graph's order */
	int *at;              /* per value of the graph: its qvalue; -1: none */
	int *uses;            /* per value of the graph */
};

/* Selects the values and weights that qdq_rewrite quantises. */
struct qselection {
	bool *value;   /* per qvalue */
	bool *weights; /* per layer */
};

/* A quantised node of the graph; NULL: it has floats alone. */
const struct node *qdq_node(const struct graph *g);
/* Folds and upgrades q->g (set, with q->a and q->weight_bits), which is as import_file gave it; then finds
 * layers, and values with their groups. Layers that cannot be quantised get a `why`. E_USAGE: the graph is
 * quantised already, or has no layer. */
int qdq_find(struct qdq *q) MUST_CHECK;
/* Joins the groups of values that Concats join, where none of them loses much by it. Ranges must be known. */
void qdq_join(struct qdq *q);
/* Selects nothing. */
void qdq_select_none(const struct qdq *q, struct arena *a, struct qselection *s);
/* Selects what the layers that have no `why` need. */
void qdq_select(const struct qdq *q, struct arena *a, struct qselection *s);
/* Quantises the layer's weights; `shift` becomes 0. Groups must have their parameters. */
int qdq_weights(struct qdq *q, struct qlayer *l) MUST_CHECK;
/* The bias of channel k of a layer, in the graph of floats, and the step of its s32 form. */
double qdq_bias(const struct qdq *q, const struct qlayer *l, int64_t k);
float qdq_bias_step(const struct qdq *q, const struct qlayer *l, int64_t k);
/* Quantises a selection in g, which is q->g or a copy of it. Shares data with q->a. On an error g is in
 * pieces. */
int qdq_rewrite(const struct qdq *q, const struct qselection *s, struct graph *g) MUST_CHECK;
/* Adds to g the dequantised weights of a layer. Returns their value. */
int qdq_add_weights(const struct qdq *q, struct graph *g, const struct qlayer *l) MUST_CHECK;
/* Adds to g a value that is `from`, a value of floats, quantised and dequantised. Returns it. */
int qdq_add_pair(const struct qdq *q, struct graph *g, int from, const struct qvalue *v) MUST_CHECK;

#endif
