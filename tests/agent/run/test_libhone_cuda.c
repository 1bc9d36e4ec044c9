/* SPDX-License-Identifier: Apache-2.0 */
/* Models of libhone on CUDA devices of the tests' driver, and on the processor where the device is absent, or
 * is lost during a run. CASES=n changes how many generated failures of the driver there are, CASES=all runs
 * each call's failure in turn. */
#include "agent/run/libhone.h"
#include "tests/lib/fake_cuda.h"
#include "tests/lib/fake_driver.h"
#include "tests/lib/libhone.h"
#include "tests/lib/maps.h"
#include "platform/base/rng.h"
#include "platform/run/cuda_api.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* The first two convolutions are started as one graph. */
static const char *model(void)
{
	return model_with_gap(3);
}

static void open_fake(void)
{
	fake_driver_open(fake_cuda());
	cuda_lie("");
}

/* A cache with kernels of the model for the devices 0 and 1; NULL: no worker. */
static const char *tuned_there(void)
{
	static char path[256];
	if (!worker())
		return NULL;
	open_fake();
	if (path[0])
		return path;
	snprintf(path, sizeof path, "%s", in_dir("there"));
	cuda_lie("devices 2");
	for (int i = 0; i < 2; i++)
		CHECK_RUN(0, "tune %s --device cuda:%d --rigor estimate --budget 10s --cache %s", model(), i,
			  path);
	cuda_lie("");
	return path;
}

static struct hone_handle *opened_for(const char *cache, const char *device)
{
	struct hone_options o;
	struct hone_handle *h = NULL;
	HONE_INIT(o);
	o.caches = &cache;
	o.ncaches = 1;
	o.threads = 1;
	o.device = device;
	CHECK_OK(hone_open(&o, &h));
	return h;
}

static float right_answer(int seed)
{
	struct hone_handle *h = opened(NULL, 1, 0);
	struct hone_model *m = loaded(h, model());
	float y = first_output(m, seed);
	hone_model_close(m);
	hone_close(h);
	return y;
}

static void check_is_on(const struct hone_model *m, const char *device, const char *why)
{
	struct hone_model_info s = info_of(m);
	bool there = strcmp(device, "cpu") != 0;
	CHECK(!strcmp(s.device, device) && (s.on_device == 3) == there);
	CHECK_SAYS(s.device_why, why);
	CHECK(*why || !s.device_why[0]);
}

/* First of the tests: nothing of CUDA is mapped by plans of the processor. */
TEST(the_processor_maps_no_driver)
{
	struct hone_handle *h = opened_for("/nonexistent", "cpu");
	CHECK(isfinite(right_answer(1)));
	hone_close(h);
	CHECK(!maps_driver(0));
}

/* In a process of its own, which has not used the driver before. */
static void in_a_process(void (*run)(const char *cache, const char *lie), const char *lie)
{
	const char *cache = tuned_there();
	int status = -1;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		cuda_lie(lie);
		run(cache, lie);
		fflush(NULL);
		_exit(test_bad);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	if (test_bad)
		printf("%s: status %x\n", lie, (unsigned)status);
}

static void run_there(const char *cache, const char *lie)
{
	static const char *const names[] = {"cuda:0", "cuda:1"};
	struct hone_handle *h[2];
	struct hone_model *m[2];
	bool two = strstr(lie, "devices 2");
	setenv("HONE_DEVICE", "cuda:0", 1);
	for (int i = 0; i < 1 + two; i++) {
		h[i] = opened_for(cache, i ? names[i] : NULL);
		m[i] = loaded(h[i], model());
		check_is_on(m[i], names[i], "");
	}
	for (int seed = 1; seed < 6; seed++) {
		float right = right_answer(seed);
		for (int i = 0; i < 1 + two; i++)
			CHECK(near(first_output(m[i], seed), right));
	}
	for (int i = 0; i < 1 + two; i++) {
		check_is_on(m[i], names[i], "");
		hone_model_close(m[i]);
		hone_close(h[i]);
	}
}

/* On one device, and on two in turns, with memory of their own and shared. */
TEST(models_run_on_the_device)
{
	if (!tuned_there())
		SKIP("no hone-worker (HONE_WORKER)");
	in_a_process(run_there, "");
	in_a_process(run_there, "integrated");
	in_a_process(run_there, "devices 2");
	in_a_process(run_there, "devices 2;integrated");
}

