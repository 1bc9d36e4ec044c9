/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/control/store.h"
#include "platform/base/file.h"
#include "tests/lib/around.h"
#include "tests/lib/cache_dir.h"

#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void *work(void *s)
{
	store_work(s);
	return NULL;
}

/* Works as a thread of a pool does. */
static void work_off(struct store *s)
{
	while (store_begin(s)) {
		pthread_t t;
		if (pthread_create(&t, NULL, work, s) || pthread_join(t, NULL))
			abort();
		store_end(s);
	}
}

static void put(struct store *s, int i)
{
	struct rec r = sample(i);
	struct buf text = {0};
	rec_text(&r, &text);
	store_put(s, CACHE_REC, rec_key(&r), (struct blob){text.p, text.n});
	buf_free(&text);
}

static struct stored next(struct store *s)
{
	struct stored d = {.ticket = -1};
	CHECK(store_told(s, &d));
	return d;
}

/* Counts the records that a reader finds. */
static int count(void)
{
	struct cache *c;
	struct cache_state st;
	if (cache_open(&c, dir, true, 0) < 0)
		return -1;
	cache_state(c, &st);
	cache_close(c);
	return st.count[CACHE_REC];
}

static int write_elsewhere(const char *cache)
{
	struct store *s;
	if (!geteuid() && (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0))
		return 2;
	if (store_open(cache, 0, &s) < 0)
		return 3;
	put(s, 1);
	store_keep(s, 7);
	work_off(s);
	struct stored d = next(s);
	bool good = d.rc == E_IO && strstr(d.text, "cannot write to it");
	store_close(s);
	return good && access(getenv("HOME"), F_OK) == 0 ? 0 : 1;
}

/* A user's own program may write to a folder above a cache that it cannot write; honed must refuse to. */
TEST(a_cache_of_somebody_else_is_refused)
{
	if (geteuid() == 0 && !test_root())
		SKIP("root is the only user here");
	char cache[PATH_MAX], home[PATH_MAX];
	int how = 0;
	const char *top = fresh_dir();
	snprintf(cache, sizeof cache, "%s/cache", top);
	snprintf(home, sizeof home, "%s/home", top);
	REQUIRE(chmod(top, 0755) == 0 && mkdir(cache, 0555) == 0 && mkdir(home, 0777) == 0);
	REQUIRE(chmod(home, 0777) == 0);
	setenv("HOME", home, 1);
	unsetenv("XDG_CACHE_HOME");
	pid_t pid = fork();
	if (!pid)
		_exit(write_elsewhere(cache));
	CHECK(waitpid(pid, &how, 0) == pid && WIFEXITED(how) && WEXITSTATUS(how) == 0);
	remove_dir();
}

TEST(commits_are_durable)
{
	struct store *s;
	REQUIRE_OK(store_open(fresh_dir(), 0, &s));
	for (int i = 0; i < 10; i++)
		put(s, i);
	CHECK(store_bytes(s) > 1000);
	store_keep(s, 7);
	work_off(s);
	CHECK(store_bytes(s) == 0);
	struct stored d = next(s);
	CHECK(d.ticket == 7 && d.rc >= 0 && d.generation == 1 && d.written_bytes > 0 && !*d.text);
	CHECK(!store_told(s, &d));
	CHECK(count() == 10);
	struct rec r = sample(3);
	store_forget(s, CACHE_REC, rec_key(&r));
	store_keep(s, 8);
	store_keep(s, 9);
	work_off(s);
	CHECK(next(s).ticket == 8);
	d = next(s);
	CHECK(d.ticket == 9 && d.rc >= 0 && d.generation == 2);
	CHECK(count() == 9);
	store_close(s);
	remove_dir();
}

