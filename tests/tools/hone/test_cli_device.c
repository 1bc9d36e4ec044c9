/* SPDX-License-Identifier: Apache-2.0 */
/* Commands on an OpenCL device whose driver lies, hangs, crashes or vanishes: the answer is right or there is
 * none, in time, and the words say why. Past 800 lines because all cases use the one fake driver and the one
 * model that it has tuned. */
#include "agent/cache/trials.h"
#include "tests/lib/fake_driver.h"
#include "tests/lib/fake_opencl.h"
#include "tests/lib/kept_kernels.h"

#include <dirent.h>
#include <fcntl.h>

static void lie_now(const char *lie)
{
	fake_driver_patience(lie);
	fake_lie(lie);
}

static void open_fake(void)
{
	fake_driver_open(fake_opencl());
	lie_now("");
}

static const char *model(void)
{
	return model_with_gap(3);
}

/* Puts at most so many kernels of the model for the device, as it is now, into a cache. */
static void keep_some(const char *path, int most)
{
	struct plan_device *d;
	struct target target;
	CHECK_OK(plan_device_open("opencl:0", &d));
	plan_device_target(d, &target);
	plan_device_close(d);
	struct keep k = {
	    .path = path, .model = model(), .target = &target, .most = most, .word = "get_global_id"};
	CHECK(keep_kernels(&k) == most);
}

/* A cache with kernels of the model for the device; made once. */
static const char *tuned(void)
{
	static char path[256];
	if (path[0])
		return path;
	snprintf(path, sizeof path, "%s", in_dir("tuned"));
	keep_some(path, 3);
	return path;
}

/* Checks how many records the cache has whose task, device or machine contains the word. */
static void count_records(const char *folder, const char *word, size_t want)
{
	CHECK_RUN(0, "show %s --json --cache %s", word, folder);
	json_t *j = parse_out();
	size_t n = json_array_size(json_object_get(j, "record_list"));
	CHECK(n == want);
	if (n != want)
		printf("%zu records of %s\n", n, word);
	json_decref(j);
}

/* As of workers (test_cli_faults.c): words of a driver are shown if it fails. */
TEST(words_of_drivers_are_kept_aside)
{
	open_fake();
	setenv("FAKE_OPENCL_TALKS", "1", 1);
	CHECK_RUN(0, "run %s -q --random --device opencl:0 --cache %s", model(), tuned());
	CHECK(!strstr(cli_err, "generated"));
	CHECK_RUN(0, "run %s -v --random --device opencl:0 --cache %s", model(), tuned());
	CHECK_SAYS(cli_err, "8 warnings generated.\n");
	CHECK_SAYS(cli_err, "built with -w "); /* PoCL obeys it */
	fake_lie("build-abort");
	CHECK_RUN(0, "run %s -q --random --device opencl:0 --cache %s", model(), tuned());
	CHECK_SAYS(cli_err, "8 warnings generated.\nfake: out of registers\n");
	CHECK_SAYS(cli_err, "its driver crashed with signal 6");
	unsetenv("FAKE_OPENCL_TALKS");
	fake_lie("");
}

TEST(a_run_falls_back_to_the_processor)
{
	static const struct {
		const char *lie, *why;
	} cases[] = {
	    {"devices-none", "there is no OpenCL device 0"},
	    {"platforms-none", "there is no OpenCL device 0"},
	    {"numbers-short", "opencl:0: "},
	    {"crash", "its driver crashed with signal 11"},
	    {"hang", "its driver did not answer in 0.5 s"},
	    {"fail clCreateContext", "clCreateContext: CL_OUT_OF_RESOURCES (-5)"},
	    {"null clCreateCommandQueue", "clCreateCommandQueue: it gave NULL"},
	    {"memory-none", "clCreateBuffer: CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)"},
	    {"null clCreateBuffer", "clCreateBuffer: it gave NULL"},
	    {"build-crash", "its driver crashed with signal 11"},
	    {"build-hang", "its driver did not answer in 0.5 s"},
	    {"crash clCreateKernel", "its driver crashed with signal 11"},
	    {"hang clCreateKernel", "its driver did not answer in 0.5 s"},
	    {"fail clSetKernelArg", "clSetKernelArg of argument 0"},
	    {"fail clEnqueueNDRangeKernel", "clEnqueueNDRangeKernel: CL_OUT_OF_RESOURCES"},
	    {"fail clEnqueueMapBuffer", NULL}, /* tensors are copied instead */
	    {"fail clEnqueueUnmapMemObject", "clEnqueueUnmapMemObject"},
	    {"fail clGetEventInfo", "clGetEventInfo"},
	    {"stuck", "did not end a kernel in time"},
	    {"stuck 3", "did not end a kernel in time"},
	    {"lost", "a kernel: CL_OUT_OF_RESOURCES"},
	    {"lost 2", "a kernel: CL_OUT_OF_RESOURCES"},
	    {"crash 3", "its driver crashed with signal 11"},
	    {"hang 2", "its driver did not answer in 0.5 s"},
	    {"fail clBuildProgram", "its driver built no kernel: clBuildProgram: CL_BUILD_PROGRAM_FAILURE"},
	    {"fail clCreateProgramWithSource",
	     "its driver built no kernel: clCreateProgramWithSource: CL_OUT"},
	    {"null clCreateProgramWithSource",
	     "its driver built no kernel: clCreateProgramWithSource: it gave"},
	    {"fail clCreateKernel", "its driver built no kernel: clCreateKernel: CL_OUT_OF_RESOURCES (-5)"},
	    {"null clCreateKernel", "its driver built no kernel: clCreateKernel: it gave NULL"},
	    {"build-fails 2", NULL}, /* kernels of the processor take the place of those */
	    {"fail clReleaseContext", NULL},
	    {"hang clReleaseKernel", NULL}, /* the answer is there */
	    {"hang clReleaseProgram", NULL},
	    {"crash clReleaseProgram", NULL},
	};
	struct arena a = {0};
	open_fake();
	CHECK_RUN(0, "run %s --random --cache %s --output %s", model(), tuned(), in_dir("right"));
	const struct tensor *want = answer_y(&a, in_dir("right"));
	REQUIRE(want);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		bool right = cases[i].why; /* what the device calculates is wrong */
		double start_s = test_now_s(), diff = 1, most = 0;
		unlink(in_dir("there/y.npy"));
		lie_now(cases[i].lie);
		CHECK_RUN(0, "run %s --random --device opencl:0 --cache %s --output %s", model(), tuned(),
			  in_dir("there"));
		CHECK(test_now_s() - start_s < 20);
		const char *line = strstr(cli_err, "; the network runs on the processor instead\n");
		CHECK(!line == !cases[i].why);
		if (cases[i].why) {
			CHECK_SAYS(cli_err, cases[i].why);
			CHECK_SAYS(cli_err, "opencl:0: ");
		}
		const struct tensor *got = answer_y(&a, in_dir("there"));
		CHECK(got && tensor_compare(got, want, &diff, &most) >= 0);
		CHECK(!right || diff <= 1e-5 * most);
		if (test_bad) {
			printf("%s: %s\n", cases[i].lie, cli_err);
			break;
		}
	}
	arena_free(&a);
}

