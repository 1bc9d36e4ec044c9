/* SPDX-License-Identifier: Apache-2.0 */
/* A task's trials: builds and measures them, keeps some built, and hands them over. */
#include "search/tune_parts.h"

#include "platform/base/log.h"

#include <stdio.h>
#include <string.h>

enum {
	ABORT_FACTOR = 3, /* a candidate whose first run takes so many times the incumbent's time is
			     aborted */
	SAVE_TRIES = 3,   /* in case the worker dies during the handover */
	TIME_TRIES = 3,   /* in case another candidate loses the worker */
	KEPT = 8,         /* built candidates kept for races */
	ALONE_ROUNDS = 5,
};

#define SHORT_NS NS_PER_MS /* a kernel's roofline */

/* From here on timing a run costs as much as all other work on the trial, and timing a part of it is enough
 * at first. */
#define PART_FROM_NS (2 * NS_PER_MS)

int tune_find(const struct tune *t, const char *cand)
{
	struct key k = hash_text(cand);
	for (int i = 0; i < t->ntrials; i++)
		if (key_equal(t->trial[i].key, k))
			return i;
	return -1;
}

bool tune_knows(const struct tune *t, const char *cand)
{
	return tune_find(t, cand) >= 0;
}

int tune_add(struct tune *t, const char *cand)
{
	if (t->ntrials == t->cap) {
		int cap = t->cap ? t->cap * 2 : 64;
		struct trial *p = ARENA_ARRAY(&t->arena, struct trial, cap);
		if (t->ntrials)
			memcpy(p, t->trial, sizeof *p * (size_t)t->ntrials);
		t->trial = p;
		t->cap = cap;
	}
	struct trial *n = &t->trial[t->ntrials];
	const char *copy = arena_strdup(&t->arena, cand);
	*n = (struct trial){.cand = copy,
			    .key = hash_text(cand),
			    .ns = INT64_MAX,
			    .code = {.handle = -1},
			    .tried = {.cand = copy, .by = t->by}};
	return t->ntrials++;
}

/* Three rounds tell a fast candidate from a slow one; long kernels are less noisy and cost more. */
int tune_rounds(const struct tune *t)
{
	int64_t ns = t->result->default_ns;
	return ns > 100 * NS_PER_MS ? 1 : ns > 20 * NS_PER_MS ? 2 : 3;
}

/* Only the KEPT fastest stay built. */
static void drop_slow(struct tune *t)
{
	struct trial *slowest = NULL;
	int built = 0;
	for (int i = 0; i < t->ntrials; i++) {
		struct trial *r = &t->trial[i];
		if (i == t->best || !box_alive(t->box, &r->code))
			continue;
		built++;
		if (!slowest || r->ns > slowest->ns)
			slowest = r;
	}
	if (built > KEPT)
		box_drop(t->box, &slowest->code);
}

void tune_set_best(struct tune *t, int trial, int64_t ns)
{
	bool offer = tune_is_offer(t, t->trial[trial].cand);
	if (t->best != trial && !offer)
		space_features(t->space, t->trial[trial].cand, t->f);
	if (offer && t->best >= 0 && !tune_is_offer(t, t->trial[t->best].cand))
		t->before_offer = t->best;
	t->best = trial;
	t->result->best_ns = ns;
	snprintf(t->result->best, sizeof t->result->best, "%s", t->trial[trial].cand);
}

void tune_tell_akin(struct tune *t)
{
	if (!tune_is_offer(t, t->trial[t->best].cand))
		akin_add(&t->box->akin, space_task(t->space), t->index, t->trial[t->best].cand);
}

enum save { SAVE_DEFAULT, SAVE_BEST, SAVE_OWN };

static int hand_over(struct tune *t, enum save what, const char *cand, const struct meas *m, struct blob code)
{
	const struct job_calls *c = &t->box->job->calls;
	return what == SAVE_OWN ? c->sink_own(c->ctx, t->index, cand, m, code)
				: c->sink(c->ctx, t->index, what == SAVE_BEST, cand, m, code);
}

static int save(struct tune *t, enum save what, int trial, const struct meas *m)
{
	struct trial *r = &t->trial[trial];
	struct box *b = t->box;
	struct blob code;
	struct meas built;
	for (int tries = 0; tries < SAVE_TRIES; tries++) {
		int rc = E_OK;
		if (!box_alive(b, &r->code))
			rc = box_build(b, &t->pace, t->task->text, r->cand, &r->code, &built);
		if (rc >= 0 && box_alive(b, &r->code))
			rc = box_code(b, &r->code, &code);
		if (rc > 0)
			rc = hand_over(t, what, r->cand, m, code);
		arena_reset(&b->scratch);
		if (rc < 0)
			return rc;
		if (!box_alive(b, &r->code))
			continue;
		if (what == SAVE_BEST && trial == t->best) {
			t->kept = trial;
			t->kept_ns = t->result->best_ns;
		}
		t->own = what == SAVE_OWN ? trial : t->own;
		return E_OK;
	}
	return E_OK;
}

