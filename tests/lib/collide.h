/* SPDX-License-Identifier: Apache-2.0 */
/* Inverts MurmurHash3 x64-128 (platform/base/mix.h), which once named records, code and candidates: one block
 * of 16 bytes, computed from all the others, gives a text a chosen hash. */
#ifndef TESTS_COLLIDE_H
#define TESTS_COLLIDE_H

#include "platform/base/hash.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct mix_state {
	uint64_t h1, h2;
};

static const uint64_t mix_c1 = UINT64_C(0x87c37b91114253d5), mix_c2 = UINT64_C(0x4cf5ad432745937f);

static inline uint64_t mix_rotl(uint64_t x, int r)
{
	return (x << r) | (x >> (64 - r));
}

/* The inverse of an odd number modulo 2^64. */
static inline uint64_t mix_inverse(uint64_t odd)
{
	uint64_t x = odd;
	for (int i = 0; i < 6; i++)
		x *= 2 - odd * x;
	return x;
}

static inline void mix_block(struct mix_state *s, const void *p)
{
	uint64_t k1, k2;
	memcpy(&k1, p, 8);
	memcpy(&k2, (const char *)p + 8, 8);
	s->h1 = (mix_rotl(s->h1 ^ mix_rotl(k1 * mix_c1, 31) * mix_c2, 27) + s->h2) * 5 + 0x52dce729;
	s->h2 = (mix_rotl(s->h2 ^ mix_rotl(k2 * mix_c2, 33) * mix_c1, 31) + s->h1) * 5 + 0x38495ab5;
}

/* Computes the block that leads from one state to the other. */
static inline void mix_bridge(struct mix_state from, struct mix_state to, char out[16])
{
	const uint64_t fifth = mix_inverse(5);
	uint64_t a = mix_rotl((to.h1 - 0x52dce729) * fifth - from.h2, 64 - 27) ^ from.h1;
	uint64_t b = mix_rotl((to.h2 - 0x38495ab5) * fifth - to.h1, 64 - 31) ^ from.h2;
	uint64_t k1 = mix_rotl(a * mix_inverse(mix_c2), 64 - 31) * mix_inverse(mix_c1);
	uint64_t k2 = mix_rotl(b * mix_inverse(mix_c1), 64 - 33) * mix_inverse(mix_c2);
	memcpy(out, &k1, 8);
	memcpy(out + 8, &k2, 8);
}

static inline bool mix_is_plain(const char *p, int n)
{
	for (int i = 0; i < n; i++)
		if (p[i] <= ' ' || p[i] > '~')
			return false;
	return true;
}

static inline uint64_t mix_unfinal(uint64_t k)
{
	k = (k ^ (k >> 33)) * mix_inverse(UINT64_C(0xc4ceb9fe1a85ec53));
	k = (k ^ (k >> 33)) * mix_inverse(UINT64_C(0xff51afd7ed558ccd));
	return k ^ (k >> 33);
}

/* The state after the whole blocks of a text of n bytes with hash k, whose last n % 16 bytes are `tail`. */
static inline struct mix_state mix_before_end(struct key k, size_t n, const char tail[16])
{
	uint64_t h2 = k.lo - k.hi, h1 = k.hi - h2, t[2] = {0, 0};
	h2 = mix_unfinal(h2);
	h1 = mix_unfinal(h1);
	h2 -= h1;
	h1 -= h2;
	memcpy(t, tail, n % 16);
	return (struct mix_state){h1 ^ n ^ mix_rotl(t[0] * mix_c1, 31) * mix_c2,
				  h2 ^ n ^ mix_rotl(t[1] * mix_c2, 33) * mix_c1};
}

/* The key y for which mix_join(x, y) is mix_join(a, b). */
static inline struct key mix_join_same(struct key a, struct key b, struct key x)
{
	const uint64_t as[4] = {a.hi, a.lo, b.hi, b.lo}, begin[2] = {x.hi, x.lo};
	struct mix_state all = {1, 1}, s = {1, 1};
	uint64_t y[2];
	mix_block(&all, as);
	mix_block(&all, as + 2);
	mix_block(&s, begin);
	mix_bridge(s, all, (char *)y);
	return (struct key){y[0], y[1]};
}

/* Finds a printable text whose mix_text is k: its last 8 bytes are searched, the first 16 computed from
 * them. */
static inline bool mix_text_of(struct key k, char out[25])
{
	char tail[16] = "";
	for (uint64_t i = 0; i < UINT64_C(1) << 28; i++) {
		for (int at = 0; at < 8; at++)
			tail[at] = (char)('?' + (i >> 6 * at) % 64);
		mix_bridge((struct mix_state){0, 0}, mix_before_end(k, 24, tail), out);
		if (!mix_is_plain(out, 16))
			continue;
		memcpy(out + 16, tail, 8);
		out[24] = 0;
		return true;
	}
	return false;
}

#endif
