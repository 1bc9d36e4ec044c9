/* SPDX-License-Identifier: Apache-2.0 */
/* The final check of tuned kernels. They were raced alone but serve in a network, which leaves other data in
 * the processor's caches: if a task's best kernels take longer there than default ones, the default becomes
 * the best. Its record and code are put again as REC_BEST; a later search may find the loser again. Where a
 * whole network lost, all of its tasks get default kernels, or those that were the best before. */
#ifndef AGENT_REVERT_H
#define AGENT_REVERT_H

#include "agent/cache/cache.h"
#include "kernels/task/level.h"
#include "platform/machine/target.h"

/* Times of a kernel in two networks that run in turn, one with default and one with best kernels: one time of
 * each in a round. */
enum { SERVED_ROUNDS = 64 };
struct served {
	struct key task;
	int default_at, best_at; /* the kernel in each network */
	int rounds;
	int64_t default_ns[SERVED_ROUNDS], best_ns[SERVED_ROUNDS]; /* 0: not timed */
};

/* A task is judged by the sums over its kernels in each round. Its best kernel loses if the median of the
 * rounds' ratios says so, and in far more rounds than chance gives (a sign test: neighbours in time share the
 * machine's phase, so comparing the minimum of each would depend on luck). A task with a kernel that was not
 * timed in every round is not judged. Returns the number of tasks that were reverted. E_IO as cache_put. */
int revert(struct cache *c, const struct target *t, int threads, enum level level, int nkernels,
	   const struct served *kernel) MUST_CHECK;
/* The default becomes the best for each of these tasks, for a network that is slower with the best kernels
 * though no task alone has lost. Other networks with the same tasks use the defaults, too. Returns the number
 * of tasks that were reverted. */
int revert_all(struct cache *c, const struct target *t, int threads, enum level level, int ntasks,
	       const struct key *task) MUST_CHECK;
/* Best kernels of tasks at one time: their records and code. */
struct bests {
	int n;
	struct rec *rec;
	struct blob *code;
};
/* Those of the tasks that have one with code, in the arena. */
void bests_keep(struct cache *c, const struct target *t, int threads, enum level level, int ntasks,
		const struct key *task, struct arena *a, struct bests *out);
/* They become the best again, for a network that is slower with the present ones. Returns the number of tasks
 * whose best kernel is another one now. E_IO as cache_put. */
int bests_restore(struct cache *c, const struct target *t, const struct bests *b) MUST_CHECK;
/* Whether there are tasks and each one's best kernel is the default one, by lookup_at_default. */
bool all_at_defaults(struct cache *c, const struct target *t, int threads, enum level level, int ntasks,
		     const struct key *task);

#endif
