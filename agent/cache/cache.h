/* SPDX-License-Identifier: Apache-2.0 */
/* The cache: records on flash. A folder of segments (agent/cache/segment.h), an index in memory; one writer
 * (lock), any number of readers, which need no lock. A bad record is a miss, never an error; opening costs
 * time linear in the files' size, whatever is in them.
 *
 * What is put waits in memory until it is committed: by cache_commit, by cache_close, or when 64 records
 * wait (where another process writes: when they are an eighth of the cap). A commit writes batches of
 * at most 64 records (honed: 1,024), each with one write and one sync; code first, so that no record is
 * durable before its code. What a successful commit wrote outlives a power cut; a batch that was cut is there
 * in parts or not at all, and each part is a whole record. The last record of a batch, CACHE_MARK, counts:
 * u64 generation (batches so far), u64 bytes written over the cache's life, in blocks, by everything that
 * this cache does (without the file system's own journal), u64 its writer's cap (it may be missing); the
 * first two stay at 2^53, and a mark that claims more is passed over. A pack's are not taken.
 *
 * Files: DIR/XXXXXXXX.seg, by number: records and code in segments of their own. When more than half of one
 * kind is dead (superseded, or damaged), the next writer copies what lives to a new segment that replaces the
 * others; so it does when DIR would grow over its cap, and then code goes first, which is said: that of no
 * living record, then the oldest; where the disk has no room for the copy, the oldest files of it; and what
 * waits, where it is larger than what records leave for code. For code, records are copied only where an
 * eighth of the cap is won by it. Records go only for records, and when no code is left, which is said. A
 * record of more than a fourth of the cap is refused (E_UNSUPPORTED). Until then code of another emitter or
 * candidate than its record's stays: the record may come back to it. What was forgotten is remembered, for a
 * seed that holds it may be mounted another time: all of it over a seed, else 16,384 of each kind. DIR/lock:
 * while there is a writer; who may write DIR may lock it.
 *
 * What cannot be opened (no descriptor is left, no permission) is passed over with one line in the log:
 * misses, and until it can be opened nothing of DIR is thrown away; where that leaves no room under the cap,
 * E_IO. Where something of a file could not be read, no record of DIR is thrown away while there is code;
 * then all is read again, and what still cannot be read is given up, which is said.
 *
 * Layers: under DIR lie seeds, folders that are only read: $HONE_SEEDS (DIR:DIR, uppermost first), else
 * CACHE_SEED, where an image keeps what it ships. A folder that this process may not write is itself a seed,
 * and the user's cache folder lies above it (for a reader, where it can be listed). Of more than eight the
 * lowest are passed over, with one line in the log. The uppermost record of a (type, key) counts, in one
 * layer the last; CACHE_FORGET (payload: u8 type) makes one absent.
 *
 * Keys (SHA-256, platform/base/hash.h): rec = hash of (task, target key, device, threads, exactness, kind);
 * code = rec key + emitter version + cand, and what the code was compiled for lies in it
 * (agent/cache/kept_code.h); choices: agent/cache/chosen.h; history: agent/cache/history.h; trials:
 * agent/cache/trials.h; risk: agent/worker/marked.h; shared: agent/sync/offered.h. Records and trials of the
 * version before that, whose keys were a MurmurHash3, are indexed under their new keys (cache_adopt.c); their
 * code is compiled again.
 *
 * Code is machine code, and a record says which code serves: where, at open, somebody other than root, the
 * user `hone` (the daemon's) and this process's user can write a file or change its folder, its records and
 * choices are a stranger's hints (agent/cache/hint.h), all else in it is a miss, and the log says so. None of
 * it hides what lies in a folder that they cannot write. A sticky folder keeps others' hands off the files in
 * it, and only they count there: no link to one, and none that has a second name. Who may list the folder may
 * read its files. */
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
#define CACHE_DAEMON "/var/lib/hone/cache" /* honed's, unless it is configured otherwise */

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
	CACHE_HINT_CHOICES = 11, /* choices of strangers, until a box here has compared them */
	CACHE_TYPES
};

/* What can be put: anything but a batch's own mark. */
static inline bool cache_keeps(int type)
{
	return type >= CACHE_REC && type < CACHE_TYPES && type != CACHE_MARK;
}

struct cache;

enum cache_mode {
	CACHE_READ,    /* no lock, no writes; an absent folder is an empty cache */
	CACHE_WRITE,   /* makes the folder, waits for the lock and says who holds it (E_BUSY) */
	CACHE_MEMORY,  /* for a folder that cannot be written: what can be read is read, what is put stays in
			  memory (64 MiB), comes before what is there, and is gone at the end */
	CACHE_THROUGH, /* another process writes the folder: what is put goes to it at once (o->through) and
			  stays in memory until it is committed and can be read from the folder */
};

/* Who writes the folder in our place. */
struct cache_through {
	void *ctx;
	/* CACHE_FORGET: p is the type, as in cache_put. */
	int (*put)(void *ctx, enum cache_type t, struct key k, const void *p, size_t n);
	int (*commit)(void *ctx); /* all that was put is durable; it commits without being asked, too */
	bool (*alive)(void *ctx);
	/* It is gone. E_OK: another one took its place, and has nothing that was not committed. E_NOTFOUND:
	 * nobody did: the folder is ours to write from now on, under its lock. Else it is given up. */
	int (*again)(void *ctx);
};

