/* SPDX-License-Identifier: Apache-2.0 */
/* Workers behind a socket, as the service manager starts them: they are hired, lost, rest, and end with their
 * stream. */
#include "agent/worker/hire.h"
#include "agent/worker/runner_apart.h"
#include "agent/worker/wire_msg.h"
#include "platform/machine/target.h"
#include "tests/lib/kernel_cases.h"
#include "tests/lib/tasks.h"
#include "tests/lib/test.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static const char cand[] = "tile=x:3";

#ifdef __SANITIZE_ADDRESS__
static const bool sanitized = true;
#else
static const bool sanitized = false;
#endif

static const char *worker(void)
{
	const char *path = getenv("HONE_WORKER");
	return path && access(path, X_OK) == 0 ? path : NULL;
}

/* ---- what the service manager does with Accept=yes ---- */

struct manager {
	char dir[32], path[64];
	pid_t pid;
};

static void serve_one(int fd)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(fd, 0) == 0 && dup2(fd, 1) == 1)
		execl(worker(), worker(), "--serve", (char *)NULL);
	_exit(127);
}

/* Accepts `most` connections, or with -1 any number; closes further ones at once. */
static void manage(int listener, int most)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		int fd = accept(listener, NULL, NULL);
		if (fd >= 0 && most-- != 0 && fork() == 0)
			serve_one(fd);
		close(fd);
	}
}

static void manager_start(struct manager *m, int most)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	strcpy(m->dir, "/tmp/hone-hire-XXXXXX");
	if (!mkdtemp(m->dir))
		abort();
	snprintf(m->path, sizeof m->path, "%s/sock", m->dir);
	snprintf(a.sun_path, sizeof a.sun_path, "%s", m->path);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 8) < 0)
		abort();
	fflush(stdout);
	m->pid = fork();
	if (m->pid == 0)
		manage(fd, most);
	close(fd);
	setenv("HONE_WORKER_SOCKET", m->path, 1);
}

static void manager_stop(struct manager *m)
{
	kill(m->pid, SIGKILL);
	waitpid(m->pid, NULL, 0);
	unlink(m->path);
	rmdir(m->dir);
	unsetenv("HONE_WORKER_SOCKET");
}

static int64_t soon(void)
{
	return clock_now(&clock_real) + 20 * NS_PER_S;
}

static int open_cpu(int threads, struct runner **r)
{
	struct target t;
	int rc = target_host(&t);
	return rc < 0 ? rc : runner_worker(NULL, "cpu", &t, threads, r);
}

TEST(through_a_socket)
{
	struct manager manager;
	struct runner *r;
	struct meas m[2];
	int h[2];
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	manager_start(&manager, -1);
	REQUIRE_OK(open_cpu(1, &r));
	CHECK(strstr(r->emitter, "llvm"));
	REQUIRE_OK(runner_worker_builders(r, 1));
	CHECK(r->ops->ahead(r, task_conv, cand) >= AHEAD_RUNNING);
	REQUIRE_OK(r->ops->build(r, task_conv, cand, soon(), &h[0], &m[0]));
	REQUIRE_OK(r->ops->build(r, task_conv, "tile=x:2", soon(), &h[1], &m[1]));
	REQUIRE(h[0] >= 0 && h[1] >= 0);
	/* A builder that is building finishes before it is quiet. */
	CHECK(r->ops->ahead(r, task_conv, "tile=x:4") >= AHEAD_RUNNING);
	REQUIRE_OK(r->ops->time(r, h, 2, 5, 0, TIME_QUIET, soon(), m));
	CHECK(m[0].runs == 5 && m[1].runs == 5 && m[0].min_ns > 0);
	REQUIRE_OK(r->ops->build(r, task_conv, "tile=x:4", soon(), &h[1], &m[1]));
	CHECK(h[1] >= 0);
	r->ops->close(r);
	manager_stop(&manager);
}

static int worker_of(const struct manager *m)
{
	char path[64];
	int pid = -1;
	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)m->pid, (int)m->pid);
	FILE *f = fopen(path, "r");
	while (f && fscanf(f, "%d", &pid) == 1)
		;
	if (f)
		fclose(f);
	return pid;
}

/* The unit behind the socket may open no device. */
TEST(jobs_on_devices_are_children)
{
	struct manager manager;
	struct runner *r;
	const struct target t = case_gpu();
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	manager_start(&manager, -1);
	int rc = runner_worker(NULL, "opencl:0", &t, 1, &r);
	CHECK(worker_of(&manager) < 0);
	if (rc >= 0)
		r->ops->close(r);
	manager_stop(&manager);
	if (rc < 0)
		SKIP(err_text());
}

