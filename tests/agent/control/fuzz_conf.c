/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as honed.conf and as a kernel command line: the result is an error with a line, or values
 * within their bounds; and mistakes are collected exactly where there is such an error, a line each. */
#include "agent/control/conf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void check(const struct conf *c)
{
	if (c->jobs < 1 || c->boot_unclean < 1 || c->nmodels > CONF_MODELS || c->boot_budget_ns < 0 ||
	    !c->socket || !c->policy || c->gate.load_pct < 1 || c->gate.settle_ns <= 0)
		abort();
	for (int i = 0; i < c->nmodels; i++)
		if (!c->model[i].path || !*c->model[i].name)
			abort();
}

/* Mistakes that only conf_check reports: those in [sync], and repetitions. */
static bool is_checks_own(const char *line)
{
	static const char *const ends[] = {" already; keep one of the two\n",
					   " already; write all its keys there\n"};
	const char *end = strchr(line, '\n') + 1, *what = strstr(line, ": ") + 2;
	bool own = !strncmp(what, "[sync] ", 7) && !strstr(what, ": too many keys; at most");
	for (int i = 0; i < 2; i++)
		own |= end - line > (ptrdiff_t)strlen(ends[i]) &&
		       !strncmp(end - strlen(ends[i]), ends[i], strlen(ends[i]));
	return own;
}

/* Returns the number of mistakes for which conf_text refuses the text, too. */
static int count_mistakes(const uint8_t *p, size_t n)
{
	char path[64];
	struct buf b = {0};
	struct arena a = {0};
	struct conf c;
	int lines = 0, fd = memfd_create("honed.conf", MFD_CLOEXEC);
	if (fd < 0 || write(fd, p, n) != (ssize_t)n)
		abort();
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	int found = conf_check(path, &a, &c, &b), own = 0;
	for (const char *line = buf_str(&b); *line; line = strchr(line, '\n') + 1) {
		lines++;
		own += is_checks_own(line);
	}
	if (found < 0 || lines != found)
		abort();
	buf_free(&b);
	arena_free(&a);
	close(fd);
	return found - own;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct arena a = {0};
	struct conf c;
	int64_t ns;
	conf_defaults(&c);
	int rc = conf_text("f", (const char *)p, n, &a, &c);
	if (rc >= 0)
		check(&c);
	else if (strncmp(err_text(), "f:", 2) || atoi(err_text() + 2) < 1)
		abort();
	if (n < 64 << 10 && (count_mistakes(p, n) > 0) != (rc < 0))
		abort();
	if (conf_cmdline_budget(arena_strndup(&a, (const char *)p, n), &ns) > 0 && ns < 0)
		abort();
	arena_free(&a);
	return 0;
}
