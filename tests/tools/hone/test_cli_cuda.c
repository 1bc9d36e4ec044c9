/* SPDX-License-Identifier: Apache-2.0 */
/* Commands on CUDA devices of the tests' driver, which interprets the kernels: networks are tuned and run
 * there, and their answers are right; and where the driver lies, hangs, crashes or vanishes, the answer is
 * right or there is none, in time, and the words say why. HANGS=n changes how many calls of the driver hang
 * in turn; HANGS=all: each. */
#include "agent/cache/trials.h"
#include "platform/run/cuda_api.h"
#include "tests/lib/fake_cuda.h"
#include "tests/lib/fake_driver.h"
#include "tests/lib/fake_nvml.h"
#include "tests/lib/sysroot.h"

static void lie_now(const char *lie)
{
	fake_driver_patience(lie);
	cuda_lie(lie);
}

static void open_fake(void)
{
	setenv("OCL_ICD_VENDORS", "/nonexistent", 1); /* drivers of OpenCL take their time */
	fake_driver_open(fake_cuda());
	fake_driver_open(fake_nvml());
	lie_now("");
}

static const char *model(void)
{
	return model_with_gap(3);
}

/* A cache with kernels of the model for the device; made once. */
static const char *tuned(void)
{
	static char path[256];
	if (path[0])
		return path;
	snprintf(path, sizeof path, "%s", in_dir("tuned"));
	lie_now("");
	CHECK_RUN(0, "tune %s --rigor estimate --device cuda:0 --budget 8s --cache %s", model(), path);
	return path;
}

/* The kernels of the last report that ran on the device. */
static int steps_there(void)
{
	json_t *j = parse_out();
	int n = (int)json_integer_value(json_object_get(json_object_get(j, "device_use"), "steps"));
	json_decref(j);
	return n;
}

TEST(a_network_is_tuned_and_runs)
{
	struct arena a = {0};
	double diff = 1, most = 0;
	open_fake();
	CHECK_RUN(0, "bench %s --json --device cuda:0 --cache %s --runs 1", model(), tuned());
	CHECK(steps_there() == 3);
	CHECK_RUN(0, "run %s --random --cache %s --output %s", model(), no_records(), in_dir("right"));
	const struct tensor *want = answer_y(&a, in_dir("right"));
	for (int shares = 0; shares < 2; shares++) {
		lie_now(shares ? "integrated" : "");
		CHECK_RUN(0, "run %s --random --json --device cuda:0 --cache %s --output %s", model(),
			  tuned(), in_dir("there"));
		CHECK(!cli_err[0]);
		const struct tensor *got = answer_y(&a, in_dir("there"));
		CHECK(want && got && tensor_compare(got, want, &diff, &most) >= 0 && diff <= 1e-5 * most);
		CHECK_RUN(0, "verify %s --device cuda:0 --cache %s", model(), tuned());
	}
	lie_now("");
	CHECK_RUN(0, "devices --cache %s", tuned());
	CHECK_SAYS(cli_out, "an empty kernel takes ");
	CHECK_SAYS(cli_out, ", in a graph of launches ");
	CHECK_RUN(0, "devices --json --cache %s", tuned());
	json_t *shown = parse_out();
	json_t *device = json_array_get(json_object_get(json_object_get(shown, "cuda"), "devices"), 0),
	       *peaks = json_object_get(device, "peaks");
	CHECK(json_number_value(json_object_get(peaks, "launch_us")) > 0 &&
	      json_number_value(json_object_get(peaks, "graph_launch_us")) > 0);
	json_decref(shown);
	CHECK_RUN(0, "show --json --cache %s", tuned());
	CHECK_SAYS(cli_out, "\"device\":\"cuda\"");
	CHECK_SAYS(cli_out, "ptx-llvm-");
	CHECK_RUN(0, "explain %s --device cuda:0 -d c --cache %s", model(), tuned());
	CHECK_SAYS(cli_out, "//hone-ptx k");
	CHECK_SAYS(cli_out, ".visible .entry");
	arena_free(&a);
}

/* Whatever the driver does, the answer is right. why: what the command says if the processor gave it; NULL:
 * the device did. */
