/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the cache beside writers, readers, strangers in its folder, and file systems that change below it. */
#include "tests/lib/around.h"
#include "tests/lib/cache_dir.h"
#include "platform/base/mix.h"

#include <sched.h>
#include <sys/mount.h>

/* A pack is written while the writer of its target folder makes a segment: neither takes the other's file. */
static const char *victim; /* folder of the pack, which is written when the writer has its next file half
			      ready */

static int pack_at_rename(const char *from, const char *to)
{
	const char *path = victim;
	struct cache *other;
	victim = NULL;
	if (path && cache_open(&other, below("other"), true, 0) >= 0) {
		CHECK(cache_pack(other, path, true) == 50);
		cache_close(other);
	}
	return disk_system.rename(from, to);
}

TEST(a_pack_beside_a_writer)
{
	struct disk packing = disk_system;
	struct cache *c;
	make(below(fresh_dir() ? "other" : ""), 50);
	REQUIRE_OK(cache_open_with(&c, below("own"), CACHE_WRITE, 0, &small));
	packing.rename = pack_at_rename;
	disk = &packing;
	victim = below("own/board.seg");
	put_records(c, 0, 40);
	CHECK_OK(cache_commit(c));
	CHECK(!victim);
	disk = &disk_system;
	cache_close(c);
	REQUIRE_OK(cache_open(&c, below("own"), true, 0));
	CHECK(check_records(c, 50) == 50);
	/* Names that a writer may give, and the cache's own folder, are refused. */
	CHECK_FAILS(cache_pack(c, below("other/00000003.seg"), true), E_USAGE, "another one");
	CHECK_FAILS(cache_pack(c, below("own/again.seg"), true), E_USAGE, "own folder");
	CHECK(file_exists(below("own/board.seg")));
	cache_close(c);
	/* A writer reads the pack and leaves it where it is. */
	REQUIRE_OK(cache_open(&c, below("own"), false, 0));
	CHECK(check_records(c, 50) == 50 && file_exists(below("own/board.seg")));
	cache_close(c);
	remove_dir();
}

/* A new cache does not continue the counts of the cache that a pack came from. */
TEST(a_pack_counts_nothing)
{
	struct cache *c;
	struct cache_state st;
	make(below(fresh_dir() ? "donor" : ""), 1000);
	REQUIRE_OK(cache_open(&c, below("donor"), false, 0));
	CHECK(cache_generation(c) > 15);
	REQUIRE(mkdir(below("own"), 0755) == 0);
	CHECK(cache_pack(c, below("own/board.seg"), true) == 1000);
	cache_close(c);
	REQUIRE_OK(cache_open(&c, below("own"), true, 0));
	cache_state(c, &st);
	CHECK(st.count[CACHE_REC] == 1000 && st.generation == 0 && st.written_bytes == 0);
	cache_close(c);
	REQUIRE_OK(cache_open(&c, below("own"), false, 0));
	CHECK(cache_generation(c) == 0 && check_records(c, 1000) == 1000);
	cache_state(c, &st);
	CHECK(st.written_bytes == 0 && st.file_bytes == 0);
	cache_close(c);
	remove_dir();
}

