/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/pack.h"

#include "agent/cache/json.h"
#include "agent/cache/recipe.h"
#include "agent/sync/pack_file.h"
#include "agent/sync/trust.h"
#include "platform/base/log.h"
#include "search/job.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_COUNT (INT64_C(1) << 53)
#define KIND "pack"

static bool is_plain(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < ' ' || *s == 0x7f)
			return false;
	return true;
}

static bool get_text(const json_t *j, const char *key, char *out, size_t n)
{
	const char *s = json_string_value(json_object_get(j, key));
	if (!s || strlen(s) >= n || !is_plain(s))
		return false;
	snprintf(out, n, "%s", s);
	return true;
}

static bool get_count(const json_t *j, const char *key, int64_t *out)
{
	const json_t *v = json_object_get(j, key);
	*out = json_integer_value(v);
	return json_is_integer(v) && *out >= 0 && *out <= MOST_COUNT;
}

static bool is_class(const char *cls)
{
	return !strcmp(cls, "any") || (strlen(cls) == 32 && strspn(cls, "0123456789abcdef") == 32);
}

static int parse(const json_t *j, struct pack_about *out)
{
	const char *hash = json_string_value(json_object_get(j, "sha256"));
	bool good = get_text(j, "class", out->cls, sizeof out->cls) && is_class(out->cls) &&
		    get_text(j, "label", out->label, sizeof out->label) &&
		    get_count(j, "bytes", &out->bytes) && get_count(j, "records", &out->records) &&
		    get_count(j, "code", &out->code) && get_count(j, "serial", &out->serial) &&
		    out->code <= out->records;
	if (!good || !hash || strlen(hash) != 2 * SHA256_BYTES ||
	    hex_read(hash, SHA256_BYTES, out->sha256.b) < 0)
		return fail(E_CORRUPT, "the signature does not name what it signs");
	return E_OK;
}

int pack_about_parse(const void *payload, size_t n, struct pack_about *out)
{
	*out = (struct pack_about){0};
	json_t *j = json_loadb(payload, n, JSON_REJECT_DUPLICATES, NULL);
	int rc = j ? parse(j, out) : fail(E_CORRUPT, "the signature is not of a pack");
	json_decref(j);
	return rc;
}

void pack_about_print(const struct pack_about *a, struct buf *out)
{
	char hash[2 * SHA256_BYTES + 1];
	hex_write(a->sha256.b, SHA256_BYTES, hash);
	json_t *j = json_pack("{ss so sI sI sI sI ss}", "class", a->cls, "label", json_text(a->label),
			      "bytes", (json_int_t)a->bytes, "records", (json_int_t)a->records, "code",
			      (json_int_t)a->code, "serial", (json_int_t)a->serial, "sha256", hash);
	char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	buf_puts(out, text ? text : "");
	free(text);
	json_decref(j);
}

/* Copies the payload and adds a NUL. */
static const char *text_of(const struct head *h, const uint8_t *payload, struct arena *a)
{
	char *text = arena_alloc(a, (size_t)h->n + 1);
	memcpy(text, payload, h->n);
	return text;
}

struct describe {
	struct pack_about *about;
	struct arena a;
};

static int describe_one(void *ctx, const struct head *h, const uint8_t *payload, int64_t at)
{
	struct describe *d = ctx;
	struct rec r;
	char cls[33];
	(void)at;
	d->about->records += h->type != CACHE_MARK;
	d->about->code += h->type == CACHE_CODE;
	arena_reset(&d->a);
	if ((h->type != CACHE_REC && h->type != CACHE_HINT) || h->n > TAKEN_BYTES ||
	    rec_parse(text_of(h, payload, &d->a), &d->a, &r) < 0)
		return E_OK;
	key_text(r.target_key, cls);
	bool other = d->about->cls[0] && strcmp(d->about->cls, cls);
	snprintf(d->about->cls, sizeof d->about->cls, "%s", other ? "any" : cls);
	snprintf(d->about->label, sizeof d->about->label, "%s", other || !is_plain(r.target) ? "" : r.target);
	return E_OK;
}

int pack_describe(const char *path, struct pack_about *out)
{
	struct pack_file f;
	struct describe d = {.about = out};
	*out = (struct pack_about){0};
	int rc = pack_file_open(path, &f);
	if (rc < 0)
		return rc;
	rc = pack_file_hash(&f, &out->sha256);
	if (rc >= 0)
		rc = pack_file_scan(&f, describe_one, &d);
	out->bytes = f.bytes;
	if (!out->cls[0])
		snprintf(out->cls, sizeof out->cls, "any");
	arena_free(&d.a);
	pack_file_close(&f);
	return rc;
}

