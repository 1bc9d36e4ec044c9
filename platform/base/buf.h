/* SPDX-License-Identifier: Apache-2.0 */
/* A growing byte buffer with a sticky error: emit freely, check once (buf_ok). Text is always NUL-terminated.
 */
#ifndef PLATFORM_BUF_H
#define PLATFORM_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	char *p;     /* malloc'd; NULL when empty */
	size_t n;    /* bytes used, without the NUL */
	size_t cap;  /* bytes allocated */
	bool failed; /* set when memory ran out; everything after that is dropped */
};

void buf_add(struct buf *b, const void *bytes, size_t n);
void buf_puts(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_clear(struct buf *b); /* keeps the memory */
void buf_free(struct buf *b);
bool buf_ok(const struct buf *b);
const char *buf_str(const struct buf *b); /* "" when empty */

/* The plural ending of a noun after a number: "" for 1, else "s". */
static inline const char *plural_s(int64_t n)
{
	return n == 1 ? "" : "s";
}

/* Reading: a cursor over bytes from outside. A read past the end sets `bad` and returns zeros. Little
 * endian. */
struct cur {
	const uint8_t *p;
	size_t n, at;
	bool bad;
};
uint32_t cur_u32(struct cur *c);
uint64_t cur_u64(struct cur *c);
const void *cur_bytes(struct cur *c, size_t n); /* NULL if fewer are left */
void buf_u8(struct buf *b, uint8_t v);
void buf_u32(struct buf *b, uint32_t v);
void buf_u64(struct buf *b, uint64_t v);

#endif
