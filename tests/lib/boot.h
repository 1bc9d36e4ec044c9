/* SPDX-License-Identifier: Apache-2.0 */
/* A board in a folder: a configuration, state, small models, and the real honed with its jobs and workers. An
 * empty sysroot hides the state of the real machine. */
#ifndef TESTS_BOOT_H
#define TESTS_BOOT_H

#include "agent/cache/cache.h"
#include "kernels/onnx/import.h"
#include "platform/base/buf.h"
#include "platform/base/clock.h"
#include "platform/base/sanitized.h"
#include "tests/lib/test.h"
#include "tools/hone/zoo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

struct boot {
	char top[64];
	int notify_fd;
	struct buf said; /* honed's notifications (NOTIFY_SOCKET), a line for each datagram */
	pid_t pid;
};

static inline const char *boot_path(const struct boot *b, const char *name)
{
	static char path[8][160];
	static int next;
	char *p = path[next++ % 8];
	snprintf(p, sizeof path[0], "%s/%s", b->top, name);
	return p;
}

__attribute__((format(printf, 3, 4))) static inline void boot_write(const struct boot *b, const char *name,
								    const char *fmt, ...)
{
	FILE *f = fopen(boot_path(b, name), "w");
	va_list ap;
	va_start(ap, fmt);
	CHECK(f && vfprintf(f, fmt, ap) >= 0);
	va_end(ap);
	if (f)
		fclose(f);
}

/* Writes model i: two or three kernels that take microseconds. */
static inline void boot_model(const struct boot *b, int i)
{
	char name[32];
	struct arena a = {0};
	struct graph *g = ARENA_NEW(&a, struct graph);
	struct zoo z = {.g = g, .opset = 17};
	snprintf(name, sizeof name, "m%d.onnx", i);
	g->name = "tiny";
	g->arena = a;
	rng_seed(&z.rng, (uint64_t)i);
	struct fmap x = zoo_input(&z, "x", 4 + 4 * i, 12, 12);
	x = zoo_conv(&z, x, (struct zoo_conv){8 + 8 * i, 3, 1, 1, .act = ACT_RELU6});
	x = zoo_conv(&z, x, (struct zoo_conv){16, 1, 1, 0, .act = ACT_RELU6});
	zoo_output(&z, x.value, "y");
	CHECK_OK(z.rc);
	CHECK_OK(export_file(g, boot_path(b, name)));
	graph_free(g);
}

