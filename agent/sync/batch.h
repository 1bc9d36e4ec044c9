/* SPDX-License-Identifier: Apache-2.0 */
/* A batch: the records that a board sends, as a signed document of kind "records" with the device's key.
 * Payload: a line of JSON {"class", "board": id of the key, "label": of the target, for people, "n"}, then n
 * lines (at most BATCH_RECORDS) in the format of agent/cache/exchange.h, all of that class. The name of a
 * batch is the SHA-256 of its payload, so a batch that is sent twice counts once. */
#ifndef AGENT_BATCH_H
#define AGENT_BATCH_H

#include "agent/cache/exchange.h"
#include "agent/sync/signed.h"

enum { BATCH_RECORDS = 64, BATCH_BYTES = 1 << 20 };

struct batch {
	char cls[33], board[KEY_ID_HEX + 1], label[160];
	int n;
	struct exchange_line line[BATCH_RECORDS]; /* texts in the arena */
	const char *raw[BATCH_RECORDS];           /* the lines as received, without \n */
	struct sha256 name;
};

/* Parses a document's payload. Each record is checked as on import, and must be of the batch's class (a
 * history names no class); a recipe is refused. Choices from boards of the former version are skipped.
 * Hostile input: E_CORRUPT names the line (fuzzed). */
int batch_parse(const void *payload, size_t n, struct arena *a, struct batch *out) MUST_CHECK;
/* line: n lines of exchange_print. */
int batch_print(const char *cls, const char *board, const char *label, const char *const *line, int n,
		struct buf *out) MUST_CHECK;

#endif
