/* SPDX-License-Identifier: Apache-2.0 */
/* make bench-strategies ARGS="DIR": compares strategies on landscapes (hone tune --record, make
 * bench-landscape), without the machine, so that the same seed gives the same result.
 *
 * Each strategy, guided by each cost model, searches each task of the folder alone: it proposes candidates;
 * new ones are built and run three times on a replay (agent/worker/replay.h), and the strategy is told the
 * result. Unlike in tuning, neither the default nor
 * rules are tried first, because they would end most searches at once. Figures: measurements, and seconds of
 * the replay's clock, until the pick (the candidate with the fastest measurement) truly reaches 95, 97 and 99
 * % of the best recorded; geometric means over tasks and seeds, where a search that does not get there counts
 * with all its trials.
 *
 *	--strategy NAME, --cost NAME   that one alone
 *	--trials N   measurements of a search (100)   --seeds N  searches of a task (3)
 *	--noise X    sigma of a run's logarithm, with slow phases (0: none)
 *	--rules      try the default and the rules first; they count as measurements
 *	--akin N     the best of the N nearest of the folder's other tasks of the same kind come before the
 *	             rules, transferred to the task (kernels/space/transfer.h); 0: none are tried, but
 *	             tasks that have no such neighbour are still left out
 *	--tasks      a row for each task              --json     rows as JSON */
#include "agent/worker/replay.h"
#include "kernels/space/transfer.h"
#include "search/strategy.h"
#include "tools/hone/cmd.h"
#include "agent/cache/json.h"
#include "tools/bench/judge.h"
#include "tools/hone/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 3, ABORT_FACTOR = 3, TIRED = 500, MOST_TRIALS = 2000, GOALS = 3, MOST_AKIN = 8 };
static const double goal[GOALS] = {0.95, 0.97, 0.99};

struct subject {
	const struct landscape *l;
	struct task *task;
	struct space *space;
	double best_ns;
	const char *best;
	struct key kind;
	int nakin; /* nearest first */
	const struct subject *akin[MOST_AKIN];
};

/* One search. */
struct search {
	const struct subject *t;
	struct runner *runner;
	struct guide guide;
	const struct strategy *strategy;
	void *state;
	struct arena a;
	struct key known[MOST_TRIALS];
	int n, rules; /* n: measured candidates; rules: next rule, -1: no more */
	int nakin;    /* candidates of similar tasks that are still to be proposed */
	int akin;     /* the next of them */
	int64_t pick_ns;
	double quality;     /* true quality of the pick */
	int reached[GOALS]; /* measurements until the goal; 0: not reached */
	double reached_s[GOALS];
	double own_s; /* real time of strategy and model on this machine */
};

/* Sums over searches. */
struct sum {
	int n, missed[GOALS];
	double log_n[GOALS], log_s[GOALS], quality, own_s;
};

struct bench {
	struct arena a;
	struct subject *subject;
	int n, trials, seeds, akin; /* akin -1: all tasks count, also those without similar tasks */
	double sigma;
	bool rules, each;
	struct table table;
	json_t *rows;
};

static bool is_known(struct search *s, const char *cand)
{
	struct key k = hash_text(cand);
	for (int i = 0; i < s->n; i++)
		if (key_equal(s->known[i], k))
			return true;
	return false;
}

static int propose(struct search *s, char cand[CAND_MAX])
{
	if (s->rules == 0) {
		s->rules++;
		space_default(s->t->space, cand);
		return E_OK;
	}
	if (s->akin < s->nakin) {
		const struct subject *t = s->t->akin[s->akin++];
		return space_transfer(s->t->space, t->task, 0, t->best, cand);
	}
	int rule = s->rules - 1;
	if (rule >= 0 && space_portfolio(s->t->space, &rule, cand) >= 0) {
		s->rules = rule + 1;
		return E_OK;
	}
	s->rules = -1;
	return s->strategy->ask(s->state, cand);
}

/* Proposes a candidate that was not measured. E_NOTFOUND: none comes. */
static int propose_new(struct search *s, char cand[CAND_MAX])
{
	for (int i = 0; i < TIRED; i++) {
		int rc = propose(s, cand);
		if (rc == E_NOTFOUND)
			return rc;
		if (rc >= 0 && !is_known(s, cand))
			return E_OK;
	}
	return fail(E_NOTFOUND, "every proposal is known already");
}

