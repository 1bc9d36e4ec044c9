/* SPDX-License-Identifier: Apache-2.0 */
/* Seeded random numbers (xoshiro256**, seeded by splitmix64): the same sequence on every machine. */
#ifndef PLATFORM_RNG_H
#define PLATFORM_RNG_H

#include <stddef.h>
#include <stdint.h>

struct rng {
	uint64_t s[4];
};

void rng_seed(struct rng *r, uint64_t seed);
uint64_t rng_u64(struct rng *r);
uint32_t rng_below(struct rng *r, uint32_t n); /* 0 <= x < n, unbiased; n > 0 */
double rng_unit(struct rng *r);		       /* [0, 1) */
double rng_normal(struct rng *r);	       /* mean 0, deviation 1 */
/* Fills with values in [-1, 1] whose magnitude is at least 2^-6: never zero, never subnormal. */
void rng_fill(struct rng *r, float *p, size_t n);

#endif
