/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/hint.h"

#include "agent/cache/chosen_rec.h"
#include "search/job.h"

#include <stdio.h>
#include <string.h>

bool hint_open(const struct rec *r)
{
	return r->kind == REC_HINT && r->meas.status == MEAS_OK && r->meas.runs == 0;
}

int64_t hint_claim_ns(const struct rec *h)
{
	return h->meas.median_ns > 0 ? h->meas.median_ns : 1;
}

static struct rec open_hint(const struct rec *of)
{
	struct rec h = *of;
	h.kind = REC_HINT;
	h.origin = ORIGIN_SEARCH;
	h.meas = (struct meas){.status = MEAS_OK, .median_ns = of->meas.median_ns};
	return h;
}

/* Records of a folder that others may write are indexed as hints with their own kind (cache_adopt.c). */
static int parse(const char *text, struct arena *a, struct rec *out)
{
	int rc = rec_parse(text, a, out);
	if (rc >= 0 && out->kind != REC_HINT)
		*out = open_hint(out);
	return rc;
}

static int get(struct cache *c, struct key k, struct arena *a, struct rec *out)
{
	struct blob b;
	int rc = cache_get(c, CACHE_HINT, k, a, &b);
	if (rc < 0)
		return rc;
	if (memchr(b.p, 0, b.n) || parse(b.p, a, out) < 0 || !key_equal(rec_key(out), k))
		return fail(E_NOTFOUND, "no hint in the cache");
	return E_OK;
}

int hint_get(struct cache *c, const struct rec *of, struct arena *a, struct rec *out)
{
	struct rec key = *of;
	key.kind = REC_HINT;
	return get(c, rec_key(&key), a, out);
}

int hint_find(struct cache *c, struct key task, struct key target_key, const char *device, int threads,
	      enum level level, struct arena *a, struct rec *out)
{
	struct rec want = {.task = task, .target_key = target_key};
	snprintf(want.device, sizeof want.device, "%s", device);
	for (int of = (int)level; of >= 0; of = level_below(of))
		for (int one = 0; one <= (threads != 1); one++) {
			want.level = (enum level)of;
			want.threads = one ? 1 : threads;
			int rc = hint_get(c, &want, a, out);
			if (rc != E_NOTFOUND && (rc < 0 || hint_open(out)))
				return rc;
		}
	return fail(E_NOTFOUND, "no open hint of this task in the cache");
}

int hint_each(struct cache *c, struct arena *a, int (*fn)(void *ctx, const struct rec *h), void *ctx)
{
	struct key *key;
	int n = cache_keys(c, CACHE_HINT, a, &key), count = 0;
	for (int i = 0; i < n; i++) {
		struct rec *h = ARENA_NEW(a, struct rec);
		int rc = get(c, key[i], a, h);
		if (rc == E_NOTFOUND)
			continue;
		if (rc >= 0)
			rc = fn(ctx, h);
		if (rc < 0)
			return rc;
		count++;
	}
	return count;
}

static int put(struct cache *c, const struct rec *h)
{
	struct buf text = {0};
	rec_text(h, &text);
	int rc = buf_ok(&text) ? cache_put(c, CACHE_HINT, rec_key(h), text.p, text.n)
			       : fail(E_NOMEM, "no memory for a hint");
	buf_free(&text);
	return rc;
}

static int find_trial(const struct trials *l, const char *cand)
{
	for (int i = 0; i < l->n; i++)
		if (!strcmp(l->entry[i].t.cand, cand))
			return i;
	return -1;
}

/* The log keeps only the fastest run of a trial. */
static struct meas meas_of(const struct trials *l, const struct tried *t)
{
	bool timed = t->ns > 0;
	return (struct meas){.status = t->status,
			     .runs = timed,
			     .min_ns = timed ? t->ns : 0,
			     .median_ns = timed ? t->ns : 0,
			     .build_ns = t->build_ns,
			     .threads = timed ? l->threads : 0};
}

