/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and CRC32C. A key is the first 128 bits of a SHA-256 (FIPS 180-4), big-endian. Nobody can construct
 * bytes with a given key, so records, code, candidates and revocations are named and found by keys although
 * strangers choose a part of their bytes. platform/base/mix.h is the faster hash for everything else. */
#ifndef PLATFORM_HASH_H
#define PLATFORM_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct key {
	uint64_t hi, lo;
};

enum { HASH_BYTES = 32 };

/* A SHA-256 that is computed from parts. */
struct hash {
	uint32_t state[8];
	uint64_t bytes; /* so far */
	uint8_t block[64];
};
void hash_begin(struct hash *h);
void hash_add(struct hash *h, const void *p, size_t n);
void hash_end(struct hash *h, uint8_t digest[HASH_BYTES]);

struct key hash_bytes(const void *p, size_t n);
struct key hash_text(const char *s);
struct key hash_join(struct key a, struct key b); /* order matters */
bool key_equal(struct key a, struct key b);
void key_text(struct key k, char out[33]);                    /* 32 hex digits */
int key_parse(const char *s, struct key *out);                /* E_CORRUPT unless exactly 32 hex digits */
uint32_t crc32c(uint32_t crc, const void *p, size_t n);       /* start with 0; chain by passing the result */
uint32_t crc32c_table(uint32_t crc, const void *p, size_t n); /* the reference, the same on every processor */

#endif
