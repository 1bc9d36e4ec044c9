/* SPDX-License-Identifier: Apache-2.0 */
/* Zeroed memory from the system for the tensors of kernels, in huge pages if the system has them: a tile of a
 * 1x1 convolution with 1024 channels in blocks of 8 touches 128 small pages, more than the first-level data
 * TLBs of most cores hold. (On the machine of our figures, such trials took as long in small pages.) */
#ifndef PLATFORM_PAGES_H
#define PLATFORM_PAGES_H

#include "platform/base/err.h"
#include <stddef.h>

enum pages_kind {
	PAGES_PLAIN,   /* begins at a page; less than 1 MiB after the last huge page is in small ones */
	PAGES_GUARDED, /* ends, except for up to 63 bytes, at a page that may not be touched: a kernel that
			  runs over its buffer crashes instead of computing wrong values. From 64 KiB on all
			  of it is in huge pages, as it would be in the middle of a larger buffer */
	PAGES_SHARED,  /* guarded, and shared with forked children; small pages */
};

struct pages {
	void *p;      /* `bytes` rounded up to 64, aligned to 64 */
	size_t bytes; /* as requested */
	void *map;
	size_t map_bytes;
};

/* Touches no memory. E_NOMEM: *g is closed. */
int pages_open(struct pages *g, size_t bytes, enum pages_kind kind) MUST_CHECK;
void pages_close(struct pages *g); /* a zeroed one counts as closed */

#endif
