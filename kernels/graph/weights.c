/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/graph/weights.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK = 1024 };

/* Whether a block holds NaN or an infinity: without a branch per element, which would take most of the time
 * of large models. */
static bool block_is_odd(const float *p)
{
	int odd = 0;
	for (int i = 0; i < BLOCK; i++)
		odd |= !(p[i] - p[i] == 0);
	return odd;
}

/* Index of the first NaN, or of the first infinity; -1: none. */
static int64_t find(const struct tensor *t, bool nan)
{
	bool real = t->dtype == DT_F32 || t->dtype == DT_F64 || t->dtype == DT_F16 || t->dtype == DT_BF16;
	int64_t n = t->data && real ? shape_count(&t->shape) : 0, i = 0;
	while (i < n) {
		if (t->dtype == DT_F32 && i + BLOCK <= n && !block_is_odd((const float *)t->data + i)) {
			i += BLOCK;
			continue;
		}
		for (int64_t end = i + BLOCK < n ? i + BLOCK : n; i < end; i++)
			if (nan ? isnan(tensor_get(t, i)) : isinf(tensor_get(t, i)))
				return i;
	}
	return -1;
}

/* Marks the constants that a sum of products multiplies. Elsewhere an infinity is in order: masks hold them.
 */
static void mark_factors(const struct graph *g, bool *is)
{
	static const char *const types[] = {"Conv",   "ConvTranspose", "Gemm", "MatMul",
					    "Einsum", "LSTM",          "GRU",  "RNN"};
	for (int i = 0; i < g->nnodes; i++)
		for (size_t k = 0; k < sizeof types / sizeof *types; k++)
			for (int j = 0; !strcmp(node_type(&g->node[i]), types[k]) && j < g->node[i].nin; j++)
				if (g->node[i].in[j] >= 0)
					is[g->node[i].in[j]] = true;
}

/* among: of each value, whether it counts; NULL: all do. */
static const char *holds(const struct graph *g, const bool *among, bool nan, struct arena *a)
{
	const struct value *first = NULL;
	int64_t index = 0;
	int more = 0;
	for (int i = 0; i < g->nvalues; i++) {
		int64_t at = !among || among[i] ? find(&g->value[i].t, nan) : -1;
		if (at < 0)
			continue;
		more += first != NULL;
		index = first ? index : at;
		first = first ? first : &g->value[i];
	}
	if (!first)
		return NULL;
	char others[64] = "";
	if (more)
		snprintf(others, sizeof others, " (and %d more weight%s)", more,
			 more == 1 ? " does" : "s do");
	return arena_printf(a, "weight '%.200s' holds %s at index %lld of %lld%s", first->name,
			    nan ? "NaN" : "an infinity", (long long)index,
			    (long long)shape_count(&first->t.shape), others);
}

const char *weights_nan(const struct graph *g, struct arena *a)
{
	return holds(g, NULL, true, a);
}

const char *weights_infinite(const struct graph *g, struct arena *a)
{
	bool *factor = ARENA_ARRAY(a, bool, g->nvalues + 1);
	mark_factors(g, factor);
	return holds(g, factor, false, a);
}

const char *weights_odd(const struct graph *g, struct arena *a)
{
	const char *nan = weights_nan(g, a);
	return nan ? nan : weights_infinite(g, a);
}
