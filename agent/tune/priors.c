/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tune/priors.h"

#include <stdio.h>
#include <string.h>

extern const unsigned char hone_priors_data[] __attribute__((weak));
extern const unsigned char hone_priors_end[] __attribute__((weak));

enum { BLOCK = 64, HEAD = BLOCK + 8 };

struct blob priors_find(const char *cost, const char *isa)
{
	char want[BLOCK] = "";
	if (!hone_priors_data || !hone_priors_end ||
	    snprintf(want, sizeof want, "%s-%s", cost, isa) >= (int)sizeof want)
		return (struct blob){0};
	size_t n = (size_t)(hone_priors_end - hone_priors_data), at = 0;
	while (n - at > HEAD) {
		const unsigned char *p = hone_priors_data + at;
		uint64_t length;
		memcpy(&length, p + BLOCK, sizeof length);
		if (length > n - at - HEAD)
			break;
		if (!strncmp((const char *)p, want, BLOCK))
			return (struct blob){.p = p + HEAD, .n = (size_t)length};
		at += (HEAD + (size_t)length + BLOCK - 1) / BLOCK * BLOCK;
	}
	return (struct blob){0};
}
