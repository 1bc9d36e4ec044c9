/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of values on the examples: first the least and largest, then histograms. */
#include "agent/quantize/quantize_parts.h"

#include <float.h>
#include <math.h>

enum { TRIED = 29, MOST_STEP = 255 };
#define LEAST_PART 0.3

void quantize_params(double low, double high, float *scale, uint8_t *zero)
{
	low = fmin(low, 0);
	high = fmax(high, 0);
	*scale = high > low ? (float)((high - low) / MOST_STEP) : 1;
	if (*scale < QDQ_LEAST_SCALE)
		*scale = QDQ_LEAST_SCALE;
	*zero = (uint8_t)fmin(rint(-low / (double)*scale), MOST_STEP);
}

/* ---- running ---- */

/* A copy of the graph that also outputs all values to be observed. out[i]: the output of qvalue i; -1: it is
 * input -1 - out[i]. */
struct observed {
	struct qnet net;
	int *out;
	bool *input;
};

static int index_of(const int *list, int n, int v)
{
	for (int i = 0; i < n; i++)
		if (list[i] == v)
			return i;
	return -1;
}

static int observe_open(const struct quantizer *q, struct arena *a, struct observed *ob)
{
	struct graph *g = graph_copy(q->d.g);
	int *output = ARENA_ARRAY(&g->arena, int, g->noutputs + q->d.nvalues + 1);
	for (int i = 0; i < g->noutputs; i++)
		output[i] = g->output[i];
	g->output = output;
	ob->out = ARENA_ARRAY(a, int, q->d.nvalues + 1);
	ob->input = ARENA_ARRAY(a, bool, q->d.nvalues + 1);
	for (int i = 0; i < q->d.nvalues; i++) {
		int v = q->d.value[i].value;
		ob->input[i] = g->value[v].is_input;
		ob->out[i] = index_of(g->value[v].is_input ? g->input : output,
				      g->value[v].is_input ? g->ninputs : q->d.g->noutputs, v);
		if (ob->out[i] >= 0)
			continue;
		ob->out[i] = g->noutputs;
		g->output[g->noutputs++] = v;
		g->value[v].is_output = true;
	}
	return qnet_open(g, q->o, &ob->net);
}

static const struct tensor *observed_tensor(const struct observed *ob, const struct quantize_example *e,
					    int i)
{
	return ob->input[i] ? &e->in[ob->out[i]] : &ob->net.out[ob->out[i]];
}

typedef int observe_fn(struct quantizer *q, int i, const float *x, int64_t n, const char *example);

/* Calls fn for each value on each example. */
static int observe(struct quantizer *q, const char *stage, observe_fn *fn)
{
	struct arena a = {0};
	struct observed ob = {0};
	int rc = observe_open(q, &a, &ob);
	for (int e = 0; e < q->nexamples && rc >= 0; e++) {
		if (q->o->progress)
			q->o->progress(q->o->ctx, stage, e, q->nexamples);
		rc = qnet_run(&ob.net, q->example[e]);
		for (int i = 0; i < q->d.nvalues && rc >= 0; i++) {
			const struct tensor *t = observed_tensor(&ob, q->example[e], i);
			rc = fn(q, i, t->data, shape_count(&t->shape), q->example[e]->name);
		}
	}
	if (ob.net.g)
		qnet_close(&ob.net);
	arena_free(&a);
	return rc;
}

/* ---- ranges ---- */

static int see_range(struct quantizer *q, int i, const float *x, int64_t n, const char *example)
{
	struct qvalue *v = &q->d.value[i];
	double low = v->low, high = v->high;
	for (int64_t k = 0; k < n; k++) {
		if (!isfinite(x[k]))
			return fail(
			    E_CORRUPT,
			    "%s makes '%s' NaN or infinite: check the model and its inputs with hone run",
			    example, q->d.g->value[v->value].name);
		low = (double)x[k] < low ? (double)x[k] : low;
		high = (double)x[k] > high ? (double)x[k] : high;
	}
	v->low = low;
	v->high = high;
	return E_OK;
}

static void widen_groups(struct quantizer *q)
{
	q->d.group = ARENA_ARRAY(q->d.a, struct qgroup, q->d.nvalues + 1);
	q->d.ngroups = q->d.nvalues;
	for (int i = 0; i < q->d.nvalues; i++) {
		struct qgroup *g = &q->d.group[q->d.value[i].group];
		g->low = fmin(g->low, q->d.value[i].low);
		g->high = fmax(g->high, q->d.value[i].high);
		g->error = NAN;
	}
}

/* Layers that read or write values without bound stay fp32. */
static void refuse_large(struct quantizer *q)
{
	for (int i = 0; i < q->d.nlayers; i++) {
		struct qlayer *l = &q->d.layer[i];
		if (l->why)
			continue;
		const struct qgroup *x = &q->d.group[q->d.value[l->x].group],
				    *y = &q->d.group[q->d.value[l->y].group];
		if (fmax(x->high - x->low, y->high - y->low) > QDQ_MOST_VALUE)
			l->why = "its values exceed 1e18";
	}
}

/* ---- histograms ---- */

static int see_values(struct quantizer *q, int i, const float *x, int64_t n, const char *example)
{
	struct qgroup *g = &q->d.group[q->d.value[i].group];
	double per = QUANTIZE_BINS / (g->high - g->low);
	(void)example;
	if (!(g->high > g->low) || !isfinite(per))
		return E_OK;
	if (!g->count) {
		g->count = ARENA_ARRAY(q->d.a, double, QUANTIZE_BINS);
		g->sum = ARENA_ARRAY(q->d.a, double, QUANTIZE_BINS);
	}
	for (int64_t k = 0; k < n; k++) {
		double at = ((double)x[k] - g->low) * per;
		int bin = at > 0 ? (int)fmin(at, QUANTIZE_BINS - 1) : 0;
		g->count[bin]++;
		g->sum[bin] += (double)x[k];
	}
	return E_OK;
}

static double squared_error(const struct qgroup *g, float scale, uint8_t zero)
{
	double error = 0, s = (double)scale;
	for (int i = 0; i < QUANTIZE_BINS; i++) {
		if (g->count[i] == 0)
			continue;
		double v = g->sum[i] / g->count[i];
		double q = fmax(0, fmin(MOST_STEP, rint(v / s) + zero)) - zero;
		error += g->count[i] * (q * s - v) * (q * s - v);
	}
	return error;
}

void quantize_mse(const struct qgroup *g, double *low, double *high)
{
	double least = INFINITY;
	*low = g->low;
	*high = g->high;
	for (int k = TRIED - 1; k >= 0 && g->count; k--) {
		double part = LEAST_PART + (1 - LEAST_PART) * k / (TRIED - 1);
		float scale;
		uint8_t zero;
		quantize_params(g->low * part, g->high * part, &scale, &zero);
		double error = squared_error(g, scale, zero);
		if (error < least) {
			least = error;
			*low = g->low * part;
			*high = g->high * part;
		}
	}
}

int quantize_calibrate(struct quantizer *q)
{
	int rc = observe(q, "ranges", see_range);
	if (rc < 0)
		return rc;
	qdq_join(&q->d);
	widen_groups(q);
	refuse_large(q);
	if (q->o->ranges == RANGES_MSE)
		rc = observe(q, "histograms", see_values);
	for (int i = 0; i < q->d.ngroups && rc >= 0; i++) {
		struct qgroup *g = &q->d.group[i];
		double low, high;
		quantize_mse(g, &low, &high);
		quantize_params(low, high, &g->scale, &g->zero);
	}
	return rc;
}
