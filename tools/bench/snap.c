/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/snap.h"
#include "agent/cache/cache.h"
#include "platform/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GENERATION "generation"

/* Copies the bytes up to the end; a file that grows meanwhile is copied up to the end that was met. */
static int copy_bytes(int from, int to)
{
	char part[1 << 16];
	for (ssize_t n; (n = read(from, part, sizeof part)) != 0;) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 || write(to, part, (size_t)n) != n)
			return E_IO;
	}
	return E_OK;
}

static int copy_file(const char *from, const char *to)
{
	struct stat st;
	int in = open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (in < 0)
		return errno == ENOENT ? E_OK : fail(E_IO, "%s: %s", from, strerror(errno));
	int rc = E_OK, out = -1;
	if (fstat(in, &st) == 0 && S_ISREG(st.st_mode)) {
		out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
		rc = out < 0 ? E_IO : copy_bytes(in, out);
	}
	if (rc < 0)
		rc = fail(E_IO, "cannot copy %s to %s: %s", from, to, strerror(errno));
	if (out >= 0)
		close(out);
	close(in);
	return rc;
}

static int path_in(const char *dir, const char *name, char out[PATH_MAX])
{
	return snprintf(out, PATH_MAX, "%s/%s", dir, name) < PATH_MAX
		   ? E_OK
		   : fail(E_USAGE, "the path %.80s... is too long", dir);
}

static int copy_named(const char *dir, const char *name, const char *to)
{
	char source[PATH_MAX], copy[PATH_MAX];
	int rc = path_in(dir, name, source);
	if (rc >= 0)
		rc = path_in(to, name, copy);
	if (rc >= 0)
		rc = copy_file(source, copy);
	return rc;
}

static const struct cache_options alone = {.seeds = ""};

static bool holds(const struct cache *c)
{
	struct cache_state s;
	cache_state(c, &s);
	return s.record_bytes + s.code_bytes > 0;
}

/* A pack has no generation of its own, so the cache's generation is written to a file beside it. */
static int write_generation(const char *to, uint64_t generation)
{
	char path[PATH_MAX], text[32];
	int n = snprintf(text, sizeof text, "%llu\n", (unsigned long long)generation);
	int rc = path_in(to, GENERATION, path);
	return rc < 0 ? rc : file_write(path, text, (size_t)n);
}

static uint64_t read_generation(const char *dir)
{
	char path[PATH_MAX];
	struct arena a = {0};
	struct blob text;
	uint64_t generation = 0;
	if (path_in(dir, GENERATION, path) >= 0 && file_read(&a, path, 32, &text) >= 0)
		generation = strtoull(text.p, NULL, 10);
	arena_free(&a);
	return generation;
}

static int pack(const char *dir, const char *to)
{
	struct cache *c;
	char path[PATH_MAX];
	int rc = path_in(to, "cache.seg", path);
	if (rc >= 0)
		rc = cache_open_with(&c, dir, CACHE_READ, 0, &alone);
	if (rc < 0)
		return rc;
	uint64_t generation = cache_generation(c) + 1;
	bool something = holds(c);
	if (something)
		rc = cache_pack(c, path, true);
	cache_close(c);
	return rc >= 0 && something ? write_generation(to, generation) : rc;
}

static bool is_store(const char *name)
{
	size_t n = strlen(name);
	return !strcmp(name, "lock") || !strcmp(name, GENERATION) ||
	       (n > 4 && (!strcmp(name + n - 4, ".seg") || !strcmp(name + n - 4, ".tmp")));
}

uint64_t snap_generation(const char *dir)
{
	struct cache *c;
	if (cache_open_with(&c, dir, CACHE_READ, 0, &alone) < 0)
		return 0;
	uint64_t noted = read_generation(dir);
	uint64_t generation = !holds(c) ? 0 : noted ? noted : cache_generation(c) + 1; /* a cache in the old
										        * format counts as
										        * 1 */
	cache_close(c);
	return generation;
}

int snap_copy(const char *dir, const char *to)
{
	int rc = snap_remove(to);
	if (rc >= 0)
		rc = file_mkdirs(to, 0755);
	DIR *d = rc < 0 ? NULL : opendir(dir);
	if (rc >= 0 && !d && errno != ENOENT)
		rc = fail(E_IO, "%s: %s", dir, strerror(errno));
	for (struct dirent *e; d && rc >= 0 && (e = readdir(d));)
		if (e->d_name[0] != '.' && !is_store(e->d_name))
			rc = copy_named(dir, e->d_name, to);
	if (d)
		closedir(d);
	return rc < 0 ? rc : pack(dir, to);
}

int snap_remove(const char *dir)
{
	char path[PATH_MAX];
	DIR *d = opendir(dir);
	if (!d)
		return errno == ENOENT ? E_OK : fail(E_IO, "%s: %s", dir, strerror(errno));
	int rc = E_OK;
	for (struct dirent *e; rc >= 0 && (e = readdir(d));) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		rc = path_in(dir, e->d_name, path);
		if (rc >= 0 && unlink(path) < 0)
			rc = fail(E_IO, "cannot remove %s: %s", path, strerror(errno));
	}
	closedir(d);
	if (rc >= 0 && rmdir(dir) < 0)
		rc = fail(E_IO, "cannot remove %s: %s", dir, strerror(errno));
	return rc;
}
