/* SPDX-License-Identifier: Apache-2.0 */
/* The program hone-fleet in a process of its own, on a free port of this machine. */
#ifndef TESTS_FLEET_SERVER_H
#define TESTS_FLEET_SERVER_H

#include "platform/base/file.h"
#include "tests/lib/test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct server {
	pid_t pid;
	int port;
	char log[256]; /* file of its stderr */
};

/* The server lies beside the folder of the tests. */
static inline const char *server_program(void)
{
	static char path[PATH_MAX];
	char self[PATH_MAX - 32];
	if (file_self_dir(self, sizeof self) < 0)
		abort();
	snprintf(path, sizeof path, "%s/../hone-fleet", self);
	return path;
}

static inline void server_text(const struct server *s, char *out, size_t n)
{
	int fd = open(s->log, O_RDONLY);
	ssize_t got = fd >= 0 ? read(fd, out, n - 1) : 0;
	out[got > 0 ? got : 0] = 0;
	if (fd >= 0)
		close(fd);
}

static inline pid_t server_spawn(const char *log, char *const argv[])
{
	fflush(NULL);
	unlink(log);
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* it ends with the test and inherits no open files */
		for (int i = 3; i < 1024; i++)
			close(i);
		int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		if (fd < 0 || dup2(fd, 2) < 0)
			_exit(120);
		execv(argv[0], argv);
		_exit(121);
	}
	return pid;
}

/* Starts the server and waits until it listens; fills in argv[0]. */
static inline bool server_start(struct server *s, const char *log, char *argv[])
{
	char text[8192];
	argv[0] = (char *)server_program();
	*s = (struct server){.port = -1};
	snprintf(s->log, sizeof s->log, "%s", log);
	s->pid = server_spawn(log, argv);
	for (int i = 0; i < 3000; i++) {
		server_text(s, text, sizeof text);
		const char *at = strstr(text, "listens on http");
		at = at ? strstr(at, "://") : NULL;
		const char *comma = at ? strchr(at, ',') : NULL;
		while (comma && comma[-1] != ':')
			comma--;
		if (comma) {
			s->port = atoi(comma);
			return true;
		}
		if (waitpid(s->pid, NULL, WNOHANG) == s->pid)
			break;
		usleep(10000);
	}
	printf("no server: %s\n", text);
	test_bad = 1;
	return false;
}

/* Returns the exit status, 128 + n for signal n. */
static inline int server_stop(struct server *s, int sig)
{
	int status = 0;
	kill(s->pid, sig);
	waitpid(s->pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Returns a connection, whose reads and writes end after ten seconds; -1: none. */
static inline int server_connect(const struct server *s)
{
	const struct sockaddr_in at = {.sin_family = AF_INET,
				       .sin_port = htons((uint16_t)s->port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct timeval limit = {.tv_sec = 10};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	if (connect(fd, (const struct sockaddr *)&at, sizeof at) == 0)
		return fd;
	close(fd);
	return -1;
}

static inline bool server_put(int fd, const void *p, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t did = send(fd, (const char *)p + at, n - at, MSG_NOSIGNAL);
		if (did <= 0)
			return false;
		at += (size_t)did;
	}
	return true;
}

/* Reads an answer's head and body into `out`; returns its status, 0 if the connection ended first. */
static inline int server_take(int fd, char *out, size_t room, bool has_body)
{
	size_t n = 0, want = 0;
	for (;;) {
		out[n] = 0;
		char *body = strstr(out, "\r\n\r\n"), *length = strcasestr(out, "\r\nContent-Length:");
		if (body && !want)
			want = (size_t)(body + 4 - out) +
			       (has_body && length && length < body ? (size_t)atol(length + 17) : 0);
		if (want && n >= want)
			break;
		ssize_t got = n + 1 < room ? recv(fd, out + n, room - 1 - n, 0) : 0;
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	return want && n >= want && !strncmp(out, "HTTP/1.1 ", 9) ? atoi(out + 9) : 0;
}

#endif
