/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: hone bench --submit on a board that a folder stands for, so that neither the load of the
 * machine nor its clock decide what is written. */
#include "tests/lib/cli.h"
#include "tools/hone/submission.h"
#include <limits.h>

static void board_file(const char *name, const char *text)
{
	char path[512], folder[512];
	snprintf(path, sizeof path, "%s/%s", in_dir("board"), name);
	snprintf(folder, sizeof folder, "%s", path);
	*strrchr(folder, '/') = 0;
	CHECK_OK(file_mkdirs(folder, 0755));
	CHECK_OK(file_write_soon(path, text, strlen(text)));
}

#define THROTTLED "sys/devices/platform/soc/soc:firmware/get_throttled"
#define STAT "proc/stat"

static void stand_for_board(void)
{
	static bool made;
	setenv("HONE_SYSROOT", in_dir("board"), 1);
	if (made)
		return;
	made = true;
	board_file("proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.4");
	board_file("proc/device-tree/serial-number", "10000000deadbeef");
	board_file(STAT, "cpu  100 0 0 1000000000 0 0 0 0 0 0\n");
	board_file("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "performance\n");
	board_file("sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq", "1800000\n");
	board_file("sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq", "1800000\n");
	board_file("sys/class/thermal/thermal_zone0/temp", "51234\n");
	board_file("sys/class/thermal/thermal_zone0/type", "cpu-thermal\n");
	board_file(THROTTLED, "0\n");
}

/* A cache with the small model's kernels. */
static const char *tuned(void)
{
	static char cache[256];
	if (!cache[0]) {
		snprintf(cache, sizeof cache, "%s", in_dir("tuned"));
		CHECK_RUN(0, KERNELS_ONCE, steering(), "", cache);
	}
	return cache;
}

#define SUBMIT "bench %s --runs 20 --threads 1 --cache %s --submit %s"

static const char *read_file(const char *path)
{
	static char text[SUBMISSION_BYTES];
	slurp(path, text, sizeof text);
	return text;
}

TEST(a_tuned_model_is_submitted)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char path[256], host[256] = "";
	struct submission s;
	stand_for_board();
	snprintf(path, sizeof path, "%s", in_dir("sent.json"));
	CHECK_RUN(0, SUBMIT, steering(), tuned(), path);
	CHECK_SAYS(cli_out, "steering on Raspberry Pi 4 Model B Rev 1.4, 1 thread, 20 rounds");
	CHECK_SAYS(cli_out, path);
	const char *text = read_file(path);
	REQUIRE_OK(submission_read(text, strlen(text), &s));
	CHECK(!strcmp(s.network.name, "steering") && strlen(s.network.sha256) == 64);
	CHECK(!strcmp(s.run.governor, "performance") && s.run.clock_mhz == 1800);
	CHECK(s.run.temp_before_mc == 51234 && s.run.throttled_before == 0 && s.run.others_pct <= 0);
	CHECK(s.run.threads == 1 && s.run.rounds == 20 && s.check.outputs == 1 && s.network.kernels > 3);
	gethostname(host, sizeof host - 1);
	const char *const private[] = {dir, "/", "deadbeef", getenv("HOME"), strlen(host) > 3 ? host : NULL};
	for (size_t i = 0; i < sizeof private / sizeof *private; i++)
		CHECK(!private[i] || !*private[i] || !strstr(text, private[i]));
	CHECK_RUN(0, SUBMIT " --json", steering(), tuned(), path); /* it replaces its own file */
	json_t *j = parse_out();
	check_keys(j, "submission threads rounds max_rel_err fallback_ms default_ms tuned_ms");
	json_decref(j);
}

/* Every refusal says why, with exit status `want`, and leaves no file. */
static void check_refused(int want, const char *why, const char *model, const char *cache, const char *more)
{
	char path[256];
	snprintf(path, sizeof path, "%s", in_dir("refused.json"));
	CHECK_RUN(want, SUBMIT "%s", model, cache, path, more);
	CHECK_SAYS(cli_err, why);
	CHECK(!cli_out[0] && !file_exists(path));
}

