/* SPDX-License-Identifier: Apache-2.0 */
/* Times of many candidates of a task, on a machine that others slow down for half of the time: in groups of a
 * few, formed anew each time, twice each (after a run that does not count) next to a reference. A run is
 * clean where the reference ran beside it within 10 % of its own best (of its fastest twentieth). What is 1.6
 * times slower than the best runs less often, what is 3 times slower a few times. */
#ifndef TOOLS_SHOTS_H
#define TOOLS_SHOTS_H

#include "agent/worker/landscape.h"
#include "platform/base/rng.h"
#include "platform/run/runner.h"

enum {
	SHOTS_MOST = 2000, /* candidates */
	SHOTS_ROUNDS = 12, /* clean runs that may be asked for */
	SHOTS_PASSES = 8,  /* times that are run, at most */
	SHOTS_FIRST = 4,   /* runs of every candidate */
	SHOTS_RUNS = SHOTS_ROUNDS * SHOTS_PASSES
};

#define SHOTS_NEAR 1.03 /* as fast as the fastest run */

struct shot {
	int handle; /* -1: failed */
	int n;      /* runs */
	double ns[SHOTS_RUNS], ref_ns[SHOTS_RUNS];
	double min_ns;
};

struct shots {
	int n;
	struct shot *shot;
	int reference;  /* the first that works; -1: none does */
	double *ref_ns; /* all of the reference's runs */
	int nref, cap;
	double ref_best_ns;
};

void shots_open(struct shots *s, struct arena *a, int room); /* <= SHOTS_MOST */
void shots_add(struct shots *s, int handle);                 /* fewer than room, caller checked */
/* Two runs each of those that want more, if those as fast as the best want so many clean ones. Returns how
 * many did. */
int shots_run(struct shots *s, struct runner *r, struct rng *rng, bool warm, int clean) MUST_CHECK;
/* What the runs of candidate i say, into its point, whose status is of its build. */
void shots_point(const struct shots *s, int i, struct landscape_point *p);

#endif
