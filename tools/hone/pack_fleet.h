/* SPDX-License-Identifier: Apache-2.0 */
/* What a fleet published, in a folder of its files (agent/sync/snapshot.h), into a cache: checked as a board
 * checks it, with its signatures, lengths and hashes, and refused as a whole where one is wrong. */
#ifndef TOOLS_PACK_FLEET_H
#define TOOLS_PACK_FLEET_H

#include "agent/sync/taken.h"
#include "tools/hone/trusted.h"

/* *serial: of the snapshot. */
int pack_fleet(const char *folder, const char *cls, const char *channel, struct trusted *t, struct cache *to,
	       int64_t *serial, struct taken_sum *sum) MUST_CHECK;

#endif
