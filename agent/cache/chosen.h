/* SPDX-License-Identifier: Apache-2.0 */
/* A model divided into steps by the choices that a cache keeps for it: tuning, benchmarks and runs that read
 * the same cache get the same graph.
 *
 * Record: agent/cache/chosen_rec.h, for the graph_key of the optimised graph. A damaged record is a miss. */
#ifndef AGENT_CHOSEN_H
#define AGENT_CHOSEN_H

#include "agent/cache/cache.h"
#include "kernels/group/group.h"
#include "kernels/task/level.h"

struct chosen_for {
	struct cache *cache; /* NULL: no choices, only rules */
	const struct target *target;
	int threads;
	enum level level;
};

/* Loads the choices for `threads`, else those for the nearest number (agent/cache/lookup.h); if there are
 * none of this level, those of the next lower one (kernels/task/level.h). If there are none, *out is empty.
 */
int chosen_load(const struct chosen_for *f, const struct graph *g, struct arena *a,
		struct choices *out) MUST_CHECK;
/* Loads strangers' choices for exactly these threads and this level (agent/cache/hint.h). They are only
 * for comparison. E_NOTFOUND: none. */
int chosen_hint(const struct chosen_for *f, const struct graph *g, struct arena *a,
		struct choices *out) MUST_CHECK;
int chosen_hint_forget(const struct chosen_for *f, const struct graph *g) MUST_CHECK; /* call after the
											 comparison */
int chosen_save(const struct chosen_for *f, const struct graph *g, const struct choices *c) MUST_CHECK;
/* Forgets the choices, strangers' too, for every number of threads and every level. */
int chosen_forget(const struct chosen_for *f, const struct graph *g) MUST_CHECK;
/* Divides an optimised graph. *c becomes {0} if the choices do not fit the graph. It loses the choice of
 * bytes if a task of bytes has no kernel in any of the n caches f[]: portable code for the operators is then
 * faster than what runs the task. n 0: kernels are not looked for. */
int chosen_divide(const struct target *t, const struct chosen_for *f, int n, struct graph *g, struct arena *a,
		  struct choices *c, struct steps **out) MUST_CHECK;
/* Optimises the graph and divides it. *c: the loaded choices. */
int chosen_steps(const struct chosen_for *f, struct graph *g, struct arena *a, struct choices *c,
		 struct steps **out) MUST_CHECK;

#endif
