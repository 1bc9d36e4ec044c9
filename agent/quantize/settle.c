/* SPDX-License-Identifier: Apache-2.0 */
/* Which layers go back to fp32 for the limits of the error.
 *
 * The errors of the scan put all parts into one order, the path: the part that is given back first, second,
 * and so on. The prediction says how far along it to go, and what is measured there corrects it; bisection
 * finds the least number of steps. If the examples that were held out decide, their errors are
 * scanned, too, and the path is made again. Where the path leaves no layer, each layer is tried alone. */
#include "agent/quantize/quantize_parts.h"

#include <string.h>

static bool group_is_selected(const struct quantizer *q, const struct qselection *all, int group)
{
	for (int i = 0; i < q->d.nvalues; i++)
		if (all->value[i] && q->d.value[i].group == group)
			return true;
	return false;
}

static double predict(const struct quantizer *q)
{
	struct arena a = {0};
	struct qselection all;
	double sum = 0;
	qdq_select(&q->d, &a, &all);
	for (int i = 0; i < q->d.nlayers; i++)
		sum += all.weights[i] ? quantize_square(q->d.layer[i].error) : 0;
	for (int i = 0; i < q->d.ngroups; i++)
		sum += group_is_selected(q, &all, i) ? quantize_square(q->d.group[i].error) : 0;
	arena_free(&a);
	return q->o->scan ? sqrt(sum) : NAN;
}

/* ---- parts ---- */

/* Products that a layer sums up. */
static double products(const struct quantizer *q, const struct qlayer *l)
{
	return (double)shape_count(&q->d.g->value[q->d.g->node[l->node].out[0]].t.shape) * (double)l->depth;
}

/* Whether bytes of the group are what the layer reads or writes, or are moved to its input or from its
 * output. */
static bool touches(const struct quantizer *q, const struct qlayer *l, int group)
{
	return l->x >= 0 && (q->d.value[l->x].group == group || q->d.value[l->y].group == group);
}

/* Part i, of those that are quantised: its error alone (0: it is not quantised, or has none), and the
 * products of the layers that stay fp32 if it does. */
static double error_of_part(const struct quantizer *q, const struct qselection *all, int i, double *cost)
{
	*cost = 0;
	if (i < q->d.nlayers) {
		*cost = products(q, &q->d.layer[i]);
		return all->weights[i] ? q->d.layer[i].error : 0;
	}
	for (int k = 0; k < q->d.nlayers; k++)
		if (all->weights[k] && touches(q, &q->d.layer[k], i - q->d.nlayers))
			*cost += products(q, &q->d.layer[k]);
	return group_is_selected(q, all, i - q->d.nlayers) ? q->d.group[i - q->d.nlayers].error : 0;
}

/* The part that is given back next: the one with the largest error if that alone is above a limit, else the
 * one that makes the most squared error for the products that it saves time on. -1: no part has an error. */
static int worst_part(const struct quantizer *q, bool *above)
{
	struct arena a = {0};
	struct qselection all;
	int largest = -1, dearest = -1;
	double most = 0, worst = 0, cost;
	qdq_select(&q->d, &a, &all);
	for (int i = 0; i < q->d.nlayers + q->d.ngroups; i++) {
		double e = error_of_part(q, &all, i, &cost);
		if (!(e > 0))
			continue;
		if (e > most) {
			most = e;
			largest = i;
		}
		if (e * e / fmax(cost, 1) > worst) {
			worst = e * e / fmax(cost, 1);
			dearest = i;
		}
	}
	arena_free(&a);
	*above = (q->o->keep_above > 0 && most > q->o->keep_above) || (q->o->most > 0 && most > q->o->most);
	return *above ? largest : dearest;
}

static int give_layer(struct qlayer *l, const char *why)
{
	int given = !l->why;
	if (given)
		l->why = why;
	return given;
}

static int give_part(struct quantizer *q, int part)
{
	if (part < q->d.nlayers)
		return give_layer(&q->d.layer[part], "its weights");
	int given = 0;
	for (int i = 0; i < q->d.nlayers; i++)
		if (touches(q, &q->d.layer[i], part - q->d.nlayers))
			given += give_layer(&q->d.layer[i], "its activations");
	return given;
}

/* ---- the path ---- */

