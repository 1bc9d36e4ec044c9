/* SPDX-License-Identifier: Apache-2.0 */
#include "search/tune_parts.h"

#include "platform/base/log.h"

#include <math.h>

#define BELOW_ROOFLINE                                                                                       \
	0.1 /* rooflines count weights as cold, but a cache may hold them; even so no kernel is ten times
	       faster */
#define LUCK 1.1 /* noise may make a candidate that lost seem faster by this factor */

static int64_t round_ns(double ns)
{
	return ns > 0 && ns < 9e18 ? (int64_t)ns : 0;
}

void tune_believe(struct tune *t, int i, const float f[FEATURES])
{
	struct trial *r = &t->trial[i];
	struct guess g = t->guide.cost->guess(f);
	r->tried.draft_ns = round_ns(exp((double)f[FEATURE_DRAFT]));
	r->tried.guess_ns = round_ns(g.ns);
	r->tried.guess_sd = g.sd;
}

static void tell(const struct tune *t, int i)
{
	const struct job *j = t->box->job;
	if (j->calls.tried)
		j->calls.tried(j->calls.ctx, t->index, &t->trial[i].tried);
}

void tune_tried(struct tune *t, int i, const struct meas *m, int64_t start_ns)
{
	struct tried *r = &t->trial[i].tried;
	if (r->by == TRIED_DEFAULT && m->status == MEAS_OK)
		t->default_ns = m->min_ns;
	r->status = m->status;
	r->ns = m->status == MEAS_OK || m->status == MEAS_ABORTED ? m->min_ns : 0;
	r->default_ns = t->default_ns;
	r->at_ns = clock_now(t->box->runner->clock);
	r->spent_ns += r->at_ns - start_ns;
	r->build_ns = m->build_ns;
	tell(t, i);
}

void tune_lost(struct tune *t, int i)
{
	t->trial[i].tried.lost = true;
	tell(t, i);
}

void tune_failed(struct tune *t, int i, enum meas_status how)
{
	struct trial *r = &t->trial[i];
	log_more("%s: %s in a timed run: %s", t->task->label, meas_status_name(how), r->cand);
	r->ns = INT64_MAX;
	r->tried.status = how;
	r->tried.ns = 0;
	r->tried.lost = false; /* else the lost race would be reported instead of this failure */
	t->result->failed++;
	t->fallen = t->fallen || t->best == i;
	t->best = t->best == i ? -1 : t->best;
	tell(t, i);
}

/* The candidate's time scaled to the machine's present state, by the default's time then and now. */
static int64_t today_ns(const struct tune *t, const struct tried *k)
{
	bool both = t->default_ns > 0 && k->default_ns > 0;
	return both ? round_ns((double)k->ns * (double)t->default_ns / (double)k->default_ns) : k->ns;
}

/* The incumbent that it lost to may be gone (forgotten, or slower than the default inside the network). So
 * the loss counts only if today's incumbent is about as fast; otherwise the candidate is raced again. */
static bool still_lost(const struct tune *t, const struct tried *k, int64_t ns)
{
	const struct job_result *e = t->task->earlier;
	int64_t best_ns = t->best >= 0 ? t->trial[t->best].ns : e ? e->best_ns : 0;
	return k->lost && best_ns > 0 && (double)best_ns <= LUCK * (double)ns;
}

static void recall(struct tune *t, const struct tried *k)
{
	int64_t ns = k->ns > 0 ? today_ns(t, k) : 0;
	bool timed = k->status == MEAS_OK && ns > 0;
	if (k->status == MEAS_OK && (!timed || (double)ns < BELOW_ROOFLINE * t->result->roofline_ns))
		return;               /* a time that cannot be true: the candidate may be tried again */
	int i = tune_add(t, k->cand); /* moves the trials */
	struct trial *r = &t->trial[i];
	const struct meas m = {
	    .status = k->status, .runs = timed, .min_ns = ns, .median_ns = ns, .build_ns = k->build_ns};
	r->ns = timed ? ns : INT64_MAX;
	r->tried = *k;
	r->tried.cand = r->cand;
	r->tried.lost = still_lost(t, k, ns);
	if (!tune_is_offer(t, r->cand))
		t->strategy->tell(t->state, r->cand, &m);
}

void tune_recall(struct tune *t)
{
	for (int i = 0; i < t->task->ntried; i++) {
		const struct tried *k = &t->task->tried[i];
		if (tune_legal(t, k->cand) >= 0 && !tune_knows(t, k->cand))
			recall(t, k);
	}
}
