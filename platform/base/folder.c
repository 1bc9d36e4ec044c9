/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/folder.h"
#include "platform/base/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Cuts the last folder off a path; false: it has only one. */
static bool cut_folder(char *path)
{
	char *slash = strrchr(path, '/');
	while (slash && slash > path && slash[-1] == '/')
		slash--;
	if (!slash || slash == path)
		return false;
	*slash = 0;
	return true;
}

void new_folder_note(struct new_folder *f, const char *dir)
{
	char part[PATH_MAX];
	f->missing = 0;
	if (!dir || snprintf(f->path, sizeof f->path, "%s", dir) >= (int)sizeof f->path)
		return;
	for (size_t n = strlen(f->path); n > 1 && f->path[n - 1] == '/';)
		f->path[--n] = 0;
	memcpy(part, f->path, sizeof part);
	for (bool more = *part != 0; more && !file_exists(part); more = cut_folder(part))
		f->missing++;
}

void new_folder_drop(struct new_folder *f)
{
	for (; f->missing > 0 && (rmdir(f->path) == 0 || errno == ENOENT); f->missing--)
		if (!cut_folder(f->path))
			break;
}
