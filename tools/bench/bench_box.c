/* SPDX-License-Identifier: Apache-2.0 */
/* Do boxes end in time? Runs `hone tune` on networks of the zoo with different seeds, each in a box that
 * counts from the start of its process, and interrupts every fourth one at some moment. The benchmark fails
 * if a box ends more than 100 ms late, if an interrupted one takes more than a second or leaves nothing in
 * its cache, and on any other failure.
 *
 *	make bench-box                      20 boxes of 20 s
 *	make bench-box ARGS="4 5s mlp.onnx" 4 boxes of 5 s of the given models
 *
 * Overruns of short boxes, of 100 ms to 2 s, on one core: first alone, then while another process takes half
 *of that core. Every second box finds the cache of the ones before. The benchmark fails if more than 1 % of
 *the boxes end more than 20 ms (100 ms) late, or if one fails for another reason than being too short.
 *
 *	make bench-boxes                    2 times 200 boxes of networks of the zoo
 *	make bench-boxes ARGS="40 a.onnx"   2 times 40 boxes of the given models; `taskset -c 1 make` takes
 *core 1 */
#include "agent/cache/cache.h"
#include "platform/base/clock.h"
#include "platform/base/rng.h"
#include "tools/bench/one_core.h"

#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LATE_NS (100 * NS_PER_MS)

static const char *const networks[] = {"mobilenet_v2", "squeezenet1_1", "steering", "resnet18", "vit_tiny"};
enum { NNETWORKS = sizeof networks / sizeof *networks };

struct box_run {
	const char *model, *cache; /* cache NULL: an empty one */
	int seed;
	int64_t budget_ns, interrupt_ns; /* interrupt_ns 0: not interrupted */
	bool mute;                       /* boxes that are too short for their model do not say so */
};

struct outcome {
	int status; /* of the process */
	int64_t elapsed_ns, after_signal_ns;
	int records;
	bool measured; /* the network was measured after the search */
};

/* Standard output goes to `out`. */
static pid_t start(const char *hone, const struct box_run *b, const char *cache, const char *out)
{
	char budget[32], seed[16];
	snprintf(budget, sizeof budget, "%lldms", (long long)(b->budget_ns / NS_PER_MS));
	snprintf(seed, sizeof seed, "%d", b->seed);
	pid_t pid = fork();
	if (pid)
		return pid;
	int to = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (to >= 0)
		dup2(to, 1);
	if (to >= 0 && b->mute)
		dup2(to, 2);
	execl(hone, hone, "tune", b->model, "--budget", budget, "--seed", seed, "--cache", cache, "-q",
	      "--json", (char *)NULL);
	_exit(127);
}

static int count(void *ctx, const struct rec *r)
{
	*(int *)ctx += r->meas.status == MEAS_OK;
	return 0;
}

static int records_in(const char *dir)
{
	struct arena a = {0};
	struct cache *c;
	int n = 0;
	if (cache_open(&c, dir, true, 0) < 0)
		return 0;
	if (cache_each_rec(c, &a, count, &n) < 0)
		n = 0;
	cache_close(c);
	arena_free(&a);
	return n;
}

static bool was_measured(const char *report)
{
	json_t *j = json_load_file(report, 0, NULL);
	bool measured = json_is_number(json_object_get(j, "after_ms"));
	json_decref(j);
	return measured;
}

static void remove_folder(const char *dir)
{
	char cmd[64];
	snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
	if (system(cmd) != 0)
		fprintf(stderr, "cannot remove %s\n", dir);
}

static struct outcome run(const char *hone, const struct box_run *b)
{
	char dir[] = "/tmp/hone-box-XXXXXX", cache[64], out[64];
	struct outcome o = {.status = -1};
	if (!mkdtemp(dir))
		return o;
	snprintf(cache, sizeof cache, "%s/cache", dir);
	snprintf(out, sizeof out, "%s/report", dir);
	int64_t start_ns = clock_now(&clock_real), signal_ns = 0;
	pid_t pid = start(hone, b, b->cache ? b->cache : cache, out);
	if (b->interrupt_ns) {
		clock_real.sleep(&clock_real, b->interrupt_ns);
		signal_ns = clock_now(&clock_real);
		kill(pid, SIGINT);
	}
	waitpid(pid, &o.status, 0);
	int64_t end_ns = clock_now(&clock_real);
	o.elapsed_ns = end_ns - start_ns;
	o.after_signal_ns = signal_ns ? end_ns - signal_ns : 0;
	o.records = records_in(b->cache ? b->cache : cache);
	o.measured = was_measured(out);
	remove_folder(dir);
	return o;
}

