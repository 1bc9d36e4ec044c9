/* SPDX-License-Identifier: Apache-2.0 */
/* Models that are tuned on several devices: places, leases and budgets of each device. */
#include "tests/lib/honed.h"
#include "tests/lib/honed_board.h"

#include "platform/base/rng.h"

/* Two models of one thread each, on these devices. */
static struct board *two_models(enum honed_mode mode, const char *first, const char *second)
{
	struct board *b = board_new(mode, 2);
	b->conf.boot_jobs = 1;
	b->model[0].threads = b->model[1].threads = 1;
	b->model[0].device = first;
	b->model[1].device = second;
	return b;
}

/* Both run, one job at a time on each device. */
static struct board *two_jobs(const char *first, const char *second)
{
	struct board *b = two_models(HONED_BOX, first, second);
	board_start(b);
	board_run(b, 10 * NS_PER_MS);
	board_started(b, 1);
	board_started(b, 2);
	return b;
}

static bool lease(struct board *b, int job, const char *kind)
{
	char line[128];
	snprintf(line, sizeof line, "{\"op\":\"lease\",\"id\":%d,\"kind\":\"%s\"}", job, kind);
	board_read(b);
	board_ask(b, 1000 + job, line);
	snprintf(line, sizeof line, "send %d {\"id\":%d,\"ok\":true", 1000 + job, job);
	return board_says(b, line);
}

static void release(struct board *b, int job)
{
	board_ask(b, 1000 + job, "{\"op\":\"release\",\"id\":77}");
}

TEST(each_device_has_its_places)
{
	for (int mode = 0; mode < 2; mode++) {
		struct board *b = two_models(mode ? HONED_BOX : HONED_RESIDENT, NULL, "opencl:0");
		board_start(b);
		board_run(b, 15 * NS_PER_S);
		CHECK(board_says(b, "start 1 a") && board_says(b, "start 2 b"));
		CHECK(board_says(b, "cpus 1 nice") && board_says(b, "on opencl:0 threads 1"));
		CHECK(strstr(board_status(b), "\"device\":\"cpu\"") &&
		      strstr(board_status(b), "\"model\":\"b\",\"device\":\"opencl:0\""));
		board_free(b);
		b = two_models(mode ? HONED_BOX : HONED_RESIDENT, "opencl:1", "opencl:1");
		board_start(b);
		board_run(b, 15 * NS_PER_S);
		CHECK(board_says(b, "start 1 a") && !board_says(b, "start 2"));
		board_free(b);
	}
}

/* A CUDA device has one job, and so one context, however many are configured; two devices have one each. */
TEST(a_cuda_device_has_one_job)
{
	for (int mode = 0; mode < 2; mode++)
		for (int both = 0; both < 3; both++) {
			static const char *const second[] = {"cuda:0", "cuda:1", "opencl:0"};
			struct board *b = two_models(mode ? HONED_BOX : HONED_RESIDENT,
						     both < 2 ? "cuda:0" : "opencl:0", second[both]);
			b->conf.boot_jobs = b->conf.jobs = 2;
			board_start(b);
			board_run(b, 15 * NS_PER_S);
			CHECK(board_says(b, "start 1 a"));
			CHECK(!board_says(b, "start 2 b") == !both);
			board_free(b);
		}
}

/* Memory that has room for one job is a limit for all devices together. */
TEST(memory_limits_the_jobs_of_all_devices)
{
	struct board *b = two_models(HONED_RESIDENT, NULL, "opencl:0");
	b->vitals.memory_free_bytes = INT64_C(600) << 20;
	board_start(b);
	board_run(b, 12 * NS_PER_S);
	CHECK(board_says(b, "start 1") && !board_says(b, "start 2"));
	board_free(b);
}

