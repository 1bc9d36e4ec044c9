/* SPDX-License-Identifier: Apache-2.0 */
/* Plain values as text, by a table of their fields: one line "name value" per field, in the table's order.
 * Backslash and newline in a value are written \\ and \n. fields_parse reads the output of fields_text back
 * exactly; hostile text gives E_CORRUPT. */
#ifndef AGENT_FIELDS_H
#define AGENT_FIELDS_H

#include "platform/base/arena.h"
#include "platform/base/buf.h"
#include "platform/base/err.h"

enum field_kind {
	F_KEY,   /* struct key */
	F_CHARS, /* char[bytes], with NUL */
	F_INT,   /* int */
	F_I64,   /* int64_t, not negative */
	F_BOOL,
	F_REAL,   /* double, finite, not negative */
	F_STATUS, /* enum meas_status */
	F_WORD,   /* an enum: int, by `word` */
	F_TEXT,   /* const char *, in the arena passed to fields_parse */
};

struct field {
	char name[19];
	uint8_t kind;               /* enum field_kind */
	uint16_t at, bytes;         /* in the struct */
	const char *(*word)(int i); /* of F_WORD: NULL after the last word */
};

#define FIELD(text, k, type, member, ...)                                                                    \
	{                                                                                                    \
		text, k, offsetof(type, member), sizeof((type *)0)->member, __VA_ARGS__                      \
	}

void fields_text(const struct field *f, int n, const void *value, struct buf *out);
/* Moves *text behind the last line. */
int fields_parse(const struct field *f, int n, const char **text, struct arena *a, void *value) MUST_CHECK;
/* Accepts digits with an optional minus, in range: the form that fields_text writes. */
bool field_int(const char *s, int64_t lo, int64_t hi, int64_t *out);
/* The index of a word; -1: none. */
int field_word(const char *s, const char *(*word)(int i));

#endif
