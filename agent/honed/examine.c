/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/honed/examine.h"
#include "platform/base/clock.h"
#include "platform/base/file.h"
#include "platform/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ERROR "hone: error: "
#define SHAPE_OPTION "--shape "
#define NEEDS_EXAMPLES "needs examples of inputs" /* recipe_use writes it */

enum { NOT_STARTED = 127, MOST_SAID = 64 << 10 /* bytes of a program's words that are kept */ };

/* Starts the program with one of its outputs in the pipe, and nothing in the other. It ends when this process
 * ends. */
static pid_t start(const char *const argv[], int output, int to)
{
	fflush(NULL);
	const pid_t parent = getpid();
	pid_t pid = fork();
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(NOT_STARTED);
	int null = open("/dev/null", O_RDWR);
	if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDOUT_FILENO) >= 0 &&
	    dup2(null, STDERR_FILENO) >= 0 && dup2(to, output) >= 0)
		execv(argv[0], (char *const *)(uintptr_t)argv);
	_exit(NOT_STARTED);
}

/* False: it did not end in time. */
static bool read_all(int fd, int64_t wait_ns, struct buf *out)
{
	int64_t end_ns = wait_ns == INT64_MAX ? INT64_MAX : clock_now(&clock_real) + wait_ns;
	char part[1024];
	for (;;) {
		int64_t left_ms = (end_ns - clock_now(&clock_real)) / NS_PER_MS;
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int there = poll(&p, 1, left_ms > 1000 ? 1000 : left_ms > 0 ? (int)left_ms : 0);
		if (there == 0 && left_ms <= 0)
			return false;
		ssize_t n = there > 0 ? read(fd, part, sizeof part) : 1;
		if (n == 0 || (n < 0 && errno != EINTR))
			return true;
		if (there > 0 && n > 0 && out->n < MOST_SAID)
			buf_add(out, part, (size_t)n);
	}
}

/* Runs a program, and takes what it writes to `output`. Returns its wait status; E_IO, E_TIMEOUT: none. */
static int ask(const char *const argv[], int output, int64_t wait_ns, struct buf *said, int *status)
{
	int ends[2];
	bool ended = true;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return fail(E_IO, "pipe: %s", strerror(errno));
	pid_t pid = start(argv, output, ends[1]);
	close(ends[1]);
	if (pid > 0)
		ended = read_all(ends[0], wait_ns, said);
	if (!ended)
		kill(pid, SIGKILL);
	close(ends[0]);
	while (pid > 0 && waitpid(pid, status, 0) < 0 && errno == EINTR)
		;
	if (!ended)
		return fail(E_TIMEOUT, "%s %s did not end in %lld s", argv[0], argv[1],
			    (long long)(wait_ns / NS_PER_S));
	if (pid < 0 || (WIFEXITED(*status) && WEXITSTATUS(*status) == NOT_STARTED))
		return fail(E_IO, "%s cannot be started", argv[0]);
	return E_OK;
}

/* Appends a text of hone; options become the lines of honed.conf that do the same. */
static void add_with_lines(const char *text, struct buf *why)
{
	const char *option, *before = SHAPE_OF_CONF;
	for (; (option = strstr(text, SHAPE_OPTION)); text = option + strlen(SHAPE_OPTION)) {
		buf_printf(why, "%.*s%s", (int)(option - text), text, before);
		before = "and " SHAPE_LINE;
	}
	buf_puts(why, text);
}

/* Appends the first line of hone's error, without the help of a command that the user did not give. */
static void add_reason(const char *said, struct buf *why)
{
	char line[1024];
	const char *at = strstr(said, ERROR);
	at = at ? at + strlen(ERROR) : said;
	snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
	log_one_line(line);
	char *help = strstr(line, HELP_OF_HONE);
	if (help)
		*help = 0;
	add_with_lines(*line ? line : "hone could not read it", why);
}