/* In a box a model that is alone on its device has all of the box, beside two that share theirs. */
TEST(a_box_is_shared_on_each_device)
{
	struct board *b = board_new(HONED_BOX, 3);
	b->model[1].device = "opencl:0";
	b->model[0].threads = b->model[2].threads = 1;
	board_start(b);
	board_run(b, 10 * NS_PER_MS);
	const char *a = board_says(b, "start 1 a"), *c = board_says(b, "start 2 b");
	REQUIRE(a && c);
	int first = atoi(a + strlen("start 1 a ")), other = atoi(c + strlen("start 2 b "));
	CHECK(first > 9000 && first < 10000 && other > 19000);
	board_free(b);
}

/* What control.h says of leases, for each pair of kinds: the first job holds one, the second wants one. Both
 * jobs have a core of their own. */
TEST(leases_of_two_devices)
{
	static const char *const kind[] = {"compute", "measure", "quiet"};
	/* by the first's lease, then the second's; 1: both at once */
	static const struct {
		const char *first, *second;
		int both[3][3];
	} cases[] = {
	    {NULL, NULL, {{1, 1, 0}, {1, 1, 0}, {0, 0, 0}}},
	    {NULL, "opencl:0", {{1, 1, 1}, {1, 1, 0}, {0, 0, 0}}},
	    {"opencl:0", NULL, {{1, 1, 0}, {1, 1, 0}, {1, 0, 0}}},
	    {"opencl:0", "cuda:0", {{1, 1, 1}, {1, 1, 0}, {1, 0, 0}}},
	    {"cuda:0", "cuda:1", {{1, 1, 1}, {1, 1, 0}, {1, 0, 0}}},
	    {"opencl:1", "opencl:1", {{1, 0, 0}, {0, 0, 0}, {0, 0, 0}}},
	    {"opencl:0", "opencl:0", {{1, 0, 0}, {0, 0, 0}, {0, 0, 0}}},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (int x = 0; x < 3; x++)
			for (int y = 0; y < 3; y++) {
				struct board *b = two_models(HONED_BOX, cases[i].first, cases[i].second);
				b->conf.boot_jobs = 2;
				board_start(b);
				board_run(b, 10 * NS_PER_MS);
				board_started(b, 1);
				board_started(b, 2);
				CHECK(lease(b, 1, kind[x]));
				if (lease(b, 2, kind[y]) != cases[i].both[x][y]) {
					printf("%s %s, then %s %s\n", conf_device_name(cases[i].first),
					       kind[x], conf_device_name(cases[i].second), kind[y]);
					test_bad = 1;
				}
				release(b, 1);
				board_run(b, 5 * NS_PER_MS);
				CHECK(board_says(b, "send 1002 {\"id\":2,\"ok\":true"));
				board_free(b);
			}
}

/* A device's job on the core of another: they take turns to measure there. */
TEST(a_shared_core_excludes)
{
	struct board *b = two_models(HONED_BOX, NULL, "opencl:0");
	b->o.ncpus = 1;
	board_start(b);
	board_run(b, 10 * NS_PER_MS);
	board_started(b, 1);
	board_started(b, 2);
	CHECK(lease(b, 1, "compute") && !lease(b, 2, "quiet"));
	release(b, 1);
	CHECK(board_says(b, "send 1002 {\"id\":2,\"ok\":true") && !lease(b, 1, "compute"));
	board_free(b);
}

/* Whether the line of one action comes before that of another. */
static bool comes_before(const struct board *b, const char *first, const char *then)
{
	for (int i = b->read; i < b->nlines; i++) {
		if (strstr(b->line[i], first))
			return true;
		if (strstr(b->line[i], then))
			return false;
	}
	return false;
}

/* A job of the processor that uses all cores, and one of a device: whichever holds a lease, and whether it
 * can be stopped or not, nothing is timed while the other uses the core that both have. */
TEST(a_shared_core_is_timed_alone)
{
	static const char *const kind[] = {"compute", "measure", "quiet"};
	for (int x = 0; x < 3; x++)
		for (int y = 0; y < 3; y++)
			for (int order = 0; order < 4; order++) {
				struct board *b = two_models(HONED_RESIDENT, NULL, "opencl:0");
				int first = 1 + (order & 1), second = 3 - first;
				bool stops = order & 2;
				char line[128], stop[32], granted[64];
				b->o.ncpus = 2;
				b->model[0].threads = 0;
				board_start(b);
				board_run(b, 15 * NS_PER_S);
				board_started(b, 1);
				board_started(b, 2);
				snprintf(line, sizeof line,
					 "{\"op\":\"lease\",\"id\":%d,\"kind\":\"%s\",\"stops\":%s}", first,
					 kind[x], stops ? "true" : "false");
				board_ask(b, 1000 + first, line);
				bool got = lease(b, second, kind[y]);
				snprintf(stop, sizeof stop, "signal %d 19", first);
				snprintf(granted, sizeof granted, "send %d {\"id\":%d,\"ok\":true",
					 1000 + second, second);
				bool stopped = comes_before(b, stop, granted);
				bool both = !x && !y, by_stop = !x && y && stops;
				if (got != (both || by_stop) || stopped != by_stop) {
					printf("job %d %s%s, then job %d %s: granted %d, stopped %d\n", first,
					       kind[x], stops ? " (stops)" : "", second, kind[y], got,
					       stopped);
					test_bad = 1;
				}
				board_free(b);
			}
}

/* honed says that two devices share a core where the processor's jobs leave none. */
TEST(shared_cores_are_told)
{
	static const struct {
		int ncpus, threads;
		const char *device;
		bool told;
	} cases[] = {{2, 0, "opencl:0", true},  {2, 2, "opencl:0", true},  {4, 9, "opencl:0", true},
		     {2, 1, "opencl:0", false}, {4, 3, "opencl:0", false}, {1, 1, "opencl:0", false},
		     {2, 0, NULL, false}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct board *b = board_new(HONED_RESIDENT, 4);
		b->o.ncpus = cases[i].ncpus;
		b->model[1].device = b->model[2].device = cases[i].device;
		b->model[3].device = cases[i].device ? "opencl:10" : NULL;
		b->model[0].threads = cases[i].threads;
		board_start(b);
		CHECK(!board_says(b, "on opencl:0, opencl:10 share one") == !cases[i].told);
		CHECK(!board_says(b, "share one") == !cases[i].told);
		board_free(b);
	}
}

/* While a GPU's job has its quiet lease, one of the processor computes on; it is not stopped. */
TEST(a_device_is_quiet_beside_a_compiler)
{
	struct board *b = two_jobs(NULL, "opencl:0");
	board_ask(b, 1001, "{\"op\":\"lease\",\"id\":1,\"kind\":\"compute\",\"stops\":true}");
	board_ask(b, 1002, "{\"op\":\"lease\",\"id\":2,\"kind\":\"quiet\",\"stops\":true}");
	CHECK(board_says(b, "send 1002 {\"id\":2,\"ok\":true") && !board_says(b, "signal 1"));
	release(b, 2);
	board_ask(b, 1002, "{\"op\":\"lease\",\"id\":3,\"kind\":\"compute\",\"stops\":true}");
	release(b, 1);
	board_ask(b, 1001, "{\"op\":\"lease\",\"id\":4,\"kind\":\"quiet\",\"stops\":true}");
	CHECK(board_says(b, "send 1001 {\"id\":4,\"ok\":true") && board_says(b, "signal 2 19"));
	const char *second = strstr(board_status(b), "\"job\":2,");
	CHECK(strstr(board_status(b), "\"lease\":\"quiet\",\"wants\":null,\"leases\":2,") && second &&
	      strstr(second, "\"leases\":2,"));
	board_free(b);
}

/* People name the device; a job that waits for a device does not keep one of another waiting. */
TEST(people_ask_for_a_device)
{
	struct board *b = two_models(HONED_RESIDENT, NULL, "opencl:0");
	b->conf.idle = false;
	board_start(b);
	board_connect(b, 5, 0);
	board_ask(b, 5, "{\"op\":\"tune\",\"id\":1,\"model\":\"b\",\"now\":true,\"device\":\"opencl:0\"}");
	board_ask(b, 5, "{\"op\":\"tune\",\"id\":2,\"model\":\"/x\",\"now\":true,\"device\":\"opencl:0\"}");
	board_ask(b, 5, "{\"op\":\"tune\",\"id\":3,\"model\":\"/y\",\"now\":true}");
	board_run(b, NS_PER_S);
	CHECK(board_says(b, "start 1 b") && board_says(b, "start 3 y") && !board_says(b, "start 2"));
	board_started(b, 1);
	board_ended(b, 1, 0, NULL);
	board_run(b, NS_PER_S);
	CHECK(strstr(board_says(b, "start 2 x"), "on opencl:0"));
	board_read(b);
	board_ask(b, 5, "{\"op\":\"tune\",\"id\":4,\"model\":\"/y\",\"device\":\"/dev/null\"}");
	CHECK(board_says(b, "\"ok\":false") && board_says(b, "no such device '/dev/null'"));
	board_ask(b, 5,
		  "{\"op\":\"tune\",\"id\":5,\"model\":\"/y\",\"device\":\"opencl:0000000000000000000000000000000000000000\"}");
	CHECK(board_says(b, "'device' is not a text of at most 39 bytes"));
	board_free(b);
}

/* A job that somebody started tells its device: its leases are for it. */
TEST(a_job_by_hand_has_its_devices_leases)
{
	struct board *b = two_models(HONED_RESIDENT, "opencl:0", NULL);
	board_start(b);
	board_run(b, 15 * NS_PER_S);
	board_started(b, 1);
	board_connect(b, 5, 0);
	board_ask(b, 5,
		  "{\"op\":\"job\",\"id\":1,\"model\":\"/by/"
		  "hand\",\"pid\":7,\"threads\":1,\"device\":\"opencl:0\"}");
	CHECK(lease(b, 1, "measure"));
	board_read(b);
	board_ask(b, 5, "{\"op\":\"lease\",\"id\":9,\"kind\":\"measure\"}");
	CHECK(!board_says(b, "send 5 {\"id\":9,\"ok\":true"));
	release(b, 1);
	CHECK(board_says(b, "send 5 {\"id\":9,\"ok\":true"));
	board_free(b);
}

/* A model whose device fails waits longer and longer, and the same model on another device does not. */
TEST(a_device_that_fails_leaves_the_other_alone)
{
	struct board *b = two_models(HONED_RESIDENT, NULL, "opencl:0");
	b->model[1].name = "a";
	b->conf.rest_ns = NS_PER_S;
	board_start(b);
	board_run(b, 11 * NS_PER_S);
	board_started(b, 1);
	board_read(b);
	board_ended(b, 2, E_CHILD, "no OpenCL device 0; hone devices lists them");
	CHECK(strstr(board_status(b), "\"error\":\"no OpenCL device 0; hone devices lists them\",\"lasting\":false,"
				      "\"device\":\"opencl:0\""));
	board_run(b, 9 * NS_PER_S);
	CHECK(!board_says(b, "start") && !board_says(b, "signal"));
	board_run(b, 2 * NS_PER_S);
	CHECK(strstr(board_says(b, "start 3 a"), "on opencl:0"));
	board_free(b);
}

/* One model on two devices is one model, and all that is said of it names the device; without another device
 * than the processor, none is named. */
TEST(words_name_the_device)
{
	for (int both = 0; both < 2; both++) {
		struct board *b = two_models(HONED_RESIDENT, NULL, both ? "opencl:0" : NULL);
		b->model[1].name = both ? "a" : "b";
		b->conf.jobs = 2;
		board_start(b);
		CHECK(board_says(b, both ? "keeps 1 model tuned on cpu and opencl:0; "
					 : "keeps 2 models tuned; "));
		board_run(b, 15 * NS_PER_S);
		board_started(b, 1);
		board_started(b, 2);
		board_ask(b, 1001, "{\"op\":\"progress\",\"before_ms\":3,\"now_ms\":2}");
		CHECK(strstr(board_status(b),
			     both ? "\"verdict\":\"tuning a on cpu: kernels timed so far, in sum: 3 -> 2 ms; a on opencl:0\""
				  : "\"verdict\":\"tuning a: kernels timed so far, in sum: 3 -> 2 ms\""));
		board_ask(b, 1001, "{\"op\":\"done\",\"trials\":1,\"before_ms\":6,\"after_ms\":5}");
		CHECK(board_says(b, both ? "log a on cpu: this box 6.000 -> 5.000" : "log a: this box 6.000 -> 5.000"));
		CHECK(!strstr(board_status(b), "sum: 6"));
		board_ended(b, 1, 0, NULL);
		board_ended(b, 2, E_CHILD, "the driver is gone");
		CHECK(board_says(b, both ? "log model a on opencl:0: the driver is gone"
					 : "log model b: the driver is gone"));
		struct conf next = b->conf;
		board_event(
		    b, (struct honed_event){.kind = HE_CONF, .conf = &next, .nmodels = 2, .model = b->file});
		CHECK(board_says(b, both ? "read the configuration: 1 model"
					 : "read the configuration: 2 models"));
		board_free(b);
	}
}

/* A box counts models, not their devices. */
TEST(a_box_counts_models)
{
	struct board *b = board_new(HONED_BOX, 3);
	b->model[1].device = "opencl:0";
	b->model[1].name = "a";
	b->model[0].threads = b->model[2].threads = 1;
	b->o.marks.n = 1;
	b->o.marks.model[0] = (struct mark_of){.model = b->file[0].key, .boxed = true, .promise = 0};
	board_start(b);
	CHECK(board_says(b, "begins for 2 of 2 models"));
	board_run(b, NS_PER_S);
	CHECK(board_says(b, "status tuning c on cpu; a on opencl:0 (1 of 2 models), ") ||
	      board_says(b, "status tuning a on opencl:0; c on cpu (1 of 2 models), "));
	board_free(b);
	b = two_models(HONED_BOX, NULL, "opencl:0");
	b->model[1].name = "a";
	b->file[0].refused = b->file[1].refused = "it is gone";
	board_start(b);
	CHECK(board_says(b, "no model can be used") && board_says(b, "log model a on opencl:0: it is gone"));
	board_free(b);
}

TEST(metrics_tell_the_devices_apart)
{
	struct board *b = two_models(HONED_RESIDENT, NULL, "opencl:0");
	struct buf m = {0};
	b->model[1].name = "a";
	board_start(b);
	honed_metrics(b->h, b->now_ns, &m);
	CHECK(
	    strstr(buf_str(&m),
		   "hone_model_ready{model=\"a\"} 0\nhone_model_ready{model=\"a\",device=\"opencl:0\"} 0\n"));
	buf_free(&m);
	board_free(b);
}

/* A new configuration without a device ends its job; what is known of the other device stays. */
TEST(a_configuration_takes_a_device_away)
{
	struct board *b = two_jobs(NULL, "opencl:0");
	struct conf next = b->conf;
	next.nmodels = 1;
	board_read(b);
	board_event(b, (struct honed_event){.kind = HE_CONF, .conf = &next, .nmodels = 1, .model = b->file});
	CHECK(board_says(b, "send 1002 {\"event\":\"stop\"}") &&
	      !board_says(b, "send 1001 {\"event\":\"stop\"}"));
	board_free(b);
}

/* Whether the jobs of both devices were started; the examination of the model has a line, too. */
static bool both_said(const struct blob *b)
{
	return b->n && strstr(b->p, "--threads 1") && strstr(b->p, "--threads 2");
}

static int bits(uint64_t set)
{
	return __builtin_popcountll(set);
}

/* Boards with two clusters, whose cores have any numbers: a job of a cluster uses its cores alone, as many as
 * it asks for; and those of two clusters run side by side. A job that asks for more threads than the cluster
 * has cores gets so many, and the log says so; one of "cpu" gets the board's other cores. */
TEST(jobs_stay_on_their_cluster)
{
	struct rng r;
	rng_seed(&r, 21);
	for (int round = 0; round < 300; round++) {
		int big = 1 + (int)rng_below(&r, 4), little = 1 + (int)rng_below(&r, 4), n = big + little;
		struct board *b = two_models(round % 2 ? HONED_BOX : HONED_RESIDENT,
					     rng_below(&r, 2) ? NULL : "cpu:cortex-a76", "cpu:cortex-a55");
		uint64_t own[2] = {0, 0};
		b->o.ncpus = n;
		b->o.nclusters = 2;
		strcpy(b->o.cluster[0].device, "cpu:cortex-a76");
		strcpy(b->o.cluster[1].device, "cpu:cortex-a55");
		for (int i = 0; i < n; i++) {
			b->o.cpus[i] = (i + little) % n;
			b->o.cluster[i >= big].cpus |= UINT64_C(1) << i;
			own[i >= big] |= UINT64_C(1) << b->o.cpus[i];
		}
		for (int i = 0; i < 2; i++)
			b->model[i].threads = (int)rng_below(&r, (uint32_t)n + 1);
		board_start(b);
		board_run(b, 15 * NS_PER_S);
		CHECK(board_says(b, "start 1 a") && board_says(b, "start 2 b"));
		for (int i = 0; i < 2; i++) {
			const uint64_t cpus = b->job_cpus[i + 1];
			const int threads = b->model[i].threads, has = bits(own[i]);
			const bool named = b->model[i].device, over = threads > has;
			char told[40], log[80];
			snprintf(told, sizeof told, "on %s threads %d", named ? b->model[i].device : "cpu",
				 over && named ? has : threads);
			snprintf(log, sizeof log, "threads = %d is more than cpu:cortex-a%d has cores", threads,
				 i ? 55 : 76);
			CHECK(board_says(b, told) && !board_says(b, log) == !(over && named));
			bool good = over && named ? cpus == own[i]
				    : over        ? bits(cpus) == n
				    : threads	  ? !(cpus & ~own[i]) && bits(cpus) >= threads
						  : cpus == own[i];
			if (!good)
				printf("%d+%d cores, %d threads on the %s: %llx\n", big, little, threads,
				       i ? "small" : "big", (unsigned long long)cpus);
			CHECK(good);
		}
		board_free(b);
	}
}

/* The job of a device is told of it, and has one core and no --threads but 1. */
TEST(a_job_is_started_for_its_device)
{
	struct arena a = {0};
	struct blob said = {"", 0};
	char conf[1200], script[600];
	make_folder();
	snprintf(script, sizeof script, "#!/bin/sh\necho \"$@\" >>%s\nsleep 100\n", in_folder("said"));
	write_text(own("job"), script);
	chmod(own("job"), 0755);
	write_text(own("m.onnx"), "x");
	snprintf(conf, sizeof conf,
		 "[idle]\nsettle = 1s\nload = 100%%\npressure = 100%%\nmemory = 1M\n[model m]\npath = %s\n"
		 "threads = 2\ndevice = cuda:3 cpu\n",
		 in_folder("m.onnx"));
	REQUIRE(start_honed(conf, own("job")));
	for (int i = 0; i < 200; i++, usleep(50000))
		if (file_read(&a, in_folder("said"), 0, &said) >= 0 && both_said(&said))
			break;
	const char *text = said.p, *device = strstr(text, "--device cuda:3");
	printf("%s", text);
	CHECK(device && strstr(text, "--threads 1") && strstr(text, "--threads 2"));
	CHECK(device && !strstr(device + 1, "--device"));
	CHECK(end_honed(SIGTERM) == 0);
	arena_free(&a);
}

TEST_MAIN
