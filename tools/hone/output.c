/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/output.h"
#include "platform/base/file.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool same_file(const char *one, const char *other)
{
	struct stat x, y;
	return stat(one, &x) == 0 && stat(other, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Nothing, an empty file, or a regular one that begins so. What cannot be read counts as another kind. */
static bool may_replace(const char *path, const char *begins)
{
	struct stat st;
	char head[32];
	size_t n = strlen(begins);
	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || !st.st_size)
		return true; /* file_can_write says what is wrong */
	FILE *f = fopen(path, "rbe");
	bool same = f && n <= sizeof head && fread(head, 1, n, f) == n && !memcmp(head, begins, n);
	if (f)
		fclose(f);
	return same;
}

int output_file(const struct args *a, const char *name, const char *begins, char to[PATH_MAX])
{
	struct stat st;
	if (!strcmp(name, "-"))
		return fail(E_USAGE,
			    "'-' is not a file's name here: name a file (./- if it is to be called so)");
	if (snprintf(to, PATH_MAX, "%s", name) >= PATH_MAX)
		return fail(E_USAGE, "the path %.60s... is too long", name);
	for (int i = 0; i < a->npos; i++)
		if (same_file(a->pos[i], name))
			return fail(E_USAGE, "%s is the model itself: write to another file", name);
	if (lstat(name, &st) == 0 && S_ISLNK(st.st_mode) && !realpath(name, to))
		return fail(E_IO, "%s is a link that leads nowhere (%s): name a file", name, strerror(errno));
	int rc = file_can_write(to);
	if (rc >= 0 && !may_replace(to, begins))
		rc =
		    fail(E_USAGE,
			 "%s exists and is not a file that `hone %s` writes: name another file, or remove it",
			 name, a->cmd->name);
	return rc;
}
