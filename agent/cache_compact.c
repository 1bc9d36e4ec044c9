/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache_parts.h"
#include "platform/disk.h"
#include "platform/log.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	CHUNK = 1 << 20,
	LEAST_DEAD = 256 << 10, /* less is not worth writing all that lives once more */
};

static int64_t slot_bytes(const struct slot *s)
{
	return REC_HEAD + (s->n == GONE ? 1 : (int64_t)s->n) + REC_CRC;
}

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

static bool has_lower(const struct cache *c)
{
	for (int i = 0; i < c->nsegs; i++)
		if (c->seg[i].fd >= 0 && c->seg[i].layer < c->nlayers - 1)
			return true;
	return false;
}

static int slot_order(const void *a, const void *b, void *cache)
{
	return cache_order(*(struct slot *const *)a, *(struct slot *const *)b, cache);
}

/* The slots of a kind that a copy of the uppermost layer keeps, in order: what lives, and what hides
 * something in a layer below. What waits is among them: the copy loses the record that it takes the place of.
 */
static struct slot **to_keep(struct cache *c, enum seg_kind kind, struct arena *a, int *n)
{
	struct slot **list = ARENA_ARRAY(a, struct slot *, c->nused + 1);
	bool lower = has_lower(c);
	*n = 0;
	for (size_t i = 0; i < c->nslots; i++) {
		struct slot *s = &c->slot[i];
		if ((on_top(c, s) || waits(s)) && cache_kind(s->type) == kind && (s->n != GONE || lower))
			list[(*n)++] = s;
	}
	qsort_r(list, (size_t)*n, sizeof *list, slot_order, c);
	return list;
}

/* A segment that is being written as a copy. */
struct copy {
	struct cache *c;
	const char *dir;
	struct seg s;
	struct buf out;  /* not written yet */
	int64_t flushed; /* bytes of the file before that */
};

static int refused(const struct copy *w, int rc)
{
	return fail(E_IO, "cache %s: %s; %s", w->dir, strerror(-rc), disk_remedy(rc));
}

static int flush(struct copy *w)
{
	if (!buf_ok(&w->out))
		return fail(E_NOMEM, "no memory to copy the cache");
	int rc = disk->write(w->s.fd, w->out.p, w->out.n, w->flushed);
	w->c->written_bytes += cache_cost(w->flushed, (int64_t)w->out.n);
	w->flushed += (int64_t)w->out.n;
	buf_clear(&w->out);
	return rc < 0 ? refused(w, rc) : E_OK;
}

/* Where a bad record is met it is left out: *at < 0. */
static int copy_slot(struct copy *w, const struct slot *s, struct arena *a, int64_t *at)
{
	struct head h = {.n = s->n, .type = s->type, .key = s->key};
	struct blob b = {.p = &s->type, .n = 1};
	int rc = 1;
	arena_reset(a);
	if (s->n == GONE) {
		h.type = CACHE_FORGET;
		h.n = 1;
	} else if (s->seg == IN_MEMORY) {
		b = (struct blob){w->c->bytes.p + w->c->put[s->at].at, s->n};
	} else {
		uint8_t *p = arena_try(a, REC_HEAD + (size_t)s->n + REC_CRC, 1);
		rc = p ? seg_read(&w->c->seg[s->seg], s->at, &h, p) : E_NOMEM;
		b = (struct blob){p ? p + REC_HEAD : NULL, s->n};
	}
	*at = rc > 0 ? w->flushed + (int64_t)w->out.n : -1;
	if (rc > 0)
		seg_record(&w->out, &w->s, *at, &h, b.p);
	return rc >= 0 && w->out.n >= CHUNK ? flush(w) : rc;
}

static int copy_all(struct copy *w, struct slot *const *list, int n, int64_t *at)
{
	struct arena a = {0};
	int rc = E_OK;
	for (int i = 0; i < n && rc >= 0; i++)
		rc = copy_slot(w, list[i], &a, &at[i]);
	arena_free(&a);
	if (rc >= 0) {
		cache_mark(w->c, &w->out, &w->s, w->flushed + (int64_t)w->out.n);
		rc = flush(w);
	}
	return rc;
}

static void remove_file(const struct cache *c, struct seg *s)
{
	char path[PATH_MAX];
	if (snprintf(path, sizeof path, "%s/%s", cache_dir(c), s->name) < (int)sizeof path)
		disk->unlink(path);
	seg_close(s);
}

