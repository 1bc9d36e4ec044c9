/* SPDX-License-Identifier: Apache-2.0 */
/* Records between caches. As a line of JSON: {"type": "rec", "key": 32 hex digits, "text": as the cache has
 * it}. What comes in is data of strangers: it is parsed, its numbers are checked, its candidate is a schedule
 * of its task, its key has to be its own, and it is no code. What this machine knows already is not touched,
 * nor evicted: what comes in ends where it would be. Imported records are candidates for the next search,
 * which times them (agent/cache/stale.h).
 *
 * A record of the former version, whose key was another hash, gets the key that it would have now. Choices
 * say which model and class they are for, and their key follows from that; their model is not here: choices
 * for another one name nothing. A history's key is checked by nobody, and strangers' histories are not taken
 * (agent/sync/taken.h). */
#ifndef AGENT_EXCHANGE_H
#define AGENT_EXCHANGE_H

#include "agent/cache/cache.h"
#include "agent/cache/json.h"

/* What is exchanged, ends with 0. Not code. */
extern const enum cache_type exchange_types[];
const char *exchange_name(enum cache_type t); /* "rec" */

enum { EXCHANGE_LINE_BYTES = 1 << 20 /* so many or more are no record */ };

struct exchange_line {
	enum cache_type type;
	struct key key;
	const char *text; /* in the arena */
};
/* The record of a key; NULL: none, or no memory. */
json_t *exchange_json(struct cache *c, enum cache_type t, struct key k);
json_t *exchange_record(enum cache_type t, struct key k, const char *text);
/* E_CORRUPT: it is not a record that could be ours. */
int exchange_parse(const char *line, size_t n, struct arena *a, struct exchange_line *out) MUST_CHECK;
/* The same of a record that is no line. */
int exchange_read(enum cache_type t, struct key k, const char *text, struct arena *a,
		  struct exchange_line *out) MUST_CHECK;
struct exchange_sum {
	int taken, known, code, refused;
	int left_out;  /* for want of room */
	size_t no_fit; /* bytes of the smallest such record: it is not asked for as many again; 0: none */
};
/* Puts it where nothing is known under its key, and counts that. */
int exchange_put(struct cache *c, const struct exchange_line *l, struct arena *a,
		 struct exchange_sum *sum) MUST_CHECK;
void exchange_tell(const struct cache *c, const struct exchange_sum *sum); /* what was left out */

/* All of another cache of this machine: what is not known here, and the faster of two kernels with its code,
 * as far as there is room for that; a best record without code becomes a hint (agent/cache/hint.h). Records
 * are checked as on import. Adds to sum. */
int exchange_merge(struct cache *to, struct cache *from, struct exchange_sum *sum) MUST_CHECK;

#endif
