/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/pack_file.h"

#include "agent/sync/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns the descriptor. */
static int open_regular(const char *path, int64_t most, int64_t *bytes)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return fail(errno == ENOENT  ? E_NOTFOUND
			    : errno == ELOOP ? E_CORRUPT
					     : E_IO,
			    "%s: %s", path,
			    errno == ELOOP ? "it is a link: give the file itself" : strerror(errno));
	int rc = fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)
		     ? fail(E_CORRUPT, "%s is not a regular file", path)
		 : st.st_size > most
		     ? fail(E_CORRUPT, "%s has more than the %lld bytes allowed", path, (long long)most)
		     : E_OK;
	*bytes = rc < 0 ? 0 : st.st_size;
	if (rc >= 0)
		return fd;
	close(fd);
	return rc;
}

/* Returns n, or less at the file's end; -errno. */
static int64_t read_at(int fd, void *p, size_t n, int64_t at)
{
	size_t got = 0;
	while (got < n) {
		ssize_t more = pread(fd, (char *)p + got, n - got, at + (int64_t)got);
		if (more < 0 && errno == EINTR)
			continue;
		if (more < 0)
			return -errno;
		if (!more)
			break;
		got += (size_t)more;
	}
	return (int64_t)got;
}

static int64_t parts(const struct pack_file *f)
{
	return (f->bytes + PACK_PART - 1) / PACK_PART;
}

static size_t part_bytes(const struct pack_file *f, int64_t i)
{
	int64_t left = f->bytes - i * PACK_PART;
	return (size_t)(left < PACK_PART ? left : PACK_PART);
}

int pack_file_open(const char *path, struct pack_file *f)
{
	*f = (struct pack_file){.path = path, .in_buf = -1};
	int rc = f->fd = open_regular(path, PACK_BYTES, &f->bytes);
	if (rc < 0)
		return rc;
	f->part = calloc((size_t)parts(f) + 1, sizeof *f->part);
	f->buf = malloc(PACK_PART);
	if (f->part && f->buf)
		return E_OK;
	pack_file_close(f);
	return fail(E_NOMEM, "no memory to read %s", path);
}

void pack_file_close(struct pack_file *f)
{
	close(f->fd);
	free(f->part);
	free(f->buf);
}

/* Reads part i into the buffer and hashes it. */
static int load(struct pack_file *f, int64_t i, struct sha256 *hash)
{
	size_t n = part_bytes(f, i);
	f->in_buf = -1;
	int64_t got = read_at(f->fd, f->buf, n, i * PACK_PART);
	if (got < 0)
		return fail(E_IO, "%s: %s", f->path, strerror((int)-got));
	if (got < (int64_t)n)
		return fail(E_BUSY, "%s became shorter while it was read; try again", f->path);
	return crypto_sha256(f->buf, n, hash);
}

int pack_file_hash(struct pack_file *f, struct sha256 *out)
{
	struct crypto_hash *h;
	int rc = crypto_hash_begin(&h);
	if (rc < 0)
		return rc;
	for (int64_t i = 0; i < parts(f) && rc >= 0; i++) {
		rc = load(f, i, &f->part[i]);
		if (rc >= 0)
			rc = crypto_hash_add(h, f->buf, part_bytes(f, i));
	}
	int ended = crypto_hash_end(h, rc < 0 ? NULL : out);
	return rc < 0 ? rc : ended;
}

/* Reads like a struct disk's read, and checks each part's hash. */
static int64_t read_checked(void *ctx, void *p, size_t n, int64_t at)
{
	struct pack_file *f = ctx;
	size_t done = 0;
	while (done < n && at + (int64_t)done < f->bytes) {
		int64_t from = at + (int64_t)done, i = from / PACK_PART;
		struct sha256 hash;
		if (i != f->in_buf && (load(f, i, &hash) < 0 || memcmp(hash.b, f->part[i].b, sizeof hash.b)))
			return -EIO;
		f->in_buf = i;
		size_t off = (size_t)(from - i * PACK_PART), have = part_bytes(f, i) - off;
		have = n - done < have ? n - done : have;
		memcpy((char *)p + done, f->buf + off, have);
		done += have;
	}
	return (int64_t)done;
}

int pack_file_scan(struct pack_file *f, seg_fn *fn, void *ctx)
{
	struct seg s = {.fd = -1, .read = read_checked, .ctx = f, .size = f->bytes};
	const char *slash = strrchr(f->path, '/');
	snprintf(s.name, sizeof s.name, "%.60s", slash ? slash + 1 : f->path);
	int rc = seg_begin(&s);
	if (rc < 0)
		return fail(E_CORRUPT, "%s is not a pack of this version of hone", f->path);
	rc = seg_scan(&s, true, fn, ctx);
	if (rc >= 0 && s.unread)
		rc = fail(E_CORRUPT, "%s changed while it was read; try again", f->path);
	if (rc >= 0 && (s.damaged_bytes || s.end != s.size))
		rc = fail(E_CORRUPT, "%s is damaged after byte %lld: copy it again", f->path,
			  (long long)s.end);
	return rc;
}

int pack_file_small(const char *path, size_t most, struct arena *a, struct blob *out)
{
	int64_t n;
	int fd = open_regular(path, (int64_t)most, &n);
	if (fd < 0)
		return fd;
	char *p = arena_alloc(a, (size_t)n + 1);
	int64_t got = read_at(fd, p, (size_t)n, 0);
	close(fd);
	if (got < 0)
		return fail(E_IO, "%s: %s", path, strerror((int)-got));
	p[got] = 0;
	*out = (struct blob){.p = p, .n = (size_t)got};
	return E_OK;
}
