/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for a plan out of a cache: the record of a task, then the code that belongs to it. */
#ifndef AGENT_SOURCE_H
#define AGENT_SOURCE_H

#include "agent/cache.h"
#include "agent/plan.h"
#include "search/job.h"

/* What a task's record is looked up with. Where none was tuned for `threads`, the one of a single thread
 * serves; where nothing inexact was tuned, the exact record does; where there is no REC_BEST, the
 * REC_DEFAULT. A record serves with its code alone: where that is missing, or of another CODE_REVISION, the
 * next one in this order does. The cache must outlive the source; one thread at a time. */
int cache_source(struct cache *c, const struct target *t, int threads, bool exact, enum rec_kind kind,
		 struct kernel_source *out) MUST_CHECK;
void cache_source_free(struct kernel_source *s);

/* The record that such a source would use for a task. E_NOTFOUND: none. */
int cache_find_rec(struct cache *c, struct key task, const struct target *t, int threads, bool exact,
		   enum rec_kind kind, struct arena *a, struct rec *out) MUST_CHECK;
/* Its code is there, whole, and of a revision that runs here (kernels/code.h). */
bool cache_has_code(struct cache *c, const struct rec *r);

#endif
