/* SPDX-License-Identifier: Apache-2.0 */
/* Weights as s8. */
#include "kernels/qdq/qdq.h"

#include <math.h>
#include <string.h>

/* A bias must stay below 2^30 steps; correction, and rounding, may make it a little larger. */
#define MOST_BIAS 0.5e9
/* A filter whose weights are all 0 gets this scale. */
#define LEAST_SCALE 1e-18

double qdq_bias(const struct qdq *q, const struct qlayer *l, int64_t k)
{
	return l->bias < 0 ? 0 : (double)((const float *)q->g->value[l->bias].t.data)[k];
}

/* The scale of filter k: its largest weight is the largest integer, unless its bias needs larger steps. */
static float scale_of(const struct qdq *q, const struct qlayer *l, const float *w, int64_t k)
{
	double most = 0, x = (double)q->group[q->value[l->x].group].scale;
	for (int64_t i = 0; i < l->depth; i++)
		most = fmax(most, fabs((double)w[k * l->next + i * l->step]));
	double scale = most / (q->weight_bits == 7 ? 63 : 127);
	return (float)fmax(fmax(scale, fabs(qdq_bias(q, l, k)) / x / MOST_BIAS), LEAST_SCALE);
}

int qdq_weights(struct qdq *q, struct qlayer *l)
{
	const float *w = q->g->value[q->g->node[l->node].in[1]].t.data;
	double most = q->weight_bits == 7 ? 63 : 127;
	l->weight = arena_try(q->a, (size_t)(l->n * l->depth), 1);
	l->scale = arena_try(q->a, (size_t)l->n, sizeof *l->scale);
	l->shift = arena_try(q->a, (size_t)l->n, sizeof *l->shift);
	if (!l->weight || !l->scale || !l->shift)
		return E_NOMEM;
	for (int64_t k = 0; k < l->n; k++) {
		l->scale[k] = scale_of(q, l, w, k);
		for (int64_t i = k * l->next, n = 0; n < l->depth; n++, i += l->step)
			l->weight[i] =
			    (int8_t)fmax(-most, fmin(most, rint((double)w[i] / (double)l->scale[k])));
	}
	return E_OK;
}

float qdq_bias_step(const struct qdq *q, const struct qlayer *l, int64_t k)
{
	return q->group[q->value[l->x].group].scale * l->scale[k];
}
