/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/keep.h"
#include "platform/base/log.h"
#include "tools/hone/model.h"
#include "tools/hone/next.h"
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Makes a folder in this one and removes it: root passes access() also where no file can be made, as in
 * /proc. */
static bool takes_files(const char *dir)
{
	char path[PATH_MAX];
	bool made = snprintf(path, sizeof path, "%s/.hone-XXXXXX", dir) < (int)sizeof path && mkdtemp(path);
	return made && rmdir(path) == 0;
}

/* Makes `path` the folder, or the nearest one above it that exists; false: that of the working directory. */
static bool nearest(const char *dir, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s", dir);
	while (access(path, F_OK) < 0) {
		char *end = strrchr(path, '/');
		if (!end)
			return false;
		end[end == path] = 0; /* of "/x" the "/" stays */
	}
	return true;
}

bool keep_can(const char *dir)
{
	char path[PATH_MAX];
	return strcmp(dir, KEEP_NOWHERE) != 0 && takes_files(nearest(dir, path) ? path : ".");
}

/* The same, without a change to the folder. */
static bool seems_writable(const char *dir)
{
	char path[PATH_MAX];
	return *dir && faccessat(AT_FDCWD, nearest(dir, path) ? path : ".", W_OK | X_OK, AT_EACCESS) == 0;
}

/* A folder of the user that can be written: not in /tmp, where other users could make it first and which a
 * restart empties. NULL: none is known. */
static const char *own_folder(char *path, size_t n)
{
	const char *home = getenv("HOME");
	if (keep_can("hone-cache"))
		return "hone-cache";
	if (!home || home[0] != '/' || snprintf(path, n, "%s/hone-cache", home) >= (int)n)
		return NULL;
	return keep_can(path) ? path : NULL;
}

void keep_next(const struct args *a, const char *model, const char *more)
{
	struct buf b = {0};
	char path[PATH_MAX];
	const char *cache = own_folder(path, sizeof path);
	log_info("to keep the results, name a folder that can be written%s", cache ? "" : ": --cache DIR");
	if (!cache)
		return;
	buf_puts(&b, "Next: ");
	next_words(a, "tune", model, more, cache, &b);
	next_take(&b);
}

void keep_tune(const struct args *a, const char *dir, const char *model, const char *more)
{
	char usual[PATH_MAX];
	if (log_level() < LOG_NORMAL)
		return;
	if (!dir && model_cache_default(usual, sizeof usual) < 0)
		usual[0] = 0;
	dir = dir ? dir : usual;
	if (seems_writable(dir) || model_cache_is_daemons(dir)) {
		next_hone(a, "tune", model, more);
		return;
	}
	next_flush();
	if (*dir)
		log_info("this user cannot write the cache %s, where hone tune would keep its results", dir);
	else
		log_info("hone tune has no folder for its results: neither XDG_CACHE_HOME nor HOME is set");
	keep_next(a, model, more);
}
