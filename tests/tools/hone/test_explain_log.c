/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that explain takes the verdict and the payback of a task from one pair of times. */
#include "tools/hone/explain_log.h"
#include "tests/lib/test.h"
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#define DEFAULT "x=1"
#define CHOSEN "x=2"

static struct rec rec_of(const char *cand, int64_t ns)
{
	struct rec r = {
	    .meas = {.status = MEAS_OK, .runs = 9, .median_ns = ns, .min_ns = ns, .spread_ns = ns / 100}};
	snprintf(r.cand, sizeof r.cand, "%s", cand);
	return r;
}

static void add(struct trials *l, const char *cand, enum tried_by by, bool lost)
{
	trials_add(
	    l, &(struct tried){.cand = cand, .status = MEAS_OK, .ns = 900, .default_ns = 1000, .by = by}, 1);
	if (lost)
		trials_add(l, &(struct tried){.cand = cand, .lost = true}, 1);
}

static void start(struct trials *l, int64_t default_ns, int64_t best_ns, bool lost)
{
	trials_start(l, hash_text("task"), "task", "task");
	l->spent_ns = 1000000;
	l->default_ns = default_ns;
	l->best_ns = best_ns;
	l->fallback_ns = 5000;
	add(l, DEFAULT, TRIED_DEFAULT, false);
	add(l, CHOSEN, TRIED_STRATEGY, lost);
}

/* The records say slower, as the machine was slower when the winner was recorded; the races say faster. */
TEST(races_give_the_scale)
{
	static struct trials l;
	const struct rec def = rec_of(DEFAULT, 1000), best = rec_of(CHOSEN, 1100);
	start(&l, 1000, 800, false);
	struct task_times t = explain_times(&l, &def, &best, DEFAULT, CHOSEN);
	CHECK(t.raced && t.best_ns == 1100 && t.default_ns == 1375); /* of the record, and times 1000 / 800 */
	CHECK(faster_significant(&t.faster) && fabs(t.faster.ratio - 1.25) < 1e-9);
	CHECK(explain_fastest_ns(&l, CHOSEN) == 900 && explain_fastest_ns(&l, "x=3") == 0);
	struct faster f =
	    faster_by_records(&def.meas, &best.meas); /* the interval keeps its relative width */
	CHECK(fabs(t.faster.low - 1.25 * f.low / f.ratio) < 1e-9 && t.faster.rounds == f.rounds);
	CHECK(fabs(t.faster.high - 1.25 * f.high / f.ratio) < 1e-9);
	struct payback p = explain_payback(&l, 2, &t);
	CHECK(p.saved_ns == 550 && !p.slower && p.fallback_ns == 7800);
	trials_free(&l);
}

/* A difference within the noise of the records saves nothing. */
TEST(nothing_is_saved_without_a_significant_difference)
{
	static struct trials l;
	const struct rec def = rec_of(DEFAULT, 1000), best = rec_of(CHOSEN, 999);
	start(&l, 1000, 999, false);
	struct task_times t = explain_times(&l, &def, &best, DEFAULT, CHOSEN);
	CHECK(t.faster.rounds && !faster_significant(&t.faster));
	CHECK(explain_payback(&l, 1, &t).saved_ns == 0 && !explain_payback(&l, 1, &t).slower);
	trials_free(&l);
}

/* Without a log of the chosen candidate, or if that lost since, the records' own times are all that is known.
 */
TEST(records_without_races)
{
	static struct trials l;
	const struct rec def = rec_of(DEFAULT, 1000), best = rec_of(CHOSEN, 1100);
	start(&l, 1000, 800, true);
	struct task_times t = explain_times(&l, &def, &best, DEFAULT, CHOSEN);
	CHECK(!t.raced && t.default_ns == 1000 && t.best_ns == 1100 && t.faster.ratio < 1);
	CHECK(explain_payback(&l, 1, &t).slower && explain_payback(&l, 1, &t).saved_ns == 0);
	t = explain_times(NULL, &def, &best, DEFAULT, CHOSEN);
	CHECK(!t.raced && t.best_ns == 1100);
	t = explain_times(NULL, NULL, &best, DEFAULT, CHOSEN);
	CHECK(t.default_ns == 0 && t.best_ns == 1100 && !t.faster.rounds);
	t = explain_times(NULL, NULL, NULL, DEFAULT, DEFAULT);
	CHECK(t.default_ns == 0 && t.best_ns == 0 && !t.faster.rounds);
	trials_free(&l);
}

