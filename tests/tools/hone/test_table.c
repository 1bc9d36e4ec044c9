/* SPDX-License-Identifier: Apache-2.0 */
/* Generated tables at widths of terminals: no line is wider than the terminal, and rows that differ are
 * printed differently. */
#include "platform/base/log.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"
#include "tools/hone/adds_up.h"
#include "tools/hone/early.h"
#include "tools/hone/headline.h"
#include "tools/hone/processor.h"
#include "tools/hone/table.h"
#include "tools/hone/tune_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROWS = 12, CELL = 120, TABLES = 400 };

struct made {
	char align[TABLE_COLS + 1], drop[TABLE_COLS + 1];
	int columns, rows; /* with the head */
	char cell[ROWS][TABLE_COLS][CELL];
};

static char first[1 << 16], second[1 << 16];

/* Where output goes meanwhile, as on a terminal of that width; ends with its text in `out`. */
static int begin_output(int width, int *saved)
{
	char text[16];
	fflush(stdout);
	int to = memfd_create("table", 0);
	*saved = dup(1);
	if (*saved < 0 || to < 0 || dup2(to, 1) != 1)
		abort();
	snprintf(text, sizeof text, "%d", width);
	setenv("COLUMNS", text, 1);
	return to;
}

static void end_output(int to, int saved, char *out, size_t room)
{
	fflush(stdout);
	dup2(saved, 1);
	close(saved);
	ssize_t n = pread(to, out, room - 1, 0);
	close(to);
	out[n > 0 ? n : 0] = 0;
}

/* Prints the table into `out`, as on a terminal of that width. */
static unsigned print_into(const struct made *m, int width, char *out, size_t room)
{
	struct table t = {.align = m->align, .drop = *m->drop ? m->drop : NULL};
	int saved, to = begin_output(width, &saved);
	for (int r = 0; r < m->rows; r++)
		for (int c = 0; c < m->columns; c++)
			table_cell(&t, "%s", m->cell[r][c]);
	table_print(&t, false);
	end_output(to, saved, out, room);
	return t.shown;
}

static const char *a_name(struct rng *g, char out[CELL])
{
	static const char *const word[] = {
	    "conv",      "3x3",     "128->256",          "clip",  "matmul", "k1152",
	    "lane=k:16", "hoist=0", "/model.2/cv1/conv", "Größe", "`make`", "x"};
	int n = 0, words = 1 + (int)rng_below(g, 10);
	for (int i = 0; i < words; i++) {
		const char *w = word[rng_below(g, sizeof word / sizeof *word)];
		if (n + strlen(w) + 2 < CELL)
			n += snprintf(out + n, CELL - (size_t)n, "%s%s", i ? rng_below(g, 4) ? " " : "," : "",
				      w);
	}
	return out;
}

/* Some rows are like others but for a part of one name, as those of real tables are. */
static void make_table(struct rng *g, struct made *m)
{
	memset(m, 0, sizeof *m);
	m->columns = 1 + (int)rng_below(g, TABLE_COLS);
	m->rows = 2 + (int)rng_below(g, ROWS - 1);
	for (int c = 0; c < m->columns; c++) {
		m->align[c] = "llrrrw"[rng_below(g, 6)];
		m->drop[c] = "0001234"[rng_below(g, 7)];
	}
	if (rng_below(g, 4) == 0)
		*m->drop = 0;
	for (int r = 0; r < m->rows; r++)
		for (int c = 0; c < m->columns; c++) {
			char *cell = m->cell[r][c];
			if (r > 1 && rng_below(g, 3))
				memcpy(cell, m->cell[r - 1][c], CELL);
			else if (m->align[c] == 'w' && rng_below(g, 3) == 0)
				snprintf(cell, CELL,
					 "lane=k:%d tile=k:2,x:%d unroll=c:3 order=n,y,x,k,c,r,s hoist=0",
					 8 << (int)rng_below(g, 2), (int)rng_below(g, 99));
			else if (m->align[c] == 'w')
				snprintf(cell, CELL, "%s, %s", rng_below(g, 2) ? "lost" : "won",
					 rng_below(g, 2) ? "late" : "soon");
			else if (m->align[c] == 'r')
				snprintf(cell, CELL, "%llu", (unsigned long long)rng_below(g, 200000));
			else
				(void)a_name(g, cell);
			if (r > 1 && m->align[c] == 'l' && rng_below(g, 4) == 0 && strlen(cell) > 2)
				cell[rng_below(g, strlen(cell))] = (char)('0' + rng_below(g, 10));
			if (log_width(cell) <= 0 || strchr(cell, '\xc3'))
				log_one_line(cell);
		}
}