TEST(a_run_falls_back_to_the_processor)
{
	static const struct {
		const char *lie, *why;
	} cases[] = {
	    {"devices 0", "there is no CUDA device 0"},
	    {"devices -3", "there is no CUDA device 0"},
	    {"cuDeviceGet=101", "there is no CUDA device 0"},
	    {"version 10010", "its driver supports CUDA 10.1, and 10.2 is needed; install a newer driver"},
	    {"cuInit=999", "the CUDA driver does not start: cuInit: CUDA_ERROR_UNKNOWN (999)"},
	    {"crash cuInit", "its driver crashed with signal 11"},
	    {"hang cuInit", "its driver did not answer in 0.5 s"},
	    {"numbers 0", "it tells no multiprocessors"},
	    {"numbers -1", "it tells no multiprocessors"},
	    {"memory 0", "it tells no memory"},
	    {"prohibited", "its administrator forbids it"},
	    {"capability 61", "its compute capability is below 7.2"},
	    {"memory 300", "the CUDA device allows 1 to 300"},
	    {"numbers 2147483647", NULL}, /* another device, for which there are no kernels */
	    {"cuDevicePrimaryCtxRetain=2", "cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY (2)"},
	    {"null cuStreamCreate", "cuStreamCreate: it gave NULL"},
	    {"cuCtxPushCurrent_v2=201@3", "CUDA_ERROR_INVALID_CONTEXT (201)"},
	    {"cuMemAlloc_v2=2", "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2)"},
	    {"cuMemAlloc_v2=2@2", "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2)"},
	    {"null cuMemAlloc_v2", "cuMemAlloc_v2: it gave NULL"},
	    {"jit", NULL},          /* nothing is linked: the cache has the cubins */
	    {"kept-refused", NULL}, /* it is linked again */
	    {"kept-refused;jit",
	     "its driver built no kernel: cuLinkAddData_v2: CUDA_ERROR_INVALID_PTX (218): ptxas"},
	    {"kept-refused;cuLinkCreate_v2=221", "CUDA_ERROR_JIT_COMPILER_NOT_FOUND (221)"},
	    {"kept-refused;jit@2", NULL}, /* kernels of the processor take the place of those */
	    {"cuModuleLoadData=719", "cuModuleLoadData: CUDA_ERROR_LAUNCH_FAILED (719)"},
	    {"crash cuModuleLoadData", "its driver crashed with signal 11"},
	    {"hang cuModuleLoadData", "its driver did not answer in 0.5 s"},
	    {"null cuModuleGetFunction", "its driver built no kernel: cuModuleGetFunction: it gave NULL"},
	    {"few-registers", "its driver built no kernel: entry k0 needs 40 registers"},
	    {"spills", NULL}, /* slow, but right */
	    {"cuLaunchKernel=701", "cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)"},
	    {"cuLaunchKernel=1@2", "cuLaunchKernel: CUDA_ERROR_INVALID_VALUE (1)"},
	    {"stuck", "did not end a kernel in time"},
	    {"stuck@3", "did not end a kernel in time"},
	    {"integrated;stuck@2", "did not end a kernel in time"},
	    {"sticky 700", "CUDA_ERROR_ILLEGAL_ADDRESS (700)"},
	    {"sticky 719@2", "CUDA_ERROR_LAUNCH_FAILED (719)"},
	    {"sticky 46@3", "CUDA_ERROR_DEVICE_UNAVAILABLE (46)"},
	    {"integrated;sticky 999@2", "CUDA_ERROR_UNKNOWN (999)"},
	    {"crash cuLaunchKernel@3", "its driver crashed with signal 11"},
	    {"hang cuLaunchKernel@2", "its driver did not answer in 0.5 s"},
	    {"cuGraphInstantiateWithFlags=719", "CUDA_ERROR_LAUNCH_FAILED (719)"},
	    {"cuGraphInstantiateWithFlags=2", NULL},
	    {"crash cuGraphInstantiateWithFlags", "its driver crashed with signal 11"},
	    {"hang cuStreamEndCapture", "its driver did not answer in 0.5 s"},
	    {"cuStreamQuery=702", "cuStreamQuery: CUDA_ERROR_LAUNCH_TIMEOUT (702)"},
	    {"cuMemcpyHtoDAsync_v2=719@3", "cuMemcpyHtoDAsync_v2: CUDA_ERROR_LAUNCH_FAILED (719)"},
	    {"cuMemcpyDtoHAsync_v2=1", "cuMemcpyDtoHAsync_v2: CUDA_ERROR_INVALID_VALUE (1)"},
	    {"integrated;cuMemHostAlloc=2", NULL}, /* maps are copies */
	    {"integrated;null cuMemHostGetDevicePointer_v2", NULL},
	    {"cuMemFree_v2=1", NULL},
	    {"hang cuModuleUnload", NULL}, /* the answer is there */
	    {"crash cuModuleUnload", NULL},
	    {"crash cuStreamDestroy_v2@2", NULL},
	};
	struct arena a = {0};
	open_fake();
	CHECK_RUN(0, "run %s --random --cache %s --output %s", model(), no_records(), in_dir("right"));
	const struct tensor *want = answer_y(&a, in_dir("right"));
	REQUIRE(want && tuned() && !test_bad);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		double start_s = test_now_s(), diff = 1, most = 0;
		unlink(in_dir("there/y.npy"));
		lie_now(cases[i].lie);
		CHECK_RUN(0, "run %s --random --json --device cuda:0 --cache %s --output %s", model(),
			  tuned(), in_dir("there"));
		CHECK(test_now_s() - start_s < 20);
		json_t *j = parse_out(), *f = json_object_get(j, "fallback");
		if (cases[i].why) {
			CHECK_SAYS(cli_err, "; the network runs on the processor instead\n");
			CHECK_SAYS(json_string_value(json_object_get(f, "why")), cases[i].why);
		} else {
			CHECK(!strstr(cli_err, "; the network runs on the processor instead\n"));
		}
		json_decref(j);
		const struct tensor *got = answer_y(&a, in_dir("there"));
		CHECK(got && tensor_compare(got, want, &diff, &most) >= 0 && diff <= 1e-5 * most);
		if (test_bad) {
			printf("%s: %s\n", cases[i].lie, cli_err);
			break;
		}
	}
	arena_free(&a);
}

