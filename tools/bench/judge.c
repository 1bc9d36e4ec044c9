/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/judge.h"

#include "platform/base/clock.h"
#include "platform/base/log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOP = 5 };
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

void problem_room(struct problem *p, int room, struct arena *a)
{
	p->f = arena_alloc(a, sizeof *p->f * ((size_t)room + 1));
	p->ns = ARENA_ARRAY(a, double, room + 1);
}

void problem_add(struct problem *p, const struct space *s, const char *cand, double ns)
{
	space_features(s, cand, p->f[p->n]);
	p->ns[p->n++] = ns;
}

static int fill(const struct landscape *l, struct arena *a, struct problem *p)
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
	problem_room(p, l->n, a);
	for (int i = 0; i < l->n && rc >= 0; i++) {
		double ns = (double)landscape_ns(l, i);
		if (ns <= 0 || space_legal(s, l->point[i].cand) < 0)
			continue;
		problem_add(p, s, l->point[i].cand, ns);
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
		int rc = fill(&l[i], a, &p[made]);
		if (rc >= 2)
			made++;
		else
			log_info("%s is left out: %s", l[i].label, rc < 0 ? err_text() : "it has no times");
	}
	*out = p;
	return made;
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

struct score judge_score(const struct cost *c, const struct problem *p)
{
	struct arena a = {0};
	struct guess *g = ARENA_ARRAY(&a, struct guess, p->n);
	double *guess = ARENA_ARRAY(&a, double, p->n), best = best_of(p->ns, p->ns, p->n, 1);
	int64_t start_ns = 0;
	for (int pass = 0; pass < 2; pass++) { /* the first pass warms the caches; the second is timed */
		start_ns = clock_now(&clock_real);
		for (int i = 0; i < p->n; i++)
			g[i] = c->guess(p->f[i]);
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
