/* SPDX-License-Identifier: Apache-2.0 */
/* Marks of risky launches: a mark is durable before the launch and gone after it, and a candidate that is
 * still marked is not launched again. */
#include "agent/cache/cache.h"
#include "agent/worker/marked.h"
#include "platform/run/dev_sim.h"
#include "tests/lib/scratch.h"
#include "tests/lib/test.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];

static void new_dir(void)
{
	snprintf(dir, sizeof dir, "%s", scratch_folder());
}

/* ---- a worker whose launches do what the test says ---- */

static struct fake {
	struct runner base;
	struct target t;
	int launches, rc;
	enum meas_status status;
	bool kill;  /* the launch kills the whole process */
	bool waits; /* the launch lasts until the deadline */
	int bad;    /* kernel of a timed run that loses the worker; -1: not known */
	enum meas_status how;
	struct cache *cache; /* its mark must be durable in this cache when it is launched */
	bool marked;
} fake;

/* Counts the marks as another process sees them. */
static int marks(void)
{
	struct cache *c;
	struct cache_state s;
	if (cache_open(&c, dir, true, 0) < 0)
		return -1;
	cache_state(c, &s);
	cache_close(c);
	return s.count[CACHE_RISK];
}

static int fake_build(struct runner *r, const char *task, const char *cand, int64_t deadline_ns, int *handle,
		      struct meas *m)
{
	struct cache_state s;
	(void)r, (void)task, (void)cand;
	fake.launches++;
	cache_state(fake.cache, &s);
	fake.marked = s.waiting_bytes == 0 && marks() > 0;
	if (fake.kill)
		raise(SIGKILL);
	while (fake.waits && clock_now(r->clock) < deadline_ns)
		r->clock->sleep(r->clock, 10 * NS_PER_MS);
	*m = (struct meas){.status = fake.status};
	*handle = fake.rc >= 0 && fake.status == MEAS_OK ? 6 + fake.launches : -1;
	return fake.rc < 0 ? fail(fake.rc, "as told") : E_OK;
}

static int fake_time(struct runner *r, const int *handles, int n, int rounds, int64_t abort_ns, unsigned how,
		     int64_t deadline_ns, struct meas *m)
{
	(void)handles, (void)rounds, (void)abort_ns, (void)how;
	while (fake.waits && clock_now(r->clock) < deadline_ns)
		r->clock->sleep(r->clock, 10 * NS_PER_MS);
	for (int i = 0; i < n; i++)
		m[i] = (struct meas){.status = MEAS_CRASH};
	if (fake.bad >= 0)
		meas_blame(m, n, fake.bad, fake.how);
	return fake.rc < 0 ? fail(fake.rc, "as told") : E_OK;
}

static void fake_close(struct runner *r)
{
	(void)r;
}

static void fake_drop(struct runner *r, int handle, int64_t deadline_ns)
{
	(void)r, (void)handle, (void)deadline_ns;
}

static const struct runner_ops fake_ops = {
    .build = fake_build, .time = fake_time, .drop = fake_drop, .close = fake_close};

static void open_fake(struct cache *c)
{
	static struct clock clock;
	clock = clock_virtual(NS_PER_S);
	fake = (struct fake){.cache = c, .bad = -1};
	if (dev_sim.probe(&fake.t) != 1)
		abort();
	fake.base = (struct runner){
	    .ops = &fake_ops, .clock = &clock, .target = &fake.t, .threads = 1, .emitter = "sim/1"};
}

struct at_work {
	struct cache *c;
	struct runner *r;
};

static void begin_on(struct at_work *w, const char *device, const char *emitter)
{
	if (cache_open(&w->c, dir, false, 0) < 0)
		abort();
	open_fake(w->c);
	snprintf(fake.base.emitter, sizeof fake.base.emitter, "%s", emitter);
	if (runner_marked(&fake.base, w->c, device, &w->r) < 0)
		abort();
}

static void begin(struct at_work *w)
{
	begin_on(w, "gpu", "sim/1");
}

static void end(struct at_work *w)
{
	w->r->ops->close(w->r);
	cache_close(w->c);
}

static int handle; /* of the last build */

