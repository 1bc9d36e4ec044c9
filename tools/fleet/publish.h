/* SPDX-License-Identifier: Apache-2.0 */
/* Where published files go. To add a place: a file publish_NAME.c that defines `const struct publish
 * publish_NAME` (the Makefile writes publish_table[]); `prefix` says which URLs are its own. All slots are
 * mandatory; callers use the functions below. One thread at a time for each place.
 *
 * E_IO and E_TIMEOUT: the place is not there now, try again later; all else is said with its remedy. A put
 * that failed, or was killed, changed nothing, or all of it. */
#ifndef TOOLS_PUBLISH_H
#define TOOLS_PUBLISH_H

#include "platform/base/err.h"
#include <stdbool.h>
#include <stddef.h>

enum { PUBLISH_NAME = 128 /* bytes, with the NUL */ };

struct publish {
	const char *name, *prefix; /* "s3://"; "": folders */
	int (*open)(const char *url, void **place);
	void (*close)(void *place);
	/* Readers see the old file or the new, and keep the new one once it returns. 0: it was there. What is
	 * not immutable, and there as it is, keeps its date where files have one that polls are told. */
	int (*put)(void *place, const char *name, const void *p, size_t n, bool immutable);
	/* 0: it was gone. */
	int (*drop)(void *place, const char *name);
};

extern const struct publish *const publish_table[];
/* By prefix; the empty one last. */
int publish_find(const char *url, const struct publish **out) MUST_CHECK;

struct place;
int place_open(const char *url, struct place **out) MUST_CHECK;
void place_close(struct place *p); /* NULL: nothing */
/* name: "blob/...": words of lower-case letters and digits, with '/' between them. What is immutable (blobs,
 * roots) is not sent again where it is there with that length. 1: it was sent. */
int place_put(struct place *p, const char *name, const void *bytes, size_t n, bool immutable) MUST_CHECK;
/* What nothing names any more. 1: it was there. */
int place_drop(struct place *p, const char *name) MUST_CHECK;

#endif
