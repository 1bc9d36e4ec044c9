/* SPDX-License-Identifier: Apache-2.0 */
/* The correction of biases. */
#include "agent/quantize/quantize_parts.h"

#include <math.h>
#include <string.h>

#define MOST_STEPS 1e9 /* a bias and its correction are 32 bits */

/* Sums over a layer's outputs, per filter. */
struct sums {
	double *difference, *square;
	int64_t n; /* of outputs, for each filter */
};

/* Adds a layer's node once more, with quantised weights and input. Returns the value that it writes. */
static int add_twin(const struct quantizer *q, struct graph *g, const struct qlayer *l)
{
	int x = qdq_add_pair(&q->d, g, q->d.value[l->x].value, &q->d.value[l->x]);
	int w = x < 0 ? x : qdq_add_weights(&q->d, g, l);
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
	int *output = ARENA_ARRAY(&g->arena, int, g->noutputs + 2 * q->d.nlayers + 1);
	memcpy(output, g->output, sizeof *output * (size_t)g->noutputs);
	g->output = output;
	for (int i = 0; i < q->d.nlayers; i++) {
		const struct qlayer *l = &q->d.layer[i];
		if (l->why)
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

static int make_sums(const struct quantizer *q, struct arena *a, struct sums **out)
{
	struct sums *s = *out = ARENA_ARRAY(a, struct sums, q->d.nlayers + 1);
	for (int i = 0; i < q->d.nlayers; i++) {
		if (q->d.layer[i].why)
			continue;
		s[i].difference = arena_try(a, (size_t)q->d.layer[i].n, sizeof *s->difference);
		s[i].square = arena_try(a, (size_t)q->d.layer[i].n, sizeof *s->square);
		if (!s[i].difference || !s[i].square)
			return E_NOMEM;
	}
	return E_OK;
}

/* Adds the differences of two tensors. Of a Conv, channels are dimension 1. */
static void add_differences(const struct qlayer *l, const struct tensor *own, const struct tensor *twin,
			    struct sums *s)
{
	const float *x = own->data, *y = twin->data;
	int64_t count = shape_count(&own->shape), inner = 1;
	for (int d = 2; d < own->shape.rank && !strcmp(l->type, "Conv"); d++)
		inner *= own->shape.d[d];
	for (int64_t i = 0; i < count; i += inner) {
		int64_t channel = i / inner % l->n;
		for (int64_t k = i; k < i + inner; k++) {
			double d = (double)x[k] - (double)y[k];
			s->difference[channel] += d;
			s->square[channel] += d * d;
		}
	}
	s->n += count / l->n;
}

static void add_run(const struct quantizer *q, const struct qnet *net, struct sums *s)
{
	int at = q->d.g->noutputs;
	for (int i = 0; i < q->d.nlayers; i++) {
		if (q->d.layer[i].why)
			continue;
		add_differences(&q->d.layer[i], &net->out[at], &net->out[at + 1], &s[i]);
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

/* A correction is a whole number of the bias's steps. */
static void take_means(struct quantizer *q, const struct sums *s)
{
	for (int i = 0; i < q->d.nlayers; i++) {
		struct qlayer *l = &q->d.layer[i];
		for (int64_t k = 0; !l->why && k < l->n && s[i].n; k++) {
			double step = (double)qdq_bias_step(&q->d, l, k);
			double steps = rint(mean_of(s[i].difference[k], s[i].square[k], s[i].n) / step);
			l->shift[k] = fabs(steps) < MOST_STEPS ? steps * step : 0;
		}
	}
}

static int correct(struct quantizer *q, struct qnet *net, struct sums *s)
{
	int rc = E_OK;
	for (int e = 0; e < q->nexamples && rc >= 0; e++) {
		if (q->o->progress)
			q->o->progress(q->o->ctx, "bias correction", e, q->nexamples);
		rc = qnet_run(net, q->example[e]);
		if (rc >= 0)
			add_run(q, net, s);
	}
	if (rc >= 0)
		take_means(q, s);
	return rc;
}

int quantize_correct(struct quantizer *q)
{
	struct qnet net = {0};
	struct arena a = {0};
	struct sums *s;
	struct graph *g = graph_copy(q->d.g);
	int rc = add_twins(q, g);
	if (rc < 0)
		graph_free(g);
	else
		rc = qnet_open(g, q->o, &net);
	if (rc >= 0)
		rc = make_sums(q, &a, &s);
	if (rc >= 0)
		rc = correct(q, &net, s);
	qnet_close(&net);
	arena_free(&a);
	return rc;
}
