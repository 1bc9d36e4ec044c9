/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/leftover.h"
#include "agent/bundle/plan_c.h"
#include "agent/run/image.h"
#include "platform/base/file.h"
#include "tools/hone/output.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const of_c[] = {".h", ".c", "_kernels.o", "_weights.o", NULL};

/* Whether the name is that of one of NAME's C files, of the earlier one that was put aside, or unfinished. */
static bool is_part(const char *entry, const char *name)
{
	for (int i = 0; of_c[i]; i++) {
		char file[PLAN_C_NAME + 16], old[PLAN_C_NAME + 24];
		snprintf(file, sizeof file, "%s%s", name, of_c[i]);
		snprintf(old, sizeof old, "%s.old", file);
		if (!strcmp(entry, file) || !strcmp(entry, old) || file_is_unfinished(entry, file))
			return true;
	}
	return false;
}

/* NAME of a folder .NAME.XXXXXX; false: it is none. */
static bool name_of(const char *entry, char name[PLAN_C_NAME])
{
	char made[PLAN_C_NAME];
	const char *end = strrchr(entry, '.');
	if (*entry != '.' || !end || end - entry < 2 || end - entry > PLAN_C_NAME || strlen(end) != 7)
		return false;
	snprintf(name, PLAN_C_NAME, "%.*s", (int)(end - entry - 1), entry + 1);
	plan_c_name(name, made);
	return !strcmp(made, name);
}

static bool is_dots(const char *entry)
{
	return !strcmp(entry, ".") || !strcmp(entry, "..");
}

/* Whether all that the folder holds are parts of NAME's C files; removes them, if asked, but not earlier
 * files that were put aside, which may be the only ones. */
static bool only_parts(const char *path, const char *name, bool removes)
{
	DIR *d = opendir(path);
	bool all = d != NULL;
	const struct dirent *e;
	while (d && (e = readdir(d)) != NULL) {
		if (is_dots(e->d_name))
			continue;
		all &= is_part(e->d_name, name);
		if (removes && is_part(e->d_name, name) && !file_ends_with(e->d_name, ".old"))
			(void)unlinkat(dirfd(d), e->d_name, 0);
	}
	if (d)
		closedir(d);
	return all;
}

static bool is_folder_left(const char *path, const char *entry)
{
	char name[PLAN_C_NAME];
	return name_of(entry, name) && file_is_dir(path) && only_parts(path, name, false);
}

bool leftover_is(const char *dir, const char *name)
{
	char path[PATH_MAX];
	if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
		return false;
	if (file_is_unfinished(name, IMAGE_FILE))
		return output_begins(path, OUTPUT_IMAGE);
	if (file_is_unfinished(name, "bundle.json"))
		return output_begins(path, OUTPUT_BUNDLE);
	return is_folder_left(path, name);
}

static void remove_one(const char *dir, const char *entry)
{
	char path[PATH_MAX], name[PLAN_C_NAME];
	snprintf(path, sizeof path, "%s/%s", dir, entry);
	if (!file_is_dir(path)) {
		(void)unlink(path);
	} else if (name_of(entry, name)) {
		(void)only_parts(path, name, true);
		(void)rmdir(path);
	}
}

void leftover_remove(const char *dir, time_t before)
{
	DIR *d = opendir(dir);
	const struct dirent *e;
	while (d && (e = readdir(d)) != NULL) {
		struct stat st;
		if (!is_dots(e->d_name) && leftover_is(dir, e->d_name) &&
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_mtime < before)
			remove_one(dir, e->d_name);
	}
	if (d)
		closedir(d);
}
