/* SPDX-License-Identifier: Apache-2.0 */
/* Plain values as text, by a table of their fields: a line "name value" each, in the table's order, all of
 * them. Backslash and newline in a value are \\ and \n. What fields_text writes parses back exactly; hostile
 * text gives E_CORRUPT. */
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
	F_TEXT,   /* const char *, in the arena it was read into */
};

struct field {
	const char *name;
	enum field_kind kind;
	size_t at, bytes;           /* in the struct */
	const char *(*word)(int i); /* of F_WORD: NULL past the last */
};

#define FIELD(text, k, type, member, ...)                                                                    \
	{                                                                                                    \
		text, k, offsetof(type, member), sizeof((type *)0)->member, __VA_ARGS__                      \
	}

void fields_text(const struct field *f, int n, const void *value, struct buf *out);
/* *text moves behind the last line. */
int fields_parse(const struct field *f, int n, const char **text, struct arena *a, void *value) MUST_CHECK;
/* Digits only, with an optional minus, and in range: what fields_text writes. */
bool field_int(const char *s, int64_t lo, int64_t hi, int64_t *out);
/* The index of a word; -1: none. */
int field_word(const char *s, const char *(*word)(int i));

#endif
