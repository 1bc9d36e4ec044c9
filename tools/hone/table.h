/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of text for people, on standard output. Columns are as wide as their widest cell; the last column is
 * not padded if it is left-aligned. Each cell is printed as one line of plain text (platform/base/log.h),
 * whatever it holds. Cells live in the table's arena, which table_print frees.
 *
 * No line is wider than the terminal (table_columns), and rows that differ are printed differently: long
 * names, which are the left-aligned columns, are cut in the middle as long as they stay readable, and columns
 * of words, whose cells go on in the lines below, are made narrower as long as no word is cut; then columns
 * are left out, by `drop`, unless rows differ in them alone; then names are cut further. Names are cut where
 * few that differ look alike; those that still do go on in the lines below, and if they are of the last
 * column, that stands in lines of its own below each row; so does a last column of words that would take more
 * than two lines. A line below the table names the columns that are left out. A table that does not fit so is
 * printed cell by cell, each behind its head.
 */
#ifndef TOOLS_TABLE_H
#define TOOLS_TABLE_H

#include "platform/base/arena.h"
#include <stdbool.h>

enum { TABLE_COLS = 16 };

struct table {
	const char
	    *align; /* one letter a column: l or r; w: left-aligned words, not cut but broken into lines */
	const char *drop; /* one digit a column: 1 is left out first, 0 never; NULL: none is */
	struct arena arena;
	int ncells, cap;
	const char **cell;
	const char *more; /* says how to see columns that are left out; NULL: a wider terminal, or --json */
	unsigned shown; /* table_print sets bit c if it printed column c */
};

void table_cell(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A time in microseconds, with two decimals below 10; "-" if it is not above 0. `lead` goes before it. */
void table_us(struct table *t, const char *lead, double ns);
/* "12.345 ms", or below 0.1 ms "1.23 us". Returns out. */
const char *table_ms(double ms, char out[24]);
/* Prints the table. The first row is the header, bold if color. */
void table_print(struct table *t, bool color);
/* Columns of the terminal on standard output, 80 if it does not say its width; off a terminal $COLUMNS, else
 * 0: no limit. */
int table_columns(void);
/* Prints `lead` and, from column `indent` on, the text, in as many lines as the terminal needs. */
void table_words(const char *lead, int indent, const char *text);
/* Prints a sentence as a line, in as many lines as the terminal needs, each with the sentence's indent. A
 * word that is wider than the terminal stays whole, so that a path can be copied. */
void table_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* As table_say, behind `lead`: further lines begin in the column behind it. */
void table_item(const char *lead, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The text, or a copy in the arena that is cut in the middle to so many columns. */
const char *table_cut_middle(const char *text, int columns, struct arena *a);

#endif
