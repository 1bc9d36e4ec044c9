/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for n more bytes and the NUL. */
static bool grow(struct buf *b, size_t n)
{
	if (b->failed)
		return false;
	if (n < b->cap - b->n && b->cap)
		return true;
	size_t want = b->n + n + 1;
	size_t cap = b->cap ? b->cap : 64;
	while (cap < want && cap < SIZE_MAX / 2)
		cap *= 2;
	char *p = want > n && cap >= want ? realloc(b->p, cap) : NULL;
	if (!p) {
		b->failed = true;
		return false;
	}
	b->p = p;
	b->cap = cap;
	return true;
}

void buf_add(struct buf *b, const void *bytes, size_t n)
{
	if (!grow(b, n))
		return;
	if (n)
		memcpy(b->p + b->n, bytes, n);
	b->n += n;
	b->p[b->n] = 0;
}

void buf_puts(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap, again;
	va_start(ap, fmt);
	va_copy(again, ap);
	size_t room = b->failed ? 0 : b->cap - b->n;
	int n = vsnprintf(room ? b->p + b->n : NULL, room, fmt, ap);
	va_end(ap);
	if (n < 0)
		b->failed = true;
	else if ((size_t)n < room)
		b->n += (size_t)n;
	else if (grow(b, (size_t)n)) {
		vsnprintf(b->p + b->n, (size_t)n + 1, fmt, again);
		b->n += (size_t)n;
	}
	va_end(again);
}

void buf_clear(struct buf *b)
{
	b->n = 0;
	b->failed = false;
	if (b->p)
		b->p[0] = 0;
}

void buf_free(struct buf *b)
{
	free(b->p);
	*b = (struct buf){0};
}

bool buf_ok(const struct buf *b)
{
	return !b->failed;
}

const char *buf_str(const struct buf *b)
{
	return b->p ? b->p : "";
}

const void *cur_bytes(struct cur *c, size_t n)
{
	if (c->bad || n > c->n - c->at) {
		c->bad = true;
		return NULL;
	}
	const void *p = c->p + c->at;
	c->at += n;
	return p;
}

static uint64_t little(struct cur *c, size_t n)
{
	const uint8_t *p = cur_bytes(c, n);
	uint64_t v = 0;
	for (size_t i = 0; p && i < n; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

uint32_t cur_u32(struct cur *c)
{
	return (uint32_t)little(c, 4);
}

uint64_t cur_u64(struct cur *c)
{
	return little(c, 8);
}

static void put_little(struct buf *b, uint64_t v, size_t n)
{
	uint8_t bytes[8];
	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)(v >> (8 * i));
	buf_add(b, bytes, n);
}

void buf_u8(struct buf *b, uint8_t v)
{
	put_little(b, v, 1);
}

void buf_u32(struct buf *b, uint32_t v)
{
	put_little(b, v, 4);
}

void buf_u64(struct buf *b, uint64_t v)
{
	put_little(b, v, 8);
}
