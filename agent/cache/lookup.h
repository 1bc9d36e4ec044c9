/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the record of the cache that serves a task. If none was tuned for this number of threads, the one for
 * the nearest number serves; if none was tuned at this level, one of the next lower level
 * does (kernels/task/level.h); if there is no REC_BEST, the REC_OWN of the same number of threads and
 * level, or at last the REC_DEFAULT. A lookup of kind REC_OWN is for a process that cannot use libraries: it
 * skips a REC_BEST whose kernel is a library's. */
#ifndef AGENT_LOOKUP_H
#define AGENT_LOOKUP_H

#include "agent/cache/cache.h"
#include "kernels/loops/code.h"
#include "kernels/task/level.h"
#include "platform/machine/target.h"

enum { LOOKUP_THREADS = 16 };

/* Numbers of threads that records are looked for, nearest to `own` first, the smaller one of two as near:
 * own, and those that processors have. Returns how many. */
int lookup_threads(int own, int out[LOOKUP_THREADS]);

struct lookup {
	struct key target_key;
	const struct target *target; /* the code must run on it; may be NULL where no code is asked for */
	int threads;
	enum level level;
	enum rec_kind kind; /* REC_BEST, REC_OWN, or REC_DEFAULT to exclude best records */
};

/* Finds the record that serves a task, and its code if `code` is not NULL: a record whose code is missing,
 * damaged, of another CODE_REVISION, for features that the target lacks, or of another task is then skipped
 * for the next one in the order above. text: the task's text, which must equal the record's; NULL: only the
 * key is compared. E_NOTFOUND: none. */
int lookup_find(struct cache *c, const struct lookup *l, struct key task, const char *text, struct arena *a,
		struct rec *out, struct code *code) MUST_CHECK;
/* Whether the schedule of a record that lookup_find found is the default one, which a cache also keeps. */
bool lookup_at_default(struct cache *c, const struct lookup *l, const struct rec *found);
/* The same without code. */
int cache_find_rec(struct cache *c, struct key task, const struct target *t, int threads, enum level level,
		   enum rec_kind kind, struct arena *a, struct rec *out) MUST_CHECK;
/* The record's code is there, whole, and of a revision that runs here (kernels/loops/code.h), on t (NULL: its
 * features are not compared). */
bool cache_has_code(struct cache *c, const struct target *t, const struct rec *r);

#endif
