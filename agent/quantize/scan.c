/* SPDX-License-Identifier: Apache-2.0 */
/* Errors at the outputs of the network: of each part alone, and of all together. */
#include "agent/quantize/quantize_parts.h"

#include <math.h>
#include <string.h>

/* ---- errors ---- */

/* |got - ref|^2 / |ref|^2. Elements where the reference is not finite do not count. */
static double relative_square(const struct tensor *got, const struct tensor *ref)
{
	double diff = 0, most = 0;
	for (int64_t i = 0; i < shape_count(&ref->shape); i++) {
		double g = tensor_get(got, i), r = tensor_get(ref, i);
		if (!isfinite(r))
			continue;
		diff += (g - r) * (g - r);
		most += r * r;
	}
	if (!(diff < INFINITY))
		return INFINITY;
	return most > 0 ? diff / most : diff > 0;
}

/* The root of the means over n examples, of the output where it is largest. */
static double largest(const double *sum, int outputs, int n)
{
	double most = 0;
	for (int i = 0; i < outputs; i++)
		most = fmax(most, sqrt(sum[i] / n));
	return most;
}

/* A copy of the outputs in the arena. */
static int keep_outputs(const struct qnet *net, struct arena *a, struct tensor **out)
{
	*out = ARENA_ARRAY(a, struct tensor, net->g->noutputs + 1);
	for (int i = 0; i < net->g->noutputs; i++) {
		const struct tensor *t = &net->out[i];
		int rc = tensor_alloc(a, t->dtype, &t->shape, &(*out)[i]);
		if (rc < 0)
			return rc;
		memcpy((*out)[i].data, t->data, (size_t)shape_count(&t->shape) * dtype_bytes(t->dtype));
	}
	return E_OK;
}

/* The answers of the network of floats on the examples of the scan. */
struct answers {
	struct arena arena;
	int n;
	const struct quantize_example **example;
	struct tensor **out; /* per example */
};

static int find_answers(const struct quantizer *q, const struct quantize_example *const *e, int of, int n,
			struct answers *as)
{
	struct qnet net;
	int rc = qnet_open(graph_copy(q->d.g), q->o, &net);
	*as = (struct answers){.n = n};
	as->example = ARENA_ARRAY(&as->arena, const struct quantize_example *, n + 1);
	as->out = ARENA_ARRAY(&as->arena, struct tensor *, n + 1);
	for (int i = 0; i < n && rc >= 0; i++) {
		as->example[i] = e[(int64_t)i * of / n];
		rc = qnet_run(&net, as->example[i]);
		if (rc >= 0)
			rc = keep_outputs(&net, &as->arena, &as->out[i]);
	}
	if (net.g)
		qnet_close(&net);
	return rc;
}

/* The error of a graph, which it takes. */
static int error_of(const struct quantizer *q, const struct answers *as, struct graph *g, double *error)
{
	struct qnet net;
	double *sum = ARENA_ARRAY(&g->arena, double, g->noutputs + 1);
	int rc = qnet_open(g, q->o, &net);
	if (rc < 0)
		return rc;
	for (int i = 0; i < as->n && rc >= 0; i++) {
		rc = qnet_run(&net, as->example[i]);
		for (int k = 0; k < g->noutputs && rc >= 0; k++)
			sum[k] += relative_square(&net.out[k], &as->out[i][k]);
	}
	*error = largest(sum, g->noutputs, as->n);
	qnet_close(&net);
	return rc;
}

int quantize_measure(const struct quantizer *q, struct graph *g, const struct quantize_example *const *e,
		     int n, const char *stage, double *error)
{
	struct qnet ref, net = {0};
	double *sum = ARENA_ARRAY(&g->arena, double, g->noutputs + 1);
	int rc = qnet_open(g, q->o, &net);
	if (rc < 0)
		return rc;
	rc = qnet_open(graph_copy(q->d.g), q->o, &ref);
	for (int i = 0; i < n && rc >= 0; i++) {
		if (q->o->progress)
			q->o->progress(q->o->ctx, stage, i, n);
		rc = qnet_run(&ref, e[i]);
		if (rc >= 0)
			rc = qnet_run(&net, e[i]);
		for (int k = 0; k < g->noutputs && rc >= 0; k++)
			sum[k] += relative_square(&net.out[k], &ref.out[k]);
	}
	*error = largest(sum, g->noutputs, n);
	if (ref.g)
		qnet_close(&ref);
	qnet_close(&net);
	return rc;
}

/* ---- the scan ---- */

static int scan_part(const struct quantizer *q, const struct answers *as, const struct qselection *s,
		     double *error)
{
	struct graph *g;
	int rc = quantize_copy(q, s, &g);
	return rc < 0 ? rc : error_of(q, as, g, error);
}

/* Part i of the scan: the weights of layer i, or the group i - nlayers. Returns whether it is quantised. */
static bool select_part(const struct quantizer *q, const struct qselection *all, int i, struct arena *a,
			struct qselection *s)
{
	qdq_select_none(&q->d, a, s);
	if (i < q->d.nlayers)
		return s->weights[i] = all->weights[i];
	bool any = false;
	for (int k = 0; k < q->d.nvalues; k++)
		any |= s->value[k] = all->value[k] && q->d.value[k].group == i - q->d.nlayers;
	return any;
}

static int scan_parts(struct quantizer *q, const struct answers *as, const char *stage)
{
	struct arena a = {0}, scratch = {0};
	struct qselection all, s;
	int rc = E_OK, n = q->d.nlayers + q->d.ngroups;
	qdq_select(&q->d, &a, &all);
	for (int i = 0; i < n && rc >= 0; i++) {
		double *error = i < q->d.nlayers ? &q->d.layer[i].error : &q->d.group[i - q->d.nlayers].error;
		if (q->o->progress)
			q->o->progress(q->o->ctx, stage, i, n);
		double here = NAN;
		if (select_part(q, &all, i, &scratch, &s))
			rc = scan_part(q, as, &s, &here);
		*error = fmax(*error, here); /* of a NaN and a number, the number */
		arena_reset(&scratch);
	}
	arena_free(&scratch);
	arena_free(&a);
	return rc;
}

int quantize_scan(struct quantizer *q, const struct quantize_example *const *e, int of, const char *stage)
{
	struct answers as;
	int rc = find_answers(q, e, of, q->o->scan < of ? q->o->scan : of, &as);
	if (rc >= 0)
		rc = scan_parts(q, &as, stage);
	arena_free(&as.arena);
	return rc;
}

/* ---- the rows of the report ---- */

void quantize_fill_rows(const struct quantizer *q, struct quantize_layer *row)
{
	for (int i = 0; i < q->d.nlayers; i++) {
		const struct qlayer *l = &q->d.layer[i];
		const struct node *n = &q->d.g->node[l->node];
		bool read = false;
		row[i] = (struct quantize_layer){
		    l->name, l->type, q->d.g->value[n->in[1]].t.shape, l->error, NAN, NAN, NAN, l->why};
		if (l->x < 0 || isnan(l->error))
			continue;
		for (int k = 0; k < q->d.nlayers; k++)
			read |= q->d.layer[k].x >= 0 &&
				q->d.value[q->d.layer[k].x].group == q->d.value[l->y].group;
		row[i].input_error = q->d.group[q->d.value[l->x].group].error;
		row[i].output_error = read ? 0 : q->d.group[q->d.value[l->y].group].error;
		row[i].error = sqrt(quantize_square(l->error) + quantize_square(row[i].input_error) +
				    quantize_square(row[i].output_error));
	}
}
