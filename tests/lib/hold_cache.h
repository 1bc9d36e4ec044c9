/* SPDX-License-Identifier: Apache-2.0 */
/* Another process that writes a cache, for tests of what waits for it. */
#ifndef TESTS_HOLD_CACHE_H
#define TESTS_HOLD_CACHE_H

#include "agent/cache/cache.h"
#include "tests/lib/test.h"
#include <unistd.h>

/* A child that holds the cache's lock for so long, or until it is killed. */
static pid_t hold_cache(const char *cache_at, int ms)
{
	int ready[2];
	char one = 0;
	if (pipe(ready) < 0)
		abort();
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		struct cache *c;
		if (cache_open(&c, cache_at, false, 0) < 0 || write(ready[1], "x", 1) != 1)
			_exit(1);
		usleep((useconds_t)ms * 1000);
		cache_close(c);
		_exit(0);
	}
	close(ready[1]);
	CHECK(read(ready[0], &one, 1) == 1);
	close(ready[0]);
	return pid;
}

#endif
