/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache_parts.h"

#include "platform/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct slot *find_slot(const struct cache *c, uint8_t type, struct key k)
{
	size_t i = (k.lo ^ (uint64_t)type * UINT64_C(0x9e3779b97f4a7c15)) & (c->nslots - 1);
	while (c->slot[i].type && !(c->slot[i].type == type && key_equal(c->slot[i].key, k)))
		i = (i + 1) & (c->nslots - 1);
	return &c->slot[i];
}

static int grow_index(struct cache *c)
{
	struct slot *old = c->slot;
	size_t n = c->nslots, want = n ? n * 2 : 256;
	struct slot *fresh = calloc(want, sizeof *fresh);
	if (!fresh)
		return fail(E_NOMEM, "no memory to index the cache");
	c->slot = fresh;
	c->nslots = want;
	for (size_t i = 0; i < n; i++)
		if (old[i].type)
			*find_slot(c, old[i].type, old[i].key) = old[i];
	free(old);
	return E_OK;
}

/* Record h is at `at`. One that forgets another is remembered as that other, gone. What waits in memory is
 * newer than anything in the file. Returns 1. */
int cache_index(struct cache *c, const struct head *h, const uint8_t *payload, int64_t at)
{
	bool forget = h->type == CACHE_FORGET && h->n == 1;
	uint8_t type = forget ? payload[0] : h->type;
	if (type < CACHE_REC || type >= CACHE_TYPES)
		return 1;
	if (c->nused * 2 >= c->nslots) {
		int rc = grow_index(c);
		if (rc < 0)
			return rc;
	}
	struct slot *s = find_slot(c, type, h->key);
	if (at >= 0 && s->type && s->at < 0)
		return 1;
	c->nused += s->type == 0;
	*s = (struct slot){.key = h->key, .type = type, .n = forget ? GONE : h->n, .at = at};
	return 1;
}

static int open_as(struct cache **out, const char *dir, bool read_only, bool memory, int64_t wait_ns)
{
	struct cache *c = calloc(1, sizeof *c);
	if (!c)
		return fail(E_NOMEM, "no memory to open a cache");
	c->memory = memory;
	c->fd = c->lock_fd = -1;
	int rc = snprintf(c->dir, sizeof c->dir, "%s", dir) < (int)sizeof c->dir
		     ? E_OK
		     : fail(E_USAGE, "the path of cache folder %s is too long", dir);
	if (rc >= 0 && !read_only)
		rc = fail_in(file_mkdirs(dir, 0755), "cache %s", dir);
	if (rc >= 0 && !read_only)
		rc = cache_lock(c, wait_ns);
	if (rc >= 0)
		rc = grow_index(c);
	if (rc >= 0)
		rc = cache_open_file(c);
	if (rc >= 0)
		rc = cache_scan(c);
	if (rc < 0) {
		cache_close(c);
		return rc;
	}
	if (c->end > c->good_bytes)
		log_more("cache %s: %lld bytes are damaged and were skipped", dir,
			 (long long)(c->end - c->good_bytes));
	*out = c;
	return E_OK;
}

int cache_open(struct cache **out, const char *dir, bool read_only, int64_t wait_ns)
{
	return open_as(out, dir, read_only, false, wait_ns);
}

int cache_open_memory(struct cache **out, const char *dir)
{
	return open_as(out, dir, true, true, 0);
}

void cache_close(struct cache *c)
{
	if (!c)
		return;
	if (cache_commit(c) < 0)
		log_error("%s: what this process found may be lost", err_text());
	if (c->fd >= 0)
		close(c->fd);
	if (c->lock_fd >= 0)
		file_unlock(c->lock_fd);
	buf_free(&c->pending);
	free(c->slot);
	free(c);
}

static bool write_at(int fd, const void *p, size_t n, int64_t at)
{
	for (size_t put = 0; put < n;) {
		ssize_t r = pwrite(fd, (const char *)p + put, n - put, at + (int64_t)put);
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return false;
		put += (size_t)r;
	}
	return true;
}

/* Appends whole records to the file; on failure the file is as before. */
static int append(struct cache *c, const void *p, size_t n)
{
	if (write_at(c->fd, p, n, c->end)) {
		c->end += (int64_t)n;
		c->good_bytes += (int64_t)n;
		return E_OK;
	}
	int why = errno;
	if (ftruncate(c->fd, c->end) < 0)
		log_more("cache %s: a part of a record stays at its end: %s", c->dir, strerror(errno));
	return fail(E_IO, "cache %s: %s; make room there or choose another folder with --cache", c->dir,
		    strerror(why));
}

static void record_bytes(struct buf *out, enum cache_type t, struct key k, const void *p, size_t n)
{
	size_t from = out->n;
	buf_add(out, cache_magic, sizeof cache_magic);
	buf_u32(out, (uint32_t)n);
	buf_u32(out, (uint32_t)t);
	buf_u64(out, k.hi);
	buf_u64(out, k.lo);
	buf_add(out, p, n);
	if (buf_ok(out))
		buf_u32(out, crc32c(0, out->p + from, out->n - from));
}

static int check_writer(const struct cache *c, size_t n)
{
	if (c->lock_fd < 0 && !c->memory)
		return fail(E_USAGE, "cache %s was opened for reading", c->dir);
	if (n > MAX_PAYLOAD)
		return fail(E_UNSUPPORTED, "a record of %zu bytes is too large for the cache", n);
	return E_OK;
}

/* Writes what could not be written before. */
static int flush_pending(struct cache *c)
{
	int64_t base = c->end;
	if (!c->pending.n)
		return E_OK;
	int rc = append(c, c->pending.p, c->pending.n);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < c->nslots; i++)
		if (c->slot[i].type && c->slot[i].at < 0)
			c->slot[i].at = base + ~c->slot[i].at;
	buf_clear(&c->pending);
	return E_OK;
}

