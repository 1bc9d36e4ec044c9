/* SPDX-License-Identifier: Apache-2.0 */
/* The real honed and real jobs, in a folder of the test: results of jobs are in its cache, whoever starts
 * them, and stay there whatever is killed. */
#include "agent/cache/cache.h"
#include "agent/control/client.h"
#include "agent/cache/lookup.h"
#include "platform/base/log.h"
#include "tests/lib/cli_model.h"
#include "tests/lib/fake_cuda.h"
#include "tests/lib/maps.h"
#include "tests/lib/process.h"

#include <dlfcn.h>
#include <limits.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>

static pid_t honed_pid;

/* build/honed, beside the worker. */
static const char *honed_path(void)
{
	static char path[PATH_MAX];
	const char *w = worker();
	const char *slash = w ? strrchr(w, '/') : NULL;
	if (!slash)
		return NULL;
	snprintf(path, sizeof path, "%.*s/honed", (int)(slash - w), w);
	return file_exists(path) ? path : NULL;
}

static const char *at(const char *name)
{
	return in_dir(name);
}

static const char *slice = "4s"; /* of what is configured next */

static void configure(const char *models)
{
	struct buf b = {0};
	buf_printf(
	    &b,
	    "[honed]\ncache = %s\n[idle]\nsettle = 1s\nslice = %s\nload = 100%%\npressure = 100%%\nmemory = "
	    "1M\n[limits]\nwrites = 1G\n[inhibit]\nfile = %s\n%s",
	    at("kept"), slice, at("hold"), models);
	CHECK_OK(file_write(at("honed.conf"), b.p, b.n));
	buf_free(&b);
}

/* seeds: folders of seed layers, DIR:DIR. */
static void start_above(const char *seeds)
{
	char conf[256], run[256], state[256], board[256];
	snprintf(conf, sizeof conf, "%s", at("honed.conf"));
	snprintf(run, sizeof run, "%s", at("run"));
	snprintf(state, sizeof state, "%s", at("state"));
	snprintf(board, sizeof board, "%s", at("board"));
	CHECK_OK(file_mkdirs(run, 0755));
	CHECK_OK(file_mkdirs(state, 0755));
	CHECK_OK(file_mkdirs(board, 0755));
	setenv("HONE_SEEDS", seeds, 1);
	fflush(NULL);
	honed_pid = fork();
	if (honed_pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		redirect(2, at("honed.log"));
		execl(honed_path(), "honed", "--config", conf, "--run", run, "--state", state, "--sysroot",
		      board, NULL);
		_exit(127);
	}
	snprintf(run, sizeof run, "%s", at("run/honed.sock"));
	setenv("HONE_SOCKET", run, 1);
}

static void start(void)
{
	start_above("");
}

static json_t *status(void)
{
	struct client *c;
	const char *line;
	const struct request r = {.op = OP_STATUS};
	int64_t by_ns = clock_now(&clock_real) + 5 * NS_PER_S;
	json_t *j = NULL;
	if (client_open(NULL, by_ns, &c) < 0)
		return NULL;
	if (client_ask(c, &r, by_ns, &line) >= 0)
		j = json_loads(line, 0, NULL);
	client_close(c);
	return j;
}

static int64_t count(const char *key)
{
	json_t *j = status();
	int64_t n = j ? json_integer_value(json_object_get(j, key)) : -1;
	json_decref(j);
	return n;
}

static size_t jobs(void)
{
	json_t *j = status();
	size_t n = json_array_size(json_object_get(j, "jobs"));
	json_decref(j);
	return n;
}

/* Whether the status has the network's time while the first job runs. */
static bool first_slice_tells_the_time(void)
{
	json_t *j = status();
	const json_t *model = json_array_get(json_object_get(j, "models"), 0);
	const json_t *job = json_array_get(json_object_get(j, "jobs"), 0);
	bool is = json_integer_value(json_object_get(job, "job")) == 1 &&
		  json_number_value(json_object_get(model, "now_ms")) > 0;
	json_decref(j);
	return is;
}

/* Whether honed is still running. */
static bool lives(void)
{
	siginfo_t s = {0};
	return waitid(P_PID, (id_t)honed_pid, &s, WEXITED | WNOHANG | WNOWAIT) == 0 && !s.si_pid;
}

