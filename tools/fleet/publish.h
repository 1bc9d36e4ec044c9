/* SPDX-License-Identifier: Apache-2.0 */
/* The places to which files are published. To add a place, write a file publish_NAME.c that defines `const
 * struct publish publish_NAME` (the Makefile writes publish_table[]); `prefix` says which URLs it opens. All
 * slots are mandatory. Callers use the functions below. One thread at a time may use a place.
 *
 * E_IO and E_TIMEOUT mean that the place cannot be reached now: try again later. All other errors say what to
 * do. A put that failed or was killed changed either nothing or the whole file. */
#ifndef TOOLS_PUBLISH_H
#define TOOLS_PUBLISH_H

#include "platform/base/err.h"
#include <stdbool.h>
#include <stddef.h>

enum { PUBLISH_NAME = 128 /* bytes, with the NUL */ };

struct publish {
	const char *name, *prefix; /* prefix of URLs: "s3://"; "": folders */
	int (*open)(const char *url, void **place);
	void (*close)(void *place);
	/* Readers see either the old file or the new one, which is durable when this returns. 0: the file was
	 * there. A file that is not immutable but has the same content keeps its date, if files of that place
	 * have one that polls see. */
	int (*put)(void *place, const char *name, const void *p, size_t n, bool immutable);
	/* 0: there was no such file. */
	int (*drop)(void *place, const char *name);
};

extern const struct publish *const publish_table[];
/* Chooses by prefix; tries the empty one last. */
int publish_find(const char *url, const struct publish **out) MUST_CHECK;

struct place;
int place_open(const char *url, struct place **out) MUST_CHECK;
void place_close(struct place *p); /* NULL: nothing */
/* name: "blob/...": words of lower-case letters and digits, separated by '/'. An immutable file (blob, root)
 * is not sent again if the place has one of that length. 1: it was sent. */
int place_put(struct place *p, const char *name, const void *bytes, size_t n, bool immutable) MUST_CHECK;
/* Deletes a file that nothing names any more. 1: it was there. */
int place_drop(struct place *p, const char *name) MUST_CHECK;

#endif
