/* SPDX-License-Identifier: Apache-2.0 */
/* Hints: what strangers say is good. They lie in the cache under types of their own, CACHE_HINT and
 * CACHE_HINT_CHOICES, which no plan reads and which no look-up of a record finds: a stranger's candidate
 * serves only after a box here has compiled it, checked its answers and timed it, and then as that box's own
 * record.
 *
 * CACHE_HINT: a record's text of kind REC_HINT, under its rec_key: a task has one at a time. It is open as
 * long as no box here has tried its candidate: status ok, no runs, and as median what the stranger claims. A
 * box that tried it puts its own measurement into it, and it stays, as an answer to the fleet and so that the
 * same candidate is not taken again.
 *
 * CACHE_HINT_CHOICES: the text of agent/cache/chosen.h, under its key, until a box has compared them with its
 * own (agent/tune/tune_graph.h). */
#ifndef AGENT_HINT_H
#define AGENT_HINT_H

#include "agent/cache/cache.h"
#include "agent/cache/trials.h"

bool hint_open(const struct rec *r);        /* of kind REC_HINT: not tried here */
int64_t hint_claim_ns(const struct rec *h); /* of an open one: its median, as the stranger says; > 0 */
/* The hint of a record's key. E_NOTFOUND: none. */
int hint_get(struct cache *c, const struct rec *of, struct arena *a, struct rec *out) MUST_CHECK;
/* The open hint that comes nearest to what a plan would look for (agent/run/source.h): of these threads or of
 * one, inexact only where that is wanted. E_NOTFOUND: none. */
int hint_find(struct cache *c, struct key task, struct key target_key, int threads, bool exact,
	      struct arena *a, struct rec *out) MUST_CHECK;
/* All hints, as cache_each_rec. */
int hint_each(struct cache *c, struct arena *a, int (*fn)(void *ctx, const struct rec *h),
	      void *ctx) MUST_CHECK;
/* One with the candidate of a record, open, or as the log of its key knows it. Returns an enum hint. */
enum hint { HINT_OPEN, HINT_WORKED, HINT_FAILED /* or was given up as slow */ };
int hint_put(struct cache *c, const struct rec *of) MUST_CHECK;
/* The candidate of a record is that of its hint, or of this board's best record of its key. */
bool hint_is_known(struct cache *c, const struct rec *of);
/* Answers the open hint of the log's key, if its candidate was tried. */
int hint_learn(struct cache *c, const struct trials *l) MUST_CHECK;
/* Forgets a hint and what came of it: the best record with its candidate, that record's code, and then its
 * trial. The trial of a candidate that serves nobody stays, so that the same hint costs no second
 * measurement. */
int hint_take_back(struct cache *c, const struct rec *h) MUST_CHECK;

enum {
	HINT_BYTES = 64 << 10, /* of a stranger's text, at most */
	HINT_SHARE = 4,        /* strangers' records take one part in so many of the cache's cap */
};
/* 1: so many more bytes of strangers' have room in the cache and in their share of it; nothing goes for them.
 */
int hint_has_room(struct cache *c, size_t bytes) MUST_CHECK;

/* Checks what hone-sync may put into a cache: an open hint, choices as a hint, or a mark of what it sent
 * (CACHE_SHARED, 32 hex digits). E_CORRUPT: it is something else. */
int hint_check(enum cache_type t, struct key k, const void *p, size_t n) MUST_CHECK;
/* Checks and puts it. A hint whose candidate this board already has as its best is passed over, and so is one
 * that has no room. */
int hint_bring(struct cache *c, enum cache_type t, struct key k, const void *p, size_t n) MUST_CHECK;
/* Forgets a hint, of CACHE_HINT as hint_take_back does. Any other type: E_USAGE. Marks stay, for some say
 * that choices of the former version are a stranger's (agent/cache/chosen.c). */
int hint_drop(struct cache *c, enum cache_type t, struct key k) MUST_CHECK;

#endif
