/* SPDX-License-Identifier: Apache-2.0 */
/* make bench-ahead: does building on another core disturb the timing? Default kernels are timed in turns,
 * with the builder working and stopped, in pairs whose order alternates. The output is the ratio of the
 * medians and of the minimums (busy over stopped), with a 95 % interval from resampled pairs.
 *
 *	make bench-ahead ARGS="[PAIRS [BUILDERS]]"    (300 pairs, 1 builder) */
#include "agent/worker/wire.h"
#include "kernels/space/space.h"
#include "platform/run/dev.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 3, MOST_PAIRS = 4000, RESAMPLES = 400, QUEUE = 6 };

struct subject {
	const char *name, *text;
};

static const struct subject subjects[] = {
    {"conv3x3 64-64 56, in its own caches",
     "task syms=0\noperand X in f32 [1,64,56,56] 0.1/16.2.3.1;2+1+1;3+1+1\noperand W const f32 [64,64,3,3] "
     "plain\noperand Y out f32 [1,64,56,56] 0.1/16.2.3.1\nstage n:1 k:64 y:56 x:56 | c:64 r:3 s:3\n"
     "read X [n,c,y+r-1,x+s-1]\nread W [k,c,r,s]\nbody r0 r1 mul\nsum\nwrite Y [n,k,y,x]\n"},
    {"depthwise3x3 144 112, from the shared cache",
     "task syms=0\noperand X in f32 [1,144,112,112] 0.1/16.2.3.1;2+1+1;3+1+1\noperand W const f32 "
     "[144,1,3,3] plain\noperand Y out f32 [1,144,112,112] 0.1/16.2.3.1\n"
     "stage n:1 c:144 y:112 x:112 | r:3 s:3\nread X [n,c,y+r-1,x+s-1]\nread W [c,0,r,s]\n"
     "body r0 r1 mul\nsum\nwrite Y [n,c,y,x]\n"},
    {"vector times matrix 2048, from memory",
     "task syms=0\noperand A in f32 [1,2048] plain\noperand B const f32 [2048,2048] plain\noperand C out f32 "
     "[1,2048] plain\nstage m:1 n:2048 | k:2048\nread A [m,k]\nread B [k,n]\nbody r0 r1 mul\nsum\n"
     "write C [m,n]\n"},
};

struct bench {
	struct runner *r;
	struct target t;
	struct rng rng;
	struct arena a;
	struct space *work; /* space of the task that the builder compiles meanwhile */
	double ns[2][MOST_PAIRS];
};

static int make_space(struct bench *b, const char *text, struct space **out)
{
	struct task *t = ARENA_NEW(&b->a, struct task);
	int rc = task_parse(text, t);
	return rc < 0 ? rc : space_make(&b->a, t, &b->t, NULL, out);
}

static void keep_busy(struct bench *b)
{
	for (int i = 0; i < QUEUE; i++) {
		char cand[CAND_MAX];
		if (space_random(b->work, &b->rng, cand) >= 0)
			(void)b->r->ops->ahead(b->r, subjects[0].text, cand);
	}
}

static int run_pairs(struct bench *b, int handle, int pairs)
{
	for (int i = 0; i < pairs; i++)
		for (int k = 0; k < 2; k++) {
			int quiet = (i + k) % 2;
			struct meas m;
			keep_busy(b);
			int rc = b->r->ops->time(b->r, &handle, 1, ROUNDS, 0,
						 TIME_COLD | (quiet ? TIME_QUIET : 0), INT64_MAX, &m);
			if (rc < 0)
				return rc;
			b->ns[quiet][i] = (double)m.min_ns;
		}
	return E_OK;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double quantile(double *v, int n, double q)
{
	qsort(v, (size_t)n, sizeof *v, ascending);
	return v[(int)(q * (n - 1))];
}

/* Prints the ratio busy over stopped of a quantile of all pairs, with its interval over resampled pairs
 * (bootstrap). */
static void show_ratio(struct bench *b, int pairs, double q, const char *what)
{
	static double v[2][MOST_PAIRS], ratio[RESAMPLES];
	double all = 0;
	for (int s = -1; s < RESAMPLES; s++) {
		for (int i = 0; i < pairs; i++) {
			int from = s < 0 ? i : (int)rng_below(&b->rng, (uint32_t)pairs);
			v[0][i] = b->ns[0][from];
			v[1][i] = b->ns[1][from];
		}
		double r = quantile(v[0], pairs, q) / quantile(v[1], pairs, q);
		*(s < 0 ? &all : &ratio[s]) = r;
	}
	printf("  %s %.4f (%.4f to %.4f)", what, all, quantile(ratio, RESAMPLES, .025),
	       quantile(ratio, RESAMPLES, .975));
}

static int run_subject(struct bench *b, const struct subject *s, int pairs)
{
	char cand[CAND_MAX];
	struct space *space;
	struct meas m;
	int handle, rc = make_space(b, s->text, &space);
	if (rc < 0)
		return rc;
	space_default(space, cand);
	rc = b->r->ops->build(b->r, s->text, cand, INT64_MAX, &handle, &m);
	if (rc >= 0 && handle < 0)
		rc = fail(E_INFEASIBLE, "%s: %s", s->name, meas_status_name(m.status));
	if (rc >= 0)
		rc = run_pairs(b, handle, pairs);
	if (rc < 0)
		return rc;
	double copy[MOST_PAIRS];
	memcpy(copy, b->ns[1], sizeof copy);
	printf("%-44s %9.1f us", s->name, quantile(copy, pairs, .5) / 1e3);
	show_ratio(b, pairs, .5, "medians");
	show_ratio(b, pairs, .1, "10th percentiles");
	show_ratio(b, pairs, 0, "minimums");
	printf("\n");
	fflush(stdout);
	b->r->ops->drop(b->r, handle, INT64_MAX);
	return E_OK;
}

int main(int argc, char **argv)
{
	static struct bench b;
	extern const struct dev dev_cpu;
	int pairs = argc > 1 ? atoi(argv[1]) : 300, builders = argc > 2 ? atoi(argv[2]) : 1;
	pairs = pairs < 10 ? 10 : pairs > MOST_PAIRS ? MOST_PAIRS : pairs;
	rng_seed(&b.rng, 1);
	int rc = dev_cpu.probe(&b.t);
	if (rc >= 0)
		rc = runner_worker(NULL, "cpu", &b.t, 1, &b.r);
	if (rc >= 0)
		rc = runner_worker_builders(b.r, builders);
	if (rc >= 0)
		rc = make_space(&b, subjects[0].text, &b.work);
	printf("time with busy builders over time with stopped builders, %d pairs, %d builders\n", pairs,
	       builders);
	for (size_t i = 0; i < sizeof subjects / sizeof *subjects && rc >= 0; i++)
		rc = run_subject(&b, &subjects[i], pairs);
	if (rc < 0)
		fprintf(stderr, "bench_ahead: %s\n", err_text());
	if (b.r)
		b.r->ops->close(b.r);
	arena_free(&b.a);
	return rc < 0;
}