/* Where launches cannot be recorded, or their graph does not start, they are started one by one on the same
 * device, and the report says why. */
TEST(launches_are_started_together)
{
	static const struct {
		const char *lie, *why;
	} cases[] = {
	    {"", ""},
	    {"integrated", ""},
	    {"busy-threads", ""},
	    {"cuStreamBeginCapture_v2=800", "cuStreamBeginCapture_v2: CUDA_ERROR_NOT_PERMITTED (800)"},
	    {"null cuStreamEndCapture", "cuStreamEndCapture: it gave NULL"},
	    {"cuStreamEndCapture=901", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)"},
	    {"cuGraphInstantiateWithFlags=2", "CUDA_ERROR_OUT_OF_MEMORY (2)"},
	    {"integrated;cuGraphLaunch=2", "cuGraphLaunch: CUDA_ERROR_OUT_OF_MEMORY (2)"},
	    {"cuGraphLaunch=1", "cuGraphLaunch: CUDA_ERROR_INVALID_VALUE (1)"},
	    {"cuGraphDestroy=1;cuGraphExecDestroy=1", ""},
	};
	open_fake();
	REQUIRE(tuned());
	for (size_t i = 0; i < sizeof cases / sizeof *cases && !test_bad; i++) {
		lie_now(cases[i].lie);
		CHECK_RUN(0, "bench %s --json --device cuda:0 --cache %s --runs 3", model(), tuned());
		json_t *j = parse_out(), *d = json_object_get(j, "device_use");
		CHECK(json_integer_value(json_object_get(d, "steps")) == 3);
		CHECK((json_integer_value(json_object_get(d, "graphs")) > 0) == !*cases[i].why);
		CHECK_SAYS(json_string_value(json_object_get(d, "graphs_why")), cases[i].why);
		CHECK(*cases[i].why || !*json_string_value(json_object_get(d, "graphs_why")));
		json_decref(j);
		if (test_bad)
			printf("%s: %s%s\n", cases[i].lie, cli_out, cli_err);
	}
	lie_now("cuGraphLaunch=2");
	CHECK_RUN(0, "bench %s --device cuda:0 --cache %s --runs 3", model(), tuned());
	CHECK_SAYS(cli_out, "are started one by one: cuGraphLaunch");
	lie_now("cuGraphLaunch=719"); /* the device is lost */
	CHECK_RUN(1, "bench %s --device cuda:0 --cache %s --runs 3", model(), tuned());
	CHECK_SAYS(cli_err, "CUDA_ERROR_LAUNCH_FAILED (719)");
	lie_now("");
	CHECK_RUN(0, "bench %s --device cuda:0 --cache %s --runs 3", model(), tuned());
	CHECK_SAYS(cli_out, "CUDA graph");
}

