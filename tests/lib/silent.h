/* SPDX-License-Identifier: Apache-2.0 */
/* Closes a cache on a disk that has died or is full, without its error messages: the test expects the loss
 * of data. */
#ifndef TESTS_SILENT_H
#define TESTS_SILENT_H

#include "agent/cache/cache.h"

#include <fcntl.h>
#include <unistd.h>

static inline void close_silently(struct cache *c)
{
	int err = dup(2), null = open("/dev/null", O_WRONLY);
	dup2(null, 2);
	cache_close(c);
	dup2(err, 2);
	close(null);
	close(err);
}

#endif
