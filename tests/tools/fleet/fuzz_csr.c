/* SPDX-License-Identifier: Apache-2.0 */
/* Takes any bytes as a signing request and as a certificate: each is refused, or gives a valid key and a
 * plain name. If the first byte is even, the rest is DER, which is wrapped here; if it is odd, the rest is
 * text. */
#include "agent/sync/crypto.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static char digit(const uint8_t *p, size_t n, size_t bit)
{
	unsigned v = 0;
	for (size_t i = bit; i < bit + 6; i++)
		v = v << 1 | (i / 8 < n ? p[i / 8] >> (7 - i % 8) & 1U : 0);
	return "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[v];
}

static void wrap(const uint8_t *p, size_t n, const char *what, struct buf *out)
{
	buf_printf(out, "-----BEGIN %s-----\n", what);
	for (size_t bit = 0; bit < (n + 2) / 3 * 24; bit += 6)
		buf_printf(out, "%c%s", bit < 8 * n ? digit(p, n, bit) : '=', bit % 384 == 378 ? "\n" : "");
	buf_printf(out, "\n-----END %s-----\n", what);
}

static const char *authority(void)
{
	static struct buf pem;
	struct private_key *k;
	if (pem.n)
		return pem.p;
	if (crypto_start() < 0 || private_key_make(&k) < 0 || cert_write_ca(k, "ca", &pem) < 0)
		abort();
	private_key_free(k);
	return pem.p;
}

static void check(int rc, const struct public_key *k, const char *name)
{
	size_t n = rc < 0 ? 1 : strnlen(name, 64);
	if (rc >= 0 && (!public_key_good(k) || n < 1 || n > 63))
		abort();
	for (size_t i = 0; rc >= 0 && i < n; i++)
		if (name[i] <= ' ' || name[i] > 'z')
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	const char *ca = authority();
	struct public_key k;
	struct buf csr = {0}, cert = {0};
	char name[64];
	if (!n)
		return 0;
	if (p[0] & 1) {
		buf_add(&csr, p + 1, n - 1);
		buf_add(&cert, p + 1, n - 1);
	} else {
		wrap(p + 1, n - 1, "CERTIFICATE REQUEST", &csr);
		wrap(p + 1, n - 1, "CERTIFICATE", &cert);
	}
	check(csr_read(buf_str(&csr), csr.n, &k, name), &k, name);
	check(cert_read(buf_str(&cert), cert.n, ca, &k, name), &k, name);
	check(cert_read(buf_str(&cert), cert.n, buf_str(&cert), &k, name), &k, name);
	buf_free(&csr);
	buf_free(&cert);
	return 0;
}
