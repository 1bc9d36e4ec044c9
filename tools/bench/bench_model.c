/* SPDX-License-Identifier: Apache-2.0 */
/* make bench-model ARGS="DIR": how well each cost model ranks candidates of tasks that it never saw, compared
 * with their measured times: landscapes of the folder DIR (hone tune --record, make bench-landscape).
 *
 *	others    learnt all tasks of the folder except the tenth that has this one (--folds N: an N-th)
 *	networks  learnt only tasks of other networks (if the landscapes name their network)
 *
 * With HONE_DATA or ../shared (HONE_DATA=none: without), it also uses recorded schedules of another program
 * and machine, as far as candidates can express them (tools/bench/recorded.h):
 *
 *	others    learnt the other tasks of that machine
 *	machine   learnt all tasks of the other machine: 32 registers for 16, and the other way round
 *
 * Figures are means over tasks, defined in tools/hone/judge.h: pairs in the right order, the quality of the
 * first pick and of the best of five, the share of tasks where the latter is within 3 % of the best, errors
 * over the model's own estimate of them, and the time per candidate to predict and to learn.
 *
 *	--cost NAME   that model, and others so named (default: all except none, which knows nothing)
 *	--seeds N  of models that draw (1)   --tasks  a row for each task   --json  rows as JSON */
#include "search/cost.h"
#include "agent/cache/json.h"
#include "tools/hone/judge.h"
#include "tools/bench/recorded.h"
#include "platform/base/stats.h"
#include "tools/hone/table.h"
#include "tools/hone/cmd.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const families[] = {"dense", "depthwise", "chain", "other"};
enum { NFAMILIES = sizeof families / sizeof *families };
#define GOOD_TOP5 (1 / 1.03)

/* Sums over tasks. */
struct sum {
	int n, npairs, good;
	double pairs, top1, top5, worst1, worst5, off, guess_ns, learn_ns;
};

struct bench {
	struct arena a;
	struct table table;
	json_t *rows;
	const char *const *only; /* names of models; empty: all models */
	int nonly, seeds, folds;
	bool each;
};

static void add(struct sum *to, const struct sum *s)
{
	if (!s->n)
		return;
	to->worst1 = to->n == 0 || s->worst1 < to->worst1 ? s->worst1 : to->worst1;
	to->worst5 = to->n == 0 || s->worst5 < to->worst5 ? s->worst5 : to->worst5;
	to->n += s->n;
	to->npairs += s->npairs;
	to->good += s->good;
	to->pairs += s->pairs;
	to->top1 += s->top1;
	to->top5 += s->top5;
	to->off += s->off;
	to->guess_ns += s->guess_ns;
	to->learn_ns += s->learn_ns;
}

static struct sum sum_of(const struct score *x, double learn_ns)
{
	struct sum s = {.n = 1,
			.good = x->top5 >= GOOD_TOP5,
			.top1 = x->top1,
			.top5 = x->top5,
			.worst1 = x->top1,
			.worst5 = x->top5,
			.off = x->off,
			.guess_ns = x->ns,
			.learn_ns = learn_ns};
	if (!isnan(x->pairs)) {
		s.pairs = x->pairs;
		s.npairs = 1;
	}
	return s;
}

static void put_row(struct bench *b, const char *set, const char *learnt, const char *cost, const char *what,
		    const struct sum *s)
{
	if (!s->n)
		return;
	table_cell(&b->table, "%s", set);
	table_cell(&b->table, "%s", learnt);
	table_cell(&b->table, "%s", cost);
	table_cell(&b->table, "%s", what);
	table_cell(&b->table, "%d", s->n);
	if (s->npairs)
		table_cell(&b->table, "%.3f", s->pairs / s->npairs);
	else
		table_cell(&b->table, "-");
	table_cell(&b->table, "%.3f", s->top1 / s->n);
	table_cell(&b->table, "%.3f", s->worst1);
	table_cell(&b->table, "%.3f", s->top5 / s->n);
	table_cell(&b->table, "%.3f", s->worst5);
	table_cell(&b->table, "%.0f %%", 100.0 * s->good / s->n);
	table_cell(&b->table, "%.2f", s->off / s->n);
	table_cell(&b->table, "%.2f", s->guess_ns / s->n / 1e3);
	table_cell(&b->table, "%.0f", s->learn_ns / s->n / 1e3);
	json_array_append_new(
	    b->rows,
	    json_pack("{ss ss ss ss si so so so so so so so so so}", "set", set, "learnt", learnt, "cost",
		      cost, "tasks", what, "n", s->n, "pairs",
		      s->npairs ? json_num(s->pairs / s->npairs) : json_null(), "top1",
		      json_num(s->top1 / s->n), "top1_worst", json_num(s->worst1), "top5",
		      json_num(s->top5 / s->n), "top5_worst", json_num(s->worst5), "top5_good",
		      json_num((double)s->good / s->n), "off", json_num(s->off / s->n), "guess_us",
		      json_num(s->guess_ns / s->n / 1e3), "learn_us", json_num(s->learn_ns / s->n / 1e3)));
}

