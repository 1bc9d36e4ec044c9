/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/trust.h"
#include "agent/cache/json.h"
#include "agent/sync/snapshot.h"
#include "platform/base/log.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { KEY_HEX = 2 * PUBLIC_KEY_BYTES, CLASS_HEX = 32 };
static const int64_t whole_most = INT64_C(1) << 53; /* largest integer that every JSON reader keeps exact */
static const char *const role_names[ROLES] = {"root", "fleet"};

/* ---- root documents ---- */

static int key_parse_hex(const json_t *j, struct public_key *k)
{
	char hex[KEY_HEX + 1];
	if (!json_hex(j, hex, KEY_HEX) || hex_read(hex, PUBLIC_KEY_BYTES, k->b) < 0)
		return fail(E_CORRUPT, "a key is not %d hex digits", KEY_HEX);
	return public_key_good(k) ? E_OK : fail(E_CORRUPT, "a key is not a point of the curve");
}

static int role_parse(const json_t *o, const char *name, struct role_keys *r)
{
	const json_t *role = json_object_get(o, name), *list;
	int64_t threshold = 0;
	int n = json_read_list(role, "keys", TRUST_KEYS, &list), rc = n;
	if (rc >= 0)
		rc = json_read_whole(role, "threshold", 1, n < SIGNED_MOST ? n : SIGNED_MOST, &threshold);
	for (r->n = 0; r->n < n && rc >= 0; r->n++)
		rc = key_parse_hex(json_array_get(list, (size_t)r->n), &r->key[r->n]);
	r->threshold = (int)threshold;
	return fail_in(rc, "%s", name);
}

/* Returns whether k is among the first n keys of a role. */
static bool has_key(const struct role_keys *r, int n, const struct public_key *k)
{
	for (int i = 0; i < n; i++)
		if (!memcmp(&r->key[i], k, sizeof *k))
			return true;
	return false;
}

static int keys_differ(const struct root *r)
{
	for (int role = 0; role < ROLES; role++)
		for (int i = 0; i < r->role[role].n; i++)
			for (int other = 0; other <= role; other++)
				if (has_key(&r->role[other], other < role ? r->role[other].n : i,
					    &r->role[role].key[i]))
					return fail(E_CORRUPT, "%s: a key is listed twice", role_names[role]);
	return E_OK;
}

static int object_parse(const json_t *o, struct root *r)
{
	int rc = json_read_whole(o, "version", 1, whole_most, &r->version);
	for (int i = 0; i < ROLES && rc >= 0; i++)
		rc = role_parse(o, role_names[i], &r->role[i]);
	return rc < 0 ? rc : keys_differ(r);
}

int root_parse(const void *payload, size_t n, struct root *out)
{
	json_t *o;
	*out = (struct root){0};
	if (n > TRUST_BYTES)
		return fail(E_CORRUPT, "root: %zu bytes, more than the %d allowed", n, TRUST_BYTES);
	int rc = json_read(payload, n, &o);
	if (rc < 0)
		return fail_in(rc, "root");
	rc = object_parse(o, out);
	json_decref(o);
	return fail_in(rc, "root");
}

void root_print(const struct root *r, struct buf *out)
{
	buf_printf(out, "{\"version\":%lld", (long long)r->version);
	for (int i = 0; i < ROLES; i++) {
		buf_printf(out, ",\"%s\":{\"threshold\":%d,\"keys\":[", role_names[i], r->role[i].threshold);
		for (int k = 0; k < r->role[i].n; k++) {
			char hex[KEY_HEX + 1];
			hex_write(r->role[i].key[k].b, PUBLIC_KEY_BYTES, hex);
			buf_printf(out, "%s\"%s\"", k ? "," : "", hex);
		}
		buf_puts(out, "]}");
	}
	buf_puts(out, "}");
}

static int open_root(const void *p, size_t n, struct signed_doc *d, struct root *r)
{
	if (n > TRUST_BYTES)
		return fail(E_CORRUPT, "root: %zu bytes, more than the %d allowed", n, TRUST_BYTES);
	int rc = signed_parse(p, n, "root", d);
	return rc < 0 ? fail_in(rc, "root") : root_parse(d->payload.p, d->payload.n, r);
}

static int check_role(const struct root *r, enum trust_role role, const struct signed_doc *d)
{
	const struct role_keys *its = &r->role[role];
	return fail_in(signed_check(d, its->key, its->n, its->threshold, NULL),
		       "checked with the %s keys of version %lld", role_names[role], (long long)r->version);
}

