/* SPDX-License-Identifier: Apache-2.0 */
/* platform/base/pages.h on malloc, for fuzz targets: AddressSanitizer sees every access beyond a buffer then.
 * Include it in one file of the program; pages.o is not linked. */
#ifndef TESTS_PAGES_MALLOC_H
#define TESTS_PAGES_MALLOC_H

#include "platform/base/pages.h"

#include <stdlib.h>
#include <string.h>

enum { PAGES_MOST = 64 << 20 };

int pages_open(struct pages *g, size_t bytes, enum pages_kind kind)
{
	size_t room = (bytes + 63) / 64 * 64;
	(void)kind;
	*g = (struct pages){0};
	if (bytes > PAGES_MOST || !(g->map = aligned_alloc(64, room ? room : 64)))
		return fail(E_NOMEM, "a buffer of %zu bytes is too large", bytes);
	memset(g->map, 0, room);
	g->p = g->map;
	g->bytes = bytes;
	return E_OK;
}

void pages_close(struct pages *g)
{
	free(g->map);
	*g = (struct pages){0};
}

#endif
