/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/chart.h"
#include "tools/hone/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
	WIDTH = 860,
	PHONE = 360, /* drawn as well, and shown in its place where the page is narrow */
	HEIGHT = CHART_CURVES_HEIGHT,
	LEFT = 70,
	TEXT_HEIGHT = 14, /* with the gap above it */
	NAME_LETTER = 10, /* width of a capital of a slope's name, at most */
	NAME_GAP = 4,
	RIGHT = 20,
	TOP = 16,
	BOTTOM = 44,
	ROW = 20,
	NAMES = 260,
	LABEL = 38,       /* characters that fit beside a bar */
	PHONE_LABEL = 50, /* above a bar */
	PHONE_ROW = 36,
	NUMBER = 60 /* room for the number behind the longest bar */
};

void chart_style(struct buf *out)
{
	buf_puts(
	    out,
	    ":root{--ink:#1b2631;--dim:#7b8794;--line:#d5dbe1;--page:#fff;--old:#b9c4cf;--new:#1769aa;--roof:"
	    "#b8442e}"
	    "@media(prefers-color-scheme:dark){:root{--ink:#e6ebf0;--dim:#93a1ae;--line:#3a4650;--page:#"
	    "161c22;"
	    "--old:#5b6975;--new:#5fb0ea;--roof:#e58a73}}"
	    "body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:900px;"
	    "margin:2em auto;padding:0 1em;overflow-wrap:anywhere}*{box-sizing:border-box}h1{font-size:1.5em}"
	    "h2{font-size:1.15em;margin-top:2em}"
	    "svg{width:100%;height:auto;font:12px system-ui,sans-serif;fill:var(--ink)}"
	    ".axis{stroke:var(--line);fill:none}.tick{fill:var(--dim)}"
	    ".name{paint-order:stroke;stroke:var(--page);stroke-width:3px}.roof{stroke:var(--roof);fill:none}"
	    ".level{stroke:var(--roof);stroke-dasharray:4 4;fill:none;opacity:.6}.old{fill:var(--old)}"
	    ".new{fill:var(--new)}.dot{fill:var(--new);fill-opacity:.55;stroke:var(--new)}"
	    ".curve{stroke:var(--new);fill:none;stroke-width:2}"
	    "table{border-collapse:collapse;width:100%}td,th{padding:.15em .5em;text-align:right;"
	    "border-bottom:1px solid var(--line)}td:nth-child(-n+2),th:nth-child(-n+2){text-align:left}"
	    "th{white-space:nowrap}.scroll{overflow-x:auto;overflow-wrap:normal}.dim{color:var(--dim)}"
	    ".phone{display:none}"
	    /* on a phone, charts drawn for its width take the place of the wide ones; each row of a table
	     * becomes a block of its own, its cells named by data-h */
	    "@media(max-width:700px){body{margin:1em auto;padding:0 .8em}.wide{display:none}"
	    ".phone{display:block}"
	    "table,tbody{display:block}tr{display:grid;grid-template-columns:1fr 1fr;gap:0 "
	    "1.2em;padding:.4em 0;"
	    "border-bottom:1px solid "
	    "var(--line)}th{display:none}td{display:flex;justify-content:space-between;"
	    "gap:.6em;border:0;padding:0;overflow-wrap:anywhere}td::before{content:attr(data-h);color:var(--"
	    "dim);"
	    "text-align:left;flex:none}td:nth-child(-n+2){grid-column:1/-1;display:block}"
	    "td:nth-child(-n+2)::before{content:none}td:first-child{font-weight:600}}");
}

void chart_escape(const char *text, struct buf *out)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		if (c == '<' || c == '>' || c == '&' || c == '"' || c == '\'')
			buf_printf(out, "&#%d;", c);
		else if (c >= ' ' && c != 127)
			buf_add(out, text, 1);
		else
			buf_puts(out, "?");
	}
}

/* Maps a range of values to a range of pixels. */
struct scale {
	double lo, hi; /* logarithms where `log` */
	double from, to;
	bool log;
};