TEST(other_commands_do_not_fall_back)
{
	static const char *const commands[] = {"verify", "bench --runs 3"};
	static const char *const lies[] = {"devices 0", "crash cuInit", "cuMemAlloc_v2=2",
					   "stuck@2",   "sticky 700@2", "kept-refused;jit"};
	open_fake();
	REQUIRE(tuned());
	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
		for (int k = 0; k < 2; k++) {
			lie_now(lies[i]);
			CHECK_RUN(1, "%s %s --device cuda:0 --cache %s", commands[k], model(), tuned());
			CHECK_SAYS(cli_err, "cuda:0");
			CHECK(strstr(cli_err, "without --device, the processor does it") ||
			      strstr(cli_err, "`hone devices` lists the devices"));
			if (test_bad) {
				printf("%s, %s: %s\n", commands[k], lies[i], cli_err);
				return;
			}
		}
	lie_now("wrong");
	CHECK_RUN(1, "verify %s --device cuda:0 --cache %s", model(), tuned());
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

/* Candidates that end or hold a worker, lose the device, or are wrong or refused, are data: the box goes on,
 * and the logs say what became of them. */
TEST(tune_goes_on)
{
	static const struct {
		const char *lie;
		int box_s;
		enum meas_status status;
		int least;
	} cases[] = {{"wrong", 3, MEAS_WRONG, 3},
		     {"kept-refused;jit", 2, MEAS_INFEASIBLE, 3},
		     {"cuGraphLaunch=2", 3, MEAS_OK, 3},
		     {"busy-threads;cuGraphInstantiateWithFlags=2", 3, MEAS_OK, 3},
		     {"sticky 719@40", 3, MEAS_CRASH, 1}};
	open_fake();
	for (size_t i = 0; i < sizeof cases / sizeof *cases && !test_bad; i++) {
		int count[MEAS_STATUSES];
		struct target t;
		char folder[256];
		snprintf(folder, sizeof folder, "%s%d", in_dir("box"), (int)i);
		CHECK(mkdir(folder, 0755) == 0);
		lie_now("");
		CHECK_OK(device_target("cuda:0", NULL, folder, &t));
		CHECK_OK(device_measure("cuda:0", NULL, folder, &t));
		lie_now(cases[i].lie);
		double start_s = test_now_s();
		int status =
		    hone("tune %s --device cuda:0 --budget %ds --cache %s", model(), cases[i].box_s, folder);
		/* The right ones run as a network at last, in a process of the command. */
		CHECK(status == 0 || (strchr(cases[i].lie, '@') && strstr(cli_err, "cuda:0: ")));
		CHECK(test_now_s() - start_s < cases[i].box_s + 3);
		count_trials(folder, count);
		CHECK(count[cases[i].status] >= cases[i].least);
		for (int k = 0; k < MEAS_STATUSES && (test_bad || getenv("TEST_TIMES")); k++)
			printf(" %s %d", meas_status_name(k), count[k]);
		if (test_bad)
			printf("\n%s in %.1f s: %s%s\n", cases[i].lie, test_now_s() - start_s, cli_out,
			       cli_err);
	}
}

/* Counts the trials of TF32 by their statuses. */
static int add_tf32(void *ctx, const struct trials *l)
{
	int *count = ctx;
	for (int i = 0; i < l->n; i++)
		count[l->entry[i].t.status] += !strncmp(l->entry[i].t.cand, "tf32; ", 6);
	return E_OK;
}

/* Products of two inputs and of a constant. */
static const char *products(void)
{
	static float w[48 * 32];
	struct onnx_maker k;
	for (int i = 0; i < 48 * 32; i++)
		w[i] = (float)(i % 7 - 3) / 7;
	mk_start(&k, 12, 8);
	mk_input(&k, "a", 1, "64 64");
	mk_input(&k, "b", 1, "64 48");
	mk_init(&k, "W", 1, "48 32", w, sizeof w);
	mk_node(&k, "MatMul", "a b", "c");
	mk_node(&k, "MatMul", "c W", "y");
	mk_output(&k, "y");
	return write_model(&k, "products.onnx");
}

/* A level from half on tries kernels of TF32 on the device, which are right; a lower level tries none. */
TEST(level_half_has_tf32)
{
	static const char *const levels[] = {"half", "w16", "fp32"};
	open_fake();
	lie_now("");
	for (int i = 0; i < 3; i++) {
		int count[MEAS_STATUSES] = {0};
		struct cache *c;
		CHECK_RUN(0, "tune %s --level %s --device cuda:0 --budget 8s --cache %s", products(),
			  levels[i], in_dir(levels[i]));
		CHECK_RUN(0, "verify %s --level %s --device cuda:0 --cache %s", products(), levels[i],
			  in_dir(levels[i]));
		CHECK_OK(cache_open(&c, in_dir(levels[i]), true, 0));
		CHECK_OK(trials_each(c, add_tf32, count));
		cache_close(c);
		int all = 0;
		for (int k = 0; k < MEAS_STATUSES; k++)
			all += count[k];
		/* One that was aborted as slow was right: answers are checked first. */
		int right = count[MEAS_OK] + count[MEAS_ABORTED];
		if (i ? all : right < 4 || right < all)
			printf("%s: %d trials of TF32, %d right\n", levels[i], all, right);
		CHECK(i ? !all : right >= 4 && right == all);
	}
}

#define NAME(name, args) #name,
static const char *const calls[] = {CUDA_CALLS(NAME) CUDA_GRAPH_CALLS(NAME)};
#undef NAME
enum { CALLS = sizeof calls / sizeof *calls };

/* How many of `all` cases run. */
static int hangs(int usual, int all)
{
	const char *v = getenv("HANGS");
	int n = !v ? usual : !strcmp(v, "all") ? all : atoi(v);
	return n < all ? n : all;
}

/* Whichever call of the driver does not return, the first time or a later one, a run gives the right answer,
 * and says so if the processor gave it. */
TEST(each_call_hangs_in_a_run)
{
	struct arena a = {0};
	open_fake();
	CHECK_RUN(0, "run %s --random --cache %s --output %s", model(), no_records(), in_dir("right"));
	const struct tensor *want = answer_y(&a, in_dir("right"));
	REQUIRE(want && tuned() && !test_bad);
	int n = hangs(5, 3 * CALLS), fell = 0;
	for (int i = 0; i < n && !test_bad; i++) {
		int at = i * 7 % (3 * CALLS); /* 7 has no factor of it */
		double start_s = test_now_s(), diff = 1, most = 0;
		char lie[64];
		snprintf(lie, sizeof lie, "hang %s@%d", calls[at % CALLS], 1 + at / CALLS * 2);
		lie_now(lie);
		unlink(in_dir("there/y.npy"));
		CHECK_RUN(0, "run %s --random --json --device cuda:0 --cache %s --output %s", model(),
			  tuned(), in_dir("there"));
		CHECK(test_now_s() - start_s < 20);
		const struct tensor *got = answer_y(&a, in_dir("there"));
		CHECK(got && tensor_compare(got, want, &diff, &most) >= 0 && diff <= 1e-5 * most);
		bool processor = strstr(cli_err, "; the network runs on the processor instead\n");
		CHECK(processor == (strstr(cli_out, "did not answer") != NULL));
		fell += processor;
		if (test_bad)
			printf("%s: %s%s\n", lie, cli_out, cli_err);
	}
	printf("%d of %d runs fell back to the processor\n", fell, n);
	CHECK(test_bad || fell > n / 3);
	arena_free(&a);
}

/* In a worker, too: the box ends on time, with what could be measured, or says that nothing could. */
TEST(each_call_hangs_in_a_box)
{
	open_fake();
	int n = hangs(2, CALLS);
	for (int i = 0; i < n && !test_bad; i++) {
		char lie[64], folder[256];
		struct target t;
		int at = (i * 7 + 16) % CALLS; /* begins with the allocations */
		snprintf(folder, sizeof folder, "%s%d", in_dir("hang"), i);
		CHECK(mkdir(folder, 0755) == 0);
		lie_now("");
		CHECK_OK(device_target("cuda:0", NULL, folder, &t));
		CHECK_OK(device_measure("cuda:0", NULL, folder, &t));
		snprintf(lie, sizeof lie, "hang %s@%d", calls[at], 1 + i * 5 % 30);
		lie_now(lie);
		double start_s = test_now_s();
		int status = hone("tune %s --device cuda:0 --budget 3s --cache %s", model(), folder);
		double took_s = test_now_s() - start_s;
		CHECK(took_s < 3 + 3);
		CHECK(status == 0 || (status == 1 && cli_err[0]));
		if (test_bad || getenv("TEST_TIMES"))
			printf("%s: status %d in %.1f s: %s%s\n", lie, status, took_s, status ? cli_out : "",
			       status ? cli_err : "");
	}
}

TEST(tune_needs_the_device)
{
	static const char *const lies[] = {"devices 0", "crash cuInit",  "hang cuInit",
					   "numbers 0", "version 10010", "cuMemAlloc_v2=2"};
	open_fake();
	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
		double start_s = test_now_s();
		lie_now(lies[i]);
		CHECK_RUN(1, "tune %s --device cuda:0 --budget 3s --cache %s", model(), in_dir("none"));
		CHECK_SAYS(cli_err, "cuda:0");
		CHECK(test_now_s() - start_s < 10);
		if (test_bad) {
			printf("%s: %s\n", lies[i], cli_err);
			return;
		}
	}
}

