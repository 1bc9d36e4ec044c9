/* SPDX-License-Identifier: Apache-2.0 */
/* Commands on a CUDA device: of all processes of a command one at a time has a context, which takes 100 to
 * 300 MB of a board's memory: the tests' driver counts them. Clocks and power modes are only read. Times of a
 * device that throttles beat no others. */
#include "agent/cache/cache.h"
#include "tests/lib/fake_cuda.h"
#include "tests/lib/fake_driver.h"
#include "tests/lib/fake_nvml.h"
#include "tests/lib/sysroot.h"

#include <sys/inotify.h>

static const char *contexts(void)
{
	return in_dir("contexts");
}

static void begin(void)
{
	setenv("OCL_ICD_VENDORS", "/nonexistent", 1); /* drivers of OpenCL take their time */
	setenv("FAKE_NVML", "", 1);
	fake_driver_open(fake_cuda());
	fake_driver_open(fake_nvml());
	fake_driver_patience("");
	cuda_lie("");
	fake_cuda_count(contexts());
}

/* A box that builds ahead, compares divisions of the graph, and measures the network of before once more at
 * its end. */
TEST(a_box_has_one_context)
{
	begin();
	const char *model = model_with_gap(3);
	for (int box = 0; box < 2; box++) {
		CHECK_RUN(0, "tune %s -v --json --device cuda:0 --builders 2 --budget 12s --cache %s", model,
			  in_dir("tuned"));
		CHECK_SAYS(cli_err, "division of the graph: ");
		CHECK(fake_cuda_contexts() == 1);
		fake_cuda_count(contexts());
	}
	CHECK_SAYS(cli_out, "\"interleaved\":true"); /* in the second box */
	if (test_bad)
		printf("%s%s", cli_out, cli_err);
}

/* Default kernels are made beside a network that is open. */
TEST(commands_have_one_context)
{
	static const char *const commands[] = {"bench --runs 1",
					       "bench --runs 1 --kernels default",
					       "bench --runs 1 --kernels fallback --kernels default",
					       "report",
					       "run --random",
					       "verify",
					       "verify --kernels default",
					       "explain",
					       "devices"};
	begin();
	const char *model = model_with_gap(3);
	char some[256];
	snprintf(some, sizeof some, "%s", in_dir("some"));
	CHECK_RUN(0, "tune %s --rigor estimate --device cuda:0 --budget 8s --cache %s", model, some);
	CHECK(fake_cuda_contexts() == 1);
	for (size_t i = 0; i < 2 * (sizeof commands / sizeof *commands) && !test_bad; i++) {
		const char *command = commands[i / 2];
		const char *folder = i % 2 ? no_records() : some;
		bool lists = !strcmp(command, "devices"), reports = !strcmp(command, "report");
		fake_cuda_count(contexts());
		int rc = lists ? hone("devices --cache %s", folder)
			       : hone("%s %s --device cuda:0 --cache %s %s%s", command, model, folder,
				      reports ? "-o " : "", reports ? in_dir("page.html") : "");
		CHECK(rc == 0 || i % 2); /* the other folder has no kernels */
		CHECK(fake_cuda_contexts() == !lists);
		if (test_bad)
			printf("%s, %s: %d contexts: %s%s\n", command, folder, fake_cuda_contexts(), cli_out,
			       cli_err);
	}
}

/* Programs that change modes: each writes its name into a file. */
static void put_programs(const char *called)
{
	static const char *const names[] = {"nvpmodel", "jetson_clocks", "nvidia-smi", "cpupower",
					    "nvidia-settings"};
	char path[4096];
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char text[512], file[300];
		snprintf(file, sizeof file, "%s/%s", in_dir("bin"), names[i]);
		snprintf(text, sizeof text, "#!/bin/sh\necho %s >>%s\n", names[i], called);
		REQUIRE_OK(file_write(file, text, strlen(text)));
		REQUIRE(chmod(file, 0755) == 0);
	}
	snprintf(path, sizeof path, "%s:%s", in_dir("bin"), getenv("PATH"));
	setenv("PATH", path, 1);
}

