/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/stale.h"
#include "agent/cache/trials.h"
#include "kernels/loops/code.h"
#include "search/job.h"
#include "tests/lib/board_cache.h"
#include "tests/lib/tasks.h"

static const char emitter[] = "llvm-19/" CODE_REVISION;
static struct rec make_rec(enum rec_kind kind, const char *cand)
{
	struct rec r = {
	    .task = hash_text(task_conv),
	    .kind = (int)kind,
	    .target_key = target_key(&target),
	    .device = "cpu",
	    .threads = 2,
	    .meas = {.status = MEAS_OK, .runs = 3, .min_ns = 900, .median_ns = 1000, .threads = 2},
	    .task_text = task_conv,
	    .label = "conv"};
	snprintf(r.emitter, sizeof r.emitter, "%s", emitter);
	snprintf(r.cand, sizeof r.cand, "%s", cand);
	return r;
}

static void check(const struct rec *r, enum stale want)
{
	enum stale got = stale_rec(cache, r, &target, emitter);
	if (got != want)
		printf("stale '%s', wanted '%s'\n", stale_name(got), stale_name(want));
	CHECK(got == want);
}

TEST(records_with_their_code_are_not_stale)
{
	open_cache();
	struct rec r = make_rec(REC_BEST, "tile=x:8");
	check(&r, STALE_CODE);
	put_code(&r, emitter, "x");
	check(&r, STALE_NOT);
	put_code(&r, "llvm-19/0", "x"); /* made before an upgrade */
	check(&r, STALE_CODE);
	r.target_key = hash_text("another");
	check(&r, STALE_MACHINE);
	close_cache();
}

TEST(code_of_other_emitters)
{
	open_cache();
	struct rec r = make_rec(REC_BEST, "tile=x:8");
	snprintf(r.emitter, sizeof r.emitter, "llvm-14/" CODE_REVISION);
	put_code(&r, "llvm-14/" CODE_REVISION, "x");
	check(&r, STALE_EMITTER);
	CHECK(stale_rec(cache, &r, &target, "") == STALE_NOT); /* the present emitter is not known */
	close_cache();
}

TEST(numbers_that_cannot_be)
{
	open_cache();
	const struct rec good = make_rec(REC_BEST, "tile=x:8");
	put_code(&good, emitter, "x");
	struct rec bad[9];
	for (int i = 0; i < 9; i++)
		bad[i] = good;
	bad[0].meas.status = MEAS_WRONG;
	bad[1].meas.runs = 0;
	bad[2].meas.min_ns = 0;
	bad[3].meas.median_ns = 800;
	bad[4].meas.max_rel_err = 2;
	bad[5].meas.threads = 4;
	bad[6].threads = 0;
	bad[7].threads = INT32_MAX;
	bad[8].meas.median_ns = INT64_MIN;
	for (int i = 0; i < 9; i++)
		check(&bad[i], STALE_NUMBERS);
	CHECK(stale_plausible(&bad[0])); /* it failed, and its status says so */
	for (int i = 1; i < 9; i++)
		CHECK(!stale_plausible(&bad[i]));
	check(&good, STALE_NOT);
	close_cache();
}

/* The clock changed during the measurement, or between it and that of the task's default, which the last box
 * measured. */
TEST(another_clock)
{
	static const struct {
		int before, after, def;
		enum stale stale;
	} is[] = {
	    {1500, 1500, 1500, STALE_NOT},     {1500, 600, 1500, STALE_CLOCK}, {1500, 1400, 1500, STALE_NOT},
	    {1500, 1500, 1800, STALE_CLOCK},   {0, 0, 1800, STALE_NOT},        {1500, 1500, 0, STALE_NOT},
	    {INT32_MAX, 1, 1500, STALE_CLOCK}, {-5, 1500, 1500, STALE_NOT},
	};
	open_cache();
	struct rec r = make_rec(REC_BEST, "tile=x:8"), def = make_rec(REC_DEFAULT, "tile=x:4");
	put_code(&r, emitter, "x");
	put_code(&def, emitter, "x");
	for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
		r.meas.mhz_before = is[i].before;
		r.meas.mhz_after = is[i].after;
		def.meas.mhz_before = def.meas.mhz_after = is[i].def;
		CHECK_OK(cache_put_rec(cache, &def));
		check(&r, is[i].stale);
		check(&def, STALE_NOT);
	}
	close_cache();
}

TEST(throttled)
{
	open_cache();
	struct rec r = make_rec(REC_BEST, "tile=x:8"), back;
	struct arena a = {0};
	put_code(&r, emitter, "x");
	for (int i = 0; i < 2; i++) {
		r.origin = i ? ORIGIN_THROTTLED : ORIGIN_SEARCH;
		CHECK_OK(cache_put_rec(cache, &r));
		CHECK_OK(cache_get_rec(cache, rec_key(&r), &a, &back));
		check(&back, i ? STALE_THROTTLED : STALE_NOT);
	}
	arena_free(&a);
	close_cache();
}

TEST(many_boxes_ago)
{
	open_cache();
	struct rec r = make_rec(REC_BEST, "tile=x:8");
	put_code(&r, emitter, "x");
	static struct trials l;
	trials_start(&l, r.task, task_conv, "conv");
	l.target_key = r.target_key;
	l.threads = 2;
	snprintf(l.device, sizeof l.device, "cpu");
	const struct tried t = {.cand = "tile=x:8", .ns = 900};
	trials_add(&l, &t, 3);
	for (l.boxes = 3; l.boxes < 14; l.boxes++) {
		CHECK_OK(trials_put(cache, &l));
		check(&r, l.boxes < 3 + STALE_BOXES ? STALE_NOT : STALE_AGE);
	}
	struct rec other = make_rec(REC_BEST, "tile=x:2"); /* the log does not know it */
	put_code(&other, emitter, "x");
	check(&other, STALE_NOT);
	trials_free(&l);
	close_cache();
}

TEST(every_reason_has_words)
{
	for (int i = 0; i <= STALES; i++) {
		bool none = i == STALE_NOT || i == STALES;
		CHECK(!*stale_name((enum stale)i) == none && !*stale_words((enum stale)i) == none);
	}
}

TEST_MAIN
