/* SPDX-License-Identifier: Apache-2.0 */
/* A strategy on a task of the simulator, for tests that ask it and tell it times themselves. */
#ifndef TESTS_STRATEGY_SETUP_H
#define TESTS_STRATEGY_SETUP_H

#include "platform/run/dev_sim.h"
#include "search/cost.h"
#include "search/strategy.h"
#include "tests/lib/test.h"

struct setup {
	struct arena a;
	struct target t;
	struct space *space;
	struct guide guide;
	void *state;
};

static inline void open_task(struct setup *u, const struct strategy *s, const char *cost, const char *text,
			     uint64_t seed)
{
	memset(u, 0, sizeof *u);
	dev_sim.probe(&u->t);
	struct task *t = ARENA_NEW(&u->a, struct task);
	CHECK_OK(task_parse(text, t));
	CHECK_OK(space_make(&u->a, t, &u->t, NULL, &u->space));
	u->guide = (struct guide){.space = u->space, .cost = cost_find(cost)};
	CHECK_OK(s->start(&u->a, &u->guide, seed, &u->state));
}

static inline void tell_ns(struct setup *u, const struct strategy *s, const char *cand, int64_t ns)
{
	const struct meas m = {.status = MEAS_OK, .runs = 3, .min_ns = ns};
	s->tell(u->state, cand, &m);
}

#endif
