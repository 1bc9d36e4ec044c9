/* SPDX-License-Identifier: Apache-2.0 */
/* Weights as s8, and the correction of biases. */
#include "agent/quantize/quantize_parts.h"

#include <math.h>
#include <string.h>

/* A bias must stay below 2^30 steps; correction, and rounding, may make it a little larger. */
#define MOST_BIAS 0.5e9
#define LEAST_SCALE 1e-18

static double bias_of(const struct quantizer *q, const struct qlayer *l, int64_t k)
{
	return l->bias < 0 ? 0 : (double)((const float *)q->g->value[l->bias].t.data)[k];
}

/* The scale of filter k: its largest weight is the largest integer, unless its bias needs larger steps. */
static float scale_of(const struct quantizer *q, const struct qlayer *l, const float *w, int64_t k)
{
	double most = 0, x = (double)q->group[q->value[l->x].group].scale;
	for (int64_t i = 0; i < l->depth; i++)
		most = fmax(most, fabs((double)w[k * l->next + i * l->step]));
	double scale = most / (q->o->weight_bits == 7 ? 63 : 127);
	return (float)fmax(fmax(scale, fabs(bias_of(q, l, k)) / x / MOST_BIAS), LEAST_SCALE);
}

int quantize_weights(struct quantizer *q, struct qlayer *l)
{
	const float *w = q->g->value[q->g->node[l->node].in[1]].t.data;
	double most = q->o->weight_bits == 7 ? 63 : 127;
	l->weight = arena_try(q->a, (size_t)(l->n * l->depth), 1);
	l->scale = arena_try(q->a, (size_t)l->n, sizeof *l->scale);
	l->shift = arena_try(q->a, (size_t)l->n, sizeof *l->shift);
	l->square = arena_try(q->a, (size_t)l->n, sizeof *l->square);
	if (!l->weight || !l->scale || !l->shift || !l->square)
		return E_NOMEM;
	for (int64_t k = 0; k < l->n; k++) {
		l->scale[k] = scale_of(q, l, w, k);
		for (int64_t i = k * l->next, n = 0; n < l->depth; n++, i += l->step)
			l->weight[i] =
			    (int8_t)fmax(-most, fmin(most, rint((double)w[i] / (double)l->scale[k])));
	}
	return E_OK;
}

/* ---- correction ---- */

/* Adds a layer's node once more, with quantised weights and input. Returns the value that it writes. */
static int add_twin(const struct quantizer *q, struct graph *g, const struct qlayer *l)
{
	int x = quantize_add_pair(q, g, q->value[l->x].value, &q->value[l->x]);
	int w = x < 0 ? x : quantize_add_weights(q, g, l);
	int y = w < 0 ? w : graph_add_value(g, "twin");
	if (y < 0)
		return y;
	const struct node *n = &g->node[l->node];
	int in[3] = {x, w, n->nin > 2 ? n->in[2] : -1};
	int rc = graph_add_node(g, node_type(n), n->name, n->opset, n->nin < 3 ? n->nin : 3, in, 1, &y,
				n->nattr, n->attr);
	g->value[y].t = g->value[n->out[0]].t;
	return rc < 0 ? rc : y;
}

/* The graph with outputs of every layer and of its twin, behind its own outputs. */
static int add_twins(const struct quantizer *q, struct graph *g)
{
	int *output = ARENA_ARRAY(&g->arena, int, g->noutputs + 2 * q->nlayers + 1);
	memcpy(output, g->output, sizeof *output * (size_t)g->noutputs);
	g->output = output;
	for (int i = 0; i < q->nlayers; i++) {
		const struct qlayer *l = &q->layer[i];
		if (l->row->why)
			continue;
		int twin = add_twin(q, g, l), own = g->node[l->node].out[0];
		if (twin < 0)
			return twin;
		output[g->noutputs++] = own;
		output[g->noutputs++] = twin;
		g->value[own].is_output = g->value[twin].is_output = true;
	}
	return graph_sort(g);
}

/* Adds the differences of two tensors, and their squares, to the sums of the channels. Of a Conv, channels
 * are dimension 1. */
static void add_differences(struct qlayer *l, bool conv, const struct tensor *own, const struct tensor *twin)
{
	const float *x = own->data, *y = twin->data;
	int64_t count = shape_count(&own->shape), inner = 1;
	for (int d = 2; d < own->shape.rank && conv; d++)
		inner *= own->shape.d[d];
	for (int64_t i = 0; i < count; i += inner) {
		int64_t channel = i / inner % l->n;
		for (int64_t k = i; k < i + inner; k++) {
			double d = (double)x[k] - (double)y[k];
			l->shift[channel] += d;
			l->square[channel] += d * d;
		}
	}
	l->seen += count / l->n;
}

static void add_run(struct quantizer *q, const struct qnet *net)
{
	int at = q->g->noutputs;
	for (int i = 0; i < q->nlayers; i++) {
		struct qlayer *l = &q->layer[i];
		if (l->row->why)
			continue;
		add_differences(l, !strcmp(l->row->type, "Conv"), &net->out[at], &net->out[at + 1]);
		at += 2;
	}
}

/* The mean of n differences, less what chance makes of it: few differences say nothing about others (the
 * positive part of James and Stein's estimator). */
static double mean_of(double sum, double square, int64_t n)
{
	double mean = sum / (double)n, chance = (square / (double)n - mean * mean) / (double)n;
	return mean != 0 && n > 1 ? mean * fmax(0, 1 - chance / (mean * mean)) : 0;
}

static void take_means(struct quantizer *q)
{
	for (int i = 0; i < q->nlayers; i++) {
		struct qlayer *l = &q->layer[i];
		for (int64_t k = 0; l->shift && k < l->n && l->seen; k++)
			l->shift[k] = mean_of(l->shift[k], l->square[k], l->seen);
	}
}

int quantize_correct(struct quantizer *q)
{
	struct qnet net = {0};
	struct graph *g = graph_copy(q->g);
	int rc = add_twins(q, g);
	if (rc < 0)
		graph_free(g);
	else
		rc = qnet_open(g, q->o, &net);
	for (int e = 0; e < q->nexamples && rc >= 0; e++) {
		if (q->o->progress)
			q->o->progress(q->o->ctx, "bias correction", e, q->nexamples);
		rc = qnet_run(&net, q->example[e]);
		if (rc >= 0)
			add_run(q, &net);
	}
	if (rc >= 0)
		take_means(q);
	qnet_close(&net);
	return rc;
}