struct cache_options {
	int64_t cap_bytes; /* of DIR's segments, 64 KiB to CACHE_MOST_BYTES; 0: what the last writer was
			      given, but 64 MiB at least, some thousand kernels and 100,000 records */
	int64_t
	    segment_bytes; /* of the first segment of records; 0: 256 KiB. Later ones grow with the cache. */
	int batch_records; /* that a batch has at most, and that wait until they are committed without being
			      asked for; 64 (0) to CACHE_MOST_BATCH: where a sync is slow, and memory is there
			    */
	const char *seeds; /* DIR:DIR, uppermost first; NULL: as above */
	const struct cache_through *through; /* of CACHE_THROUGH; kept */
	int lock_fd; /* > 0: the writer's lock, as cache_close_held gave it; the cache's from then on */
};

int cache_open(struct cache **out, const char *dir, bool read_only, int64_t wait_ns) MUST_CHECK;
int cache_open_memory(struct cache **out, const char *dir) MUST_CHECK;
int cache_open_with(struct cache **out, const char *dir, enum cache_mode mode, int64_t wait_ns,
		    const struct cache_options *o) MUST_CHECK;
/* Commits first; failing that, the log says what may be lost, unless the last put or commit failed, too. */
void cache_close(struct cache *c);
/* The same, but this process stays the writer: the lock's descriptor, for cache_options; -1: it had none. */
int cache_close_held(struct cache *c);
void cache_let_go(const char *dir, int lock_fd); /* ... ends that; dir: as cache_dir said */
/* Everything put so far is durable. Where DIR was taken away or moved meanwhile, a new one is made. */
int cache_commit(struct cache *c) MUST_CHECK;
/* The files that the first commit would have to make. Returns how often it waited for the disk. */
int cache_prepare(struct cache *c) MUST_CHECK;
/* As cache_commit, but where another process writes the folder that commits by itself: it was told all, and
 * the next cache_commit or cache_close waits for it. */
int cache_hand_over(struct cache *c) MUST_CHECK;
const char *cache_dir(const struct cache *c);     /* the folder that is written */
bool cache_is_through(const struct cache *c);     /* another process writes it */
uint64_t cache_generation(const struct cache *c); /* of its last batch; 0: none. Never falls. */

int cache_put_rec(struct cache *c, const struct rec *r) MUST_CHECK;
int cache_get_rec(struct cache *c, struct key k, struct arena *a,
		  struct rec *out) MUST_CHECK; /* E_NOTFOUND: a miss */
/* After E_IO (a full disk) the record is kept in memory: it can be read back, and a later put or commit tries
 * again. What is there already, byte for byte, is not written again. */
int cache_put(struct cache *c, enum cache_type t, struct key k, const void *p, size_t n) MUST_CHECK;
/* The bytes are 16-byte aligned, and a NUL follows. */
int cache_get(struct cache *c, enum cache_type t, struct key k, struct arena *a, struct blob *out) MUST_CHECK;
/* Whether n more bytes of any type can be put, and nothing is evicted for them; perhaps what is dead goes. */
int cache_has_room(struct cache *c, size_t n) MUST_CHECK;
/* It is there, and of the folder that is written, or waits: no seed has brought it. */
bool cache_is_own(const struct cache *c, enum cache_type t, struct key k);
int cache_forget(struct cache *c, enum cache_type t, struct key k) MUST_CHECK;
/* Lower layers first, in each oldest first; bad ones are passed over. `r` lives in the arena. fn < 0 ends it.
 * Returns their number, or < 0. */
int cache_each_rec(struct cache *c, struct arena *a, int (*fn)(void *ctx, const struct rec *r),
		   void *ctx) MUST_CHECK;
/* Of all records of a type, in the same order. Returns their number. */
int cache_keys(const struct cache *c, enum cache_type t, struct arena *a, struct key **out);
/* A reader sees what the writer committed; > 0: something new, or perhaps. */
int cache_refresh(struct cache *c) MUST_CHECK;
/* What is dead or waits goes: one segment of records and one of code stay. */
int cache_compact(struct cache *c) MUST_CHECK;
/* All that is not forgotten, of all layers, as one file NAME.seg, which any cache folder may hold, a seed
 * above all; it replaces another one at once. E_USAGE: a name such as writers give, or DIR itself. Returns
 * the number of records. */
int cache_pack(struct cache *c, const char *path, bool with_code) MUST_CHECK;

struct cache_state {
	const char *dir;
	int layers, segments;             /* folders that are there, files */
	int count[CACHE_TYPES];           /* what can be had */
	int64_t record_bytes, code_bytes; /* of what lives, all layers */
	int64_t strangers_bytes;          /* of hints, of either type, and of marks (CACHE_SHARED) */
	int64_t file_bytes, dead_bytes; /* of the folder that is written: its segments; in them, superseded */
	int64_t damaged_bytes;          /* without zeros at a file's end */
	int64_t written_bytes;          /* over its life */
	int64_t waiting_bytes;          /* in memory, not written yet */
	int64_t index_bytes;            /* memory */
	int64_t cap_bytes;
	uint64_t generation;
	bool foreign; /* others may write one of the layers: what it holds is a stranger's */
};
void cache_state(const struct cache *c, struct cache_state *out);

#endif
