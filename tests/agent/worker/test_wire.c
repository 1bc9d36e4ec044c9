/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of the worker's stream. This binary is its own worker: started with --serve it serves the
 * simulator, or misbehaves as HONE_TEST_WORKER says. */
#include "agent/worker/wire.h"
#include "agent/worker/wire_msg.h"
#include "kernels/emit/emit.h"
#include "kernels/space/space.h"
#include "platform/run/dev_sim.h"
#include "tests/lib/tasks.h"
#include "tests/lib/test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern const struct emit emit_sim;

static struct runner *open_sim(void)
{
	struct target t;
	struct runner *r = NULL;
	dev_sim_reset(0, 1, 0);
	if (dev_sim.probe(&t) != 1 || (t.regs = 64, runner_local(&dev_sim, 0, &emit_sim, &t, 1, false, &r)) < 0)
		abort();
	return r;
}

static const struct runner_ops *honest;

static void hang(void)
{
	for (;;)
		pause();
}

#define LATE_NS (50 * NS_PER_MS)

static bool mute; /* does not answer requests for code any more */

static int bad_code(struct runner *r, int handle, int64_t deadline_ns, struct arena *a, struct blob *out)
{
	if (mute)
		hang();
	return honest->code(r, handle, deadline_ns, a, out);
}

static void bad_drop(struct runner *r, int handle, int64_t deadline_ns)
{
	if (mute)
		hang();
	honest->drop(r, handle, deadline_ns);
}

static int bad_build(struct runner *r, const char *task, const char *cand, int64_t deadline_ns, int *handle,
		     struct meas *m)
{
	if (strcmp(cand, "die") == 0)
		_exit(3);
	if (strcmp(cand, "hang") == 0)
		hang();
	if (strcmp(cand, "stuck") == 0) {
		*handle = -1;
		*m = (struct meas){.status = MEAS_TIMEOUT, .threads = 1};
		return E_OK;
	}
	if (strcmp(cand, "late") == 0)
		clock_real.sleep(&clock_real, LATE_NS);
	if (strcmp(cand, "late") == 0)
		return fail(E_TIMEOUT, "the deadline came");
	mute = strcmp(cand, "mute") == 0;
	if (strcmp(cand, "rubbish") == 0)
		for (int i = 0; i < 100; i++)
			(void)!write(1, "rubbish ", 8);
	return honest->build(r, task, cand, deadline_ns, handle, m);
}

/* A builder that misbehaves at its first request as told. */
static void be_a_bad_builder(const char *how)
{
	struct buf b = {0};
	uint32_t type;
	if (strcmp(how, "builder shuts the door") == 0)
		_exit(wire_refuse(fail(E_BUSY, "not now"), 1) < 0);
	buf_u32(&b, 0);
	wire_put_str(&b, "sim/1");
	if (wire_send(1, &clock_real, INT64_MAX, WIRE_HELLO | WIRE_REPLY, &b) < 0 ||
	    wire_receive(0, &clock_real, INT64_MAX, &type, &b) < 0 || type != WIRE_EMIT)
		_exit(0);
	if (strcmp(how, "builder dies") == 0)
		_exit(3);
	if (strcmp(how, "builder hangs") == 0)
		hang();
	buf_clear(&b);
	buf_u32(&b, strcmp(how, "builder refuses") == 0 ? (uint32_t)E_NOMEM : 0);
	for (int i = 0; i < 30; i++)
		buf_u32(&b, 7);
	(void)!wire_send(1, &clock_real, INT64_MAX, type | WIRE_REPLY, &b);
	hang();
}

