/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/json.h"
#include "agent/calibrate/calibrate.h"
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "tools/hone/calibrate_page.h"
#include "tools/hone/interrupt.h"
#include "tools/hone/output.h"
#include "tools/hone/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct calibration {
	const struct args *args;
	struct app app;
	char log[PATH_MAX], page[PATH_MAX];
	struct arena arena;
	struct calibrate found;
};

static const char *percent(double share, char out[16])
{
	snprintf(out, 16, share > 0 && share < 0.1 ? "%.1f %%" : "%.0f %%", 100 * share);
	return out;
}

/* ---- progress ---- */

static void on_begin(void *ctx, const struct boundary_ask *ask, int number, int left)
{
	struct calibration *c = ctx;
	struct buf line = {0};
	char below[16], beyond[16], likely[16], more[40];
	if (!ask) {
		log_info("run %d: without errors, which must be tolerated; then at most %d run%s", number,
			 left, plural_s(left));
		return;
	}
	calibrate_point(&c->app, ask->error, &line);
	snprintf(more, sizeof more, left > 1 ? "at most %d more" : "the last one", left - 1);
	log_info("run %d, %s: %s: decides %s of all errors if tolerated (%s likely), %s if not%s", number,
		 more, buf_str(&line), percent(ask->below, below), percent(ask->likely, likely),
		 percent(ask->beyond, beyond), ask->again ? "; asked again, as answers may be wrong" : "");
	buf_free(&line);
}

static void on_end(void *ctx, const struct calibrate_answer *x, int number, bool again)
{
	struct calibration *c = ctx;
	struct buf reached = {0};
	char score[48] = "";
	if (again)
		return;
	if (x->e.scored)
		snprintf(score, sizeof score, ", score %.4g", x->e.score);
	for (int i = 0; i < c->app.nnets; i++)
		if (x->error[i] > 0 && !isnan(x->e.reached[i]) && c->app.net[i].kind < INJECT_KINDS)
			buf_printf(&reached, "%s%s %.3g in %llu run%s",
				   reached.n ? ", " : "; reached: ", c->app.net[i].name, x->e.reached[i],
				   x->e.runs[i], plural_s((int64_t)x->e.runs[i]));
	log_info("  run %d: %s%s, %.1f s%s", number, x->e.tolerated ? "tolerated" : "not tolerated", score,
		 x->e.seconds, buf_str(&reached));
	buf_free(&reached);
}

static void on_failure(void *ctx, int number)
{
	(void)ctx;
	log_info("hone: warning: run %d: %s; it is run again", number, err_text());
}

/* ---- the result ---- */

static int by_first(const void *a, const void *b)
{
	const double *x = a, *y = b;
	return (x[0] > y[0]) - (x[0] < y[0]);
}

/* The largest tolerated points, in the order of the first network's error. Returns their number. */
static int sorted_points(const struct calibration *c, struct arena *a, double (**out)[BOUNDARY_AXES])
{
	double error[BOUNDARY_AXES];
	int n = 0;
	while (boundary_point(c->found.boundary, n, error))
		n++;
	*out = arena_alloc(a, sizeof **out * ((size_t)n + 1));
	for (int i = 0; i < n; i++)
		(void)boundary_point(c->found.boundary, i, (*out)[i]);
	qsort(*out, (size_t)n, sizeof **out, by_first);
	return n;
}

static json_t *point_json(const struct calibration *c, const double *error)
{
	json_t *all = json_array();
	for (int i = 0; i < c->app.nnets; i++)
		json_array_append_new(all, json_num(error[i]));
	return json_pack("{so}", "errors", all);
}

static int result_json(const struct calibration *c)
{
	const struct calibrate *f = &c->found;
	const struct boundary_area area = boundary_area(f->boundary);
	json_t *nets = json_array(), *points = json_array();
	double(*point)[BOUNDARY_AXES];
	int npoints = sorted_points(c, (struct arena *)&c->arena, &point);
	for (int i = 0; i < c->app.nnets; i++) {
		const struct app_net *net = &c->app.net[i];
		json_array_append_new(nets, json_pack("{so ss so so}", "name", json_text(net->name),
						      "error_kind", app_kind_name(net), "most_error",
						      json_num(net->most), "root_mean_square",
						      f->norm[i] > 0 ? json_num(f->norm[i]) : json_null()));
	}
	for (int i = 0; i < npoints; i++)
		json_array_append_new(points, point_json(c, point[i]));
	return json_out(json_pack(
	    "{so so so si si sb so so so so so}", "application", json_text(c->app.file), "log_file",
	    json_text(c->log), "page_file", *c->page ? json_text(c->page) : json_null(), "evaluations",
	    f->nanswers, "evaluations_left", boundary_left(f->boundary), "complete", f->all_decided,
	    "networks", nets, "tolerated_share", json_num(area.tolerated), "not_tolerated_share",
	    json_num(area.not_tolerated), "likely_share", json_num(area.guess), "points", points));
}