struct path {
	const char **before; /* per layer: its `why` before the first step */
	const char **why;    /* per layer: once it is given back */
	int *step;           /* per layer: the step that gives it back; 0: it was fp32 before */
	int n;               /* steps; after the last one no layer is quantised */
	int above;           /* the first steps: parts that alone are above a limit */
	int first;           /* steps until the prediction is within the limit of all together, too */
	double *predicted;   /* after each step, from 0 to n */
};

/* Gives back the layers of the first `steps` steps. */
static void path_go(struct quantizer *q, const struct path *p, int steps)
{
	for (int i = 0; i < q->d.nlayers; i++)
		q->d.layer[i].why = p->step[i] && p->step[i] <= steps ? p->why[i] : p->before[i];
}

static void path_note_step(struct quantizer *q, struct path *p)
{
	p->n++;
	for (int i = 0; i < q->d.nlayers; i++)
		if (q->d.layer[i].why && !p->before[i] && !p->step[i]) {
			p->step[i] = p->n;
			p->why[i] = q->d.layer[i].why;
		}
	p->predicted[p->n] = predict(q);
}

static void keep_all(struct quantizer *q, const char *why)
{
	for (int i = 0; i < q->d.nlayers; i++)
		give_layer(&q->d.layer[i], why);
}

/* Makes the path from where the layers are, which stay there. */
static void path_make(struct quantizer *q, struct path *p)
{
	const int n = q->d.nlayers;
	const double most = q->o->most;
	int part = -1;
	*p = (struct path){.first = -1};
	p->before = ARENA_ARRAY(q->d.a, const char *, n + 1);
	p->why = ARENA_ARRAY(q->d.a, const char *, n + 1);
	p->step = ARENA_ARRAY(q->d.a, int, n + 1);
	p->predicted = ARENA_ARRAY(q->d.a, double, n + 2);
	for (int i = 0; i < n; i++)
		p->before[i] = q->d.layer[i].why;
	p->predicted[0] = predict(q);
	for (bool above = false;;) {
		if (q->o->scan)
			part = worst_part(q, &above);
		if (p->first < 0 && (part < 0 || (!above && !(most > 0 && p->predicted[p->n] > most))))
			p->first = p->n;
		if (part < 0 || !give_part(q, part))
			break;
		path_note_step(q, p);
		p->above += above;
	}
	if (quantize_count(q)) {
		keep_all(q, "all together make an error that no part explains");
		path_note_step(q, p);
	}
	if (p->first < 0)
		p->first = p->n;
	path_go(q, p, 0);
}

/* ---- what is measured ---- */

struct measured {
	double error, held_out, predicted;
	double larger; /* of the two errors */
};

static int measure_all(const struct quantizer *q, const struct quantize_example *const *e, int n,
		       const char *stage, double *error)
{
	struct graph *g;
	int rc = quantize_copy_all(q, &g);
	return rc < 0 ? rc : quantize_measure(q, g, e, n, stage, error);
}

/* Measures the error of all together, on all examples. */
static int measure_both(struct quantizer *q, struct measured *m)
{
	*m = (struct measured){.held_out = NAN, .predicted = predict(q)};
	int rc = measure_all(q, q->example, q->nexamples, "all together", &m->error);
	if (rc >= 0 && q->nheld)
		rc = measure_all(q, q->held, q->nheld, "held out", &m->held_out);
	m->larger = fmax(m->error, m->held_out); /* of a NaN and a number, the number */
	return rc;
}

static bool is_within(const struct quantizer *q, const struct measured *m)
{
	return !(q->o->most > 0) || m->larger <= q->o->most;
}

/* How many steps to try next, of more than `bad` and less than p->n: by the prediction, corrected by what it
 * was wrong when m was measured there, or half of them. */
static int next_guess(const struct quantizer *q, const struct path *p, int bad, const struct measured *m)
{
	double most = 0.98 * fmin(q->o->most, m->predicted * q->o->most / m->larger);
	int k = bad + 1;
	while (k < p->n && !(p->predicted[k] <= most))
		k++;
	return k < p->n ? k : (bad + p->n) / 2;
}

/* Finds the least number of steps of [low, high] after which the error is within the limit, and goes there.
 * It is within it after `high` steps, where *m was measured. The first number to try is k. */