static const char *fault(const struct box_run *b, const struct outcome *o)
{
	if (!WIFEXITED(o->status) || WEXITSTATUS(o->status) > 1 ||
	    (!b->interrupt_ns && WEXITSTATUS(o->status)))
		return "FAILED";
	if (o->elapsed_ns > b->budget_ns + LATE_NS)
		return "LATE";
	if (b->interrupt_ns && o->after_signal_ns > NS_PER_S)
		return "SLOW TO STOP";
	if (!o->records)
		return "NOTHING SAVED";
	return NULL;
}

static int64_t parse_seconds(const char *s)
{
	return (int64_t)(atof(s) * (double)NS_PER_S);
}

/* The model of box i: one from the command line, else one of the zoo, which is written to `path`. */
static const char *model_of(int argc, char **argv, int i, const char *hone, const char *dir, char *path,
			    size_t n)
{
	char cmd[2 * PATH_MAX + 64];
	if (argc > 3)
		return argv[3 + i % (argc - 3)];
	const char *name = networks[i % NNETWORKS];
	snprintf(path, n, "%s/%s.onnx", dir, name);
	if (access(path, R_OK) == 0)
		return path;
	snprintf(cmd, sizeof cmd, "%s -q zoo %s -o %s", hone, name, path);
	if (system(cmd) != 0)
		fprintf(stderr, "cannot write %s\n", path);
	return path;
}

static const int budgets_ms[] = {100, 200, 500, 1000, 2000};
enum { BUDGETS = sizeof budgets_ms / sizeof *budgets_ms, MOST_BOXES = 10000 };

struct overruns {
	int n, failed, too_short, measured[BUDGETS], boxes[BUDGETS];
	int64_t ns[MOST_BOXES];
};

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

static double percentile_ms(const struct overruns *o, double share)
{
	int at = (int)(share * o->n);
	return o->n ? (double)o->ns[at < o->n ? at : o->n - 1] / 1e6 : 0;
}

/* Exit status 1 without a report: the box was too short to read the model. */
static void add(struct overruns *o, int budget, const struct box_run *b, const struct outcome *r)
{
	bool ended = WIFEXITED(r->status) && WEXITSTATUS(r->status) <= 1;
	bool too_short = ended && WEXITSTATUS(r->status) == 1;
	int64_t over_ns = r->elapsed_ns - b->budget_ns;
	o->ns[o->n++] = over_ns;
	o->failed += !ended || (too_short && b->budget_ns > NS_PER_S);
	o->too_short += too_short;
	o->boxes[budget]++;
	o->measured[budget] += r->measured;
	if (!ended || over_ns > 20 * NS_PER_MS)
		printf("  %s, box of %d ms: %.1f ms late, status %d\n", b->model, budgets_ms[budget],
		       (double)over_ns / 1e6, r->status);
}

/* A process that takes half of the core to which this one is bound. */
static pid_t start_competitor(void)
{
	pid_t pid = fork();
	if (pid == 0)
		for (volatile unsigned i = 0;; i++)
			;
	return pid;
}

static void print_state(void)
{
	char load[64] = "", stat[128] = "";
	FILE *f = fopen("/proc/loadavg", "r");
	if (f && fgets(load, sizeof load, f))
		load[strcspn(load, "\n")] = 0;
	if (f)
		fclose(f);
	f = fopen("/proc/stat", "r");
	long long steal = 0;
	if (f && fgets(stat, sizeof stat, f))
		(void)!sscanf(stat, "cpu %*s %*s %*s %*s %*s %*s %*s %lld", &steal);
	if (f)
		fclose(f);
	printf("  state: %ld processors, core %d, load %s, %lld ticks stolen so far\n",
	       sysconf(_SC_NPROCESSORS_ONLN), sched_getcpu(), load, steal);
}

