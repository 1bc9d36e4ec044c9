/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/worker/hire.h"
#include "platform/base/file.h"
#include "platform/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int find_program(struct hire *h, const char *path)
{
	const char *env = getenv("HONE_WORKER");
	char dir[PATH_MAX - 16];
	if (!path && env && env[0])
		path = env;
	if (path) {
		snprintf(h->path, sizeof h->path, "%s", path);
		return E_OK;
	}
	int rc = file_self_dir(dir, sizeof dir);
	if (rc >= 0)
		snprintf(h->path, sizeof h->path, "%s/hone-worker", dir);
	return rc;
}

static void find_socket(struct hire *h, const char *path)
{
	const char *program = getenv("HONE_WORKER"), *named = getenv("HONE_WORKER_SOCKET");
	if (path)
		return;
	if (named) {
		snprintf(h->socket, sizeof h->socket, "%s", named);
		h->only_socket = named[0];
	} else if (!(program && program[0]) && access(WORKER_SOCKET, R_OK | W_OK) == 0) {
		snprintf(h->socket, sizeof h->socket, "%s", WORKER_SOCKET);
	}
}

static int check_program(const struct hire *h)
{
	if (file_exists(h->path))
		return E_OK;
	return fail(E_NOTFOUND, "no hone-worker at %s; install it there, or set HONE_WORKER to its path",
		    h->path);
}

int hire_find(struct hire *h, const char *path)
{
	*h = (struct hire){0};
	find_socket(h, path);
	int rc = find_program(h, path);
	return rc < 0 || h->socket[0] ? rc : check_program(h);
}

bool hire_elsewhere(struct hire *h)
{
	if (!h->socket[0] || h->only_socket)
		return false;
	log_more("%s: %s; a worker is started instead", h->socket, err_text());
	h->socket[0] = 0;
	return true;
}

void hire_program(struct hire *h)
{
	h->socket[0] = 0;
}

int hire(struct hire *h, struct clock *clock, int64_t deadline_ns, struct child *out)
{
	char *argv[] = {h->path, "--serve", log_level() == LOG_VERBOSE ? "--verbose" : NULL, NULL};
	int rc = h->socket[0] ? child_connect(out, h->socket, clock, deadline_ns) : E_NOTFOUND;
	if (rc >= 0 || (h->socket[0] && (rc == E_TIMEOUT || !hire_elsewhere(h))))
		return rc;
	rc = check_program(h);
	return rc < 0 ? rc : child_start(out, argv, NULL);
}