static void note_pick(struct search *s, const char *cand, int64_t ns)
{
	int point = replay_point(s->runner, 0, cand);
	if (point < 0)
		return;
	s->pick_ns = ns;
	s->quality = s->t->best_ns / (double)landscape_ns(s->t->l, point);
	for (int g = 0; g < GOALS; g++) {
		bool there = s->quality >= goal[g];
		if (there && !s->reached[g]) {
			s->reached[g] = s->n;
			s->reached_s[g] = (double)clock_now(s->runner->clock) / 1e9;
		} else if (!there) {
			s->reached[g] = 0; /* because of noise, a slower candidate became the pick */
		}
	}
}

static int measure(struct search *s, const char *cand)
{
	struct meas m;
	int handle;
	int rc = s->runner->ops->build(s->runner, s->t->l->task, cand, INT64_MAX, &handle, &m);
	if (rc >= 0 && handle >= 0) {
		rc = s->runner->ops->time(s->runner, &handle, 1, ROUNDS, s->pick_ns * ABORT_FACTOR, TIME_COLD,
					  INT64_MAX, &m);
		s->runner->ops->drop(s->runner, handle, INT64_MAX);
	}
	if (rc < 0)
		return rc;
	s->known[s->n++] = hash_text(cand);
	if (m.status == MEAS_OK && (s->pick_ns == 0 || m.min_ns < s->pick_ns))
		note_pick(s, cand, m.min_ns);
	int64_t start_ns = clock_now(&clock_real);
	s->strategy->tell(s->state, cand, &m);
	s->own_s += (double)(clock_now(&clock_real) - start_ns) / 1e9;
	return E_OK;
}

static int search_task(struct search *s, int trials)
{
	char cand[CAND_MAX];
	while (s->n < trials) {
		int64_t start_ns = clock_now(&clock_real);
		int rc = propose_new(s, cand);
		s->own_s += (double)(clock_now(&clock_real) - start_ns) / 1e9;
		if (rc == E_NOTFOUND)
			return E_OK;
		rc = rc < 0 ? rc : measure(s, cand);
		if (rc < 0)
			return rc;
	}
	return E_OK;
}

static void add(struct sum *sum, const struct search *s, int trials)
{
	double end_s = (double)clock_now(s->runner->clock) / 1e9;
	sum->n++;
	sum->quality += s->quality;
	sum->own_s += s->n ? s->own_s / s->n : 0;
	for (int g = 0; g < GOALS; g++) {
		sum->missed[g] += !s->reached[g];
		sum->log_n[g] += log(s->reached[g] ? s->reached[g] : trials);
		sum->log_s[g] += log(s->reached[g] ? s->reached_s[g] : end_s);
	}
}

static int run_search(struct bench *b, const struct subject *t, const struct strategy *strategy,
		      const struct cost *cost, uint64_t seed, struct sum *sum)
{
	struct search x = {.t = t,
			   .strategy = strategy,
			   .rules = b->rules ? 0 : -1,
			   .nakin = b->akin > 0 ? t->nakin : 0},
		      *s = &x;
	int rc = runner_replay(t->l, 1, (struct replay_noise){seed, b->sigma}, &s->runner);
	if (rc < 0)
		return rc;
	s->guide = (struct guide){.space = t->space, .cost = cost};
	rc = strategy->start(&s->a, &s->guide, seed, &s->state);
	if (rc >= 0)
		rc = search_task(s, b->trials);
	if (rc >= 0)
		add(sum, s, b->trials);
	s->runner->ops->close(s->runner);
	arena_free(&s->a);
	return fail_in(rc, "%s, %s, %s", strategy->name, cost->name, t->l->label);
}

