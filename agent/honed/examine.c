/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/honed/examine.h"
#include "platform/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ERROR "hone: error: "
#define SHAPE_OPTION "--shape "

enum { NOT_STARTED = 127 };

/* Starts `hone tasks MODEL -q --shape ...` with its standard error in the pipe. */
static pid_t start(const char *program, const struct conf_model *m, int to)
{
	const char *argv[5 + 2 * CONF_SHAPES] = {program, "tasks", m->path, "-q"};
	int n = 4;
	for (int i = 0; i < m->shapes.n; i++) {
		argv[n++] = "--shape";
		argv[n++] = m->shapes.shape[i];
	}
	fflush(NULL);
	pid_t pid = fork();
	if (pid != 0)
		return pid;
	int null = open("/dev/null", O_WRONLY);
	if (null >= 0 && dup2(null, STDOUT_FILENO) >= 0 && dup2(to, STDERR_FILENO) >= 0)
		execv(program, (char *const *)(uintptr_t)argv);
	_exit(NOT_STARTED);
}

static void read_all(int fd, struct buf *out)
{
	char part[1024];
	for (ssize_t n; (n = read(fd, part, sizeof part)) > 0 || (n < 0 && errno == EINTR);)
		if (n > 0)
			buf_add(out, part, (size_t)n);
}

/* Appends the first line of hone's error; an option becomes the line of honed.conf that does the same. */
static void add_reason(const char *said, struct buf *why)
{
	char line[1024];
	const char *at = strstr(said, ERROR);
	at = at ? at + strlen(ERROR) : said;
	snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
	log_one_line(line);
	char *option = strstr(line, SHAPE_OPTION);
	if (option)
		buf_printf(why, "%.*s" SHAPE_OF_CONF "%s", (int)(option - line), line,
			   option + strlen(SHAPE_OPTION));
	else
		buf_puts(why, *line ? line : "hone could not read it");
}

int examine_model(const char *program, const struct conf_model *m, struct buf *why)
{
	struct buf said = {0};
	int ends[2], status = 0;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return fail(E_IO, "pipe: %s", strerror(errno));
	pid_t pid = start(program, m, ends[1]);
	close(ends[1]);
	if (pid > 0)
		read_all(ends[0], &said);
	close(ends[0]);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	bool started = pid > 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == NOT_STARTED);
	if (started && WIFSIGNALED(status))
		buf_printf(why, "hone ended with signal %d while it read the model", WTERMSIG(status));
	else if (started && WEXITSTATUS(status) != 0)
		add_reason(buf_str(&said), why);
	buf_free(&said);
	return started ? E_OK : fail(E_IO, "%s cannot be started, so models were not examined", program);
}
