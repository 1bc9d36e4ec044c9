/* SPDX-License-Identifier: Apache-2.0 */
/* Compares what kernels computed with the reference, for verify and bench --submit. */
#ifndef TOOLS_COMPARE_H
#define TOOLS_COMPARE_H

#include "tools/hone/model.h"
#include "tools/hone/onnx_case.h"

/* Largest difference over the largest value; *good: it is within the gate. Integers must be equal, or with
 * `step` at most 1 apart. Tensors that cannot be compared are not good. */
double compare_tensors(const struct tensor *got, const struct tensor *ref, const struct case_gate *gate,
		       bool step, bool *good);
/* Compares a model's outputs for the inputs `in` with those of the imported graph, which no pass has changed,
 * and calls `each` for every output. recipes: the cache (NULL: none) that has the recipe of level int8.
 * *quantised: the reference is the network of integers. */
int compare_outputs(const struct args *a, const char *path, enum level level, struct cache **recipes,
		    const struct tensor *in, const struct tensor *out,
		    void (*each)(void *ctx, const char *name, double rel, bool good), void *ctx,
		    bool *quantised) MUST_CHECK;

#endif
