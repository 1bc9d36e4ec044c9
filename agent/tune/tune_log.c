/* SPDX-License-Identifier: Apache-2.0 */
/* The trial logs of a tuning job. It continues the cache's logs and adds each trial. The logs are put into
 * the cache LOG_WRITES times in a box and at its end: not more often, because each write is some KB of
 * flash. */
#include "agent/tune/tune_parts.h"

#include "agent/cache/hint.h"
#include "platform/base/log.h"

#include <stdio.h>
#include <string.h>

enum { LOG_WRITES = 3 };

#define LOG_LEAST_NS (3 * NS_PER_S) /* least time between two writes */

static void name_log(const struct session *s, int i, struct trials *l)
{
	trials_start(l, s->task[i].key, s->task[i].text, s->job[i].label);
	l->target_key = target_key(&s->target);
	l->threads = s->o->threads;
	l->level = s->o->level;
	strcpy(l->device, target_device(&s->target));
	snprintf(l->target, sizeof l->target, "%s %s %d", s->target.soc, s->target.isa, s->target.lanes);
	snprintf(l->emitter, sizeof l->emitter, "%s", s->runner->emitter);
}

/* Reads the log of earlier boxes for task i, or makes an empty one. Times with another emitter are dropped:
 * they say nothing about this one's kernels. */
static int open_log(struct session *s, int i)
{
	struct trials *l = &s->store.log[i].trials, *old = ARENA_NEW(s->a, struct trials);
	name_log(s, i, l);
	int rc = trials_get(s->store.cache, trials_key(l), old);
	if (rc < 0)
		return rc == E_NOTFOUND ? E_OK : rc;
	if (strcmp(old->emitter, l->emitter)) {
		l->spent_ns = old->spent_ns;
		l->fallback_ns = old->fallback_ns;
		trials_free(old);
		return E_OK;
	}
	trials_free(l);
	*l = *old;
	return E_OK;
}

/* Whether an earlier job of this box has tried the task, so that the log in the cache counts this box. */
static bool is_counted(const struct job_task *t)
{
	return t->earlier && t->earlier->met;
}

/* Gives the job copies of the known trials, because the log changes while the job runs. --fresh ignores
 * earlier boxes, but not earlier jobs of this one. */
static void give_known(struct session *s, int i)
{
	const struct trials *l = &s->store.log[i].trials;
	struct tried *known = ARENA_ARRAY(s->a, struct tried, l->n + 1);
	int n = 0;
	for (int k = 0; k < l->n; k++) {
		if (s->o->fresh && (!is_counted(&s->job[i]) || l->entry[k].box != l->boxes))
			continue;
		known[n] = l->entry[k].t;
		known[n].cand = arena_strdup(s->a, known[n].cand);
		n++;
	}
	s->job[i].tried = known;
	s->job[i].ntried = n;
	if (s->job[i].earlier)
		return;
	s->report->known += n;
	for (int k = 0; k < MEAS_STATUSES; k++)
		s->report->earlier_trials += l->count[k];
}

int tune_log_open(struct session *s)
{
	s->store.log = ARENA_ARRAY(s->a, struct task_log, s->ntasks + 1);
	s->store.logged_ns = clock_now(s->clock);
	for (int i = 0; i < s->ntasks; i++) {
		struct task_log *g = &s->store.log[s->store.nlogs++];
		int rc = open_log(s, i);
		if (rc < 0)
			return rc;
		give_known(s, i);
		g->trials.boxes += !is_counted(&s->job[i]);
		g->spent_before_ns = g->trials.spent_ns;
		for (int k = 0; k < s->start.nbuilt_in && !g->trials.fallback_ns; k++)
			if (key_equal(s->start.built_in[k].task, s->task[i].key))
				g->trials.fallback_ns = s->start.built_in[k].ns;
	}
	return E_OK;
}

void tune_log_close(struct session *s)
{
	for (int i = 0; i < s->store.nlogs; i++)
		trials_free(&s->store.log[i].trials);
	s->store.nlogs = 0;
}

int tune_log_put(struct session *s)
{
	s->store.logged_ns = clock_now(s->clock);
	for (int i = 0; i < s->store.nlogs; i++) {
		struct task_log *g = &s->store.log[i];
		const struct job_result *r = &s->result[i];
		if (!g->changed)
			continue;
		g->trials.spent_ns = g->spent_before_ns + r->spent_ns;
		g->trials.best_ns = r->best_ns;
		g->trials.default_ns = r->default_ns;
		int rc = trials_put(s->store.cache, &g->trials);
		if (rc >= 0)
			rc = hint_learn(s->store.cache, &g->trials);
		if (rc < 0)
			return rc;
		g->changed = false;
	}
	return E_OK;
}

void tune_log_add(void *ctx, int task, const struct tried *t)
{
	struct session *s = ctx;
	struct task_log *g = &s->store.log[task];
	int64_t now_ns = clock_now(s->clock), every_ns = s->o->budget_ns / (LOG_WRITES + 1);
	struct tried own = *t;
	own.at_ns -= now_ns - clock_since_start(s->clock);
	trials_add(&g->trials, &own, g->trials.boxes);
	g->changed = true;
	if (now_ns - s->store.logged_ns < (every_ns > LOG_LEAST_NS ? every_ns : LOG_LEAST_NS))
		return;
	int rc = tune_log_put(s);
	if (rc == E_IO)
		tune_warn(s);
	else if (rc < 0)
		log_more("%s", err_text());
}
