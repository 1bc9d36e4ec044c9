/* SPDX-License-Identifier: Apache-2.0 */
/* What a task begins with: candidate 0, what was known before, or for want of both a rule. */
#include "search/tune_parts.h"

#include "platform/log.h"

#include <string.h>

enum { DEFAULT_TRIES = 3 /* of candidate 0, should the worker die under it */ };

/* The caller's incumbent against the default, interleaved: the faster of them is what tuning starts from. */
static int meet_incumbent(struct tune *t, int standard)
{
	struct meas m, pair[2];
	int before;
	if (space_legal(t->space, t->task->incumbent) < 0)
		return E_OK;
	t->by = TRIED_INCUMBENT;
	int rc = tune_try(t, t->task->incumbent, &before, &m);
	if (rc < 0 || m.status != MEAS_OK)
		return rc;
	const struct built code[2] = {t->trial[standard].code, t->trial[before].code};
	if (!box_alive(t->box, &code[0]) || !box_alive(t->box, &code[1]))
		return E_OK;
	rc = box_time(t->box, code, 2, 4 * tune_rounds(t) + 1, 0, TIME_QUIET, pair);
	if (rc < 0 || pair[0].status != MEAS_OK || pair[1].status != MEAS_OK)
		return rc;
	t->result->default_ns = pair[0].median_ns;
	t->result->before_ns = pair[1].median_ns;
	bool keep = pair[1].median_ns < pair[0].median_ns;
	tune_set_best(t, keep ? before : standard, pair[keep].median_ns);
	if (keep)
		tune_tell_akin(t);
	return tune_save(t, REC_BEST, t->best, &pair[keep]);
}

/* For want of a default that works (it spills where registers are few) the first rule that does. */
static int first_rule(struct tune *t)
{
	char cand[CAND_MAX];
	t->by = TRIED_RULE;
	while (t->best < 0 && t->rules >= 0) {
		struct meas m;
		int trial, rc = space_portfolio(t->space, &t->rules, cand);
		if (rc < 0) {
			t->rules = -1;
			return E_OK;
		}
		if (tune_knows(t, cand))
			continue;
		if ((rc = tune_try(t, cand, &trial, &m)) < 0)
			return rc;
		if (m.status != MEAS_OK)
			continue;
		tune_set_best(t, trial, m.median_ns);
		return tune_save(t, REC_BEST, trial, &m);
	}
	return E_OK;
}

const char *tune_ahead(struct tune *t)
{
	if (t->task->earlier && t->task->earlier->best_ns > 0)
		return t->standard;
	box_ahead(t->box, t->task->text, t->standard);
	if (t->task->incumbent)
		box_ahead(t->box, t->task->text, t->task->incumbent);
	return t->standard;
}

/* Once more for a default under which the worker died. */
static int try_again(struct tune *t, int trial, struct meas *m)
{
	int64_t start_ns = clock_now(t->box->runner->clock);
	int rc = tune_measure(t, trial, 0, m);
	if (rc >= 0)
		tune_tried(t, trial, m, start_ns);
	return rc;
}

static int trial_of(struct tune *t, const char *cand, int64_t ns)
{
	int i = 0;
	while (i < t->ntrials && strcmp(t->trial[i].cand, cand))
		i++;
	if (i == t->ntrials)
		i = tune_add(t, cand);
	t->trial[i].ns = ns > 0 ? ns : INT64_MAX;
	return i;
}

/* Goes on from an earlier job of this box: nothing is built before it is raced. */
static void resume(struct tune *t, const struct job_result *e, const char *standard)
{
	t->result->before_ns = e->before_ns;
	t->result->default_ns = t->default_ns = e->default_ns;
	tune_recall(t);
	trial_of(t, standard, e->default_ns);
	tune_set_best(t, trial_of(t, e->best, e->best_ns), e->best_ns);
	if (strcmp(e->best, standard))
		tune_tell_akin(t);
}

static int meet_default(struct tune *t)
{
	const char *cand = t->standard;
	struct meas m = {.status = MEAS_CRASH};
	const struct job_result *e = t->task->earlier;
	int rc, trial = -1;
	t->by = TRIED_DEFAULT;
	if (e && e->best_ns > 0 && space_legal(t->space, e->best) >= 0) {
		resume(t, e, cand);
		return E_OK;
	}
	for (int i = 0; i < DEFAULT_TRIES && m.status == MEAS_CRASH; i++) {
		rc = trial < 0 ? tune_try(t, cand, &trial, &m) : try_again(t, trial, &m);
		if (rc < 0)
			return rc;
	}
	if (m.status != MEAS_OK) {
		log_more("%s: the default schedule failed: %s", t->task->label, meas_status_name(m.status));
		return first_rule(t);
	}
	tune_set_best(t, trial, m.median_ns);
	t->result->default_ns = m.median_ns;
	rc = tune_save(t, REC_DEFAULT, trial, &m);
	if (rc < 0 || !t->task->incumbent)
		return rc < 0 ? rc : tune_save(t, REC_BEST, trial, &m);
	if (strcmp(cand, t->task->incumbent))
		return meet_incumbent(t, trial);
	t->result->before_ns = m.median_ns;
	return tune_save(t, REC_BEST, trial, &m);
}

int tune_default(struct tune *t)
{
	int rc = t->done ? E_OK : meet_default(t);
	if (rc >= 0 && !t->done)
		tune_recall(t);
	return rc;
}
