/* SPDX-License-Identifier: Apache-2.0 */
/* What a folder's file system does with what is written there, and the flash below it. Everything is read
 * from files that are there or not; a test gives its own. */
#ifndef PLATFORM_MOUNT_H
#define PLATFORM_MOUNT_H

#include "platform/base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum mount_kind {
	MOUNT_KEEPS,   /* as far as can be seen */
	MOUNT_MEMORY,  /* tmpfs, ramfs, or an overlay whose upper folder is in one: lost when power goes */
	MOUNT_OVERLAY, /* an overlay whose upper folder cannot be seen from here: perhaps lost */
	MOUNT_READ_ONLY,
};

/* Of an existing folder, else of the nearest one above it; root: "" or a folder that stands for the root,
 * whose proc/self/mountinfo is the table. */
enum mount_kind mount_of(const char *root, const char *dir);
/* The same, by a table as /proc/self/mountinfo gives it. */
enum mount_kind mount_in(const char *mountinfo, const char *dir);
/* What that means and what to do; "" for MOUNT_KEEPS. */
const char *mount_words(enum mount_kind k);

/* What an eMMC says of its life: tenths that are used (1: 0 to 10 %, ..., 11: exceeded) of its two kinds of
 * memory, the worse, and whether its spare blocks run low. SD cards do not say. */
struct flash_life {
	char device[32];
	int tenths;    /* 0: it does not say */
	bool near_end; /* 80 % of the spare blocks are used */
};
/* Of the device with this number; root: "" or a folder that stands for the root. E_NOTFOUND: it does not say.
 */
int flash_life(const char *root, dev_t device, struct flash_life *out) MUST_CHECK;

#endif
