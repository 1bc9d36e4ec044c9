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

static int count_mistakes(const uint8_t *p, size_t n)
{
	char path[64];
	struct buf b = {0};
	int lines = 0, fd = memfd_create("honed.conf", MFD_CLOEXEC);
	if (fd < 0 || write(fd, p, n) != (ssize_t)n)
		abort();
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	int found = conf_check(path, &b);
	for (size_t i = 0; i < b.n; i++)
		lines += b.p[i] == '\n';
	if (found < 0 || lines != found)
		abort();
	buf_free(&b);
	close(fd);
	return found;
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