static int sig_path(const char *path, char out[PATH_MAX])
{
	return snprintf(out, PATH_MAX, "%s" PACK_SIG, path) < PATH_MAX
		   ? E_OK
		   : fail(E_USAGE, "the path %.80s... is too long", path);
}

int pack_sign(const char *path, const struct pack_about *a, const struct private_key *key)
{
	char sig[PATH_MAX];
	struct buf about = {0}, doc = {0};
	int rc = sig_path(path, sig);
	pack_about_print(a, &about);
	if (rc >= 0 && (!buf_ok(&about) || !about.n))
		rc = fail(E_NOMEM, "no memory to sign %s", path);
	if (rc >= 0)
		rc = signed_write(KIND, about.p, about.n, &key, 1, &doc);
	if (rc >= 0)
		rc = buf_ok(&doc) ? file_write(sig, doc.p, doc.n)
				  : fail(E_NOMEM, "no memory to sign %s", path);
	buf_free(&about);
	buf_free(&doc);
	return rc;
}

/* Checks that a fleet key signed it, or one of the importer's keys. */
static int check_keys(const struct signed_doc *d, const struct trust *t, const struct public_key *by, int n)
{
	if (t && trust_check(t, ROLE_FLEET, d) >= 0)
		return E_OK;
	if (n && signed_check(d, by, n, 1, NULL) >= 0)
		return E_OK;
	return fail(E_WRONG, "not signed by a key that is trusted here; give its maker's key with --key");
}

/* Refuses a fleet's pack that is older than the snapshots taken so far, as it may hold records that the fleet
 * has revoked since. */
static int check_age(const struct signed_doc *d, const struct trust *t, const struct pack_about *a)
{
	int64_t floor = 0;
	bool by_fleet = t && a->serial && trust_check(t, ROLE_FLEET, d) >= 0;
	for (int i = 0; i < CHANNELS && by_fleet; i++) {
		int64_t taken = trust_floor(t, a->cls, channel_names[i]);
		floor = taken && (!floor || taken < floor) ? taken : floor;
	}
	return a->serial >= floor ? E_OK
				  : fail(E_WRONG,
					 "its serial %lld is older than %lld, which was already imported: "
					 "make the pack again",
					 (long long)a->serial, (long long)floor);
}

/* Reads and checks the signature file; the pack's bytes are not compared yet. */
static int read_sig(const char *path, const struct trust *t, const struct public_key *by, int n,
		    struct pack_about *out)
{
	struct arena a = {0};
	struct signed_doc d;
	struct blob b;
	char sig[PATH_MAX];
	int rc = sig_path(path, sig);
	if (rc >= 0)
		rc = pack_file_small(sig, PACK_SIG_BYTES, &a, &b);
	bool read = rc >= 0; /* else the text names the file already */
	if (rc >= 0)
		rc = signed_parse(b.p, b.n, KIND, &d);
	if (rc >= 0)
		rc = check_keys(&d, t, by, n);
	if (rc >= 0)
		rc = pack_about_parse(d.payload.p, d.payload.n, out);
	if (rc >= 0)
		rc = check_age(&d, t, out);
	arena_free(&a);
	return read ? fail_in(rc, "%s" PACK_SIG, path) : rc;
}

/* *f is open when it returns good. */
static int open_checked(const char *path, const struct trust *t, const struct public_key *by, int n,
			struct pack_file *f, struct pack_about *out)
{
	struct sha256 hash;
	int rc = pack_file_open(path, f);
	if (rc < 0)
		return rc;
	rc = read_sig(path, t, by, n, out);
	if (rc >= 0 && f->bytes < out->bytes)
		rc = fail(E_BUSY, "%s: only %lld of %lld bytes are there: copy it again", path,
			  (long long)f->bytes, (long long)out->bytes);
	if (rc >= 0 && f->bytes > out->bytes)
		rc = fail(E_CORRUPT, "%s is longer than the pack that was signed: copy it again", path);
	if (rc >= 0)
		rc = pack_file_hash(f, &hash);
	if (rc >= 0 && memcmp(hash.b, out->sha256.b, sizeof hash.b))
		rc = fail(E_CORRUPT, "%s does not match its signed hash: copy it again", path);
	if (rc < 0)
		pack_file_close(f);
	return rc;
}

