/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the parts of the cache share: cache_list.c lists folders, cache_layer.c opens them and
 * follows their writer, cache_lock.c is the writer's lock, cache_index.c knows where records are,
 * cache_write.c commits, cache_compact.c copies live records, cache_room.c evicts, cache_through.c has
 * another process write, cache_copy.c copies live records to one file, cache_adopt.c gives records of a
 * former version or a stranger their present type and key, cache.c implements the public functions. */
#ifndef AGENT_CACHE_PARTS_H
#define AGENT_CACHE_PARTS_H

#include "agent/cache/cache.h"
#include "agent/cache/segment.h"
#include "platform/base/folder.h"

/* 0: a program that only reads caches (libhone), built without the code that writes them. */
#ifndef CACHE_WRITES
#define CACHE_WRITES 1
#endif

enum { MAX_LAYERS = 8, BATCH_RECORDS = 64, BATCH_BYTES = 4 << 20, MARK_BYTES = 24, MANY_SEGS = 32 };

enum { CAP_BYTES = 64 << 20 /* unless the caller or the last writer set another cap */ };

/* Special values in place of a segment's index. */
enum { IN_MEMORY = UINT16_MAX, NOWHERE = UINT16_MAX - 1, MAX_SEGS = UINT16_MAX - 2 };
#define GONE UINT32_MAX

#define MOST_COUNTED                                                                                         \
	(INT64_C(1) << 53) /* limit of a batch mark's counts; one that claims more is ignored                \
			    */

/* One per (type, key): where its newest record is. */
struct slot {
	struct key key;
	int64_t at;       /* offset in its segment; IN_MEMORY: index of the put */
	uint32_t n;       /* payload bytes; GONE: forgotten */
	uint16_t seg;     /* NOWHERE: evicted */
	uint8_t type;     /* enum cache_type; 0: empty */
	bool leaves : 1;  /* the next copy leaves it out */
	bool adopted : 1; /* it lies in its segment under another type or key (cache_adopt.c) */
	bool former : 1;  /* a former version wrote it, and nobody else can have */
	bool claim : 1;   /* evicted by cache_adopt_claims from the layer that is written */
};

/* A put that waits to be written. */
struct put {
	struct head h;
	uint8_t of; /* the type that it concerns: h.type; of CACHE_FORGET the type in its payload */
	bool done;  /* written, or superseded by a later one */
	bool ours;  /* the process that writes the folder refuses it: it stays in memory */
	size_t at;  /* offset of its payload in `bytes` */
};

struct layer {
	char *dir;
	bool seed;
	bool implied;     /* the user's folder, added by itself above one that this process may not write */
	uint64_t last;    /* the highest number of a segment that it has, or had */
	struct key names; /* of the files that were there when it was opened */
	bool unread;      /* a part could not be read, or may not be durable: records are thrown away only to
			     stay under the cap */
	int unopened;     /* files that could not be opened; > 0: nothing is thrown away */
	uint64_t hidden;  /* the highest number of a skipped file: new records go to segments with higher
			     numbers */
	bool not_now;     /* a file was skipped for want of descriptors or memory */
	bool told_foreign;
	int told;      /* how often the skipped files were logged */
	int told_sync; /* how often a failed sync was logged */
};

/* The names of a folder's segments, sorted. */
enum { SEG_NAME = 63 }; /* longer ones are not ours */
struct segment_names {
	char (*name)[SEG_NAME + 1];
	int n, cap;
	int more;      /* segments that did not fit into the list */
	uint64_t last; /* the highest number of all */
};

