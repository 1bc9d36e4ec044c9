/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/cmd.h"
#include "platform/base/log.h"
#include "platform/base/quantity.h"
#include "tools/hone/daemon.h"
#include "agent/cache/json.h"
#include <stdio.h>
#include <string.h>

enum { MOST_NAMED = 3 };
#define TRY_NS (100 * NS_PER_MS) /* interval at which it looks for a daemon that does not run yet */

struct waiting {
	const char *socket;
	int64_t deadline_ns;
	bool met;    /* honed was running at some time */
	bool absent; /* the message that honed does not answer yet was printed */
};

static void say_absent(const struct waiting *w)
{
	char none[DAEMON_ABSENT];
	daemon_absent(w->socket, none);
	log_info("%s; waiting for it", none);
}

/* 1: every model is ready; 0: honed ended, or does not run yet. */
static int wait_once(struct waiting *w)
{
	struct client *c;
	json_t *reply = NULL;
	int rc = client_open(w->socket, w->deadline_ns, &c);
	if (rc < 0)
		return rc == E_NOTFOUND || rc == E_IO ? 0 : rc;
	w->met = true;
	rc = daemon_ask(c, &(struct request){.op = OP_WAIT, .text = "ready"}, w->deadline_ns, &reply);
	client_close(c);
	json_decref(reply);
	return rc >= 0 ? 1 : rc == E_IO ? 0 : rc;
}

static int wait_ready(struct waiting *w)
{
	for (;;) {
		int rc = wait_once(w);
		if (rc != 0)
			return rc;
		if (clock_now(&clock_real) >= w->deadline_ns)
			return fail(E_TIMEOUT, "the time has passed");
		if (!w->met && !w->absent)
			say_absent(w);
		w->absent = true;
		clock_real.sleep(&clock_real, TRY_NS);
	}
}

/* Writes which models are not ready, and why or when they are tuned next. */
static void unready(const json_t *models, struct buf *out)
{
	const json_t *m;
	size_t i;
	int n = 0;
	json_array_foreach(models, i, m)
	{
		double missing = daemon_num(m, "missing", 0), next_s = daemon_num(m, "next_s", 0);
		const char *error = daemon_text(m, "error", "");
		if (daemon_flag(m, "ready"))
			continue;
		if (++n > MOST_NAMED)
			continue;
		buf_printf(out, "%s%.60s on %s is %s", out->n ? "; " : "", daemon_text(m, "name", "?"),
			   daemon_text(m, "device", "cpu"), daemon_text(m, "state", "waiting"));
		if (missing > 0 && !*error) /* a job that tried nothing does not know how many */
			buf_printf(out, ", %.0f kernel%s missing", missing, plural_s((int64_t)missing));
		if (next_s > 0) {
			buf_puts(out, ", next slice in ");
			duration_words(next_s, out);
		}
		if (*error)
			buf_printf(out, " (%s)", error);
	}
	if (n > MOST_NAMED)
		buf_printf(out, "; %d more are not", n - MOST_NAMED);
	if (out->p)
		log_one_line(out->p);
}

/* rc: of daemon_status. */
static int unanswered(const struct waiting *w, const char *waited, int rc)
{
	char none[DAEMON_ABSENT];
	daemon_absent(w->socket, none);
	if (rc < 0)
		return fail_in(E_TIMEOUT, "after %s honed does not answer", waited);
	return fail(E_TIMEOUT, "after %s %s%s", waited, none,
		    w->met ? "; it ran before, so " HONED_SAYS " may say why it ended" : "");
}

/* Reports why the models are not ready in time, from honed's status. E_OK: by now all are. */
static int late(const struct waiting *w, const char *waited)
{
	json_t *s = NULL;
	const json_t *m;
	size_t i;
	int ready = 0, rc = daemon_status(w->socket, &s);
	const json_t *models = json_object_get(s, "models");
	struct buf which = {0};
	/* then the verdict repeats the error of a model, and may have room for less of it */
	bool failing = !strcmp(daemon_text(s, "state", ""), "failing");
	json_array_foreach(models, i, m) ready += daemon_flag(m, "ready");
	unready(models, &which);
	if (rc <= 0)
		rc = unanswered(w, waited, rc);
	else if (ready == (int)json_array_size(models)) /* honed's answer was later than this one */
		rc = E_OK;
	else
		rc = fail(E_TIMEOUT,
			  "after %s %d of %zu model%s ready%s%s%s%s; see hone status, or wait with "
			  "a longer --timeout",
			  waited, ready, json_array_size(models),
			  json_array_size(models) == 1 ? " is" : "s are", which.n ? "; not ready: " : "", buf_str(&which),
			  failing ? "" : "; honed: ", failing ? "" : daemon_text(s, "verdict", "it is working"));
	buf_free(&which);
	json_decref(s);
	return rc;
}

