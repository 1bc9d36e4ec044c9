/* SPDX-License-Identifier: Apache-2.0 */
/* Models of libhone on an OpenCL device (PoCL), and on the processor where the device is absent, has no
 * kernels, or is lost. */
#include "agent/run/device_fit.h"
#include "agent/run/libhone.h"
#include "tests/lib/device_names.h"
#include "tests/lib/libhone.h"
#include "tests/lib/maps.h"
#include "tests/lib/scratch.h"

#include "platform/base/rng.h"

#include <limits.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEVICE "opencl:0"

/* A cache with the default kernels of the steering network for the device; NULL: no worker, or no device.
 * Made before this process opens the device, because drivers do not survive a fork. */
static const char *tuned_there(void)
{
	static char path[256];
	static bool none;
	setenv("POCL_CACHE_DIR", scratch_folder(), 0);
	if (!worker() || none)
		return NULL;
	if (!path[0]) {
		snprintf(path, sizeof path, "%s", in_dir("there"));
		none = hone("tune %s --device " DEVICE " --rigor estimate --budget 120s --cache %s",
			    steering(), path) != 0;
		if (none)
			printf("%s\n", cli_err);
	}
	return none ? NULL : path;
}

static struct hone_handle *opened_for(const char *cache, const char *device, int threads)
{
	struct hone_options o;
	struct hone_handle *h = NULL;
	HONE_INIT(o);
	o.caches = &cache;
	o.ncaches = 1;
	o.threads = threads;
	o.device = device;
	CHECK_OK(hone_open(&o, &h));
	return h;
}

/* What the processor answers. */
static float right_answer(int seed)
{
	struct hone_handle *h = opened(NULL, 1, 0);
	struct hone_model *m = loaded(h, steering());
	float y = first_output(m, seed);
	hone_model_close(m);
	hone_close(h);
	return y;
}

static void check_is_on(const struct hone_model *m, const char *device, const char *why)
{
	struct hone_model_info s = info_of(m);
	bool there = strcmp(device, "cpu") != 0;
	CHECK(!strcmp(s.device, device) && !strcmp(hone_device(m), device) && (s.on_device > 0) == there &&
	      (s.kernels[HONE_TUNED] + s.kernels[HONE_DEFAULT] > 0) == there);
	CHECK_SAYS(s.device_why, why);
	CHECK(*why || !s.device_why[0]);
	if (*why ? !strstr(s.device_why, why) : s.device_why[0])
		printf("on %s: %s\n", s.device, s.device_why);
	if (!there)
		CHECK_SAYS(s.remedy, " --device opencl:");
}

/* Whether this process has mapped a file of this name. */
static bool maps(const char *name)
{
	char line[4096];
	bool found = false;
	FILE *f = fopen("/proc/self/maps", "r");
	while (f && fgets(line, sizeof line, f))
		found |= strstr(line, name) != NULL;
	if (f)
		fclose(f);
	return found || !f;
}

/* First of the tests: nothing of OpenCL is mapped by plans of the processor. */
TEST(the_processor_maps_no_driver)
{
	struct hone_handle *h = opened_for("/nonexistent", "cpu", 1);
	CHECK(isfinite(right_answer(1)));
	hone_close(h);
	CHECK(!maps(DEVICE_LIB) && !maps_driver(0) && maps("test_libhone_device"));
}

/* ---- the library ---- */

static void library(char out[PATH_MAX + 64], const char *name)
{
	char here[PATH_MAX] = "";
	CHECK_OK(file_self_dir(here, sizeof here));
	snprintf(out, PATH_MAX + 64, "%s/%s", here, name);
}

/* In a process of its own, because a library that was opened stays. */
static void check_runs_on(const char *cache, const char *device, const char *why)
{
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		struct hone_handle *h = opened_for(cache, DEVICE, 1);
		struct hone_model *m = loaded(h, steering());
		CHECK(near(first_output(m, 1), right_answer(1)));
		check_is_on(m, device, why);
		fflush(NULL);
		_exit(test_bad);
	}
	int status = -1;
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

static void check_falls_back(const char *cache, const char *why)
{
	check_runs_on(cache, "cpu", why);
}

/* make install puts it into the folder hone beside libhone. */
static void check_installed(const char *cache, const struct blob *b)
{
	char folder[PATH_MAX + 64], file[PATH_MAX + 64];
	library(folder, "hone");
	library(file, "hone/" DEVICE_LIB);
	CHECK_OK(file_mkdirs(folder, 0755));
	CHECK_OK(file_write(file, b->p, b->n));
	check_runs_on(cache, DEVICE, "");
	CHECK(remove(file) == 0 && remove(folder) == 0);
}

