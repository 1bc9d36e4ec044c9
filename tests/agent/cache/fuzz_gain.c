/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as the text of a gain: the result is an error, or a gain whose text parses back to itself
 * and makes a sentence. */
#include "agent/cache/gain.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct arena a = {0};
	struct gain g, again;
	struct buf one = {0}, two = {0}, words = {0};
	if (gain_parse(arena_strndup(&a, (const char *)p, n), &g) >= 0) {
		gain_text(&g, &one);
		if (gain_parse(buf_str(&one), &again) < 0)
			abort();
		gain_text(&again, &two);
		if (strcmp(buf_str(&one), buf_str(&two)))
			abort();
		gain_words(&g, &words);
	}
	buf_free(&one);
	buf_free(&two);
	buf_free(&words);
	arena_free(&a);
	return 0;
}
