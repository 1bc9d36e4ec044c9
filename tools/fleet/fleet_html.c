/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fleet/fleet_html.h"
#include "platform/base/log.h"
#include "tools/hone/chart.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void html_text(const char *text, struct buf *out)
{
	char part[1024];
	snprintf(part, sizeof part, "%s", text);
	log_one_line(part);
	chart_escape(part, out);
}

void html_stranger(const char *text, struct buf *out)
{
	buf_puts(out, "<bdi>");
	html_text(text, out);
	buf_puts(out, "</bdi>");
}

void html_time(int64_t s, struct buf *out)
{
	char text[32];
	time_t t = (time_t)s;
	struct tm tm;
	if (s > 0 && gmtime_r(&t, &tm) && strftime(text, sizeof text, "%Y-%m-%d %H:%M", &tm))
		buf_puts(out, text);
	else
		buf_puts(out, "never");
}

void html_ms(int64_t ns, struct buf *out)
{
	double ms = (double)ns / 1e6;
	if (ns <= 0)
		buf_puts(out, "–");
	else
		buf_printf(out,
			   ms < 0.1    ? "%.4f ms"
			   : ms < 10   ? "%.3f ms"
			   : ms < 1000 ? "%.1f ms"
				       : "%.0f ms",
			   ms);
}

void html_count(int64_t n, struct buf *out)
{
	char digits[24];
	snprintf(digits, sizeof digits, "%" PRId64, n);
	size_t len = strlen(digits);
	for (size_t i = 0; i < len; i++) {
		buf_add(out, &digits[i], 1);
		if ((len - i) % 3 == 1 && i + 1 < len && digits[i] != '-')
			buf_puts(out, ",");
	}
}

/* Pages. */

static const struct {
	const char *path, *name;
} menu[] = {{"/", "Fleet"},
	    {"/page/boards", "Boards"},
	    {"/page/rejects", "Refused"},
	    {"/page/records", "Revoked"},
	    {"/page/log", "Log"}};

static void put_menu(const struct html_page *p, struct buf *out)
{
	buf_puts(out, "<nav>");
	for (size_t i = 0; i < sizeof menu / sizeof *menu; i++)
		buf_printf(out, "<a href=\"%s\"%s>%s</a>\n", menu[i].path,
			   p->here && !strcmp(p->here, menu[i].path) ? " aria-current=\"page\"" : "",
			   menu[i].name);
	if (p->signed_in)
		buf_printf(out,
			   "<form method=\"post\" action=\"/page/sign-out\"><input type=\"hidden\" "
			   "name=\"csrf\" value=\"%s\"><button class=\"quiet\">Sign out</button></form>",
			   p->csrf);
	else
		buf_puts(out, "<a href=\"/page/sign-in\">Sign in</a>");
	buf_puts(out, "</nav>\n");
}

void html_begin(const struct html_page *p, struct buf *out)
{
	buf_puts(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
		      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
		      "<meta name=\"color-scheme\" content=\"light dark\">\n");
	if (p->refresh_s)
		buf_printf(out, "<meta http-equiv=\"refresh\" content=\"%d\">\n", p->refresh_s);
	buf_puts(out, "<title>");
	html_text(p->title, out);
	buf_puts(out, " · hone-fleet</title>\n<link rel=\"icon\" href=\"data:,\">\n"
		      "<link rel=\"stylesheet\" href=\"/page/style.css\"></head>\n<body><header>"
		      "<a class=\"brand\" href=\"/\">hone-fleet</a>\n");
	put_menu(p, out);
	buf_puts(out, "</header><main>\n<h1>");
	html_text(p->title, out);
	buf_puts(out, "</h1>\n");
}

void html_end(int64_t now_s, struct buf *out)
{
	buf_puts(out, "</main><footer>hone-fleet " HONE_VERSION " · ");
	html_time(now_s, out);
	buf_puts(out, " UTC · <a href=\"/openapi.json\">API</a></footer></body></html>\n");
}

/* Tables. */

static bool is_hex(const char *s)
{
	size_t n = strlen(s);
	return n && strspn(s, "0123456789abcdef") == n;
}

/* Shows the first digits of an id as a link to its page. */
static void put_link(const char *path, const char *id, struct buf *out)
{
	if (strlen(id) == 32 && is_hex(id))
		buf_printf(out, "<a class=\"id\" title=\"%s\" href=\"%s%s\">%.8s</a>", id, path, id, id);
	else
		html_stranger(*id ? id : "–", out);
}

static const char *text_of(const struct db_value *v)
{
	return v->type == DB_TEXT ? v->p : "";
}

static void put_text(const struct db_value *v, struct buf *out)
{
	html_stranger(text_of(v), out);
}

