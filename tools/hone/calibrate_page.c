/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/calibrate_page.h"

#include "tools/hone/chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SIDE = 320, CELLS = 96, LEFT = 52, TOP = 12, BOTTOM = 44, STRIP = 28, TICKS = 4 };

void calibrate_point(const struct app *app, const double *error, struct buf *out)
{
	for (int i = 0; i < app->nnets; i++)
		buf_printf(out, "%s%s %.3g", i ? ", " : "", app->net[i].name, error[i]);
}

/* A picture of networks i (to the right) and k (upwards); k < 0: of i alone. */
struct picture {
	const struct app *app;
	const struct calibrate *c;
	int i, k, height;
	struct buf *out;
};

static enum boundary_state state_at(const struct picture *p, double x, double y)
{
	double error[BOUNDARY_AXES] = {0};
	error[p->i] = x * p->app->net[p->i].most;
	if (p->k >= 0)
		error[p->k] = y * p->app->net[p->k].most;
	return boundary_state(p->c->boundary, error);
}

static const char *class_of(enum boundary_state s)
{
	return s == BOUNDARY_TOLERATED ? "good" : s == BOUNDARY_NOT_TOLERATED ? "bad" : NULL;
}

/* One row of cells, with a rectangle for each run of one state. */
static void draw_row(const struct picture *p, int row, int rows)
{
	double tall = (double)p->height / rows, y = (row + 0.5) / rows;
	for (int at = 0, end; at < CELLS; at = end) {
		enum boundary_state s = state_at(p, (at + 0.5) / CELLS, y);
		for (end = at + 1; end < CELLS && state_at(p, (end + 0.5) / CELLS, y) == s; end++)
			;
		if (class_of(s))
			buf_printf(
			    p->out,
			    "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
			    class_of(s), LEFT + at * (double)SIDE / CELLS, TOP + p->height - (row + 1) * tall,
			    (end - at) * (double)SIDE / CELLS, tall);
	}
}

static void draw_ticks(const struct picture *p)
{
	for (int t = 0; t <= TICKS; t++) {
		double share = t / (double)TICKS;
		buf_printf(p->out,
			   "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.3g</text>\n",
			   LEFT + share * SIDE, TOP + p->height + 16, share * p->app->net[p->i].most);
		if (p->k >= 0)
			buf_printf(
			    p->out,
			    "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.3g</text>\n",
			    LEFT - 6, TOP + p->height * (1 - share) + 4, share * p->app->net[p->k].most);
	}
	buf_printf(p->out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", LEFT + SIDE / 2,
		   TOP + p->height + 36);
	chart_escape(p->app->net[p->i].name, p->out);
	buf_puts(p->out, "</text>\n");
	if (p->k < 0)
		return;
	buf_printf(p->out, "<text transform=\"translate(12 %d) rotate(-90)\" text-anchor=\"middle\">",
		   TOP + p->height / 2);
	chart_escape(p->app->net[p->k].name, p->out);
	buf_puts(p->out, "</text>\n");
}

/* The runs without error in other networks. */
static void draw_answers(const struct picture *p)
{
	for (int n = 0; n < p->c->nanswers; n++) {
		const struct calibrate_answer *x = &p->c->answer[n];
		bool here = true;
		for (int i = 0; i < p->app->nnets; i++)
			here &= i == p->i || i == p->k || x->error[i] == 0;
		if (!here)
			continue;
		double y = p->k < 0 ? 0.5 : x->error[p->k] / p->app->net[p->k].most;
		buf_printf(p->out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>\n",
			   x->e.tolerated ? "yes" : "no",
			   LEFT + SIDE * x->error[p->i] / p->app->net[p->i].most, TOP + p->height * (1 - y));
	}
}

