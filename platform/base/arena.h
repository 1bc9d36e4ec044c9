/* SPDX-License-Identifier: Apache-2.0 */
/* Arenas: the only allocator that values use. The law: what a function returns lives in the arena it was
 * given; what a function is given it does not keep; `_take` consumes.
 *
 * An arena is a chain of blocks; arena_reset keeps the blocks for reuse, arena_free gives all back. Memory is
 * zeroed. arena_alloc never returns NULL: over the cap (bytes, 0 = none) or out of memory it calls the
 * arena's `oom` longjmp-free policy: it aborts the process with one clear line. Code that handles sizes from
 * outside (a model file, a socket) uses arena_try, which returns NULL and sets the error text, and checks.
 * Not thread-safe: one arena, one thread. */
#ifndef PLATFORM_ARENA_H
#define PLATFORM_ARENA_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct arena {
	struct arena_block *head; /* newest block first */
	size_t used_bytes;        /* handed out since the last reset */
	size_t cap_bytes;         /* 0: no cap */
};

void *arena_alloc(struct arena *a, size_t bytes); /* 16-byte aligned, zeroed */
void *arena_try(struct arena *a, size_t count,
		size_t elem_bytes); /* overflow- and cap-checked; NULL + err_text */
void *arena_aligned(struct arena *a, size_t bytes, size_t align); /* align: power of two <= 4096 */
char *arena_strdup(struct arena *a, const char *s);
char *arena_strndup(struct arena *a, const char *s, size_t n);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void *arena_memdup(struct arena *a, const void *p, size_t bytes);
void arena_reset(struct arena *a); /* invalidates all that was handed out; keeps the blocks */
/* Returns whole pages of these bytes of an arena to the system; nobody may read them any more. */
void arena_drop(void *p, size_t bytes);
size_t arena_bytes(const struct arena *a); /* bytes that its blocks hold, handed out or not */
void arena_free(struct arena *a);          /* gives all memory back; the arena is empty and usable */

#define ARENA_NEW(a, type) ((type *)arena_alloc((a), sizeof(type)))
#define ARENA_ARRAY(a, type, n) ((type *)arena_alloc((a), sizeof(type) * (size_t)(n)))

#endif
