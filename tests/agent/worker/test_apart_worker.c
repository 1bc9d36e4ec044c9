/* SPDX-License-Identifier: Apache-2.0 */
/* Strangers' candidates in real workers: every worker compiles the same code, a worker apart is a process
 * that ends with its candidate, and times from two workers can be compared. */
#include "agent/worker/runner_apart.h"
#include "agent/worker/wire.h"
#include "kernels/space/space.h"
#include "platform/machine/target.h"
#include "tests/lib/tasks.h"
#include "tests/lib/test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAIRS = 240 };

#define SOME_NS (120 * NS_PER_S)

static struct target target;

static bool there_is_a_worker(void)
{
	const char *path = getenv("HONE_WORKER");
	return path && access(path, X_OK) == 0 && target_host(&target) >= 0;
}

static struct runner *open_worker(int threads)
{
	struct runner *r = NULL;
	if (runner_worker(NULL, "cpu", &target, threads, &r) < 0) {
		printf("no worker: %s\n", err_text());
		exit(1);
	}
	return r;
}

static int64_t soon(void)
{
	return clock_now(&clock_real) + SOME_NS;
}

/* ---- compiling is deterministic ---- */

/* Draws a random task and candidate: a known task, or one of any shape. */
static bool draw(struct rng *r, struct arena *a, const char **text, char cand[CAND_MAX])
{
	static const char *const known[] = {task_conv, task_matmul, task_softmax};
	struct task *t = ARENA_NEW(a, struct task);
	struct buf b = {0};
	struct space *s;
	uint32_t which = rng_below(r, 5);
	if (which < 3 ? task_parse(known[which], t) < 0 : (task_random(r, t), false))
		return false;
	task_text(t, &b);
	*text = arena_strdup(a, buf_str(&b));
	buf_free(&b);
	return task_flops(t) < 1e8 && task_parse(*text, t) >= 0 && space_make(a, t, &target, NULL, &s) >= 0 &&
	       space_random(s, r, cand) >= 0;
}

/* Makes the machine busy. */
static pid_t make_busy(void)
{
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		alarm(300);
		for (volatile unsigned i = 0;; i++)
			;
	}
	return pid;
}

static bool same(const struct buf *a, const struct buf *b)
{
	return a->n == b->n && memcmp(buf_str(a), buf_str(b), a->n) == 0;
}

/* Builds, checks and fetches the code: it must be the same from a worker that runs candidates, too. */
static bool built_the_same(struct runner *r, const char *text, const char *cand, const struct buf *want)
{
	struct arena a = {0};
	struct blob code = {0};
	struct meas m;
	int h, rc = r->ops->build(r, text, cand, soon(), &h, &m);
	bool good = rc >= 0;
	if (rc >= 0 && h >= 0) {
		good = r->ops->code(r, h, soon(), &a, &code) >= 0 && code.n == want->n &&
		       memcmp(code.p, buf_str(want), want->n) == 0;
		r->ops->drop(r, h, soon());
	}
	arena_free(&a);
	return good;
}

/* The same candidate gives the same bytes: in two workers, in a used one and in a fresh one, on a busy
 * machine, and whether it is run afterwards or not. runner_apart depends on this. */
TEST(compiling_is_deterministic)
{
	if (!there_is_a_worker())
		SKIP("no hone-worker (HONE_WORKER)");
	struct runner *one = open_worker(1), *two = open_worker(1), *fresh = NULL;
	struct rng r;
	struct arena a = {0};
	int compiled = 0, failed = 0;
	pid_t busy = 0;
	rng_seed(&r, 19);
	while (compiled < PAIRS && failed < 20 * PAIRS && !test_bad) {
		char cand[CAND_MAX];
		const char *text;
		struct buf b[3] = {{0}, {0}, {0}};
		struct meas m[3];
		struct key k[3];
		arena_reset(&a);
		if (!draw(&r, &a, &text, cand)) {
			failed++;
			continue;
		}
		if (compiled % 20 == 0) {
			if (fresh)
				fresh->ops->close(fresh);
			REQUIRE_OK(runner_worker_again(one, soon(), &fresh));
		}
		if (compiled == PAIRS / 2 && !busy)
			busy = make_busy();
		REQUIRE_OK(runner_worker_emit(one, text, cand, soon(), &k[0], &b[0], &m[0]));
		if (m[0].status == MEAS_OK)
			CHECK(built_the_same(two, text, cand, &b[0]));
		REQUIRE_OK(runner_worker_emit(two, text, cand, soon(), &k[1], &b[1], &m[1]));
		REQUIRE_OK(runner_worker_emit(fresh, text, cand, soon(), &k[2], &b[2], &m[2]));
		CHECK(m[0].status == m[1].status && m[1].status == m[2].status);
		CHECK(same(&b[0], &b[1]) && same(&b[0], &b[2]));
		CHECK(key_equal(k[0], k[1]) && key_equal(k[0], k[2]));
		if (test_bad)
			printf("task:\n%scandidate: %s\n", text, cand);
		*(m[0].status == MEAS_OK ? &compiled : &failed) += 1;
		for (int i = 0; i < 3; i++)
			buf_free(&b[i]);
	}
	if (busy > 0) {
		kill(busy, SIGKILL);
		waitpid(busy, NULL, 0);
	}
	printf("%d pairs of task and candidate, %d that do not compile\n", compiled, failed);
	CHECK(compiled >= PAIRS);
	fresh->ops->close(fresh);
	two->ops->close(two);
	one->ops->close(one);
	arena_free(&a);
}