/* Parts of a tensor that begin at any element: kernels of the device take addresses that are multiples of 16.
 */
TEST(parts_of_tensors)
{
	static float w[9];
	struct onnx_maker k;
	struct arena a = {0};
	double diff = 1, most = 0;
	char path[256];
	open_fake();
	for (int i = 0; i < 9; i++)
		w[i] = (float)(i % 5 - 2) / 4;
	mk_start(&k, 12, 8);
	mk_input(&k, "x", 1, "1 3 5 5");
	mk_init(&k, "W", 1, "3 3 1 1", w, sizeof w);
	mk_node(&k, "Conv", "x W", "a");
	mk_attr_int(&k, mk_node(&k, "Split", "a", "b c d"), "axis", 1);
	mk_node(&k, "Sigmoid", "b", "e");
	mk_node(&k, "Tanh", "c", "f");
	mk_node(&k, "Sigmoid", "d", "g");
	mk_attr_int(&k, mk_node(&k, "Concat", "f g e", "h"), "axis", 1);
	mk_node(&k, "Conv", "h W", "y");
	mk_output(&k, "y");
	snprintf(path, sizeof path, "%s", write_model(&k, "parts.onnx"));
	CHECK_RUN(0, "tune %s --rigor estimate --device cuda:0 --budget 8s --cache %s", path,
		  in_dir("parts"));
	CHECK_RUN(0, "bench %s --json --device cuda:0 --cache %s --runs 1", path, in_dir("parts"));
	CHECK(steps_there() >= 4);
	CHECK_RUN(0, "run %s --random --cache %s --output %s", path, no_records(), in_dir("right"));
	const struct tensor *want = answer_y(&a, in_dir("right"));
	for (int shares = 0; shares < 2; shares++) {
		lie_now(shares ? "integrated" : "");
		CHECK_RUN(0, "run %s --random -q --json --device cuda:0 --cache %s --output %s", path,
			  in_dir("parts"), in_dir("there"));
		CHECK(!cli_err[0]);
		const struct tensor *got = answer_y(&a, in_dir("there"));
		CHECK(want && got && tensor_compare(got, want, &diff, &most) >= 0 && diff <= 1e-5 * most);
	}
	arena_free(&a);
}

