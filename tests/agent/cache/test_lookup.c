/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which record serves another number of threads than they were tuned for. */
#include "agent/cache/lookup.h"
#include "tests/lib/board_cache.h"
#include "tests/lib/tasks.h"

#include <stdlib.h>

static void put_as(int threads, enum rec_kind kind, const char *cand)
{
	struct rec r = {
	    .task = hash_text(task_conv),
	    .kind = (int)kind,
	    .target_key = target_key(&target),
	    .device = "cpu",
	    .emitter = "llvm-19/1",
	    .threads = threads,
	    .meas = {.status = MEAS_OK, .runs = 3, .min_ns = 900, .median_ns = 900, .threads = threads},
	    .task_text = task_conv,
	    .label = "kernel"};
	snprintf(r.cand, sizeof r.cand, "%s", cand);
	CHECK_OK(cache_put_rec(cache, &r));
}

static void put(int threads)
{
	put_as(threads, REC_BEST, "candidate");
}

/* Returns the number of threads of the record that serves; 0: none. */
static int served_by(int threads)
{
	struct arena a = {0};
	struct rec r = {0};
	int rc = cache_find_rec(cache, hash_text(task_conv), &target, threads, LEVEL_FP32, REC_BEST, &a, &r);
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

/* The candidate that a lookup of this kind finds. */
static const char *cand_of(int threads, enum rec_kind kind)
{
	static char cand[512];
	struct arena a = {0};
	struct rec r = {0};
	int rc = cache_find_rec(cache, hash_text(task_conv), &target, threads, LEVEL_FP32, kind, &a, &r);
	snprintf(cand, sizeof cand, "%s", rc < 0 ? "none" : r.cand);
	arena_free(&a);
	return cand;
}

/* An export has no library's records, so that hone's own best one comes alone. */
TEST(own_record_serves_where_no_best_one_is)
{
	open_cache();
	put_as(2, REC_DEFAULT, "default");
	put_as(2, REC_OWN, "own");
	CHECK(!strcmp(cand_of(2, REC_BEST), "own") && !strcmp(cand_of(2, REC_OWN), "own"));
	CHECK(!strcmp(cand_of(2, REC_DEFAULT), "default"));
	close_cache();
}

TEST(process_without_libraries_gets_the_best_own_kernel)
{
	static const char library[] = "library=shim/1.0@0123456789abcdef parts=2";
	open_cache();
	put_as(2, REC_DEFAULT, "default");
	CHECK(!strcmp(cand_of(2, REC_OWN), "default"));
	put_as(2, REC_BEST, "best");
	CHECK(!strcmp(cand_of(2, REC_OWN), "best"));
	put_as(2, REC_BEST, library);
	CHECK(!strcmp(cand_of(2, REC_BEST), library));
	CHECK(!strcmp(cand_of(2, REC_OWN), "default"));
	put_as(2, REC_OWN, "own");
	CHECK(!strcmp(cand_of(2, REC_BEST), library) && !strcmp(cand_of(2, REC_OWN), "own"));
	CHECK(!strcmp(cand_of(2, REC_DEFAULT), "default"));
	/* of another number of threads, the nearest one serves */
	put_as(4, REC_BEST, "best of four");
	CHECK(!strcmp(cand_of(2, REC_OWN), "own") && !strcmp(cand_of(3, REC_OWN), "own"));
	CHECK(!strcmp(cand_of(4, REC_OWN), "best of four"));
	/* a box without libraries found a better one: the older one beside it no longer counts */
	put_as(2, REC_BEST, "better");
	CHECK(!strcmp(cand_of(2, REC_OWN), "better") && !strcmp(cand_of(2, REC_BEST), "better"));
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
