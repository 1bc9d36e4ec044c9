/* SPDX-License-Identifier: Apache-2.0 */
/* The calls by which the cache reaches its files, as a table, so that a test can make any of them fail, or
 * write down what was done and in which order. Each returns >= 0, or -errno. */
#ifndef PLATFORM_DISK_H
#define PLATFORM_DISK_H

#include <stddef.h>
#include <stdint.h>

struct disk {
	/* New and empty, to read and write: the descriptor. Its group is its folder's; where that may not be,
	 * the group's bits are the others'. */
	int (*create)(const char *path, unsigned mode);
	int (*write)(int fd, const void *p, size_t n, int64_t at); /* all of it */
	int64_t (*read)(int fd, void *p, size_t n, int64_t at);    /* bytes; fewer than n: the end */
	int (*sync)(int fd);                                       /* what was written is durable */
	int (*rename)(const char *from, const char *to);
	int (*unlink)(const char *path);
	int (*sync_dir)(const char *path); /* the names in it are durable; 0 where its file system cannot */
};

extern const struct disk disk_system;
extern const struct disk *disk; /* the one in use: the system's, unless a test says otherwise */

/* What to do about -rc, for the end of a message. */
const char *disk_remedy(int rc);

#endif
