/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that are names of devices, or nearly: for all who take one from a person
 * (platform/run/device_name.h). */
#ifndef TESTS_DEVICE_NAMES_H
#define TESTS_DEVICE_NAMES_H

#include "platform/base/rng.h"
#include "platform/run/device_name.h"

#include <stdio.h>
#include <string.h>

/* KIND:N of a known kind, or what some changes of its bytes make of it. */
static inline void device_name_draw(struct rng *r, char out[32])
{
	static const char bytes[] = "0123456789: \t+-xaocpn\n";
	static const int up_to[] = {2, 20, 1000, 1010, 1000000};
	static const char *const kinds[] = {"opencl", "cuda", "cpu", "sim", "abacus", ""};
	const char *kind = kinds[rng_below(r, rng_below(r, 2) ? 2 : 6)];
	int n = snprintf(out, 24, rng_below(r, 8) ? "%s:%d" : "%s:%03d", kind,
			 (int)rng_below(r, up_to[rng_below(r, 5)]));
	for (int changes = rng_below(r, 2) ? 0 : 1 + (int)rng_below(r, 2); changes > 0; changes--) {
		int at = (int)rng_below(r, n + 1);
		if (at < n && rng_below(r, 3) == 0) { /* one byte less */
			memmove(out + at, out + at + 1, (size_t)(n - at));
			n--;
			continue;
		}
		if (at == n || rng_below(r, 2)) { /* one more */
			memmove(out + at + 1, out + at, (size_t)(n - at) + 1);
			n++;
		}
		out[at] = bytes[rng_below(r, sizeof bytes - 1)];
	}
}

/* The same answer as device_is_named by another way: some kind and number are printed so. */
static inline bool device_name_is_printed(const char *name)
{
	char text[32];
	for (int i = 0; i < 2000; i++) {
		snprintf(text, sizeof text, i < 1000 ? "opencl:%d" : "cuda:%d", i % 1000);
		if (!strcmp(text, name))
			return true;
	}
	return false;
}

#endif
