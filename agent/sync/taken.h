/* SPDX-License-Identifier: Apache-2.0 */
/* Takes records of strangers (a fleet's blob, a pack, a file of hone export) into the cache: parsed,
 * range-checked, without code, and as candidates. No claim in them is believed. Each is put into the cache as
 * an open hint (agent/cache/hint.h), which is built and timed once, and which no plan reads. If no record of
 * this board serves a task, the next box begins with the hint's candidate and makes its code before all else
 * (job_task.claim_ns); if it is no good, the default takes its place. If a record serves the task, the hint
 * comes first among the next box's seeds. A candidate that was tried here is not taken again, whatever its
 * result. So a lie costs one measurement, and box and fleet know it from then on.
 *
 * Only the best records of tasks that worked are of use. Strangers' defaults and failures are skipped (every
 * box makes its own), as are logs and histories, which describe another board, and recipes, which decide what
 * a model answers at level int8. Choices are taken for a model that has none, as hints, too: a box compares
 * them before they are used. All that strangers brought takes a fourth of the cache's cap at most. */
#ifndef AGENT_TAKEN_H
#define AGENT_TAKEN_H

#include "agent/cache/exchange.h"
#include "agent/cache/hint.h"
#include "agent/sync/snapshot.h"

enum {
	TAKEN_BYTES = HINT_BYTES, /* of a record's text, at most */
	TAKEN_CHOICES = 1024,     /* models; the cache holds strangers' choices for no more */
	TAKEN_SHARE = HINT_SHARE, /* strangers get 1/TAKEN_SHARE of the cap */
};

struct taken_sum { /* starts as {0}; calls add to it */
	int incumbents, hints, choices, known, passed, refused, revoked;
	int recipes;  /* of those that were passed over */
	int left_out; /* for lack of room */
};

/* Takes lines of agent/cache/exchange.h. s: NULL, or the snapshot whose class and revocations apply. Refused
 * lines are counted, and the first is logged with the name `from`. The cache is not committed. */
int taken_lines(struct cache *c, const void *lines, size_t n, const struct snapshot *s, const char *from,
		struct taken_sum *sum) MUST_CHECK;
/* Takes one line of exchange_parse or exchange_read. E_CORRUPT: it is refused, and the text says why. */
int taken_line(struct cache *c, const struct exchange_line *l, const struct snapshot *s,
	       struct taken_sum *sum) MUST_CHECK;
/* Returns the number of new records, of all kinds. */
int taken_new(const struct taken_sum *sum);
/* Logs how many records were left out for lack of room; call it once. */
void taken_tell(const struct cache *c, const struct taken_sum *sum);
/* Removes hints that s revokes, and their results: the record of their candidate with its code, and their
 * trial; also records whose hint was replaced since. Records that this board found itself stay. Returns how
 * many hints and such records were removed. Not committed. */
int taken_revoke(struct cache *c, const struct snapshot *s) MUST_CHECK;

#endif
