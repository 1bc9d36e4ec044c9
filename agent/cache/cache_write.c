/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/cache_parts.h"
#include "platform/base/disk.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	MAX_WAITING_BYTES = 64 << 20, /* limit of waiting payloads: with a dead disk results are lost, but the
					 robot's memory is not used up */
	SEGMENT_BYTES = 256 << 10,
	CODE_FACTOR = 16, /* a segment of code is that many times larger than the first of records */
	GROWTH = 4,       /* a new segment has 1/GROWTH of the size of all, so that their number stays
			     small */
	ROUND = 64 << 10,
	LEAST_TIDY = 64 << 10, /* bytes of puts */
};

int64_t cache_cost(int64_t at, int64_t n)
{
	return n > 0 ? ((at + n - 1) / FLASH_BLOCK - at / FLASH_BLOCK + 1) * FLASH_BLOCK : 0;
}

/* Removes done puts and moves the waiting ones together. */
static void tidy(struct cache *c)
{
	size_t bytes = 0;
	int n = 0;
	for (int i = 0; i < c->nputs; i++) {
		struct put p = c->put[i];
		if (p.done)
			continue;
		cache_slot(c, p.of, p.h.key)->at = n;
		if (p.h.n)
			memmove(c->bytes.p + bytes, c->bytes.p + p.at, p.h.n);
		p.at = bytes;
		bytes += p.h.n;
		c->put[n++] = p;
	}
	c->nputs = n;
	c->bytes.n = bytes;
	c->tidy_at = bytes * 2 < LEAST_TIDY          ? LEAST_TIDY
		     : bytes * 2 < MAX_WAITING_BYTES ? bytes * 2
						     : MAX_WAITING_BYTES;
}

/* After tidy() at least half of the places must be free, so that the cost of a put does not depend on how
 * many puts are superseded. */
static int make_room_for_put(struct cache *c, size_t bytes)
{
	if (c->nputs == c->put_cap || c->bytes.n + bytes > c->tidy_at)
		tidy(c);
	if (c->nputs * 2 < c->put_cap)
		return E_OK;
	int cap = c->put_cap ? c->put_cap * 2 : BATCH_RECORDS;
	struct put *more = realloc(c->put, (size_t)cap * sizeof *more);
	if (!more)
		return fail(E_NOMEM, "no memory for the cache's waiting records");
	c->put = more;
	c->put_cap = cap;
	return E_OK;
}

int cache_wait(struct cache *c, const struct head *h, const void *payload)
{
	int rc = make_room_for_put(c, h->n);
	if (rc < 0)
		return rc;
	if (c->bytes.n + h->n > MAX_WAITING_BYTES)
		return fail(E_NOMEM, "cache %s: %zu MiB wait to be written, and no more can wait",
			    cache_dir(c), c->bytes.n >> 20);
	struct put p = {.h = *h, .of = h->type, .at = c->bytes.n};
	if (h->type == CACHE_FORGET)
		p.of = *(const uint8_t *)payload;
	buf_add(&c->bytes, payload, h->n);
	if (!buf_ok(&c->bytes))
		return fail(E_NOMEM, "no memory for a record of %u bytes", h->n);
	const struct slot *old = cache_slot(c, p.of, h->key);
	bool waits = old->type && old->seg == IN_MEMORY;
	int64_t before = waits ? old->at : 0;
	rc = cache_index(c, IN_MEMORY, h, payload, c->nputs);
	if (rc < 0)
		return rc;
	if (waits)
		c->put[before].done = true;
	c->waiting += !waits;
	c->put[c->nputs++] = p;
	return !waits;
}

static int64_t top_bytes(const struct cache *c, enum seg_kind kind)
{
	int64_t n = 0;
	for (int i = 0; i < c->nsegs; i++)
		if (cache_top_seg(c, &c->seg[i]) && c->seg[i].kind == kind)
			n += c->seg[i].size;
	return n;
}

int64_t cache_segment_bytes(const struct cache *c, enum seg_kind kind)
{
	int64_t first = c->o.segment_bytes ? c->o.segment_bytes : SEGMENT_BYTES;
	int64_t grown = top_bytes(c, kind) / GROWTH / ROUND * ROUND;
	if (kind == SEG_CODE)
		first *= CODE_FACTOR;
	grown = grown < MAX_FILE / GROWTH ? grown : MAX_FILE / GROWTH;
	return grown > first ? grown : first;
}

int cache_next_number(struct cache *c, struct seg *s)
{
	struct layer *top = &c->layer[c->nlayers - 1];
	char path[PATH_MAX];
	struct stat st;
	do {
		if (top->last + 1 >= SEG_NUMBERS)
			return fail(E_IO, "cache %s: no free number for another file: use another folder",
				    top->dir);
		s->number = ++top->last;
		if (snprintf(path, sizeof path, "%s/%08llx.seg", top->dir, (unsigned long long)s->number) >=
		    (int)sizeof path)
			return fail(E_USAGE, "the path of cache folder %.80s... is too long", top->dir);
	} while (lstat(path, &st) == 0);
	return E_OK;
}

