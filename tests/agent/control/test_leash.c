/* SPDX-License-Identifier: Apache-2.0 */
/* Tests a job's leash against a honed that grants, withholds, taints, refuses, sends nonsense and dies. */
#include "agent/control/leash.h"
#include "agent/control/leash_link.h"
#include "platform/run/child.h"
#include "tests/lib/sysroot.h"
#include "tests/lib/fake_owner.h"
#include "tests/lib/process.h"

#include <fcntl.h>

static struct fake_honed fake;
static volatile sig_atomic_t stop;

static struct leash *open_leash(const char *socket, const char *cache)
{
	struct leash *l = NULL;
	stop = 0;
	setenv("HONE_SOCKET", "/nonexistent/honed.sock", 1);
	const struct leash_options o = {.socket = socket,
					.cache = cache,
					.model = "a \"model\".onnx",
					.threads = 2,
					.clock = &clock_real,
					.sysroot = "/nonexistent",
					.stop = &stop};
	CHECK_OK(leash_open(&o, &l));
	return l;
}

static int64_t in_ms(int ms)
{
	return clock_now(&clock_real) + ms * NS_PER_MS;
}

TEST(without_honed_all_is_granted)
{
	unsetenv("HONE_CONTROL_FD");
	struct leash *l = open_leash(NULL, "/");
	const char *taint = "x";
	REQUIRE(l && !leash_held(l));
	CHECK_OK(leash_lease(l, LEASE_QUIET, INT64_MAX));
	CHECK_OK(leash_release(l, &taint));
	CHECK(!taint);
	CHECK_FAILS(leash_lease(l, LEASE_COMPUTE, in_ms(-1)), E_TIMEOUT, "deadline");
	CHECK_FAILS(leash_commit(l), E_IO, "honed does not run");
	stop = 1;
	CHECK_FAILS(leash_lease(l, LEASE_COMPUTE, INT64_MAX), E_STOPPED, "stop");
	leash_say(l, &(struct request){.op = OP_PROGRESS});
	leash_close(l);
}

TEST(without_honed_the_board_itself_taints)
{
	struct sysroot b;
	struct leash *l;
	const char *taint;
	sysroot_pi4(&b);
	unsetenv("HONE_CONTROL_FD");
	setenv("HONE_SOCKET", "/nonexistent/honed.sock", 1);
	REQUIRE_OK(leash_open(&(struct leash_options){.clock = &clock_real, .sysroot = b.root}, &l));
	CHECK_OK(leash_lease(l, LEASE_MEASURE, INT64_MAX));
	CHECK_OK(leash_release(l, &taint));
	CHECK(!taint);
	CHECK_OK(leash_lease(l, LEASE_MEASURE, INT64_MAX));
	sysroot_set(&b, PI_THROTTLED, "50005\n");
	CHECK_OK(leash_release(l, &taint));
	CHECK(taint && strstr(taint, "throttle"));
	leash_close(l);
	sysroot_end(&b);
}

TEST(a_job_through_the_socket)
{
	fake_start(&fake, "/tmp/.");
	struct leash *l = open_leash(fake.path, "/tmp");
	REQUIRE(l && leash_held(l));
	CHECK(fake.last[OP_JOB].threads == 2 && fake.last[OP_JOB].job == getpid());
	CHECK(!strcmp(fake.last[OP_JOB].model, "a \"model\".onnx"));
	struct key k = hash_text("key");
	char big[100000];
	memset(big, 'b', sizeof big);
	big[7] = '\n';
	CHECK_OK(leash_put(l, 3, k, big, sizeof big));
	CHECK_OK(leash_forget(l, 1, k));
	CHECK_OK(leash_commit(l));
	REQUIRE(atomic_load(&fake.nputs) == 2);
	CHECK(fake.put[0].type == 3 && key_equal(fake.put[0].key, k) && fake.put[0].n == sizeof big &&
	      !memcmp(fake.put[0].p, big, sizeof big));
	CHECK(fake.put[1].op == OP_FORGET && fake.put[1].type == 1);
	leash_say(l, &(struct request){.op = OP_PROGRESS, .task = 3});
	leash_say(l, &(struct request){.op = OP_PROGRESS, .task = 4}); /* too soon */
	leash_say(l, &(struct request){.op = OP_DONE, .missing = 5});
	FAKE_WAIT(atomic_load(&fake.said[OP_DONE]) == 1);
	CHECK(fake.last[OP_DONE].missing == 5 && fake.last[OP_PROGRESS].task == 3);
	atomic_store(&fake.refuses, "the disk is full");
	CHECK_FAILS(leash_put(l, 1, k, "x", 1), E_IO, "honed: the disk is full");
	CHECK_FAILS(leash_commit(l), E_IO, "the disk is full");
	CHECK(leash_held(l));
	leash_close(l);
	fake_die(&fake);
}

