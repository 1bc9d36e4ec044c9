/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/score.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Timed runs of one network; kernel_ns is [kernel][run]. */
struct side {
	int nkernels;
	const char **name; /* names of the kernels */
	double *kernel_ns, *whole_ns;
};

struct heat {
	int n, openings, rounds, all; /* all: total runs of a side */
	struct arena arena;
	struct net_score *score;
	struct ready ready[SCORE_MAX];
	struct side first[SCORE_MAX], other[SCORE_MAX]; /* first[i], other[i]: the two sides of the duel of
							 * the first with the i-th */
};

static void make_side(struct heat *t, const struct plan *p, struct side *s)
{
	const struct plan_kernel *k;
	int nkernels = s->nkernels = plan_kernels(p, &k);
	s->name = ARENA_ARRAY(&t->arena, const char *, nkernels);
	for (int i = 0; i < nkernels; i++)
		s->name[i] = arena_strdup(&t->arena, k[i].name);
	s->whole_ns = ARENA_ARRAY(&t->arena, double, t->all);
	s->kernel_ns = ARENA_ARRAY(&t->arena, double, (size_t)nkernels *(size_t)t->all);
}

static int count_kernels(struct heat *t, int i)
{
	const struct plan_kernel *k;
	struct net_score *s = &t->score[i];
	int n = plan_kernels(t->ready[i].plan, &k), first = plan_kernels(t->ready[0].plan, &k);
	if (!t->other[i].whole_ns) {
		make_side(t, t->ready[0].plan, &t->first[i]);
		make_side(t, t->ready[i].plan, &t->other[i]);
	}
	if (t->other[i].nkernels != n || t->first[i].nkernels != first)
		return fail(E_WRONG,
			    "cache %s: the plan has changed meanwhile; is another process writing it?",
			    s->cache);
	plan_kernels(t->ready[i].plan, &k);
	for (int o = 0; o <= FROM_HOST; o++)
		s->count[o] = 0;
	for (int j = 0; j < n; j++)
		s->count[k[j].origin]++;
	return 0;
}