/* Graphs that cannot be made or started cost time, and nothing else. */
TEST(graphs_that_fail_leave_the_device)
{
	static const char *const lies[] = {"busy-threads",
					   "cuStreamBeginCapture_v2=800",
					   "null cuStreamEndCapture",
					   "cuStreamEndCapture=901",
					   "cuGraphInstantiateWithFlags=2",
					   "integrated;null cuGraphInstantiateWithFlags",
					   "integrated;cuGraphLaunch=2@3",
					   "cuGraphLaunch=801",
					   "cuGraphDestroy=1;cuGraphExecDestroy=400"};
	if (!tuned_there())
		SKIP("no hone-worker (HONE_WORKER)");
	for (size_t i = 0; i < sizeof lies / sizeof *lies && !test_bad; i++)
		in_a_process(run_there, lies[i]);
}

static const char *why;

static void run_and_lose(const char *cache, const char *lie)
{
	(void)lie;
	struct hone_handle *h = opened_for(cache, "cuda:0");
	struct hone_model *m = loaded(h, model());
	for (int seed = 1; seed < 5; seed++)
		CHECK(near(first_output(m, seed), right_answer(seed)));
	check_is_on(m, "cpu", why);
	hone_model_close(m);
	hone_close(h);
}

/* Whenever the device is lost, answers are right. */
TEST(a_lost_device_gives_right_answers)
{
	static const char *const lies[][2] = {
	    {"devices 0", "there is no CUDA device 0"},
	    {"cuInit=999", "CUDA_ERROR_UNKNOWN (999)"},
	    {"version 9000", "install a newer driver"},
	    {"cuMemAlloc_v2=2@2", "CUDA_ERROR_OUT_OF_MEMORY (2)"},
	    {"sticky 700@1", "CUDA_ERROR_ILLEGAL_ADDRESS (700)"},
	    {"sticky 719@4", "CUDA_ERROR_LAUNCH_FAILED (719)"},
	    {"integrated;sticky 46@5", "CUDA_ERROR_DEVICE_UNAVAILABLE (46)"},
	    {"cuGraphInstantiateWithFlags=719", "CUDA_ERROR_LAUNCH_FAILED (719)"},
	    {"cuGraphLaunch=700@2", "CUDA_ERROR_ILLEGAL_ADDRESS (700)"},
	    {"cuLaunchKernel=701@3", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)"}};
	if (!tuned_there())
		SKIP("no hone-worker (HONE_WORKER)");
	for (size_t i = 0; i < sizeof lies / sizeof *lies && !test_bad; i++) {
		why = lies[i][1];
		in_a_process(run_and_lose, lies[i][0]);
	}
}

/* ---- generated failures ---- */

#define NAME(name, args) #name,
static const char *const calls[] = {CUDA_CALLS(NAME) CUDA_GRAPH_CALLS(NAME)};
#undef NAME
enum { CALLS = sizeof calls / sizeof *calls, ANSWERS = 5 };

/* How often each call is made; shared with the processes that make them. */
static int *counts;
static float right[ANSWERS];

/* Returns the driver's own count of a call. */
static int called(const char *call)
{
	void *lib = dlopen(fake_cuda(), RTLD_NOW | RTLD_NOLOAD);
	int (*n)(const char *) = lib ? (int (*)(const char *))(uintptr_t)dlsym(lib, "fake_cuda_calls") : NULL;
	return n ? n(call) : -1;
}

/* The answers are right on whatever device gives them, and the model says why if that is not the one that was
 * asked for. */
static void run_anywhere(const char *cache, const char *lie)
{
	struct hone_handle *h = opened_for(cache, "cuda:0");
	struct hone_model *m = loaded(h, model());
	for (int seed = 0; seed < ANSWERS; seed++)
		CHECK(near(first_output(m, seed), right[seed]));
	struct hone_model_info s = info_of(m);
	bool there = !strcmp(s.device, "cuda:0");
	CHECK(there || !strcmp(s.device, "cpu"));
	CHECK(there || s.device_why[0]);
	if (getenv("TEST_TIMES"))
		printf("%s: %s, %d there; %s\n", lie, s.device, (int)s.on_device, s.device_why);
	hone_model_close(m);
	hone_close(h);
	for (int i = 0; i < CALLS; i++)
		counts[i] = called(calls[i]);
}

static bool open_generated(void)
{
	if (!tuned_there())
		return false;
	counts =
	    mmap(NULL, CALLS * sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(counts != MAP_FAILED);
	for (int seed = 0; seed < ANSWERS; seed++)
		right[seed] = right_answer(seed);
	return true;
}

static int cases_of(int usual, int all)
{
	const char *v = getenv("CASES");
	return !v ? usual : !strcmp(v, "all") ? all : atoi(v);
}

/* Each call of the driver fails in turn, the n-th time that it is made: alone, or from then on. So memory is
 * lacking at each allocation in turn, too. */
TEST(each_call_fails_in_turn)
{
	static const int codes[] = {2, 1, 46, 201, 218, 304, 700, 701, 719, 901, 999, 12345};
	int total = 0, lost = 0;
	struct rng r;
	if (!open_generated())
		SKIP("no hone-worker (HONE_WORKER)");
	if (getenv("LIE")) {
		const char *cache = tuned_there();
		cuda_lie(getenv("LIE"));
		run_anywhere(cache, getenv("LIE"));
		return;
	}
	for (int shares = 0; shares < 2; shares++) {
		int made[CALLS];
		const char *honest = shares ? "integrated" : "";
		in_a_process(run_anywhere, honest);
		memcpy(made, counts, sizeof made);
		total = 0;
		for (int i = 0; i < CALLS; i++)
			total += made[i];
		CHECK(total > 100);
		int n = cases_of(40, 2 * total), at = 0;
		rng_seed(&r, (uint64_t)shares + 1);
		for (int i = 0; i < CALLS; i++)
			for (int k = 1; k <= 2 * made[i] && !test_bad; k++, at++) {
				char lie[100];
				if ((int64_t)(at + 1) * n / (2 * total) == (int64_t)at * n / (2 * total))
					continue;
				snprintf(lie, sizeof lie, "%s%s=%d@%d%s", shares ? "integrated;" : "",
					 calls[i], codes[rng_below(&r, sizeof codes / sizeof *codes)],
					 (k + 1) / 2, k % 2 ? "!" : "");
				in_a_process(run_anywhere, lie);
				lost++;
			}
	}
	printf("%d failures of %d calls\n", lost, total);
	munmap(counts, CALLS * sizeof *counts);
}

/* A limit that the driver tells is another: none, less than none, or more than there can be. */
TEST(each_limit_lies_in_turn)
{
	static const int limits[] = {1, 5, 8, 12, 13, 16, 17, 18, 19, 20, 36, 37, 38, 75, 76, 83, 88, 97},
			 values[] = {0, -1, INT32_MIN, INT32_MAX, 1, 33, 4096, 1 << 20};
	enum { LIMITS = sizeof limits / sizeof *limits, VALUES = sizeof values / sizeof *values };
	int n = cases_of(24, LIMITS * VALUES);
	if (!open_generated())
		SKIP("no hone-worker (HONE_WORKER)");
	for (int i = 0; i < n && !test_bad; i++) {
		char lie[64];
		int at = i * 7 % (LIMITS * VALUES); /* 7 has no factor of both */
		snprintf(lie, sizeof lie, "attribute %d=%d", limits[at % LIMITS], values[at % VALUES]);
		in_a_process(run_anywhere, lie);
		snprintf(lie, sizeof lie, "cuDeviceGetAttribute=1@%d!", i % LIMITS + 1);
		in_a_process(run_anywhere, lie);
	}
	munmap(counts, CALLS * sizeof *counts);
}

/* ---- two devices, of which one vanishes ---- */

static int goes;

static void run_and_lose_one(const char *cache, const char *lie)
{
	static const char *const names[] = {"cuda:0", "cuda:1"};
	struct hone_handle *h[2];
	struct hone_model *m[2];
	(void)lie;
	for (int i = 0; i < 2; i++) {
		h[i] = opened_for(cache, names[i]);
		m[i] = loaded(h[i], model());
		check_is_on(m[i], names[i], "");
	}
	for (int seed = 0; seed < ANSWERS; seed++)
		for (int i = 0; i < 2; i++)
			CHECK(near(first_output(m[i], seed), right[seed]));
	check_is_on(m[!goes], names[!goes], "");
	check_is_on(m[goes], "cpu", why);
	for (int i = 0; i < 2; i++) {
		hone_model_close(m[i]);
		hone_close(h[i]);
	}
}

/* The other one goes on, whichever launch is the last of the one that is gone. */
TEST(one_of_two_devices_is_gone)
{
	static const int codes[] = {46, 719, 999};
	if (!open_generated())
		SKIP("no hone-worker (HONE_WORKER)");
	int n = cases_of(10, 48);
	for (int i = 0; i < n && !test_bad; i++) {
		char lie[100], code[12];
		goes = i % 2;
		snprintf(lie, sizeof lie, "devices 2;%sgone %d=%d@%d", i % 4 < 2 ? "" : "integrated;", goes,
			 codes[i % 3], 1 + i / 2);
		snprintf(code, sizeof code, "(%d)", codes[i % 3]);
		why = code;
		in_a_process(run_and_lose_one, lie);
	}
	munmap(counts, CALLS * sizeof *counts);
}

TEST_MAIN
