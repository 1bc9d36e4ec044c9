/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the cache share: cache_list.c lists folders, cache_layer.c opens them and follows their
 * writer, cache_lock.c is the writer's lock, cache_index.c knows where records are, cache_write.c commits,
 * cache_compact.c copies what lives, cache_room.c evicts, cache_through.c has another process write,
 * cache_copy.c makes one file of what lives, cache_adopt.c names what a former version or a stranger wrote,
 * cache.c is what callers see. */
#ifndef AGENT_CACHE_PARTS_H
#define AGENT_CACHE_PARTS_H

#include "agent/cache/cache.h"
#include "agent/cache/segment.h"

/* 0: a program that only reads caches (libhone), without what writes them. */
#ifndef CACHE_WRITES
#define CACHE_WRITES 1
#endif

enum { MAX_LAYERS = 8, BATCH_RECORDS = 64, BATCH_BYTES = 4 << 20, MARK_BYTES = 24, MANY_SEGS = 32 };

enum { CAP_BYTES = 64 << 20 /* unless the caller says otherwise, or the last writer's did */ };

/* In place of a segment: */
enum { IN_MEMORY = UINT16_MAX, NOWHERE = UINT16_MAX - 1, MAX_SEGS = UINT16_MAX - 2 };
#define GONE UINT32_MAX

#define MOST_COUNTED (INT64_C(1) << 53) /* of a mark's counts: a file that claims more is not believed */

/* One per (type, key): where its newest record is. */
struct slot {
	struct key key;
	int64_t at;       /* offset in its segment; IN_MEMORY: index of the put */
	uint32_t n;       /* payload bytes; GONE: forgotten */
	uint16_t seg;     /* NOWHERE: evicted */
	uint8_t type;     /* enum cache_type; 0: empty */
	bool leaves : 1;  /* the next copy is made without it */
	bool adopted : 1; /* it lies in its segment under another type or key (cache_adopt.c) */
	bool former : 1;  /* a former version wrote it, and nobody else can have */
	bool claim : 1;   /* evicted by cache_adopt_claims from the layer that is written */
};

/* What waits. */
struct put {
	struct head h;
	uint8_t of; /* the type that it is about: h.type, of CACHE_FORGET its payload */
	bool done;  /* written, or superseded by a later one */
	bool ours;  /* who writes the folder does not take it: it stays in memory */
	size_t at;  /* of its payload in `bytes` */
};

struct layer {
	char *dir;
	bool seed;
	bool implied;     /* the user's, above one that is not ours to write: nobody named it */
	uint64_t last;    /* the highest number of a segment that it has, or had */
	struct key names; /* of the files that were there when it was opened */
	bool unread;      /* something in it could not be read, or is not known to be durable: nothing is
			     thrown away but for the cap */
	int unopened;     /* files that could not be opened: nothing is thrown away */
	uint64_t hidden;  /* the highest number of a file that was passed over: what comes later is written
			     behind it */
	bool not_now;     /* ... for want of descriptors or memory */
	bool told_foreign;
	int told;      /* what was said of that, and is not said again */
	int told_sync; /* ... of what could not be made durable */
};

/* The names of a folder's segments, sorted. */
enum { SEG_NAME = 63 }; /* longer ones are not ours */
struct segment_names {
	char (*name)[SEG_NAME + 1];
	int n, cap;
	int more;      /* there are, that have no place here */
	uint64_t last; /* the highest number among all */
};

struct cache {
	struct layer layer[MAX_LAYERS]; /* lowest first; the last is the one that is written */
	int nlayers;
	int left_out;                        /* lower ones, that have no place */
	int lock_fd;                         /* -1: not the writer */
	bool memory;                         /* what is put stays in memory */
	const struct cache_through *through; /* who writes the folder in our place; NULL: nobody */
	bool unsaid;                         /* not all that waits was told to it */
	bool told_code;
	struct seg *seg; /* of all layers; lower ones first, by number */
	int nsegs;
	int active[SEG_CODE + 1]; /* by kind: the segment that is appended to; -1: none */
	struct slot *slot;        /* open addressing, a power of two */
	size_t nslots, nused;
	uint64_t odd; /* random: nobody can make keys that share a place */
	struct put *put;
	int nputs, put_cap, waiting; /* of them not done */
	struct buf bytes;            /* the payloads of the puts */
	size_t tidy_at;              /* bytes of them at which those that are done go */
	struct cache_options o;
	bool cap_given; /* by the caller */
	bool told;      /* the last put or commit failed: its caller knows */
	uint64_t generation;
	int64_t written_bytes, damaged_bytes;
	int evicted[SEG_CODE + 1]; /* records by the last that made room, by kind */
	int told_evicted;
	struct alias *alias; /* cache_adopt.c */
	size_t naliases, alias_slots;
	int nformer; /* slots that are `former`, or were */
};

struct slot *cache_slot(const struct cache *c, uint8_t type, struct key k); /* type 0: free */
/* Record h of segment `seg` (or IN_MEMORY) is at `at`; what lies above it stays. Returns 1, or < 0. */
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
/* The type and key under which a record was indexed that lies in its segment under these; else they stay. The
 * names of records that others may have written hold for forgets of theirs alone. */