/* A library that is missing, is none, or is of another build is not used. First of the tests, before this
 * process opens the library. */
TEST(a_library_that_does_not_fit)
{
	static const struct device_fit fit = DEVICE_FIT;
	const char *cache = tuned_there();
	char path[PATH_MAX + 64], aside[PATH_MAX + 64];
	struct arena a = {0};
	struct blob b;
	if (!cache)
		SKIP("no hone-worker (HONE_WORKER), or no OpenCL device");
	library(path, DEVICE_LIB);
	library(aside, "libhone-device.aside");
	REQUIRE_OK(file_read(&a, path, 0, &b));
	char *at = memmem(b.p, b.n, &fit, sizeof fit);
	REQUIRE(at && rename(path, aside) == 0);
	check_falls_back(cache, "there is no libhone-device.so beside libhone");
	CHECK_OK(file_write(path, "no library", 10));
	check_falls_back(cache, "there is no libhone-device.so beside libhone");
	remove(path);
	at[sizeof fit.version + 1] ^= 1; /* a plan of another size */
	CHECK_OK(file_write(path, b.p, b.n));
	check_falls_back(cache, "of another build");
	remove(path);
	at[sizeof fit.version + 1] ^= 1;
	check_installed(cache, &b);
	CHECK(rename(aside, path) == 0);
	arena_free(&a);
}

/* With one thread and several, by option and by the environment. */
TEST(models_run_on_the_device)
{
	const char *cache = tuned_there();
	if (!cache)
		SKIP("no hone-worker (HONE_WORKER), or no OpenCL device");
	float right = right_answer(1);
	for (int threads = 1; threads < 3; threads++)
		for (int env = 0; env < 2; env++) {
			if (env)
				setenv("HONE_DEVICE", DEVICE, 1);
			struct hone_handle *h = opened_for(cache, env ? NULL : DEVICE, threads);
			struct hone_model *m = loaded(h, steering());
			CHECK(near(first_output(m, 1), right));
			check_is_on(m, DEVICE, "");
			CHECK(hone_refresh(m) == 0);
			hone_model_close(m);
			hone_close(h);
			unsetenv("HONE_DEVICE");
		}
	setenv("HONE_DEVICE", DEVICE, 1); /* the option goes before */
	struct hone_handle *h = opened_for(cache, "cpu", 1);
	struct hone_model *m = loaded(h, steering());
	struct hone_model_info s = info_of(m);
	CHECK(!strcmp(s.device, "cpu") && !s.device_why[0] && !s.on_device);
	hone_model_close(m);
	hone_close(h);
	unsetenv("HONE_DEVICE");
}

TEST(names_of_devices)
{
	static const char *const bad[] = {"gpu",       "opencl",     "opencl:",     "opencl:1000",
					  "opencl:-1", "opencl:0/x", "../opencl:0", "opencl:0 ",
					  "OpenCL:0",  "cpu:0",      "opencl:0x1",  "",
					  "cuda",      "cuda:",      "cuda:1000",   "cuda:0x"};
	enum { BAD = sizeof bad / sizeof *bad };
	struct rng r;
	rng_seed(&r, 4);
	for (int i = 0; i < 500; i++) {
		struct hone_options o;
		struct hone_handle *h = NULL;
		char drawn[32];
		device_name_draw(&r, drawn);
		const char *name = i < BAD ? bad[i] : drawn;
		if (device_name_is_printed(name) || !strcmp(name, "cpu"))
			continue;
		HONE_INIT(o);
		o.device = name;
		const bool cluster = device_is_processor(name);
		CHECK_FAILS(hone_open(&o, &h), cluster ? HONE_NOTFOUND : HONE_USAGE,
			    cluster ? "there is no cluster cpu:"
				    : "must be cpu, cpu:CLUSTER, opencl:N or cuda:N; `hone devices`");
		CHECK(!h);
	}
}

/* The caller may run where it could before; the models run on the processor, with a thread for each core of
 * the cluster. */
TEST(a_cluster_of_the_processor)
{
	struct clusters c;
	cpu_set_t before, after;
	char name[TOPO_NAME + 8];
	topo_allowed(&before);
	topo_clusters("", &before, &c);
	for (int i = 0; i < c.n; i++) {
		snprintf(name, sizeof name, "cpu:%s", c.of[i].name);
		struct hone_handle *h = opened_for(in_dir("absent"), name, 0);
		REQUIRE(h);
		topo_allowed(&after);
		CHECK(CPU_EQUAL(&before, &after) && hone_threads(h) == c.of[i].cores);
		CHECK(!strcmp(h->cluster, i ? name : "cpu"));
		struct hone_model *m = loaded(h, steering());
		CHECK(!strcmp(hone_device(m), "cpu") && first_output(m, 3) == right_answer(3));
		hone_model_close(m);
		hone_close(h);
	}
}

