/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fleet/fleet_form.h"
#include "platform/base/log.h"
#include <stdlib.h>
#include <string.h>

static int digit(char c)
{
	static const char digits[] = "0123456789abcdef0123456789ABCDEF";
	const char *at = c ? strchr(digits, c) : NULL;
	return at ? (int)(at - digits) % 16 : -1;
}

/* Decodes one character of the `left` bytes at p. Returns the number of bytes it took; < 0: bad encoding. */
static int decode(const char *p, size_t left, char *out)
{
	if (*p != '%') {
		*out = *p == '+' ? ' ' : *p;
		return 1;
	}
	int hi = left > 2 ? digit(p[1]) : -1, lo = hi >= 0 ? digit(p[2]) : -1;
	*out = (char)(hi * 16 + lo);
	return lo >= 0 ? 3 : -1;
}

static int value_of(const char *p, const char *end, const char *name, char *out, size_t n)
{
	size_t at = 0;
	while (p < end) {
		char c;
		int took = decode(p, (size_t)(end - p), &c);
		if (took < 0 || at + 1 >= n) {
			*out = 0;
			return fail(E_USAGE, "%s: %s", name, took < 0 ? "bad percent-encoding" : "too long");
		}
		out[at++] = c ? c : '?';
		p += took;
	}
	out[at] = 0;
	log_one_line(out);
	return 1;
}

int form_get(const char *form, size_t len, const char *name, char *out, size_t n)
{
	const char *p = form, *end = form + len;
	const size_t known = strlen(name);
	*out = 0;
	while (p < end) {
		const char *stop = memchr(p, '&', (size_t)(end - p));
		stop = stop ? stop : end;
		if ((size_t)(stop - p) > known && !memcmp(p, name, known) && p[known] == '=')
			return value_of(p + known + 1, stop, name, out, n);
		p = stop < end ? stop + 1 : end;
	}
	return 0;
}

int cookie_get(const char *cookies, const char *name, char *out, size_t n)
{
	const size_t known = strlen(name);
	*out = 0;
	for (const char *p = cookies ? cookies : ""; *p; p += strcspn(p, ";"), p += *p == ';') {
		p += strspn(p, " \t");
		size_t len = strcspn(p, "; \t");
		if (len <= known || strncmp(p, name, known) != 0 || p[known] != '=' || len - known > n)
			continue;
		memcpy(out, p + known + 1, len - known - 1);
		out[len - known - 1] = 0;
		return 1;
	}
	return 0;
}

int form_page(const char *form, int64_t most, int64_t *out)
{
	char text[16];
	*out = 1;
	int rc = form_get(form, strlen(form), "page", text, sizeof text);
	if (rc <= 0)
		return rc;
	if (!*text || strspn(text, "0123456789") != strlen(text))
		return fail(E_USAGE, "page must be a whole number");
	*out = strtoll(text, NULL, 10);
	return *out >= 1 && *out <= most ? E_OK : fail(E_USAGE, "page must be 1 to %lld", (long long)most);
}
