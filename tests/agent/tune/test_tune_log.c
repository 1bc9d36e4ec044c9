/* SPDX-License-Identifier: Apache-2.0 */
/* The logs that a box writes: every one can be read again, whichever of its jobs came to a task. */
#include "agent/tune/tune_parts.h"
#include "platform/base/rng.h"
#include "tests/lib/scratch.h"
#include "tests/lib/tasks.h"
#include "tests/lib/test.h"

#include <stdio.h>

enum { JOBS = 3, BOXES = 4 };

static struct cache *cache;

static void open_session(struct session *s, const struct tune_options *o, struct arena *a)
{
	static struct runner runner = {.emitter = "test/1"};
	*s = (struct session){.o = o, .a = a, .clock = &clock_real, .runner = &runner, .ntasks = 1};
	CHECK_OK(target_host(&s->target));
	s->report = ARENA_NEW(a, struct tune_report);
	s->store.cache = cache;
	s->task = ARENA_NEW(a, struct step_task);
	s->task->text = task_matmul;
	s->task->key = hash_text(task_matmul);
	s->job = ARENA_NEW(a, struct job_task);
	s->job->label = "matmul";
	s->result = ARENA_NEW(a, struct job_result);
}

/* A job of a box that tries the task so many times. */
static void run_job(struct session *s, int tries, int *candidate)
{
	CHECK_OK(tune_log_open(s));
	for (int i = 0; i < tries; i++) {
		char cand[32];
		snprintf(cand, sizeof cand, "tile=m:%d", ++*candidate);
		const struct tried t = {.cand = cand,
					.by = TRIED_STRATEGY,
					.status = MEAS_OK,
					.ns = 100,
					.at_ns = clock_now(s->clock)};
		tune_log_add(s, 0, &t);
		s->result->met = true;
	}
	CHECK_OK(tune_log_put(s));
	tune_log_close(s);
}

/* Boxes of some jobs each, with trials in none, some or all of them: the log counts the boxes with trials,
 * and each trial has its box. --fresh takes the trials of this box alone as known. */
TEST(logs_count_their_boxes)
{
	struct rng r;
	rng_seed(&r, 1);
	for (int run = 0; run < 40 && !test_bad; run++) {
		int boxes = 0, candidate = 0, box_of[BOXES * JOBS * 2 + 1];
		CHECK_OK(cache_open(&cache, scratch_folder(), false, 0));
		for (int box = 0; box < BOXES; box++) {
			struct arena a = {0};
			struct session s;
			const struct tune_options o = {
			    .threads = 1, .budget_ns = NS_PER_S, .fresh = rng_below(&r, 2)};
			struct job_result earlier;
			int before = candidate;
			open_session(&s, &o, &a);
			for (int job = 0; job < JOBS; job++) {
				int tries = (int)rng_below(&r, 3), from = candidate;
				run_job(&s, tries, &candidate);
				if (o.fresh)
					CHECK(s.job->ntried == from - before);
				earlier = *s.result;
				s.job->earlier = &earlier;
			}
			boxes += candidate > before;
			for (int i = before + 1; i <= candidate; i++)
				box_of[i] = boxes;
			arena_free(&a);
		}
		struct trials *l = calloc(1, sizeof *l);
		struct key *k, log = {0};
		struct arena a = {0};
		int n = cache_keys(cache, CACHE_TRIALS, &a, &k);
		CHECK(n == (boxes > 0));
		log = n > 0 ? k[0] : log;
		if (n > 0)
			CHECK_OK(trials_get(cache, log, l));
		CHECK(l->boxes == boxes && l->n == candidate);
		for (int i = 0; i < l->n; i++)
			CHECK(l->entry[i].box == box_of[i + 1]);
		trials_free(l);
		free(l);
		arena_free(&a);
		cache_close(cache);
	}
}

TEST_MAIN
