/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache_parts.h"
#include "platform/disk.h"
#include "platform/log.h"

#include <stdlib.h>
#include <string.h>

enum {
	LEAST_DEAD = 256 << 10, /* less is not worth writing all that lives once more */
	MANY_GONE = 1 << 14,    /* of each kind that are remembered as forgotten: 540 KiB */
};

static bool lives(const struct slot *s)
{
	return s->type && s->n != GONE && s->seg != NOWHERE;
}

static bool on_top(const struct cache *c, const struct slot *s)
{
	return s->type && s->seg < MAX_SEGS && cache_top_seg(c, &c->seg[s->seg]);
}

static bool waits(const struct slot *s)
{
	return s->type && s->seg == IN_MEMORY;
}

/* A layer below may hold what is forgotten. */
static bool has_lower(const struct cache *c)
{
	for (int i = 0; i < c->nsegs; i++)
		if (c->seg[i].fd >= 0 && c->seg[i].layer < c->nlayers - 1)
			return true;
	return false;
}

static bool is_kept(const struct cache *c, const struct slot *s, enum seg_kind kind)
{
	return (on_top(c, s) || waits(s)) && cache_kind(s->type) == kind && !s->leaves;
}

/* The slots of a kind that a copy of the uppermost layer keeps, in order: what lives, and what was forgotten:
 * the seed that it hides may be mounted another time. What waits is among them: the copy loses the record
 * that it takes the place of. */
static struct slot **to_keep(struct cache *c, enum seg_kind kind, struct arena *a, int *n)
{
	struct slot **list = ARENA_ARRAY(a, struct slot *, c->nused + 1);
	*n = 0;
	for (size_t i = 0; i < c->nslots; i++)
		if (is_kept(c, &c->slot[i], kind))
			list[(*n)++] = &c->slot[i];
	qsort_r(list, (size_t)*n, sizeof *list, cache_order_slots, c);
	return list;
}

/* Where nothing lies below, the oldest of very many tombstones go. */
static void drop_gone(struct cache *c, enum seg_kind kind)
{
	struct arena a = {0};
	int n, gone = 0;
	if (has_lower(c))
		return;
	struct slot **list = to_keep(c, kind, &a, &n);
	for (int i = n; i-- > 0;)
		if (list[i]->n == GONE && !waits(list[i]) && ++gone > MANY_GONE)
			list[i]->leaves = true;
	arena_free(&a);
}

/* Those that were to leave have left with a copy, or stay for want of one. */
static void have_left(struct cache *c, enum seg_kind kind, bool copied)
{
	for (size_t i = 0; i < c->nslots; i++) {
		struct slot *s = &c->slot[i];
		if (!s->leaves || cache_kind(s->type) != kind)
			continue;
		s->leaves = false;
		s->seg = copied ? NOWHERE : s->seg;
	}
}

/* The copy counts; what it replaces goes. */
static void switch_to(struct cache *c, const struct copy *w, int seg)
{
	for (int i = 0; i < w->n; i++) {
		struct slot *s = w->slot[i];
		if (waits(s)) {
			c->put[s->at].done = true;
			c->waiting--;
		}
		s->seg = w->at[i] < 0 ? NOWHERE : (uint16_t)seg;
		s->at = w->at[i];
	}
	for (int i = 0; i < c->nsegs; i++)
		if (i != seg && cache_top_seg(c, &c->seg[i]) && c->seg[i].kind == w->s.kind)
			cache_remove_seg(c, &c->seg[i]);
	c->active[w->s.kind] = -1;
	c->generation = cache_next_generation(c);
}

/* Copies what lives of one kind to a new segment that replaces the others. */
static int compact_kind(struct cache *c, enum seg_kind kind)
{
	struct arena a = {0};
	struct copy w = {.c = c, .dir = cache_dir(c), .temp = CACHE_TEMP_FILE, .marks = true};
	drop_gone(c, kind);
	w.slot = to_keep(c, kind, &a, &w.n);
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
	else /* the copy may have got its name for good: what is appended to older segments would not count */
		c->active[kind] = -1;
	have_left(c, kind, rc >= 0);
	arena_free(&a);
	return rc < 0 ? rc : E_OK;
}

struct bytes {
	int64_t live, good;
	int files;
};

static struct bytes count(const struct cache *c, enum seg_kind kind)
{
	struct bytes b = {0};
	for (int i = 0; i < c->nsegs; i++)
		if (cache_top_seg(c, &c->seg[i]) && c->seg[i].kind == kind) {
			b.good += c->seg[i].end - c->seg[i].start;
			b.files++;
		}
	for (size_t i = 0; i < c->nslots; i++)
		if (on_top(c, &c->slot[i]) && cache_kind(c->slot[i].type) == kind)
			b.live += cache_slot_bytes(&c->slot[i]);
	return b;
}

static int nothing_unread(const struct cache *c)
{
	const struct layer *top = &c->layer[c->nlayers - 1];
	if (top->unopened)
		return fail(
		    E_IO,
		    "cache %s: %d of its files could not be opened: nothing of it is thrown away; make "
		    "them readable, or remove them",
		    top->dir, top->unopened);
	return top->unread ? fail(E_IO, "cache %s could not be read in full: it stays as it is", top->dir)
			   : E_OK;
}

/* What is in both kinds: packs, and the old format. Once both are copied it goes. */
static bool has_mixed(const struct cache *c)
{
	bool mixed = false;
	for (int i = 0; i < c->nsegs; i++)
		mixed |= cache_top_seg(c, &c->seg[i]) && c->seg[i].kind == SEG_MIXED;
	return mixed;
}

