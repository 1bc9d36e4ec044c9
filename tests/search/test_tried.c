/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of a job's trials, on the simulator: the same seed gives the same ones, and the next box does not
 * repeat them. */
#include "agent/cache/trials.h"
#include "search/job.h"
#include "search/strategy.h"
#include "tests/lib/sim_runner.h"
#include "tests/lib/tasks.h"
#include "tests/lib/test.h"

enum { NTASKS = 2, MOST = 4096 };

static const char *const texts[NTASKS] = {
    task_small_conv,
    task_matmul,
};

struct told {
	int n;
	struct tried t[MOST];
	int task[MOST];
	const char *watch; /* a candidate to watch */
	bool kept;         /* whether it was the incumbent */
	struct arena a;
	struct sim_runner *s;
};

static void tried(void *ctx, int task, const struct tried *t)
{
	struct told *o = ctx;
	CHECK(o->n < MOST && task >= 0 && task < NTASKS);
	if (o->n == MOST)
		return;
	o->task[o->n] = task;
	o->t[o->n] = *t;
	o->t[o->n++].cand = arena_strdup(&o->a, t->cand);
}

static int sink(void *ctx, int task, bool best, const char *cand, const struct meas *m, struct blob code)
{
	struct told *o = ctx;
	(void)best, (void)m, (void)code;
	o->kept |= task == 0 && o->watch && !strcmp(cand, o->watch);
	return E_OK;
}

struct box_setup {
	const char *strategy;
	uint64_t seed;
	int64_t box_ns;
	double death_rate;
	bool quick, defaults_only;
	int nknown;
	const struct tried *known; /* tried candidates of the first task */
	const char *watch;
};

static void run_box(const struct box_setup *b, struct told *o)
{
	struct job_task task[NTASKS] = {{.text = texts[0], .label = "conv", .uses = 1},
					{.text = texts[1], .label = "matmul", .uses = 2}};
	struct job_result result[NTASKS];
	*o = (struct told){.s = sim_open(5, 0.03), .watch = b->watch};
	o->s->death_rate = b->death_rate;
	task[0].ntried = b->nknown;
	task[0].tried = b->known;
	const struct job j = {.ntasks = NTASKS,
			      .task = task,
			      .search.strategy = b->strategy,
			      .search.seed = b->seed,
			      .limits.deadline_ns = b->box_ns,
			      .limits.quick = b->quick,
			      .limits.defaults_only = b->defaults_only,
			      .calls.ctx = o,
			      .calls.sink = sink,
			      .calls.tried = tried};
	CHECK_OK(job_run(&j, &o->s->r, result));
	for (int i = 0; i < NTASKS; i++)
		CHECK(result[i].spent_ns > 0 && result[i].spent_ns <= b->box_ns);
}

static void end_box(struct told *o)
{
	o->s->r.ops->close(&o->s->r);
	arena_free(&o->a);
}

static struct told one, two;
static struct trials log_one, log_two;

static bool same_logs(const struct told *a, const struct told *b)
{
	struct buf x = {0}, y = {0};
	trials_start(&log_one, hash_text("t"), "t", "t");
	trials_start(&log_two, hash_text("t"), "t", "t");
	for (int i = 0; i < a->n; i++)
		trials_add(&log_one, &a->t[i], 1);
	for (int i = 0; i < b->n; i++)
		trials_add(&log_two, &b->t[i], 1);
	trials_text(&log_one, &x);
	trials_text(&log_two, &y);
	bool same = !strcmp(buf_str(&x), buf_str(&y));
	buf_free(&x);
	buf_free(&y);
	trials_free(&log_one);
	trials_free(&log_two);
	return same;
}

/* Every strategy, and the default strategy with the default cost model. */
TEST(the_same_seed_tries_the_same)
{
	for (int i = -1; i < 0 || strategy_table[i]; i++) {
		const char *name = i < 0 ? NULL : strategy_table[i]->name;
		run_box(&(struct box_setup){.strategy = name, .seed = 7, .box_ns = NS_PER_S}, &one);
		run_box(&(struct box_setup){.strategy = name, .seed = 7, .box_ns = NS_PER_S}, &two);
		CHECK(one.n > 20 && same_logs(&one, &two));
		end_box(&two);
		run_box(&(struct box_setup){.strategy = name, .seed = 8, .box_ns = NS_PER_S}, &two);
		CHECK(!same_logs(&one, &two));
		end_box(&two);
		end_box(&one);
		if (test_bad) {
			printf("strategy %s\n", name ? name : "by default");
			return;
		}
	}
}

