/* SPDX-License-Identifier: Apache-2.0 */
/* make bench-herd ARGS=--power: a million boards get power at the same moment, in virtual time. Figures:
 * requests to the server in any 1 s and 10 s, over the planned number (tools/bench/herd_power.h).
 *
 *	--boards N  (1000000)      --every 6h  the boards' interval
 *
 * make bench-herd ARGS=--search: fleets that search, on the recorded schedules of the optional data folder
 * (tools/bench/recorded.h, tools/bench/herd_search.h). Figures: how good the kernels of half of the boards
 * are after each boot, when boards search alone, share their results, or divide the search.
 *
 *	--boards N  that fleet alone   --liars N  --mode M     --boots N  (8; divided: half)  --box 5s
 *	--slower 5  cores of the boards, slower by this factor than those recorded
 *	--narrow    the machine with 16 registers */
#include "agent/cache/json.h"
#include "platform/base/clock.h"
#include "search/share.h"
#include "tools/hone/cmd.h"
#include "tools/bench/herd_power.h"
#include "tools/bench/herd_search.h"
#include "tools/bench/recorded.h"
#include "tools/hone/table.h"

#include <stdio.h>
#include <string.h>

#define HOUR 3600.

/* ---- power ---- */

/* Times are for an interval of 6 h; other intervals scale them. The bound is twice the planned number, in 1 s
 * and 10 s. With an interval of a day there are so few requests in 1 s that chance alone exceeds the
 * bound. */
static const struct {
	struct herd_power c;
	bool one;
} powers[] = {
    {{"the server answers", .run_s = 48 * HOUR}, true},
    {{"fails for the first hour", .run_s = 48 * HOUR, .fails_to = HOUR}, true},
    {{"the same, Retry-After 10 min", .run_s = 48 * HOUR, .fails_to = HOUR, .retry_s = HOUR / 6}, true},
    {{"the same, Retry-After 12 h", .run_s = 48 * HOUR, .fails_to = HOUR, .retry_s = 12 * HOUR}, true},
    {{"fails for the third hour", .run_s = 48 * HOUR, .fails_from = 2 * HOUR, .fails_to = 3 * HOUR}, true},
    {{"fails for a day", .run_s = 96 * HOUR, .fails_to = 24 * HOUR}, true},
    {{"power comes back every hour", .run_s = 24 * HOUR, .again_s = HOUR}, true},
    {{"after 6 h asks for 2 h; power again", .run_s = 48 * HOUR, .again_s = 30 * HOUR, .poll_from = 6 * HOUR,
      .poll_s = 2 * HOUR},
     true},
    {{"after 6 h asks for 24 h; power again", .run_s = 96 * HOUR, .again_s = 60 * HOUR, .poll_from = 6 * HOUR,
      .poll_s = 24 * HOUR},
     false},
};
enum { NPOWERS = sizeof powers / sizeof *powers };
#define BOUND 2.

static struct herd_power scaled(struct herd_power c, int boards, double every_s, uint64_t seed)
{
	double by = every_s / (6 * HOUR);
	c.boards = boards;
	c.seed = seed;
	c.every_s = every_s;
	c.run_s *= by;
	c.again_s *= by;
	c.fails_from *= by;
	c.fails_to *= by;
	c.retry_s *= by;
	c.poll_from *= by;
	c.poll_s *= by;
	return c;
}

static void put_power(struct table *t, json_t *rows, const char *name, const struct herd_peak *p)
{
	table_cell(t, "%s", name);
	table_cell(t, "%.1f", p->planned);
	table_cell(t, "%.2f", p->one);
	table_cell(t, "%.2f", p->ten);
	table_cell(t, "%.3f", p->mean_late);
	table_cell(t, "%lld", (long long)p->starts);
	table_cell(t, "%lld", (long long)(p->asks - p->failed));
	table_cell(t, "%lld", (long long)p->failed);
	json_array_append_new(
	    rows, json_pack("{ss so so so so sI sI sI}", "case", name, "planned_per_s", json_num(p->planned),
			    "peak_1s", json_num(p->one), "peak_10s", json_num(p->ten), "late",
			    json_num(p->mean_late), "starts", (json_int_t)p->starts, "good",
			    (json_int_t)(p->asks - p->failed), "failed", (json_int_t)p->failed));
}