/* The default that is chosen is one kernel, with one time, and is compared with nothing. */
TEST(the_default_is_chosen)
{
	static struct trials l;
	const struct rec def = rec_of(DEFAULT, 1000), best = rec_of(DEFAULT, 1200);
	start(&l, 1010, 900, true); /* the winner was reverted */
	struct task_times t = explain_times(&l, &def, &best, DEFAULT, DEFAULT);
	CHECK(t.default_ns == 1000 && t.best_ns == 1000 && !t.faster.rounds);
	CHECK(explain_payback(&l, 1, &t).saved_ns == 0);
	t = explain_times(NULL, &def, &best, DEFAULT, DEFAULT);
	CHECK(t.default_ns == 1000 && t.best_ns == 1000);
	trials_free(&l);
}

/* Copies what explain_payback_words prints; "": it cannot be read. */
static void printed(const struct payback *p, const struct gain *network, char text[1024])
{
	FILE *f = tmpfile();
	text[0] = 0;
	if (!f)
		return;
	fflush(stdout);
	int out = dup(STDOUT_FILENO);
	dup2(fileno(f), STDOUT_FILENO);
	explain_payback_words(p, network, "");
	fflush(stdout);
	dup2(out, STDOUT_FILENO);
	close(out);
	rewind(f);
	text[fread(text, 1, 1023, f)] = 0;
	fclose(f);
}

/* A saving that four decimals show as 0 is told with its unit, and no number of inferences is invented. */
TEST(a_tiny_saving)
{
	char text[1024];
	const struct payback tiny = {.spent_ns = 15e9, .saved_ns = 0.043, .tasks = 1},
			     small = {.spent_ns = 15e9, .saved_ns = 300, .tasks = 1};
	printed(&tiny, NULL, text);
	CHECK(strstr(text, "only after more than 100 million inferences (each saves less than 1 ns"));
	printed(&small, NULL, text);
	CHECK(strstr(text, "after 50000000 inferences (each saves 0.0003 ms"));
}

/* Times that were not taken in turn, or that others disturbed, are said to be such. */
TEST(doubtful_savings_are_told)
{
	char text[1024];
	struct gain g = {.default_ms = 2, .now_ms = 1, .faster = {2, 1.9, 2.1, 20}};
	struct payback p = {.spent_ns = 1e9, .saved_ns = 1e6, .fallback_ns = 43e6, .has_fallback = true};
	for (int i = 0; i < 2; i++) {
		p.unpaired = i;
		printed(&p, NULL, text);
		CHECK(!strstr(text, "at different moments") == !i);
		CHECK(strstr(text, "against fallback kernels, which were timed once, at another moment that may have "
				   "been disturbed, this is paid back after 24 inferences"));
		CHECK(strstr(text, "hone bench --kernels best --kernels fallback runs both in turn"));
		g.machine = (struct disturbance){i ? 40 : 99, -1, ""};
		explain_payback_of(&p, &g);
		printed(&p, &g, text);
		CHECK(!strstr(text, "as measured of the whole network, disturbed") == !i);
		CHECK(!strstr(text, "at different moments"));
		p.network = p.disturbed = false;
	}
	/* without races, both times are of records */
	const struct task_times apart = {2000, 1000, {2, 1.9, 2.1, 20}, false}, raced = {2000, 1000, {2, 1.9, 2.1, 20}, true};
	CHECK(explain_payback(&(struct trials){.spent_ns = 9}, 1, &apart).unpaired);
	CHECK(!explain_payback(&(struct trials){.spent_ns = 9}, 1, &raced).unpaired);
}

/* A kernel that was timed while the machine was slow may save more than the whole network takes. */
TEST(savings_of_kernels_beside_the_network)
{
	const struct gain g = {.default_ms = 2, .now_ms = 1.5, .date = "2026-01-02 03:04 UTC"};
	struct payback p = {.spent_ns = 1e9, .saved_ns = 1e6, .tasks = 1};
	for (int i = 0; i < 4; i++) {
		char text[1024];
		p.saved_ns = i == 1 ? 3e6 : i == 3 ? 0 : 1e6;
		printed(&p, i == 2 ? NULL : &g, text);
		REQUIRE(text[0]);
		bool said =
		    strstr(text, "; the whole network took 1.5000 ms, with default schedules 2.0000 ms, "
				 "measured 2026-01-02 03:04 UTC");
		CHECK(said == (i < 2));
		CHECK((strstr(text, "at a moment when the machine was slower") != NULL) == (i == 1));
	}
}

