/* SPDX-License-Identifier: Apache-2.0 */
/* make bench-model ARGS="DIR": how well cost models rank candidates, compared with their measured times: the
 * landscapes of the folder DIR (hone tune --record, make bench-landscape). With HONE_DATA or ../shared
 * (HONE_DATA=none: without), it also uses recorded schedules of another program on machines of 32 and 16
 * registers, as far as candidates can express them (tools/bench/recorded.h).
 *
 * Figures are means over tasks, defined in tools/bench/judge.h: pairs in the right order, the quality of the
 * first pick and of the best of five, the share of tasks where the latter is within 3 % of the best, errors
 * over the model's own estimate of them, and the time per candidate to predict.
 *
 *	--cost NAME   that model, and others so named (default: all except none, which knows nothing)
 *	--tasks       a row for each task              --json  rows as JSON */
#include "search/cost.h"
#include "agent/cache/json.h"
#include "tools/bench/judge.h"
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
	double pairs, top1, top5, worst1, worst5, off, guess_ns;
};

struct bench {
	struct arena a;
	struct table table;
	json_t *rows;
	const char *const *only; /* names of models; empty: all models */
	int nonly;
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
}

static struct sum sum_of(const struct score *x)
{
	struct sum s = {.n = 1,
			.good = x->top5 >= GOOD_TOP5,
			.top1 = x->top1,
			.top5 = x->top5,
			.worst1 = x->top1,
			.worst5 = x->top5,
			.off = x->off,
			.guess_ns = x->ns};
	if (!isnan(x->pairs)) {
		s.pairs = x->pairs;
		s.npairs = 1;
	}
	return s;
}

static void put_row(struct bench *b, const char *set, const char *cost, const char *what, const struct sum *s)
{
	if (!s->n)
		return;
	table_cell(&b->table, "%s", set);
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
	json_array_append_new(
	    b->rows,
	    json_pack("{ss ss ss si so so so so so so so so}", "set", set, "cost", cost, "tasks", what, "n",
		      s->n, "pairs", s->npairs ? json_num(s->pairs / s->npairs) : json_null(), "top1",
		      json_num(s->top1 / s->n), "top1_worst", json_num(s->worst1), "top5",
		      json_num(s->top5 / s->n), "top5_worst", json_num(s->worst5), "top5_good",
		      json_num((double)s->good / s->n), "off", json_num(s->off / s->n), "guess_us",
		      json_num(s->guess_ns / s->n / 1e3)));
}

static void put_families(struct bench *b, const char *set, const char *cost, const struct sum sum[NFAMILIES])
{
	struct sum all = {0};
	for (int f = 0; f < NFAMILIES; f++) {
		put_row(b, set, cost, families[f], &sum[f]);
		add(&all, &sum[f]);
	}
	put_row(b, set, cost, "all", &all);
}

static int family_of(const struct problem *p)
{
	int f = 0;
	while (f < NFAMILIES - 1 && strcmp(families[f], p->family))
		f++;
	return f;
}

static void judge_cost(struct bench *b, const struct cost *c, const char *set, const struct problem *p, int n)
{
	struct sum sum[NFAMILIES] = {{0}};
	for (int i = 0; i < n; i++) {
		struct score s = judge_score(c, &p[i]);
		struct sum one = sum_of(&s);
		add(&sum[family_of(&p[i])], &one);
		if (b->each)
			put_row(b, set, c->name, p[i].name, &one);
	}
	put_families(b, set, c->name, sum);
}

static bool asked_for(const struct bench *b, const char *name)
{
	for (int i = 0; i < b->nonly; i++)
		if (!strcmp(name, b->only[i]))
			return true;
	return !b->nonly && strcmp(name, "none") != 0;
}

static void judge_all(struct bench *b, const char *set, const struct problem *p, int n)
{
	for (int i = 0; cost_table[i]; i++)
		if (asked_for(b, cost_table[i]->name))
			judge_cost(b, cost_table[i], set, p, n);
}

static int judge_folder(struct bench *b, const char *dir)
{
	struct landscape *l;
	struct problem *p;
	int n = landscape_folder(dir, &b->a, &l);
	if (n >= 0)
		n = problems_of(l, n, &b->a, &p);
	if (n >= 0)
		judge_all(b, "here", p, n);
	return n;
}

static int judge_recorded(struct bench *b, const char *data)
{
	static const char *const names[2] = {"32 registers", "16 registers"};
	for (int i = 0; i < 2; i++) {
		struct recorded_count count;
		struct problem *p;
		int n = recorded_problems(data, i == 1, &b->a, &p, &count);
		if (n < 0)
			return n;
		fprintf(stderr, "%s: %d tasks, %d of %d recorded schedules are candidates\n", names[i], n,
			count.said, count.all);
		judge_all(b, names[i], p, n);
	}
	return E_OK;
}

static int run_model(const struct args *a)
{
	static const char *const head[] = {"set",   "cost",  "tasks", "n",          "pairs", "top 1",
					   "worst", "top 5", "worst", "within 3 %", "off",   "guess us"};
	struct bench b = {.each = arg_flag(a, "tasks"), .rows = json_array()};
	const char *data = recorded_folder();
	b.nonly = arg_list(a, "cost", &b.only);
	for (int i = 0; i < b.nonly; i++)
		if (!cost_find(b.only[i]))
			return fail(E_USAGE, "unknown cost model '%s'", b.only[i]);
	b.table.align = "lllrrrrrrrrr";
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
    {"tasks", OPT_FLAG, NULL, "print a row for each task"},
    {NULL},
};

static const struct cmd model = {
    .usage = "[DIR] [--cost NAME]... [--tasks]",
    .summary = "measure how well cost models rank candidates",
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
