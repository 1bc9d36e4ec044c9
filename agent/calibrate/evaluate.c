/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/calibrate/evaluate.h"

#include "platform/base/clock.h"
#include "platform/base/file.h"
#include "platform/base/quantity.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { POLL_NS = 2 * NS_PER_MS, MOST_POLL_NS = 50 * NS_PER_MS, TAIL = 4096, SHELL = 128 };

_Static_assert((int)BOUNDARY_AXES == (int)INJECT_NETS, "a page has room for all networks");

/* ---- the page ---- */

static int make_page(const struct evaluate_want *w)
{
	struct inject_page *p = calloc(1, sizeof *p);
	if (!p)
		return fail(E_NOMEM, "no memory for the errors of an evaluation");
	memcpy(p->magic, INJECT_MAGIC, sizeof INJECT_MAGIC);
	p->bytes = sizeof *p;
	p->nnets = w->app->nnets;
	p->seed = w->seed + (uint64_t)w->number * INJECT_NETS;
	for (int i = 0; i < p->nnets; i++) {
		const struct app_net *net = &w->app->net[i];
		if (net->kind == INJECT_KINDS)
			continue;
		p->net[i].file = net->file;
		p->net[i].kind = (int32_t)net->kind;
		p->net[i].error = w->error[i];
		p->net[i].root_mean_square = w->norm[i];
		if (net->output)
			snprintf(p->net[i].output, sizeof p->net[i].output, "%s", net->output);
	}
	int rc = file_write_soon(w->page, p, sizeof *p);
	free(p);
	return rc;
}

static int read_page(const struct evaluate_want *w, struct evaluation *out)
{
	struct arena a = {0};
	struct blob b;
	int rc = file_read(&a, w->page, sizeof(struct inject_page), &b);
	if (rc >= 0 && b.n != sizeof(struct inject_page))
		rc = fail(E_CORRUPT, "%s was changed while the evaluator ran", w->page);
	const struct inject_page *p = rc < 0 ? NULL : b.p;
	for (int i = 0; i < w->app->nnets && p; i++) {
		const struct inject_net *net = &p->net[i];
		unsigned long long bits = atomic_load(&net->bits), units = atomic_load(&net->units);
		double squares;
		memcpy(&squares, &bits, sizeof squares);
		out->runs[i] = atomic_load(&net->runs);
		out->reached[i] = inject_reached(net);
		out->norm[i] = units ? sqrt(squares / (double)units) : 0;
	}
	arena_free(&a);
	return rc;
}

/* ---- the process ---- */

static void set_variables(const struct evaluate_want *w, const char *page)
{
	char name[APP_NAME + 16], value[40];
	setenv(INJECT_VARIABLE, page, 1);
	snprintf(value, sizeof value, "%d", w->number);
	setenv("HONE_EVALUATION", value, 1);
	for (int i = 0; i < w->app->nnets; i++) {
		app_variable(w->app, i, name);
		snprintf(value, sizeof value, "%.9g", w->error[i]);
		setenv(name, value, 1);
	}
}

/* In the child. */
static void become(const struct evaluate_want *w, const char *page, int out)
{
	sigset_t none;
	int in = open("/dev/null", O_RDONLY);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (in >= 0 && dup2(in, 0) >= 0 && dup2(out, 1) >= 0 && dup2(out, 2) >= 0 &&
	    chdir(w->app->folder) == 0) {
		set_variables(w, page);
		execl("/bin/sh", "sh", "-c", w->app->evaluator, (char *)NULL);
	}
	dprintf(2, "the evaluator cannot be started: %s\n", strerror(errno));
	_exit(126);
}

/* Waits for the process, kills its group at the deadline or when the caller is to stop. */
static int await(const struct evaluate_want *w, pid_t pid, int *status)
{
	int64_t begin_ns = clock_now(&clock_real), pause_ns = POLL_NS;
	for (;;) {
		pid_t got = waitpid(pid, status, WNOHANG);
		if (got == pid)
			return E_OK;
		bool late = clock_now(&clock_real) - begin_ns > w->app->timeout_ns,
		     stop = w->stop && *w->stop;
		if (got < 0 && errno != EINTR)
			return fail(E_IO, "cannot wait for the evaluator: %s", strerror(errno));
		if (late || stop) {
			kill(-pid, SIGKILL);
			while (waitpid(pid, status, 0) < 0 && errno == EINTR)
				;
			if (stop)
				return fail(E_STOPPED, "stopped");
			char limit[DURATION_TEXT];
			duration_print(w->app->timeout_ns, limit);
			return fail(E_TIMEOUT,
				    "the evaluator was killed after %s, its timeout; mend it, or raise "
				    "`timeout =` in "
				    "%s",
				    limit, w->app->file);
		}
		const struct timespec nap = {0, pause_ns};
		nanosleep(&nap, NULL);
		pause_ns = pause_ns * 2 < MOST_POLL_NS ? pause_ns * 2 : MOST_POLL_NS;
	}
}