/* Checks what the JSON of a run says of the device; why NULL: it ran the network. */
static void check_device(const char *why)
{
	json_t *j = parse_out(), *f = json_object_get(j, "fallback");
	const char *on = json_string_value(json_object_get(json_object_get(j, "device_use"), "name"));
	CHECK(on && !strcmp(on, why ? "cpu" : "opencl:0"));
	CHECK(why ? json_is_object(f) : json_is_null(f));
	if (json_is_object(f)) {
		CHECK(!strcmp(json_string_value(json_object_get(f, "device")), "opencl:0"));
		CHECK_SAYS(json_string_value(json_object_get(f, "why")), why);
	}
	json_decref(j);
}

/* A fallback is no progress: -q does not hide it, JSON tells it, and no Next: line names the lost device. */
TEST(a_fallback_is_told)
{
	static const char *const lies[][2] = {
	    {"devices-none", "there is no OpenCL device 0"},
	    {"crash", "its driver crashed with signal 11"},
	    {"lost", "a kernel: CL_OUT_OF_RESOURCES"},
	    {"fail clBuildProgram", "its driver built no kernel"},
	};
	open_fake();
	for (size_t i = 0; i < sizeof lies / sizeof *lies && !test_bad; i++) {
		lie_now(lies[i][0]);
		CHECK_RUN(0, "run %s --random -q --json --device opencl:0 --cache %s", model(), tuned());
		CHECK_SAYS(cli_err, lies[i][1]);
		CHECK_SAYS(cli_err, "; the network runs on the processor instead\n");
		CHECK(strchr(cli_err, '\n') == cli_err + strlen(cli_err) - 1);
		check_device(lies[i][1]);
		CHECK_RUN(0, "run %s --random --device opencl:0 --cache %s", model(), tuned());
		const char *next = strstr(cli_err, "Next: hone bench ");
		CHECK(next && !strstr(next, "opencl"));
	}
	lie_now("");
	CHECK_RUN(0, "run %s --random -q --json --device opencl:0 --cache %s", model(), tuned());
	CHECK(!cli_err[0]);
	check_device(NULL);
}

/* The device answers, and its kernels do nothing: so the processor did not run them. */
TEST(a_run_uses_the_device)
{
	open_fake();
	CHECK_RUN(0, "run %s --random --json --device opencl:0 --cache %s", model(), tuned());
	CHECK(!strstr(cli_err, "instead"));
	CHECK_RUN(0, "run %s --random --json --device opencl:0 --require-cache --cache %s", model(), tuned());
	CHECK_RUN(1, "run %s --random --json --require-cache --cache %s", model(), tuned());
}

/* Whatever the driver does when it is left, the outputs are there or the status says that they are not. */
TEST(a_run_ends_with_its_outputs)
{
	static const char *const lies[] = {"", "crash clReleaseKernel", "hang clReleaseProgram",
					   "crash clReleaseContext"};
	open_fake();
	for (size_t i = 0; i < sizeof lies / sizeof *lies && !test_bad; i++) {
		char words[600];
		lie_now(lies[i]);
		CHECK_RUN(0, "run %s --random --json --device opencl:0 --cache %s", model(), tuned());
		json_t *j = parse_out();
		CHECK(json_array_size(json_object_get(j, "outputs")) == 1);
		json_decref(j);
		CHECK(!strstr(cli_err, "instead"));
		CHECK_RUN(0, "run %s --random --device opencl:0 --cache %s", model(), tuned());
		CHECK_SAYS(cli_out, "ran once");
		snprintf(words, sizeof words, "run %s --random --json --device opencl:0 --cache %s", model(),
			 tuned());
		CHECK(hone_to("/dev/full", words) == 1);
		CHECK_SAYS(cli_err, "No space left on device");
		if (test_bad)
			printf("%s: %s%s\n", lies[i], cli_out, cli_err);
	}
}

/* An error of the command's own is no reason to leave the device. */
TEST(errors_are_told_once)
{
	open_fake();
	CHECK_RUN(1, "run %s --device opencl:0 --cache %s", in_dir("missing.onnx"), tuned());
	CHECK(!strstr(cli_err, "instead"));
	CHECK_SAYS(cli_err, "missing.onnx");
	CHECK_RUN(2, "run %s --device opencl:x --cache %s", model(), tuned());
	CHECK_RUN(2, "run %s --device opencl:0 --cache %s", model(), tuned()); /* no inputs */
	CHECK(!strstr(cli_err, "instead"));
}

