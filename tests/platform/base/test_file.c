/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/file.h"
#include "platform/base/clock.h"
#include "tests/lib/test.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];

static const char *in_dir(const char *name)
{
	static char path[4][128];
	static int turn;
	if (!dir[0]) {
		strcpy(dir, "/tmp/hone-file-XXXXXX");
		if (!mkdtemp(dir))
			abort();
	}
	char *p = path[turn++ % 4];
	snprintf(p, 128, "%s/%s", dir, name);
	return p;
}

TEST(write_then_read)
{
	struct arena a = {0};
	struct blob b;
	CHECK_OK(file_write(in_dir("x"), "hello", 5));
	CHECK_OK(file_read(&a, in_dir("x"), 0, &b));
	CHECK(b.n == 5 && strcmp(b.p, "hello") == 0);
	CHECK_OK(file_write(in_dir("x"), "", 0));
	CHECK_OK(file_read(&a, in_dir("x"), 0, &b));
	CHECK(b.n == 0);
	struct stat st;
	CHECK(stat(in_dir("x"), &st) == 0 && (st.st_mode & 0400));
	arena_free(&a);
}

/* An earlier process with the same number may have left a file; the caller decides who may write. */
TEST(write_in_parts)
{
	struct arena a = {0};
	struct blob b;
	struct stat st;
	char left[300];
	const struct blob part[] = {{"one ", 4}, {"", 0}, {"two", 3}};
	mode_t mask = umask(002);
	snprintf(left, sizeof left, "%s.%d", in_dir("parts"), (int)getpid());
	CHECK_OK(file_write(left, "left", 4));
	CHECK(stat(left, &st) == 0 && (st.st_mode & 07777) == 0664);
	for (int i = 0; i < 2; i++) {
		CHECK_OK(file_write_parts(in_dir("parts"), part, 3, 0644));
		CHECK_OK(file_read(&a, in_dir("parts"), 0, &b));
		CHECK(b.n == 7 && !strcmp(b.p, "one two"));
		CHECK(stat(in_dir("parts"), &st) == 0 && (st.st_mode & 07777) == 0644);
		CHECK(chmod(in_dir("parts"), 0666) == 0);
	}
	CHECK_OK(file_write_parts(in_dir("parts"), part, 0, 07777));
	CHECK(stat(in_dir("parts"), &st) == 0 && (st.st_mode & 07777) == 0666 && !st.st_size);
	umask(mask);
	arena_free(&a);
}

TEST(read_refuses)
{
	struct arena a = {0};
	struct blob b;
	CHECK_FAILS(file_read(&a, in_dir("absent"), 0, &b), E_NOTFOUND, "absent");
	CHECK_FAILS(file_read(&a, "/tmp", 0, &b), E_IO, "regular file");
	CHECK_FAILS(file_read(&a, "/dev/null", 0, &b), E_IO, "regular file");
	CHECK_OK(file_write(in_dir("big"), "0123456789", 10));
	CHECK_FAILS(file_read(&a, in_dir("big"), 9, &b), E_NOMEM, "10 bytes");
	a.cap_bytes = 4;
	CHECK_FAILS(file_read(&a, in_dir("big"), 0, &b), E_NOMEM, "big");
	arena_free(&a);
}

TEST(write_refuses_and_leaves_nothing)
{
	CHECK_FAILS(file_write(in_dir("no/such/folder"), "x", 1), E_NOTFOUND, "no/such/folder");
	CHECK_OK(file_mkdirs(in_dir("d"), 0755));
	CHECK(file_write(in_dir("d"), "x", 1) < 0); /* a folder cannot be replaced */
	CHECK(rmdir(in_dir("d")) == 0);
	char path[256];
	snprintf(path, sizeof path, "ls %s | grep -q '^d\\.'", dir);
	CHECK(system(path) != 0);
}

TEST(folders)
{
	CHECK_OK(file_mkdirs(in_dir("p/q/r"), 0755));
	CHECK_OK(file_mkdirs(in_dir("p/q/r"), 0755));
	CHECK(file_is_dir(in_dir("p/q/r")) && file_exists(in_dir("p/q")) && !file_exists(in_dir("p/z")));
	CHECK_OK(file_write(in_dir("plain"), "x", 1));
	CHECK(!file_is_dir(in_dir("plain")));
	CHECK_FAILS(file_mkdirs(in_dir("plain/sub"), 0755), E_IO, "plain");
	CHECK_FAILS(file_mkdirs("", 0755), E_IO, "''");
	CHECK_FAILS(file_mkdirs("/proc/none/sub", 0755), E_NOTFOUND, "/proc/none");
	if (getuid() == 0) {
		REQUIRE(chmod(in_dir(""), 0755) == 0 && seteuid(65534) == 0);
		int rc = file_mkdirs(in_dir("p/no"), 0755);
		CHECK(seteuid(0) == 0 && rc == E_IO && strstr(err_text(), "Permission denied"));
	}
}

TEST(places)
{
	char path[512];
	CHECK_OK(file_self_dir(path, sizeof path));
	CHECK(file_is_dir(path) && strstr(path, "tests"));
	CHECK(file_self_dir(path, 3) < 0);
	setenv("XDG_CACHE_HOME", "/x/y", 1);
	CHECK_OK(file_cache_dir(path, sizeof path));
	CHECK(strcmp(path, "/x/y/hone") == 0);
	unsetenv("XDG_CACHE_HOME");
	setenv("HOME", "/h", 1);
	CHECK_OK(file_cache_dir(path, sizeof path));
	CHECK(strcmp(path, "/h/.cache/hone") == 0);
	unsetenv("HOME");
	CHECK_FAILS(file_cache_dir(path, sizeof path), E_NOTFOUND, "--cache");
}

TEST(lock_excludes)
{
	int a, b;
	CHECK_OK(file_lock(in_dir("lock"), 0, &a));
	CHECK_FAILS(file_lock(in_dir("lock"), 0, &b), E_BUSY, "lock");
	CHECK_FAILS(file_lock(in_dir("lock"), 10 * NS_PER_MS, &b), E_BUSY, "lock");
	file_unlock(a);
	CHECK_OK(file_lock(in_dir("lock"), 0, &b));
	file_unlock(b);
	CHECK_FAILS(file_lock(in_dir("no/lock"), 0, &b), E_NOTFOUND, "no/lock");
}

TEST(lock_ends_with_the_process)
{
	pid_t pid = fork();
	if (pid == 0) {
		int fd;
		if (file_lock(in_dir("lock2"), 0, &fd) < 0)
			_exit(1);
		_exit(0);
	}
	int status, fd;
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK_OK(file_lock(in_dir("lock2"), 0, &fd));
	file_unlock(fd);
}

TEST(clean_up)
{
	char cmd[128];
	snprintf(cmd, sizeof cmd, "rm -rf '%s'", dir);
	CHECK(system(cmd) == 0);
}

TEST_MAIN
