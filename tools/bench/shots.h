/* SPDX-License-Identifier: Apache-2.0 */
/* Times many candidates of a task on a machine that other programs slow down half of the time. Candidates run
 * in groups of a few, formed anew each time, twice each (after a run that does not count) next to a
 * reference. A run is clean if the reference ran beside it within 10 % of its own best (of its fastest
 * twentieth). Candidates 1.6 times slower than the best run less often, those 3 times slower only a few
 * times. */
#ifndef TOOLS_SHOTS_H
#define TOOLS_SHOTS_H

#include "agent/worker/landscape.h"
#include "platform/base/rng.h"
#include "platform/run/runner.h"

enum {
	SHOTS_MOST = 2000, /* candidates */
	SHOTS_ROUNDS = 12, /* most clean runs that may be asked for */
	SHOTS_PASSES = 8,  /* most runs, as a multiple of the clean runs asked for */
	SHOTS_FIRST = 4,   /* minimum runs of every candidate */
	SHOTS_RUNS = SHOTS_ROUNDS * SHOTS_PASSES
};

#define SHOTS_NEAR 1.03 /* a run within this factor of the fastest run counts as equally fast */

struct shot {
	int handle; /* -1: the build failed */
	int n;      /* runs */
	double ns[SHOTS_RUNS], ref_ns[SHOTS_RUNS];
	double min_ns;
};

struct shots {
	int n;
	struct shot *shot;
	int reference;  /* first candidate that works; -1: none does */
	double *ref_ns; /* all of the reference's runs */
	int nref, cap;
	double ref_best_ns;
};

void shots_open(struct shots *s, struct arena *a, int room); /* room <= SHOTS_MOST */
void shots_add(struct shots *s, int handle);                 /* fewer than room, caller checked */
/* Runs twice each candidate that needs more runs, if the candidates as fast as the best need `clean` clean
 * ones. Returns how many ran. */
int shots_run(struct shots *s, struct runner *r, struct rng *rng, bool warm, int clean) MUST_CHECK;
/* Writes the times of candidate i into its point, whose status is that of the build. */
void shots_point(const struct shots *s, int i, struct landscape_point *p);

#endif