static void draw(const struct app *app, const struct calibrate *c, int i, int k, struct buf *out)
{
	const struct picture p = {
	    .app = app, .c = c, .i = i, .k = k, .height = k < 0 ? STRIP : SIDE, .out = out};
	int rows = k < 0 ? 1 : CELLS;
	buf_printf(out,
		   "<svg class=\"map\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"tolerated errors\">\n",
		   LEFT + SIDE + 20, TOP + p.height + BOTTOM);
	for (int row = 0; row < rows; row++)
		draw_row(&p, row, rows);
	buf_printf(out, "<rect class=\"axis\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", LEFT, TOP,
		   SIDE, p.height);
	draw_ticks(&p);
	draw_answers(&p);
	buf_puts(out, "</svg>\n");
}

static void write_cell(struct buf *out, const char *head, const char *fmt, double v)
{
	char text[40];
	snprintf(text, sizeof text, fmt, v);
	buf_puts(out, "<td data-h=\"");
	chart_escape(head, out);
	buf_printf(out, "\">%s</td>", text);
}

static void write_answers(const struct app *app, const struct calibrate *c, struct buf *out)
{
	buf_puts(
	    out,
	    "<h2>Runs of the evaluator</h2>\n<div class=\"scroll\"><table><tr><th>run</th><th>answer</th>");
	for (int i = 0; i < app->nnets; i++) {
		buf_puts(out, "<th>");
		chart_escape(app->net[i].name, out);
		buf_puts(out, "</th>");
	}
	buf_puts(out, "<th>score</th><th>s</th></tr>\n");
	for (int n = 0; n < c->nanswers; n++) {
		const struct calibrate_answer *x = &c->answer[n];
		buf_printf(out, "<tr><td>%d</td><td>%s</td>", n,
			   x->e.tolerated ? "tolerated" : "not tolerated");
		for (int i = 0; i < app->nnets; i++)
			write_cell(out, app->net[i].name, "%.4g", x->error[i]);
		write_cell(out, "score", x->e.scored ? "%.4g" : "-", x->e.score);
		write_cell(out, "s", "%.1f", x->e.seconds);
		buf_puts(out, "</tr>\n");
	}
	buf_puts(out, "</table></div>\n");
}

void calibrate_page(const struct app *app, const struct calibrate *c, struct buf *out)
{
	const struct boundary_area area = boundary_area(c->boundary);
	buf_puts(
	    out, OUTPUT_CALIBRATION
	    "<html lang=\"en\"><head><meta charset=\"utf-8\">"
	    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>hone calibrate: ");
	chart_escape(app->file, out);
	buf_puts(out, "</title><style>");
	chart_style(out);
	buf_puts(out,
		 ".map{max-width:460px;display:block;margin:1em 0}.good{fill:var(--new);fill-opacity:.55}"
		 ".bad{fill:var(--roof);fill-opacity:.4}.yes{fill:var(--new);stroke:var(--ink)}"
		 ".no{fill:var(--page);stroke:var(--ink)}</style></head><body>\n<h1>");
	chart_escape(app->file, out);
	buf_printf(
	    out,
	    "</h1>\n<p>Of all errors up to the largest ones, the application tolerates <b>%.1f %%</b> for "
	    "certain, and does not tolerate %.1f %%; %.1f %% is undecided after %d runs. About %.1f %% is "
	    "tolerated.</p>\n",
	    100 * area.tolerated, 100 * area.not_tolerated, 100 * (1 - area.tolerated - area.not_tolerated),
	    c->nanswers, 100 * area.guess);
	buf_puts(out,
		 "<h2>Tolerated errors</h2>\n<p class=\"dim\">Blue: tolerated. Red: not tolerated. Blank: "
		 "undecided. "
		 "A point is a run of the evaluator; it is hollow if its errors were not tolerated.</p>\n");
	if (app->nnets == 1)
		draw(app, c, 0, -1, out);
	for (int i = 0; i < app->nnets; i++)
		for (int k = i + 1; k < app->nnets; k++) {
			if (app->nnets > 2)
				buf_puts(out,
					 "<p class=\"dim\">The other networks have no error here.</p>\n");
			draw(app, c, i, k, out);
		}
	write_answers(app, c, out);
	buf_puts(out, "</body></html>\n");
}
