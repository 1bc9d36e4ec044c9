/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as a batch of records: it is refused, or its lines make the same batch again. */
#include "agent/sync/batch.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void again(const struct batch *b, struct arena *a)
{
	struct batch *two = ARENA_NEW(a, struct batch);
	struct buf text = {0};
	if (batch_print(b->cls, b->board, b->label, b->raw, b->n, &text) < 0 ||
	    batch_parse(text.p, text.n, a, two) < 0 || two->n != b->n || strcmp(two->label, b->label))
		abort();
	for (int i = 0; i < b->n; i++)
		if (b->line[i].type != two->line[i].type || !key_equal(b->line[i].key, two->line[i].key) ||
		    strcmp(b->line[i].text, two->line[i].text))
			abort();
	buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct arena a = {0};
	struct batch *b = ARENA_NEW(&a, struct batch);
	if (crypto_start() < 0)
		abort();
	/* A batch near the size limit may exceed it with another head. */
	if (batch_parse(p, n, &a, b) >= 0 && n < BATCH_BYTES / 2)
		again(b, &a);
	arena_free(&a);
	return 0;
}