static int compact_all(struct cache *c)
{
	int rc = compact_kind(c, SEG_CODE);
	if (rc >= 0)
		rc = compact_kind(c, SEG_RECORDS);
	else
		have_left(c, SEG_RECORDS, false);
	for (int i = 0; i < c->nsegs && rc >= 0; i++)
		if (cache_top_seg(c, &c->seg[i]) && c->seg[i].kind == SEG_MIXED)
			cache_remove_seg(c, &c->seg[i]);
	return rc;
}

int cache_compact(struct cache *c)
{
	if (c->lock_fd < 0)
		return fail(E_USAGE, "cache %s was opened for reading", cache_dir(c));
	int rc = cache_hold(c);
	if (rc >= 0)
		rc = nothing_unread(c);
	if (rc >= 0)
		rc = cache_flush(c);
	return rc < 0 ? rc : compact_all(c);
}

void cache_compact_at_open(struct cache *c)
{
	int rc = nothing_unread(c);
	if (rc < 0) /* that was said */
		return;
	if (has_mixed(c)) {
		log_more("cache %s: taking over %s and packs", cache_dir(c), CACHE_OLD_FILE);
		rc = compact_all(c);
	}
	for (int kind = SEG_RECORDS; kind <= SEG_CODE && rc >= 0; kind++) {
		struct bytes b = count(c, (enum seg_kind)kind);
		int64_t dead = b.good - b.live;
		if ((dead > LEAST_DEAD && dead * 2 > b.good) || b.files > MANY_SEGS)
			rc = compact_kind(c, (enum seg_kind)kind);
	}
	if (rc < 0)
		log_more("%s: it stays as it is", err_text());
}

static int key_order(const void *a, const void *b)
{
	const struct key *x = a, *y = b;
	if (x->hi != y->hi)
		return x->hi < y->hi ? -1 : 1;
	return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* The keys of the code that records lead to, sorted. */
struct keys {
	struct key *key;
	int n;
};

static struct keys code_keys(struct cache *c, struct arena *a)
{
	struct arena text = {0};
	struct keys k = {ARENA_ARRAY(a, struct key, c->nused + 1), 0};
	for (size_t i = 0; i < c->nslots; i++) {
		struct rec r;
		arena_reset(&text);
		if (c->slot[i].type == CACHE_REC && lives(&c->slot[i]) &&
		    cache_get_rec(c, c->slot[i].key, &text, &r) >= 0)
			k.key[k.n++] = code_key(&r);
	}
	arena_free(&text);
	qsort(k.key, (size_t)k.n, sizeof *k.key, key_order);
	return k;
}

/* Evicts from a list until at most `left` of `live` bytes do. Returns the bytes that stay. */
static int64_t evict(struct slot *const *list, int n, int64_t live, int64_t left, const struct keys *but)
{
	for (int i = 0; i < n && live > left; i++) {
		if (!lives(list[i]) || waits(list[i]) || list[i]->leaves ||
		    (but && bsearch(&list[i]->key, but->key, (size_t)but->n, sizeof *but->key, key_order)))
			continue;
		live -= cache_slot_bytes(list[i]);
		list[i]->leaves = true;
	}
	return live;
}

/* Code of no record that lives, but for the newest, whose record may be on its way; then the oldest. */
static void evict_code(struct cache *c, int64_t live, int64_t left)
{
	struct arena a = {0};
	int n;
	struct keys used = code_keys(c, &a);
	struct slot **list = to_keep(c, SEG_CODE, &a, &n);
	live = evict(list, n - 1, live, left, &used);
	live = evict(list, n, live, left, NULL);
	log_more("cache %s: code is evicted; %lld bytes of it stay", cache_dir(c), (long long)live);
	arena_free(&a);
}

static void evict_records(struct cache *c, int64_t live, int64_t left)
{
	struct arena a = {0};
	int n;
	struct slot **list = to_keep(c, SEG_RECORDS, &a, &n);
	log_info("hone: cache %s is full of records (%lld of %lld bytes): the oldest go", cache_dir(c),
		 (long long)live, (long long)c->o.cap_bytes);
	evict(list, n, live, left, NULL);
	arena_free(&a);
}

static int64_t waiting_bytes(const struct cache *c)
{
	int64_t n = 0;
	for (size_t i = 0; i < c->nslots; i++)
		n += waits(&c->slot[i]) ? cache_slot_bytes(&c->slot[i]) : 0;
	return n;
}

int cache_make_room(struct cache *c, int64_t need)
{
	int64_t files = 0, left = c->o.cap_bytes / 4 * 3 - need;
	for (int i = 0; i < c->nsegs; i++)
		files += cache_top_seg(c, &c->seg[i]) ? c->seg[i].size : 0;
	if (files + need <= c->o.cap_bytes)
		return E_OK;
	int rc = nothing_unread(c);
	if (c->layer[c->nlayers - 1].unopened)
		return fail_in(rc, "full");
	if (rc < 0) /* for good, it seems: the disk must not fill up for it */
		log_info("hone: cache %s: what cannot be read is given up", cache_dir(c));
	struct bytes code = count(c, SEG_CODE), recs = count(c, SEG_RECORDS);
	left -= waiting_bytes(c); /* which the copies take in */
	left = left < 0 ? 0 : left;
	if (recs.live + code.live > left && code.live)
		evict_code(c, code.live, left > recs.live ? left - recs.live : 0);
	if (recs.live > left)
		evict_records(c, recs.live, left);
	if (compact_all(c) < 0)
		log_more("%s: it stays as it is", err_text());
	return E_OK;
}
