/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/run/notify.h"
#include "platform/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { MOST_FDS = 64 };

/* A whole number from 1 to `most`; 0: the variable holds none. */
static int64_t number(const char *name, int64_t most)
{
	const char *s = getenv(name);
	char *end = NULL;
	errno = 0;
	long long v = s && *s >= '0' && *s <= '9' ? strtoll(s, &end, 10) : 0;
	return end && !*end && !errno && v >= 1 && v <= most ? v : 0;
}

/* Whether the variable names this process, or is not set (allowed unless `must`). */
static bool is_ours(const char *pid_name, bool must)
{
	int64_t pid = number(pid_name, INT32_MAX);
	return pid ? pid == getpid() : !must && !getenv(pid_name);
}

static int take_fds(void)
{
	int n = is_ours("LISTEN_PID", true) ? (int)number("LISTEN_FDS", MOST_FDS) : 0;
	for (int i = 0; i < n; i++)
		if (fcntl(NOTIFY_FIRST_FD + i, F_SETFD, FD_CLOEXEC) < 0)
			return i;
	return n;
}

void notify_init(struct notify *n)
{
	static const char *const names[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
					    "LISTEN_PID",    "LISTEN_FDS",    "LISTEN_FDNAMES"};
	const char *path = getenv("NOTIFY_SOCKET");
	*n = (struct notify){0};
	if (path && (*path == '/' || *path == '@') && strlen(path) < sizeof n->path)
		memcpy(n->path, path, strlen(path) + 1);
	if (is_ours("WATCHDOG_PID", false))
		n->watchdog_ns = number("WATCHDOG_USEC", INT64_MAX / 1000) * 1000;
	n->listen_fds = take_fds();
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		unsetenv(names[i]);
}

static socklen_t address(const struct notify *n, struct sockaddr_un *to)
{
	size_t len = strlen(n->path);
	*to = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(to->sun_path, n->path, len);
	if (*n->path == '@')
		to->sun_path[0] = 0; /* without a NUL at the end */
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (*n->path != '@'));
}

int notify_send(const struct notify *n, const char *lines)
{
	if (!*n->path)
		return 0;
	struct sockaddr_un to;
	socklen_t size = address(n, &to);
	/* A manager that hangs must not block us. */
	const struct timeval patience = {.tv_usec = 200000};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool sent = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0 &&
		    sendto(fd, lines, strlen(lines), MSG_NOSIGNAL, (struct sockaddr *)&to, size) >= 0;
	int err = errno;
	if (fd >= 0)
		close(fd);
	return sent ? 1
		    : fail(E_IO, "cannot tell the service manager at %s '%.40s': %s", n->path, lines,
			   strerror(err));
}

int notify_status(const struct notify *n, const char *text)
{
	char line[512];
	snprintf(line, sizeof line, "STATUS=%s", text);
	for (char *p = line; *p; p++)
		if (*p == '\n')
			*p = ' ';
	log_plain(line);
	return notify_send(n, line);
}

int notify_reloading(const struct notify *n, int64_t now_ns)
{
	char lines[80];
	snprintf(lines, sizeof lines, "RELOADING=1\nMONOTONIC_USEC=%" PRId64, now_ns / 1000);
	return notify_send(n, lines);
}