/* 7: it is built. */
static int build(struct at_work *w, const char *cand, struct meas *m)
{
	int rc = w->r->ops->build(w->r, "a task", cand, INT64_MAX, &handle, m);
	return rc < 0 ? rc : handle < 0 ? -1 : 7;
}

/* The deadline comes while it runs, after this time. */
static int build_until(struct at_work *w, const char *cand, int64_t ns)
{
	struct meas m;
	int64_t end_ns = clock_now(fake.base.clock) + ns;
	fake.waits = true;
	int rc = w->r->ops->build(w->r, "a task", cand, end_ns, &handle, &m);
	fake.waits = false;
	return rc;
}

TEST(marked_before_the_launch_and_cleared_after_it)
{
	struct at_work w;
	struct meas m;
	new_dir();
	begin(&w);
	CHECK(build(&w, "x", &m) == 7 && fake.launches == 1 && fake.marked);
	uint64_t commits = cache_generation(w.c);
	/* It has answered, so it costs no more flash. */
	CHECK(build(&w, "x", &m) == 7 && fake.launches == 2 && cache_generation(w.c) == commits);
	/* A bad answer is an answer, too. */
	fake.status = MEAS_CRASH;
	CHECK(build(&w, "y", &m) == -1 && m.status == MEAS_CRASH && fake.launches == 3 && fake.marked);
	/* So is a stop. */
	fake.rc = E_STOPPED;
	CHECK(build(&w, "z", &m) == E_STOPPED && fake.launches == 4);
	end(&w);
	CHECK(marks() == 0);
	begin(&w);
	CHECK(build(&w, "x", &m) == 7 && build(&w, "y", &m) == 7 && build(&w, "z", &m) == 7 &&
	      fake.launches == 3);
	end(&w);
}

TEST(candidates_without_an_answer_are_not_launched_again)
{
	static const int fate[] = {E_CHILD, E_TIMEOUT};
	for (int i = 0; i < 2; i++) {
		struct at_work w;
		struct meas m;
		new_dir();
		begin(&w);
		fake.rc = fate[i];
		CHECK(build(&w, "bad", &m) == fate[i]);
		fake.rc = 0;
		CHECK(build(&w, "good", &m) == 7);
		const enum meas_status said = fate[i] == E_CHILD ? MEAS_CRASH : MEAS_TIMEOUT;
		CHECK(build(&w, "bad", &m) == -1 && m.status == said && fake.launches == 2);
		end(&w);
		CHECK(marks() == 1);
		begin(&w); /* the next boot */
		CHECK(build(&w, "bad", &m) == -1 && m.status == said && fake.launches == 0);
		CHECK(build(&w, "good", &m) == 7 && fake.launches == 1);
		end(&w);
		/* On another device, or with another emitter, it is another launch. */
		begin_on(&w, "other", "sim/1");
		CHECK(build(&w, "bad", &m) == 7);
		end(&w);
		begin_on(&w, "gpu", "sim/2");
		CHECK(build(&w, "bad", &m) == 7);
		end(&w);
	}
}

/* The deadline comes during a launch, which may hang or only be slow: the mark stays, and allows more
 * launches until two of them were long. If its worker dies there, the candidate is to blame. */
TEST(launches_that_the_deadline_ends)
{
	static const struct {
		int64_t ns[4]; /* how long the runs take until the deadline comes; 0: it answers */
		int launches;  /* how many are made */
	} cases[] = {{{NS_PER_MS, NS_PER_MS, NS_PER_MS, NS_PER_MS}, 4},
		     {{MARKED_LONG_NS, 0, MARKED_LONG_NS, 0}, 4},
		     {{MARKED_LONG_NS, NS_PER_MS, MARKED_LONG_NS, 0}, 3},
		     {{MARKED_LONG_NS, MARKED_LONG_NS, 0, 0}, 2}};
	struct at_work w;
	struct meas m;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int launches = 0;
		new_dir();
		for (int box = 0; box < 4; box++) {
			int64_t ns = cases[i].ns[box];
			begin(&w);
			fake.rc = ns ? E_TIMEOUT : E_OK;
			int rc = ns ? build_until(&w, "slow", ns) : build(&w, "slow", &m);
			CHECK(launches + fake.launches > cases[i].launches || !fake.launches ||
			      rc == (ns ? E_TIMEOUT : 7));
			CHECK(!fake.launches || fake.marked);
			launches += fake.launches;
			end(&w);
			CHECK(marks() == (ns || !fake.launches));
		}
		CHECK(launches == cases[i].launches);
		if (test_bad)
			printf("case %d: %d launches\n", (int)i, launches);
	}
	new_dir();
	begin(&w);
	fake.rc = E_CHILD;
	CHECK(build_until(&w, "bad", 5 * NS_PER_MS) == E_CHILD);
	end(&w);
	CHECK(marks() == 1);
	begin(&w);
	CHECK(build(&w, "bad", &m) == -1 && m.status == MEAS_CRASH && fake.launches == 0);
	end(&w);
}

