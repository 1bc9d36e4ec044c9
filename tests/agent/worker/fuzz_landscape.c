/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as a landscape: the result is an error, or a landscape whose text parses back to
 * itself. */
#include "agent/worker/landscape.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct arena a = {0};
	struct landscape l, again;
	struct buf one = {0}, two = {0};
	if (landscape_parse((const char *)p, n, &a, &l) >= 0) {
		landscape_text(&l, true, &one);
		if (landscape_parse(one.p, one.n, &a, &again) < 0)
			abort();
		landscape_text(&again, true, &two);
		if (strcmp(buf_str(&one), buf_str(&two)) || l.n != again.n)
			abort();
	}
	buf_free(&one);
	buf_free(&two);
	arena_free(&a);
	return 0;
}