static void put_families(struct bench *b, const char *set, const char *learnt, const char *cost,
			 const struct sum sum[NFAMILIES])
{
	struct sum all = {0};
	for (int f = 0; f < NFAMILIES; f++) {
		put_row(b, set, learnt, cost, families[f], &sum[f]);
		add(&all, &sum[f]);
	}
	put_row(b, set, learnt, cost, "all", &all);
}

static int family_of(const struct problem *p)
{
	int f = 0;
	while (f < NFAMILIES - 1 && strcmp(families[f], p->family))
		f++;
	return f;
}

/* Who learns what: the problems of one group share a model, which learns the problems of the school that are
 * in other groups. If `of` is NULL, the school is another machine's, and one model learns all of it. */
struct exam {
	const char *set, *learnt;
	const struct problem *p;
	int n;
	const int *of; /* group of each problem, 0 .. groups - 1 */
	int groups;
	const struct problem *school;
	int nschool;
};

/* Adds the scores of one group's problems to their families. */
static int judge_group(struct bench *b, const struct cost *c, const struct exam *e, int group, uint64_t seed,
		       struct sum sum[NFAMILIES])
{
	struct arena a = {0};
	void *state;
	char *use = ARENA_ARRAY(&a, char, e->nschool + 1);
	int rc = c->start(&a, NULL, 0, seed, &state);
	for (int i = 0; i < e->nschool; i++)
		use[i] = !e->of || e->of[i] != group;
	double learn_ns = rc >= 0 ? judge_teach(c, state, e->school, e->nschool, use) : 0;
	for (int i = 0; i < e->n && rc >= 0; i++) {
		if (e->of && e->of[i] != group)
			continue;
		struct score s = judge_score(c, state, &e->p[i]);
		struct sum one = sum_of(&s, learn_ns);
		add(&sum[family_of(&e->p[i])], &one);
		if (b->each)
			put_row(b, e->set, e->learnt, c->name, e->p[i].name, &one);
	}
	arena_free(&a);
	return rc;
}

static int judge_cost(struct bench *b, const struct cost *c, const struct exam *e)
{
	struct sum sum[NFAMILIES] = {{0}};
	for (int group = 0; group < e->groups; group++)
		for (int seed = 1; seed <= b->seeds; seed++) {
			int rc = judge_group(b, c, e, group, (uint64_t)seed, sum);
			if (rc < 0)
				return rc;
		}
	put_families(b, e->set, e->learnt, c->name, sum);
	return E_OK;
}

static bool asked_for(const struct bench *b, const char *name)
{
	for (int i = 0; i < b->nonly; i++)
		if (!strcmp(name, b->only[i]))
			return true;
	return !b->nonly && strcmp(name, "none") != 0;
}

static int judge_all(struct bench *b, const struct exam *e)
{
	for (int i = 0; cost_table[i]; i++) {
		const struct cost *c = cost_table[i];
		int rc = asked_for(b, c->name) ? judge_cost(b, c, e) : E_OK;
		if (rc < 0)
			return fail_in(rc, "%s", c->name);
	}
	return E_OK;
}

/* Problem i is in group i modulo the number of folds. */
static struct exam folded(struct bench *b, const char *set, const struct problem *p, int n)
{
	int *of = ARENA_ARRAY(&b->a, int, n + 1), groups = n < b->folds ? n : b->folds;
	for (int i = 0; i < n; i++)
		of[i] = i % groups;
	return (struct exam){set, "others", p, n, of, groups, p, n};
}