struct cache {
	struct layer layer[MAX_LAYERS]; /* lowest first; the last is the one that is written */
	int nlayers;
	int left_out;                        /* lower layers that did not fit */
	int lock_fd;                         /* -1: not the writer */
	bool memory;                         /* puts stay in memory */
	const struct cache_through *through; /* the process that writes the folder for this one; NULL: none */
	bool unsaid;                         /* some waiting puts were not sent to it */
	bool told_code;
	struct seg *seg; /* of all layers; lower ones first, by number */
	int nsegs;
	int active[SEG_CODE + 1]; /* by kind: the segment that is appended to; -1: none */
	struct slot *slot;        /* open addressing, a power of two */
	size_t nslots, nused;
	uint64_t odd; /* random, so that nobody can choose keys that collide */
	struct put *put;
	int nputs, put_cap, waiting; /* waiting: puts that are not done */
	struct buf bytes;            /* the payloads of the puts */
	size_t tidy_at;              /* size of `bytes` at which the payloads of done puts are removed */
	struct cache_options o;
	bool cap_given;         /* true: the caller set the cap */
	struct new_folder made; /* the folder that is written, if it was not there */
	bool in_vain;           /* nothing could be written into it */
	bool told;              /* the last put or commit failed, and its caller knows */
	uint64_t generation;
	int64_t written_bytes, damaged_bytes;
	int evicted[SEG_CODE + 1]; /* records that the last eviction removed, by kind */
	int told_evicted;
	struct alias *alias; /* cache_adopt.c */
	size_t naliases, alias_slots;
	int nformer; /* slots that are `former`, or were */
};

struct slot *cache_slot(const struct cache *c, uint8_t type, struct key k); /* type 0: free */
/* Indexes record h of segment `seg` (or IN_MEMORY) at `at`, unless a higher layer has this record. Returns 1,
 * or < 0. */
int cache_index(struct cache *c, int seg, const struct head *h, const uint8_t *payload,
		int64_t at) MUST_CHECK;
int cache_index_start(struct cache *c) MUST_CHECK;
enum { ADOPTED_FORMER = 2 };
/* The type and key under which a record is indexed, in *h. `foreign`: others may have written its segment. 1:
 * the record is indexed; ADOPTED_FORMER: the same, and a former version wrote it; 0: it is passed over;
 * E_NOMEM. */
int cache_adopt(struct cache *c, bool foreign, struct head *h, const uint8_t *payload) MUST_CHECK;
void cache_adopt_clear(struct cache *c); /* forgets the names, before all is indexed again */
/* Evicts the claims of strangers that a former version stored as its best records: those whose hint, of the
 * same candidate, that version had not answered. Called when all segments are indexed, since a measured best
 * record is written before its hint is answered. The hint stays, and a box measures it. */
void cache_adopt_claims(struct cache *c);
/* Forgets what cache_adopt_claims evicted from the layer that is written, so that a claim does not return
 * when another hint replaces its hint. Called by the writer at open. */
int cache_forget_claims(struct cache *c) MUST_CHECK;
/* Replaces the type and key that a record has in its segment by those under which it was indexed, if they
 * differ. The names of records that others may have written apply only to CACHE_FORGET records of theirs. */
void cache_adopted_name(const struct cache *c, bool foreign, uint8_t *type, struct key *k);
/* The head of the record in its segment. Type 0 (an adopted record): seg_read compares no type and key. */
struct head cache_slot_head(const struct slot *s);
void cache_index_tidy(struct cache *c);         /* removes evicted records from the index */
void cache_index_clear(struct cache *c);        /* keeps waiting puts */
int64_t cache_slot_bytes(const struct slot *s); /* of its record, or of its CACHE_FORGET */
/* Compares slots in the order of cache_each_rec. */
int cache_order(const void *slot_a, const void *slot_b, void *cache);
int cache_order_slots(const void *a, const void *b, void *cache); /* as cache_order, for pointers to slots */
enum seg_kind cache_kind(uint8_t type);                           /* of the segment that holds this type */

/* Opens and indexes all layers. */
int cache_layers_load(struct cache *c) MUST_CHECK;
/* Reads what the writers of the layers have added. Returns whether there was something. */
int cache_layers_follow(struct cache *c) MUST_CHECK;
int cache_reload(struct cache *c) MUST_CHECK; /* reads all again, as at open */
void cache_layers_close(struct cache *c);
int cache_seg_add(struct cache *c, const struct seg *s) MUST_CHECK; /* returns its index */
/* Closes a segment and removes its file, unless another file has its name by now. */
void cache_remove_seg(const struct cache *c, struct seg *s);
/* Open, made by a writer (seg->own), and in the layer that is written. */
bool cache_top_seg(const struct cache *c, const struct seg *s);
unsigned cache_file_mode(const char *dir);                      /* users who may list the folder may read its
								   files */

/* Lists a folder's segments; an absent folder has none. E_BUSY: no descriptor or memory is free; try
 * later. */
