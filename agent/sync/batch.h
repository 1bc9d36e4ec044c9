/* SPDX-License-Identifier: Apache-2.0 */
/* Records that a board sends: a signed document of kind "records", by the device's key. Payload: a line of
 * JSON {"class", "board": id of the key, "label": of the target, for people, "n"}, then n lines of
 * agent/cache/exchange.h, at most BATCH_RECORDS, which are all of that class. A batch's name is the SHA-256
 * of its payload: sent twice, it counts once. */
#ifndef AGENT_BATCH_H
#define AGENT_BATCH_H

#include "agent/cache/exchange.h"
#include "agent/sync/signed.h"

enum { BATCH_RECORDS = 64, BATCH_BYTES = 1 << 20 };

struct batch {
	char cls[33], board[KEY_ID_HEX + 1], label[160];
	int n;
	struct exchange_line line[BATCH_RECORDS]; /* texts in the arena */
	const char *raw[BATCH_RECORDS];           /* the lines as they came, without \n */
	struct sha256 name;
};

/* A document's payload; each record checked as on import, and of the batch's class (a
 * history says none). Choices of the former version of boards are passed over. Hostile input: E_CORRUPT names
 * the line (fuzzed). */
int batch_parse(const void *payload, size_t n, struct arena *a, struct batch *out) MUST_CHECK;
/* lines: n of exchange_print's. */
int batch_print(const char *cls, const char *board, const char *label, const char *const *line, int n,
		struct buf *out) MUST_CHECK;

#endif