static int run_power(const struct args *a)
{
	static const char *const head[] = {"case",       "planned/s", "peak 1 s", "peak 10 s",
					   "at the end", "starts",    "good",     "failed"};
	struct table t = {.align = "lrrrrrrr"};
	json_t *rows = json_array();
	uint64_t seed;
	int boards = (int)arg_int(a, "boards", 1000000), beyond = 0, rc = arg_seed(a, &seed);
	double every_s = (double)arg_duration(a, "every", (int64_t)(6 * HOUR) * NS_PER_S) / 1e9;
	for (size_t i = 0; i < sizeof head / sizeof *head; i++)
		table_cell(&t, "%s", head[i]);
	for (int i = 0; i < NPOWERS && rc >= 0; i++) {
		struct herd_power c = scaled(powers[i].c, boards, every_s, seed);
		struct herd_peak p;
		rc = herd_power(&c, &p);
		if (rc >= 0)
			put_power(&t, rows, c.name, &p);
		beyond += rc >= 0 && (p.ten > BOUND || (powers[i].one && p.one > BOUND));
	}
	if (rc < 0)
		json_decref(rows);
	else if (a->json)
		rc = json_out(json_pack("{so si}", "rows", rows, "beyond", beyond));
	else
		table_print(&t, a->color);
	return rc < 0 ? rc : beyond ? fail(E_WRONG, "%d cases exceed twice the planned load", beyond) : 0;
}

/* ---- search ---- */

enum { SHOWN = 3 /* boots that are shown, the first ones */ };
#define ENOUGH 0.98

static const char *const mode_names[HERD_MODES] = {"alone", "shared", "divided"};

/* How often networks with such layers use each task. */
static int uses_of(const char *label)
{
	static const struct {
		const char *label;
		int uses;
	} all[] = {{"c3_64_56", 4},     {"c3_256_14", 3},      {"c3_64_128_52", 1},  {"c1_256_64_56", 2},
		   {"c1_96_576_14", 3}, {"g_196_256_2304", 3}, {"g_49_512_4608", 3}, {"dw_144_56", 2}};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!strcmp(all[i].label, label))
			return all[i].uses;
	return 1;
}

/* Slower boards take longer to build and to run, by the factor `by`. */
static void slow_down(struct landscape *l, int n, int by)
{
	for (int i = 0; i < n; i++)
		for (int k = 0; k < l[i].n; k++) {
			l[i].point[k].min_ns *= by;
			l[i].point[k].low_ns *= by;
			l[i].point[k].build_ns *= by;
		}
}

static void put_fleet(struct table *t, json_t *rows, const struct herd_search *c, const struct herd_boot *b,
		      int n)
{
	int enough = 0;
	while (enough < n && b[enough].median < ENOUGH)
		enough++;
	table_cell(t, "%d", c->boards);
	table_cell(t, "%d", c->liars);
	table_cell(t, "%s", mode_names[c->mode]);
	table_cell(t, "%d", c->mode == HERD_DIVIDED ? c->parts : 0);
	for (int i = 0; i < SHOWN; i++) {
		if (i < n)
			table_cell(t, "%.4f", b[i].median);
		else
			table_cell(t, "%s", "-");
	}
	table_cell(t, "%.4f", b[n - 1].median);
	table_cell(t, "%.4f", b[n - 1].tenth);
	table_cell(t, enough < n ? "%d" : "> %d", enough < n ? enough + 1 : n);
	table_cell(t, "%d", b[n - 1].struck);
	json_t *boots = json_array();
	for (int i = 0; i < n; i++)
		json_array_append_new(boots, json_pack("{so so so si}", "median", json_num(b[i].median),
						       "tenth", json_num(b[i].tenth), "reached",
						       json_num(b[i].reached), "trials", b[i].trials));
	json_array_append_new(rows,
			      json_pack("{si si ss si so}", "boards", c->boards, "liars", c->liars, "mode",
					mode_names[c->mode], "parts", c->parts, "boots", boots));
}

static int run_fleet(struct herd_search *c, struct table *t, json_t *rows, int boards, int liars,
		     const char *only)
{
	struct herd_boot boot[HERD_BOOTS];
	int rc = E_OK, boots = c->boots;
	c->boards = boards;
	c->liars = liars;
	c->parts = share_parts(boards);
	for (int m = 0; m < HERD_MODES && rc >= 0; m++) {
		bool passed = only ? strcmp(only, mode_names[m]) != 0
				   : (m != HERD_DIVIDED && liars) || (m == HERD_SHARED && boards < 100) ||
					 (m == HERD_DIVIDED && boards < 2);
		if (passed)
			continue;
		c->mode = (enum herd_mode)m;
		c->boots = m == HERD_DIVIDED ? (boots + 1) / 2 : boots;
		rc = herd_search(c, boot);
		if (rc > 0)
			put_fleet(t, rows, c, boot, rc);
	}
	c->boots = boots;
	return rc;
}

