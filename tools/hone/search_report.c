/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/search_report.h"
#include "platform/base/file.h"
#include "tools/hone/chart.h"
#include "tools/hone/table.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_STRATEGIES = 16 };

static const double shown_s[] = {2, 5, 10, 20, 60};
enum { SHOWN = sizeof shown_s / sizeof *shown_s };

/* Collects the names of the strategies, in order of appearance. */
static int strategies(const struct search_report *r, const char *name[MAX_STRATEGIES])
{
	int n = 0;
	for (int i = 0; i < r->n; i++) {
		int k = 0;
		while (k < n && strcmp(name[k], r->course[i].strategy))
			k++;
		if (k == n && n < MAX_STRATEGIES)
			name[n++] = r->course[i].strategy;
	}
	return n;
}

static json_t *sum_json(const struct search_report *r, const char *network, const char *strategy)
{
	json_t *list = json_array();
	for (int i = 0; i < SHOWN; i++) {
		struct quality_sum s = quality_sum(r->course, r->n, network, strategy, shown_s[i]);
		json_array_append_new(list, json_pack("{so so so}", "at_s", json_num(shown_s[i]), "mean",
						      json_num(s.mean), "worst", json_num(s.worst)));
	}
	return json_pack("{so so si so}", "strategy", json_text(strategy), "network",
			 network ? json_text(network) : json_null(), "courses",
			 quality_sum(r->course, r->n, network, strategy, 0).n, "quality", list);
}

static json_t *sums_json(const struct search_report *r)
{
	const char *name[MAX_STRATEGIES];
	json_t *list = json_array();
	for (int k = 0, n = strategies(r, name); k < n; k++) {
		for (int i = 0; i < r->nnets; i++)
			json_array_append_new(list, sum_json(r, r->net[i].name, name[k]));
		json_array_append_new(list, sum_json(r, NULL, name[k]));
	}
	return list;
}

static json_t *net_json(const struct search_net *n)
{
	return json_pack("{so so so so so so so so}", "network", json_text(n->name), "model",
			 json_text(n->path), "best", json_text(n->best), "best_from", json_text(n->origin),
			 "best_ms", json_num(n->ms), "best_median_ms", json_num(n->median_ms),
			 "default_quality", json_num(n->standard), "fallback_quality", json_num(n->fallback));
}

static json_t *busy_json(const struct search_report *r)
{
	struct buf why = {0};
	disturbance_words(&r->machine, &why);
	json_t *o = why.n ? json_text(buf_str(&why)) : json_null();
	buf_free(&why);
	return o;
}

json_t *search_json(const struct search_report *r)
{
	json_t *nets = json_array(), *courses = json_array();
	for (int i = 0; i < r->nnets; i++)
		json_array_append_new(nets, net_json(&r->net[i]));
	for (int i = 0; i < r->n; i++)
		json_array_append_new(courses, quality_json(&r->course[i]));
	return json_pack("{s{so ss so so si si ss} si ss si so so so so so so}", "machine", "soc",
			 json_text(r->target.soc), "isa", r->target.isa, "fma_gflops",
			 json_num(r->target.fma_gflops), "dram_gbs", json_num(r->target.bw_gbs[3]), "threads",
			 1, "cpu", r->cpu, "hone", HONE_VERSION, "rounds", r->openings * r->rounds, "date",
			 r->date, "boxes", r->boxes, "networks", nets, "courses", courses, "sums",
			 sums_json(r), "reference_s", json_num(r->reference_s), "reference",
			 json_text(r->best ? r->best : ""), "busy", busy_json(r));
}

static void percent(struct table *t, double v)
{
	if (isfinite(v) && v > 0)
		table_cell(t, "%.1f", 100 * v);
	else
		table_cell(t, "-");
}

/* "12+3/58": tuned kernels, kernels at default schedules, all kernels that can be compiled. */
static void served(struct table *t, const struct course *c, double at_s)
{
	const struct moment *m = NULL;
	for (int i = 0; i < c->n && c->moment[i].at_s <= at_s; i++)
		m = &c->moment[i];
	if (m)
		table_cell(t, "%d+%d/%d", m->tuned, m->standard, m->tuned + m->standard + m->fallback);
	else
		table_cell(t, "-");
}

