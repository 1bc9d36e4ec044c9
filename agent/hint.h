/* SPDX-License-Identifier: Apache-2.0 */
/* Hints: strangers' candidates in the cache (agent/taken.h), until a box here has tried them, and what came
 * of that.
 *
 * A hint is a record of kind REC_HINT: one for each key, so that a task has one at a time. Nothing that its
 * maker claims is in it. It is open as long as no box here tried its candidate: status ok, no runs, no times.
 * A box that did puts its own measurement into it, and it stays, as an answer to the fleet and so that the
 * same candidate is not taken again. No plan looks for hints. */
#ifndef AGENT_HINT_H
#define AGENT_HINT_H

#include "agent/cache.h"
#include "agent/trials.h"

bool hint_open(const struct rec *r); /* of kind REC_HINT: not tried here */
/* The hint of a record's key. E_NOTFOUND: none. */
int hint_get(struct cache *c, const struct rec *of, struct arena *a, struct rec *out) MUST_CHECK;
/* One with the candidate of a record, open, or as the log of its key knows it. Returns an enum hint. */
enum hint { HINT_OPEN, HINT_WORKED, HINT_FAILED /* or was given up as slow */ };
int hint_put(struct cache *c, const struct rec *of) MUST_CHECK;
/* A record of kind REC_BEST is what a stranger said: its candidate is that of an open hint, and has no code.
 */
bool hint_claims(struct cache *c, const struct rec *best);
/* What a box tried: the open hint of the log's key gets the measurement of its candidate, if there is one. */
int hint_learn(struct cache *c, const struct trials *l) MUST_CHECK;

#endif
