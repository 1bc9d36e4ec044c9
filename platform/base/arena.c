/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/arena.h"
#include "platform/base/err.h"
#include "platform/base/sanitized.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Under AddressSanitizer, memory that is not handed out is poisoned, with a gap after each allocation, so
 * that an overrun inside a block is reported like one of malloc's. */
#if SANITIZED_ADDRESS
#include <sanitizer/asan_interface.h>
enum { GAP = 32 };
#define HIDE(p, n) ASAN_POISON_MEMORY_REGION((p), (n))
#define SHOW(p, n) ASAN_UNPOISON_MEMORY_REGION((p), (n))
#else
enum { GAP = 0 };
#define HIDE(p, n) ((void)(p), (void)(n))
#define SHOW(p, n) ((void)(p), (void)(n))
#endif

struct arena_block {
	struct arena_block *next;
	size_t cap, used; /* bytes of data */
	size_t dirty;     /* data at and above this offset was never handed out: still zero */
	int mapped;       /* allocated by mmap, because malloc may keep large blocks that were freed */
	_Alignas(64) unsigned char data[];
};

enum { ALIGN = 16 };
static const size_t first_bytes = 4096, most_bytes = (size_t)4 << 20;
/* Blocks of at least this size are mapped; none under a sanitizer, which does not look for pointers in
 * mappings. */
static const size_t map_bytes = GAP ? SIZE_MAX : (size_t)256 << 10;

/* Padding before data + used that aligns the result. */
static size_t pad_of(const struct arena_block *b, size_t align)
{
	uintptr_t at = (uintptr_t)(b->data + b->used);
	return (size_t)(-at & (align - 1));
}

static int fits(const struct arena_block *b, size_t bytes, size_t align)
{
	size_t pad = pad_of(b, align), left = b->cap - b->used;
	return pad <= left && bytes <= left - pad;
}

/* Hands `want` bytes to the caller; takes `bytes` from the block for them. */
static void *take(struct arena *a, struct arena_block *b, size_t want, size_t bytes, size_t align)
{
	size_t start = b->used + pad_of(b, align);
	SHOW(b->data + start, bytes);
	if (start < b->dirty)
		memset(b->data + start, 0, (bytes < b->dirty - start ? bytes : b->dirty - start));
	b->used = start + bytes;
	if (b->dirty < b->used)
		b->dirty = b->used;
	a->used_bytes += bytes;
	HIDE(b->data + start + want, bytes - want);
	return b->data + start;
}

/* Reuses a block that a reset kept: one with enough room becomes the head. */
static struct arena_block *find_room(struct arena *a, size_t bytes, size_t align)
{
	for (struct arena_block **at = &a->head; *at; at = &(*at)->next) {
		struct arena_block *b = *at;
		if (!fits(b, bytes, align))
			continue;
		*at = b->next;
		b->next = a->head;
		return a->head = b;
	}
	return NULL;
}

static struct arena_block *take_block(size_t bytes)
{
	if (bytes < map_bytes)
		return calloc(1, bytes);
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	struct arena_block *b = p;
	b->mapped = 1;
	return b;
}

static void give_block(struct arena_block *b)
{
	SHOW(b->data, b->cap);
	if (b->mapped)
		munmap(b, sizeof *b + b->cap);
	else
		free(b);
}

/* Blocks double up to 4 MiB. A larger request gets a block of its own behind the head, so that the room in
 * the head is not lost. */
static struct arena_block *new_block(struct arena *a, size_t bytes, size_t align)
{
	size_t need = bytes + align, cap = first_bytes;
	if (need < bytes || need > SIZE_MAX - sizeof(struct arena_block))
		return NULL;
	if (a->head)
		cap = a->head->cap >= most_bytes / 2 ? most_bytes : a->head->cap * 2;
	while (cap < need && cap < most_bytes)
		cap *= 2;
	int own = need > cap && a->head != NULL;
	if (cap < need)
		cap = need;
	struct arena_block *b = take_block(sizeof *b + cap);
	if (!b)
		return NULL;
	b->cap = cap;
	HIDE(b->data, cap);
	struct arena_block **at = own ? &a->head->next : &a->head;
	b->next = *at;
	return *at = b;
}

static void *get(struct arena *a, size_t bytes, size_t align)
{
	if (bytes == 0)
		bytes = 1;
	if (a->cap_bytes && (bytes > a->cap_bytes || a->used_bytes > a->cap_bytes - bytes))
		return NULL;
	size_t want = bytes;
	bytes = bytes > SIZE_MAX - ALIGN - GAP ? bytes : ((bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1)) + GAP;
	struct arena_block *b = a->head && fits(a->head, bytes, align) ? a->head : find_room(a, bytes, align);
	if (!b)
		b = new_block(a, bytes, align);
	return b ? take(a, b, want, bytes, align) : NULL;
}

static void *get_or_abort(struct arena *a, size_t bytes, size_t align)
{
	void *p = get(a, bytes, align);
	if (p)
		return p;
	fprintf(stderr,
		"hone: error: out of memory: %zu bytes wanted, %zu in use%s; use a smaller model or more "
		"memory\n",
		bytes, a->used_bytes, a->cap_bytes ? " (capped)" : "");
	abort();
}

void *arena_alloc(struct arena *a, size_t bytes)
{
	return get_or_abort(a, bytes, ALIGN);
}

void *arena_try(struct arena *a, size_t count, size_t elem_bytes)
{
	size_t bytes;
	void *p = NULL;
	if (!__builtin_mul_overflow(count, elem_bytes, &bytes))
		p = get(a, bytes, ALIGN);
	if (!p)
		(void)fail(E_NOMEM, "no memory for %zu elements of %zu bytes (%zu in use, cap %zu)", count,
			   elem_bytes, a->used_bytes, a->cap_bytes);
	return p;
}

void *arena_aligned(struct arena *a, size_t bytes, size_t align)
{
	return get_or_abort(a, bytes, align < ALIGN ? ALIGN : align);
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
	n = strnlen(s, n);
	char *p = arena_alloc(a, n + 1);
	memcpy(p, s, n);
	return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
	return arena_strndup(a, s, strlen(s));
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list ap, again;
	va_start(ap, fmt);
	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	char *p = arena_alloc(a, n < 0 ? 1 : (size_t)n + 1);
	if (n > 0)
		vsnprintf(p, (size_t)n + 1, fmt, again);
	va_end(again);
	return p;
}

void *arena_memdup(struct arena *a, const void *p, size_t bytes)
{
	void *copy = arena_alloc(a, bytes);
	if (bytes)
		memcpy(copy, p, bytes);
	return copy;
}

void arena_reset(struct arena *a)
{
	for (struct arena_block *b = a->head; b; b = b->next) {
		b->used = 0;
		HIDE(b->data, b->cap);
	}
	a->used_bytes = 0;
}

void arena_drop(void *p, size_t bytes)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)p + page - 1) / page * page,
		  end = ((uintptr_t)p + bytes) / page * page;
	HIDE(p, bytes);
	if (begin < end)
		(void)madvise((char *)p + (begin - (uintptr_t)p), end - begin, MADV_DONTNEED);
}

size_t arena_bytes(const struct arena *a)
{
	size_t n = 0;
	for (const struct arena_block *b = a->head; b; b = b->next)
		n += b->cap;
	return n;
}

void arena_free(struct arena *a)
{
	while (a->head) {
		struct arena_block *next = a->head->next;
		give_block(a->head);
		a->head = next;
	}
	a->used_bytes = 0;
}
