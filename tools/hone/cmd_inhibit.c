/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/cmd.h"
#include "platform/base/log.h"
#include "platform/base/out.h"
#include "platform/base/quantity.h"
#include "tools/hone/daemon.h"
#include "tools/hone/next.h"
#include "agent/cache/json.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* While a command runs, honed is asked to inhibit for a minute at a time, so that the inhibit ends if this
 * process is killed. */
#define HOLD_NS (60 * NS_PER_S)
#define RENEW_NS (20 * NS_PER_S)

struct hold {
	const char *socket, *why;
	char name[256];          /* honed's name of the inhibit; "": honed has none */
	char file[INHIBIT_NAME]; /* the inhibit file that we wrote; "": none */
};

/* Asks honed for a new inhibit and releases the old one. 0: honed does not run. */
static int ask(struct hold *h, int64_t ns)
{
	struct client *c;
	json_t *reply = NULL;
	struct request r = {.op = OP_INHIBIT, .ms = ns / NS_PER_MS}, old = {.op = OP_RESUME};
	int rc = daemon_open(h->socket, &c);
	if (rc <= 0)
		return rc;
	snprintf(r.text, sizeof r.text, "%s", h->why);
	snprintf(old.text, sizeof old.text, "%s", h->name);
	rc = daemon_ask(c, &r, daemon_deadline(DAEMON_NS), &reply);
	if (rc >= 0) {
		const char *none;
		snprintf(h->name, sizeof h->name, "%s", daemon_text(reply, "name", ""));
		if (old.text[0] && strcmp(old.text, h->name) &&
		    client_ask(c, &old, daemon_deadline(DAEMON_NS), &none) < 0)
			log_more("%s: %s", old.text, err_text());
	}
	json_decref(reply);
	client_close(c);
	return rc < 0 ? rc : 1;
}

static int write_file(struct hold *h, int64_t ns, bool lasts)
{
	char old[INHIBIT_NAME];
	memcpy(old, h->file, sizeof old);
	int rc = inhibit_write(ns, lasts, h->why, h->file);
	if (old[0] && strcmp(old, h->file) && inhibit_remove(old) < 0)
		log_more("%s", err_text());
	if (rc < 0)
		h->file[0] = 0;
	return rc;
}

/* Releases the inhibit at honed or, if honed has ended or never ran, removes its file. */
static int let_go_of(struct client *c, const char *name)
{
	const char *reply;
	struct request r = {.op = OP_RESUME};
	snprintf(r.text, sizeof r.text, "%s", name);
	int rc = c && *name ? client_ask(c, &r, daemon_deadline(DAEMON_NS), &reply) : E_NOTFOUND;
	if (rc < 0 && *name)
		rc = inhibit_remove(name);
	return rc == E_NOTFOUND ? 0 : rc;
}

static void let_go(struct hold *h)
{
	struct client *c;
	if (daemon_open(h->socket, &c) < 0 || let_go_of(c, h->name) < 0 || let_go_of(c, h->file) < 0)
		log_info("hone: warning: %s; the inhibit ends within a minute", err_text());
	client_close(c);
}

/* Inhibits for the next minute: by honed, else by a file for a honed that starts meanwhile. */
static int hold_on(struct hold *h)
{
	int rc = ask(h, HOLD_NS);
	return rc ? rc : write_file(h, HOLD_NS, false);
}

/* If honed does not run and no file can be written for it, the command runs anyway: there is nothing to
 * inhibit. */
static int hold_begin(struct hold *h)
{
	char absent[DAEMON_ABSENT];
	int rc = ask(h, HOLD_NS);
	if (rc != 0)
		return rc;
	daemon_absent(h->socket, absent);
	if (write_file(h, HOLD_NS, false) < 0)
		log_info("hone: warning: %s; if it starts meanwhile, it will not know of this inhibit: %s",
			 absent, err_text());
	else
		log_info("hone: %s; if it starts meanwhile, it finds the inhibit %s", absent, h->file);
	return 0;
}

static int exit_status(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Waits for the command, forwards signals, and renews the inhibit in time. */
static int attend(struct hold *h, pid_t pid, const sigset_t *watched)
{
	int64_t next_ns = daemon_deadline(RENEW_NS);
	for (int status;;) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return exit_status(status);
		int64_t left_ns = next_ns - clock_now(&clock_real);
		struct timespec t = {left_ns > 0 ? left_ns / NS_PER_S : 0,
				     left_ns > 0 ? left_ns % NS_PER_S : 0};
		int sig = sigtimedwait(watched, NULL, &t);
		if (sig == SIGTERM || sig == SIGHUP)
			kill(pid, sig);
		if (sig < 0 && errno == EAGAIN) {
			if (hold_on(h) < 0)
				log_more("%s", err_text());
			next_ns = daemon_deadline(RENEW_NS);
		}
	}
}

