/* SPDX-License-Identifier: Apache-2.0 */
/* Records of strangers (a fleet's blob, a pack, a file of hone export) on their way into the cache: parsed,
 * range-checked, without code, and as candidates. What they claim is believed by nobody: where the cache has
 * no record of a task, one serves as the incumbent that the next box times beside the default
 * (agent/stale.h); where it has one, the stranger's lies beside it as a hint (REC_HINT), which the next box
 * builds and times once. A hint that lost, did not build, or was wrong is in the trials of its task and not
 * tried again; a record that was revoked goes, with what came of it. So a lie costs one measurement. */
#ifndef AGENT_TAKEN_H
#define AGENT_TAKEN_H

#include "agent/exchange.h"
#include "agent/snapshot.h"

struct taken_sum {
	int incumbents, hints, choices, known, refused, revoked;
	int left_out; /* for want of room */
};

/* s: NULL, or whose revocations hold. Lines that are refused are counted, and the first is logged. The cache
 * is not committed. */
int taken_lines(struct cache *c, const void *lines, size_t n, const struct snapshot *s, const char *from,
		struct taken_sum *sum) MUST_CHECK;
/* What was revoked goes, where this board did not find it itself. Returns how many. */
int taken_revoke(struct cache *c, const struct snapshot *s) MUST_CHECK;

#endif
