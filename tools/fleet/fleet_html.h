/* SPDX-License-Identifier: Apache-2.0 */
/* Texts and charts of the operators' page: HTML that needs nothing else but /page/style.css, and charts as
 * inline SVG. Everything that is not constant goes through html_text. */
#ifndef TOOLS_FLEET_HTML_H
#define TOOLS_FLEET_HTML_H

#include "platform/base/buf.h"
#include "tools/fleet/fleet_list.h"

/* Writes text for elements or for attributes in double quotes: no markup, no control characters, valid
 * UTF-8. */
void html_text(const char *text, struct buf *out);
/* As html_text, but isolated: the text's writing direction cannot affect the text around it. */
void html_stranger(const char *text, struct buf *out);
void html_time(int64_t s, struct buf *out);  /* "2026-11-22 07:40", UTC; 0: "never" */
void html_ms(int64_t ns, struct buf *out);   /* "1.23 ms"; 0: "–" */
void html_count(int64_t n, struct buf *out); /* "12,345" */

struct html_page {
	const char *title;
	bool signed_in;
	const char *csrf; /* for its forms; only where signed in */
	int refresh_s;    /* seconds until the page reloads; 0: never */
	const char *here; /* path of the active menu entry */
	const char *peer; /* the reader's address; NULL: not known */
};
void html_begin(const struct html_page *p, struct buf *out);
void html_end(int64_t now_s, struct buf *out);

/* One screen of a list as a table, with links to the other screens: path?filters&page=N. */
struct html_table {
	const struct list_view *v;
	const char *path;
	const char *hide; /* column that is not shown, since all rows have the same value; NULL: none */
	struct buf rows;
	int n;
};
void html_row(struct html_table *t, const struct db_value *col);
/* Writes the table, and frees the rows. */
void html_table(struct html_table *t, struct buf *out);

/* Charts. A line has one value y for each step of `step_s` from start_s on. */
enum { CHART_POINTS = 61, CHART_BARS = 12 };
struct html_line {
	const char *name, *kind; /* class of the style sheet */
	int64_t y[CHART_POINTS];
};
void html_lines(const char *title, const struct html_line *line, int n, int64_t start_s, int64_t step_s,
		struct buf *out);
void html_bars(const char *title, const char *const *name, const int64_t *n, int bars, struct buf *out);
/* Draws the parts of a whole: one bar each, as wide as its share. */
void html_shares(const char *const *name, const char *const *kind, const int64_t *n, int parts, int64_t of,
		 struct buf *out);

#endif