/* Runs before main, so that a process started as a worker never runs tests. */
__attribute__((constructor(65535))) static void be_a_worker(int argc, char **argv)
{
	if (argc < 2 || strcmp(argv[1], "--serve") != 0)
		return;
	const char *how = getenv("HONE_TEST_WORKER");
	struct wire_hello hello;
	if (wire_take_hello(0, &hello) < 0)
		_exit(2);
	if (how && strcmp(how, "refuse") == 0) {
		(void)!wire_refuse(fail(E_UNSUPPORTED, "no such thing here"), 1);
		_exit(1);
	}
	if (how && strncmp(how, "builder ", 8) == 0)
		be_a_bad_builder(how);
	struct runner *r = open_sim();
	honest = r->ops;
	struct runner_ops ops = *honest;
	ops.build = bad_build;
	ops.code = bad_code;
	ops.drop = bad_drop;
	r->ops = &ops;
	_exit(wire_serve(r, 0, 1) < 0);
}

static const char conv_cand[] = "tile=x:3";

static struct runner *open_worker_for(const char *path, const char *device)
{
	struct target t;
	struct runner *r = NULL;
	if (dev_sim.probe(&t) != 1 || runner_worker(path, device, &t, 1, &r) < 0) {
		printf("no worker: %s\n", err_text());
		exit(1);
	}
	return r;
}

static struct runner *open_worker_at(const char *path)
{
	return open_worker_for(path, "sim");
}

static void find_self(char self[512])
{
	ssize_t n = readlink("/proc/self/exe", self, 511);
	self[n > 0 ? n : 0] = 0;
}

static struct runner *open_worker(void)
{
	char self[512];
	find_self(self);
	return open_worker_at(self);
}

static int64_t soon(void)
{
	return clock_now(&clock_real) + 20 * NS_PER_S;
}

TEST(same_as_in_process)
{
	struct runner *far = open_worker(), *near = open_sim();
	struct arena a = {0};
	struct meas m, n;
	struct blob p, q;
	int h, k;
	REQUIRE_OK(far->ops->build(far, task_conv, conv_cand, soon(), &h, &m));
	REQUIRE_OK(near->ops->build(near, task_conv, conv_cand, INT64_MAX, &k, &n));
	REQUIRE(h >= 0 && k >= 0 && m.status == MEAS_OK);
	/* max_rel_err may differ, because the number of compared points depends on the real clock. */
	CHECK(m.max_rel_err < 1e-5 && n.max_rel_err < 1e-5 && m.build_ns == n.build_ns && m.threads == 1);
	REQUIRE_OK(far->ops->code(far, h, INT64_MAX, &a, &p));
	REQUIRE_OK(near->ops->code(near, k, INT64_MAX, &a, &q));
	CHECK(p.n == q.n && memcmp(p.p, q.p, p.n) == 0);
	REQUIRE_OK(far->ops->time(far, &h, 1, 5, 0, 0, soon(), &m));
	REQUIRE_OK(near->ops->time(near, &k, 1, 5, 0, 0, INT64_MAX, &n));
	CHECK(m.median_ns == n.median_ns && m.runs == 5);
	/* Failures as data and errors arrive unchanged. */
	REQUIRE_OK(far->ops->build(far, task_conv, "nonsense", soon(), &k, &m));
	CHECK(k == -1 && m.status == MEAS_INFEASIBLE);
	CHECK_FAILS(far->ops->build(far, "no task", "x", soon(), &k, &m), E_CORRUPT, "task");
	far->ops->drop(far, h, INT64_MAX);
	CHECK_FAILS(far->ops->time(far, &h, 1, 5, 0, 0, soon(), &m), E_USAGE, "handle");
	far->ops->drop(far, -1, INT64_MAX);
	far->ops->close(far);
	near->ops->close(near);
	arena_free(&a);
}

TEST(dead_worker_is_replaced)
{
	struct runner *r = open_worker();
	struct meas m;
	int h, k;
	REQUIRE_OK(r->ops->build(r, task_conv, conv_cand, soon(), &h, &m));
	CHECK_FAILS(r->ops->build(r, task_conv, "die", soon(), &k, &m), E_CHILD, "died");
	CHECK(k == -1);
	CHECK_FAILS(r->ops->time(r, &h, 1, 1, 0, 0, soon(), &m), E_CHILD, "lost");
	REQUIRE_OK(r->ops->build(r, task_conv, conv_cand, soon(), &k, &m));
	CHECK(k >= 0 && k != h);
	CHECK_OK(r->ops->time(r, &k, 1, 1, 0, 0, soon(), &m));
	CHECK_FAILS(r->ops->time(r, &h, 1, 1, 0, 0, soon(), &m), E_CHILD, "lost");
	r->ops->drop(r, h, INT64_MAX);
	r->ops->close(r);
}

