/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/taken.h"

#include "agent/cache/chosen_rec.h"
#include "agent/cache/hint.h"
#include "platform/base/log.h"
#include "search/job.h"

#include <string.h>

/* A stranger's record and where it goes. */
struct stranger {
	struct cache *c;
	const struct snapshot *s;
	struct arena *a;
	struct rec r;
	struct taken_sum *sum;
};

static bool is_revoked(const struct snapshot *s, const struct rec *r)
{
	struct key k = revoked_hash(r), former = revoked_hash_former(r);
	for (int i = 0; i < s->nrecord; i++)
		if (key_equal(s->record[i], k) || key_equal(s->record[i], former))
			return true;
	return false;
}

static int64_t text_bytes(const struct rec *r)
{
	return 1024 + (int64_t)strlen(r->task_text) + (int64_t)strlen(r->label);
}

/* Returns 1 if so many more bytes of strangers' records fit. */
static int has_room(struct cache *c, int64_t bytes, bool choices, struct taken_sum *sum)
{
	struct cache_state st;
	cache_state(c, &st);
	bool many = choices && st.count[CACHE_HINT_CHOICES] >= TAKEN_CHOICES;
	int rc = many ? 0 : hint_has_room(c, (size_t)bytes);
	sum->left_out += rc == 0;
	return rc;
}

/* Returns whether a record that was measured here serves the task; it looks for them as agent/run/source.h
 * does. */
static bool is_served(const struct stranger *x)
{
	struct rec want = x->r, got;
	for (int kind = REC_BEST; kind >= (int)REC_DEFAULT; kind--)
		for (int of = (int)x->r.level; of >= 0; of = level_below(of))
			for (int one = 0; one <= (x->r.threads != 1); one++) {
				want.kind = kind;
				want.level = (enum level)of;
				want.threads = one ? 1 : x->r.threads;
				if (cache_get_rec(x->c, rec_key(&want), x->a, &got) >= 0)
					return true;
			}
	return false;
}

/* The next box begins with the hint if no record serves the task yet. */
static int put(struct stranger *x)
{
	bool served = is_served(x);
	int rc = hint_put(x->c, &x->r);
	if (rc < 0)
		return rc;
	bool begins = !served && rc != HINT_FAILED;
	x->sum->incumbents += begins;
	x->sum->hints += !begins && rc == HINT_OPEN;
	x->sum->known += !begins && rc != HINT_OPEN;
	return E_OK;
}

static int check_class(const struct snapshot *s, struct key target_key)
{
	char cls[33];
	key_text(target_key, cls);
	return !s || !strcmp(cls, s->cls)
		   ? E_OK
		   : fail(E_CORRUPT, "it is of class %s, and was sent to class %s", cls, s->cls);
}

static int take_rec(struct stranger *x)
{
	if (x->r.kind == REC_OWN) /* of a pack, which is a whole cache; a library's best one is refused */
		x->r.kind = REC_BEST;
	int rc = check_class(x->s, x->r.target_key);
	if (rc < 0)
		return rc;
	if (x->s && is_revoked(x->s, &x->r)) {
		x->sum->revoked++;
		return E_OK;
	}
	if ((x->r.kind != REC_BEST || x->r.meas.status != MEAS_OK) && !hint_open(&x->r)) {
		x->sum->passed++;
		return E_OK;
	}
	if (hint_is_known(x->c, &x->r)) {
		x->sum->known++;
		return E_OK;
	}
	rc = has_room(x->c, text_bytes(&x->r), false, x->sum);
	return rc <= 0 ? rc : put(x);
}

static int take_choices(struct cache *c, const struct exchange_line *l, const struct snapshot *s,
			struct arena *a, struct taken_sum *sum)
{
	struct chosen_rec r;
	struct blob known;
	size_t n = strlen(l->text);
	int rc = chosen_rec_parse(l->text, &r);
	if (rc >= 0)
		rc = check_class(s, r.target_key);
	if (rc < 0)
		return rc;
	if (cache_get(c, CACHE_CHOICES, l->key, a, &known) >= 0 ||
	    cache_get(c, CACHE_HINT_CHOICES, l->key, a, &known) >= 0) {
		sum->known++;
		return E_OK;
	}
	rc = has_room(c, (int64_t)n, true, sum);
	if (rc <= 0)
		return rc;
	rc = cache_put(c, CACHE_HINT_CHOICES, l->key, l->text, n);
	sum->choices += rc >= 0;
	return rc;
}