static bool fits(const char *text, int width)
{
	char line[4096];
	for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n') {
		snprintf(line, sizeof line, "%.*s", (int)strcspn(p, "\n"), p);
		if (log_width(line) > width) {
			printf("%d columns: %s\n", log_width(line), line);
			return false;
		}
	}
	return true;
}

static void swap_rows(struct made *m, int i, int j)
{
	char held[TABLE_COLS][CELL];
	memcpy(held, m->cell[i], sizeof held);
	memcpy(m->cell[i], m->cell[j], sizeof held);
	memcpy(m->cell[j], held, sizeof held);
}

/* Rows that are printed alike can change places. */
static bool told_apart(struct made *m, int width)
{
	for (int i = 1; i < m->rows; i++)
		for (int j = i + 1; j < m->rows; j++) {
			if (!memcmp(m->cell[i], m->cell[j], sizeof m->cell[i]))
				continue;
			swap_rows(m, i, j);
			(void)print_into(m, width, second, sizeof second);
			swap_rows(m, i, j);
			if (!strcmp(first, second)) {
				printf("rows %d and %d are alike:\n%s", i, j, first);
				return false;
			}
		}
	return true;
}

/* So can names of a column that is shown. */
static bool names_told_apart(struct made *m, int width, unsigned shown)
{
	for (int c = 0; c < m->columns; c++)
		for (int i = 1; i + 1 < m->rows && m->align[c] == 'l' && shown >> c & 1; i++) {
			char held[CELL];
			memcpy(held, m->cell[i][c], CELL);
			if (!strcmp(held, m->cell[i + 1][c]))
				continue;
			memcpy(m->cell[i][c], m->cell[i + 1][c], CELL);
			memcpy(m->cell[i + 1][c], held, CELL);
			(void)print_into(m, width, second, sizeof second);
			memcpy(m->cell[i + 1][c], m->cell[i][c], CELL);
			memcpy(m->cell[i][c], held, CELL);
			if (!strcmp(first, second)) {
				printf("names %d and %d of column %d are alike:\n%s", i, i + 1, c, first);
				return false;
			}
		}
	return true;
}

/* A line names the columns that are left out, but for empty ones. */
static bool says_left_out(const struct made *m, unsigned shown)
{
	bool out = false;
	for (int c = 0; c < m->columns; c++)
		for (int r = 1; r < m->rows && !(shown >> c & 1); r++)
			out |= m->cell[r][c][0] && strcmp(m->cell[r][c], "-");
	return out == (strstr(first, "this terminal has no room") != NULL);
}

TEST(generated_tables)
{
	static struct made m;
	const char *from = getenv("SEED");
	uint64_t seed = from ? strtoull(from, NULL, 0) : 1, end = from ? seed + 1 : TABLES;
	for (; seed < end && !test_bad; seed++) {
		struct rng g;
		rng_seed(&g, seed);
		make_table(&g, &m);
		int width = 40 + (int)rng_below(&g, 161);
		unsigned shown = print_into(&m, width, first, sizeof first);
		CHECK(strlen(first) + 1 < sizeof first && shown);
		CHECK(fits(first, width));
		CHECK(told_apart(&m, width));
		CHECK(names_told_apart(&m, width, shown));
		CHECK(says_left_out(&m, shown));
		if (test_bad)
			printf("SEED=%llu, %d columns:\n%s", (unsigned long long)seed, width, first);
	}
}

