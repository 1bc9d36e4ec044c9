/* SPDX-License-Identifier: Apache-2.0 */
/* A set of 64-bit hashes that grows in an arena: 16 to 32 bytes each. Two texts with the same hash count as
 * one; in sets of 10^5 that happens once in 10^9. */
#ifndef SEARCH_KEYS_H
#define SEARCH_KEYS_H

#include "platform/base/arena.h"
#include <stdbool.h>

struct keys {           /* {0}: empty */
	uint64_t *slot; /* 0: free */
	int n, cap;     /* cap: a power of two */
};

bool keys_has(const struct keys *k, uint64_t key);
void keys_add(struct arena *a, struct keys *k, uint64_t key);

#endif