int pack_verify(const char *path, const struct trust *t, const struct public_key *by, int n,
		struct pack_about *out)
{
	struct pack_file f;
	int rc = open_checked(path, t, by, n, &f, out);
	if (rc >= 0)
		pack_file_close(&f);
	return rc;
}

struct taking {
	struct cache *c;
	const char *path;
	const struct snapshot *of; /* holds the pack's class; NULL: any class */
	struct taken_sum *sum;
	struct exchange_sum *recipes; /* NULL: they are passed over */
	struct arena a;
};

/* Returns the type of a record. In a pack of the former version, hints lie among the records. */
static enum cache_type type_of(uint8_t type, const char *text, struct arena *a)
{
	struct rec r;
	bool hint = type == CACHE_REC && rec_parse(text, a, &r) >= 0 && r.kind == REC_HINT;
	return hint ? CACHE_HINT : (enum cache_type)type;
}

/* Takes records, choices, hints, and recipes; skips code and what belongs to the packed cache alone. */
static int take_one(void *ctx, const struct head *h, const uint8_t *payload, int64_t at)
{
	struct taking *x = ctx;
	struct exchange_line l;
	const bool recipe = h->type == CACHE_RECIPE;
	if (h->type != CACHE_REC && h->type != CACHE_CHOICES && h->type != CACHE_HINT &&
	    h->type != CACHE_HINT_CHOICES && !recipe)
		return E_OK;
	if (recipe && !x->recipes) {
		x->sum->passed++;
		x->sum->recipes++;
		return E_OK;
	}
	arena_reset(&x->a);
	const uint32_t most = recipe ? RECIPE_BYTES : TAKEN_BYTES;
	int rc = h->n <= most && !memchr(payload, 0, h->n)
		     ? E_OK
		     : fail(E_CORRUPT, "it is not text, or longer than %u bytes", most);
	const char *text = rc >= 0 ? text_of(h, payload, &x->a) : "";
	if (rc >= 0)
		rc = exchange_read(type_of(h->type, text, &x->a), h->key, text, &x->a, &l);
	if (rc >= 0)
		rc = recipe ? exchange_put(x->c, &l, &x->a, x->recipes) : taken_line(x->c, &l, x->of, x->sum);
	if (rc != E_CORRUPT)
		return rc;
	if (!x->sum->refused++)
		log_info("hone: %s: the record at byte %lld is refused: %s", x->path, (long long)at,
			 err_text());
	return E_OK;
}

static int pass_over(void *ctx, const struct head *h, const uint8_t *payload, int64_t at)
{
	(void)ctx, (void)h, (void)payload, (void)at;
	return E_OK;
}

/* Scans the whole pack first, so that nothing is taken from a damaged one. */
static int take_all(struct cache *c, struct pack_file *f, const char *cls, struct taken_sum *sum,
		    struct exchange_sum *recipes)
{
	struct snapshot of = {0};
	struct taking x = {.c = c, .path = f->path, .sum = sum, .recipes = recipes};
	if (strcmp(cls, "any")) {
		snprintf(of.cls, sizeof of.cls, "%s", cls);
		x.of = &of;
	}
	int rc = pack_file_scan(f, pass_over, NULL);
	if (rc >= 0)
		rc = pack_file_scan(f, take_one, &x);
	arena_free(&x.a);
	return rc;
}

int pack_import(struct cache *c, const char *path, const struct trust *t, const struct public_key *by, int n,
		struct taken_sum *sum, struct exchange_sum *recipes)
{
	struct pack_file f;
	struct pack_about about;
	int rc = open_checked(path, t, by, n, &f, &about);
	if (rc < 0)
		return rc;
	rc = take_all(c, &f, about.cls, sum, recipes);
	pack_file_close(&f);
	return rc;
}

int pack_import_unsigned(struct cache *c, const char *path, struct taken_sum *sum,
			 struct exchange_sum *recipes)
{
	struct pack_file f;
	struct sha256 hash;
	int rc = pack_file_open(path, &f);
	if (rc < 0)
		return rc;
	rc = pack_file_hash(&f, &hash);
	if (rc >= 0)
		rc = take_all(c, &f, "any", sum, recipes);
	pack_file_close(&f);
	return rc;
}
