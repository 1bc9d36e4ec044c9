/* SPDX-License-Identifier: Apache-2.0 */
/* Tests whose code the cache runs, and which users may read, write and lock its folder, when several users
 * share it. */
#include "tests/lib/around.h"
#include "tests/lib/cache_dir.h"

#include <pthread.h>
#include <grp.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/mount.h>

enum { NOBODY = 65534, NO_TEST = 77 };

/* Runs fn in a child of root. Returns 0 if all is right; NO_TEST: it could not be tried. */
static int in_child(int (*fn)(void))
{
	int status = -1;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0)
		_exit(fn() ? NO_TEST : test_bad > 0);
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool has_code(const char *folder)
{
	struct cache *c;
	struct arena a = {0};
	struct blob b;
	bool has = false;
	if (cache_open_with(&c, folder, CACHE_READ, 0, &(struct cache_options){.seeds = ""}) >= 0) {
		has = cache_get(c, CACHE_CODE, hash_text("k"), &a, &b) >= 0;
		cache_close(c);
	}
	arena_free(&a);
	return has;
}

static void make_code(const char *folder)
{
	struct cache *c;
	REQUIRE_OK(cache_open_with(&c, folder, CACHE_WRITE, 0, &(struct cache_options){.seeds = ""}));
	CHECK_OK(cache_put(c, CACHE_CODE, hash_text("k"), "code", 4));
	cache_close(c);
}

/* In a folder that all users may write, sticky or not, a link or a second name may be a stranger's: its
 * target was perhaps never meant as a cache. */
TEST(names_in_a_sticky_folder)
{
	char segment[PATH_MAX];
	make_code(below(fresh_dir() ? "vault" : ""));
	snprintf(segment, sizeof segment, "%s", file_of(below("vault"), 0));
	static const struct {
		unsigned mode;
		int (*make)(const char *, const char *);
		bool trusted;
	} cases[] = {
	    {0755, symlink, true}, {01777, symlink, false}, {01775, symlink, false},
	    {0755, link, true},    {01777, link, false},
	};
	for (int i = 0; i < 5; i++) {
		REQUIRE(mkdir(below("open"), 0700) == 0 && chmod(below("open"), cases[i].mode) == 0);
		REQUIRE(cases[i].make(segment, below("open/x.seg")) == 0);
		CHECK(has_code(below("open")) == cases[i].trusted);
		CHECK(unlink(below("open/x.seg")) == 0 && rmdir(below("open")) == 0);
	}
	REQUIRE(mkdir(below("own"), 0700) == 0 && chmod(below("own"), 01777) == 0);
	make_code(below("own")); /* what was made there is a file of ours */
	CHECK(has_code(below("own")));
	remove_dir();
}

/* Writes enough users that entries could be confused; only 1002 is hone. */
static void write_passwd(const char *path)
{
	struct buf b = {0};
	buf_printf(&b, "root:x:0:0::/:/bin/sh\n");
	for (int i = 0; i < 300; i++)
		buf_printf(&b, "hone:x:1002:1002::/:/bin/sh\nother:x:1001:1001::/:/bin/sh\n");
	CHECK_OK(file_write(path, b.p, b.n));
	buf_free(&b);
}

static atomic_int trusted;

static void *open_often(void *folder)
{
	for (int i = 0; i < 40; i++)
		trusted += has_code(folder);
	return NULL;
}

