/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/base/file.h"
#include "platform/base/clock.h"
#include "tests/lib/scratch.h"
#include "tests/lib/around.h"
#include "tests/lib/test.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(write_then_read)
{
	struct arena a = {0};
	struct blob b;
	CHECK_OK(file_write(scratch("x"), "hello", 5));
	CHECK_OK(file_read(&a, scratch("x"), 0, &b));
	CHECK(b.n == 5 && strcmp(b.p, "hello") == 0);
	CHECK_OK(file_write(scratch("x"), "", 0));
	CHECK_OK(file_read(&a, scratch("x"), 0, &b));
	CHECK(b.n == 0);
	struct stat st;
	CHECK(stat(scratch("x"), &st) == 0 && (st.st_mode & 0400));
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
	snprintf(left, sizeof left, "%s.%d", scratch("parts"), (int)getpid());
	CHECK_OK(file_write(left, "left", 4));
	CHECK(stat(left, &st) == 0 && (st.st_mode & 07777) == 0664);
	for (int i = 0; i < 2; i++) {
		CHECK_OK(file_write_parts(scratch("parts"), part, 3, 0644));
		CHECK_OK(file_read(&a, scratch("parts"), 0, &b));
		CHECK(b.n == 7 && !strcmp(b.p, "one two"));
		CHECK(stat(scratch("parts"), &st) == 0 && (st.st_mode & 07777) == 0644);
		CHECK(chmod(scratch("parts"), 0666) == 0);
	}
	CHECK_OK(file_write_parts(scratch("parts"), part, 0, 07777));
	CHECK(stat(scratch("parts"), &st) == 0 && (st.st_mode & 07777) == 0666 && !st.st_size);
	umask(mask);
	arena_free(&a);
}

TEST(read_refuses)
{
	struct arena a = {0};
	struct blob b;
	CHECK_FAILS(file_read(&a, scratch("absent"), 0, &b), E_NOTFOUND, "absent");
	CHECK_FAILS(file_read(&a, "/tmp", 0, &b), E_IO, "is a folder; name a file");
	CHECK_FAILS(file_read(&a, "/dev/null", 0, &b), E_IO, "regular file");
	CHECK_OK(file_write(scratch("big"), "0123456789", 10));
	CHECK_FAILS(file_read(&a, scratch("big"), 9, &b), E_NOMEM, "10 bytes");
	a.cap_bytes = 4;
	CHECK_FAILS(file_read(&a, scratch("big"), 0, &b), E_NOMEM, "big");
	arena_free(&a);
}

TEST(whether_a_file_can_be_written_is_checked_before)
{
	char cmd[512];
	CHECK_OK(file_can_write(scratch("later")));
	CHECK(!file_exists(scratch("later")));
	CHECK_OK(file_write(scratch("old"), "old", 3));
	CHECK_OK(file_can_write(scratch("old")));
	CHECK_FAILS(file_can_write(scratch("no/such/folder")), E_NOTFOUND, "no/such/folder");
	CHECK_FAILS(file_can_write(scratch("")), E_IO, "is a folder, not a regular file");
	CHECK_OK(file_can_mkdirs(scratch("new/folder/deep/")));
	CHECK_OK(file_can_mkdirs("relative/folder"));
	CHECK_OK(file_can_mkdirs(scratch("")));
	CHECK(!file_exists(scratch("new")));
	CHECK_FAILS(file_can_mkdirs(scratch("old/below")), E_IO, "old");
	CHECK_FAILS(file_can_mkdirs(""), E_IO, "cannot name");
	snprintf(cmd, sizeof cmd, "ls %s | grep -c 'later\\|old\\.'", scratch(""));
	CHECK(system(cmd) != 0); /* no files beside them are left */
}

TEST(write_refuses_and_leaves_nothing)
{
	CHECK_FAILS(file_write(scratch("no/such/folder"), "x", 1), E_NOTFOUND, "no/such/folder");
	CHECK_OK(file_mkdirs(scratch("d"), 0755));
	CHECK(file_write(scratch("d"), "x", 1) < 0); /* a folder cannot be replaced */
	CHECK(rmdir(scratch("d")) == 0);
	char path[256];
	snprintf(path, sizeof path, "ls %s | grep -q '^d\\.'", scratch_dir);
	CHECK(system(path) != 0);
}

TEST(folders)
{
	CHECK_OK(file_mkdirs(scratch("p/q/r"), 0755));
	CHECK_OK(file_mkdirs(scratch("p/q/r"), 0755));
	CHECK(file_is_dir(scratch("p/q/r")) && file_exists(scratch("p/q")) && !file_exists(scratch("p/z")));
	CHECK_OK(file_write(scratch("plain"), "x", 1));
	CHECK(!file_is_dir(scratch("plain")));
	CHECK_FAILS(file_mkdirs(scratch("plain/sub"), 0755), E_IO, "plain");
	CHECK_FAILS(file_mkdirs("", 0755), E_IO, "is empty");
	CHECK_FAILS(file_mkdirs("/proc/none/sub", 0755), E_NOTFOUND, "/proc/none");
	if (test_root()) {
		REQUIRE(chmod(scratch_dir, 0755) == 0 && seteuid(65534) == 0);
		int rc = file_mkdirs(scratch("p/no"), 0755);
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
	CHECK_OK(file_lock(scratch("lock"), 0, &a));
	CHECK_FAILS(file_lock(scratch("lock"), 0, &b), E_BUSY, "lock");
	CHECK_FAILS(file_lock(scratch("lock"), 10 * NS_PER_MS, &b), E_BUSY, "lock");
	file_unlock(a);
	CHECK_OK(file_lock(scratch("lock"), 0, &b));
	file_unlock(b);
	CHECK_FAILS(file_lock(scratch("no/lock"), 0, &b), E_NOTFOUND, "no/lock");
}

/* If no lock exists and none can be made, the error names the folder's permission, not a missing file. */
TEST(lock_in_a_closed_folder)
{
	int fd;
	if (geteuid() == 0 && !test_root())
		SKIP("root is the only user here");
	CHECK_OK(file_mkdirs(scratch("closed"), 0555));
	if (geteuid() == 0)
		REQUIRE(chmod(scratch_dir, 0755) == 0 && seteuid(65534) == 0);
	int rc = file_lock(scratch("closed/lock"), 0, &fd);
	CHECK(rc == E_IO && strstr(err_text(), "closed/lock") && strstr(err_text(), "Permission denied"));
	if (getuid() == 0)
		CHECK(seteuid(0) == 0);
}

TEST(lock_ends_with_the_process)
{
	pid_t pid = fork();
	if (pid == 0) {
		int fd;
		if (file_lock(scratch("lock2"), 0, &fd) < 0)
			_exit(1);
		_exit(0);
	}
	int status, fd;
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK_OK(file_lock(scratch("lock2"), 0, &fd));
	file_unlock(fd);
}

TEST_MAIN