TEST(refusals_say_why_and_write_nothing)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char two[600], other[256];
	stand_for_board();
	check_refused(1, "kernels are not in the cache", steering(), in_dir("cache"), "");
	check_refused(1, "there is no cache folder", steering(), in_dir("none"), "");
	check_refused(2, "--rate is not possible", steering(), tuned(), " --rate 10");
	check_refused(2, "--kernels is not possible", steering(), tuned(), " --kernels best");
	check_refused(2, "--device opencl:0 is not possible", steering(), tuned(), " --device opencl:0");
	snprintf(two, sizeof two, "%s %s", steering(), steering());
	check_refused(2, "--submit takes one model", two, tuned(), "");
	check_refused(1, "/nowhere", "/nowhere/model.onnx", tuned(), "");
	CHECK_RUN(1, SUBMIT, steering(), tuned(), "/nowhere/file.json");
	CHECK_SAYS(cli_err, "its folder does not exist");
	CHECK_RUN(2, SUBMIT, steering(), tuned(), steering());
	CHECK_SAYS(cli_err, "is the model itself");
	snprintf(other, sizeof other, "%s", in_dir("other.json"));
	REQUIRE_OK(file_write(other, "{\"mine\":1}", 10));
	CHECK_RUN(2, SUBMIT, steering(), tuned(), other);
	CHECK(!strcmp(read_file(other), "{\"mine\":1}"));
	CHECK_RUN(2, "bench %s --cache %s --submit", steering(), tuned());
	CHECK_RUN(2, "bench %s --runs 3 --threads 1 --cache %s --submit %s", steering(), tuned(),
		  in_dir("refused.json"));
	CHECK_SAYS(cli_err, "--runs 3 is not possible; a submission takes 20 to");
}

TEST(a_throttled_board_submits_nothing)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	stand_for_board();
	board_file(THROTTLED, "4\n"); /* slowed now */
	check_refused(1, "the board was throttled", steering(), tuned(), "");
	board_file(THROTTLED, "0\n");
}

/* Another process keeps a processor of the board busy meanwhile. */
TEST(a_disturbed_board_submits_nothing)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	char path[512];
	stand_for_board();
	snprintf(path, sizeof path, "%s/%s", in_dir("board"), STAT);
	tuned();
	pid_t pid = fork();
	if (pid == 0) {
		int fd = open(path, O_WRONLY);
		for (long long busy = 1000; getppid() != 1; busy += 5) {
			char text[96];
			int n =
			    snprintf(text, sizeof text, "cpu  %lld 0 0 1000000000 0 0 0 0 0 0\n", busy * 10);
			if (pwrite(fd, text, (size_t)n, 0) != n)
				_exit(1);
			usleep(2000);
		}
		_exit(0);
	}
	CHECK_RUN(1, "bench %s --runs 300 --threads 1 --cache %s --submit %s", steering(), tuned(),
		  in_dir("refused.json"));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	CHECK_SAYS(cli_err, "the machine was disturbed (others used");
	CHECK(!file_exists(in_dir("refused.json")));
	board_file(STAT, "cpu  100 0 0 1000000000 0 0 0 0 0 0\n");
}

/* A box that is interrupted has measured nothing. */
TEST(an_interrupted_run_submits_nothing)
{
	if (!worker())
		SKIP("no hone-worker (HONE_WORKER)");
	stand_for_board();
	tuned();
	stop_with = SIGINT;
	stop_after_us = 300000;
	CHECK_RUN(130, "bench %s --runs 50000 --threads 1 --cache %s --submit %s", steering(), tuned(),
		  in_dir("refused.json"));
	stop_with = 0;
	stop_after_us = 0;
	CHECK(!file_exists(in_dir("refused.json")));
}

TEST_MAIN
