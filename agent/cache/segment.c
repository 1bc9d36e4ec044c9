/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/segment.h"
#include "agent/cache/cache.h"
#include "platform/base/clock.h"
#include "platform/base/disk.h"
#include "platform/base/log.h"
#include "platform/base/mix.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION = 1, WINDOW = 256 << 10, SPARE_FACTOR = 4 };

static const char seg_magic[4] = {'H', 'S', 'E', 'G'}, rec_magic[4] = {'H', 'R', 'E', 'C'};

static int path_in(const char *dir, const char *name, char out[PATH_MAX])
{
	return snprintf(out, PATH_MAX, "%s/%s", dir, name) < PATH_MAX
		   ? E_OK
		   : fail(E_USAGE, "the path of cache folder %.80s... is too long", dir);
}

static bool parse_header(struct seg *s, const uint8_t *p)
{
	struct cur c = {.p = p, .n = SEG_HEAD}, tail = {.p = p + SEG_HEAD - REC_CRC, .n = REC_CRC};
	const void *m = cur_bytes(&c, sizeof seg_magic);
	uint32_t version = cur_u32(&c);
	s->number = cur_u64(&c);
	s->replaces = cur_u64(&c);
	s->kind = (enum seg_kind)cur_u32(&c);
	cur_u32(&c);
	s->salt = cur_u64(&c);
	s->start = SEG_HEAD;
	return !memcmp(m, seg_magic, sizeof seg_magic) && version == VERSION && s->number < SEG_NUMBERS &&
	       s->replaces <= s->number && s->kind >= SEG_RECORDS && s->kind <= SEG_MIXED &&
	       crc32c(0, p, SEG_HEAD - REC_CRC) == cur_u32(&tail);
}

static int64_t get(const struct seg *s, void *p, size_t n, int64_t at)
{
	return s->read ? s->read(s->ctx, p, n, at) : disk->read(s->fd, p, n, at);
}

static int read_header(struct seg *s, const char *path)
{
	uint8_t p[SEG_HEAD];
	int64_t n = get(s, p, sizeof p, 0);
	if (n < 0)
		return fail(E_IO, "%s: %s", path, strerror((int)-n));
	return n == SEG_HEAD && parse_header(s, p)
		   ? E_OK
		   : fail(E_CORRUPT, "%s is damaged, or was written by another version of hone", path);
}

/* O_NONBLOCK: opening a FIFO would block a reader for ever. A file that may not be written (another user's, a
 * link, a read-only file system) is opened to read, and new records go to another file. */
static int open_file(const char *path, bool to_write)
{
	enum { FLAGS = O_CLOEXEC | O_NONBLOCK };
	int fd = to_write ? open(path, O_RDWR | O_NOFOLLOW | FLAGS) : -1;
	bool other = errno == EACCES || errno == ELOOP || errno == EROFS || errno == EPERM;
	return fd < 0 && (!to_write || other) ? open(path, O_RDONLY | FLAGS) : fd;
}

static int open_error(void)
{
	if (errno == ENOENT || errno == ENOTDIR)
		return E_NOTFOUND;
	return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? E_BUSY : E_IO;
}

