/* SPDX-License-Identifier: Apache-2.0 */
/* The page's charts. They are narrow enough for a telephone to show their text in full size. */
#include "tools/fleet/fleet_html.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { WIDTH = 420, HEIGHT = 200, LEFT = 46, RIGHT = 8, TOP = 12, BOTTOM = 24, TICKS = 4 };

static void begin(const char *title, struct buf *out)
{
	buf_printf(out,
		   "<figure class=\"chart\"><figcaption>%s</figcaption>\n"
		   "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n",
		   title, WIDTH, HEIGHT, title);
}

/* Returns the smallest of 1, 2, 5, 10, 20, ... of which TICKS steps reach v. */
static int64_t step_of(int64_t v)
{
	int64_t step = 1;
	for (int i = 0; step * TICKS < v && step < INT64_MAX / 100; i++)
		step = i % 3 == 1 ? step / 2 * 5 : step * 2;
	return step;
}

static double y_of(int64_t v, int64_t top)
{
	return HEIGHT - BOTTOM - (double)v / (double)top * (HEIGHT - BOTTOM - TOP);
}

static void text_at(double x, double y, const char *anchor, const char *text, struct buf *out)
{
	buf_printf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y,
		   anchor, text);
}

/* Draws the horizontal lines. Returns the value at the top. */
static int64_t grid(int64_t most, struct buf *out)
{
	int64_t step = step_of(most), steps = (most + step - 1) / step, top = step * steps;
	for (int i = 0; i <= steps; i++) {
		double y = y_of(i * step, top);
		struct buf n = {0};
		buf_printf(out, "<path class=\"%s\" d=\"M%d %.1fH%d\"/>\n", i ? "grid" : "axis", LEFT, y,
			   WIDTH - RIGHT);
		html_count(i * step, &n);
		text_at(LEFT - 6, y + 4, "end", buf_str(&n), out);
		buf_free(&n);
	}
	return top;
}

static void day_at(double x, const char *anchor, int64_t s, bool hours, struct buf *out)
{
	char text[32] = "";
	time_t t = (time_t)s;
	struct tm tm;
	if (gmtime_r(&t, &tm))
		(void)!strftime(text, sizeof text, hours ? "%m-%d %H:%M" : "%Y-%m-%d", &tm);
	text_at(x, HEIGHT - 6, anchor, text, out);
}

static void curve(const struct html_line *l, int64_t top, struct buf *out)
{
	const double step = (double)(WIDTH - RIGHT - LEFT) / (CHART_POINTS - 1);
	buf_printf(out, "<path class=\"line %s\" d=\"M", l->kind);
	for (int i = 0; i < CHART_POINTS; i++)
		buf_printf(out, "%s%.1f %.1f", i ? "L" : "", LEFT + i * step, y_of(l->y[i], top));
	buf_printf(out, "\"><title>%s: %" PRId64 "</title></path>\n", l->name, l->y[CHART_POINTS - 1]);
}

static void legend(const struct html_line *line, int n, struct buf *out)
{
	buf_puts(out, "<p class=\"legend\">");
	for (int i = 0; i < n; i++) {
		buf_printf(out, "<span><i class=\"%s\"></i>%s <b>", line[i].kind, line[i].name);
		html_count(line[i].y[CHART_POINTS - 1], out);
		buf_puts(out, "</b></span>\n");
	}
	buf_puts(out, "</p>");
}

void html_lines(const char *title, const struct html_line *line, int n, int64_t start_s, int64_t step_s,
		struct buf *out)
{
	int64_t most = 1, end_s = start_s + step_s * (CHART_POINTS - 1);
	for (int i = 0; i < n; i++)
		for (int j = 0; j < CHART_POINTS; j++)
			most = line[i].y[j] > most ? line[i].y[j] : most;
	begin(title, out);
	int64_t top = grid(most, out);
	day_at(LEFT, "start", start_s, end_s - start_s < 3 * 86400, out);
	day_at(WIDTH - RIGHT, "end", end_s, end_s - start_s < 3 * 86400, out);
	for (int i = 0; i < n; i++)
		curve(&line[i], top, out);
	buf_puts(out, "</svg>");
	legend(line, n, out);
	buf_puts(out, "</figure>\n");
}

void html_bars(const char *title, const char *const *name, const int64_t *n, int bars, struct buf *out)
{
	const double step = (double)(WIDTH - RIGHT - LEFT) / bars;
	int64_t most = 1;
	for (int i = 0; i < bars; i++)
		most = n[i] > most ? n[i] : most;
	begin(title, out);
	int64_t top = grid(most, out);
	for (int i = 0; i < bars; i++) {
		double x = LEFT + i * step, y = y_of(n[i], top);
		buf_printf(out,
			   "<rect class=\"bar\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
			   "rx=\"2\"><title>%s: %" PRId64 "</title></rect>\n",
			   x + 1, y, step - 2, HEIGHT - BOTTOM - y, name[i], n[i]);
		text_at(x + step / 2, HEIGHT - 6, "middle", name[i], out);
	}
	buf_puts(out, "</svg></figure>\n");
}

void html_shares(const char *const *name, const char *const *kind, const int64_t *n, int parts, int64_t of,
		 struct buf *out)
{
	enum { ROW = 24, NAMES = 60, NUMBERS = 96 };
	const double room = WIDTH - NAMES - NUMBERS;
	buf_printf(out, "<svg class=\"shares\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"coverage\">\n",
		   WIDTH, parts * ROW);
	for (int i = 0; i < parts; i++) {
		double share = of > 0 ? (double)n[i] / (double)of : 0, y = i * ROW;
		buf_printf(out,
			   "<text x=\"0\" y=\"%.1f\">%s</text><rect class=\"back\" x=\"%d\" y=\"%.1f\" "
			   "width=\"%.1f\" height=\"12\" rx=\"2\"/><rect class=\"%s\" x=\"%d\" y=\"%.1f\" "
			   "width=\"%.1f\" height=\"12\" rx=\"2\"/><text class=\"tick\" x=\"%d\" y=\"%.1f\" "
			   "text-anchor=\"end\">",
			   y + 15, name[i], NAMES, y + 5, room, kind[i], NAMES, y + 5,
			   room * (share < 1 ? share : 1), WIDTH, y + 15);
		html_count(n[i], out);
		buf_puts(out, " of ");
		html_count(of, out);
		buf_puts(out, "</text>\n");
	}
	buf_puts(out, "</svg>\n");
}
