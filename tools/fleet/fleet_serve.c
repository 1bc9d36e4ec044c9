/* SPDX-License-Identifier: Apache-2.0 */
/* hone-fleet serve: threads answer requests, and the main thread does the other work every second. */
#include "platform/base/log.h"
#include "platform/base/quantity.h"
#include "platform/run/notify.h"
#include "tools/fleet/fleet_conf.h"
#include "tools/fleet/fleet_http.h"
#include "tools/fleet/fleet_verbs.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define END_NS (10 * NS_PER_S)
enum { FILES = 8192 };

static int64_t date_s(void)
{
	return time(NULL);
}

/* Blocks the signals; threads inherit that. */
static sigset_t hold_signals(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	return set;
}

static void many_files(void)
{
	struct rlimit files;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FILES) {
		files.rlim_cur = files.rlim_max < FILES ? files.rlim_max : FILES;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
}

/* Logs a lasting fault once, and its end. */
static void tell(const char *what, int rc, int *last)
{
	if (rc < 0 && rc != *last)
		log_error("%s: %s", what, err_text());
	else if (rc >= 0 && *last < 0)
		log_info("hone-fleet: %s: works again", what);
	*last = rc < 0 ? rc : 0;
}

/* A thread for work that may take long: rounds, and writing refusals every second. */
struct rounds {
	struct fleet *f;
	int64_t every_ns;
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t told;
	bool ends;
};

/* Waits a second, or less if the server ends. Returns whether to go on. */
static bool rest(struct rounds *r)
{
	int64_t end_ns = clock_now(&clock_real) + NS_PER_S;
	const struct timespec end = {.tv_sec = end_ns / NS_PER_S, .tv_nsec = end_ns % NS_PER_S};
	pthread_mutex_lock(&r->mutex);
	while (!r->ends && pthread_cond_clockwait(&r->told, &r->mutex, CLOCK_MONOTONIC, &end) == 0)
		;
	bool on = !r->ends;
	pthread_mutex_unlock(&r->mutex);
	return on;
}

/* Called within a round, which may take minutes if the place is far away. */
static int on_step(void *ctx)
{
	struct rounds *r = ctx;
	pthread_mutex_lock(&r->mutex);
	bool ends = r->ends;
	pthread_mutex_unlock(&r->mutex);
	return ends ? fail(E_STOPPED, "stopped") : E_OK;
}

static void *do_rounds(void *ctx)
{
	struct rounds *r = ctx;
	int flush = 0, round = 0;
	int64_t due_ns = clock_now(&clock_real);
	do {
		tell("writing refusals", fleet_flush(r->f), &flush);
		if (clock_now(&clock_real) < due_ns)
			continue;
		int rc = fleet_round(r->f);
		if (rc != E_STOPPED)
			tell("aggregating and publishing", rc, &round);
		due_ns = clock_now(&clock_real) + r->every_ns;
	} while (rest(r));
	return NULL;
}

static int begin_rounds(struct rounds *r, struct fleet *f, int64_t every_ns)
{
	*r = (struct rounds){.f = f, .every_ns = every_ns};
	pthread_mutex_init(&r->mutex, NULL);
	pthread_cond_init(&r->told, NULL);
	fleet_on_step(f, on_step, r);
	return pthread_create(&r->thread, NULL, do_rounds, r) == 0
		   ? E_OK
		   : fail(E_NOMEM, "cannot start a thread for rounds");
}

static void end_rounds(struct rounds *r)
{
	pthread_mutex_lock(&r->mutex);
	r->ends = true;
	pthread_cond_signal(&r->told);
	pthread_mutex_unlock(&r->mutex);
	pthread_join(r->thread, NULL);
}

/* Serves until a signal ends it. */
static void serve(struct fleet_http *h, const sigset_t *ends, const struct notify *n)
{
	const struct timespec second = {.tv_sec = 1};
	int said = 0, sig;
	while ((sig = sigtimedwait(ends, NULL, &second)) < 0) {
		fleet_http_sweep(h);
		if (n->watchdog_ns)
			tell("service manager", notify_send(n, "WATCHDOG=1"), &said);
	}
	log_info("hone-fleet: stops: %s", sig == SIGINT ? "interrupted" : "SIGTERM");
	tell("service manager", notify_send(n, "STOPPING=1"), &said);
}

struct text {
	const char *p;
	int n;
};

