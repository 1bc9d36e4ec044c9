/* SPDX-License-Identifier: Apache-2.0 */
/* make bench-predict: how far predicted times of kernels (tools/bench/predict.h) are from measured ones, on
 * this x86-64 machine with vectors of four floats. Layers take turns as the fitted and the checked half; the
 * figures are of the checked half alone. */
#include "kernels/emit/emit.h"
#include "kernels/loops/lower.h"
#include "kernels/space/space.h"
#include "platform/base/rng.h"
#include "platform/base/stats.h"
#include "platform/machine/evict.h"
#include "platform/run/dev.h"
#include "tools/bench/one_core.h"
#include "tools/bench/predict_here.h"
#include "tools/bench/predict_layers.h"
#include "tools/hone/cmd.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 512, BURST_NS = 20000000, LEAST_BURST = 5, SHORT_NS = 100000 };

struct sample {
	int layer;
	char name[64], cand[CAND_MAX];
	struct predict_work work;
	double ns, predicted;
	struct dev_code *code;
	struct manifest m;
	void *bufs[CODE_MAX_BUFS];
	size_t bytes[CODE_MAX_BUFS];
};

struct bench {
	struct arena a;
	struct predict_cpu cpu;
	const struct emit *emit;
	const struct dev *dev;
	struct rng rng;
	int random;
	bool verbose;
	char dir[64];
	struct sample sample[MOST];
	int n;
};

/* ---- measuring */

static void *buffer(struct bench *b, int64_t bytes)
{
	float *p = arena_aligned(&b->a, (size_t)bytes + 64, 64);
	rng_fill(&b->rng, p, (size_t)bytes / 4);
	return p;
}

static int build(struct bench *b, const struct task *t, struct sample *s)
{
	struct loops *l;
	struct blob object;
	int rc = lower(t, s->cand, &b->cpu.target, &b->a, &l, &s->m);
	if (rc >= 0)
		rc = b->emit->emit(l, &b->cpu.target, &b->a, &object);
	if (rc >= 0)
		rc = b->dev->load(object.p, object.n, &s->code);
	for (int i = 0; i < s->m.nbufs && rc >= 0; i++) {
		const struct code_buf *c = &s->m.buf[i];
		int64_t elems = c->packed ? pack_elems(&c->packing) : c->elems;
		s->bytes[i] = (size_t)(c->operand < 0 ? s->m.scratch_bytes : 4 * elems);
		s->bufs[i] = buffer(b, (int64_t)s->bytes[i]);
	}
	return rc;
}

static void run_once(struct bench *b, struct sample *s)
{
	for (int e = 0; e < s->m.nentries; e++)
		b->dev->run(s->code, e, s->bufs, s->m.param, 0, code_extent(&s->m, e, s->m.param));
}

