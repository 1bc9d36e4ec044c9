/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: --wait for a cache that another process writes, bench --top. */
#include "agent/cache/cache.h"
#include "platform/base/clock.h"
#include "tests/lib/cli.h"
#include "tests/lib/hold_cache.h"

static void reap(pid_t pid)
{
	int status = -1;
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

TEST(a_locked_cache_is_waited_for)
{
	char cache_at[256], holder[64], options[64];
	snprintf(cache_at, sizeof cache_at, "%s", in_dir("locked"));
	CHECK_RUN(0, KERNELS_ONCE, steering(), "", cache_at);
	pid_t pid = hold_cache(cache_at, 1500);
	snprintf(holder, sizeof holder, "in use by process %ld (", (long)pid);
	CHECK_RUN(1, "forget --all --cache %s --wait=10ms", cache_at);
	CHECK_SAYS(cli_err, holder);
	CHECK_SAYS(cli_err, "longer with --wait=");
	CHECK_SAYS(cli_err, "waiting until it ends");
	CHECK_RUN(0, "forget --all --cache %s --wait", cache_at);
	CHECK_SAYS(cli_err, holder);
	CHECK_SAYS(cli_err, "waiting until it ends");
	int status = -1;
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	/* The box begins after the wait: it is shorter than the wait, and kernels are found in it. */
	pid = hold_cache(cache_at, 3000);
	snprintf(options, sizeof options, "--wait=1m --budget 1s");
	CHECK_RUN(0, "tune %s --json --rigor estimate --threads 1 %s --cache %s", steering(), options,
		  cache_at);
	CHECK_SAYS(cli_err, "waiting until it ends");
	json_t *j = parse_out();
	CHECK(json_integer_value(json_object_get(j, "kept")) > 0);
	CHECK(json_number_value(json_object_get(j, "elapsed_s")) < 2.5);
	json_decref(j);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK_RUN(0, "forget --all --cache %s --wait", cache_at); /* the tune has let go of it */
	CHECK(!strstr(cli_err, "waiting"));
}

static bool runs(pid_t pid, const char *command)
{
	char path[64], name[16] = "";
	snprintf(path, sizeof path, "/proc/%ld/comm", (long)pid);
	FILE *f = fopen(path, "r");
	bool is = f && fgets(name, sizeof name, f) && !strncmp(name, command, strlen(command));
	if (f)
		fclose(f);
	return is;
}

/* A command line that is too long for the message ends with "...". The lock names another process here. */
static void check_long_command(const char *cache_at)
{
	char lock[300], seconds[160];
	snprintf(lock, sizeof lock, "%s/lock", cache_at);
	snprintf(seconds, sizeof seconds, "60.%0150d", 0);
	pid_t pid = hold_cache(cache_at, 60000), other = fork();
	if (other == 0) {
		execlp("sleep", "sleep", seconds, (char *)NULL);
		_exit(127);
	}
	FILE *f = fopen(lock, "w");
	REQUIRE(f && fprintf(f, "%ld\n", (long)other) > 0 && fclose(f) == 0);
	while (!runs(other, "sleep"))
		usleep(1000);
	CHECK_RUN(1, "forget --all --cache %s", cache_at);
	CHECK_SAYS(cli_err, "(sleep 60.000");
	CHECK_SAYS(cli_err, "000...); ");
	reap(other);
	reap(pid);
}

/* A honed may have been started by hand: systemctl does not end that one. */
static void check_honed_by_hand(const char *cache_at)
{
	char lock[300], seconds[] = "60";
	snprintf(lock, sizeof lock, "%s/lock", cache_at);
	pid_t pid = hold_cache(cache_at, 60000), other = fork();
	if (other == 0) {
		execlp("sleep", "/usr/bin/honed", seconds, (char *)NULL);
		_exit(127);
	}
	FILE *f = fopen(lock, "w");
	REQUIRE(f && fprintf(f, "%ld\n", (long)other) > 0 && fclose(f) == 0);
	while (!runs(other, "sleep"))
		usleep(1000);
	CHECK_RUN(1, "forget --all --cache %s", cache_at);
	CHECK_SAYS(cli_err, "for others end it (systemctl stop honed, or its terminal)");
	reap(other);
	reap(pid);
}

/* A holder whose arguments name a path of honed's is not honed: nobody is told to stop a service. */
static void check_path_of_honed(const char *cache_at)
{
	char lock[300];
	int hold[2];
	REQUIRE(pipe(hold) == 0);
	snprintf(lock, sizeof lock, "%s/lock", cache_at);
	pid_t pid = hold_cache(cache_at, 60000), other = fork();
	if (other == 0) {
		dup2(hold[0], 0);
		execlp("cat", "cat", "-", "/var/lib/honed/a.onnx", (char *)NULL);
		_exit(127);
	}
	FILE *f = fopen(lock, "w");
	REQUIRE(f && fprintf(f, "%ld\n", (long)other) > 0 && fclose(f) == 0);
	while (!runs(other, "cat"))
		usleep(1000);
	CHECK_RUN(1, "forget --all --cache %s", cache_at);
	CHECK_SAYS(cli_err, "(cat - /var/lib/honed/a.onnx)");
	CHECK_SAYS(cli_err, "wait for it to end");
	CHECK(!strstr(cli_err, "systemctl"));
	close(hold[0]);
	close(hold[1]);
	reap(other);
	reap(pid);
}

TEST(without_wait_a_locked_cache_fails_as_before)
{
	char cache_at[256];
	snprintf(cache_at, sizeof cache_at, "%s", in_dir("locked2"));
	CHECK_RUN(0, KERNELS_ONCE, steering(), "", cache_at);
	pid_t pid = hold_cache(cache_at, 60000);
	CHECK_RUN(1, "forget --all --cache %s", cache_at);
	CHECK_SAYS(cli_err, "is in use by process");
	CHECK(!strstr(cli_err, "waiting until"));
	reap(pid);
	check_long_command(cache_at);
	check_path_of_honed(cache_at);
	check_honed_by_hand(cache_at);
	CHECK_RUN(0, "forget --all --cache %s --wait=1s", cache_at); /* a killed holder's lock is free */
	CHECK(!strstr(cli_err, "waiting"));
	CHECK_RUN(0, "merge %s --cache %s --wait", cache_at, in_dir("new")); /* there is no lock yet */
	CHECK_RUN(2, "forget --all --cache %s --wait=soon", cache_at);
	CHECK_SAYS(cli_err, "'soon' is not a duration");
}

TEST(bench_shows_the_most_expensive_rows)
{
	char all[64], cache[256];
	snprintf(cache, sizeof cache, "%s", in_dir("top"));
	REQUIRE(mkdir(cache, 0700) == 0);
	CHECK_RUN(0, "bench %s --runs 3 --kernels fallback --threads 1 --cache %s --json", steering(), cache);
	json_t *j = parse_out();
	int n = (int)json_array_size(json_object_get(j, "kernels"));
	json_decref(j);
	REQUIRE(n >= 5);
	CHECK_RUN(0, "bench %s --runs 3 --kernels fallback --threads 1 --cache %s --top 2", steering(),
		  cache);
	snprintf(all, sizeof all, "%d of %d rows are left out", n - 2, n);
	CHECK_SAYS(cli_out, all);
	double us = 1e18;
	int rows = 0;
	for (const char *p = strchr(cli_out, '\n'); p && rows < 2; p = strchr(p + 1, '\n'), rows++) {
		CHECK(atof(p) > 0 && atof(p) <= us); /* the most expensive first */
		us = atof(p);
	}
	CHECK(rows == 2);
	CHECK_RUN(0, "bench %s --runs 3 --kernels fallback --threads 1 --cache %s --top 1000", steering(),
		  cache);
	CHECK(!strstr(cli_out, "left out"));
	CHECK_RUN(0, "bench %s --runs 3 --kernels fallback --threads 1 --cache %s --top 2 --json", steering(),
		  cache);
	j = parse_out();
	CHECK(json_array_size(json_object_get(j, "kernels")) == 2);
	CHECK(json_integer_value(json_object_get(j, "kernels_left_out")) == n - 2);
	json_decref(j);
	CHECK_RUN(2, "bench %s --top 0 --cache %s", steering(), cache);
	CHECK_SAYS(cli_err, "--top 0 is not possible; it takes 1 or more");
}

TEST_MAIN
