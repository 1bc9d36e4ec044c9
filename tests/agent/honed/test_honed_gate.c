/* SPDX-License-Identifier: Apache-2.0 */
/* The gate end to end: the built honed on a board in a folder, with a job that only waits. Benchmarks measure
 * how fast it yields; these tests check that it yields and goes on. */
#include "platform/base/clock.h"
#include "tests/lib/sysroot.h"
#include "tests/lib/honed.h"
#include "tests/lib/process.h"

static struct sysroot b;

static bool up(void)
{
	char conf[1024];
	if (honed)
		return true;
	make_folder();
	snprintf(b.root, sizeof b.root, "%s", in_folder("root"));
	sysroot_set(&b, PI_THROTTLED, "0\n");
	sysroot_load(&b, 4, 1000, 100000);
	sysroot_memory(&b, 4000, 3000);
	sysroot_zone(&b, 0, "cpu-thermal", 45000, "passive", 85000);
	write_text(in_folder("m.onnx"), "a model");
	write_text(in_folder("hone"), "#!/bin/sh\nsleep 600 & wait\n");
	chmod(in_folder("hone"), 0755);
	snprintf(conf, sizeof conf,
		 "[idle]\nsettle = 1s\nslice = 500s\n[inhibit]\nfile = %s\n[model m]\npath = %s\n",
		 in_folder("hold"), in_folder("m.onnx"));
	return start_honed(conf, own("hone"));
}

/* Returns the first child of a process that has this name; NULL: any; 0: it has none. */
static pid_t child_of(pid_t pid, const char *name)
{
	char path[64], text[256] = "", comm[32];
	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
	if (fd >= 0)
		close(fd);
	for (char *from = text, *end = text; n > 0; from = end) {
		pid_t child = (pid_t)strtol(from, &end, 10);
		if (end == from)
			break;
		snprintf(path, sizeof path, "/proc/%d/comm", (int)child);
		FILE *f = fopen(path, "r");
		bool is = f && fgets(comm, sizeof comm, f);
		if (f)
			fclose(f);
		comm[is ? strcspn(comm, "\n") : 0] = 0;
		if (is && (!name || !strcmp(comm, name)))
			return child;
	}
	return 0;
}

/* honed's job, and not the process that examines new models when honed starts. */
static pid_t job_of(pid_t daemon)
{
	return child_of(daemon, "hone");
}

/* Whether the job and the process that it started, which stands for a worker, are both stopped (or both
 * run). */
static bool both_are(bool stopped)
{
	pid_t job = job_of(honed), worker = child_of(job, NULL);
	char j = state_of(job), w = state_of(worker);
	return j != '?' && w != '?' && (j == 'T') == stopped && (w == 'T') == stopped;
}

static bool until(bool stopped)
{
	for (int i = 0; i < PATIENCE_MS; i++, usleep(1000))
		if (both_are(stopped))
			return true;
	show_log();
	return false;
}

static bool log_says(const char *part)
{
	struct arena a = {0};
	struct blob log;
	bool says = file_read(&a, in_folder("log"), 0, &log) >= 0 && strstr(log.p, part);
	arena_free(&a);
	return says;
}

TEST(heat)
{
	REQUIRE(up());
	REQUIRE(until(false));
	sysroot_temp(&b, 0, 71000);
	CHECK(until(true));
	sysroot_temp(&b, 0, 50000);
	CHECK(until(false));
}

TEST(throttling)
{
	REQUIRE(up());
	REQUIRE(until(false));
	sysroot_set(&b, PI_THROTTLED, "50005\n");
	CHECK(until(true));
	sysroot_set(&b, PI_THROTTLED, "50000\n");
	CHECK(until(false));
}

TEST(an_inhibit_file)
{
	REQUIRE(up());
	REQUIRE(until(false));
	write_text(in_folder("hold"), "docking");
	CHECK(until(true));
	CHECK(unlink(in_folder("hold")) == 0);
	CHECK(until(false));
}

/* Uses one of four processors, as the kernel would count it. */
TEST(a_robot_takes_a_processor)
{
	REQUIRE(up());
	REQUIRE(until(false));
	int fd = open(sysroot_path(&b, "/proc/stat"), O_WRONLY | O_CLOEXEC);
	int64_t start = clock_now(&clock_real);
	bool stopped = false;
	for (int i = 0; i < PATIENCE_MS / 5 && !stopped; i++, usleep(5000)) {
		char text[128];
		long long ticks = (long long)((clock_now(&clock_real) - start) / (10 * NS_PER_MS));
		int n = snprintf(text, sizeof text, "cpu  %010lld 0 0 %010lld 0 0 0 0 0 0\ncpu0 1 1 1 1\n",
				 1000 + ticks, 100000 + 3 * ticks);
		CHECK(pwrite(fd, text, (size_t)n, 0) == n);
		stopped = both_are(true);
	}
	close(fd);
	CHECK(stopped);
	sysroot_load(&b, 4, 100000, 900000);
	CHECK(until(false));
}

/* So little memory is left that resting does not help: the job ends, and no other starts. */
TEST(no_memory)
{
	REQUIRE(up());
	REQUIRE(until(false));
	pid_t job = job_of(honed);
	sysroot_memory(&b, 4000, 20);
	for (int i = 0; i < PATIENCE_MS && state_of(job) != '?'; i++)
		usleep(1000);
	CHECK(state_of(job) == '?' && !job_of(honed));
	CHECK(served());
	sysroot_memory(&b, 4000, 3000);
}

TEST(ends)
{
	REQUIRE(up());
	CHECK(end_honed(SIGTERM) == 0);
	CHECK(!log_says("error: honed"));
}

TEST_MAIN