/* Ctrl-C and SIGTERM end a command that waits for its driver; they are no fault of the device. */
TEST(signals_end_commands)
{
	static const char *const commands[] = {"run --random", "onnx-test"};
	open_fake();
	lie_now("hang");
	guard_patience(20 * NS_PER_S);
	stop_after_us = 300 * 1000;
	for (int k = 0; k < 4 && !test_bad; k++) {
		double start_s = test_now_s();
		stop_with = k & 1 ? SIGTERM : SIGINT;
		CHECK_RUN(128 + stop_with, "%s %s --device opencl:0 --cache %s", commands[k / 2],
			  k / 2 ? in_dir("") : model(), in_dir("cache"));
		CHECK(test_now_s() - start_s < 5);
		CHECK(!strstr(cli_err, "opencl:0") && !strstr(cli_out, "ran once"));
		if (test_bad)
			printf("%s, signal %d: %s%s\n", commands[k / 2], stop_with, cli_out, cli_err);
	}
	stop_with = 0;
	stop_after_us = 0;
}

/* The status says so, too, if the command ends by itself after the signal. */
TEST(signals_end_commands_on_the_device)
{
	static const char *const commands[] = {"bench --runs 1000000", "tune --budget 20s"};
	open_fake();
	for (int k = 0; k < 4 && !test_bad; k++) {
		stop_with = k & 1 ? SIGTERM : SIGINT;
		for (stop_after_us = 20000; stop_after_us < 700000 && !test_bad; stop_after_us *= 3) {
			double start_s = test_now_s();
			int status = hone("%s %s --device opencl:0 --cache %s", commands[k / 2], model(),
					  in_dir("cache"));
			/* A search that finds nothing to try may end before the signal. */
			bool early =
			    k >= 2 && status == 0 && test_now_s() - start_s < 0.05 + stop_after_us / 1e6;
			CHECK(early || status == 128 + stop_with);
			CHECK(!strstr(cli_out, "node\n/")); /* a header without rows */
			if (test_bad)
				printf("%s, signal %d after %d us: %d: %s%s\n", commands[k / 2], stop_with,
				       (int)stop_after_us, status, cli_out, cli_err);
		}
	}
	stop_with = 0;
	stop_after_us = 0;
}

/* The number that a list has of a kind of kernels that the processor runs; *why: the reason. */
static int on_processor(const json_t *device, const char *kind, const char **why)
{
	size_t i;
	const json_t *row;
	json_array_foreach(json_object_get(device, "on_processor"), i, row)
	{
		*why = json_string_value(json_object_get(row, "why"));
		if (!strcmp(json_string_value(json_object_get(row, "step_kind")), kind))
			return (int)json_integer_value(json_object_get(row, "count"));
	}
	return 0;
}

/* What the processor runs beside the device is counted, by kind and reason. */
TEST(kernels_on_the_processor_are_told)
{
	static const char sum[] = "1 of 4 kernels run on the processor: 1 CumSum (no kernels exist for the "
				  "operator)";
	const char *why = "";
	open_fake();
	CHECK_RUN(0, "bench %s --device opencl:0 --cache %s --runs 1", model(), tuned());
	CHECK_SAYS(cli_out, sum);
	/* one is no plural */
	keep_some(in_dir("one-kernel"), 1);
	CHECK_RUN(0, "bench %s --device opencl:0 --cache %s --runs 1", model(), in_dir("one-kernel"));
	CHECK_SAYS(cli_out, "opencl:0: 1 of 4 kernels run there, in 1 launch; ");
	CHECK(!strstr(cli_out, " 1 maps ") && !strstr(cli_out, " 1 copies "));
	CHECK_RUN(0, "run %s --random --device opencl:0 --cache %s", model(), tuned());
	CHECK_SAYS(cli_out, sum);
	CHECK_RUN(0, "run %s --random --json --device opencl:0 --cache %s", model(), tuned());
	json_t *j = parse_out(), *d = json_object_get(j, "device_use");
	CHECK(json_array_size(json_object_get(d, "on_processor")) == 1);
	CHECK(on_processor(d, "CumSum", &why) == 1 && strstr(why, "no kernels exist"));
	json_decref(j);
	CHECK_RUN(0, "bench %s --json --device opencl:0 --cache %s --runs 1", model(), no_records());
	j = parse_out();
	d = json_object_get(j, "device_use");
	CHECK(on_processor(d, "conv", &why) + on_processor(d, "matmul", &why) == 3);
	CHECK_SAYS(why, "no kernel of it is known");
	CHECK(on_processor(d, "CumSum", &why) == 1);
	json_decref(j);
	lie_now("build-fails 2");
	CHECK_RUN(0, "bench %s --device opencl:0 --cache %s --runs 1", model(), tuned());
	CHECK_SAYS(cli_out, "(the device's driver does not build its kernel)");
}

/* GFLOP/s of the machine by which a bench divides the first kernel's speed. */
static double peak_of_first(void)
{
	json_t *j = parse_out(), *k = json_array_get(json_object_get(j, "kernels"), 0);
	double pct = json_number_value(json_object_get(k, "peak_pct"));
	double peak = pct > 0 ? 100 * json_number_value(json_object_get(k, "gflops")) / pct : 0;
	json_decref(j);
	return peak;
}

/* Shares are of the machine that ran the kernel, which --threads concerns beside a device, too. */
TEST(shares_are_of_the_machine_that_ran)
{
	struct target there = {0};
	open_fake();
	CHECK_OK(device_target("opencl:0", NULL, "", &there));
	there.fma_gflops = there.copy_gbs = 1e6; /* no processor is so fast */
	for (int i = 0; i < 4; i++)
		there.bw_gbs[i] = 1e6;
	char path[300];
	snprintf(path, sizeof path, "%s/target-opencl:0", no_records());
	target_write_peaks(no_records(), path, &there);
	CHECK_RUN(0, "bench %s --json --threads 1 --cache %s --runs 1", model(), no_records());
	double cpu = peak_of_first();
	for (int threads = 1; threads <= 2; threads++) {
		CHECK_RUN(0, "bench %s --json --threads %d --device opencl:0 --cache %s --runs 1", model(),
			  threads, no_records());
		double peak = peak_of_first();
		CHECK(cpu > 0 && peak > cpu * threads / 3 && peak < cpu * threads * 3);
		json_t *j = parse_out();
		CHECK(json_integer_value(json_object_get(json_object_get(j, "device_use"), "host_threads")) ==
		      threads);
		json_decref(j);
	}
	CHECK_RUN(0, "bench %s --threads 2 --device opencl:0 --cache %s --runs 1", model(), tuned());
	CHECK_SAYS(cli_out, "(best kernels, fp32, opencl:0 and 2 threads)");
	CHECK_RUN(0, "help bench");
	CHECK_SAYS(cli_out, "beside it");
}