/* Waits until cond holds, for so long at most. */
#define WAIT_FOR(seconds, cond)                                                                              \
	do {                                                                                                 \
		for (int tries_ = 0; !(cond) && tries_ < 100 * (seconds) && lives(); tries_++)               \
			usleep(10000);                                                                       \
		REQUIRE(cond);                                                                               \
	} while (0)
#define WAIT(cond) WAIT_FOR(30, cond)

static void stop_with_signal(int sig)
{
	int how;
	kill(honed_pid, sig);
	waitpid(honed_pid, &how, 0);
	honed_pid = 0;
	if (sig == SIGTERM) /* nobody reads metrics of a honed that has ended */
		CHECK(access(at("run/metrics.prom"), F_OK) < 0);
}

static struct cache_state kept(void)
{
	struct cache *c;
	struct cache_state s = {0};
	CHECK_OK(cache_open(&c, at("kept"), true, 0));
	cache_state(c, &s);
	cache_close(c);
	return s;
}

/* Counts records; each that claims code must have it. */
static int count_rec(void *ctx, const struct rec *r)
{
	struct cache *c = ctx;
	return cache_has_code(c, NULL, r) ? 0 : fail(E_CORRUPT, "%s has no code", r->label);
}

static int whole(void)
{
	struct arena a = {0};
	struct cache *c;
	CHECK_OK(cache_open(&c, at("kept"), true, 0));
	int n = cache_each_rec(c, &a, count_rec, c);
	CHECK_OK(n);
	cache_close(c);
	arena_free(&a);
	return n;
}

/* Number of kernels in a report that come from the cache at its end. */
static int tuned(const json_t *report)
{
	size_t i;
	const json_t *k;
	int n = 0;
	json_array_foreach(json_object_get(report, "kernels"), i, k)
	{
		const char *after = json_string_value(json_object_get(k, "after"));
		n += after && strcmp(after, "fallback");
	}
	return n;
}

TEST(a_user_tunes_through_honed)
{
	if (!honed_path())
		SKIP("no honed");
	steering();
	configure("");
	start();
	WAIT(count("up_s") >= 0);
	CHECK_RUN(0, "tune -v --json %s --budget 3s --threads 1", steering());
	CHECK_SAYS(cli_err, "tuning through honed");
	json_t *j = parse_out();
	CHECK(json_is_null(json_object_get(j, "warning")));
	CHECK(!strcmp(json_string_value(json_object_get(j, "cache")), at("kept")));
	int had = tuned(j);
	json_decref(j);
	int n = whole();
	CHECK(n > 0);
	/* The kernels that the box ran at its end are still in the cache: nothing was lost. */
	(void)hone("tune --json --rigor cached --threads 1 %s", steering());
	j = parse_out();
	CHECK(had > 0 && tuned(j) == had);
	json_decref(j);
	/* On a busy machine some kernels may still be missing: this command makes them. */
	CHECK_RUN(0, "tune --rigor estimate --threads 1 --budget 30s %s", steering());
	CHECK_RUN(0, "tune --rigor cached --threads 1 %s", steering());
	n = whole();
	/* 1: on a busy machine it may have had no time to try a kernel */
	int status = hone("tune --json --threads 1 --budget 1s --cache %s %s", at("other"), steering());
	CHECK(status == 0 || (status == 1 && out_number("trials") == 0));
	CHECK(whole() == n); /* that command used another cache */
	stop_with_signal(SIGTERM);
	CHECK(whole() == n);
}

/* Whether a command's output in a file says that its box was stopped. */
static bool was_stopped(const char *path)
{
	slurp(path, cli_out, sizeof cli_out);
	CHECK_SAYS(cli_out, " of 6.0 s, rigor");
	return strstr(cli_out, "(stopped)");
}

/* honed ends in the middle, killed or told to stop: acknowledged records are still there, and the user's box
 * goes on. */
