/* SPDX-License-Identifier: Apache-2.0 */
/* One file of the cache: a header and records behind one another.
 *
 * Bytes, little endian. Header, 64: "HSEG", u32 version, u64 number, u64 replaces, u32 kind, u32 0, u64 salt,
 * zeros, u32 crc32c of the 60 before. A segment of kind SEG_RECORDS has its final length from the start, with
 * zeros behind its last record; the others end with their last record. Segments of the same kind whose number
 * is less than `replaces` no longer count.
 *
 * Record: "HREC", u32 length of the payload (<= MAX_PAYLOAD), u32 type, key 16 (hi, lo), payload, u32 crc32c
 * of salt, number and offset in the file (u64 each) and all that before: bytes that merely look like a record
 * (in a payload, left over from another file) do not count. After damage a scan continues at the next magic;
 * its cost is linear in the file's size, whatever is in it.
 *
 * The former format, a file without a header whose CRCs cover the record alone, is read as a segment of
 * number 0. */
#ifndef AGENT_SEGMENT_H
#define AGENT_SEGMENT_H

#include "platform/base/buf.h"
#include "platform/base/err.h"
#include "platform/base/hash.h"

enum {
	SEG_HEAD = 64,
	REC_HEAD = 28, /* magic, length, type, key */
	REC_CRC = 4,
	MAX_PAYLOAD = 16 << 20, /* a kernel is some KiB; anything near this is damage */
	MAX_FILE = 1 << 30,     /* bytes; a larger file (it may be sparse) is not a segment */
	FLASH_BLOCK = 4096,     /* bytes of flash that a write of one byte costs */
	SEG_NUMBERS = 1 << 30,  /* a file that claims this number or more is not a segment */
};

enum seg_kind { SEG_RECORDS = 1, SEG_CODE = 2, SEG_MIXED = 3 /* made by pack */ };

struct seg {
	int fd; /* -1: closed */
	/* Reads the bytes, as `read` of struct disk does; NULL: they are read from fd. */
	int64_t (*read)(void *ctx, void *p, size_t n, int64_t at);
	void *ctx;
	char name[64];
	uint64_t number, replaces, salt;
	enum seg_kind kind;
	int layer;                /* index of its layer in the cache */
	bool foreign;             /* another user may have written it: its code is not run */
	bool own; /* a cache's writer made and named it. Packs, and files of other names, are a
		     user's: read below those of the writer, never changed. Set by cache_seg_add */
	bool writable;            /* open for writing, and the file has no other name */
	bool clean;               /* nothing but zeros follows the last record */
	bool no_room;             /* the disk had no room to create it */
	bool unread;              /* the system could not read a part, which may hold records */
	int64_t start, end, size; /* bytes: start of the records, end of the last good one, size of the
				     file */
	int64_t good_bytes;       /* in good records */
	int64_t damaged_bytes;    /* neither good records nor the zeros at the end; set by a scan of the whole
				     file */
};

struct head {
	uint32_t n; /* bytes of the payload */
	uint8_t type;
	struct key key;
};

/* E_NOTFOUND: no such file (any more). E_CORRUPT: not a segment. E_IO: cannot be read. E_BUSY: this process
 * has no descriptor or memory left; try later. A link is followed to read, never to write. */
int seg_open(const char *dir, const char *name, bool to_write, struct seg *out) MUST_CHECK;
/* Begins a segment that is not a file of a cache: the caller sets s->read, ctx, size and name, and s->fd to
 * -1. E_CORRUPT. */
int seg_begin(struct seg *s) MUST_CHECK;
void seg_close(struct seg *s);
bool seg_no_room(int rc); /* -errno: the disk, the quota or the limit of a file is full */
/* Returns a number that outsiders cannot know, different each time. Before the system has random numbers
 * (early in a boot) it is as good as the random bytes that the system gives to each new program. */
uint64_t seg_salt(void);
/* Writes DIR/TEMP: a header and then zeros up to `size` bytes, durable but without its name; s->number,
 * replaces and kind are the caller's. On failure there is no such file. */
int seg_create(const char *dir, const char *temp, int64_t size, unsigned mode, struct seg *s) MUST_CHECK;
/* Renames that file to its name, durably. On failure the file is gone and closed. A file of that name is
 * replaced. */
int seg_name(const char *dir, const char *temp, struct seg *s) MUST_CHECK;
/* As seg_name, but the name is durable only with the folder's next sync. */
int seg_name_soon(const char *dir, const char *temp, struct seg *s) MUST_CHECK;

typedef int seg_fn(void *ctx, const struct head *h, const uint8_t *payload, int64_t at);
/* Calls fn for every good record from s->end on, and moves s->end. `all`: continues behind damage, and checks
 * whether zeros follow (s->clean); else it stops at the first bad record, which may be still being written.
 * Returns whether there was any good record; fn < 0 ends it. */
int seg_scan(struct seg *s, bool all, seg_fn *fn, void *ctx) MUST_CHECK;
/* Appends the record that will lie at `at` of the file. */
void seg_record(struct buf *out, const struct seg *s, int64_t at, const struct head *h, const void *payload);
/* Reads the record at `at` into p and checks it: REC_HEAD + h->n + REC_CRC bytes. h->type 0: its type and key
 * are not compared. Returns 1; 0: there is no such record; E_IO: it cannot be read. */
int seg_read(const struct seg *s, int64_t at, const struct head *h, uint8_t *p) MUST_CHECK;

#endif
