/* SPDX-License-Identifier: Apache-2.0 */
/* Where published files go. To add a place: a file publish_NAME.c that defines `const struct publish
 * publish_NAME` (the Makefile writes publish_table[]); `prefix` says which URLs are its own. */
#ifndef TOOLS_PUBLISH_H
#define TOOLS_PUBLISH_H

#include "platform/err.h"
#include <stdbool.h>
#include <stddef.h>

struct publish {
	const char *name, *prefix; /* "s3://"; "": folders */
	int (*open)(const char *url, void **place);
	void (*close)(void *place);
	/* Readers see the old file or the new. name: "blob/...": lower-case words, digits, '/' and '-'. What
	 * is immutable (blobs, roots) is not sent again where it is there. */
	int (*put)(void *place, const char *name, const void *p, size_t n, bool immutable);
	/* Blobs that nothing names any more, kept for a while for boards that are amid a run. */
	int (*drop)(void *place, const char *name);
};

extern const struct publish *const publish_table[];
int publish_find(const char *url, const struct publish **out) MUST_CHECK;

#endif
