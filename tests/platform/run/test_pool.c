/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/run/pool.h"
#include "platform/base/clock.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

struct cover {
	atomic_int hits[1000];
	atomic_int calls;
	atomic_bool thread_used[64];
};

static void mark(void *ctx, int thread, int64_t begin, int64_t end)
{
	struct cover *c = ctx;
	atomic_fetch_add(&c->calls, 1);
	atomic_store(&c->thread_used[thread], true);
	for (int64_t i = begin; i < end; i++)
		atomic_fetch_add(&c->hits[i], 1);
}

static void check_cover(struct pool *p, int64_t extent)
{
	static struct cover c;
	memset(&c, 0, sizeof c);
	pool_run(p, mark, &c, extent);
	for (int i = 0; i < 1000; i++)
		CHECK(c.hits[i] == (i < extent));
	int threads = pool_threads(p), least = extent < threads ? (int)extent : threads;
	CHECK(threads == 1 || c.calls >= least);
	CHECK(c.calls <= 4 * threads);
	for (int t = threads; t < 64; t++)
		CHECK(!c.thread_used[t]);
}

TEST(every_index_once)
{
	static const int threads[] = {1, 2, 3, 4, 13};
	static const int64_t extents[] = {0, 1, 2, 3, 4, 5, 12, 13, 14, 999, 1000};
	for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++) {
		struct pool *p;
		REQUIRE_OK(pool_open(&p, threads[t], NULL));
		CHECK(pool_threads(p) == threads[t]);
		for (int round = 0; round < 20; round++) {
			if (round & 1)
				pool_begin(p);
			for (size_t e = 0; e < sizeof extents / sizeof extents[0]; e++)
				check_cover(p, extents[e]);
			if (round & 1)
				pool_end(p);
		}
		pool_close(p);
	}
}

TEST(runs_after_a_sleep)
{
	struct pool *p;
	REQUIRE_OK(pool_open(&p, 3, NULL));
	for (int i = 0; i < 10; i++) {
		clock_real.sleep(&clock_real, NS_PER_MS);
		check_cover(p, 100);
		clock_real.sleep(&clock_real, NS_PER_MS);
		pool_begin(p);
		check_cover(p, 100);
		clock_real.sleep(&clock_real, NS_PER_MS);
		check_cover(p, 7);
		pool_end(p);
	}
	pool_close(p);
}

static void add(void *ctx, int thread, int64_t begin, int64_t end)
{
	(void)thread;
	for (int64_t i = begin; i < end; i++)
		((int *)ctx)[i]++;
}

struct stuck {
	atomic_int done;
	int parts;
};

/* Holds thread 1 in its first range until all ranges of the others are done. */
static void hold(void *ctx, int thread, int64_t begin, int64_t end)
{
	struct stuck *s = ctx;
	while (thread == 1 && atomic_load(&s->done) < s->parts - 1)
		sched_yield();
	atomic_fetch_add(&s->done, (int)(end - begin));
}

/* A worker that is stuck holds up the range that it is in, not the ranges that it has not begun. */
TEST(others_take_what_a_slow_thread_has_not_begun)
{
	struct pool *p;
	REQUIRE_OK(pool_open(&p, 3, NULL));
	for (int i = 0; i < 200; i++) {
		struct stuck s = {.parts = 12};
		pool_run(p, hold, &s, 12);
		CHECK(s.done == 12);
	}
	pool_close(p);
}

/* Each run is a barrier: the next run sees everything that it wrote, in whatever thread. */
TEST(runs_are_ordered)
{
	struct pool *p;
	int v[8] = {0}, cpus[8] = {0, 0, 0, 0, 0, 0, 0, 0};
	REQUIRE_OK(pool_open(&p, 4, cpus));
	pool_begin(p);
	for (int i = 0; i < 2000; i++)
		pool_run(p, add, v, 2 + i % 7);
	pool_end(p);
	CHECK(v[0] == 2000 && v[1] == 2000);
	CHECK(v[7] == 285);
	pool_close(p);
}

struct tiny {
	atomic_int inside;
	float r[3];
};

/* No thread leaves before all have entered, so each runs one range. */
static void tiny(void *ctx, int thread, int64_t begin, int64_t end)
{
	struct tiny *t = ctx;
	volatile float x = 1e-38f;
	t->r[thread] = x * 0.01f;
	atomic_fetch_add(&t->inside, (int)(end - begin));
	while (atomic_load(&t->inside) < 3)
		sched_yield();
}

TEST(flushes_to_zero)
{
	struct pool *p;
	struct tiny t = {.r = {1, 1, 1}};
	unsigned old = fpu_flush();
	REQUIRE_OK(pool_open(&p, 3, NULL));
	pool_run(p, tiny, &t, 3);
	pool_close(p);
	fpu_restore(old);
	CHECK(t.r[0] == 0 && t.r[1] == 0 && t.r[2] == 0);
	tiny(&t, 0, 0, 1);
	CHECK(t.r[0] != 0);
}

/* A caller on a worker's cpu is moved to its own, and is not bound to it. */
TEST(leaves_workers_their_cpus)
{
	cpu_set_t old, both, now;
	struct pool *p;
	int cpu[2], n = 0, away = 0;
	REQUIRE(sched_getaffinity(0, sizeof old, &old) == 0);
	for (int c = 0; c < CPU_SETSIZE && n < 2; c++)
		if (CPU_ISSET(c, &old))
			cpu[n++] = c;
	if (n < 2)
		SKIP("needs two processors");
	REQUIRE_OK(pool_open(&p, 2, cpu));
	CPU_ZERO(&both);
	CPU_SET(cpu[0], &both);
	CPU_SET(cpu[1], &both);
	for (int i = 0; i < 20; i++) { /* the system may move it at any time */
		cpu_set_t worker;
		CPU_ZERO(&worker);
		CPU_SET(cpu[1], &worker);
		CHECK(sched_setaffinity(0, sizeof worker, &worker) == 0);
		CHECK(sched_setaffinity(0, sizeof both, &both) == 0);
		pool_begin(p);
		away += sched_getcpu() == cpu[0];
		pool_end(p);
		CHECK(sched_getaffinity(0, sizeof now, &now) == 0 && CPU_EQUAL(&now, &both));
	}
	CHECK(away > 0);
	pool_close(p);
	CHECK(sched_setaffinity(0, sizeof old, &old) == 0);
}

/* Few and many parts in turn, while late threads still look at a finished job. */
TEST(short_runs_of_any_extent)
{
	struct pool *p;
	struct rng r;
	static int v[64];
	int want[64] = {0};
	memset(v, 0, sizeof v);
	rng_seed(&r, 1);
	REQUIRE_OK(pool_open(&p, 4, NULL));
	pool_begin(p);
	for (int i = 0; i < 20000; i++) {
		int extent = 2 + (int)rng_below(&r, i % 2 ? 3 : 62);
		pool_run(p, add, v, extent);
		for (int k = 0; k < extent; k++)
			want[k]++;
	}
	pool_end(p);
	CHECK(!memcmp(v, want, sizeof v));
	pool_close(p);
}

TEST(refuses)
{
	struct pool *p;
	CHECK_FAILS(pool_open(&p, 0, NULL), E_USAGE, "0 threads");
	CHECK_FAILS(pool_open(&p, 5000, NULL), E_USAGE, "5000 threads");
	pool_close(NULL);
}

TEST_MAIN
