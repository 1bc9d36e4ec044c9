/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of this process's own under /tmp, made on first use and removed at the end, and files in it. The
 * last 16 paths are valid. */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

#include "platform/base/file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch_dir[64];

static inline const char *scratch(const char *name)
{
	static char path[16][256];
	static int next;
	if (!scratch_dir[0]) {
		snprintf(scratch_dir, sizeof scratch_dir, "/tmp/hone-test-XXXXXX");
		if (!mkdtemp(scratch_dir))
			abort();
	}
	char *p = path[next++ % 16];
	snprintf(p, sizeof path[0], "%s/%s", scratch_dir, name);
	return p;
}

/* Makes a new folder in it. */
static inline const char *scratch_folder(void)
{
	static int made;
	char name[32];
	snprintf(name, sizeof name, "folder-%d", made++);
	const char *path = scratch(name);
	if (mkdir(path, 0700) < 0)
		abort();
	return path;
}

static inline const char *scratch_file(const char *name, const void *bytes, size_t n, unsigned mode)
{
	const char *path = scratch(name);
	unlink(path);
	if (file_write(path, bytes, n) < 0 || chmod(path, (mode_t)mode) < 0)
		abort();
	return path;
}

static inline const char *scratch_text(const char *name, const char *text, unsigned mode)
{
	return scratch_file(name, text, strlen(text), mode);
}

__attribute__((destructor)) static void scratch_remove(void)
{
	char cmd[96];
	snprintf(cmd, sizeof cmd, "rm -rf %s", scratch_dir);
	if (scratch_dir[0] && system(cmd) != 0)
		abort();
}

#endif
