/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of a cache folder, of a complete one and while a writer works. */
#include "tools/bench/snap.h"
#include "agent/cache/cache.h"
#include "search/job.h"
#include "tests/lib/scratch.h"
#include "tests/lib/test.h"
#include "platform/base/mix.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RECORDS = 1000 };

static char root[64], from[96], to[96];

static void fresh(void)
{
	snprintf(root, sizeof root, "%s", scratch_folder());
	snprintf(from, sizeof from, "%s/from", root);
	snprintf(to, sizeof to, "%s/to", root);
}

static struct rec sample(int i)
{
	struct rec r = {.task = mix_bytes(&i, sizeof i, 0),
			.kind = REC_BEST,
			.threads = 1,
			.meas = {.status = MEAS_OK, .runs = 5, .min_ns = 1000 + i, .median_ns = 1100}};
	snprintf(r.device, sizeof r.device, "cpu");
	snprintf(r.cand, sizeof r.cand, "lane=k:16 tile=x:%d", i);
	r.task_text = "axes n:1";
	r.label = "conv";
	return r;
}

static void put(struct cache *c, int i)
{
	struct rec r = sample(i);
	CHECK_OK(cache_put_rec(c, &r));
}

static int any(void *ctx, const struct rec *r)
{
	(void)ctx;
	return r->meas.status == MEAS_OK ? 0 : E_CORRUPT;
}

/* Checks the records 0..n-1. Returns n; -1 if one is missing or differs. */
static int whole(const char *dir)
{
	struct arena a = {0};
	struct cache *c;
	struct rec got;
	int n = 0;
	if (cache_open(&c, dir, true, 0) < 0)
		return -1;
	for (struct rec want = sample(0); cache_get_rec(c, rec_key(&want), &a, &got) >= 0; want = sample(++n))
		if (strcmp(got.cand, want.cand) != 0)
			n = -2;
	int rest = cache_each_rec(c, &a, any, NULL);
	cache_close(c);
	arena_free(&a);
	return rest == n ? n : -1;
}

TEST(everything_but_the_lock)
{
	struct cache *c;
	char path[128];
	fresh();
	REQUIRE_OK(cache_open(&c, from, false, 0));
	for (int i = 0; i < 20; i++)
		put(c, i);
	CHECK_OK(cache_commit(c));
	snprintf(path, sizeof path, "%s/target", from);
	CHECK_OK(file_write(path, "peaks", 5));
	REQUIRE_OK(snap_copy(from, to));
	uint64_t before = snap_generation(to);
	CHECK(whole(to) == 20 && before);
	snprintf(path, sizeof path, "%s/lock", to);
	CHECK(!file_exists(path));
	snprintf(path, sizeof path, "%s/target", to);
	CHECK(file_exists(path));
	put(c, 20);
	CHECK_OK(cache_commit(
	    c)); /* later records are not in the snapshot, and the next snapshot replaces it */
	CHECK(whole(to) == 20);
	REQUIRE_OK(snap_copy(from, to));
	CHECK(whole(to) == 21 && snap_generation(to) > before);
	cache_close(c);
}

/* The folder to copy may not exist; the target may not be a folder. */
TEST(nothing_there)
{
	fresh();
	REQUIRE_OK(snap_copy(from, to));
	CHECK(whole(to) == 0 && !snap_generation(to));
	CHECK_OK(snap_remove(to));
	CHECK(!file_is_dir(to));
	CHECK_OK(snap_remove(to));
	REQUIRE_OK(file_write(to, "x", 1));
	CHECK(snap_copy(from, to) < 0);
	CHECK_OK(file_mkdirs(from, 0755));
	char path[128];
	snprintf(path, sizeof path, "%s/below/deeper", from);
	CHECK_OK(file_mkdirs(path, 0755));
	snprintf(path, sizeof path, "%s/copy", root);
	CHECK_OK(snap_copy(from, path)); /* subfolders are not part of the cache */
	CHECK_FAILS(snap_remove(from), E_IO, "below");
}

static void write_on(void)
{
	struct cache *c;
	if (cache_open(&c, from, false, 0) < 0)
		_exit(1);
	for (int i = 0; i < RECORDS; i++) {
		put(c, i);
		if (i % 50 == 0 && cache_commit(c) < 0)
			_exit(2);
		usleep(100);
	}
	cache_close(c);
	_exit(0);
}

/* While another process writes, every snapshot opens and holds the first n records complete, and n never
 * falls. */
TEST(snapshots_of_a_growing_file)
{
	int last = 0, grown = 0, status = -1;
	uint64_t generation = 0;
	fresh();
	pid_t pid = fork();
	if (pid == 0)
		write_on();
	for (bool ended = false; !ended && !test_bad;) {
		ended = waitpid(pid, &status, WNOHANG) == pid;
		CHECK_OK(snap_copy(from, to));
		int n = whole(to);
		CHECK(n >= last && snap_generation(to) >= generation);
		generation = snap_generation(to);
		grown += n > last;
		last = n;
	}
	CHECK(grown > 1 && last == RECORDS && status == 0);
}

TEST_MAIN
