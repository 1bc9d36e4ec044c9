/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the segments in a folder of the cache. */
#include "agent/cache/cache_parts.h"
#include "platform/base/mix.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_segment(const char *name)
{
	size_t n = strlen(name);
	return n <= SEG_NAME && n > 4 && name[0] != '.' && !strcmp(name + n - 4, ".seg");
}

uint64_t cache_number(const char *name)
{
	char *end;
	unsigned long long n = strtoull(name, &end, 16);
	return end > name && !strcmp(end, ".seg") && n < SEG_NUMBERS ? n : 0;
}

bool cache_own_name(const char *name)
{
	int n = 0;
	while (n < 8 && isxdigit((unsigned char)name[n]))
		n++;
	return n == 8 && !strcmp(name + n, ".seg");
}

static int add(struct segment_names *l, const char *name)
{
	uint64_t number = cache_number(name);
	l->last = number > l->last ? number : l->last;
	if (l->n >= MAX_SEGS / MAX_LAYERS) {
		l->more++;
		return E_OK;
	}
	if (l->n == l->cap) {
		int cap = l->cap ? l->cap * 2 : 16;
		void *more = realloc(l->name, (size_t)cap * sizeof *l->name);
		if (!more)
			return fail(E_NOMEM, "no memory to open a cache");
		l->name = more;
		l->cap = cap;
	}
	memset(l->name[l->n], 0, sizeof *l->name);
	snprintf(l->name[l->n++], sizeof *l->name, "%s", name);
	return E_OK;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

static int refused(const char *dir)
{
	bool not_now = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
	return fail(not_now ? E_BUSY : E_IO, "cache %s: %s", dir, strerror(errno));
}

int cache_list(const char *dir, struct segment_names *l)
{
	DIR *d = opendir(dir);
	l->n = l->more = 0;
	l->last = 0;
	if (!d)
		return errno == ENOENT || errno == ENOTDIR ? E_OK : refused(dir);
	int rc = E_OK;
	errno = 0;
	for (struct dirent *e; rc >= 0 && (e = readdir(d)); errno = 0)
		if (is_segment(e->d_name))
			rc = add(l, e->d_name);
	if (rc >= 0 && errno) /* with half a list the writer would miss existing files */
		rc = refused(dir);
	closedir(d);
	if (l->n)
		qsort(l->name, (size_t)l->n, sizeof *l->name, by_name);
	return rc;
}

struct key cache_names_key(const struct segment_names *l)
{
	return mix_bytes(l->n ? l->name : (const void *)"", (size_t)l->n * sizeof *l->name,
			  (uint64_t)l->more);
}
