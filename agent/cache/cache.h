/* SPDX-License-Identifier: Apache-2.0 */
/* The cache: records on flash. A folder of segments (agent/cache/segment.h), an index in memory; one writer
 * (it holds a lock), any number of readers, which need no lock. A bad record is a miss, never an error;
 * opening costs time linear in the files' size, whatever is in them.
 *
 * A put waits in memory until cache_commit or cache_close commits it, or until 64 puts wait (where another
 * process writes: until they are an eighth of the cap). A commit writes batches of at most 64 records (honed:
 * 1,024), each with one write and one sync. Code is written first, so that no record is durable before its
 * code. What a successful commit wrote survives a power cut; a batch that was cut is there in parts or not at
 * all, and each part is a whole record. The last record of a batch, its batch mark (CACHE_MARK), holds u64
 * generation (batches so far), u64 bytes written over the cache's life, in blocks, by everything that this
 * cache does (without the file system's own journal), u64 its writer's cap (it may be missing). The first two
 * stop at 2^53; a batch mark that claims more is ignored, and so are those of a pack.
 *
 * Files: DIR/XXXXXXXX.seg, by number: records and code in segments of their own. When more than half of one
 * kind is superseded, or a part of it is damaged, the next writer copies the live records to a new segment
 * that replaces the others. It does the same when DIR would grow over its cap, and then evicts code first and
 * logs this: code that no live record names, then the oldest code. If the disk has no room for the copy, it
 * removes the oldest code files. Code that waits is dropped if it is larger than the space that records leave
 * for code. To make room for code, records are copied only if that frees an eighth of the cap. Records are
 * evicted only to make room for records, when no code is left, and this is logged. A record of more than a
 * fourth of the cap is refused (E_UNSUPPORTED). Until it is evicted, code of another emitter or candidate
 * than its record's stays: the record may come back to it. The cache remembers what was forgotten, since a
 * seed layer that holds it may be mounted later: all of it while such a layer lies below, else 16,384 keys of
 * each kind.
 * Only files of such names are the writer's. A pack that a user put into DIR, or a file of another name, is
 * read, below the writer's own, and is neither changed nor removed; it does not count towards the cap.
 * DIR/lock exists while there is a writer; any process that may write DIR may lock it.
 *
 * A file that cannot be opened (no descriptor is left, no permission) is skipped with one line in the log.
 * Its records are misses, and nothing in DIR is thrown away until it can be opened; if that leaves no room
 * under the cap, the error is E_IO. While some part of a file could not be read, no record of DIR is thrown
 * away as long as there is code to evict. After that all files are read again, and the parts that still
 * cannot be read are given up, which is logged.
 *
 * Layers: below DIR lie seed layers, folders that are only read: $HONE_SEEDS (DIR:DIR, uppermost first), else
 * CACHE_SEED, where an image keeps the records that it ships. A folder that this process may not write is
 * itself a seed layer, and the user's cache folder lies above it (for a reader, if it can be listed; for a
 * writer, unless it wants this folder: o->only_here). Of more than eight layers the lowest are skipped, with
 * one line in the log. The uppermost record of a (type, key) counts, within one layer the last; CACHE_FORGET
 * (payload: u8 type) makes one absent.
 *
 * Keys (SHA-256, platform/base/hash.h): rec = hash of (task, target key, device, threads, level, kind);
 * code = rec key + emitter version + cand, and the payload names what the code was compiled for
 * (agent/cache/kept_code.h); choices: agent/cache/chosen.h; history: agent/cache/history.h; trials:
 * agent/cache/trials.h; gain: as history (agent/cache/gain.h); recipe: agent/cache/recipe.h; risk:
 * agent/worker/marked.h; shared: agent/sync/offered.h. Records and trials of the former version, whose keys
 * were a MurmurHash3, are indexed under their new keys (cache_adopt.c); their code is compiled again.
 *
 * Code is machine code, and a record says which code serves. So if, at open, a user other than root, `hone`
 * (the daemon's user) and this process's user can write a file or change its folder, the records and choices
 * in that file are strangers' hints (agent/cache/hint.h), everything else in it is a miss, and the log says
 * so. Such a file hides nothing that lies in a folder that those users cannot write. In a sticky folder users
 * cannot replace each other's files, so the permissions of the files decide; a link to a file and a file with
 * a second name do not count as this user's. Users who may list the folder may read its files. */
#ifndef AGENT_CACHE_H
#define AGENT_CACHE_H

#include "agent/cache/rec.h"
#include "platform/base/arena.h"
#include "platform/base/buf.h"
#include "platform/base/file.h"
#include "platform/base/hash.h"
#include "platform/base/meas.h"

