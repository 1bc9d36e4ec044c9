/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/offered.h"

#include "agent/cache/chosen_rec.h"
#include "agent/cache/hint.h"
#include "agent/cache/history.h"
#include "agent/cache/lookup.h"
#include "agent/cache/stale.h"
#include "search/job.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Choices are sent first, because records of their tasks are useful only together with them. */
static const enum cache_type types[] = {CACHE_CHOICES, CACHE_REC, CACHE_HINT, CACHE_HISTORY};

enum { NTYPES = sizeof types / sizeof *types };

struct mark {
	struct key key, what;
};

struct offered {
	struct cache *cache;
	char cls[33];
	struct key to;
	struct arena arena; /* owns `key` */
	int type, at, n;
	struct key *key; /* of types[type] */
	struct mark *said;
	int nsaid, cap; /* the marks of the lines that offered_next returned, in its order */
};

/* A hint's result is sent as a record of kind "hint". */
static enum cache_type sent_as(enum cache_type t)
{
	return t == CACHE_HINT ? CACHE_REC : t;
}

static struct key mark_key(struct key to, enum cache_type t, struct key k)
{
	return hash_join(to, hash_join(hash_text(exchange_name(sent_as(t))), k));
}

static int put_mark(struct cache *c, const struct mark *m)
{
	char text[33];
	key_text(m->what, text);
	return cache_put(c, CACHE_SHARED, m->key, text, 32);
}

static bool is_marked(struct cache *c, const struct mark *m)
{
	struct arena a = {0};
	struct blob b;
	char text[33];
	key_text(m->what, text);
	bool is = cache_is_own(c, CACHE_SHARED, m->key) && cache_get(c, CACHE_SHARED, m->key, &a, &b) >= 0 &&
		  b.n == 32 && !memcmp(b.p, text, 32);
	arena_free(&a);
	return is;
}

static struct key strangers(void)
{
	return hash_text("strangers");
}

int offered_not_ours(struct cache *c, enum cache_type t, struct key k, const char *text)
{
	return put_mark(c, &(struct mark){mark_key(strangers(), t, k), hash_text(text)});
}

/* Lists the keys of the current type. */
static void list(struct offered *o)
{
	arena_reset(&o->arena);
	o->at = 0;
	o->n = cache_keys(o->cache, types[o->type], &o->arena, &o->key);
}

int offered_open(struct cache *c, const char *cls, const char *to, struct offered **out)
{
	struct offered *o = *out = calloc(1, sizeof *o);
	if (!o)
		return fail(E_NOMEM, "no memory for what is sent");
	o->cache = c;
	o->to = hash_text(to);
	snprintf(o->cls, sizeof o->cls, "%s", cls);
	list(o);
	return E_OK;
}

void offered_close(struct offered *o)
{
	if (!o)
		return;
	arena_free(&o->arena);
	free(o->said);
	free(o);
}

static bool measured_here(struct cache *c, const struct rec *r)
{
	return r->kind != REC_HINT && r->meas.status == MEAS_OK && r->origin != ORIGIN_THROTTLED &&
	       stale_plausible(r) && cache_has_code(c, NULL, r);
}

/* Returns whether a hint was tried and is not this board's best; for the best one, the best's record says
 * more. */
static bool answered(struct cache *c, const struct rec *r, struct arena *a)
{
	struct rec key = *r, best;
	key.kind = REC_BEST;
	return r->kind == REC_HINT && !hint_open(r) && stale_plausible(r) &&
	       (cache_get_rec(c, rec_key(&key), a, &best) < 0 || strcmp(best.cand, r->cand));
}

static bool may_say_rec(struct offered *o, enum cache_type t, struct key *k, struct arena *a,
			const char **text, struct key *what)
{
	struct blob b;
	struct rec r;
	char cls[33], status[64];
	if (cache_get(o->cache, t, *k, a, &b) < 0 || memchr(b.p, 0, b.n) || rec_parse(b.p, a, &r) < 0 ||
	    !key_equal(rec_key(&r), *k))
		return false;
	key_text(r.target_key, cls);
	snprintf(status, sizeof status, "%s %s", rec_kind_name(r.kind), meas_status_name(r.meas.status));
	*text = b.p;
	*what = hash_join(hash_join(hash_text(r.cand), hash_text(r.emitter)), hash_text(status));
	bool may = t == CACHE_HINT ? answered(o->cache, &r, a) : measured_here(o->cache, &r);
	return may && !strcmp(cls, o->cls) && exchange_for_others(o->cache, k, text, a) > 0;
}