/* The worker is told what a child inherits from its parent: cpus, less those of the builders, priority,
 * memory limit. */
TEST(workers_are_placed_like_children)
{
	struct manager manager;
	struct runner *r;
	cpu_set_t mine, its;
	const struct rlimit much = {INT64_C(1) << 46 /* a sanitizer maps terabytes */, RLIM_INFINITY}, any = {RLIM_INFINITY, RLIM_INFINITY};
	struct rlimit limit;
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	manager_start(&manager, -1);
	REQUIRE(setrlimit(RLIMIT_DATA, &much) == 0);
	REQUIRE_OK(open_cpu(1, &r));
	int pid = worker_of(&manager);
	REQUIRE(pid > 0 && sched_getaffinity(0, sizeof mine, &mine) == 0 &&
		sched_getaffinity(pid, sizeof its, &its) == 0);
	CHECK(CPU_EQUAL(&mine, &its) && getpriority(PRIO_PROCESS, pid) >= getpriority(PRIO_PROCESS, 0));
	CHECK(prlimit(pid, RLIMIT_DATA, NULL, &limit) == 0 && (limit.rlim_cur <= much.rlim_cur || sanitized));
	REQUIRE_OK(runner_worker_builders(r, -1));
	CHECK(worker_of(&manager) == pid && sched_getaffinity(pid, sizeof its, &its) == 0);
	CHECK(CPU_COUNT(&mine) > 64 || CPU_COUNT(&its) == CPU_COUNT(&mine) - r->builders);
	r->ops->close(r);
	setrlimit(RLIMIT_DATA, &any);
	manager_stop(&manager);
}

/* When all workers must rest, their streams are closed, and so they end. Built candidates are lost; the next
 * worker is hired when workers need not rest any more. */
TEST(workers_behind_a_socket_rest_by_leaving)
{
	struct manager manager;
	struct runner *r;
	struct meas m;
	int h, k;
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	manager_start(&manager, -1);
	REQUIRE_OK(open_cpu(1, &r));
	REQUIRE_OK(r->ops->build(r, task_conv, cand, soon(), &h, &m));
	child_rest_all(true);
	CHECK_FAILS(r->ops->time(r, &h, 1, 1000000, 0, 0, soon(), &m), E_CHILD, "died");
	CHECK_FAILS(r->ops->build(r, task_conv, cand, clock_now(&clock_real) + 30 * NS_PER_MS, &k, &m),
		    E_TIMEOUT, "deadline");
	child_rest_all(false);
	REQUIRE_OK(r->ops->build(r, task_conv, cand, soon(), &k, &m));
	CHECK_FAILS(r->ops->time(r, &h, 1, 1, 0, 0, soon(), &m), E_CHILD, "lost");
	CHECK_OK(r->ops->time(r, &k, 1, 1, 0, 0, soon(), &m));
	r->ops->close(r);
	manager_stop(&manager);
}

/* A builder that must leave during a build, however often, is not to blame, and the job is built again. */
TEST(builders_rest_by_leaving)
{
	struct manager manager;
	struct runner *r;
	struct meas m;
	char next[32];
	int h;
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	manager_start(&manager, -1);
	REQUIRE_OK(open_cpu(1, &r));
	REQUIRE_OK(runner_worker_builders(r, 1));
	REQUIRE_OK(r->ops->build(r, task_conv, cand, soon(), &h, &m));
	for (int i = 0; i < 10; i++) {
		snprintf(next, sizeof next, "tile=x:%d", i % 4 + 4);
		CHECK(r->ops->ahead(r, task_conv, next) >= AHEAD_RUNNING);
		child_rest_all(true);
		child_rest_all(false);
		CHECK_FAILS(r->ops->time(r, &h, 1, 1, 0, 0, soon(), &m), E_CHILD, "died");
		REQUIRE_OK(r->ops->build(r, task_conv, next, soon(), &h, &m));
		CHECK(h >= 0 && m.status == MEAS_OK);
	}
	r->ops->close(r);
	manager_stop(&manager);
}

static int workers_of(const struct manager *m)
{
	char path[64];
	int n = 0, pid;
	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)m->pid, (int)m->pid);
	FILE *f = fopen(path, "r");
	while (f && fscanf(f, "%d", &pid) == 1)
		n++;
	if (f)
		fclose(f);
	return n;
}

