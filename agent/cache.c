/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache.h"

#include "platform/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	HEAD_BYTES = 28, /* magic, length, type and zeros, key */
	CRC_BYTES = 4,
	MAX_PAYLOAD = 16 << 20, /* a kernel is some KiB; anything near this is damage */
	SCAN_BYTES = 1 << 16,
	SPARE_FACTOR = 4,
};

#define GONE UINT32_MAX

static const uint8_t magic[4] = {'H', 'R', 'E', 'C'};

/* One per (type, key): where its newest record is. */
struct slot {
	struct key key;
	uint8_t type; /* enum cache_type; 0: empty */
	uint32_t n;   /* payload bytes; GONE: forgotten */
	int64_t at;   /* offset of the record; < 0: at ~at in `pending` */
};

struct cache {
	char dir[PATH_MAX - 32];
	int fd;             /* of the file; -1: none (a reader's empty folder) */
	int lock_fd;        /* -1: reader */
	bool memory;        /* what is put stays in `pending` */
	bool foreign;       /* somebody else may have written it: its code is not run */
	bool named;         /* the file's name is durable */
	int64_t end;        /* bytes of the file that have been indexed */
	int64_t good_bytes; /* of them in good records */
	struct slot *slot;  /* open addressing, a power of two */
	size_t nslots, nused;
	struct buf pending; /* records that could not be written: kept, so that nothing is lost while this
			       process lives */
};

static int path_in(const struct cache *c, const char *name, char out[PATH_MAX])
{
	int n = snprintf(out, PATH_MAX, "%s/%s", c->dir, name);
	return n < PATH_MAX ? E_OK : fail(E_USAGE, "the path of cache folder %s is too long", c->dir);
}

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

struct head {
	uint32_t n;
	uint8_t type;
	struct key key;
};

/* Record h is at `at`. One that forgets another is remembered as that other, gone. What waits in memory is
 * newer than anything in the file. Returns 1. */