/* Two devices are two targets of one machine, each with its kernels. */
TEST(two_devices)
{
	open_fake();
	lie_now("devices 2");
	CHECK_RUN(0, "devices --names --cache %s", in_dir("none"));
	CHECK_SAYS(cli_out, "cuda:0\ncuda:1\n");
	CHECK_RUN(0, "tune %s --rigor estimate --device cuda:1 --budget 8s --cache %s", model(),
		  in_dir("second"));
	CHECK_RUN(0, "bench %s --json --device cuda:1 --cache %s --runs 1", model(), in_dir("second"));
	CHECK(steps_there() == 3);
	CHECK_RUN(0, "bench %s --json --device cuda:0 --cache %s --runs 1", model(), in_dir("second"));
	CHECK(steps_there() == 0); /* of another name, so another machine */
	CHECK_RUN(1, "bench %s --device cuda:2 --cache %s --runs 1", model(), in_dir("second"));
	CHECK_SAYS(cli_err, "there is no CUDA device 2; they are cuda:0 to cuda:1");
}

/* ---- hone devices and hone doctor ---- */

static json_t *listed(const char *lie)
{
	lie_now(lie);
	CHECK_RUN(0, "devices --json --cache %s", in_dir("cache"));
	json_t *all = parse_out(), *j = json_incref(json_object_get(all, "cuda"));
	json_decref(all);
	return j;
}

