/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/calibrate/calibrate.h"

#include "agent/calibrate/eval_log.h"
#include "platform/base/file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_PATH = 4096 };

struct work {
	const struct calibrate_opts *o;
	struct eval_log log;
	struct calibrate *out;
	char page[MOST_PATH], output[MOST_PATH];
	int at; /* answers that were told so far */
};

static bool same_point(const struct work *w, const double *a, const double *b)
{
	for (int i = 0; i < w->o->app->nnets; i++)
		if (fabs(a[i] - b[i]) > 1e-9 * w->o->app->net[i].most)
			return false;
	return true;
}

/* Runs the evaluator, again if it fails. */
static int run(struct work *w, const double *error, struct evaluation *e)
{
	struct evaluate_want want = {.app = w->o->app,
				     .page = w->page,
				     .output = w->output,
				     .error = error,
				     .norm = w->out->norm,
				     .number = w->at,
				     .seed = w->o->seed,
				     .stop = w->o->stop};
	for (int tries = 1;; tries++) {
		int rc = evaluate(&want, e);
		if (rc != E_CHILD || tries == CALIBRATE_TRIES)
			return rc;
		if (w->o->failed)
			w->o->failed(w->o->ctx, w->at);
	}
}

/* The last line that the evaluator printed, in quotes behind a word; "": it printed nothing. */
static void last_line(const char *path, char out[160])
{
	struct arena a = {0};
	struct blob b;
	*out = 0;
	if (file_read(&a, path, 0, &b) >= 0) {
		const char *p = b.p, *end = p + b.n;
		while (end > p && (unsigned char)end[-1] <= ' ')
			end--;
		const char *begin = end;
		while (begin > p && begin[-1] != '\n' && end - begin < 120)
			begin--;
		if (end > begin)
			snprintf(out, 160, " Its last line is '%.*s'.", (int)(end - begin), begin);
	}
	arena_free(&a);
}

static int give_up(const struct work *w, int rc)
{
	char text[1500], line[160];
	if (rc == E_STOPPED || rc == E_IO || rc == E_NOMEM)
		return rc;
	snprintf(text, sizeof text, "%s", err_text());
	last_line(w->output, line);
	return fail(
	    rc,
	    "run %d: %s.%s What it printed is in %s. The same command goes on, with the %d answer%s so far",
	    w->at, text, line, w->output, w->log.n, w->log.n == 1 ? "" : "s");
}

/* The answer for a point: the log's next one, or that of a run. ask NULL: without errors. */
static int answer(struct work *w, const struct boundary_ask *ask, const double *error,
		  const struct evaluation **out)
{
	const struct calibrate_opts *o = w->o;
	bool again = w->at < w->log.n;
	if (!again) {
		struct evaluation e;
		if (o->begins)
			o->begins(o->ctx, ask, w->at, boundary_left(w->out->boundary));
		int rc = run(w, error, &e);
		if (rc < 0)
			return give_up(w, rc);
		if ((rc = eval_log_add(&w->log, error, &e)) < 0)
			return rc;
		w->out->nfresh++;
	} else if (!same_point(w, w->log.answer[w->at].error, error)) {
		return fail(
		    E_USAGE,
		    "%s: answer %d is for errors that this version of hone would not ask for; give another "
		    "--log, or remove that file",
		    o->log, w->at);
	}
	const struct calibrate_answer *x = &w->log.answer[w->at];
	w->out->answer = w->log.answer;
	if (o->ended)
		o->ended(o->ctx, x, w->at, again);
	w->out->nanswers = ++w->at;
	*out = &x->e;
	return E_OK;
}

/* Without errors the application must work; if answers may be wrong, it is asked until that is certain. */
static int begin(struct work *w)
{
	const double none[BOUNDARY_AXES] = {0};
	const struct app *app = w->o->app;
	int yes = 0, no = 0, decided = -1;
	while (decided < 0) {
		const struct evaluation *e;
		if (yes + no >= app->evaluations)
			return fail(E_WRONG,
				    "without errors the application works in %d of %d runs, which is no "
				    "answer: mend the "
				    "evaluator, or raise `wrong =` or `evaluations =`; then remove %s",
				    yes, yes + no, w->o->log);
		int rc = answer(w, NULL, none, &e);
		if (rc < 0)
			return rc;
		*(e->tolerated ? &yes : &no) += 1;
		decided = boundary_decided(w->out->boundary, yes, no);
		for (int i = 0; i < app->nnets && e->tolerated; i++)
			if (app->net[i].kind == INJECT_REGRESSION)
				w->out->norm[i] = e->norm[i];
	}
	if (!decided)
		return fail(
		    E_WRONG,
		    "without errors the application does not work (%d of %d runs): mend the evaluator, or "
		    "lower "
		    "its goal; then remove %s, and run the same command again. What it printed is in %s",
		    no, yes + no, w->o->log, w->output);
	for (int i = 0; i < app->nnets; i++)
		if (app->net[i].kind == INJECT_REGRESSION &&
		    !(w->out->norm[i] > 0 && isfinite(w->out->norm[i])))
			return fail(E_USAGE,
				    "the output of network %s is 0 or not finite in all runs, so no error "
				    "can be a share "
				    "of it; check its inputs",
				    app->net[i].name);
	return E_OK;
}

static int ask_all(struct work *w)
{
	struct boundary_ask ask;
	int rc = begin(w);
	while (rc >= 0 && boundary_next(w->out->boundary, &ask)) {
		const struct evaluation *e;
		rc = answer(w, &ask, ask.error, &e);
		if (rc >= 0)
			boundary_answer(w->out->boundary, e->tolerated);
	}
	const struct boundary_area area = boundary_area(w->out->boundary);
	w->out->all_decided = rc >= 0 && (boundary_left(w->out->boundary) > 0 ||
					  area.tolerated + area.not_tolerated > 1 - 1e-9);
	return rc;
}

static bool has_error(const struct app *app, const double *error)
{
	bool any = false;
	for (int i = 0; i < app->nnets; i++)
		any |= error[i] > 0;
	return any;
}

int calibrate(const struct calibrate_opts *o, struct arena *a, struct calibrate *out)
{
	const struct app *app = o->app;
	struct boundary_opts b = {.axes = app->nnets, .evals = app->evaluations, .wrong = app->wrong};
	struct work w = {.o = o, .out = out};
	*out = (struct calibrate){.boundary = NULL};
	for (int i = 0; i < app->nnets; i++)
		b.most[i] = app->net[i].most;
	if (snprintf(w.page, sizeof w.page, "%s.page", o->log) >= (int)sizeof w.page ||
	    snprintf(w.output, sizeof w.output, "%s.output", o->log) >= (int)sizeof w.output)
		return fail(E_USAGE, "the name of the log is too long");
	int rc = eval_log_open(o, a, &w.log);
	if (rc < 0)
		return rc;
	/* Answers that an earlier run paid for count, though this one asks for fewer. */
	int paid = 0;
	for (int i = 0; i < w.log.n; i++)
		paid += has_error(app, w.log.answer[i].error);
	b.evals = paid > b.evals ? paid : b.evals;
	rc = boundary_new(a, &b, &out->boundary);
	if (rc >= 0)
		rc = ask_all(&w);
	eval_log_close(&w.log);
	return rc;
}
