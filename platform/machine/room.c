/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/machine/room.h"

#include "platform/machine/sysfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 512 };

static bool read_text(const char *root, const char *path, char *out, size_t n)
{
	int fd = sysfile_open(root, path);
	bool there = fd >= 0 && sysfile_read(fd, out, n) > 0;
	if (fd >= 0)
		close(fd);
	return there;
}

static int64_t available(const char *root)
{
	char text[512];
	const char *at =
	    read_text(root, "/proc/meminfo", text, sizeof text) ? strstr(text, "MemAvailable:") : NULL;
	long long kb = at ? atoll(at + sizeof "MemAvailable:" - 1) : -1;
	return kb < 0 || kb > INT64_MAX >> 10 ? INT64_MAX : kb << 10;
}

/* What the limit of one group leaves. */
static int64_t left_in(const char *root, const char *group)
{
	char path[PATH_BYTES + 64];
	int64_t most, used = 0;
	snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group);
	if (!sysfile_number(root, path, &most)) /* "max": no limit */
		return INT64_MAX;
	snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.current", group);
	(void)sysfile_number(root, path, &used);
	return most > used ? most - used : 0;
}

/* This process's group, as "/a/b"; "" for the root, or if there is none. */
static void own_group(const char *root, char out[PATH_BYTES])
{
	char text[1024];
	const char *at =
	    read_text(root, "/proc/self/cgroup", text, sizeof text) ? strstr(text, "0::/") : NULL;
	int n = at ? (int)strcspn(at + 3, "\n") : 0;
	snprintf(out, PATH_BYTES, "%.*s", n, n ? at + 3 : "");
	if (!strcmp(out, "/"))
		out[0] = 0;
}

int64_t room_bytes(const char *root)
{
	char group[PATH_BYTES];
	int64_t least = available(root);
	own_group(root, group);
	for (char *end = group + strlen(group);; end = strrchr(group, '/')) {
		*end = 0;
		int64_t left = left_in(root, group);
		least = left < least ? left : least;
		if (!*group)
			return least;
	}
}
