/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what a fleet published, from a folder of its files (agent/sync/snapshot.h), into a cache. Signatures,
 * lengths and hashes are checked as a board checks them; if one is wrong, everything is refused. */
#ifndef TOOLS_PACK_FLEET_H
#define TOOLS_PACK_FLEET_H

#include "agent/sync/taken.h"
#include "tools/hone/trusted.h"

/* *serial: the snapshot's serial number. */
int pack_fleet(const char *folder, const char *cls, const char *channel, struct trusted *t, struct cache *to,
	       int64_t *serial, struct taken_sum *sum) MUST_CHECK;

#endif
