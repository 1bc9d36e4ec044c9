/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules of any task: one for each number or name, by which tests tell records apart, and the default. */
#ifndef TESTS_CANDS_H
#define TESTS_CANDS_H

#include "kernels/space/sched.h"
#include "kernels/space/space.h"
#include "platform/base/mix.h"

#include <stdlib.h>

static inline void cand_of(const char *task_text, int number, char out[CAND_MAX])
{
	struct task *t = malloc(sizeof *t);
	struct sched *s = malloc(sizeof *s);
	if (!t || !s || task_parse(task_text, t) < 0)
		abort();
	sched_init(t, s);
	s->st[0].par = 1;
	s->st[0].outer[0] = true;
	s->st[0].block[0] = number + 1;
	if (sched_text(t, s, out) < 0)
		abort();
	free(s);
	free(t);
}

static inline void cand_named(const char *task_text, const char *name, char out[CAND_MAX])
{
	cand_of(task_text, (int)(mix_text(name).lo % 1000000000), out);
}

static inline void cand_default(const char *task_text, const struct target *machine, char out[CAND_MAX])
{
	struct arena a = {0};
	struct task *t = ARENA_NEW(&a, struct task);
	struct space *s;
	if (task_parse(task_text, t) < 0 || space_make(&a, t, machine, NULL, &s) < 0)
		abort();
	space_default(s, out);
	arena_free(&a);
}

#endif