int tune_save(struct tune *t, bool best, int trial, const struct meas *m)
{
	return save(t, best ? SAVE_BEST : SAVE_DEFAULT, trial, m);
}

int tune_save_own(struct tune *t, int trial, const struct meas *m)
{
	return save(t, SAVE_OWN, trial, m);
}

/* The first times of a long kernel are of a part of its range, unless memory limits it: a part does not show
 * that limit. */
static unsigned how_to_time(const struct tune *t)
{
	return t->dense && t->result->best_ns > PART_FROM_NS ? TIME_PART : 0;
}

/* Times a trial without another one to compare it with: its times are recorded as they are. Short kernels are
 * noisy, and cost little. */
static int time_alone(struct tune *t, struct trial *r, int64_t abort_ns, struct meas *m)
{
	int rounds = t->result->roofline_ns < SHORT_NS ? ALONE_ROUNDS : tune_rounds(t);
	return box_time(t->box, &r->code, 1, rounds, abort_ns, TIME_QUIET, m);
}

/* Times a trial interleaved with the incumbent, if there is one: a slow moment of the machine affects both,
 * and their ratio counts. */
static int time_beside(struct tune *t, struct trial *r, int64_t abort_ns, struct meas *m)
{
	const struct trial *best = t->best >= 0 ? &t->trial[t->best] : NULL;
	struct meas pair[2];
	if (!best || best == r || !box_alive(t->box, &best->code))
		return time_alone(t, r, abort_ns, m);
	const struct built code[2] = {best->code, r->code};
	int rounds = t->result->best_ns > PART_FROM_NS ? 1 : 2;
	int rc = box_time(t->box, code, 2, rounds, abort_ns, how_to_time(t), pair);
	*m = pair[1];
	if (rc >= 0 && meas_blamed(pair, 2) == 0)
		tune_failed(t, t->best, pair[0].status);
	if (rc < 0 || m->status != MEAS_OK || pair[0].status != MEAS_OK || pair[0].min_ns <= 0)
		return rc;
	double now = (double)best->ns / (double)pair[0].min_ns;
	m->min_ns = (int64_t)((double)m->min_ns * now);
	m->median_ns = (int64_t)((double)m->median_ns * now);
	return E_OK;
}

/* Builds and times a trial. *m has no runs if the incumbent beside it has lost the worker. */
static int build_and_time(struct tune *t, struct trial *r, int64_t abort_ns, struct meas *m)
{
	struct meas timed;
	int rc = box_build(t->box, &t->pace, t->task->text, r->cand, &r->code, m);
	if (rc < 0 || m->status != MEAS_OK)
		return rc;
	rc = time_beside(t, r, abort_ns, &timed);
	if (rc < 0)
		return rc;
	timed.build_ns = m->build_ns;
	timed.max_rel_err = m->max_rel_err;
	*m = timed;
	return E_OK;
}

int tune_measure(struct tune *t, int trial, int64_t abort_ns, struct meas *m)
{
	struct trial *r = &t->trial[trial];
	int rc = build_and_time(t, r, abort_ns, m);
	for (int tries = 1; tries < TIME_TRIES && rc >= 0 && m->status == MEAS_OK && !m->runs; tries++)
		rc = build_and_time(t, r, abort_ns, m);
	if (rc < 0)
		return rc;
	if (m->status == MEAS_OK && !m->runs)
		m->status = MEAS_CRASH;
	if (m->status == MEAS_OK)
		r->ns = m->min_ns;
	else
		box_drop(t->box, &r->code);
	return E_OK;
}

void tune_count(struct tune *t, int trial, const struct meas *m, int64_t start_ns)
{
	const char *cand = t->trial[trial].cand;
	float f[FEATURES];
	const bool own = !tune_is_offer(t, cand);
	if (own) {
		space_features(t->space, cand, f);
		tune_believe(t, trial, f);
	}
	tune_tried(t, trial, m, start_ns);
	t->box->trials++;
	t->result->trials++;
	t->result->met = true;
	t->result->works = t->result->works || m->status == MEAS_OK;
	t->result->turn = t->result->turn || t->trial[trial].tried.by > TRIED_INCUMBENT;
	t->result->failed += m->status != MEAS_OK && m->status != MEAS_ABORTED;
	if (m->status != MEAS_OK)
		log_more("%s: %s: %s", t->task->label, cand, meas_status_name(m->status));
	if (own)
		t->strategy->tell(t->state, cand, m);
	drop_slow(t);
	tune_progress(t);
}

int tune_try_trial(struct tune *t, int trial, struct meas *m)
{
	int64_t abort_ns = t->best >= 0 ? t->result->best_ns * ABORT_FACTOR : 0;
	int64_t start_ns = clock_now(t->box->runner->clock);
	int rc = tune_measure(t, trial, abort_ns, m);
	if (rc >= 0)
		tune_count(t, trial, m, start_ns);
	return rc < 0 ? rc : E_OK;
}

int tune_try(struct tune *t, const char *cand, int *trial, struct meas *m)
{
	*trial = tune_add(t, cand);
	return tune_try_trial(t, *trial, m);
}
