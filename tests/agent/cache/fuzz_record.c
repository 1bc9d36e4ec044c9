/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as the text of a record: the result is an error, or a record whose text parses back to
 * itself. */
#include "agent/cache/cache.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct arena a = {0};
	struct rec r, again;
	struct buf one = {0}, two = {0};
	if (rec_parse(arena_strndup(&a, (const char *)p, n), &a, &r) >= 0) {
		rec_text(&r, &one);
		if (rec_parse(buf_str(&one), &a, &again) < 0)
			abort();
		rec_text(&again, &two);
		if (strcmp(buf_str(&one), buf_str(&two)) || !key_equal(rec_key(&r), rec_key(&again)))
			abort();
	}
	buf_free(&one);
	buf_free(&two);
	arena_free(&a);
	return 0;
}
