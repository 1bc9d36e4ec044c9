/* SPDX-License-Identifier: Apache-2.0 */
/* make bench-calls: the overhead of running a kernel, apart from the kernel's own work. Prints medians (and
 * 90th percentiles):
 *
 * call: ns per kernel that does almost nothing, in a plan on one thread; computed from two chains of
 * different length of 16 by 16 matrix products
 *
 * range: ns to start and finish an empty parallel range while the pool's threads spin: with one index per
 * thread, with many indexes, and alternating with a serial part of 2 us as in an inference
 *
 * asleep: us from waking a sleeping pool to the end of its first range, and until every thread was in it
 *
 * bench_calls [THREADS] (default: every core). */
#include "kernels/emit/emit.h"
#include "kernels/graph/eval.h"
#include "kernels/loops/lower.h"
#include "kernels/space/space.h"
#include "agent/run/plan.h"
#include "platform/run/dev.h"
#include "tools/hone/model.h"
#include "platform/base/stats.h"
#include "tools/hone/zoo.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { SHORT = 8, LONG = 136, ROUNDS = 2000, BATCH = 50, SLEEPS = 200, SERIAL_NS = 2000 };

struct bench {
	struct arena a;
	struct target tg;
	const struct emit *emit;
	const struct dev *dev;
	double *ns; /* ROUNDS */
};

static double since(int64_t start_ns)
{
	return (double)(clock_now(&clock_real) - start_ns);
}

/* ---- calls ---- */

/* Kernel source: compiles the default schedule of each task. */
static int find(void *ctx, const struct task *t, const char *text, struct arena *a, struct code *out,
		enum kernel_origin *origin)
{
	(void)text;
	struct bench *b = ctx;
	struct space *s;
	struct loops *l;
	char cand[CAND_MAX];
	int rc = space_make(&b->a, t, &b->tg, NULL, &s);
	if (rc < 0)
		return rc;
	space_default(s, cand);
	*out = (struct code){0};
	rc = lower(t, cand, &b->tg, a, &l, &out->m);
	if (rc >= 0)
		rc = b->emit->emit(l, &b->tg, a, &out->object);
	*origin = FROM_DEFAULT;
	return rc;
}

static int chain(int length, struct graph **out)
{
	struct arena a = {0};
	struct graph *g = ARENA_NEW(&a, struct graph);
	g->arena = a;
	struct zoo z = {.g = g, .opset = 17};
	struct fmap x = zoo_input(&z, "x", 16, 1, 1);
	for (int i = 0; i < length; i++)
		x = zoo_conv(&z, x, (struct zoo_conv){.k = 16, .r = 1, .stride = 1});
	zoo_output(&z, x.value, "y");
	if (z.rc >= 0)
		z.rc = graph_infer(g);
	*out = g;
	return z.rc;
}

/* Time of one run of a chain; ns: [ROUNDS]. */
static int time_chain(struct bench *b, int length, double *ns)
{
	struct graph *g;
	struct plan *p = NULL;
	struct steps *steps;
	struct tensor *in, *out;
	const struct kernel_source src = {b, find};
	int rc = chain(length, &g);
	if (rc >= 0)
		rc = graph_steps(g, &b->tg, NULL, &b->a, &steps);
	if (rc >= 0)
		rc = plan_build(g, steps, &b->tg, &src, NULL, &p);
	if (rc >= 0)
		rc = model_inputs(g, 1, &b->a, &in);
	if (rc >= 0)
		rc = model_outputs(g, &b->a, &out);
	for (int i = 0; i < ROUNDS && rc >= 0; i++) {
		int64_t start = clock_now(&clock_real);
		rc = plan_run(p, in, out);
		b->ns[i] = since(start);
	}
	*ns = stats_median(b->ns, ROUNDS);
	plan_free(p);
	graph_free(g);
	return rc;
}

static int calls(struct bench *b)
{
	double few, many;
	int rc = time_chain(b, SHORT, &few);
	if (rc >= 0)
		rc = time_chain(b, LONG, &many);
	if (rc >= 0)
		printf("call: %.0f ns per kernel, including its 16 FMAs\n", (many - few) / (LONG - SHORT));
	return rc;
}

/* ---- ranges ---- */

static void nothing(void *ctx, int thread, int64_t begin, int64_t end)
{
	(void)ctx, (void)thread, (void)begin, (void)end;
}

static void spin(int64_t ns)
{
	for (int64_t start = clock_now(&clock_real); since(start) < (double)ns;)
		;
}

static void ranges(struct bench *b, struct pool *p, const char *what, int64_t extent, int64_t serial_ns)
{
	int batch = serial_ns ? 1 : BATCH;
	pool_begin(p);
	for (int i = -ROUNDS / 10; i < ROUNDS; i++) { /* the first ranges wake the threads and do not count */
		spin(serial_ns);
		int64_t start = clock_now(&clock_real);
		for (int k = 0; k < batch; k++)
			pool_run(p, nothing, NULL, extent);
		if (i >= 0)
			b->ns[i] = since(start) / batch;
	}
	pool_end(p);
	printf("pool_run, %s: %.0f ns (%.0f)\n", what, stats_median(b->ns, ROUNDS),
	       stats_quantile(b->ns, ROUNDS, .9));
}

/* A range that no thread leaves before every thread has entered it. */
struct meeting {
	atomic_int in;
	int threads;
};

static void meet(void *ctx, int thread, int64_t begin, int64_t end)
{
	(void)thread;
	struct meeting *m = ctx;
	atomic_fetch_add(&m->in, (int)(end - begin));
	while (atomic_load(&m->in) < m->threads)
		;
}

static void asleep(struct bench *b, struct pool *p, const char *what, bool all)
{
	for (int i = 0; i < SLEEPS; i++) {
		struct meeting m = {.threads = pool_threads(p)};
		clock_real.sleep(&clock_real, NS_PER_MS);
		int64_t start = clock_now(&clock_real);
		pool_begin(p);
		pool_run(p, all ? meet : nothing, &m, m.threads);
		b->ns[i] = since(start);
		pool_end(p);
	}
	printf("from sleep, %s: %.1f us (%.1f)\n", what, stats_median(b->ns, SLEEPS) / 1e3,
	       stats_quantile(b->ns, SLEEPS, .9) / 1e3);
}

static int pools(struct bench *b, int threads)
{
	struct pool *p;
	int rc = machine_pool(threads, true, &p);
	if (rc < 0)
		return rc;
	printf("%d threads, medians (90th percentiles):\n", threads);
	ranges(b, p, "one index per thread", threads, 0);
	ranges(b, p, "1000 indexes", 1000, 0);
	ranges(b, p, "after 2 us of one thread", threads, SERIAL_NS);
	asleep(b, p, "first range", false);
	asleep(b, p, "all threads in it", true);
	pool_close(p);
	return E_OK;
}

int main(int argc, char **argv)
{
	struct bench b = {.emit = emit_find("llvm"), .dev = dev_find("cpu")};
	int rc = b.emit && b.dev ? b.dev->probe(&b.tg) : fail(E_NOTFOUND, "no llvm emitter or cpu device");
	b.ns = ARENA_ARRAY(&b.a, double, ROUNDS);
	if (rc >= 0)
		rc = calls(&b);
	int threads = argc > 1 ? atoi(argv[1]) : b.tg.cores;
	if (rc >= 0 && threads > 1)
		rc = pools(&b, threads);
	if (rc < 0)
		fprintf(stderr, "bench_calls: %s\n", err_text());
	arena_free(&b.a);
	return rc < 0;
}