TEST(hung_worker_is_stopped_at_the_deadline)
{
	struct runner *r = open_worker();
	struct meas m;
	int h;
	int64_t start = clock_now(&clock_real);
	CHECK_FAILS(r->ops->build(r, task_conv, "hang", start + 50 * NS_PER_MS, &h, &m), E_TIMEOUT,
		    "stopped");
	CHECK(clock_now(&clock_real) - start >= 50 * NS_PER_MS);
	CHECK_FAILS(r->ops->build(r, task_conv, conv_cand, start, &h, &m), E_TIMEOUT, "deadline");
	CHECK_OK(r->ops->build(r, task_conv, conv_cand, soon(), &h, &m));
	r->ops->close(r);
}

/* A candidate that hangs on a device with a driver loses the device (its worker is the simulator's here): the
 * worker is replaced, and the caller learns that its other handles are gone. */
TEST(worker_whose_device_is_lost_is_replaced)
{
	static const char *const hung[] = {"stuck", "late"};
	char self[512];
	find_self(self);
	struct runner *r = open_worker_for(self, "opencl:0");
	struct meas m;
	int h, k;
	for (int i = 0; i < 2; i++) {
		REQUIRE_OK(r->ops->build(r, task_conv, conv_cand, soon(), &h, &m));
		CHECK_FAILS(r->ops->build(r, task_conv, hung[i], soon(), &k, &m), E_TIMEOUT, "");
		CHECK(k == -1);
		CHECK_FAILS(r->ops->time(r, &h, 1, 1, 0, 0, soon(), &m), E_CHILD, "lost");
		REQUIRE_OK(r->ops->build(r, task_conv, conv_cand, soon(), &k, &m));
		CHECK_OK(r->ops->time(r, &k, 1, 1, 0, 0, soon(), &m));
	}
	/* Without a deadline, the candidate's failure is data. */
	CHECK_OK(r->ops->build(r, task_conv, "stuck", INT64_MAX, &k, &m));
	CHECK(k == -1 && m.status == MEAS_TIMEOUT);
	/* At the caller's deadline the worker stays and hands over its code. */
	struct arena a = {0};
	struct blob b;
	bool stays = false;
	for (int i = 0; i < 50 && !stays; i++) { /* a busy machine may let the answer come too late */
		REQUIRE_OK(r->ops->build(r, task_conv, conv_cand, soon(), &h, &m));
		int64_t end_ns = clock_now(&clock_real) + LATE_NS - 2 * NS_PER_MS;
		CHECK_FAILS(r->ops->build(r, task_conv, "late", end_ns, &k, &m), E_TIMEOUT, "");
		stays = r->ops->code(r, h, soon(), &a, &b) >= 0;
	}
	CHECK(stays);
	r->ops->close(r);
	arena_free(&a);
	/* On a processor, candidates run in processes of their own: nothing is lost. */
	r = open_worker();
	REQUIRE_OK(r->ops->build(r, task_conv, conv_cand, soon(), &h, &m));
	CHECK_OK(r->ops->build(r, task_conv, "stuck", soon(), &k, &m));
	CHECK_FAILS(r->ops->build(r, task_conv, "late", soon(), &k, &m), E_TIMEOUT, "deadline");
	CHECK_OK(r->ops->time(r, &h, 1, 1, 0, 0, soon(), &m));
	r->ops->close(r);
}

