/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of text for people, on standard output. Columns are as wide as their widest cell; the last column is
 * not padded if it is left-aligned. Each cell is printed as one line of plain text (platform/base/log.h),
 * whatever it holds. Cells live in the table's arena, which table_print frees. */
#ifndef TOOLS_TABLE_H
#define TOOLS_TABLE_H

#include "platform/base/arena.h"
#include <stdbool.h>

enum { TABLE_COLS = 16 };

struct table {
	const char *align; /* one letter a column: l or r */
	struct arena arena;
	int ncells, cap;
	const char **cell;
};

void table_cell(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints the table. The first row is the header, bold if color. */
void table_print(struct table *t, bool color);

#endif
