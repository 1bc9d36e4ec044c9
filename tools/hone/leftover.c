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

enum { AGE = 600 }; /* seconds without a write after which no compile runs any more that writes a file */

static const struct {
	const char *end, *begins;
} of_c[] = {{".h", PLAN_C_HEADER},
	    {".c", PLAN_C_SOURCE},
	    {"_kernels.o", OUTPUT_OBJECT},
	    {"_weights.o", OUTPUT_OBJECT}};

enum { OF_C = sizeof of_c / sizeof *of_c };

/* State of a leftover, which decides whether it may be removed. */
struct left {
	time_t written; /* the last write of the folder and of its files */
	bool put_aside; /* an earlier file lies in it, which may be the only one */
};

/* The number in of_c of the file of NAME that it is, or that lies aside or is unfinished; -1: of none. */
static int part_of(const char *entry, const char *name)
{
	for (int i = 0; i < OF_C; i++) {
		char file[PLAN_C_NAME + 16], old[PLAN_C_NAME + 24];
		snprintf(file, sizeof file, "%s%s", name, of_c[i].end);
		snprintf(old, sizeof old, "%s.old", file);
		if (!strcmp(entry, file) || !strcmp(entry, old) || file_is_unfinished(entry, file))
			return i;
	}
	return -1;
}

/* NAME of a folder .NAME.XXXXXX as mkdtemp names it; false: it is none. A word such as "backup" counts as a
 * name that a user gave: of 200 names of mkdtemp, one has small letters alone. */
static bool name_of(const char *entry, char name[PLAN_C_NAME])
{
	char made[PLAN_C_NAME];
	const char *end = strrchr(entry, '.');
	if (*entry != '.' || !end || end - entry < 2 || end - entry > PLAN_C_NAME || strlen(end) != 7 ||
	    !strpbrk(end, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"))
		return false;
	snprintf(name, PLAN_C_NAME, "%.*s", (int)(end - entry - 1), entry + 1);
	plan_c_name(name, made);
	return !strcmp(made, name);
}

static bool is_dots(const char *entry)
{
	return !strcmp(entry, ".") || !strcmp(entry, "..");
}

static bool is_part(int folder, const char *entry, const char *name, struct left *l)
{
	char begins[PLAN_C_NAME + 64];
	int i = part_of(entry, name);
	if (i < 0)
		return false;
	if (i < 2)
		snprintf(begins, sizeof begins, i ? PLAN_C_SOURCE : PLAN_C_HEADER, name);
	l->put_aside |= file_ends_with(entry, ".old");
	return output_begins_at(folder, entry, i < 2 ? begins : of_c[i].begins, &l->written);
}

/* Opens a folder, but no link, that this user has for itself, as mkdtemp makes it. NULL: it is none. */
static DIR *open_own(int at, const char *entry, struct left *l)
{
	struct stat st;
	int fd = openat(at, entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	bool own = fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 0777) == 0700;
	DIR *d = own ? fdopendir(fd) : NULL;
	if (!d && fd >= 0)
		close(fd);
	if (d)
		l->written = st.st_mtime;
	return d;
}

static bool only_parts(DIR *d, const char *name, struct left *l)
{
	const struct dirent *e;
	bool all = true;
	while (all && (e = readdir(d)) != NULL)
		all = is_dots(e->d_name) || is_part(dirfd(d), e->d_name, name, l);
	return all;
}

/* The folder, if it is one of a compile; NULL: it is none. name: from the entry. */
static DIR *open_left(int at, const char *entry, char name[PLAN_C_NAME], struct left *l)
{
	DIR *d = name_of(entry, name) ? open_own(at, entry, l) : NULL;
	if (!d || only_parts(d, name, l))
		return d;
	closedir(d);
	return NULL;
}

static bool is_file_left(int at, const char *entry, struct left *l)
{
	if (file_is_unfinished(entry, IMAGE_FILE))
		return output_begins_at(at, entry, OUTPUT_IMAGE, &l->written);
	return file_is_unfinished(entry, "bundle.json") &&
	       output_begins_at(at, entry, OUTPUT_BUNDLE, &l->written);
}

bool leftover_is(int dir, const char *entry)
{
	char name[PLAN_C_NAME];
	struct left l = {0};
	if (is_file_left(dir, entry, &l))
		return true;
	DIR *d = open_left(dir, entry, name, &l);
	if (d)
		closedir(d);
	return d != NULL;
}

static bool is_old(const struct left *l)
{
	return l->written < time(NULL) - AGE;
}

/* Removes the parts, each of which it looks at once more, then the folder, if nothing else is in it. */
static void remove_folder(int at, const char *entry, const char *name, DIR *d)
{
	const struct dirent *e;
	rewinddir(d);
	while ((e = readdir(d)) != NULL) {
		struct left l = {0};
		if (!is_dots(e->d_name) && is_part(dirfd(d), e->d_name, name, &l) && !l.put_aside &&
		    is_old(&l))
			(void)unlinkat(dirfd(d), e->d_name, 0);
	}
	(void)unlinkat(at, entry, AT_REMOVEDIR);
}

static void remove_left(int at, const char *entry, const char *c_name)
{
	char name[PLAN_C_NAME];
	struct left l = {0};
	if (!c_name && is_file_left(at, entry, &l)) {
		if (is_old(&l))
			(void)unlinkat(at, entry, 0);
		return;
	}
	DIR *d = open_left(at, entry, name, &l);
	if (!d)
		return;
	if ((!c_name || !strcmp(name, c_name)) && !l.put_aside && is_old(&l))
		remove_folder(at, entry, name, d);
	closedir(d);
}

void leftover_remove(const char *dir, const char *c_name)
{
	DIR *d = opendir(dir);
	const struct dirent *e;
	while (d && (e = readdir(d)) != NULL)
		if (!is_dots(e->d_name))
			remove_left(dirfd(d), e->d_name, c_name);
	if (d)
		closedir(d);
}
