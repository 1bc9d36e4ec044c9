/* SPDX-License-Identifier: Apache-2.0 */
/* The cache that hone-sync puts records into (agent/sync/sync.h): through the honed that owns it, else under
 * the cache's lock if this user may write it. */
#ifndef AGENT_SYNC_CACHE_H
#define AGENT_SYNC_CACHE_H

#include "agent/cache/cache.h"
#include "agent/sync/sync.h"
#include <signal.h>

struct sync_cache_options {
	const char *dir;    /* folder of the cache */
	const char *socket; /* NULL: as agent/control/leash.h says */
	const char *state;  /* hone-sync's state folder */
	const char *server; /* part of the keys of sent marks (CACHE_SHARED) */
	struct clock *clock;
	/* How long to wait for another process that writes the cache; the log says so. 0: 5 s, silently. */
	int64_t wait_ns;
	volatile sig_atomic_t *stop; /* once set, it ends the wait within a second; NULL: nothing does */
};

/* Opens the cache for records of this machine's class. E_BUSY: another process still writes the cache; E_IO:
 * this user may not write it, and no honed is running; E_USAGE: the folder holds other files, and none of a
 * cache. A honed that starts meanwhile is used. */
int sync_cache_open(const struct sync_cache_options *o, struct sync_cache *out) MUST_CHECK;
/* Commits, then closes. Does nothing if it was never opened. */
void sync_cache_close(struct sync_cache *s);
struct cache *sync_cache_of(const struct sync_cache *s);

#endif
