/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/guard.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int guard_open(struct guard *g, size_t bytes, bool shared)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + 63) & ~(size_t)63;
	*g = (struct guard){.bytes = bytes};
	if (bytes > SIZE_MAX / 4)
		return fail(E_NOMEM, "a buffer of %zu bytes is too large", bytes);
	size_t data = (room + page - 1) / page * page;
	g->map_bytes = data + page;
	g->map = mmap(NULL, g->map_bytes, PROT_READ | PROT_WRITE,
		      MAP_ANONYMOUS | MAP_NORESERVE | (shared ? MAP_SHARED : MAP_PRIVATE), -1, 0);
	if (g->map == MAP_FAILED) {
		*g = (struct guard){0};
		return fail(E_NOMEM, "no memory for a buffer of %zu bytes: %s", bytes, strerror(errno));
	}
	if (mprotect((char *)g->map + data, page, PROT_NONE) < 0) {
		guard_close(g);
		return fail(E_NOMEM, "cannot guard a buffer: %s", strerror(errno));
	}
	g->p = (char *)g->map + data - room;
	return E_OK;
}

void guard_close(struct guard *g)
{
	if (g->map)
		munmap(g->map, g->map_bytes);
	*g = (struct guard){0};
}