static int run_fleets(const struct args *a, struct herd_search *c, struct table *t, json_t *rows)
{
	static const int fleets[][2] = {{1, 0}, {4, 0}, {20, 0}, {100, 0}, {100, 10}};
	const char *only = arg_str(a, "mode", NULL);
	int rc = E_OK;
	if (arg_given(a, "boards"))
		return run_fleet(c, t, rows, (int)arg_int(a, "boards", 100), (int)arg_int(a, "liars", 0),
				 only);
	for (size_t i = 0; i < sizeof fleets / sizeof *fleets && rc >= 0; i++)
		rc = run_fleet(c, t, rows, fleets[i][0], fleets[i][1], only);
	return rc;
}

static int run_search(const struct args *a)
{
	static const char *const head[] = {"boards", "liars",  "search", "parts",         "boot 1", "boot 2",
					   "boot 3", "at end", "tenth",  "boots to 98 %", "struck"};
	struct arena mem = {0};
	struct landscape *land;
	struct table t = {.align = "rrlrrrrrrrr"};
	json_t *rows = json_array();
	const char *folder = recorded_folder();
	struct herd_search c = {.boots = (int)arg_int(a, "boots", 8),
				.quorum = {1, 2, 3},
				.box_ns = arg_duration(a, "box", 5 * NS_PER_S),
				.sigma = 0.03,
				.threads = (int)arg_int(a, "threads", 4)};
	int points = 0, slower = (int)arg_int(a, "slower", 5), rc = arg_seed(a, &c.seed);
	if (!folder)
		return fail(E_NOTFOUND, "no recorded schedules found: set HONE_DATA to the data folder");
	if (slower < 1 || slower > 1000 || c.boots < 1 || c.boots > HERD_BOOTS)
		return fail(E_USAGE, "--slower: 1 to 1000, --boots: 1 to %d", HERD_BOOTS);
	if (rc >= 0)
		rc = c.nland = recorded_landscapes(folder, arg_flag(a, "narrow"), &mem, &land);
	if (rc < 0)
		return rc;
	int *uses = ARENA_ARRAY(&mem, int, c.nland);
	for (int i = 0; i < c.nland; i++) {
		uses[i] = uses_of(land[i].label);
		points += land[i].n;
	}
	slow_down(land, c.nland, slower);
	c.land = land;
	c.uses = uses;
	for (size_t i = 0; i < sizeof head / sizeof *head; i++)
		table_cell(&t, "%s", head[i]);
	rc = run_fleets(a, &c, &t, rows);
	if (rc < 0)
		json_decref(rows);
	else if (a->json)
		rc = json_out(json_pack("{si si so}", "tasks", c.nland, "schedules", points, "rows", rows));
	else {
		printf("%d tasks, %d recorded schedules\n", c.nland, points);
		table_print(&t, a->color);
	}
	arena_free(&mem);
	return rc < 0 ? rc : 0;
}

static int run_herd(const struct args *a)
{
	if (arg_flag(a, "search"))
		return run_search(a);
	if (arg_int(a, "boards", 1) < 1 || arg_int(a, "boards", 1) > 10000000)
		return fail(E_USAGE, "--boards: 1 to 10000000");
	return run_power(a);
}

static const struct opt opts[] = {
    {"power", OPT_FLAG, NULL, "a million boards are switched on at the same moment"},
    {"boards", OPT_INT, "N", "number of boards (1000000)"},
    {"every", OPT_DURATION, "6h", "the boards' pace; all else in proportion"},
    {"search", OPT_FLAG, NULL, "simulate fleets that search"},
    {"mode", OPT_STR, "MODE", "alone, shared or divided"},
    {"boots", OPT_INT, "N", "at most (8)"},
    {"box", OPT_DURATION, "5s", "of a boot"},
    {"liars", OPT_INT, "N", "so many of the boards"},
    {"slower", OPT_INT, "N", "boards' cores than those recorded (5)"},
    {"threads", OPT_INT, "N", "of the simulation (4)"},
    {"narrow", OPT_FLAG, NULL, "the machine with 16 registers"},
    {"seed", OPT_INT, "N", "of the simulation (1)"},
    {NULL},
};

static const struct cmd herd = {
    .usage = "--power | --search [--boards N]",
    .summary = "simulate a fleet in virtual time",
    .details = "",
    .opts = opts,
    .run = run_herd,
    .name = "herd",
};

int main(int argc, char **argv)
{
	return cmd_main(&herd, argc, argv);
}
