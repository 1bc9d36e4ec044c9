/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/wrap.h"
#include <string.h>

const char *wrap_column(const char *text, int n)
{
	for (; *text; text++)
		if ((*text & 0xc0) != 0x80 && n-- == 0)
			break;
	return text;
}

/* Goes over a character or a whole command. Returns the byte after it. */
static const char *step_over(const char *p)
{
	const char *end = *p == '`' ? strchr(p + 1, '`') : NULL;
	return end ? end + 1 : wrap_column(p, 1);
}

size_t wrap_line(const char *text, int columns, bool cut)
{
	const char *limit = wrap_column(text, columns), *blank = NULL;
	if (!*limit)
		return strlen(text);
	for (const char *p = text; *p; p = step_over(p)) {
		if (*p == ' ' && p > text && (p <= limit || !blank))
			blank = p;
		if (p > limit && blank)
			break;
		if (cut && p == limit && !blank && p > text)
			return (size_t)(p - text);
	}
	return blank ? (size_t)(blank - text) : strlen(text);
}