/* Names that end alike and begin alike, as those of schedules do, keep the part that differs. */
TEST(names_keep_what_differs)
{
	static const char *const task[] = {"task", "conv 5x5/2 3->24 31x98 exp select mul",
					   "conv 5x5/2 24->36 14x47 exp select mul",
					   "conv 5x5/2 36->48 5x22 exp select mul"};
	static struct made m = {.align = "rlrr", .columns = 4, .rows = 4};
	for (int r = 0; r < 4; r++) {
		snprintf(m.cell[r][0], CELL, r ? "%d" : "#", r);
		snprintf(m.cell[r][1], CELL, "%s", task[r]);
		snprintf(m.cell[r][2], CELL, "123.456");
		snprintf(m.cell[r][3], CELL, "7.5 %%");
	}
	(void)print_into(&m, 44, first, sizeof first);
	CHECK(strstr(first, "5x5/2 3-...") && strstr(first, "5x5/2 24...") && strstr(first, "5x5/2 36..."));
	CHECK(strstr(first, "...elect mul  123.456  7.5 %\n"));
	if (test_bad)
		printf("%s", first);
}

/* A schedule stands in a line of its own where it would take more than two beside the other columns. */
TEST(long_words_of_the_last_column_stand_below)
{
	static const char *const schedule =
	    "lane=k:16 tile=k:2,x:14 unroll=c:3 order=n,y,x,k,c,r,s par=4 hoist=0";
	static struct made m = {.align = "rrlw", .columns = 4, .rows = 3};
	for (int r = 0; r < 3; r++) {
		snprintf(m.cell[r][0], CELL, r ? "10%d.0 %%" : "of default's time", r);
		snprintf(m.cell[r][1], CELL, r ? "75.%d" : "fastest us", r);
		snprintf(m.cell[r][2], CELL, r ? "strategy" : "by");
		snprintf(m.cell[r][3], CELL, "%s", r ? schedule : "candidate");
	}
	(void)print_into(&m, 70, first, sizeof first);
	CHECK(strstr(first, "101.0 %        75.1  strategy\n    lane=k:16 ") && strstr(first, "hoist=0\n"));
	if (test_bad)
		printf("%s", first);
	(void)print_into(&m, 200, first, sizeof first);
	CHECK(strstr(first, "strategy  lane=k:16 "));
	if (test_bad)
		printf("%s", first);
}

/* A headline behind a long lead uses the whole width, whatever the lead: only its last line is short. */
TEST(headlines_use_the_width)
{
	static const char *const leads[] = {
	    "  ", "tuning: ", "           by their races, with the spread of both records: ",
	    "measured now, round by round: "};
	const struct faster f = {.rounds = 9, .ratio = 1.2345, .low = 1.2, .high = 1.3};
	for (int i = 0; i < 4; i++)
		for (int width = 60; width <= 120; width += 5) {
			int saved, to = begin_output(width, &saved);
			headline_print(leads[i], &f, "the default, which was measured at another time", NULL);
			end_output(to, saved, first, sizeof first);
			bool good = *first;
			for (char *line = first; *line; line += strcspn(line, "\n") + 1) {
				int n = (int)strcspn(line, "\n"), indent = (int)strspn(line, " ");
				bool last = !line[n] || !line[n + 1];
				good &= n <= width && indent <= 11 && (last || n > width - 20);
			}
			if (!good) {
				printf("%d columns:\n%s", width, first);
				test_bad = 1;
			}
		}
}

/* Lines of one command: how the machine disturbed them is said once, that it did for each. */
TEST(disturbed_lines)
{
	const struct faster f = {2, 1.9, 2.1, 25, false};
	const struct disturbance busy = {40, 150, ""}, quiet = {100, 0, ""}, other = {50, 150, ""};
	const struct disturbance *machines[] = {&busy, &busy, &busy, &quiet, &busy, &other};
	setenv("COLUMNS", "500", 1);
	fflush(stdout);
	int saved = dup(1), to = memfd_create("lines", 0);
	if (saved < 0 || to < 0 || dup2(to, 1) != 1)
		abort();
	for (int i = 0; i < 6; i++)
		headline_print("  ", &f, "X", machines[i]);
	fflush(stdout);
	dup2(saved, 1);
	ssize_t n = pread(to, first, sizeof first - 1, 0);
	first[n > 0 ? n : 0] = 0;
	close(to);
	close(saved);
	CHECK(test_count(first, "also disturbed (as above)\n") == 2 && test_count(first, "got 40 % of") == 2);
	CHECK(test_count(first, "got 50 % of") == 1 && test_count(first, "disturbed") == 5);
}