/* A segment of code grows as it is written; one of records has its full size from the start. */
static bool fits(const struct cache *c, enum seg_kind kind, int64_t need)
{
	const struct seg *s = &c->seg[c->active[kind]];
	return s->end + need <= (kind == SEG_CODE ? cache_segment_bytes(c, kind) : s->size) ||
	       (kind == SEG_CODE && s->end == SEG_HEAD);
}

static int new_segment(struct cache *c, enum seg_kind kind, int64_t size,
		       int (*name)(const char *, const char *, struct seg *))
{
	const char *dir = cache_dir(c);
	struct seg s = {.kind = kind, .layer = c->nlayers - 1};
	int rc = cache_next_number(c, &s);
	if (rc < 0)
		return rc;
	rc = seg_create(dir, CACHE_TEMP_FILE, size, cache_file_mode(dir), &s);
	c->written_bytes += cache_cost(0, size);
	if (rc >= 0)
		rc = name(dir, CACHE_TEMP_FILE, &s);
	if (rc < 0)
		return rc;
	rc = cache_seg_add(c, &s);
	if (rc < 0)
		seg_close(&s);
	else
		c->active[kind] = rc;
	return rc;
}

/* Returns the index of a segment of this kind that has `need` bytes left and whose name is durable. */
static int room(struct cache *c, enum seg_kind kind, int64_t need)
{
	int64_t size = cache_segment_bytes(c, kind);
	size = size < SEG_HEAD + need ? SEG_HEAD + need : size;
	if (kind == SEG_RECORDS && c->active[kind] >= 0 && fits(c, kind, need))
		return c->active[kind];
	int rc = cache_make_room(c, kind, kind == SEG_CODE ? need : size);
	if (rc < 0)
		return rc;
	if (kind == SEG_CODE && c->active[kind] >= 0 && fits(c, kind, need))
		return c->active[kind];
	return new_segment(c, kind, kind == SEG_CODE ? SEG_HEAD : size, seg_name);
}

/* Removes new segments whose names could not be made durable. */
static void take_back(struct cache *c, const int made[], int n)
{
	for (int i = 0; i < n; i++) {
		c->active[c->seg[made[i]].kind] = -1;
		cache_remove_seg(c, &c->seg[made[i]]);
	}
}

int cache_prepare(struct cache *c)
{
	static const enum seg_kind order[] = {SEG_CODE, SEG_RECORDS};
	const char *dir = cache_dir(c);
	int made[2], n = 0,
		     rc = c->lock_fd < 0 ? fail(E_USAGE, "cache %s was opened for reading", dir) : E_OK;
	if (rc >= 0)
		rc = cache_hold(c);
	for (int i = 0; i < 2 && rc >= 0; i++) {
		int64_t size = order[i] == SEG_CODE ? SEG_HEAD : cache_segment_bytes(c, order[i]);
		if ((c->active[order[i]] >= 0 && fits(c, order[i], size / 4)) ||
		    cache_count(c, order[i]).size + size > c->o.cap_bytes / 2)
			continue;
		rc = new_segment(c, order[i], size, seg_name_soon);
		if (rc >= 0)
			made[n++] = rc;
	}
	int synced = n ? disk->sync_dir(dir) : 0;
	if (synced < 0) {
		take_back(c, made, n);
		return fail(E_IO, "cache %s: %s; %s", dir, strerror(-synced), disk_remedy(synced));
	}
	return rc < 0 ? rc : n + (n > 0);
}

int cache_try(struct cache *c)
{
	enum { CODE_BYTES = 64 << 10 }; /* of a few kernels */
	const char *dir = cache_dir(c);
	char path[PATH_MAX], piece[16 << 10]; /* in pieces: honed is to stay small */
	if (c->lock_fd < 0)
		return E_OK;
	size_t n =
	    CODE_BYTES + (c->active[SEG_RECORDS] < 0 ? (size_t)cache_segment_bytes(c, SEG_RECORDS) : 0);
	if (snprintf(path, sizeof path, "%s/" CACHE_TEMP_FILE, dir) >= (int)sizeof path)
		return fail(E_USAGE, "the path of cache folder %.80s... is too long", dir);
	memset(piece, 0xa5, sizeof piece); /* zeros might take no room in some file systems */
	int fd = disk->create(path, 0600), rc = fd < 0 ? fd : 0;
	for (size_t at = 0; rc >= 0 && at < n; at += sizeof piece)
		rc = disk->write(fd, piece, n - at < sizeof piece ? n - at : sizeof piece, (int64_t)at);
	if (fd >= 0) {
		close(fd);
		(void)disk->unlink(path);
	}
	c->in_vain = rc < 0;
	return rc < 0 ? fail(E_IO, "cache %s: %s; %s", dir, strerror(-rc), disk_remedy(rc)) : E_OK;
}

