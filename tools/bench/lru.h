/* SPDX-License-Identifier: Apache-2.0 */
/* A processor's data caches, simulated: which bytes a sequence of accesses moves between them. Each cache is
 * set-associative, replaces the line that was used least recently, allocates lines that are written, and
 * writes them back when they leave. A line that misses is looked for in the next cache. */
#ifndef TOOLS_LRU_H
#define TOOLS_LRU_H

#include "platform/base/arena.h"
#include "platform/base/err.h"
#include <stdbool.h>

enum { LRU_LEVELS = 3 };

struct lru_level {
	int64_t bytes; /* 0: there is no such cache */
	int ways;      /* of a set; the sets are a power of two: the size is rounded down */
};

struct lru; /* lives in the arena */

int lru_make(struct arena *a, const struct lru_level level[LRU_LEVELS], int line_bytes,
	     struct lru **out) MUST_CHECK;
void lru_touch(struct lru *c, int64_t at, int64_t bytes, bool writes);
/* Bytes that came from behind each level (0: the first one) since the last lru_start, and those that were
 * written back to it; a level that does not exist has none. The last one that exists is in front of memory.
 */
struct lru_moved {
	double in[LRU_LEVELS], out[LRU_LEVELS];
};
void lru_start(struct lru *c); /* sets the counts to 0; the lines stay */
struct lru_moved lru_moved(const struct lru *c);
/* Makes lines go as if other work had used the caches: nothing of it is counted. */
void lru_drop(struct lru *c, int64_t at, int64_t bytes);

#endif
