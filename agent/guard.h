/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that ends at a page which may not be touched: a kernel that runs over its buffer crashes instead of
 * lying. The start is 64-byte aligned, so up to 60 bytes may lie between the end and the page. */
#ifndef AGENT_GUARD_H
#define AGENT_GUARD_H

#include "platform/err.h"
#include <stdbool.h>
#include <stddef.h>

struct guard {
	void *p;      /* `bytes` rounded up to 64; zeroed */
	size_t bytes; /* as asked for */
	void *map;
	size_t map_bytes;
};

int guard_open(struct guard *g, size_t bytes, bool shared /* with forked children */) MUST_CHECK;
void guard_close(struct guard *g); /* a zeroed guard is closed */

#endif
