/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/machine/sysfile.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LIST_MOST = 4096 }; /* largest number of names that are read */

int sysfile_open(const char *root, const char *path)
{
	char at[PATH_MAX];
	struct stat st;
	if (snprintf(at, sizeof at, "%s%s", root, path) >= (int)sizeof at)
		return -1;
	int fd = open(at, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)))
		return fd;
	close(fd);
	return -1;
}

int sysfile_read(int fd, char *out, size_t n)
{
	ssize_t got = fd < 0 ? -1 : pread(fd, out, n - 1, 0);
	out[got > 0 ? got : 0] = 0;
	return (int)got;
}

static bool parse(const char *text, int base, int64_t *out)
{
	char *end;
	errno = 0;
	long long v = strtoll(text, &end, base);
	if (end == text || (*end && !isspace((unsigned char)*end)) || errno || v > INT64_MAX / 2 ||
	    v < -INT64_MAX / 2)
		return false;
	*out = v;
	return true;
}

bool sysfile_value(int fd, int base, int64_t *out)
{
	char text[64];
	return sysfile_read(fd, text, sizeof text) > 0 && parse(text, base, out);
}

bool sysfile_line(const char *root, const char *path, char *out, size_t n)
{
	int fd = sysfile_open(root, path);
	bool good = sysfile_read(fd, out, n) > 0;
	if (fd >= 0)
		close(fd);
	size_t blank = strspn(out, " \t\n"), len;
	memmove(out, out + blank, strlen(out + blank) + 1);
	out[len = strcspn(out, "\n")] = 0;
	while (len > 0 && isspace((unsigned char)out[len - 1]))
		out[--len] = 0;
	return good && len > 0;
}

bool sysfile_number(const char *root, const char *path, int64_t *out)
{
	char text[64];
	return sysfile_line(root, path, text, sizeof text) && parse(text, 10, out);
}

static int by_number(const void *a, const void *b)
{
	return strverscmp(a, b);
}

int sysfile_list(const char *root, const char *dir, const char *prefix, char (*name)[SYSFILE_NAME], int room)
{
	char at[PATH_MAX];
	int n = 0;
	if (snprintf(at, sizeof at, "%s%s", root, dir) >= (int)sizeof at)
		return 0;
	DIR *d = opendir(at);
	if (!d)
		return 0;
	struct dirent *e;
	for (int seen = 0; n < room && seen < LIST_MOST && (e = readdir(d)); seen++)
		if (e->d_name[0] != '.' && !strncmp(e->d_name, prefix, strlen(prefix)) &&
		    strlen(e->d_name) < SYSFILE_NAME)
			strcpy(name[n++], e->d_name);
	closedir(d);
	qsort(name, (size_t)n, sizeof *name, by_number);
	return n;
}