static void course_row(struct table *t, const struct course *c)
{
	double s = quality_seconds(c, 0.95);
	table_cell(t, "%s", c->network);
	table_cell(t, "%s", c->strategy);
	table_cell(t, "%llu", (unsigned long long)c->seed);
	for (int i = 0; i < SHOWN; i++)
		percent(t, quality_at(c, shown_s[i]));
	const struct moment *end = &c->moment[c->n - 1];
	table_cell(t, "%.1f-%.1f", 100 * end->least, 100 * end->most);
	percent(t, end->median);
	table_cell(t, isfinite(s) ? "%g" : "-", s);
	table_cell(t, "%d", c->trials);
	table_cell(t, isfinite(c->own_pct) ? "%.1f" : "-", c->own_pct);
	served(t, c, 2);
	served(t, c, 5);
}

static void courses_table(const struct search_report *r, bool color)
{
	static const char *const head[] = {"network", "strategy", "seed",  "2 s",         "5 s",
					   "10 s",    "20 s",     "60 s",  "from-to",     "median",
					   "95 % s",  "trials",   "own %", "kernels 2 s", "5 s"};
	struct table t = {.align = "llrrrrrrrrrrrrr"};
	for (size_t i = 0; i < sizeof head / sizeof *head; i++)
		table_cell(&t, "%s", head[i]);
	for (int i = 0; i < r->n; i++)
		course_row(&t, &r->course[i]);
	table_print(&t, color);
}

static void sum_row(struct table *t, const struct search_report *r, const char *network, const char *strategy)
{
	struct quality_sum s[SHOWN];
	for (int i = 0; i < SHOWN; i++)
		s[i] = quality_sum(r->course, r->n, network, strategy, shown_s[i]);
	if (!s[0].n)
		return;
	table_cell(t, "%s", network ? network : "all");
	table_cell(t, "%s", strategy);
	table_cell(t, "%d", s[0].n);
	for (int i = 0; i < SHOWN; i++)
		percent(t, s[i].mean);
	for (int i = 0; i < SHOWN; i++)
		percent(t, s[i].worst);
}

static void sums_table(const struct search_report *r, bool color)
{
	static const char *const head[] = {"mean of", "strategy",  "courses", "2 s",  "5 s",  "10 s", "20 s",
					   "60 s",    "worst 2 s", "5 s",     "10 s", "20 s", "60 s"};
	const char *name[MAX_STRATEGIES];
	struct table t = {.align = "llrrrrrrrrrrr"};
	for (size_t i = 0; i < sizeof head / sizeof *head; i++)
		table_cell(&t, "%s", head[i]);
	int n = strategies(r, name);
	for (int i = 0; i < r->nnets; i++)
		for (int k = 0; k < n; k++)
			sum_row(&t, r, r->net[i].name, name[k]);
	for (int k = 0; k < n; k++)
		sum_row(&t, r, NULL, name[k]);
	table_print(&t, color);
}

/* What 100 % means. */
static void print_reference(const struct search_report *r)
{
	printf("reference: for each network, the fastest kernels that any search kept in %s has found",
	       r->best);
	if (r->reference_s > 0)
		printf(", among them a box of %g s\n", r->reference_s);
	else
		printf("; no long box was run for it, so a search that is the best so far has 100 %%: "
		       "--reference "
		       "600s or FULL=1 runs one\n");
}

static void print_no_verdict(const struct search_report *r)
{
	struct buf why = {0};
	disturbance_words(&r->machine, &why);
	printf("no verdict: the machine was busy while the kernels were timed (%s); run it again with --keep "
	       "when "
	       "the machine is idle\n",
	       buf_str(&why));
	buf_free(&why);
}