#define CACHE_TEMP_FILE "new.tmp"
#define CACHE_MOST_BYTES (1 << 30)
#define CACHE_MOST_BATCH 1024
#define CACHE_SEED "/usr/share/hone/cache"
#define CACHE_DAEMON "/var/lib/hone/cache" /* honed's folder, unless it is configured otherwise */

enum cache_type {
	CACHE_REC = 1,
	CACHE_CHOICES = 2,
	CACHE_CODE = 3,
	CACHE_FORGET = 4,
	CACHE_HISTORY = 5,
	CACHE_TRIALS = 6,
	CACHE_MARK = 7,
	CACHE_RISK = 8,
	CACHE_SHARED = 9,
	CACHE_HINT = 10,         /* agent/cache/hint.h */
	CACHE_HINT_CHOICES = 11, /* strangers' choices, until a box on this board has compared them */
	CACHE_GAIN = 12,         /* agent/cache/gain.h */
	CACHE_RECIPE = 13,       /* agent/cache/recipe.h */
	CACHE_TYPES
};

/* True: callers may put this type. Only the cache itself writes CACHE_MARK. */
static inline bool cache_keeps(int type)
{
	return type >= CACHE_REC && type < CACHE_TYPES && type != CACHE_MARK;
}

struct cache;

enum cache_mode {
	CACHE_READ,    /* no lock, no writes; an absent folder is an empty cache */
	CACHE_WRITE,   /* makes the folder, waits for the lock; E_BUSY names the process that holds it */
	CACHE_MEMORY,  /* for a folder that cannot be written: readable records are read; puts stay in memory
			  (64 MiB), hide older records, and are lost at close */
	CACHE_THROUGH, /* another process writes the folder: each put is sent to it at once (o->through) and
			  stays in memory until it is committed and can be read from the folder */
};

/* The process that writes the folder for this one. */
struct cache_through {
	void *ctx;
	/* CACHE_FORGET: p is the type, as in cache_put. */
	int (*put)(void *ctx, enum cache_type t, struct key k, const void *p, size_t n);
	int (*commit)(void *ctx); /* makes all puts durable; the writer also commits on its own */
	bool (*alive)(void *ctx);
	/* Called when the writer is gone. E_OK: another writer took its place, but lost all uncommitted puts.
	 * E_NOTFOUND: there is no writer, and this process writes the folder from now on, under its lock. Any
	 * other error: the flush fails with it. */
	int (*again)(void *ctx);
};

struct cache_options {
	int64_t cap_bytes; /* limit of DIR's segments, 64 KiB to CACHE_MOST_BYTES; 0: the last writer's cap,
			      but at least 64 MiB, enough for some thousand kernels and 100,000 records */
	int64_t segment_bytes; /* size of the first segment of records; 0: 256 KiB. Later ones grow with the
				  cache. */
	int batch_records; /* records in a batch at most; so many waiting puts start a commit. 64 (also for 0)
			      to CACHE_MOST_BATCH; more suits a slow sync and ample memory */
	const char *seeds; /* DIR:DIR, uppermost first; NULL: $HONE_SEEDS, else CACHE_SEED */
	const struct cache_through *through; /* for CACHE_THROUGH; the cache keeps the pointer */
	int lock_fd; /* > 0: the writer's lock from cache_close_held; the cache owns it from then on */
	/* The user's cache folder never lies above DIR: a writer that may not write DIR fails. */
	bool only_here;
};

/* Whether the folder is empty, which a new cache may be, or holds a file of a cache. */
bool cache_may_be(const char *dir);
/* E_USAGE: the folder holds other files, and none of a cache, so it is probably not meant as one. A folder
 * that is missing or cannot be read passes. cache_open does not ask. */
int cache_refuse_other(const char *dir) MUST_CHECK;
/* E_IO: this process may not write into the folder, which exists, and what to do. */
int cache_refuse_unwritable(const char *dir) MUST_CHECK;
int cache_open(struct cache **out, const char *dir, bool read_only, int64_t wait_ns) MUST_CHECK;
int cache_open_memory(struct cache **out, const char *dir) MUST_CHECK;
int cache_open_with(struct cache **out, const char *dir, enum cache_mode mode, int64_t wait_ns,
		    const struct cache_options *o) MUST_CHECK;
/* Commits first. If that fails, the log says that results may be lost, unless the last put or commit failed,
 * too. */
void cache_close(struct cache *c);
/* As cache_close, but this process stays the writer. Returns the lock's descriptor, for cache_options; -1:
 * the cache had no lock. */
int cache_close_held(struct cache *c);
/* Waits until no other process writes DIR, for wait_ns at most (INT64_MAX: without a limit), and takes its
 * lock; the log says who is waited for. *lock_fd is for cache_options; -1: DIR has no lock, or cannot be
 * locked by this user, which cache_open_with deals with. E_BUSY: the time is over. */