static void put_id(const struct db_value *v, struct buf *out)
{
	buf_puts(out, "<span class=\"id\">");
	html_text(*text_of(v) ? text_of(v) : "–", out);
	buf_puts(out, "</span>");
}

static void put_class(const struct db_value *v, struct buf *out)
{
	put_link("/page/class/", text_of(v), out);
}

static void put_board(const struct db_value *v, struct buf *out)
{
	put_link("/page/board/", text_of(v), out);
}

static void put_int(const struct db_value *v, struct buf *out)
{
	html_count(v->i, out);
}

static void put_serial(const struct db_value *v, struct buf *out)
{
	buf_printf(out, "%" PRId64, v->i);
}

static void put_time(const struct db_value *v, struct buf *out)
{
	html_time(v->i, out);
}

static void put_time_us(const struct db_value *v, struct buf *out)
{
	html_time(v->i / 1000000, out);
}

static void put_ns(const struct db_value *v, struct buf *out)
{
	html_ms(v->i, out);
}

static void put_ratio(const struct db_value *v, struct buf *out)
{
	if (v->i > 0)
		buf_printf(out, "%.2f×", (double)v->i / 100);
	else
		buf_puts(out, "–");
}

static void put_pct(const struct db_value *v, struct buf *out)
{
	if (v->i >= 0)
		buf_printf(out, "%" PRId64 " %%", v->i);
	else
		buf_puts(out, "–");
}

static void put_channel(const struct db_value *v, struct buf *out)
{
	buf_puts(out, v->i >= 0 && v->i < CHANNELS ? channel_names[v->i] : "–");
}

static const struct {
	void (*put)(const struct db_value *v, struct buf *out);
	bool number;
} cells[] = {[CELL_TEXT] = {put_text, false},   [CELL_ID] = {put_id, false},
	     [CELL_CLASS] = {put_class, false}, [CELL_BOARD] = {put_board, false},
	     [CELL_INT] = {put_int, true},      [CELL_SERIAL] = {put_serial, true},
	     [CELL_TIME] = {put_time, false},   [CELL_TIME_US] = {put_time_us, false},
	     [CELL_NS] = {put_ns, true},        [CELL_RATIO] = {put_ratio, true},
	     [CELL_PCT] = {put_pct, true},      [CELL_CHANNEL] = {put_channel, false}};

static bool shown(const struct html_table *t, const struct list_col *k)
{
	return k->head && (!t->hide || strcmp(t->hide, k->name) != 0);
}

void html_row(struct html_table *t, const struct db_value *col)
{
	buf_puts(&t->rows, "<tr>");
	for (const struct list_col *k = t->v->list->col; k->name; k++, col++) {
		if (!shown(t, k))
			continue;
		buf_printf(&t->rows, "<td data-h=\"%s\"%s>", k->head,
			   cells[k->kind].number ? " class=\"n\"" : "");
		cells[k->kind].put(col, &t->rows);
		buf_puts(&t->rows, "</td>");
	}
	buf_puts(&t->rows, "</tr>\n");
	t->n++;
}

/* Links to another screen of the list, with the same filters. */
static void put_pager(const struct html_table *t, int64_t page, const char *text, struct buf *out)
{
	const struct list_view *v = t->v;
	buf_printf(out, "<a href=\"%s?page=%" PRId64, t->path, page);
	for (int i = v->in_path; i < LIST_FILTERS && v->list->filter[i]; i++) {
		if (!v->filter[i][0])
			continue;
		buf_printf(out, "&amp;%s=", v->list->filter[i]);
		for (const unsigned char *p = (const unsigned char *)v->filter[i]; *p; p++)
			buf_printf(out, "%%%02x", *p);
	}
	buf_printf(out, "\">%s</a>\n", text);
}

void html_table(struct html_table *t, struct buf *out)
{
	const struct list_view *v = t->v;
	if (!t->n) {
		buf_printf(out, "<p class=\"empty\">%s</p>\n", v->list->empty);
		buf_free(&t->rows);
		return;
	}
	buf_puts(out, "<table><thead><tr>");
	for (const struct list_col *k = v->list->col; k->name; k++)
		if (shown(t, k))
			buf_printf(out, "<th%s>%s</th>", cells[k->kind].number ? " class=\"n\"" : "",
				   k->head);
	buf_puts(out, "</tr></thead><tbody>\n");
	buf_add(out, t->rows.p, t->rows.n);
	buf_puts(out, "</tbody></table>\n");
	buf_free(&t->rows);
	if (v->pages < 2)
		return;
	buf_puts(out, "<p class=\"pages\">");
	if (v->page > 1)
		put_pager(t, v->page - 1, "← Previous", out);
	buf_printf(out, "<span>%" PRId64 " of %" PRId64 "</span>\n", v->page, v->pages);
	if (v->page < v->pages)
		put_pager(t, v->page + 1, "Next →", out);
	buf_puts(out, "</p>\n");
}