static double place(const struct scale *s, double v)
{
	double x = s->log ? log10(v) : v;
	return s->from + (x - s->lo) / (s->hi - s->lo) * (s->to - s->from);
}

static void begin(struct buf *out, int width, int height, const char *what)
{
	buf_printf(out,
		   "<div class=\"scroll\"><svg class=\"%s\" viewBox=\"0 0 %d %d\" role=\"img\" "
		   "aria-label=\"%s\">\n",
		   width == PHONE ? "phone" : "wide", width, height, what);
}

static void line(struct buf *out, const char *kind, double x1, double y1, double x2, double y2)
{
	buf_printf(out, "<path class=\"%s\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", kind, x1, y1, x2, y2);
}

static void tick(struct buf *out, double x, double y, const char *anchor, const char *text)
{
	buf_printf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y,
		   anchor, text);
}

static void number(struct buf *out, double x, double y, const char *anchor, double v)
{
	char text[32];
	snprintf(text, sizeof text, v >= 100 ? "%.0f" : "%.3g", v);
	tick(out, x, y, anchor, text);
}

static void power(struct buf *out, double x, double y, const char *anchor, double d)
{
	char text[32];
	snprintf(text, sizeof text, "%.3g", pow(10, d)); /* "1e+06" has room where seven digits have none */
	tick(out, x, y, anchor, text);
}

static void decades(struct buf *out, const struct scale *x, const struct scale *y)
{
	for (double d = ceil(x->lo); d <= x->hi + 1e-9; d++) {
		line(out, "axis", place(x, pow(10, d)), y->to, place(x, pow(10, d)), y->from);
		power(out, place(x, pow(10, d)), y->from + 16, "middle", d);
	}
	for (double d = ceil(y->lo); d <= y->hi + 1e-9; d++) {
		line(out, "axis", x->from, place(y, pow(10, d)), x->to, place(y, pow(10, d)));
		power(out, x->from - 6, place(y, pow(10, d)) + 4, "end", d);
	}
	tick(out, (x->from + x->to) / 2, y->from + 34, "middle", "flops per byte");
	tick(out, x->from + 4, TOP - 4, "start", "GFLOP/s");
}

/* The names of slopes, so that none covers another one. */
struct names {
	int n;
	struct {
		double left, right, base;
	} of[4];
};

static bool covers(const struct names *s, double left, double right, double base)
{
	for (int i = 0; i < s->n; i++)
		if (left < s->of[i].right + NAME_GAP && right > s->of[i].left - NAME_GAP &&
		    fabs(base - s->of[i].base) < TEXT_HEIGHT)
			return true;
	return false;
}

/* Writes a name beside the slope from (x1, y1) up to (x2, y2): as near to its lower end as there is room,
 * left of it or right of it. */
static void name_slope(struct buf *out, struct names *s, const struct scale *x, double x1, double y1,
		       double x2, double y2, bool on_left, const char *name)
{
	double run = (x2 - x1) / (y1 - y2), wide = NAME_LETTER * (double)strlen(name), left = 0, base = 0;
	for (double up = 0; up == 0 || y1 - up > y2 + TEXT_HEIGHT; up += 2) {
		base = y1 - 2 - up;
		/* to the left of the slope at the bottom of the letters, or to the right of it at their top
		 */
		left = x1 + run * (up + (on_left ? 2 : TEXT_HEIGHT)) + (on_left ? -4 - wide : 4);
		if (left >= x->from + 2 && left + wide <= x->to && !covers(s, left, left + wide, base))
			break;
	}
	s->of[s->n].left = left;
	s->of[s->n].right = left + wide;
	s->of[s->n++].base = base;
	buf_printf(out, "<text class=\"tick name\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"start\">%s</text>\n",
		   left, base, name);
}

