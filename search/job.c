/* SPDX-License-Identifier: Apache-2.0 */
#include "search/job.h"

#include "platform/base/log.h"
#include "search/tune.h"

#include <stdlib.h>
#include <string.h>

/* Runner calls end this long before the job's deadline: a call may return late by one run of a kernel, and
 * the last result has to reach the sink. */
#define MARGIN_NS (45 * NS_PER_MS)

enum {
	DRY_SLICES = 2,  /* slices without gain, after which a task has dried up */
	DRY_TRIALS = 20, /* tried in earlier boxes: after these, one such slice is enough */
};
#define DRY_SHARE 0.005

struct run {
	struct box box;
	struct tune *tune;
	const struct cost *cost;
	int *order;   /* tasks without a kernel first, then the rest; each part by what their defaults save,
			 most   first */
	int nmissing; /* of tasks without a kernel */
	int ntasks;
};

bool job_had_turn(const struct job_task *t)
{
	for (int i = 0; i < t->ntried; i++)
		if (t->tried[i].by > TRIED_INCUMBENT)
			return true;
	return t->earlier && t->earlier->turn;
}

static int open_tasks(struct run *x, struct job_result *result)
{
	for (int i = 0; i < x->ntasks; i++) {
		const struct job_result *e = x->box.job->task[i].earlier;
		result[i] = (struct job_result){.turn = job_had_turn(&x->box.job->task[i]),
						.met = e && e->met,
						.works = e && e->works};
		int rc = tune_open(&x->tune[i], &x->box, x->cost, i, &result[i]);
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

/* Time that task i's default saves, by its draft, for all its uses in the model. Of tasks whose present time
 * is not known, the expensive ones are expected to save most. */
static double weight(const struct run *x, int i)
{
	const struct tune *t = &x->tune[i];
	if (t->end)
		return 0;
	double draft = space_draft(t->space, t->standard), now = (double)t->task->now_ns;
	return t->task->uses * (now > 0 ? now - draft : draft);
}

static bool missing(const struct run *x, int i)
{
	const struct job_task *t = x->tune[i].task;
	return !t->incumbent || t->codeless;
}

static void order_tasks(struct run *x, struct arena *a)
{
	double *w = ARENA_ARRAY(a, double, x->ntasks);
	for (int i = 0; i < x->ntasks; i++) {
		w[i] = weight(x, i);
		x->nmissing += missing(x, i);
		int at = i;
		for (; at > 0; at--) {
			int b = x->order[at - 1];
			if (missing(x, b) != missing(x, i) ? missing(x, b) : w[b] >= w[i])
				break;
			x->order[at] = b;
		}
		x->order[at] = i;
	}
}

static int spend(struct tune *t, int (*step)(struct tune *))
{
	int64_t start_ns = clock_now(t->box->runner->clock);
	int rc = step(t);
	t->result->spent_ns += clock_now(t->box->runner->clock) - start_ns;
	return rc;
}

/* A task whose builds no longer fit in the time left is skipped, because builds of other tasks may still fit.
 * It keeps its promise for the next box. */
static int go_on(struct tune *t, int rc)
{
	if (rc != E_STOPPED || box_over(t->box))
		return rc;
	t->late = true;
	return E_OK;
}

/* Tasks whose defaults are being built. */
struct window {
	int n;
	struct tune *task[BOX_WINDOW];
	const char *text[BOX_WINDOW], *cand[BOX_WINDOW];
};

static void enter(struct window *w, struct tune *t)
{
	w->task[w->n] = t;
	w->text[w->n] = t->task->text;
	w->cand[w->n++] = tune_ahead(t);
}

static struct tune *leave(struct window *w, int i)
{
	struct tune *t = w->task[i];
	for (w->n--; i < w->n; i++) {
		w->task[i] = w->task[i + 1];
		w->text[i] = w->text[i + 1];
		w->cand[i] = w->cand[i + 1];
	}
	return t;
}

static bool waits(const struct tune *t)
{
	return !t->end && !t->late && !t->met;
}

/* Runs the step of each task that has not met its default. Tasks go in order, except that one whose build is
 * finished goes before those whose builds are not. */
static int run_some(struct run *x, int from, int to, int (*step)(struct tune *))
{
	struct window w = {0};
	for (int i = from; i < to || w.n;) {
		for (; i < to && w.n < box_window(&x->box); i++)
			if (waits(&x->tune[x->order[i]]))
				enter(&w, &x->tune[x->order[i]]);
		if (!w.n)
			break;
		struct tune *t = leave(&w, box_next(&x->box, w.text, w.cand, w.n));
		int rc = go_on(t, spend(t, step));
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

/* Makes the task's first kernel. If that was a hint which failed, the default is built instead. */
static int begin(struct tune *t)
{
	int rc = tune_is_known(t) ? tune_known(t) : tune_default(t);
	bool lie = !t->met && t->task->claim_ns > 0 && t->known_meas.status != MEAS_OK;
	return rc >= 0 && lie ? tune_default(t) : rc;
}

static int64_t less_margin(int64_t deadline_ns)
{
	return deadline_ns == INT64_MAX ? INT64_MAX : deadline_ns - MARGIN_NS;
}

/* Takes over what an earlier job of this box found, before anything is built: the box may end during the
 * first build. */
static int resume_tasks(struct run *x)
{
	int rc = E_OK;
	for (int i = 0; i < x->ntasks && rc >= 0; i++)
		if (tune_resumes(&x->tune[x->order[i]]))
			rc = tune_default(&x->tune[x->order[i]]);
	return rc;
}

static void tell_defaults(const struct run *x)
{
	int done = 0;
	for (int i = 0; i < x->ntasks; i++)
		done += x->tune[i].end || x->tune[i].result->met;
	double s = (double)clock_since_start(x->box.runner->clock) / 1e9;
	if (done == x->ntasks)
		log_more("%.3f s: all default schedules are measured", s);
	else
		log_more("%.3f s: the default schedules of %d of %d tasks are measured", s, done, x->ntasks);
}

static int run_defaults(struct run *x)
{
	const struct job *j = x->box.job;
	int rc = resume_tasks(x);
	if (rc >= 0 && x->nmissing) {
		x->box.missing = j->limits.missing_by_ns > j->limits.deadline_ns;
		x->box.deadline_ns =
		    less_margin(j->limits.missing_by_ns > j->limits.deadline_ns ? j->limits.missing_by_ns
										: j->limits.deadline_ns);
		rc = run_some(x, 0, x->nmissing, begin);
	}
	x->box.missing = false;
	x->box.deadline_ns = less_margin(j->limits.deadline_ns);
	return rc < 0 ? rc : run_some(x, 0, x->ntasks, tune_default);
}

static double network_ns(const struct run *x)
{
	double sum = 0;
	for (int i = 0; i < x->ntasks; i++)
		sum += (double)x->tune[i].task->uses * (double)x->tune[i].result->best_ns;
	return sum;
}

/* For a quick search: a task has dried up if its distance from the roofline is negligible for the network, or
 * if its slices no longer gain anything. A task that earlier boxes tried for long must gain with its first
 * slice. */
static bool dried_up(const struct tune *t, double all_ns)
{
	double above = t->task->uses * ((double)t->result->best_ns - t->result->roofline_ns);
	int enough = t->task->ntried >= DRY_TRIALS ? 1 : DRY_SLICES;
	return t->best >= 0 && (t->fruitless >= enough || above < DRY_SHARE * all_ns);
}

/* 0: neither this job nor an earlier box has searched the task; 1: this job has not; 2: it has. */
static int turns(const struct tune *t)
{
	return t->slices ? 2 : job_had_turn(t->task);
}

/* First slices go before all others: they try the rules and the known candidates, and show what to expect. A
 * box goes on with the tasks that the boxes before it did not come to. If not all first slices fit in the
 * box, boards that divide the search begin with different tasks, drawn in proportion to the promise
 * (P. Efraimidis and P. Spirakis, "Weighted random sampling with a reservoir"). */
static bool comes_before(const struct tune *t, double promise, const struct tune *next, double most)
{
	if (!next || turns(t) != turns(next))
		return !next || turns(t) < turns(next);
	return promise > most;
}

/* Tries what other boards found before any slice, also in tasks for which the box will have no slice. */
static int run_told(struct run *x)
{
	int rc = E_OK;
	for (int i = 0; i < x->ntasks && rc >= 0; i++) {
		struct tune *t = &x->tune[x->order[i]];
		if (!t->end && !t->late && tune_is_told(t))
			rc = go_on(t, spend(t, tune_told));
	}
	return rc;
}

/* Gives one slice after the other to the task with the largest promise, until the box is over or no task
 * promises anything. */
static int run_slices(struct run *x)
{
	for (;;) {
		struct tune *next = NULL;
		double most = 0, all_ns = network_ns(x);
		for (int i = 0; i < x->ntasks; i++) {
			double p = x->tune[i].late ? 0 : tune_promise(&x->tune[i]);
			if (p <= x->box.job->limits.least || (x->box.job->limits.quick && dried_up(&x->tune[i], all_ns)))
				continue;
			p *= x->tune[i].slices ? 1 : x->tune[i].luck;
			if (comes_before(&x->tune[i], p, next, most)) {
				most = p;
				next = &x->tune[i];
			}
		}
		if (!next)
			return E_OK;
		int rc = go_on(next, spend(next, tune_slice));
		if (rc < 0)
			return rc;
	}
}

/* Why task i has no more slices. Without a promise it has no room above its roofline. */
static enum search_end end_of(const struct run *x, int i)
{
	const struct tune *t = &x->tune[i];
	if (t->end || t->late)
		return t->end ? t->end : SEARCH_LATE;
	if (tune_promise(t) <= 0)
		return SEARCH_ROOFLINE;
	return x->box.job->limits.quick && dried_up(t, network_ns(x)) ? SEARCH_DRY : SEARCH_OPEN;
}

static void tell_spent(const struct run *x, int64_t took_ns, const struct arena *a)
{
	struct job_spent *s = x->box.job->spent;
	if (!s)
		return;
	*s = x->box.spent;
	s->own_ns = took_ns - s->build_ns - s->wait_ns - s->check_ns - s->time_ns - s->race_ns;
	s->state_bytes = arena_bytes(a) + arena_bytes(&x->box.scratch) + arena_bytes(&x->box.akin.arena);
	for (int i = 0; i < x->ntasks; i++)
		s->state_bytes += arena_bytes(&x->tune[i].arena);
}

int job_run(const struct job *j, struct runner *r, struct job_result *result)
{
	struct arena a = {0};
	int64_t start_ns = clock_now(r->clock);
	struct run x = {.box = {.job = j, .runner = r, .deadline_ns = less_margin(j->limits.deadline_ns)},
			.ntasks = j->ntasks};
	x.tune = ARENA_ARRAY(&a, struct tune, j->ntasks + 1);
	x.order = ARENA_ARRAY(&a, int, j->ntasks + 1);
	const char *cost = j->search.cost ? j->search.cost : COST_DEFAULT;
	x.cost = cost_find(cost);
	int rc = x.cost ? open_tasks(&x, result) : fail(E_USAGE, "unknown cost model '%s'", cost);
	if (rc >= 0) {
		order_tasks(&x, &a);
		rc = run_defaults(&x);
		tell_defaults(&x);
	}
	if (rc >= 0 && !j->limits.defaults_only)
		rc = run_told(&x);
	if (rc >= 0 && !j->limits.defaults_only)
		rc = run_slices(&x);
	tell_spent(&x, clock_now(r->clock) - start_ns, &a);
	for (int i = 0; i < j->ntasks; i++) {
		bool broken = rc < 0 && rc != E_STOPPED;
		result[i].promise = broken ? 0 : tune_promise(&x.tune[i]);
		result[i].end = broken ? SEARCH_OPEN : end_of(&x, i);
		tune_close(&x.tune[i]);
	}
	box_drop_all(&x.box);
	arena_free(&x.box.akin.arena);
	arena_free(&x.box.scratch);
	arena_free(&a);
	return rc < 0 && rc != E_STOPPED ? rc : x.box.trials;
}

void search_count_ends(const struct job_result *result, int n, int count[SEARCH_ENDS])
{
	memset(count, 0, sizeof *count * SEARCH_ENDS);
	for (int i = 0; i < n; i++)
		count[result[i].end]++;
}
