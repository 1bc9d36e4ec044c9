/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/run/dev.h"
#include "platform/base/buf.h"

#include <string.h>

const struct dev *dev_find(const char *name)
{
	struct buf known = {0};
	for (const struct dev *const *d = dev_table; *d; d++) {
		if (strcmp((*d)->name, name) == 0) {
			buf_free(&known);
			return *d;
		}
		buf_printf(&known, " %s", (*d)->name);
	}
	(void)fail(E_NOTFOUND, "unknown device '%s'; this program has:%s", name, buf_str(&known));
	buf_free(&known);
	return NULL;
}