int root_read(const void *p, size_t n, struct root *out)
{
	struct signed_doc d;
	int rc = open_root(p, n, &d, out);
	if (rc >= 0)
		rc = check_role(out, ROLE_ROOT, &d);
	return rc < 0 ? rc : E_OK;
}

int root_follows(const struct root *now, const void *p, size_t n, struct root *next)
{
	struct signed_doc d;
	int rc = open_root(p, n, &d, next);
	if (rc >= 0 && next->version != now->version + 1)
		rc = fail(E_UNSUPPORTED,
			  "root: version %lld does not follow version %lld; install version %lld first",
			  (long long)next->version, (long long)now->version, (long long)now->version + 1);
	if (rc >= 0)
		rc = check_role(now, ROLE_ROOT, &d);
	if (rc >= 0)
		rc = check_role(next, ROLE_ROOT, &d);
	return rc < 0 ? rc : E_OK;
}

/* ---- the state: a file ----
 *
 *	hone-trust 1 SHA256\n        of all that follows
 *	CLASS CHANNEL SERIAL\n       for each
 *	\n
 *	the newest root document, to the end
 */

#define FIRST "hone-trust 1 "
enum { FIRST_BYTES = sizeof FIRST - 1 + 2 * SHA256_BYTES + 1, LINE = CLASS_HEX + 40 };
enum { STATE_BYTES = FIRST_BYTES + TRUST_FLOORS * LINE + 1 + TRUST_BYTES };

struct floor {
	char cls[CLASS_HEX + 1], channel[16];
	int64_t serial;
};

struct floors {
	int n;
	struct floor floor[TRUST_FLOORS];
};

struct trust {
	char path[PATH_MAX];
	struct root root;
	struct buf doc; /* the root's bytes */
	struct floors taken, image;
};

static struct floor *floor_of(const struct floors *f, const char *cls, const char *channel)
{
	for (int i = 0; i < f->n; i++)
		if (!strcmp(f->floor[i].cls, cls) && !strcmp(f->floor[i].channel, channel))
			return (struct floor *)&f->floor[i];
	return NULL;
}

/* Sets a floor to the higher of its value and this one. */
static int floor_raise(struct floors *f, const struct floor *to)
{
	struct floor *is = floor_of(f, to->cls, to->channel);
	if (is)
		is->serial = to->serial > is->serial ? to->serial : is->serial;
	else if (f->n < TRUST_FLOORS)
		f->floor[f->n++] = *to;
	else
		return fail(E_NOMEM, "serials of more than %d classes and channels", TRUST_FLOORS);
	return E_OK;
}

static int floor_check(const struct floor *f)
{
	enum channel c;
	if (strlen(f->cls) != CLASS_HEX || strspn(f->cls, "0123456789abcdef") != CLASS_HEX)
		return fail(E_USAGE, "'%.40s' is not a class of boards: write %d hex digits", f->cls,
			    CLASS_HEX);
	if (f->serial < 1 || f->serial > whole_most)
		return fail(E_USAGE, "%lld is not a serial", (long long)f->serial);
	return channel_parse(f->channel, &c);
}

/* "CLASS CHANNEL SERIAL" */
static int floor_parse(const char *line, size_t n, struct floors *f)
{
	char text[LINE + 1];
	struct floor one = {0};
	long long serial;
	int end = 0;
	if (n > LINE || memchr(line, 0, n))
		return fail(E_CORRUPT, "a line of serials is too long or has a NUL byte");
	memcpy(text, line, n);
	text[n] = 0;
	if (sscanf(text, "%32s %15s %16lld%n", one.cls, one.channel, &serial, &end) != 3 || text[end])
		return fail(E_CORRUPT, "'%s' is not \"CLASS CHANNEL SERIAL\"", text);
	one.serial = serial;
	int rc = floor_check(&one);
	if (rc >= 0)
		rc = floor_raise(f, &one);
	return rc == E_USAGE ? E_CORRUPT : rc;
}

/* Parses lines up to an empty one, or the end; returns where they end. NULL: an error. */
static const char *floors_parse(const char *at, const char *end, struct floors *f)
{
	for (const char *stop; at < end; at = stop + 1) {
		stop = memchr(at, '\n', (size_t)(end - at));
		stop = stop ? stop : end;
		if (stop == at)
			return stop + 1;
		if (floor_parse(at, (size_t)(stop - at), f) < 0)
			return NULL;
		if (stop == end)
			break;
	}
	return end;
}