uint64_t cache_next_generation(const struct cache *c)
{
	return c->generation < MOST_COUNTED ? c->generation + 1 : MOST_COUNTED;
}

void cache_mark(struct cache *c, struct buf *out, const struct seg *s, int64_t at)
{
	const struct head h = {.n = MARK_BYTES, .type = CACHE_MARK};
	struct buf m = {0};
	buf_u64(&m, cache_next_generation(c));
	buf_u64(&m, (uint64_t)(c->written_bytes < MOST_COUNTED ? c->written_bytes : MOST_COUNTED));
	buf_u64(&m, (uint64_t)c->o.cap_bytes);
	if (buf_ok(&m))
		seg_record(out, s, at, &h, m.p);
	buf_free(&m);
}

/* Waiting puts of one kind, as many as fit into one batch. */
struct batch {
	int put[CACHE_MOST_BATCH], n;
	int64_t bytes; /* with the batch mark */
};

static void gather(const struct cache *c, enum seg_kind kind, struct batch *b)
{
	int64_t most =
	    c->o.cap_bytes / 8 < BATCH_BYTES ? c->o.cap_bytes / 8 : BATCH_BYTES; /* cache_make_room can free
										    this much */
	b->n = 0;
	b->bytes = REC_HEAD + MARK_BYTES + REC_CRC;
	for (int i = 0; i < c->nputs && b->n < c->o.batch_records && (!b->n || b->bytes < most); i++) {
		const struct put *p = &c->put[i];
		if (p->done || cache_kind(p->of) != kind)
			continue;
		b->put[b->n++] = i;
		b->bytes += REC_HEAD + (int64_t)p->h.n + REC_CRC;
	}
}

static void written(struct cache *c, const struct batch *b, int seg)
{
	int64_t at = c->seg[seg].end;
	for (int i = 0; i < b->n; i++) {
		struct put *p = &c->put[b->put[i]];
		struct slot *s = cache_slot(c, p->of, p->h.key);
		p->done = true;
		s->seg = (uint16_t)seg;
		s->at = at;
		at += REC_HEAD + (int64_t)p->h.n + REC_CRC;
	}
	c->waiting -= b->n;
	c->seg[seg].end += b->bytes;
	c->seg[seg].good_bytes += b->bytes;
	if (c->seg[seg].size < c->seg[seg].end)
		c->seg[seg].size = c->seg[seg].end;
	c->generation = cache_next_generation(c);
}

/* After a failed write, no more is written to that file: nobody knows which part of it the system kept. */
static int write_batch(struct cache *c, enum seg_kind kind, const struct batch *b)
{
	struct buf bytes = {0};
	int waiting = c->waiting, seg = room(c, kind, b->bytes);
	if (seg < 0 || c->waiting < waiting) /* making room has written some of it */
		return seg < 0 ? seg : E_OK;
	struct seg *s = &c->seg[seg];
	c->written_bytes += cache_cost(s->end, b->bytes);
	for (int i = 0; i < b->n; i++) {
		const struct put *p = &c->put[b->put[i]];
		seg_record(&bytes, s, s->end + (int64_t)bytes.n, &p->h, c->bytes.p + p->at);
	}
	cache_mark(c, &bytes, s, s->end + (int64_t)bytes.n);
	int rc = buf_ok(&bytes) ? disk->write(s->fd, bytes.p, bytes.n, s->end)
				: fail(E_NOMEM, "no memory to write the cache");
	if (buf_ok(&bytes) && rc >= 0)
		rc = disk->sync(s->fd);
	if (buf_ok(&bytes) && rc < 0) {
		c->active[kind] = -1;
		rc = fail(E_IO, "cache %s: %s; %s, or choose another folder with --cache", cache_dir(c),
			  strerror(-rc), disk_remedy(rc));
	}
	if (rc >= 0)
		written(c, b, seg);
	buf_free(&bytes);
	return rc;
}

int cache_flush(struct cache *c)
{
	static const enum seg_kind order[] = {SEG_CODE, SEG_RECORDS};
	if (c->through)
		return cache_through_flush(c);
	if (c->lock_fd < 0 || !c->waiting)
		return E_OK;
	int rc = cache_hold(c);
	if (rc >= 0 && c->layer[c->nlayers - 1].not_now) /* files that could not be opened may open now */
		rc = cache_reload(c);
	for (int i = 0; i < 2 && rc >= 0; i++)
		for (struct batch b; rc >= 0 && (gather(c, order[i], &b), b.n > 0);)
			rc = write_batch(c, order[i], &b);
	if (rc >= 0 && !c->waiting) {
		c->nputs = 0;
		buf_clear(&c->bytes);
	}
	return rc;
}