static void result_words(const struct calibration *c)
{
	const struct calibrate *f = &c->found;
	const struct boundary_area area = boundary_area(f->boundary);
	struct table t = {.align = "rrrr" + BOUNDARY_AXES - c->app.nnets};
	double(*point)[BOUNDARY_AXES];
	char good[16], bad[16], open[16], guess[16];
	int n = sorted_points(c, (struct arena *)&c->arena, &point);
	for (int i = 0; i < c->app.nnets; i++)
		table_cell(&t, "%s", c->app.net[i].name);
	for (int k = 0; k < n; k++)
		for (int i = 0; i < c->app.nnets; i++)
			table_cell(&t, "%.4g", point[k][i]);
	if (!n)
		arena_free(&t.arena);
	else
		table_print(&t, c->args->color);
	if (n)
		table_say("each row: errors that are tolerated when all networks have them at once, and so "
			  "are smaller ones");
	else
		table_say("no error is known to be tolerated yet, beside none at all");
	table_say("tolerated for certain: %s of all errors up to the largest ones; not tolerated: %s; "
		  "undecided: %s; in all, about %s is tolerated",
		  percent(area.tolerated, good), percent(area.not_tolerated, bad),
		  percent(1 - area.tolerated - area.not_tolerated, open), percent(area.guess, guess));
	if (f->all_decided)
		log_info("%d runs, in %s; nothing is left to ask", f->nanswers, c->log);
	else
		log_info("%d runs, in %s; more are made if --evaluations, or `evaluations =`, is larger",
			 f->nanswers, c->log);
	if (*c->page)
		log_info("wrote %s", c->page);
}

static int write_page(const struct calibration *c)
{
	struct buf page = {0};
	if (!*c->page)
		return E_OK;
	calibrate_page(&c->app, &c->found, &page);
	int rc = file_write(c->page, buf_str(&page), page.n);
	buf_free(&page);
	return rc;
}

/* ---- */

static int read_options(struct calibration *c)
{
	const struct args *a = c->args;
	const char *file = a->pos[0], *log = arg_str(a, "log", NULL), *page = arg_str(a, "output", NULL);
	int rc = app_read(file, &c->arena, &c->app);
	if (rc < 0)
		return rc;
	int64_t n = arg_int(a, "evaluations", c->app.evaluations);
	if (n < 1 || n > BOUNDARY_EVALS)
		return fail(E_USAGE, "--evaluations %lld is not possible; it takes 1 to %d", (long long)n,
			    BOUNDARY_EVALS);
	c->app.evaluations = (int)n;
	size_t stem = strlen(file) - (file_ends_with(file, ".conf") ? strlen(".conf") : 0);
	if (snprintf(c->log, sizeof c->log, "%.*s%s", (int)(log ? strlen(log) : stem), log ? log : file,
		     log ? "" : ".calibration") >= (int)sizeof c->log)
		return fail(E_USAGE, "the name of the log is too long");
	return page ? output_file(a, page, OUTPUT_CALIBRATION, c->page) : E_OK;
}

static int run_calibrate(const struct args *a)
{
	struct calibration c = {.args = a};
	uint64_t seed;
	int rc = arg_seed(a, &seed);
	if (rc >= 0)
		rc = read_options(&c);
	if (rc >= 0) {
		interrupt_catch();
		const struct calibrate_opts o = {.app = &c.app,
						 .log = c.log,
						 .seed = seed,
						 .stop = &interrupt_stop,
						 .begins = on_begin,
						 .ended = on_end,
						 .failed = on_failure,
						 .ctx = &c};
		rc = calibrate(&o, &c.arena, &c.found);
	}
	bool stopped = rc == E_STOPPED && c.found.boundary;
	if (rc >= 0 || stopped) {
		int shown = write_page(&c);
		if (shown >= 0 && a->json)
			shown = result_json(&c);
		else if (shown >= 0)
			result_words(&c);
		if (stopped)
			log_info(
			    "hone: stopped; the %d answers so far are in %s, and the same command goes on",
			    c.found.nanswers, c.log);
		rc = shown < 0 ? shown : 0;
	}
	arena_free(&c.arena);
	return interrupt_status(rc);
}

static const struct opt opts[] = {
    {"evaluations", OPT_INT, "N",
     "run the evaluator with errors at most so often (default: APP.conf's, else 25)"},
    {"log", OPT_STR, "FILE", "log of all answers (default: APP.calibration beside APP.conf)"},
    {"output", OPT_STR, "FILE.html", "write a page with a picture of the tolerated errors", .letter = 'o'},
    {"seed", OPT_INT, "N", "seed of the errors (default 1)"},
    {NULL},
};

const struct cmd cmd_calibrate = {
    .usage = "APP.conf [--evaluations N] [-o FILE.html]",
    .summary = "find how much error in its networks an application tolerates",
    .details =
	"Runs the application's own evaluator (a simulator, a replay of logs, a field run) again and again,\n"
	"each time with other errors in the outputs of its networks, and finds which of them it tolerates\n"
	"(error calibration). The evaluator runs its networks by libhone, which puts the errors in. The "
	"last\n"
	"line that it prints is `pass`, if the application works well enough, `fail`, or `score X`.\n"
	"\n"
	"APP.conf has a section [application]: evaluator = COMMAND, which runs in the file's folder (a "
	"blank\n"
	"and ; begin a comment); evaluations = 25, at most so many runs with errors; timeout = 10m of one\n"
	"run; wrong = 0%, the share of answers that are wrong by chance; pass = 0, the least score that is\n"
	"tolerated; range = 0 1, the scores that are possible.\n"
	"\n"
	"It has a section [network NAME] for each network, up to 4: path = MODEL.onnx; error = regression,\n"
	"classification, segmentation, detection or own; most = 0.5, the largest error that is looked at;\n"
	"output = NAME of the output that gets the error (default: the only one).\n"
	"\n"
	"Errors: regression: L2 norm of the error, as a share of the output's; classification: share of\n"
	"answers that change; segmentation: share of pixels that do; detection: share of objects that are\n"
	"lost; own: the evaluator makes the error $HONE_ERROR_HEADING itself, by its own measure.\n"
	"\n"
	"Each answer is kept in the log, so that the same command goes on after an interruption.",
    .min_pos = 1,
    .max_pos = 1,
    .opts = opts,
    .run = run_calibrate,
    .name = "calibrate",
};
