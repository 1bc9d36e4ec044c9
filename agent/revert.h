/* SPDX-License-Identifier: Apache-2.0 */
/* The last word over tuned kernels. They were raced alone but serve in a network, which leaves other data in
 * the caches: where a task's best kernels take longer there than default ones, the default becomes the best.
 * Its record and code are put once more, as such; what lost is found by the next search, if it is worth it.
 */
#ifndef AGENT_REVERT_H
#define AGENT_REVERT_H

#include "agent/cache.h"
#include "platform/target.h"

/* A kernel as it serves in a network, the fastest of its timed runs. 0: not timed. */
struct served {
	struct key task;
	int64_t default_ns, best_ns;
};

/* Sums over all kernels of a task; of one that was not timed everywhere nothing is said. Returns the number
 * of tasks that went back. E_IO as cache_put. */
int revert(struct cache *c, const struct target *t, int threads, bool exact, int nkernels,
	   const struct served *kernel) MUST_CHECK;

#endif
