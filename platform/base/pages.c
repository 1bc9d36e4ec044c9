/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/pages.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Huge pages of x86-64, and of arm64 with 4 KiB pages; on other machines a wrong size does no harm. */
static const size_t HUGE_PAGE = (size_t)2 << 20;

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

/* Bytes of the region that may be in huge pages, a multiple of their size. */
static size_t huge_bytes(size_t bytes, enum pages_kind kind)
{
	size_t rest = bytes % HUGE_PAGE;
	if (kind == PAGES_GUARDED && bytes >= (size_t)64 << 10)
		return round_up(bytes, HUGE_PAGE);
	return kind == PAGES_PLAIN ? bytes - rest + (rest >= HUGE_PAGE / 2 ? HUGE_PAGE : 0) : 0;
}

int pages_open(struct pages *g, size_t bytes, enum pages_kind kind)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), room = round_up(bytes, 64),
	       guard = kind == PAGES_PLAIN ? 0 : page;
	*g = (struct pages){.bytes = bytes};
	if (bytes > SIZE_MAX / 4)
		return fail(E_NOMEM, "a buffer of %zu bytes is too large", bytes);
	size_t huge = huge_bytes(room, kind), data = round_up(room > huge ? room : huge, page);
	g->map_bytes = data + guard + (huge ? HUGE_PAGE : 0) + (data ? 0 : page);
	g->map = mmap(NULL, g->map_bytes, PROT_READ | PROT_WRITE,
		      MAP_ANONYMOUS | (kind == PAGES_SHARED ? MAP_SHARED : MAP_PRIVATE) |
			  (kind == PAGES_PLAIN ? 0 : MAP_NORESERVE),
		      -1, 0);
	if (g->map == MAP_FAILED) {
		*g = (struct pages){0};
		return fail(E_NOMEM, "no memory for a buffer of %zu bytes: %s", bytes, strerror(errno));
	}
	char *begin = g->map;
	if (huge) {
		begin += (HUGE_PAGE - (uintptr_t)begin % HUGE_PAGE) % HUGE_PAGE;
		(void)madvise(begin, huge, MADV_HUGEPAGE);
	}
	if (guard && mprotect(begin + data, guard, PROT_NONE) < 0) {
		pages_close(g);
		return fail(E_NOMEM, "cannot guard a buffer: %s", strerror(errno));
	}
	g->p = guard ? begin + data - room : begin;
	return E_OK;
}

void pages_close(struct pages *g)
{
	if (g->map)
		munmap(g->map, g->map_bytes);
	*g = (struct pages){0};
}
