/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/run/child.h"

#include "platform/base/until.h"
#include "platform/run/patience.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* Children that child_rest_all can stop; further ones are not stopped. */
enum { LIVING = 64 };
static _Atomic pid_t living[LIVING];
static atomic_bool resting;
static atomic_int rests;

static void remember(pid_t pid)
{
	bool kept = false;
	for (int i = 0; i < LIVING && !kept; i++)
		kept = atomic_compare_exchange_strong(&living[i], &(pid_t){0}, pid);
	if (kept && atomic_load(&resting)) /* child_rest_all wakes those alone that it knows */
		kill(pid, SIGSTOP);
}

static void forget(pid_t pid)
{
	for (int i = 0; i < LIVING; i++)
		if (atomic_compare_exchange_strong(&living[i], &(pid_t){pid}, 0))
			break;
}

/* Streams to workers that we may not signal. The lock makes sure that none is shut down after it was
 * closed. */
enum { STREAMS = 32 };
static pthread_mutex_t stream_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	int fd;
	bool ended;
} stream[STREAMS];
static int nstreams;

/* false: all children rest, or there are too many streams. */
static bool remember_stream(int fd)
{
	pthread_mutex_lock(&stream_lock);
	bool good = !atomic_load(&resting) && nstreams < STREAMS;
	if (good)
		stream[nstreams++].fd = fd;
	pthread_mutex_unlock(&stream_lock);
	return good;
}

static void forget_stream(int fd)
{
	pthread_mutex_lock(&stream_lock);
	for (int i = 0; i < nstreams; i++)
		if (stream[i].fd == fd) {
			stream[i--] = stream[--nstreams];
			stream[nstreams].ended = false;
		}
	pthread_mutex_unlock(&stream_lock);
}

bool child_has_streams(void)
{
	pthread_mutex_lock(&stream_lock);
	bool any = nstreams > 0;
	pthread_mutex_unlock(&stream_lock);
	return any;
}

static void end_streams(void)
{
	pthread_mutex_lock(&stream_lock);
	for (int i = 0; i < nstreams; i++) {
		shutdown(stream[i].fd, SHUT_RDWR);
		stream[i].ended = true;
	}
	pthread_mutex_unlock(&stream_lock);
}

bool child_let_go(const struct child *c)
{
	bool gone = atomic_load(&resting);
	pthread_mutex_lock(&stream_lock);
	for (int i = 0; i < nstreams; i++)
		gone = gone || (stream[i].fd == c->in && stream[i].ended);
	pthread_mutex_unlock(&stream_lock);
	return gone;
}

void child_rest_all(bool rest)
{
	atomic_store(&resting, rest);
	if (rest) {
		atomic_fetch_add(&rests, 1);
		end_streams();
	}
	for (int i = 0; i < LIVING; i++) {
		pid_t pid = atomic_load(&living[i]);
		if (pid > 0)
			kill(pid, rest ? SIGSTOP : SIGCONT);
	}
}

int child_rests(void)
{
	return atomic_load(&rests);
}

static int limit(int what, int64_t most)
{
	struct rlimit l = {.rlim_cur = (rlim_t)most, .rlim_max = (rlim_t)most};
	return most > 0 ? setrlimit(what, &l) : 0;
}

/* Closes descriptors from 4 on; 3 is the status pipe, which exec closes. Old kernels have no close_range. */
static void close_from(int first)
{
	if (syscall(SYS_close_range, (unsigned)first, ~0u, 0) == 0)
		return;
	long most = sysconf(_SC_OPEN_MAX);
	for (int fd = first; fd < (most > 0 && most < 65536 ? (int)most : 65536); fd++)
		close(fd);
}

/* Moves a descriptor above those that the child needs. */
static int aside(int fd)
{
	return fcntl(fd, F_DUPFD, 16);
}

/* Runs in the child: only calls that are safe after fork. Sends errno through `status` if exec of argv
 * fails. */
static void become(char *const argv[], int in, int out, int status, const struct child_limits *lim,
		   pid_t parent)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGINT, SIG_IGN); /* ^C is for the parent, which then stops its children in order */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	in = aside(in);
	out = aside(out);
	status = aside(status);
	int said = fileno(stderr);
	bool good = getppid() == parent && in >= 0 && out >= 0 && status >= 0 && dup2(in, 0) == 0 &&
		    dup2(out, 1) == 1 && (said == 2 || dup2(said, 2) == 2) && dup2(status, 3) == 3;
	if (good) {
		close_from(4);
		status = 3;
		good = fcntl(3, F_SETFD, FD_CLOEXEC) == 0;
	}
	if (good && lim)
		good = limit(RLIMIT_AS, lim->memory_bytes) == 0 && limit(RLIMIT_CPU, lim->cpu_s) == 0;
	if (good)
		execv(argv[0], argv);
	int err = errno;
	(void)!write(status, &err, sizeof err);
	_exit(127);
}