/* Horizontal distance, in pixels, from the slope of level i to the next one of less (or more) bandwidth. */
static double room_beside(const struct scale *x, const double gbs[4], int i, bool of_more)
{
	double room = x->to - x->from;
	for (int k = 0; k < 4; k++) {
		double ratio = gbs[k] > 0 ? of_more ? gbs[k] / gbs[i] : gbs[i] / gbs[k] : 0;
		if (k != i && ratio >= 1)
			room = fmin(room, log10(ratio) / (x->hi - x->lo) * (x->to - x->from));
	}
	return room;
}

/* Draws the slope of each memory level, up to where the roof of arithmetic begins. */
static void slopes(struct buf *out, const struct scale *x, const struct scale *y, const double gbs[4],
		   double peak)
{
	static const char *const level[] = {"L1", "L2", "L3", "DRAM"};
	double lo = pow(10, x->lo), hi = pow(10, x->hi);
	struct names names = {0};
	for (int i = 3; i >= 0; i--) {
		double bottom = gbs[i] > 0 ? pow(10, y->lo) / gbs[i] : hi,
		       begin_at = bottom > lo ? bottom : lo;
		double end = gbs[i] > 0 && peak / gbs[i] < hi ? peak / gbs[i] : hi;
		if (begin_at >= end)
			continue;
		double x1 = place(x, begin_at), y1 = place(y, begin_at * gbs[i]), x2 = place(x, end),
		       y2 = place(y, end * gbs[i]);
		double room = room_beside(x, gbs, i, false), wide = NAME_LETTER * (double)strlen(level[i]);
		line(out, i == 3 ? "roof" : "level", x1, y1, x2, y2);
		name_slope(out, &names, x, x1, y1, x2, y2,
			   room < wide + 2 * NAME_GAP && room_beside(x, gbs, i, true) > room, level[i]);
	}
}

static int left_of(int width)
{
	return width == PHONE ? 48 : LEFT;
}

static bool plotted(const struct chart_kernel *k)
{
	return k->flops > 0 && k->bytes > 0 && k->after_ns > 0;
}

static void widen(struct scale *s, double v)
{
	s->lo = fmin(s->lo, floor(log10(v)));
	s->hi = fmax(s->hi, ceil(log10(v)));
}

static void roofline(const struct target *t, int cores, const struct chart_kernel *k, int n, int width,
		     struct buf *out)
{
	double peak = t->fma_gflops * cores, all = 0, gbs[4];
	struct scale x = {-1, 2, left_of(width), width - RIGHT, true}, y = {0, 0, HEIGHT - BOTTOM, TOP, true};
	widen(&y, peak > 0 ? peak : 1);
	for (int i = 0; i < n; i++) {
		all += k[i].after_ns;
		if (plotted(&k[i])) {
			widen(&x, k[i].flops / k[i].bytes);
			widen(&y, k[i].flops / k[i].after_ns);
		}
	}
	begin(out, width, HEIGHT, "roofline");
	decades(out, &x, &y);
	for (int i = 0; i < 4; i++)
		gbs[i] = t->bw_gbs[i] * cores;
	if (peak > 0)
		slopes(out, &x, &y, gbs, peak);
	if (peak > 0)
		line(out, "roof", x.from, place(&y, peak), x.to, place(&y, peak));
	for (int i = 0; i < n; i++) {
		if (!plotted(&k[i]))
			continue;
		buf_printf(out, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"><title>",
			   place(&x, k[i].flops / k[i].bytes), place(&y, k[i].flops / k[i].after_ns),
			   3 + 30 * sqrt(k[i].after_ns / (all > 0 ? all : 1)));
		chart_escape(k[i].name, out);
		buf_puts(out, ": ");
		chart_escape(k[i].label, out);
		buf_printf(out, ", %.1f us</title></circle>\n", k[i].after_ns / 1e3);
	}
	buf_puts(out, "</svg></div>\n");
}

void chart_roofline(const struct target *t, int cores, const struct chart_kernel *k, int n, struct buf *out)
{
	roofline(t, cores, k, n, WIDTH, out);
	roofline(t, cores, k, n, PHONE, out);
}

