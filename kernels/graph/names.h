/* SPDX-License-Identifier: Apache-2.0 */
/* A map from names to small integers, for files with many names. The names are not copied and must live as
 * long as the map, which lives in the arena. */
#ifndef KERNELS_NAMES_H
#define KERNELS_NAMES_H

#include "platform/base/arena.h"

struct names {
	struct arena *a;
	size_t n, cap; /* cap: a power of two, or 0 */
	struct names_slot *slot;
};

int *names_find(const struct names *m, const char *name); /* its integer; NULL: absent */
/* E_CORRUPT: the name exists already; E_NOMEM. */
int names_add(struct names *m, const char *name, int value);

#endif
