/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/graph/weights.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK = 1024 };

/* Whether a block holds NaN: without a branch per element, which would take most of the time of large models.
 */
static bool block_has_nan(const float *p)
{
	int bad = 0;
	for (int i = 0; i < BLOCK; i++)
		bad |= p[i] != p[i];
	return bad;
}

/* Index of the first NaN; -1: none. */
static int64_t find_nan(const struct tensor *t)
{
	bool real = t->dtype == DT_F32 || t->dtype == DT_F64 || t->dtype == DT_F16 || t->dtype == DT_BF16;
	int64_t n = t->data && real ? shape_count(&t->shape) : 0, i = 0;
	while (t->dtype == DT_F32 && i + BLOCK <= n && !block_has_nan((const float *)t->data + i))
		i += BLOCK;
	for (; i < n; i++)
		if (isnan(tensor_get(t, i)))
			return i;
	return -1;
}

const char *weights_nan(const struct graph *g, struct arena *a)
{
	const struct value *first = NULL;
	int64_t index = 0;
	int more = 0;
	for (int i = 0; i < g->nvalues; i++) {
		int64_t at = find_nan(&g->value[i].t);
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
	return arena_printf(a, "weight '%.200s' holds NaN at index %lld of %lld%s", first->name,
			    (long long)index, (long long)shape_count(&first->t.shape), others);
}
