/* SPDX-License-Identifier: Apache-2.0 */
/* Breaks plain text (platform/base/log.h) into lines for a terminal, at blanks alone. What stands between two
 * backquotes is a command to be pasted, and stays on one line, however long it is. */
#ifndef PLATFORM_WRAP_H
#define PLATFORM_WRAP_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the text's first line, which takes at most `columns` > 0 columns and ends before a blank; all of
 * the text, if it fits. A word that is wider stays whole, so that a path can be copied; with `cut` it is cut,
 * unless a command begins in it. At least 1, unless the text is empty. */
size_t wrap_line(const char *text, int columns, bool cut);
/* The byte at which column n >= 0 of the text begins; its end, if it has fewer. */
const char *wrap_column(const char *text, int n);
/* Prints `lead` and, from column `indent` on, the text, in as many lines as that many columns need; 0
 * columns: in one line. A line too narrow for words is not broken. cut: as wrap_line. */
void wrap_print(const char *lead, int indent, const char *text, int columns, bool cut);
/* Prints the help of a program that reads its options with getopt_long, in lines of the terminal's width, 80
 * at most. Each line of the text is a paragraph. What stands behind a tab begins in column 18 for an option,
 * else one column further, and goes on in that column. "\v" is a blank at which no line ends. */
void wrap_help(const char *text);

#endif