static int with_a_passwd(void)
{
	enum { THREADS = 4 };
	pthread_t t[THREADS];
	char folder[160];
	snprintf(folder, sizeof folder, "%s", below("own"));
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount(below("passwd"), "/etc/passwd", NULL, MS_BIND, NULL) < 0)
		return -1;
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&t[i], NULL, open_often, folder) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	CHECK(trusted == 0);
	/* Only a line whose whole first word is "hone" is the daemon's, and its number must be digits. */
	static const struct {
		const char *line;
		bool hone;
	} lines[] = {{"hone:x:1001:1::/:/\n", true},     {"hone::1001:1::/:/", true},
		     {"a\nhone:x:1001:1::/:/\n", true},  {"honey:x:1001:1::/:/\n", false},
		     {"hone:x:1002:1001::/:/\n", false}, {"hone:1001\n", false},
		     {"hone:x:-1001:1::/:/\n", false},   {"hone:x:4294968297:1::/:/\n", false},
		     {"hone:x:1001\n", false},           {"", false}};
	for (int i = 0; i < 10; i++) {
		write_bytes("/etc/passwd", lines[i].line, strlen(lines[i].line));
		CHECK(has_code(folder) == lines[i].hone);
	}
	/* The rest of a long line does not count as a line. */
	char text[5000];
	for (int at = 1; at < 600; at++) {
		memset(text, 'x', sizeof text);
		snprintf(text + at, sizeof text - (size_t)at, "hone:x:1001:1::/:/");
		write_bytes("/etc/passwd", text, strlen(text));
		CHECK(!has_code(folder));
	}
	return 0;
}

TEST(whose_code_is_run)
{
	if (!test_root())
		SKIP("needs root, and other users");
	make_code(below(fresh_dir() ? "own" : ""));
	REQUIRE(chown(file_of(below("own"), 0), 1001, 1001) == 0 && !has_code(below("own")));
	write_passwd(below("passwd"));
	int rc = in_child(with_a_passwd);
	remove_dir();
	if (rc == NO_TEST)
		SKIP("this process may not mount");
	CHECK(rc == 0);
}