/* Keeps the peaks of the device, so that no command measures them. */
static void measure_peaks(const char *folder)
{
	struct target t;
	CHECK_OK(device_target("opencl:0", NULL, folder, &t));
	CHECK_OK(device_measure("opencl:0", NULL, folder, &t));
}

/* A driver that compiles for long does not hold the end of a box that a signal stops. */
TEST(signals_end_builds)
{
	open_fake();
	measure_peaks(in_dir("long-builds"));
	lie_now("build-hang");
	stop_after_us = 1000 * 1000;
	for (int k = 0; k < 2 && !test_bad; k++) {
		double start_s = test_now_s();
		stop_with = k & 1 ? SIGTERM : SIGINT;
		CHECK_RUN(128 + stop_with, "tune %s --budget 20s --device opencl:0 --builders %d --cache %s",
			  model(), k, in_dir("long-builds"));
		CHECK(test_now_s() - start_s < 6); /* the limit of a build is 12 s */
		CHECK(!strstr(cli_err, "error"));
		if (test_bad)
			printf("signal %d, %.1f s: %s%s\n", stop_with, test_now_s() - start_s, cli_out,
			       cli_err);
	}
	stop_with = 0;
	stop_after_us = 0;
}

TEST(other_commands_do_not_fall_back)
{
	static const char *const commands[] = {"verify", "bench --runs 3"};
	static const char *const lies[] = {"devices-none",
					   "crash",
					   "fail clCreateContext",
					   "memory-none",
					   "stuck 2",
					   "lost 2",
					   "crash 2",
					   "build-hang",
					   "hang clCreateKernel",
					   "fail clBuildProgram",
					   "null clCreateKernel"};
	open_fake();
	measure_peaks(tuned());
	CHECK_RUN(0, "bench %s --device opencl:0 --cache %s --runs 3", model(), tuned());
	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
		for (int k = 0; k < 2; k++) {
			lie_now(lies[i]);
			CHECK_RUN(1, "%s %s --device opencl:0 --cache %s", commands[k], model(), tuned());
			CHECK_SAYS(cli_err, "opencl:0");
			CHECK(strstr(cli_err, "without --device, the processor does it") ||
			      strstr(cli_err, "`hone devices` lists the devices"));
			if (test_bad) {
				printf("%s, %s: %s\n", commands[k], lies[i], cli_err);
				return;
			}
		}
}

/* A cache without the device's kernels is no fault of the device. */
TEST(networks_without_kernels_for_the_device)
{
	open_fake();
	CHECK_RUN(0, "run %s --random --device opencl:0 --cache %s", model(), no_records());
	CHECK_SAYS(cli_err, "opencl:0: the cache has no kernel of this model for it");
	CHECK_SAYS(cli_err, "Next: hone tune ");
	CHECK_SAYS(strstr(cli_err, "Next: "), "--device opencl:0");
	CHECK_RUN(0, "run %s --random -q --json --device opencl:0 --cache %s", model(), no_records());
	CHECK_SAYS(cli_err, "opencl:0: the cache has no kernel of this model for it");
	check_device("the cache has no kernel of this model for it");
	CHECK_RUN(1, "verify %s --device opencl:0 --cache %s", model(), no_records());
	CHECK_SAYS(cli_err, "hone tune --device opencl:0 makes them");
}

/* A job that ends itself at the end of its box has told all. */
TEST(a_box_that_ends_late_is_no_fault_of_the_driver)
{
	open_fake();
	for (int ms = 100; ms <= 500; ms += 100) {
		int status =
		    hone("tune %s --device opencl:0 --budget %dms --cache %s", model(), ms, in_dir("late"));
		CHECK(!strstr(cli_err, "its driver ended"));
		bool none = strstr(cli_out, "ended before any kernel was tried") != NULL;
		CHECK(status == none || strstr(cli_err, "the box of"));
		if (test_bad)
			printf("%d ms: %d %s\n", ms, status, cli_err);
	}
}

TEST(no_device_of_that_name)
{
	static const char *const commands[] = {"tune", "bench", "run", "verify", "explain"};
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		CHECK_RUN(2, "%s %s --device gpu --cache %s", commands[i], model(), no_records());
		CHECK_SAYS(cli_err, "--device gpu is not supported");
	}
}

/* One line says what is wrong and what to do. */
TEST(an_absent_device_is_one_error)
{
	static const char *const commands[] = {"tune", "bench", "verify", "explain"};
	static const char *const lies[] = {"", "platforms-none", "crash", "fail clCreateContext",
					   "numbers-short"};
	open_fake();
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		for (size_t k = 0; k < sizeof lies / sizeof *lies && !test_bad; k++) {
			lie_now(lies[k]);
			CHECK_RUN(1, "%s %s --device opencl:%d --cache %s", commands[i], model(), !k,
				  no_records());
			const char *error = strstr(cli_err, "hone: error: opencl:");
			CHECK(error && !strstr(error + 12, "error:"));
			CHECK(error && (strstr(error, "`hone devices` lists the devices") ||
					strstr(error, "; without --device, the processor does it")));
			CHECK(!strstr(cli_err, "hone-worker"));
			CHECK(error && strchr(error, '\n') == cli_err + strlen(cli_err) - 1);
			if (test_bad)
				printf("%s, %s: %s\n", commands[i], lies[k], cli_err);
		}
}

TEST(tune_needs_the_device)
{
	static const char *const lies[] = {"devices-none",         "crash",       "hang",
					   "fail clCreateContext", "memory-none", "numbers-short"};
	open_fake();
	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
		double start_s = test_now_s();
		lie_now(lies[i]);
		CHECK_RUN(1, "tune %s --device opencl:0 --budget 3s --cache %s", model(), in_dir("none"));
		CHECK_SAYS(cli_err, "opencl:0");
		CHECK(test_now_s() - start_s < 10);
		if (test_bad) {
			printf("%s: %s\n", lies[i], cli_err);
			return;
		}
	}
}

