/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/exchange.h"
#include "agent/cache/cand.h"
#include "agent/cache/chosen_rec.h"
#include "agent/cache/hint.h"
#include "agent/cache/history.h"
#include "agent/cache/kept_code.h"
#include "agent/cache/own.h"
#include "agent/cache/recipe.h"
#include "agent/cache/stale.h"
#include "agent/cache/trials.h"
#include "kernels/group/choices.h"
#include "kernels/library/library.h"
#include "kernels/task/task.h"
#include "platform/base/log.h"
#include "search/job.h"
#include <stdlib.h>
#include <string.h>

enum { REC_ROOM = 8192 /* bytes of a record's text, far more than it has */ };

const enum cache_type exchange_types[] = {CACHE_REC, CACHE_CHOICES, CACHE_HISTORY, CACHE_TRIALS,
					 CACHE_RECIPE, 0};

const char *exchange_name(enum cache_type t)
{
	static const char *const names[CACHE_TYPES] = {[CACHE_REC] = "rec",
						       [CACHE_CHOICES] = "choices",
						       [CACHE_HISTORY] = "history",
						       [CACHE_TRIALS] = "trials",
						       [CACHE_RECIPE] = "recipe"};
	return names[t] ? names[t] : "other";
}

static bool is_task(const char *text, struct key k)
{
	struct task *t = malloc(sizeof *t);
	bool ok = t && key_equal(hash_text(text), k) && task_parse(text, t) >= 0;
	free(t);
	return ok;
}

static int check_names(const char *text, struct key k, struct arena *a, struct rec *out)
{
	int rc = rec_parse(text, a, out);
	const struct rec r = *out;
	if (rc < 0)
		return rc;
	if (!key_equal(rec_key(&r), k) || !key_equal(hash_text(r.task_text), r.task))
		return fail(E_CORRUPT, "its key and its task's text do not belong together");
	if (!rec_is_plain(&r))
		return fail(E_CORRUPT, "its names are not plain text");
	return library_is_cand(r.cand)
		   ? fail(E_CORRUPT, "its kernel is a library's, and others take hone's own kernels alone")
		   : cand_check(r.task_text, r.cand);
}

static int check_rec(const char *text, struct key k, struct arena *a)
{
	struct rec r;
	int rc = check_names(text, k, a, &r);
	return rc < 0 || stale_plausible(&r) ? rc : fail(E_CORRUPT, "its numbers are out of range");
}

/* Checks a hint of a pack. An open hint has a claimed time and no runs. */
static int check_hint(const char *text, struct key k, struct arena *a)
{
	struct rec r;
	int rc = check_names(text, k, a, &r);
	if (rc >= 0 && r.kind != REC_HINT)
		rc = fail(E_CORRUPT, "it is not a hint");
	r.meas.runs += rc >= 0 && hint_open(&r);
	r.meas.min_ns = r.meas.median_ns;
	return rc < 0 || stale_plausible(&r) ? rc : fail(E_CORRUPT, "its numbers are out of range");
}

static int check_choices(const char *text, struct key k, struct arena *a)
{
	struct chosen_rec r;
	struct choices c;
	int rc = chosen_rec_parse(text, &r);
	if (rc >= 0 && (!key_equal(chosen_rec_key(&r), k) || !rec_is_device(r.device) || r.threads < 1))
		rc = fail(E_CORRUPT, "its key does not match the model, device and threads that it names");
	return rc < 0 ? rc : choices_parse(r.choices, a, &c);
}

static int check_history(const char *text, struct key k, struct arena *a)
{
	struct history *h = ARENA_NEW(a, struct history);
	(void)k;
	return history_parse(text, strlen(text), h);
}

static int check_trials(const char *text, struct key k, struct arena *a)
{
	struct trials *l = ARENA_NEW(a, struct trials);
	int rc = trials_parse(text, l);
	if (rc >= 0 && (!key_equal(trials_key(l), k) || !is_task(l->task_text, l->task)))
		rc = fail(E_CORRUPT, "its key and its task's text do not belong together");
	trials_free(l);
	return rc;
}

static int check_recipe(const char *text, struct key k, struct arena *a)
{
	(void)a;
	return recipe_check(text, k);
}

static int (*const check[CACHE_TYPES])(const char *text, struct key k, struct arena *a) = {
    [CACHE_REC] = check_rec,       [CACHE_CHOICES] = check_choices, [CACHE_HISTORY] = check_history,
    [CACHE_TRIALS] = check_trials, [CACHE_HINT] = check_hint,       [CACHE_HINT_CHOICES] = check_choices,
    [CACHE_RECIPE] = check_recipe,
};

