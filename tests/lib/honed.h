/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the built honed in a folder of its own, and clients of it. */
#ifndef TESTS_HONED_H
#define TESTS_HONED_H

#include "agent/control/control.h"
#include "platform/base/file.h"
#include "platform/base/sanitized.h"
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char at[64]; /* folder of honed's run and state folders, configuration and log */
static pid_t honed;
static int most_files;        /* limit on descriptors of the next honed; 0: the test's own */
enum { PATIENCE_MS = 20000 }; /* enough for a loaded machine */

static inline const char *in_folder(const char *name)
{
	static char path[4][256];
	static int next;
	char *p = path[next++ % 4];
	snprintf(p, sizeof path[0], "%s/%s", at, name);
	return p;
}

static inline void make_folder(void)
{
	snprintf(at, sizeof at, "%s/honed-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (!mkdtemp(at) || mkdir(in_folder("root"), 0755) < 0)
		abort();
}

static inline void write_text(const char *path, const char *text)
{
	if (file_write(path, text, strlen(text)) < 0)
		abort();
}

/* Path of a program, which lies beside the folder of the tests. */
static inline const char *program(const char *name)
{
	static char path[PATH_MAX + 32];
	char self[PATH_MAX] = "";
	if (file_self_dir(self, sizeof self) < 0)
		abort();
	snprintf(path, sizeof path, "%s/../%s", self, name);
	return path;
}

static inline pid_t launch(const char *const argv[], const char *log)
{
	pid_t pid = fork();
	if (pid == 0) {
		int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
		const struct rlimit files = {(rlim_t)most_files, (rlim_t)most_files};
		dup2(fd, 1);
		dup2(fd, 2);
		if (most_files && setrlimit(RLIMIT_NOFILE, &files) < 0)
			_exit(126);
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	return pid;
}

static inline int dial(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	snprintf(to.sun_path, sizeof to.sun_path, "%s", in_folder("run/honed.sock"));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	for (int i = 0; i < PATIENCE_MS; i++) {
		if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
			return fd;
		siginfo_t dead = {0};
		if (errno != ENOENT && errno != ECONNREFUSED && errno != EAGAIN)
			break;
		if (honed && waitid(P_PID, (id_t)honed, &dead, WEXITED | WNOHANG | WNOWAIT) == 0 &&
		    dead.si_pid)
			break;
		usleep(1000);
	}
	close(fd);
	return -1;
}

static inline void show_log(void)
{
	struct arena a = {0};
	struct blob log;
	if (file_read(&a, in_folder("log"), 0, &log) >= 0)
		printf("honed's log:\n%s\n", (const char *)log.p);
	arena_free(&a);
}

/* A path in the folder that is valid until the test ends. */
static inline const char *own(const char *name)
{
	static char *kept[64];
	static int n;
	char *p = strdup(in_folder(name));
	for (int i = 0; i < n; i++)
		if (!strcmp(kept[i], p)) {
			free(p);
			return kept[i];
		}
	if (!p || n == 64)
		abort();
	return kept[n++] = p;
}

/* Starts honed with a configuration, unless it runs already. */
static inline bool start_honed(const char *conf, const char *hone)
{
	if (honed)
		return true;
	if (!*at)
		make_folder();
	signal(SIGPIPE, SIG_IGN);
	write_text(in_folder("honed.conf"), conf);
	setenv("HONE_SEEDS", "", 1);
	const char *argv[] = {
	    program("honed"), "--config",  own("honed.conf"), "--run",  own("run"), "--state",
	    own("state"),     "--sysroot", own("root"),       "--hone", hone,       NULL};
	honed = launch(argv, in_folder("log"));
	int fd = dial();
	if (fd < 0) {
		show_log();
		return false;
	}
	close(fd);
	return true;
}

/* Ends honed; returns its exit status, 1000 + the signal that ended it, or -1: it did not run. */
static inline int end_honed(int sig)
{
	int status = 0;
	if (!honed)
		return -1;
	kill(honed, sig);
	pid_t got = 0;
	for (int i = 0; i < PATIENCE_MS && !(got = waitpid(honed, &status, WNOHANG)); i++)
		usleep(1000);
	if (!got) {
		kill(honed, SIGKILL);
		waitpid(honed, &status, 0);
	}
	honed = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

__attribute__((destructor)) static void leave_nothing(void)
{
	char cmd[128];
	if (honed > 0)
		end_honed(SIGKILL);
	snprintf(cmd, sizeof cmd, "rm -rf %s", at);
	if (*at && system(cmd) != 0)
		fprintf(stderr, "cannot remove %s\n", at);
}

/* Sends all bytes; false: the other side stopped reading. */
static inline bool send_all(int fd, const void *p, size_t n)
{
	for (size_t sent = 0; sent < n;) {
		struct pollfd ready = {.fd = fd, .events = POLLOUT};
		if (poll(&ready, 1, PATIENCE_MS) <= 0)
			return false;
		ssize_t k = send(fd, (const char *)p + sent, n - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (k < 0 && errno != EAGAIN && errno != EINTR)
			return false;
		sent += k > 0 ? (size_t)k : 0;
	}
	return true;
}

static inline bool say(int fd, const char *fmt, ...)
{
	static char line[CONTROL_LINE * 2];
	va_list va;
	va_start(va, fmt);
	int n = vsnprintf(line, sizeof line - 1, fmt, va);
	va_end(va);
	line[n++] = '\n';
	return send_all(fd, line, (size_t)n);
}

/* Reads a line without its end; NULL: the other side has closed, or is silent. */
static inline const char *hear(int fd)
{
	static char line[CONTROL_SAID + 1];
	for (size_t n = 0; n < sizeof line - 1; n++) {
		struct pollfd ready = {.fd = fd, .events = POLLIN};
		if (poll(&ready, 1, PATIENCE_MS) <= 0 || recv(fd, line + n, 1, 0) <= 0)
			return NULL;
		if (line[n] == '\n') {
			line[n] = 0;
			return line;
		}
	}
	return NULL;
}

static inline bool hears(int fd, const char *part)
{
	const char *line = hear(fd);
	bool is = line && strstr(line, part);
	if (!is)
		printf("heard %s, not %s\n", line ? line : "nothing", part);
	return is;
}

/* Returns whether honed still serves a well-behaved client. */
static inline bool served(void)
{
	int fd = dial();
	bool good = fd >= 0 && say(fd, "{\"id\":7,\"op\":\"hello\",\"version\":2}") &&
		    hears(fd, "\"id\":7,\"ok\":true") && say(fd, "{\"id\":8,\"op\":\"status\"}") &&
		    hears(fd, "\"id\":8,\"ok\":true");
	close(fd);
	return good;
}

/* Whether what honed says of its status has the part. */
static inline bool status_has(const char *part)
{
	int fd = dial();
	const char *line = say(fd, "{\"op\":\"status\"}") ? hear(fd) : NULL;
	bool is = line && strstr(line, part);
	close(fd);
	return is;
}

/* honed's memory in KiB, what: "VmRSS" or "VmHWM"; 0: not known. */
static inline long memory_kb(const char *what)
{
	char path[64], text[4096];
	snprintf(path, sizeof path, "/proc/%d/status", (int)honed);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	const char *p = strstr(text, what);
	return p ? strtol(p + strlen(what) + 1, NULL, 10) : 0;
}

/* The number of other clients that honed reports; -1: no answer. */
static inline int clients(void)
{
	int fd = dial(), n = -1;
	const char *line = say(fd, "{\"op\":\"status\"}") ? hear(fd) : NULL,
		   *p = line ? strstr(line, "\"clients\":") : NULL;
	if (p)
		n = atoi(p + 10) - 1;
	close(fd);
	return n;
}

static inline bool all_gone(void)
{
	for (int i = 0; i < PATIENCE_MS / 10; i++, usleep(10000))
		if (clients() == 0)
			return true;
	return false;
}

#endif
