/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/image.h"
#include "agent/plan_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD = 64, WEIGHTS_CRC = 56, ALIGN = 4096 };
static const uint64_t most_meta = UINT64_C(256) << 20;

static bool write_all(int fd, const void *p, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t put = write(fd, (const char *)p + at, n - at);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return false;
		at += (size_t)put;
	}
	return true;
}

static bool read_all(int fd, void *p, size_t n, off_t from)
{
	for (size_t at = 0; at < n;) {
		ssize_t got = pread(fd, (char *)p + at, n - at, from + (off_t)at);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		at += (size_t)got;
	}
	return true;
}

/* Everything before the weights. */
static void make_head(struct buf *b, struct key key, struct key note, const struct plan *p,
		      const struct buf *meta)
{
	static const char zero[64];
	struct buf rest = {0};
	buf_u64(&rest, key.hi);
	buf_u64(&rest, key.lo);
	buf_u64(&rest, note.hi);
	buf_u64(&rest, note.lo);
	buf_u64(&rest, meta->n);
	buf_u64(&rest, p->weight_bytes);
	buf_u32(&rest, crc32c(0, p->weights.p, p->weight_bytes));
	buf_u32(&rest, 0);
	buf_add(&rest, meta->p, meta->n);
	while ((rest.n + 8) % ALIGN)
		buf_add(&rest, zero, (ALIGN - (rest.n + 8) % ALIGN - 1) % sizeof zero + 1);
	buf_puts(b, "HIMG");
	buf_u32(b, crc32c(0, rest.p, rest.n));
	buf_add(b, rest.p, rest.n);
	b->failed |= rest.failed;
	buf_free(&rest);
}

int image_write(const char *path, struct key key, struct key note, const struct plan *p,
		const struct buf *meta)
{
	struct buf head = {0}, temp = {0};
	buf_printf(&temp, "%s.%d", path, (int)getpid());
	make_head(&head, key, note, p, meta);
	if (!buf_ok(&head) || !buf_ok(&temp) || !buf_ok(meta)) {
		buf_free(&head);
		buf_free(&temp);
		return fail(E_NOMEM, "no memory to write an image");
	}
	int fd = open(buf_str(&temp), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	bool good = fd >= 0 && write_all(fd, head.p, head.n) &&
		    write_all(fd, p->weights.p, p->weight_bytes) && fsync(fd) == 0 &&
		    rename(buf_str(&temp), path) == 0;
	int why = errno;
	if (fd >= 0)
		close(fd);
	if (fd >= 0 && !good)
		unlink(buf_str(&temp));
	buf_free(&head);
	buf_free(&temp);
	return good ? E_OK : fail(E_IO, "image %s: %s", path, strerror(why));
}

static bool others_write(const struct stat *st)
{
	bool mine = st->st_uid == geteuid() || st->st_uid == 0;
	bool sticky = S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX);
	return !mine || (st->st_mode & (S_IWGRP | S_IWOTH) && !sticky);
}

static int open_own(const char *path, uint64_t *bytes)
{
	char dir[4096];
	struct stat file, folder;
	const char *slash = strrchr(path, '/');
	snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return fail(E_NOTFOUND, "no image %s", path);
	if (fstat(fd, &file) < 0 || !S_ISREG(file.st_mode) || stat(dir, &folder) < 0 || others_write(&file) ||
	    others_write(&folder)) {
		close(fd);
		return fail(E_NOTFOUND, "image %s can be written by others: it is not used", path);
	}
	*bytes = (uint64_t)file.st_size;
	return fd;
}

static int damaged(const char *path)
{
	return fail(E_CORRUPT, "image %s is damaged", path);
}

/* *p: everything up to the weights, checked; *c: the same. Returns the bytes of the description. */
static int read_head(int fd, const char *path, struct key key, uint64_t bytes, struct key *note, void **p,
		     struct cur *c)
{
	uint8_t head[HEAD];
	struct cur h = {.p = head, .n = sizeof head};
	if (!read_all(fd, head, sizeof head, 0) || memcmp(cur_bytes(&h, 4), "HIMG", 4))
		return damaged(path);
	uint32_t crc = cur_u32(&h);
	struct key k = {.hi = cur_u64(&h)};
	k.lo = cur_u64(&h);
	note->hi = cur_u64(&h);
	note->lo = cur_u64(&h);
	uint64_t meta = cur_u64(&h), weights = cur_u64(&h);
	if (!key_equal(k, key))
		return fail(E_NOTFOUND, "image %s is of something else", path);
	if (meta > most_meta || meta > bytes)
		return damaged(path);
	size_t n = ((size_t)meta + HEAD + ALIGN - 1) / ALIGN * ALIGN;
	if (n > bytes || bytes - n != weights)
		return damaged(path);
	*p = malloc(n);
	if (!*p)
		return fail(E_NOMEM, "no memory for image %s", path);
	*c = (struct cur){.p = *p, .n = n, .at = HEAD};
	return read_all(fd, *p, n, 0) && crc32c(0, (char *)*p + 8, n - 8) == crc ? (int)meta : damaged(path);
}

int image_read(const char *path, struct key key, struct pool *pool, struct key *note, struct plan **out)
{
	void *head = NULL;
	uint64_t bytes;
	struct cur c = {0};
	struct plan *p = NULL;
	int fd = open_own(path, &bytes);
	if (fd < 0)
		return fd;
	int rc = read_head(fd, path, key, bytes, note, &head, &c);
	if (rc >= 0)
		rc = fail_in(plan_restore(c.p + HEAD, (size_t)rc, pool, &p), "%s", path);
	if (rc >= 0) {
		struct cur crc = {.p = c.p + WEIGHTS_CRC, .n = 4};
		if (p->weight_bytes != bytes - c.n ||
		    !read_all(fd, p->weights.p, p->weight_bytes, (off_t)c.n) ||
		    crc32c(0, p->weights.p, p->weight_bytes) != cur_u32(&crc))
			rc = damaged(path);
	}
	close(fd);
	free(head);
	if (rc < 0)
		plan_free(p);
	else
		*out = p;
	return rc < 0 ? rc : E_OK;
}