/* Links in place of the lock or a segment: their targets are not made, emptied or written. */
TEST(links_are_not_written_through)
{
	struct cache *c;
	struct arena a = {0};
	struct blob text, before, after;
	static const char words[] = "somebody's letters, which are longer than the number of a process";
	make(below(fresh_dir() ? "other" : ""), 3);
	CHECK_OK(file_write(below("letter"), words, sizeof words));
	REQUIRE(mkdir(below("own"), 0755) == 0);
	static const char *const targets[] = {"letter", "nothing"};
	for (int i = 0; i < 2; i++) {
		REQUIRE(symlink(below(targets[i]), below("own/lock")) == 0);
		CHECK_FAILS(cache_open(&c, below("own"), false, 0), E_IO, "lock");
		CHECK_OK(cache_open_memory(&c, below("own")));
		cache_close(c);
		CHECK(unlink(below("own/lock")) == 0);
	}
	CHECK(!file_exists(below("nothing")));
	REQUIRE(link(below("letter"), below("own/lock")) == 0);
	CHECK_OK(cache_open(&c, below("own"), false, 0));
	cache_close(c);
	CHECK_OK(file_read(&a, below("letter"), 0, &text));
	CHECK(text.n == sizeof words && !memcmp(text.p, words, sizeof words));
	CHECK(unlink(below("own/lock")) == 0 && mkfifo(below("own/lock"), 0600) == 0);
	CHECK_FAILS(cache_open(&c, below("own"), false, 0), E_IO, "regular");
	CHECK(unlink(below("own/lock")) == 0);
	char segment[PATH_MAX];
	snprintf(segment, sizeof segment, "%s", file_of(below("other"), 0));
	for (int hard = 0; hard < 2; hard++) {
		CHECK_OK(file_read(&a, segment, 0, &before));
		REQUIRE((hard ? link : symlink)(segment, below("own/00000007.seg")) == 0);
		REQUIRE_OK(cache_open(&c, below("own"), false, 0));
		put_records(c, 3, 6);
		cache_close(c);
		CHECK_OK(file_read(&a, segment, 0, &after));
		CHECK(before.n == after.n && !memcmp(before.p, after.p, after.n));
		REQUIRE_OK(cache_open(&c, below("own"), true, 0));
		CHECK(check_records(c, 6) == 6);
		cache_close(c);
		CHECK(unlink(below("own/00000007.seg")) == 0);
	}
	arena_free(&a);
	remove_dir();
}

/* A number that was used for no file (the disk was full for a moment) hides no later segment from a
 * reader. */
TEST(a_reader_follows_over_skipped_numbers)
{
	struct disk full = disk_system;
	struct cache *c, *reader;
	full.create = no_create;
	REQUIRE_OK(cache_open_with(&c, fresh_dir(), CACHE_WRITE, 0, &small));
	put_records(c, 0, 3);
	CHECK_OK(cache_commit(c));
	REQUIRE_OK(cache_open(&reader, dir, true, 0));
	for (int i = 1; i < 5; i++) {
		disk = &full;
		put_records(c, 3 + 20 * (i - 1), 3 + 20 * i);
		CHECK_FAILS(cache_commit(c), E_IO, "No space");
		disk = &disk_system;
		CHECK_OK(cache_commit(c));
		CHECK(cache_refresh(reader) > 0);
		CHECK(check_records(reader, 100) == 3 + 20 * i);
		CHECK(cache_refresh(reader) == 0);
	}
	cache_close(c);
	cache_close(reader);
	remove_dir();
}

/* Empty or absent seeds are no change; a seed that appears or is replaced is one. */
TEST(seeds_that_come_and_go)
{
	char seeds[256];
	struct cache *c, *reader;
	REQUIRE(mkdir(below(fresh_dir() ? "empty" : ""), 0755) == 0);
	snprintf(seeds, sizeof seeds, "%s:%s", below("empty"), below("absent"));
	const struct cache_options o = {.seeds = seeds};
	make(below("own"), 3);
	make(below("donor"), 6);
	REQUIRE_OK(cache_open_with(&reader, below("own"), CACHE_READ, 0, &o));
	for (int i = 0; i < 3; i++)
		CHECK(cache_refresh(reader) == 0);
	REQUIRE_OK(cache_open_with(&c, below("donor"), CACHE_READ, 0, &(struct cache_options){.seeds = ""}));
	CHECK(cache_pack(c, below("empty/board.seg"), true) == 6);
	cache_close(c);
	CHECK(cache_refresh(reader) > 0 && cache_refresh(reader) == 0 && check_records(reader, 6) == 6);
	make(below("more"), 9);
	REQUIRE_OK(cache_open_with(&c, below("more"), CACHE_READ, 0, &(struct cache_options){.seeds = ""}));
	CHECK(cache_pack(c, below("empty/board.seg"), true) == 9);
	cache_close(c);
	CHECK(cache_refresh(reader) > 0 && cache_refresh(reader) == 0 && check_records(reader, 9) == 9);
	make(below("absent"), 12);
	CHECK(cache_refresh(reader) > 0 && cache_refresh(reader) == 0 && check_records(reader, 12) == 12);
	cache_close(reader);
	remove_dir();
}

/* The generation does not fall when this process may no longer write the folder and the user's lies above
 * it. */
