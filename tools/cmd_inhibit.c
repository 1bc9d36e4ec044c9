/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cmd.h"
#include "platform/log.h"
#include "tools/daemon.h"
#include "tools/json.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* While a command runs, honed is asked for a minute at a time, so that nothing inhibits for ever where this
 * process is killed. */
#define HOLD_NS (60 * NS_PER_S)
#define RENEW_NS (20 * NS_PER_S)

struct hold {
	const char *socket, *why;
	char name[256]; /* as honed knows it; "": it does not */
	char file[64];  /* that we wrote; "": none */
};

/* Honed inhibits from now on; the old one goes. 0: no honed is there. */
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

static int write_file(struct hold *h)
{
	snprintf(h->file, sizeof h->file, "user-%u-%d", (unsigned)getuid(), (int)getpid());
	int rc = inhibit_write(h->file, h->why);
	if (rc < 0)
		h->file[0] = 0;
	return rc;
}

/* Where honed went away meanwhile, its files are still there for the next one. */
static void let_go(struct hold *h)
{
	struct client *c = NULL;
	struct request r = {.op = OP_RESUME};
	const char *reply;
	snprintf(r.text, sizeof r.text, "%s", h->name);
	int rc = h->name[0] ? daemon_open(h->socket, &c) : 0;
	if (rc > 0)
		rc = client_ask(c, &r, daemon_deadline(DAEMON_NS), &reply);
	else if (rc == 0 && h->name[0])
		rc = inhibit_remove(h->name);
	if (rc < 0 && rc != E_NOTFOUND)
		log_info("hone: warning: %s", err_text());
	client_close(c);
	if (h->file[0] && inhibit_remove(h->file) < 0)
		log_info("hone: warning: %s", err_text());
}

/* Without honed and without the right to leave word for one, the command runs: there is nothing to inhibit.
 */
static int hold_begin(struct hold *h)
{
	int rc = ask(h, HOLD_NS);
	if (rc == 0 && write_file(h) < 0)
		log_info("hone: warning: no daemon runs, and one that starts meanwhile will not know: %s",
			 err_text());
	return rc;
}

static int exit_status(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Waits for the command, passes signals on, asks honed again in time. */
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
			if (ask(h, HOLD_NS) < 0)
				log_more("%s", err_text());
			next_ns = daemon_deadline(RENEW_NS);
		}
	}
}

static int run_held(struct hold *h, char **argv)
{
	sigset_t watched, before;
	signal(SIGCHLD, SIG_DFL); /* inherited as ignored, the command's end would not be seen */
	sigemptyset(&watched);
	/* A terminal gives SIGINT and SIGQUIT to both of us: the command decides. */
	for (const int *s = (const int[]){SIGCHLD, SIGTERM, SIGHUP, SIGINT, SIGQUIT, 0}; *s; s++)
		sigaddset(&watched, *s);
	int rc = hold_begin(h);
	if (rc < 0)
		return rc;
	sigprocmask(SIG_BLOCK, &watched, &before);
	pid_t pid = fork();
	if (pid == 0) {
		sigprocmask(SIG_SETMASK, &before, NULL);
		execvp(argv[0], argv);
		log_error("%s: %s", argv[0], strerror(errno));
		_exit(errno == ENOENT ? 127 : 126);
	}
	rc = pid < 0 ? fail(E_IO, "fork: %s", strerror(errno)) : attend(h, pid, &watched);
	sigprocmask(SIG_SETMASK, &before, NULL);
	let_go(h);
	return rc;
}

/* Until hone resume, or for a time. */
static int run_alone(const struct args *a, struct hold *h, int64_t ns)
{
	int rc = ask(h, ns);
	bool honed = rc > 0;
	if (rc == 0 && ns)
		rc = fail(E_UNSUPPORTED,
			  "no daemon runs that would end it: give a command (hone inhibit --why TEXT -- "
			  "COMMAND), or leave --for out and end it with hone resume");
	else if (rc == 0)
		rc =
		    fail_in(write_file(h), "no daemon runs, and no word can be left for one (be root, or set "
					   "$HONE_RUN to honed's run folder)");
	if (rc < 0)
		return rc;
	const char *name = honed ? h->name : h->file;
	if (a->json)
		return json_out(json_pack("{so sb}", "name", json_text(name), "daemon", honed));
	printf("%s%s. End it with: hone resume %s\n",
	       honed ? "honed tunes nothing" : "no daemon runs; one that starts tunes nothing",
	       ns ? " until then" : "", name);
	return 0;
}

static int run_inhibit(const struct args *a)
{
	struct hold h = {.socket = arg_str(a, "socket", NULL), .why = arg_str(a, "why", NULL)};
	int64_t ns = arg_duration(a, "for", 0);
	if (!h.why || !*h.why)
		return fail(
		    E_USAGE,
		    "--why is missing: hone status shows it to whoever wonders, as in --why 'arm moves'");
	if (a->npos && ns)
		return fail(E_USAGE, "--for or a command: it inhibits for as long as the command runs");
	return a->npos ? run_held(&h, a->pos) : run_alone(a, &h, ns);
}

static const struct opt opts[] = {
    {"why", OPT_STR, "TEXT", "what for: hone status and the journal show it"},
    {"for", OPT_DURATION, "10m", "for so long (default: until hone resume)"},
    OPT_SOCKET,
    {NULL},
};

const struct cmd cmd_inhibit = {
    .usage = "--why TEXT [--for 10m] [-- COMMAND...]",
    .summary = "honed tunes nothing, for a time or while a command runs",
    .details = "What runs stops within 50 ms. With a command, its exit status is this command's, and nothing "
	       "inhibits "
	       "any more when it\nhas ended, or a minute after this process was killed. Without a daemon, "
	       "the reason goes "
	       "into a file of the run folder\n($HONE_RUN, else /run/hone), which a honed that starts heeds.",
    .max_pos = -1,
    .opts = opts,
    .run = run_inhibit,
    .name = "inhibit",
};
