/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache_parts.h"

#include "platform/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SCAN_BYTES = 1 << 16, SPARE_FACTOR = 4 };

static int path_in(const struct cache *c, const char *name, char out[PATH_MAX])
{
	int n = snprintf(out, PATH_MAX, "%s/%s", c->dir, name);
	return n < PATH_MAX ? E_OK : fail(E_USAGE, "the path of cache folder %s is too long", c->dir);
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

bool cache_head(const uint8_t *p, struct head *h)
{
	struct cur c = {.p = p, .n = HEAD_BYTES};
	const void *m = cur_bytes(&c, sizeof cache_magic);
	h->n = cur_u32(&c);
	uint32_t type = cur_u32(&c);
	h->key.hi = cur_u64(&c);
	h->key.lo = cur_u64(&c);
	h->type = (uint8_t)type;
	return !memcmp(m, cache_magic, sizeof cache_magic) && h->n <= MAX_PAYLOAD && type >= CACHE_REC &&
	       type < CACHE_TYPES;
}

int cache_read(const struct cache *c, int64_t at, uint32_t n, struct buf *out)
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
	for (const uint8_t *p; (p = look(w, at, sizeof cache_magic, &n));
	     at += (int64_t)(n - sizeof cache_magic + 1)) {
		const uint8_t *hit = memmem(p, n, cache_magic, sizeof cache_magic);
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
	if (!p || !cache_head(p, &h))
		return 0;
	int64_t bytes = HEAD_BYTES + (int64_t)h.n + CRC_BYTES;
	if (bytes > w->size - at || bytes > w->spare)
		return 0;
	int rc = cache_read(w->c, at, h.n, &w->record);
	if (rc > 0)
		rc = cache_index(w->c, &h, (const uint8_t *)w->record.p + HEAD_BYTES, at);
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
int cache_scan(struct cache *c)
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

int cache_open_file(struct cache *c)
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
	c->foreign = c->fd >= 0 && (fstat(c->fd, &file) < 0 || stat(c->dir, &dir) < 0 ||
				    others_write(&file) || others_write(&dir));
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

int cache_lock(struct cache *c, int64_t wait_ns)
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