static int generation_as_somebody(const char *state, uint64_t before)
{
	struct cache *c;
	struct rec r = sample(1);
	if (setgid(65534) < 0 || setuid(65534) < 0 || cache_open(&c, state, false, 0) < 0)
		return 1;
	r.meas.min_ns = 7;
	bool right = cache_generation(c) == before && cache_put_rec(c, &r) >= 0 && cache_commit(c) >= 0 &&
		     cache_generation(c) == before + 1;
	cache_close(c);
	return right ? 0 : 2;
}

TEST(the_generation_does_not_fall)
{
	char state[160], user[160];
	struct cache *c;
	if (!test_root())
		SKIP("needs root, and other users");
	snprintf(state, sizeof state, "%s/state", fresh_dir());
	snprintf(user, sizeof user, "%s/user", dir);
	REQUIRE(chmod(dir, 0755) == 0 && mkdir(user, 0777) == 0 && chmod(user, 0777) == 0);
	make(state, 200);
	REQUIRE_OK(cache_open(&c, state, true, 0));
	uint64_t generation = cache_generation(c);
	cache_close(c);
	setenv("XDG_CACHE_HOME", user, 1);
	pid_t pid = fork();
	if (pid == 0)
		_exit(generation_as_somebody(state, generation));
	unsetenv("XDG_CACHE_HOME");
	int status = -1;
	CHECK(generation > 2 && waitpid(pid, &status, 0) == pid && status == 0);
	remove_dir();
}

/* The folder is removed or moved while its writer is open: later records are kept in a new one, and no other
 * process writes there meanwhile. */
TEST(the_folder_goes_away)
{
	char cmd[400];
	for (int moved = 0; moved < 2; moved++) {
		struct cache *c, *second;
		make(below(fresh_dir() ? "own" : ""), 3);
		REQUIRE_OK(cache_open(&c, below("own"), false, 0));
		put_records(c, 3, 6);
		CHECK_OK(cache_commit(c));
		snprintf(cmd, sizeof cmd, moved ? "mv %s %s" : "rm -rf %s", below("own"), below("away"));
		REQUIRE(system(cmd) == 0);
		put_records(c, 6, 9);
		REQUIRE_OK(cache_open(&second, below("own"), false, 0));
		CHECK_FAILS(cache_commit(c), E_IO, "in use by");
		CHECK(check_records(c, 9) == 9);
		cache_close(second);
		CHECK_OK(cache_commit(c));
		CHECK_FAILS(cache_open(&second, below("own"), false, 0), E_BUSY, "in use");
		cache_close(c);
		REQUIRE_OK(cache_open(&c, below("own"), true, 0));
		CHECK(check_records(c, 9) == 3);
		cache_close(c);
		if (moved) {
			REQUIRE_OK(cache_open(&c, below("away"), false, 0));
			CHECK(check_records(c, 9) == 6);
			cache_close(c);
		}
		remove_dir();
	}
}

/* A lock file that root left does not lock out the folder's owner. */
TEST(a_lock_of_somebody_else)
{
	struct cache *c;
	if (!test_root())
		SKIP("needs root, and other users");
	make(fresh_dir(), 3);
	CHECK_OK(file_write(below("lock"), "", 0));
	REQUIRE(chown(dir, 65534, 65534) == 0 && chmod(dir, 0755) == 0 && chmod(below("lock"), 0644) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		CHECK(setgid(65534) == 0 && setuid(65534) == 0);
		CHECK_OK(cache_open(&c, dir, false, 0));
		put_records(c, 3, 6);
		CHECK(!strcmp(cache_dir(c), dir));
		cache_close(c);
		CHECK_OK(cache_open(&c, dir, true, 0));
		CHECK(check_records(c, 6) == 3); /* it may not read root's file */
		cache_close(c);
		_exit(test_bad);
	}
	int status = -1;
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	REQUIRE_OK(cache_open(&c, dir, true, 0));
	CHECK(check_records(c, 6) == 0); /* for root these files are another user's */
	cache_close(c);
	remove_dir();
}

/* Before every call by which a writer changes its folder, one reader refreshes and another one opens: each
 * finds all acknowledged records, also in the middle of a compaction. */
static struct {
	struct cache *reader;
	int acked, looks;
} onlooker;

