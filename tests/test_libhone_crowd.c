/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads on one model while a cache changes under it; who waits is served in turn. */
#include "agent/cache.h"
#include "platform/clock.h"
#include "tests/libhone.h"

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

/* Each on a model of its own and on the one that all share, asking what runs between. */
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
	float *in = malloc(x.bytes), out = 0;
	fill_input(in, x.bytes, me->number);
	const void *ins[] = {in};
	void *outs[] = {&out};
	for (int i = 0; i < c->rounds; i++) {
		struct hone_kernel_info k;
		struct hone_model_info s;
		HONE_INIT(k);
		HONE_INIT(s);
		out = 0;
		c->wrong += hone_run_on(c->shared, ins, outs) < 0 || !near(out, c->want[me->number]);
		memcpy(hone_input_buffer(own, 0), in, x.bytes);
		int rc = i % 2 ? hone_run(own) : hone_run_async(own);
		if (rc >= 0 && i % 2 == 0)
			rc = hone_wait(own, -1);
		c->wrong += rc < 0 || !near(((float *)hone_output_buffer(own, 0))[0], c->want[me->number]);
		c->wrong += hone_summary(c->shared, &s) < 0 || hone_kernels(c->shared) < 1;
		(void)hone_kernel(c->shared, i, &k);
		if (i % 4 == 3)
			c->wrong += hone_refresh(own) < 0;
	}
	free(in);
	hone_model_close(own);
	c->running--;
	return NULL;
}

/* Records that are damaged and whole by turns, so that every refresh finds other kernels. */
static int spoil(struct cache *w, int n, const struct key *k, const struct blob *good, int turn)
{
	int rc = 0;
	for (int i = 0; i < n && rc >= 0; i++)
		rc = cache_put(w, CACHE_REC, k[i], turn % 2 ? good[i].p : "?", turn % 2 ? good[i].n : 1);
	return rc < 0 ? rc : cache_commit(w);
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
	struct crowd c = {.h = opened(folder, threads, HONE_NO_PIN), .rounds = 12, .running = THREADS};
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
	if (!test_bad)
		run_crowd(2, "crowd-2");
}

TEST_MAIN
