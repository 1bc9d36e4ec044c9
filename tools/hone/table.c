/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/table.h"
#include "platform/base/log.h"
#include "platform/base/wrap.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	GAP = 2,
	READABLE = 20, /* a name that is cut to so many columns can still be told from others */
	LEAST = 5,
	UNKNOWN_COLUMNS = 80 /* of a terminal that does not say its width */
};

static void add(struct table *t, const char *s)
{
	if (t->ncells == t->cap) {
		int cap = t->cap ? 2 * t->cap : 64;
		const char **cell = ARENA_ARRAY(&t->arena, const char *, cap);
		if (t->ncells)
			memcpy(cell, t->cell, sizeof *cell * (size_t)t->ncells);
		t->cell = cell;
		t->cap = cap;
	}
	t->cell[t->ncells++] = s;
}

void table_cell(struct table *t, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	log_one_line(text);
	add(t, arena_strdup(&t->arena, text));
}

const char *table_ms(double ms, char out[24])
{
	bool tiny = ms > 0 && ms < 0.1;
	snprintf(out, 24, tiny ? "%.2f us" : "%.3f ms", tiny ? 1e3 * ms : ms);
	return out;
}

void table_us(struct table *t, const char *lead, double ns)
{
	if (ns > 0)
		table_cell(t, ns < 10e3 ? "%s%.2f" : "%s%.1f", lead, ns / 1e3);
	else
		table_cell(t, "-");
}

int table_columns(void)
{
	return log_columns(STDOUT_FILENO, isatty(STDOUT_FILENO) ? UNKNOWN_COLUMNS : 0);
}

const char *table_cut_middle(const char *text, int columns, struct arena *a)
{
	int n = log_width(text), dots = columns > 3 ? 3 : columns > 0 ? columns : 0;
	if (n <= columns)
		return text;
	int head = (columns - dots + 1) / 2, tail = columns - dots - head;
	return arena_printf(a, "%.*s%.*s%s", (int)(wrap_column(text, head) - text), text, dots, "...",
			    wrap_column(text, n - tail));
}

/* Widths of a table's columns; 0: the column is left out. */
struct layout {
	int n, width[TABLE_COLS], natural[TABLE_COLS];
	int word[TABLE_COLS]; /* the widest word of a column of words */
};

static int total(const struct layout *l)
{
	int sum = 0;
	for (int c = 0; c < l->n; c++)
		sum += l->width[c] ? l->width[c] + GAP : 0;
	return sum - GAP;
}

/* The width below which a column is not made narrower; words are cut only where all else was in vain. */
static int least_of(const struct table *t, const struct layout *l, int c, int least)
{
	int word = least > LEAST || l->word[c] < LEAST ? l->word[c] : LEAST;
	return t->align[c] == 'l' ? least : t->align[c] == 'w' ? word : l->width[c];
}

/* Makes the widest names and words narrower, step by step, but no name below `least`, until the table fits.
 * True: it does. */
static bool cut_names(const struct table *t, struct layout *l, int limit, int least)
{
	while (total(l) > limit) {
		int widest = -1;
		for (int c = 0; c < l->n; c++)
			if (l->width[c] > least_of(t, l, c, least) &&
			    (widest < 0 || l->width[c] > l->width[widest]))
				widest = c;
		if (widest < 0)
			return false;
		l->width[widest]--;
	}
	return true;
}

/* Leaves out the column that matters least, and gives the others their full widths again. False: all matter.
 */
static bool drop_column(const struct table *t, struct layout *l)
{
	int least = -1;
	for (int c = 0; t->drop && c < l->n; c++)
		if (l->width[c] && t->drop[c] > '0' && (least < 0 || t->drop[c] < t->drop[least]))
			least = c;
	if (least < 0)
		return false;
	l->natural[least] = 0;
	memcpy(l->width, l->natural, sizeof l->width);
	return true;
}

static int widest_word(const char *text)
{
	int most = 0;
	while (*text) {
		size_t n = wrap_line(text, 1, false);
		int w = log_width(text) - log_width(text + n);
		most = w > most ? w : most;
		text += n + (text[n] == ' ');
	}
	return most;
}