/* Number of events of a category ("": of all) on the row of a name in a trace; -1: there is no such row. */
static int count_events(const json_t *trace, const char *row, const char *cat)
{
	size_t i;
	const json_t *e;
	int tid = -1, n = 0;
	json_array_foreach(json_object_get(trace, "traceEvents"), i, e)
	{
		const char *name = json_string_value(json_object_get(json_object_get(e, "args"), "name")),
			   *its = json_string_value(json_object_get(e, "cat"));
		int at = (int)json_integer_value(json_object_get(e, "tid"));
		if (name && !strcmp(name, row))
			tid = at;
		n += at == tid && its && (!*cat || !strcmp(its, cat));
		if (its)
			CHECK(json_number_value(json_object_get(e, "dur")) >= 0 &&
			      json_number_value(json_object_get(e, "ts")) >= 0);
	}
	return tid < 0 ? -1 : n;
}

/* A trace has a row for the device, beside those of the threads. */
TEST(a_trace_shows_the_device)
{
	char file[256];
	snprintf(file, sizeof file, "%s", in_dir("trace.json"));
	open_fake();
	CHECK_RUN(0, "bench %s --json --runs 1 --threads 2 --device opencl:0 --cache %s --trace %s", model(),
		  tuned(), file);
	json_t *j = parse_out(), *d = json_object_get(j, "device_use"), *t = json_load_file(file, 0, NULL);
	int steps = (int)json_integer_value(json_object_get(d, "steps"));
	int copies = (int)json_integer_value(json_object_get(d, "copies"));
	int maps = (int)json_integer_value(json_object_get(d, "maps"));
	int moves = copies + 2 * maps; /* a map begins and ends */
	CHECK(steps == 3 && moves == 4);
	CHECK(count_events(t, "opencl:0", maps ? "map" : "copy") == 5 * moves);
	CHECK(count_events(t, "opencl:0", "tuned") + count_events(t, "opencl:0", "default") == 5 * steps);
	CHECK(count_events(t, "opencl:0", "") == 5 * (steps + moves));
	CHECK(count_events(t, "thread 1", "portable") == 5 && count_events(t, "thread 1", "copy") == 0);
	CHECK(count_events(t, "thread 2", "") >= 0);
	json_decref(t);
	json_decref(j);
	CHECK_RUN(0, "bench %s --json --runs 1 --threads 2 --cache %s --trace %s", model(), no_records(), file);
	t = json_load_file(file, 0, NULL);
	CHECK(count_events(t, "opencl:0", "") == -1 && count_events(t, "thread 2", "") >= 0);
	json_decref(t);
}

static int count_files(const char *folder)
{
	DIR *d = opendir(folder);
	int n = 0;
	for (struct dirent *e; d && (e = readdir(d));)
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	return d ? n : -1;
}

/* What only measures or runs leaves the cache folder as it is. */
TEST(bench_and_run_write_nothing)
{
	static const char *const commands[] = {"bench --runs 1", "run --random"};
	static const char *const devices[] = {"cpu", "opencl:0"};
	char folder[256];
	open_fake();
	snprintf(folder, sizeof folder, "%s", in_dir("read-only"));
	CHECK(mkdir(folder, 0555) == 0);
	for (int k = 0; k < 4; k++) {
		CHECK_RUN(0, "%s %s --device %s --cache %s", commands[k / 2], model(), devices[k & 1],
			  folder);
		CHECK(count_files(folder) == 0);
	}
}

/* All kernels that a list says the processor runs. */
static int all_on_processor(const json_t *device)
{
	size_t i;
	int n = 0;
	const json_t *row;
	json_array_foreach(json_object_get(device, "on_processor"), i, row) n +=
	    (int)json_integer_value(json_object_get(row, "count"));
	return n;
}

/* The driver's kernels are wrong, so that the processor runs all, also at level int8. */
TEST(tune_tells_what_the_processor_runs)
{
	static const char *const levels[] = {"", "--level int8 --data random"};
	const char *why = "";
	open_fake();
	for (int i = 0; i < 2; i++) {
		char folder[256];
		snprintf(folder, sizeof folder, "%s%d", in_dir("runs-all"), i);
		CHECK(mkdir(folder, 0755) == 0);
		measure_peaks(folder);
		CHECK_RUN(0, "tune %s --json --device opencl:0 --budget 3s %s --cache %s", model(), levels[i],
			  folder);
		json_t *j = parse_out(), *d = json_object_get(j, "device_use");
		CHECK(all_on_processor(d) == (int)json_array_size(json_object_get(j, "kernels")));
		CHECK(json_is_null(json_object_get(j, "processor"))); /* nothing else ran */
		if (!i)
			CHECK(on_processor(d, "conv", &why) + on_processor(d, "matmul", &why) == 3 &&
			      strstr(why, "no schedule of it works on the device"));
		json_decref(j);
		CHECK_RUN(0, "tune %s --device opencl:0 --budget 2s %s --cache %s", model(), levels[i],
			  folder);
		CHECK_SAYS(cli_out, " run on the processor: ");
		CHECK_SAYS(cli_out, "1 CumSum (no kernels exist for the operator)");
	}
}

