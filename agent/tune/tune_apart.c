/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which of a box's candidates come from strangers: open hints among the seeds, and incumbents that
 * are a stranger's claim. */
#include "agent/tune/tune_parts.h"

#include "agent/worker/runner_apart.h"
#include "agent/worker/wire.h"

#include <string.h>

static bool knows(const struct session *s, const char *task, const char *cand)
{
	for (int i = 0; i < s->nforeign; i++)
		if (!strcmp(s->foreign[i].cand, cand) && !strcmp(s->foreign[i].task, task))
			return true;
	return false;
}

static void add(struct session *s, const char *task, const char *cand)
{
	if (knows(s, task, cand))
		return;
	if (s->nforeign == s->foreign_cap) {
		int cap = s->foreign_cap ? 2 * s->foreign_cap : 32;
		struct foreign *p = ARENA_ARRAY(s->a, struct foreign, cap);
		for (int i = 0; i < s->nforeign; i++)
			p[i] = s->foreign[i];
		s->foreign = p;
		s->foreign_cap = cap;
	}
	s->foreign[s->nforeign++] = (struct foreign){task, cand};
}

void tune_apart_tasks(struct session *s)
{
	for (int i = 0; i < s->ntasks; i++) {
		const struct job_task *t = &s->job[i];
		if (t->incumbent && t->claim_ns > 0)
			add(s, t->text, t->incumbent);
		for (int k = 0; k < t->nseeds; k++)
			if (t->seed[k].foreign)
				add(s, t->text, t->seed[k].cand);
	}
}

/* The default candidate never counts as a stranger's: this board makes it whether a stranger proposes it or
 * not. */
static bool is_default(const struct session *s, const char *task, const char *cand)
{
	for (int i = 0; s->result && i < s->ntasks; i++)
		if (!strcmp(s->job[i].text, task))
			return !strcmp(s->result[i].standard, cand);
	return false;
}

bool tune_is_foreign(const struct session *s, const char *task, const char *cand)
{
	return knows(s, task, cand) && !is_default(s, task, cand);
}

static bool is_foreign(void *ctx, const char *task, const char *cand)
{
	return tune_is_foreign(ctx, task, cand);
}

int tune_apart(struct session *s)
{
	const struct apart_ways ways = {.foreign = is_foreign,
					.ctx = s,
					.hire = runner_worker_again,
					.emit = runner_worker_emit,
					.load = runner_worker_load,
					.rest = runner_worker_rest};
	return runner_apart(s->runner, &ways, &s->runner);
}