static void ends_under_a_users_box(int sig)
{
	steering();
	configure("");
	start();
	WAIT(count("up_s") >= 0);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		char words[512];
		snprintf(words, sizeof words, "tune --threads 1 --budget 6s --fresh %s", steering());
		_exit(hone_to(at("out"), words));
	}
	int64_t generation = count("generation");
	WAIT(count("generation") > generation + 2);
	struct cache_state before = kept();
	stop_with_signal(sig);
	struct cache_state after = kept();
	CHECK(after.generation >= before.generation && after.count[CACHE_REC] >= before.count[CACHE_REC]);
	int how;
	waitpid(pid, &how, 0);
	CHECK(WIFEXITED(how) && WEXITSTATUS(how) == 0 && !was_stopped(at("out")));
	CHECK(kept().generation > after.generation && whole() >= before.count[CACHE_REC]);
}

TEST(honed_dies_under_a_users_box)
{
	if (!honed_path())
		SKIP("no honed");
	ends_under_a_users_box(SIGKILL);
}

TEST(honed_is_stopped_under_a_users_box)
{
	if (!honed_path())
		SKIP("no honed");
	ends_under_a_users_box(SIGTERM);
}

/* honed is killed in the middle of its own slice, with its job, twice: the next one continues from there. */
TEST(honed_dies_under_its_own_job)
{
	if (!honed_path())
		SKIP("no honed");
	char models[512];
	snprintf(models, sizeof models, "[model steering]\npath = %s\nthreads = 1\n", steering());
	configure(models);
	uint64_t generation = 0;
	int records = 0;
	for (int i = 0; i < 2; i++) {
		start();
		WAIT(first_slice_tells_the_time());
		WAIT(jobs() == 1 && (uint64_t)count("generation") > generation);
		usleep((useconds_t)(100000 * i));
		struct cache_state before = kept();
		stop_with_signal(SIGKILL);
		struct cache_state after = kept();
		CHECK(after.generation >= before.generation && before.generation > generation);
		CHECK(after.count[CACHE_REC] >= before.count[CACHE_REC] && whole() >= records);
		generation = after.generation;
		records = after.count[CACHE_REC];
	}
	start();
	CHECK_RUN(0, "wait --ready --timeout 60s");
	stop_with_signal(SIGTERM);
	CHECK_RUN(0, "tune --rigor cached --threads 1 --cache %s %s", at("kept"), steering());
}

/* Whether the first model's error has the text. */
static bool error_says(const char *text)
{
	json_t *j = status();
	const char *error =
	    json_string_value(json_object_get(json_array_get(json_object_get(j, "models"), 0), "error"));
	bool is = error && strstr(error, text);
	json_decref(j);
	return is;
}

/* honed --check names all of these models, with the line of honed.conf that each lacks. */
static void checks_models(const char *free)
{
	char models[2048], cmd[4096], tflite[256];
	snprintf(tflite, sizeof tflite, "%s", at("other.tflite"));
	CHECK_OK(file_write(tflite, "\x1c\0\0\0TFL3\0\0\0\0\0\0\0\0", 16));
	snprintf(models, sizeof models, "%s[model lite]\npath = %s\n[model good]\npath = %s\n", free, tflite,
		 steering());
	configure(models);
	snprintf(cmd, sizeof cmd, "%s --check --config %s >%s 2>&1", honed_path(), at("honed.conf"),
		 at("said"));
	CHECK(system(cmd) != 0);
	slurp(at("said"), cli_out, sizeof cli_out);
	CHECK_SAYS(cli_out, ": model free: ");
	CHECK_SAYS(cli_out, "for example in honed.conf: shape = ");
	CHECK_SAYS(cli_out, ": model lite: ");
	CHECK_SAYS(cli_out, "TensorFlow Lite");
	CHECK(!strstr(cli_out, "model good"));
	snprintf(models, sizeof models, "%sshape = h=32,w=32\n", free); /* two names in one line */
	configure(models);
	CHECK(system(cmd) != 0);
	slurp(at("said"), cli_out, sizeof cli_out);
	CHECK_SAYS(cli_out,
		   "give each name an option of its own: in honed.conf: shape = h=32 and shape = w=32");
}

static void ask_for_job(const char *model, const char *shapes)
{
	struct client *c;
	const char *line;
	struct request r = {.op = OP_TUNE, .ms = 2000, .now = true};
	int64_t by_ns = clock_now(&clock_real) + 5 * NS_PER_S;
	snprintf(r.model, sizeof r.model, "%s", model);
	snprintf(r.shapes, sizeof r.shapes, "%s", shapes);
	REQUIRE_OK(client_open(NULL, by_ns, &c));
	CHECK_OK(client_ask(c, &r, by_ns, &line));
	client_close(c);
}