/* The processor time of this thread, without what other processes took; its call takes 200 ns more. */
static int64_t thread_ns(bool shortly)
{
	struct timespec t;
	if (shortly)
		return clock_now(&clock_real);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* As in a network: constants come from memory, and the inputs were just used. */
static void chill(const struct sample *s)
{
	for (int i = 0; i < s->m.nbufs; i++)
		if (s->m.buf[i].role == BUF_CONST)
			evict_range(s->bufs[i], s->bytes[i]);
	for (int i = 0; i < s->m.nbufs; i++)
		if (s->m.buf[i].role == BUF_IN)
			evict_by_reading(s->bufs[i], s->bytes[i]);
}

/* The least of many runs: what other work on the machine delays least. */
static void time_burst(struct bench *b, struct sample *s)
{
	int64_t end = clock_now(&clock_real) + BURST_NS;
	run_once(b, s);
	for (int i = 0; i < LEAST_BURST || clock_now(&clock_real) < end; i++) {
		bool shortly = s->ns < SHORT_NS;
		chill(s);
		int64_t start = thread_ns(shortly);
		run_once(b, s);
		double ns = (double)(thread_ns(shortly) - start);
		s->ns = s->ns == 0 || ns < s->ns ? ns : s->ns;
	}
}

/* ---- candidates */

static int add(struct bench *b, const struct task *t, int layer, const char *name, const char *cand)
{
	struct sample *s = &b->sample[b->n];
	if (b->n == MOST)
		return E_OK;
	*s = (struct sample){.layer = layer};
	snprintf(s->name, sizeof s->name, "%s", name);
	snprintf(s->cand, sizeof s->cand, "%s", cand);
	int rc = predict_work(t, cand, &b->cpu, b->dir, &s->work);
	if (rc >= 0)
		rc = build(b, t, s);
	b->n += rc >= 0;
	return rc == E_SPILL || rc == E_INFEASIBLE ? E_OK : fail_in(rc, "%s: %s", name, cand);
}

static int add_layer(struct bench *b, int layer, const char *name, const char *text)
{
	struct task *t = ARENA_NEW(&b->a, struct task);
	struct space *s;
	char cand[CAND_MAX];
	const struct space_want want = {.level = LEVEL_EXACT, .threads = 1};
	int rc = task_parse(text, t);
	if (rc >= 0)
		rc = space_make(&b->a, t, &b->cpu.target, &want, &s);
	if (rc < 0)
		return fail_in(rc, "%s", name);
	space_default(s, cand);
	rc = add(b, t, layer, name, cand);
	for (int i = 0; i < b->random && rc >= 0; i++)
		if ((rc = space_random(s, &b->rng, cand)) >= 0)
			rc = add(b, t, layer, name, cand);
	return rc;
}

/* ---- fitting: the least sum of squared relative errors, by steps along each constant in turn */

static double loss(const struct bench *b, const struct predict_constants *c, int half)
{
	double sum = 0;
	for (int i = 0; i < b->n; i++) {
		const struct sample *s = &b->sample[i];
		double e = log(predict_ns(&s->work, &b->cpu, c) / s->ns);
		sum += s->layer % 2 == half ? fabs(e) : 0;
	}
	return sum;
}

static struct predict_constants fit(const struct bench *b, int half)
{
	struct predict_constants c = {1, {.5, .5, .5}, 3};
	double *const v[] = {&c.core, &c.move[0], &c.move[1], &c.move[2], &c.overlap};
	const double most[] = {3, 2, 2, 2, 8}, least[] = {.5, 0, 0, 0, 1};
	double best = loss(b, &c, half);
	for (double step = .25; step > .002; step /= 2)
		for (int round = 0; round < 40; round++)
			for (int i = 0; i < 5; i++)
				for (int sign = -1; sign <= 1; sign += 2) {
					double old = *v[i];
					*v[i] =
					    fmin(most[i], fmax(least[i], old + sign * step * most[i] / 2));
					double now = loss(b, &c, half);
					if (now < best)
						best = now;
					else
						*v[i] = old;
				}
	return c;
}

/* ---- the report */

static int by_value(const void *x, const void *y)
{
	double a = **(double *const *)x, b = **(double *const *)y;
	return a < b ? -1 : a > b;
}

static void ranks(double *v, int n, double *rank)
{
	double **at = malloc(sizeof *at * (size_t)n);
	for (int i = 0; i < n; i++)
		at[i] = &v[i];
	qsort(at, (size_t)n, sizeof *at, by_value);
	for (int i = 0; i < n; i++)
		rank[at[i] - v] = i;
	free(at);
}

static double spearman(double *x, double *y, int n)
{
	double *rx = calloc((size_t)n, sizeof *rx), *ry = calloc((size_t)n, sizeof *ry), d2 = 0;
	ranks(x, n, rx);
	ranks(y, n, ry);
	for (int i = 0; i < n; i++)
		d2 += (rx[i] - ry[i]) * (rx[i] - ry[i]);
	free(rx);
	free(ry);
	return 1 - 6 * d2 / ((double)n * ((double)n * n - 1));
}

static void summary(struct bench *b, int half, bool defaults, const char *what)
{
	double x[MOST], y[MOST], error[MOST];
	int n = 0;
	for (int i = 0; i < b->n; i++) {
		struct sample *s = &b->sample[i];
		bool first = i == 0 || b->sample[i - 1].layer != s->layer;
		if ((half >= 0 && s->layer % 2 != half) || (defaults && !first))
			continue;
		x[n] = s->predicted;
		y[n] = s->ns;
		error[n++] = fabs(s->predicted / s->ns - 1);
	}
	if (n > 2)
		printf(
		    "%-44s %3d kernels: rank correlation %.3f, median error %.1f %%, 90 %% within %.1f %%\n",
		    what, n, spearman(x, y, n), 100 * stats_median(error, n),
		    100 * stats_quantile(error, n, .9));
}

static void report(struct bench *b, const struct predict_constants *c)
{
	for (int i = 0; i < b->n; i++)
		b->sample[i].predicted = predict_ns(&b->sample[i].work, &b->cpu, c);
	for (int i = 0; i < b->n && b->verbose; i++) {
		const struct sample *s = &b->sample[i];
		const struct predict_work *w = &s->work;
		printf("%-26s %9.1f us predicted %9.1f (%+5.0f %%)  model %9.1f  KB %7.0f %7.0f %6.0f  "
		       "%d/%d %s\n",
		       s->name, s->ns / 1e3, s->predicted / 1e3, 100 * (s->predicted / s->ns - 1),
		       w->cycles * 1e3 / b->cpu.mhz / 1e3, w->bytes[0] / 1024, w->bytes[1] / 1024,
		       w->bytes[2] / 1024, w->unmatched, w->loops, s->cand);
	}
	printf("clock %.0f MHz; reads %.0f, %.0f, %.0f, %.1f GB/s\n", b->cpu.mhz, b->cpu.gbs[0],
	       b->cpu.gbs[1], b->cpu.gbs[2], b->cpu.gbs[3]);
	printf("constants: core %.3f, move %.3f %.3f %.3f, overlap %.2f\n", c->core, c->move[0], c->move[1],
	       c->move[2], c->overlap);
	summary(b, 0, false, "fitted half");
	summary(b, 1, false, "checked half");
	summary(b, 1, true, "checked half, default schedules alone");
	summary(b, -1, true, "default schedules of all layers");
}

static int open_bench(struct bench *b)
{
	int rc = one_core();
	if (rc >= 0 && !machine_is_here())
		rc = fail(E_NOTFOUND, "llvm-mca-19 and llvm-objdump-19 are needed: apt-get install llvm-19");
	if (rc >= 0)
		rc = predict_here(&b->cpu);
	b->emit = emit_find("llvm");
	b->dev = dev_find("cpu");
	rng_seed(&b->rng, 1);
	snprintf(b->dir, sizeof b->dir, "/tmp/hone-predict-XXXXXX");
	if (rc >= 0 && !mkdtemp(b->dir))
		rc = fail(E_IO, "cannot make a folder in /tmp");
	return rc;
}

static int run(const struct args *a)
{
	static struct bench b;
	char name[64], text[LAYER_TEXT];
	b.random = (int)arg_int(a, "random", 2);
	b.verbose = arg_flag(a, "all");
	const char *only = arg_str(a, "layer", "");
	int rc = open_bench(&b);
	for (int i = 0; rc >= 0 && predict_layer(i, name, text); i++)
		if (strstr(name, only))
			rc = add_layer(&b, i, name, text);
	for (int round = 0; round < arg_int(a, "rounds", 3) && rc >= 0; round++)
		for (int i = 0; i < b.n; i++)
			time_burst(&b, &b.sample[i]);
	if (rc >= 0) {
		double mhz = predict_here_mhz();
		b.cpu.mhz = mhz > b.cpu.mhz ? mhz : b.cpu.mhz;
		struct predict_constants c = fit(&b, 0);
		report(&b, &c);
	}
	char command[96];
	snprintf(command, sizeof command, "rm -r %s", b.dir);
	if (access(b.dir, F_OK) == 0 && system(command) != 0)
		fprintf(stderr, "cannot remove %s\n", b.dir);
	arena_free(&b.a);
	return rc;
}

static const struct opt opts[] = {
    {"random", OPT_INT, "N", "random schedules of each layer besides its default (default: 2)"},
    {"rounds", OPT_INT, "N", "bursts of 20 ms of each kernel (default: 3)"},
    {"layer", OPT_STR, "TEXT", "layers whose name contains this"},
    {"all", OPT_FLAG, NULL, "show each kernel"},
    {NULL}};
static const struct cmd bench_predict = {.usage = "[--random N] [--all]",
					 .summary = "compare predicted times of kernels with measured ones",
					 .details = "",
					 .opts = opts,
					 .run = run,
					 .name = "bench-predict"};

int main(int argc, char **argv)
{
	return cmd_main(&bench_predict, argc, argv);
}