/* A device that is slower than the processor is not praised. */
TEST(tune_compares_the_processor)
{
	static const char box[] = "tune %s --rigor estimate --device opencl:0 --budget 4s --cache %s %s";
	open_fake();
	measure_peaks(tuned());
	lie_now("slow");
	CHECK_RUN(0, box, model(), tuned(), "--json");
	json_t *j = parse_out(), *p = json_object_get(j, "processor");
	check_keys(p, "ms device_ms threads kernel_count tuned measured gain is_faster");
	double ms = json_number_value(json_object_get(p, "ms"));
	CHECK(ms > 0 && ms < json_number_value(json_object_get(p, "device_ms")));
	CHECK(json_is_true(json_object_get(p, "is_faster")) && json_is_true(json_object_get(p, "measured")));
	CHECK(json_number_value(json_object_get(json_object_get(p, "gain"), "high")) < 1);
	json_decref(j);
	CHECK_RUN(0, box, model(), tuned(), "");
	CHECK_SAYS(cli_out, "x slower than the processor alone, which takes ");
	CHECK_SAYS(cli_out, "the processor alone runs the whole network faster than with opencl:0");
	CHECK_SAYS(cli_err, "Next: hone tune ");
	CHECK_SAYS(cli_err, "--budget 20s --device cpu");
	lie_now("");
	CHECK_RUN(0, "tune %s --json --rigor estimate --budget 4s --cache %s", model(), in_dir("cpu-alone"));
	j = parse_out();
	CHECK(json_is_null(json_object_get(j, "processor")) &&
	      json_is_null(json_object_get(j, "device_use")));
	json_decref(j);
}

/* Before the first box for a device, the processor runs the network. */
TEST(tune_says_what_ran_before)
{
	static const char lead[] = "whole network: before (the processor with built-in kernels) ";
	open_fake();
	measure_peaks(in_dir("no-before"));
	CHECK_RUN(0, "tune %s --rigor estimate --device opencl:0 --budget 4s --cache %s", model(),
		  in_dir("no-before"));
	CHECK_SAYS(cli_out, lead);
	CHECK_RUN(0, "tune %s --rigor estimate --budget 4s --cache %s", model(), in_dir("cpu-before"));
	CHECK_SAYS(cli_out, "whole network: before ");
	CHECK(!strstr(cli_out, "before ("));
}

static double out_ms(const char *key)
{
	json_t *j = parse_out();
	double ms = json_number_value(json_object_get(j, key));
	json_decref(j);
	return ms;
}

/* The kinds of the kernels in a list, as "tuned portable ...". */
static const char *kinds(const char *key)
{
	static char text[200];
	size_t i, n = 0;
	json_t *j = parse_out();
	const json_t *k;
	text[0] = 0;
	json_array_foreach(json_object_get(j, "kernels"), i, k) n +=
	    (size_t)snprintf(text + n, sizeof text - n, "%s ", json_string_value(json_object_get(k, key)));
	json_decref(j);
	return text;
}

/* The time before is that of what hone run would use: with kernels of both kinds in the cache the device with
 * what it has kernels for, and the processor for the rest, with built-in ones; without a kernel for the
 * device, the processor alone with its own kernels. */
TEST(before_is_what_run_uses)
{
	static const char box[] = "tune %s --rigor estimate --device opencl:0 --budget 4s --cache %s %s";
	open_fake();
	for (int there = 0; there < 3; there++) {
		char folder[256];
		snprintf(folder, sizeof folder, "%s%d", in_dir("both"), there);
		CHECK_RUN(0, "tune %s --rigor estimate --budget 4s --cache %s", model(), folder);
		if (there)
			keep_some(folder, there);
		measure_peaks(folder);
		lie_now("slow");
		CHECK_RUN(0, "bench %s --json --runs 20 --cache %s %s", model(), folder,
			  there ? "--device opencl:0" : "");
		char ran[200];
		snprintf(ran, sizeof ran, "%s", kinds("kernel_kind"));
		double ms = out_ms("median_ms");
		CHECK_RUN(0, box, model(), folder, "--json");
		double before_ms = out_ms("before_ms");
		bool near = !there || (before_ms < 2 * ms && before_ms > ms / 2 && ms > 2 * there);
		if (strcmp(kinds("before"), ran) || !near) {
			printf("%d: %s in %g ms before, %s in %g ms\n", there, kinds("before"), before_ms,
			       ran, ms);
			test_bad = 1;
		}
		lie_now("");
	}
	CHECK_RUN(0, "tune %s --rigor estimate --budget 4s --cache %s", model(), in_dir("own-before"));
	measure_peaks(in_dir("own-before"));
	CHECK_RUN(0, box, model(), in_dir("own-before"), "");
	CHECK_SAYS(cli_out, "whole network: before (the processor with its own kernels) ");
}

/* Kernels in the cache that the driver builds no more are no reason not to look for others. */
TEST(tune_goes_on_without_old_kernels)
{
	open_fake();
	measure_peaks(tuned());
	lie_now("fail clBuildProgram");
	CHECK_RUN(0, "tune %s --device opencl:0 --budget 3s --cache %s", model(), tuned());
}

/* A model's records of the device go with those of the processor, also without the driver. */
TEST(forget_knows_devices)
{
	char path[256];
	open_fake();
	snprintf(path, sizeof path, "%s", in_dir("forgetful"));
	/* 1: the box only measured the device's peaks */
	CHECK(box_passed(hone("tune %s --device opencl:0 --budget 2s --cache %s", model(), path)));
	count_records(path, "opencl", 0);
	CHECK_RUN(0, "merge %s --cache %s", tuned(), path);
	count_records(path, "opencl", 3);
	lie_now("crash");
	CHECK_RUN(0, "forget --model %s --cache %s", model(), path);
	count_records(path, "opencl", 0);
	snprintf(path, sizeof path, "%s", in_dir("forgetful-of-many-registers"));
	lie_now("vendor");
	CHECK(box_passed(hone("tune %s --device opencl:0 --budget 2s --cache %s", model(), path)));
	keep_some(path, 3);
	count_records(path, "opencl", 3);
	CHECK_RUN(0, "forget --model %s --cache %s", model(), path);
	count_records(path, "opencl", 0);
}