/* A candidate that hangs in a timed run has answered before, and its mark was gone. */
TEST(marked_after_a_timed_run)
{
	static const struct {
		int bad; /* of three */
		enum meas_status how;
		int marks;
	} cases[] = {{0, MEAS_TIMEOUT, 1}, {2, MEAS_TIMEOUT, 1}, {-1, MEAS_CRASH, 0}};
	static const char *const cands[] = {"a", "b", "c"};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct at_work w;
		struct meas m[3];
		int h[3];
		new_dir();
		begin(&w);
		for (int k = 0; k < 3; k++) {
			CHECK(build(&w, cands[k], m) == 7);
			h[k] = handle;
		}
		fake.bad = cases[i].bad;
		fake.how = cases[i].how;
		CHECK_OK(w.r->ops->time(w.r, h, 3, 5, 0, 0, INT64_MAX, m));
		fake.rc = E_CHILD;
		CHECK_FAILS(w.r->ops->time(w.r, h, 3, 5, 0, 0, INT64_MAX, m), E_CHILD, "as told");
		CHECK(meas_blamed(m, 3) == cases[i].bad);
		fake.rc = E_OK;
		for (int box = 0; box < 2; box++) { /* in this box, and in another one */
			for (int k = 0; k < 3; k++) {
				bool good = build(&w, cands[k], m) == 7;
				CHECK(good == (k != cases[i].bad));
				CHECK(good || m[0].status == cases[i].how);
			}
			end(&w);
			CHECK(marks() == cases[i].marks);
			begin(&w);
		}
		end(&w);
	}
}

static int time_one(struct at_work *w, enum meas_status how, int rc)
{
	struct meas m;
	fake.bad = 0;
	fake.how = how;
	fake.rc = rc;
	int said = w->r->ops->time(w->r, &handle, 1, 5, 0, 0, INT64_MAX, &m);
	fake.rc = E_OK;
	return said;
}

/* A worker that dies in a timed run may have been ended by others, so the candidate gets a second chance. */
TEST(marked_after_two_crashes_in_timed_runs)
{
	for (int in_one = 0; in_one < 2; in_one++) {
		struct at_work w;
		struct meas m;
		new_dir();
		begin(&w);
		CHECK(build(&w, "a", &m) == 7 && time_one(&w, MEAS_CRASH, E_CHILD) == E_CHILD);
		CHECK(marks() == 1);
		if (!in_one) { /* the second time is in another process */
			end(&w);
			begin(&w);
		}
		CHECK(build(&w, "a", &m) == 7 && marks() == 1); /* its removal waits for the next commit */
		CHECK(build(&w, "a", &m) == 7);                 /* the second build goes on counting */
		CHECK_OK(time_one(&w, MEAS_CRASH, E_OK));
		CHECK(build(&w, "b", &m) == 7 && build(&w, "a", &m) == 7);
		CHECK(time_one(&w, MEAS_CRASH, E_CHILD) == E_CHILD);
		for (int box = 0; box < 2; box++) {
			int before = fake.launches;
			CHECK(build(&w, "a", &m) == -1 && m.status == MEAS_CRASH && fake.launches == before);
			end(&w);
			CHECK(marks() == 1);
			begin(&w);
		}
		end(&w);
	}
	struct at_work w;
	struct meas m;
	new_dir();
	for (int box = 0; box < 6; box++) { /* a process without a crash forgets */
		begin(&w);
		CHECK(build(&w, "a", &m) == 7);
		CHECK(time_one(&w, MEAS_CRASH, box % 2 ? E_OK : E_CHILD) == (box % 2 ? E_OK : E_CHILD));
		end(&w);
		CHECK(marks() == !(box % 2));
	}
}

