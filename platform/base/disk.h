/* SPDX-License-Identifier: Apache-2.0 */
/* The file calls of the cache as a table, so that a test can make any of them fail, or log the calls and
 * their order. Each returns >= 0, or -errno. */
#ifndef PLATFORM_DISK_H
#define PLATFORM_DISK_H

#include <stddef.h>
#include <stdint.h>

struct disk {
	/* Makes a new empty file to read and write, and returns its descriptor. Its group is its folder's; if
	 * that is not permitted, the group gets the permissions of others. */
	int (*create)(const char *path, unsigned mode);
	int (*write)(int fd, const void *p, size_t n, int64_t at); /* writes all n bytes */
	int64_t (*read)(int fd, void *p, size_t n, int64_t at);    /* returns the bytes read; fewer than n:
								      end of file */
	int (*sync)(int fd);                                       /* makes the written data durable */
	int (*rename)(const char *from, const char *to);
	int (*unlink)(const char *path);
	int (*sync_dir)(const char *path); /* makes the names in the folder durable; 0 if its file system
					      cannot */
};

extern const struct disk disk_system;
extern const struct disk *disk; /* the table in use: the system's, unless a test replaces it */

/* Advice about error -rc, for the end of a message. */
const char *disk_remedy(int rc);

#endif