void cache_adopted_name(const struct cache *c, bool foreign, uint8_t *type, struct key *k);
/* As it lies in its segment: seg_read compares no type and key where the type is 0. */
struct head cache_slot_head(const struct slot *s);
void cache_index_tidy(struct cache *c);         /* what was evicted takes no memory */
void cache_index_clear(struct cache *c);        /* but for what waits in memory */
int64_t cache_slot_bytes(const struct slot *s); /* of its record, or of what says that there is none */
/* The order of cache_each_rec. */
int cache_order(const void *slot_a, const void *slot_b, void *cache);
int cache_order_slots(const void *a, const void *b, void *cache); /* the same, of pointers to slots */
enum seg_kind cache_kind(uint8_t type);                           /* of the segment that holds it */

/* Opens and indexes all layers. */
int cache_layers_load(struct cache *c) MUST_CHECK;
/* What their writers did since. Returns whether there was something. */
int cache_layers_follow(struct cache *c) MUST_CHECK;
int cache_reload(struct cache *c) MUST_CHECK; /* all, as at open */
void cache_layers_close(struct cache *c);
int cache_seg_add(struct cache *c, const struct seg *s) MUST_CHECK; /* its index */
/* Closes it and removes its file, unless another one has its name by now. */
void cache_remove_seg(const struct cache *c, struct seg *s);
bool cache_top_seg(const struct cache *c, const struct seg *s); /* open, and of the layer that is written */
unsigned cache_file_mode(const char *dir);                      /* who may list it may read */

/* An absent folder has none. E_BUSY: not now. */
int cache_list(const char *dir, struct segment_names *l) MUST_CHECK;
struct key cache_names_key(const struct segment_names *l);
uint64_t cache_number(const char *name); /* that its name says; 0: none */
bool cache_own_name(const char *name);   /* XXXXXXXX.seg, as writers name theirs */

/* Of DIR: whoever may write DIR may lock it, and nobody else where DIR's owner can be given the lock. */
int cache_lock(struct cache *c, const char *dir, int64_t wait_ns) MUST_CHECK;
void cache_unlock(const char *dir, int fd); /* and removes it, where it has no other name */
/* The lock is still DIR/lock; where the folder was taken away or moved, a new one is made and locked. E_IO:
 * that cannot be. */
int cache_hold(struct cache *c) MUST_CHECK;
/* A put that waits, and counts at once. 1: one more waits; 0: another one no longer does. */
int cache_wait(struct cache *c, const struct head *h, const void *payload) MUST_CHECK;
int cache_flush(struct cache *c) MUST_CHECK; /* all that waits is durable */
/* The last put goes to who writes the folder. */
int cache_through_put(struct cache *c) MUST_CHECK;
int cache_through_flush(struct cache *c) MUST_CHECK;
int64_t cache_segment_bytes(const struct cache *c, enum seg_kind kind); /* of a new one, at least */
/* The number of a new segment: nothing of that name is there. */
int cache_next_number(struct cache *c, struct seg *s) MUST_CHECK;
/* Bytes of flash that a write of n bytes at an offset costs. */
int64_t cache_cost(int64_t at, int64_t n);
uint64_t cache_next_generation(const struct cache *c);
void cache_mark(struct cache *c, struct buf *out, const struct seg *s, int64_t at);

/* A copy of slots, in order, as a segment DIR/NAME; w->s as seg_create wants it, at[i] where slot i went (<
 * 0: it was bad and is left out). On failure there is no such file. */
struct copy {
	struct cache *c;
	const char *dir, *temp, *name; /* NULL: that of its number */
	unsigned mode;
	struct slot *const *slot;
	int n;
	int64_t *at;
	bool marks;      /* it is the cache's own: it counts on */
	bool named;      /* it has got its name, perhaps not for good */
	int64_t written; /* bytes of flash that it cost */
	struct seg s;
	struct buf out;  /* not written yet */
	int64_t flushed; /* bytes of the file before that */
};
int cache_copy(struct copy *w) MUST_CHECK;
struct cache_bytes {
	int64_t live, good, waiting; /* of records; in files: that count, that are whole; in memory */
	int64_t size;                /* of files */
	int files;
};
/* Of the uppermost layer. */
struct cache_bytes cache_count(const struct cache *c, enum seg_kind kind);
/* The slots of a kind that a copy of the uppermost layer keeps, in order: what lives, and what was forgotten:
 * the seed that it hides may be mounted another time. What waits is among them: the copy loses the record
 * that it takes the place of. */
struct slot **cache_to_keep(struct cache *c, enum seg_kind kind, struct arena *a, int *n);
/* Copies them to a new segment that replaces the others; those that leave have left with it, or stay for want
 * of one. *no_room: the disk had none for it. */
int cache_compact_kind(struct cache *c, enum seg_kind kind, bool *no_room) MUST_CHECK;
/* Those of a kind that were to leave have left, with a copy or as what waits, or stay for want of one. */
void cache_have_left(struct cache *c, enum seg_kind kind, bool copied);
/* A file has both kinds: a pack. Once both are copied it goes. */
bool cache_has_mixed(const struct cache *c);
void cache_drop_mixed(struct cache *c);      /* both kinds were copied */
bool cache_has_lower(const struct cache *c); /* a layer below may hold what is forgotten */
int cache_nothing_unread(const struct cache *c) MUST_CHECK;
/* `need` more bytes fit under the cap; perhaps what waits was written meanwhile, or code of it evicted: where
 * that is larger than what records leave for code, without a copy. For code no record goes; records are
 * copied only where an eighth of the cap is won, and never where they could not be read in full: that is
 * given up only for records, and when no code is left. All is read again before. E_IO: there is no room, and
 * nothing more may be thrown away. */
int cache_make_room(struct cache *c, enum seg_kind kind, int64_t need) MUST_CHECK;
void cache_compact_at_open(struct cache *c);

#endif