/* Puts are queued while a thread writes, and nothing is reported too early. */
TEST(queued_meanwhile)
{
	struct store *s;
	struct stored d;
	pthread_t t;
	REQUIRE_OK(store_open(fresh_dir(), 0, &s));
	put(s, 1);
	store_keep(s, 1);
	REQUIRE(store_begin(s));
	if (pthread_create(&t, NULL, work, s))
		abort();
	put(s, 2);
	store_keep(s, 2);
	CHECK(!store_begin(s) && !store_told(s, &d) && store_bytes(s) > 0);
	pthread_join(t, NULL);
	store_end(s);
	CHECK(next(s).ticket == 1);
	CHECK(!store_told(s, &d));
	work_off(s);
	CHECK(next(s).ticket == 2 && count() == 2);
	store_close(s);
	remove_dir();
}

TEST(untouched_until_needed)
{
	struct store *s;
	fresh_dir();
	CHECK(rmdir(dir) == 0);
	REQUIRE_OK(store_open(dir, 0, &s));
	CHECK(!store_begin(s));
	store_close(s);
	CHECK(access(dir, F_OK) < 0);
}

static bool locked_out(void)
{
	struct cache *c;
	int rc = cache_open(&c, dir, false, 0);
	if (rc >= 0)
		cache_close(c);
	return rc == E_BUSY;
}

TEST(rests_but_stays_the_writer)
{
	struct store *s;
	REQUIRE_OK(store_open(fresh_dir(), 0, &s));
	store_keep(s, 1);
	work_off(s);
	struct stored d = next(s);
	CHECK(d.ticket == 1 && d.rc >= 0 && d.written_bytes == 0 && locked_out());
	for (int i = 0; i < 3; i++) {
		put(s, i);
		store_rest(s);
		work_off(s);
		CHECK(locked_out() && count() == i + 1);
		store_rest(s);
		work_off(s);
	}
	put(s, 5);
	store_keep(s, 3);
	work_off(s);
	d = next(s);
	CHECK(d.generation == 4 && d.written_bytes > 0 && locked_out());
	store_rest(s);
	work_off(s);
	store_close(s);
	CHECK(!locked_out() && count() == 4);
	remove_dir();
}

TEST(another_holds_the_lock)
{
	struct cache *other;
	struct store *s;
	REQUIRE_OK(cache_open(&other, fresh_dir(), false, 0));
	REQUIRE_OK(store_open(dir, 0, &s));
	put(s, 1);
	store_keep(s, 1);
	work_off(s);
	struct stored d = next(s);
	CHECK(d.rc == E_BUSY && d.lost && strstr(d.text, "in use"));
	cache_close(other);
	store_keep(s, 2);
	put(s, 2);
	store_keep(s, 3);
	work_off(s);
	CHECK(next(s).rc >= 0);
	CHECK(next(s).rc >= 0 && count() == 1);
	store_close(s);
	remove_dir();
}

/* A put that can never be kept fails its commit, and no later one; the other puts are kept. */
TEST(puts_that_are_refused)
{
	static char large[1 << 20];
	struct store *s;
	struct stored d;
	REQUIRE_OK(store_open(fresh_dir(), 1 << 20, &s));
	put(s, 1);
	store_put(s, CACHE_REC, hash_text("large"), (struct blob){large, sizeof large});
	store_put(s, CACHE_MARK, hash_text("mark"), (struct blob){large, 8});
	store_put(s, -1, hash_text("type"), (struct blob){large, 8});
	store_keep(s, 1);
	put(s, 2);
	store_keep(s, 2);
	work_off(s);
	d = next(s);
	CHECK(d.rc == E_UNSUPPORTED && d.lost && strstr(d.text, "too large"));
	d = next(s);
	CHECK(d.rc >= 0 && !d.lost && count() == 2);
	store_close(s);
	remove_dir();
}

/* Removes the folder, or what a pattern names in it. */
static void take_away(const char *what)
{
	char cmd[160];
	snprintf(cmd, sizeof cmd, "rm -rf %s%s", dir, what);
	CHECK(system(cmd) == 0);
}

static struct stored kept(struct store *s, int64_t ticket)
{
	store_keep(s, ticket);
	work_off(s);
	return next(s);
}

/* Whoever removes the cache while the store has it, open or at rest, is noticed with the next work; nothing
 * that the store itself does is taken for that. */
