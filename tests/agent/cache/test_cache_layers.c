/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the cache's layers, its cap, and the files that it converts. */
#include "tests/lib/around.h"
#include "tests/lib/cache_dir.h"
#include "platform/base/mix.h"

static void make_layer(const char *folder, int from, int to, int64_t ns)
{
	struct cache *c;
	CHECK_OK(cache_open_with(&c, folder, CACHE_WRITE, 0, &(struct cache_options){.seeds = ""}));
	for (int i = from; i < to; i++) {
		struct rec r = sample(i);
		r.meas.min_ns = ns;
		CHECK_OK(cache_put(c, CACHE_CODE, r.task, &ns, sizeof ns));
		CHECK_OK(cache_put_rec(c, &r));
	}
	cache_close(c);
}

/* min_ns of record i; 0: a miss. */
static int64_t time_of(struct cache *c, int i)
{
	struct arena a = {0};
	struct rec want = sample(i), got;
	int64_t ns = cache_get_rec(c, rec_key(&want), &a, &got) < 0 ? 0 : got.meas.min_ns;
	arena_free(&a);
	return ns;
}

/* The uppermost record counts, a record forgotten above is hidden below, also after compactions, and seeds
 * are never written. */
TEST(layers)
{
	struct cache *c;
	struct arena a = {0};
	struct blob b;
	char low[96], mid[96], top[96], seeds[256];
	snprintf(low, sizeof low, "%s/low", fresh_dir());
	snprintf(mid, sizeof mid, "%s/mid", dir);
	snprintf(top, sizeof top, "%s/top", dir);
	snprintf(seeds, sizeof seeds, "%s:/nowhere::%s", mid, low);
	make_layer(low, 0, 10, 100);
	make_layer(mid, 5, 10, 200);
	const struct cache_options o = {.seeds = seeds};
	REQUIRE_OK(cache_open_with(&c, top, CACHE_WRITE, 0, &o));
	CHECK(time_of(c, 0) == 100 && time_of(c, 9) == 200);
	cache_close(c);
	REQUIRE(chmod(mid, 0777) == 0); /* now it is a stranger's, and hides nothing */
	REQUIRE_OK(cache_open_with(&c, top, CACHE_WRITE, 0, &o));
	CHECK(time_of(c, 0) == 100 && time_of(c, 9) == 100);
	struct rec r = sample(9), gone = sample(3);
	CHECK_OK(cache_get(c, CACHE_CODE, r.task, &a,
			   &b)); /* others can write the upper folder, so this is the lower one's */
	CHECK(*(const int64_t *)b.p == 100);
	r.meas.min_ns = 300;
	CHECK_OK(cache_put_rec(c, &r));
	CHECK_OK(cache_forget(c, CACHE_REC, rec_key(&gone)));
	CHECK_OK(cache_compact(c));
	cache_close(c);
	setenv("HONE_SEEDS", seeds, 1);
	REQUIRE_OK(cache_open(&c, top, true, 0));
	unsetenv("HONE_SEEDS");
	CHECK(time_of(c, 9) == 300 && time_of(c, 8) == 100 && !time_of(c, 3) && time_of(c, 4) == 100);
	struct cache_state st;
	cache_state(c, &st);
	CHECK(st.layers == 3 && st.count[CACHE_REC] == 9 && st.count[CACHE_HINT] == 5 && st.foreign &&
	      !strcmp(st.dir, top));
	cache_close(c);
	CHECK(files_of(low) == 2 && files_of(mid) == 2);
	arena_free(&a);
	remove_dir();
}

/* A user who may not write a folder reads it, and has results in a folder of its own above it. */
static int as_somebody(const char *state)
{
	struct cache *c;
	struct rec r = sample(1);
	r.meas.min_ns = 7;
	if (setgid(65534) < 0 || setuid(65534) < 0)
		return 1;
	if (cache_open(&c, state, false, 0) < 0)
		return 2;
	bool above = strstr(cache_dir(c), "/user/hone") && time_of(c, 0) == 100;
	if (cache_put_rec(c, &r) < 0 || cache_commit(c) < 0)
		return 3;
	cache_close(c);
	if (cache_open(&c, state, true, 0) < 0)
		return 4;
	above = above && time_of(c, 0) == 100 && time_of(c, 1) == 7;
	cache_close(c);
	return above ? 0 : 5;
}