int cache_put(struct cache *c, enum cache_type t, struct key k, const void *p, size_t n)
{
	struct buf bytes = {0};
	struct head h = {.n = (uint32_t)n, .type = (uint8_t)t, .key = k};
	int rc = check_writer(c, n);
	if (rc < 0)
		return rc;
	record_bytes(&bytes, t, k, p, n);
	rc = buf_ok(&bytes) ? E_OK : fail(E_NOMEM, "no memory for a record of %zu bytes", n);
	/* What waits comes first: the newest record of a key has to be the last in the file. */
	if (rc >= 0 && !c->memory)
		rc = flush_pending(c);
	int64_t at = c->end;
	if (rc >= 0 && !c->memory)
		rc = append(c, bytes.p, bytes.n);
	if (rc == E_IO || c->memory) {
		at = ~(int64_t)c->pending.n;
		buf_add(&c->pending, bytes.p, bytes.n);
	}
	if (!buf_ok(&c->pending))
		rc = fail(E_NOMEM, "no memory for a record of %zu bytes", n);
	if (rc >= 0 || rc == E_IO) {
		int indexed = cache_index(c, &h, p, at);
		rc = indexed < 0 ? indexed : rc;
	}
	buf_free(&bytes);
	return rc;
}

int cache_commit(struct cache *c)
{
	if (c->lock_fd < 0 || c->fd < 0)
		return E_OK;
	int rc = flush_pending(c);
	if (rc >= 0 && fdatasync(c->fd) < 0)
		rc = fail(E_IO, "cache %s: %s", c->dir, strerror(errno));
	if (rc >= 0 && !c->named) {
		file_sync_folder(c->dir);
		c->named = true;
	}
	return rc;
}

static int miss(void)
{
	return fail(E_NOTFOUND, "not in the cache");
}

int cache_get(struct cache *c, enum cache_type t, struct key k, struct arena *a, struct blob *out)
{
	const struct slot *s = find_slot(c, (uint8_t)t, k);
	struct buf bytes = {0};
	struct head h;
	if (!s->type || s->n == GONE || (t == CACHE_CODE && c->foreign && s->at >= 0))
		return miss();
	int rc = 1;
	if (s->at < 0)
		buf_add(&bytes, c->pending.p + ~s->at, HEAD_BYTES + s->n);
	else
		rc = cache_read(c, s->at, s->n, &bytes);
	if (rc > 0 && buf_ok(&bytes) && cache_head((const uint8_t *)bytes.p, &h) && h.type == t &&
	    key_equal(h.key, k)) {
		char *copy = arena_try(a, s->n + (size_t)1, 1);
		if (copy)
			memcpy(copy, bytes.p + HEAD_BYTES, s->n);
		*out = (struct blob){.p = copy, .n = s->n};
		rc = copy ? E_OK : E_NOMEM;
	} else if (rc >= 0) {
		rc = miss();
	}
	buf_free(&bytes);
	return rc;
}

int cache_refresh(struct cache *c)
{
	if (c->lock_fd >= 0)
		return 0;
	int rc = cache_open_file(c);
	return rc < 0 ? rc : cache_scan(c);
}

int cache_put_rec(struct cache *c, const struct rec *r)
{
	struct buf text = {0};
	rec_text(r, &text);
	int rc = buf_ok(&text) ? cache_put(c, CACHE_REC, rec_key(r), text.p, text.n)
			       : fail(E_NOMEM, "no memory for a record");
	buf_free(&text);
	return rc;
}

int cache_get_rec(struct cache *c, struct key k, struct arena *a, struct rec *out)
{
	struct blob text;
	int rc = cache_get(c, CACHE_REC, k, a, &text);
	if (rc < 0)
		return rc;
	if (memchr(text.p, 0, text.n) || rec_parse(text.p, a, out) < 0 || !key_equal(rec_key(out), k))
		return miss();
	return E_OK;
}

static int older_first(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;
	/* Pending records (at < 0, the later the smaller) are the newest. */
	if ((x->at < 0) != (y->at < 0))
		return x->at < 0 ? 1 : -1;
	int64_t i = x->at < 0 ? ~x->at : x->at, j = y->at < 0 ? ~y->at : y->at;
	return i < j ? -1 : i > j;
}

int cache_keys(const struct cache *c, enum cache_type t, struct arena *a, struct key **out)
{
	struct arena scratch = {0};
	struct slot *list = ARENA_ARRAY(&scratch, struct slot, c->nused + 1);
	int n = 0;
	for (size_t i = 0; i < c->nslots; i++)
		if (c->slot[i].type == t && c->slot[i].n != GONE)
			list[n++] = c->slot[i];
	qsort(list, (size_t)n, sizeof *list, older_first);
	*out = ARENA_ARRAY(a, struct key, n + 1);
	for (int i = 0; i < n; i++)
		(*out)[i] = list[i].key;
	arena_free(&scratch);
	return n;
}

int cache_each_rec(struct cache *c, struct arena *a, int (*fn)(void *ctx, const struct rec *r), void *ctx)
{
	struct key *key;
	int n = cache_keys(c, CACHE_REC, a, &key), count = 0;
	for (int i = 0; i < n; i++) {
		struct rec *r = ARENA_NEW(a, struct rec);
		int rc = cache_get_rec(c, key[i], a, r);
		if (rc == E_NOTFOUND)
			continue;
		if (rc >= 0)
			rc = fn(ctx, r);
		if (rc < 0)
			return rc;
		count++;
	}
	return count;
}
