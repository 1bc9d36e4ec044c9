/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 4096 };

static _Thread_local char text[TEXT_BYTES];

/* Drops a UTF-8 character that was cut off at the end. */
static void cut_at_character(char *s)
{
	size_t n = strlen(s), back = 0;
	while (back < n && back < 3 && ((unsigned char)s[n - 1 - back] & 0xC0) == 0x80)
		back++;
	if (back == n)
		return;
	unsigned char lead = (unsigned char)s[n - 1 - back];
	size_t need = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
	if (lead >= 0xC0 && back < need)
		s[n - 1 - back] = 0;
}

/* The arguments may be err_text() itself, so the new text is made beside the old one. */
static void set(const char *tail, const char *fmt, va_list ap)
{
	char made[TEXT_BYTES];
	int n = vsnprintf(made, sizeof made, fmt, ap);
	if (n < 0)
		n = snprintf(made, sizeof made, "(message could not be formatted)");
	if (tail && n < (int)sizeof made)
		n += snprintf(made + n, sizeof made - (size_t)n, ": %s", tail);
	if (n >= (int)sizeof made)
		cut_at_character(made);
	memcpy(text, made, sizeof text);
}

int fail(int rc, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	set(NULL, fmt, ap);
	va_end(ap);
	return rc;
}

int fail_in(int rc, const char *fmt, ...)
{
	if (rc >= 0)
		return rc;
	va_list ap;
	va_start(ap, fmt);
	set(text, fmt, ap);
	va_end(ap);
	return rc;
}

int err_clear(int rc)
{
	if (rc >= 0)
		text[0] = 0;
	return rc;
}

const char *err_text(void)
{
	return text;
}

const char *err_name(int rc)
{
	static const char *const names[] = {"ok",          "usage",        "no memory", "io",   "corrupt",
					    "unsupported", "not found",    "timeout",   "busy", "child died",
					    "infeasible",  "wrong answer", "stopped", "spill"};
	if (rc > 0)
		rc = 0;
	if (-(long)rc >= (long)(sizeof names / sizeof names[0]))
		return "unknown";
	return names[-rc];
}