TEST(a_state_folder_of_somebody_else)
{
	char state[96], user[96];
	if (!test_root())
		SKIP("needs root, and other users");
	snprintf(state, sizeof state, "%s/state", fresh_dir());
	snprintf(user, sizeof user, "%s/user", dir);
	REQUIRE(chmod(dir, 0755) == 0 && mkdir(user, 0777) == 0 && chmod(user, 0777) == 0);
	make_layer(state, 0, 2, 100);
	setenv("XDG_CACHE_HOME", user, 1);
	pid_t pid = fork();
	if (pid == 0)
		_exit(as_somebody(state));
	int status = -1;
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	unsetenv("XDG_CACHE_HOME");
	struct cache *c;
	REQUIRE_OK(cache_open(&c, state, true, 0));
	CHECK(time_of(c, 1) == 100);
	cache_close(c);
	remove_dir();
}

/* More than half is dead: the next writer removes it; a reader that has the files open continues. */
TEST(dead_records_are_removed)
{
	enum { N = 2000, KEYS = 100 };
	struct cache *c, *reader;
	struct cache_state st;
	REQUIRE_OK(cache_open(&c, fresh_dir(), false, 0));
	for (int i = 0; i < N; i++) {
		struct rec r = sample(i % KEYS);
		r.meas.min_ns = i + 1;
		REQUIRE_OK(cache_put_rec(c, &r));
	}
	cache_close(c);
	REQUIRE_OK(cache_open(&reader, dir, true, 0));
	cache_state(reader, &st);
	int64_t before = st.file_bytes;
	CHECK(st.dead_bytes > 300 << 10);
	REQUIRE_OK(cache_open(&c, dir, false, 0));
	cache_state(c, &st);
	CHECK(st.dead_bytes < 100 && st.file_bytes < before / 5 && st.segments == 1);
	for (int i = 0; i < KEYS; i++)
		CHECK(time_of(c, i) == N - KEYS + i + 1 && time_of(reader, i) == time_of(c, i));
	CHECK(cache_refresh(reader) > 0 && time_of(reader, 3) == time_of(c, 3));
	CHECK(cache_generation(reader) == cache_generation(c));
	cache_close(c);
	cache_close(reader);
	remove_dir();
}

/* At the cap code is evicted first: code that no record names, then the oldest; records stay while there is
 * code. */
TEST(code_goes_before_records)
{
	enum { N = 60, CODE = 20000 };
	static char code[CODE];
	const struct cache_options o = {.cap_bytes = 1 << 20, .segment_bytes = 16 << 10, .seeds = ""};
	struct cache *c;
	struct arena a = {0};
	struct blob b;
	REQUIRE_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &o));
	int orphans = 0, held = 0;
	for (int i = 0; i < N; i++) {
		struct rec r = sample(i);
		memset(code, i, sizeof code);
		CHECK_OK(
		    cache_put(c, CACHE_CODE, mix_bytes(&i, sizeof i, 9), code, CODE / 4)); /* no record names
											      it */
		CHECK_OK(cache_put(c, CACHE_CODE, code_key(&r), code, CODE));
		CHECK_OK(cache_put_rec(c, &r));
		CHECK_OK(cache_commit(c));
	}
	struct cache_state st;
	cache_state(c, &st);
	CHECK(st.file_bytes <= o.cap_bytes && st.count[CACHE_REC] == N);
	for (int i = 0; i < N; i++) {
		struct rec r = sample(i);
		orphans += i < N / 2 && cache_get(c, CACHE_CODE, mix_bytes(&i, sizeof i, 9), &a, &b) >= 0;
		held += cache_get(c, CACHE_CODE, code_key(&r), &a, &b) >= 0;
	}
	struct rec last = sample(N - 1);
	CHECK(orphans == 0 && held > 10 && held < N);
	CHECK_OK(cache_get(c, CACHE_CODE, code_key(&last), &a, &b));
	for (int i = N; i < 5000; i++) { /* when no code is left, the oldest records are evicted */
		struct rec r = sample(i);
		CHECK_OK(cache_put_rec(c, &r));
	}
	CHECK_OK(cache_commit(c));
	cache_state(c, &st);
	CHECK(st.file_bytes <= o.cap_bytes && st.count[CACHE_CODE] == 0);
	CHECK(time_of(c, 4999) && !time_of(c, 0));
	cache_close(c);
	arena_free(&a);
	remove_dir();
}

