/* SPDX-License-Identifier: Apache-2.0 */
/* Words and charts of the operators' page: HTML that is whole by itself but for /page/style.css, charts as
 * inline SVG. Everything that is not constant goes through html_text. */
#ifndef TOOLS_FLEET_HTML_H
#define TOOLS_FLEET_HTML_H

#include "platform/base/buf.h"
#include "tools/fleet/fleet_list.h"

/* For text and attributes in double quotes: no markup, no control characters, valid UTF-8. */
void html_text(const char *text, struct buf *out);
/* As above, put apart: its direction of writing does not reach what stands around it. */
void html_stranger(const char *text, struct buf *out);
void html_time(int64_t s, struct buf *out);  /* "2026-11-22 07:40", UTC; 0: "never" */
void html_ms(int64_t ns, struct buf *out);   /* "1.23 ms"; 0: "–" */
void html_count(int64_t n, struct buf *out); /* "12,345" */

struct html_page {
	const char *title;
	bool signed_in;
	const char *csrf; /* where signed in */
	int refresh_s;    /* 0: it stays */
	const char *here; /* path of the entry of the menu */
	const char *peer; /* NULL: not known */
};
void html_begin(const struct html_page *p, struct buf *out);
void html_end(int64_t now_s, struct buf *out);

/* A screen of a list as a table, with what leads to the other screens: path?filters&page=N. */
struct html_table {
	const struct list_view *v;
	const char *path;
	const char *hide; /* name of a column that is the same in all rows; NULL: none */
	struct buf rows;
	int n;
};
void html_row(struct html_table *t, const struct db_value *col);
/* Consumes the rows. */
void html_table(struct html_table *t, struct buf *out);

/* Charts. A line: y at steps of `step_s` from start_s on. */
enum { CHART_POINTS = 61, CHART_BARS = 12 };
struct html_line {
	const char *name, *kind; /* class of the style sheet */
	int64_t y[CHART_POINTS];
};
void html_lines(const char *title, const struct html_line *line, int n, int64_t start_s, int64_t step_s,
		struct buf *out);
void html_bars(const char *title, const char *const *name, const int64_t *n, int bars, struct buf *out);
/* Parts of a whole, one bar each, as wide as its share. */
void html_shares(const char *const *name, const char *const *kind, const int64_t *n, int parts, int64_t of,
		 struct buf *out);

#endif
