/* SPDX-License-Identifier: Apache-2.0 */
/* hone tune through a honed that holds the cache: its messages, and where its results go. */
#include "agent/cache/cache.h"
#include "agent/tune/tune_parts.h"
#include "kernels/onnx/import.h"
#include "platform/base/log.h"
#include "platform/machine/topo.h"
#include "tests/lib/cli_model.h"
#include "tests/lib/fake_owner.h"

static struct fake_honed fake;
static struct cache *kept;
static int stored;

/* Answers a commit: everything put since the last one is now in the folder. */
static void store(struct fake_honed *f)
{
	for (int n = atomic_load(&f->nputs); stored < n; stored++) {
		const struct fake_put *p = &f->put[stored % FAKE_PUTS];
		uint8_t type = (uint8_t)p->type;
		CHECK_OK(p->op == OP_FORGET ? cache_put(kept, CACHE_FORGET, p->key, &type, 1)
					    : cache_put(kept, (enum cache_type)p->type, p->key, p->p, p->n));
	}
	CHECK_OK(cache_commit(kept));
}

static const char *begin(const char *name)
{
	static char folder[256];
	snprintf(folder, sizeof folder, "%s", in_dir(name));
	setenv("HONE_SEEDS", "", 1);
	stored = 0;
	CHECK_OK(cache_open(&kept, folder, false, 0));
	fake_start(&fake, folder);
	fake.on_commit = store;
	setenv("HONE_SOCKET", fake.path, 1);
	return folder;
}

static void end(void)
{
	fake_die(&fake);
	cache_close(kept);
	setenv("HONE_SOCKET", "/dev/null/honed.sock", 1);
}

static int records(const char *folder, enum cache_type t)
{
	struct cache *c;
	struct cache_state s = {0};
	CHECK_OK(cache_open(&c, folder, true, 0));
	cache_state(c, &s);
	cache_close(c);
	return s.count[t];
}

static int said(enum control_op op)
{
	return atomic_load(&fake.said[op]);
}

static double number(const json_t *j, const char *key)
{
	return json_number_value(json_object_get(j, key));
}

/* The folder is honed's by default, and honed has locked it, so everything goes through honed. */
TEST(a_box_through_honed)
{
	if (!worker())
		SKIP("no hone-worker");
	steering();
	const char *folder = begin("through");
	CHECK_RUN(0, "tune -v --json %s --budget 6s --threads 1", steering());
	CHECK_SAYS(cli_err, "tuning through honed");
	json_t *j = parse_out();
	CHECK(!strcmp(json_string_value(json_object_get(j, "cache")), folder));
	CHECK(json_is_null(json_object_get(j, "warning")) && number(j, "kept") > 0);
	CHECK(said(OP_JOB) == 1 && said(OP_COMMIT) > 0 && said(OP_PROGRESS) > 0 && said(OP_DONE) == 1);
	CHECK(said(OP_RELEASE) == said(OP_LEASE));
	for (int i = LEASE_COMPUTE; i <= LEASE_QUIET; i++)
		CHECK(atomic_load(&fake.leased[i]) > 0);
	CHECK(records(folder, CACHE_REC) > 0 && records(folder, CACHE_CODE) > 0 &&
	      records(folder, CACHE_HISTORY) == 1 && records(folder, CACHE_CHOICES) == 1);
	const struct request *done = &fake.last[OP_DONE];
	CHECK(done->missing == 0 && done->kept == (int)number(j, "kept") && done->promise >= 0 &&
	      done->promise <= 1 && done->trials > 0 && done->now_ms > 0);
	const json_t *gain = json_object_get(j, "gain");
	CHECK(json_is_null(gain) || done->disturbed == json_is_string(json_object_get(gain, "disturbed")));
	json_decref(j);
	CHECK_RUN(0, "tune --json %s --rigor cached --threads 1", steering()); /* found in honed's folder */
	end();
	CHECK_RUN(0, "tune --json %s --budget 1s --threads 1 --cache %s", steering(), folder);
	CHECK(!strstr(cli_err, "warning"));
}

