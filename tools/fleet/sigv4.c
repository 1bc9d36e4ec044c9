/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fleet/sigv4.h"
#include "agent/sync/crypto.h"
#include <ctype.h>
#include <string.h>

enum { HEX = 2 * SHA256_BYTES + 1, DAY = 8 };

void sigv4_escape(const char *path, struct buf *out)
{
	for (const unsigned char *c = (const unsigned char *)path; *c; c++)
		if ((*c < 0x80 && isalnum(*c)) || strchr("-._~/", *c))
			buf_add(out, c, 1);
		else
			buf_printf(out, "%%%02X", *c);
}

static void signed_names(const struct sigv4 *s, struct buf *out)
{
	for (int i = 0; i < s->nheader; i++)
		buf_printf(out, "%s%s", i ? ";" : "", s->header[i].name);
}

static void canonical(const struct sigv4 *s, struct buf *out)
{
	buf_printf(out, "%s\n%s\n%s\n", s->method, s->path, s->query);
	for (int i = 0; i < s->nheader; i++)
		buf_printf(out, "%s:%s\n", s->header[i].name, s->header[i].value);
	buf_puts(out, "\n");
	signed_names(s, out);
	buf_printf(out, "\n%s", s->payload);
}

/* Writes DATE/REGION/SERVICE/aws4_request. */
static void scope(const struct sigv4 *s, struct buf *out)
{
	buf_printf(out, "%.*s/%s/%s/aws4_request", DAY, s->date, s->region, s->service);
}

/* Computes the key for one day, region and service: HMACs of the secret and these. */
static int signing_key(const struct sigv4 *s, struct sha256 *key)
{
	char day[DAY + 1] = "";
	struct buf first = {0};
	strncat(day, s->date, DAY);
	const char *step[] = {day, s->region, s->service, "aws4_request"};
	buf_printf(&first, "AWS4%s", s->secret);
	int rc = buf_ok(&first) ? crypto_hmac(first.p, first.n, step[0], strlen(step[0]), key)
				: fail(E_NOMEM, "no memory");
	for (int i = 1; i < 4 && rc >= 0; i++) {
		struct sha256 last = *key;
		rc = crypto_hmac(last.b, sizeof last.b, step[i], strlen(step[i]), key);
	}
	buf_free(&first);
	return rc;
}

int sigv4_sign(const struct sigv4 *s, struct buf *out)
{
	struct buf request = {0}, text = {0};
	struct sha256 key, mac;
	char hash[HEX], sig[HEX];
	canonical(s, &request);
	int rc = crypto_sha256_hex(&request, hash);
	if (rc >= 0)
		rc = signing_key(s, &key);
	if (rc >= 0) {
		buf_printf(&text, "AWS4-HMAC-SHA256\n%s\n", s->date);
		scope(s, &text);
		buf_printf(&text, "\n%s", hash);
		rc = buf_ok(&text) ? crypto_hmac(key.b, sizeof key.b, text.p, text.n, &mac)
				   : fail(E_NOMEM, "no memory");
	}
	if (rc >= 0) {
		hex_write(mac.b, sizeof mac.b, sig);
		buf_printf(out, "AWS4-HMAC-SHA256 Credential=%s/", s->key_id);
		scope(s, out);
		buf_puts(out, ", SignedHeaders=");
		signed_names(s, out);
		buf_printf(out, ", Signature=%s", sig);
		rc = buf_ok(out) ? E_OK : fail(E_NOMEM, "no memory");
	}
	buf_free(&request);
	buf_free(&text);
	return rc;
}