static bool log_says(const char *text)
{
	slurp(at("honed.log"), cli_out, sizeof cli_out);
	return strstr(cli_out, text) != NULL;
}

/* The error shows the line for honed.conf, not an option, and that line is what the model lacks. */
TEST(a_model_with_free_sizes_needs_a_line)
{
	if (!honed_path())
		SKIP("no honed");
	struct onnx_maker k;
	char models[512], model[256];
	snprintf(model, sizeof model, "%s", at("free.onnx"));
	mk_start(&k, 17, 4);
	mk_input(&k, "camera's", 1, "1 3 h w");
	mk_node(&k, "Relu", "camera's", "y");
	mk_output(&k, "y");
	struct blob b = mk_bytes(&k);
	CHECK_OK(file_write(model, b.p, b.n));
	arena_free(&k.a);
	snprintf(models, sizeof models, "[model free]\npath = %s\nthreads = 1\n", model);
	configure(models);
	checks_models(models);
	configure(models);
	start();
	WAIT(error_says("for example in honed.conf: shape = camera's=1x3x224x224"));
	CHECK(!error_says("--shape"));
	strcat(models, "shape = camera's=1x3x224x224\n");
	configure(models);
	kill(honed_pid, SIGHUP);
	CHECK_RUN(0, "wait --ready --timeout 60s");
	CHECK(!error_says(""));
	/* A job's sizes may come from options of hone tune --background, too. */
	ask_for_job(model, "h=32");
	WAIT(log_says("with --shape, or in honed.conf: shape = camera's=1x3x32x224"));
	stop_with_signal(SIGTERM);
	/* On the command line it is an option, quoted for the shell. */
	CHECK_RUN(2, "tune --threads 1 --budget 1s --cache %s %s", at("kept"), model);
	CHECK_SAYS(cli_err, "for example --shape 'camera'\\''s'=1x3x224x224");
}

/* Models that hone fails on, and whether only their file or honed.conf can mend that. */
static const struct {
	const char *name, *says;
	bool lasting;
} unfit[] = {{"damaged", "the file is damaged", true},
	     {"free", "in honed.conf: shape = x=", true},
	     {"fly", "the operator is not supported", true},
	     {"away", "opencl:63", false}};
enum { UNFIT = sizeof unfit / sizeof *unfit };

static bool has_failed(int i, bool lasting)
{
	json_t *j = status();
	const json_t *m = json_array_get(json_object_get(j, "models"), (size_t)i);
	const char *state = json_string_value(json_object_get(m, "state"));
	const char *error = json_string_value(json_object_get(m, "error"));
	bool is = state && !strcmp(state, "failed") && error && strstr(error, unfit[i].says) &&
		  json_is_true(json_object_get(m, "lasting")) == lasting &&
		  json_is_null(json_object_get(m, "next_s")) == lasting;
	json_decref(j);
	return is;
}

static int count_words(const char *file, const char *words)
{
	int n = 0;
	slurp(file, cli_out, sizeof cli_out);
	for (const char *p = cli_out; (p = strstr(p, words)); p++)
		n++;
	return n;
}