static void look_on(void)
{
	enum { MOST = 400 };
	const struct disk *writers = disk;
	struct cache *fresh;
	disk = &disk_system;
	CHECK(cache_refresh(onlooker.reader) >= 0);
	CHECK(check_records(onlooker.reader, MOST) >= onlooker.acked);
	CHECK_OK(cache_open(&fresh, dir, true, 0));
	CHECK(check_records(fresh, MOST) >= onlooker.acked);
	cache_close(fresh);
	onlooker.looks++;
	disk = writers;
}

static int seen_create(const char *path, unsigned mode)
{
	look_on();
	return disk_system.create(path, mode);
}

static int seen_write(int fd, const void *p, size_t n, int64_t at)
{
	look_on();
	int rc = disk_system.write(fd, p, n / 3, at); /* writes only a part first */
	look_on();
	return rc < 0 ? rc : disk_system.write(fd, p, n, at);
}

static int seen_sync(int fd)
{
	look_on();
	return disk_system.sync(fd);
}

static int seen_rename(const char *from, const char *to)
{
	look_on();
	return disk_system.rename(from, to);
}

static int seen_unlink(const char *path)
{
	look_on();
	return disk_system.unlink(path);
}

static int seen_sync_dir(const char *path)
{
	look_on();
	return disk_system.sync_dir(path);
}

static int64_t seen_read(int fd, void *p, size_t n, int64_t at)
{
	return disk_system.read(fd, p, n, at);
}

static const struct disk seen_disk = {
    seen_create, seen_write, seen_read, seen_sync, seen_rename, seen_unlink, seen_sync_dir,
};

TEST(readers_at_every_call)
{
	struct cache *c;
	make(fresh_dir(), 3);
	onlooker.acked = onlooker.looks = 0;
	REQUIRE_OK(cache_open(&onlooker.reader, dir, true, 0));
	disk = &seen_disk;
	REQUIRE_OK(cache_open_with(&c, dir, CACHE_WRITE, 0, &small));
	for (int i = 1; i < 40 && !test_bad; i++) {
		put_records(c, 3 * i, 3 * i + 3);
		CHECK_OK(cache_put(c, CACHE_CODE, mix_bytes(&i, sizeof i, 1), "code", 4));
		CHECK_OK(i % 5 == 4 ? cache_compact(c) : cache_commit(c));
		onlooker.acked = 3 * i + 3;
	}
	cache_close(c);
	disk = &disk_system;
	CHECK(onlooker.looks > 200);
	cache_close(onlooker.reader);
	remove_dir();
}

/* A writer commits a record with its code, in a segment of its own, while a reader opens at any point: the
 * reader never finds the record without its code. */
static struct {
	struct cache *c;
	int reads, next;
} writing;

static int64_t read_and_write(int fd, void *p, size_t n, int64_t at)
{
	static char code[120000];
	int i = writing.next;
	if (--writing.reads == 0) {
		struct rec r = sample(i);
		writing.next++;
		memset(code, i, sizeof code);
		CHECK_OK(cache_put(writing.c, CACHE_CODE, r.task, code, sizeof code));
		CHECK_OK(cache_put_rec(writing.c, &r));
		CHECK_OK(cache_commit(writing.c));
	}
	return disk_system.read(fd, p, n, at);
}

TEST(a_record_is_met_with_its_code)
{
	struct disk reading = disk_system;
	struct cache *reader;
	struct arena a = {0};
	struct blob b;
	int met = 0;
	REQUIRE_OK(cache_open_with(&writing.c, fresh_dir(), CACHE_WRITE, 0, &small));
	put_records(writing.c, 0, 1);
	CHECK_OK(cache_commit(writing.c));
	writing.next = 1;
	reading.read = read_and_write;
	for (int at = 1; at < 40; at++) {
		writing.reads = at;
		disk = &reading;
		CHECK_OK(cache_open(&reader, dir, true, 0));
		disk = &disk_system;
		for (int i = 1; i < writing.next; i++) {
			struct rec r = sample(i);
			bool there = cache_get_rec(reader, rec_key(&r), &a, &r) >= 0;
			CHECK(!there || cache_get(reader, CACHE_CODE, r.task, &a, &b) >= 0);
			met += there;
		}
		cache_close(reader);
		arena_reset(&a);
	}
	CHECK(met > 100 && writing.next > 20);
	cache_close(writing.c);
	arena_free(&a);
	remove_dir();
}

