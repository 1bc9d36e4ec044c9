/* SPDX-License-Identifier: Apache-2.0 */
/* Records between caches. As a line of JSON: {"type": "rec", "key": 32 hex digits, "text": the text in
 * the cache}. The first line of an export also has "records", the number of its lines, so that a reader sees
 * when lines are missing; former exports have no count, and former readers ignore it. Imported records are
 * strangers' data: each is parsed, its numbers are checked, its
 * candidate must be a schedule of its task, its key must follow from its content, and it must not be
 * code. Records that this machine has already are neither changed nor evicted; a record that would need
 * an eviction is left out. Imported records are candidates for the next search, which times them
 * (agent/cache/stale.h).
 *
 * A record of the former version, whose key was another hash, gets its present key. Choices name their
 * model and class, and their key follows from that; the model itself is not here, so choices of an
 * unknown model have no effect. So it is with recipes, which decide what a model answers at level int8: they
 * are exchanged among caches of one owner alone (agent/cache/recipe.h). Nobody can check a history's key, and
 * strangers' histories are not taken (agent/sync/taken.h). */
#ifndef AGENT_EXCHANGE_H
#define AGENT_EXCHANGE_H

#include "agent/cache/cache.h"
#include "agent/cache/json.h"

/* The types that are exchanged; ends with 0. Code is not exchanged. */
extern const enum cache_type exchange_types[];
const char *exchange_name(enum cache_type t); /* "rec" */

enum { EXCHANGE_LINE_BYTES = 1 << 20 /* a line this long or longer is not a record */ };

struct exchange_line {
	enum cache_type type;
	struct key key;
	const char *text; /* in the arena */
	int64_t records;  /* lines of the export that begins with this one; 0: it does not say */
};
#define EXCHANGE_COUNT "records"
/* Others take hone's kernels alone: to them hone's own best one beside a library's (agent/cache/own.h) is the
 * best one. *k, *text: of a record of type CACHE_REC, and what is sent for it. 0: nothing is. */
int exchange_for_others(struct cache *c, struct key *k, const char **text, struct arena *a) MUST_CHECK;
/* 1: the line for the record with this key; 0: it is not for others; < 0: there is none, no memory, or a
 * record that no line can hold. */
int exchange_json(struct cache *c, enum cache_type t, struct key k, json_t **out) MUST_CHECK;
json_t *exchange_record(enum cache_type t, struct key k, const char *text);
/* E_CORRUPT: it is not a valid record; out->records is that of its JSON, or 0. */
int exchange_parse(const char *line, size_t n, struct arena *a, struct exchange_line *out) MUST_CHECK;
/* As exchange_parse, for a record that is not a JSON line. */
int exchange_read(enum cache_type t, struct key k, const char *text, struct arena *a,
		  struct exchange_line *out) MUST_CHECK;
/* Writes numbers of lines by type in words: "2 records, choices for 1 model and 1 history of a search". A
 * hint is a record; "0 records" if there are no lines. */
void exchange_words(const int of[CACHE_TYPES], struct buf *out);
struct exchange_sum {
	bool replace; /* by the caller: a record replaces another one with its key */
	int taken, known, code, refused;
	int of[CACHE_TYPES]; /* the taken ones by type */
	int others;          /* of the known ones: this cache has another text */
	int left_out;        /* records without room */
	int hints;           /* untried hints, which a merge leaves where they are */
	size_t no_fit; /* bytes of the smallest record without room, so that larger ones are not tried; 0:
			  none */
};
/* Puts the record if its key is not in the cache yet, or if sum->replace, and counts the result. */
int exchange_put(struct cache *c, const struct exchange_line *l, struct arena *a,
		 struct exchange_sum *sum) MUST_CHECK;
void exchange_tell(const struct cache *c, const struct exchange_sum *sum); /* logs how many records were left
									      out */

/* Merges all records of another cache of this machine: those that this cache lacks, and the faster of two
 * kernels with its code, as far as there is room; a best record without code becomes a hint
 * (agent/cache/hint.h). Hints that were not tried stay where they are, and are counted. Of two recipes,
 * choices, histories or logs with one key this cache's stays. Records are checked as on import. Adds to sum.
 */
int exchange_merge(struct cache *to, struct cache *from, struct exchange_sum *sum) MUST_CHECK;

#endif
