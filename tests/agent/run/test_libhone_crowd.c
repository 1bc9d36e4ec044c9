/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads use one model while a cache changes under it; waiting threads are served in turn. */
#include "agent/cache/cache.h"
#include "platform/base/clock.h"
#include "tests/lib/libhone.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 8 };

struct crowd {
	struct hone_handle *h;
	struct hone_model *shared;
	float want[THREADS];
	int rounds;
	atomic_int wrong, running;
};

struct member {
	struct crowd *c;
	int number;
};

static bool one_of(int rc, const int *good, int n)
{
	for (int i = 0; i < n; i++)
		if (rc == good[i])
			return true;
	return false;
}

/* Makes all other calls on a shared model; which of them succeed is chance. */
static int meddle(struct hone_model *m, int i)
{
	struct hone_kernel_info k;
	struct hone_model_info s;
	HONE_INIT(k);
	HONE_INIT(s);
	int wrong = hone_summary(m, &s) < 0 || hone_kernels(m) < 1;
	(void)hone_kernel(m, i, &k);
	wrong += !one_of(hone_run_async(m), (const int[]){HONE_OK, HONE_BUSY}, 2);
	wrong += hone_poll(m) < 0;
	if (i % 3 == 0)
		hone_cancel(m);
	wrong += hone_bind_input(m, 0, NULL, 0) < 0 || hone_bind_output(m, 0, NULL, 0) < 0;
	return wrong + !one_of(hone_wait(m, i % 2),
			       (const int[]){HONE_OK, HONE_STOPPED, HONE_TIMEOUT, HONE_USAGE}, 4);
}

static int own_run(struct hone_model *own, int i)
{
	int rc = i % 2 ? hone_run(own) : hone_run_async(own);
	return rc >= 0 && i % 2 == 0 ? hone_wait(own, -1) : rc;
}

/* Each thread runs a model of its own and the shared one. */
static void *member_main(void *arg)
{
	const struct member *me = arg;
	struct crowd *c = me->c;
	struct hone_model *own = NULL;
	struct hone_tensor x;
	HONE_INIT(x);
	if (hone_load(c->h, steering(), NULL, &own) < 0 || hone_input(own, 0, &x) < 0) {
		c->wrong++;
		c->running--;
		return NULL;
	}
	float *in = malloc(x.bytes), out = 0, want = c->want[me->number];
	fill_input(in, x.bytes, me->number);
	const void *ins[] = {in};
	void *outs[] = {&out};
	for (int i = 0; i < c->rounds; i++) {
		out = 0;
		c->wrong += hone_run_on(c->shared, ins, outs) < 0 || !near(out, want);
		memcpy(hone_input_buffer(own, 0), in, x.bytes);
		c->wrong += own_run(own, i) < 0 || !near(((float *)hone_output_buffer(own, 0))[0], want);
		c->wrong += meddle(c->shared, i);
		if (i % 4 == 3)
			c->wrong += hone_refresh(own) < 0;
	}
	free(in);
	hone_model_close(own);
	c->running--;
	return NULL;
}

/* Damages and repairs records in turns, so that every refresh finds other kernels. */
static int spoil(struct cache *w, int n, const struct key *k, const struct blob *good, int turn)
{
	int rc = 0;
	for (int i = 0; i < n && rc >= 0; i++)
		rc = cache_put(w, CACHE_REC, k[i], turn % 2 ? good[i].p : "?", turn % 2 ? good[i].n : 1);
	return rc < 0 ? rc : cache_commit(w);
}

static int rounds(void)
{
	const char *n = getenv("CROWD_ROUNDS"); /* fewer under valgrind */
	return n ? atoi(n) : test_share() > 1 ? 3 : 12;
}

static void run_crowd(int threads, const char *name)
{
	char folder[256];
	struct arena a = {0};
	struct cache *w = NULL;
	struct key *keys;
	struct blob good[64];
	pthread_t id[THREADS];
	struct member member[THREADS];
	snprintf(folder, sizeof folder, "%s", in_dir(name));
	copy_folder(tuned(), folder);
	REQUIRE_OK(cache_open(&w, folder, false, NS_PER_S));
	int n = cache_keys(w, CACHE_REC, &a, &keys);
	REQUIRE(n > 0 && n <= 64);
	for (int i = 0; i < n; i++)
		REQUIRE_OK(cache_get(w, CACHE_REC, keys[i], &a, &good[i]));
	struct crowd c = {.h = opened(folder, threads, HONE_NO_PIN), .rounds = rounds(), .running = THREADS};
	REQUIRE(c.h != NULL);
	c.shared = loaded(c.h, steering());
	REQUIRE(c.shared != NULL);
	for (int i = 0; i < THREADS; i++)
		c.want[i] = first_output(c.shared, i);
	for (int i = 0; i < THREADS; i++) {
		member[i] = (struct member){&c, i};
		REQUIRE(pthread_create(&id[i], NULL, member_main, &member[i]) == 0);
	}
	int changed = 0, rc = 0;
	for (int turn = 0; (c.running > 0 || turn < 2) && rc >= 0; turn++) {
		rc = spoil(w, n, keys, good, turn);
		if (rc >= 0)
			rc = hone_refresh(c.shared);
		changed += rc > 0;
	}
	CHECK_OK(rc);
	for (int i = 0; i < THREADS; i++)
		pthread_join(id[i], NULL);
	CHECK(changed >= 1 && info_of(c.shared).refreshed == changed);
	CHECK(c.wrong == 0);
	hone_model_close(c.shared);
	hone_close(c.h);
	cache_close(w);
	arena_free(&a);
}

struct queue {
	struct hone_model *m;
	atomic_bool stop;
	atomic_int runs;
};

static void *run_on_and_on(void *arg)
{
	struct queue *q = arg;
	while (!q->stop && hone_run(q->m) >= 0)
		q->runs++;
	return NULL;
}

/* A thread that runs in a loop does not keep others out: between asking and having nobody goes twice. */
TEST(runs_are_had_in_turn)
{
	enum { OTHERS = 3, MINE = 60 };
	struct hone_handle *h = opened(NULL, 1, 0);
	REQUIRE(h != NULL);
	struct queue q = {.m = loaded(h, steering())};
	pthread_t id[OTHERS];
	REQUIRE(q.m != NULL);
	for (int i = 0; i < OTHERS; i++)
		REQUIRE(pthread_create(&id[i], NULL, run_on_and_on, &q) == 0);
	while (q.runs < OTHERS)
		sched_yield();
	int most = 0;
	for (int i = 0; i < MINE; i++) {
		int before = q.runs;
		CHECK_OK(hone_run(q.m));
		int others = q.runs - before;
		most = others > most ? others : most;
	}
	CHECK(most <= OTHERS * 4); /* once each, but for what this thread lost before it asked */
	q.stop = true;
	for (int i = 0; i < OTHERS; i++)
		pthread_join(id[i], NULL);
	hone_model_close(q.m);
	hone_close(h);
}

TEST(many_threads_and_refreshes)
{
	if (!tuned())
		SKIP("no hone-worker (HONE_WORKER)");
	run_crowd(1, "crowd-1");
}

TEST(many_threads_on_a_pool)
{
	if (!tuned())
		SKIP("no hone-worker (HONE_WORKER)");
	run_crowd(2, "crowd-2");
}

TEST_MAIN
