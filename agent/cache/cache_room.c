/* SPDX-License-Identifier: Apache-2.0 */
/* Makes room under the cap and on the disk: evicts code and records in a fixed order. */
#include "agent/cache/cache_parts.h"
#include "platform/base/log.h"

#include <stdlib.h>

static bool lives(const struct slot *s)
{
	return s->type && s->n != GONE && s->seg != NOWHERE && !s->leaves;
}

static int key_order(const void *a, const void *b)
{
	const struct key *x = a, *y = b;
	if (x->hi != y->hi)
		return x->hi < y->hi ? -1 : 1;
	return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* The keys of the code that records name, sorted. */
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

/* Evicts the first live slots of a list until at most `left` of `live` bytes remain. */
struct eviction {
	int64_t live, left;
	int n; /* slots that are evicted */
	const struct keys *but;
	bool durable; /* waiting puts stay */
};

static void evict(struct eviction *e, struct slot *const *list, int n)
{
	for (int i = 0; i < n && e->live > e->left; i++) {
		struct slot *s = list[i];
		if (!lives(s) || (e->durable && s->seg == IN_MEMORY) ||
		    (e->but &&
		     bsearch(&s->key, e->but->key, (size_t)e->but->n, sizeof *e->but->key, key_order)))
			continue;
		e->live -= cache_slot_bytes(s);
		e->n++;
		s->leaves = true;
	}
}

/* Evicts code that no live record names, except the newest piece, whose record may not be put yet; then the
 * oldest code, waiting puts last. */
static void evict_code(struct cache *c, int64_t live, int64_t left)
{
	struct arena a = {0};
	int n;
	struct keys used = code_keys(c, &a);
	struct slot **list = cache_to_keep(c, SEG_CODE, &a, &n);
	struct eviction e = {.live = live, .left = left, .but = &used, .durable = true};
	evict(&e, list, n - 1);
	e.but = NULL;
	e.durable = false;
	evict(&e, list, n);
	c->evicted[SEG_CODE] += e.n;
	arena_free(&a);
}

static void evict_records(struct cache *c, int64_t live, int64_t left)
{
	struct arena a = {0};
	int n;
	struct slot **list = cache_to_keep(c, SEG_RECORDS, &a, &n);
	struct eviction e = {.live = live, .left = left, .durable = true};
	log_info("hone: cache %s is full (%lld of %lld bytes are records): removing the oldest records; see "
		 "--cache-limit",
		 cache_dir(c), (long long)live, (long long)c->o.cap_bytes);
	evict(&e, list, n);
	c->evicted[SEG_RECORDS] += e.n;
	arena_free(&a);
}

static bool has_code(const struct cache *c)
{
	for (size_t i = 0; i < c->nslots; i++) {
		const struct slot *s = &c->slot[i];
		if (s->type == CACHE_CODE && lives(s) &&
		    (s->seg == IN_MEMORY || cache_top_seg(c, &c->seg[s->seg])))
			return true;
	}
	return false;
}

static int64_t file_bytes(const struct cache *c)
{
	int64_t n = 0;
	for (int i = 0; i < c->nsegs; i++)
		n += cache_top_seg(c, &c->seg[i]) ? c->seg[i].size : 0;
	return n;
}

static bool has_room(const struct cache *c, int64_t need)
{
	return file_bytes(c) + need <= c->o.cap_bytes;
}

/* The segment of code with the lowest number; -1: none. */
static int oldest_code(const struct cache *c)
{
	int at = -1;
	for (int i = 0; i < c->nsegs; i++)
		if (cache_top_seg(c, &c->seg[i]) && c->seg[i].kind == SEG_CODE &&
		    (at < 0 || c->seg[i].number < c->seg[at].number))
			at = i;
	return at;
}

/* If the disk has no room even for a copy, removes the oldest code files whole until as much remains as a
 * copy would have left. So the next copy is tried only when as much has been written again. */
static void drop_code_files(struct cache *c, int64_t need)
{
	for (int at; !has_room(c, need + c->o.cap_bytes / 4) && (at = oldest_code(c)) >= 0;) {
		for (size_t i = 0; i < c->nslots; i++) {
			struct slot *s = &c->slot[i];
			if (!s->type || s->seg != at)
				continue;
			c->evicted[SEG_CODE] += s->n != GONE;
			s->seg = NOWHERE;
		}
		cache_remove_seg(c, &c->seg[at]);
		if (c->active[SEG_CODE] == at)
			c->active[SEG_CODE] = -1;
	}
}

/* True: some records could not be read, or may not be durable: a copy might lose them. */
static bool records_unread(const struct cache *c)
{
	bool code = false, rest = false;
	for (int i = 0; i < c->nsegs; i++) {
		const struct seg *s = &c->seg[i];
		if (cache_top_seg(c, s) && s->unread)
			*(s->kind == SEG_CODE ? &code : &rest) = true;
	}
	return rest || (c->layer[c->nlayers - 1].unread && !code);
}

/* The bytes of code that may stay: after a copy a fourth of the cap is free, or, if records take up more than
 * the rest, half of the space that they leave. */
static int64_t code_left(const struct cache *c, enum seg_kind kind, int64_t need, int64_t recs)
{
	int64_t left = c->o.cap_bytes / 4 * 3 - recs, half = (c->o.cap_bytes - recs) / 2;
	if (kind == SEG_CODE)
		left = left > half ? left : half;
	else
		left -= need;
	return left < 0 ? 0 : left;
}

static void leave_code(struct cache *c, int64_t left)
{
	struct cache_bytes code = cache_count(c, SEG_CODE);
	int64_t live = code.live + code.waiting;
	if (live > left)
		evict_code(c, live, left);
}

/* Drops waiting code that would not fit even if all other code went, before flash is written for it. */
static bool drop_too_large(struct cache *c, int64_t left)
{
	int n = 0;
	for (size_t i = 0; i < c->nslots; i++) {
		struct slot *s = &c->slot[i];
		if (s->type != CACHE_CODE || !lives(s) || s->seg != IN_MEMORY || cache_slot_bytes(s) <= left)
			continue;
		s->leaves = true;
		n++;
	}
	if (!n)
		return false;
	c->evicted[SEG_CODE] += n;
	cache_have_left(c, SEG_CODE, true);
	log_more("cache %s: its records leave %lld bytes for code: larger code is not kept (kernels: %d)",
		 cache_dir(c), (long long)left, n);
	return true;
}

/* For code, records are copied only if that frees much room, since each copy wears flash. Free space in the
 * active segment does not count as freed: the next records need it, and would evict for it. It counts if the
 * files exceed the cap. */
static bool copies_records(const struct cache *c, enum seg_kind kind, const struct cache_bytes *recs)
{
	int at = c->active[SEG_RECORDS];
	int64_t kept = at < 0 || recs->size >= c->o.cap_bytes ? 0 : c->seg[at].size - c->seg[at].end;
	return kind == SEG_RECORDS || recs->size - recs->live - kept >= c->o.cap_bytes / 8;
}

/* Logs one line per process, since a tuning run at its cap evicts again and again. */
static void tell_evicted(struct cache *c)
{
	int n = c->evicted[SEG_CODE];
	if (n && !c->told_evicted++)
		log_info("hone: cache %s is at its limit of %lld bytes: removing the oldest code; see "
			 "--cache-limit",
			 cache_dir(c), (long long)c->o.cap_bytes);
	if (n)
		log_more("cache %s: removed the code of %d kernel%s", cache_dir(c), n, plural_s(n));
}

static int make_room(struct cache *c, enum seg_kind kind, int64_t need)
{
	bool unread = records_unread(c), no_room;
	struct cache_bytes recs = cache_count(c, SEG_RECORDS);
	bool copies = !unread && copies_records(c, kind, &recs);
	int64_t code = code_left(c, kind, need, (copies ? recs.live : recs.size) + recs.waiting);
	if (kind == SEG_CODE && drop_too_large(c, code) && has_room(c, 0))
		return E_OK;
	leave_code(c, code);
	int rc = cache_compact_kind(c, SEG_CODE, &no_room);
	if (rc < 0 && no_room)
		drop_code_files(c, need);
	if (rc < 0 && (has_code(c) || kind == SEG_CODE))
		return rc;
	if (kind == SEG_CODE ? !copies : unread && has_room(c, need))
		return rc;
	int64_t live = recs.live + recs.waiting, left = c->o.cap_bytes / 4 * 3 - need;
	if (unread)
		log_info("hone: cache %s: removing records that cannot be read, to make room", cache_dir(c));
	if (kind == SEG_RECORDS && live > left && !has_code(c))
		evict_records(c, live, left < 0 ? 0 : left);
	int copied = cache_compact_kind(c, SEG_RECORDS, &no_room);
	return rc < 0 ? rc : copied;
}

int cache_make_room(struct cache *c, enum seg_kind kind, int64_t need)
{
	const struct layer *top = &c->layer[c->nlayers - 1];
	int waiting = c->waiting, rc = E_OK;
	if (has_room(c, need))
		return E_OK;
	if (top->unread || top->unopened) /* it may be readable now */
		rc = cache_reload(c);
	if (rc < 0 || has_room(c, need))
		return rc;
	if (top->unopened)
		return fail_in(cache_nothing_unread(c), "full");
	c->evicted[SEG_CODE] = c->evicted[SEG_RECORDS] = 0;
	rc = make_room(c, kind, need);
	tell_evicted(c);
	if (rc < 0)
		log_more("%s: the cache is not compacted", err_text());
	bool room = rc >= 0 || c->waiting < waiting || has_room(c, need);
	bool hid = (c->evicted[SEG_CODE] || c->evicted[SEG_RECORDS]) && cache_has_lower(c);
	cache_index_tidy(c);
	rc = room ? E_OK : fail_in(E_IO, "full");
	return rc >= 0 && hid ? cache_reload(c) : rc; /* evicted records hid those of a lower layer */
}

/* An upper bound: waiting puts may be of either kind. */
static int64_t to_be_written(const struct cache *c, int64_t more)
{
	const struct seg *s = c->active[SEG_RECORDS] >= 0 ? &c->seg[c->active[SEG_RECORDS]] : NULL;
	int64_t bytes = more + (int64_t)c->bytes.n + (int64_t)(REC_HEAD + REC_CRC) * c->waiting +
			2 * (SEG_HEAD + REC_HEAD + MARK_BYTES + REC_CRC);
	return s && s->end + bytes <= s->size ? bytes : bytes + cache_segment_bytes(c, SEG_RECORDS);
}

int cache_has_room(struct cache *c, size_t n)
{
	int64_t more = REC_HEAD + (int64_t)n + REC_CRC;
	if (c->lock_fd < 0)
		return 1;
	if ((int64_t)n > c->o.cap_bytes / 4)
		return 0;
	if (has_room(c, to_be_written(c, more)))
		return 1;
	struct cache_bytes code = cache_count(c, SEG_CODE), recs = cache_count(c, SEG_RECORDS);
	int64_t all = code.live + code.waiting + recs.live + recs.waiting + more;
	if (all + cache_segment_bytes(c, SEG_RECORDS) > c->o.cap_bytes / 4 * 3 || cache_nothing_unread(c) < 0)
		return 0;
	int rc = cache_compact(c);
	return rc < 0 ? rc : has_room(c, to_be_written(c, more));
}