/* A box at level int8 tells honed which recipe its model needs, also if the cache lacks it; others tell none. */
TEST(a_box_tells_which_recipe_it_needs)
{
	const struct key none = {0};
	if (!worker())
		SKIP("no hone-worker");
	steering();
	begin("recipe");
	CHECK_RUN(1, "tune %s --level int8 --budget 3s --threads 1", steering());
	CHECK_SAYS(cli_err, "needs examples of inputs");
	const struct key needed = fake.last[OP_PROGRESS].key;
	CHECK(!key_equal(needed, none));
	int puts = atomic_load(&fake.nputs), found = 0;
	CHECK_RUN(0, "tune %s --level int8 --data random --budget 3s --threads 1 --rigor estimate", steering());
	for (int i = puts; i < atomic_load(&fake.nputs) && i < FAKE_PUTS; i++)
		found += fake.put[i].type == CACHE_RECIPE && key_equal(fake.put[i].key, needed);
	CHECK(found == 1);
	fake.last[OP_PROGRESS].key = needed;
	CHECK_RUN(0, "tune %s --budget 3s --threads 1", steering());
	CHECK(key_equal(fake.last[OP_PROGRESS].key, none));
	end();
}

/* One slow run of the network as it is, the first one, is not its time before: the gain would be told of it
 * for ever. The slow run takes longer than the part of the box that such runs have. */
TEST(a_slow_first_run_is_measured_again)
{
	if (!worker())
		SKIP("no hone-worker");
	steering();
	begin("slow-first");
	CHECK_RUN(0, "tune %s --budget 3s --threads 1", one_node("small.onnx", "Relu", "1 3 8 8"));
	int before = said(OP_DONE);
	fake.freeze_ms = 400;
	CHECK_RUN(0, "tune --json %s --budget 8s --threads 1", steering());
	FAKE_WAIT(said(OP_DONE) > before);
	CHECK(fake.freeze_ms == 0);
	json_t *j = parse_out();
	printf("before %.1f ms, default kernels %.1f ms\n", number(j, "before_ms"), number(j, "default_ms"));
	CHECK(number(j, "before_ms") > 0 && number(j, "before_ms") < 300);
	CHECK(fake.last[OP_DONE].before_ms > 0 && fake.last[OP_DONE].before_ms < 300);
	json_decref(j);
	end();
}

static void hang(void *ctx, const struct job_progress *p)
{
	(void)ctx;
	while (p->measured == p->ntasks)
		pause();
}

static void exit_late(void *ctx, int rc, const struct tune_report *r)
{
	(void)ctx;
	_exit(rc == E_OK && r->late ? 42 : 43);
}

/* The last words of a job that cannot end in time: honed learns its result. */
TEST(a_job_that_hangs)
{
	if (!worker())
		SKIP("no hone-worker");
	struct arena a = {0};
	struct tune_report r;
	struct tune_options o = {
	    .model = steering(), .threads = 1, .builders = 0, .seed = 1, .progress = hang, .late = exit_late};
	int status = 0;
	o.cache = begin("hangs");
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) { /* only the child, because forks of this process inherit when it started */
		o.budget_ns = clock_since_start(&clock_real) + 8 * NS_PER_S;
		_exit(tune_model(&o, &a, &r) >= 0 ? 1 : 2);
	}
	waitpid(pid, &status, 0);
	for (int i = 0; i < 1000 && !said(OP_DONE); i++) /* the fake one reads on its own thread */
		usleep(1000);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42 && said(OP_DONE) == 1);
	const struct request *done = &fake.last[OP_DONE];
	CHECK(done->trials > 0 && done->before_ms > 0 && done->now_ms == 0 && done->missing == 0);
	end();
}

/* The last words of a box whose gain is not yet in the cache. */
static void exit_without_gain(void *ctx, int rc, const struct tune_report *r)
{
	(void)ctx;
	bool measured = rc == E_OK && r->late && r->before_ms > 0 && r->default_ms > 0 && r->after_ms > 0;
	bool in_time = r->elapsed_s <= r->budget_s;
	_exit(!measured ? 43 : r->gain.faster.rounds ? 44 : in_time ? 42 : 45);
}

/* Puts a gain of the model, so that one that is not measured again is forgotten. */
static void put_old_gain(void)
{
	const struct gain old = {.model = "old",
				 .date = "2026-01-02 03:04 UTC",
				 .threads = 1,
				 .default_ms = 2,
				 .now_ms = 1,
				 .faster = {2, 1.9, 2.1, 25, false}};
	struct target t;
	struct graph *g;
	REQUIRE_OK(target_host(&t));
	REQUIRE_OK(import_file(steering(), &(struct import_opts){0}, &g));
	CHECK_OK(gain_put(kept, history_key(g, &t, 1, LEVEL_FP32), &old));
	CHECK_OK(cache_commit(kept));
	graph_free(g);
}

/* honed does not answer when the gain is put: the box ends in time all the same, with what it measured, but
 * it does not claim a gain that is not kept. */
