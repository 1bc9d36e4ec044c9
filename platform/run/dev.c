/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/run/dev.h"
#include "platform/base/buf.h"
#include "platform/run/device_name.h"

#include <string.h>

const struct dev *dev_find(const char *name)
{
	struct buf known = {0};
	int number;
	size_t n = device_name_read(name, &number);
	for (const struct dev *const *d = dev_table; *d; d++) {
		bool same = n && strlen((*d)->name) == n && !strncmp((*d)->name, name, n);
		if (same && ((*d)->own || number < 0)) {
			buf_free(&known);
			return *d;
		}
		buf_printf(&known, " %s%s", (*d)->name, (*d)->own ? ":N" : "");
	}
	(void)fail(E_NOTFOUND, "unknown device '%s'; this program has:%s", name, buf_str(&known));
	buf_free(&known);
	return NULL;
}

int dev_number(const char *name)
{
	int number;
	return device_name_read(name, &number) && number > 0 ? number : 0;
}
