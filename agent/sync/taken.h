/* SPDX-License-Identifier: Apache-2.0 */
/* Records of strangers (a fleet's blob, a pack, a file of hone export) on their way into the cache: parsed,
 * range-checked, without code, and as candidates. Nothing that they claim is believed. Every one lies in the
 * cache as an open hint (agent/cache/hint.h), which is built and timed once and which no plan reads. Where no
 * record of this board serves a task, the next box begins with the hint's candidate and makes its code before
 * all else (job_task.claim_ns); where it is no good the default takes its place. Where a record serves, the
 * hint comes first among the next box's seeds. A candidate that was tried here, however that ended, is not
 * taken again. So a lie costs one measurement, and box and fleet know it from then on.
 *
 * Of strangers' records only the best of a task that worked are of use: defaults and failures are passed over
 * (every box makes its own), as are logs and histories, which say what happened elsewhere. Choices are taken
 * where none are known, as hints too: a box compares them before they are used. All that strangers brought
 * takes a fourth of the cache's cap at most. */
#ifndef AGENT_TAKEN_H
#define AGENT_TAKEN_H

#include "agent/cache/exchange.h"
#include "agent/cache/hint.h"
#include "agent/sync/snapshot.h"

enum {
	TAKEN_BYTES = HINT_BYTES, /* of a record's text, at most */
	TAKEN_CHOICES = 1024,     /* models: with so many in the cache no more are taken */
	TAKEN_SHARE = HINT_SHARE, /* of the cap, one part in so many */
};

struct taken_sum { /* begins as {0}; goes on from call to call */
	int incumbents, hints, choices, known, passed, refused, revoked;
	int left_out; /* for want of room */
};

/* s: NULL, or whose class and revocations hold. Lines that are refused are counted, and the first is logged,
 * as of `from`. The cache is not committed. */
int taken_lines(struct cache *c, const void *lines, size_t n, const struct snapshot *s, const char *from,
		struct taken_sum *sum) MUST_CHECK;
/* One that exchange_parse or exchange_read gave. E_CORRUPT: it is refused, and the text says why. */
int taken_line(struct cache *c, const struct exchange_line *l, const struct snapshot *s,
	       struct taken_sum *sum) MUST_CHECK;
/* Those that were new, of any kind. */
int taken_new(const struct taken_sum *sum);
/* What was left out, once. */
void taken_tell(const struct cache *c, const struct taken_sum *sum);
/* Hints that were revoked go, and what came of them: the record of their candidate with its code, and their
 * trial. What this board found itself stays. Returns how many. Not committed. */
int taken_revoke(struct cache *c, const struct snapshot *s) MUST_CHECK;

#endif