TEST(without_the_device_the_processor_runs)
{
	const char *cache = tuned_there();
	if (!cache)
		SKIP("no hone-worker (HONE_WORKER), or no OpenCL device");
	struct hone_handle *h = opened_for(cache, "opencl:77", 1);
	struct hone_model *m = loaded(h, steering());
	CHECK(near(first_output(m, 2), right_answer(2)));
	check_is_on(m, "cpu", "there is no OpenCL device 77; the only one is opencl:0");
	hone_model_close(m);
	hone_close(h);
}

/* A model without kernels for the device runs on the processor; kernels that come later take it there. */
TEST(kernels_that_come_later)
{
	const char *cache = tuned_there();
	if (!cache)
		SKIP("no hone-worker (HONE_WORKER), or no OpenCL device");
	char later[256];
	snprintf(later, sizeof later, "%s", in_dir("later"));
	CHECK_OK(file_mkdirs(later, 0755));
	struct hone_handle *h = opened_for(later, DEVICE, 1);
	struct hone_model *m = loaded(h, steering());
	float right = first_output(m, 3);
	check_is_on(m, "cpu",
		    "no cache has a kernel of this model for " DEVICE "; hone tune --device " DEVICE
		    " makes them");
	copy_folder(cache, later);
	CHECK(hone_refresh(m) == 1);
	check_is_on(m, DEVICE, "");
	CHECK(near(first_output(m, 3), right));
	hone_model_close(m);
	hone_close(h);
}

static void *placed(struct hone_model *m, bool output, int *in_place)
{
	void *p = NULL;
	*in_place = (output ? hone_output_in_place : hone_input_in_place)(m, 0, &p);
	CHECK(*in_place >= 0 && p);
	return p;
}

/* Writes the input in place, and reads the output there. */
static float output_in_place(struct hone_model *m, int seed, int *places)
{
	struct hone_tensor x;
	int in, out;
	HONE_INIT(x);
	CHECK_OK(hone_input(m, 0, &x));
	fill_input(placed(m, false, &in), x.bytes, seed);
	CHECK_OK(hone_run(m));
	float y = *(const float *)placed(m, true, &out);
	*places = in + out;
	return y;
}

TEST(tensors_in_place)
{
	const char *cache = tuned_there();
	if (!cache)
		SKIP("no hone-worker (HONE_WORKER), or no OpenCL device");
	for (int there = 0; there < 2; there++) {
		struct hone_handle *h = opened_for(cache, there ? DEVICE : "cpu", 1);
		struct hone_model *m = loaded(h, steering());
		int places;
		void *p;
		for (int seed = 1; seed < 4; seed++) {
			CHECK(near(output_in_place(m, seed, &places), right_answer(seed)));
			CHECK(there ? places > 0 : places == 0);
		}
		CHECK(there || (hone_input_in_place(m, 0, &p) == 0 && p == hone_input_buffer(m, 0)));
		CHECK(hone_run_async(m) == 0 && hone_wait(m, -1) == 0);
		CHECK_OK(hone_bind_input(m, 0, NULL, 0));
		CHECK_OK(hone_bind_output(m, 0, NULL, 0));
		CHECK(near(first_output(m, 5), right_answer(5)));
		CHECK_FAILS(hone_input_in_place(m, 1, &p), HONE_USAGE, "no input 1");
		CHECK_FAILS(hone_output_in_place(m, -1, &p), HONE_USAGE, "no output -1");
		CHECK_FAILS(hone_output_in_place(m, 0, NULL), HONE_USAGE, "NULL");
		hone_model_close(m);
		hone_close(h);
	}
}

/* ---- a device that is lost ---- */

/* The plans' own function for a run of a step, and the number of calls until it fails. */
static int (*true_run)(struct plan *p, int step, bool timed);
static atomic_int calls_left;

static int run_until_lost(struct plan *p, int step, bool timed)
{
	if (atomic_fetch_sub(&calls_left, 1) <= 0)
		return fail(E_IO, "device: it has vanished");
	return true_run(p, step, timed);
}

static void lose_after(struct hone_model *m, int calls)
{
	struct on_device *d = (struct on_device *)m->net->device;
	if (!true_run)
		true_run = d->run;
	d->run = run_until_lost;
	atomic_store(&calls_left, calls);
}

