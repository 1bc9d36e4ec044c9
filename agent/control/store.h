/* SPDX-License-Identifier: Apache-2.0 */
/* honed's cache, which only honed writes: puts and forgets are queued, and written in order by one thread of
 * a pool at a time, since a sync on an SD card takes up to a second, and a yield must not wait for it.
 *
 * Every function except store_work is for honed's own thread. While store_work runs (from store_begin to
 * store_end) the other functions may be called. A cache that was not needed for a while is closed; its lock
 * stays held, so that no other process writes meanwhile. If another process holds the lock, every work tries
 * again, and until then commits fail (E_BUSY names that process). */
#ifndef AGENT_STORE_H
#define AGENT_STORE_H

#include "agent/cache/cache.h"
#include "agent/cache/inventory.h"

/* Limit of waiting bytes: above it no more should be taken from jobs until they are written. */
enum { STORE_BYTES = 8 << 20 };

struct store;

struct stored {                        /* the result of a commit */
	int64_t ticket, written_bytes; /* since store_open */
	int64_t sync_ns;               /* of store_prepare: duration of one sync; 0: no file had to be made */
	int rc;
	bool lost; /* rc < 0: and a later commit cannot repair it */
	uint64_t generation;
	/* Records are gone that the cache had when the store last knew; not those that the store itself
	 * evicted or forgot. */
	bool lacks;
	struct inventory holds; /* what the cache has now; inventory_is_known */
	char text[512];         /* rc < 0: why */
};

/* Whether dir can be honed's cache, or can be made: else E_USAGE or E_IO, with what to do. Its permissions
 * are not tried. */
int store_refuse(const char *dir) MUST_CHECK;
/* The first work makes dir; nothing is read or locked before. If dir may not be written, or store_refuse
 * refuses it, commits fail. */
int store_open(const char *dir, int64_t cap_bytes, struct store **out) MUST_CHECK;
/* Sets the inventory that the cache must have when it is first opened; call it before the first work. */
void store_expect(struct store *s, const struct inventory *holds);
/* Closes the store at once; waiting puts that are not being written are lost. */
void store_abandon(struct store *s);
/* Writes all that waits, and closes the cache. No work may be in progress. */
void store_close(struct store *s);
/* Queues a put. If there is no memory for it, the next commit fails. */
void store_put(struct store *s, int type, struct key k, struct blob payload);
void store_forget(struct store *s, int type, struct key k);
/* The same for hone-sync's records, with hint_bring and hint_drop (agent/cache/hint.h). */
void store_bring(struct store *s, int type, struct key k, struct blob payload);
void store_drop(struct store *s, int type, struct key k);
/* Queues a commit, whose result store_told returns with this ticket. If nothing was put, it still opens the
 * cache, takes its lock, tries whether there is room for results (cache_try), and reports its state. */
void store_keep(struct store *s, int64_t ticket);
/* Makes the files that the first commit needs; reported as a commit with ticket 0. */
void store_prepare(struct store *s);
/* Closes the cache when all that waits is written. */
void store_rest(struct store *s);
/* Reads the folder anew, because it may not be what it was; reported as a commit with ticket 0. */
void store_look(struct store *s);
size_t store_bytes(const struct store *s); /* waiting or being written */
/* True: there is work, and none in progress: now call store_work on some thread, then store_end on this
 * one. */
bool store_begin(struct store *s);
void store_work(struct store *s);
void store_end(struct store *s);
/* Returns the results of commits, in their order, after store_end. False: there are no more. */
bool store_told(struct store *s, struct stored *out);

#endif
