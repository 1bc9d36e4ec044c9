/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/trials_sum.h"

#include <math.h>
#include <stdlib.h>

enum { LEAST = 4 }; /* fewer pairs give no useful correlation */

double trials_ratio(const struct trials_entry *e)
{
	return e->t.ns > 0 && e->t.default_ns > 0 ? (double)e->t.ns / (double)e->t.default_ns : NAN;
}

double trials_payback(double spent_ns, double saved_ns)
{
	return saved_ns > 0 && spent_ns > 0 ? ceil(spent_ns / saved_ns) : NAN;
}

/* Estimated and measured times of the trials that have both; the measured ones are scaled to the last box's
 * default. */
struct pairs {
	int n;
	double thought[TRIALS_MAX], measured[TRIALS_MAX];
};

static void collect(const struct trials *l, bool model, struct pairs *p)
{
	p->n = 0;
	for (int i = 0; i < l->n; i++) {
		const struct tried *t = &l->entry[i].t;
		int64_t thought = model ? t->guess_ns : t->draft_ns;
		double ratio = trials_ratio(&l->entry[i]);
		if (thought <= 0 || !(ratio > 0))
			continue;
		p->thought[p->n] = (double)thought;
		p->measured[p->n++] = (double)(l->default_ns > 0 ? l->default_ns : t->default_ns) * ratio;
	}
}

/* Ranks from 0; equal values share the mean of their ranks. */
static void ranks(const double *v, int n, double *rank)
{
	for (int i = 0; i < n; i++) {
		int less = 0, equal = 0;
		for (int k = 0; k < n; k++) {
			less += v[k] < v[i];
			equal += v[k] == v[i];
		}
		rank[i] = less + (equal - 1) / 2.0;
	}
}

/* Pearson's correlation of the ranks. */
static double correlation(const struct pairs *p)
{
	double x[TRIALS_MAX], y[TRIALS_MAX], xy = 0, xx = 0, yy = 0, mean = (p->n - 1) / 2.0;
	if (p->n < LEAST)
		return NAN;
	ranks(p->thought, p->n, x);
	ranks(p->measured, p->n, y);
	for (int i = 0; i < p->n; i++) {
		xy += (x[i] - mean) * (y[i] - mean);
		xx += (x[i] - mean) * (x[i] - mean);
		yy += (y[i] - mean) * (y[i] - mean);
	}
	return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : NAN;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static double median_error(const struct pairs *p)
{
	double e[TRIALS_MAX];
	for (int i = 0; i < p->n; i++)
		e[i] = fabs(p->measured[i] / p->thought[i] - 1);
	qsort(e, (size_t)p->n, sizeof *e, by_value);
	return p->n ? e[p->n / 2] : NAN;
}

static void find_best(const struct trials *l, struct trials_sum *s)
{
	for (int i = 0; i < l->n; i++) {
		double ratio = trials_ratio(&l->entry[i]);
		int at = s->nbest;
		if (l->entry[i].t.status != MEAS_OK || !(ratio > 0))
			continue;
		while (at > 0 && trials_ratio(&l->entry[s->best[at - 1]]) > ratio)
			at--;
		if (at == SUM_BEST)
			continue;
		s->nbest += s->nbest < SUM_BEST;
		for (int k = s->nbest - 1; k > at; k--)
			s->best[k] = s->best[k - 1];
		s->best[at] = i;
	}
}

/* Steps compare single runs, so the first steps below the default may be noise. */
static void find_steps(const struct trials *l, struct trials_sum *s)
{
	double least = HUGE_VAL;
	for (int i = 0; i < l->n; i++) {
		double ratio = trials_ratio(&l->entry[i]);
		if (l->entry[i].t.status != MEAS_OK || !(ratio < least))
			continue;
		least = ratio;
		if (s->nsteps == SUM_STEPS)
			for (int k = 1; k < SUM_STEPS; k++)
				s->step[k - 1] = s->step[k];
		s->nsteps += s->nsteps < SUM_STEPS;
		s->step[s->nsteps - 1] = (struct trials_step){l->entry[i].box, l->entry[i].t.at_ns, ratio};
	}
}

void trials_sum(const struct trials *l, struct trials_sum *s)
{
	struct pairs p;
	*s = (struct trials_sum){0};
	for (int i = 0; i < MEAS_STATUSES; i++) {
		s->tried += l->count[i];
		s->failed += i == MEAS_OK || i == MEAS_ABORTED ? 0 : l->count[i];
	}
	collect(l, false, &p);
	s->draft_rank = correlation(&p);
	s->draft_error = median_error(&p);
	collect(l, true, &p);
	s->ntimed = p.n;
	s->model_rank = correlation(&p);
	s->model_error = median_error(&p);
	find_best(l, s);
	find_steps(l, s);
}