TEST(records_without_a_job)
{
	fake_start(&fake, "/tmp");
	const struct leash_options o = {
	    .socket = fake.path, .cache = "/tmp", .clock = &clock_real, .syncs = true};
	struct leash *l;
	REQUIRE_OK(leash_open(&o, &l));
	REQUIRE(leash_held(l));
	CHECK(atomic_load(&fake.said[OP_SYNC]) == 1 && atomic_load(&fake.said[OP_JOB]) == 0);
	CHECK_OK(leash_put(l, 1, hash_text("key"), "x", 1));
	CHECK_OK(leash_commit(l));
	CHECK(atomic_load(&fake.ncommitted) == 1);
	leash_close(l);
	fake_die(&fake);
}

TEST(another_cache_or_version_is_left_alone)
{
	fake_start(&fake, "/usr");
	struct leash *l = open_leash(fake.path, "/tmp");
	CHECK(!leash_held(l) && atomic_load(&fake.said[OP_JOB]) == 1);
	leash_close(l);
	fake_die(&fake);
	fake_start(&fake, "/tmp");
	fake.version = 1;
	l = open_leash(fake.path, "/tmp");
	CHECK(!leash_held(l) && atomic_load(&fake.said[OP_JOB]) == 0);
	leash_close(l);
	fake_die(&fake);
}

static void ignore(void *ctx, const char *event)
{
	(void)ctx, (void)event;
}

static void *read_late(void *fd)
{
	static char text[1 << 20];
	struct buf *all = calloc(1, sizeof *all);
	usleep(30000);
	for (ssize_t n; (n = recv(*(int *)fd, text, sizeof text, 0)) > 0;)
		buf_add(all, text, (size_t)n);
	return all;
}

/* honed has not read yet what the job sent before. */
TEST(last_words_wait_for_room)
{
	int pair[2];
	static char junk[4096];
	struct link *k;
	pthread_t reader;
	void *got;
	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	while (send(pair[0], junk, sizeof junk, MSG_DONTWAIT) > 0)
		;
	REQUIRE_OK(link_open(pair[0], ignore, NULL, &k));
	REQUIRE(pthread_create(&reader, NULL, read_late, &pair[1]) == 0);
	link_say_last(k, &(struct request){.op = OP_DONE, .trials = 7});
	link_close(k);
	REQUIRE(pthread_join(reader, &got) == 0);
	struct buf *all = got;
	CHECK(all->n && all->p[all->n - 1] == '\n' && memmem(all->p, all->n, "\"trials\":7", 10));
	buf_free(all);
	free(all);
	close(pair[1]);
}

