/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/score.h"

#include <assert.h>

struct heat {
	int n, rounds;
	struct score *score;
	struct ready ready[SCORE_MAX];
	double *first_ns[SCORE_MAX], *ns[SCORE_MAX]; /* of every round of all openings, neighbours */
};

static int open_all(struct heat *t, const struct args *a, const char *model, struct host *h)
{
	for (int i = 0; i < t->n; i++) {
		struct score *s = &t->score[i];
		const struct plan_kernel *k;
		int rc = ready_open(a, model, s->cache, s->kernels, h, &t->ready[i]);
		if (rc < 0)
			return rc;
		for (int o = 0; o <= FROM_HOST; o++)
			s->count[o] = 0;
		for (int j = 0, n = plan_kernels(t->ready[i].plan, &k); j < n; j++)
			s->count[k[j].origin]++;
	}
	return 0;
}

static void close_all(struct heat *t)
{
	for (int i = 0; i < t->n; i++)
		ready_close(&t->ready[i]);
}

/* The run before the timed one puts back into the caches what the others put out. */
static int turn(struct ready *r, double *ns)
{
	int rc = plan_run(r->plan, r->in, r->out);
	int64_t start = clock_now(&clock_real);
	if (rc >= 0)
		rc = plan_run(r->plan, r->in, r->out);
	*ns = (double)(clock_now(&clock_real) - start);
	return rc;
}

/* The first and another, either of which may come first. */
static int duel(struct heat *t, int i, int r)
{
	bool swap = (i + r) % 2;
	int rc = swap ? turn(&t->ready[i], &t->ns[i][r]) : turn(&t->ready[0], &t->first_ns[i][r]);
	if (rc < 0)
		return rc;
	return swap ? turn(&t->ready[0], &t->first_ns[i][r]) : turn(&t->ready[i], &t->ns[i][r]);
}

static int run_rounds(struct heat *t, int from)
{
	int rc = duel(t, 1, from); /* is timed again */
	for (int r = from; r < from + t->rounds; r++)
		for (int k = 1; k < t->n && rc >= 0; k++)
			rc = duel(t, 1 + (r + k) % (t->n - 1), r);
	return rc;
}

static void sum_up(struct heat *t, int all, struct arena *a)
{
	double *ratio = ARENA_ARRAY(a, double, all);
	for (int i = 1; i < t->n; i++) {
		struct score *s = &t->score[i];
		for (int r = 0; r < all; r++)
			ratio[r] = t->first_ns[i][r] / t->ns[i][r];
		s->gain = stats_interval(ratio, all);
		s->low_ns = stats_quantile(t->ns[i], all, 0.1); /* sorts: no neighbours any more */
		s->median_ns = stats_median(t->ns[i], all);
		s->low = stats_quantile(t->first_ns[i], all, 0.1) / s->low_ns;
	}
	struct score *s = &t->score[0];
	int n = all * (t->n - 1); /* they lie one behind the other */
	s->low_ns = stats_quantile(t->first_ns[1], n, 0.1);
	s->median_ns = stats_median(t->first_ns[1], n);
	s->low = 1;
	s->gain = (struct interval){1, 1, 1};
}

int score_run(const struct args *a, const char *model, struct host *h, int openings, int rounds, int n,
	      struct score *s)
{
	assert(n > 1 && n <= SCORE_MAX && openings > 0 && rounds > 0);
	struct arena arena = {0};
	struct heat t = {.n = n, .rounds = rounds, .score = s};
	int rc = 0, all = openings * rounds;
	double *first = ARENA_ARRAY(&arena, double, (size_t)(n - 1) * (size_t)all);
	for (int i = 1; i < n; i++) {
		t.first_ns[i] = first + (i - 1) * all;
		t.ns[i] = ARENA_ARRAY(&arena, double, all);
	}
	for (int o = 0; o < openings && rc >= 0; o++) {
		rc = open_all(&t, a, model, h);
		if (rc >= 0)
			rc = run_rounds(&t, o * rounds);
		close_all(&t);
	}
	if (rc >= 0)
		sum_up(&t, all, &arena);
	arena_free(&arena);
	return rc;
}
