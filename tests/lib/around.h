/* SPDX-License-Identifier: Apache-2.0 */
/* Says what a test may do where it runs: in a container, or as a single program that QEMU emulates
 * (tests/sh/board.sh). */
#ifndef TESTS_AROUND_H
#define TESTS_AROUND_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline bool test_emulated(void)
{
	return getenv("QEMU_CPU") != NULL;
}

/* Root that can become another user: in a user namespace, root may be the only one. */
static inline bool test_root(void)
{
	unsigned inside, outside, users = 65536;
	FILE *f = fopen("/proc/self/uid_map", "r");
	if (f) {
		if (fscanf(f, "%u %u %u", &inside, &outside, &users) != 3)
			users = 0;
		fclose(f);
	}
	return geteuid() == 0 && users >= 65536;
}

#endif