static void put_row(struct bench *b, const char *strategy, const char *cost, const char *what,
		    const struct sum *s)
{
	if (!s->n)
		return;
	table_cell(&b->table, "%s", strategy);
	table_cell(&b->table, "%s", cost);
	table_cell(&b->table, "%s", what);
	json_t *o = json_pack("{ss ss ss si so so}", "strategy", strategy, "cost", cost, "tasks", what,
			      "searches", s->n, "quality", json_num(s->quality / s->n), "own_us",
			      json_num(1e6 * s->own_s / s->n));
	for (int g = 0; g < GOALS; g++) {
		char key[32];
		double n = exp(s->log_n[g] / s->n), sec = exp(s->log_s[g] / s->n),
		       missed = (double)s->missed[g] / s->n;
		table_cell(&b->table, "%.1f", n);
		table_cell(&b->table, "%.2f", sec);
		table_cell(&b->table, "%.0f %%", 100 * missed);
		snprintf(key, sizeof key, "to_%g", 100 * goal[g]);
		json_object_set_new(o, key,
				    json_pack("{so so so}", "measurements", json_num(n), "seconds",
					      json_num(sec), "missed", json_num(missed)));
	}
	table_cell(&b->table, "%.3f", s->quality / s->n);
	table_cell(&b->table, "%.0f", 1e6 * s->own_s / s->n);
	json_array_append_new(b->rows, o);
}

static void join(struct sum *all, const struct sum *s)
{
	all->n += s->n;
	all->quality += s->quality;
	all->own_s += s->own_s;
	for (int g = 0; g < GOALS; g++) {
		all->missed[g] += s->missed[g];
		all->log_n[g] += s->log_n[g];
		all->log_s[g] += s->log_s[g];
	}
}

static int run_pair(struct bench *b, const struct strategy *strategy, const struct cost *cost)
{
	static const char *const families[] = {"dense", "depthwise", "chain", "other"};
	struct sum of[4] = {{0}}, all = {0};
	for (int i = 0; i < b->n; i++) {
		const struct subject *t = &b->subject[i];
		struct sum one = {0};
		if (b->akin >= 0 && !t->nakin)
			continue;
		for (int seed = 1; seed <= b->seeds; seed++) {
			int rc = run_search(b, t, strategy, cost, (uint64_t)seed, &one);
			if (rc < 0)
				return rc;
		}
		if (b->each)
			put_row(b, strategy->name, cost->name, t->l->label, &one);
		for (int f = 0; f < 4; f++)
			if (!strcmp(families[f], judge_family(t->l->label)))
				join(&of[f], &one);
		join(&all, &one);
	}
	for (int f = 0; f < 4; f++)
		put_row(b, strategy->name, cost->name, families[f], &of[f]);
	put_row(b, strategy->name, cost->name, "all", &all);
	return E_OK;
}

/* Finds the nearest tasks of the same kind, nearest first, at most `most`. */
static void find_akin(struct bench *b, struct subject *t, int most)
{
	for (int i = 0; i < b->n; i++) {
		const struct subject *o = &b->subject[i];
		if (o == t || !key_equal(o->kind, t->kind))
			continue;
		int at = t->nakin < most ? t->nakin++ : most;
		for (; at > 0 && task_away(t->akin[at - 1]->task, t->task) > task_away(o->task, t->task);
		     at--)
			if (at < most)
				t->akin[at] = t->akin[at - 1];
		if (at < most)
			t->akin[at] = o;
	}
}

static int open_subjects(struct bench *b, const char *dir)
{
	struct landscape *l;
	int n = landscape_folder(dir, &b->a, &l);
	if (n < 0)
		return n;
	b->subject = ARENA_ARRAY(&b->a, struct subject, n);
	for (int i = 0; i < n; i++) {
		struct subject *t = &b->subject[b->n];
		const struct space_want want = {.threads = l[i].threads};
		*t = (struct subject){.l = &l[i], .task = ARENA_NEW(&b->a, struct task)};
		int rc = task_parse(l[i].task, t->task);
		if (rc >= 0)
			rc = space_make(&b->a, t->task, &l[i].target, &want, &t->space);
		if (rc < 0)
			return fail_in(rc, "landscape of %s", l[i].label);
		for (int k = 0; k < l[i].n; k++) {
			double ns = (double)landscape_ns(&l[i], k);
			if (ns > 0 && (t->best_ns == 0 || ns < t->best_ns)) {
				t->best_ns = ns;
				t->best = l[i].point[k].cand;
			}
		}
		t->kind = task_kind(t->task);
		b->n += t->best_ns > 0;
	}
	for (int i = 0; i < b->n && b->akin >= 0; i++)
		find_akin(b, &b->subject[i], b->akin > 0 ? b->akin : 1);
	return E_OK;
}