/* A worker ends by itself soon after its stream has ended, but not at once. */
static bool workers_become(const struct manager *m, int want)
{
	for (int i = 0; i < 4000 && workers_of(m) != want; i++)
		clock_real.sleep(&clock_real, 5 * NS_PER_MS);
	return workers_of(m) == want;
}

static bool is_foreign(void *ctx, const char *task, const char *text)
{
	(void)ctx, (void)task;
	return !strcmp(text, "tile=x:4");
}

/* A stranger's candidate gets a second connection, which ends with it. A yield ends both; that is not the
 * candidate's fault, and it is built again. */
TEST(strangers_candidates_have_a_connection_of_their_own)
{
	const struct apart_ways ways = {.foreign = is_foreign,
					.hire = runner_worker_again,
					.emit = runner_worker_emit,
					.load = runner_worker_load,
					.rest = runner_worker_rest};
	struct manager manager;
	struct runner *r;
	struct meas m[2];
	int h[2];
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	manager_start(&manager, -1);
	REQUIRE_OK(open_cpu(1, &r));
	REQUIRE_OK(runner_apart(r, &ways, &r));
	REQUIRE_OK(r->ops->build(r, task_conv, cand, soon(), &h[0], &m[0]));
	CHECK(workers_become(&manager, 1));
	REQUIRE_OK(r->ops->build(r, task_conv, "tile=x:4", soon(), &h[1], &m[1]));
	REQUIRE(h[1] >= 0 && m[1].status == MEAS_OK);
	CHECK(workers_become(&manager, 2));
	CHECK_OK(r->ops->time(r, h, 2, 5, 0, TIME_QUIET, soon(), m));
	CHECK(m[0].runs == 5 && m[1].runs == 5 && m[1].min_ns > 0);
	child_rest_all(true);
	child_rest_all(false);
	CHECK_FAILS(r->ops->time(r, &h[1], 1, 5, 0, 0, soon(), m), E_CHILD, "died");
	REQUIRE_OK(r->ops->build(r, task_conv, "tile=x:4", soon(), &h[1], &m[1]));
	REQUIRE(h[1] >= 0 && m[1].status == MEAS_OK);
	r->ops->drop(r, h[1], soon());
	CHECK(workers_become(&manager, 1));
	r->ops->close(r);
	CHECK(workers_become(&manager, 0));
	manager_stop(&manager);
}

TEST(no_server_at_the_socket)
{
	struct manager manager;
	struct runner *r = NULL;
	struct hire h;
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	manager_start(&manager, 0);
	CHECK_FAILS(open_cpu(1, &r), E_CHILD, "hone-worker");
	manager_stop(&manager);
	setenv("HONE_WORKER_SOCKET", "/no/such/socket", 1);
	CHECK_FAILS(open_cpu(1, &r), E_NOTFOUND, "/no/such/socket");
	/* The socket was found, not named: children are allowed, too. */
	REQUIRE_OK(hire_find(&h, NULL));
	h.only_socket = false;
	struct child c;
	REQUIRE_OK(hire(&h, &clock_real, soon(), &c));
	CHECK(c.pid > 0 && !h.socket[0]);
	child_stop(&c, 0);
	/* An empty variable: a child. */
	setenv("HONE_WORKER_SOCKET", "", 1);
	REQUIRE_OK(open_cpu(1, &r));
	r->ops->close(r);
	/* A named program is started as a child, whatever the environment says. */
	setenv("HONE_WORKER_SOCKET", "/no/such/socket", 1);
	REQUIRE_OK(hire_find(&h, worker()));
	CHECK(!h.socket[0]);
	unsetenv("HONE_WORKER_SOCKET");
}

/* ---- the stream's end ---- */

static pid_t start_worker(int *fd)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0)
		serve_one(pair[1]);
	close(pair[1]);
	*fd = pair[0];
	return pid;
}

static int exchange(int fd, uint32_t type, struct buf *request, struct buf *reply)
{
	uint32_t got;
	int rc = wire_send(fd, &clock_real, soon(), type, request);
	buf_clear(request);
	if (rc >= 0)
		rc = wire_receive(fd, &clock_real, soon(), &got, reply);
	return rc;
}