/* Fetching code, too, ends at its own deadline, long before the time that a worker may take to start. */
TEST(handing_over_ends_at_the_deadline)
{
	struct runner *r = open_worker();
	struct arena a = {0};
	struct blob b;
	struct meas m;
	int h, k;
	for (int drop = 0; drop < 2; drop++) {
		REQUIRE_OK(r->ops->build(r, task_conv, conv_cand, soon(), &h, &m));
		REQUIRE_OK(r->ops->build(r, task_conv, "mute", soon(), &k, &m));
		int64_t start = clock_now(&clock_real), deadline = start + 50 * NS_PER_MS;
		if (drop)
			r->ops->drop(r, h, deadline);
		else
			CHECK_FAILS(r->ops->code(r, h, deadline, &a, &b), E_TIMEOUT, "stopped");
		CHECK(clock_now(&clock_real) - start < 5 * NS_PER_S);
		CHECK_FAILS(r->ops->code(r, h, soon(), &a, &b), E_CHILD, "lost");
	}
	r->ops->close(r);
	arena_free(&a);
}

static enum ahead wait_done(struct runner *r, const char *cand)
{
	enum ahead a;
	int64_t end = soon();
	while ((a = r->ops->progress(r, task_conv, cand)) == AHEAD_RUNNING && clock_now(&clock_real) < end)
		clock_real.sleep(&clock_real, NS_PER_MS);
	return a;
}

TEST(builds_ahead)
{
	static const char *const cands[] = {conv_cand, "tile=x:2", "nonsense", "tile=x:4"};
	struct runner *r = open_worker(), *near = open_sim();
	struct arena a = {0};
	struct meas m, n;
	struct blob p, q;
	int h[4], k;
	CHECK(r->builders == 0 && r->ops->ahead(r, task_conv, conv_cand) == AHEAD_NOT);
	CHECK_FAILS(runner_worker_builders(r, 1000), E_USAGE, "at most");
	REQUIRE_OK(runner_worker_builders(r, 1));
	REQUIRE(r->builders == 1);
	CHECK(r->ops->progress(r, task_conv, conv_cand) == AHEAD_NOT);
	CHECK(r->ops->ahead(r, task_conv, conv_cand) >= AHEAD_RUNNING);
	CHECK(r->ops->ahead(r, "no task", "x") >= AHEAD_QUEUED);
	for (int i = 1; i < 4; i++)
		CHECK(r->ops->ahead(r, task_conv, cands[i]) >= AHEAD_QUEUED);
	CHECK(r->ops->ahead(r, task_conv, conv_cand) >= AHEAD_RUNNING); /* not begun twice */
	CHECK(wait_done(r, conv_cand) == AHEAD_DONE);
	for (int i = 0; i < 4; i++)
		REQUIRE_OK(r->ops->build(r, task_conv, cands[i], soon(), &h[i], &m));
	CHECK(h[0] >= 0 && h[1] >= 0 && h[2] == -1 && h[3] >= 0);
	for (int i = 0; i < 4; i++)
		CHECK(r->ops->progress(r, task_conv, cands[i]) == AHEAD_NOT);
	/* The code is the same as without builders. */
	REQUIRE_OK(near->ops->build(near, task_conv, conv_cand, INT64_MAX, &k, &n));
	REQUIRE_OK(r->ops->code(r, h[0], INT64_MAX, &a, &p));
	REQUIRE_OK(near->ops->code(near, k, INT64_MAX, &a, &q));
	CHECK(p.n == q.n && memcmp(p.p, q.p, p.n) == 0);
	REQUIRE_OK(r->ops->time(r, h, 1, 5, 0, TIME_QUIET, soon(), &m));
	REQUIRE_OK(near->ops->time(near, &k, 1, 5, 0, 0, INT64_MAX, &n));
	CHECK(m.median_ns == n.median_ns);
	/* A request that a builder refuses gives the usual error. */
	CHECK_FAILS(r->ops->build(r, "no task", "x", soon(), &k, &m), E_CORRUPT, "task");
	/* More jobs than there are slots. */
	for (int i = 0; i < 200; i++) {
		char cand[32];
		snprintf(cand, sizeof cand, "nonsense %d", i);
		(void)r->ops->ahead(r, task_conv, cand);
	}
	CHECK(r->ops->ahead(r, task_conv, conv_cand) >= AHEAD_NOT);
	r->ops->drop(r, -1, INT64_MAX);
	CHECK(r->ops->progress(r, task_conv, "nonsense 0") == AHEAD_NOT);
	CHECK(r->ops->ahead(r, task_conv, conv_cand) >= AHEAD_RUNNING);
	r->ops->close(r); /* while a job is under way */
	near->ops->close(near);
	arena_free(&a);
}