int cache_list(const char *dir, struct segment_names *l) MUST_CHECK;
struct key cache_names_key(const struct segment_names *l);
uint64_t cache_number(const char *name); /* the number in a file's name; 0: none */
bool cache_own_name(const char *name);   /* the name has the form XXXXXXXX.seg, as writers name their files */

/* Locks DIR. A process that may write DIR may lock it, and no other if the lock file can be given to DIR's
 * owner. */
int cache_lock(struct cache *c, const char *dir, int64_t wait_ns) MUST_CHECK;
void cache_unlock(const char *dir, int fd); /* and removes the file, if it has no other name */
/* Makes sure that the lock is still DIR/lock; if the folder was removed or moved, makes a new one and locks
 * that. E_IO: this failed. */
int cache_hold(struct cache *c) MUST_CHECK;
/* Adds a put that waits; readers of `c` see it at once. Returns 1: one more put waits; 0: it replaced a
 * waiting put. */
int cache_wait(struct cache *c, const struct head *h, const void *payload) MUST_CHECK;
int cache_flush(struct cache *c) MUST_CHECK; /* makes all that waits durable */
/* Sends the last put to the process that writes the folder. */
int cache_through_put(struct cache *c) MUST_CHECK;
int cache_through_flush(struct cache *c) MUST_CHECK;
int64_t cache_segment_bytes(const struct cache *c, enum seg_kind kind); /* size of a new segment, at least */
/* Gives s the number of a new segment; no file has that name yet. */
int cache_next_number(struct cache *c, struct seg *s) MUST_CHECK;
/* Bytes of flash that a write of n bytes at an offset costs. */
int64_t cache_cost(int64_t at, int64_t n);
uint64_t cache_next_generation(const struct cache *c);
void cache_mark(struct cache *c, struct buf *out, const struct seg *s, int64_t at);

/* A copy of slots, in order, as a segment DIR/NAME. w->s is as seg_create wants it; at[i] is where slot i
 * went (< 0: its record was bad and was left out). After a failure there is no such file. */
struct copy {
	struct cache *c;
	const char *dir, *temp, *name; /* name NULL: made from the segment's number */
	unsigned mode;
	struct slot *const *slot;
	int n;
	int64_t *at;
	bool marks;      /* the copy belongs to the cache itself and gets a batch mark */
	bool named;      /* the file was renamed to its name, perhaps not durably */
	int64_t written; /* bytes of flash that the copy wrote */
	struct seg s;
	struct buf out;  /* records not written yet */
	int64_t flushed; /* bytes of the file written before `out` */
};
int cache_copy(struct copy *w) MUST_CHECK;
struct cache_bytes {
	int64_t live, good, waiting; /* of records: live and whole ones in files; those waiting in memory */
	int64_t size, damaged;       /* of files */
	int files;
};
/* Counts the uppermost layer. */
struct cache_bytes cache_count(const struct cache *c, enum seg_kind kind);
/* Returns the slots of a kind that a copy of the uppermost layer keeps, in order: live records, tombstones
 * (the layer with the forgotten record may be mounted later), and waiting puts, which the copy writes in
 * place of the records that they supersede. */
struct slot **cache_to_keep(struct cache *c, enum seg_kind kind, struct arena *a, int *n);
/* Copies the slots to keep to a new segment that replaces the others; slots with `leaves` are evicted with
 * it, or stay if the copy fails. *no_room: the disk had no room for it. */
int cache_compact_kind(struct cache *c, enum seg_kind kind, bool *no_room) MUST_CHECK;
/* Ends the eviction of the slots with `leaves` of a kind: `copied`: they are gone; else they stay. */
void cache_have_left(struct cache *c, enum seg_kind kind, bool copied);
/* A lower layer, or a user's file in this one, exists, which may hold a forgotten record. */
bool cache_has_lower(const struct cache *c);
int cache_nothing_unread(const struct cache *c) MUST_CHECK;
/* Makes `need` more bytes fit under the cap. It may write waiting puts, evict code, and drop waiting code
 * that is larger than the space that records leave for code (this needs no copy). For code it evicts no
 * records, and copies records only if that frees an eighth of the cap. Records that could not be read in full
 * are not copied, but given up for new records when no code is left. If something was unread, all is read
 * again first. E_IO: there is no room, and nothing more may be thrown away. */
int cache_make_room(struct cache *c, enum seg_kind kind, int64_t need) MUST_CHECK;
void cache_compact_at_open(struct cache *c);

#endif