void search_print(const struct search_report *r, bool color)
{
	printf("%% of the best ever found, by %d neighbouring runs kernel by kernel (at the end, from-to: %d "
	       "openings "
	       "of %d runs; median: of whole runs); %s\n",
	       r->openings * r->rounds, r->openings, r->rounds,
	       r->boxes ? "a box of its own for each time" : "snapshots of one search");
	print_reference(r);
	courses_table(r, color);
	if (disturbed(&r->machine))
		print_no_verdict(r);
	else
		sums_table(r, color);
	for (int i = 0; i < r->nnets; i++)
		printf("%s: best %.3f ms (median %.3f) by %s; default schedules %.1f %%, fallback kernels "
		       "%.1f %%\n",
		       r->net[i].name, r->net[i].ms, r->net[i].median_ms, r->net[i].origin,
		       100 * r->net[i].standard, 100 * r->net[i].fallback);
	printf("%s %s, %.1f GFLOP/s and %.1f GB/s a core; 1 thread, searching, compiling and measuring on "
	       "processor %d; hone %s, %s\n",
	       r->target.soc, r->target.isa, r->target.fma_gflops, r->target.bw_gbs[3], r->cpu, HONE_VERSION,
	       r->date);
}

struct picture {
	struct arena arena;
	const struct search_report *r;
	int nstrategies;
	const char *strategy[MAX_STRATEGIES];
};

static int kind_of(const struct picture *p, const char *strategy)
{
	int k = 0;
	while (k < p->nstrategies && strcmp(p->strategy[k], strategy))
		k++;
	return k % CHART_KINDS;
}

static struct chart_line course_line(struct picture *p, const struct course *c)
{
	double *x = ARENA_ARRAY(&p->arena, double, c->n), *y = ARENA_ARRAY(&p->arena, double, c->n);
	for (int i = 0; i < c->n; i++) {
		x[i] = c->moment[i].at_s;
		y[i] = c->moment[i].quality;
	}
	return (struct chart_line){NULL, kind_of(p, c->strategy), c->n, x, y};
}

/* All courses have the same moments. */
static struct chart_line mean_line(struct picture *p, const char *network, const char *strategy)
{
	const struct course *c = p->r->course;
	double *x = ARENA_ARRAY(&p->arena, double, MOMENTS_MAX);
	double *y = ARENA_ARRAY(&p->arena, double, MOMENTS_MAX);
	int n = 0;
	for (int i = 0; i < c->n; i++) {
		struct quality_sum s = quality_sum(c, p->r->n, network, strategy, c->moment[i].at_s);
		if (!s.n)
			continue;
		x[n] = c->moment[i].at_s;
		y[n++] = s.mean;
	}
	return (struct chart_line){strategy, kind_of(p, strategy), n, x, y};
}

static void panel(struct picture *p, const char *network, double top, struct buf *out)
{
	const struct search_report *r = p->r;
	struct chart_line *l = ARENA_ARRAY(&p->arena, struct chart_line, r->n + MAX_STRATEGIES);
	int n = 0;
	for (int i = 0; i < r->n && network; i++)
		if (!strcmp(r->course[i].network, network))
			l[n++] = course_line(p, &r->course[i]);
	for (int k = 0; k < p->nstrategies; k++) {
		l[n] = mean_line(p, network, p->strategy[k]);
		n += l[n].n > 0;
	}
	chart_curves(network ? network : "all networks (geometric mean)", top, l, n, out);
}

void search_svg(const struct search_report *r, struct buf *out)
{
	struct picture p = {.r = r};
	p.nstrategies = strategies(r, p.strategy);
	chart_file_begin((r->nnets + 1) * CHART_CURVES_HEIGHT, out);
	for (int i = 0; i < r->nnets && r->n; i++)
		panel(&p, r->net[i].name, (i + 1) * CHART_CURVES_HEIGHT, out);
	if (r->n)
		panel(&p, NULL, 0, out);
	chart_file_end(out);
	arena_free(&p.arena);
}

int search_write(const struct search_report *r, const char *dir)
{
	struct buf svg = {0};
	struct arena a = {0};
	json_t *j = search_json(r);
	char *text = json_dumps(j, JSON_REAL_PRECISION(6) | JSON_INDENT(1));
	json_decref(j);
	search_svg(r, &svg);
	int rc = text && buf_ok(&svg) ? 0 : fail(E_NOMEM, "no memory for the results");
	if (rc >= 0)
		rc = file_write(arena_printf(&a, "%s/search.json", dir), text, strlen(text));
	if (rc >= 0)
		rc = file_write(arena_printf(&a, "%s/search.svg", dir), svg.p, svg.n);
	free(text);
	buf_free(&svg);
	arena_free(&a);
	return rc;
}
