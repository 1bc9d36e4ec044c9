/* SPDX-License-Identifier: Apache-2.0 */
/* The cache: records on flash. Append-only file of records with CRC32C, index in RAM; one writer (lock), any
 * number of readers. A bad record is a miss, never an error; opening costs time linear in the file's size,
 * whatever is in it. What was put before a commit that succeeded outlives a power cut; of what came after it
 * nothing is promised yet.
 *
 * Record bytes (little endian): "HREC", u32 length of the payload (<= 16 MiB), u32 type, key 16 bytes (hi,
 * lo), payload, u32 crc32c of all that before. The last record of a (type, key) in the file counts;
 * CACHE_FORGET (payload: u8 type) makes one absent. File: DIR/cache.hone, lock: DIR/lock.
 *
 * Keys: rec = hash of (task, target key, device, threads, exactness, kind); code = rec key + emitter version
 * + cand, so that a record never meets the code of another candidate, and code is put before its record;
 * choices = hash of (model key, target key, device, threads, exactness) (agent/chosen.h); history:
 * agent/history.h; trials: agent/trials.h.
 *
 * Code is machine code: where, at open, somebody other than root and this process's user can write the file
 * or change its folder (a sticky one keeps others' hands off), every code record of the file is a miss, and
 * the log says so. */
#ifndef AGENT_CACHE_H
#define AGENT_CACHE_H

#include "platform/arena.h"
#include "platform/buf.h"
#include "platform/file.h"
#include "platform/hash.h"
#include "platform/meas.h"

enum cache_type {
	CACHE_REC = 1,
	CACHE_CHOICES = 2,
	CACHE_CODE = 3,
	CACHE_FORGET = 4,
	CACHE_HISTORY = 5,
	CACHE_TRIALS = 6,
	CACHE_TYPES
};

struct rec {
	struct key task;  /* of the task text */
	int kind;         /* enum rec_kind */
	char target[160]; /* human-readable target: soc isa lanes */
	struct key target_key;
	char device[16];
	int threads;
	bool exact;
	char emitter[32]; /* name and version */
	char cand[512];
	struct meas meas;
	const char *task_text; /* in the arena it was read into */
	const char *label;
};

struct cache;

/* read_only: no lock, no writes; an absent folder is an empty cache. Writer: creates the folder, waits up to
 * wait_ns for the lock and says who holds it (E_BUSY). */
int cache_open(struct cache **out, const char *dir, bool read_only, int64_t wait_ns) MUST_CHECK;
/* For a folder that cannot be written: what is there and can be read is read, what is put stays in memory,
 * comes before what is there, and is gone at the end. */
int cache_open_memory(struct cache **out, const char *dir) MUST_CHECK;
void cache_close(struct cache *c);            /* commits first; failing that, the log says what may be lost */
int cache_commit(struct cache *c) MUST_CHECK; /* everything put so far is durable */

struct key rec_key(const struct rec *r);
struct key code_key(const struct rec *r);
int cache_put_rec(struct cache *c, const struct rec *r) MUST_CHECK;
int cache_get_rec(struct cache *c, struct key k, struct arena *a,
		  struct rec *out) MUST_CHECK; /* E_NOTFOUND: a miss */
/* After E_IO (a full disk) the record is kept in memory: it can be read back, and the next put or commit
 * tries again. */
int cache_put(struct cache *c, enum cache_type t, struct key k, const void *p, size_t n) MUST_CHECK;
int cache_get(struct cache *c, enum cache_type t, struct key k, struct arena *a, struct blob *out) MUST_CHECK;
/* Oldest first; bad ones are passed over. `r` lives in the arena. fn < 0 ends it. Returns their number, or <
 * 0. */
int cache_each_rec(struct cache *c, struct arena *a, int (*fn)(void *ctx, const struct rec *r),
		   void *ctx) MUST_CHECK;
/* Of all records of a type, oldest first. Returns their number. */
int cache_keys(const struct cache *c, enum cache_type t, struct arena *a, struct key **out);
/* A reader sees what the writer appended; > 0: something new. */
int cache_refresh(struct cache *c) MUST_CHECK;
void rec_text(const struct rec *r, struct buf *out);
int rec_parse(const char *text, struct arena *a, struct rec *out) MUST_CHECK; /* fuzzed */

#endif