static int state_parse(const struct blob *b, struct floors *f, struct blob *doc, struct root *r)
{
	const char *p = b->p, *end = p + b->n;
	char first[FIRST_BYTES + 1] = FIRST;
	struct sha256 h;
	if (b->n < FIRST_BYTES)
		return fail(E_CORRUPT, "it is cut short");
	int rc = crypto_sha256(p + FIRST_BYTES, b->n - FIRST_BYTES, &h);
	if (rc < 0)
		return rc;
	hex_write(h.b, SHA256_BYTES, first + sizeof FIRST - 1);
	first[FIRST_BYTES - 1] = '\n';
	if (memcmp(p, first, FIRST_BYTES))
		return fail(E_CORRUPT, "its hash does not match");
	p = floors_parse(p + FIRST_BYTES, end, f);
	if (!p)
		return E_CORRUPT;
	*doc = (struct blob){p, (size_t)(end - p)};
	return root_read(doc->p, doc->n, r);
}

/* Durable when it returns good. */
static int state_write(const struct trust *t, const struct floors *f, const struct blob *doc)
{
	struct buf body = {0};
	struct sha256 h;
	char first[FIRST_BYTES + 1] = FIRST;
	for (int i = 0; i < f->n; i++)
		buf_printf(&body, "%s %s %lld\n", f->floor[i].cls, f->floor[i].channel,
			   (long long)f->floor[i].serial);
	buf_puts(&body, "\n");
	buf_add(&body, doc->p, doc->n);
	int rc = buf_ok(&body) ? crypto_sha256(body.p, body.n, &h)
			       : fail(E_NOMEM, "no memory for the state of trust");
	if (rc >= 0) {
		hex_write(h.b, SHA256_BYTES, first + sizeof FIRST - 1);
		first[FIRST_BYTES - 1] = '\n';
		const struct blob part[] = {{first, FIRST_BYTES}, {body.p, body.n}};
		rc = file_write_parts(t->path, part, 2, 0600);
	}
	buf_free(&body);
	return rc;
}

/* Replaces `to`, which stays unchanged after an error. */
static int copy_doc(struct buf *to, const struct blob *doc)
{
	struct buf b = {0};
	buf_add(&b, doc->p, doc->n);
	if (!buf_ok(&b))
		return fail(E_NOMEM, "no memory for a root document");
	buf_free(to);
	*to = b;
	return E_OK;
}

/* Returns whether the fleet's old and new keys overlap. If none stays, serials begin anew, as a stolen key
 * may have signed the highest possible serial. Nothing old can be replayed, as old keys' signatures no longer
 * count. */
static bool serials_stay(const struct root *was, const struct root *is)
{
	const struct role_keys *old = &was->role[ROLE_FLEET], *new = &is->role[ROLE_FLEET];
	for (int i = 0; i < old->n; i++)
		if (has_key(new, new->n, &old->key[i]))
			return true;
	return false;
}

/* ---- opening ---- */

static int image_serials(struct trust *t, const char *image, struct arena *a)
{
	char path[PATH_MAX];
	struct blob b;
	const char *slash = strrchr(image, '/');
	int dir = slash ? (int)(slash + 1 - image) : 0;
	if (snprintf(path, sizeof path, "%.*sSERIALS", dir, image) >= (int)sizeof path)
		return fail(E_USAGE, "the path %.60s... is too long", image);
	int rc = file_read(a, path, TRUST_FLOORS * LINE, &b);
	if (rc < 0)
		return rc == E_NOTFOUND ? E_OK : rc;
	const char *end = (const char *)b.p + b.n;
	return floors_parse(b.p, end, &t->image) == end ? E_OK
							: fail_in(E_CORRUPT, "image's serials %s", path);
}

static int open_image(struct trust *t, const char *image, struct arena *a)
{
	struct blob doc;
	int rc = file_read(a, image, TRUST_BYTES, &doc);
	if (rc == E_NOTFOUND)
		return fail(rc,
			    "no root of trust: %s is missing; whoever makes the image must install the "
			    "fleet's root there, or name its file by root = in [sync] of honed.conf",
			    image);
	if (rc >= 0)
		rc = root_read(doc.p, doc.n, &t->root);
	if (rc >= 0)
		rc = copy_doc(&t->doc, &doc);
	return rc < 0 ? fail_in(rc, "image's root %s", image) : image_serials(t, image, a);
}

/* Takes the state's serials, and its root if that is newer: an update of the image may have brought a newer
 * root. */
