/* SPDX-License-Identifier: Apache-2.0 */
/* Hints: candidates and choices that strangers recommend. They lie in the cache under types of their own,
 * CACHE_HINT and CACHE_HINT_CHOICES, which no plan reads and no record look-up finds. A stranger's candidate
 * is used only after a box on this board has compiled it, checked its answers and timed it, and then as this
 * board's own record.
 *
 * CACHE_HINT: a record's text of kind REC_HINT, under its rec_key: a task has one at a time. It is open until
 * a box on this board has tried its candidate: status ok, no runs, and the stranger's claimed time as median.
 * The box that tries it stores its own measurement in it. The hint stays, as an answer to the fleet and so
 * that the same candidate is not taken again.
 *
 * CACHE_HINT_CHOICES: the text of agent/cache/chosen.h, under its key, until a box has compared them with its
 * own (agent/tune/tune_graph.h). */
#ifndef AGENT_HINT_H
#define AGENT_HINT_H

#include "agent/cache/cache.h"
#include "agent/cache/trials.h"
#include "kernels/task/level.h"

bool hint_open(const struct rec *r);        /* a REC_HINT that this board has not tried yet */
int64_t hint_claim_ns(const struct rec *h); /* of an open hint: the median that the stranger claims; > 0 */
/* The hint with a record's key. E_NOTFOUND: none. */
int hint_get(struct cache *c, const struct rec *of, struct arena *a, struct rec *out) MUST_CHECK;
/* Finds the open hint nearest to what a plan would look for (agent/run/source.h): for this number of threads
 * or for one; of the level, else of a lower one. E_NOTFOUND: none. */
int hint_find(struct cache *c, struct key task, struct key target_key, const char *device, int threads,
	      enum level level, struct arena *a, struct rec *out) MUST_CHECK;
/* Calls fn for all hints, as cache_each_rec does. */
int hint_each(struct cache *c, struct arena *a, int (*fn)(void *ctx, const struct rec *h),
	      void *ctx) MUST_CHECK;
/* Puts a hint with the record's candidate: open, or answered if the log of its task has tried the candidate.
 * Returns an enum hint. */
enum hint { HINT_OPEN, HINT_WORKED, HINT_FAILED /* or was aborted as slow */ };
int hint_put(struct cache *c, const struct rec *of) MUST_CHECK;
/* True: the candidate of a record equals that of its hint, or of this board's best record with its key. */
bool hint_is_known(struct cache *c, const struct rec *of);
/* Answers the open hint of the log's key, if its candidate was tried. */
int hint_learn(struct cache *c, const struct trials *l) MUST_CHECK;
/* Forgets a hint and what came of it: the best record with its candidate (whatever its origin, since records
 * of former versions do not tell it), that record's code, and then its trial. The trial of a candidate that
 * serves nobody stays, so that the same hint costs no second measurement. h may also be a best record whose
 * origin is a hint that another has replaced since. */
int hint_take_back(struct cache *c, const struct rec *h) MUST_CHECK;

enum {
	HINT_BYTES = 64 << 10, /* of a stranger's text, at most */
	HINT_SHARE = 4,        /* strangers' records may take 1/HINT_SHARE of the cache's cap */
};
/* 1: this many more bytes of strangers' records fit into the cache and into their share of it, without
 * evicting anything. */
int hint_has_room(struct cache *c, size_t bytes) MUST_CHECK;

/* Checks a record that hone-sync wants to put: an open hint, choices as a hint, or a mark of what it sent
 * (CACHE_SHARED, 32 hex digits). E_CORRUPT: it is something else. */
int hint_check(enum cache_type t, struct key k, const void *p, size_t n) MUST_CHECK;
/* Checks the record and puts it. Skips a hint whose candidate is this board's best already, and one without
 * room. */
int hint_bring(struct cache *c, enum cache_type t, struct key k, const void *p, size_t n) MUST_CHECK;
/* True: hone-sync may ask to forget some records of this type. */
bool hint_may_drop(enum cache_type t);
/* Forgets a hint; one of CACHE_HINT as hint_take_back does, and so a record (CACHE_REC) that came from a
 * hint. A record that this board's search found stays. Any other type: E_USAGE. Marks stay, since some
 * mark choices of the former version as a stranger's (agent/cache/chosen.c). */
int hint_drop(struct cache *c, enum cache_type t, struct key k) MUST_CHECK;

#endif
