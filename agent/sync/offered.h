/* SPDX-License-Identifier: Apache-2.0 */
/* What a board may say to its fleet: records of its class that were measured here and have their code (the
 * untuned ones, too, for people who ask what tuning gains), what came of hints (agent/cache/hint.h) that lost
 * or failed here, as records of kind "hint", choices that were made here, and how searches of models went
 * (agent/cache/history.h; again when what they came to differs in two digits). Nothing that came from
 * strangers or lies in a seed is said as one's own.
 *
 * What was sent is marked in the cache: a CACHE_SHARED record, key: hash of the server and of the record's
 * type and key, payload: 32 hex digits of what was said. Another time of the same candidate is nothing new.
 * What a seed's maker sent, this board did not.
 */
#ifndef AGENT_OFFERED_H
#define AGENT_OFFERED_H

#include "agent/cache/exchange.h"

struct offered;

/* cls: target_key as 32 hex digits; to: a name of the fleet. The cache is to be put to, and outlives it. */
int offered_open(struct cache *c, const char *cls, const char *to, struct offered **out) MUST_CHECK;
void offered_close(struct offered *o);
/* 1: the next line (agent/cache/exchange.h, without \n), in the arena; 0: there are no more. */
int offered_next(struct offered *o, struct arena *a, const char **line) MUST_CHECK;
/* The fleet has all lines so far: durable when it returns good. What was not sent comes the next time. */
int offered_sent(struct offered *o) MUST_CHECK;
/* Choices and histories that a stranger brought are not said, to nobody, as long as they are these. */
int offered_not_ours(struct cache *c, enum cache_type t, struct key k, const char *text) MUST_CHECK;

#endif
