/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the cache at its cap: what is evicted, what never is, and what happens when the disk has no room. */
#include "tests/lib/cache_dir.h"
#include "platform/base/mix.h"

enum { CODE = 9000 };

static struct key key_of(int i)
{
	return mix_bytes(&i, sizeof i, 21);
}

static void put_histories(struct cache *c, int from, int to)
{
	char p[212] = "x";
	for (int i = from; i < to; i++)
		CHECK_OK(cache_put(c, CACHE_HISTORY, key_of(i), p, sizeof p));
}

static int histories(struct cache *c, int n)
{
	struct arena a = {0};
	struct blob b;
	int found = 0;
	for (int i = 0; i < n; i++)
		found += cache_get(c, CACHE_HISTORY, key_of(i), &a, &b) >= 0;
	arena_free(&a);
	return found;
}

/* Returns whether it was committed. */
static bool put_code(struct cache *c, int i, size_t n)
{
	char *code = calloc(1, n);
	memcpy(code, &i, sizeof i);
	int rc = cache_put(c, CACHE_CODE, key_of(i), code, n);
	free(code);
	return rc >= 0 && cache_commit(c) >= 0;
}

static struct {
	int reads_fail; /* of records, from now on: < 0: all */
	int64_t room;   /* bytes of the folder's files that the disk takes */
	int64_t written;
} faulty;

static int64_t failing_read(int fd, void *p, size_t n, int64_t at)
{
	if (at >= SEG_HEAD && faulty.reads_fail) {
		faulty.reads_fail -= faulty.reads_fail > 0;
		return -EIO;
	}
	return disk_system.read(fd, p, n, at);
}

static int64_t folder_bytes(void)
{
	int64_t n = 0;
	glob_t g;
	struct stat st;
	if (glob(below("*"), 0, NULL, &g) == 0) {
		for (size_t i = 0; i < g.gl_pathc; i++)
			n += stat(g.gl_pathv[i], &st) == 0 ? st.st_size : 0;
		globfree(&g);
	}
	return n;
}

static int small_disk_write(int fd, const void *p, size_t n, int64_t at)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -errno;
	int64_t more = at + (int64_t)n - st.st_size;
	if (more > 0 && folder_bytes() + more > faulty.room)
		return -ENOSPC;
	faulty.written += (int64_t)n;
	return disk_system.write(fd, p, n, at);
}

/* Reads fail during one open, and the cap is reached later: no record is lost. If reads always fail, no
 * record is lost while there is code to evict. */
TEST(unreadable_records_are_kept)
{
	enum { N = 300 };
	const struct cache_options o = {.cap_bytes = 1 << 20, .seeds = ""};
	struct disk failing = disk_system;
	struct cache *c;
	struct cache_state st;
	failing.read = failing_read;
	for (int good = 0; good < 2 && !test_bad; good++) {
		REQUIRE_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &o));
		put_histories(c, 0, N);
		cache_close(c);
		disk = &failing;
		faulty.reads_fail = -1;
		REQUIRE_OK(cache_open_with(&c, dir, CACHE_WRITE, 0, &o));
		CHECK(histories(c, N) == 0);
		faulty.reads_fail = good ? 0 : -1;
		for (int i = 0; i < 140; i++)
			CHECK(put_code(c, i, CODE));
		cache_state(c, &st);
		CHECK(st.file_bytes <= o.cap_bytes);
		cache_close(c);
		disk = &disk_system;
		REQUIRE_OK(cache_open_with(&c, dir, CACHE_READ, 0, &o));
		CHECK(histories(c, N) == N);
		cache_close(c);
		remove_dir();
	}
}

/* If the disk has no room for a copy, the oldest code goes without one: the cap is kept, and no flash is
 * wasted. */
TEST(no_room_for_a_copy)
{
	enum { N = 400, KERNEL = 64 << 10 };
	const struct cache_options o = {.cap_bytes = 8 << 20, .segment_bytes = 32 << 10, .seeds = ""};
	struct disk full = disk_system;
	struct cache *c;
	struct cache_state st;
	full.write = small_disk_write;
	faulty.room = 9 << 20;
	faulty.written = 0;
	REQUIRE_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &o));
	put_histories(c, 0, 100);
	disk = &full;
	for (int i = 0; i < N && !test_bad; i++) {
		CHECK(put_code(c, i, KERNEL));
		cache_state(c, &st);
		CHECK(st.file_bytes <= o.cap_bytes);
	}
	CHECK(st.count[CACHE_CODE] > 40 && st.segments < 40);
	CHECK(faulty.written < (int64_t)N * KERNEL * 3);
	CHECK(histories(c, 100) == 100);
	disk = &disk_system;
	cache_close(c);
	remove_dir();
}