static int index_record(struct cache *c, const struct head *h, const uint8_t *payload, int64_t at)
{
	bool forget = h->type == CACHE_FORGET && h->n == 1;
	uint8_t type = forget ? payload[0] : h->type;
	if (type < CACHE_REC || type > CACHE_FORGET)
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

/* Exactly n bytes at an offset of the file: false when they are not there. */
static bool read_at(int fd, void *p, size_t n, int64_t at)
{
	for (size_t got = 0; got < n;) {
		ssize_t r = pread(fd, (char *)p + got, n - got, at + (int64_t)got);
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return false;
		got += (size_t)r;
	}
	return true;
}

static bool parse_head(const uint8_t *p, struct head *h)
{
	struct cur c = {.p = p, .n = HEAD_BYTES};
	const void *m = cur_bytes(&c, sizeof magic);
	h->n = cur_u32(&c);
	uint32_t type = cur_u32(&c);
	h->key.hi = cur_u64(&c);
	h->key.lo = cur_u64(&c);
	h->type = (uint8_t)type;
	return !memcmp(m, magic, sizeof magic) && h->n <= MAX_PAYLOAD && type >= CACHE_REC &&
	       type <= CACHE_FORGET;
}

/* The record of `n` payload bytes at `at`, whole and checked, into `out` (cleared first). 0: not a good
 * record. */
static int read_record(const struct cache *c, int64_t at, uint32_t n, struct buf *out)
{
	size_t total = HEAD_BYTES + (size_t)n + CRC_BYTES;
	uint8_t *p = malloc(total);
	if (!p)
		return fail(E_NOMEM, "no memory for a record of %u bytes", n);
	bool good = read_at(c->fd, p, total, at);
	if (good) {
		struct cur tail = {.p = p + total - CRC_BYTES, .n = CRC_BYTES};
		good = crc32c(0, p, total - CRC_BYTES) == cur_u32(&tail);
	}
	buf_clear(out);
	if (good)
		buf_add(out, p, total);
	free(p);
	if (good && !buf_ok(out))
		return fail(E_NOMEM, "no memory for a record of %u bytes", n);
	return good;
}

/* A walk over what the file holds. Its cost is linear in the file's size, whatever is in it: the file is
 * looked at through a window, and records that turn out bad are read on credit. */
struct walk {
	struct cache *c;
	int64_t size;  /* of the file when the walk began */
	int64_t base;  /* of the window */
	size_t n;      /* bytes in it */
	int64_t spare; /* bytes that may yet be read for bad records */
	struct buf record;
	uint8_t window[SCAN_BYTES];
};

/* The file from `at` on, as far as the window goes, but `need` bytes at least. NULL: not there. */
static const uint8_t *look(struct walk *w, int64_t at, size_t need, size_t *n)
{
	if (w->size - at < (int64_t)need)
		return NULL;
	if (at < w->base || at + (int64_t)need > w->base + (int64_t)w->n) {
		int64_t left = w->size - at;
		w->base = at;
		w->n = left < SCAN_BYTES ? (size_t)left : SCAN_BYTES;
		if (!read_at(w->c->fd, w->window, w->n, at)) {
			w->n = 0;
			return NULL;
		}
	}
	*n = w->n - (size_t)(at - w->base);
	return w->window + (at - w->base);
}

/* The next place from `at` on where a record may begin, else the size. */
static int64_t next_magic(struct walk *w, int64_t at)
{
	size_t n;
	for (const uint8_t *p; (p = look(w, at, sizeof magic, &n)); at += (int64_t)(n - sizeof magic + 1)) {
		const uint8_t *hit = memmem(p, n, magic, sizeof magic);
		if (hit)
			return at + (hit - p);
	}
	return w->size;
}

/* Indexes the record at `at`; returns its bytes, 0 if it is none, < 0: an error. */
static int64_t take_record(struct walk *w, int64_t at)
{
	struct head h;
	size_t n;
	const uint8_t *p = look(w, at, HEAD_BYTES, &n);
	if (!p || !parse_head(p, &h))
		return 0;
	int64_t bytes = HEAD_BYTES + (int64_t)h.n + CRC_BYTES;
	if (bytes > w->size - at || bytes > w->spare)
		return 0;
	int rc = read_record(w->c, at, h.n, &w->record);
	if (rc > 0)
		rc = index_record(w->c, &h, (const uint8_t *)w->record.p + HEAD_BYTES, at);
	else if (rc == 0)
		w->spare -= bytes;
	return rc < 0 ? rc : rc == 0 ? 0 : bytes;
}

/* What waits in memory is not in the file, and stays. */
static void forget_file(struct cache *c)
{
	for (size_t i = 0; i < c->nslots; i++)
		if (c->slot[i].at >= 0)
			c->slot[i].n = GONE;
	c->end = c->good_bytes = 0;
}

static int walk_on(struct walk *w)
{
	int found = 0;
	for (int64_t at = w->c->end; at < w->size;) {
		int64_t n = take_record(w, at);
		if (n < 0)
			return (int)n;
		if (n == 0) {
			int64_t next = next_magic(w, at + 1);
			w->spare += SPARE_FACTOR * (next - at);
			at = next;
			continue;
		}
		at += n;
		w->c->end = at;
		w->c->good_bytes += n;
		found = 1;
	}
	return found;
}

/* Indexes what follows the last good record. What is no record is skipped up to the next magic; a reader
 * looks at it again next time, because it may be a record on its way. Returns whether anything new was found.
 */
static int scan(struct cache *c)
{
	struct stat st;
	if (c->fd < 0 || fstat(c->fd, &st) < 0)
		return 0;
	if (st.st_size < c->end)
		forget_file(c);
	struct walk w = {.c = c, .size = st.st_size, .spare = MAX_PAYLOAD + HEAD_BYTES + CRC_BYTES};
	int found = walk_on(&w);
	if (c->lock_fd >= 0)
		c->end = st.st_size; /* after the damage, if there is any */
	buf_free(&w.record);
	return found;
}

/* Code is machine code: it is taken only from what root or this process's user alone can write. */
static bool others_write(const struct stat *st)
{
	return (st->st_uid != 0 && st->st_uid != geteuid()) || (st->st_mode & 022 && !S_ISDIR(st->st_mode)) ||
	       (S_ISDIR(st->st_mode) && st->st_mode & 022 && !(st->st_mode & S_ISVTX));
}

static int open_file(struct cache *c)
{
	char path[PATH_MAX];
	int rc = path_in(c, "cache.hone", path);
	if (rc < 0 || c->fd >= 0)
		return rc;
	bool write = c->lock_fd >= 0;
	/* O_NONBLOCK: a FIFO there would hold a reader up for ever. */
	c->fd = open(path, (write ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC | O_NONBLOCK, 0644);
	if (c->fd < 0 && (write || (!c->memory && errno != ENOENT && errno != ENOTDIR)))
		return fail(E_IO, "%s: %s; choose another folder with --cache", path, strerror(errno));
	struct stat file, dir;
	if (c->fd >= 0 && fstat(c->fd, &file) == 0 && stat(c->dir, &dir) == 0)
		c->foreign = others_write(&file) || others_write(&dir);
	if (c->foreign)
		log_info("hone: %s can be written by others: the code in it is not run", c->dir);
	return E_OK;
}

/* Names the process in the lock file, for the one that is refused. */
static void write_holder(int fd)
{
	char text[32];
	int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) != n)
		log_more("the cache's lock file does not say who holds it: %s", strerror(errno));
}

