/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates from outside of the space: built, checked and timed as all others, within a part of the box.
 * While one of them is the incumbent, the best candidate of the space is kept beside it, for processes that
 * cannot use the offer. */
#include "search/tune_parts.h"

#include <string.h>

bool tune_is_offer(const struct tune *t, const char *cand)
{
	for (int i = 0; i < t->task->noffers; i++)
		if (!strcmp(t->task->offer[i], cand))
			return true;
	return false;
}

int tune_legal(const struct tune *t, const char *cand)
{
	return tune_is_offer(t, cand) ? E_OK : space_legal(t->space, cand);
}

int tune_try_offers(struct tune *t)
{
	int rc = E_OK;
	for (int i = 0;
	     i < t->task->noffers && rc >= 0 && t->box->spent.offer_ns < t->box->job->limits.offer_ns; i++) {
		const char *cand = t->task->offer[i];
		struct meas m;
		int trial;
		if (tune_knows(t, cand))
			continue;
		int64_t start_ns = clock_now(t->box->runner->clock);
		t->by = TRIED_OFFER;
		rc = tune_try(t, cand, &trial, &m);
		t->box->spent.offer_ns += clock_now(t->box->runner->clock) - start_ns;
		if (rc >= 0 && t->fallen)
			rc = tune_replace(t);
	}
	return rc;
}

static bool works(const struct tune *t, int trial)
{
	return trial >= 0 && t->trial[trial].ns != INT64_MAX;
}

/* The fastest trial of the space that has lost no race against another one of the space. -1: none. */
static int fastest_own(const struct tune *t)
{
	int best = -1;
	for (int i = 0; i < t->ntrials; i++) {
		const struct trial *r = &t->trial[i];
		if (works(t, i) && !r->own_lost && !tune_is_offer(t, r->cand) &&
		    (best < 0 || r->ns < t->trial[best].ns))
			best = i;
	}
	return best;
}

/* Builds a trial again, if it is not built any more. */
static int rebuild(struct tune *t, int trial)
{
	struct trial *r = &t->trial[trial];
	struct meas m;
	return box_alive(t->box, &r->code)
		   ? E_OK
		   : box_build(t->box, &t->pace, t->task->text, r->cand, &r->code, &m);
}

/* Races the one that is kept against a challenger; the winner is kept. */
static int race_own(struct tune *t, int challenger)
{
	struct meas m[2];
	struct verdict v;
	int rc = rebuild(t, t->own);
	if (rc >= 0)
		rc = rebuild(t, challenger);
	const struct built pair[2] = {t->trial[t->own].code, t->trial[challenger].code};
	if (rc < 0 || !box_alive(t->box, &pair[0]) || !box_alive(t->box, &pair[1]))
		return rc;
	rc = race_pair(t->box, pair, 2 * tune_rounds(t) + 1, m, &v);
	if (rc < 0)
		return rc;
	if (v.failed >= 0) {
		tune_failed(t, v.failed ? challenger : t->own, v.how);
		t->own = v.failed ? t->own : -1;
		return E_OK;
	}
	t->trial[v.winner_at ? t->own : challenger].own_lost = true;
	return v.winner_at ? tune_save_own(t, challenger, &v.winner) : E_OK;
}

/* The candidate to begin with: the caller's; else the incumbent that the offer replaced, for it has won
 * races; else the fastest trial. -1: none works. */
static int choose_first(struct tune *t, int fastest)
{
	const char *cand = t->task->own;
	if (cand && space_legal(t->space, cand) >= 0) {
		int trial = tune_find(t, cand);
		t->by = TRIED_SEED;
		if (trial < 0)
			return tune_add(t, cand);
		if (works(t, trial))
			return trial;
	}
	return works(t, t->before_offer) ? t->before_offer : fastest;
}

/* It is measured again, because its trial may be of an earlier box. */
static int keep_first(struct tune *t, int trial)
{
	struct meas m;
	bool new = !works(t, trial);
	box_drop(t->box, &t->trial[trial].code);
	int rc = new ? tune_try_trial(t, trial, &m) : tune_measure(t, trial, 0, &m);
	if (rc >= 0 && m.status != MEAS_OK)
		t->trial[trial].ns = INT64_MAX;
	return rc >= 0 && m.status == MEAS_OK ? tune_save_own(t, trial, &m) : rc;
}

static bool best_is_offer(const struct tune *t)
{
	return t->best >= 0 && tune_is_offer(t, t->trial[t->best].cand);
}

int tune_keep_own(struct tune *t)
{
	int rc = E_OK;
	if (!t->box->job->calls.sink_own || !best_is_offer(t)) {
		t->own = -1;
		return E_OK;
	}
	int first = t->own < 0 ? choose_first(t, fastest_own(t)) : -1;
	if (first >= 0)
		rc = keep_first(t, first);
	int next = fastest_own(t);
	if (rc >= 0 && t->own >= 0 && next >= 0 && next != t->own)
		rc = race_own(t, next);
	return rc >= 0 && t->fallen ? tune_replace(t) : rc;
}