/* Length of a text without the line of a record's origin, which is of no use to others, and which former
 * versions do not read. */
static size_t length_for_others(enum cache_type t, const char *text)
{
	const char *last = t == CACHE_REC ? strstr(text, "\norigin ") : NULL;
	return last ? (size_t)(last + 1 - text) : strlen(text);
}

json_t *exchange_record(enum cache_type t, struct key k, const char *text)
{
	char key[33];
	key_text(k, key);
	struct arena a = {0};
	const char *sent = arena_strndup(&a, text, length_for_others(t, text));
	json_t *j = json_pack("{ss ss so}", "type", exchange_name(t), "key", key, "text", json_text(sent));
	arena_free(&a);
	return j;
}

/* Whether a line of JSON holds the text, with a reserve for what stands around it. */
static bool fits_line(const char *text)
{
	enum { AROUND = 256 };
	size_t n = AROUND;
	for (const char *p = text; *p && n < EXCHANGE_LINE_BYTES; p++)
		n += *p == '\n' || *p == '\\' || *p == '"' ? 2 : 1;
	return n < EXCHANGE_LINE_BYTES;
}

int exchange_for_others(struct cache *c, struct key *k, const char **text, struct arena *a)
{
	struct rec r;
	struct buf b = {0};
	if (rec_parse(*text, a, &r) < 0)
		return 1; /* its reader refuses it */
	if (library_is_cand(r.cand) || (r.kind == REC_OWN && !own_is_best(c, &r)))
		return 0;
	if (r.kind != REC_OWN)
		return 1;
	r.kind = REC_BEST;
	rec_text(&r, &b);
	int rc = buf_ok(&b) ? 1 : fail(E_NOMEM, "no memory for a record");
	*k = rec_key(&r);
	*text = rc > 0 ? arena_strdup(a, buf_str(&b)) : NULL;
	buf_free(&b);
	return rc;
}

int exchange_json(struct cache *c, enum cache_type t, struct key k, json_t **out)
{
	struct arena a = {0};
	struct blob b;
	*out = NULL;
	int rc = cache_get(c, t, k, &a, &b);
	const char *text = rc >= 0 ? b.p : NULL;
	if (rc >= 0 && memchr(b.p, 0, b.n))
		rc = fail(E_CORRUPT, "the record is not text");
	if (rc >= 0)
		rc = t == CACHE_REC ? exchange_for_others(c, &k, &text, &a) : 1;
	if (rc > 0 && !fits_line(text))
		rc = fail(E_UNSUPPORTED, "no line can hold the record");
	if (rc > 0 && !(*out = exchange_record(t, k, text)))
		rc = fail(E_NOMEM, "no memory for the JSON");
	arena_free(&a);
	return rc;
}

static enum cache_type type_of(const char *name)
{
	for (int i = 0; name && exchange_types[i]; i++)
		if (!strcmp(name, exchange_name(exchange_types[i])))
			return exchange_types[i];
	return 0;
}

/* Gives a record of the former version its present key. */
static struct key former_key(enum cache_type t, const char *text, struct key k, struct arena *a)
{
	struct rec r;
	if ((t == CACHE_REC || t == CACHE_HINT) && rec_is_former(text) && rec_parse(text, a, &r) >= 0)
		return rec_key(&r);
	if (t != CACHE_TRIALS || !trials_is_former(text))
		return k;
	struct trials *l = ARENA_NEW(a, struct trials);
	if (trials_parse(text, l) >= 0)
		k = trials_key(l);
	trials_free(l);
	return k;
}

int exchange_read(enum cache_type t, struct key k, const char *text, struct arena *a,
		  struct exchange_line *out)
{
	*out = (struct exchange_line){t, former_key(t, text, k, a), arena_strdup(a, text), 0};
	int rc = check[t] ? check[t](out->text, out->key, a)
			  : fail(E_CORRUPT, "records of its type are never exchanged");
	return rc < 0 && rc != E_NOMEM ? E_CORRUPT : rc;
}