static int open_all(struct heat *t, const struct args *a, const char *model, struct host *h)
{
	for (int i = 0; i < t->n; i++) {
		struct net_score *s = &t->score[i];
		int rc = ready_open(a, model, s->cache, s->kernels, h, &t->ready[i]);
		if (rc >= 0)
			rc = count_kernels(t, i);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static void close_all(struct heat *t)
{
	for (int i = 0; i < t->n; i++)
		ready_close(&t->ready[i]);
}

/* Runs once untimed, to load the caches that the other networks' runs evicted, then once timed. */
static int turn(const struct heat *t, const struct ready *r, struct side *s, int run)
{
	const struct plan_kernel *k;
	int rc = plan_run(r->plan, r->in, r->out);
	int64_t start = clock_now(&clock_real);
	if (rc >= 0)
		rc = plan_run_timed(r->plan, r->in, r->out, &clock_real);
	s->whole_ns[run] = (double)(clock_now(&clock_real) - start);
	plan_kernels(r->plan, &k);
	for (int i = 0; i < s->nkernels; i++)
		s->kernel_ns[i * t->all + run] = (double)k[i].ns;
	return rc;
}

/* Times the first and another network; they take turns in going first. */
static int duel(struct heat *t, int i, int run)
{
	bool swap = (i + run) % 2;
	int rc = swap ? turn(t, &t->ready[i], &t->other[i], run) : turn(t, &t->ready[0], &t->first[i], run);
	if (rc < 0)
		return rc;
	return swap ? turn(t, &t->ready[0], &t->first[i], run) : turn(t, &t->ready[i], &t->other[i], run);
}

static int run_rounds(struct heat *t, int from)
{
	int rc = duel(t, 1, from); /* warms up; the duel is timed again below */
	for (int r = from; r < from + t->rounds; r++)
		for (int k = 1; k < t->n && rc >= 0; k++)
			rc = duel(t, 1 + (r + k) % (t->n - 1), r);
	return rc;
}

int score_parts(const char *const *a, int na, const char *const *b, int nb, struct score_part *part)
{
	int n = 0;
	part[n++] = (struct score_part){0, 0};
	for (int i = 1, from = 1; i < na; i++) {
		int j = from;
		while (j < nb && strcmp(a[i], b[j]))
			j++;
		if (j == nb)
			continue;
		part[n++] = (struct score_part){i, j};
		from = j + 1;
	}
	return n;
}

static double sum_kernels(const struct heat *t, const struct side *s, int from, int to, int run)
{
	double sum = 0;
	for (int i = from; i < to; i++)
		sum += s->kernel_ns[i * t->all + run];
	return sum > 1 ? sum : 1;
}

/* Over n runs beginning with `from`: sums the kernels between two places of both sides, and compares the
 * sums. */
static void compare(struct heat *t, int i, struct score_part begin, struct score_part end, int from, int n,
		    double *ns, double *ratio)
{
	double *v = ARENA_ARRAY(&t->arena, double, n), *w = ARENA_ARRAY(&t->arena, double, n);
	for (int r = 0; r < n; r++) {
		w[r] = sum_kernels(t, &t->first[i], begin.a, end.a, from + r);
		v[r] = w[r] / sum_kernels(t, &t->other[i], begin.b, end.b, from + r);
	}
	*ns = stats_median(w, n);
	*ratio = stats_median(v, n);
}

static double quality(struct heat *t, int i, int from, int n)
{
	const struct side *a = &t->first[i], *b = &t->other[i];
	struct score_part *part = ARENA_ARRAY(&t->arena, struct score_part, a->nkernels + 2);
	int parts = score_parts(a->name, a->nkernels, b->name, b->nkernels, part);
	part[parts] = (struct score_part){a->nkernels, b->nkernels};
	double first = 0, other = 0;
	for (int g = 0; g < parts; g++) {
		double ns, ratio;
		compare(t, i, part[g], part[g + 1], from, n, &ns, &ratio);
		first += ns;
		other += ns / ratio;
	}
	return first / other;
}

static void sum_up(struct heat *t)
{
	double *ratio = ARENA_ARRAY(&t->arena, double, t->all);
	for (int i = 1; i < t->n; i++) {
		struct net_score *s = &t->score[i];
		s->quality = s->least = s->most = quality(t, i, 0, t->all);
		for (int o = 0; o < t->openings; o++) {
			double q = quality(t, i, o * t->rounds, t->rounds);
			s->least = fmin(s->least, q);
			s->most = fmax(s->most, q);
		}
		for (int r = 0; r < t->all; r++)
			ratio[r] = t->first[i].whole_ns[r] / t->other[i].whole_ns[r];
		s->gain = stats_interval(ratio, t->all);
		s->low_ns = stats_quantile(t->other[i].whole_ns, t->all, 0.1);
		s->median_ns = stats_median(t->other[i].whole_ns, t->all);
	}
	struct net_score *s = &t->score[0];
	s->low_ns = stats_quantile(t->first[1].whole_ns, t->all, 0.1);
	s->median_ns = stats_median(t->first[1].whole_ns, t->all);
	s->quality = s->least = s->most = 1;
	s->gain = (struct interval){1, 1, 1};
}

int score_run(const struct args *a, const char *model, struct host *h, int openings, int rounds, int n,
	      struct net_score *s)
{
	assert(n > 1 && n <= SCORE_MAX && openings > 0 && rounds > 0);
	struct heat *t = calloc(1, sizeof *t);
	if (!t)
		return fail(E_NOMEM, "no memory to time %d caches", n);
	*t = (struct heat){
	    .n = n, .openings = openings, .rounds = rounds, .all = openings * rounds, .score = s};
	int rc = 0;
	for (int o = 0; o < openings && rc >= 0; o++) {
		rc = open_all(t, a, model, h);
		if (rc >= 0)
			rc = run_rounds(t, o * rounds);
		close_all(t);
	}
	if (rc >= 0)
		sum_up(t);
	arena_free(&t->arena);
	free(t);
	return rc;
}
