/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/next.h"
#include "platform/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+";

/* Bytes from p on that log_plain would leave as they are. */
static size_t shown(const char *p)
{
	char copy[1024];
	size_t n = 0, room = sizeof copy - 8; /* so that a character at the end is not cut */
	snprintf(copy, sizeof copy, "%s", p);
	log_plain(copy);
	while (n < room && p[n] && copy[n] == p[n])
		n++;
	return n;
}

static void quote(struct buf *out, const char *p, size_t n)
{
	buf_puts(out, "'");
	for (size_t i = 0; i < n; i++)
		if (p[i] == '\'')
			buf_puts(out, "'\\''");
		else
			buf_add(out, p + i, 1);
	buf_puts(out, "'");
}

void shell_word(struct buf *out, const char *word)
{
	if (*word && !word[strspn(word, plain)]) {
		buf_puts(out, word);
		return;
	}
	if (!*word)
		buf_puts(out, "''");
	while (*word) {
		size_t n = shown(word);
		if (n)
			quote(out, word, n);
		else
			buf_printf(out, "\"$(printf '\\%03o')\"", (unsigned)(unsigned char)*word);
		word += n ? n : 1;
	}
}

void shell_path(struct buf *out, const char *path)
{
	if (*path == '-')
		buf_puts(out, "./");
	shell_word(out, path);
}

void next_take(struct buf *text)
{
	fflush(stdout);
	if (buf_ok(text) && text->n)
		log_info("%s", buf_str(text));
	buf_free(text);
}

void next_say(const char *fmt, ...)
{
	struct buf b = {0};
	va_list ap;
	va_start(ap, fmt);
	buf_puts(&b, "Next: ");
	for (const char *p = fmt, *s; *p; p = s) {
		s = strstr(p, "%s");
		buf_add(&b, p, s ? (size_t)(s - p) : strlen(p));
		if (s)
			shell_path(&b, va_arg(ap, const char *));
		s = s ? s + 2 : p + strlen(p);
	}
	va_end(ap);
	next_take(&b);
}