/* One group per network. */
static struct exam by_network(struct bench *b, const char *set, const struct problem *p, int n)
{
	int *of = ARENA_ARRAY(&b->a, int, n + 1), groups = 0;
	for (int i = 0; i < n; i++) {
		int k = 0;
		while (k < i && strcmp(p[k].network, p[i].network))
			k++;
		of[i] = k < i ? of[k] : groups++;
	}
	return (struct exam){set, "networks", p, n, of, groups, p, n};
}

static int judge_folder(struct bench *b, const char *dir)
{
	struct landscape *l;
	struct problem *p;
	int rc = landscape_folder(dir, &b->a, &l), n = rc;
	if (rc >= 0)
		rc = n = problems_of(l, n, &b->a, &p);
	if (rc < 0)
		return rc;
	struct exam others = folded(b, "here", p, n), networks = by_network(b, "here", p, n);
	rc = judge_all(b, &others);
	bool named = networks.groups > 1;
	for (int i = 0; i < n; i++)
		named = named && *p[i].network;
	return rc >= 0 && named ? judge_all(b, &networks) : rc;
}

static int judge_recorded(struct bench *b, const char *data)
{
	struct problem *p[2];
	int n[2];
	static const char *const names[2] = {"32 registers", "16 registers"};
	for (int i = 0; i < 2; i++) {
		struct recorded_count count;
		int rc = n[i] = recorded_problems(data, i == 1, &b->a, &p[i], &count);
		if (rc < 0)
			return rc;
		fprintf(stderr, "%s: %d tasks, %d of %d recorded schedules are candidates\n", names[i], n[i],
			count.said, count.all);
	}
	for (int i = 0; i < 2; i++) {
		const struct exam others = folded(b, names[i], p[i], n[i]),
				  machine = {names[i], "machine", p[i], n[i], NULL, 1, p[!i], n[!i]};
		int rc = judge_all(b, &others);
		if (rc >= 0)
			rc = judge_all(b, &machine);
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

static int run_model(const struct args *a)
{
	static const char *const head[] = {"set",        "learnt", "cost",     "tasks",   "n",
					   "pairs",      "top 1",  "worst",    "top 5",   "worst",
					   "within 3 %", "off",    "guess us", "learn us"};
	struct bench b = {.seeds = (int)arg_int(a, "seeds", 1),
			  .folds = (int)arg_int(a, "folds", 10),
			  .each = arg_flag(a, "tasks"),
			  .rows = json_array()};
	const char *data = recorded_folder();
	b.nonly = arg_list(a, "cost", &b.only);
	for (int i = 0; i < b.nonly; i++)
		if (!cost_find(b.only[i]))
			return fail(E_USAGE, "unknown cost model '%s'", b.only[i]);
	if (b.seeds < 1 || b.seeds > 1000 || b.folds < 2 || b.folds > LANDSCAPE_FILES)
		return fail(E_USAGE, "--seeds: 1 to 1000, --folds: 2 to %d", LANDSCAPE_FILES);
	b.table.align = "llllrrrrrrrrrr";
	for (size_t i = 0; i < sizeof head / sizeof *head; i++)
		table_cell(&b.table, "%s", head[i]);
	int rc = a->npos ? judge_folder(&b, a->pos[0]) : E_OK;
	if (rc >= 0 && data)
		rc = judge_recorded(&b, data);
	if (rc >= 0 && !a->npos && !data)
		rc = fail(E_USAGE,
			  "missing argument DIR, a folder of landscapes; the default needs HONE_DATA");
	if (rc >= 0 && a->json)
		rc = json_out(json_pack("{so}", "rows", b.rows));
	else if (rc >= 0)
		table_print(&b.table, a->color);
	arena_free(&b.a);
	return rc < 0 ? rc : 0;
}

static const struct opt opts[] = {
    {"cost", OPT_LIST, "NAME", "cost model to judge; may be repeated (default: all except none)"},
    {"seeds", OPT_INT, "N", "runs of each model, with different random seeds (1)"},
    {"folds", OPT_INT, "N",
     "parts of the tasks; each part is predicted by a model that learnt the others (10)"},
    {"tasks", OPT_FLAG, NULL, "print a row for each task"},
    {NULL},
};

static const struct cmd model = {
    .usage = "[DIR] [--cost NAME]... [--seeds N] [--folds N] [--tasks]",
    .summary = "measure how well cost models rank candidates of tasks that they never saw",
    .details = "",
    .max_pos = 1,
    .opts = opts,
    .run = run_model,
    .name = "model",
};

int main(int argc, char **argv)
{
	return cmd_main(&model, argc, argv);
}
