/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/table.h"
#include "platform/base/buf.h"
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
	INDENT = 4,          /* of a column that stands below its rows */
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

/* The text, or a copy in the arena with its first `head` columns, dots, and its end, in so many columns. */
static const char *cut_at(const char *text, int columns, int head, struct arena *a)
{
	int n = log_width(text), dots = columns > 3 ? 3 : columns > 0 ? columns : 0;
	if (n <= columns)
		return text;
	return arena_printf(a, "%.*s%.*s%s", (int)(wrap_column(text, head) - text), text, dots, "...",
			    wrap_column(text, n - (columns - dots - head)));
}

const char *table_cut_middle(const char *text, int columns, struct arena *a)
{
	return cut_at(text, columns, columns > 3 ? (columns - 2) / 2 : 0, a);
}

/* How a table is printed. */
struct layout {
	int n, width[TABLE_COLS], natural[TABLE_COLS]; /* 0: the column is left out, or stands below */
	int word[TABLE_COLS];                          /* the widest word of a column of words */
	int head[TABLE_COLS];                          /* columns before the dots of a name that is cut */
	bool below;  /* the last column stands in lines of its own, below each row */
	bool *whole; /* per cell: a name that is broken into lines instead of being cut */
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
	memcpy(l->width, l->natural, sizeof l->width);
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

/* Leaves out the column that matters least. False: all matter. */
static bool drop_column(const struct table *t, struct layout *l)
{
	int least = -1;
	for (int c = 0; t->drop && c < l->n; c++)
		if (l->natural[c] && t->drop[c] > '0' && (least < 0 || t->drop[c] < t->drop[least]))
			least = c;
	if (least < 0)
		return false;
	l->natural[least] = 0;
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

static void measure(const struct table *t, struct layout *l)
{
	*l = (struct layout){.n = (int)strlen(t->align)};
	for (int i = 0; i < t->ncells; i++) {
		int w = log_width(t->cell[i]), word = widest_word(t->cell[i]), c = i % l->n;
		l->natural[c] = w > l->natural[c] ? w : l->natural[c];
		l->word[c] = word > l->word[c] ? word : l->word[c];
	}
	for (int c = 0; c < l->n; c++)
		l->natural[c] = l->natural[c] ? l->natural[c] : 1;
	memcpy(l->width, l->natural, sizeof l->width);
}

struct rows {
	const struct table *t;
	const struct layout *l;
};

static int compare_rows(const struct rows *s, int x, int y, bool all)
{
	int n = s->l->n, differ = 0;
	for (int c = 0; c < n && !differ; c++)
		if (all || s->l->natural[c] || (s->l->below && c == n - 1))
			differ = strcmp(s->t->cell[x * n + c], s->t->cell[y * n + c]);
	return differ;
}

static int by_shown(const void *x, const void *y, void *ctx)
{
	return compare_rows(ctx, *(const int *)x, *(const int *)y, false);
}

/* Whether rows that differ do so in a column that is shown. */
static bool tells_rows(const struct table *t, const struct layout *l)
{
	struct arena scratch = {0};
	struct rows s = {t, l};
	int n = t->ncells / l->n, *row = ARENA_ARRAY(&scratch, int, n + 1);
	bool told = true;
	for (int i = 0; i < n; i++)
		row[i] = i;
	qsort_r(row, (size_t)n, sizeof *row, by_shown, &s);
	for (int i = 1; i < n && told; i++)
		told = compare_rows(&s, row[i - 1], row[i], false) != 0 ||
		       compare_rows(&s, row[i - 1], row[i], true) == 0;
	arena_free(&scratch);
	return told;
}

/* Leaves out as few columns as the width allows while names stay readable, then cuts names further. False: no
 * layout in columns fits and tells rows apart. */
static bool lay_out(const struct table *t, struct layout *l, int limit)
{
	struct layout with[TABLE_COLS + 1];
	int n = 0;
	do
		with[n++] = *l;
	while (drop_column(t, l));
	for (int k = 0; k < 2 * n; k++) {
		*l = with[k < n ? k : 2 * n - 1 - k];
		if (cut_names(t, l, limit, k < n ? READABLE : LEAST) && tells_rows(t, l))
			return true;
	}
	return false;
}

struct cut {
	const char *as, *text;
	int at; /* its row */
};

static int by_cut(const void *x, const void *y)
{
	const struct cut *a = x, *b = y;
	int differ = strcmp(a->as, b->as);
	return differ ? differ : strcmp(a->text, b->text);
}

/* The names of a column, cut behind `head` columns, in the order of the cut texts. */
static struct cut *cut_column(const struct table *t, const struct layout *l, int c, int head, struct arena *a)
{
	int rows = t->ncells / l->n;
	struct cut *cut = ARENA_ARRAY(a, struct cut, rows + 1);
	for (int r = 0; r < rows; r++) {
		const char *text = t->cell[r * l->n + c];
		cut[r] = (struct cut){cut_at(text, l->width[c], head, a), text, r};
	}
	qsort(cut, (size_t)rows, sizeof *cut, by_cut);
	return cut;
}

/* Number of neighbours that differ and look alike. */
static int count_alike(const struct cut *cut, int n)
{
	int alikes = 0;
	for (int i = 1; i < n; i++)
		alikes += !strcmp(cut[i - 1].as, cut[i].as) && strcmp(cut[i - 1].text, cut[i].text) != 0;
	return alikes;
}

/* Chooses where the names of a column are cut: near their middle, but so that few look alike. Returns how
 * many do. */
static int place_cut(const struct table *t, struct layout *l, int c)
{
	int room = l->width[c] > 3 ? l->width[c] - 3 : 0, rows = t->ncells / l->n, least = -1;
	for (int k = 0; k <= room && least; k++) {
		struct arena scratch = {0};
		int head = (room + 1) / 2 + (k & 1 ? -(k + 1) / 2 : k / 2);
		int n = head < 0 ? -1 : count_alike(cut_column(t, l, c, head, &scratch), rows);
		if (n >= 0 && (least < 0 || n < least)) {
			least = n;
			l->head[c] = head;
		}
		arena_free(&scratch);
	}
	return least;
}

/* Names that differ and look alike are broken into lines. */
static void keep_whole(const struct table *t, struct layout *l, int c)
{
	struct arena scratch = {0};
	int rows = t->ncells / l->n;
	struct cut *cut = cut_column(t, l, c, l->head[c], &scratch);
	for (int i = 0, end; i < rows; i = end) {
		for (end = i + 1; end < rows && !strcmp(cut[i].as, cut[end].as);)
			end++;
		for (int k = i; k < end && strcmp(cut[i].text, cut[end - 1].text) != 0; k++)
			l->whole[cut[k].at * l->n + c] = true;
	}
	arena_free(&scratch);
}

/* Decides for the names that are cut what of them is shown. Returns whether those of the last column still
 * look alike. */
static bool place_cuts(struct table *t, struct layout *l)
{
	bool last = false;
	l->whole = ARENA_ARRAY(&t->arena, bool, t->ncells + 1);
	for (int c = 0; c < l->n; c++)
		if (t->align[c] == 'l' && l->width[c] && l->width[c] < l->natural[c] && place_cut(t, l, c)) {
			keep_whole(t, l, c);
			last = c == l->n - 1;
		}
	return last;
}

/* Whether the last column is one of words, whose longest cell takes more than two lines in its width. */
static bool is_tall(const struct table *t, const struct layout *l)
{
	int last = l->n - 1;
	return t->align[last] == 'w' && l->width[last] && l->natural[last] > 2 * l->width[last];
}

/* Puts the last column below the rows, because its names look alike in the width that is left for them, or
 * its words take many lines. False: no layout fits so. */
static bool put_below(struct table *t, struct layout *l, int limit)
{
	struct layout below;
	measure(t, &below);
	below.below = true;
	below.natural[below.n - 1] = 0;
	if (l->n < 2 || limit <= 2 * INDENT || !lay_out(t, &below, limit))
		return false;
	(void)place_cuts(t, &below);
	*l = below;
	return true;
}

/* Bytes of a name's first line: to the last blank that fits, which begins the next line; else to the width.
 */
static size_t name_line(const char *text, int width)
{
	const char *end = wrap_column(text, width), *blank = end;
	if (!*end)
		return strlen(text);
	while (blank > text && *blank != ' ')
		blank--;
	return (size_t)((blank > text ? blank : end) - text);
}

/* Returns the text of a cell for one line of its row, in the arena; *rest becomes the text for the lines
 * below. */
static const char *cell_line(struct table *t, const struct layout *l, int i, const char **rest)
{
	const char *text = *rest;
	int c = i % l->n;
	if (t->align[c] == 'w' || l->whole[i]) {
		size_t n =
		    t->align[c] == 'w' ? wrap_line(text, l->width[c], true) : name_line(text, l->width[c]);
		*rest = text + n + (t->align[c] == 'w' && text[n] == ' ');
		return arena_strndup(&t->arena, text, n);
	}
	*rest = "";
	return cut_at(text, l->width[c], l->head[c], &t->arena);
}

static void put_cell(const char *text, int before, int after, bool head)
{
	printf("%*s%s%s%s%*s", before, "", head ? "\033[1m" : "", text, head ? "\033[0m" : "", after, "");
}

/* Prints one line of a row. True: some cell goes on. */
static bool put_line(struct table *t, const struct layout *l, int row, const char **rest, bool head)
{
	bool more = false;
	int last = l->n - 1, first = 0;
	while (last > 0 && !l->width[last])
		last--;
	while (first < last && !l->width[first])
		first++;
	for (int c = first; c <= last; c++) {
		if (!l->width[c])
			continue;
		const char *text = cell_line(t, l, row * l->n + c, &rest[c]);
		int wide = log_width(text), blanks = wide < l->width[c] ? l->width[c] - wide : 0;
		int before = t->align[c] == 'r' ? blanks : 0;
		put_cell(text, before + (c > first ? GAP : 0), c == last || before ? 0 : blanks, head);
		more |= *rest[c] != 0;
	}
	printf("\n");
	return more;
}

/* Prints a text from column `indent` on, which the first line has reached, in as many lines as it needs. */
static void put_whole(const char *text, int indent, int limit, bool head)
{
	int room = limit - indent > 1 ? limit - indent : 1;
	for (bool first = true; first || *text; first = false) {
		size_t n = name_line(text, room);
		printf("%*s%s%.*s%s\n", first ? 0 : indent, "", head ? "\033[1m" : "", (int)n, text,
		       head ? "\033[0m" : "");
		text += n;
	}
}

static void put_row(struct table *t, const struct layout *l, int row, int limit, bool head)
{
	const char *rest[TABLE_COLS];
	for (int c = 0; c < l->n; c++)
		rest[c] = t->cell[row * l->n + c];
	while (put_line(t, l, row, rest, head))
		;
	if (!l->below)
		return;
	printf("%*s", INDENT, "");
	put_whole(rest[l->n - 1], INDENT, limit, head);
}

/* Prints each cell in lines of its own, behind its column's head: for a terminal that is too narrow. */
static void put_cells(const struct table *t, int n, int limit, bool color)
{
	int widest = 0;
	struct arena scratch = {0};
	for (int c = 0; c < n; c++)
		widest = log_width(t->cell[c]) > widest ? log_width(t->cell[c]) : widest;
	widest = widest > limit / 3 ? limit / 3 : widest;
	for (int i = n; i < t->ncells; i++) {
		const char *head = table_cut_middle(t->cell[i % n], widest, &scratch);
		put_cell(head, 0, widest - log_width(head) + GAP, color);
		put_whole(t->cell[i], widest + GAP, limit, false);
		if (i % n == n - 1 && i + 1 < t->ncells)
			printf("\n");
	}
	arena_free(&scratch);
}

/* Names the columns that the width has no room for, but those that say nothing of any row. */
static void say_left_out(const struct table *t, const struct layout *l)
{
	struct buf names = {0};
	for (int c = 0; c < l->n; c++) {
		bool shown = l->width[c] || (l->below && c == l->n - 1), says = false;
		for (int i = l->n + c; i < t->ncells && !shown; i += l->n)
			says |= t->cell[i][0] && strcmp(t->cell[i], "-") != 0;
		if (says)
			buf_printf(&names, "%s\"%s\"", names.n ? ", " : "this terminal has no room for ",
				   t->cell[c]);
	}
	if (names.n) {
		buf_printf(&names, ": %s", t->more ? t->more : "make it wider, or use --json");
		table_words("", 0, buf_str(&names));
	}
	buf_free(&names);
}

void table_print(struct table *t, bool color)
{
	struct layout l;
	int limit = table_columns();
	unsigned shown = 0;
	measure(t, &l);
	assert(l.n > 0 && l.n <= TABLE_COLS && t->ncells % l.n == 0);
	assert(!t->drop || (int)strlen(t->drop) == l.n);
	bool fits = limit <= 0 || lay_out(t, &l, limit);
	if (fits && (place_cuts(t, &l) || is_tall(t, &l)))
		(void)put_below(t, &l, limit);
	else if (!fits && t->align[l.n - 1] == 'w')
		fits = put_below(t, &l, limit);
	for (int row = 0; row < t->ncells / l.n && fits; row++)
		put_row(t, &l, row, limit, color && row == 0);
	if (!fits)
		put_cells(t, l.n, limit, color);
	for (int c = 0; c < l.n; c++)
		shown |= !fits || l.width[c] || (l.below && c == l.n - 1) ? 1u << c : 0;
	if (fits)
		say_left_out(t, &l);
	arena_free(&t->arena);
	*t = (struct table){.align = t->align, .drop = t->drop, .more = t->more, .shown = shown};
}

void table_words(const char *lead, int indent, const char *text)
{
	wrap_print(lead, indent, text, table_columns(), true);
}

/* Prints it behind the lead; behind none, with its own indent. */
static void put_format(const char *lead, const char *fmt, va_list ap)
{
	char *text;
	if (vasprintf(&text, fmt, ap) < 0)
		return;
	int indent = *lead ? 0 : (int)strspn(text, " ");
	wrap_print(lead, indent + log_width(lead), text + indent, table_columns(), false);
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
