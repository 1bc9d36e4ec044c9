/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/signed.h"
#include <stdio.h>
#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyz"
#define FIRST "hone-signed 1 "
enum { SIGNATURE_HEX = 2 * SIGNATURE_BYTES, SIG_LINE = 4 + KEY_ID_HEX + 1 + SIGNATURE_HEX };

/* Returns the line at `at` without its \n, and moves `at` behind it. NULL: no complete line within the
 * head. */
static const char *line_of(const char *p, size_t n, size_t *at, size_t *length)
{
	size_t room = n < SIGNED_HEAD ? n : SIGNED_HEAD;
	const char *start = p + *at, *end = *at < room ? memchr(start, '\n', room - *at) : NULL;
	if (!end)
		return NULL;
	*length = (size_t)(end - start);
	*at += *length + 1;
	return start;
}

static bool kind_good(const char *kind)
{
	size_t n = strlen(kind);
	return n > 0 && n < SIGNED_KIND && strspn(kind, LETTERS) == n;
}

/* Prints the first line in its only valid form; the parser compares its input with this. */
static int first_line(char *out, size_t n, const char *kind, size_t length)
{
	return snprintf(out, n, FIRST "%s %zu\n", kind, length);
}

/* "hone-signed 1 KIND LENGTH" */
static int first_parse(const char *line, size_t n, struct signed_doc *d, size_t *length)
{
	char text[SIGNED_KIND + 64], again[SIGNED_KIND + 64];
	if (!line || n >= sizeof text - 1 || memchr(line, 0, n))
		return fail(E_CORRUPT, "not a signed document");
	memcpy(text, line, n);
	memcpy(text + n, "\n", 2);
	if (sscanf(text, FIRST "%15[" LETTERS "] %15zu", d->kind, length) != 2 ||
	    first_line(again, sizeof again, d->kind, *length) < 0 || strcmp(text, again))
		return fail(E_CORRUPT, "not a signed document of version 1");
	return E_OK;
}

static bool lower_hex(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!memchr("0123456789abcdef", p[i], 16))
			return false;
	return true;
}

/* "sig KEYID SIGNATURE" */
static int sig_parse(const char *line, size_t n, struct signed_doc *d)
{
	char hex[SIGNATURE_HEX + 1] = "";
	if (d->n == SIGNED_MOST)
		return fail(E_CORRUPT, "more than %d signatures", SIGNED_MOST);
	const char *id = line + 4, *sig = id + KEY_ID_HEX + 1;
	if (n != SIG_LINE || memcmp(line, "sig ", 4) || sig[-1] != ' ' || !lower_hex(id, KEY_ID_HEX) ||
	    !lower_hex(sig, SIGNATURE_HEX))
		return fail(E_CORRUPT,
			    "signature %d is not of the form \"sig KEYID SIGNATURE\" in hex digits", d->n);
	struct signed_by *by = &d->by[d->n++];
	memcpy(by->id, id, KEY_ID_HEX);
	memcpy(hex, sig, SIGNATURE_HEX);
	for (struct signed_by *b = d->by; b < by; b++)
		if (!strcmp(b->id, by->id))
			return fail(E_CORRUPT, "key %s signed twice", by->id);
	return hex_read(hex, SIGNATURE_BYTES, by->sig.b);
}

static int hash_of(const char *first, size_t n, const struct blob *payload, struct sha256 *out)
{
	struct crypto_hash *h;
	int rc = crypto_hash_begin(&h);
	if (rc < 0)
		return rc;
	rc = crypto_hash_add(h, first, n);
	if (rc >= 0)
		rc = crypto_hash_add(h, payload->p, payload->n);
	int end = crypto_hash_end(h, rc < 0 ? NULL : out);
	return rc < 0 ? rc : end;
}

static int parse(const void *p, size_t n, struct signed_doc *d)
{
	size_t at = 0, length = 0, line_n = 0;
	const char *line = line_of(p, n, &at, &line_n);
	*d = (struct signed_doc){0};
	int rc = first_parse(line, line_n, d, &length);
	size_t first_n = at;
	while (rc >= 0 && (line = line_of(p, n, &at, &line_n)) && line_n)
		rc = sig_parse(line, line_n, d);
	if (rc < 0)
		return rc;
	if (!line)
		return fail(E_CORRUPT, "a signed document without the empty line that ends its head");
	if (n - at != length)
		return fail(E_CORRUPT, "a signed document has %zu bytes, but its first line says %zu", n - at,
			    length);
	d->payload = (struct blob){(const char *)p + at, length};
	return hash_of(p, first_n, &d->payload, &d->hash);
}

