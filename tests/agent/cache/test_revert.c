/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which records are reverted to default schedules, and which record serves then. */
#include "agent/cache/kept_code.h"
#include "agent/cache/revert.h"
#include "agent/cache/lookup.h"
#include "tests/lib/board_cache.h"
#include "tests/lib/tasks.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

static const char *const task[] = {task_conv, "another task"};

static struct rec make_rec(int i, const char *cand, enum rec_kind kind, int64_t ns)
{
	struct rec r = {.task = hash_text(task[i]),
			.kind = (int)kind,
			.target_key = target_key(&target),
			.device = "cpu",
			.emitter = "llvm-19/1",
			.threads = 1,
			.meas = {.status = MEAS_OK, .runs = 3, .min_ns = ns, .median_ns = ns},
			.task_text = task[i],
			.label = "kernel"};
	snprintf(r.cand, sizeof r.cand, "%s", cand);
	return r;
}

static void put(int i, const char *cand, enum rec_kind kind, int64_t ns)
{
	const struct rec r = make_rec(i, cand, kind, ns);
	CHECK_OK(kept_code_put(cache, &r, (struct blob){cand, strlen(cand)}));
	CHECK_OK(cache_put_rec(cache, &r));
}

static void set_up(void)
{
	open_cache();
	for (int i = 0; i < 2; i++) {
		put(i, "default", REC_DEFAULT, 1000);
		put(i, "best", REC_BEST, 900);
	}
}

/* Checks that this candidate serves and has its code. */
static void check_serves(int i, int threads, const char *cand, int64_t ns)
{
	struct arena a = {0};
	struct rec r;
	struct blob code;
	CHECK_OK(cache_find_rec(cache, hash_text(task[i]), &target, threads, false, REC_BEST, &a, &r));
	CHECK(!strcmp(r.cand, cand) && r.meas.min_ns == ns && r.kind == REC_BEST);
	CHECK_OK(kept_code_get(cache, &r, &a, &code));
	CHECK(code.n == strlen(cand) && !memcmp(code.p, cand, code.n));
	arena_free(&a);
}

enum { ROUNDS = 9 };

/* A kernel with the same times in every round. */
static struct served steady(const char *text, int64_t default_ns, int64_t best_ns)
{
	struct served k = {.task = hash_text(text), .rounds = ROUNDS};
	for (int r = 0; r < ROUNDS; r++) {
		k.default_ns[r] = default_ns;
		k.best_ns[r] = best_ns;
	}
	return k;
}

static int run(int n, const struct served *k)
{
	return revert(cache, &target, 1, false, n, k);
}

TEST(kernels_that_lose_in_the_network_go_back)
{
	const struct served k[] = {steady(task[0], 980, 1020), steady(task[1], 1000, 900)};
	set_up();
	CHECK(run(2, k) == 1);
	check_serves(0, 1, "default", 1000);
	check_serves(1, 1, "best", 900);
	CHECK(run(2, k) == 0); /* it is the best already */
	close_cache();
}

/* Two kernels of the same task: one loses more than the other gains, or less. */
TEST(the_sum_over_a_task_decides)
{
	struct served k[] = {steady(task[0], 1000, 900), steady(task[0], 1000, 1200)};
	set_up();
	k[1] = steady(task[0], 1000, 1090);
	CHECK(run(2, k) == 0);
	k[1] = steady(task[0], 1000, 1200);
	CHECK(run(2, k) == 1);
	check_serves(0, 1, "default", 1000);
	close_cache();
}

TEST(noise_and_missing_times_change_nothing)
{
	struct served k[] = {steady(task[0], 1000, 1015), steady(task[1], 0, 5000)};
	set_up();
	CHECK(run(2, k) == 0 && run(0, k) == 0);
	k[1] = steady(task[1], 5000, 0);
	CHECK(run(2, k) == 0);
	const struct served half[] = {steady(task[0], 1000, 2000), steady(task[0], 0, 2000)};
	CHECK(run(2, half) == 0);
	check_serves(0, 1, "best", 900);
	check_serves(1, 1, "best", 900);
	close_cache();
}

