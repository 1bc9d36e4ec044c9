/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/shell.h"
#include "platform/base/log.h"
#include <stdio.h>
#include <string.h>

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+";

/* Bytes from p on that log_plain would leave as they are; 0 only if it would change the first one. A long text
 * is looked at in parts, which end before a character of several bytes. */
static size_t shown(const char *p)
{
	char copy[256];
	size_t n = 0, room = strnlen(p, sizeof copy - 1);
	while (room == sizeof copy - 1 && ((unsigned char)p[room] & 0xc0) == 0x80)
		room--;
	snprintf(copy, sizeof copy, "%.*s", (int)room, p);
	log_plain(copy);
	while (n < room && copy[n] == p[n])
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