/* The copy counts; what it replaces goes. */
static void switch_to(struct cache *c, struct copy *w, int seg, struct slot *const *list, int n,
		      const int64_t *at)
{
	for (int i = 0; i < n; i++) {
		if (waits(list[i])) {
			c->put[list[i]->at].done = true;
			c->waiting--;
		}
		list[i]->seg = at[i] < 0 ? NOWHERE : (uint16_t)seg;
		list[i]->at = at[i];
	}
	for (int i = 0; i < c->nsegs; i++)
		if (i != seg && cache_top_seg(c, &c->seg[i]) && c->seg[i].kind == w->s.kind)
			remove_file(c, &c->seg[i]);
	c->active[w->s.kind] = -1;
	c->generation++;
}

/* Writes DIR/NAME: w->s as seg_create wants it, at[i] where slot i went. On failure there is no such file. */
static int write_copy(struct copy *w, const char *name, unsigned mode, struct slot *const *list, int n,
		      int64_t *at)
{
	char path[PATH_MAX];
	int rc = seg_create(w->dir, SEG_HEAD, mode, &w->s);
	if (rc < 0)
		return rc;
	if (name)
		snprintf(w->s.name, sizeof w->s.name, "%s", name);
	w->flushed = SEG_HEAD;
	rc = copy_all(w, list, n, at);
	int synced = rc < 0 ? 0 : disk->sync(w->s.fd);
	if (synced < 0)
		rc = refused(w, synced);
	w->s.end = w->s.size = w->flushed;
	w->s.good_bytes = w->s.end - w->s.start;
	buf_free(&w->out);
	if (rc >= 0)
		return seg_name(w->dir, &w->s);
	seg_close(&w->s);
	if (snprintf(path, sizeof path, "%s/%s", w->dir, CACHE_TEMP_FILE) < (int)sizeof path)
		disk->unlink(path);
	return rc;
}

/* Copies what lives of one kind to a new segment that replaces the others. */
static int compact_kind(struct cache *c, enum seg_kind kind)
{
	struct arena a = {0};
	struct layer *top = &c->layer[c->nlayers - 1];
	struct copy w = {.c = c, .dir = top->dir};
	int n;
	struct slot **list = to_keep(c, kind, &a, &n);
	int64_t *at = ARENA_ARRAY(&a, int64_t, n + 1);
	w.s = (struct seg){.kind = kind, .number = ++top->last, .layer = c->nlayers - 1};
	w.s.replaces = w.s.number;
	int rc = write_copy(&w, NULL, cache_file_mode(top->dir), list, n, at);
	if (rc >= 0 && (rc = cache_seg_add(c, &w.s)) < 0)
		remove_file(c, &w.s);
	if (rc >= 0)
		switch_to(c, &w, rc, list, n, at);
	else /* the copy may have got its name for good: what is appended to older segments would not count */
		c->active[kind] = -1;
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
	bool lower = has_lower(c);
	for (int i = 0; i < c->nsegs; i++)
		if (cache_top_seg(c, &c->seg[i]) && c->seg[i].kind == kind) {
			b.good += c->seg[i].end - c->seg[i].start;
			b.files++;
		}
	for (size_t i = 0; i < c->nslots; i++)
		if (on_top(c, &c->slot[i]) && cache_kind(c->slot[i].type) == kind &&
		    (lives(&c->slot[i]) || lower))
			b.live += slot_bytes(&c->slot[i]);
	return b;
}

static bool nothing_unread(const struct cache *c)
{
	return !c->layer[c->nlayers - 1].unread;
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
	for (int i = 0; i < c->nsegs && rc >= 0; i++)
		if (cache_top_seg(c, &c->seg[i]) && c->seg[i].kind == SEG_MIXED)
			remove_file(c, &c->seg[i]);
	return rc;
}

int cache_compact(struct cache *c)
{
	if (c->lock_fd < 0)
		return fail(E_USAGE, "cache %s was opened for reading", cache_dir(c));
	if (!nothing_unread(c))
		return fail(E_IO, "cache %s could not be read in full: it stays as it is", cache_dir(c));
	int rc = cache_flush(c);
	return rc < 0 ? rc : compact_all(c);
}