/* The text that the call prints, with a log of seven candidates of which the chosen one is the slowest. */
static void words_of(const struct trials *l, double least_ns, char text[8192])
{
	const struct payback p = {.spent_ns = 1e9, .fallback_ns = -1, .tasks = 1, .has_fallback = true};
	FILE *f = tmpfile();
	REQUIRE(f);
	fflush(stdout);
	int out = dup(STDOUT_FILENO);
	dup2(fileno(f), STDOUT_FILENO);
	if (explain_log_words(l, &p, NULL, "x=6", least_ns))
		explain_marked_words();
	fflush(stdout);
	dup2(out, STDOUT_FILENO);
	close(out);
	rewind(f);
	text[fread(text, 1, 8191, f)] = 0;
	fclose(f);
}

/* Rows ascend by their first column, the chosen candidate has a row wherever it is, and times below the
 * roofline's are marked. */
TEST(the_table_has_the_chosen_candidate)
{
	static struct trials l;
	static char text[8192];
	trials_start(&l, hash_text("task"), "task", "task");
	l.spent_ns = 1000000;
	for (int i = 0; i < 7; i++) {
		char cand[8];
		snprintf(cand, sizeof cand, "x=%d", i);
		trials_add(&l,
			   &(struct tried){.cand = cand,
					   .status = MEAS_OK,
					   .ns = 900 + 10 * i - 230 * (i == 3),
					   .default_ns = 1000 - 250 * (i == 3),
					   .by = TRIED_STRATEGY},
			   1);
	}
	for (int least = 0; least < 2; least++) {
		words_of(&l, least ? 915 : 1, text);
		const char *row = strstr(text, "of default's time  fastest us");
		REQUIRE(row != NULL);
		double before = 0;
		int rows = 0, marked = 0;
		for (row = strchr(row, '\n') + 1; strstr(row, "x=") && strchr(row, '%'); rows++) {
			double share = strtod(row, NULL);
			if (!(share > before))
				break;
			before = share;
			marked += strstr(row, " * ") && strstr(row, " * ") < strchr(row, '\n');
			row = strchr(row, '\n') + 1;
		}
		CHECK(rows == 6 && marked == (least ? 3 : 0));
		CHECK(strstr(text, "chosen  x=6") != NULL);
		CHECK(!strstr(text, "less than the roofline's time") == !least);
		CHECK(strstr(text, "above the chosen one, by a few runs each: 0 lost a race; 5 could") !=
		      NULL);
		CHECK(!strstr(text, "1 were"));
		CHECK(strstr(text, "this is not paid back: they were not slower") != NULL);
	}
	trials_free(&l);
}

TEST(paybacks_add_up)
{
	struct payback sum = {0};
	explain_payback_add(&sum, &(struct payback){.spent_ns = 10, .tasks = 1, .slower = true});
	CHECK(sum.spent_ns == 10 && sum.tasks == 1 && sum.slower && !sum.has_fallback);
	explain_payback_add(
	    &sum, &(struct payback){
		      .spent_ns = 5, .saved_ns = 3, .fallback_ns = -2, .tasks = 1, .has_fallback = true});
	CHECK(sum.spent_ns == 15 && sum.saved_ns == 3 && sum.fallback_ns == -2 && sum.tasks == 2);
	CHECK(sum.slower && !sum.has_fallback);          /* that of the first is not known */
	explain_payback_add(&sum, &(struct payback){0}); /* a task without a log */
	struct payback all = {0}, known = {.fallback_ns = 4, .tasks = 1, .has_fallback = true};
	explain_payback_add(&all, &known);
	explain_payback_add(&all, &known);
	CHECK(all.has_fallback && all.fallback_ns == 8);
	explain_payback_of(
	    &sum,
	    &(struct gain){.default_ms = 1, .faster = {.ratio = 2, .low = 1.9, .high = 2.1, .rounds = 9}});
	CHECK(!sum.slower && sum.network && fabs(sum.saved_ns - 5e5) < 1);
}

TEST_MAIN