static void bar(struct buf *out, const char *kind, double x, double y, double width)
{
	buf_printf(out, "<rect class=\"%s\" x=\"%.0f\" y=\"%.1f\" width=\"%.1f\" height=\"8\"/>\n", kind, x,
		   y, width);
}

static void bar_name(const struct chart_kernel *k, int x, double y, const char *anchor, int most,
		     struct buf *out)
{
	struct arena a = {0};
	buf_printf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
	chart_escape(table_cut_middle(k->label, most, &a), out);
	buf_puts(out, "<title>");
	chart_escape(k->name, out);
	buf_puts(out, ": ");
	chart_escape(k->label, out);
	buf_puts(out, "</title></text>\n");
	arena_free(&a);
}

/* Names are beside the bars or, on a phone, above them. */
static void bars(const struct chart_kernel *k, int n, int width, struct buf *out)
{
	bool phone = width == PHONE;
	int left = phone ? 0 : NAMES, row = phone ? PHONE_ROW : ROW, above = phone ? PHONE_ROW - ROW : 0;
	struct scale x = {0, 1, 0, width - left - NUMBER, false};
	for (int i = 0; i < n; i++)
		x.hi = fmax(x.hi, fmax(k[i].before_ns, k[i].after_ns));
	begin(out, width, n * row + 4, "time by kernel");
	for (int i = 0; i < n; i++) {
		double y = i * row + above + 2, before = place(&x, k[i].before_ns),
		       after = place(&x, k[i].after_ns);
		bar(out, "old", left, y, before);
		bar(out, "new", left, y + 8, after);
		if (phone)
			bar_name(&k[i], 0, y - 4, "start", PHONE_LABEL, out);
		else
			bar_name(&k[i], NAMES - 6, y + 13, "end", LABEL, out);
		number(out, left + fmax(before, after) + 4, y + 13, "start", k[i].after_ns / 1e3);
	}
	buf_puts(out, "</svg></div>\n");
}

void chart_bars(const struct chart_kernel *k, int n, struct buf *out)
{
	bars(k, n, WIDTH, out);
	bars(k, n, PHONE, out);
}

/* Step between ticks: 1, 2 or 5 times a power of ten, at most about six steps up to v. */
static double round_step(double v)
{
	double step = pow(10, floor(log10(v > 0 ? v : 1)));
	return v / step > 5 ? step * 2 : v / step > 2 ? step : step / 2;
}

static void history(const struct history *h, int width, struct buf *out)
{
	const struct history_point *p = h->point;
	struct scale x = {0, p[h->n - 1].at_ms / 1e3, left_of(width), width - RIGHT, false};
	struct scale y = {0, 0, HEIGHT - BOTTOM, TOP, false};
	for (int i = 0; i < h->n; i++)
		y.hi = fmax(y.hi, p[i].total_ms * 1.05);
	x.hi = x.hi > 0 ? x.hi : 1;
	y.hi = y.hi > 0 ? y.hi : 1;
	begin(out, width, HEIGHT, "progress of the search");
	for (double v = 0, step = round_step(x.hi); v <= x.hi; v += step) {
		line(out, "axis", place(&x, v), y.to, place(&x, v), y.from);
		number(out, place(&x, v), y.from + 16, "middle", v);
	}
	for (double v = 0, step = round_step(y.hi); v <= y.hi; v += step) {
		line(out, "axis", x.from, place(&y, v), x.to, place(&y, v));
		number(out, x.from - 6, place(&y, v) + 4, "end", v);
	}
	tick(out, (x.from + x.to) / 2, y.from + 34, "middle", "seconds since the start");
	tick(out, x.from + 4, TOP - 4, "start", "ms");
	buf_printf(out, "<path class=\"curve\" d=\"M%.1f %.1f", place(&x, p[0].at_ms / 1e3),
		   place(&y, p[0].total_ms));
	for (int i = 1; i < h->n; i++)
		buf_printf(out, "H%.1fV%.1f", place(&x, p[i].at_ms / 1e3), place(&y, p[i].total_ms));
	buf_puts(out, "\"/>\n</svg></div>\n");
}