static int take(struct cache *c, const struct exchange_line *l, const struct snapshot *s, struct arena *a,
		struct taken_sum *sum)
{
	struct stranger x = {.c = c, .s = s, .a = a, .sum = sum};
	if (strlen(l->text) > TAKEN_BYTES && l->type != CACHE_RECIPE) /* which is passed over below */
		return fail(E_CORRUPT, "longer than the %d bytes of a stranger's record", TAKEN_BYTES);
	if (l->type == CACHE_CHOICES || l->type == CACHE_HINT_CHOICES)
		return take_choices(c, l, s, a, sum);
	if (l->type != CACHE_REC && l->type != CACHE_HINT) {
		sum->passed++;
		sum->recipes += l->type == CACHE_RECIPE;
		return E_OK;
	}
	int rc = rec_parse(l->text, a, &x.r);
	return rc < 0 ? rc : take_rec(&x);
}

int taken_line(struct cache *c, const struct exchange_line *l, const struct snapshot *s,
	       struct taken_sum *sum)
{
	struct arena a = {0};
	int rc = take(c, l, s, &a, sum);
	arena_free(&a);
	return rc < 0 ? rc : E_OK;
}

static int take_text(struct cache *c, const char *line, size_t n, const struct snapshot *s,
		     struct taken_sum *sum)
{
	struct arena a = {0};
	struct exchange_line l;
	int rc = n >= EXCHANGE_LINE_BYTES
		     ? fail(E_CORRUPT, "longer than the %d bytes of a record", EXCHANGE_LINE_BYTES)
		     : exchange_parse(line, n, &a, &l);
	if (rc >= 0)
		rc = taken_line(c, &l, s, sum);
	arena_free(&a);
	return rc;
}

int taken_lines(struct cache *c, const void *lines, size_t n, const struct snapshot *s, const char *from,
		struct taken_sum *sum)
{
	const char *p = lines, *end = p + n;
	int rc = E_OK;
	for (int i = 1; p < end && rc >= 0; i++) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));
		size_t bytes = (size_t)((eol ? eol : end) - p);
		if (bytes)
			rc = take_text(c, p, bytes, s, sum);
		if (rc == E_CORRUPT) {
			if (!sum->refused++)
				log_info("hone: %s:%d is refused: %s", from, i, err_text());
			rc = E_OK;
		}
		p += bytes + 1;
	}
	return rc;
}

int taken_new(const struct taken_sum *sum)
{
	return sum->incumbents + sum->hints + sum->choices;
}

void taken_tell(const struct cache *c, const struct taken_sum *sum)
{
	if (sum->left_out)
		log_info(
		    "hone: cache %s has no room for %d record%s of strangers: a %dth of its limit is theirs, "
		    "and nothing goes for them; --cache-limit makes room",
		    cache_dir(c), sum->left_out, plural_s(sum->left_out), TAKEN_SHARE);
}

struct revoking {
	struct cache *c;
	const struct snapshot *s;
	int gone;
};

/* Forgets a revoked hint with its results, or a record that came from a revoked hint. When honed keeps the
 * cache, it removes the results itself as it is told to forget the hint or the record. */
static int revoke_one(struct revoking *x, const struct rec *r)
{
	enum cache_type t = r->kind == REC_HINT ? CACHE_HINT : CACHE_REC;
	if (!is_revoked(x->s, r))
		return E_OK;
	x->gone++;
	return cache_is_through(x->c) ? cache_forget(x->c, t, rec_key(r)) : hint_take_back(x->c, r);
}

static int revoke_hint(void *ctx, const struct rec *h)
{
	return revoke_one(ctx, h);
}

static int revoke_rec(struct revoking *x, struct key k)
{
	struct arena a = {0};
	struct rec r, h;
	int rc = cache_get_rec(x->c, k, &a, &r);
	/* its hint, if it is still there, was revoked already, and honed forgets the record with it */
	bool left = rc >= 0 && r.kind != REC_DEFAULT && r.origin == ORIGIN_HINT &&
		    (hint_get(x->c, &r, &a, &h) < 0 || strcmp(h.cand, r.cand));
	if (rc >= 0)
		rc = left ? revoke_one(x, &r) : E_OK;
	arena_free(&a);
	return rc == E_NOTFOUND ? E_OK : rc;
}

int taken_revoke(struct cache *c, const struct snapshot *s)
{
	struct arena a = {0};
	struct revoking x = {c, s, 0};
	struct key *k;
	int rc = s->nrecord ? hint_each(c, &a, revoke_hint, &x) : E_OK;
	int n = s->nrecord && rc >= 0 ? cache_keys(c, CACHE_REC, &a, &k) : 0;
	for (int i = 0; i < n && rc >= 0; i++)
		rc = revoke_rec(&x, k[i]);
	arena_free(&a);
	return rc < 0 ? rc : x.gone;
}
