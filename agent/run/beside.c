/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/beside.h"
#include "platform/base/mix.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool beside_path(const char *model, char *out, size_t n)
{
	return (size_t)snprintf(out, n, "%s.hone", model) < n;
}

/* The key does not depend on the order of the binds. */
static struct key options_key(const struct beside *b)
{
	struct key k = {0};
	for (int i = -1; i < b->opts->nbinds; i++) {
		struct buf text = {0};
		if (i < 0)
			buf_printf(&text, "%d %d", b->threads, b->level);
		else
			buf_printf(&text, "%s=%s", b->opts->binds[i].name, b->opts->binds[i].value);
		struct key one = hash_text(buf_str(&text));
		k.hi += one.hi;
		k.lo += one.lo;
		buf_free(&text);
	}
	return k;
}

/* Hashes some of the file's bytes, as inode and times are not enough: reproducible builds clamp times. */
static struct key sample(int fd, int64_t bytes)
{
	enum { BLOCKS = 16, BLOCK = 4096 };
	char part[BLOCK];
	struct key k = {0};
	int64_t last = bytes > BLOCK ? bytes - BLOCK : 0;
	for (int i = 0; i < BLOCKS; i++) {
		ssize_t n = pread(fd, part, sizeof part, (off_t)(last / (BLOCKS - 1) * i));
		k = hash_join(k, hash_bytes(part, n > 0 ? (size_t)n : 0));
	}
	return k;
}

int beside_same(const struct beside *b, struct key *out)
{
	struct stat st;
	int fd = open(b->model, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0) {
		int rc = fail(E_NOTFOUND, "%s: %s", b->model, strerror(errno));
		if (fd >= 0)
			close(fd);
		return rc;
	}
	const int64_t file[] = {(int64_t)st.st_dev, (int64_t)st.st_ino, st.st_size,        st.st_mtim.tv_sec,
				st.st_mtim.tv_nsec, st.st_ctim.tv_sec,  st.st_ctim.tv_nsec};
	*out = hash_join(options_key(b), hash_join(hash_bytes(file, sizeof file), sample(fd, st.st_size)));
	close(fd);
	return E_OK;
}

int beside_key(const struct beside *b, struct key *out)
{
	enum { PART = 256 << 10 };
	int fd = open(b->model, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char *part = fd < 0 ? NULL : malloc(PART);
	int rc = fd < 0  ? fail(E_NOTFOUND, "%s: %s", b->model, strerror(errno))
		 : !part ? fail(E_NOMEM, "no memory to read %s", b->model)
			 : E_OK;
	*out = options_key(b);
	for (size_t n = PART; rc >= 0 && n == PART;) { /* a part that is not full is the last one */
		ssize_t got = 1;
		for (n = 0; n < PART && (got > 0 || (got < 0 && errno == EINTR));
		     n += got > 0 ? (size_t)got : 0)
			got = read(fd, part + n, PART - n);
		if (got < 0)
			rc = fail(E_IO, "%s: %s", b->model, strerror(errno));
		*out = mix_join(*out, mix_bytes(part, n, 0));
	}
	free(part);
	if (fd >= 0)
		close(fd);
	return rc;
}

int beside_read(const struct beside *b, const struct target *here, struct pool *pool, struct image *im,
		struct plan **out)
{
	char path[4096];
	struct key now;
	int rc = beside_path(b->model, path, sizeof path) ? image_peek(path, im)
							  : fail(E_NOTFOUND, "no image beside %s", b->model);
	if (rc >= 0)
		rc = beside_same(b, &now);
	if (rc >= 0 && !key_equal(now, im->same) && (rc = beside_key(b, &now)) >= 0 &&
	    !key_equal(now, im->key))
		rc = fail(E_NOTFOUND,
			  "%s is not used: it was compiled from another model, or for other shapes, threads "
			  "or level; compile it again",
			  path);
	return rc < 0 ? rc : image_read(path, &im->key, here, pool, im, out);
}
