/* SPDX-License-Identifier: Apache-2.0 */
/* make bench-herd ARGS=--power: a million boards get power at one moment, in virtual time: asks of the server
 * in any 1 s and 10 s, over what is planned (tools/herd_power.h).
 *
 *	--boards N  (1000000)      --every 6h  the boards' pace */
#include "agent/json.h"
#include "platform/clock.h"
#include "tools/cmd.h"
#include "tools/herd_power.h"
#include "tools/table.h"

#include <stdio.h>

#define HOUR 3600.

/* ---- power ---- */

/* In hours of a pace of 6 h; of others in proportion. Bounded: by twice what is planned, in 1 s and 10 s. A
 * pace of a day has so few asks in 1 s that chance alone goes beyond. */
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
	return rc < 0 ? rc : beyond ? fail(E_WRONG, "%d cases are beyond twice the plan", beyond) : 0;
}

static int run_herd(const struct args *a)
{
	if (arg_int(a, "boards", 1) < 1 || arg_int(a, "boards", 1) > 10000000)
		return fail(E_USAGE, "--boards: 1 to 10000000");
	return run_power(a);
}

static const struct opt opts[] = {
    {"power", OPT_FLAG, NULL, "a million boards get power at one moment"},
    {"boards", OPT_INT, "N", "so many (1000000)"},
    {"every", OPT_DURATION, "6h", "the boards' pace; all else in proportion"},
    {"seed", OPT_INT, "N", "of the simulation (1)"},
    {NULL},
};

static const struct cmd herd = {
    .usage = "--power [--boards N]",
    .summary = "a fleet in virtual time",
    .details = "",
    .opts = opts,
    .run = run_herd,
    .name = "herd",
};

int main(int argc, char **argv)
{
	return cmd_main(&herd, argc, argv);
}
