/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/cache_parts.h"

#include <stdlib.h>
#include <string.h>

struct slot *cache_slot(const struct cache *c, uint8_t type, struct key k)
{
	uint64_t mixed = ((k.lo ^ c->odd) * ((k.hi ^ (c->odd << 32)) | 1) + type) * c->odd;
	size_t i = (size_t)(mixed >> 32) & (c->nslots - 1);
	while (c->slot[i].type && !(c->slot[i].type == type && key_equal(c->slot[i].key, k)))
		i = (i + 1) & (c->nslots - 1);
	return &c->slot[i];
}

static int grow(struct cache *c)
{
	struct slot *old = c->slot;
	size_t n = c->nslots, want = n ? n * 2 : 256;
	struct slot *fresh = calloc(want, sizeof *fresh);
	if (!fresh)
		return fail(E_NOMEM, "no memory to index the cache");
	c->slot = fresh;
	c->nslots = want;
	for (size_t i = 0; i < n; i++)
		if (old[i].type)
			*cache_slot(c, old[i].type, old[i].key) = old[i];
	free(old);
	return E_OK;
}

int cache_index_start(struct cache *c)
{
	c->odd = seg_salt() | 1;
	return grow(c);
}

void cache_index_tidy(struct cache *c)
{
	size_t gone = 0, want = 256;
	for (size_t i = 0; i < c->nslots; i++)
		gone += c->slot[i].type && c->slot[i].seg == NOWHERE;
	while (want <= (c->nused - gone) * 2)
		want *= 2;
	struct slot *old = c->slot, *fresh = gone ? calloc(want, sizeof *fresh) : NULL;
	if (!fresh) /* the old index stays in use */
		return;
	size_t n = c->nslots;
	c->slot = fresh;
	c->nslots = want;
	c->nused -= gone;
	for (size_t i = 0; i < n; i++)
		if (old[i].type && old[i].seg != NOWHERE)
			*cache_slot(c, old[i].type, old[i].key) = old[i];
	free(old);
}

enum seg_kind cache_kind(uint8_t type)
{
	return type == CACHE_CODE ? SEG_CODE : SEG_RECORDS;
}

int64_t cache_slot_bytes(const struct slot *s)
{
	return REC_HEAD + (s->n == GONE ? 1 : (int64_t)s->n) + REC_CRC;
}

/* A key may have several places; the one of the highest rank counts. */
static int rank(const struct cache *c, int seg)
{
	return seg == NOWHERE ? -1 : seg == IN_MEMORY ? MAX_LAYERS : c->seg[seg].layer;
}

/* A cache that was given no cap takes the last writer's, which may have filled it. */
static void take_cap(struct cache *c, struct cur *m)
{
	uint64_t cap = cur_u64(m);
	if (!m->bad && cap <= CACHE_MOST_BYTES)
		c->o.cap_bytes = (int64_t)cap > CAP_BYTES ? (int64_t)cap : CAP_BYTES;
}

/* Takes the counts of a batch mark. A pack's mark is ignored: it counts another cache's batches. A folder
 * that this process may not write counts for the generation, so that the generation does not fall when the
 * user's folder lies above it. */
static void take_mark(struct cache *c, int seg, const struct head *h, const uint8_t *payload)
{
	struct cur m = {.p = payload, .n = h->n};
	uint64_t generation = cur_u64(&m), written = cur_u64(&m);
	if (m.bad || seg == IN_MEMORY || !c->seg[seg].own || c->layer[c->seg[seg].layer].seed)
		return;
	if (generation > MOST_COUNTED || written > MOST_COUNTED)
		return;
	c->generation = generation > c->generation ? generation : c->generation;
	if (!cache_top_seg(c, &c->seg[seg]))
		return;
	if (!c->cap_given && !c->seg[seg].foreign && generation == c->generation)
		take_cap(c, &m);
	if ((int64_t)written > c->written_bytes)
		c->written_bytes = (int64_t)written;
}