/* honed does not try such a model again until its file is another one. */
TEST(a_file_that_cannot_be_used_is_not_tried_again)
{
	if (!honed_path())
		SKIP("no honed");
	struct buf b = {0};
	char damaged[256], cmd[2048];
	snprintf(damaged, sizeof damaged, "%s", at("damaged.onnx"));
	CHECK_OK(file_write(damaged, "\x08\x08:\xff\xff\x7f rest", 10));
	buf_printf(&b, "[model damaged]\npath = %s\nthreads = 1\n", damaged);
	buf_printf(&b, "[model free]\npath = %s\nthreads = 1\n", one_node("free2.onnx", "Relu", "1 3 h w"));
	buf_printf(&b, "[model fly]\npath = %s\nthreads = 1\n", one_node("fly.onnx", "Fly", "1 3 8 8"));
	buf_printf(&b, "[model away]\npath = %s\ndevice = opencl:63\n",
		   one_node("away.onnx", "Relu", "1 3 8 8"));
	configure(buf_str(&b));
	buf_free(&b);
	start();
	for (int i = 0; i < UNFIT; i++)
		WAIT(has_failed(i, unfit[i].lasting));
	for (int i = 0; i < 3; i++) /* said by the start and by the job */
		WAIT(count_words(at("honed.log"), unfit[i].says) == 2);
	CHECK_RUN(0, "status --cache %s", at("kept"));
	CHECK_SAYS(cli_out, "honed tries again when the file has changed, or after systemctl reload honed");
	/* The good file is there; the others have not changed. */
	snprintf(cmd, sizeof cmd, "cp %s %s.new && mv %s.new %s", steering(), damaged, damaged, damaged);
	CHECK(system(cmd) == 0);
	WAIT(!has_failed(0, true));
	for (int i = 1; i < 3; i++)
		CHECK(has_failed(i, true));
	(void)hone("wait --ready --timeout 1s"); /* of the others it says why */
	CHECK_SAYS(cli_err, "shape = x=");
	CHECK(!strstr(cli_err, "damaged on cpu is failed"));
	CHECK(!strstr(cli_err, "see `hone tune")); /* honed's user has not called that */
	stop_with_signal(SIGTERM);
	for (int i = 0; i < 3; i++)
		CHECK(count_words(at("honed.log"), unfit[i].says) == 2);
}

/* Whether the status has the text. */
static bool status_says(const char *text)
{
	json_t *j = status();
	char *line = json_dumps(j, JSON_COMPACT);
	bool is = line && strstr(line, text);
	free(line);
	json_decref(j);
	return is;
}

/* A full file system, in a namespace of this process: honed says so and searches nothing until there is room.
 */
TEST(a_full_disk)
{
	if (!honed_path())
		SKIP("no honed");
	char path[256], models[512];
	snprintf(path, sizeof path, "%s", at("kept"));
	snprintf(models, sizeof models, "rm -rf %s %s", path, at("state"));
	CHECK(system(models) == 0 && mkdir(path, 0755) == 0);
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", path, "tmpfs", 0, "size=128k") < 0)
		SKIP("no file system can be mounted here");
	snprintf(models, sizeof models, "[model steering]\npath = %s\nthreads = 1\n", steering());
	configure(models);
	start();
	/* no job is started that could keep nothing */
	WAIT(status_says("\"verdict\":\"waits to tune: cache "));
	CHECK(jobs() == 0 && !error_says(""));
	CHECK(status_says("No space left on device") && count("generation") == 0);
	slurp(at("run/metrics.prom"), cli_out, sizeof cli_out);
	CHECK(!strstr(cli_out, "hone_trials_total") || strstr(cli_out, "hone_trials_total 0\n"));
	sleep(2);
	CHECK(jobs() == 0);
	CHECK(mount("tmpfs", path, NULL, MS_REMOUNT, "size=64m") == 0);
	kill(honed_pid, SIGHUP); /* else honed tries it again a minute after the failure */
	WAIT(status_says("\"warning\":null"));
	/* a kernel that a busy machine could not make in time is tried again a minute later */
	CHECK_RUN(0, "wait --ready --timeout 200s");
	CHECK(count("generation") > 0 && !error_says(""));
	stop_with_signal(SIGTERM);
	CHECK(umount(path) == 0);
}

static pid_t job_pid(void)
{
	json_t *j = status();
	pid_t pid =
	    (pid_t)json_integer_value(json_object_get(json_array_get(json_object_get(j, "jobs"), 0), "pid"));
	json_decref(j);
	return pid;
}

/* Starts honed without results of other tests, with slices of so long. */
static void start_anew(const char *length)
{
	char models[512], text[256];
	snprintf(text, sizeof text, "rm -rf %s %s %s", at("kept"), at("state"), at("honed.log"));
	REQUIRE(system(text) == 0);
	snprintf(models, sizeof models, "[model steering]\npath = %s\nthreads = 1\n", steering());
	slice = length;
	configure(models);
	slice = "4s";
	start();
}

/* A job that a signal ends is an error of its model, with the signal; the next slice is begun all the same,
 * and ends the error. */
