/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/shell.h"
#include "platform/base/log.h"
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
