/* SPDX-License-Identifier: Apache-2.0 */
#include "search/keys.h"

enum { FIRST_CAP = 64 };

/* The slot where the key is or would be; cap > n. */
static int slot_of(const struct keys *k, uint64_t key)
{
	int i = (int)(key & (uint64_t)(k->cap - 1));
	while (k->slot[i] && k->slot[i] != key)
		i = (i + 1) & (k->cap - 1);
	return i;
}

bool keys_has(const struct keys *k, uint64_t key)
{
	key += !key;
	return k->cap && k->slot[slot_of(k, key)] == key;
}

static void grow(struct arena *a, struct keys *k)
{
	struct keys wide = {.n = k->n, .cap = k->cap ? 2 * k->cap : FIRST_CAP};
	wide.slot = ARENA_ARRAY(a, uint64_t, wide.cap);
	for (int i = 0; i < k->cap; i++)
		if (k->slot[i])
			wide.slot[slot_of(&wide, k->slot[i])] = k->slot[i];
	*k = wide;
}

void keys_add(struct arena *a, struct keys *k, uint64_t key)
{
	key += !key;
	if (2 * (k->n + 1) > k->cap)
		grow(a, k);
	int i = slot_of(k, key);
	k->n += !k->slot[i];
	k->slot[i] = key;
}