int seg_open(const char *dir, const char *name, bool to_write, struct seg *out)
{
	char path[PATH_MAX];
	struct stat st;
	int rc = path_in(dir, name, path);
	if (rc < 0)
		return rc;
	*out = (struct seg){0};
	snprintf(out->name, sizeof out->name, "%s", name);
	out->fd = open_file(path, to_write);
	if (out->fd < 0)
		return fail(open_error(), "%s: %s", path, strerror(errno));
	if (fstat(out->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		seg_close(out);
		return fail(E_CORRUPT, "%s is not a regular file", path);
	}
	rc = st.st_size > MAX_FILE ? fail(E_CORRUPT, "%s is too large", path) : read_header(out, path);
	out->size = st.st_size;
	out->end = out->start;
	out->writable = st.st_nlink == 1 && (fcntl(out->fd, F_GETFL) & O_ACCMODE) == O_RDWR;
	if (rc < 0)
		seg_close(out);
	return rc;
}

int seg_begin(struct seg *s)
{
	int rc = read_header(s, s->name);
	s->end = s->start;
	return rc;
}

void seg_close(struct seg *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

uint64_t seg_salt(void)
{
	uint64_t v, seed[4] = {0};
	if (getrandom(&v, sizeof v, GRND_NONBLOCK) == sizeof v)
		return v;
	/* Early in a boot there may be no random numbers yet: uses the 16 random bytes that the system gives
	 * every program, which nobody else sees. */
	const void *ours = (const void *)getauxval(AT_RANDOM);
	if (ours)
		memcpy(seed, ours, 16);
	seed[2] = (uint64_t)clock_now(&clock_real);
	seed[3] = (uint64_t)getpid();
	return mix_bytes(seed, sizeof seed, 0).lo;
}

static void add_header(struct buf *out, const struct seg *s)
{
	buf_add(out, seg_magic, sizeof seg_magic);
	buf_u32(out, VERSION);
	buf_u64(out, s->number);
	buf_u64(out, s->replaces);
	buf_u32(out, s->kind);
	buf_u32(out, 0);
	buf_u64(out, s->salt);
	buf_add(out, (const char[SEG_HEAD - REC_CRC - 40]){0}, SEG_HEAD - REC_CRC - 40);
	if (buf_ok(out))
		buf_u32(out, crc32c(0, out->p, out->n));
}

/* Writes zeros, so that overwriting them later changes no extent and needs no commit of the file system's
 * journal. */
static int write_empty(struct seg *s, int64_t size)
{
	enum { CHUNK = 64 << 10 };
	char *zeros = calloc(1, CHUNK); /* not static: every library and tool would carry it */
	struct buf first = {0};
	add_header(&first, s);
	if (zeros)
		buf_add(&first, zeros, (size_t)(size < CHUNK ? size : CHUNK) - SEG_HEAD);
	int rc = zeros && buf_ok(&first) ? disk->write(s->fd, first.p, first.n, 0) : -ENOMEM;
	buf_free(&first);
	for (int64_t at = CHUNK; rc >= 0 && at < size; at += CHUNK)
		rc = disk->write(s->fd, zeros, size - at < CHUNK ? (size_t)(size - at) : CHUNK, at);
	free(zeros);
	return rc < 0 ? rc : disk->sync(s->fd);
}

bool seg_no_room(int rc)
{
	return rc == -ENOSPC || rc == -EDQUOT || rc == -EFBIG;
}

static int refused(const char *dir, int rc)
{
	return fail(E_IO, "cache %s: %s; %s, or choose another folder with --cache", dir, strerror(-rc),
		    disk_remedy(rc));
}

int seg_create(const char *dir, const char *temp, int64_t size, unsigned mode, struct seg *s)
{
	char tmp[PATH_MAX];
	int rc = path_in(dir, temp, tmp);
	if (rc < 0)
		return rc;
	size = size < SEG_HEAD ? SEG_HEAD : size;
	s->salt = seg_salt();
	s->start = s->end = SEG_HEAD;
	s->size = size;
	s->clean = true;
	snprintf(s->name, sizeof s->name, "%08llx.seg", (unsigned long long)s->number);
	rc = s->fd = disk->create(tmp, mode);
	s->no_room = seg_no_room(rc);
	if (rc < 0)
		return refused(dir, rc);
	rc = write_empty(s, size);
	if (rc < 0) {
		s->no_room = seg_no_room(rc);
		seg_close(s);
		disk->unlink(tmp);
		return refused(dir, rc);
	}
	return E_OK;
}

static int name(const char *dir, const char *temp, struct seg *s, bool synced)
{
	char tmp[PATH_MAX], path[PATH_MAX];
	int rc = path_in(dir, temp, tmp);
	if (rc >= 0)
		rc = path_in(dir, s->name, path);
	if (rc < 0)
		return rc;
	rc = disk->rename(tmp, path);
	if (rc < 0)
		disk->unlink(tmp);
	else if (synced && (rc = disk->sync_dir(dir)) < 0)
		disk->unlink(path);
	if (rc >= 0)
		return E_OK;
	seg_close(s);
	return refused(dir, rc);
}

int seg_name(const char *dir, const char *temp, struct seg *s)
{
	return name(dir, temp, s, true);
}

int seg_name_soon(const char *dir, const char *temp, struct seg *s)
{
	return name(dir, temp, s, false);
}

static bool parse_head(const uint8_t *p, struct head *h)
{
	struct cur c = {.p = p, .n = REC_HEAD};
	const void *m = cur_bytes(&c, sizeof rec_magic);
	h->n = cur_u32(&c);
	uint32_t type = cur_u32(&c);
	h->key.hi = cur_u64(&c);
	h->key.lo = cur_u64(&c);
	h->type = (uint8_t)type;
	return !memcmp(m, rec_magic, sizeof rec_magic) && h->n <= MAX_PAYLOAD && type >= CACHE_REC &&
	       type < CACHE_TYPES;
}

/* The checksum of n bytes at `at`. */
static uint32_t checksum(const struct seg *s, int64_t at, const void *p, size_t n)
{
	uint8_t seed[24];
	const uint64_t v[3] = {s->salt, s->number, (uint64_t)at};
	for (int i = 0; i < 24; i++)
		seed[i] = (uint8_t)(v[i / 8] >> i % 8 * 8);
	return crc32c(crc32c(0, seed, sizeof seed), p, n);
}

static bool checks(const struct seg *s, int64_t at, const uint8_t *p, size_t n)
{
	struct cur tail = {.p = p + n - REC_CRC, .n = REC_CRC};
	return checksum(s, at, p, n - REC_CRC) == cur_u32(&tail);
}

void seg_record(struct buf *out, const struct seg *s, int64_t at, const struct head *h, const void *payload)
{
	size_t from = out->n;
	buf_add(out, rec_magic, sizeof rec_magic);
	buf_u32(out, h->n);
	buf_u32(out, h->type);
	buf_u64(out, h->key.hi);
	buf_u64(out, h->key.lo);
	buf_add(out, payload, h->n);
	if (buf_ok(out))
		buf_u32(out, checksum(s, at, out->p + from, out->n - from));
}

int seg_read(const struct seg *s, int64_t at, const struct head *h, uint8_t *p)
{
	struct head got;
	size_t n = REC_HEAD + (size_t)h->n + REC_CRC;
	int64_t have = get(s, p, n, at);
	if (have < 0)
		return fail(E_IO, "cache file %s: %s", s->name, strerror((int)-have));
	bool it = have == (int64_t)n && parse_head(p, &got) && got.n == h->n &&
		  (!h->type || (got.type == h->type && key_equal(got.key, h->key)));
	return it && checks(s, at, p, n);
}

/* State of a scan: it reads the file through a window, and limits the bytes that it reads for records that
 * turn out bad. */
struct walk {
	struct seg *s;
	int64_t base;    /* of the window */
	size_t n;        /* bytes in it */
	int64_t spare;   /* bytes that the scan may still read for bad records */
	uint8_t *window; /* WINDOW bytes */
};

/* Blocks that the system cannot read count as zeros, so that one bad sector loses only the records in it. */
static size_t read_window(struct walk *w, int64_t at, size_t want)
{
	int64_t got = get(w->s, w->window, want, at);
	if (got >= 0)
		return (size_t)got;
	w->s->unread = true;
	for (size_t from = 0, n; from < want; from += n) {
		n = FLASH_BLOCK - (size_t)(at + (int64_t)from) % FLASH_BLOCK;
		n = want - from < n ? want - from : n;
		if (get(w->s, w->window + from, n, at + (int64_t)from) != (int64_t)n)
			memset(w->window + from, 0, n);
	}
	return want;
}

/* Returns the file's bytes from `at` on, as far as the window goes, but at least `need` <= WINDOW. NULL: the
 * file ends before. */
static const uint8_t *look(struct walk *w, int64_t at, size_t need, size_t *n)
{
	int64_t left = w->s->size - at;
	if (left < (int64_t)need)
		return NULL;
	if (at < w->base || at + (int64_t)need > w->base + (int64_t)w->n) {
		w->base = at;
		w->n = read_window(w, at, left < WINDOW ? (size_t)left : WINDOW);
		if (w->n < need)
			return NULL;
	}
	*n = w->n - (size_t)(at - w->base);
	return w->window + (at - w->base);
}

/* Returns the next place from `at` on where a record may begin; if none, the file's size. */
static int64_t next_magic(struct walk *w, int64_t at)
{
	size_t n;
	for (const uint8_t *p; (p = look(w, at, sizeof rec_magic, &n));
	     at += (int64_t)(n - sizeof rec_magic + 1)) {
		const uint8_t *hit = memmem(p, n, rec_magic, sizeof rec_magic);
		if (hit)
			return at + (hit - p);
	}
	return w->s->size;
}

static bool zeros_from(struct walk *w, int64_t at)
{
	size_t n;
	for (const uint8_t *p; at < w->s->size; at += (int64_t)n)
		if (!(p = look(w, at, 1, &n)) || p[0] || (n > 1 && memcmp(p, p + 1, n - 1)))
			return false;
	return true;
}

/* Returns the bytes behind the last good record, without the zeros at the end: a cut write, or damage. */
static int64_t rest(struct walk *w)
{
	const struct seg *s = w->s;
	for (int64_t end = s->size; end > s->end;) {
		int64_t at = end - s->end > WINDOW ? end - WINDOW : s->end;
		size_t n = read_window(w, at, (size_t)(end - at));
		while (n > 0 && !w->window[n - 1])
			n--;
		if (n > 0)
			return at + (int64_t)n - s->end;
		end = at;
	}
	return 0;
}

/* Reads a record that is larger than the window. */
static int take_large(struct walk *w, int64_t at, const struct head *h, seg_fn *fn, void *ctx)
{
	uint8_t *p = malloc(REC_HEAD + (size_t)h->n + REC_CRC);
	if (!p)
		return fail(E_NOMEM, "no memory for a record of %u bytes", h->n);
	int rc = seg_read(w->s, at, h, p);
	if (rc > 0)
		rc = fn(ctx, h, p + REC_HEAD, at);
	else if (rc == 0 || rc == E_IO)
		rc = E_CORRUPT;
	free(p);
	return rc;
}

/* Passes the record at `at` to fn and returns its bytes; 0: there is none. */
static int64_t take(struct walk *w, int64_t at, seg_fn *fn, void *ctx)
{
	struct head h;
	size_t n;
	const uint8_t *p = look(w, at, REC_HEAD, &n);
	if (!p || !parse_head(p, &h))
		return 0;
	int64_t bytes = REC_HEAD + (int64_t)h.n + REC_CRC;
	if (bytes > w->s->size - at || bytes > w->spare)
		return 0;
	int rc = E_CORRUPT;
	if (bytes > WINDOW)
		rc = take_large(w, at, &h, fn, ctx);
	else if ((p = look(w, at, (size_t)bytes, &n)) && checks(w->s, at, p, (size_t)bytes))
		rc = fn(ctx, &h, p + REC_HEAD, at);
	if (rc == E_CORRUPT)
		w->spare -= bytes;
	return rc == E_CORRUPT ? 0 : rc < 0 ? rc : bytes;
}

static int walk_on(struct walk *w, bool all, seg_fn *fn, void *ctx)
{
	struct seg *s = w->s;
	int found = 0;
	for (int64_t at = s->end; at < s->size;) {
		int64_t n = take(w, at, fn, ctx);
		if (n < 0)
			return (int)n;
		if (n == 0) {
			if (!all || (at == s->end && (s->clean = zeros_from(w, at))))
				break;
			int64_t next = next_magic(w, at + 1);
			w->spare += SPARE_FACTOR * (next - at);
			at = next;
			continue;
		}
		at += n;
		s->end = at;
		s->good_bytes += n;
		found = 1;
	}
	return found;
}

int seg_scan(struct seg *s, bool all, seg_fn *fn, void *ctx)
{
	struct stat st;
	if (!s->read && (s->fd < 0 || fstat(s->fd, &st) < 0))
		return 0;
	if (!s->read)
		s->size = st.st_size < MAX_FILE ? st.st_size : MAX_FILE;
	if (s->end >= s->size) {
		s->clean = s->end == s->size;
		return 0;
	}
	struct walk w = {.s = s, .spare = MAX_PAYLOAD + REC_HEAD + REC_CRC, .window = malloc(WINDOW)};
	if (!w.window)
		return fail(E_NOMEM, "no memory to read the cache");
	if (all)
		s->clean = false;
	int found = walk_on(&w, all, fn, ctx);
	if (s->end == s->size)
		s->clean = true;
	s->clean = s->clean && !s->unread;
	if (all)
		s->damaged_bytes = s->end - s->start - s->good_bytes + (s->clean ? 0 : rest(&w));
	free(w.window);
	return found;
}
