/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this folder. */
#ifndef AGENT_QUANTIZE_PARTS_H
#define AGENT_QUANTIZE_PARTS_H

#include "agent/quantize/quantize.h"
#include "agent/run/plan.h"

enum { QUANTIZE_BINS = 2048 };

/* A value that is quantised if layers around it are. */
struct qvalue {
	int value; /* of the graph */
	int group;
	int nfrom, *from; /* indexes of qvalues: a node moves elements from these to it */
	double low, high; /* on the examples, with 0 between them */
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
	struct quantize_layer *row;
	int node;
	int add;  /* an Add of a constant behind a MatMul; -1: none */
	int bias; /* a value; -1: none */
	int x, y; /* indexes of qvalues */
	/* n filters or columns. Filter i has `depth` weights, from element i * next on, `step` apart. */
	int64_t n, depth, next, step;
	int axis; /* of the weights, over filters */
	float *scale;
	int8_t *weight; /* quantised, in the order of the floats; NULL: not yet */
	double *shift;  /* correction of the bias */
	double *square; /* sums of the squares of the differences that it is the mean of */
	int64_t seen;   /* number of these for each filter */
};

struct quantizer {
	struct graph *g; /* of floats */
	const struct quantize_opts *o;
	struct arena *a; /* of the report, and of what lives until the end */
	int nvalues, ngroups, nlayers;
	struct qvalue *value;
	struct qgroup *group;
	struct qlayer *layer;
	int *at;   /* per value of the graph: its qvalue; -1: none */
	int *uses; /* per value of the graph */
	int nexamples, nheld;
	const struct quantize_example **example, **held;
};

/* Selects the values and weights that quantize_rewrite quantises. */
struct qselection {
	bool *value;   /* per qvalue */
	bool *weights; /* per layer */
};

/* Finds layers, and values with their groups. Layers that cannot be quantised get a `why`. */
int quantize_find(struct quantizer *q) MUST_CHECK;
/* Joins the groups of values that Concats join, where none of them loses much by it. Ranges must be known. */
void quantize_join(struct quantizer *q);
/* Selects nothing. */
void quantize_select_none(const struct quantizer *q, struct arena *a, struct qselection *s);
/* Selects what the layers that have no `why` need. */
void quantize_select(const struct quantizer *q, struct arena *a, struct qselection *s);

/* Finds the ranges of all values on the examples, and from them the groups' parameters. */
int quantize_calibrate(struct quantizer *q) MUST_CHECK;
/* Scale and zero point of a group with the range low to high. */
void quantize_params(double low, double high, float *scale, uint8_t *zero);
/* The range by the histogram that gives the least squared error. */
void quantize_mse(const struct qgroup *g, double *low, double *high);

/* Quantises the layer's weights. Groups must have their parameters. */
int quantize_weights(struct quantizer *q, struct qlayer *l) MUST_CHECK;
/* Finds the mean errors that all layers make, each with its weights and input quantised. */
int quantize_correct(struct quantizer *q) MUST_CHECK;

/* A copy of the graph with a selection quantised. Shares data with it. */
int quantize_rewrite(const struct quantizer *q, const struct qselection *s, struct graph **out) MUST_CHECK;
/* Adds to g the dequantised weights of a layer. Returns their value. */
int quantize_add_weights(const struct quantizer *q, struct graph *g, const struct qlayer *l) MUST_CHECK;
/* Adds to g a value that is `from`, a value of floats, quantised and dequantised. Returns it. */
int quantize_add_pair(const struct quantizer *q, struct graph *g, int from,
		      const struct qvalue *v) MUST_CHECK;

/* A graph that runs. */
struct qnet {
	struct graph *g;
	struct arena arena;
	struct plan *plan;
	struct tensor *out;
};

/* Takes g. */
int qnet_open(struct graph *g, const struct quantize_opts *o, struct qnet *net) MUST_CHECK;
/* Runs it; the outputs are in net->out until the next run. */
int qnet_run(struct qnet *net, const struct quantize_example *e) MUST_CHECK;
void qnet_close(struct qnet *net);

/* Measures each part alone, on some of the examples. */
int quantize_scan(struct quantizer *q) MUST_CHECK;
/* Gives the worst parts back to fp32 while the limits of the options are not met. Returns how many layers it
 * gave. most: the limit of the prediction; 0: none. */
int quantize_give_back(struct quantizer *q, double most);
double quantize_predict(const struct quantizer *q);
/* Sets the errors of the layers' rows. */
void quantize_fill_rows(struct quantizer *q);
/* Measures the error of a graph, which it takes, on n examples. */
int quantize_measure(const struct quantizer *q, struct graph *g, const struct quantize_example *const *e,
		     int n, const char *stage, double *error) MUST_CHECK;

#endif
