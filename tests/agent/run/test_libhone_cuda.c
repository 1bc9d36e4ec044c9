/* SPDX-License-Identifier: Apache-2.0 */
/* Models of libhone on CUDA devices of the tests' driver, and on the processor where the device is absent, or
 * is lost during a run. */
#include "agent/run/libhone.h"
#include "tests/lib/fake_cuda.h"
#include "tests/lib/fake_driver.h"
#include "tests/lib/libhone.h"
#include "tests/lib/maps.h"

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
		printf("%s\n", lie);
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

TEST_MAIN
