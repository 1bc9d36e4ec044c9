/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a folder's file system keeps what is written there, and the state of the flash below it. Everything
 * is read from files that may be absent; a test provides its own. */
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

/* The kind of an existing folder's mount, else of the nearest folder above it. root: "" or a folder that
 * stands for the root; its proc/self/mountinfo is the table. */
enum mount_kind mount_of(const char *root, const char *dir);
/* The same, from the text of a table like /proc/self/mountinfo. */
enum mount_kind mount_in(const char *mountinfo, const char *dir);
/* Text for people: what the kind means and what to do; "" for MOUNT_KEEPS. */
const char *mount_words(enum mount_kind k);

/* An eMMC's report of its life: used tenths (1: 0 to 10 %, ..., 11: exceeded) of the worse of its two kinds
 * of memory, and whether its spare blocks run low. SD cards report nothing. */
struct flash_life {
	char device[32];
	int tenths;    /* 0: not reported */
	bool near_end; /* 80 % of the spare blocks are used */
};
/* Reads the report of the device with this number. root: "" or a folder that stands for the root. E_NOTFOUND:
 * it reports nothing. */
int flash_life(const char *root, dev_t device, struct flash_life *out) MUST_CHECK;

#endif
