/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 after FIPS 180-4, sections 4.1.2, 5 and 6.2. It is our own because libhone and honed name records
 * by it but link no cryptographic library, and every one that could be linked statically is several times its
 * size. tests/platform/base/test_hash.c compares it with mbedTLS's. */
#include "platform/base/hash.h"
#include "platform/base/err.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK = 64, ROUNDS = 64 };

static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
				  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
static const uint32_t round_constant[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotr(uint32_t x, int n)
{
	return x >> n | x << (32 - n);
}

/* The message schedule of a block. */
static void expand(const uint8_t *block, uint32_t w[ROUNDS])
{
	memcpy(w, block, BLOCK);
	for (int i = 0; i < 16; i++)
		w[i] = be32toh(w[i]);
	for (int i = 16; i < ROUNDS; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];
		w[i] = w[i - 16] + (rotr(a, 7) ^ rotr(a, 18) ^ a >> 3) + w[i - 7] +
		       (rotr(b, 17) ^ rotr(b, 19) ^ b >> 10);
	}
}

/* a to h are named as in the standard. */
static void compress(uint32_t s[8], const uint8_t *block)
{
	uint32_t w[ROUNDS], a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
	expand(block, w);
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t t1 = h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + (g ^ (e & (f ^ g))) +
			      round_constant[i] + w[i];
		uint32_t t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) | (c & (a | b)));
		h = g, g = f, f = e, e = d + t1;
		d = c, c = b, b = a, a = t1 + t2;
	}
	const uint32_t v[8] = {a, b, c, d, e, f, g, h};
	for (int i = 0; i < 8; i++)
		s[i] += v[i];
}

void hash_begin(struct hash *h)
{
	memcpy(h->state, first, sizeof first);
	h->bytes = 0;
}

void hash_add(struct hash *h, const void *p, size_t n)
{
	const uint8_t *from = p;
	size_t held = (size_t)(h->bytes % BLOCK);
	h->bytes += n;
	while (n) {
		size_t part = n < BLOCK - held ? n : BLOCK - held;
		memcpy(h->block + held, from, part);
		held += part;
		from += part;
		n -= part;
		if (held == BLOCK) {
			compress(h->state, h->block);
			held = 0;
		}
	}
}

void hash_end(struct hash *h, uint8_t digest[HASH_BYTES])
{
	static const uint8_t padding[BLOCK] = {0x80};
	uint64_t bits = htobe64(h->bytes * 8);
	hash_add(h, padding, (size_t)(BLOCK - (h->bytes + sizeof bits) % BLOCK));
	hash_add(h, &bits, sizeof bits);
	for (int i = 0; i < 8; i++) {
		uint32_t word = htobe32(h->state[i]);
		memcpy(digest + 4 * i, &word, sizeof word);
	}
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
