/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as the text of a trial log: the result is an error, or a log whose text parses back to
 * itself. */
#include "agent/cache/trials.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static struct trials l, again;
	struct arena a = {0};
	struct buf one = {0}, two = {0};
	if (trials_parse(arena_strndup(&a, (const char *)p, n), &l) >= 0) {
		trials_text(&l, &one);
		if (trials_parse(buf_str(&one), &again) < 0)
			abort();
		trials_text(&again, &two);
		if (strcmp(buf_str(&one), buf_str(&two)) || !key_equal(trials_key(&l), trials_key(&again)))
			abort();
		trials_free(&again);
		trials_free(&l);
	}
	buf_free(&one);
	buf_free(&two);
	arena_free(&a);
	return 0;
}
