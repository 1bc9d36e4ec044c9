/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/table.h"
#include "platform/base/log.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

void table_print(struct table *t, bool color)
{
	int cols = (int)strlen(t->align), width[TABLE_COLS] = {0};
	assert(cols > 0 && cols <= TABLE_COLS && t->ncells % cols == 0);
	for (int i = 0; i < t->ncells; i++)
		if ((int)strlen(t->cell[i]) > width[i % cols])
			width[i % cols] = (int)strlen(t->cell[i]);
	for (int i = 0; i < t->ncells; i++) {
		int c = i % cols, last = c == cols - 1;
		bool head = color && i < cols;
		int w = t->align[c] == 'r' ? width[c] : last ? 0 : -width[c];
		printf("%s%*s%s%s", head ? "\033[1m" : "", w, t->cell[i], head ? "\033[0m" : "",
		       last ? "\n" : "  ");
	}
	arena_free(&t->arena);
	*t = (struct table){.align = t->align};
}
