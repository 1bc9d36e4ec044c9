/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/judge.h"

#include "platform/base/clock.h"
#include "platform/base/log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TURN = 8 /* candidates of a task between two calls of learn */, TOP = 5 };
#define APART 1.05

const char *judge_family(const char *label)
{
	static const struct {
		const char *part, *family;
	} known[] = {{" + ", "chain"}, {"dwconv", "depthwise"}, {"conv", "dense"}, {"matmul", "dense"}};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strstr(label, known[i].part))
			return known[i].family;
	return "other";
}

struct sample judge_sample(const struct space *s, int task, const char *cand, double ns)
{
	struct sample x = {.task = task};
	space_features(s, cand, x.f);
	x.log_ratio = (float)log(ns) - x.f[FEATURE_DRAFT];
	return x;
}

static int fill(const struct landscape *l, int number, struct arena *a, struct problem *p)
{
	struct arena scratch = {0};
	struct task *t = ARENA_NEW(&scratch, struct task);
	struct space *s;
	const struct space_want want = {.threads = l->threads};
	int rc = task_parse(l->task, t);
	if (rc >= 0)
		rc = space_make(&scratch, t, &l->target, &want, &s);
	p->name = l->label;
	p->family = judge_family(l->label);
	size_t n = strcspn(l->protocol, ":");
	p->network = l->protocol[n] ? arena_strndup(a, l->protocol, n) : "";
	p->sample = ARENA_ARRAY(a, struct sample, l->n + 1);
	p->ns = ARENA_ARRAY(a, double, l->n + 1);
	for (int i = 0; i < l->n && rc >= 0; i++) {
		double ns = (double)landscape_ns(l, i);
		if (ns <= 0 || space_legal(s, l->point[i].cand) < 0)
			continue;
		p->sample[p->n] = judge_sample(s, number, l->point[i].cand, ns);
		p->ns[p->n++] = ns;
	}
	arena_free(&scratch);
	return rc < 0 ? rc : p->n;
}

int problems_of(const struct landscape *l, int n, struct arena *a, struct problem **out)
{
	struct problem *p = ARENA_ARRAY(a, struct problem, n + 1);
	int made = 0;
	for (int i = 0; i < n; i++) {
		p[made] = (struct problem){0};
		int rc = fill(&l[i], made, a, &p[made]);
		if (rc >= 2)
			made++;
		else
			log_info("%s is left out: %s", l[i].label, rc < 0 ? err_text() : "it has no times");
	}
	*out = p;
	return made;
}

double judge_teach(const struct cost *c, void *state, const struct problem *p, int n, const char *use)
{
	struct arena a = {0};
	int all = 0, most = 0, got = 0;
	for (int i = 0; i < n; i++) {
		all += use[i] ? p[i].n : 0;
		most = use[i] && p[i].n > most ? p[i].n : most;
	}
	struct sample *s = ARENA_ARRAY(&a, struct sample, all + 1);
	int64_t start_ns = clock_now(&clock_real);
	for (int from = 0; from < most; from += TURN) {
		int before = got;
		for (int i = 0; i < n; i++)
			for (int k = from; use[i] && k < from + TURN && k < p[i].n; k++)
				s[got++] = p[i].sample[k];
		c->learn(state, s, got, got - before);
	}
	for (int pass = 1; pass < JUDGE_PASSES; pass++)
		c->learn(state, s, got, got);
	double each_ns = (double)(clock_now(&clock_real) - start_ns) / (got ? JUDGE_PASSES * got : 1);
	arena_free(&a);
	return each_ns;
}

static double pairs_right(const double *guess, const double *ns, int n)
{
	double right = 0, count = 0;
	for (int i = 0; i < n; i++)
		for (int k = 0; k < i; k++) {
			if (ns[i] <= APART * ns[k] && ns[k] <= APART * ns[i])
				continue;
			count++;
			right += guess[i] == guess[k] ? 0.5 : (guess[i] < guess[k]) == (ns[i] < ns[k]);
		}
	return count > 0 ? right / count : NAN;
}

/* The best time among the `top` candidates with the best predictions. */
static double best_of(const double *guess, const double *ns, int n, int top)
{
	int taken[TOP];
	double best = 1e300;
	for (int k = 0; k < top && k < n; k++) {
		taken[k] = -1;
		for (int i = 0; i < n; i++) {
			bool had = false;
			for (int j = 0; j < k; j++)
				had |= taken[j] == i;
			if (!had && (taken[k] < 0 || guess[i] < guess[taken[k]]))
				taken[k] = i;
		}
		best = ns[taken[k]] < best ? ns[taken[k]] : best;
	}
	return best;
}

static double errors_over_sd(const struct guess *g, const double *ns, int n)
{
	double mean = 0, sum = 0;
	for (int i = 0; i < n; i++)
		mean += log(g[i].ns / ns[i]) / n;
	for (int i = 0; i < n; i++) {
		double e = (log(g[i].ns / ns[i]) - mean) / g[i].sd;
		sum += e * e / n;
	}
	return sqrt(sum);
}

struct score judge_score(const struct cost *c, const void *state, const struct problem *p)
{
	struct arena a = {0};
	struct guess *g = ARENA_ARRAY(&a, struct guess, p->n);
	double *guess = ARENA_ARRAY(&a, double, p->n), best = best_of(p->ns, p->ns, p->n, 1);
	int64_t start_ns = 0;
	for (int pass = 0; pass < 2; pass++) { /* the first pass warms the caches; the second is timed */
		start_ns = clock_now(&clock_real);
		for (int i = 0; i < p->n; i++)
			g[i] = c->guess(state, p->sample[i].f);
	}
	double each_ns = (double)(clock_now(&clock_real) - start_ns) / p->n;
	for (int i = 0; i < p->n; i++)
		guess[i] = g[i].ns;
	struct score s = {.ns = each_ns,
			  .off = errors_over_sd(g, p->ns, p->n),
			  .pairs = pairs_right(guess, p->ns, p->n),
			  .top1 = best / best_of(guess, p->ns, p->n, 1),
			  .top5 = best / best_of(guess, p->ns, p->n, TOP)};
	arena_free(&a);
	return s;
}