/* A grant that comes after its deadline is given back, and not used for the next lease. */
TEST(leases_wait)
{
	const char *taint;
	fake_start(&fake, "/tmp");
	struct leash *l = open_leash(fake.path, "/tmp");
	atomic_store(&fake.withholds, true);
	CHECK_FAILS(leash_lease(l, LEASE_MEASURE, in_ms(30)), E_TIMEOUT, "");
	FAKE_WAIT(atomic_load(&fake.said[OP_RELEASE]) == 1);
	CHECK(atomic_load(&fake.said[OP_RELEASE]) == 1);
	char late[64];
	snprintf(late, sizeof late, "{\"id\":%d,\"ok\":true}\n", (int)fake.last[OP_LEASE].id);
	fake_say(&fake, late);
	CHECK_FAILS(leash_lease(l, LEASE_QUIET, in_ms(50)), E_TIMEOUT, "");
	atomic_store(&fake.withholds, false);
	CHECK_OK(leash_lease(l, LEASE_QUIET, INT64_MAX));
	CHECK_OK(leash_release(l, &taint));
	CHECK(!taint && atomic_load(&fake.leased[LEASE_MEASURE]) == 1 &&
	      atomic_load(&fake.leased[LEASE_QUIET]) == 2);
	atomic_store(&fake.withholds, true);
	fake_say(&fake, "{\"event\":\"stop\"}\n");
	CHECK_FAILS(leash_lease(l, LEASE_COMPUTE, INT64_MAX), E_STOPPED, "");
	CHECK(stop);
	leash_close(l);
	fake_die(&fake);
}

TEST(a_yield_rests_workers_and_taints)
{
	char *words[] = {"/bin/cat", NULL};
	struct child before, after, far;
	const char *taint;
	char byte;
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	fake_start(&fake, "/tmp");
	struct leash *l = open_leash(fake.path, "/tmp");
	REQUIRE_OK(child_start(&before, words, NULL));
	snprintf(a.sun_path, sizeof a.sun_path, "/tmp/hone-leash-far-%d", (int)getpid());
	int there = socket(AF_UNIX, SOCK_STREAM, 0);
	REQUIRE(bind(there, (struct sockaddr *)&a, sizeof a) == 0 && listen(there, 1) == 0);
	CHECK(!child_has_streams());
	REQUIRE_OK(child_connect(&far, a.sun_path, &clock_real, INT64_MAX));
	int end = accept(there, NULL, NULL);
	CHECK(end >= 0 && child_has_streams() && unlink(a.sun_path) == 0);
	CHECK_OK(leash_lease(l, LEASE_MEASURE, INT64_MAX));
	fake_say(&fake, "{\"event\":\"yield\"}\n");
	CHECK(read(end, &byte, 1) == 0); /* until it is shut down */
	(void)child_stop(&far, 0);
	CHECK(!child_has_streams() && close(end) == 0 && close(there) == 0);
	FAKE_WAIT(state_of(before.pid) == 'T');
	CHECK(state_of(before.pid) == 'T');
	fake_say(&fake, "{\"event\":\"what\"}\n"); /* only "go on" would let them continue */
	CHECK_OK(leash_commit(l));
	CHECK(state_of(before.pid) == 'T');
	CHECK_OK(child_start(&after, words, NULL));
	FAKE_WAIT(state_of(after.pid) == 'T');
	CHECK(state_of(after.pid) == 'T');
	fake_say(&fake, "{\"event\":\"go on\"}\n");
	FAKE_WAIT(state_of(before.pid) != 'T' && state_of(after.pid) != 'T');
	CHECK(state_of(before.pid) != 'T' && state_of(after.pid) != 'T');
	CHECK_OK(leash_release(l, &taint));
	CHECK(taint && strstr(taint, "paused"));
	CHECK_OK(leash_lease(l, LEASE_MEASURE, INT64_MAX));
	CHECK_OK(leash_release(l, &taint));
	CHECK(!taint);
	atomic_store(&fake.taint, "the clock fell to 600 MHz");
	atomic_store(&fake.taints, 1);
	CHECK_OK(leash_lease(l, LEASE_MEASURE, INT64_MAX));
	CHECK_OK(leash_release(l, &taint));
	CHECK(taint && !strcmp(taint, "the clock fell to 600 MHz"));
	(void)child_stop(&before, 0);
	(void)child_stop(&after, 0);
	leash_close(l);
	fake_die(&fake);
}