/* The words are those of a device, and -d c prints the source of its kernel. */
TEST(explain_speaks_of_the_device)
{
	open_fake();
	CHECK_RUN(0, "explain %s 1 --device opencl:0 --cache %s", model(), tuned());
	CHECK(!strstr(cli_out, "core") && !strstr(cli_out, "limited by memory"));
	CHECK_SAYS(cli_out, " on all of the device (1 compute unit), limited by ");
	CHECK_SAYS(cli_out, " work items, each computing a register tile\n");
	CHECK_SAYS(cli_out, "no kernel in this cache has a median below 1.00 us on this device");
	CHECK_RUN(0, "explain %s --device opencl:0 --cache %s", model(), tuned());
	CHECK(!strstr(cli_out, "  memory  "));
	CHECK_RUN(0, "explain %s 1 -d c --device opencl:0 --cache %s", model(), tuned());
	CHECK_SAYS(cli_out, "bytes of scratch for each work item\n");
	CHECK_SAYS(cli_out, "entry k0: ");
	CHECK_SAYS(cli_out, " work items\n");
	CHECK_SAYS(cli_out, "//hone-opencl -cl-std=CL1.2");
	CHECK_SAYS(cli_out, "kernel void k0(");
	CHECK_RUN(0, "explain %s 1 --cache %s", model(), tuned());
	CHECK_SAYS(cli_out, " on one core, limited by ");
	CHECK(!strstr(cli_out, "work item") && !strstr(cli_out, "device"));
}

TEST(tasks_say_which_have_kernels_on_the_device)
{
	open_fake();
	CHECK_RUN(0, "tasks %s --device opencl:0 --json --cache %s", model(), tuned());
	json_t *j = parse_out(), *list = json_object_get(j, "tasks"), *t;
	size_t i;
	CHECK(!strcmp(json_string_value(json_object_get(j, "device")), "opencl:0"));
	json_array_foreach(list, i, t)
	    CHECK(!strcmp(json_string_value(json_object_get(t, "kernel")), "tuned"));
	CHECK(json_array_size(list) > 0);
	json_decref(j);
	CHECK_RUN(0, "tasks %s --device opencl:0 --cache %s", model(), tuned());
	CHECK_SAYS(cli_out, "  kernel  ");
	CHECK_SAYS(cli_out, "\nopencl:0: the cache has a kernel for 3 of 3 tasks\n");
	CHECK_SAYS(cli_err, "Next: hone bench ");
	CHECK_RUN(0, "tasks %s --device cpu --cache %s", model(), tuned());
	CHECK_SAYS(cli_out, "  none  ");
	CHECK_SAYS(cli_out, "\ncpu: the cache has a kernel for ");
	CHECK_SAYS(cli_err, "Next: hone tune ");
	CHECK_RUN(0, "tasks %s --cache %s", model(), tuned());
	CHECK(!strstr(cli_out, "kernel"));
	lie_now("crash");
	CHECK_RUN(1, "tasks %s --device opencl:0 --cache %s", model(), tuned());
	CHECK_SAYS(cli_err, "opencl:0: ");
}

TEST(reports_of_a_device)
{
	char page[256];
	static char text[1 << 18];
	open_fake();
	snprintf(page, sizeof page, "%s", in_dir("page.html"));
	CHECK_RUN(0, "report %s --device opencl:0 -o %s --json --cache %s", model(), page, tuned());
	json_t *j = parse_out();
	CHECK(!strcmp(json_string_value(json_object_get(j, "device")), "opencl:0"));
	json_decref(j);
	slurp(page, text, sizeof text);
	CHECK_SAYS(text, "(median times). opencl:0, Fake_G1, 1 compute unit, ");
	CHECK(!strstr(text, "thread") && !strstr(text, "a core"));
	CHECK_RUN(0, "report %s -o %s --threads 1 --cache %s", model(), page, tuned());
	slurp(page, text, sizeof text);
	CHECK_SAYS(text, "(median times). 1 thread, ");
	CHECK_SAYS(text, " GFLOP/s a core.");
	lie_now("crash");
	CHECK_RUN(1, "report %s --device opencl:0 -o %s --cache %s", model(), page, tuned());
	CHECK_SAYS(cli_err, "opencl:0: ");
}

TEST(bundles_run_on_processors)
{
	CHECK_RUN(2, "compile %s --device opencl:0 --c -o %s", model(), in_dir("bundle"));
	CHECK_SAYS(cli_err,
		   "--device opencl:0 is not possible: bundles and compiled models run on processors");
	char bundle[256];
	snprintf(bundle, sizeof bundle, "%s", in_dir("compiled"));
	CHECK_RUN(0, "compile %s --device cpu -o %s --cache %s", model(), bundle, no_records());
	open_fake();
	CHECK_RUN(0, "run %s --random --device opencl:0 --json", bundle);
	CHECK_SAYS(cli_err, "a compiled model has kernels of the processor alone, so the processor runs it");
	json_t *j = parse_out();
	const json_t *why = json_object_get(json_object_get(j, "fallback"), "why");
	CHECK_SAYS(json_string_value(why), "opencl:0: a compiled model");
	json_decref(j);
	CHECK_RUN(2, "bench %s --runs 2 --device opencl:0", bundle);
	CHECK_SAYS(cli_err, "so --device opencl:0 is not possible: name the ONNX model");
}

/* What is listed, in usage lines and by the completion, is what the commands take. */
TEST(names_of_devices)
{
	open_fake();
	CHECK_RUN(0, "devices --json --cache %s", no_records());
	json_t *j = parse_out(), *list = json_object_get(j, "devices");
	CHECK(json_array_size(list) == 1);
	CHECK(!strcmp(json_string_value(json_object_get(json_array_get(list, 0), "name")), "cpu"));
	json_decref(j);
	CHECK_RUN(2, "explain %s --device sim --cache %s", model(), no_records());
	CHECK_SAYS(cli_err, "use cpu, cpu:CLUSTER, opencl:N or cuda:N as `hone devices` lists it");
	for (int i = 0; cmd_table[i]; i++)
		for (const struct opt *o = cmd_table[i]->opts; o && o->name; o++)
			if (!strcmp(o->name, "device") && !(o->values && !strcmp(o->values, "cpu")))
				CHECK(
				    strstr(cmd_table[i]->usage, "[--device cpu[:CLUSTER]|opencl:N|cuda:N]"));
	CHECK_RUN(0, "devices --names");
	CHECK(!strncmp(cli_out, "cpu\nopencl:0\n", 13)); /* devices of CUDA may follow */
	lie_now("devices-none");
	CHECK_RUN(0, "devices --names");
	CHECK(!strstr(cli_out, "opencl"));
	lie_now("crash");
	CHECK_RUN(0, "devices --names");
	CHECK(!strstr(cli_out, "opencl"));
}

