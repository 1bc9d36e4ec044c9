/* SPDX-License-Identifier: Apache-2.0 */
/* What the cache knows of a job's tasks and of others of their kinds, as candidates to try first. */
#ifndef AGENT_SEEDS_H
#define AGENT_SEEDS_H

#include "agent/cache/cache.h"
#include "platform/machine/target.h"
#include "search/job.h"

enum { HINT_SEEDS = 2, MAX_SEEDS = 4, AKIN_SEEDS = 2 };

/* Sets nseeds and seed of every job[i] whose text and incumbent are given.
 *
 * First of all at most HINT_SEEDS open hints (agent/cache/hint.h) of this task and target, the nearest number
 * of threads first. Then at most MAX_SEEDS distinct candidates, none of them the incumbent, that were the
 * best of the same task. Those of this target come before those of others, among them the nearest number of
 * threads, among equals the fastest. Then at most AKIN_SEEDS that won in tasks of the same kind
 * (kernels/space/transfer.h) outside of the job, this target's again first, then those of the nearest shapes;
 * not where they won as the default schedule, which every task has of its own, nor where a stranger alone
 * says that they did: that would cost each of those tasks a trial. With `exact`, what was found without it is
 * left out. Of those that won elsewhere the newest 2,000 count. Records are not trusted: what they say is
 * passed on, or passed over. All lives in `a`. */
int cache_seeds(struct cache *c, const struct target *t, int threads, bool exact, struct arena *a, int ntasks,
		struct job_task *job) MUST_CHECK;

#endif