TEST(a_cache_that_is_taken_away_is_noticed)
{
	static const char *const whats[] = {"", "/*", "/*.seg", NULL};
	for (int rests = 0; rests < 2; rests++)
		for (const char *const *what = whats; *what; what++) {
			struct store *s;
			REQUIRE_OK(store_open(fresh_dir(), 0, &s));
			for (int i = 0; i < 4; i++) {
				put(s, i);
				struct stored d = kept(s, i + 1);
				CHECK(d.rc >= 0 && !d.lacks && d.holds.records == i + 1);
			}
			store_forget(s, CACHE_REC, rec_key(&(struct rec){0})); /* it has none */
			if (rests) {
				store_rest(s);
				work_off(s);
			}
			CHECK(!kept(s, 5).lacks);
			if (rests)
				store_rest(s);
			work_off(s);
			take_away(*what);
			struct stored d = kept(s, 6);
			CHECK(d.rc >= 0 && d.lacks && d.holds.records == 0);
			put(s, 9);
			d = kept(s, 7);
			CHECK(d.rc >= 0 && !d.lacks && d.holds.records == 1 && count() == 1 && locked_out());
			store_close(s);
			remove_dir();
		}
}

/* Nobody waits for a commit: the driver looks. */
TEST(looks_at_what_the_folder_has)
{
	struct store *s;
	REQUIRE_OK(store_open(fresh_dir(), 0, &s));
	put(s, 1);
	CHECK(!kept(s, 1).lacks);
	store_look(s);
	work_off(s);
	struct stored d = next(s);
	CHECK(d.ticket == 0 && d.rc >= 0 && !d.lacks && d.holds.records == 1 && locked_out());
	take_away("");
	store_look(s);
	work_off(s);
	d = next(s);
	CHECK(d.ticket == 0 && d.rc >= 0 && d.lacks && d.holds.records == 0 && locked_out());
	CHECK(!kept(s, 2).lacks);
	store_close(s);
	remove_dir();
}

/* What is forgotten through the store is not lacking. */
TEST(its_own_work_lacks_nothing)
{
	struct store *s;
	struct rec r = sample(1);
	REQUIRE_OK(store_open(fresh_dir(), 0, &s));
	put(s, 1);
	put(s, 2);
	CHECK(kept(s, 1).holds.records == 2);
	store_forget(s, CACHE_REC, rec_key(&r));
	struct stored d = kept(s, 2);
	CHECK(!d.lacks && d.holds.records == 1);
	store_rest(s);
	work_off(s);
	CHECK(!kept(s, 3).lacks);
	store_close(s);
	remove_dir();
}

/* As at a start: the marks say what the cache had. One that cannot be written is read all the same. */
TEST(expects_what_the_cache_had)
{
	struct inventory had;
	struct store *s;
	char path[100];
	REQUIRE_OK(store_open(fresh_dir(), 0, &s));
	put(s, 1);
	had = kept(s, 1).holds;
	store_close(s);
	REQUIRE_OK(store_open(dir, 0, &s));
	store_expect(s, &had);
	CHECK(!kept(s, 1).lacks);
	store_close(s);
	had.records++;
	REQUIRE_OK(store_open(dir, 0, &s));
	store_expect(s, &had);
	struct stored d = kept(s, 1);
	CHECK(d.lacks && d.holds.records == 1);
	CHECK(!kept(s, 2).lacks);
	store_close(s);
	snprintf(path, sizeof path, "%s/file", dir);
	CHECK_OK(file_write(path, "x", 1));
	REQUIRE_OK(store_open(path, 0, &s));
	store_expect(s, &had);
	d = kept(s, 1);
	CHECK(d.rc == E_IO && d.lacks && d.holds.records == 0 &&
	      strstr(d.text, "/file is a file, not a folder"));
	CHECK(kept(s, 2).rc == E_IO);
	store_close(s);
	remove_dir();
}