/* Copies what the log says of the hint's candidate into *h. False: the log does not know it. */
static bool answer(const struct trials *l, struct rec *h)
{
	int i = find_trial(l, h->cand);
	if (i < 0 || (l->entry[i].t.status == MEAS_OK && l->entry[i].t.ns <= 0))
		return false;
	h->meas = meas_of(l, &l->entry[i].t);
	memcpy(h->emitter, l->emitter, sizeof h->emitter);
	return true;
}

int hint_learn(struct cache *c, const struct trials *l)
{
	struct arena a = {0};
	struct rec of = {
	    .task = l->task, .target_key = l->target_key, .threads = l->threads, .level = l->level};
	struct rec h;
	memcpy(of.device, l->device, sizeof of.device);
	int rc = hint_get(c, &of, &a, &h);
	if (rc >= 0)
		rc = hint_open(&h) && answer(l, &h) ? put(c, &h) : E_OK;
	arena_free(&a);
	return rc == E_NOTFOUND ? E_OK : rc;
}

/* Gets the log of a record's task; trials_free releases it. E_NOTFOUND: there is none. */
static int get_trials(struct cache *c, const struct rec *of, struct trials *l)
{
	*l = (struct trials){
	    .task = of->task, .target_key = of->target_key, .threads = of->threads, .level = of->level};
	memcpy(l->device, of->device, sizeof l->device);
	return trials_get(c, trials_key(l), l);
}

int hint_put(struct cache *c, const struct rec *of)
{
	struct arena a = {0};
	struct trials *l = ARENA_NEW(&a, struct trials);
	struct rec h = open_hint(of);
	bool known = false;
	if (get_trials(c, of, l) >= 0) {
		known = answer(l, &h);
		trials_free(l);
	}
	/* honed accepts only open hints and answers them from its own log. */
	const struct rec asked = open_hint(of);
	int rc = put(c, cache_is_through(c) ? &asked : &h);
	arena_free(&a);
	if (rc < 0)
		return rc;
	return !known ? HINT_OPEN : h.meas.status == MEAS_OK ? HINT_WORKED : HINT_FAILED;
}

/* Removes the candidate from the log, so that a search that finds it again measures it again. */
static int forget_trial(struct cache *c, const struct rec *h)
{
	struct arena a = {0};
	struct trials *l = ARENA_NEW(&a, struct trials);
	int rc = get_trials(c, h, l);
	if (rc >= 0)
		rc = trials_drop(l, h->cand) ? trials_put(c, l) : E_OK;
	trials_free(l);
	arena_free(&a);
	return rc == E_NOTFOUND ? E_OK : rc;
}

/* 1: the record of this kind had the hint's candidate, and is gone. */
static int forget_kind(struct cache *c, const struct rec *h, enum rec_kind kind)
{
	struct arena a = {0};
	struct rec key = *h, best;
	key.kind = (int)kind;
	int rc = cache_get_rec(c, rec_key(&key), &a, &best);
	bool served = rc >= 0 && !strcmp(best.cand, h->cand);
	if (served) {
		rc = cache_forget(c, CACHE_REC, rec_key(&best));
		if (rc >= 0)
			rc = cache_forget(c, CACHE_CODE, code_key(&best));
	}
	arena_free(&a);
	return rc < 0 && rc != E_NOTFOUND ? rc : served;
}

int hint_take_back(struct cache *c, const struct rec *h)
{
	int own = forget_kind(c, h, REC_OWN), rc = own < 0 ? own : forget_kind(c, h, REC_BEST);
	if (rc > 0 ||
	    (rc == 0 &&
	     own > 0)) /* else its trial stays, or the same hint could cost a measurement again and again */
		rc = forget_trial(c, h);
	return rc < 0 || h->kind != REC_HINT ? rc : cache_forget(c, CACHE_HINT, rec_key(h));
}

int hint_has_room(struct cache *c, size_t bytes)
{
	struct cache_state st;
	cache_state(c, &st);
	return st.strangers_bytes + (int64_t)bytes > st.cap_bytes / HINT_SHARE ? 0 : cache_has_room(c, bytes);
}

/* ---- records that hone-sync brings ---- */

