/* SPDX-License-Identifier: Apache-2.0 */
/* Collects known candidates to try first (the seeds of struct job_task) from the cache's records of a job's
 * tasks and of other tasks of the same kinds. */
#ifndef AGENT_SEEDS_H
#define AGENT_SEEDS_H

#include "agent/cache/cache.h"
#include "kernels/task/level.h"
#include "platform/machine/target.h"
#include "search/job.h"

enum { HINT_SEEDS = 2, MAX_SEEDS = 4, AKIN_SEEDS = 2 };

/* Sets nseeds and seed of every job[i], whose text and incumbent are given.
 *
 * First come at most HINT_SEEDS open hints (agent/cache/hint.h) of this task and target, the nearest number
 * of threads first. Then at most MAX_SEEDS distinct candidates, other than the incumbent, that were the best
 * of the same task: those of this target before those of others, then the nearest number of threads, then the
 * fastest. Then at most AKIN_SEEDS that won in tasks of the same kind (kernels/space/transfer.h) outside of
 * the job: this target's first, then those of the nearest shapes. Candidates that won there as the default
 * schedule are left out, since every task has its own default; so are those that only a stranger claims to
 * have won, since each would cost all those tasks a trial. Records that do not serve the level are left out.
 * The newest 2,000 winners in other tasks count. Records are not trusted: their contents are passed
 * on, or skipped. All lives in `a`. */
int cache_seeds(struct cache *c, const struct target *t, int threads, enum level level, struct arena *a,
		int ntasks, struct job_task *job) MUST_CHECK;

#endif