TEST(a_honed_that_is_silent_at_the_end)
{
	if (!worker())
		SKIP("no hone-worker");
	struct arena a = {0};
	struct tune_report r;
	struct tune_options o = {
	    .model = steering(), .threads = 1, .builders = 0, .seed = 1, .late = exit_without_gain};
	int status = 0;
	o.cache = begin("silent");
	put_old_gain();
	fake.silent_on = CACHE_GAIN;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		alarm(60);
		o.budget_ns = clock_since_start(&clock_real) + 6 * NS_PER_S;
		_exit(tune_model(&o, &a, &r) >= 0 ? 1 : 2);
	}
	waitpid(pid, &status, 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
	if (status != 42 << 8)
		printf("the box ended with %x\n", status);
	FAKE_WAIT(said(OP_DONE));
	CHECK(said(OP_DONE) == 1 && fake.last[OP_DONE].trials > 0);
	end();
}

static volatile sig_atomic_t stop;

static void stop_now(int signal)
{
	(void)signal;
	stop = 1;
}

/* Whether a box may have kernels for another one to make decides whether honed gives the model another. */
static double promised(struct session *s)
{
	int before = said(OP_DONE);
	tune_say_done(s, NULL);
	FAKE_WAIT(said(OP_DONE) > before);
	return fake.last[OP_DONE].promise;
}

/* A box may be cut off while it builds the first kernel of a task: that one still lacks its kernel. */
TEST(a_box_that_had_no_kernel_of_a_task_does_not_know_its_promise)
{
	struct tune_report r = {0};
	struct job_task task[2] = {{.uses = 1}, {.uses = 1}};
	struct job_result result[2] = {
	    {.best = "lane=k:8", .best_ns = 1000, .trials = 5, .met = true, .works = true},
	    {.standard = "lane=k:8", .spent_ns = 1000}};
	struct tune_options o = {.threads = 1, .budget_ns = NS_PER_S, .cache = begin("cut")};
	struct session s = {
	    .o = &o, .report = &r, .clock = &clock_real, .ntasks = 2, .job = task, .result = result};
	REQUIRE_OK(tune_leash_open(&s));
	CHECK(promised(&s) < 0);
	result[1].trials = 1; /* it was built, but not timed */
	result[1].met = result[1].works = true;
	CHECK(promised(&s) < 0);
	result[1].works = false; /* it gives wrong answers, and the box ended before it tried others */
	CHECK(promised(&s) < 0);
	result[1].end = SEARCH_LATE;
	CHECK(promised(&s) < 0);
	result[1].end = SEARCH_EXHAUSTED;
	CHECK(promised(&s) == 0);
	result[1].end = SEARCH_FAILED;
	CHECK(promised(&s) == 0);
	leash_close(s.store.leash);
	end();
}

/* A boot box that is told to stop at its start has made no kernel, and must not say that none is missing. */
TEST(a_job_that_is_stopped_at_its_start)
{
	struct arena a = {0};
	struct tune_report r;
	struct tune_options o = {.model = steering(), .threads = 1, .seed = 1, .stop = &stop};
	int status = 0;
	o.cache = begin("start");
	fake.slow_ms = 300; /* before the peaks are measured */
	fflush(NULL);
	signal(SIGTERM, stop_now);
	pid_t pid = fork();
	if (pid == 0) {
		o.budget_ns = clock_since_start(&clock_real) + 8 * NS_PER_S;
		_exit(tune_model(&o, &a, &r) < 0 || !r.stopped);
	}
	FAKE_WAIT(said(OP_LEASE));
	kill(pid, SIGTERM);
	waitpid(pid, &status, 0);
	signal(SIGTERM, SIG_DFL);
	FAKE_WAIT(said(OP_DONE));
	CHECK(status == 0 && said(OP_DONE) == 1 && fake.last[OP_DONE].missing == 1);
	end();
}

static int find_nothing(void *ctx, const struct task *t, const char *text, struct arena *to, struct code *out,
			enum kernel_origin *origin)
{
	(void)ctx, (void)t, (void)text, (void)to, (void)out, (void)origin;
	return E_NOTFOUND;
}

/* Kernels are missing whether the network has been measured on fallback kernels or not. A task without any
 * schedule is never missing one. */
