/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/wrap.h"
#include "platform/base/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HELP_COLUMN = 18, HELP_COLUMNS = 80, LEAST_COLUMNS = 16, LEAST_ROOM = 5 };

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

/* Prints one paragraph of a help, without its newline. */
static void print_help(char *line, int columns)
{
	char *text = strchr(line, '\t');
	int indent = 0;
	if (text) {
		*text++ = 0;
		indent = line[2] == '-' ? HELP_COLUMN : (int)strlen(line) + 1;
		printf("%-*s", indent, line);
	} else {
		text = line;
	}
	for (size_t n; *text; text += n + !!text[n]) {
		n = wrap_line(text, columns - indent, false);
		for (size_t i = 0; i < n; i++)
			putchar(text[i] == '\v' ? ' ' : text[i]);
		if (text[n])
			printf("\n%*s", indent, "");
	}
	putchar('\n');
}

void wrap_print(const char *lead, int indent, const char *text, int columns, bool cut)
{
	int room = columns - indent;
	printf("%s%*s", lead, indent > log_width(lead) ? indent - log_width(lead) : 0, "");
	while (columns > 0 && room > LEAST_ROOM) {
		size_t n = wrap_line(text, room, cut);
		if (!text[n])
			break;
		printf("%.*s\n%*s", (int)n, text, indent, "");
		text += n + (text[n] == ' ');
	}
	printf("%s\n", text);
}

void wrap_help(const char *text)
{
	int columns = log_columns(STDOUT_FILENO, HELP_COLUMNS), least = HELP_COLUMN + LEAST_COLUMNS;
	columns = columns > HELP_COLUMNS ? HELP_COLUMNS : columns < least ? least : columns;
	for (size_t n; *text; text += n + 1) {
		n = strcspn(text, "\n");
		char *line = strndup(text, n);
		if (line)
			print_help(line, columns);
		free(line);
	}
}
