/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/run/dev.h"
#include "platform/base/buf.h"

#include <stdlib.h>
#include <string.h>

/* Length of the kind's name; 0: what follows a colon is no plain number below 1000, or the kind has no
 * numbers. */
static size_t kind_length(const char *name)
{
	size_t n = strcspn(name, ":"), digits = name[n] ? strspn(name + n + 1, "0123456789") : 0;
	bool good = !name[n] || (digits > 0 && digits < 4 && !name[n + 1 + digits] &&
				 (digits == 1 || name[n + 1] != '0'));
	return good ? n : 0;
}

const struct dev *dev_find(const char *name)
{
	struct buf known = {0};
	size_t n = kind_length(name);
	for (const struct dev *const *d = dev_table; *d; d++) {
		bool same = n && strlen((*d)->name) == n && !strncmp((*d)->name, name, n);
		if (same && ((*d)->own || !name[n])) {
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
	const char *colon = strchr(name, ':');
	return colon ? atoi(colon + 1) : 0;
}
