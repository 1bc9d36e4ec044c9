/* SPDX-License-Identifier: Apache-2.0 */
/* Private keys for tests, made on first use and kept to the end. */
#ifndef TESTS_KEYS_H
#define TESTS_KEYS_H

#include "agent/sync/crypto.h"
#include <stdlib.h>

enum { KEYS_MOST = 16 };

struct test_keys {
	const struct private_key *private[KEYS_MOST];
	struct public_key public[KEYS_MOST];
};

static struct test_keys keys_made;

/* Makes sure that the first n keys exist. */
static inline const struct test_keys *keys(int n)
{
	for (int i = 0; i < n; i++) {
		struct private_key *k;
		if (keys_made.private[i])
			continue;
		if (crypto_start() < 0 || private_key_make(&k) < 0)
			abort();
		keys_made.private[i] = k;
		private_key_public(k, &keys_made.public[i]);
	}
	return &keys_made;
}

__attribute__((destructor)) static void keys_free(void)
{
	for (int i = 0; i < KEYS_MOST; i++)
		private_key_free((struct private_key *)keys_made.private[i]);
}

#endif