static void close_all(int *fd, int n)
{
	for (int i = 0; i < n; i++)
		if (fd[i] >= 0)
			close(fd[i]);
}

int child_start(struct child *c, char *const argv[], const struct child_limits *lim)
{
	int fd[6] = {-1, -1, -1, -1, -1, -1}; /* to child, from child, status: read end, write end */
	*c = (struct child){.pid = 0, .in = -1, .out = -1};
	for (int i = 0; i < 6; i += 2) {
		if (pipe2(fd + i, O_CLOEXEC) < 0) {
			int rc =
			    fail(E_IO, "cannot start %s: cannot make a pipe: %s", argv[0], strerror(errno));
			close_all(fd, 6);
			return rc;
		}
	}
	pid_t parent = getpid(), pid = fork();
	if (pid < 0) {
		int rc = fail(E_IO, "cannot start %s: %s; free some memory or processes", argv[0],
			      strerror(errno));
		close_all(fd, 6);
		return rc;
	}
	if (pid == 0)
		become(argv, fd[0], fd[3], fd[5], lim, parent);
	close_all((int[]){fd[0], fd[3], fd[5]}, 3);
	int err = 0;
	ssize_t n;
	while ((n = read(fd[4], &err, sizeof err)) < 0 && errno == EINTR)
		;
	close(fd[4]);
	/* Our ends never block: a peer that stops reading must not hold us beyond a deadline. */
	fcntl(fd[1], F_SETFL, O_NONBLOCK);
	fcntl(fd[2], F_SETFL, O_NONBLOCK);
	*c = (struct child){.pid = pid, .in = fd[1], .out = fd[2]};
	if (n == 0) {
		remember(pid);
		return E_OK;
	}
	(void)child_stop(c, 0);
	return fail(err == ENOENT ? E_NOTFOUND : E_IO, "cannot start %s: %s", argv[0], strerror(err));
}

/* Waits for a slice at most, because the clock may not be the one that poll uses. 1: fd is ready. */
static int poll_slice(int fd, short events, int64_t left_ns)
{
	int64_t ns = left_ns < PATIENCE_SLICE_NS ? left_ns : PATIENCE_SLICE_NS;
	struct pollfd p = {.fd = fd, .events = events};
	int n = poll(&p, 1, (int)((ns + NS_PER_MS - 1) / NS_PER_MS));
	if (n < 0 && errno != EINTR)
		return fail(E_IO, "cannot wait for a pipe: %s", strerror(errno));
	return n > 0;
}

static _Atomic int64_t stood_ns;

void child_waited(int64_t ns)
{
	if (ns > PATIENCE_SLICE_NS + PATIENCE_LATE_NS)
		atomic_fetch_add(&stood_ns, ns);
}

int64_t child_stood_ns(void)
{
	return atomic_load(&stood_ns);
}

static int wait_ready(int fd, short events, struct clock *clock, int64_t deadline_ns, int64_t stop_ns)
{
	int64_t now_ns = clock_now(clock);
	struct patience p = patience_until(now_ns, deadline_ns);
	int rc = 0;
	while (rc == 0) {
		int64_t left_ns = deadline_ns == INT64_MAX ? INT64_MAX : deadline_ns - now_ns;
		bool more = patience_left(&p, now_ns) > 0; /* also where it was stopped meanwhile */
		p.end_ns = deadline_ns;
		if (left_ns <= 0 && !more)
			return fail(E_TIMEOUT, "no %s before the deadline",
				    events == POLLIN ? "answer" : "reader");
		int64_t since_ns = now_ns;
		rc = poll_slice(fd, events, left_ns > 0 ? left_ns : PATIENCE_SLICE_NS);
		now_ns = clock_now(clock);
		child_waited(now_ns - since_ns);
		if (rc == 0 && stop_ns != INT64_MAX)
			rc = until_stopped(stop_ns);
	}
	return rc < 0 ? rc : E_OK;
}

int fd_await(int fd, struct clock *clock, int64_t deadline_ns, int64_t stop_ns)
{
	return wait_ready(fd, POLLIN, clock, deadline_ns, stop_ns);
}

static bool again(int err)
{
	return err == EINTR || err == EAGAIN || err == EWOULDBLOCK;
}