TEST(a_job_that_a_signal_ends)
{
	static const int signals[] = {SIGSEGV, SIGKILL};
	static const char *const words[] = {"hone tune was killed by signal 11 (Segmentation fault)",
					    "hone tune was killed by signal 9 (Killed)"};
	if (!honed_path())
		SKIP("no honed");
	for (int i = 0; i < 2; i++) {
		char line[256];
		start_anew("4s");
		WAIT(job_pid() > 0);
		kill(job_pid(), signals[i]);
		WAIT(error_says(words[i]));
		snprintf(line, sizeof line, "model steering: %s; honed tries again in 10 s", words[i]);
		CHECK(log_says(line) && jobs() == 0 && !status_says("\"ready\":true"));
		if (i)
			WAIT(!error_says(""));
		stop_with_signal(SIGTERM);
	}
}

/* Takes the machine for itself, as a job that measures. */
static void take_machine(int64_t by_ns, struct client **out)
{
	struct client *c;
	const char *line;
	struct request r = {.op = OP_JOB, .threads = 1, .job = (int64_t)getpid()};
	snprintf(r.model, sizeof r.model, "/other.onnx");
	REQUIRE_OK(client_open(NULL, by_ns, &c));
	REQUIRE_OK(client_ask(c, &r, by_ns, &line));
	r = (struct request){.op = OP_LEASE, .lease = LEASE_QUIET};
	REQUIRE_OK(client_ask(c, &r, by_ns, &line));
	*out = c;
}

/* While another job has the machine for itself, the budget of a job ends before its first measurement: the
 * status and the log say so, and that is no failure. */
TEST(a_budget_that_ends_before_its_first_measurement)
{
	if (!honed_path())
		SKIP("no honed");
	start_anew("3s");
	WAIT(count("up_s") >= 0);
	struct client *c = NULL;
	take_machine(clock_now(&clock_real) + 10 * NS_PER_S, &c);
	REQUIRE(c);
	WAIT(job_pid() > 0);
	sleep(4);
	CHECK(!error_says("") && jobs() == 2);
	client_close(c);
	for (int i = 0; i < 1000 && !error_says("nothing was tried: "); i++)
		usleep(10000);
	if (!log_says("nothing was tried: its budget ended before")) {
		printf("honed.log: %s", cli_out);
		test_bad = 1;
	}
	CHECK(error_says("nothing was tried: its budget ended before"));
	CHECK(log_says("steering: the network was not measured, 0 candidates tried; nothing was tried: "));
	CHECK(!log_says("honed tries again"));
	stop_with_signal(SIGTERM);
}

/* A job that is stopped again and again at any moment still ends, and no candidate is called hung or crashed
 * because of that. */
TEST(a_job_that_yields)
{
	if (!honed_path())
		SKIP("no honed");
	char models[512];
	snprintf(models, sizeof models, "[model steering]\npath = %s\nthreads = 1\n", steering());
	char drop[256];
	snprintf(drop, sizeof drop, "rm -rf %s %s", at("kept"), at("state"));
	CHECK(system(drop) == 0);
	configure(models);
	start();
	WAIT(jobs() == 1);
	for (int i = 0; i < 4; i++) {
		WAIT(jobs() == 0 || (job_pid() > 0 && state_of(job_pid()) != 'T'));
		if (jobs() == 0) /* its slice is over */
			break;
		usleep((useconds_t)(250000 + 37000 * i));
		CHECK_OK(file_write(at("hold"), "testing", 7));
		pid_t pid = job_pid();
		WAIT(!pid || state_of(pid) == 'T' || state_of(pid) == '?');
		usleep(300000);
		CHECK(unlink(at("hold")) == 0);
	}
	CHECK(count("yields") >= 1);
	CHECK_RUN(0, "wait --ready --timeout 60s");
	stop_with_signal(SIGTERM);
	CHECK_RUN(0, "explain --threads 1 --cache %s %s", at("kept"), steering());
	CHECK(!strstr(cli_out, "timeout") && !strstr(cli_out, "crash"));
}

/* Jobs tune a model at the level of its section; what they keep serves that level and not the default one. A
 * recipe for int8 is there before, as a user makes it. */