/* A pack serves as a seed, and in a cache's own folder. */
TEST(a_pack_serves)
{
	struct cache *c;
	struct arena a = {0};
	struct blob b;
	char path[128], own[96];
	const struct rec r = sample(1);
	snprintf(own, sizeof own, "%s/own", fresh_dir());
	make_layer(own, 0, 4, 100);
	REQUIRE_OK(cache_open(&c, own, true, 0));
	CHECK_FAILS(cache_pack(c, "x/board.bin", true), E_USAGE, "NAME.seg");
	CHECK_FAILS(cache_pack(c, "/nowhere/board.seg", true), E_IO, "/nowhere");
	for (int code = 0; code < 2; code++) {
		struct cache *seed;
		snprintf(path, sizeof path, "%s/board.seg", dir);
		CHECK(cache_pack(c, path, code) == (code ? 8 : 4));
		REQUIRE_OK(cache_open(&seed, dir, true, 0));
		CHECK(time_of(seed, 1) == 100);
		CHECK((cache_get(seed, CACHE_CODE, r.task, &a, &b) >= 0) == code);
		cache_close(seed);
	}
	cache_close(c);
	REQUIRE_OK(cache_open(&c, dir, false, 0));
	CHECK(time_of(c, 1) == 100 && file_exists(path));
	CHECK_OK(cache_get(c, CACHE_CODE, r.task, &a, &b));
	cache_close(c);
	arena_free(&a);
	remove_dir();
}

static struct key bytes_key(const char *path)
{
	struct arena a = {0};
	struct blob b;
	struct key k = {0};
	if (file_read(&a, path, 1 << 24, &b) >= 0)
		k = mix_bytes(b.p, b.n, 1);
	arena_free(&a);
	return k;
}

/* A user's files in the folder that is written: a pack, a copy of a segment, and a segment of another cache
 * that replaces all before it. A writer that commits, forgets and compacts leaves each as it was, and loses
 * none of its own records to them. What it forgot stays forgotten while they lie there. */
TEST(files_of_users_stay)
{
	static const char *const names[] = {"board.seg", "backup.seg", "other.seg", "12345678.seg"};
	struct cache *c;
	struct key was[4];
	char path[4][128], own[96], donor[96], command[600];
	snprintf(own, sizeof own, "%s/own", fresh_dir());
	snprintf(donor, sizeof donor, "%s/donor", dir);
	make_layer(donor, 0, 8, 200);
	make_layer(own, 2, 6, 100);
	REQUIRE_OK(cache_open(&c, donor, false, 0));
	for (int i = 0; i < 3; i++)
		CHECK_OK(cache_compact(c));
	for (int i = 0; i < 4; i++)
		snprintf(path[i], sizeof path[i], "%s/%s", own, names[i]);
	CHECK(cache_pack(c, path[0], true) == 16);
	cache_close(c);
	/* a pack that was given a name of a writer's is still a pack */
	snprintf(command, sizeof command,
		 "cp %s %s && cd %s && cp $(ls 0*.seg | head -n 1) backup.seg && cp "
		 "$(ls %s/0*.seg | head -n 1) other.seg",
		 path[0], path[3], own, donor);
	REQUIRE(system(command) == 0);
	for (int i = 0; i < 4; i++)
		was[i] = bytes_key(path[i]);
	for (int round = 0; round < 2; round++) {
		const struct rec gone = sample(7);
		REQUIRE_OK(cache_open(&c, own, false, 0));
		for (int i = 2; i < 6; i++)
			CHECK(time_of(c, i) == 100); /* the writer's own count more */
		CHECK(time_of(c, 0) == 200 && time_of(c, 7) == (round ? 0 : 200));
		if (!round)
			CHECK_OK(cache_forget(c, CACHE_REC, rec_key(&gone)));
		CHECK_OK(cache_compact(c));
		CHECK(time_of(c, 0) == 200 && time_of(c, 7) == 0 && time_of(c, 2) == 100);
		cache_close(c);
		for (int i = 0; i < 4; i++)
			CHECK(key_equal(was[i], bytes_key(path[i])));
	}
	remove_dir();
}

TEST_MAIN