/* Hashes a search's final total to two digits, because each box rewrites its history. */
static bool came_to(struct blob b, struct arena *a, struct key *what)
{
	struct history *h = ARENA_NEW(a, struct history);
	char text[32];
	if (history_parse(b.p, b.n, h) < 0 || !h->n)
		return false;
	snprintf(text, sizeof text, "%.1e", h->point[h->n - 1].total_ms);
	*what = hash_text(text);
	return true;
}

/* Choices for another device name that device's class, and the fleet takes only the board's own. A history
 * names no class. */
static bool is_of_class(const struct offered *o, enum cache_type t, const char *text)
{
	struct chosen_rec r;
	char cls[33];
	if (t != CACHE_CHOICES)
		return true;
	if (chosen_rec_parse(text, &r) < 0)
		return false;
	key_text(r.target_key, cls);
	return !strcmp(cls, o->cls);
}

/* For records of a whole model: choices, or a history. */
static bool may_say_model(struct offered *o, enum cache_type t, struct key k, struct arena *a,
			  const char **text, struct key *what)
{
	struct blob b;
	if (cache_get(o->cache, t, k, a, &b) < 0 || memchr(b.p, 0, b.n))
		return false;
	*text = b.p;
	*what = hash_text(b.p);
	return is_of_class(o, t, *text) &&
	       !is_marked(o->cache, &(struct mark){mark_key(strangers(), t, k), *what}) &&
	       (t != CACHE_HISTORY || came_to(b, a, what));
}

/* Returns 1 if the record is to be sent; *k becomes the key of what is sent. */
static int look(struct offered *o, struct key *k, struct arena *a, const char **text, struct mark *m)
{
	enum cache_type t = types[o->type];
	if (!cache_is_own(o->cache, t, *k))
		return 0;
	m->key = mark_key(o->to, t, *k);
	bool may = sent_as(t) == CACHE_REC ? may_say_rec(o, t, k, a, text, &m->what)
					   : may_say_model(o, t, *k, a, text, &m->what);
	return may && !is_marked(o->cache, m);
}

static int say(struct offered *o, struct key k, const char *text, const struct mark *m, struct arena *a,
	       const char **line)
{
	struct exchange_line parsed;
	const enum cache_type t = sent_as(types[o->type]);
	if (o->nsaid == o->cap) {
		int cap = o->cap ? o->cap * 2 : 64;
		void *more = realloc(o->said, (size_t)cap * sizeof *o->said);
		if (!more)
			return fail(E_NOMEM, "no memory for what is sent");
		o->said = more;
		o->cap = cap;
	}
	int rc = exchange_read(t, k, text, a, &parsed);
	if (rc < 0)
		return rc == E_CORRUPT ? 0 : rc; /* no receiver would accept it */
	json_t *j = exchange_record(t, parsed.key, parsed.text);
	char *s = j ? json_dumps(j, JSON_COMPACT) : NULL;
	json_decref(j);
	if (!s)
		return fail(E_NOMEM, "no memory for what is sent");
	*line = arena_strdup(a, s);
	free(s);
	o->said[o->nsaid++] = *m;
	return (int)t;
}

int offered_next(struct offered *o, struct arena *a, const char **line)
{
	struct arena scratch = {0};
	int rc = 0;
	while (!rc && o->type < NTYPES) {
		struct mark m;
		const char *text;
		if (o->at == o->n) {
			if (++o->type < NTYPES)
				list(o);
			continue;
		}
		struct key k = o->key[o->at++];
		arena_reset(&scratch);
		if (look(o, &k, &scratch, &text, &m))
			rc = say(o, k, text, &m, a, line);
	}
	arena_free(&scratch);
	return rc;
}

int offered_sent(struct offered *o, const int *line, int n)
{
	int rc = E_OK;
	for (int i = 0; i < n && rc >= 0; i++) {
		assert(line[i] >= 0 && line[i] < o->nsaid);
		rc = put_mark(o->cache, &o->said[line[i]]);
	}
	return rc < 0 ? rc : cache_commit(o->cache);
}
