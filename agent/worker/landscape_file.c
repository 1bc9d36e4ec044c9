/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of landscapes. */
#include "agent/worker/landscape.h"

#include "platform/base/file.h"
#include "platform/base/mix.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 64 << 20, HEAD_BYTES = 1 << 17 };

static int path_of(const char *dir, const char *task, char path[PATH_MAX])
{
	char key[33];
	key_text(mix_text(task), key); /* a hash is enough for the name: landscape_append compares the task */
	if (snprintf(path, PATH_MAX, "%s/%s.land", dir, key) >= PATH_MAX)
		return fail(E_IO, "the path %.60s... is too long", dir);
	return E_OK;
}

static bool is_landscape(const char *name)
{
	size_t n = strlen(name);
	return n > 5 && !strcmp(name + n - 5, ".land");
}

static int by_name(const void *x, const void *y)
{
	return strcmp(*(const char *const *)x, *(const char *const *)y);
}

/* Names of the folder's landscapes, sorted. Returns their number. */
static int list(const char *dir, struct arena *a, const char ***out)
{
	DIR *d = opendir(dir);
	const char **name = ARENA_ARRAY(a, const char *, LANDSCAPE_FILES);
	int n = 0;
	if (!d)
		return fail(errno == ENOENT ? E_NOTFOUND : E_IO, "cannot open folder %s: %s", dir,
			    strerror(errno));
	for (const struct dirent *e; n <= LANDSCAPE_FILES && (e = readdir(d));)
		if (is_landscape(e->d_name) && n++ < LANDSCAPE_FILES)
			name[n - 1] = arena_strdup(a, e->d_name);
	closedir(d);
	if (n > LANDSCAPE_FILES)
		return fail(E_UNSUPPORTED, "%s holds more than %d landscapes; split it into several folders",
			    dir, LANDSCAPE_FILES);
	qsort(name, (size_t)n, sizeof *name, by_name);
	*out = name;
	return n;
}

static int read_one(const char *path, struct arena *a, struct landscape *out)
{
	struct blob b;
	int rc = file_read(a, path, MOST_BYTES, &b);
	if (rc >= 0)
		rc = landscape_parse(b.p, b.n, a, out);
	return fail_in(rc, "%s", path);
}

int landscape_folder(const char *dir, struct arena *a, struct landscape **out)
{
	char path[PATH_MAX];
	const char **name = NULL;
	int n = list(dir, a, &name);
	if (n < 0)
		return n;
	if (n == 0)
		return fail(E_NOTFOUND, "%s holds no landscapes (*.land); hone tune --record %s makes some",
			    dir, dir);
	*out = ARENA_ARRAY(a, struct landscape, n);
	for (int i = 0; i < n; i++) {
		if (snprintf(path, sizeof path, "%s/%s", dir, name[i]) >= PATH_MAX)
			return fail(E_IO, "the path %.60s... is too long", dir);
		int rc = read_one(path, a, &(*out)[i]);
		if (rc < 0)
			return rc;
	}
	return n;
}

static int io_failed(const char *path)
{
	return fail(E_IO, "cannot write %s: %s", path, strerror(errno));
}

/* Finds the end of the last whole line in a file of `size` bytes. */
static off_t whole_bytes(int fd, off_t size)
{
	char part[4096];
	while (size > 0) {
		off_t from = size > (off_t)sizeof part ? size - (off_t)sizeof part : 0;
		ssize_t n = pread(fd, part, (size_t)(size - from), from);
		if (n <= 0)
			return size;
		const char *end = memrchr(part, '\n', (size_t)n);
		if (end)
			return from + (end - part) + 1;
		size = from;
	}
	return 0;
}

/* Checks that the file is of the same task, machine, thread count and state of weights. */
static int check_head(int fd, const char *path, const struct landscape *l)
{
	struct arena a = {0};
	struct landscape had;
	char *head = arena_alloc(&a, HEAD_BYTES);
	ssize_t n = pread(fd, head, HEAD_BYTES, 0);
	const char *end = n > 0 ? memmem(head, (size_t)n, "\npoints\n", 8) : NULL;
	int rc = end ? landscape_parse(head, (size_t)(end + 8 - head), &a, &had)
		     : fail(E_CORRUPT, "this is not a landscape; remove it");
	if (rc >= 0 && (strcmp(had.task, l->task) || had.threads != l->threads || had.cold != l->cold ||
			!key_equal(target_key(&had.target), target_key(&l->target))))
		rc = fail(
		    E_USAGE,
		    "is from another machine, number of threads or state of weights; name another folder");
	arena_free(&a);
	return fail_in(rc, "%s", path);
}

/* Checks that a file without a whole line is empty, or what a torn write of this text would leave. */
static int check_torn(int fd, const char *path, off_t size, const struct buf *text)
{
	char part[256];
	bool torn = size <= (off_t)sizeof part && size < (off_t)text->n &&
		    pread(fd, part, (size_t)size, 0) == size && !memcmp(part, text->p, (size_t)size);
	return torn ? E_OK : fail(E_CORRUPT, "%s: this is not a landscape; remove it", path);
}

/* Nothing is cut off a file before it is known to be a landscape. */
static int append(int fd, const char *path, const struct landscape *l)
{
	struct buf text = {0};
	off_t size = lseek(fd, 0, SEEK_END), whole = whole_bytes(fd, size);
	int rc = size < 0 ? io_failed(path) : E_OK;
	landscape_text(l, whole == 0, &text);
	if (rc >= 0 && !buf_ok(&text))
		rc = fail(E_NOMEM, "no memory for a landscape");
	if (rc >= 0)
		rc = whole ? check_head(fd, path, l) : check_torn(fd, path, size, &text);
	if (rc >= 0 && whole < size && ftruncate(fd, whole) < 0)
		rc = io_failed(path);
	if (rc >= 0 && text.n && write(fd, text.p, text.n) != (ssize_t)text.n)
		rc = io_failed(path);
	buf_free(&text);
	return rc;
}

int landscape_append(const char *dir, const struct landscape *l)
{
	char path[PATH_MAX];
	int rc = path_of(dir, l->task, path);
	if (rc >= 0 && !file_is_dir(dir))
		rc = file_mkdirs(dir, 0755);
	if (rc < 0)
		return rc;
	int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0)
		return io_failed(path);
	rc = append(fd, path, l);
	close(fd);
	return rc;
}
