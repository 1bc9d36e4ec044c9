/* SPDX-License-Identifier: Apache-2.0 */
/* honed's cache, which it alone writes: what is put and forgotten is queued, and written, in order, by one
 * thread of a pool at a time, as a sync on an SD card takes up to a second, and a yield must not wait for it.
 *
 * Every function is for honed's own thread, but store_work. While that runs (from store_begin to store_end)
 * the rest may be called all the same. A cache that was not needed for a while is closed; its lock stays
 * held, so that nobody else writes meanwhile. Where another process holds the lock, every work tries again,
 * and until then commits fail (E_BUSY says who). */
#ifndef AGENT_STORE_H
#define AGENT_STORE_H

#include "agent/cache/cache.h"

/* Waiting bytes over which no more should be taken from jobs, until they are written. */
enum { STORE_BYTES = 8 << 20 };

struct store;

struct stored {                        /* of a commit */
	int64_t ticket, written_bytes; /* since store_open */
	int64_t sync_ns;               /* of store_prepare: that one sync took; 0: nothing had to be made */
	int rc;
	bool lost; /* rc < 0: and no later commit mends it */
	uint64_t generation;
	char text[512]; /* rc < 0: why */
};

/* dir is made by the first work; nothing is read or locked before. Where it may not be written, commits fail.
 */
int store_open(const char *dir, int64_t cap_bytes, struct store **out) MUST_CHECK;
/* What waits and is not being written is lost: there is no time for it. */
void store_abandon(struct store *s);
/* Works off what waits, and lets the cache go. No work may be under way. */
void store_close(struct store *s);
/* Without memory for it: the next commit fails. */
void store_put(struct store *s, int type, struct key k, struct blob payload);
void store_forget(struct store *s, int type, struct key k);
/* The same of hone-sync's, as hint_bring and hint_drop (agent/cache/hint.h) do it. */
void store_bring(struct store *s, int type, struct key k, struct blob payload);
void store_drop(struct store *s, int type, struct key k);
void store_keep(struct store *s, int64_t ticket); /* with nothing put: takes the lock, tells the state */
/* Makes the files that the first commit needs; told as a commit with ticket 0. */
void store_prepare(struct store *s);
/* Closes the cache once that is written which waits. */
void store_rest(struct store *s);
size_t store_bytes(const struct store *s); /* waiting or being written */
/* True: there is work, and none under way: now call store_work on some thread, then store_end on this one. */
bool store_begin(struct store *s);
void store_work(struct store *s);
void store_end(struct store *s);
/* What came of the commits, in their order, from store_end on. False: that was all. */
bool store_told(struct store *s, struct stored *out);

#endif