/* The dead worker's handles are lost, but results of builders are not. */
TEST(builders_outlive_the_worker)
{
	struct runner *r = open_worker();
	struct meas m;
	int h, k;
	REQUIRE_OK(runner_worker_builders(r, 2));
	REQUIRE_OK(r->ops->build(r, task_conv, "tile=x:2", soon(), &h, &m));
	CHECK(r->ops->ahead(r, task_conv, conv_cand) >= AHEAD_RUNNING);
	CHECK_FAILS(r->ops->build(r, task_conv, "die", soon(), &k, &m), E_CHILD, "died");
	REQUIRE_OK(r->ops->build(r, task_conv, conv_cand, soon(), &k, &m));
	CHECK(k >= 0 && m.status == MEAS_OK);
	CHECK_FAILS(r->ops->time(r, &h, 1, 1, 0, 0, soon(), &m), E_CHILD, "lost");
	CHECK_OK(r->ops->time(r, &k, 1, 1, 0, TIME_QUIET, soon(), &m));
	r->ops->close(r);
}

/* A bad builder costs its job at worst. */
TEST(bad_builders)
{
	static const char *const ways[] = {"builder dies", "builder talks nonsense", "builder refuses",
					   "builder shuts the door", "builder hangs"};
	for (int i = 0; i < 5; i++) {
		struct runner *r = open_worker();
		struct meas m;
		int h;
		REQUIRE_OK(runner_worker_builders(r, 1));
		setenv("HONE_TEST_WORKER", ways[i], 1);
		CHECK(r->ops->ahead(r, task_conv, conv_cand) >= AHEAD_RUNNING);
		int64_t start = clock_now(&clock_real), deadline = start + 60 * NS_PER_MS;
		if (i < 4) {
			REQUIRE_OK(r->ops->build(r, task_conv, conv_cand, soon(), &h, &m));
			CHECK(i < 2 ? h == -1 && m.status == MEAS_CRASH : h >= 0 && m.status == MEAS_OK);
		} else {
			CHECK_FAILS(r->ops->build(r, task_conv, conv_cand, deadline, &h, &m), E_TIMEOUT,
				    "deadline");
			CHECK(clock_now(&clock_real) >= deadline);
		}
		/* After eight deaths nothing is built ahead any more; building goes on. */
		for (int k = 0; k < 12 && i == 0; k++) {
			if (r->ops->ahead(r, task_conv, "tile=x:2") == AHEAD_NOT)
				break;
			CHECK(k < 8);
			REQUIRE_OK(r->ops->build(r, task_conv, "tile=x:2", soon(), &h, &m));
		}
		unsetenv("HONE_TEST_WORKER");
		CHECK_OK(r->ops->build(r, task_conv, "tile=x:4", soon(), &h, &m));
		CHECK(h >= 0);
		start = clock_now(&clock_real);
		r->ops->close(r);
		CHECK(clock_now(&clock_real) - start < 5 * NS_PER_S);
	}
}

