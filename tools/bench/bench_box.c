/* SPDX-License-Identifier: Apache-2.0 */
/* Do boxes end in time? Runs `hone tune` on networks of the zoo with different seeds, each in a box that
 * counts from the start of its process, and interrupts every fourth one at some moment. The benchmark fails
 * if a box ends more than 100 ms late, if an interrupted one takes more than a second or leaves nothing in
 * its cache, and on any other failure.
 *
 *	make bench-box                      20 boxes of 20 s
 *	make bench-box ARGS="4 5s mlp.onnx" 4 boxes of 5 s of the given models */
#include "agent/cache/cache.h"
#include "platform/base/clock.h"
#include "platform/base/rng.h"

#include <fcntl.h>
#include <limits.h>
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
	const char *model;
	int seed;
	int64_t budget_ns, interrupt_ns; /* interrupt_ns 0: not interrupted */
};

struct outcome {
	int status; /* of the process */
	int64_t elapsed_ns, after_signal_ns;
	int records;
};

static pid_t start(const char *hone, const struct box_run *b, const char *cache)
{
	char budget[32], seed[16];
	snprintf(budget, sizeof budget, "%lldms", (long long)(b->budget_ns / NS_PER_MS));
	snprintf(seed, sizeof seed, "%d", b->seed);
	pid_t pid = fork();
	if (pid)
		return pid;
	int null = open("/dev/null", O_WRONLY);
	if (null >= 0)
		dup2(null, 1);
	execl(hone, hone, "tune", b->model, "--budget", budget, "--seed", seed, "--cache", cache, "-q",
	      (char *)NULL);
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

static struct outcome run(const char *hone, const struct box_run *b)
{
	char dir[] = "/tmp/hone-box-XXXXXX", cmd[64];
	struct outcome o = {.status = -1};
	if (!mkdtemp(dir))
		return o;
	int64_t start_ns = clock_now(&clock_real), signal_ns = 0;
	pid_t pid = start(hone, b, dir);
	if (b->interrupt_ns) {
		clock_real.sleep(&clock_real, b->interrupt_ns);
		signal_ns = clock_now(&clock_real);
		kill(pid, SIGINT);
	}
	waitpid(pid, &o.status, 0);
	int64_t end_ns = clock_now(&clock_real);
	o.elapsed_ns = end_ns - start_ns;
	o.after_signal_ns = signal_ns ? end_ns - signal_ns : 0;
	o.records = records_in(dir);
	snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
	if (system(cmd) != 0)
		fprintf(stderr, "cannot remove %s\n", dir);
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

int main(int argc, char **argv)
{
	int boxes = argc > 1 ? atoi(argv[1]) : 20, bad = 0;
	int64_t budget_ns = argc > 2 ? parse_seconds(argv[2]) : 20 * NS_PER_S;
	char self[PATH_MAX - 64], hone[PATH_MAX], path[PATH_MAX], dir[] = "/tmp/hone-box-models-XXXXXX",
								  cmd[64];
	struct rng rng;
	if (file_self_dir(self, sizeof self) < 0 || !mkdtemp(dir)) {
		fprintf(stderr, "bench_box: %s\n", err_text());
		return 1;
	}
	snprintf(hone, sizeof hone, "%s/../hone", self);
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
	snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
	if (system(cmd) != 0)
		fprintf(stderr, "cannot remove %s\n", dir);
	printf("%d boxes, %d bad\n", boxes, bad);
	return bad != 0;
}
