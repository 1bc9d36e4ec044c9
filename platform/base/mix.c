/* SPDX-License-Identifier: Apache-2.0 */
/* MurmurHash3 x64-128 (Austin Appleby, public domain algorithm). */
#include "platform/base/mix.h"

#include <endian.h>
#include <string.h>

static uint64_t rotl(uint64_t x, int r)
{
	return (x << r) | (x >> (64 - r));
}

static uint64_t load64(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof v);
	return le64toh(v);
}

static uint64_t mix_final(uint64_t k)
{
	k = (k ^ (k >> 33)) * UINT64_C(0xff51afd7ed558ccd);
	k = (k ^ (k >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
	return k ^ (k >> 33);
}

static const uint64_t c1 = UINT64_C(0x87c37b91114253d5), c2 = UINT64_C(0x4cf5ad432745937f);

static uint64_t mix1(uint64_t k)
{
	return rotl(k * c1, 31) * c2;
}

static uint64_t mix2(uint64_t k)
{
	return rotl(k * c2, 33) * c1;
}

struct key mix_bytes(const void *bytes, size_t n, uint64_t seed)
{
	const uint8_t *p = bytes;
	uint64_t h1 = seed, h2 = seed;
	for (size_t left = n; left >= 16; left -= 16, p += 16) {
		h1 = (rotl(h1 ^ mix1(load64(p)), 27) + h2) * 5 + 0x52dce729;
		h2 = (rotl(h2 ^ mix2(load64(p + 8)), 31) + h1) * 5 + 0x38495ab5;
	}
	uint8_t tail[16] = {0};
	if (n & 15)
		memcpy(tail, p, n & 15);
	h2 ^= mix2(load64(tail + 8)) ^ n;
	h1 ^= mix1(load64(tail)) ^ n;
	h1 += h2;
	h2 += h1;
	h1 = mix_final(h1);
	h2 = mix_final(h2);
	h1 += h2;
	h2 += h1;
	return (struct key){.hi = h1, .lo = h2};
}

struct key mix_text(const char *s)
{
	return mix_bytes(s, strlen(s), 0);
}

struct key mix_join(struct key a, struct key b)
{
	uint64_t v[4] = {htole64(a.hi), htole64(a.lo), htole64(b.hi), htole64(b.lo)};
	return mix_bytes(v, sizeof v, 1);
}
