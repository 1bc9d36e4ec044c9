/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as a line for `hone import`: it is refused, or the record is exported and imported again
 * unchanged. */
#include "agent/cache/exchange.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct arena a = {0};
	struct exchange_line one, two;
	struct exchange_sum sum = {0};
	struct cache *c;
	if (exchange_parse((const char *)p, n, &a, &one) >= 0) {
		const struct cache_options o = {.seeds = ""};
		if (cache_open_with(&c, "/nowhere", CACHE_MEMORY, 0, &o) < 0 ||
		    exchange_put(c, &one, &a, &sum) < 0 || sum.taken != 1)
			abort();
		json_t *j = exchange_record(one.type, one.key, one.text);
		char *line = j ? json_dumps(j, JSON_COMPACT) : NULL;
		if (!line || exchange_parse(line, strlen(line), &a, &two) < 0 || one.type != two.type ||
		    !key_equal(one.key, two.key) || strcmp(one.text, two.text))
			abort();
		free(line);
		json_decref(j);
		cache_close(c);
	}
	arena_free(&a);
	return 0;
}