static int import(const char *program, const struct conf_model *m, const char *const more[4], int64_t wait_ns,
		  struct buf *said, int *status)
{
	const char *argv[9 + 2 * CONF_SHAPES] = {program, "tasks", m->path, "-q"};
	int n = 4;
	for (int i = 0; i < m->shapes.n; i++) {
		argv[n++] = "--shape";
		argv[n++] = m->shapes.shape[i];
	}
	for (int i = 0; i < 4 && more[i]; i++)
		argv[n++] = more[i];
	return ask(argv, STDERR_FILENO, wait_ns, said, status);
}

int examine_model(const char *program, const struct conf_model *m, int64_t wait_ns, struct buf *why)
{
	static const char *const nothing[4] = {NULL};
	struct buf said = {0};
	int status = 0, rc = import(program, m, nothing, wait_ns, &said, &status);
	if (rc >= 0 && WIFSIGNALED(status))
		buf_printf(why, "hone ended with signal %d while it read the model", WTERMSIG(status));
	else if (rc >= 0 && WEXITSTATUS(status) != 0)
		add_reason(buf_str(&said), why);
	buf_free(&said);
	return rc < 0 ? fail(rc, "%s; models were not examined", err_text()) : E_OK;
}

bool examine_needs_examples(const char *program, const struct conf_model *m, const char *cache)
{
	const bool there = file_is_dir(cache);
	const char *const more[4] = {"--level", level_name((int)m->level), there ? "--cache" : NULL, cache};
	struct buf said = {0};
	int status = 0;
	if (!there) /* else hone reads the recipes of this user's own cache, which honed does not use */
		setenv("XDG_CACHE_HOME", cache, 1);
	bool needs = import(program, m, more, INT64_MAX, &said, &status) >= 0 && WIFEXITED(status) &&
		     WEXITSTATUS(status) == 1 && strstr(buf_str(&said), NEEDS_EXAMPLES);
	buf_free(&said);
	return needs;
}

/* The lines that are names of devices; a driver may have printed others. */
static void add_names(const char *said, struct buf *names)
{
	char name[CONF_DEVICE_NAME];
	for (size_t n; *said; said += n + (said[n] == '\n')) {
		n = strcspn(said, "\n");
		snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : 0, said);
		if (conf_is_device(name) && strcmp(name, CONF_CPU) != 0)
			buf_printf(names, "%s%s", names->n ? ", " : "", name);
	}
}

int examine_boards(const char *program, struct buf *mistakes)
{
	const char *const argv[] = {program, "devices", "--board", "-q", NULL};
	struct buf said = {0};
	int status = 0, n = 0, rc = ask(argv, STDOUT_FILENO, INT64_MAX, &said, &status);
	bool wrong = rc >= 0 && !(WIFEXITED(status) && !WEXITSTATUS(status));
	for (const char *at = buf_str(&said); wrong && *at;
	     at += strcspn(at, "\n") + (strchr(at, '\n') != NULL)) {
		const char *conf = strstr(at, ".conf:");
		const int line = (int)strcspn(at, "\n");
		if (!conf || conf - at >= line || !strncmp(at, "board: ", 7))
			continue; /* an older hone says something else */
		buf_printf(mistakes, "%.*s\n", line, at);
		n++;
	}
	buf_free(&said);
	return rc < 0 ? rc : n;
}

int examine_devices(const char *program, int64_t wait_ns, struct buf *names)
{
	const char *const argv[] = {program, "devices", "--names", "-q", NULL};
	struct buf said = {0};
	int status = 0, rc = ask(argv, STDOUT_FILENO, wait_ns, &said, &status);
	if (rc >= 0 && !(WIFEXITED(status) && !WEXITSTATUS(status)))
		rc = fail(E_IO, "%s devices failed", program);
	if (rc >= 0)
		add_names(buf_str(&said), names);
	buf_free(&said);
	return rc;
}