int exchange_parse(const char *line, size_t n, struct arena *a, struct exchange_line *out)
{
	json_error_t e = {0};
	json_t *j = json_loadb(line, n, JSON_REJECT_DUPLICATES, &e);
	const char *key = json_string_value(json_object_get(j, "key"));
	const char *text = json_string_value(json_object_get(j, "text"));
	const json_int_t records = json_integer_value(json_object_get(j, EXCHANGE_COUNT));
	int rc = E_OK;
	out->type = type_of(json_string_value(json_object_get(j, "type")));
	log_one_line(e.text); /* it quotes the input */
	if (!j)
		rc = fail(E_CORRUPT, "not JSON: %s", e.text);
	else if (!out->type || !key || !text)
		rc = fail(E_CORRUPT, "\"type\", \"key\" or \"text\" is missing");
	if (rc >= 0)
		rc = key_parse(key, &out->key);
	if (rc >= 0)
		rc = exchange_read(out->type, out->key, text, a, out);
	out->records = records > 0 ? records : 0;
	json_decref(j);
	return rc < 0 && rc != E_NOMEM ? E_CORRUPT : rc;
}

static bool known(struct cache *c, enum cache_type t, struct key k, struct arena *a, struct blob *b)
{
	return cache_get(c, t, k, a, b) >= 0;
}

/* 1: there is room for it. */
static int fits(struct cache *c, size_t n, struct exchange_sum *sum)
{
	int rc = sum->no_fit && n >= sum->no_fit ? 0 : cache_has_room(c, n);
	sum->left_out += rc == 0;
	sum->no_fit = rc == 0 && (!sum->no_fit || n < sum->no_fit) ? n : sum->no_fit;
	return rc;
}

/* rc: of the put. */
static void count_taken(struct exchange_sum *sum, enum cache_type t, int rc)
{
	sum->taken += rc >= 0;
	sum->of[t] += rc >= 0;
}

int exchange_put(struct cache *c, const struct exchange_line *l, struct arena *a, struct exchange_sum *sum)
{
	struct blob b;
	size_t n = strlen(l->text);
	bool here = known(c, l->type, l->key, a, &b), same = here && b.n == n && !memcmp(b.p, l->text, n);
	sum->others += here && !same && !sum->replace;
	if (here && (same || !sum->replace)) {
		sum->known++;
		return E_OK;
	}
	int rc = fits(c, n, sum);
	if (rc > 0)
		rc = cache_put(c, l->type, l->key, l->text, n);
	else if (rc == 0)
		return E_OK;
	count_taken(sum, l->type, rc);
	return rc;
}

void exchange_words(const int of[CACHE_TYPES], struct buf *out)
{
	const struct {
		int n;
		const char *one, *more;
	} kinds[] = {
	    {of[CACHE_REC] + of[CACHE_HINT], "%d record", "%d records"},
	    {of[CACHE_CHOICES] + of[CACHE_HINT_CHOICES], "choices for %d model", "choices for %d models"},
	    {of[CACHE_HISTORY], "%d history of a search", "%d histories of searches"},
	    {of[CACHE_TRIALS], "%d log of tuning", "%d logs of tuning"},
	    {of[CACHE_RECIPE], "%d recipe", "%d recipes"},
	};
	enum { KINDS = sizeof kinds / sizeof *kinds };
	int left = 0;
	for (int i = 0; i < KINDS; i++)
		left += kinds[i].n > 0;
	if (!left)
		buf_puts(out, "0 records");
	for (int i = 0, first = 1; i < KINDS; i++)
		if (kinds[i].n > 0) {
			buf_puts(out, first ? "" : left == 1 ? " and " : ", ");
			buf_printf(out, kinds[i].n == 1 ? kinds[i].one : kinds[i].more, kinds[i].n);
			first = 0;
			left--;
		}
}

void exchange_tell(const struct cache *c, const struct exchange_sum *sum)
{
	if (sum->left_out)
		log_info("hone: cache %s is full: %d record%s not imported; raise --cache-limit",
			 cache_dir(c), sum->left_out, sum->left_out == 1 ? " is" : "s are");
}

/* A record without code is only a claim: it becomes a hint. */
static int merge_hint(struct cache *to, const struct rec *theirs, struct exchange_sum *sum)
{
	if (theirs->kind == REC_DEFAULT || theirs->meas.status != MEAS_OK || hint_is_known(to, theirs)) {
		sum->known++;
		return E_OK;
	}
	int rc = fits(to, REC_ROOM, sum);
	if (rc > 0)
		rc = hint_put(to, theirs);
	else if (rc == 0)
		return E_OK;
	count_taken(sum, CACHE_HINT, rc);
	return rc < 0 ? rc : E_OK;
}

/* The kind as which hone's own best record is put into a cache: beside a library's, or as the best. */
static int own_kind(struct cache *to, const struct rec *theirs, struct arena *a)
{
	struct rec best, key = *theirs;
	key.kind = REC_BEST;
	bool beside = cache_get_rec(to, rec_key(&key), a, &best) >= 0 && library_is_cand(best.cand);
	return beside ? REC_OWN : REC_BEST;
}

