/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/taken.h"

#include "agent/hint.h"
#include "agent/offered.h"
#include "platform/log.h"
#include "search/job.h"

#include <string.h>

/* A line and what it says. */
struct stranger {
	struct cache *c;
	const struct snapshot *s;
	struct arena *a;
	struct rec r;
	struct taken_sum *sum;
};

static bool is_revoked(const struct snapshot *s, const struct rec *r)
{
	struct key k = revoked_hash(r);
	for (int i = 0; i < s->nrecord; i++)
		if (key_equal(s->record[i], k))
			return true;
	return false;
}

static int64_t text_bytes(const struct rec *r)
{
	return 1024 + (int64_t)strlen(r->task_text) + (int64_t)strlen(r->label);
}

static int add_bytes(void *ctx, const struct rec *r)
{
	if (r->kind == REC_HINT)
		*(int64_t *)ctx += 2 * text_bytes(r);
	return E_OK;
}

/* What strangers have so far; each hint may have a record beside it. */
static int count(struct cache *c, struct taken_sum *sum)
{
	struct arena a = {0};
	struct cache_state st;
	int64_t theirs = 0;
	if (sum->counted)
		return E_OK;
	int rc = cache_each_rec(c, &a, add_bytes, &theirs);
	arena_free(&a);
	cache_state(c, &st);
	sum->counted = rc >= 0;
	sum->room_bytes = st.cap_bytes / TAKEN_SHARE - theirs;
	sum->room_choices = TAKEN_CHOICES - st.count[CACHE_CHOICES];
	return rc < 0 ? rc : E_OK;
}

/* 1: there is room for so many more bytes of strangers'. */
static int has_room(struct cache *c, int64_t bytes, bool choices, struct taken_sum *sum)
{
	int rc = count(c, sum);
	if (rc < 0)
		return rc;
	bool share = bytes <= sum->room_bytes && (!choices || sum->room_choices > 0);
	rc = share ? cache_has_room(c, (size_t)bytes) : 0;
	sum->left_out += rc == 0;
	sum->room_bytes -= rc > 0 ? bytes : 0;
	sum->room_choices -= rc > 0 && choices;
	return rc;
}

/* A record that was measured here serves the task, as agent/source.h looks for them. */
static bool is_served(const struct stranger *x)
{
	struct rec want = x->r, got;
	for (int kind = REC_BEST; kind >= (int)REC_DEFAULT; kind--)
		for (int exact = x->r.exact; exact <= 1; exact++)
			for (int one = 0; one <= (x->r.threads != 1); one++) {
				want.kind = kind;
				want.exact = exact;
				want.threads = one ? 1 : x->r.threads;
				if (cache_get_rec(x->c, rec_key(&want), x->a, &got) >= 0 &&
				    !hint_claims(x->c, &got))
					return true;
			}
	return false;
}

/* Its candidate is what the cache has, or was tried here. */
static bool is_known(const struct stranger *x)
{
	struct rec got;
	if (hint_get(x->c, &x->r, x->a, &got) >= 0 && !strcmp(got.cand, x->r.cand))
		return true;
	return cache_get_rec(x->c, rec_key(&x->r), x->a, &got) >= 0 && !strcmp(got.cand, x->r.cand) &&
	       !hint_claims(x->c, &got);
}

/* What another stranger said of this key goes with its hint: left alone it would seem to be this board's own.
 */
static int drop_claim(struct stranger *x)
{
	struct rec got;
	struct key k = rec_key(&x->r);
	bool claims = cache_get_rec(x->c, k, x->a, &got) >= 0 && hint_claims(x->c, &got);
	return claims ? cache_forget(x->c, CACHE_REC, k) : E_OK;
}

/* In this order a cut leaves a hint alone, not a record that seems to be this board's own. */
static int put(struct stranger *x)
{
	bool served = is_served(x);
	int rc = drop_claim(x);
	if (rc >= 0)
		rc = hint_put(x->c, &x->r);
	if (rc < 0)
		return rc;
	bool begins = !served && rc != HINT_FAILED;
	x->sum->incumbents += begins;
	x->sum->hints += !begins && rc == HINT_OPEN;
	x->sum->known += !begins && rc != HINT_OPEN;
	return begins ? cache_put_rec(x->c, &x->r) : E_OK;
}

