/* SPDX-License-Identifier: Apache-2.0 */
/* A valid schedule of any task for each number or name, so that tests can tell records apart. */
#ifndef TESTS_CANDS_H
#define TESTS_CANDS_H

#include "kernels/space/sched.h"
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

#endif