/* If no builder can be started, the worker builds the candidate, which is not to blame. */
TEST(no_builder_to_be_had)
{
	char self[512], dir[] = "/tmp/hone-wire-XXXXXX", path[64];
	struct meas m;
	int h;
	find_self(self);
	REQUIRE(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/worker", dir);
	REQUIRE(symlink(self, path) == 0);
	struct runner *r = open_worker_at(path);
	REQUIRE_OK(runner_worker_builders(r, 1));
	CHECK(unlink(path) == 0 && rmdir(dir) == 0);
	for (int i = 0; i < 10; i++)
		CHECK(r->ops->ahead(r, task_conv, conv_cand) == AHEAD_NOT);
	REQUIRE_OK(r->ops->build(r, task_conv, conv_cand, soon(), &h, &m));
	CHECK(h >= 0 && m.status == MEAS_OK);
	r->ops->close(r);
}

TEST(nonsense_from_the_worker)
{
	struct runner *r = open_worker();
	struct meas m;
	int h;
	CHECK_FAILS(r->ops->build(r, task_conv, "rubbish", soon(), &h, &m), E_CHILD, "not a message");
	CHECK_OK(r->ops->build(r, task_conv, conv_cand, soon(), &h, &m));
	r->ops->close(r);
}

TEST(refused)
{
	struct runner *r;
	struct target t;
	char self[512] = "";
	REQUIRE(readlink("/proc/self/exe", self, sizeof self - 1) > 0 && dev_sim.probe(&t) == 1);
	setenv("HONE_TEST_WORKER", "refuse", 1);
	CHECK_FAILS(runner_worker(self, "sim", &t, 1, &r), E_UNSUPPORTED, "no such thing here");
	unsetenv("HONE_TEST_WORKER");
	CHECK_FAILS(runner_worker("/no/worker", "sim", &t, 1, &r), E_NOTFOUND, "/no/worker");
	CHECK_FAILS(runner_worker("/bin/true", "sim", &t, 1, &r), E_CHILD, "hone-worker");
}

/* Serves `bytes` in a child and returns how it ended; its answers are dropped. Damaged code may run for
 * hours: a client would stop at its deadline, here the child stops after a second of its own time. */
static int serve_bytes(const char *bytes, size_t n)
{
	int fd[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) < 0)
		return -1;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		struct runner *r = open_sim();
		setrlimit(RLIMIT_CPU, &(struct rlimit){1, 2});
		close(fd[0]);
		int out = open("/dev/null", O_WRONLY), rc = wire_serve(r, fd[1], out);
		r->ops->close(r);
		_exit(rc < 0 ? 2 : 0);
	}
	close(fd[1]);
	for (size_t at = 0; at < n;) {
		ssize_t put = send(fd[0], bytes + at, n - at, MSG_NOSIGNAL);
		if (put <= 0)
			break;
		at += (size_t)put;
	}
	close(fd[0]);
	int status = -1;
	waitpid(pid, &status, 0);
	return status;
}

static void add_request(struct buf *s, uint32_t type, const struct buf *body)
{
	buf_u32(s, WIRE_MAGIC);
	buf_u32(s, type);
	buf_u32(s, (uint32_t)body->n);
	buf_add(s, buf_str(body), body->n);
}

static void add_load(struct buf *s)
{
	struct runner *r = open_sim();
	struct buf b = {0}, code = {0};
	struct key k;
	struct meas m;
	CHECK_OK(local_emit(r, task_conv, conv_cand, &k, &code, &m));
	CHECK(m.status == MEAS_OK && code.n > 0);
	buf_u64(&b, INT64_MAX);
	wire_put_str(&b, task_conv);
	buf_u64(&b, k.hi);
	buf_u64(&b, k.lo);
	buf_u32(&b, (uint32_t)code.n);
	buf_add(&b, code.p, code.n);
	add_request(s, WIRE_LOAD, &b);
	buf_free(&b);
	buf_free(&code);
	r->ops->close(r);
}

/* A good request of each type. */
static void good_stream(struct buf *s)
{
	struct buf b = {0};
	add_request(s, WIRE_HELLO, &b);
	buf_u64(&b, INT64_MAX);
	wire_put_str(&b, task_softmax);
	wire_put_str(&b, "tile=i:2; ; ");
	add_request(s, WIRE_BUILD, &b);
	buf_clear(&b);
	buf_u64(&b, INT64_MAX);
	buf_u64(&b, 0);
	buf_u32(&b, 3);
	buf_u32(&b, 0);
	buf_u32(&b, 1);
	buf_u32(&b, 0);
	add_request(s, WIRE_TIME, &b);
	buf_clear(&b);
	buf_u32(&b, 0);
	add_request(s, WIRE_CODE, &b);
	add_request(s, WIRE_DROP, &b);
	buf_clear(&b);
	wire_put_str(&b, task_softmax);
	wire_put_str(&b, "tile=i:2; ; ");
	add_request(s, WIRE_EMIT, &b);
	add_load(s);
	buf_free(&b);
}

