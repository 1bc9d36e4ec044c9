/* SPDX-License-Identifier: Apache-2.0 */
/* xoshiro256** and splitmix64: Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2018.
 */
#include "platform/base/rng.h"

static uint64_t rotl(uint64_t x, int r)
{
	return (x << r) | (x >> (64 - r));
}

void rng_seed(struct rng *r, uint64_t seed)
{
	for (int i = 0; i < 4; i++) {
		uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);
		z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
		z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
		r->s[i] = z ^ (z >> 31);
	}
}

uint64_t rng_u64(struct rng *r)
{
	uint64_t *s = r->s, result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;
	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}

/* Multiply-shift with rejection (Lemire 2019): the low word below 2^32 mod n would favour some results. */
uint32_t rng_below(struct rng *r, uint32_t n)
{
	uint64_t m = (rng_u64(r) >> 32) * n;
	if ((uint32_t)m < n) {
		uint32_t reject = -n % n;
		while ((uint32_t)m < reject)
			m = (rng_u64(r) >> 32) * n;
	}
	return (uint32_t)(m >> 32);
}

double rng_unit(struct rng *r)
{
	return (double)(rng_u64(r) >> 11) * 0x1p-53;
}

/* Sum of twelve uniforms: no libm, whose last bits differ between machines. Never beyond 6 deviations. */
double rng_normal(struct rng *r)
{
	double sum = -6;
	for (int i = 0; i < 12; i++)
		sum += rng_unit(r);
	return sum;
}

/* 23 bits of magnitude, 1 of sign. */
static float value(uint32_t bits)
{
	float unit = (float)(bits >> 9) * (1.0f / 8388607.0f);
	float magnitude = 0x1p-6f + unit * (1.0f - 0x1p-6f);
	return bits & 1 ? -magnitude : magnitude;
}

void rng_fill(struct rng *r, float *p, size_t n)
{
	for (size_t i = 0; i < n; i += 2) {
		uint64_t v = rng_u64(r);
		p[i] = value((uint32_t)v);
		if (i + 1 < n)
			p[i + 1] = value((uint32_t)(v >> 32));
	}
}
