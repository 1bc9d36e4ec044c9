/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/file.h"
#include "tools/fleet/publish.h"
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LEFT_S = 3600, DEEP = 16 };

struct folder {
	char path[PATH_MAX - PUBLISH_NAME - 16]; /* leaves room for a published name and a temporary one */
};

/* Deletes old temporary files of killed writers (file_write). Published names have no dot. */
static int sweep(const char *path, const struct stat *st, int type, struct FTW *at)
{
	const char *dot = strrchr(path + at->base, '.');
	if (type == FTW_F && dot && strlen(dot) == 9 && strspn(dot + 1, "0123456789abcdef") == 8 &&
	    time(NULL) - st->st_mtime > LEFT_S)
		unlink(path);
	return 0;
}

static int folder_open(const char *url, void **place)
{
	struct folder *f = malloc(sizeof *f);
	int rc = f ? E_OK : fail(E_NOMEM, "no memory");
	if (f && snprintf(f->path, sizeof f->path, "%s", url) >= (int)sizeof f->path)
		rc = fail(E_USAGE, "publish = %.60s...: the path is too long", url);
	if (rc >= 0)
		rc = file_mkdirs(f->path, 0755);
	if (rc < 0) {
		free(f);
		return rc;
	}
	nftw(f->path, sweep, DEEP, FTW_PHYS);
	*place = f;
	return E_OK;
}

static void folder_close(void *place)
{
	free(place);
}

/* An unchanged file is not written, so it keeps its date, which tells polls that nothing is new. */
static bool is_same(const char *path, const void *p, size_t n)
{
	struct arena a = {0};
	struct blob b;
	bool same = file_exists(path) && file_read(&a, path, n, &b) >= 0 && b.n == n && !memcmp(b.p, p, n);
	arena_free(&a);
	return same;
}

static bool is_there(const char *path, size_t n)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == (off_t)n;
}

static int folder_put(void *place, const char *name, const void *p, size_t n, bool immutable)
{
	struct folder *f = place;
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/%s", f->path, name);
	if (immutable ? is_there(path, n) : n && is_same(path, p, n))
		return 0;
	char *slash = strrchr(path, '/');
	*slash = 0;
	int rc = file_mkdirs(path, 0755);
	*slash = '/';
	if (rc >= 0)
		rc = file_write(path, p, n);
	return rc < 0 ? rc : 1;
}

static int folder_drop(void *place, const char *name)
{
	struct folder *f = place;
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/%s", f->path, name);
	if (unlink(path) == 0)
		return 1;
	return errno == ENOENT || errno == ENOTDIR
		   ? 0
		   : fail(E_IO, "cannot remove %s: %s", path, strerror(errno));
}

const struct publish publish_folder = {.name = "folder",
				       .prefix = "",
				       .open = folder_open,
				       .close = folder_close,
				       .put = folder_put,
				       .drop = folder_drop};
