/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: nothing is searched when its result cannot be kept. */
#include "tests/lib/cli.h"
#include <limits.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

/* Tuning fails before the search, with the reason and the remedies, and prints nothing else. */
static void check_refused(const char *cache, const char *why)
{
	CHECK_RUN(1, "tune %s --json --budget 5s --threads 1 --cache %s", steering(), cache);
	CHECK_SAYS(cli_err, why);
	CHECK_SAYS(cli_err, "nothing was searched");
	CHECK_SAYS(cli_err, "--cache DIR");
	CHECK_SAYS(cli_err, "--no-cache");
	const char *remedy = strstr(cli_err, "another folder"); /* said once */
	CHECK(remedy && !strstr(remedy + 1, "another folder"));
	CHECK_SAYS(cli_out, "{\"error\":");
	CHECK(strchr(cli_err, '\n') == cli_err + strlen(cli_err) - 1);
}

TEST(a_file_is_no_cache)
{
	REQUIRE_OK(file_write(in_dir("file"), "x", 1));
	check_refused(in_dir("file"), "Not a directory");
	check_refused(in_dir("file/cache"), "Not a directory");
	check_refused("/proc/nope", "No such file or directory");
}

/* Without a worker nothing can be found, so that no folder is made. */
TEST(a_missing_worker_leaves_no_cache)
{
	const char *was = getenv("HONE_WORKER");
	char *worker = was ? strdup(was) : NULL;
	setenv("HONE_WORKER", "/no/such", 1);
	CHECK_RUN(1, "tune %s --budget 2s --threads 1 --cache %s", steering(), in_dir("vain/cache"));
	CHECK_SAYS(cli_err, "no hone-worker at /no/such; install it there, or set HONE_WORKER to its path");
	CHECK(access(in_dir("vain"), F_OK) < 0);
	if (worker)
		setenv("HONE_WORKER", worker, 1);
	else
		unsetenv("HONE_WORKER");
	free(worker);
}

/* Lets another user read the model, and write what redirect() needs. */
static void open_to_nobody(void)
{
	steering();
	REQUIRE(chmod(dir, 0755) == 0 && chmod(steering(), 0644) == 0);
	REQUIRE_OK(file_write(in_dir("stderr"), "", 0));
	REQUIRE_OK(file_write(in_dir("stdout"), "", 0));
	REQUIRE(chmod(in_dir("stderr"), 0666) == 0 && chmod(in_dir("stdout"), 0666) == 0);
}

/* Neither a folder that is named nor the user's own is replaced by another one that could be written. */
TEST(a_folder_of_another_user)
{
	if (getuid() != 0)
		SKIP("not root: there is no other user");
	char cache[256], home[256];
	snprintf(cache, sizeof cache, "%s", in_dir("closed"));
	snprintf(home, sizeof home, "%s", in_dir("home"));
	open_to_nobody();
	REQUIRE(mkdir(cache, 0755) == 0 && mkdir(home, 0777) == 0 && chmod(home, 0777) == 0);
	setenv("XDG_CACHE_HOME", home, 1);
	nobody = true;
	check_refused(cache, "Permission denied");
	CHECK_SAYS(cli_err, cache);
	CHECK(!file_exists(in_dir("home/hone")));
	setenv("XDG_CACHE_HOME", cache, 1);
	CHECK_RUN(1, "tune %s --budget 5s --threads 1", steering());
	CHECK_SAYS(cli_err, "nothing was searched");
	CHECK_SAYS(cli_err, "closed/hone: Permission denied");
	nobody = false;
	unsetenv("XDG_CACHE_HOME");
}

/* Commands that read a folder which cannot be written: if it holds no records, they show none; if it holds
 * some, they name the user's cache as well, which lies above it. */