/* Several processes open the cache to write, again and again: they take turns, and all their records are
 * there. */
static int take_turns(int from, int to)
{
	for (int i = from; i < to; i++) {
		struct cache *c;
		struct rec r = sample(i);
		if (cache_open_with(&c, dir, CACHE_WRITE, INT64_C(60) * 1000000000, &small) < 0)
			return 1;
		if (cache_put_rec(c, &r) < 0 || cache_commit(c) < 0)
			return 2;
		cache_close(c);
	}
	return 0;
}

TEST(writers_take_turns)
{
	enum { WRITERS = 4, EACH = 25 };
	struct cache *c;
	pid_t pid[WRITERS];
	fresh_dir();
	for (int i = 0; i < WRITERS; i++)
		if (!(pid[i] = fork()))
			_exit(take_turns(i * EACH, (i + 1) * EACH));
	for (int i = 0; i < WRITERS; i++) {
		int status = -1;
		CHECK(waitpid(pid[i], &status, 0) == pid[i] && status == 0);
	}
	REQUIRE_OK(cache_open(&c, dir, true, 0));
	CHECK(check_records(c, WRITERS * EACH) == WRITERS * EACH);
	cache_close(c);
	remove_dir();
}

/* The folder's mount becomes read-only: new records stay in memory and are written when that is possible
 * again. */
static int under_a_read_only_mount(void)
{
	struct cache *c;
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mkdir(below("m"), 0755) < 0 || mount("none", below("m"), "tmpfs", 0, NULL) < 0)
		return 77;
	CHECK_OK(cache_open_with(&c, below("m/own"), CACHE_WRITE, 0, &small));
	put_records(c, 0, 20);
	CHECK_OK(cache_commit(c));
	/* The system refuses to remount a file system with files that a writer has open, so a read-only view
	 * is mounted above it. */
	CHECK(mount(below("m"), below("m"), NULL, MS_BIND, NULL) == 0 &&
	      mount(NULL, below("m"), NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0);
	put_records(c, 20, 60);
	CHECK_FAILS(cache_commit(c), E_IO, "read-only: mount it writable");
	CHECK_FAILS(cache_compact(c), E_IO, "read-only");
	CHECK(check_records(c, 60) == 60);
	struct cache *reader, *late;
	struct cache_options here = small;
	here.only_here = true;
	CHECK_FAILS(cache_open_with(&late, below("m/own"), CACHE_WRITE, 0, &here), E_IO,
		    "(Read-only file system): mount it writable, or use another folder");
	CHECK_OK(cache_open(&reader, below("m/own"), true, 0));
	CHECK(check_records(reader, 60) >= 20);
	setenv("XDG_CACHE_HOME", below("user"),
	       1); /* a writer that comes now has the user's folder above it */
	CHECK_OK(cache_open(&late, below("m/own"), false, 0));
	CHECK(strstr(cache_dir(late), "user") && check_records(late, 60) >= 20);
	put_records(late, 60, 61);
	CHECK_OK(cache_commit(late));
	cache_close(late);
	unsetenv("XDG_CACHE_HOME");
	CHECK(mount(NULL, below("m"), NULL, MS_REMOUNT | MS_BIND, NULL) == 0);
	CHECK_OK(cache_commit(c));
	cache_close(c);
	CHECK(cache_refresh(reader) > 0 && check_records(reader, 60) == 60);
	cache_close(reader);
	/* And a whole file system. */
	CHECK(umount(below("m")) == 0 && mount(NULL, below("m"), NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
	CHECK_OK(cache_open(&c, below("m/own"), true, 0));
	CHECK(check_records(c, 60) == 60);
	cache_close(c);
	CHECK(umount(below("m")) == 0);
	return test_bad;
}

TEST(a_read_only_remount)
{
	int status = -1;
	fresh_dir();
	pid_t pid = fork();
	if (pid == 0)
		_exit(under_a_read_only_mount());
	REQUIRE(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	remove_dir();
	if (WEXITSTATUS(status) == 77)
		SKIP("this process may not mount");
	CHECK(WEXITSTATUS(status) == 0);
}

TEST_MAIN