TEST(devices_of_a_driver_are_listed)
{
	static const struct {
		const char *lie;
		size_t devices;
		const char *note;
	} cases[] = {
	    {"devices 2", 2, ""},
	    {"devices 2147483647", 64, ""},
	    {"strings-endless", 1, ""},
	    {"strings-dirty", 1, ""},
	    {"numbers 2147483647", 1, ""},
	    {"numbers 0", 1, ""},
	    {"devices 0", 0, "no GPU that this user may open"},
	    {"cuInit=804", 0, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE (804)"},
	    {"forge", 1, "????"},
	    {"crash cuInit", 0,
	     "the CUDA driver "}, /* crashed with signal 11; a sanitizer ends the process */
	};
	open_fake();
	json_t *j = listed(""), *d = json_array_get(json_object_get(j, "devices"), 0);
	check_keys(d, "device name uuid device_kind usable why cuda_version capability units clock_mhz "
		      "group_items shared_bytes "
		      "l2_bytes global_bytes unified peaks vitals");
	CHECK(!strcmp(json_string_value(json_object_get(d, "name")), "Fake C1"));
	CHECK(!strcmp(json_string_value(json_object_get(d, "device")), "cuda:0"));
	CHECK(json_is_true(json_object_get(d, "usable")));
	json_decref(j);
	for (size_t i = 0; i < sizeof cases / sizeof *cases && !test_bad; i++) {
		j = listed(cases[i].lie);
		CHECK(json_array_size(json_object_get(j, "devices")) == cases[i].devices);
		CHECK_SAYS(json_string_value(json_object_get(j, "note")), cases[i].note);
		json_decref(j);
		if (test_bad)
			printf("%s\n", cases[i].lie);
	}
	lie_now("");
	CHECK_RUN(0, "devices --cache %s", in_dir("cache"));
	CHECK_SAYS(cli_out, "cuda:0: Fake C1, gpu, compute capability 8.7, 1 unit at 1300 MHz");
}

/* What NVIDIA's management library and a Jetson's files tell is shown, and what they do not tell keeps no
 * device from the list. */
TEST(states_of_devices_are_listed)
{
	static const struct {
		const char *lie, *nvml, *says;
	} cases[] = {{"", "", "1230 of 1980 MHz, memory 2619 MHz, 45 C, 120.5 W, 3 % busy"},
		     {"", "slowed 64", "held down by heat"},
		     {"", "garbage", "held down by its power limit and heat"},
		     {"", "hang nvmlInit_v2", NULL},
		     {"", "hang nvmlDeviceGetPowerUsage", NULL},
		     {"", "nvmlInit_v2=9", NULL},
		     {"integrated", "", "306 MHz, 44 C"}};
	struct sysroot b;
	open_fake();
	sysroot_begin(&b);
	sysroot_set(&b, "/proc/device-tree/compatible", "nvidia,tegra194");
	sysroot_set(&b, "/sys/class/devfreq/17000000.gv11b/cur_freq", "306000000\n");
	sysroot_set(&b, "/sys/class/thermal/thermal_zone4/type", "GPU-therm\n");
	sysroot_set(&b, "/sys/class/thermal/thermal_zone4/temp", "44000\n");
	setenv("HONE_SYSROOT", b.root, 1);
	for (size_t i = 0; i < sizeof cases / sizeof *cases && !test_bad; i++) {
		lie_now(cases[i].lie);
		setenv("FAKE_NVML", cases[i].nvml, 1);
		double start_s = test_now_s();
		CHECK_RUN(0, "devices --json --cache %s", in_dir("cache"));
		CHECK(test_now_s() - start_s < 6);
		json_t *j = parse_out(),
		       *d = json_array_get(json_object_get(json_object_get(j, "cuda"), "devices"), 0),
		       *s = json_object_get(d, "vitals");
		CHECK(d && json_is_null(s) == !cases[i].says);
		if (cases[i].says)
			CHECK_SAYS(json_string_value(json_object_get(s, "words")), cases[i].says);
		json_decref(j);
		if (test_bad)
			printf("%s, %s: %s\n", cases[i].lie, cases[i].nvml, cli_out);
	}
	setenv("FAKE_NVML", "", 1);
	lie_now("");
	CHECK_RUN(0, "devices --cache %s", in_dir("cache"));
	CHECK_SAYS(cli_out, "now: 1230 of 1980 MHz, memory 2619 MHz");
	unsetenv("HONE_SYSROOT");
	sysroot_end(&b);
}

static const char *doctor_says(const char *lie, const char *more)
{
	static char text[8192];
	size_t i, n = 0;
	json_t *f;
	lie_now(lie);
	int status = hone("doctor --json --cache %s %s", in_dir("cache"), more);
	CHECK(status == 0 || status == 1);
	json_t *j = parse_out();
	*text = 0;
	json_array_foreach(json_object_get(j, "findings"), i, f)
	{
		const char *s[4];
		CHECK(json_unpack(f, "{ss ss ss ss}", "check", &s[0], "severity", &s[1], "what", &s[2],
				  "remedy", &s[3]) == 0);
		if (!test_bad && !strcmp(s[0], "cuda") && n < sizeof text)
			n += (size_t)snprintf(text + n, sizeof text - n, "%s %s\n%s\n", s[1], s[2], s[3]);
	}
	json_decref(j);
	return text;
}

TEST(the_doctor_asks_the_driver)
{
	static const struct {
		const char *lie, *says;
	} cases[] = {
	    {"", "ok cuda:0 answers: Fake C1, driver of CUDA 11.4"},
	    {"devices 0", "no CUDA device answers: "},
	    {"cuInit=999", "the CUDA driver does not start: cuInit: CUDA_ERROR_UNKNOWN (999)"},
	    {"crash cuInit", "the CUDA driver crashed with signal 11"},
	    {"version 10010",
	     "warning cuda:0 (Fake C1) cannot be used: CUDA device Fake C1 cannot run kernels: its "
	     "driver supports CUDA 10.1, and 10.2 is needed; install a newer driver"},
	};
	open_fake();
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		CHECK_SAYS(doctor_says(cases[i].lie, ""), cases[i].says);
}

/* Of another root, nodes are looked at, and no driver is asked. */
TEST(the_doctor_knows_who_may_open_devices)
{
	char more[300], node[256];
	open_fake();
	if (geteuid() != 0)
		SKIP("only root can be somebody else");
	snprintf(more, sizeof more, "--sysroot %s", in_dir("board"));
	snprintf(node, sizeof node, "%s", in_dir("board/dev/nvidiactl"));
	REQUIRE(file_mkdirs(in_dir("board/dev"), 0755) >= 0);
	REQUIRE(chmod(in_dir(""), 0777) == 0);
	CHECK(!*doctor_says("hang cuInit", more));
	REQUIRE(file_write(node, "", 0) >= 0 && file_write(in_dir("board/dev/nvidia0"), "", 0) >= 0);
	REQUIRE(chmod(node, 0660) == 0 && chown(node, 0, 44) == 0);
	REQUIRE(chmod(in_dir("board/dev/nvidia0"), 0666) == 0);
	CHECK(!*doctor_says("", more)); /* root may */
	nobody = true;
	unlink(in_dir("stdout"));
	unlink(in_dir("stderr"));
	CHECK_SAYS(doctor_says("", more),
		   "warning this user may not open /dev/nvidiactl: CUDA does not find the ");
	CHECK_SAYS(doctor_says("", more), "sudo usermod -aG video $USER, then log in again");
	CHECK(!strstr(doctor_says("", more), "nvidia0"));
	nobody = false;
}

TEST_MAIN