static const struct sysroot_file board[] = {
    {"/proc/device-tree/compatible", "nvidia,tegra234"},
    {"/var/lib/nvpmodel/status", "pmode:0002 fmode:fanNull\n"},
    {"/sys/class/devfreq/17000000.ga10b/cur_freq", "624750000\n"},
    {"/sys/class/devfreq/17000000.ga10b/max_freq", "1300500000\n"},
    {"/sys/class/devfreq/17000000.ga10b/min_freq", "306000000\n"},
    {"/sys/class/devfreq/17000000.ga10b/governor", "nvhost_podgov\n"},
    {"/sys/class/thermal/thermal_zone1/type", "GPU-therm\n"},
    {"/sys/class/thermal/thermal_zone1/temp", "48600\n"},
    {"/sys/class/thermal/cooling_device0/cur_state", "0\n"},
    {"/sys/class/thermal/cooling_device0/type", "gpu-throttle-alert\n"},
    {"/sys/class/hwmon/hwmon3/in2_label", "VDD_GPU_SOC\n"},
    {"/sys/class/hwmon/hwmon3/in2_input", "19000\n"},
    {"/sys/class/hwmon/hwmon3/curr2_input", "250\n"},
    {"/sys/class/hwmon/hwmon3/curr2_max", "5000\n"},
    {"/sys/class/hwmon/hwmon3/oc1_event_cnt", "0\n"},
    {"/sys/devices/gpu.0/load", "375\n"},
    {"/sys/devices/gpu.0/power/control", "auto\n"},
    {"/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "1900000\n"},
    {"/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "2000000\n"},
    {"/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "schedutil\n"},
    {NULL, NULL},
};

/* Watches the board's folders for files that were open for writing, written or made. */
static int watch_board(const struct sysroot *b)
{
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	CHECK(fd >= 0);
	for (const struct sysroot_file *f = board; f->path; f++) {
		char folder[512];
		snprintf(folder, sizeof folder, "%s", sysroot_path(b, f->path));
		*strrchr(folder, '/') = 0;
		CHECK(inotify_add_watch(fd, folder,
					IN_CLOSE_WRITE | IN_MODIFY | IN_ATTRIB | IN_CREATE | IN_DELETE |
					    IN_MOVE) >= 0);
	}
	return fd;
}

/* The programs hold no name of a function of NVML's that changes something. */
static void check_names(void)
{
	static const char *const programs[] = {"hone", "hone-worker", "honed", "libhone-device.so"};
	static const char *const names[] = {"nvmlDeviceSet", "nvmlDeviceReset", "nvmlUnitSet",
					    "cuDevicePrimaryCtxSetFlags", "cuCtxSetLimit"};
	struct arena a = {0};
	for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
		char path[600];
		struct blob b;
		snprintf(path, sizeof path, "%s", getenv("HONE_WORKER"));
		snprintf(strrchr(path, '/') + 1, 64, "%s", programs[i]);
		REQUIRE_OK(file_read(&a, path, 1 << 30, &b));
		for (size_t k = 0; k < sizeof names / sizeof *names; k++)
			if (memmem(b.p, b.n, names[k], strlen(names[k]))) {
				printf("%s has %s\n", path, names[k]);
				test_bad = true;
			}
		arena_reset(&a);
	}
	arena_free(&a);
}

TEST(clocks_and_power_modes_are_only_read)
{
	static const char *const commands[] = {"tune --rigor estimate --budget 6s", "bench --runs 1",
					       "run --random", "verify"};
	struct sysroot b;
	char called[256], events[4096];
	begin();
	const char *model = model_with_gap(2);
	snprintf(called, sizeof called, "%s", in_dir("called"));
	REQUIRE(mkdir(in_dir("bin"), 0755) == 0);
	put_programs(called);
	setenv("FAKE_NVML_SET", called, 1);
	sysroot_begin(&b);
	sysroot_fill(&b, board);
	int fd = watch_board(&b);
	setenv("HONE_SYSROOT", b.root, 1);
	for (int shares = 0; shares < 2; shares++) {
		cuda_lie(shares ? "integrated" : "");
		CHECK_RUN(0, "devices --cache %s", in_dir("watched"));
		CHECK_SAYS(cli_out, shares ? "624 of 1300 MHz" : "1230 of 1980 MHz");
		for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
			CHECK_RUN(0, "%s %s --device cuda:0 --cache %s%d", commands[i], model,
				  in_dir("watched"), shares);
		(void)hone("doctor --cache %s", in_dir("watched"));
	}
	CHECK(!file_exists(called));
	ssize_t n = read(fd, events, sizeof events);
	if (n > 0)
		printf("%s was changed\n", ((struct inotify_event *)events)->name);
	CHECK(n < 0);
	check_names();
	close(fd);
	unsetenv("HONE_SYSROOT");
	unsetenv("FAKE_NVML_SET");
	sysroot_end(&b);
}

/* Counts the records, those whose times are marked, and those of best kernels that are no default ones. */
static void count_marked(const char *folder, int of[3])
{
	const char *standard[64] = {NULL}, *best[64] = {NULL};
	size_t n = 0, nbest = 0;
	CHECK_RUN(0, "show --json --cache %s", folder);
	json_t *j = parse_out(), *r;
	size_t i;
	json_array_foreach(json_object_get(j, "record_list"), i, r)
	{
		of[0]++;
		const char *stale = json_string_value(json_object_get(r, "stale"));
		of[1] += stale && !strcmp(stale, "throttled");
		const char *cand = json_string_value(json_object_get(r, "cand"));
		if (!strcmp(json_string_value(json_object_get(r, "record_kind")), "default"))
			standard[n++ % 64] = cand;
		else
			best[nbest++ % 64] = cand;
	}
	for (size_t k = 0; k < nbest && k < 64; k++) {
		of[2]++;
		for (size_t at = 0; at < n && at < 64; at++)
			if (!strcmp(best[k], standard[at])) {
				of[2]--;
				break;
			}
	}
	json_decref(j);
}

/* A GPU whose clock is held down in every other look: all times are marked, in the records, too, and no
 * kernel replaces the first one. A box on a GPU that does not throttle takes the times again. */
TEST(throttled_times_beat_no_others)
{
	int of[3] = {0}, later[3] = {0};
	begin();
	setenv("FAKE_NVML", "flips 100000000", 1);
	CHECK_RUN(0, "tune %s -v --device cuda:0 --budget 5s --cache %s", model_with_gap(2), in_dir("hot"));
	CHECK_SAYS(cli_err, "kernels keep times that are not comparable: the GPU ");
	count_marked(in_dir("hot"), of);
	CHECK(of[0] > 0 && of[1] == of[0] && of[2] == 0);
	setenv("FAKE_NVML", "", 1);
	CHECK_RUN(0, "tune %s -v --device cuda:0 --budget 5s --cache %s", model_with_gap(2), in_dir("hot"));
	CHECK_SAYS(cli_err, "stale: timed while the device began or ceased to throttle");
	count_marked(in_dir("hot"), later);
	CHECK(later[0] > 0 && later[1] == 0);
	if (test_bad)
		printf("%d of %d, %d of %d: %s%s", of[1], of[0], later[1], later[0], cli_out, cli_err);
}

TEST_MAIN