/* Whether honed will not make this model's kernels: it refused the file, or every job failed. A later slice
 * that failed does not count, since the model has kernels by then. */
static bool hopeless(const json_t *m)
{
	const char *state = daemon_text(m, "state", "");
	return !strcmp(state, "refused") || (!strcmp(state, "failed") && daemon_num(m, "now_ms", 0) <= 0);
}

/* The models that honed gave up, as [{name, why}]. honed waits no longer for them, because nothing more can
 * be done. NULL: it does not answer any more. *none: no model is configured. */
static json_t *given_up(const char *socket, bool *none)
{
	json_t *s = NULL, *list = json_array();
	const json_t *m;
	size_t i;
	if (daemon_status(socket, &s) <= 0) {
		json_decref(list);
		return NULL;
	}
	*none = !json_array_size(json_object_get(s, "models"));
	json_array_foreach(json_object_get(s, "models"), i, m) if (hopeless(m))
	    json_array_append_new(list, json_pack("{so so}", "name", json_text(daemon_text(m, "name", "?")),
						  "why", json_text(daemon_text(m, "error", "unknown"))));
	json_decref(s);
	return list;
}

/* Reports every model that honed gave up, with the reasons as lines of their own. */
static int refused(const json_t *list)
{
	struct buf names = {0};
	const json_t *m;
	size_t i;
	json_array_foreach(list, i, m)
	{
		log_info("model %s: %s", daemon_text(m, "name", "?"), daemon_text(m, "why", "unknown"));
		buf_printf(&names, "%s%s", i ? ", " : "", daemon_text(m, "name", "?"));
	}
	int rc =
	    i == 0 ? E_OK
		   : fail(E_CORRUPT,
			  "honed cannot tune %zu model%s of honed.conf (%s): correct the file or its lines, "
			  "then " DAEMON_RELOAD,
			  i, plural_s((int64_t)i), buf_str(&names));
	buf_free(&names);
	return rc;
}

static int print_json(int rc, json_t *lost)
{
	return json_out(json_pack("{sb so so}", "ready", rc >= 0, "why",
				  rc < 0 ? json_text(err_text()) : json_null(), "refused_models",
				  lost ? json_incref(lost) : json_array()));
}

static int run_wait(const struct args *a)
{
	char waited[32];
	bool none = false;
	int64_t timeout_ns = arg_duration(a, "timeout", 30 * NS_PER_S);
	struct waiting w = {.socket = arg_str(a, "socket", NULL), .deadline_ns = daemon_deadline(timeout_ns)};
	int rc = wait_ready(&w);
	snprintf(waited, sizeof waited, "%.3g s", (double)timeout_ns / 1e9);
	if (rc == E_TIMEOUT)
		rc = late(&w, waited);
	json_t *lost = rc >= 0 ? given_up(w.socket, &none) : NULL;
	if (rc >= 0)
		rc = refused(lost);
	int shown = a->json ? print_json(rc, lost) : 0;
	json_decref(lost);
	if (rc >= 0 && !a->json)
		log_info("%s", none ? "no model is configured in honed.conf, so there is nothing to wait for"
				    : "every model of honed.conf is ready");
	return rc < 0 ? rc : shown;
}

static const struct opt opts[] = {
    {"ready", OPT_FLAG, NULL,
     "wait until every model of honed.conf has its kernels, or nothing more can be done for it (the "
     "default)"},
    {"timeout", OPT_DURATION, "30s", "longest time to wait (default 30s)"},
    OPT_SOCKET,
    {NULL},
};

const struct cmd cmd_wait = {
    .usage = "[--ready] [--timeout 30s]",
    .summary = "wait until honed has tuned its models",
    .details =
	"Exit status 0: every model is ready, or none is configured. 1: not ready in time, or honed cannot\n"
	"tune a model (the file is damaged, in another format, ...); the message says why. It also waits "
	"for\n"
	"honed if it does not run yet. For a unit that should rather start late than run slowly:\n"
	"ExecStartPre=-hone wait --ready --timeout 20s (the minus lets it start in any case).",
    .opts = opts,
    .run = run_wait,
    .name = "wait",
};