/* A service with another user's HOME cannot enter the folder that would lie above for its results. */
static int with_a_closed_home(void)
{
	struct cache *c;
	if (setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
		return -1;
	setenv("XDG_CACHE_HOME", below("home"), 1);
	CHECK_OK(cache_open(&c, below("own"), true, 0));
	CHECK(check_records(c, 3) == 3 && cache_refresh(c) == 0);
	cache_close(c);
	CHECK_FAILS(cache_open(&c, below("own"), false, 0), E_IO, "home/hone: Permission denied");
	CHECK_FAILS(cache_open(&c, below("home/hone"), true, 0), E_IO, "Permission denied");
	return 0;
}

TEST(a_home_that_is_closed)
{
	if (!test_root())
		SKIP("needs root, and other users");
	make(below(fresh_dir() ? "own" : ""), 3);
	REQUIRE(chmod(dir, 0755) == 0 && mkdir(below("home"), 0700) == 0);
	CHECK(in_child(with_a_closed_home) == 0);
	remove_dir();
}

/* Files in a folder that a group may list belong to that group, or are readable by their owner only. */
static unsigned group_of(const char *folder, unsigned *mode)
{
	struct stat st;
	CHECK(stat(file_of(folder, 0), &st) == 0);
	*mode = st.st_mode & 0777;
	return st.st_gid;
}

static int as_nobody(void)
{
	unsigned mode;
	if (setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
		return -1;
	make(below("closed"), 3);
	CHECK(group_of(below("closed"), &mode) == NOBODY && mode == 0600);
	make(below("open"), 3);
	CHECK(group_of(below("open"), &mode) == NOBODY && mode == 0644);
	return 0;
}

TEST(files_are_the_groups)
{
	enum { USERS = 100 };
	unsigned mode;
	if (!test_root())
		SKIP("needs root, and other users");
	fresh_dir();
	REQUIRE(mkdir(below("own"), 0700) == 0 && chown(below("own"), 0, USERS) == 0);
	REQUIRE(chmod(dir, 0755) == 0 && chmod(below("own"), 0750) == 0);
	make(below("own"), 3);
	CHECK(group_of(below("own"), &mode) == USERS && mode == 0640);
	REQUIRE(mkdir(below("closed"), 0700) == 0 && chown(below("closed"), NOBODY, USERS) == 0);
	REQUIRE(mkdir(below("open"), 0700) == 0 && chown(below("open"), NOBODY, USERS) == 0);
	REQUIRE(chmod(below("closed"), 0750) == 0 && chmod(below("open"), 0755) == 0);
	CHECK(in_child(as_nobody) == 0);
	remove_dir();
}

/* A user who may not write the folder cannot hold its lock, whoever made that; a user who may write it
 * can. */
static bool takes_lock(const char *folder)
{
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/lock", folder);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool takes = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
	if (fd >= 0)
		close(fd);
	return takes;
}

static const struct {
	unsigned folder, group, mode;
	bool group_locks, others_lock;
} locks[] = {{0, 0, 0755, false, false},
	     {0, NOBODY, 0775, true, false},
	     {0, NOBODY, 0755, false, false},
	     {NOBODY, 0, 0755, true, true}, /* it is that user's own */
	     {0, 0, 01777, true, true}};

static int turn;

static int as_a_member(void)
{
	if (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
		return -1;
	CHECK(takes_lock(below("own")) == locks[turn].group_locks);
	return 0;
}

static int as_a_stranger(void)
{
	if (setgroups(0, NULL) < 0 || setgid(NOBODY - 1) < 0 ||
	    setuid(locks[turn].folder == NOBODY ? NOBODY : NOBODY - 1) < 0)
		return -1;
	CHECK(takes_lock(below("own")) == locks[turn].others_lock);
	return 0;
}

/* A holder that is killed. */
static int leave_lock(void)
{
	struct cache *c;
	CHECK_OK(cache_open(&c, below("own"), false, 0));
	return 0;
}

TEST(users_that_may_lock)
{
	struct stat st;
	struct cache *c;
	if (!test_root())
		SKIP("needs root, and other users");
	for (turn = 0; turn < 5; turn++) {
		REQUIRE(chmod(fresh_dir(), 0755) == 0 && mkdir(below("own"), 0700) == 0);
		REQUIRE(chown(below("own"), locks[turn].folder, locks[turn].group) == 0 &&
			chmod(below("own"), locks[turn].mode) == 0);
		CHECK_OK(file_write(below("own/lock"), "", 0)); /* as older versions left it */
		REQUIRE(chmod(below("own/lock"), 0644) == 0);
		for (int i = 0; i < 3;
		     i++) { /* the first time as older versions left it, the second as it lies */
			CHECK(in_child(leave_lock) == 0);
			CHECK(in_child(as_a_member) == 0 && in_child(as_a_stranger) == 0);
			if (i > 0)
				make(below("own"), 3);
			CHECK(file_exists(below("own/lock")) == (i == 0));
		}
		remove_dir();
	}
	/* A thing in the lock's place that is not a lock is not given away. */
	REQUIRE(mkdir(below(fresh_dir() ? "own" : ""), 0755) == 0 &&
		chown(below("own"), NOBODY, NOBODY) == 0);
	CHECK_OK(file_write(below("own/lock"), "secret", 6));
	REQUIRE(chmod(below("own/lock"), 0600) == 0);
	REQUIRE_OK(cache_open(&c, below("own"), false, 0));
	CHECK(stat(below("own/lock"), &st) == 0 && st.st_uid == 0 && (st.st_mode & 0777) == 0600);
	cache_close(c);
	remove_dir();
}

static int become_nobody(void)
{
	setenv("HOME", below("own"), 1);
	return setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0 ? -1 : 0;
}

static int writes_as_nobody(void)
{
	struct cache *c;
	if (become_nobody() < 0)
		return -1;
	CHECK_OK(cache_open(&c, below("own"), false, 0));
	if (test_bad)
		return 0;
	put_records(c, 3, 6);
	CHECK_OK(cache_commit(c));
	CHECK(check_records(c, 6) == 6);
	cache_close(c);
	return 0;
}

static int is_refused_as_nobody(void)
{
	struct cache *c;
	if (become_nobody() < 0)
		return -1;
	CHECK_FAILS(cache_open(&c, below("own"), false, 0), E_IO, "rm -f");
	return 0;
}

/* A new owner of the folder can write it; if a holder was killed before the change, the error says what to
 * do. */
TEST(a_folder_changes_hands)
{
	if (!test_root())
		SKIP("needs root, and other users");
	for (int killed = 0; killed < 2; killed++) {
		REQUIRE(chmod(fresh_dir(), 0755) == 0 && mkdir(below("own"), 0755) == 0);
		make(below("own"), 3);
		if (killed)
			CHECK(in_child(leave_lock) == 0);
		REQUIRE(chown(below("own"), NOBODY, NOBODY) == 0);
		if (killed) {
			CHECK(in_child(is_refused_as_nobody) == 0);
			make(below("own"), 3); /* root's next writer leaves no obstacle */
		}
		CHECK(in_child(writes_as_nobody) == 0);
		remove_dir();
	}
}

/* Above a seed that others may write, forgotten records stay forgotten, whatever the seed has under their
 * keys. */
TEST(no_stranger_brings_back_what_was_forgotten)
{
	struct cache *c;
	struct arena a = {0};
	struct rec own = sample(1), theirs = sample(2), got;
	struct buf text = {0};
	make(below(fresh_dir() ? "own" : ""), 3);
	REQUIRE_OK(cache_open_with(&c, below("own"), CACHE_WRITE, 0, &(struct cache_options){.seeds = ""}));
	CHECK_OK(cache_forget(c, CACHE_REC, rec_key(&own)));
	cache_close(c);
	REQUIRE_OK(cache_open_with(&c, below("open"), CACHE_WRITE, 0, &(struct cache_options){.seeds = ""}));
	rec_text(&theirs, &text);
	CHECK_OK(cache_put(c, CACHE_REC, rec_key(&own), text.p, text.n));
	cache_close(c);
	REQUIRE(chmod(below("open"), 0777) == 0);
	for (int writes = 0; writes < 2; writes++) {
		REQUIRE_OK(cache_open_with(&c, below("own"), writes ? CACHE_WRITE : CACHE_READ, 0,
					   &(struct cache_options){.seeds = below("open")}));
		CHECK(cache_get_rec(c, rec_key(&own), &a, &got) == E_NOTFOUND);
		CHECK(cache_get_rec(c, rec_key(&theirs), &a, &got) == E_OK); /* this board's own record */
		if (writes) {
			CHECK_OK(cache_forget(c, CACHE_REC, rec_key(&theirs)));
			CHECK(cache_get_rec(c, rec_key(&theirs), &a, &got) == E_NOTFOUND);
			CHECK_OK(cache_put_rec(c, &own));
			CHECK_OK(cache_forget(c, CACHE_REC, rec_key(&own)));
			CHECK(cache_get_rec(c, rec_key(&own), &a, &got) == E_NOTFOUND);
		}
		cache_close(c);
	}
	buf_free(&text);
	arena_free(&a);
	remove_dir();
}

/* A writer that ends leaves no lock behind; the error of the next refused process names the holder. */
TEST(the_lock_names_who_holds_it)
{
	struct cache *c, *second;
	char name[32];
	make(fresh_dir(), 3);
	CHECK(!file_exists(below("lock")));
	int fd = open(below("lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	REQUIRE(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
	CHECK_FAILS(cache_open(&second, dir, false, 0), E_BUSY, "(unknown)");
	close(fd);
	REQUIRE_OK(cache_open(&c, dir, false, 0));
	snprintf(name, sizeof name, "process %ld (", (long)getpid());
	CHECK_FAILS(cache_open(&second, dir, false, 0), E_BUSY, name);
	cache_close(c);
	remove_dir();
}

TEST_MAIN