static bool survived(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 2
				 : WTERMSIG(status) == SIGXCPU;
}

TEST(damaged_requests)
{
	struct buf s = {0};
	struct rng r;
	rng_seed(&r, 3);
	good_stream(&s);
	REQUIRE(serve_bytes(s.p, s.n) == 0);
	char *p = malloc(s.n);
	for (int i = 0; i < 150; i += test_share()) {
		memcpy(p, s.p, s.n);
		size_t n = i % 3 ? s.n : rng_below(&r, (uint32_t)s.n);
		for (uint32_t k = i % 3 ? 1 + rng_below(&r, 3) : 0; k; k--)
			p[rng_below(&r, (uint32_t)s.n)] = (char)rng_u64(&r);
		int status = serve_bytes(p, n);
		if (!survived(status))
			printf("round %d: status %x\n", i, (unsigned)status);
		CHECK(survived(status));
	}
	free(p);
	buf_free(&s);
}

TEST(impossible_times)
{
	const struct meas bad[] = {{.min_ns = -1},          {.median_ns = INT64_MIN}, {.spread_ns = -1},
				   {.build_ns = INT64_MAX}, {.check_ns = -5},         {.runs = -1}};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct buf b = {0};
		struct meas back;
		wire_put_meas(&b, &bad[i]);
		struct cur c = {.p = (const uint8_t *)b.p, .n = b.n};
		wire_get_meas(&c, &back);
		CHECK(c.bad);
		buf_free(&b);
	}
}

TEST(messages)
{
	int fd[2];
	struct buf body = {0}, got = {0};
	uint32_t type;
	struct meas m = {.status = MEAS_SPILL,
			 .runs = 3,
			 .min_ns = 5,
			 .max_rel_err = 1e-5,
			 .mc_after = -7,
			 .threads = 4},
		    back;
	REQUIRE(pipe(fd) == 0);
	wire_put_meas(&body, &m);
	wire_put_str(&body, "text");
	CHECK_OK(wire_send(fd[1], &clock_real, soon(), 9, &body));
	CHECK_OK(wire_receive(fd[0], &clock_real, soon(), &type, &got));
	CHECK(type == 9 && got.n == body.n);
	struct cur c = {.p = (const uint8_t *)got.p, .n = got.n};
	struct arena a = {0};
	wire_get_meas(&c, &back);
	CHECK(back.status == m.status && back.max_rel_err == m.max_rel_err && back.mc_after == -7 &&
	      back.threads == 4);
	CHECK(strcmp(wire_get_str(&c, 4, &a), "text") == 0 && !c.bad);
	c = (struct cur){.p = (const uint8_t *)"\4\0\0\0te\0t", .n = 8};
	CHECK(wire_get_str(&c, 100, &a) == NULL && c.bad);
	c = (struct cur){.p = (const uint8_t *)"\377\377\377\377text", .n = 8};
	CHECK(wire_get_str(&c, SIZE_MAX, &a) == NULL && c.bad);
	CHECK(write(fd[1], "HWRK\1\0\0\0\377\377\377\377", 12) == 12);
	CHECK_FAILS(wire_receive(fd[0], &clock_real, soon(), &type, &got), E_CORRUPT, "not a message");
	close(fd[1]);
	CHECK_FAILS(wire_receive(fd[0], &clock_real, soon(), &type, &got), E_CHILD, "closed");
	close(fd[0]);
	arena_free(&a);
	buf_free(&body);
	buf_free(&got);
	CHECK(wire_deadline(&clock_real, INT64_MAX) == INT64_MAX && wire_left(&clock_real, 0) == 0);
}

TEST_MAIN
