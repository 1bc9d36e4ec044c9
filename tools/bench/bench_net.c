/* SPDX-License-Identifier: Apache-2.0 */
/* A model kept ready in a process, as an application keeps it, and run on command: hone's side of `make
 * bench-peers`. Each line of input gives one line of output:
 *
 *	turn MS   runs for MS milliseconds, at least once, at most MAX_RUNS times -> the ns of every run
 *	quit      (or end of input)
 *
 * The first line of output is `ready {JSON}`, after one run whose outputs are in --output DIR. */
#include "platform/base/log.h"
#include "tools/hone/feed.h"
#include "agent/cache/json.h"
#include <stdio.h>
#include <string.h>

enum { MAX_RUNS = 4000 };

static int turn(struct ready *r, double ms)
{
	int64_t now = clock_now(&clock_real), end = now + (int64_t)(ms * 1e6);
	for (int i = 0; i == 0 || (i < MAX_RUNS && now < end); i++) {
		int64_t start = now;
		int rc = plan_run(r->plan, r->in, r->out);
		if (rc < 0)
			return rc;
		now = clock_now(&clock_real);
		printf("%s%lld", i ? " " : "", (long long)(now - start));
		now = clock_now(&clock_real);
	}
	putchar('\n');
	return fflush(stdout) ? fail(E_IO, "cannot write to standard output") : 0;
}

static int turns(struct ready *r)
{
	char line[64];
	double ms;
	while (fgets(line, sizeof line, stdin) && strcmp(line, "quit\n") != 0) {
		if (sscanf(line, "turn %lf", &ms) != 1 || !(ms >= 0 && ms < 1e6))
			return fail(E_USAGE, "'%.*s': write `turn MS` or `quit`", (int)strcspn(line, "\n"),
				    line);
		int rc = turn(r, ms);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Prints {"load_ms": 1.5, "plan_bytes": 1024, "kernels": {"tuned": 3, ...}, "peak_gflops": 150, "outputs":
 * [...]} */
static int say_ready(const struct ready *r, json_t *outputs)
{
	const struct plan_kernel *k;
	int n = plan_kernels(r->plan, &k), count[FROM_HOST + 1] = {0};
	for (int i = 0; i < n; i++)
		count[kernel_origin_kind(k[i].origin, k[i].at_default)]++;
	json_t *from = json_object();
	for (int o = FROM_CACHE; o <= FROM_HOST; o++)
		json_object_set_new(from, ready_origin((enum kernel_origin)o), json_integer(count[o]));
	printf("ready ");
	return json_out(json_pack("{so sI so so so}", "load_ms", json_ms((double)r->load_ns), "plan_bytes",
				  (json_int_t)plan_bytes(r->plan), "kernels", from, "peak_gflops",
				  json_num(r->host->target.fma_gflops), "outputs", outputs));
}

static int serve(const struct args *a, struct ready *r)
{
	int rc = feed_inputs(a, r);
	if (rc >= 0)
		rc = plan_run(r->plan, r->in, r->out);
	json_t *outputs = json_array();
	const char *dir = arg_str(a, "output", NULL);
	if (rc >= 0 && dir)
		rc = feed_outputs(a, r, dir, outputs);
	if (rc < 0) {
		json_decref(outputs);
		return rc;
	}
	rc = say_ready(r, outputs);
	return rc >= 0 && fflush(stdout) == 0 ? turns(r) : rc;
}

static int run_net(const struct args *a)
{
	char cache[4096];
	enum ready_kernels kind;
	struct host h;
	struct ready r;
	int rc = ready_kernels_parse(arg_str(a, "kernels", "best"), &kind);
	if (rc >= 0)
		rc = model_cache_dir(a, cache, sizeof cache);
	if (rc >= 0)
		rc = host_open(a, cache, true, &h);
	if (rc < 0)
		return rc;
	rc = ready_open(a, a->pos[0], cache, kind, &h, &r);
	if (rc >= 0) {
		rc = serve(a, &r);
		ready_close(&r);
	}
	host_close(&h);
	return rc < 0 ? rc : 0;
}

static const struct opt opts[] = {
    {"kernels", OPT_STR, "KIND", "best (default), default or fallback"},
    OPT_FEED,
    OPT_THREADS,
    OPT_LEVEL,
    OPT_CACHE,
    OPT_SHAPE,
    {NULL},
};

static const struct cmd net = {
    .usage = "MODEL [--kernels KIND] [--input NAME=FILE]... [--output DIR] [--level LEVEL]",
    .summary = "keep a model loaded and run it on commands from standard input",
    .details = "Lines: turn MS, quit.",
    .min_pos = 1,
    .max_pos = 1,
    .opts = opts,
    .run = run_net,
    .name = "net",
};

int main(int argc, char **argv)
{
	return cmd_main(&net, argc, argv);
}
