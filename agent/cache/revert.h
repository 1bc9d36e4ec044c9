/* SPDX-License-Identifier: Apache-2.0 */
/* The last word over tuned kernels. They were raced alone but serve in a network, which leaves other data in
 * the caches: where a task's best kernels take longer there than default ones, the default becomes the best.
 * Its record and code are put once more, as such; what lost is found by the next search, if it is worth it.
 */
#ifndef AGENT_REVERT_H
#define AGENT_REVERT_H

#include "agent/cache/cache.h"
#include "platform/machine/target.h"

/* A kernel as it serves in two networks, one with default and one with best kernels, which run in turn: its
 * times, one of each in a round. */
enum { SERVED_ROUNDS = 64 };
struct served {
	struct key task;
	int default_at, best_at; /* the kernel in each network */
	int rounds;
	int64_t default_ns[SERVED_ROUNDS], best_ns[SERVED_ROUNDS]; /* 0: not timed */
};

/* A task is judged by the sums over its kernels in each round: it loses where the median of the rounds'
 * ratios says so, and by far more rounds than chance gives (a sign test: neighbours in time share the
 * machine's phase, so single minimums of both would judge by luck). Of one that was not timed everywhere
 * nothing is said. Returns the number of tasks that went back. E_IO as cache_put. */
int revert(struct cache *c, const struct target *t, int threads, bool exact, int nkernels,
	   const struct served *kernel) MUST_CHECK;

#endif