/* The box ends while it hangs in a timed run, or when it is built once more. */
TEST(marked_at_the_end_of_a_box)
{
	struct at_work w;
	struct meas m;
	new_dir();
	for (int box = 0; box < 2; box++) {
		begin(&w);
		CHECK(build(&w, "a", &m) == 7);
		fake.rc = E_CHILD;
		fake.bad = 0;
		fake.how = MEAS_TIMEOUT;
		fake.waits = true;
		CHECK(w.r->ops->time(w.r, &handle, 1, 5, 0, 0, clock_now(fake.base.clock) + NS_PER_S, &m) ==
		      E_CHILD);
		end(&w);
		CHECK(marks() == 1);
	}
	begin(&w);
	CHECK(build(&w, "a", &m) == 7 && build(&w, "a", &m) == 7);
	fake.rc = E_CHILD;
	CHECK(build(&w, "a", &m) == E_CHILD);
	end(&w);
	CHECK(marks() == 1);
	begin(&w);
	CHECK(build(&w, "a", &m) == -1 && fake.launches == 0);
	end(&w);
}

/* The launch kills the process, and everything that was not synced is lost, as in a power cut. */
TEST(killed_in_the_launch)
{
	struct at_work w;
	struct meas m;
	new_dir();
	for (int round = 0; round < 3; round++) {
		char cand[16];
		int how;
		snprintf(cand, sizeof cand, "killer %d", round);
		fflush(stdout);
		pid_t pid = fork();
		if (pid == 0) {
			begin(&w);
			for (int i = 0; i < 5; i++)
				if (build(&w, "harmless", &m) != 7)
					_exit(2);
			fake.kill = true;
			_exit(build(&w, cand, &m) == -1 ? 3 : 4);
		}
		REQUIRE(waitpid(pid, &how, 0) == pid);
		CHECK(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
		CHECK(marks() >= round + 1);
	}
	begin(&w);
	for (int round = 0; round < 3; round++) {
		char cand[16];
		snprintf(cand, sizeof cand, "killer %d", round);
		CHECK(build(&w, cand, &m) == -1 && m.status == MEAS_CRASH);
	}
	CHECK(fake.launches == 0);
	CHECK(build(&w, "harmless", &m) == 7 && fake.launches == 1);
	end(&w);
}

TEST(no_launch_without_a_mark)
{
	struct at_work w;
	struct meas m;
	struct cache *c;
	int h;
	new_dir();
	begin(&w);
	end(&w);
	REQUIRE_OK(cache_open(&c, dir, true, 0));
	open_fake(c);
	REQUIRE_OK(runner_marked(&fake.base, c, "gpu", &w.r));
	CHECK_FAILS(w.r->ops->build(w.r, "a task", "x", INT64_MAX, &h, &m), E_USAGE,
		    "without a quarantine mark");
	CHECK(fake.launches == 0);
	w.r->ops->close(w.r);
	cache_close(c);
}

static bool of_a_task(void *ctx, struct key task)
{
	return key_equal(task, hash_text(ctx));
}

TEST(forgotten_marks)
{
	struct at_work w;
	struct meas m;
	new_dir();
	begin(&w);
	fake.rc = E_CHILD;
	CHECK(build(&w, "bad", &m) == E_CHILD && build(&w, "worse", &m) == E_CHILD);
	fake.rc = 0;
	CHECK(marked_forget(w.c, of_a_task, "another task") == 0);
	CHECK(build(&w, "bad", &m) == -1);
	CHECK(marked_forget(w.c, of_a_task, "a task") == 2);
	CHECK(build(&w, "bad", &m) == 7 && build(&w, "worse", &m) == 7);
	/* A mark whose text is damaged belongs to any task. */
	CHECK_OK(cache_put(w.c, CACHE_RISK, hash_text("k"), "rubbish", 7));
	CHECK(marked_forget(w.c, of_a_task, "another task") == 1);
	end(&w);
	CHECK(marks() == 0);
}

TEST_MAIN