/* The database for messages: a URL without user, password and options. */
static struct text shown_db(const char *db)
{
	const char *from = strstr(db, "://"), *at = from ? strrchr(from, '@') : NULL;
	const char *p = at ? at + 1 : db;
	return (struct text){p, (int)(from ? strcspn(p, "?") : strlen(p))};
}

/* Says when boards get a record. An operator who expects the first records needs quorum and stage. */
static void tell_stages(const struct fleet_conf *c)
{
	char stage[DURATION_TEXT], every[DURATION_TEXT], wait[80] = ", without stages";
	duration_print(c->stage_ns, stage);
	duration_print(c->every_ns, every);
	if (c->stage_ns)
		snprintf(wait, sizeof wait, ", after %s on the channel before", stage);
	log_info(
	    "hone-fleet: publishes a record to channel canary when %d board%s report%s it, to early when "
	    "%d and to all when %d agree on it%s (quorum = %d,%d,%d, stage = %s); it looks for new records "
	    "every %s",
	    c->quorum[0], plural_s(c->quorum[0]), c->quorum[0] == 1 ? "s" : "", c->quorum[1], c->quorum[2],
	    wait, c->quorum[0], c->quorum[1], c->quorum[2], stage, every);
}

static void tell_open(const struct fleet_conf *c, const struct fleet_http *h)
{
	struct text db = shown_db(c->db);
	log_info("hone-fleet: listens on %s, database %.*s, publishes to %s; boards have server = %s/v1",
		 fleet_http_url(h), db.n, db.p, c->publish, fleet_http_url(h));
	if (fleet_http_exposed(h))
		log_info("hone-fleet: warning: %s is open to the network without a certificate: anybody on "
			 "the way can read and change tokens and records; set cert and key (`hone-fleet init "
			 "--host` makes them), or listen on 127.0.0.1 behind nginx",
			 fleet_http_url(h));
}

static int run_with(const struct fleet_conf *c)
{
	struct fleet *f = NULL;
	struct fleet_http *h = NULL;
	struct notify n;
	struct rounds r;
	sigset_t ends = hold_signals();
	many_files();
	notify_init(&n);
	int rc = fleet_open(c, &clock_real, date_s, &f);
	if (rc >= 0)
		rc = fleet_http_open(f, &h);
	if (rc >= 0) {
		tell_open(c, h);
		tell_stages(c);
		rc = notify_send(&n, "READY=1");
	}
	if (rc >= 0 && (rc = begin_rounds(&r, f, c->every_ns)) >= 0) {
		serve(h, &ends, &n);
		end_rounds(&r);
	}
	fleet_http_close(h, END_NS);
	fleet_close(f);
	return rc < 0 ? rc : 0;
}

static int check_keys(const struct args *args, const struct fleet_conf *c)
{
	struct buf init = {0};
	if (!fleet_lacks_keys(c->keys))
		return E_OK;
	fleet_command(args, &fleet_cmd_init, &init);
	int rc = fail(E_NOTFOUND, "there are no keys in %s; `%s` makes them", c->keys, buf_str(&init));
	buf_free(&init);
	return rc;
}

static int run(const struct args *args)
{
	struct arena a = {0};
	struct fleet_conf c;
	int rc = fleet_conf_of(args, &c, &a);
	if (rc >= 0)
		rc = check_keys(args, &c);
	if (rc >= 0)
		rc = run_with(&c);
	arena_free(&a);
	return rc;
}

const struct cmd fleet_cmd_serve = {
    .usage = "[options]",
    .summary = "answer boards, aggregate and publish",
    .details =
	"Each option is also a key of the configuration, section [fleet]. Behind nginx the server listens on "
	"this machine only; small fleets give it a certificate instead. Programs on this machine may read "
	"its page and API. All other readers need the admin token, also those behind a proxy, which must "
	"send X-Real-IP or X-Forwarded-For. After SIGTERM it answers the requests under way and exits.\n\n"
	"When boards get a record: those of channel canary when one board reports it, those of channel early "
	"when two boards agree on it and it was on canary for 24 hours, and those of channel all when three "
	"agree and it was on early for 24 hours (options quorum and stage). A board is on canary only if its "
	"honed.conf says so (channel = canary in [sync]). For a trial with one or two boards: --quorum 1,1,1 "
	"--stage 0s.",
    .max_pos = 0,
    .opts = fleet_conf_opts,
    .run = run,
    .name = "serve",
};