int cache_lock_wait(const char *dir, int64_t wait_ns, int *lock_fd) MUST_CHECK;
/* E_BUSY: a honed holds the lock of DIR for longer than wait_ns. Other holders, which end, are E_OK. */
int cache_refuse_honed(const char *dir, int64_t wait_ns) MUST_CHECK;
void cache_let_go(const char *dir, int lock_fd); /* releases that lock; dir: from cache_dir */
/* Makes all puts so far durable. If DIR was removed or moved meanwhile, makes a new one. */
int cache_commit(struct cache *c) MUST_CHECK;
/* Makes the files that the first commit would have to make. Returns how often it waited for the disk. */
int cache_prepare(struct cache *c) MUST_CHECK;
/* Tries whether a first commit would find room: writes a file of that size and removes it, without waiting
 * for the disk, so that no data reaches the flash (ext4 writes 10 KiB of its journal, whatever the size).
 * E_IO: what is wrong, and what to do. For CACHE_WRITE; returns E_OK in all other modes. */
int cache_try(struct cache *c) MUST_CHECK;
/* As cache_commit. But if another process writes the folder and has received all puts, does not wait: that
 * process commits on its own, and the next cache_commit or cache_close waits for it. */
int cache_hand_over(struct cache *c) MUST_CHECK;
const char *cache_dir(const struct cache *c);     /* the folder that is written */
bool cache_is_through(const struct cache *c);     /* true: another process writes the folder */
uint64_t cache_generation(const struct cache *c); /* of its last batch; 0: none. Never falls. */

int cache_put_rec(struct cache *c, const struct rec *r) MUST_CHECK;
int cache_get_rec(struct cache *c, struct key k, struct arena *a,
		  struct rec *out) MUST_CHECK; /* E_NOTFOUND: a miss */
/* After E_IO (a full disk) the record is kept in memory: it can be read back, and a later put or commit tries
 * again. A record that is already stored, byte for byte, is not written again. */
int cache_put(struct cache *c, enum cache_type t, struct key k, const void *p, size_t n) MUST_CHECK;
/* The bytes are 16-byte aligned, and a NUL follows. */
int cache_get(struct cache *c, enum cache_type t, struct key k, struct arena *a, struct blob *out) MUST_CHECK;
/* Returns whether n more bytes of any type can be put without evicting anything. May compact the cache. */
int cache_has_room(struct cache *c, size_t n) MUST_CHECK;
/* True: the record lies in the folder that is written, or waits; it does not come from a seed layer. */
bool cache_is_own(const struct cache *c, enum cache_type t, struct key k);
int cache_forget(struct cache *c, enum cache_type t, struct key k) MUST_CHECK;
/* Calls fn for each record: lower layers first, within a layer oldest first; bad records are skipped. `r`
 * lives in the arena. fn < 0 ends it. Returns their number, or < 0. */
int cache_each_rec(struct cache *c, struct arena *a, int (*fn)(void *ctx, const struct rec *r),
		   void *ctx) MUST_CHECK;
/* The keys of all records of a type, in the same order. Returns their number. */
int cache_keys(const struct cache *c, enum cache_type t, struct arena *a, struct key **out);
/* A reader sees what the writer committed. Returns > 0 if there are, or may be, new records. */
int cache_refresh(struct cache *c) MUST_CHECK;
/* Writes all that waits and removes dead records: one segment of records and one of code stay. */
int cache_compact(struct cache *c) MUST_CHECK;
/* Writes all records of all layers that are not forgotten to one file NAME.seg, which any cache folder may
 * hold, typically a seed layer, and which a writer leaves as it is; it atomically replaces a file. E_USAGE:
 * the name looks like one that writers give, or the folder is DIR itself. Returns the number of records. */
int cache_pack(struct cache *c, const char *path, bool with_code) MUST_CHECK;

struct cache_state {
	const char *dir;
	int layers, segments;             /* existing folders; open files */
	int count[CACHE_TYPES];           /* records that can be read, by type */
	int64_t record_bytes, code_bytes; /* of live records, all layers */
	int64_t strangers_bytes;          /* of hints, of both types, and of sent marks (CACHE_SHARED) */
	int64_t file_bytes, dead_bytes; /* of the folder that is written: its segments; superseded records in
					   them */
	int64_t damaged_bytes;          /* without zeros at a file's end */
	int64_t written_bytes;          /* over the cache's life */
	int64_t waiting_bytes;          /* in memory, not written yet */
	int64_t index_bytes;            /* memory */
	int64_t cap_bytes;
	uint64_t generation;
	bool foreign; /* others may write one of the layers: its records count as a stranger's */
};
void cache_state(const struct cache *c, struct cache_state *out);

#endif
