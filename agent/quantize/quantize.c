/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/recipe.h"
#include "agent/quantize/quantize.h"
#include "agent/quantize/quantize_parts.h"
#include "kernels/graph/eval.h"
#include "platform/base/near.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HELD_OUT = 5 }; /* one of so many examples */

/* ---- examples ---- */

static int check_tensor(const struct graph *g, int i, const struct quantize_example *e)
{
	const struct value *v = &g->value[g->input[i]];
	const struct tensor *t = &e->in[i];
	if (t->dtype != v->t.dtype || !shape_equal(&t->shape, &v->t.shape)) {
		char want[160], got[160];
		shape_text(&v->t.shape, want);
		shape_text(&t->shape, got);
		return fail(E_USAGE, "%s is %s %s; input '%s' is %s %s", e->name, dtype_name(t->dtype), got,
			    v->name, dtype_name(v->t.dtype), want);
	}
	for (int64_t k = 0; k < shape_count(&t->shape) && t->dtype == DT_F32; k++)
		if (!isfinite(((const float *)t->data)[k]))
			return fail(E_CORRUPT, "%s: a value for input '%s' is NaN or infinite", e->name,
				    v->name);
	return E_OK;
}

/* Checks the examples and holds some out. */
static int take_examples(struct quantizer *q, const struct quantize_example *e, int n)
{
	int held = n < 2 ? 0 : n < HELD_OUT ? 1 : n / HELD_OUT;
	if (n < 1)
		return fail(E_USAGE, "no examples: ranges of values come from examples of inputs");
	q->example = ARENA_ARRAY(q->d.a, const struct quantize_example *, n + 1);
	q->held = ARENA_ARRAY(q->d.a, const struct quantize_example *, held + 1);
	for (int i = 0; i < n; i++) {
		for (int k = 0; k < q->d.g->ninputs; k++) {
			int rc = check_tensor(q->d.g, k, &e[i]);
			if (rc < 0)
				return rc;
		}
		bool out = q->nheld < held && (i % HELD_OUT == HELD_OUT - 1 || i == n - 1);
		if (out)
			q->held[q->nheld++] = &e[i];
		else
			q->example[q->nexamples++] = &e[i];
	}
	return E_OK;
}

/* ---- layers ---- */

static int keep_named(struct quantizer *q, const char *name)
{
	struct near near;
	int found = 0;
	near_begin(&near, name);
	for (int i = 0; i < q->d.nlayers; i++) {
		struct qlayer *l = &q->d.layer[i];
		near_add(&near, l->name);
		if (strcmp(l->name, name) != 0)
			continue;
		found++;
		if (!l->why)
			l->why = "it was named";
	}
	if (found)
		return E_OK;
	return near.best ? fail(E_USAGE, "the model has no layer '%s'; did you mean '%s'?", name, near.best)
			 : fail(E_USAGE, "the model has no layer '%s'; its first one is '%s'", name,
				q->d.layer[0].name);
}

int quantize_count(const struct quantizer *q)
{
	int n = 0;
	for (int i = 0; i < q->d.nlayers; i++)
		n += !q->d.layer[i].why;
	return n;
}

static int find_layers(struct quantizer *q)
{
	int rc = qdq_find(&q->d);
	for (int i = 0; i < q->o->nkeep && rc >= 0; i++)
		rc = keep_named(q, q->o->keep[i]);
	if (rc >= 0 && !quantize_count(q))
		rc = fail(E_USAGE, "no layer may be quantised: '%s' stays fp32 because %s",
			  q->d.layer[0].name, q->d.layer[0].why);
	return rc;
}

static int prepare_layers(struct quantizer *q)
{
	int rc = quantize_calibrate(q);
	for (int i = 0; i < q->d.nlayers && rc >= 0; i++)
		if (!q->d.layer[i].why)
			rc = qdq_weights(&q->d, &q->d.layer[i]);
	if (rc >= 0 && !q->o->no_bias_correction)
		rc = quantize_correct(q);
	return rc;
}

/* ---- the whole ---- */

int quantize_copy(const struct quantizer *q, const struct qselection *s, struct graph **out)
{
	struct graph *g = graph_copy(q->d.g);
	int rc = qdq_rewrite(&q->d, s, g);
	if (rc < 0)
		graph_free(g);
	else
		*out = g;
	return rc;
}

int quantize_copy_all(const struct quantizer *q, struct graph **out)
{
	struct arena a = {0};
	struct qselection all;
	qdq_select(&q->d, &a, &all);
	int rc = quantize_copy(q, &all, out);
	arena_free(&a);
	return rc;
}