/* A column of times that were not measured has its reason below. */
TEST(an_unmeasured_network_says_why)
{
	struct tune_kernel k[2] = {{.name = "a", .label = "conv", .after_ns = 5000},
				   {.name = "b", .label = "add", .after_ns = 500}};
	setenv("COLUMNS", "500", 1);
	for (int i = 0; i < 4; i++) {
		struct tune_report r = {
		    .before_ms = i & 1 ? 1 : 0, .after_ms = i & 2 ? 1 : 0, .nkernels = 2, .kernel = k};
		fflush(stdout);
		int saved = dup(1), to = memfd_create("lines", 0);
		if (saved < 0 || to < 0 || dup2(to, 1) != 1)
			abort();
		tune_table(&r, NULL, false);
		fflush(stdout);
		dup2(saved, 1);
		ssize_t n = pread(to, first, sizeof first - 1, 0);
		first[n > 0 ? n : 0] = 0;
		close(to);
		close(saved);
		CHECK(test_count(first, "before us -: the network was not measured before the search: ") ==
		      (i == 2));
	}
}

/* Kernels whose times do not add up to that of the network are said to, once, where all of them have a time.
 */
TEST(a_box_says_if_its_times_do_not_add_up)
{
	static const struct {
		double before_ms, after_ms;
		int64_t before_ns, after_ns, alone_ns;
		const char *says;
	} cases[] = {
	    {1, 1, 500000, 500000, 500000, NULL},
	    {9, 1, 500000, 500000, 500000, NULL},
	    {1, 3, 500000, 500000, 500000, "add up to 1.000 ms, but the whole network takes 3.000 ms"},
	    {2, 0, 500000, 0, 500000, "add up to 1.000 ms, but the whole network takes 2.000 ms"},
	    {0, 3, 500000, 0, 500000, NULL},
	    {0, 0, 0, 0, 500000, NULL},
	};
	setenv("COLUMNS", "500", 1);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct tune_kernel k[2];
		for (int j = 0; j < 2; j++)
			k[j] = (struct tune_kernel){.name = "a",
						    .label = "conv",
						    .before_ns = cases[i].before_ns,
						    .after_ns = cases[i].after_ns,
						    .alone_ns = cases[i].alone_ns};
		const struct tune_report r = {.before_ms = cases[i].before_ms,
					      .after_ms = cases[i].after_ms,
					      .nkernels = 2,
					      .kernel = k};
		fflush(stdout);
		int saved = dup(1), to = memfd_create("lines", 0);
		if (saved < 0 || to < 0 || dup2(to, 1) != 1)
			abort();
		tune_table(&r, NULL, false);
		fflush(stdout);
		dup2(saved, 1);
		ssize_t n = pread(to, first, sizeof first - 1, 0);
		first[n > 0 ? n : 0] = 0;
		close(to);
		close(saved);
		CHECK(test_count(first, "add up to") == (cases[i].says != NULL));
		CHECK(!cases[i].says || test_count(first, cases[i].says) == 1);
	}
}