TEST(models_are_tuned_at_their_level)
{
	static const char *const levels[] = {"half", "int8"};
	if (!honed_path())
		SKIP("no honed");
	char models[512];
	snprintf(models, sizeof models, "rm -rf %s", at("kept")); /* of other tests */
	REQUIRE(system(models) == 0);
	snprintf(models, sizeof models, "[model half]\npath = %s\nthreads = 1\nlevel = half\n", steering());
	configure(models);
	start();
	CHECK_RUN(0, "wait --ready --timeout 60s");
	CHECK_RUN(1, "tune --rigor cached --threads 1 --cache %s %s", at("kept"), steering());
	CHECK_RUN(0, "tune --level int8 --data random --threads 1 --budget 3s %s", steering());
	snprintf(models, sizeof models, "[model int8]\npath = %s\nthreads = 1\nlevel = int8\n", steering());
	configure(models);
	kill(honed_pid, SIGHUP);
	CHECK_RUN(0, "wait --ready --timeout 60s");
	for (int i = 0; i < 2; i++)
		CHECK_RUN(0, "tune --rigor cached --level %s --threads 1 --cache %s %s", levels[i],
			  at("kept"), steering());
	stop_with_signal(SIGTERM);
}

/* A pack in a seed layer has the recipe, without any kernel: honed tunes the model at int8, and no examples
 * are given on this board. */
TEST(a_seed_brings_a_recipe)
{
	if (!honed_path())
		SKIP("no honed");
	char text[512], seeds[256];
	int tries = 600;
	snprintf(text, sizeof text, "rm -rf %s %s", at("kept"), at("made"));
	REQUIRE(system(text) == 0);
	snprintf(seeds, sizeof seeds, "%s", at("seeds"));
	REQUIRE_OK(file_mkdirs(seeds, 0755));
	CHECK_RUN(0,
		  "tune --level int8 --data random --threads 1 --rigor estimate --budget 60s --cache %s %s",
		  at("made"), steering());
	CHECK_RUN(0, "export -o %s --cache %s", at("all"), at("made"));
	snprintf(text, sizeof text, "grep '\"recipe\"' %s >%s.jsonl", at("all"), at("all"));
	REQUIRE(system(text) == 0);
	CHECK_RUN(0, "import %s.jsonl --recipes --cache %s", at("all"), at("recipes"));
	CHECK_RUN(0, "pack -o %s/models.seg --json --cache %s", seeds, at("recipes"));
	CHECK(out_number("records") == 1);
	snprintf(text, sizeof text, "[model int8]\npath = %s\nthreads = 1\nlevel = int8\n", steering());
	configure(text);
	start_above(seeds);
	CHECK_RUN(0, "wait --ready --timeout 60s");
	/* On a busy machine the first slice may find no kernel. */
	do
		CHECK_RUN(0, "show --json --cache %s", at("kept"));
	while (!strstr(cli_out, "\"level\":\"int8\"") && tries-- > 0 && usleep(100000) == 0);
	stop_with_signal(SIGTERM);
	CHECK_RUN(0, "bench %s --level int8 --runs 2 --threads 1 --cache %s", steering(), at("kept"));
	CHECK_RUN(0, "show --json --cache %s", at("kept"));
	CHECK_SAYS(cli_out, "\"level\":\"int8\"");
	setenv("HONE_SEEDS", "", 1);
	CHECK_RUN(1, "bench %s --level int8 --runs 2 --threads 1 --cache %s", steering(), at("kept"));
	CHECK_SAYS(cli_err, "level int8 needs examples of inputs");
}

