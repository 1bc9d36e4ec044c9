/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which record serves another number of threads than they were tuned for. */
#include "agent/cache/lookup.h"
#include "tests/lib/board_cache.h"
#include "tests/lib/tasks.h"

#include <stdlib.h>

static void put(int threads)
{
	struct rec r = {
	    .task = hash_text(task_conv),
	    .kind = REC_BEST,
	    .target_key = target_key(&target),
	    .device = "cpu",
	    .emitter = "llvm-19/1",
	    .threads = threads,
	    .meas = {.status = MEAS_OK, .runs = 3, .min_ns = 900, .median_ns = 900, .threads = threads},
	    .task_text = task_conv,
	    .label = "kernel",
	    .cand = "candidate"};
	CHECK_OK(cache_put_rec(cache, &r));
}

/* Returns the number of threads of the record that serves; 0: none. */
static int served_by(int threads)
{
	struct arena a = {0};
	struct rec r = {0};
	int rc = cache_find_rec(cache, hash_text(task_conv), &target, threads, false, REC_BEST, &a, &r);
	arena_free(&a);
	return rc < 0 ? 0 : r.threads;
}

TEST(nearest_number_of_threads_serves)
{
	open_cache();
	CHECK(served_by(1) == 0);
	put(2);
	CHECK(served_by(1) == 2 && served_by(2) == 2 && served_by(4) == 2 && served_by(64) == 2);
	put(8);
	CHECK(served_by(1) == 2 && served_by(4) == 2 && served_by(5) == 2 && served_by(6) == 8 &&
	      served_by(7) == 8 && served_by(16) == 8);
	put(7);
	CHECK(served_by(7) == 7);
	close_cache();
}

TEST(each_number_is_tried_once_in_order_of_distance)
{
	for (int own = 1; own <= 70; own++) {
		int t[LOOKUP_THREADS], n = lookup_threads(own, t);
		REQUIRE(n >= 2 && n <= LOOKUP_THREADS && t[0] == own);
		for (int i = 1; i < n; i++) {
			int near = abs(t[i - 1] - own), far = abs(t[i] - own);
			CHECK(near < far || (near == far && t[i - 1] < t[i]));
		}
	}
}

TEST_MAIN