/* Whether ours stays: it is as fast, or theirs has a time that throttling changed, and ours none. */
static bool ours_stays(const struct rec *theirs, const struct rec *ours)
{
	bool theirs_spoilt = theirs->origin == ORIGIN_THROTTLED, spoilt = ours->origin == ORIGIN_THROTTLED;
	return theirs_spoilt == spoilt ? theirs->meas.median_ns >= ours->meas.median_ns : theirs_spoilt;
}

/* The faster of two kernels with code is kept; a record with code replaces one without. */
static int merge_rec(struct cache *to, struct cache *from, struct key k, struct arena *a,
		     struct exchange_sum *sum)
{
	struct rec theirs, ours;
	struct blob code;
	int rc = cache_get_rec(from, k, a, &theirs);
	if (rc < 0)
		return rc == E_NOTFOUND ? E_OK : rc;
	bool has_code = kept_code_get(from, &theirs, a, &code) >= 0;
	theirs.kind = theirs.kind == REC_DEFAULT ? REC_DEFAULT : own_kind(to, &theirs, a);
	struct blob our_code;
	bool here = cache_get_rec(to, rec_key(&theirs), a, &ours) >= 0;
	bool runs = here && ours.meas.status == MEAS_OK && kept_code_get(to, &ours, a, &our_code) >= 0;
	if (!has_code)
		return merge_hint(to, &theirs, sum);
	if (here && (theirs.meas.status != MEAS_OK || (runs && ours_stays(&theirs, &ours)))) {
		sum->known++;
		return E_OK;
	}
	rc = fits(to, code.n + REC_ROOM, sum);
	if (rc <= 0)
		return rc;
	rc = kept_code_put(to, &theirs, code);
	if (rc >= 0)
		rc = cache_put_rec(to, &theirs);
	sum->code++;
	count_taken(sum, CACHE_REC, E_OK);
	return rc;
}

static int merge_one(struct cache *to, struct cache *from, enum cache_type t, struct key k, struct arena *a,
		     struct exchange_sum *sum)
{
	struct blob ours, theirs;
	int rc = cache_get(from, t, k, a, &theirs);
	if (rc < 0)
		return rc == E_NOTFOUND ? E_OK : rc;
	const char *text = theirs.p;
	struct key key = k;
	rc = memchr(theirs.p, 0, theirs.n) ? E_CORRUPT
	     : t == CACHE_REC              ? exchange_for_others(from, &key, &text, a)
					   : 1;
	if (rc == 0)
		return E_OK; /* a library's */
	if (rc > 0)
		rc = check[t](text, key, a);
	if (rc < 0) {
		sum->refused += rc == E_CORRUPT;
		return rc == E_CORRUPT ? E_OK : rc;
	}
	if (t == CACHE_REC)
		return merge_rec(to, from, k, a, sum);
	if (known(to, t, k, a, &ours)) {
		sum->known++;
		return E_OK;
	}
	rc = fits(to, theirs.n, sum);
	if (rc > 0)
		rc = cache_put(to, t, k, theirs.p, theirs.n);
	else if (rc == 0)
		return E_OK;
	count_taken(sum, t, rc);
	return rc;
}

/* keys, a: arenas of the caller. One that cannot be read is none. */
static int untried_hints(struct cache *c, struct arena *keys, struct arena *a)
{
	struct key *k;
	int n = cache_keys(c, CACHE_HINT, keys, &k), open = 0;
	for (int i = 0; i < n; i++) {
		struct blob b;
		struct rec r;
		arena_reset(a);
		open += cache_get(c, CACHE_HINT, k[i], a, &b) >= 0 && !memchr(b.p, 0, b.n) &&
			rec_parse(b.p, a, &r) >= 0 && hint_open(&r);
	}
	return open;
}

int exchange_merge(struct cache *to, struct cache *from, struct exchange_sum *sum)
{
	struct arena keys = {0}, a = {0};
	int rc = E_OK;
	for (int i = 0; exchange_types[i] && rc >= 0; i++) {
		struct key *k;
		int n = cache_keys(from, exchange_types[i], &keys, &k);
		for (int j = 0; j < n && rc >= 0; j++) {
			arena_reset(&a);
			rc = merge_one(to, from, exchange_types[i], k[j], &a, sum);
		}
	}
	sum->hints += rc < 0 ? 0 : untried_hints(from, &keys, &a);
	arena_free(&a);
	arena_free(&keys);
	return rc < 0 ? rc : cache_commit(to);
}