static int run_all(struct bench *b, const char *strategy, const char *cost)
{
	for (int i = 0; strategy_table[i]; i++)
		for (int k = 0; cost_table[k]; k++) {
			if ((strategy && strcmp(strategy, strategy_table[i]->name)) ||
			    (cost && strcmp(cost, cost_table[k]->name)))
				continue;
			int rc = run_pair(b, strategy_table[i], cost_table[k]);
			if (rc < 0)
				return rc;
		}
	return E_OK;
}

static int read_noise(const struct args *a, double *sigma)
{
	const char *text = arg_str(a, "noise", "0");
	char *end;
	*sigma = strtod(text, &end);
	if (end == text || *end || !(*sigma >= 0 && *sigma <= 1))
		return fail(E_USAGE, "--noise %s: 0 to 1", text);
	return E_OK;
}

static int run_strategies(const struct args *a)
{
	static const char *const head[] = {"strategy", "cost",    "tasks",  "to 95 %", "s",
					   "missed",   "to 97 %", "s",      "missed",  "to 99 %",
					   "s",        "missed",  "at end", "own us"};
	struct bench b = {.trials = (int)arg_int(a, "trials", 100),
			  .seeds = (int)arg_int(a, "seeds", 3),
			  .akin = (int)arg_int(a, "akin", -1),
			  .rules = arg_flag(a, "rules"),
			  .each = arg_flag(a, "tasks"),
			  .rows = json_array()};
	const char *strategy = arg_str(a, "strategy", NULL), *cost = arg_str(a, "cost", NULL);
	if ((strategy && !strategy_find(strategy)) || (cost && !cost_find(cost)))
		return fail(E_USAGE, "unknown strategy or cost model (hone tune --help lists them)");
	if (b.trials < 1 || b.trials > MOST_TRIALS || b.seeds < 1 || b.seeds > 1000)
		return fail(E_USAGE, "--trials: 1 to %d, --seeds: 1 to 1000", MOST_TRIALS);
	if (b.akin < -1 || b.akin > MOST_AKIN)
		return fail(E_USAGE, "--akin: 0 to %d", MOST_AKIN);
	int rc = read_noise(a, &b.sigma);
	b.table.align = "lllrrrrrrrrrrr";
	for (size_t i = 0; i < sizeof head / sizeof *head; i++)
		table_cell(&b.table, "%s", head[i]);
	if (rc >= 0)
		rc = open_subjects(&b, a->pos[0]);
	if (rc >= 0)
		rc = run_all(&b, strategy, cost);
	if (rc >= 0 && a->json)
		rc = json_out(json_pack("{so}", "rows", b.rows));
	else if (rc >= 0)
		table_print(&b.table, a->color);
	arena_free(&b.a);
	return rc < 0 ? rc : 0;
}

static const struct opt opts[] = {
    {"strategy", OPT_STR, "NAME", "only this strategy"},
    {"cost", OPT_STR, "NAME", "only this cost model"},
    {"trials", OPT_INT, "N", "measurements of a search (100)"},
    {"seeds", OPT_INT, "N", "searches of each task (3)"},
    {"noise", OPT_STR, "X", "sigma of the logarithm of a run's time (0)"},
    {"rules", OPT_FLAG, NULL, "try the default and the rules first; they count as measurements"},
    {"akin", OPT_INT, "N",
     "before the rules, try the best candidates of the N nearest tasks of the same kind"},
    {"tasks", OPT_FLAG, NULL, "print a row for each task"},
    {NULL},
};

static const struct cmd strategies = {
    .usage = "DIR [--strategy NAME] [--cost NAME] [--trials N] [--seeds N] [--noise X]",
    .summary = "measure how soon strategies find fast recorded candidates",
    .details = "",
    .min_pos = 1,
    .max_pos = 1,
    .opts = opts,
    .run = run_strategies,
    .name = "strategies",
};

int main(int argc, char **argv)
{
	return cmd_main(&strategies, argc, argv);
}