static int path_search(struct quantizer *q, const struct path *p, int low, int high, int k,
		       struct measured *m)
{
	for (; low < high; k = (low + high) / 2) {
		struct measured here;
		path_go(q, p, k);
		int rc = measure_both(q, &here);
		if (rc < 0)
			return rc;
		if (is_within(q, &here)) {
			high = k;
			*m = here;
		} else {
			low = k + 1;
		}
	}
	path_go(q, p, high);
	return high;
}

/* ---- each layer alone ---- */

/* Finds the layers that were given back on the path, those with the least squared error for their products
 * first, and the errors of all layers alone. Returns how many. */
static int order_layers(const struct quantizer *q, const struct path *p, struct quantize_layer **row,
			int **order)
{
	int n = 0;
	*row = ARENA_ARRAY(q->d.a, struct quantize_layer, q->d.nlayers + 1);
	*order = ARENA_ARRAY(q->d.a, int, q->d.nlayers + 1);
	double *worth = ARENA_ARRAY(q->d.a, double, q->d.nlayers + 1);
	quantize_fill_rows(q, *row);
	for (int i = 0; i < q->d.nlayers; i++) {
		if (!p->step[i])
			continue;
		worth[i] = quantize_square((*row)[i].error) / fmax(products(q, &q->d.layer[i]), 1);
		int at = n++;
		for (; at > 0 && worth[i] < worth[(*order)[at - 1]]; at--)
			(*order)[at] = (*order)[at - 1];
		(*order)[at] = i;
	}
	return n;
}

/* Quantises one layer after the other, if the error stays within the limit. */
static int try_each(struct quantizer *q, const struct path *p, struct measured *m, struct quantize_report *r)
{
	struct quantize_layer *row;
	int *order, count = order_layers(q, p, &row, &order), given = 0;
	struct measured here, least = {.larger = INFINITY};
	for (int i = 0; i < count; i++) {
		struct qlayer *l = &q->d.layer[order[i]];
		const char *why = l->why;
		const double alone = row[order[i]].error, above = q->o->keep_above;
		if (alone > QUANTIZE_HOPELESS * q->o->most || (above > 0 && alone > above))
			continue;
		l->why = NULL;
		int rc = measure_both(q, &here);
		if (rc < 0)
			return rc;
		if (is_within(q, &here)) {
			*m = here;
			given++;
			continue;
		}
		l->why = why;
		if (!given && here.larger < least.larger) {
			least = here;
			r->least = l->name;
		}
	}
	if (!given && r->least)
		*m = least;
	if (given)
		r->least = NULL;
	return E_OK;
}

/* ---- the whole ---- */

static bool held_out_decides(const struct quantizer *q, const struct measured *m)
{
	return q->o->scan && m->held_out > m->error && m->error <= q->o->most;
}

static int rescan(struct quantizer *q, struct path *p)
{
	path_go(q, p, 0);
	int rc = quantize_scan(q, q->held, q->nheld, "scan of those held out");
	path_make(q, p);
	return rc;
}

/* Finds the steps of a path for the limit. Returns how many; p->n: no layer is left. */
static int settle(struct quantizer *q, struct path *p, struct measured *m)
{
	path_make(q, p);
	for (bool again = false;; again = true) {
		path_go(q, p, p->first);
		if (p->first == p->n)
			break;
		int rc = measure_both(q, m);
		if (rc < 0)
			return rc;
		if (is_within(q, m))
			return path_search(q, p, p->above, p->first, (p->above + p->first) / 2, m);
		if (again || !held_out_decides(q, m))
			break;
		rc = rescan(q, p);
		if (rc < 0)
			return rc;
	}
	if (!(q->o->most > 0))
		return p->n; /* each part is above its limit */
	if (p->first == p->n)
		return path_search(q, p, p->above, p->n, (p->above + p->n) / 2, m);
	return path_search(q, p, p->first + 1, p->n, next_guess(q, p, p->first, m), m);
}

int quantize_settle(struct quantizer *q, struct quantize_report *r)
{
	struct path p;
	struct measured m = {NAN, NAN, NAN, NAN};
	int rc = settle(q, &p, &m);
	if (rc == p.n && q->o->most > 0)
		rc = try_each(q, &p, &m, r);
	r->error = m.error;
	r->held_out_error = m.held_out;
	r->predicted = m.predicted;
	return rc < 0 ? rc : E_OK;
}
