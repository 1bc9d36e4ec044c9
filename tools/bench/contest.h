/* SPDX-License-Identifier: Apache-2.0 */
/* The best kernels ever found for a network, in a folder, and who takes their place: what is beaten in an
 * interleaved heat goes. All heats run alone on one processor; the others are for whoever watches. */
#ifndef TOOLS_CONTEST_H
#define TOOLS_CONTEST_H

#include "tools/bench/score.h"
#include "tools/hone/search_report.h"

#include <sched.h>

enum { CONTEST_OPENINGS = 3, CONTEST_ROUNDS = 15 };

struct contest {
	const struct args *args;
	struct arena *arena;
	const char *work; /* a folder for the machine's peaks */
	int cpu;
	cpu_set_t allowed;    /* all that this process may use */
	struct target target; /* known after a heat */
};

struct claim {
	const char *cache, *who;
};

/* --cpu, or the last that this process may use. */
int contest_open(struct contest *c, const struct args *a, struct arena *arena, const char *work) MUST_CHECK;
/* The first of the caches against the others. */
int contest_heat(struct contest *c, const char *model, int n, struct net_score *s) MUST_CHECK;
/* Those that are faster than the best, in every opening, get its place, with a note of who it was. */
int contest_run(struct contest *c, const struct search_net *net, const struct claim *claim, int n) MUST_CHECK;
/* Who holds it: net->origin. */
int contest_origin(struct contest *c, struct search_net *net) MUST_CHECK;

#endif
