/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 comes from libmd, which has a stable interface and needs no other library: libhone and honed link no TLS
 * library, and what they read is named by these keys. */
#include "platform/hash.h"
#include "platform/err.h"

#include <endian.h>
#include <sha2.h>
#include <stdio.h>
#include <string.h>

void hash_begin(struct hash *h)
{
	_Static_assert(sizeof(SHA2_CTX) <= sizeof h->state, "the state of a hash has room for libmd's");
	SHA256Init((SHA2_CTX *)h->state);
}

void hash_add(struct hash *h, const void *p, size_t n)
{
	SHA256Update((SHA2_CTX *)h->state, p, n);
}

void hash_end(struct hash *h, uint8_t digest[HASH_BYTES])
{
	SHA256Final(digest, (SHA2_CTX *)h->state);
}

static struct key key_of(struct hash *h)
{
	uint8_t digest[HASH_BYTES];
	uint64_t v[2];
	hash_end(h, digest);
	memcpy(v, digest, sizeof v);
	return (struct key){.hi = be64toh(v[0]), .lo = be64toh(v[1])};
}

struct key hash_bytes(const void *p, size_t n)
{
	struct hash h;
	hash_begin(&h);
	hash_add(&h, p, n);
	return key_of(&h);
}

struct key hash_text(const char *s)
{
	return hash_bytes(s, strlen(s));
}

struct key hash_join(struct key a, struct key b)
{
	uint64_t v[4] = {htobe64(a.hi), htobe64(a.lo), htobe64(b.hi), htobe64(b.lo)};
	return hash_bytes(v, sizeof v);
}

bool key_equal(struct key a, struct key b)
{
	return a.hi == b.hi && a.lo == b.lo;
}

void key_text(struct key k, char out[33])
{
	snprintf(out, 33, "%016llx%016llx", (unsigned long long)k.hi, (unsigned long long)k.lo);
}

static int hex_digit(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c ? strchr(digits, c) : NULL;
	return at ? (int)(at - digits) : -1;
}

int key_parse(const char *s, struct key *out)
{
	uint64_t v[2] = {0, 0};
	int n = 0;
	for (; n < 32; n++) {
		int d = hex_digit(s[n]);
		if (d < 0)
			break;
		v[n / 16] = v[n / 16] << 4 | (uint64_t)d;
	}
	if (n != 32 || s[32])
		return fail(E_CORRUPT, "a key is 32 lower-case hex digits, not '%.40s'", s);
	*out = (struct key){.hi = v[0], .lo = v[1]};
	return E_OK;
}