int fd_read_full(int fd, void *p, size_t n, struct clock *clock, int64_t deadline_ns)
{
	for (size_t at = 0; at < n;) {
		int rc = wait_ready(fd, POLLIN, clock, deadline_ns, INT64_MAX);
		if (rc < 0)
			return rc;
		ssize_t got = read(fd, (char *)p + at, n - at);
		if (got < 0 && again(errno))
			continue;
		if (got < 0 && errno != ECONNRESET)
			return fail(E_IO, "cannot read from a pipe: %s", strerror(errno));
		if (got <= 0)
			return fail(E_CHILD, "the other side closed its pipe");
		at += (size_t)got;
	}
	return E_OK;
}

/* write() that discards its SIGPIPE, if any, before the process gets it. */
static ssize_t write_quiet(int fd, const void *p, size_t n)
{
	sigset_t sigpipe, pending, old;
	sigemptyset(&sigpipe);
	sigaddset(&sigpipe, SIGPIPE);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &sigpipe, &old);
	ssize_t put = write(fd, p, n);
	int err = errno;
	if (put < 0 && err == EPIPE && !sigismember(&pending, SIGPIPE))
		sigtimedwait(&sigpipe, NULL, &(struct timespec){0});
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = err;
	return put;
}

/* Writes at most PIPE_BUF bytes at once: a ready pipe takes that much without blocking, whatever its mode. */
int fd_write_full(int fd, const void *p, size_t n, struct clock *clock, int64_t deadline_ns)
{
	for (size_t at = 0; at < n;) {
		int rc = wait_ready(fd, POLLOUT, clock, deadline_ns, INT64_MAX);
		if (rc < 0)
			return rc;
		ssize_t put = write_quiet(fd, (const char *)p + at, n - at < PIPE_BUF ? n - at : PIPE_BUF);
		if (put < 0 && again(errno))
			continue;
		if (put < 0 && (errno == EPIPE || errno == ECONNRESET))
			return fail(E_CHILD, "the other side closed its pipe");
		if (put < 0)
			return fail(E_IO, "cannot write to a pipe: %s", strerror(errno));
		at += (size_t)put;
	}
	return E_OK;
}

static int connect_once(const char *path, int *out)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof a.sun_path)
		return fail(E_USAGE, "%s: a socket's path has at most %zu bytes", path,
			    sizeof a.sun_path - 1);
	memcpy(a.sun_path, path, strlen(path));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0) {
		*out = fd;
		return E_OK;
	}
	int err = errno;
	if (fd >= 0)
		close(fd);
	if (again(err)) /* as many wait as may */
		return E_BUSY;
	return fail(err == ENOENT || err == ECONNREFUSED ? E_NOTFOUND : E_IO, "cannot connect to %s: %s",
		    path, strerror(err));
}

int child_connect(struct child *c, const char *path, struct clock *clock, int64_t deadline_ns)
{
	int fd = -1, rc;
	*c = (struct child){.pid = 0, .in = -1, .out = -1};
	while (atomic_load(&resting) || (rc = connect_once(path, &fd)) == E_BUSY) {
		if (clock_now(clock) >= deadline_ns)
			return fail(E_TIMEOUT, "no connection to %s before the deadline", path);
		clock_real.sleep(&clock_real, 2 * NS_PER_MS);
	}
	if (rc < 0)
		return rc;
	int other = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (other >= 0 && remember_stream(fd)) {
		*c = (struct child){.in = fd, .out = other};
		return E_OK;
	}
	close_all((int[]){fd, other}, 2);
	return fail(E_CHILD,
		    "the connection to %s was closed at once, since this process is stopping its workers",
		    path);
}

int child_stop(struct child *c, int64_t grace_ns)
{
	if (c->pid <= 0 && c->in >= 0)
		forget_stream(c->in);
	close_all((int[]){c->in, c->out}, 2);
	c->in = c->out = -1;
	if (c->pid <= 0)
		return 0;
	int status = 0;
	forget(c->pid); /* before the process number is used again */
	int64_t end = clock_now(&clock_real) + grace_ns, pause = 100 * NS_PER_US;
	pid_t got;
	while ((got = waitpid(c->pid, &status, WNOHANG)) == 0 && clock_now(&clock_real) < end) {
		clock_real.sleep(&clock_real, pause);
		pause = pause < 5 * NS_PER_MS ? pause * 2 : pause;
	}
	if (got == 0) {
		kill(c->pid, SIGKILL);
		while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	c->pid = 0;
	return status;
}