static void lay_out(const struct table *t, struct layout *l, int limit)
{
	for (int i = 0; i < t->ncells; i++) {
		int w = log_width(t->cell[i]), word = widest_word(t->cell[i]), c = i % l->n;
		l->natural[c] = w > l->natural[c] ? w : l->natural[c];
		l->word[c] = word > l->word[c] ? word : l->word[c];
	}
	for (int c = 0; c < l->n; c++)
		l->natural[c] = l->natural[c] ? l->natural[c] : 1;
	memcpy(l->width, l->natural, sizeof l->width);
	while (limit > 0 && !cut_names(t, l, limit, READABLE))
		if (!drop_column(t, l)) {
			(void)cut_names(t, l, limit, LEAST);
			return;
		}
}

/* Returns the text of a cell for one line of its row, in the arena; *rest becomes the text for the lines
 * below. */
static const char *cell_line(struct table *t, const struct layout *l, int c, const char **rest)
{
	const char *text = *rest;
	if (t->align[c] != 'w') {
		*rest = "";
		return table_cut_middle(text, l->width[c], &t->arena);
	}
	size_t n = wrap_line(text, l->width[c], true);
	*rest = text + n + (text[n] == ' ');
	return arena_strndup(&t->arena, text, n);
}

/* Prints one line of a row. True: some cell goes on. */
static bool put_line(struct table *t, const struct layout *l, const char **rest, bool head)
{
	bool first = true, more = false;
	int last = l->n - 1;
	while (last > 0 && !l->width[last])
		last--;
	for (int c = 0; c < l->n; c++) {
		if (!l->width[c])
			continue;
		const char *text = cell_line(t, l, c, &rest[c]);
		int wide = log_width(text), blanks = wide < l->width[c] ? l->width[c] - wide : 0;
		int before = t->align[c] == 'r' ? blanks : 0;
		int after = c == last || before ? 0 : blanks;
		printf("%s%*s%s%s%s%*s", first ? "" : "  ", before, "", head ? "\033[1m" : "", text,
		       head ? "\033[0m" : "", after, "");
		first = false;
		more |= *rest[c] != 0;
	}
	printf("\n");
	return more;
}

static void put_row(struct table *t, const struct layout *l, int row, bool head)
{
	const char *rest[TABLE_COLS];
	for (int c = 0; c < l->n; c++)
		rest[c] = t->cell[row * l->n + c];
	while (put_line(t, l, rest, head))
		;
}

void table_print(struct table *t, bool color)
{
	struct layout l = {.n = (int)strlen(t->align)};
	assert(l.n > 0 && l.n <= TABLE_COLS && t->ncells % l.n == 0);
	assert(!t->drop || (int)strlen(t->drop) == l.n);
	lay_out(t, &l, table_columns());
	for (int row = 0; row < t->ncells / l.n; row++)
		put_row(t, &l, row, color && row == 0);
	unsigned shown = 0;
	for (int c = 0; c < l.n; c++)
		shown |= l.width[c] ? 1u << c : 0;
	arena_free(&t->arena);
	*t = (struct table){.align = t->align, .drop = t->drop, .shown = shown};
}

/* whole: a word that is wider than a line is not cut. */
static void put_words(const char *lead, int indent, const char *text, bool whole)
{
	int limit = table_columns(), room = limit - indent;
	printf("%s%*s", lead, indent > log_width(lead) ? indent - log_width(lead) : 0, "");
	while (limit > 0 && room > LEAST) {
		size_t n = wrap_line(text, room, !whole);
		if (!text[n])
			break;
		printf("%.*s\n%*s", (int)n, text, indent, "");
		text += n + (text[n] == ' ');
	}
	printf("%s\n", text);
}

void table_words(const char *lead, int indent, const char *text)
{
	put_words(lead, indent, text, false);
}

/* Prints it behind the lead; behind none, with its own indent. */
static void put_format(const char *lead, const char *fmt, va_list ap)
{
	char *text;
	if (vasprintf(&text, fmt, ap) < 0)
		return;
	int indent = *lead ? 0 : (int)strspn(text, " ");
	put_words(lead, indent + log_width(lead), text + indent, true);
	free(text);
}

void table_say(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	put_format("", fmt, ap);
	va_end(ap);
}

void table_item(const char *lead, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	put_format(lead, fmt, ap);
	va_end(ap);
}