void chart_history(const struct history *h, struct buf *out)
{
	history(h, WIDTH, out);
	history(h, PHONE, out);
}

void chart_file_begin(int height, struct buf *out)
{
	static const char *const color[CHART_KINDS] = {"#1769aa", "#b8442e", "#3b8132", "#8a5fb5",
						       "#c08a12", "#2a9d96", "#b14a86", "#6b7682"};
	buf_printf(out,
		   "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-size=\"12\" "
		   "font-family=\"system-ui,sans-serif\"><style>text{fill:#1b2631}.tick{fill:#7b8794}"
		   ".axis{stroke:#d5dbe1;fill:none}.paper{fill:#fff}path{fill:none;stroke-width:2}",
		   WIDTH, height);
	for (int i = 0; i < CHART_KINDS; i++)
		buf_printf(out, ".k%d{stroke:%s}text.k%d{fill:%s;stroke:none}", i, color[i], i, color[i]);
	buf_printf(out, "</style>\n<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n", WIDTH, height);
}

void chart_file_end(struct buf *out)
{
	buf_puts(out, "</svg>\n");
}

static void share_axes(struct buf *out, const struct scale *x, const struct scale *y)
{
	static const double second[] = {0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600};
	static const double share[] = {0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97, 0.99};
	for (size_t i = 0; i < sizeof second / sizeof *second; i++)
		if (log10(second[i]) >= x->lo - 1e-9 && log10(second[i]) <= x->hi + 1e-9) {
			line(out, "axis", place(x, second[i]), y->to, place(x, second[i]), y->from);
			number(out, place(x, second[i]), y->from + 16, "middle", second[i]);
		}
	for (size_t i = 0; i < sizeof share / sizeof *share; i++)
		if (share[i] >= y->lo) {
			line(out, "axis", x->from, place(y, share[i]), x->to, place(y, share[i]));
			number(out, x->from - 6, place(y, share[i]) + 4, "end", share[i]);
		}
	tick(out, (x->from + x->to) / 2, y->from + 34, "middle", "seconds since the start");
}

/* Values below the scale are drawn at its bottom. */
static void curve(struct buf *out, const struct scale *x, const struct scale *y, const struct chart_line *l,
		  double legend_y)
{
	buf_printf(out, "<path class=\"k%d\"%s d=\"", l->kind, l->name ? "" : " opacity=\".3\"");
	for (int i = 0; i < l->n; i++)
		buf_printf(out, "%s%.1f %.1f", i ? "L" : "M", place(x, l->x[i]),
			   place(y, fmax(l->y[i], y->lo)));
	buf_puts(out, "\"/>\n");
	if (!l->name)
		return;
	buf_printf(out, "<text class=\"k%d\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">", l->kind, x->to - 8,
		   legend_y);
	chart_escape(l->name, out);
	buf_puts(out, "</text>\n");
}

void chart_curves(const char *title, double top, const struct chart_line *l, int n, struct buf *out)
{
	struct scale x = {0, 0.5, LEFT, WIDTH - RIGHT, true};
	struct scale y = {0.8, 1.01, HEIGHT - BOTTOM, 2 * TOP, false};
	double legend = y.from - 8;
	for (int i = 0; i < n; i++)
		for (int k = 0; k < l[i].n; k++) {
			x.lo = fmin(x.lo, log10(l[i].x[k]));
			x.hi = fmax(x.hi, log10(l[i].x[k]));
			y.hi = fmax(y.hi, l[i].y[k]);
		}
	buf_printf(out, "<g transform=\"translate(0 %.1f)\">\n<text x=\"%d\" y=\"%d\">", top, LEFT, TOP);
	chart_escape(title, out);
	buf_puts(out, "</text>\n");
	share_axes(out, &x, &y);
	for (int i = 0; i < n; i++) {
		curve(out, &x, &y, &l[i], legend);
		legend -= l[i].name ? 16 : 0;
	}
	buf_puts(out, "</g>\n");
}
