/* SPDX-License-Identifier: Apache-2.0 */
/* The first kernels of a task: the default, the incumbent, or if neither works a rule. */
#include "search/tune_parts.h"

#include "platform/base/log.h"
#include "search/race.h"

#include <string.h>

/* How often a first kernel is tried, in case the worker died or the machine stood still for a moment; a
 * candidate that hangs costs the full timeout each time. */
static const int firm_tries[MEAS_STATUSES] = {[MEAS_CRASH] = 3, [MEAS_TIMEOUT] = 2};

/* A stranger's candidate is not tried first if its draft is more than this many times the default's. */
#define CLAIM_DRAFTS 8
#define CLAIM_ABORT                                                                                          \
	10 /* factor for the first run, in whatever state the machine is; beside a measured                  \
	      default: 3 */

static bool is_claim(const struct tune *t)
{
	return t->by == TRIED_INCUMBENT && t->task->claim_ns > 0;
}

/* How long a first run may take. A time better than the claim does not fail the candidate: otherwise a wrong
 * claim could keep good candidates away. */
static int64_t claim_abort_ns(const struct tune *t)
{
	if (t->best >= 0)
		return 3 * t->result->best_ns;
	double draft = space_draft(t->space, t->standard), claim = (double)t->task->claim_ns;
	double ns = CLAIM_ABORT * (claim > draft ? claim : draft);
	return ns < (double)NS_PER_S * 3600 ? (int64_t)ns + 1 : NS_PER_S * 3600;
}

/* Tries a stranger's candidate once, and not for longer than it could be worth. */
static int measure_claim(struct tune *t, int trial, struct meas *m)
{
	int rc = tune_measure(t, trial, claim_abort_ns(t), m);
	t->box->lies += rc >= 0 && m->status != MEAS_OK;
	return rc;
}

/* Builds and times a new trial, and repeats it if the failure may not be the candidate's fault. */
static int measure_firmly(struct tune *t, const char *cand, int *trial, struct meas *m)
{
	*trial = tune_add(t, cand);
	*m = (struct meas){.status = MEAS_CRASH};
	if (is_claim(t))
		return measure_claim(t, *trial, m);
	int rc = E_OK;
	for (int i = 0; i < firm_tries[m->status] && rc >= 0; i++)
		rc = tune_measure(t, *trial, 0, m);
	return rc;
}

static int try_firmly(struct tune *t, const char *cand, int *trial, struct meas *m)
{
	int64_t start_ns = clock_now(t->box->runner->clock);
	int rc = measure_firmly(t, cand, trial, m);
	if (rc >= 0)
		tune_count(t, *trial, m, start_ns);
	return rc;
}

static bool distrusted(const struct tune *t)
{
	return t->task->claim_ns > 0 && t->box->lies >= JOB_LIES;
}

bool tune_is_known(const struct tune *t)
{
	const char *cand = t->task->incumbent;
	if (t->end || !t->task->codeless || !cand || t->task->earlier || !strcmp(cand, t->standard) ||
	    distrusted(t) || tune_legal(t, cand) < 0)
		return false;
	return t->task->claim_ns <= 0 || tune_is_offer(t, cand) ||
	       space_draft(t->space, cand) <= CLAIM_DRAFTS * space_draft(t->space, t->standard);
}

/* Does not make it the incumbent yet: the default has to be timed to its end, however slow it is in
 * comparison. */
int tune_known(struct tune *t)
{
	int64_t start_ns = clock_now(t->box->runner->clock);
	t->by = TRIED_INCUMBENT;
	int rc = measure_firmly(t, t->task->incumbent, &t->known, &t->known_meas);
	t->known_ns = clock_now(t->box->runner->clock) - start_ns;
	if (rc < 0) {
		t->known = -1;
		return rc;
	}
	return t->known_meas.status == MEAS_OK ? tune_save(t, true, t->known, &t->known_meas) : E_OK;
}

/* Finds or makes the measurement of the caller's incumbent. Status infeasible: it is not in this space. */
static int find_incumbent(struct tune *t, int *trial, struct meas *m)
{
	t->by = TRIED_INCUMBENT;
	*m = (struct meas){.status = MEAS_INFEASIBLE};
	*trial = t->known;
	if (tune_legal(t, t->task->incumbent) < 0)
		return E_OK;
	if (t->known < 0)
		return try_firmly(t, t->task->incumbent, trial, m);
	*m = t->known_meas;
	tune_count(t, *trial, m, clock_now(t->box->runner->clock) - t->known_ns);
	struct trial *r = &t->trial[*trial];
	struct meas built;
	bool gone = m->status == MEAS_OK && !box_alive(t->box, &r->code);
	return gone ? box_build(t->box, &t->pace, t->task->text, r->cand, &r->code, &built) : E_OK;
}

/* Replaces a failed incumbent by the default, whatever its record says and however often it was tried. */
static int demote(struct tune *t, int standard, const struct meas *m, enum meas_status why)
{
	log_more("%s: the incumbent failed (%s), so the default replaces it: %s", t->task->label,
		 meas_status_name(why), t->task->incumbent);
	return tune_save(t, true, standard, m);
}

/* Races the caller's incumbent and the default by the rule of all races (search/race.h), so that no box loses
 * by one lucky median what earlier boxes proved. The one that this board has proved holds its place until the
 * other wins: a stranger's candidate is a challenger of the default. m: the default's measurement. */
