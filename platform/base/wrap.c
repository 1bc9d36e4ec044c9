/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/wrap.h"
#include "platform/base/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HELP_COLUMN = 18, HELP_COLUMNS = 80 };

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

/* Bytes of the first word; short words in brackets stay together, as in "[--cache DIR]". */
static int word_length(const char *text)
{
	enum { SHORT = 32 };
	const char *end = *text == '[' ? strchr(text, ']') : NULL;
	int n = end && end - text < SHORT ? (int)(end - text) : 0;
	return n + (int)strcspn(text + n, " \n");
}

int wrap_words(struct buf *out, int columns, int at, int indent, const char *text)
{
	bool fresh = true;
	while (*text) {
		text += strspn(text, " \n");
		int n = word_length(text);
		if (!n)
			break;
		if (!fresh && at + 1 + n > columns) {
			buf_printf(out, "\n%*s", indent, "");
			at = indent;
			fresh = true;
		}
		buf_printf(out, "%s%.*s", fresh ? "" : " ", n, text);
		at += n + !fresh;
		fresh = false;
		text += n;
	}
	return at;
}

/* Appends one paragraph of a help. */
static void put_help(struct buf *out, int columns, char *line)
{
	char *tab = strchr(line, '\t');
	if (tab)
		*tab++ = 0;
	int indent = !tab ? 0 : !strncmp(line, "  -", 3) ? HELP_COLUMN : (int)strlen(line) + 1;
	if (tab)
		buf_printf(out, "%-*s", indent, line);
	(void)wrap_words(out, columns, indent, indent, tab ? tab : line);
	buf_puts(out, "\n");
}

void wrap_help(const char *text)
{
	struct buf out = {0};
	int columns = log_columns(STDOUT_FILENO, HELP_COLUMNS);
	char *all = strdup(text), *line = all;
	for (char *end; line && *line; line = end + 1) {
		end = strchr(line, '\n');
		*end = 0;
		put_help(&out, columns < HELP_COLUMNS ? columns : HELP_COLUMNS, line);
	}
	fputs(all ? buf_str(&out) : text, stdout);
	free(all);
	buf_free(&out);
}
