/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/compare.h"
#include "kernels/graph/eval.h"
#include "kernels/graph/optimize.h"
#include "kernels/task/task_stage.h"
#include "platform/base/until.h"
#include <math.h>
#include <string.h>

/* Whether the model rounds floats to bytes. */
static bool quantises(const struct graph *g)
{
	for (int i = 0; i < g->nnodes; i++) {
		const char *type = node_type(&g->node[i]);
		if (!g->node[i].dead && (strstr(type, "QuantizeLinear") || !strncmp(type, "QLinear", 7)))
			return true;
	}
	return false;
}

double compare_tensors(const struct tensor *got, const struct tensor *ref, const struct case_gate *gate,
		       bool step, bool *good)
{
	double diff = 0, most = 0;
	if (tensor_compare(got, ref, &diff, &most) < 0) {
		*good = false;
		return INFINITY;
	}
	bool real = ref->dtype == DT_F32 || ref->dtype == DT_F64;
	*good = real ? diff <= gate->max_abs + gate->max_rel * most : diff <= step;
	return diff / fmax(most, 1e-30);
}

int compare_outputs(const struct args *a, const char *path, enum level level, struct cache **recipes,
		    const struct tensor *in, const struct tensor *out,
		    void (*each)(void *ctx, const char *name, double rel, bool good), void *ctx,
		    bool *quantised)
{
	struct graph *g;
	struct arena arena = {0};
	int rc = model_import(a, path, &g);
	if (rc < 0)
		return rc;
	rc = recipe_use(recipes, 1, level, g, NULL);
	if (rc >= 0)
		rc = graph_quantize(g); /* integer operators define the answer of a quantised network */
	struct tensor *ref = ARENA_ARRAY(&arena, struct tensor, g->nvalues + 1);
	if (rc >= 0)
		rc = eval_graph(g, in, ref, &arena);
	*quantised = quantises(g);
	const struct case_gate *gate = case_gate_of(level, *quantised);
	struct until *limit = until_set(NULL); /* copies that are cut would look wrong */
	for (int i = 0; i < g->noutputs && rc >= 0; i++) {
		bool good, bytes = dtype_is_byte(out[i].dtype);
		double rel = compare_tensors(&out[i], &ref[g->output[i]], gate, false, &good);
		good |= bytes && rel <= gate->max_rel;
		each(ctx, g->value[g->output[i]].name, rel, good);
	}
	until_set(limit);
	graph_free(g);
	arena_free(&arena);
	return rc;
}