TEST(a_job_that_began_without_honed_stays_without)
{
	const char *taint;
	fake_start(&fake, "/tmp");
	struct leash *l = open_leash(fake.path, "/tmp");
	CHECK_OK(leash_lease(l, LEASE_COMPUTE, INT64_MAX));
	fake_die(&fake);
	FAKE_WAIT(!leash_held(l));
	CHECK_OK(leash_release(l, &taint));
	CHECK_OK(leash_lease(l, LEASE_QUIET, INT64_MAX));
	CHECK_OK(leash_release(l, &taint));
	CHECK_FAILS(leash_put(l, 1, hash_text("k"), "x", 1), E_IO, "closed the connection");
	CHECK(!stop && !leash_held(l));
	leash_close(l);
}

/* A worker behind a socket continues when a job's process group is stopped, so the job must not say
 * "stops". */
static void says_whether_it_stops(struct leash *l)
{
	const char *taint;
	static struct fake_honed service;
	fake_start(&service, "/");
	struct child worker;
	for (int far = 0; far < 3; far++) {
		if (far == 1)
			REQUIRE_OK(child_connect(&worker, service.path, &clock_real, in_ms(5000)));
		if (far == 2)
			child_stop(&worker, 0);
		CHECK_OK(leash_lease(l, LEASE_COMPUTE, INT64_MAX));
		CHECK(fake.last[OP_LEASE].stops == (far != 1));
		CHECK_OK(leash_release(l, &taint));
	}
	fake_die(&service);
}

TEST(a_child_of_honed_ends_with_it)
{
	fake_start_child(&fake);
	struct leash *l = open_leash(NULL, "/tmp");
	CHECK(leash_held(l) && atomic_load(&fake.said[OP_JOB]) == 0);
	says_whether_it_stops(l);
	fake_die(&fake);
	FAKE_WAIT(stop);
	CHECK(stop && !leash_held(l));
	CHECK_FAILS(leash_lease(l, LEASE_QUIET, INT64_MAX), E_STOPPED, "");
	leash_close(l);
	fake_start_child(&fake); /* a job that ends by itself is not told to stop */
	l = open_leash(NULL, "/tmp");
	leash_close(l);
	CHECK(!stop);
	fake_die(&fake);
}

TEST(replies_that_honed_should_not_send)
{
	static const char *const odd[] = {"what\n",
					  "[]\n",
					  "{\"id\":\"1\"}\n",
					  "{\"id\":-1,\"ok\":true}\n",
					  "{\"event\":7}\n",
					  "{\"event\":\"sing\"}\n",
					  "\n",
					  "{\"id\":99999999999999999999}\n",
					  "\xff\xfe{}\n"};
	const char *taint;
	fake_start(&fake, "/tmp");
	struct leash *l = open_leash(fake.path, "/tmp");
	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
		fake_say(&fake, odd[i]);
	CHECK_OK(leash_lease(l, LEASE_COMPUTE, INT64_MAX));
	CHECK_OK(leash_release(l, &taint));
	char *line = malloc(2 * CONTROL_SAID);
	memset(line, 'x', 2 * CONTROL_SAID);
	line[2 * CONTROL_SAID - 1] = 0;
	fake_say(&fake, line); /* it has no end, so the connection is closed */
	free(line);
	FAKE_WAIT(!leash_held(l));
	CHECK(!leash_held(l));
	leash_close(l);
	fake_die(&fake);
}

/* A runner that the test controls. */
struct odd_runner {
	struct runner base;
	int builds, times, codes, drops, next, births;
	enum meas_status fails; /* status of the next `failing` builds; MEAS_OK: none fails */
	int failing;
	int dying;  /* calls until the worker is lost; 0: it is not lost */
	int how;    /* error that reports this: E_CHILD, or E_TIMEOUT; 0: E_CHILD */
	bool stops; /* it stops this process while it builds */
	bool closed;
};

static bool died(struct odd_runner *o)
{
	if (!o->dying || --o->dying)
		return false;
	o->births++;
	return true;
}

