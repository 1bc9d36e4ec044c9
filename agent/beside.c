/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/beside.h"

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

static struct key options_key(const struct beside *b)
{
	struct buf text = {0};
	buf_printf(&text, "%d %d", b->threads, b->exact);
	for (int i = 0; i < b->opts->nbinds; i++)
		buf_printf(&text, "\n%s=%s", b->opts->binds[i].name, b->opts->binds[i].value);
	struct key k = hash_text(buf_str(&text));
	buf_free(&text);
	return k;
}

int beside_same(const struct beside *b, struct key *out)
{
	struct stat st;
	if (stat(b->model, &st) < 0)
		return fail(E_NOTFOUND, "%s: %s", b->model, strerror(errno));
	const int64_t file[] = {(int64_t)st.st_dev, (int64_t)st.st_ino, st.st_size,        st.st_mtim.tv_sec,
				st.st_mtim.tv_nsec, st.st_ctim.tv_sec,  st.st_ctim.tv_nsec};
	*out = hash_join(options_key(b), hash_bytes(file, sizeof file, 0));
	return E_OK;
}

int beside_key(const struct beside *b, struct key *out)
{
	enum { PART = 256 << 10 };
	int fd = open(b->model, O_RDONLY | O_CLOEXEC);
	char *part = fd < 0 ? NULL : malloc(PART);
	int rc = fd < 0  ? fail(E_NOTFOUND, "%s: %s", b->model, strerror(errno))
		 : !part ? fail(E_NOMEM, "no memory to read %s", b->model)
			 : E_OK;
	*out = options_key(b);
	for (size_t n = PART; rc >= 0 && n == PART;) { /* a part that is not full is the last */
		ssize_t got = 1;
		for (n = 0; n < PART && (got > 0 || (got < 0 && errno == EINTR));
		     n += got > 0 ? (size_t)got : 0)
			got = read(fd, part + n, PART - n);
		if (got < 0)
			rc = fail(E_IO, "%s: %s", b->model, strerror(errno));
		*out = hash_join(*out, hash_bytes(part, n, 0));
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
			  "%s was compiled of another model, or for other shapes, threads or exactness: "
			  "it is not used; compile it again",
			  path);
	return rc < 0 ? rc : image_read(path, &im->key, here, pool, im, out);
}