struct head cache_slot_head(const struct slot *s)
{
	return s->adopted ? (struct head){.n = s->n}
			  : (struct head){.n = s->n, .type = s->type, .key = s->key};
}

static bool is_foreign(const struct cache *c, int seg)
{
	return seg != IN_MEMORY && seg != NOWHERE && c->seg[seg].foreign;
}

static bool is_stranger(uint8_t type)
{
	return type == CACHE_HINT || type == CACHE_HINT_CHOICES;
}

/* Records that this process put have their right names already. A program that only reads does not use
 * hints. */
static int adopt(struct cache *c, int seg, struct head *h, const uint8_t *payload)
{
	bool foreign = is_foreign(c, seg);
	if (!CACHE_WRITES)
		return !foreign;
	return seg == IN_MEMORY ? 1 : cache_adopt(c, foreign, h, payload);
}

int cache_index(struct cache *c, int seg, const struct head *h, const uint8_t *payload, int64_t at)
{
	struct head now = *h;
	bool forget = h->type == CACHE_FORGET && h->n == 1, foreign = is_foreign(c, seg);
	if (forget)
		now.type = payload[0];
	if (forget && CACHE_WRITES)
		cache_adopted_name(c, foreign, &now.type, &now.key);
	if (now.type == CACHE_MARK)
		take_mark(c, seg, h, payload);
	if (!cache_keeps(now.type) || now.type == CACHE_FORGET)
		return 1;
	int named = forget ? is_stranger(now.type) || !foreign : adopt(c, seg, &now, payload);
	if (named <= 0)
		return named < 0 ? named : 1;
	if (c->nused * 2 >= c->nslots) {
		int rc = grow(c);
		if (rc < 0)
			return rc;
	}
	struct slot *s = cache_slot(c, now.type, now.key);
	if (s->type && (rank(c, s->seg) > rank(c, seg) || (foreign && !is_foreign(c, s->seg))))
		return 1;
	c->nused += s->type == 0;
	*s = (struct slot){
	    .key = now.key, .at = at, .n = forget ? GONE : h->n, .seg = (uint16_t)seg, .type = now.type};
	s->former = named == ADOPTED_FORMER;
	c->nformer += s->former;
	s->adopted = !forget && (now.type != h->type || !key_equal(now.key, h->key));
	return 1;
}

void cache_index_clear(struct cache *c)
{
	memset(c->slot, 0, c->nslots * sizeof *c->slot);
	if (CACHE_WRITES)
		cache_adopt_clear(c);
	c->nused = 0;
	for (int i = 0; i < c->nputs; i++) {
		const struct put *p = &c->put[i];
		if (p->done)
			continue;
		struct slot *s = cache_slot(c, p->of, p->h.key);
		c->nused += s->type == 0;
		*s = (struct slot){.key = p->h.key,
				   .at = i,
				   .n = p->h.type == CACHE_FORGET ? GONE : p->h.n,
				   .seg = IN_MEMORY,
				   .type = p->of};
	}
}

int cache_order(const void *slot_a, const void *slot_b, void *cache)
{
	const struct slot *a = slot_a, *b = slot_b;
	const struct cache *c = cache;
	int ra = rank(c, a->seg), rb = rank(c, b->seg);
	if (ra != rb)
		return ra < rb ? -1 : 1;
	if (a->seg != b->seg && ra >= 0 && ra < MAX_LAYERS) {
		bool own = c->seg[a->seg].own;
		uint64_t i = c->seg[a->seg].number, j = c->seg[b->seg].number;
		if (own != c->seg[b->seg].own)
			return own ? 1 : -1;
		if (i != j)
			return i < j ? -1 : 1;
		return a->seg < b->seg ? -1 : 1;
	}
	return a->at < b->at ? -1 : a->at > b->at;
}

int cache_order_slots(const void *a, const void *b, void *cache)
{
	return cache_order(*(struct slot *const *)a, *(struct slot *const *)b, cache);
}