static int meet_incumbent(struct tune *t, int standard, const struct meas *m)
{
	struct meas known, pair[2];
	struct verdict v;
	int before, rc = find_incumbent(t, &before, &known);
	if (rc < 0 || t->fallen)
		return rc < 0 ? rc : tune_replace(t);
	if (known.status != MEAS_OK)
		return demote(t, standard, m, known.status);
	const int first = is_claim(t) ? 1 : 0,
		  trial[2] = {first ? standard : before, first ? before : standard};
	const struct built code[2] = {t->trial[trial[0]].code, t->trial[trial[1]].code};
	const struct meas *before_m = &pair[first], *standard_m = &pair[!first];
	if (!box_alive(t->box, &code[0]) || !box_alive(t->box, &code[1]))
		return E_OK;
	rc = race_pair(t->box, code, 4 * tune_rounds(t) + 1, pair, &v);
	if (rc >= 0 && v.failed >= 0)
		tune_failed(t, trial[v.failed], v.how);
	if (rc >= 0 && t->fallen)
		return tune_replace(t);
	if (rc >= 0 && standard_m->status == MEAS_OK && before_m->status != MEAS_OK)
		return demote(t, standard, m, before_m->status);
	if (rc < 0 || pair[0].status != MEAS_OK || pair[1].status != MEAS_OK)
		return rc;
	t->result->before_ns = before_m->median_ns;
	t->result->default_ns = standard_m->median_ns;
	tune_set_best(t, trial[v.winner_at], pair[v.winner_at].median_ns);
	if (t->best == before)
		tune_tell_akin(t);
	return tune_save(t, true, t->best, &pair[v.winner_at]);
}

/* If the default does not work, starts from the incumbent as long as that works. */
static int incumbent_alone(struct tune *t)
{
	struct meas m;
	int trial, rc = find_incumbent(t, &trial, &m);
	if (rc < 0 || m.status != MEAS_OK)
		return rc;
	t->result->before_ns = m.median_ns;
	tune_set_best(t, trial, m.median_ns);
	tune_tell_akin(t);
	return tune_save(t, true, trial, &m);
}

/* If no default works (it spills on machines with few registers), starts from the first rule that does. It is
 * saved in the default's place, because a network of default schedules uses it, too. */
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
		t->result->default_ns = m.median_ns;
		rc = tune_save(t, false, trial, &m);
		return rc < 0 ? rc : tune_save(t, true, trial, &m);
	}
	return E_OK;
}

const char *tune_ahead(struct tune *t)
{
	const char *incumbent = t->task->incumbent;
	bool alone = tune_is_known(t) && t->known < 0;
	if (!alone)
		box_ahead(t->box, t->task->text, t->standard);
	if (incumbent && t->known < 0)
		box_ahead(t->box, t->task->text, incumbent);
	return alone ? incumbent : t->standard;
}

static int trial_of(struct tune *t, const char *cand, int64_t ns)
{
	int i = tune_find(t, cand);
	if (i < 0)
		i = tune_add(t, cand);
	t->trial[i].ns = ns > 0 ? ns : INT64_MAX;
	return i;
}

bool tune_resumes(const struct tune *t)
{
	const struct job_result *e = t->task->earlier;
	return !t->end && e && e->best_ns > 0 && tune_legal(t, e->best) >= 0;
}

/* Resumes an earlier job of this box: nothing is built before it is raced. */
static void resume(struct tune *t, const struct job_result *e, const char *standard)
{
	t->result->before_ns = e->before_ns;
	t->result->default_ns = t->default_ns = e->default_ns;
	tune_recall(t);
	trial_of(t, standard, e->default_ns);
	tune_set_best(t, trial_of(t, e->best, e->best_ns), e->best_ns);
	t->kept = t->best;
	t->kept_ns = e->best_ns;
	if (strcmp(e->best, standard))
		tune_tell_akin(t);
}

static int meet_default(struct tune *t)
{
	const char *cand = t->standard, *incumbent = t->task->incumbent;
	struct meas m;
	int trial;
	if (tune_resumes(t)) {
		resume(t, t->task->earlier, cand);
		return E_OK;
	}
	t->by = TRIED_DEFAULT;
	int rc = try_firmly(t, cand, &trial, &m);
	if (rc < 0)
		return rc;
	/* If strangers are no longer believed, this one's candidate stays a hint for the next box. */
	bool other = incumbent && strcmp(cand, incumbent) && !(distrusted(t) && t->known < 0);
	if (m.status != MEAS_OK) {
		log_more("%s: the default schedule failed: %s", t->task->label, meas_status_name(m.status));
		rc = other ? incumbent_alone(t) : E_OK;
		return rc < 0 ? rc : first_rule(t);
	}
	tune_set_best(t, trial, m.median_ns);
	t->result->default_ns = m.median_ns;
	rc = tune_save(t, false, trial, &m);
	if (rc < 0 || other)
		return rc < 0 ? rc : meet_incumbent(t, trial, &m);
	t->result->before_ns = incumbent ? m.median_ns : 0;
	return tune_save(t, true, trial, &m);
}

int tune_default(struct tune *t)
{
	int rc = t->end ? E_OK : meet_default(t);
	t->met = true;
	if (rc >= 0 && !t->end)
		tune_recall(t);
	return rc;
}