/* With the same seed, the next box does not begin with the draws of the first. */
TEST(the_next_box_finds_something_new)
{
	static struct tried known[MOST];
	const struct box_setup first = {.strategy = "random", .seed = 7, .box_ns = 4 * NS_PER_S};
	run_box(&first, &one);
	struct box_setup second = first;
	second.known = known;
	for (int i = 0; i < one.n; i++)
		if (one.task[i] == 0 && !one.t[i].lost)
			known[second.nknown++] = one.t[i];
	run_box(&second, &two);
	int fresh = 0;
	for (int i = 0; i < two.n; i++)
		fresh += two.task[i] == 0 && two.t[i].by == TRIED_STRATEGY && !two.t[i].lost;
	CHECK(second.nknown > 130 && fresh > 20);
	end_box(&two);
	end_box(&one);
}

TEST(trials_are_told_whole)
{
	int by[TRIED_BYS] = {0}, lost = 0;
	run_box(&(struct box_setup){.seed = 3, .box_ns = 2 * NS_PER_S}, &one);
	int64_t at_ns = 0;
	for (int i = 0; i < one.n; i++) {
		const struct tried *t = &one.t[i];
		lost += t->lost;
		if (t->lost)
			continue;
		by[t->by]++;
		CHECK(t->at_ns > at_ns && t->at_ns < 2 * NS_PER_S);
		CHECK(t->spent_ns >= t->build_ns && t->spent_ns <= t->at_ns);
		CHECK(t->guess_ns > 0 && t->guess_sd >= 0 && t->draft_ns > 0);
		CHECK((t->ns > 0) == (t->status == MEAS_OK || t->status == MEAS_ABORTED));
		CHECK(t->default_ns > 0);
		at_ns = t->at_ns;
	}
	CHECK(by[TRIED_DEFAULT] == NTASKS && by[TRIED_INCUMBENT] == 0 && by[TRIED_SEED] == 0);
	CHECK(by[TRIED_STRATEGY] > 5 && by[TRIED_RULE] > 5 && lost > 0);
	end_box(&one);
}

/* A default during which the worker dies is tried again, and reported again. */
TEST(dying_workers)
{
	int crashed = 0;
	run_box(&(struct box_setup){.seed = 3, .box_ns = 2 * NS_PER_S, .death_rate = 0.2}, &one);
	for (int i = 0; i < one.n; i++)
		crashed += one.t[i].status == MEAS_CRASH;
	CHECK(crashed > 2 && one.s->deaths >= crashed);
	end_box(&one);
}

static const struct tried *find(const struct told *o, int task, const char *cand)
{
	for (int i = 0; i < o->n; i++)
		if (o->task[i] == task && !strcmp(o->t[i].cand, cand))
			return &o->t[i];
	return NULL;
}

/* The next box tries other candidates, except for the default, which is its reference. */
TEST(known_trials_are_not_repeated)
{
	static struct tried known[MOST];
	int n = 0, again = 0, fresh = 0;
	run_box(&(struct box_setup){.seed = 3, .box_ns = NS_PER_S}, &one);
	for (int i = 0; i < one.n; i++)
		if (one.task[i] == 0 && !one.t[i].lost)
			known[n++] = one.t[i];
	run_box(&(struct box_setup){.seed = 3, .box_ns = NS_PER_S, .nknown = n, .known = known}, &two);
	for (int i = 0; i < two.n; i++) {
		if (two.task[i] || two.t[i].lost)
			continue;
		bool was = find(&one, 0, two.t[i].cand) != NULL;
		CHECK(!was || two.t[i].by == TRIED_DEFAULT);
		again += was;
		fresh += !was;
	}
	CHECK(n > 10 && again == 1 && fresh > 5);
	end_box(&two);
	end_box(&one);
}