/* The layer whose error alone is the least; NULL: none was measured. */
static const struct quantize_layer *least_alone(const struct quantize_report *r)
{
	const struct quantize_layer *least = NULL;
	for (int i = 0; i < r->nlayers; i++)
		if (!isnan(r->layer[i].error) && (!least || r->layer[i].error < least->error))
			least = &r->layer[i];
	return least;
}

/* No layer was tried: the scan's errors were enough to refuse each one. */
static int none_tried(const struct quantizer *q, const struct quantize_report *r)
{
	const struct quantize_layer *l = least_alone(r);
	const double most = q->o->most, above = q->o->keep_above;
	char within[64] = "", best[256] = "";
	if (most > 0)
		snprintf(within, sizeof within, " within an error of %g", most);
	if (l)
		snprintf(best, sizeof best, "; the least is that of '%.150s', %.2g", l->name, l->error);
	if (above > 0 && !(most > 0 && l && l->error > QUANTIZE_HOPELESS * most))
		return fail(E_NOTFOUND,
			    "no layer can be quantised%s: each one's error alone is above %g, the limit of "
			    "--keep-above%s",
			    within, above, best);
	return fail(E_NOTFOUND,
		    "no layer can be quantised%s: each one's error alone is more than twice that%s", within,
		    best);
}

static int check_some_left(const struct quantizer *q, const struct quantize_report *r)
{
	if (quantize_count(q))
		return E_OK;
	if (!r->least)
		return none_tried(q, r);
	bool held = r->held_out_error > r->error;
	int n = held ? r->held_out : r->examples;
	return fail(E_NOTFOUND,
		    "no layer can be quantised within an error of %g: of those tried alone, '%s' has the least "
		    "error, %.1e on %d example%s%s",
		    q->o->most, r->least, held ? r->held_out_error : r->error, n, n == 1 ? "" : "s",
		    held ? " held out" : "");
}

static void fill_report(const struct quantizer *q, struct quantize_report *r)
{
	r->layer = ARENA_ARRAY(q->d.a, struct quantize_layer, q->d.nlayers + 1);
	quantize_fill_rows(q, r->layer);
	r->nlayers = q->d.nlayers;
	r->nquantised = quantize_count(q);
	r->examples = q->nexamples;
	r->held_out = q->nheld;
}

static int quantise(struct quantizer *q, const struct quantize_example *example, int n,
		    struct quantize_report *r)
{
	*r = (struct quantize_report){0};
	int rc = find_layers(q);
	if (rc >= 0)
		rc = take_examples(q, example, n);
	if (rc >= 0)
		rc = prepare_layers(q);
	if (rc >= 0 && q->o->scan)
		rc = quantize_scan(q, q->example, q->nexamples, "scan");
	if (rc >= 0)
		rc = quantize_settle(q, r);
	if (rc >= 0)
		fill_report(q, r);
	return rc;
}

static struct quantizer begin(struct graph *g, const struct quantize_opts *o, struct arena *a)
{
	return (struct quantizer){.d = {.g = g, .a = a, .weight_bits = o->weight_bits}, .o = o};
}

int quantize_graph(struct graph *g, const struct quantize_example *example, int n,
		   const struct quantize_opts *o, struct arena *a, struct quantize_report *report,
		   struct graph **out)
{
	struct quantizer q = begin(g, o, a);
	int rc = quantise(&q, example, n, report);
	if (rc >= 0)
		rc = check_some_left(&q, report);
	return rc < 0 ? rc : quantize_copy_all(&q, out);
}

int quantize_recipe(struct graph *g, const struct quantize_example *example, int n,
		    const struct quantize_opts *o, struct arena *a, struct quantize_report *report,
		    struct buf *text)
{
	struct quantizer q = begin(g, o, a);
	struct qselection all;
	const struct key model = recipe_key(g); /* before the graph is folded */
	int rc = quantise(&q, example, n, report);
	if (rc < 0)
		return rc;
	qdq_select(&q.d, a, &all);
	const struct recipe r = {.model = model,
				 .values = q.d.nvalues,
				 .layers = q.d.nlayers,
				 .quantised = report->nquantised,
				 .examples = report->examples,
				 .held_out = report->held_out,
				 .error = report->nquantised ? report->error : 0,
				 .held_out_error =
				     report->nquantised && report->held_out ? report->held_out_error : 0,
				 .most = o->most};
	recipe_text(&r, &q.d, &all, text);
	return buf_ok(text) ? E_OK : fail(E_NOMEM, "no memory for the recipe");
}
