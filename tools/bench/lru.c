/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/lru.h"
#include <string.h>

struct way {
	int64_t line; /* -1: empty */
	bool dirty;
};

struct cache {
	int ways;
	int64_t sets;    /* a power of two; 0: the cache does not exist */
	struct way *way; /* per set, the one that was used last first */
	double in, out;  /* lines */
};

struct lru {
	int line_bytes;
	struct cache level[LRU_LEVELS];
};

int lru_make(struct arena *a, const struct lru_level level[LRU_LEVELS], int line_bytes, struct lru **out)
{
	struct lru *c = *out = ARENA_NEW(a, struct lru);
	if (line_bytes < 4 || line_bytes > 4096)
		return fail(E_USAGE, "a cache line of %d bytes", line_bytes);
	c->line_bytes = line_bytes;
	for (int i = 0; i < LRU_LEVELS; i++) {
		struct cache *k = &c->level[i];
		int64_t lines = level[i].bytes / line_bytes;
		if (!lines)
			continue;
		k->ways = level[i].ways > lines ? (int)lines : level[i].ways;
		if (k->ways < 1)
			return fail(E_USAGE, "a cache of %d ways", level[i].ways);
		for (k->sets = 1; k->sets * 2 * k->ways <= lines;)
			k->sets *= 2;
		k->way = ARENA_ARRAY(a, struct way, k->sets * k->ways);
		for (int64_t w = 0; w < k->sets * k->ways; w++)
			k->way[w].line = -1;
	}
	return E_OK;
}

static void touch_line(struct lru *c, int i, int64_t line, bool writes)
{
	while (i < LRU_LEVELS && !c->level[i].sets)
		i++;
	if (i == LRU_LEVELS)
		return;
	struct cache *k = &c->level[i];
	struct way *set = k->way + (line & (k->sets - 1)) * k->ways;
	int at = 0;
	while (at < k->ways - 1 && set[at].line != line)
		at++;
	struct way found = set[at];
	bool hit = found.line == line;
	if (at)
		memmove(set + 1, set, (size_t)at * sizeof *set);
	set[0] = (struct way){line, writes || (hit && found.dirty)};
	if (hit)
		return;
	k->in++;
	if (found.line >= 0 && found.dirty) {
		k->out++;
		touch_line(c, i + 1, found.line, true);
	}
	touch_line(c, i + 1, line, false);
}

void lru_touch(struct lru *c, int64_t at, int64_t bytes, bool writes)
{
	int64_t last = (at + bytes - 1) / c->line_bytes;
	for (int64_t line = at / c->line_bytes; line <= last; line++)
		touch_line(c, 0, line, writes);
}

void lru_start(struct lru *c)
{
	for (int i = 0; i < LRU_LEVELS; i++)
		c->level[i].in = c->level[i].out = 0;
}

struct lru_moved lru_moved(const struct lru *c)
{
	struct lru_moved m;
	for (int i = 0; i < LRU_LEVELS; i++) {
		m.in[i] = c->level[i].in * c->line_bytes;
		m.out[i] = c->level[i].out * c->line_bytes;
	}
	return m;
}

void lru_drop(struct lru *c, int64_t at, int64_t bytes)
{
	int64_t last = (at + bytes - 1) / c->line_bytes;
	for (int64_t line = at / c->line_bytes; line <= last; line++)
		for (int i = 0; i < LRU_LEVELS; i++) {
			struct cache *k = &c->level[i];
			struct way *set = k->sets ? k->way + (line & (k->sets - 1)) * k->ways : NULL;
			for (int w = 0; set && w < k->ways; w++)
				if (set[w].line == line)
					set[w] = (struct way){-1, false};
		}
}