static int take_state(struct trust *t, const struct blob *b)
{
	struct blob doc = {0};
	struct root root;
	int rc = state_parse(b, &t->taken, &doc, &root);
	if (rc < 0)
		return rc;
	if (t->root.version >= root.version) {
		if (!serials_stay(&root, &t->root))
			t->taken.n = 0;
		return E_OK;
	}
	t->root = root;
	return copy_doc(&t->doc, &doc);
}

/* Returns 1 if the state is damaged. */
static int open_state(struct trust *t, struct arena *a)
{
	struct blob b;
	struct stat st;
	int rc;
	if (stat(t->path, &st) == 0 && st.st_size > STATE_BYTES)
		rc = fail(E_CORRUPT, "it has %lld bytes", (long long)st.st_size);
	else
		rc = file_read(a, t->path, STATE_BYTES, &b);
	if (rc == E_NOTFOUND)
		return E_OK;
	if (rc >= 0)
		rc = take_state(t, &b);
	if (rc != E_CORRUPT && rc != E_WRONG)
		return rc;
	log_error("%s is damaged (%s): using the root and the serials of the image instead", t->path,
		  err_text());
	t->taken.n = 0;
	return 1;
}

int trust_open(const char *image, const char *dir, struct trust **out)
{
	struct arena a = {0};
	struct trust *t = calloc(1, sizeof *t);
	if (!t)
		return fail(E_NOMEM, "no memory for the state of trust");
	int rc = open_image(t, image ? image : TRUST_ROOT, &a);
	if (rc >= 0)
		rc = file_mkdirs(dir, 0700);
	if (rc >= 0 && snprintf(t->path, sizeof t->path, "%s/trust", dir) >= (int)sizeof t->path)
		rc = fail(E_USAGE, "the path %.60s... is too long", dir);
	if (rc >= 0)
		rc = open_state(t, &a);
	arena_free(&a);
	if (rc < 0)
		trust_close(t);
	else
		*out = t;
	return rc;
}

void trust_close(struct trust *t)
{
	if (t)
		buf_free(&t->doc);
	free(t);
}

/* ---- root updates, serials ---- */

const struct root *trust_root(const struct trust *t)
{
	return &t->root;
}

int trust_advance(struct trust *t, const void *p, size_t n)
{
	static struct floors none; /* never written; not const, or else the program has 16 KB of zeros */
	const struct blob doc = {p, n};
	struct signed_doc d;
	struct root next;
	int rc = open_root(p, n, &d, &next);
	if (rc < 0 || next.version <= t->root.version)
		return rc < 0 ? rc : 0;
	rc = root_follows(&t->root, p, n, &next);
	if (rc < 0)
		return rc;
	struct buf kept = {0};
	bool stay = serials_stay(&t->root, &next);
	rc = copy_doc(&kept, &doc);
	if (rc >= 0)
		rc = state_write(t, stay ? &t->taken : &none, &doc);
	if (rc < 0) {
		buf_free(&kept);
		return rc;
	}
	buf_free(&t->doc);
	t->doc = kept;
	t->root = next;
	t->taken.n = stay ? t->taken.n : 0;
	return 1;
}

int trust_check(const struct trust *t, enum trust_role role, const struct signed_doc *d)
{
	return check_role(&t->root, role, d);
}

int64_t trust_floor(const struct trust *t, const char *cls, const char *channel)
{
	const struct floor *taken = floor_of(&t->taken, cls, channel),
			   *image = floor_of(&t->image, cls, channel);
	int64_t a = taken ? taken->serial : 0, b = image ? image->serial : 0;
	return a > b ? a : b;
}

int trust_raise(struct trust *t, const char *cls, const char *channel, int64_t serial)
{
	struct floor to = {.serial = serial};
	struct floors next = t->taken;
	int64_t is = trust_floor(t, cls, channel);
	if (snprintf(to.cls, sizeof to.cls, "%s", cls) >= (int)sizeof to.cls ||
	    snprintf(to.channel, sizeof to.channel, "%s", channel) >= (int)sizeof to.channel)
		return fail(E_USAGE, "not a class and channel: %.40s %.40s", cls, channel);
	int rc = floor_check(&to);
	if (rc >= 0 && serial < is)
		rc = fail(E_WRONG, "serial %lld of %s %s is older than %lld, which this board has already",
			  (long long)serial, cls, channel, (long long)is);
	if (rc < 0 || serial == is)
		return rc;
	rc = floor_raise(&next, &to);
	if (rc >= 0)
		rc = state_write(t, &next, &(struct blob){t->doc.p, t->doc.n});
	if (rc >= 0)
		t->taken = next;
	return rc;
}