/* The machine's phases slow both networks alike: neither a few rounds nor single fast ones decide. */
TEST(most_rounds_decide)
{
	struct served k = steady(task[0], 1000, 1050);
	set_up();
	for (int r = 0; r < ROUNDS; r++) /* both slower by the same factor in every third round */
		k.default_ns[r] *= r % 3 ? 1 : 2, k.best_ns[r] *= r % 3 ? 1 : 2;
	k.best_ns[4] = 700;
	k.rounds = 6;
	CHECK(run(1, &k) == 0); /* too few rounds to decide */
	k.rounds = ROUNDS;
	k.best_ns[5] = 980;
	CHECK(run(1, &k) == 0); /* 7 of 9 */
	k.best_ns[4] = 1050;
	k.best_ns[5] = 1050;
	CHECK(run(1, &k) == 1);
	check_serves(0, 1, "default", 1000);
	close_cache();
}

/* With four threads a single thread's records serve; reverting for four threads leaves those unchanged. */
TEST(another_number_of_threads_keeps_its_own)
{
	const struct served k = steady(task[0], 1000, 2000);
	set_up();
	CHECK(revert(cache, &target, 4, false, 1, &k) == 1);
	check_serves(0, 4, "default", 1000);
	check_serves(0, 1, "best", 900);
	close_cache();
}

/* A task without records, and one whose default is the best already, do not count. */
TEST(all_tasks_go_back)
{
	set_up();
	const struct key all[] = {hash_text(task[0]), hash_text("task without records"), hash_text(task[1])};
	const struct key known[] = {all[0], all[2]};
	CHECK(!all_at_defaults(cache, &target, 1, LEVEL_FP32, 2, known));
	CHECK(revert_all(cache, &target, 1, LEVEL_FP32, 3, all) == 2);
	CHECK(all_at_defaults(cache, &target, 1, LEVEL_FP32, 2, known));
	CHECK(!all_at_defaults(cache, &target, 1, LEVEL_FP32, 3, all)); /* one has no records */
	CHECK(!all_at_defaults(cache, &target, 1, LEVEL_FP32, 0, known));
	check_serves(0, 1, "default", 1000);
	check_serves(1, 1, "default", 1000);
	CHECK(revert_all(cache, &target, 1, LEVEL_FP32, 3, all) == 0);
	close_cache();
}

/* bests_restore replaces the kernel that a box found by the one from before, record and code. */
TEST(kernels_from_before_come_back)
{
	struct arena a = {0};
	struct bests before;
	set_up();
	const struct key all[] = {hash_text(task[0]), hash_text("task without records"), hash_text(task[1])};
	bests_keep(cache, &target, 1, LEVEL_FP32, 3, all, &a, &before);
	CHECK(before.n == 2 && bests_restore(cache, &target, &before) == 0);
	put(1, "found", REC_BEST, 800);
	check_serves(1, 1, "found", 800);
	CHECK(bests_restore(cache, &target, &before) == 1);
	check_serves(0, 1, "best", 900);
	check_serves(1, 1, "best", 900);
	CHECK(bests_restore(cache, &target, &before) == 0);
	close_cache();
	arena_free(&a);
}

TEST(without_a_default_there_is_no_way_back)
{
	struct served k = steady("task without records", 1000, 2000);
	set_up();
	CHECK(run(1, &k) == 0);
	const struct rec r = make_rec(0, "default without code", REC_DEFAULT, 1000);
	CHECK_OK(cache_put_rec(cache, &r));
	k.task = hash_text(task[0]);
	CHECK(run(1, &k) == 0);
	check_serves(0, 1, "best", 900);
	close_cache();
}

/* The first refused put ends the call: both tasks keep their best kernels. */
TEST(a_cache_for_reading_stays_as_it_is)
{
	const struct served k[] = {steady(task[0], 1000, 2000), steady(task[1], 1000, 2000)};
	set_up();
	cache_close(cache);
	REQUIRE_OK(cache_open(&cache, dir, true, 0));
	CHECK_FAILS(run(2, k), E_USAGE, "for reading");
	check_serves(0, 1, "best", 900);
	check_serves(1, 1, "best", 900);
	close_cache();
}

/* A full disk: reverted records serve from memory, and are written when there is room. */
TEST(a_full_disk_waits)
{
	const struct served k = steady(task[0], 1000, 2000);
	struct rlimit old;
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	set_up();
	REQUIRE_OK(cache_commit(cache));
	setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, old.rlim_max});
	CHECK(run(1, &k) == 1);
	CHECK_FAILS(cache_commit(cache), E_IO, "--cache");
	setrlimit(RLIMIT_FSIZE, &old);
	check_serves(0, 1, "default", 1000);
	cache_close(cache);
	REQUIRE_OK(cache_open(&cache, dir, false, 0));
	check_serves(0, 1, "default", 1000);
	close_cache();
}

TEST_MAIN
