/* SPDX-License-Identifier: Apache-2.0 */
/* The best kernels ever found for a network, in a folder, and how they are replaced: they are replaced by
 * kernels that beat them in an interleaved heat. All heats run alone on one processor; the other processors
 * are left to the programs that watch. */
#ifndef TOOLS_CONTEST_H
#define TOOLS_CONTEST_H

#include "tools/bench/score.h"
#include "tools/hone/search_report.h"

#include <sched.h>

enum { CONTEST_OPENINGS = 3, CONTEST_ROUNDS = 15 };

struct contest {
	const struct args *args;
	struct arena *arena;
	const char *work; /* folder where the machine's peaks are kept */
	int cpu;
	cpu_set_t allowed;          /* all processors that this process may use */
	struct target target;       /* valid after a heat */
	struct disturbance machine; /* the worst of all heats */
};

struct claim {
	const char *cache, *who;
};

/* Uses the processor of --cpu, or the last that this process may use. */
int contest_open(struct contest *c, const struct args *a, struct arena *arena, const char *work) MUST_CHECK;
/* Times the first of the caches against the others. */
int contest_heat(struct contest *c, const char *model, int n, struct net_score *s) MUST_CHECK;
/* A cache that is faster than the best, in every opening, replaces it, with a note of the search that made
 * it; not if the machine was busy meanwhile. */
int contest_run(struct contest *c, const struct search_net *net, const struct claim *claim, int n) MUST_CHECK;
/* Reads into net->origin the search that found the best. */
int contest_origin(struct contest *c, struct search_net *net) MUST_CHECK;

#endif