/* A folder of something else stays as it is. */
TEST(refuses_what_is_no_cache)
{
	struct store *s;
	char path[100], file[120];
	snprintf(path, sizeof path, "%s/photos", fresh_dir());
	snprintf(file, sizeof file, "%s/one.jpg", path);
	CHECK_OK(store_refuse(path)); /* it can be made */
	CHECK_OK(file_mkdirs(path, 0755));
	CHECK_OK(store_refuse(path));
	CHECK_OK(file_write(file, "x", 1));
	CHECK_FAILS(store_refuse(path), E_USAGE,
		    "holds other files, and none of a cache: name another folder");
	REQUIRE_OK(store_open(path, 0, &s));
	put(s, 1);
	struct stored d = kept(s, 1);
	CHECK(d.rc == E_USAGE && d.lost && strstr(d.text, "holds other files"));
	store_close(s);
	CHECK(unlink(file) == 0 && rmdir(path) == 0);
	remove_dir();
}

/* The folder's path is a file. */
TEST(no_folder)
{
	struct store *s;
	char path[100];
	snprintf(path, sizeof path, "%s/file", fresh_dir());
	CHECK_OK(file_write(path, "x", 1));
	REQUIRE_OK(store_open(path, 0, &s));
	put(s, 1);
	store_keep(s, 1);
	store_rest(s);
	work_off(s);
	struct stored d = next(s);
	CHECK(d.rc < 0 && *d.text);
	store_close(s);
	remove_dir();
}

static bool disk_is_full;

static int full_write(int fd, const void *p, size_t n, int64_t at)
{
	return disk_is_full ? -ENOSPC : disk_system.write(fd, p, n, at);
}

/* A commit without records, as a job makes before it searches, finds a full disk, and room again. */
TEST(a_full_disk_is_found_before_the_search)
{
	struct store *s;
	struct disk full = disk_system;
	REQUIRE_OK(store_open(fresh_dir(), 0, &s));
	store_keep(s, 1);
	work_off(s);
	CHECK(next(s).rc >= 0);
	full.write = full_write;
	disk = &full;
	disk_is_full = true;
	store_keep(s, 2);
	work_off(s);
	struct stored d = next(s);
	CHECK(d.rc == E_IO && !d.lost && strstr(d.text, "No space left on device"));
	put(s, 1); /* stays in memory */
	store_keep(s, 3);
	store_keep(s, 4);
	work_off(s);
	CHECK(next(s).rc == E_IO && next(s).rc == E_IO);
	disk_is_full = false;
	store_keep(s, 5);
	store_keep(s, 6);
	work_off(s);
	CHECK(next(s).rc >= 0 && next(s).rc >= 0);
	CHECK(count() == 1);
	disk = &disk_system;
	store_close(s);
	remove_dir();
}

static int refuse(const char *folder)
{
	(void)folder;
	return -EIO;
}

/* Files whose names could not be made durable are removed; later they are made once and reported as ticket
 * 0. */
TEST(made_ready)
{
	struct cache *c;
	struct store *s;
	struct disk broken = disk_system;
	REQUIRE_OK(cache_open(&c, fresh_dir(), false, 0));
	broken.sync_dir = refuse;
	disk = &broken;
	CHECK(cache_prepare(c) == E_IO);
	disk = &disk_system;
	CHECK(!*file_of(dir, 0));
	cache_close(c);
	REQUIRE_OK(store_open(dir, 0, &s));
	for (int i = 0; i < 2; i++) {
		store_prepare(s);
		work_off(s);
		struct stored d = next(s);
		CHECK(d.ticket == 0 && d.rc >= 0 && (d.sync_ns > 0) == !i);
	}
	put(s, 1);
	store_keep(s, 1);
	work_off(s);
	CHECK(next(s).rc >= 0 && count() == 1);
	store_close(s);
	remove_dir();
}

/* store_close writes all that waits. */
TEST(closed_with_work)
{
	struct store *s;
	REQUIRE_OK(store_open(fresh_dir(), 0, &s));
	put(s, 1);
	store_close(s);
	CHECK(count() == 1);
	remove_dir();
}

TEST_MAIN