/* The best of one box's first task, its time and the default's. */
static bool best_of(const struct told *o, char good[CAND_MAX], int64_t *least, int64_t *standard)
{
	*least = INT64_MAX;
	*standard = 0;
	for (int i = 0; i < o->n; i++) {
		if (o->task[i] || o->t[i].lost || o->t[i].status != MEAS_OK)
			continue;
		if (o->t[i].by == TRIED_DEFAULT)
			*standard = o->t[i].ns;
		else if (o->t[i].ns < *least) {
			*least = o->t[i].ns;
			snprintf(good, CAND_MAX, "%s", o->t[i].cand);
		}
	}
	return *least<INT64_MAX && * standard> 0;
}

/* A candidate that was by far the best on a machine half as fast is raced again; texts that are illegal here
 * (other tasks', nonsense) are skipped. */
TEST(known_times_count_by_the_default)
{
	char good[CAND_MAX];
	int64_t least, standard;
	run_box(&(struct box_setup){.seed = 3, .box_ns = 2 * NS_PER_S}, &one);
	REQUIRE(best_of(&one, good, &least, &standard));
	const struct tried known[] = {
	    {.cand = good, .status = MEAS_OK, .ns = standard * 3, .default_ns = standard * 2},
	    {.cand = "lane=nonsense", .status = MEAS_OK, .ns = 1, .default_ns = 1},
	    {.cand = "lane=k:3", .status = MEAS_OK, .ns = 1},
	    {.cand = "\n;|", .status = MEAS_CRASH},
	};
	run_box(&(struct box_setup){.seed = 4, .box_ns = NS_PER_S, .nknown = 4, .known = known}, &two);
	CHECK(!find(&two, 0, good)); /* 1.5 times the default's time: neither tried nor raced */
	CHECK(!find(&two, 0, "lane=nonsense") && !find(&two, 0, "lane=k:3"));
	end_box(&two);
	end_box(&one);
}

/* A candidate that lost to an incumbent that is gone is raced again if it is clearly faster than today's. */
TEST(losers_get_another_chance)
{
	char good[CAND_MAX];
	int64_t least, standard;
	run_box(&(struct box_setup){.seed = 3, .box_ns = 2 * NS_PER_S}, &one);
	REQUIRE(best_of(&one, good, &least, &standard));
	for (int i = 0; i < 6; i++) {
		bool slow = i % 2;
		const struct tried known = {.cand = good,
					    .status = MEAS_OK,
					    .lost = true,
					    .ns = slow ? standard - standard / 20 : standard / 2,
					    .default_ns = standard};
		run_box(&(struct box_setup){.seed = 5 + (uint64_t)i / 2,
					    .box_ns = 2 * NS_PER_S, /* time for races */
					    .nknown = 1,
					    .known = &known,
					    .watch = good},
			&two);
		CHECK((two.kept || find(&two, 0, good)) == !slow);
		end_box(&two);
	}
	end_box(&one);
}

/* A quick search ends by itself, and sooner if much is known already; defaults alone are two trials. */
TEST(quick_searches_and_defaults_alone)
{
	static struct tried known[MOST];
	const int64_t box_ns = 600 * NS_PER_S;
	int n = 0;
	run_box(&(struct box_setup){.seed = 3, .box_ns = box_ns, .quick = true}, &one);
	int64_t took_ns = clock_now(dev_sim.clock());
	CHECK(one.n > 40 && took_ns < box_ns / 10);
	for (int i = 0; i < one.n; i++)
		if (one.task[i] == 0 && !one.t[i].lost)
			known[n++] = one.t[i];
	run_box(&(struct box_setup){.seed = 3, .box_ns = box_ns, .quick = true, .nknown = n, .known = known},
		&two);
	CHECK(clock_now(dev_sim.clock()) < took_ns);
	end_box(&two);
	end_box(&one);
	run_box(&(struct box_setup){.seed = 3, .box_ns = box_ns, .defaults_only = true}, &one);
	CHECK(one.n == NTASKS && one.t[0].by == TRIED_DEFAULT && one.t[1].by == TRIED_DEFAULT);
	end_box(&one);
}

TEST_MAIN