void cache_compact_at_open(struct cache *c)
{
	int rc = E_OK;
	if (!nothing_unread(c))
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

/* The keys of the code that records lead to. */
struct keys {
	struct key *key;
	int n;
};

static int add_code_key(void *ctx, const struct rec *r)
{
	struct keys *k = ctx;
	k->key[k->n++] = code_key(r);
	return 0;
}

static int key_order(const void *a, const void *b)
{
	const struct key *x = a, *y = b;
	if (x->hi != y->hi)
		return x->hi < y->hi ? -1 : 1;
	return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* Evicts from a list until at most `left` of `live` bytes do. Returns the bytes that stay. */
static int64_t evict(struct slot *const *list, int n, int64_t live, int64_t left, const struct keys *but)
{
	for (int i = 0; i < n && live > left; i++) {
		if (!lives(list[i]) || waits(list[i]) ||
		    (but && bsearch(&list[i]->key, but->key, (size_t)but->n, sizeof *but->key, key_order)))
			continue;
		live -= slot_bytes(list[i]);
		list[i]->seg = NOWHERE;
	}
	return live;
}

/* Code of no record that lives, then the oldest. */
static void evict_code(struct cache *c, int64_t live, int64_t left)
{
	struct arena a = {0}, text = {0};
	struct keys used = {ARENA_ARRAY(&a, struct key, c->nused + 1), 0};
	int n;
	struct slot **list = to_keep(c, SEG_CODE, &a, &n);
	if (cache_each_rec(c, &text, add_code_key, &used) >= 0) {
		qsort(used.key, (size_t)used.n, sizeof *used.key, key_order);
		live = evict(list, n, live, left, &used);
	}
	live = evict(list, n, live, left, NULL);
	log_more("cache %s: code was evicted; %lld bytes of it stay", cache_dir(c), (long long)live);
	arena_free(&text);
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

void cache_make_room(struct cache *c, int64_t need)
{
	int64_t files = 0, left = c->o.cap_bytes / 4 * 3 - need;
	for (int i = 0; i < c->nsegs; i++)
		files += cache_top_seg(c, &c->seg[i]) ? c->seg[i].size : 0;
	if (files + need <= c->o.cap_bytes)
		return;
	if (!nothing_unread(c)) /* for good, it seems: the disk must not fill up for it */
		log_info("hone: cache %s: what cannot be read is given up", cache_dir(c));
	struct bytes code = count(c, SEG_CODE), recs = count(c, SEG_RECORDS);
	left = left < 0 ? 0 : left;
	if (recs.live + code.live > left && code.live)
		evict_code(c, code.live, left > recs.live ? left - recs.live : 0);
	if (recs.live > left)
		evict_records(c, recs.live, left);
	if (compact_all(c) < 0)
		log_more("%s: it stays as it is", err_text());
}

/* "DIR/NAME.seg" -> its parts. */
static int split_path(const char *path, char dir[PATH_MAX], const char **name)
{
	const char *slash = strrchr(path, '/');
	*name = slash ? slash + 1 : path;
	size_t n = slash ? (size_t)(slash - path) : 0, end = strlen(*name);
	if (n >= PATH_MAX - 80 || end < 5 || end > 60 || strcmp(*name + end - 4, ".seg") || **name == '.')
		return fail(E_USAGE, "%.80s: a pack is a file NAME.seg, of 60 letters at most", path);
	snprintf(dir, PATH_MAX, "%.*s", slash == path ? 1 : (int)n, slash ? path : "");
	if (!slash)
		snprintf(dir, PATH_MAX, ".");
	return E_OK;
}

int cache_pack(struct cache *c, const char *path, bool with_code)
{
	struct arena a = {0};
	char dir[PATH_MAX];
	const char *name;
	int n = 0, rc = split_path(path, dir, &name);
	if (rc < 0)
		return rc;
	struct slot **list = ARENA_ARRAY(&a, struct slot *, c->nused + 1);
	for (size_t i = 0; i < c->nslots; i++)
		if (lives(&c->slot[i]) && (with_code || c->slot[i].type != CACHE_CODE))
			list[n++] = &c->slot[i];
	qsort_r(list, (size_t)n, sizeof *list, slot_order, c);
	struct copy w = {.c = c, .dir = dir, .s = {.kind = SEG_MIXED, .number = 1}};
	rc = write_copy(&w, name, 0644, list, n, ARENA_ARRAY(&a, int64_t, n + 1));
	if (rc >= 0)
		seg_close(&w.s);
	arena_free(&a);
	return rc < 0 ? rc : n;
}