static int odd_build(struct runner *r, const char *task, const char *cand, int64_t deadline_ns, int *handle,
		     struct meas *m)
{
	struct odd_runner *o = (struct odd_runner *)r;
	(void)task, (void)cand, (void)deadline_ns;
	o->builds++;
	*handle = -1;
	*m = (struct meas){.status = o->failing > 0 ? o->fails : MEAS_OK};
	if (o->stops)
		child_waited(NS_PER_S);
	if (died(o))
		return fail(o->how ? o->how : E_CHILD, "the worker is gone");
	if (o->failing-- <= 0)
		*handle = o->births * 1000 + o->next++;
	return E_OK;
}

static enum ahead odd_ahead(struct runner *r, const char *task, const char *cand)
{
	(void)r, (void)task, (void)cand;
	return AHEAD_NOT;
}

static int odd_time(struct runner *r, const int *handles, int n, int rounds, int64_t abort_ns, unsigned how,
		    int64_t deadline_ns, struct meas *m)
{
	struct odd_runner *o = (struct odd_runner *)r;
	(void)abort_ns, (void)how, (void)deadline_ns;
	o->times++;
	if (died(o))
		return fail(E_CHILD, "the worker is gone");
	for (int i = 0; i < n; i++) {
		CHECK(handles[i] / 1000 == o->births);
		m[i] = (struct meas){.status = MEAS_OK, .runs = rounds, .min_ns = o->times};
	}
	return E_OK;
}

static int odd_code(struct runner *r, int handle, int64_t deadline_ns, struct arena *a, struct blob *out)
{
	struct odd_runner *o = (struct odd_runner *)r;
	(void)deadline_ns, (void)a;
	o->codes++;
	if (died(o))
		return fail(E_CHILD, "the worker is gone");
	CHECK(handle / 1000 == o->births);
	*out = (struct blob){"code", 4};
	return E_OK;
}

static void odd_drop(struct runner *r, int handle, int64_t deadline_ns)
{
	(void)handle, (void)deadline_ns;
	((struct odd_runner *)r)->drops++;
}

static void odd_close(struct runner *r)
{
	((struct odd_runner *)r)->closed = true;
}

static const struct runner_ops odd_ops = {odd_build, odd_ahead, odd_ahead, odd_time,
					  odd_code,  odd_drop,  odd_close};

static struct odd_runner odd;

/* Opens a leashed runner under a honed that taints the next n leases. */
static struct runner *open_odd(struct leash **l, int taints)
{
	struct runner *r = NULL;
	odd = (struct odd_runner){.base = {.ops = &odd_ops, .clock = &clock_real, .threads = 1}};
	fake_start(&fake, "/tmp");
	*l = open_leash(fake.path, "/tmp");
	CHECK_OK(runner_leashed(&odd.base, *l, &r));
	atomic_store(&fake.taint, "hot");
	atomic_store(&fake.taints, taints);
	return r;
}

static void close_odd(struct runner *r, struct leash *l)
{
	r->ops->close(r);
	CHECK(odd.closed);
	leash_close(l);
	fake_die(&fake);
}

static int build(struct runner *r, const char *cand, struct meas *m)
{
	int handle, rc = r->ops->build(r, "task", cand, INT64_MAX, &handle, m);
	CHECK_OK(rc);
	return handle;
}

TEST(tainted_times_are_done_again)
{
	struct leash *l;
	struct meas m[2];
	struct runner *r = open_odd(&l, 0);
	int h[2] = {build(r, "a", m), build(r, "b", m)};
	atomic_store(&fake.taints, 2);
	CHECK_OK(r->ops->time(r, h, 2, 5, 0, 0, INT64_MAX, m));
	CHECK(odd.times == 3 && m[0].min_ns == 3 && m[1].runs == 5);
	CHECK(atomic_load(&fake.leased[LEASE_MEASURE]) == 3 && atomic_load(&fake.leased[LEASE_QUIET]) == 0);
	CHECK_OK(r->ops->time(r, h, 1, 5, 0, TIME_QUIET, INT64_MAX, m));
	CHECK(odd.times == 4 && atomic_load(&fake.leased[LEASE_QUIET]) == 1);
	atomic_store(&fake.taints, 1000);
	int64_t end_ns = in_ms(100); /* an earlier E_TIMEOUT would be the candidate's fault */
	CHECK_FAILS(r->ops->time(r, h, 1, 5, 0, 0, end_ns, m), E_TIMEOUT, "hot");
	CHECK(odd.times < 20 && clock_now(&clock_real) >= end_ns);
	r->ops->drop(r, h[0], INT64_MAX);
	CHECK(odd.drops == 1);
	CHECK_FAILS(r->ops->time(r, h, 1, 5, 0, 0, INT64_MAX, m), E_CHILD, "lost");
	close_odd(r, l);
}

