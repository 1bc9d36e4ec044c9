/* SPDX-License-Identifier: Apache-2.0 */
/* Tells a folder of a cache from one that holds other files. */
#include "agent/cache/cache.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

bool cache_may_be(const char *dir)
{
	DIR *d = opendir(dir);
	bool any = false, its = false;
	for (const struct dirent *e; d && !its && (e = readdir(d));) {
		size_t n = strlen(e->d_name);
		any |= e->d_name[0] != '.' && strcmp(e->d_name, "lost+found") &&
		       strcmp(e->d_name, "images"); /* of libhone, which may come before a cache */
		its = n > 4 && !strcmp(e->d_name + n - 4, ".seg");
		its |= !strcmp(e->d_name, "lock") || !strcmp(e->d_name, "target") ||
		       !strncmp(e->d_name, "target-", 7);
	}
	if (d)
		closedir(d);
	return !d || !any || its;
}

int cache_refuse_other(const char *dir)
{
	return access(dir, R_OK | X_OK) < 0 || cache_may_be(dir)
		   ? E_OK
		   : fail(E_USAGE,
			  "%s holds other files, and none of a cache: name a cache's folder, or a new or "
			  "empty one",
			  dir);
}