/* The peak that a folder keeps of the device, of arithmetic or of reads; set > 0: keeps this one instead, as if
 * long ago, and for reads an arithmetic peak so high that memory binds every kernel. */
static double kept_peak(const char *folder, double set, bool reads)
{
	char path[600];
	struct arena a = {0};
	struct blob b = {0};
	struct target t = {.fma_gflops = 0};
	const struct timespec old = {.tv_sec = time(NULL) - 1000}, times[2] = {old, old};
	snprintf(path, sizeof path, "%s/target-opencl:0", folder);
	CHECK_OK(file_read(&a, path, 65536, &b));
	char *line = arena_strndup(&a, b.p, b.n);
	line[strcspn(line, "\n")] = 0;
	CHECK_OK(target_parse(line, &t));
	if (set > 0) {
		t.fma_gflops = reads ? 1e6 : set;
		for (int i = 0; i < 4 && reads; i++)
			t.bw_gbs[i] = set;
		target_write_peaks(folder, path, &t);
		CHECK(utimensat(AT_FDCWD, path, times, 0) == 0);
	}
	arena_free(&a);
	return reads ? t.bw_gbs[0] : t.fma_gflops;
}

/* Peaks that were too low, because something disturbed the device, rise in a box that has the time. */
TEST(peaks_are_measured_again)
{
	static const struct {
		const char *budget, *lie;
		bool rises;
	} boxes[] = {{"20s", "", false}, {"60s", "fail clBuildProgram", false}, {"60s", "", true}};
	open_fake();
	CHECK_RUN(0, "tune %s --device opencl:0 --rigor estimate --cache %s", model(), tuned());
	CHECK_RUN(0, "bench %s --device opencl:0 --runs 1 --cache %s", model(), tuned());
	/* Kernels that are faster than the peaks allow: tuning and bench mark those, and the next one
	 * measures. */
	for (int i = 0; i < 4; i++) {
		bool reads = i >= 2;
		CHECK(kept_peak(tuned(), 1e-6, reads) == 1e-6);
		CHECK_RUN(0, "devices --cache %s", tuned());
		CHECK_SAYS(cli_out, reads ? "reads ?, ?, ?, ? GB/s" : "? GFLOP/s");
		CHECK_SAYS(cli_out, "?: not measured");
		CHECK(!strstr(cli_out, "reads 0"));
		for (int k = 0; k < 2; k++) {
			CHECK(device_is_doubted("opencl:0", tuned()) == (k == 1));
			if ((i + k) % 2)
				CHECK_RUN(0, "bench %s --device opencl:0 --runs 3 --cache %s", model(),
					  tuned());
			else
				CHECK_RUN(0, "tune %s --device opencl:0 --rigor estimate --cache %s", model(),
					  tuned());
			CHECK((kept_peak(tuned(), 0, reads) > 1e-6) == (k == 1));
		}
		CHECK(!device_is_doubted("opencl:0", tuned()));
	}
	for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++) {
		lie_now(boxes[i].lie);
		CHECK(kept_peak(tuned(), 1e-6, false) == 1e-6);
		CHECK_RUN(0, "tune %s --device opencl:0 --rigor estimate --budget %s --cache %s", model(),
			  boxes[i].budget, tuned());
		CHECK((kept_peak(tuned(), 0, false) > 1e-6) == boxes[i].rises);
	}
}

/* What the logs of all tasks in a cache count. */
static int add_counts(void *ctx, const struct trials *l)
{
	int *count = ctx;
	for (int i = 0; i < MEAS_STATUSES; i++)
		count[i] += l->count[i];
	return E_OK;
}

static void count_trials(const char *folder, int count[MEAS_STATUSES])
{
	struct cache *c;
	memset(count, 0, sizeof *count * MEAS_STATUSES);
	CHECK_OK(cache_open(&c, folder, true, 0));
	CHECK_OK(trials_each(c, add_counts, count));
	cache_close(c);
}

/* Candidates that end or hold a worker, or lose the device, are data: another worker goes on. */
TEST(tune_goes_on_after_lost_workers)
{
	static const struct {
		const char *lie;
		int box_s;
		enum meas_status status;
		int least;
	} cases[] = {{"", 4, MEAS_WRONG, 5},
		     {"crash 3", 4, MEAS_CRASH, 2},
		     {"lost 3", 4, MEAS_CRASH, 2},
		     {"stuck 3", 14, MEAS_TIMEOUT, 1},
		     {"hang 3", 18, MEAS_TIMEOUT, 1}};
	open_fake();
	for (size_t i = 0; i < sizeof cases / sizeof *cases && !test_bad; i++) {
		int count[MEAS_STATUSES];
		char folder[256];
		snprintf(folder, sizeof folder, "%s%d", in_dir("box"), (int)i);
		CHECK(mkdir(folder, 0755) == 0);
		lie_now("");
		measure_peaks(folder);
		lie_now(cases[i].lie);
		double start_s = test_now_s();
		CHECK_RUN(0, "tune %s --device opencl:0 --budget %ds --cache %s", model(), cases[i].box_s,
			  folder);
		CHECK(test_now_s() - start_s < cases[i].box_s + 3);
		count_trials(folder, count);
		int bad = count[MEAS_CRASH] + count[MEAS_TIMEOUT], right = count[cases[i].status];
		CHECK(right >= cases[i].least && count[MEAS_OK] == 0);
		CHECK(bad == (cases[i].status == MEAS_WRONG ? 0 : right)); /* and no other one suffers */
		CHECK(count[MEAS_WRONG] >= bad);
		if (test_bad)
			for (int k = 0; k < MEAS_STATUSES; k++)
				printf(" %s %d", meas_status_name(k), count[k]);
		if (test_bad)
			printf("\n%s in %.1f s: %s%s\n", cases[i].lie, test_now_s() - start_s, cli_out,
			       cli_err);
	}
}

TEST_MAIN