/* Makes a board with n models and this [boot] section. */
static inline void boot_open(struct boot *b, int n, const char *boot)
{
	*b = (struct boot){.notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
	snprintf(b->top, sizeof b->top, "%s/hone-board-XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (!mkdtemp(b->top))
		abort();
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	snprintf(at.sun_path, sizeof at.sun_path, "%s/notify", b->top);
	CHECK(bind(b->notify_fd, (struct sockaddr *)&at, sizeof at) == 0);
	for (const char *const *d =
		 (const char *const[]){"state", "run", "sys", "sys/proc", "honed.conf.d", NULL};
	     *d; d++)
		CHECK(mkdir(boot_path(b, *d), 0755) == 0);
	boot_write(b, "honed.conf",
		   "[honed]\nlog = verbose\ncache = %s/state/cache\nsocket = %s/run/honed.sock\n[boot]\n%s",
		   b->top, b->top, boot);
	for (int i = 0; i < n; i++) {
		char name[48];
		boot_model(b, i);
		snprintf(name, sizeof name, "honed.conf.d/m%d.conf", i);
		boot_write(b, name, "[model m%d]\npath = %s/m%d.onnx\nthreads = 1\n", i, b->top, i);
	}
}

static inline void boot_close(struct boot *b)
{
	char cmd[96];
	snprintf(cmd, sizeof cmd, "rm -rf %s", b->top);
	CHECK(system(cmd) == 0);
	close(b->notify_fd);
	buf_free(&b->said);
}

enum { BOOT_PLAIN_JOBS = SANITIZED }; /* a job's memory limit is too small for a sanitizer */

/* Path of honed, hone or hone-worker, which lie beside $HONE_WORKER; NULL: not built. With a sanitizer, all
 * but honed come from the plain build. */
static inline const char *boot_program(const char *name)
{
	static char path[3][512];
	const char *worker = getenv("HONE_WORKER"), *slash = worker ? strrchr(worker, '/') : NULL;
	bool plain = BOOT_PLAIN_JOBS && strcmp(name, "honed");
	char *p = path[!strcmp(name, "hone") + 2 * !strcmp(name, "hone-worker")];
	if (!slash)
		return NULL;
	if (plain)
		snprintf(p, sizeof path[0], "%.*s/../build/%s", (int)(slash - worker), worker, name);
	else
		snprintf(p, sizeof path[0], "%.*s/%s", (int)(slash - worker), worker, name);
	return access(p, X_OK) == 0 ? p : NULL;
}

static inline bool boot_can(void)
{
	return boot_program("honed") && boot_program("hone") && boot_program("hone-worker");
}

/* honed and its children write to the board's log. honed leads a session, as a service does, so that the
 * kernel ends its stopped jobs when it is killed. Otherwise a candidate's process that was stopped before it
 * could ask to end with its worker (PR_SET_PDEATHSIG) would remain. */
static inline void boot_child(const struct boot *b, const char *honed, const char *mode)
{
	const char *hone = boot_program("hone");
	int log = open(boot_path(b, "log"), O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (log < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0 || setsid() < 0)
		_exit(120);
	prctl(PR_SET_PDEATHSIG, SIGTERM); /* ^C does not reach the new session */
	setenv("NOTIFY_SOCKET", boot_path(b, "notify"), 1);
	setenv("HONE_SEEDS", getenv("HONE_SEEDS") ? getenv("HONE_SEEDS") : "", 1);
	setenv("HONE_SOCKET", boot_path(b, "run/honed.sock"), 1);
	setenv("HONE_WORKER", boot_program("hone-worker"), 1);
	unsetenv("WATCHDOG_USEC");
	execl(honed, "honed", "--config", boot_path(b, "honed.conf"), "--state", boot_path(b, "state"),
	      "--run", boot_path(b, "run"), "--sysroot", boot_path(b, "sys"), "--hone", hone, mode, NULL);
	_exit(121);
}

/* Starts honed; mode: "--boot", or NULL for resident. */
static inline void boot_start(struct boot *b, const char *mode)
{
	buf_clear(&b->said);
	const char *honed = boot_program("honed");
	fflush(NULL);
	b->pid = fork();
	if (b->pid == 0)
		boot_child(b, honed, mode);
	CHECK(b->pid > 0);
}

static inline void boot_listen(struct boot *b)
{
	char text[4096];
	ssize_t n;
	while ((n = recv(b->notify_fd, text, sizeof text - 1, 0)) > 0) {
		text[n] = 0;
		buf_printf(&b->said, "%s\n", text);
	}
}

/* Returns honed's exit status, 1000 + a signal, or -1: it did not end within wait_s, and was killed. */
static inline int boot_wait(struct boot *b, double wait_s)
{
	int status;
	for (double until_s = test_now_s() + wait_s; test_now_s() < until_s; usleep(2000)) {
		boot_listen(b);
		if (waitpid(b->pid, &status, WNOHANG) == b->pid) {
			boot_listen(b);
			b->pid = 0;
			return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
		}
	}
	kill(b->pid, SIGKILL);
	waitpid(b->pid, &status, 0);
	b->pid = 0;
	return -1;
}

struct process {
	pid_t pid, parent;
	char name[32];
};

/* Lists the processes that are alive, without zombies. */
static inline int processes(struct process *out, int most)
{
	DIR *d = opendir("/proc");
	int n = 0;
	for (struct dirent *e; d && n < most && (e = readdir(d));) {
		char path[300], text[256] = "", state = 'Z';
		int pid = atoi(e->d_name), parent = 0;
		snprintf(path, sizeof path, "/proc/%d/stat", pid);
		FILE *f = pid > 0 ? fopen(path, "r") : NULL;
		if (!f)
			continue;
		const char *open = fgets(text, sizeof text, f) ? strchr(text, '(') : NULL,
			   *shut = strrchr(text, ')');
		fclose(f);
		if (!open || !shut || sscanf(shut + 1, " %c %d", &state, &parent) != 2 || state == 'Z')
			continue;
		out[n] = (struct process){pid, parent, ""};
		snprintf(out[n++].name, sizeof out->name, "%.*s", (int)(shut - open - 1), open + 1);
	}
	if (d)
		closedir(d);
	return n;
}

static inline bool is_below(const struct process *all, int n, pid_t pid, pid_t top)
{
	for (int depth = 0; depth < 32 && pid > 1; depth++) {
		if (pid == top)
			return true;
		int i = 0;
		while (i < n && all[i].pid != pid)
			i++;
		pid = i < n ? all[i].parent : 0;
	}
	return false;
}

/* Lists the processes below `top`, without itself. */
static inline int boot_below(pid_t top, struct process *out, int most)
{
	static struct process all[4096];
	int n = processes(all, 4096), found = 0;
	for (int i = 0; i < n && found < most; i++)
		if (all[i].pid != top && is_below(all, n, all[i].parent, top))
			out[found++] = all[i];
	return found;
}

/* A process of that name below `top`; 0: none. */
static inline pid_t boot_find(pid_t top, const char *name)
{
	struct process p[64];
	int n = boot_below(top, p, 64);
	for (int i = 0; i < n; i++)
		if (!strcmp(p[i].name, name))
			return p[i].pid;
	return 0;
}

static inline pid_t boot_find_within(pid_t top, const char *name, double wait_s)
{
	pid_t pid = 0;
	for (double until_s = test_now_s() + wait_s; !pid && test_now_s() < until_s; usleep(5000))
		pid = boot_find(top, name);
	return pid;
}

static inline bool boot_log_says(const struct boot *b, const char *part)
{
	struct arena a = {0};
	struct blob log;
	bool says = file_read(&a, boot_path(b, "log"), 0, &log) >= 0 && strstr(log.p, part);
	arena_free(&a);
	return says;
}

#endif