/* ---- processes ---- */

static const char *foreign_cand = "";

static bool is_foreign(void *ctx, const char *task, const char *cand)
{
	(void)ctx, (void)task;
	return !strcmp(foreign_cand, cand);
}

static struct runner *open_apart(int threads)
{
	const struct apart_ways ways = {.foreign = is_foreign,
					.hire = runner_worker_again,
					.emit = runner_worker_emit,
					.load = runner_worker_load,
					.rest = runner_worker_rest};
	struct runner *r = NULL;
	if (runner_apart(open_worker(threads), &ways, &r) < 0)
		abort();
	return r;
}

static int children(void)
{
	char path[64];
	int n = 0, pid;
	snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
	FILE *f = fopen(path, "r");
	while (f && fscanf(f, "%d", &pid) == 1)
		n++;
	if (f)
		fclose(f);
	return n;
}

static int build(struct runner *r, const char *task, const char *cand)
{
	struct meas m;
	int h = -1;
	CHECK_OK(r->ops->build(r, task, cand, soon(), &h, &m));
	if (h < 0)
		printf("%s: %s\n", cand, meas_status_name(m.status));
	CHECK(h >= 0);
	return h;
}

TEST(a_worker_apart_ends_with_its_candidate)
{
	if (!there_is_a_worker())
		SKIP("no hone-worker (HONE_WORKER)");
	struct arena a = {0};
	struct blob code[2] = {{0}, {0}};
	struct runner *r = open_apart(1), *own = open_worker(1);
	foreign_cand = "tile=x:3";
	int before = children();
	int mine = build(r, task_conv, "tile=x:2");
	CHECK(children() == before);
	int foreign = build(r, task_conv, "tile=x:3"), h = build(own, task_conv, "tile=x:3");
	CHECK(children() == before + 1);
	REQUIRE(mine >= 0 && foreign >= 0 && h >= 0);
	CHECK_OK(r->ops->code(r, foreign, soon(), &a, &code[0]));
	CHECK_OK(own->ops->code(own, h, soon(), &a, &code[1]));
	CHECK(code[0].n == code[1].n && memcmp(code[0].p, code[1].p, code[0].n) == 0);
	r->ops->drop(r, foreign, soon());
	CHECK(children() == before);
	foreign = build(r, task_conv, "tile=x:3");
	CHECK(children() == before + 1);
	build(r, task_matmul, "lane=n:8");
	CHECK(children() == before); /* another task is built */
	own->ops->close(own);
	r->ops->close(r);
	CHECK(children() == before - 2);
	arena_free(&a);
}

/* A candidate gives the same times as this board's and as a stranger's, except for noise. */
TEST(times_from_two_workers_compare)
{
	if (!there_is_a_worker())
		SKIP("no hone-worker (HONE_WORKER)");
	double sum = 0;
	int n = 0;
	for (int threads = 1; threads <= 2; threads++)
		for (int cold = 0; cold < 2; cold++) {
			struct runner *r = open_apart(threads);
			struct meas m[2];
			int h[2];
			foreign_cand = "";
			h[0] = build(r, task_conv, "tile=x:3");
			foreign_cand = "tile=x:3";
			h[1] = build(r, task_conv, "tile=x:3");
			REQUIRE(h[0] >= 0 && h[1] >= 0);
			CHECK_OK(
			    r->ops->time(r, h, 2, 61, 0, TIME_QUIET | (cold ? TIME_COLD : 0), soon(), m));
			CHECK(m[0].status == MEAS_OK && m[1].status == MEAS_OK && m[0].runs == 61);
			double ratio = (double)m[1].median_ns / (double)m[0].median_ns;
			printf("%d threads, %s: %.1f us and %.1f us apart, %.3f\n", threads,
			       cold ? "cold" : "warm", (double)m[0].median_ns / 1e3,
			       (double)m[1].median_ns / 1e3, ratio);
			sum += ratio;
			n++;
			r->ops->close(r);
		}
	CHECK(sum / n > 0.6 && sum / n < 1.6); /* wide limits, because the machine may be busy */
}

TEST_MAIN