TEST(kernels_that_are_missing)
{
	static const struct kernel_source none = {.ctx = NULL, .find = find_nothing};
	struct arena a = {0};
	struct tune_report r = {0};
	const struct tune_options o = {.threads = 1};
	struct session s = {.o = &o, .a = &a, .report = &r, .clock = &clock_real};
	struct net n = {0};
	pthread_mutex_init(&s.late.mutex, NULL);
	REQUIRE_OK(target_host(&s.target));
	REQUIRE_OK(import_file(steering(), &(struct import_opts){0}, &s.model.graph));
	REQUIRE_OK(graph_steps(s.model.graph, &s.target, NULL, &a, &s.model.steps));
	REQUIRE((s.ntasks = steps_tasks(s.model.steps, &a, &s.task)) > 2);
	tune_rows_make(&s);
	int all = r.missing;
	CHECK(all == r.nkernels && all >= s.ntasks);
	REQUIRE_OK(net_open(&n, s.model.graph, s.model.steps, &s.target, &none, NULL, &clock_real, NULL));
	REQUIRE_OK(net_run_kernels(&n, &clock_real));
	tune_rows_after(&s, &n, false);
	CHECK(r.kernel[0].after_ns > 0 && r.missing == all);
	s.result = ARENA_ARRAY(&a, struct job_result, s.ntasks);
	strcpy(s.result[0].standard, "lane=k:8"); /* the only task that can have a kernel */
	tune_rows_after(&s, &n, false);
	CHECK(r.missing == 1);
	/* A record that was put after the last progress counts in the answer of a box that ends late. */
	tune_rows_make(&s);
	tune_publish(&s, 1);
	int first = 0;
	while (s.rows.task[first] < 0)
		first++;
	s.result[s.rows.task[first]].best_ns = 1000;
	r.kept++;
	CHECK(s.late.report.kept == 0 && s.late.report.kernel[first].after != FROM_CACHE);
	tune_publish_kept(&s);
	CHECK(s.late.report.kept == 1 && s.late.report.trials == 1);
	CHECK(s.late.report.kernel[first].after == FROM_CACHE);
	net_close(&n);
	graph_free(s.model.graph);
	pthread_mutex_destroy(&s.late.mutex);
	arena_free(&a);
}

/* Tainted runs are repeated; if all runs are tainted, the box still ends in time, with nothing measured. */
TEST(tainted_boxes)
{
	if (!worker())
		SKIP("no hone-worker");
	steering();
	const char *folder = begin("tainted");
	atomic_store(&fake.taint, "it is too hot");
	atomic_store(&fake.taints, 6);
	CHECK_RUN(0, "tune --json %s --budget 3s --threads 1", steering());
	json_t *j = parse_out();
	CHECK(number(j, "kept") > 0 && number(j, "after_ms") > 0 && atomic_load(&fake.taints) == 0);
	json_decref(j);
	int before = records(folder, CACHE_REC);
	atomic_store(&fake.taints, 1 << 30);
	CHECK_RUN(0, "tune --json %s --budget 1s --threads 1 --fresh", steering());
	j = parse_out();
	CHECK(number(j, "kept") == 0 && json_is_null(json_object_get(j, "after_ms")) &&
	      records(folder, CACHE_REC) == before);
	CHECK(number(j, "elapsed_s") < 3);
	json_decref(j);
	CHECK_SAYS(fake.why, "it is too hot"); /* honed is told why nothing was tried */
	end();
}

/* Waiting for a lease does not count as run time of the network. */
TEST(leases_that_are_slow)
{
	if (!worker())
		SKIP("no hone-worker");
	steering();
	begin("slow");
	fake.slow_quiet = 1; /* the lease under which the peaks are measured */
	fake.slow_ms = 700;
	CHECK_RUN(0, "tune --json %s --budget 4s --threads 1", steering());
	json_t *j = parse_out();
	CHECK(number(j, "before_ms") > 0 && number(j, "before_ms") < 500);
	json_decref(j);
	end();
}

/* A later run of the network as it is that begins too late is cut off. That is not the end of the box, which
 * has half of its time left for the search; the first run is then the time before. */
TEST(a_run_that_is_cut_off_does_not_end_the_box)
{
	if (!worker())
		SKIP("no hone-worker");
	steering();
	begin("cut-run");
	fake.slow_quiet = 2; /* for the peaks, and for the first run of the network */
	fake.slow_ms = 4100;
	fake.slow_once = true;
	CHECK_RUN(0, "tune --json %s --budget 8s --rigor estimate --threads 1", steering());
	FAKE_WAIT(said(OP_DONE));
	CHECK(fake.slow_ms == 0);
	json_t *j = parse_out();
	CHECK(number(j, "before_ms") > 0 && number(j, "trials") > 0 && number(j, "kept") > 0);
	json_decref(j);
	end();
}

/* honed dies: its lock and everything uncommitted is lost. */
static void die(struct fake_honed *f)
{
	cache_close(kept);
	kept = NULL;
	shutdown(f->listener, SHUT_RDWR);
	shutdown(f->fd, SHUT_RDWR);
	f->withholds = true;
}

