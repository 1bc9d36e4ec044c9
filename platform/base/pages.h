/* SPDX-License-Identifier: Apache-2.0 */
/* Zeroed memory from the system for what kernels read and write, in huge pages where there are such: a tile
 * of a 1x1 convolution with 1024 channels touches 128 small ones, more than many cores keep addresses of.
 * (Where our figures were taken, trials of such took as long in small ones.) */
#ifndef PLATFORM_PAGES_H
#define PLATFORM_PAGES_H

#include "platform/base/err.h"
#include <stddef.h>

enum pages_kind {
	PAGES_PLAIN,   /* begins at a page; a rest below 1 MiB behind the last huge page is in small ones */
	PAGES_GUARDED, /* ends, but for up to 60 bytes, at a page that may not be touched: a kernel that runs
			  over its buffer crashes instead of lying. From 64 KiB on all in huge pages, as it
			  would be in the middle of something larger */
	PAGES_SHARED,  /* guarded, with forked children too; small pages */
};

struct pages {
	void *p;      /* `bytes` rounded up to 64, aligned to 64 */
	size_t bytes; /* as asked for */
	void *map;
	size_t map_bytes;
};

/* No memory is touched. E_NOMEM: then *g is closed. */
int pages_open(struct pages *g, size_t bytes, enum pages_kind kind) MUST_CHECK;
void pages_close(struct pages *g); /* zeroed ones are closed */

#endif
