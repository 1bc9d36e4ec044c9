/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the lines that a board sends to its fleet: records of its class that were measured here and whose
 * code is in the cache (also the default ones, for people who ask what tuning gains); results of hints
 * (agent/cache/hint.h) that lost or failed here, as records of kind "hint"; choices of its class that were
 * made here; and histories of searches (agent/cache/history.h; sent again when the final total differs in two
 * digits). Records and choices for another device of the board are of another class: they are not sent. A
 * board never sends as its own what strangers brought or what lies in a seed.
 *
 * Lines that were sent are marked in the cache by a CACHE_SHARED record. Its key is a hash of the server and
 * of the record's type and key; its payload is 32 hex digits, a hash of what was sent. A new time of the same
 * candidate is not sent again. Marks in a seed do not count: its maker sent those records, this board did
 * not. */
#ifndef AGENT_OFFERED_H
#define AGENT_OFFERED_H

#include "agent/cache/exchange.h"

struct offered;

/* cls: target_key as 32 hex digits; to: a name of the fleet. The cache must be writable, and outlives
 * *out. */
int offered_open(struct cache *c, const char *cls, const char *to, struct offered **out) MUST_CHECK;
void offered_close(struct offered *o);
/* The type (enum cache_type) of the next line, which *line gets (agent/cache/exchange.h, without \n), in the
 * arena; 0: there are no more. */
int offered_next(struct offered *o, struct arena *a, const char **line) MUST_CHECK;
/* The caller says that the fleet has these n lines, numbered from 0 in the order of offered_next since
 * offered_open; their marks are durable when it returns good. Other lines come again the next time. */
int offered_sent(struct offered *o, const int *line, int n) MUST_CHECK;
/* Excludes choices or a history that a stranger brought: they are sent to nobody as long as their text
 * stays. */
int offered_not_ours(struct cache *c, enum cache_type t, struct key k, const char *text) MUST_CHECK;

#endif