TEST(a_folder_that_is_only_read)
{
	if (getuid() != 0)
		SKIP("not root: there is no other user");
	char cmd[2000], home[256], bare[256], full[256], both[600], pack[256];
	snprintf(home, sizeof home, "%s", in_dir("reader"));
	snprintf(bare, sizeof bare, "%s", in_dir("bare"));
	snprintf(full, sizeof full, "%s", in_dir("full"));
	snprintf(pack, sizeof pack, "%s", in_dir("reader/p.seg"));
	open_to_nobody();
	CHECK_RUN(0, KERNELS_ONCE, steering(), "", full);
	CHECK_RUN(0, "show --json --cache %s", full);
	json_t *j = parse_out();
	size_t n = json_array_size(json_object_get(j, "record_list"));
	json_decref(j);
	snprintf(
	    cmd, sizeof cmd,
	    "mkdir -p %s/hone %s && cp %s/*.seg %s/hone && chmod -R a+rX %s %s && chown -R 65534:65534 %s",
	    home, bare, full, home, bare, full, home);
	REQUIRE(n > 0 && system(cmd) == 0);
	setenv("XDG_CACHE_HOME", home, 1);
	nobody = true;
	CHECK_RUN(0, "show --cache %s", bare);
	snprintf(both, sizeof both, "0 records in %s\n", bare);
	CHECK_SAYS(cli_out, both);
	CHECK_RUN(0, "export --cache %s", bare);
	snprintf(both, sizeof both, "0 records of %s\n", bare);
	CHECK_SAYS(cli_err, both);
	CHECK(!*cli_out);
	CHECK_RUN(0, "status --json --cache %s", bare);
	j = parse_out();
	CHECK(!json_count(json_object_get(j, "records_by_type"), "type", "rec"));
	json_decref(j);
	CHECK_RUN(1, "bench %s --require-cache --threads 1 --cache %s", steering(), bare);
	CHECK_RUN(0, "explain %s --json --threads 1 --cache %s", steering(), bare);
	CHECK(!strstr(cli_out, "\"tuned\"") && !strstr(cli_out, home));
	hone("pack -o %s --json --cache %s", pack, bare);
	CHECK(!strstr(cli_out, "\"records\":") || !out_number("records"));

	CHECK_RUN(0, "show --cache %s", full);
	snprintf(both, sizeof both, "%zu records in %s and %s/hone", n, full, home);
	CHECK_SAYS(cli_out, both);
	CHECK_RUN(0, "export --cache %s", full);
	snprintf(both, sizeof both, " of %s and %s/hone\n", full, home);
	CHECK_SAYS(cli_err, both);
	CHECK_RUN(0, "pack -o %s --cache %s", pack, full);
	snprintf(both, sizeof both, " of %s and %s/hone, ", full, home);
	CHECK_SAYS(cli_out, both);
	CHECK_RUN(0, "status --cache %s", full);
	snprintf(both, sizeof both, "%s and %s/hone, 2 layers", full, home);
	CHECK_SAYS(cli_out, both);
	CHECK_RUN(0, "bench %s --require-cache --runs 2 --threads 1 --cache %s", steering(), full);
	nobody = false;
	unsetenv("XDG_CACHE_HOME");
}

/* As a full disk, without a file system for it: no file may grow beyond so many bytes. The signal that this
 * sends does not end hone. */
TEST(no_room_for_the_first_commit)
{
	struct rlimit was, small;
	REQUIRE(getrlimit(RLIMIT_FSIZE, &was) == 0);
	small = was;
	small.rlim_cur = 100 << 10;
	steering();
	REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
	check_refused(in_dir("limited"), "File too large");
	CHECK(setrlimit(RLIMIT_FSIZE, &was) == 0);
	CHECK(!file_exists(in_dir("limited"))); /* no empty folder stays */
	REQUIRE(mkdir(in_dir("before"), 0755) == 0 && setrlimit(RLIMIT_FSIZE, &small) == 0);
	check_refused(in_dir("before/a/b"), "File too large");
	check_refused(in_dir("before"), "File too large");
	CHECK(setrlimit(RLIMIT_FSIZE, &was) == 0);
	CHECK(!file_exists(in_dir("before/a")) && file_exists(in_dir("before")));
}