/* A build that failed while tainted does not count against its candidate; a successful one counts. */
TEST(builds_that_fail_while_tainted_are_done_again)
{
	struct leash *l;
	struct meas m;
	struct runner *r = open_odd(&l, 2);
	odd.fails = MEAS_TIMEOUT;
	odd.failing = 2;
	CHECK(build(r, "a", &m) >= 0 && m.status == MEAS_OK && odd.builds == 3);
	atomic_store(&fake.taints, 1);
	CHECK(build(r, "b", &m) >= 0 && odd.builds == 4);
	odd.failing = 1;
	CHECK(build(r, "c", &m) == -1 && m.status == MEAS_TIMEOUT && odd.builds == 5); /* the candidate's own
											  fault */
	CHECK(atomic_load(&fake.leased[LEASE_COMPUTE]) == 5);
	close_odd(r, l);
}

/* A worker that ended at a yield loses its kernels: they are built again when they are needed. */
TEST(kernels_outlive_a_worker_that_was_let_go)
{
	struct leash *l;
	struct meas m[2];
	struct blob code;
	struct arena a = {0};
	struct runner *r = open_odd(&l, 0);
	int h[2] = {build(r, "a", m), build(r, "b", m)};
	atomic_store(&fake.taints, 1);
	odd.dying = 1;
	CHECK_OK(r->ops->time(r, h, 2, 5, 0, 0, INT64_MAX, m));
	CHECK(odd.times == 2 && odd.builds == 4 && odd.births == 1);
	atomic_store(&fake.taints, 1);
	odd.dying = 1;
	CHECK_OK(r->ops->code(r, h[1], INT64_MAX, &a, &code));
	CHECK(odd.codes == 2 && odd.builds == 5 && code.n == 4);
	atomic_store(&fake.taints, 1);
	odd.dying = 1; /* the worker dies while a kernel is built again */
	CHECK_OK(r->ops->time(r, h, 2, 5, 0, 0, INT64_MAX, m));
	CHECK(m[0].status == MEAS_OK && odd.births == 3);
	atomic_store(&fake.taints, 1);
	odd.dying = 1;
	odd.how = E_TIMEOUT; /* the worker was stopped for longer than its timeout */
	CHECK(build(r, "c", m) >= 0 && odd.births == 4);
	odd.dying = 1;
	odd.stops = true; /* this process was stopped for as long, and honed does not know */
	CHECK(build(r, "d", m) >= 0 && odd.births == 5);
	odd.how = 0;
	odd.stops = false;
	odd.dying = 1; /* a worker that died by itself stays dead */
	CHECK_FAILS(r->ops->time(r, h, 2, 5, 0, 0, INT64_MAX, m), E_CHILD, "gone");
	CHECK_FAILS(r->ops->time(r, h, 2, 5, 0, 0, INT64_MAX, m), E_CHILD, "lost");
	CHECK(odd.drops == 0);
	arena_free(&a);
	close_odd(r, l);
}

/* A worker that ended between two leases does not count against a candidate either. */
TEST(kernels_outlive_a_worker_that_went_unseen)
{
	struct leash *l;
	struct meas m;
	struct runner *r = open_odd(&l, 0);
	int h = build(r, "a", &m);
	fake_say(&fake, "{\"event\":\"yield\"}\n{\"event\":\"go on\"}\n");
	odd.dying = 1;
	CHECK_OK(r->ops->time(r, &h, 1, 5, 0, 0, INT64_MAX, &m));
	CHECK(m.status == MEAS_OK && odd.times == 2 && odd.builds == 2);
	close_odd(r, l);
}

TEST_MAIN
