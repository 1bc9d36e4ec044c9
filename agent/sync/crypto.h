/* SPDX-License-Identifier: Apache-2.0 */
/* The cryptography that sharing needs: SHA-256, ECDSA on P-256 with SHA-256, random bytes, certificates. It
 * wraps mbedTLS (2.28, 3.6, 4.1), but no mbedTLS type appears here. Callers hold plain values; only private
 * keys are opaque. Thread-safe after crypto_start.
 *
 * A public key is 65 bytes: 4, x, y (big endian). Its id is the first 16 bytes of its SHA-256. A signature is
 * 64 bytes: r, s; signatures are deterministic (RFC 6979). A private key's file is PEM that only its owner
 * can read. */
#ifndef AGENT_CRYPTO_H
#define AGENT_CRYPTO_H

#include "platform/base/buf.h"
#include "platform/base/err.h"
#include "platform/base/file.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, PUBLIC_KEY_BYTES = 65, SIGNATURE_BYTES = 64, KEY_ID_HEX = 32 };

struct sha256 {
	uint8_t b[SHA256_BYTES];
};
struct public_key {
	uint8_t b[PUBLIC_KEY_BYTES];
};
struct signature {
	uint8_t b[SIGNATURE_BYTES];
};

/* Call it once in a process before all else; further calls are harmless. */
int crypto_start(void) MUST_CHECK;
/* Writes n unpredictable bytes. */
int crypto_random(void *p, size_t n) MUST_CHECK;

int crypto_sha256(const void *p, size_t n, struct sha256 *out) MUST_CHECK;
/* Hashes a buffer's content into 64 hex digits and a NUL. */
int crypto_sha256_hex(const struct buf *b, char out[2 * SHA256_BYTES + 1]) MUST_CHECK;
/* Hashes bytes that arrive in parts. crypto_hash_end frees h; out NULL: only frees it. */
struct crypto_hash;
int crypto_hash_begin(struct crypto_hash **out) MUST_CHECK;
int crypto_hash_add(struct crypto_hash *h, const void *p, size_t n) MUST_CHECK;
int crypto_hash_end(struct crypto_hash *h, struct sha256 *out);
/* HMAC-SHA-256 (RFC 2104). */
int crypto_hmac(const void *key, size_t nkey, const void *p, size_t n, struct sha256 *out) MUST_CHECK;

/* Lower-case hex; out has 2 * n + 1 bytes. hex_read reads exactly n bytes, in either case; else E_CORRUPT. */
void hex_write(const void *p, size_t n, char *out);
int hex_read(const char *text, size_t n, void *out) MUST_CHECK;

struct private_key;
int private_key_make(struct private_key **out) MUST_CHECK;
/* E_NOTFOUND: no such file; E_CORRUPT: not a P-256 key in PEM; E_USAGE: others may read the file. */
int private_key_read(const char *path, struct private_key **out) MUST_CHECK;
/* Writes with mode 0600; never overwrites a file (E_BUSY). */
int private_key_write(const struct private_key *k, const char *path) MUST_CHECK;
void private_key_free(struct private_key *k); /* wipes its memory */
void private_key_public(const struct private_key *k, struct public_key *out);
int crypto_sign(const struct private_key *k, const struct sha256 *hash, struct signature *out) MUST_CHECK;

void public_key_id(const struct public_key *k, char out[KEY_ID_HEX + 1]);
/* Reads a public key in PEM (n bytes). Hostile input: E_CORRUPT, if it is not one of P-256. */
int public_key_pem(const char *pem, size_t n, struct public_key *out) MUST_CHECK;
bool public_key_good(const struct public_key *k); /* checks that it is a point of the curve */
bool crypto_verified(const struct public_key *k, const struct sha256 *hash, const struct signature *s);

/* Certificates are X.509 in PEM. Boards have no trustworthy clock, so certificates made here are valid from
 * the year 2000 on. */

/* Writes a certificate signing request for CN=name (letters, digits, '-', '.', '_'; at most 63). */
int csr_write(const struct private_key *k, const char *name, struct buf *pem) MUST_CHECK;
/* Reads a signing request and checks that its maker has the private key. name: 64 bytes. Hostile input:
 * E_CORRUPT (fuzzed). */
int csr_read(const char *pem, size_t n, struct public_key *out, char name[64]) MUST_CHECK;
/* Writes a certificate authority's own certificate. */
int cert_write_ca(const struct private_key *ca, const char *name, struct buf *pem) MUST_CHECK;
/* Writes a certificate for a client or a server (host: its DNS name or IP address; NULL: a client). Its
 * serial number is 16 random bytes. It is valid for `years` after now_s (seconds since 1970). */
int cert_write(const struct private_key *ca, const char *ca_pem, const struct public_key *of,
	       const char *name, const char *host, int64_t now_s, int years, struct buf *pem) MUST_CHECK;
/* Reads one certificate and checks that this authority signed it (else E_WRONG); its dates are not checked.
 * Hostile input: E_CORRUPT. */
int cert_read(const char *pem, size_t n, const char *ca_pem, struct public_key *out,
	      char name[64]) MUST_CHECK;
/* Calls `each` with every host named by a server's certificate (the first one of a chain): DNS names, also
 * "*.example.org", and addresses as text. `each` stops the loop by returning < 0, which is returned.
 * E_CORRUPT: not PEM. */
int cert_hosts(const char *pem, size_t n, int (*each)(void *ctx, const char *host), void *ctx) MUST_CHECK;

#endif