static int build_conv(int fd, struct buf *b, struct buf *reply)
{
	struct wire_hello hello = {.device = "cpu", .threads = 2};
	int rc = target_host(&hello.target);
	wire_put_hello(b, &hello);
	if (rc >= 0)
		rc = exchange(fd, WIRE_HELLO, b, reply);
	buf_u64(b, (uint64_t)INT64_MAX);
	wire_put_str(b, task_conv);
	wire_put_str(b, cand);
	return rc < 0 ? rc : exchange(fd, WIRE_BUILD, b, reply);
}

/* The stream ends during a timing that would take minutes. */
TEST(a_worker_leaves_as_soon_as_its_stream_ends)
{
	struct buf b = {0}, reply = {0};
	int fd, how = -1;
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	pid_t pid = start_worker(&fd);
	REQUIRE_OK(build_conv(fd, &b, &reply));
	buf_u64(&b, (uint64_t)INT64_MAX);
	buf_u64(&b, 0);
	buf_u32(&b, 1000000);
	buf_u32(&b, 0);
	buf_u32(&b, 16);
	for (int i = 0; i < 16; i++)
		buf_u32(&b, 0); /* handle of the built candidate */
	REQUIRE_OK(wire_send(fd, &clock_real, soon(), WIRE_TIME, &b));
	clock_real.sleep(&clock_real, 50 * NS_PER_MS);
	CHECK(waitpid(pid, &how, WNOHANG) == 0);
	int64_t start = clock_now(&clock_real);
	shutdown(fd, SHUT_RDWR);
	while (waitpid(pid, &how, WNOHANG) == 0 && clock_now(&clock_real) < start + 20 * NS_PER_S)
		clock_real.sleep(&clock_real, NS_PER_MS / 4);
	int64_t took = clock_now(&clock_real) - start;
	if (getenv("TEST_TIMES"))
		printf("gone after %.1f ms\n", (double)took / 1e6);
	CHECK(took < 20 * NS_PER_S); /* the requested timing would take far longer */
	kill(pid, SIGKILL);
	CHECK(WIFEXITED(how) && WEXITSTATUS(how) == 0);
	close(fd);
	buf_free(&b);
	buf_free(&reply);
}

/* ---- HELLO from anybody ---- */

static int take(const void *p, size_t n, struct wire_hello *h)
{
	int fd[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) < 0 || send(fd[0], p, n, MSG_NOSIGNAL) != (ssize_t)n)
		abort();
	close(fd[0]);
	int rc = wire_take_hello(fd[1], h);
	close(fd[1]);
	return rc;
}

static void message(struct buf *out, uint32_t type, const struct buf *body)
{
	buf_clear(out);
	buf_u32(out, WIRE_MAGIC);
	buf_u32(out, type);
	buf_u32(out, (uint32_t)body->n);
	buf_add(out, buf_str(body), body->n);
}

TEST(hello_from_anybody)
{
	struct wire_hello good = {.device = "cpu", .threads = 3, .cpus = 5, .nice = 7, .memory_bytes = 99}, h;
	struct buf body = {0}, m = {0};
	REQUIRE_OK(target_host(&good.target));
	wire_put_hello(&body, &good);
	message(&m, WIRE_HELLO, &body);
	REQUIRE_OK(take(m.p, m.n, &h));
	CHECK(strcmp(h.device, "cpu") == 0 && h.threads == 3 && h.cpus == 5 && h.nice == 7 &&
	      h.memory_bytes == 99);
	CHECK(strcmp(h.target.isa, good.target.isa) == 0);
	for (size_t n = 0; n < m.n; n++)
		CHECK(take(m.p, n, &h) == E_CHILD);
	for (size_t i = 0; i < 8 * m.n; i++) {
		m.p[i / 8] ^= (char)(1 << i % 8);
		int rc = take(m.p, m.n, &h);
		CHECK(rc < 0 || (h.threads >= 1 && h.threads <= 256 && h.nice >= 0 && h.nice <= 20 &&
				 memchr(h.device, 0, sizeof h.device)));
		m.p[i / 8] ^= (char)(1 << i % 8);
	}
	message(&m, WIRE_EMIT, &body);
	CHECK_FAILS(take(m.p, m.n, &h), E_CORRUPT, "HELLO");
	static const int threads[] = {0, -1, 257, 1 << 30};
	for (int i = 0; i < 4; i++) {
		good.threads = threads[i];
		buf_clear(&body);
		wire_put_hello(&body, &good);
		message(&m, WIRE_HELLO, &body);
		CHECK_FAILS(take(m.p, m.n, &h), E_CORRUPT, "threads");
	}
	buf_free(&body);
	buf_free(&m);
}

TEST_MAIN