/* What a box gained by joining kernels is not to be seen in their rows. */
TEST(joined_kernels)
{
	static const struct {
		int before, now;
		bool defaults;
		double ratio;
		const char *words;
	} cases[] = {
	    {6, 1, true, 1.5,
	     "6 kernels are joined into 1, and the gain is from that: every kernel is at its "
	     "default schedule"},
	    {6, 2, true, .8, "6 kernels are joined into 2"},
	    {6, 2, false, 1.5, "6 kernels are joined into 2"},
	    {6, 6, true, 1.5, ""},
	    {0, 6, true, 1.5, ""},
	    {6, 0, true, 1.5, ""},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		double x = cases[i].ratio;
		struct tune_report r = {.kernels_before = cases[i].before,
					.nkernels = cases[i].now,
					.at_defaults = cases[i].defaults,
					.before = {x, x * .99, x * 1.01, 25, false}};
		struct buf b = {0};
		tune_joined(&r, &b);
		CHECK(!strcmp(buf_str(&b), cases[i].words));
		buf_free(&b);
	}
}

/* A box either ended, or the search ended before it: no report says both. */
TEST(either_the_box_or_the_search_ended)
{
	static const struct {
		bool early;
		int late, no_turn, untried;
		const char *words;
	} cases[] = {
	    {true, 6, 5, 2, "5 of 6 tasks had no turn: at most their default schedules were tried"},
	    {true, 6, 5, 5, "5 of 6 tasks had no turn: no schedule of theirs was tried"},
	    {true, 6, 0, 0, ""},
	    {false, 6, 5, 2,
	     "the box ended before 5 of 6 tasks had a turn: at most their default schedules were tried"},
	    {true, 0, 6, 6, "the box ended before 6 of 6 tasks had a turn: no schedule of theirs was tried"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct tune_report r = {.tasks = 6,
					.early = cases[i].early,
					.no_turn = cases[i].no_turn,
					.untried = cases[i].untried,
					.ended[SEARCH_LATE] = cases[i].late};
		struct buf b = {0};
		early_turns(&r, &b);
		CHECK(!strcmp(buf_str(&b), cases[i].words));
		buf_free(&b);
	}
}

/* Nobody is told to tune kernels that are tuned. */
TEST(advice_on_a_faster_processor)
{
	for (int i = 0; i < 8; i++) {
		bool faster = i & 1, few = i & 2;
		int tuned = i & 4 ? 6 : 3;
		double x = faster ? .5 : 2;
		struct tune_report r = {
		    .processor = {.kernels = 6, .tuned = tuned, .faster = {x, x * .99, x * 1.01, 25, few}}};
		struct buf b = {0};
		processor_advice("opencl:0", &r, &b);
		CHECK(!strstr(buf_str(&b), "faster than with opencl:0: leave --device out") == !faster);
		CHECK(!strstr(buf_str(&b), "tune") == !(faster && tuned < 6));
		buf_free(&b);
	}
}

/* Kernels whose times do not add up to the whole are never shown without a word. */
TEST(times_that_do_not_add_up)
{
	struct rng r;
	int said = 0;
	rng_seed(&r, 8);
	for (int i = 0; i < 2000; i++) {
		int n = 1 + (int)rng_below(&r, 100);
		double whole = 1e3 * n * exp(4 * rng_unit(&r)), sum = whole * exp(rng_normal(&r) / 2);
		bool apart = fabs(sum / whole - 1) > .25 && fabs(sum - whole) > 200.0 * n;
		const char *device = rng_below(&r, 2) ? "opencl:0" : NULL;
		struct buf b = {0};
		adds_up_note(sum, whole, n, device, &b);
		CHECK((b.n > 0) == apart);
		CHECK(!b.n || !strstr(buf_str(&b), "opencl:0") == !device);
		said += b.n > 0;
		buf_free(&b);
	}
	CHECK(said > 300 && said < 1700);
	struct buf b = {0};
	adds_up_note(93e3, 53.4e3, 6, NULL, &b);
	CHECK(!strcmp(
	    buf_str(&b),
	    "the kernels' times add up to 93.00 us, but the whole network takes 53.40 us: kernels are "
	    "timed in other runs, and other load may have slowed those or the others; compare kernels "
	    "only with one another"));
	buf_clear(&b);
	adds_up_note(0, 53.4e3, 6, NULL, &b);
	adds_up_note(93e3, 0, 6, NULL, &b);
	CHECK(!b.n);
	buf_free(&b);
}

TEST_MAIN
