/* SPDX-License-Identifier: Apache-2.0 */
/* Finds kernels for a plan in a cache: the record of a task, then its code. */
#ifndef AGENT_SOURCE_H
#define AGENT_SOURCE_H

#include "agent/cache/cache.h"
#include "agent/run/plan.h"
#include "kernels/task/level.h"

/* Kernels of the records that agent/cache/lookup.h finds. The cache must outlive the source; one thread at a
 * time. */
int cache_source(struct cache *c, const struct target *t, int threads, enum level level, enum rec_kind kind,
		 struct kernel_source *out) MUST_CHECK;
void cache_source_free(struct kernel_source *s);

#endif