static int spawn(const struct evaluate_want *w, int *status)
{
	char *page = realpath(w->page, NULL);
	int out = open(w->output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (!page || out < 0) {
		int rc = fail(E_IO, "cannot open %s: %s", page ? w->output : w->page, strerror(errno));
		free(page);
		return rc;
	}
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0)
		become(w, page, out);
	int why = errno;
	close(out);
	free(page);
	if (pid < 0)
		return fail(E_IO, "cannot start the evaluator: %s", strerror(why));
	setpgid(pid, pid);
	int rc = await(w, pid, status);
	kill(-pid, SIGKILL); /* what it left running would put errors into the next evaluation */
	return rc;
}

/* ---- the answer ---- */

/* The kinds of answers that an evaluator gives by its last line. */
enum said { SAID_NOTHING, SAID_FAIL, SAID_PASS, SAID_SCORE };

/* Whether a line is a word, perhaps with blanks behind it. */
static bool is_word(const char *line, const char *word)
{
	size_t n = strlen(word);
	return !strncmp(line, word, n) && !line[n + strspn(line + n, " \r\t")];
}

/* Returns an enum said, of the end of what the evaluator printed. */
static int last_answer(const char *path, double *score)
{
	char text[TAIL + 1];
	int fd = open(path, O_RDONLY | O_CLOEXEC), said = SAID_NOTHING;
	off_t end = fd < 0 ? -1 : lseek(fd, 0, SEEK_END), begin = end > TAIL ? end - TAIL : 0;
	ssize_t n = end < 0 ? -1 : pread(fd, text, TAIL, begin);
	if (fd >= 0)
		close(fd);
	if (n < 0)
		return fail(E_IO, "cannot read %s: %s", path, strerror(errno));
	for (ssize_t i = 0; i < n; i++)
		text[i] = text[i] ? text[i] : '?';
	text[n] = 0;
	/* A line that began before is not looked at. */
	char *first = begin ? strchr(text, '\n') : text, *next;
	for (char *line = first && begin ? first + 1 : first; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		if (is_word(line, "pass") || is_word(line, "fail"))
			said = is_word(line, "pass") ? SAID_PASS : SAID_FAIL;
		if (strncmp(line, "score ", 6) != 0)
			continue;
		char *after;
		*score = strtod(line + 6, &after);
		if (after == line + 6 || after[strspn(after, " \r\t")])
			return fail(E_CHILD, "the evaluator printed '%.80s', which is no number behind score",
				    line);
		said = SAID_SCORE;
	}
	return said;
}

static int check_status(int status)
{
	/* A shell ends with 128 and the signal that killed its command. */
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
	int sig = WIFSIGNALED(status)                   ? WTERMSIG(status)
		  : code > SHELL && code < SHELL + NSIG ? code - SHELL
							: 0;
	if (sig)
		return fail(E_CHILD, "the evaluator was killed by signal %d (%s)", sig, strsignal(sig));
	if (code)
		return fail(E_CHILD,
			    "the evaluator ended with status %d; it ends with 0, whatever its answer is",
			    code);
	return E_OK;
}

static int take_answer(const struct evaluate_want *w, int status, struct evaluation *out)
{
	const struct app *app = w->app;
	int rc = check_status(status);
	if (rc >= 0)
		rc = last_answer(w->output, &out->score);
	if (rc < 0)
		return rc;
	out->scored = rc == SAID_SCORE;
	out->tolerated = out->scored ? out->score >= app->pass : rc == SAID_PASS;
	if (rc == SAID_NOTHING)
		return fail(E_CHILD, "the evaluator gave no answer; its last line is pass, fail or score X");
	if (out->scored && !isfinite(out->score))
		return fail(E_USAGE, "the evaluator printed the score %g; a score is finite", out->score);
	if (out->scored && !(out->score >= app->least && out->score <= app->most))
		return fail(
		    E_USAGE,
		    "the evaluator printed the score %g, which is not in its range, %g to %g; mend it, or "
		    "`range =` in %s",
		    out->score, app->least, app->most, app->file);
	return E_OK;
}

/* An application that fails may fail before it runs all of its networks, but not before it runs any. */
static int check_runs(const struct app *app, const struct evaluation *e)
{
	bool any = false;
	for (int i = 0; i < app->nnets; i++)
		any |= e->runs[i] || app->net[i].kind == INJECT_KINDS;
	for (int i = 0; i < app->nnets; i++)
		if (!e->runs[i] && app->net[i].kind < INJECT_KINDS && (e->tolerated || !any))
			return fail(
			    E_USAGE,
			    "the evaluator ended without a run of network %s: it must load %s, the same "
			    "bytes, by libhone (hone_load, or the Python package), and pass its environment "
			    "on",
			    app->net[i].name, app->net[i].path);
	return E_OK;
}

int evaluate(const struct evaluate_want *w, struct evaluation *out)
{
	int status = 0;
	int64_t begin_ns = clock_now(&clock_real);
	*out = (struct evaluation){.tolerated = false};
	int rc = make_page(w);
	if (rc >= 0)
		rc = spawn(w, &status);
	out->seconds = (double)(clock_now(&clock_real) - begin_ns) / NS_PER_S;
	if (rc >= 0)
		rc = take_answer(w, status, out);
	if (rc >= 0)
		rc = read_page(w, out);
	return rc < 0 ? rc : check_runs(w->app, out);
}
