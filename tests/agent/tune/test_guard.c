/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tune/guard.h"
#include "tests/lib/test.h"

#include <semaphore.h>
#include <stdlib.h>

static sem_t called;

static void count(void *ctx)
{
	++*(int *)ctx;
	sem_post(&called);
}

static struct guard *open_guard(int64_t left_ns, int *calls)
{
	struct guard *g = NULL;
	const struct guard_options o = {
	    .clock = &clock_real, .end_ns = clock_now(&clock_real) + left_ns, .ctx = calls, .late = count};
	CHECK_OK(guard_open(&o, &g));
	return g;
}

TEST(calls_once_when_the_box_is_over)
{
	int calls = 0;
	sem_init(&called, 0, 0);
	struct guard *g = open_guard(0, &calls);
	sem_wait(&called);
	guard_close(g);
	CHECK(calls == 1);
}

TEST(calls_before_the_end)
{
	int calls = 0;
	sem_init(&called, 0, 0);
	int64_t end_ns = clock_now(&clock_real) + guard_exit_ns((size_t)1 << 30);
	struct guard *g = open_guard(guard_exit_ns(0) + 1, &calls);
	sem_wait(&called);
	CHECK(clock_now(&clock_real) < end_ns); /* the exit of a process of 1 GiB takes long */
	guard_close(g);
}

TEST(does_not_call_a_job_that_ended)
{
	int calls = 0;
	sem_init(&called, 0, 0);
	guard_close(open_guard(3600 * NS_PER_S, &calls));
	CHECK(calls == 0);
	guard_close(NULL);
}

TEST(more_memory_takes_longer)
{
	size_t n = (size_t)200 << 20;
	int64_t before = guard_exit_ns(0);
	CHECK(guard_exit_ns(n) >= before + 15 * NS_PER_MS);
	char *p = malloc(n);
	REQUIRE(p);
	memset(p, 1, n);
	CHECK(guard_exit_ns(0) >= before + 15 * NS_PER_MS && p[n - 1] == 1);
	free(p);
}

TEST_MAIN