int signed_parse(const void *p, size_t n, const char *kind, struct signed_doc *out)
{
	int rc = parse(p, n, out);
	if (rc >= 0 && strcmp(out->kind, kind))
		rc = fail(E_CORRUPT, "this is a signed document of kind %s; one of kind %s is needed",
			  out->kind, kind);
	return rc;
}

/* Returns the index in key[n] of the key with this id; -1: none has it. */
static int find(const char *id, const struct public_key *key, int n)
{
	for (int i = 0; i < n; i++) {
		char its[KEY_ID_HEX + 1];
		public_key_id(&key[i], its);
		if (!strcmp(id, its))
			return i;
	}
	return -1;
}

int signed_check(const struct signed_doc *d, const struct public_key *key, int n, int threshold, int *who)
{
	int good = 0, unknown = 0;
	if (threshold < 1)
		return fail(E_USAGE, "a threshold of %d signatures is not possible; it is 1 or more",
			    threshold);
	for (int i = 0; i < d->n; i++) {
		int k = find(d->by[i].id, key, n);
		unknown += k < 0;
		if (k < 0 || !crypto_verified(&key[k], &d->hash, &d->by[i].sig))
			continue;
		if (!good++ && who)
			*who = k;
	}
	if (good >= threshold)
		return good;
	int bad = d->n - unknown - good;
	if (bad)
		return fail(E_WRONG,
			    "%d signature%s of a trusted key %s not match the content: it was changed after "
			    "signing; fetch it again",
			    bad, plural_s(bad), bad == 1 ? "does" : "do");
	if (!good)
		return fail(E_WRONG,
			    "not signed by a key that your root file trusts; is this the right server?");
	return fail(E_WRONG, "%d of the %d keys that must sign %s signed", good, threshold,
		    good == 1 ? "has" : "have");
}

static int sign(const struct private_key *key, const struct sha256 *hash, struct signed_by *by)
{
	struct public_key its;
	private_key_public(key, &its);
	public_key_id(&its, by->id);
	return crypto_sign(key, hash, &by->sig);
}

static int print(const struct signed_doc *d, const char *first, struct buf *out)
{
	buf_puts(out, first);
	for (int i = 0; i < d->n; i++) {
		char hex[SIGNATURE_HEX + 1];
		hex_write(d->by[i].sig.b, SIGNATURE_BYTES, hex);
		buf_printf(out, "sig %s %s\n", d->by[i].id, hex);
	}
	buf_puts(out, "\n");
	buf_add(out, d->payload.p, d->payload.n);
	return buf_ok(out) ? E_OK : fail(E_NOMEM, "no memory for a signed document");
}

int signed_write(const char *kind, const void *payload, size_t length, const struct private_key *const *key,
		 int n, struct buf *out)
{
	char first[SIGNED_KIND + 64];
	struct signed_doc d = {.payload = {payload, length}};
	if (!kind_good(kind))
		return fail(E_USAGE, "'%.40s' is not a kind of document: write at most %d lower-case letters",
			    kind, SIGNED_KIND - 1);
	if (n < 0 || n > SIGNED_MOST)
		return fail(E_USAGE, "%d signatures; at most %d are possible", n, SIGNED_MOST);
	int rc = hash_of(first, (size_t)first_line(first, sizeof first, kind, length), &d.payload, &d.hash);
	for (; d.n < n && rc >= 0; d.n++)
		rc = sign(key[d.n], &d.hash, &d.by[d.n]);
	return rc < 0 ? rc : print(&d, first, out);
}

int signed_add(const void *p, size_t n, const struct private_key *key, struct buf *out)
{
	char first[SIGNED_KIND + 64];
	struct signed_doc d;
	struct signed_by by;
	int rc = parse(p, n, &d);
	if (rc >= 0)
		rc = sign(key, &d.hash, &by);
	if (rc < 0)
		return rc;
	for (int i = 0; i < d.n; i++)
		if (!strcmp(d.by[i].id, by.id))
			return fail(E_BUSY, "key %s has signed it already", by.id);
	if (d.n == SIGNED_MOST)
		return fail(E_USAGE, "it has %d signatures; more are not possible", d.n);
	d.by[d.n++] = by;
	first_line(first, sizeof first, d.kind, d.payload.n);
	return print(&d, first, out);
}