static int take_lock(struct cache *c, int64_t wait_ns)
{
	char path[PATH_MAX], holder[32] = "";
	int rc = path_in(c, "lock", path);
	if (rc < 0)
		return rc;
	rc = file_lock(path, wait_ns, &c->lock_fd);
	if (rc >= 0) {
		write_holder(c->lock_fd);
		return E_OK;
	}
	c->lock_fd = -1;
	if (rc != E_BUSY)
		return rc;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, holder, sizeof holder - 1);
	if (fd >= 0)
		close(fd);
	holder[n > 0 ? n : 0] = 0;
	holder[strcspn(holder, "\n")] = 0;
	return fail(E_BUSY,
		    "cache %s is in use by process %s; wait for it to end, or use another --cache folder",
		    c->dir, holder[0] ? holder : "(unknown)");
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
		rc = take_lock(c, wait_ns);
	if (rc >= 0)
		rc = grow_index(c);
	if (rc >= 0)
		rc = open_file(c);
	if (rc >= 0)
		rc = scan(c);
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
	buf_add(out, magic, sizeof magic);
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
		int indexed = index_record(c, &h, p, at);
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
		rc = read_record(c, s->at, s->n, &bytes);
	if (rc > 0 && buf_ok(&bytes) && parse_head((const uint8_t *)bytes.p, &h) && h.type == t &&
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
	int rc = open_file(c);
	return rc < 0 ? rc : scan(c);
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

int cache_each_rec(struct cache *c, struct arena *a, int (*fn)(void *ctx, const struct rec *r), void *ctx)
{
	struct slot *list = ARENA_ARRAY(a, struct slot, c->nused + 1);
	size_t n = 0;
	for (size_t i = 0; i < c->nslots; i++)
		if (c->slot[i].type == CACHE_REC && c->slot[i].n != GONE)
			list[n++] = c->slot[i];
	qsort(list, n, sizeof *list, older_first);
	int count = 0;
	for (size_t i = 0; i < n; i++) {
		struct rec *r = ARENA_NEW(a, struct rec);
		int rc = cache_get_rec(c, list[i].key, a, r);
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
