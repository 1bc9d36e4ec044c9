/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX test folders: model.onnx beside test_data_set_N with input_K.pb and output_K.pb. */
#ifndef TOOLS_ONNX_CASE_H
#define TOOLS_ONNX_CASE_H

#include "kernels/graph/graph.h"
#include "kernels/task/level.h"

enum case_result { CASE_PASSED, CASE_FAILED, CASE_SKIPPED };

/* Runs a graph, which it may change. `in` is in the order of the graph's inputs; out[i], for graph output i,
 * is in the arena. */
struct case_runner {
	int (*run)(void *ctx, struct graph *g, const struct tensor *in, struct tensor *out, struct arena *a);
	void *ctx;
};
extern const struct case_runner case_reference; /* evaluates with eval_graph */

struct case_gate {
	double rel, abs;         /* gate per element: |got - ref| <= abs + rel * |ref| */
	double max_rel, max_abs; /* or for the whole tensor: |got - ref| <= max_abs + max_rel * max|ref| */
};
extern const struct case_gate case_gate_onnx; /* ONNX's own tolerance, or the one for whole networks */
extern const struct case_gate case_gate_fp32; /* 2e-4 of the largest value, plus 1e-6 */
/* For weights in f16. In one layer, those transformed for F(4,3) add 2e-3 of the largest value, others 3e-4;
 * in a network the errors add up. */
extern const struct case_gate case_gate_w16; /* 1e-2, plus 1e-6 */
/* .02, plus 1e-6: of one layer that multiplies bf16, which has 8 digits, or sums in f16. */
extern const struct case_gate case_gate_pairs;
/* .2, plus 1e-6: of a network that does: the errors of its layers add up. */
extern const struct case_gate case_gate_half;
/* .2, plus 1e-6: of a quantised network against floats; hone tune measures the error. */
extern const struct case_gate case_gate_int8;
/* The gate for a whole network at a level. bytes: the network is quantised, so that a float that is rounded
 * to the other byte moves the bytes that follow from it by steps. */
const struct case_gate *case_gate_of(enum level level, bool bytes);

/* Runs all data sets of one folder. A case is skipped if an operator, attribute or type is not supported.
 * `why` says why a case did not pass. worst (or NULL): the largest |got - ref| of any output over max|ref|
 * (plus max_abs / max_rel, so that outputs near zero do not dominate). */
enum case_result case_check(const char *dir, const struct case_runner *run, const struct case_gate *gate,
			    char why[512], double *worst);
/* The same for a model in another folder: `dir` holds test_data_set_N folders, or is one itself. */
enum case_result case_check_model(const char *model, const char *dir, const struct case_runner *run,
				  const struct case_gate *gate, char why[512], double *worst);
/* Lists every folder with a model.onnx at or below `dir`, sorted. Returns the count; E_NOTFOUND if there is
 * none. */
int case_find(struct arena *a, const char *dir, char ***out) MUST_CHECK;

#endif
