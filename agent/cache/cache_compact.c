/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/cache_parts.h"
#include "platform/base/log.h"

#include <stdlib.h>
#include <string.h>

enum {
	LEAST_DEAD = 256 << 10, /* less is not worth writing all live records once more */
	MANY_GONE = 1 << 14,    /* tombstones kept of each kind: 540 KiB */
};

static bool on_top(const struct cache *c, const struct slot *s)
{
	return s->type && s->seg < MAX_SEGS && cache_top_seg(c, &c->seg[s->seg]);
}

static bool waits(const struct slot *s)
{
	return s->type && s->seg == IN_MEMORY;
}

bool cache_has_lower(const struct cache *c)
{
	for (int i = 0; i < c->nsegs; i++)
		if (c->seg[i].fd >= 0 && !cache_top_seg(c, &c->seg[i]))
			return true;
	return false;
}

static bool is_kept(const struct cache *c, const struct slot *s, enum seg_kind kind)
{
	return (on_top(c, s) || waits(s)) && cache_kind(s->type) == kind && !s->leaves;
}

struct slot **cache_to_keep(struct cache *c, enum seg_kind kind, struct arena *a, int *n)
{
	struct slot **list = ARENA_ARRAY(a, struct slot *, c->nused + 1);
	*n = 0;
	for (size_t i = 0; i < c->nslots; i++)
		if (is_kept(c, &c->slot[i], kind))
			list[(*n)++] = &c->slot[i];
	qsort_r(list, (size_t)*n, sizeof *list, cache_order_slots, c);
	return list;
}

/* Drops the oldest of very many tombstones, if no layer lies below. */
static void drop_gone(struct cache *c, enum seg_kind kind)
{
	struct arena a = {0};
	int n, gone = 0;
	if (cache_has_lower(c))
		return;
	struct slot **list = cache_to_keep(c, kind, &a, &n);
	for (int i = n; i-- > 0;)
		if (list[i]->n == GONE && !waits(list[i]) && ++gone > MANY_GONE)
			list[i]->leaves = true;
	arena_free(&a);
}

/* Drops a waiting put. */
static void drop_put(struct cache *c, struct slot *s)
{
	c->put[s->at].done = true;
	c->waiting--;
	s->seg = NOWHERE;
}

void cache_have_left(struct cache *c, enum seg_kind kind, bool copied)
{
	for (size_t i = 0; i < c->nslots; i++) {
		struct slot *s = &c->slot[i];
		if (!s->leaves || cache_kind(s->type) != kind)
			continue;
		s->leaves = false;
		if (copied && waits(s))
			drop_put(c, s);
		else if (copied)
			s->seg = NOWHERE;
		else
			c->evicted[kind] -= s->n != GONE;
	}
}

/* Points the slots at the copy, and removes the segments that it replaces. */
static void switch_to(struct cache *c, const struct copy *w, int seg)
{
	for (int i = 0; i < w->n; i++) {
		struct slot *s = w->slot[i];
		if (waits(s))
			drop_put(c, s);
		s->seg = w->at[i] < 0 ? NOWHERE : (uint16_t)seg;
		s->at = w->at[i];
		s->adopted = false;
	}
	for (int i = 0; i < c->nsegs; i++)
		if (i != seg && cache_top_seg(c, &c->seg[i]) && c->seg[i].kind == w->s.kind)
			cache_remove_seg(c, &c->seg[i]);
	c->active[w->s.kind] = -1;
	c->generation = cache_next_generation(c);
}

int cache_compact_kind(struct cache *c, enum seg_kind kind, bool *no_room)
{
	struct arena a = {0};
	struct copy w = {.c = c, .dir = cache_dir(c), .temp = CACHE_TEMP_FILE, .marks = true};
	drop_gone(c, kind);
	w.slot = cache_to_keep(c, kind, &a, &w.n);
	w.at = ARENA_ARRAY(&a, int64_t, w.n + 1);
	w.mode = cache_file_mode(w.dir);
	w.s = (struct seg){.kind = kind, .layer = c->nlayers - 1};
	int rc = cache_next_number(c, &w.s);
	w.s.replaces = w.s.number;
	if (rc >= 0)
		rc = cache_copy(&w);
	if (rc >= 0 && (rc = cache_seg_add(c, &w.s)) < 0)
		cache_remove_seg(c, &w.s);
	if (rc >= 0)
		switch_to(c, &w, rc);
	else if (w.named) /* perhaps durably: records appended to older segments would not count */
		c->active[kind] = -1;
	*no_room = w.s.no_room;
	cache_have_left(c, kind, rc >= 0);
	arena_free(&a);
	return rc < 0 ? rc : E_OK;
}

struct cache_bytes cache_count(const struct cache *c, enum seg_kind kind)
{
	struct cache_bytes b = {0};
	for (int i = 0; i < c->nsegs; i++)
		if (cache_top_seg(c, &c->seg[i]) && c->seg[i].kind == kind) {
			b.good += c->seg[i].end - c->seg[i].start;
			b.size += c->seg[i].size;
			b.damaged += c->seg[i].damaged_bytes;
			b.files++;
		}
	for (size_t i = 0; i < c->nslots; i++) {
		const struct slot *s = &c->slot[i];
		if (cache_kind(s->type) != kind)
			continue;
		b.live += on_top(c, s) ? cache_slot_bytes(s) : 0;
		b.waiting += waits(s) ? cache_slot_bytes(s) : 0;
	}
	return b;
}

int cache_nothing_unread(const struct cache *c)
{
	const struct layer *top = &c->layer[c->nlayers - 1];
	if (top->unopened)
		return fail(E_IO,
			    "cache %s: cannot open %d of its files, so none is compacted; make them "
			    "readable, or remove them",
			    top->dir, top->unopened);
	return top->unread
		   ? fail(E_IO, "cache %s could not be read in full, so it is not compacted", top->dir)
		   : E_OK;
}

static int compact_all(struct cache *c)
{
	bool no_room;
	int rc = cache_compact_kind(c, SEG_CODE, &no_room);
	if (rc >= 0)
		rc = cache_compact_kind(c, SEG_RECORDS, &no_room);
	cache_index_tidy(c);
	return rc;
}

int cache_compact(struct cache *c)
{
	if (c->lock_fd < 0)
		return fail(E_USAGE, "cache %s was opened for reading", cache_dir(c));
	int rc = cache_hold(c);
	if (rc >= 0)
		rc = cache_nothing_unread(c);
	if (rc >= 0)
		rc = cache_flush(c);
	return rc < 0 ? rc : compact_all(c);
}

void cache_compact_at_open(struct cache *c)
{
	bool no_room;
	int rc = cache_nothing_unread(c);
	if (rc < 0) /* cache_layers_load or an earlier line has logged it */
		return;
	for (int kind = SEG_RECORDS; kind <= SEG_CODE && rc >= 0; kind++) {
		struct cache_bytes b = cache_count(c, (enum seg_kind)kind);
		int64_t dead = b.good - b.live;
		if (!b.damaged && (dead <= LEAST_DEAD || dead * 2 <= b.good) && b.files <= MANY_SEGS)
			continue;
		rc = cache_compact_kind(c, (enum seg_kind)kind, &no_room);
		if (rc < 0 || !b.damaged)
			continue;
		c->damaged_bytes -= b.damaged;
		log_info("hone: cache %s: removed a damaged part, %lld bytes; its kernels will be %s again",
			 cache_dir(c), (long long)b.damaged, kind == SEG_CODE ? "compiled" : "tuned");
	}
	if (rc < 0)
		log_more("%s: the cache is not compacted", err_text());
}
