/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX test folders: model.onnx beside test_data_set_N with input_K.pb and output_K.pb. */
#ifndef TOOLS_ONNX_CASE_H
#define TOOLS_ONNX_CASE_H

#include "kernels/graph/graph.h"

enum case_result { CASE_PASSED, CASE_FAILED, CASE_SKIPPED };

/* Runs a graph, which it may change: `in` in the graph's order, out[i] for graph output i, in the arena. */
struct case_runner {
	int (*run)(void *ctx, struct graph *g, const struct tensor *in, struct tensor *out, struct arena *a);
	void *ctx;
};
extern const struct case_runner case_reference; /* by eval_graph */

struct case_gate {
	double rel, abs;         /* per element: |got - ref| <= abs + rel * |ref| */
	double max_rel, max_abs; /* or, for all: |got - ref| <= max_abs + max_rel * max|ref| */
};
extern const struct case_gate case_gate_onnx; /* ONNX's own, or the one for whole networks */
extern const struct case_gate case_gate_fp32; /* 2e-4 of the largest value and 1e-6 */

/* All data sets of one folder. Skipped: an operator, attribute or type is not supported. `why` says what of a
 * case that did not pass. worst (or NULL): the largest |got - ref| of any output over
 * max|ref| (plus max_abs / max_rel, so that outputs that are all but zero do not stand out). */
enum case_result case_check(const char *dir, const struct case_runner *run, const struct case_gate *gate,
			    char why[512], double *worst);
/* The same for a model that lies elsewhere: `dir` holds test_data_set_N folders, or is one itself. */
enum case_result case_check_model(const char *model, const char *dir, const struct case_runner *run,
				  const struct case_gate *gate, char why[512], double *worst);
/* Every folder with a model.onnx at or below `dir`, sorted; E_NOTFOUND if there is none. Returns the count.
 */
int case_find(struct arena *a, const char *dir, char ***out) MUST_CHECK;

#endif