/* No record is evicted for code, however large that is. */
TEST(code_never_costs_a_record)
{
	enum { N = 500 };
	const struct cache_options o = {.cap_bytes = 1 << 20, .seeds = ""};
	struct cache *c;
	struct cache_state st;
	static char large[3 << 20];
	REQUIRE_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &o));
	put_histories(c, 0, N);
	CHECK_FAILS(cache_put(c, CACHE_CODE, key_of(1), large, sizeof large), E_UNSUPPORTED, "--cache-limit");
	CHECK_FAILS(cache_put(c, CACHE_CODE, key_of(1), large, 900 << 10), E_UNSUPPORTED, "--cache-limit");
	for (int i = 0; i < 30; i++)
		CHECK_OK(cache_put(c, CACHE_CODE, key_of(i), large, 256 << 10));
	CHECK_OK(cache_commit(c));
	cache_state(c, &st);
	CHECK(st.count[CACHE_HISTORY] == N && st.count[CACHE_CODE] > 0 && st.file_bytes <= o.cap_bytes);
	put_histories(c, N, 3500); /* nearly full of records: code gets the rest */
	CHECK_OK(cache_commit(c));
	cache_state(c, &st);
	int n = st.count[CACHE_HISTORY];
	for (int i = 0; i < 100; i++)
		CHECK(put_code(c, i, CODE));
	cache_state(c, &st);
	CHECK(st.count[CACHE_HISTORY] == n && st.count[CACHE_CODE] > 0 && st.file_bytes <= o.cap_bytes);
	cache_close(c);
	remove_dir();
}

/* Nearly full of records: commits of code, alone or each with a record, cause no copies of records, and code
 * that cannot stay is not written. */
TEST(records_are_not_copied_for_code)
{
	enum { N = 300 };
	const struct {
		int64_t cap, segment; /* of records; 0: the default */
		size_t kernel;
		int records;
		bool stays, both;
	} cases[] = {
	    {8 << 20, 7500000, 20000, 28800, true, false}, {1 << 20, 975000, 9000, 3750, true, false},
	    {1 << 20, 975000, 200000, 3750, false, false}, {8 << 20, 0, 20000, 24000, true, false},
	    {8 << 20, 0, 20000, 24000, true, true},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases && !test_bad; i++) {
		const struct cache_options o = {
		    .cap_bytes = cases[i].cap, .segment_bytes = cases[i].segment, .seeds = ""};
		struct cache *c;
		struct cache_state st;
		int n = cases[i].records;
		REQUIRE_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &o));
		put_histories(c, 0, n);
		CHECK_OK(cache_commit(c));
		cache_state(c, &st);
		int64_t before = st.written_bytes, put = (int64_t)N * (int64_t)cases[i].kernel;
		for (int k = 0; k < N; k++) {
			CHECK(put_code(c, k, cases[i].kernel));
			if (cases[i].both)
				put_histories(c, n + k, n + k + 1);
		}
		CHECK_OK(cache_commit(c));
		n += cases[i].both ? N : 0;
		cache_state(c, &st);
		CHECK(st.written_bytes - before <= (cases[i].stays ? 4 * put : 16 * FLASH_BLOCK));
		CHECK((st.count[CACHE_CODE] > 0) == cases[i].stays && st.file_bytes <= o.cap_bytes);
		CHECK(st.count[CACHE_HISTORY] == n && histories(c, n) == n);
		cache_close(c);
		remove_dir();
	}
}

/* A cap that hone could not read back is refused. A given cap applies until another one is given. */
TEST(limits_are_kept_with_the_cache)
{
	struct cache *c;
	struct cache_state st;
	const struct cache_options large = {.cap_bytes = (int64_t)2 << 30}, some = {.cap_bytes = 100 << 20},
				   less = {.cap_bytes = 1 << 20}, none = {.seeds = ""};
	CHECK_FAILS(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &large), E_USAGE, "1024 MiB");
	const struct {
		const struct cache_options *o;
		int64_t cap;
	} steps[] = {{&none, 64 << 20},  {&some, 100 << 20}, {&none, 100 << 20},
		     {&none, 100 << 20}, {&less, 1 << 20},   {&none, 64 << 20}};
	for (int i = 0; i < 6; i++) {
		REQUIRE_OK(cache_open_with(&c, dir, CACHE_WRITE, 0, steps[i].o));
		put_histories(c, i, i + 1);
		CHECK_OK(i % 2 ? cache_compact(c) : cache_commit(c));
		cache_state(c, &st);
		CHECK(st.cap_bytes == steps[i].cap);
		cache_close(c);
	}
	remove_dir();
}

/* Evicted records take no memory, and hide no record of a seed. */
TEST(the_index_is_bounded)
{
	enum { N = 60000 };
	struct cache *c;
	struct cache_state st;
	struct arena a = {0};
	struct blob b;
	fresh_dir();
	char seed[160], own[160];
	snprintf(seed, sizeof seed, "%s", below("seed"));
	snprintf(own, sizeof own, "%s", below("own"));
	const struct cache_options o = {.cap_bytes = 1 << 20, .seeds = seed}, none = {.seeds = ""};
	REQUIRE_OK(cache_open_with(&c, seed, CACHE_WRITE, 0, &none));
	CHECK_OK(cache_put(c, CACHE_HISTORY, key_of(0), "seed", 4));
	cache_close(c);
	REQUIRE_OK(cache_open_with(&c, own, CACHE_WRITE, 0, &o));
	for (int i = 0; i < N; i++)
		CHECK_OK(cache_put(c, CACHE_HISTORY, key_of(i), &i, sizeof i));
	CHECK_OK(cache_commit(c));
	cache_state(c, &st);
	CHECK(st.count[CACHE_HISTORY] > 5000 && st.count[CACHE_HISTORY] < N / 2);
	CHECK(st.index_bytes < 128 * st.count[CACHE_HISTORY] + 100000 && st.file_bytes <= o.cap_bytes);
	CHECK_OK(cache_get(c, CACHE_HISTORY, key_of(0), &a, &b));
	CHECK(b.n == 4 && !memcmp(b.p, "seed", 4));
	cache_close(c);
	arena_free(&a);
	remove_dir();
}

TEST_MAIN
