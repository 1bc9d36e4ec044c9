/* SPDX-License-Identifier: Apache-2.0 */
/* Records that lie in a segment under another name than the one that they have now: those of a former
 * version, whose keys were a MurmurHash3, and those of a folder that others may write, which are hints. */
#include "agent/cache/cache_parts.h"
#include "agent/cache/hint.h"
#include "agent/cache/trials.h"
#include "platform/base/arena.h"
#include "search/job.h"

#include <stdlib.h>
#include <string.h>

/* Maps the old name of a record to the new one, so that a CACHE_FORGET with the old name finds the record.
 * type 0: the slot is free. */
struct alias {
	struct key old, now;
	uint8_t type; /* the type in the file */
	uint8_t is;   /* the type in the index */
	bool foreign; /* others chose the old key: it says nothing about a record of this board */
};

static struct alias *find_alias(const struct cache *c, bool foreign, uint8_t type, struct key old)
{
	size_t i = (size_t)((old.lo ^ c->odd) * c->odd >> 32) & (c->alias_slots - 1);
	while (c->alias[i].type && !(c->alias[i].type == type && c->alias[i].foreign == foreign &&
				     key_equal(c->alias[i].old, old)))
		i = (i + 1) & (c->alias_slots - 1);
	return &c->alias[i];
}

static int grow(struct cache *c)
{
	struct alias *old = c->alias;
	size_t n = c->alias_slots, want = n ? n * 2 : 256;
	struct alias *fresh = calloc(want, sizeof *fresh);
	if (!fresh)
		return fail(E_NOMEM, "no memory to index the records of a former version");
	c->alias = fresh;
	c->alias_slots = want;
	for (size_t i = 0; i < n; i++)
		if (old[i].type)
			*find_alias(c, old[i].foreign, old[i].type, old[i].old) = old[i];
	free(old);
	return E_OK;
}

static int remember(struct cache *c, bool foreign, const struct head *old, const struct head *now)
{
	int rc = c->naliases * 2 >= c->alias_slots ? grow(c) : E_OK;
	if (rc < 0)
		return rc;
	struct alias *a = find_alias(c, foreign, old->type, old->key);
	c->naliases += !a->type;
	*a = (struct alias){
	    .old = old->key, .now = now->key, .type = old->type, .is = now->type, .foreign = foreign};
	return 1;
}

void cache_adopted_name(const struct cache *c, bool foreign, uint8_t *type, struct key *k)
{
	const struct alias *a = c->naliases ? find_alias(c, foreign, *type, *k) : NULL;
	if (!a || !a->type)
		return;
	*type = a->is;
	*k = a->now;
}

/* Returns 0 if the text is not a readable record, or is a stranger's hint with results of another board. */
static int name_rec(bool foreign, const char *text, struct arena *a, struct head *h)
{
	struct rec r;
	if (rec_parse(text, a, &r) < 0 ||
	    (foreign && (!rec_is_plain(&r) || (r.kind == REC_HINT && !hint_open(&r)))))
		return 0;
	bool hint = foreign || r.kind == REC_HINT;
	r.kind = hint ? REC_HINT : r.kind;
	h->type = hint ? CACHE_HINT : CACHE_REC;
	h->key = rec_key(&r);
	return 1;
}

static int name_trials(const char *text, struct arena *a, struct head *h)
{
	struct trials *l = ARENA_NEW(a, struct trials);
	int rc = trials_parse(text, l);
	if (rc >= 0)
		h->key = trials_key(l);
	trials_free(l);
	return rc >= 0;
}

/* Names a record by its content. */
static int name_anew(struct cache *c, bool foreign, struct head *h, const uint8_t *payload)
{
	struct arena a = {0};
	const struct head old = *h;
	const char *text = arena_strndup(&a, (const char *)payload, h->n);
	int rc = h->type == CACHE_TRIALS ? name_trials(text, &a, h) : name_rec(foreign, text, &a, h);
	arena_free(&a);
	rc = rc > 0 ? remember(c, foreign, &old, h) : 0;
	return rc > 0 && !foreign ? ADOPTED_FORMER : rc;
}

void cache_adopt_clear(struct cache *c)
{
	free(c->alias);
	c->alias = NULL;
	c->naliases = c->alias_slots = 0;
	c->nformer = 0;
}

static bool begins(const struct head *h, const uint8_t *payload, bool (*is)(const char *text))
{
	char text[32] = "";
	memcpy(text, payload, h->n < sizeof text - 1 ? h->n : sizeof text - 1);
	return is(text);
}

int cache_adopt(struct cache *c, bool foreign, struct head *h, const uint8_t *payload)
{
	bool hint = foreign && h->type == CACHE_HINT;
	if (hint || (h->type == CACHE_REC && (foreign || begins(h, payload, rec_is_former))))
		return name_anew(c, foreign, h, payload);
	if (h->type == CACHE_TRIALS && !foreign && begins(h, payload, trials_is_former))
		return name_anew(c, false, h, payload);
	if (foreign && h->type == CACHE_CHOICES)
		h->type = CACHE_HINT_CHOICES;
	return !foreign || h->type == CACHE_HINT_CHOICES;
}

/* The record of a slot, if this cache's own writer wrote it with the former version. */
static bool read_former(struct cache *c, const struct slot *s, struct arena *a, struct rec *out)
{
	struct blob b;
	if (!s->type || !s->former || s->seg == IN_MEMORY || s->seg == NOWHERE || s->n == GONE ||
	    c->seg[s->seg].foreign)
		return false;
	return cache_get(c, s->type, s->key, a, &b) >= 0 && !memchr(b.p, 0, b.n) && rec_parse(b.p, a, out) >= 0;
}

static bool is_claim(struct cache *c, const struct slot *s, struct arena *a)
{
	struct rec best, hint;
	if (s->type != CACHE_REC || !read_former(c, s, a, &best) || best.kind != REC_BEST)
		return false;
	struct rec of = best;
	of.kind = REC_HINT;
	return read_former(c, cache_slot(c, CACHE_HINT, rec_key(&of)), a, &hint) && hint_open(&hint) &&
	       !strcmp(hint.cand, best.cand);
}

void cache_adopt_claims(struct cache *c)
{
	struct arena a = {0};
	for (size_t i = 0; i < c->nslots; i++) {
		struct slot *s = &c->slot[i];
		if (s->former && is_claim(c, s, &a)) {
			s->claim = cache_top_seg(c, &c->seg[s->seg]);
			s->seg = NOWHERE;
		}
		arena_reset(&a);
	}
	arena_free(&a);
}

int cache_forget_claims(struct cache *c)
{
	struct arena a = {0};
	struct key *key = ARENA_ARRAY(&a, struct key, c->nused + 1);
	int n = 0, rc = E_OK;
	for (size_t i = 0; i < c->nslots; i++)
		if (c->slot[i].type == CACHE_REC && c->slot[i].claim && c->slot[i].seg == NOWHERE)
			key[n++] = c->slot[i].key;
	for (int i = 0; i < n && rc >= 0; i++)
		rc = cache_forget(c, CACHE_REC, key[i]);
	arena_free(&a);
	return rc;
}