/* Results that were put through honed are written again under the cache's own lock. */
TEST(a_box_outlives_honed)
{
	if (!worker())
		SKIP("no hone-worker");
	steering();
	const char *folder = begin("outlives");
	fake.on_commit = die;
	CHECK_RUN(0, "tune --json %s --budget 4s --threads 1", steering());
	CHECK_SAYS(cli_err, "this process writes it from now on");
	json_t *j = parse_out();
	CHECK(json_is_null(json_object_get(j, "warning")) && number(j, "after_ms") > 0);
	CHECK(said(OP_COMMIT) == 1 && said(OP_DONE) == 0);
	CHECK(records(folder, CACHE_REC) > 0 && records(folder, CACHE_HISTORY) == 1);
	json_decref(j);
	end();
	CHECK_RUN(0, "tune --json %s --rigor cached --threads 1 --cache %s", steering(), folder);
}

/* The first worker behind the socket is let go of while it starts. */
static int listener;

static void *let_in(void *ctx)
{
	bool first = true;
	char byte;
	for (int fd; (fd = accept(listener, NULL, NULL)) >= 0; first = false) {
		if (first)
			fake_say(&fake, "{\"event\":\"yield\"}\n");
		if (first)
			while (read(fd, &byte, 1) > 0)
				;
		if (first)
			fake_say(&fake, "{\"event\":\"go on\"}\n");
		else if (fork() == 0 && dup2(fd, 0) == 0 && dup2(fd, 1) == 1)
			execl(worker(), worker(), "--serve", (char *)NULL);
		close(fd);
	}
	return ctx;
}

TEST(a_worker_that_has_to_leave_at_its_start)
{
	if (!worker())
		SKIP("no hone-worker");
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	pthread_t thread;
	steering();
	begin("leaves");
	snprintf(a.sun_path, sizeof a.sun_path, "/tmp/hone-worker-%d.sock", (int)getpid());
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	REQUIRE(bind(listener, (struct sockaddr *)&a, sizeof a) == 0 && listen(listener, 8) == 0 &&
		pthread_create(&thread, NULL, let_in, NULL) == 0);
	setenv("HONE_WORKER_SOCKET", a.sun_path, 1);
	CHECK_RUN(0, "tune --json %s --budget 3s --threads 1", steering());
	json_t *j = parse_out();
	CHECK(number(j, "kept") > 0 && number(j, "after_ms") > 0);
	json_decref(j);
	unsetenv("HONE_WORKER_SOCKET");
	shutdown(listener, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(listener);
	unlink(a.sun_path);
	end();
}

/* The processors of --cpus are among those of the cluster of --device cpu:NAME that the process may use. */
TEST(kept_to_cpus_of_a_cluster)
{
	struct clusters c;
	cpu_set_t all, one;
	char cpu[2][TOPO_NAME];
	int first[2] = {-1, -1};
	topo_allowed(&all);
	topo_clusters("", &all, &c);
	for (int i = 0, n = 0; i < CPU_SETSIZE && n < 2; i++)
		if (CPU_ISSET(i, &c.of[0].cpus))
			snprintf(cpu[n], sizeof *cpu, "%d", first[n] = i), n++;
	if (first[1] < 0)
		SKIP("one processor");
	CPU_ZERO(&one);
	CPU_SET((size_t)first[1], &one);
	REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
	CHECK_RUN(2, "tune %s --device cpu:%s --cpus %s", steering(), c.of[0].name, cpu[0]);
	CHECK_SAYS(cli_err, "this process may use the processors ");
	CHECK_SAYS(cli_err, c.of[0].name);
	CHECK_RUN(2, "tune %s --device cpu:%s --cpus %s,%s", steering(), c.of[0].name, cpu[0], cpu[1]);
	CHECK_RUN(1, "tune %s --device cpu:%s --cpus %s --rigor cached --cache %s", steering(), c.of[0].name,
		  cpu[1], in_dir("none"));
	CHECK(sched_setaffinity(0, sizeof all, &all) == 0);
}

TEST(kept_to_cpus)
{
	CHECK_RUN(2, "tune %s --cpus 0-", steering());
	CHECK_SAYS(cli_err, "--cpus 0-");
	CHECK_RUN(2, "tune %s --cpus x", steering());
	CHECK_RUN(2, "tune %s --cpus 3-1", steering());
	CHECK_RUN(2, "tune %s --cpus 1,,2", steering());
	CHECK_RUN(2, "tune %s --cpus 1000", steering());
	CHECK_SAYS(cli_err, "this process may use the processor");
	CHECK_RUN(1, "tune --json %s --cpus 0 --rigor cached --cache %s", steering(), in_dir("none"));
}

TEST_MAIN
