/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the log that QEMU (blklogwrites, in the format of dm-log-writes) keeps of a device:
 * all writes and flushes.
 * From the log, block_image makes the device as a power cut may have left it: all that was flushed, and any
 * subset of the rest in any order, whole or torn at 4 KiB. */
#ifndef TESTS_BLOCK_LOG_H
#define TESTS_BLOCK_LOG_H

#include "platform/base/file.h"
#include "platform/base/rng.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK_TEAR = 4096, BLOCK_ACKS = 100000 };
enum { BLOCK_FLUSH = 1, BLOCK_FUA = 2, BLOCK_DISCARD = 4, BLOCK_MARK = 8 };
#define BLOCK_MAGIC UINT64_C(0x6a736677736872)

struct block_entry {
	uint64_t at, n, flags; /* bytes of the device */
	const char *data;      /* NULL: no data */
	uint64_t end;          /* offset in the log */
};

struct block_device {
	struct blob base, log;
	struct block_entry *entry;
	int n;
	int ack[BLOCK_ACKS];
	long long ack_at[BLOCK_ACKS];
	int nacks;
};

static inline int block_parse(struct block_device *d, struct arena *a)
{
	struct cur c = {.p = d->log.p, .n = d->log.n};
	uint64_t magic = cur_u64(&c);
	cur_u64(&c);
	uint64_t n = cur_u64(&c), sector = cur_u32(&c);
	if (c.bad || magic != BLOCK_MAGIC || n > d->log.n || sector < 512 || sector > 4096)
		return fail(E_CORRUPT, "no log of writes");
	d->entry = ARENA_ARRAY(a, struct block_entry, n + 1);
	c.at = sector;
	for (uint64_t i = 0; i < n && !c.bad; i++) {
		struct block_entry *e = &d->entry[i];
		size_t from = c.at;
		e->at = cur_u64(&c) * sector;
		e->n = cur_u64(&c) * sector;
		e->flags = cur_u64(&c);
		c.at = from + sector;
		if (!(e->flags & (BLOCK_DISCARD | BLOCK_MARK)) && e->n)
			e->data = cur_bytes(&c, e->n);
		e->end = c.at;
		if (c.bad || e->at + e->n > d->base.n)
			return fail(E_CORRUPT, "entry %llu of the log is cut off", (unsigned long long)i);
		d->n++;
	}
	return E_OK;
}

/* Reads the device before the first write, the log, and ACKS: lines of a number that was acknowledged and the
 * size that the log had by then. */
static inline int block_open(struct block_device *d, struct arena *a, const char *base, const char *log,
			     const char *acks)
{
	int rc = file_read(a, base, 0, &d->base);
	if (rc >= 0)
		rc = file_read(a, log, 0, &d->log);
	if (rc >= 0)
		rc = block_parse(d, a);
	FILE *f = rc < 0 ? NULL : fopen(acks, "r");
	while (f && d->nacks < BLOCK_ACKS &&
	       fscanf(f, "%d %lld", &d->ack[d->nacks], &d->ack_at[d->nacks]) == 2)
		d->nacks++;
	if (f)
		fclose(f);
	return rc >= 0 && !d->nacks ? fail(E_CORRUPT, "nothing was acknowledged") : rc;
}

/* The last number that was acknowledged before entry `cut`; 0: none. */
static inline int block_acked(const struct block_device *d, int cut)
{
	int acked = 0;
	for (int i = 0; i < d->nacks; i++)
		if (cut > 0 && d->ack_at[i] <= (long long)d->entry[cut - 1].end)
			acked = d->ack[i];
	return acked;
}

static inline void block_apply(char *image, const struct block_entry *e, bool torn, struct rng *r)
{
	if (e->flags & BLOCK_DISCARD)
		memset(image + e->at, 0, e->n);
	for (uint64_t at = 0; e->data && at < e->n; at += BLOCK_TEAR) {
		uint64_t n = e->n - at < BLOCK_TEAR ? e->n - at : BLOCK_TEAR;
		if (!torn || rng_below(r, 2))
			memcpy(image + e->at + at, e->data + at, n);
	}
}

/* Applies what a cut before entry `cut` leaves; `image` begins as a copy of the base. */
static inline void block_image(const struct block_device *d, int cut, struct rng *r, char *image)
{
	int flushed = 0;
	for (int i = 0; i < cut; i++)
		if (d->entry[i].flags & BLOCK_FLUSH)
			flushed = i;
	uint32_t how = rng_below(r, 4); /* it keeps all writes that were not flushed (0), none (1), or some */
	for (int i = 0; i < cut; i++) {
		const struct block_entry *e = &d->entry[i];
		bool durable = i <= flushed || e->flags & BLOCK_FUA;
		if (durable || how == 0 || (how > 1 && rng_below(r, 2)))
			block_apply(image, e, !durable && how == 3 && rng_below(r, 3) == 0, r);
	}
}

/* Writes the image, with holes where it has zeros. */
static inline int block_write(const char *path, const char *image, size_t n)
{
	enum { PIECE = 64 << 10 };
	static const char zeros[PIECE];
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	bool ok = fd >= 0 && ftruncate(fd, (off_t)n) == 0;
	for (size_t at = 0; ok && at < n; at += PIECE) {
		size_t part = n - at < PIECE ? n - at : PIECE;
		if (memcmp(image + at, zeros, part) != 0)
			ok = pwrite(fd, image + at, part, (off_t)at) == (ssize_t)part;
	}
	if (fd >= 0)
		close(fd);
	return ok ? E_OK : fail(E_IO, "cannot write %s", path);
}

#endif
