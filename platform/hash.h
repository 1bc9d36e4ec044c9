/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes of bytes: a 128-bit key (not cryptographic; the same on every machine) and CRC32C. */
#ifndef PLATFORM_HASH_H
#define PLATFORM_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct key {
	uint64_t hi, lo;
};

struct key hash_bytes(const void *p, size_t n, uint64_t seed); /* MurmurHash3 x64-128 */
struct key hash_text(const char *s);
struct key hash_join(struct key a, struct key b); /* order matters */
bool key_equal(struct key a, struct key b);
void key_text(struct key k, char out[33]);		   /* 32 hex digits */
int key_parse(const char *s, struct key *out);		   /* E_CORRUPT unless exactly 32 hex digits */
uint32_t crc32c(uint32_t crc, const void *p, size_t n);	   /* start with 0; chain by passing the result */
uint32_t crc32c_table(uint32_t crc, const void *p, size_t n); /* the same on every processor: the reference */

#endif