/* At any step of the first or a later run, by each way to run. */
TEST(a_lost_device_gives_right_answers)
{
	const char *cache = tuned_there();
	if (!cache)
		SKIP("no hone-worker (HONE_WORKER), or no OpenCL device");
	struct rng r;
	rng_seed(&r, 7);
	float right = right_answer(1);
	for (int round = 0; round < 6; round++) {
		struct hone_handle *h = opened_for(cache, DEVICE, 1 + round % 2);
		struct hone_model *m = loaded(h, steering()), *other = loaded(h, steering());
		int steps = m->net->plan->nsteps;
		check_is_on(m, DEVICE, "");
		CHECK(near(first_output(m, 1), right));
		lose_after(m, (int)rng_below(&r, (uint32_t)steps + 1));
		float y = 0;
		const void *in[] = {hone_input_buffer(m, 0)};
		void *out[] = {&y};
		if (round % 3 == 0)
			CHECK_OK(hone_run_on(m, in, out));
		else if (round % 3 == 1)
			CHECK_OK(hone_run_async(m) < 0 ? -1 : hone_wait(m, -1));
		else
			CHECK_OK(hone_run(m));
		y = round % 3 ? *(float *)hone_output_buffer(m, 0) : y;
		CHECK(near(y, right));
		check_is_on(m, "cpu", "device: it has vanished");
		CHECK(info_of(m).refreshed == 1);
		CHECK(near(first_output(m, 1), right));
		/* what was on the device stays until it fails there; what is loaded now is not */
		check_is_on(other, DEVICE, "");
		CHECK(near(first_output(other, 1), right));
		struct hone_model *late = loaded(h, steering());
		check_is_on(late, "cpu", "device: it has vanished");
		CHECK(hone_refresh(late) == 0 && hone_refresh(m) == 0);
		hone_model_close(late);
		hone_model_close(other);
		hone_model_close(m);
		hone_close(h);
	}
}

/* Its memory is gone, with the inputs in it, so that they must be written again. */
TEST(tensors_in_place_are_lost)
{
	const char *cache = tuned_there();
	if (!cache)
		SKIP("no hone-worker (HONE_WORKER), or no OpenCL device");
	struct hone_handle *h = opened_for(cache, DEVICE, 1);
	struct hone_model *m = loaded(h, steering());
	int places;
	CHECK(near(output_in_place(m, 1, &places), right_answer(1)) && places > 0);
	lose_after(m, 7);
	CHECK_FAILS(hone_run(m), HONE_USAGE, "in_place again");
	check_is_on(m, "cpu", "device: it has vanished");
	CHECK_FAILS(hone_run(m), HONE_USAGE, "in_place again");
	CHECK(near(output_in_place(m, 2, &places), right_answer(2)) && places == 0);
	hone_model_close(m);
	hone_close(h);
}

struct runner_thread {
	pthread_t thread;
	struct hone_model *m;
	const void *in;
	float right;
	int bad;
};

static void *run_on(void *arg)
{
	struct runner_thread *t = arg;
	for (int i = 0; i < 20; i++) {
		float y = 0;
		void *out[] = {&y};
		const void *in[] = {t->in};
		t->bad += hone_run_on(t->m, in, out) < 0 || !near(y, t->right);
		t->bad += i % 7 == 3 && hone_refresh(t->m) < 0;
	}
	return NULL;
}

/* Threads that run and refresh the same model while its device is lost. */
TEST(a_device_is_lost_in_a_crowd)
{
	const char *cache = tuned_there();
	if (!cache)
		SKIP("no hone-worker (HONE_WORKER), or no OpenCL device");
	for (int round = 0; round < 2; round++) {
		struct hone_handle *h = opened_for(cache, DEVICE, 1 + round % 2);
		struct hone_model *m = loaded(h, steering());
		struct runner_thread t[4];
		float right = first_output(m, 1);
		lose_after(m, 15 + 60 * round);
		for (int i = 0; i < 4; i++) {
			t[i] = (struct runner_thread){.m = m, .in = hone_input_buffer(m, 0), .right = right};
			REQUIRE(!pthread_create(&t[i].thread, NULL, run_on, &t[i]));
		}
		for (int i = 0; i < 4; i++) {
			pthread_join(t[i].thread, NULL);
			CHECK(!t[i].bad);
		}
		check_is_on(m, "cpu", "device: it has vanished");
		hone_model_close(m);
		hone_close(h);
	}
}

TEST_MAIN
