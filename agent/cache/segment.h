/* SPDX-License-Identifier: Apache-2.0 */
/* One file of the cache: a header and records behind one another.
 *
 * Bytes, little endian. Header, 64: "HSEG", u32 version, u64 number, u64 replaces, u32 kind, u32 0, u64 salt,
 * zeros, u32 crc32c of the 60 before. A segment of kind SEG_RECORDS is as long as it will ever be, zeros
 * behind its last record; the others end with it. Segments of the same kind whose number is less than
 * `replaces` no longer count.
 *
 * Record: "HREC", u32 length of the payload (<= MAX_PAYLOAD), u32 type, key 16 (hi, lo), payload, u32 crc32c
 * of salt, number and offset in the file (u64 each) and all that before: bytes that merely look like a record
 * (in a payload, left over from another file) are none. After damage a walk goes on at the next magic; its
 * cost is linear in the file's size, whatever is in it.
 *
 * The format before this one, a file without a header whose CRCs begin with nothing, is read as a segment of
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
	MAX_FILE = 1 << 30,     /* bytes; one that is larger (it may be sparse) is none of ours */
	FLASH_BLOCK = 4096,     /* what a write of one byte costs */
	SEG_NUMBERS = 1 << 30,  /* a file that claims a number from here on is none of ours */
};

enum seg_kind { SEG_RECORDS = 1, SEG_CODE = 2, SEG_MIXED = 3 /* made by pack */ };

struct seg {
	int fd; /* -1: gone */
	/* Where its bytes come from, as of struct disk; NULL: fd. */
	int64_t (*read)(void *ctx, void *p, size_t n, int64_t at);
	void *ctx;
	char name[64];
	uint64_t number, replaces, salt;
	enum seg_kind kind;
	int layer;                /* of the cache */
	bool foreign;             /* somebody else may have written it: its code is not run */
	bool writable;            /* open to write, and no other name leads to it */
	bool clean;               /* nothing but zeros follows the last record */
	bool no_room;             /* the disk had none to make it */
	bool unread;              /* the system refused a part: there may be more in it */
	int64_t start, end, size; /* bytes: where records begin, behind the last good one, of the file */
	int64_t good_bytes;       /* in good records */
	int64_t damaged_bytes;    /* that are neither, nor the zeros at the end: of a scan of all */
};

struct head {
	uint32_t n; /* bytes of the payload */
	uint8_t type;
	struct key key;
};

/* E_NOTFOUND: no such file (any more). E_CORRUPT: no segment of ours. E_IO: cannot be read. E_BUSY: not now,
 * for this process has no descriptor or no memory left. A link is followed to read, never to write. */
int seg_open(const char *dir, const char *name, bool to_write, struct seg *out) MUST_CHECK;
/* One that is no file of a cache: s->read, ctx, size and name are the caller's, and s->fd -1. E_CORRUPT. */
int seg_begin(struct seg *s) MUST_CHECK;
void seg_close(struct seg *s);
bool seg_no_room(int rc); /* -errno: the disk, the quota or the limit of a file is full */
/* A number that nobody outside can know, and another one each time; before the system has random numbers
 * (early in a boot) as good as those that it gives to programs that start. */
uint64_t seg_salt(void);
/* Writes DIR/TEMP: a header and then zeros up to `size` bytes, durable but without its name; s->number,
 * replaces and kind are the caller's. On failure there is no such file. */
int seg_create(const char *dir, const char *temp, int64_t size, unsigned mode, struct seg *s) MUST_CHECK;
/* ... which gets its name, durably. On failure the file is gone and closed. A file of that name is replaced.
 */
int seg_name(const char *dir, const char *temp, struct seg *s) MUST_CHECK;
/* ... which is durable only with the folder's next sync. On failure as seg_name. */
int seg_name_soon(const char *dir, const char *temp, struct seg *s) MUST_CHECK;

typedef int seg_fn(void *ctx, const struct head *h, const uint8_t *payload, int64_t at);
/* Calls fn for every good record from s->end on, and moves s->end. `all`: looks behind damage too, and
 * whether zeros follow (s->clean); else it stops at the first that is none, which may be on its way. Returns
 * whether there was any; fn < 0 ends it. */
int seg_scan(struct seg *s, bool all, seg_fn *fn, void *ctx) MUST_CHECK;
/* Appends the record that will lie at `at` of the file. */
void seg_record(struct buf *out, const struct seg *s, int64_t at, const struct head *h, const void *payload);
/* The record at `at`, checked: REC_HEAD + h->n + REC_CRC bytes into p. h->type 0: its type and key are not
 * compared. 0: it is none; E_IO: not to be had. */
int seg_read(const struct seg *s, int64_t at, const struct head *h, uint8_t *p) MUST_CHECK;

#endif
