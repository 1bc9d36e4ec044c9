/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this folder. */
#ifndef AGENT_QUANTIZE_PARTS_H
#define AGENT_QUANTIZE_PARTS_H

#include "agent/quantize/quantize.h"
#include "agent/run/plan.h"
#include "kernels/qdq/qdq.h"

#include <math.h>

enum {
	QUANTIZE_BINS = 2048,
	QUANTIZE_HOPELESS = 2 /* a layer whose error alone is so many times the limit is not tried */
};

struct quantizer {
	struct qdq d;
	const struct quantize_opts *o;
	int nexamples, nheld;
	const struct quantize_example **example, **held;
};

/* Finds the ranges of all values on the examples, and from them the groups' parameters. */
int quantize_calibrate(struct quantizer *q) MUST_CHECK;
/* Scale and zero point of a group with the range low to high. */
void quantize_params(double low, double high, float *scale, uint8_t *zero);
/* The range by the histogram that gives the least squared error. */
void quantize_mse(const struct qgroup *g, double *low, double *high);

/* Finds the mean errors that all layers make, each with its weights and input quantised. */
int quantize_correct(struct quantizer *q) MUST_CHECK;

/* A copy of the graph with a selection quantised, or with all layers that have no `why`. Shares data with
 * it. */
int quantize_copy(const struct quantizer *q, const struct qselection *s, struct graph **out) MUST_CHECK;
int quantize_copy_all(const struct quantizer *q, struct graph **out) MUST_CHECK;

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

/* Measures each part alone, on some of the `of` examples. A part that was measured before keeps the larger
 * error. */
int quantize_scan(struct quantizer *q, const struct quantize_example *const *e, int of,
		  const char *stage) MUST_CHECK;
/* The square of an error; of a NaN, which was not measured, 0. */
static inline double quantize_square(double v)
{
	return isnan(v) ? 0 : v * v;
}
/* Gives layers back to fp32 until the limits of the options are met, or none is quantised; fills the report's
 * errors (settle.c). */
int quantize_settle(struct quantizer *q, struct quantize_report *r) MUST_CHECK;
int quantize_count(const struct quantizer *q); /* layers that are quantised */
/* Fills the report's rows of layers. */
void quantize_fill_rows(const struct quantizer *q, struct quantize_layer *row);
/* Measures the error of a graph, which it takes, on n examples. */
int quantize_measure(const struct quantizer *q, struct graph *g, const struct quantize_example *const *e,
		     int n, const char *stage, double *error) MUST_CHECK;

#endif