/* Mounts, in a namespace of this process: a file system of 128 KiB, and one that is read-only. */
TEST(a_full_and_a_read_only_file_system)
{
	char path[256];
	snprintf(path, sizeof path, "%s", in_dir("mounted"));
	steering();
	REQUIRE(mkdir(path, 0755) == 0);
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", path, "tmpfs", 0, "size=128k") < 0)
		SKIP("no file system can be mounted here");
	check_refused(path, "No space left on device");
	CHECK(!file_exists(in_dir("mounted/new.tmp")) && !file_exists(in_dir("mounted/lock")));
	setenv("XDG_CACHE_HOME", in_dir("other-home"), 1);
	CHECK(mount("tmpfs", path, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
	check_refused(path, "Read-only file system");
	CHECK(!file_exists(in_dir("other-home")));
	unsetenv("XDG_CACHE_HOME");
	CHECK(umount(path) == 0);
}

/* The folder that is suggested is the user's own, not one in /tmp. */
TEST(another_folder_is_the_users_own)
{
	static const char tune[] = "tune %s --rigor estimate --budget 60s --threads 1 --no-cache";
	char was[PATH_MAX];
	char home[256], closed[256], cwd[PATH_MAX], next[300];
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	if (getuid() != 0)
		SKIP("not root: there is no other user");
	snprintf(home, sizeof home, "%s", in_dir("own-home"));
	snprintf(closed, sizeof closed, "%s", in_dir("own-closed"));
	open_to_nobody();
	snprintf(was, sizeof was, "%s", getenv("HOME") ? getenv("HOME") : "/");
	REQUIRE(mkdir(home, 0777) == 0 && chmod(home, 0777) == 0 && mkdir(closed, 0755) == 0);
	setenv("XDG_CACHE_HOME", closed, 1);
	setenv("HOME", home, 1);
	REQUIRE(getcwd(cwd, sizeof cwd) && chdir("/") == 0);
	nobody = true;
	CHECK_RUN(0, tune, steering());
	snprintf(next, sizeof next, " --cache %s/hone-cache\n", home);
	CHECK_SAYS(cli_err, next);
	setenv("HOME", closed, 1);
	CHECK_RUN(0, tune, steering());
	CHECK_SAYS(cli_err, "name a folder that can be written: --cache DIR\n");
	CHECK(!strstr(cli_err, "Next: "));
	nobody = false;
	CHECK(chdir(cwd) == 0);
	unsetenv("XDG_CACHE_HOME");
	setenv("HOME", was, 1);
}

TEST(without_a_cache_nothing_is_kept)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char cache[256];
	snprintf(cache, sizeof cache, "%s", in_dir("unkept"));
	CHECK_RUN(0, KERNELS_ONCE, steering(), "--no-cache", cache);
	CHECK_SAYS(cli_err, "--no-cache: nothing that is found will be kept");
	json_t *j = parse_out();
	CHECK(json_is_null(json_object_get(j, "cache")) && json_is_null(json_object_get(j, "warning")));
	CHECK(json_integer_value(json_object_get(j, "kept")) == 0);
	CHECK(json_integer_value(json_object_get(j, "trials")) > 0);
	CHECK(json_number_value(json_object_get(j, "after_ms")) > 0);
	json_decref(j);
	CHECK(!file_exists(cache));
	CHECK_RUN(0, "tune %s --rigor estimate --budget 60s --threads 1 --no-cache --cache %s/file/x",
		  steering(), dir);
	CHECK_SAYS(cli_out, "nothing was kept (--no-cache)\n");
	CHECK_SAYS(cli_err, "to keep the results, name a folder that can be written\nNext: hone tune ");
	CHECK_SAYS(cli_err, "hone-cache\n");
	CHECK(!strstr(cli_err, "hone bench"));
	CHECK_RUN(0, "tune %s --rigor estimate --budget 60s --threads 1 --no-cache --cache %s/new/folder",
		  steering(), dir);
	CHECK_SAYS(cli_out, "nothing was kept (--no-cache)\n");
	CHECK_SAYS(cli_err, "Next: hone tune ");
	CHECK_SAYS(cli_err, " --budget 60s --rigor estimate --threads 1 --cache ");
	CHECK_RUN(0, "tune %s --rigor estimate --budget 60s --threads 1 --no-cache --cache /proc/nope",
		  steering()); /* root passes access() there, but no file can be made */
	CHECK(!strstr(cli_err, "/proc"));
	CHECK_SAYS(cli_err, "name a folder that can be written");
	homeless = true; /* nowhere to look for a cache */
	CHECK_RUN(0, "tune %s --rigor estimate --budget 60s --threads 1 --no-cache", steering());
	CHECK_SAYS(cli_err, "hone-cache\n");
	CHECK_RUN(0, "tune -q %s --json --rigor estimate --budget 60s --threads 1 --no-cache", steering());
	homeless = false;
	CHECK(!cli_err[0]);
	CHECK_RUN(2, "tune %s --no-cache --careful", steering());
	CHECK_RUN(2, "tune %s --no-cache --rigor cached", steering());
	CHECK_SAYS(cli_err, "--no-cache keeps nothing");
}

TEST_MAIN
