/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/emit/emit.h"
#include <string.h>

const struct emit *emit_find(const char *name)
{
	for (const struct emit *const *e = emit_table; *e; e++)
		if (strcmp((*e)->name, name) == 0)
			return *e;
	return NULL;
}