/* Returns whether 99 % of the boxes ended in time. */
static bool print_overruns(const char *what, struct overruns *o, int64_t most_ns)
{
	qsort(o->ns, (size_t)o->n, sizeof *o->ns, by_value);
	printf("%s: %d boxes, %d too short to read the model, %d failed; overrun in ms: median %.1f, 90 %% "
	       "%.1f, "
	       "99 %% %.1f, most %.1f\n",
	       what, o->n, o->too_short, o->failed, percentile_ms(o, 0.5), percentile_ms(o, 0.9),
	       percentile_ms(o, 0.99), percentile_ms(o, 1));
	printf("  measured again after the search:");
	for (int i = 0; i < BUDGETS; i++)
		printf(" %d of %d in %d ms%s", o->measured[i], o->boxes[i], budgets_ms[i],
		       i + 1 < BUDGETS ? "," : "\n");
	print_state();
	return !o->failed && percentile_ms(o, 0.99) * 1e6 <= (double)most_ns;
}

static void run_overruns(struct overruns *o, int boxes, int argc, char **argv, const char *hone,
			 const char *dir)
{
	char path[PATH_MAX], cache[PATH_MAX + 16];
	*o = (struct overruns){0};
	for (int i = 0; i < boxes && i < MOST_BOXES; i++) {
		int budget = i / 2 % BUDGETS;
		struct box_run b = {.model =
					model_of(argc, argv, i / (2 * BUDGETS), hone, dir, path, sizeof path),
				    .seed = i + 1,
				    .budget_ns = budgets_ms[budget] * NS_PER_MS,
				    .mute = true};
		snprintf(cache, sizeof cache, "%s/cache", dir);
		b.cache = i % 2 ? cache : NULL;
		struct outcome r = run(hone, &b);
		add(o, budget, &b, &r);
	}
}

static int main_overruns(int argc, char **argv, const char *hone, const char *dir)
{
	static struct overruns o;
	int boxes = argc > 2 ? atoi(argv[2]) : 200;
	if (one_core() < 0)
		fprintf(stderr, "bench_box: %s\n", err_text());
	run_overruns(&o, boxes, argc, argv, hone, dir);
	bool good = print_overruns("free core", &o, 20 * NS_PER_MS);
	fflush(stdout);
	pid_t pid = start_competitor();
	run_overruns(&o, boxes, argc, argv, hone, dir);
	good &= print_overruns("half of the core taken", &o, 100 * NS_PER_MS);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return !good;
}

static int main_boxes(int argc, char **argv, const char *hone, const char *dir)
{
	int boxes = argc > 1 ? atoi(argv[1]) : 20, bad = 0;
	int64_t budget_ns = argc > 2 ? parse_seconds(argv[2]) : 20 * NS_PER_S;
	char path[PATH_MAX];
	struct rng rng;
	rng_seed(&rng, 1);
	printf("%-44s %5s %9s %9s %9s %8s\n", "model", "seed", "box s", "ended s", "signal ms", "records");
	for (int i = 0; i < boxes; i++) {
		struct box_run b = {.model = model_of(argc, argv, i, hone, dir, path, sizeof path),
				    .seed = i + 1,
				    .budget_ns = budget_ns};
		if (i % 4 == 3)
			b.interrupt_ns = (int64_t)((0.4 + 0.5 * rng_unit(&rng)) * (double)budget_ns);
		struct outcome o = run(hone, &b);
		const char *why = fault(&b, &o);
		bad += why != NULL;
		printf("%-44s %5d %9.3f %9.3f %9.0f %8d %s\n", b.model, b.seed, (double)budget_ns / 1e9,
		       (double)o.elapsed_ns / 1e9, (double)o.after_signal_ns / 1e6, o.records,
		       why ? why : "");
		fflush(stdout);
	}
	printf("%d boxes, %d bad\n", boxes, bad);
	return bad != 0;
}

int main(int argc, char **argv)
{
	char self[PATH_MAX - 64], hone[PATH_MAX], dir[] = "/tmp/hone-box-models-XXXXXX";
	if (file_self_dir(self, sizeof self) < 0 || !mkdtemp(dir)) {
		fprintf(stderr, "bench_box: %s\n", err_text());
		return 1;
	}
	snprintf(hone, sizeof hone, "%s/../hone", self);
	bool overruns = argc > 1 && !strcmp(argv[1], "--overruns");
	int rc = overruns ? main_overruns(argc, argv, hone, dir) : main_boxes(argc, argv, hone, dir);
	remove_folder(dir);
	return rc;
}