static int take_rec(struct stranger *x)
{
	char cls[33];
	key_text(x->r.target_key, cls);
	if (x->s && strcmp(cls, x->s->cls))
		return fail(E_CORRUPT, "it is of class %s, and was sent to class %s", cls, x->s->cls);
	if (x->s && is_revoked(x->s, &x->r)) {
		x->sum->revoked++;
		return E_OK;
	}
	if (x->r.kind != REC_BEST || x->r.meas.status != MEAS_OK) {
		x->sum->passed++;
		return E_OK;
	}
	if (is_known(x)) {
		x->sum->known++;
		return E_OK;
	}
	int rc = has_room(x->c, 2 * text_bytes(&x->r), false, x->sum);
	return rc <= 0 ? rc : put(x);
}

static int take_choices(struct cache *c, const struct exchange_line *l, struct arena *a,
			struct taken_sum *sum)
{
	struct blob known;
	size_t n = strlen(l->text);
	if (cache_get(c, CACHE_CHOICES, l->key, a, &known) >= 0) {
		sum->known++;
		return E_OK;
	}
	int rc = has_room(c, (int64_t)n, true, sum);
	if (rc <= 0)
		return rc;
	rc = offered_not_ours(c, CACHE_CHOICES, l->key, l->text);
	if (rc >= 0)
		rc = cache_put(c, CACHE_CHOICES, l->key, l->text, n);
	sum->choices += rc >= 0;
	return rc;
}

static int take(struct cache *c, const struct exchange_line *l, const struct snapshot *s, struct arena *a,
		struct taken_sum *sum)
{
	struct stranger x = {.c = c, .s = s, .a = a, .sum = sum};
	if (strlen(l->text) > TAKEN_BYTES)
		return fail(E_CORRUPT, "longer than the %d bytes of a stranger's record", TAKEN_BYTES);
	if (l->type == CACHE_CHOICES)
		return take_choices(c, l, a, sum);
	if (l->type != CACHE_REC) {
		sum->passed++;
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
		    cache_dir(c), sum->left_out, sum->left_out == 1 ? "" : "s", TAKEN_SHARE);
}

/* Where the search finds it itself again it is measured again. */
static int forget_trial(struct cache *c, const struct rec *h)
{
	struct arena a = {0};
	struct trials *l = ARENA_NEW(&a, struct trials);
	*l = (struct trials){
	    .task = h->task, .target_key = h->target_key, .threads = h->threads, .exact = h->exact};
	memcpy(l->device, h->device, sizeof l->device);
	int rc = trials_get(c, trials_key(l), l);
	if (rc >= 0)
		rc = trials_drop(l, h->cand) ? trials_put(c, l) : E_OK;
	trials_free(l);
	arena_free(&a);
	return rc == E_NOTFOUND ? E_OK : rc;
}

static int forget_rec(struct cache *c, const struct rec *r)
{
	int rc = cache_forget(c, CACHE_REC, rec_key(r));
	if (rc >= 0)
		rc = cache_forget(c, CACHE_CODE, code_key(r));
	return rc;
}

/* A hint and what came of it. */
static int take_back(struct cache *c, const struct rec *h, struct arena *a)
{
	struct rec key = *h, best;
	key.kind = REC_BEST;
	int rc = cache_get_rec(c, rec_key(&key), a, &best);
	if (rc >= 0)
		rc = strcmp(best.cand, h->cand) ? E_OK : forget_rec(c, &best);
	if (rc >= 0 || rc == E_NOTFOUND)
		rc = forget_trial(c, h);
	return rc < 0 ? rc : cache_forget(c, CACHE_REC, rec_key(h));
}

int taken_revoke(struct cache *c, const struct snapshot *s)
{
	struct arena keys = {0}, a = {0};
	struct key *k;
	int n = s->nrecord ? cache_keys(c, CACHE_REC, &keys, &k) : 0, gone = 0, rc = E_OK;
	for (int i = 0; i < n && rc >= 0; i++) {
		struct rec r;
		arena_reset(&a);
		if (cache_get_rec(c, k[i], &a, &r) < 0 || r.kind != REC_HINT || !is_revoked(s, &r))
			continue;
		rc = take_back(c, &r, &a);
		gone++;
	}
	arena_free(&a);
	arena_free(&keys);
	return rc < 0 ? rc : gone;
}