/* honed --check notes a model that no job can quantise, and what gives it its recipe; with it, nothing. */
TEST(check_notes_missing_recipes)
{
	if (!honed_path())
		SKIP("no honed");
	char text[1024], run[900], want[700];
	setenv("HONE_SEEDS", "", 1);
	snprintf(text, sizeof text, "rm -rf %s", at("kept"));
	REQUIRE(system(text) == 0);
	snprintf(run, sizeof run, "%s --check --config %s", honed_path(), at("honed.conf"));
	snprintf(run + strlen(run), sizeof run - strlen(run), " >%s 2>&1", at("log"));
	for (int k = 0; k < 4; k++) { /* no folder; a cache without recipes; with one; a wrong shape */
		snprintf(text, sizeof text, "[model int8]\npath = %s\nlevel = int8\n%s", steering(),
			 k == 3 ? "shape = nix=1x3\n" : "");
		configure(text);
		if (k == 1)
			CHECK_RUN(0, KERNELS_ONCE, steering(), "", at("kept"));
		if (k == 2)
			CHECK_RUN(0,
				  "tune --level int8 --data random --threads 1 --rigor estimate --budget 5s "
				  "--cache %s %s",
				  at("kept"), steering());
		CHECK((system(run) == 0) == (k < 3));
		slurp(at("log"), cli_out, sizeof cli_out);
		snprintf(want, sizeof want, "hone tune %s --level int8 --data DIR --cache %s", steering(),
			 at("kept"));
		CHECK(!strstr(cli_out, want) == (k >= 2));
		CHECK(!strstr(cli_out, "--help"));
		if (k == 3)
			CHECK_SAYS(cli_out, "model int8: ");
	}
	/* The recipe of the user's own cache is not honed's. */
	char user[256];
	snprintf(user, sizeof user, "%s", at("user"));
	snprintf(text, sizeof text, "mkdir -p %s && mv %s %s/hone", user, at("kept"), user);
	REQUIRE(system(text) == 0);
	snprintf(text, sizeof text, "[model int8]\npath = %s\nlevel = int8\n", steering());
	configure(text);
	setenv("XDG_CACHE_HOME", user, 1);
	CHECK(system(run) == 0);
	unsetenv("XDG_CACHE_HOME");
	slurp(at("log"), cli_out, sizeof cli_out);
	CHECK_SAYS(cli_out, "level int8 needs examples of inputs");
}

/* Records of the machine's two fake devices. */
static int count_device(void *ctx, const struct rec *r)
{
	int *of = ctx;
	of[0] += !strcmp(r->device, "cuda") && strstr(r->target, "Fake_C1");
	of[1] += !strcmp(r->device, "cuda") && strstr(r->target, "Fake_C2");
	return 0;
}

static bool both_have_kernels(void)
{
	struct arena a = {0};
	struct cache *c;
	int of[2] = {0};
	if (cache_open(&c, at("kept"), true, 0) < 0)
		return false;
	bool good = cache_each_rec(c, &a, count_device, of) >= 0;
	cache_close(c);
	arena_free(&a);
	return good && of[0] && of[1];
}

/* A model for two devices of CUDA: honed, which maps no driver, tunes it for both. */
TEST(a_model_is_tuned_for_two_devices)
{
	static float w[16];
	struct onnx_maker k;
	char models[512], folder[600];
	if (!honed_path())
		SKIP("no honed");
	snprintf(folder, sizeof folder, "%s", fake_cuda());
	*strrchr(folder, '/') = 0;
	setenv("LD_LIBRARY_PATH", folder, 1);
	cuda_lie("devices 2");
	for (int i = 0; i < 16; i++)
		w[i] = (float)(i % 5 - 2);
	mk_start(&k, 13, 8);
	mk_input(&k, "x", 1, "1 4 6 6");
	mk_init(&k, "W", 1, "4 4 1 1", w, sizeof w);
	mk_node(&k, "Conv", "x W", "y");
	mk_output(&k, "y");
	snprintf(models, sizeof models, "[model small]\npath = %s\nthreads = 1\ndevice = cuda:0 cuda:1\n",
		 write_model(&k, "small.onnx"));
	/* On a busy machine the gate may have to settle again and again, and a slice of a slow fake device
	 * may end before its first kernel, after which honed pauses. */
	slice = "20s";
	configure(models);
	slice = "4s";
	start();
	WAIT_FOR(240, both_have_kernels());
	CHECK(!maps_driver(honed_pid));
	stop_with_signal(SIGTERM);
	CHECK(dlopen(fake_cuda(), RTLD_NOW)); /* commands find it by its name */
	for (int i = 0; i < 2; i++)
		CHECK_RUN(0, "bench --runs 1 --require-cache --device cuda:%d --cache %s %s", i, at("kept"),
			  at("small.onnx"));
	unsetenv("LD_LIBRARY_PATH");
	cuda_lie("");
}

TEST_MAIN
