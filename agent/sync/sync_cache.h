/* SPDX-License-Identifier: Apache-2.0 */
/* The cache, as hone-sync brings records to it (agent/sync/sync.h): through the honed that owns it, else
 * under its lock, where this user may write it. */
#ifndef AGENT_SYNC_CACHE_H
#define AGENT_SYNC_CACHE_H

#include "agent/cache/cache.h"
#include "agent/sync/sync.h"

struct sync_cache_options {
	const char *dir;    /* of the cache */
	const char *socket; /* NULL: as agent/control/leash.h says */
	const char *state;  /* folder of hone-sync's */
	const char *server; /* what was sent there is remembered by its name */
	struct clock *clock;
};

/* Of this machine's class. E_BUSY: another process writes the cache; E_IO: it is not this user's, and no
 * honed is there. */
int sync_cache_open(const struct sync_cache_options *o, struct sync_cache *out) MUST_CHECK;
/* Commits first. NULL within, or never opened: nothing. */
void sync_cache_close(struct sync_cache *s);
struct cache *sync_cache_of(const struct sync_cache *s);

#endif
