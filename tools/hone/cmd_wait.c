/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/cmd.h"
#include "platform/base/log.h"
#include "tools/hone/daemon.h"
#include "agent/cache/json.h"
#include <stdio.h>
#include <string.h>

#define TRY_NS (100 * NS_PER_MS) /* interval at which it looks for a daemon that does not run yet */

struct waiting {
	const char *socket;
	int64_t deadline_ns;
	bool met;    /* honed was running at some time */
	bool absent; /* the message that honed does not run was printed */
};

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
			log_info("honed does not run yet; waiting for it");
		w->absent = true;
		clock_real.sleep(&clock_real, TRY_NS);
	}
}

/* Reports why the models are not ready in time, from honed's status. */
static int late(const struct waiting *w, const char *waited)
{
	json_t *s = NULL;
	const json_t *m;
	size_t i;
	int ready = 0, rc = daemon_status(w->socket, &s);
	const json_t *models = json_object_get(s, "models");
	json_array_foreach(models, i, m) ready += daemon_flag(m, "ready");
	if (rc <= 0)
		rc = fail(E_TIMEOUT,
			  "after %s honed %s: see systemctl status honed, or wait with a longer --timeout",
			  waited, w->met ? "no longer runs" : "does not run");
	else
		rc = fail(E_TIMEOUT,
			  "after %s %d of %zu models are ready: %s; see hone status, or wait with a longer "
			  "--timeout",
			  waited, ready, json_array_size(models),
			  daemon_text(s, "verdict", "honed is working"));
	json_decref(s);
	return rc;
}

static int run_wait(const struct args *a)
{
	char waited[32];
	int64_t timeout_ns = arg_duration(a, "timeout", 30 * NS_PER_S);
	struct waiting w = {.socket = arg_str(a, "socket", NULL), .deadline_ns = daemon_deadline(timeout_ns)};
	int rc = wait_ready(&w);
	snprintf(waited, sizeof waited, "%.3g s", (double)timeout_ns / 1e9);
	if (rc == E_TIMEOUT)
		rc = late(&w, waited);
	if (rc < 0 && !a->json)
		return rc;
	if (rc >= 0 && !a->json)
		return log_info("every model of honed.conf is ready"), 0;
	json_t *j =
	    json_pack("{sb so}", "ready", rc >= 0, "why", rc < 0 ? json_text(err_text()) : json_null());
	int printed = json_out(j);
	return rc < 0 ? rc : printed;
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
	"Exit status 0: ready. 1: not ready in time; the message says why. It also waits for honed if "
	"it\ndoes not run yet. For a unit that should rather start late than run slowly: ExecStartPre=-hone\n"
	"wait --ready --timeout 20s (the minus lets it start in any case).",
    .opts = opts,
    .run = run_wait,
    .name = "wait",
};