/* Says why the command does not start, also to a user who meant its first word as the time. */
static int refuse_start(char *const *argv, int error)
{
	int64_t ns;
	bool is_time = error == ENOENT && !argv[1] && duration_parse(argv[0], &ns) >= 0;
	return fail(error == ENOENT ? E_NOTFOUND : E_IO, "cannot start %s: %s%s%s", argv[0], strerror(error),
		    is_time ? "; to inhibit for that long, give --for " : "", is_time ? argv[0] : "");
}

static int run_held(const struct args *a, struct hold *h, char **argv)
{
	sigset_t watched, before;
	signal(SIGCHLD, SIG_DFL); /* if SIGCHLD were inherited as ignored, we would not see the command end */
	sigemptyset(&watched);
	/* A terminal sends SIGINT and SIGQUIT to us and the command; the command decides what to do. */
	for (const int *s = (const int[]){SIGCHLD, SIGTERM, SIGHUP, SIGINT, SIGQUIT, 0}; *s; s++)
		sigaddset(&watched, *s);
	int rc = hold_begin(h);
	if (rc < 0)
		return rc;
	sigprocmask(SIG_BLOCK, &watched, &before);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		sigprocmask(SIG_SETMASK, &before, NULL);
		signal(SIGXFSZ, SIG_DFL); /* hone ignores it */
		execvp(argv[0], argv);
		bool none = errno == ENOENT;
		int why = refuse_start(argv, errno);
		int status = cmd_failed(a, why, none ? 127 : 126);
		_exit(out_end(status));
	}
	if (pid > 0)
		json_out_left(); /* it is the command's */
	rc = pid < 0 ? fail(E_IO, "fork: %s", strerror(errno)) : attend(h, pid, &watched);
	sigprocmask(SIG_SETMASK, &before, NULL);
	let_go(h);
	return rc;
}

/* Inhibits until hone resume, or for a time. */
static int run_alone(const struct args *a, struct hold *h, int64_t ns)
{
	int rc = ask(h, ns);
	bool honed = rc > 0;
	if (rc == 0)
		rc = fail_in(write_file(h, ns, true),
			     "honed does not run, and the inhibit file for its next start cannot be written");
	if (rc < 0)
		return rc;
	const char *name = honed ? h->name : h->file;
	if (a->json)
		return json_out(json_pack("{so sb}", "name", json_text(name), "daemon", honed));
	struct buf b = {0};
	if (ns) {
		buf_puts(&b, " for ");
		duration_words((double)ns / 1e9, &b);
		buf_puts(&b, " from now");
	}
	if (!honed) {
		char absent[DAEMON_ABSENT];
		daemon_absent(h->socket, absent);
		log_info("hone: %s", absent);
	}
	printf("%s%s\n", honed ? "honed tunes nothing" : "when honed starts, it tunes nothing", buf_str(&b));
	next_flush();
	buf_free(&b);
	log_info(ns ? "hone resume ends it earlier" : "hone resume ends it");
	next_say("hone resume %s", name);
	return 0;
}

static int run_inhibit(const struct args *a)
{
	struct hold h = {.socket = arg_str(a, "socket", NULL), .why = arg_str(a, "why", NULL)};
	int64_t ns = arg_duration(a, "for", 0);
	daemon_use(h.socket);
	if (!h.why || !*h.why)
		return fail(
		    E_USAGE,
		    "missing option --why TEXT, the reason that hone status shows, as in --why 'arm moves'");
	if (arg_given(a, "for") && ns <= 0)
		return fail(E_USAGE, "--for must be longer than 0; without --for it lasts until hone resume");
	if (a->npos && ns)
		return fail(E_USAGE,
			    "--for and a command exclude each other: a command inhibits as long as it runs");
	return a->npos ? run_held(a, &h, a->pos) : run_alone(a, &h, ns);
}

static const struct opt opts[] = {
    {"why", OPT_STR, "TEXT", "the reason, which hone status and the journal show"},
    {"for", OPT_DURATION, "10m", "how long (default: until hone resume)"},
    OPT_SOCKET,
    {NULL},
};

const struct cmd cmd_inhibit = {
    .usage = "--why TEXT [--for 10m] [-- COMMAND...]",
    .summary = "stop honed from tuning, for a time or while a command runs",
    .details =
	"Running jobs stop within 50 ms. With a command, its exit status is this command's, and the inhibit\n"
	"ends with it, or within a minute if this process is killed. If honed runs and refuses, the command\n"
	"is not run. Without a daemon, the reason is written to a file in the run folder (that of --socket,\n"
	"else $HONE_RUN, else that of $HONE_SOCKET, else /run/hone), which honed reads when it starts.",
    .max_pos = -1,
    .opts = opts,
    .run = run_inhibit,
    .name = "inhibit",
};