static int check_hint(struct key k, const char *text)
{
	struct arena a = {0};
	struct rec r;
	int rc = rec_parse(text, &a, &r);
	bool good = rc >= 0 && hint_open(&r) && rec_is_plain(&r) && key_equal(rec_key(&r), k) &&
		    key_equal(hash_text(r.task_text), r.task);
	arena_free(&a);
	return rc < 0 ? rc
	       : good ? E_OK
		      : fail(E_CORRUPT, "not an open hint with its own key: hone-sync puts nothing else");
}

static int check_choices(struct key k, const char *text)
{
	struct chosen_rec r;
	int rc = chosen_rec_parse(text, &r);
	return rc < 0 || key_equal(chosen_rec_key(&r), k) ? rc
							  : fail(E_CORRUPT, "choices with the key of others");
}

static int check_mark(const char *text)
{
	return strlen(text) == 32 && strspn(text, "0123456789abcdef") == 32
		   ? E_OK
		   : fail(E_CORRUPT, "a mark of what was sent is 32 hex digits");
}

int hint_check(enum cache_type t, struct key k, const void *p, size_t n)
{
	struct arena a = {0};
	if (n == 0 || n > HINT_BYTES || memchr(p, 0, n))
		return fail(E_CORRUPT, "not a text of 1 to %d bytes", HINT_BYTES);
	const char *text = arena_strndup(&a, p, n);
	int rc = t == CACHE_HINT           ? check_hint(k, text)
		 : t == CACHE_HINT_CHOICES ? check_choices(k, text)
		 : t == CACHE_SHARED       ? check_mark(text)
					   : fail(E_CORRUPT, "records of type %d are not for hone-sync", t);
	arena_free(&a);
	return rc < 0 && rc != E_NOMEM ? E_CORRUPT : rc;
}

bool hint_is_known(struct cache *c, const struct rec *of)
{
	struct arena a = {0};
	struct rec key = *of, got;
	bool known = hint_get(c, of, &a, &got) >= 0 && !strcmp(got.cand, of->cand);
	for (int i = 0; i < 2; i++) {
		key.kind = i ? REC_OWN : REC_BEST;
		known |= cache_get_rec(c, rec_key(&key), &a, &got) >= 0 && !strcmp(got.cand, of->cand);
	}
	arena_free(&a);
	return known;
}

/* A known candidate is passed over: revoking its hint would take what this board found itself. */
static int bring_hint(struct cache *c, const void *p, size_t n)
{
	struct arena a = {0};
	struct rec h;
	int rc = rec_parse(arena_strndup(&a, p, n), &a, &h);
	if (rc >= 0 && !hint_is_known(c, &h))
		rc = hint_put(c, &h);
	arena_free(&a);
	return rc;
}

int hint_bring(struct cache *c, enum cache_type t, struct key k, const void *p, size_t n)
{
	int rc = hint_check(t, k, p, n);
	if (rc >= 0)
		rc = hint_has_room(c, n);
	if (rc > 0)
		rc = t == CACHE_HINT ? bring_hint(c, p, n) : cache_put(c, t, k, p, n);
	return rc < 0 ? rc : E_OK;
}

bool hint_may_drop(enum cache_type t)
{
	return t == CACHE_HINT || t == CACHE_HINT_CHOICES || t == CACHE_REC;
}

/* Forgets a record that came from a hint; others stay. */
static int drop_rec(struct cache *c, struct key k)
{
	struct arena a = {0};
	struct rec r;
	int rc = cache_get_rec(c, k, &a, &r);
	if (rc >= 0)
		rc = r.kind != REC_DEFAULT && r.origin == ORIGIN_HINT ? hint_take_back(c, &r) : E_OK;
	arena_free(&a);
	return rc == E_NOTFOUND ? E_OK : rc;
}

int hint_drop(struct cache *c, enum cache_type t, struct key k)
{
	struct arena a = {0};
	struct rec h;
	if (!hint_may_drop(t))
		return fail(E_USAGE, "forget: records of type %d are not for hone-sync", t);
	if (t == CACHE_REC)
		return drop_rec(c, k);
	int rc = t == CACHE_HINT ? get(c, k, &a, &h) : E_NOTFOUND;
	rc = rc >= 0 ? hint_take_back(c, &h) : rc == E_NOTFOUND ? cache_forget(c, t, k) : rc;
	arena_free(&a);
	return rc;
}
