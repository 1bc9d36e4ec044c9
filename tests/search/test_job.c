/* SPDX-License-Identifier: Apache-2.0 */
/* Whole tuning jobs on the simulator and its virtual clock: boxes, stops, noise, a dying worker.
 * Past 800 lines because all of it looks at the one set of jobs below. */
#include "agent/worker/wire.h"
#include "search/job.h"
#include "tests/lib/sim_runner.h"
#include "tests/lib/tasks.h"
#include "tests/lib/test.h"

enum { NTASKS = 4 };

static const char *const texts[NTASKS] = {
    "task syms=0\n"
    "operand X in f32 [1,8,8,8] 0.1/4.2.3.1;2+1+1;3+1+1\n"
    "operand W const f32 [8,8,3,3] plain\n"
    "operand B const f32 [8] plain\n"
    "operand Y out f32 [1,8,8,8] 0.1/4.2.3.1\n"
    "stage n:1 k:8 y:8 x:8 | c:8 r:3 s:3\n"
    "read X [n,c,y+r-1,x+s-1]\n"
    "read W [k,c,r,s]\n"
    "read B [k]\n"
    "body r0 r1 mul\n"
    "sum\n"
    "post acc r2 add 0 max\n"
    "write Y [n,k,y,x]\n",
    task_matmul,
    "task syms=0\n"
    "operand X in f32 [1,8,10,10] 0.1/4.2.3.1;2+1+1;3+1+1\n"
    "operand W const f32 [8,3,3] plain\n"
    "operand Y out f32 [1,8,10,10] 0.1/4.2.3.1\n"
    "stage n:1 c:8 y:10 x:10 | r:3 s:3\n"
    "read X [n,c,y+r-1,x+s-1]\n"
    "read W [c,r,s]\n"
    "body r0 r1 mul\n"
    "sum\n"
    "write Y [n,c,y,x]\n",
    task_pointwise,
};

/* A product of another shape than task_matmul. */
static const char larger[] = "task syms=0\n"
			     "operand A in f32 [30,40] plain\n"
			     "operand B const f32 [40,64] plain\n"
			     "operand C out f32 [30,64] plain\n"
			     "stage m:30 n:64 | k:40\n"
			     "read A [m,k]\n"
			     "read B [k,n]\n"
			     "body r0 r1 mul\n"
			     "sum\n"
			     "write C [m,n]\n";

/* What the sink received last, of each kind. */
struct saved {
	int calls, refuse_at;
	int first; /* task of the first call */
	char best[NTASKS][CAND_MAX], standard[NTASKS][CAND_MAX];
	size_t code_bytes[NTASKS];
	int progressed;
	double now_ms;
};

static int sink(void *ctx, int task, bool best, const char *cand, const struct meas *m, struct blob code)
{
	struct saved *s = ctx;
	struct arena a = {0};
	struct code c;
	snprintf(best ? s->best[task] : s->standard[task], CAND_MAX, "%s", cand);
	s->first = s->calls ? s->first : task;
	CHECK(m->status == MEAS_OK && m->runs > 0);
	CHECK(m->mhz_before != SIM_BESIDE_MHZ); /* nothing is recorded that was timed while builders ran */
	CHECK_OK(code_parse(code.p, code.n, &a, &c));
	s->code_bytes[task] = code.n;
	arena_free(&a);
	return ++s->calls == s->refuse_at ? fail(E_IO, "sink is full") : E_OK;
}

static void progress(void *ctx, const struct job_progress *p)
{
	struct saved *s = ctx;
	s->progressed++;
	CHECK(p->task >= 0 && p->task < p->ntasks && p->label);
	s->now_ms = p->now_ms;
}

struct setup {
	struct sim_runner *s;
	struct job_task task[NTASKS];
	struct job j;
	struct job_result result[NTASKS];
	struct saved saved;
	int seeded[NTASKS]; /* trials of seeds */
};

static void open_setup(struct setup *u, uint64_t seed, double sigma, int ntasks, int64_t box_ns)
{
	memset(u, 0, sizeof *u);
	u->s = sim_open(seed, sigma);
	for (int i = 0; i < ntasks; i++)
		u->task[i] = (struct job_task){
		    .text = texts[(i + (int)seed) % NTASKS], .label = "task", .uses = 1 + i};
	u->j = (struct job){.ntasks = ntasks,
			    .task = u->task,
			    .search.strategy = seed % 2 ? "evolve" : "random",
			    .search.seed = seed,
			    .limits.deadline_ns = box_ns,
			    .limits.stop = &u->s->stop,
			    .calls.ctx = &u->saved,
			    .calls.sink = sink,
			    .calls.progress = progress};
}

static void close_setup(struct setup *u)
{
	u->s->r.ops->close(&u->s->r);
}

/* Time of a candidate without noise. */
static int64_t true_ns(struct setup *u, int task, const char *cand)
{
	int handle;
	struct meas m;
	dev_sim_reset(0, 1, 0);
	u->s->death_rate = 0;
	CHECK_OK(u->s->r.ops->build(&u->s->r, u->task[task].text, cand, INT64_MAX, &handle, &m));
	CHECK(m.status == MEAS_OK);
	if (m.status != MEAS_OK)
		return 0;
	CHECK_OK(u->s->r.ops->time(&u->s->r, &handle, 1, 1, 0, 1, INT64_MAX, &m));
	u->s->r.ops->drop(&u->s->r, handle, INT64_MAX);
	return m.min_ns;
}

static void check_results(struct setup *u)
{
	for (int i = 0; i < u->j.ntasks; i++) {
		CHECK(u->result[i].best[0] && u->result[i].best_ns > 0 && u->result[i].default_ns > 0);
		CHECK(!strcmp(u->result[i].best, u->saved.best[i])); /* everything that was found is saved */
		CHECK(u->saved.standard[i][0] && u->saved.code_bytes[i] > 0);
		CHECK(!strcmp(u->result[i].standard, u->saved.standard[i]));
		CHECK(u->result[i].best_ns <= u->result[i].default_ns);
	}
	CHECK(u->s->wrong == 0);
}

static struct setup setup;

/* Whether only the end of the box ended the search of the task. */
static bool goes_on(int task)
{
	return setup.result[task].end == SEARCH_OPEN || setup.result[task].end == SEARCH_LATE;
}

TEST(weights_are_timed_where_the_network_keeps_them)
{
	for (int warm = 0; warm < 2; warm++) {
		open_setup(&setup, 3, 0, 1, NS_PER_S);
		setup.j.search.warm = warm;
		CHECK(job_run(&setup.j, &setup.s->r, setup.result) > 1);
		CHECK(setup.s->timed[!warm] > 1 && setup.s->timed[warm] == 0);
		close_setup(&setup);
	}
}

/* Every task is at its roofline, or all of its candidates are tried. */
static bool nothing_left(const struct setup *u)
{
	bool none = true;
	for (int i = 0; i < u->j.ntasks; i++)
		none &= u->result[i].promise <= 0;
	return none;
}

TEST(twenty_boxes_end_in_time)
{
	struct rng r;
	int early = 0; /* at their roofline */
	rng_seed(&r, 11);
	for (uint64_t seed = 1; seed <= 20 && !test_bad; seed += test_share()) {
		int64_t box = 400 * NS_PER_MS + rng_below(&r, 3000) * NS_PER_MS;
		open_setup(&setup, seed, 0.03, 1 + (int)rng_below(&r, NTASKS), box);
		int trials = job_run(&setup.j, &setup.s->r, setup.result);
		int64_t end = clock_now(dev_sim.clock());
		CHECK(trials > 5);
		CHECK(end <= box - 30 * NS_PER_MS);
		if (end < box - 100 * NS_PER_MS)
			early += 1;
		CHECK(end >= box - 100 * NS_PER_MS || (nothing_left(&setup) && setup.j.ntasks == 1));
		CHECK(setup.saved.progressed >= trials);
		check_results(&setup);
		/* Noise must not make the winner worse than the default. */
		for (int i = 0; i < setup.j.ntasks && !test_bad; i++) {
			double ratio = (double)true_ns(&setup, i, setup.saved.best[i]) /
				       (double)true_ns(&setup, i, setup.saved.standard[i]);
			CHECK(ratio <= 1.01);
		}
		if (test_bad)
			printf("seed %llu: box %lld ms, ended %lld ms\n", (unsigned long long)seed,
			       (long long)(box / NS_PER_MS), (long long)(end / NS_PER_MS));
		close_setup(&setup);
	}
	CHECK(early <= 1);
}

/* Neither one slow build among fast ones nor a task whose every build is slow ends the box for the others. */
TEST(slow_builds_do_not_end_a_box_early)
{
	const int64_t box = 2 * NS_PER_S;
	for (int way = 0; way < 2; way++) {
		open_setup(&setup, 1, 0.03, 2, box);
		if (way == 0)
			setup.s->slow_build = 7;
		else
			setup.s->slow_task = setup.task[0].text;
		setup.s->slow_ns = way == 0 ? 1200 * NS_PER_MS : 400 * NS_PER_MS;
		CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
		int64_t end = clock_now(dev_sim.clock());
		CHECK(setup.s->builds > 7);
		CHECK(end <= box - 30 * NS_PER_MS);
		CHECK(end >= box - 100 * NS_PER_MS);
		check_results(&setup);
		CHECK(setup.result[0].end == SEARCH_LATE && goes_on(1)); /* its next build does not fit */
		close_setup(&setup);
	}
}

/* A build that would not end inside the box is not begun, not even for a task that has had none. */
TEST(no_build_is_begun_that_would_be_cut)
{
	for (int i = 0; i < 30; i += test_share()) {
		int64_t box = 2 * NS_PER_S + i * 37 * NS_PER_MS;
		open_setup(&setup, 1 + (uint64_t)i, 0.03, 3, box);
		setup.s->slow_build = -1;
		setup.s->slow_ns = (250 + i % 3 * 50) * NS_PER_MS;
		CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
		CHECK(setup.s->builds >= 3 && setup.s->cut == 0);
		double most = 0; /* promise to a box that has time */
		for (int k = 0; k < setup.j.ntasks; k++)
			most = setup.result[k].promise > most ? setup.result[k].promise : most;
		CHECK(most > 0);
		CHECK(clock_now(dev_sim.clock()) <= box - 30 * NS_PER_MS);
		close_setup(&setup);
	}
	/* No build fits. */
	open_setup(&setup, 1, 0.03, 3, 400 * NS_PER_MS);
	setup.s->slow_build = -1;
	setup.s->slow_ns = 150 * NS_PER_MS;
	CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
	CHECK(setup.s->builds <= 2 && setup.s->cut == 0);
	close_setup(&setup);
}

TEST(same_seed_same_result)
{
	static struct job_result first;
	for (int i = 0; i < 2; i++) {
		open_setup(&setup, 3, 0.03, 1, NS_PER_S);
		CHECK(job_run(&setup.j, &setup.s->r, setup.result) > 0);
		if (i == 0)
			first = setup.result[0];
		CHECK(!memcmp(&first, setup.result, sizeof first));
		close_setup(&setup);
	}
}

/* Builders change how much is tried, not what a result is worth. A second run with them gives the same. */
TEST(builders_build_ahead)
{
	static struct job_result first[2];
	struct job_spent spent;
	int trials[3];
	for (int n = 0; n < 3; n++)
		for (int again = 0; again < 2; again++) {
			open_setup(&setup, 3, 0.03, 2, 2 * NS_PER_S);
			setup.s->r.builders = n;
			setup.j.spent = &spent;
			trials[n] = job_run(&setup.j, &setup.s->r, setup.result);
			int64_t end = clock_now(dev_sim.clock());
			CHECK(end <= setup.j.limits.deadline_ns - 30 * NS_PER_MS);
			CHECK(end >= setup.j.limits.deadline_ns - 100 * NS_PER_MS);
			check_results(&setup);
			CHECK(spent.own_ns >= 0 && spent.own_ns < end / 20 && spent.state_bytes > 0);
			CHECK(spent.build_ns + spent.wait_ns + spent.check_ns + spent.time_ns +
				  spent.race_ns + spent.own_ns ==
			      end);
			CHECK(n ? spent.ahead_ns > 0 : spent.ahead_ns + spent.wait_ns == 0);
			CHECK(n ? setup.s->taken > trials[n] / 4 : setup.s->taken == 0);
			if (!again)
				memcpy(first, setup.result, sizeof first);
			CHECK(!memcmp(first, setup.result, sizeof first));
			close_setup(&setup);
		}
	CHECK(trials[1] > trials[0] * 5 / 4);
	CHECK(trials[2] > trials[1]);
}

/* In a long box on a quiet machine, the random strategy ends with the same result with and without
 * builders. */
TEST(builders_change_no_result)
{
	char best[2][CAND_MAX];
	for (int n = 0; n < 2; n++) {
		open_setup(&setup, 2, 0, 1, 30 * NS_PER_S);
		setup.s->r.builders = n;
		CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
		snprintf(best[n], sizeof best[n], "%s", setup.result[0].best);
		close_setup(&setup);
	}
	open_setup(&setup, 2, 0, 1, NS_PER_S);
	CHECK(true_ns(&setup, 0, best[0]) == true_ns(&setup, 0, best[1]));
	close_setup(&setup);
}

TEST(dying_builders_lose_nothing)
{
	for (uint64_t seed = 1; seed <= 10 && !test_bad; seed += test_share()) {
		open_setup(&setup, seed, 0.03, 2, 2 * NS_PER_S);
		setup.s->r.builders = 1 + (int)(seed % 2);
		setup.s->builder_death_rate = 0.2;
		setup.s->death_rate = seed % 3 ? 0 : 0.1;
		CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
		CHECK(clock_now(dev_sim.clock()) <= setup.j.limits.deadline_ns);
		for (int i = 0; i < 2; i++)
			CHECK(!strcmp(setup.result[i].best, setup.saved.best[i]) && setup.saved.best[i][0]);
		close_setup(&setup);
	}
}

TEST(a_stop_loses_nothing)
{
	struct rng r;
	rng_seed(&r, 12);
	for (uint64_t seed = 1; seed <= 30 && !test_bad; seed += test_share()) {
		open_setup(&setup, seed, 0.03, 2, 20 * NS_PER_S);
		setup.s->stop_after = 1 + (int)rng_below(&r, 200);
		CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
		CHECK(setup.s->calls <= setup.s->stop_after + 3);
		for (int i = 0; i < 2; i++)
			CHECK(!strcmp(setup.result[i].best, setup.saved.best[i]));
		if (setup.s->stop_after > 20)
			check_results(&setup);
		close_setup(&setup);
	}
}

TEST(a_dying_worker_loses_nothing)
{
	for (uint64_t seed = 1; seed <= 10 && !test_bad; seed += test_share()) {
		open_setup(&setup, seed, 0.03, 2, 2 * NS_PER_S);
		setup.s->death_rate = 0.1;
		CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
		CHECK(setup.s->deaths > 3);
		CHECK(clock_now(dev_sim.clock()) <= setup.j.limits.deadline_ns);
		for (int i = 0; i < 2; i++)
			CHECK(!strcmp(setup.result[i].best, setup.saved.best[i]) && setup.saved.best[i][0]);
		close_setup(&setup);
	}
	open_setup(&setup, 1, 0.03, 2, 20 * NS_PER_S);
	setup.s->death_rate = 1;
	CHECK_FAILS(job_run(&setup.j, &setup.s->r, setup.result), E_CHILD, "10 times in a row");
	CHECK(setup.s->deaths == 10);
	close_setup(&setup);
}

/* A worker that hangs before the box ends is replaced: what it had built is built again, and is not recorded
 * as crashed. */
TEST(a_hanging_worker_loses_nothing)
{
	for (uint64_t seed = 1; seed <= 10 && !test_bad; seed += test_share()) {
		open_setup(&setup, seed, 0.03, 2, 2 * NS_PER_S);
		setup.s->hang_rate = 0.1;
		CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
		CHECK(setup.s->hangs > 3 && setup.s->lost == 0);
		CHECK(clock_now(dev_sim.clock()) <= setup.j.limits.deadline_ns);
		for (int i = 0; i < 2; i++)
			CHECK(!strcmp(setup.result[i].best, setup.saved.best[i]) && setup.saved.best[i][0]);
		close_setup(&setup);
	}
}

TEST(a_refusing_sink_ends_the_job)
{
	open_setup(&setup, 1, 0.03, 2, 20 * NS_PER_S);
	setup.saved.refuse_at = 2;
	CHECK_FAILS(job_run(&setup.j, &setup.s->r, setup.result), E_IO, "sink is full");
	close_setup(&setup);
}

TEST(incumbent_and_seeds)
{
	char known[CAND_MAX], standard[CAND_MAX];
	const struct job_seed seeds[] = {{"no such schedule"}, {known}};
	open_setup(&setup, 1, 0, 1, 4 * NS_PER_S);
	CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
	snprintf(known, sizeof known, "%s", setup.result[0].best);
	snprintf(standard, sizeof standard, "%s", setup.saved.standard[0]);
	close_setup(&setup);
	/* The known incumbent is not lost in a box that has time for nothing else. */
	open_setup(&setup, 1, 0, 1, 120 * NS_PER_MS);
	setup.task[0].incumbent = known;
	CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
	CHECK(setup.result[0].before_ns > 0 && setup.result[0].before_ns <= setup.result[0].default_ns);
	CHECK(!strcmp(setup.result[0].best, known));
	close_setup(&setup);
	/* The default as the incumbent costs no second build. */
	open_setup(&setup, 1, 0, 1, 120 * NS_PER_MS);
	setup.task[0].incumbent = standard;
	CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
	CHECK(setup.result[0].before_ns == setup.result[0].default_ns);
	close_setup(&setup);
	/* Seeds come first; a bad seed is skipped. */
	open_setup(&setup, 1, 0, 1, 500 * NS_PER_MS);
	setup.task[0].seed = seeds;
	setup.task[0].nseeds = 2;
	CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
	if (strcmp(known, standard))
		CHECK(true_ns(&setup, 0, setup.result[0].best) <= true_ns(&setup, 0, known));
	close_setup(&setup);
}

static void count_seeds(void *ctx, int task, const struct tried *t)
{
	(void)ctx;
	setup.seeded[task] += t->by == TRIED_SEED;
}

/* The winner of a task is tried in other tasks of its kind, and only there. */
TEST(winners_are_seeds_of_their_kind)
{
	open_setup(&setup, 1, 0, 3, 8 * NS_PER_S);
	setup.task[0].text = texts[1];
	setup.task[1].text = larger;
	setup.task[2].text = texts[2];
	setup.j.calls.tried = count_seeds;
	CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
	CHECK(setup.seeded[0] + setup.seeded[1] > 0 && setup.seeded[2] == 0);
	check_results(&setup);
	close_setup(&setup);
}

/* Seeds from other shapes and boards: those that fit are fitted and tried; nonsense does no harm. */
TEST(seeds_from_elsewhere)
{
	static const struct job_seed seeds[] = {
	    {"lane=n:16 tile=m:6", NULL, 16},  {"lane=n:4 tile=m:25", larger, 0},
	    {"no such schedule", larger, 0},   {"lane=n:4", "no such task", 0},
	    {"lane=n:4", "task syms=0\n", 16}, {"lane=k:4 tile=x:7", task_conv, 4}};
	open_setup(&setup, 1, 0, 1, 2 * NS_PER_S);
	setup.task[0].text = task_matmul;
	setup.task[0].seed = seeds;
	setup.task[0].nseeds = sizeof seeds / sizeof *seeds;
	setup.j.calls.tried = count_seeds;
	CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
	CHECK(setup.seeded[0] == 2);
	check_results(&setup);
	close_setup(&setup);
}

/* A task without a kernel gets one after the search has ended; a task that has a kernel does not. */
TEST(missing_kernels_may_take_longer)
{
	char known[CAND_MAX];
	for (int way = 0; way < 3; way++) {
		open_setup(&setup, 1, 0, 1, 60 * NS_PER_MS);
		setup.s->slow_task = setup.task[0].text;
		setup.s->slow_ns = 100 * NS_PER_MS;
		setup.j.limits.missing_by_ns = way ? 400 * NS_PER_MS : 0;
		setup.task[0].incumbent = way == 2 ? known : NULL;
		CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
		CHECK((setup.result[0].best_ns > 0) == (way == 1));
		CHECK(setup.s->builds <= 1);
		CHECK(clock_now(dev_sim.clock()) < (way == 1 ? 400 : 60) * NS_PER_MS);
		snprintf(known, sizeof known, "%s", setup.result[0].best);
		close_setup(&setup);
	}
}

/* The best of all tasks, found in a long box, and their defaults. */
static void find_known(char known[NTASKS][CAND_MAX], char standard[NTASKS][CAND_MAX])
{
	open_setup(&setup, 1, 0, NTASKS, 6 * NS_PER_S);
	CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
	for (int i = 0; i < NTASKS; i++) {
		snprintf(known[i], CAND_MAX, "%s", setup.saved.best[i]);
		snprintf(standard[i], CAND_MAX, "%s", setup.saved.standard[i]);
	}
	close_setup(&setup);
}

static int claims;                   /* claims tried */
static const char (*liar)[CAND_MAX]; /* candidates that do not build; NULL: none */

static int build_lies(struct runner *r, const char *task, const char *cand, int64_t deadline_ns, int *handle,
		      struct meas *m)
{
	int rc = sim_build(r, task, cand, deadline_ns, handle, m);
	for (int i = 0; liar && rc >= 0 && i < NTASKS; i++)
		if (!strcmp(setup.task[i].text, task) && !strcmp(liar[i], cand)) {
			sim_drop(r, *handle, INT64_MAX);
			*handle = -1;
			m->status = MEAS_BUILD;
		}
	return rc;
}

static void count_claims(void *ctx, int task, const struct tried *t)
{
	(void)ctx, (void)task;
	claims += t->by == TRIED_INCUMBENT;
}

/* A stranger's candidate gets one try. One that is as fast as claimed is made before any default; after a few
 * false claims, defaults come first, and the other claims are left for another box. */
TEST(strangers_are_believed_for_a_while)
{
	char known[NTASKS][CAND_MAX], standard[NTASKS][CAND_MAX];
	find_known(known, standard);
	for (int way = 0; way < 4; way++) { /* true claims, false, false in a short box, a hang */
		bool lies = way == 1 || way == 2;
		int64_t box = (NTASKS + JOB_LIES) * SIM_BUILD_NS + 70 * NS_PER_MS;
		int differ = 0;
		open_setup(&setup, 1, 0, NTASKS, way == 2 ? box : 2 * NS_PER_S);
		setup.j.limits.defaults_only = true;
		setup.j.calls.tried = count_claims;
		struct runner_ops ops = *setup.s->r.ops;
		ops.build = build_lies;
		setup.s->r.ops = &ops;
		liar = lies ? (const char(*)[CAND_MAX])known : NULL;
		claims = 0;
		for (int i = 0; i < NTASKS; i++) {
			differ += strcmp(known[i], standard[i]) != 0;
			setup.task[i].incumbent = known[i];
			setup.task[i].codeless = true;
			setup.task[i].claim_ns = way % 2 ? 1 : 100 * NS_PER_MS;
			if (way == 3 && strcmp(known[i], standard[i]))
				setup.s->stalled = known[i];
		}
		setup.s->stalls = 5;
		CHECK(differ > JOB_LIES);
		CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
		CHECK(claims == (lies ? JOB_LIES : differ));
		CHECK(way != 3 || setup.s->stalls == 4);
		for (int i = 0; i < NTASKS; i++) {
			bool hung = way == 3 && setup.s->stalled == known[i];
			CHECK(setup.result[i].best_ns > 0 && setup.saved.code_bytes[i] > 0);
			CHECK(!strcmp(setup.saved.best[i], lies || hung ? standard[i] : known[i]));
		}
		close_setup(&setup);
	}
}

/* A job begins with the task without a kernel whose default saves the network most; if the present times are
 * not known, with the most expensive one. */
TEST(what_saves_most_comes_first)
{
	for (int task = 0; task < NTASKS; task++) {
		open_setup(&setup, 1, 0, NTASKS, 3 * NS_PER_S);
		setup.j.limits.defaults_only = true;
		for (int i = 0; i < NTASKS; i++) {
			setup.task[i].uses = 1;
			setup.task[i].now_ns = i == task ? NS_PER_S : 1;
		}
		CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
		CHECK(setup.saved.first == task);
		check_results(&setup);
		close_setup(&setup);
	}
	open_setup(&setup, 1, 0, NTASKS, 3 * NS_PER_S);
	setup.j.limits.defaults_only = true;
	setup.task[2].uses = 100000;
	CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
	CHECK(setup.saved.first == 2);
	close_setup(&setup);
}

/* Incumbents whose records lost their code are made before any default, and raced against it afterwards. */
TEST(known_schedules_are_made_first)
{
	char known[NTASKS][CAND_MAX], standard[NTASKS][CAND_MAX];
	find_known(known, standard);
	for (int way = 0; way < 3; way++) {
		int64_t box = way ? 3 * NS_PER_S : (NTASKS + 1) * SIM_BUILD_NS + 60 * NS_PER_MS;
		open_setup(&setup, 1, 0, NTASKS, box);
		setup.j.limits.defaults_only = true;
		setup.s->r.builders = way == 2 ? 2 : 0;
		for (int i = 0; i < NTASKS; i++) {
			setup.task[i].incumbent = known[i];
			setup.task[i].codeless = true;
		}
		CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
		int standards = 0;
		for (int i = 0; i < NTASKS; i++) {
			CHECK(!strcmp(setup.saved.best[i], known[i]) && setup.saved.code_bytes[i] > 0);
			standards += setup.saved.standard[i][0] != 0;
		}
		CHECK(way ? standards == NTASKS : standards < NTASKS);
		if (way) {
			check_results(&setup);
			for (int i = 0; i < NTASKS; i++) /* one build each */
				CHECK(setup.result[i].trials == 1 + (strcmp(known[i], standard[i]) != 0));
		}
		close_setup(&setup);
	}
}

/* An incumbent that is no schedule, or whose answers are wrong by now, is replaced whatever its record
 * says. */
TEST(an_incumbent_that_fails_is_demoted)
{
	char known[NTASKS][CAND_MAX], standard[NTASKS][CAND_MAX];
	find_known(known, standard);
	for (int way = 0; way < 4; way++) {
		int i = 0;
		while (i < NTASKS - 1 && !strcmp(known[i], standard[i]))
			i++;
		CHECK(strcmp(known[i], standard[i]) != 0);
		open_setup(&setup, 1, 0, NTASKS, 3 * NS_PER_S);
		setup.j.limits.defaults_only = true;
		setup.task[i].incumbent = way < 2 ? "no such schedule" : known[i];
		setup.task[i].codeless = way % 2;
		setup.s->broken = way < 2 ? NULL : known[i];
		CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
		CHECK(!strcmp(setup.saved.best[i], standard[i]));
		CHECK(setup.result[i].before_ns == 0);
		close_setup(&setup);
	}
}

/* A candidate of the first task that takes `from` to `to` times as long as the default. */
static void find_near(double from, double to, const char *standard, char cand[CAND_MAX])
{
	struct arena a = {0};
	struct task *t = ARENA_NEW(&a, struct task);
	struct space *s = NULL;
	struct rng r;
	double ratio = 0;
	rng_seed(&r, 3);
	open_setup(&setup, 1, 0, 1, NS_PER_S);
	CHECK_OK(task_parse(setup.task[0].text, t));
	CHECK_OK(space_make(&a, t, &setup.s->t, NULL, &s));
	double base = (double)true_ns(&setup, 0, standard);
	for (int i = 0; i < 2000 && !(ratio >= from && ratio < to && strcmp(cand, standard)); i++) {
		CHECK_OK(space_random(s, &r, cand));
		ratio = (double)true_ns(&setup, 0, cand) / base;
	}
	CHECK(ratio >= from && ratio < to);
	close_setup(&setup);
	arena_free(&a);
}

/* In how many of 30 boxes on a noisy machine the incumbent is kept. */
static int times_kept(const char *incumbent, int64_t claim_ns)
{
	int kept = 0;
	for (uint64_t seed = 1; seed <= 30; seed++) {
		open_setup(&setup, 1, 0.03, 1, 3 * NS_PER_S);
		dev_sim_reset(0, seed, 0.03);
		setup.j.limits.defaults_only = true;
		setup.task[0].incumbent = incumbent;
		setup.task[0].claim_ns = claim_ns;
		CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
		CHECK(!strcmp(setup.saved.best[0], setup.result[0].best));
		CHECK(setup.result[0].before_ns > 0 && setup.result[0].default_ns > 0);
		kept += !strcmp(setup.result[0].best, incumbent);
		close_setup(&setup);
	}
	return kept;
}

/* The cache's incumbent and the default meet by the rule of races: what takes as long as the other one, give
 * or take 1 %, replaces nothing, whichever median is smaller. A stranger's candidate has to win against the
 * default. */
TEST(a_cached_incumbent_loses_only_a_race)
{
	char known[NTASKS][CAND_MAX], standard[NTASKS][CAND_MAX], same[CAND_MAX], slow[CAND_MAX];
	find_known(known, standard);
	find_near(.99, 1.01, standard[0], same);
	find_near(1.3, 2, standard[0], slow);
	int kept[] = {times_kept(same, 0), times_kept(slow, 0), times_kept(same, NS_PER_S),
		      times_kept(slow, NS_PER_S)};
	CHECK(kept[0] >= 29 && kept[1] == 0 && kept[2] <= 1 && kept[3] == 0);
	if (test_bad)
		printf("kept %d %d %d %d\n", kept[0], kept[1], kept[2], kept[3]);
}

/* A machine that stands still for a moment loses no tuned kernel; a kernel that hangs a second time is
 * replaced. */
TEST(an_incumbent_outlives_a_stall)
{
	char known[NTASKS][CAND_MAX], standard[NTASKS][CAND_MAX];
	find_known(known, standard);
	for (int way = 0; way < 8; way++) {
		int i = 0, stalls = way / 4 ? 9 : 1;
		while (i < NTASKS - 1 && !strcmp(known[i], standard[i]))
			i++;
		open_setup(&setup, 1, 0, NTASKS, 3 * NS_PER_S);
		setup.j.limits.defaults_only = true;
		setup.task[i].incumbent = known[i];
		setup.task[i].codeless = way % 2;
		setup.s->stalled = way / 2 % 2 ? standard[i] : known[i];
		setup.s->stalls = stalls;
		CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
		bool demoted = stalls > 1 && setup.s->stalled == known[i];
		CHECK(!strcmp(setup.saved.best[i], demoted ? standard[i] : known[i]));
		CHECK(!setup.saved.standard[i][0] == (stalls > 1 && !demoted));
		close_setup(&setup);
	}
}

/* If the default does not work and nothing else is known, the first rule that works is saved in its place:
 * the network of default schedules runs it. */
TEST(a_rule_stands_for_a_default_that_fails)
{
	char known[NTASKS][CAND_MAX], standard[NTASKS][CAND_MAX];
	find_known(known, standard);
	open_setup(&setup, 1, 0, NTASKS, 3 * NS_PER_S);
	setup.j.limits.defaults_only = true;
	setup.s->broken = standard[0];
	CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
	CHECK(setup.saved.standard[0][0] && strcmp(setup.saved.standard[0], standard[0]));
	CHECK(!strcmp(setup.saved.standard[0], setup.saved.best[0]) && setup.result[0].default_ns > 0);
	close_setup(&setup);
}

/* If the default does not work, an incumbent that works is kept. */
TEST(an_incumbent_outlives_its_default)
{
	char known[NTASKS][CAND_MAX], standard[NTASKS][CAND_MAX];
	find_known(known, standard);
	for (int i = 0; i < NTASKS; i++)
		for (int codeless = 0; codeless < 2 && strcmp(known[i], standard[i]); codeless++) {
			open_setup(&setup, 1, 0, NTASKS, 3 * NS_PER_S);
			setup.j.limits.defaults_only = true;
			setup.task[i].incumbent = known[i];
			setup.task[i].codeless = codeless;
			setup.s->broken = standard[i];
			CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
			CHECK(!strcmp(setup.saved.best[i], known[i]) && !setup.saved.standard[i][0]);
			CHECK(!strcmp(setup.result[i].best, known[i]) && setup.result[i].before_ns > 0);
			close_setup(&setup);
		}
}

/* The second job of a box does not build the default again, and its result is no worse. */
TEST(a_job_goes_on_from_another)
{
	static struct job_result first[NTASKS];
	open_setup(&setup, 1, 0, NTASKS, 3 * NS_PER_S);
	setup.j.limits.defaults_only = true;
	CHECK(job_run(&setup.j, &setup.s->r, setup.result) == NTASKS);
	CHECK(setup.s->builds == NTASKS);
	setup.j.limits.defaults_only = false;
	for (int i = 0; i < NTASKS; i++) {
		first[i] = setup.result[i];
		setup.task[i].earlier = &first[i];
		setup.task[i].incumbent = setup.saved.best[i];
	}
	const struct tried known = {
	    .cand = first[0].best, .status = MEAS_OK, .ns = 1000, .default_ns = 1000, .by = TRIED_DEFAULT};
	setup.task[0].tried = &known;
	setup.task[0].ntried = 1;
	snprintf(first[1].best, sizeof first[1].best, "no schedule of this task"); /* is made anew, */
	snprintf(first[2].standard, sizeof first[2].standard, "nor this");         /* so is the default */
	setup.j.limits.deadline_ns = clock_now(dev_sim.clock()) + 1;
	setup.j.limits.missing_by_ns = clock_now(dev_sim.clock()) + 1;
	CHECK(job_run(&setup.j, &setup.s->r, setup.result) == 0);
	CHECK(setup.s->builds == NTASKS);
	/* A box that is over loses nothing, though another task has no kernel. */
	for (int i = 0; i < NTASKS; i++)
		CHECK(i == 1 ? !setup.result[i].best_ns
			     : setup.result[i].best_ns == first[i].best_ns &&
				   !strcmp(setup.result[i].best, first[i].best));
	setup.j.limits.deadline_ns = clock_now(dev_sim.clock()) + 3 * NS_PER_S;
	CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
	for (int i = 0; i < NTASKS; i++) {
		CHECK(setup.result[i].default_ns > 0 && setup.result[i].best_ns <= first[i].best_ns);
		CHECK(!strcmp(setup.result[i].best, setup.saved.best[i]));
		CHECK(!strcmp(setup.result[i].standard, setup.saved.standard[i]));
	}
	close_setup(&setup);
}

/* A box that ends while a kernel is handed over shows no result that the sink did not get. */
TEST(results_are_those_handed_over)
{
	int lost = 0;
	for (uint64_t seed = 1; seed <= 20 && !test_bad; seed += test_share()) {
		open_setup(&setup, seed, 0.03, 1 + (int)seed % NTASKS, NS_PER_S);
		setup.s->late_code = 1 + (int)(seed * seed % 11);
		CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
		for (int i = 0; i < setup.j.ntasks; i++) {
			const struct job_result *r = &setup.result[i];
			CHECK(!strcmp(r->best, setup.saved.best[i]));
			CHECK((r->best_ns > 0) == (r->best[0] != 0));
			lost += !r->best[0] && r->works;
		}
		close_setup(&setup);
	}
	CHECK(test_share() > 1 || lost > 5); /* tasks whose only measured kernel was not kept */
}

static int nameless, losers;

static void count_nameless(void *ctx, int task, const struct tried *t)
{
	(void)ctx, (void)task;
	nameless += !t->cand;
	losers += t->lost;
}

/* A kernel that only an earlier job of the box tried can lose a race, and is reported by its name. */
TEST(losers_have_names)
{
	static struct job_result first[NTASKS];
	open_setup(&setup, 1, 0, NTASKS, 3 * NS_PER_S);
	CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
	for (int i = 0; i < NTASKS; i++) {
		first[i] = setup.result[i];
		first[i].default_ns = first[i].best_ns; /* a time by which it takes part in races */
		setup.task[i].earlier = &first[i];
	}
	setup.j.limits.deadline_ns = clock_now(dev_sim.clock()) + 3 * NS_PER_S;
	setup.j.calls.tried = count_nameless;
	nameless = losers = 0;
	CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
	CHECK(losers > 0 && !nameless);
	close_setup(&setup);
}

/* Finds the distinct candidates in many draws of a task's space. */
static int draw_all(const char *text, struct key found[256])
{
	struct arena a = {0};
	struct rng r;
	struct task *t = ARENA_NEW(&a, struct task);
	struct space *s = NULL;
	int n = 0;
	rng_seed(&r, 9);
	CHECK_OK(task_parse(text, t));
	CHECK_OK(space_make(&a, t, &setup.s->t, NULL, &s));
	for (int i = 0; i < 300 && n < 256; i++) {
		char cand[CAND_MAX];
		int k = 0;
		CHECK_OK(space_random(s, &r, cand));
		while (k < n && !key_equal(found[k], hash_text(cand)))
			k++;
		found[k] = hash_text(cand);
		n += k == n;
	}
	arena_free(&a);
	return n;
}

static struct {
	int n, again;
	struct key k[4096];
} seen;

static bool is_seen(struct key k)
{
	for (int i = 0; i < seen.n; i++)
		if (key_equal(seen.k[i], k))
			return true;
	return false;
}

static void see(void *ctx, int task, const struct tried *t)
{
	struct key k = hash_text(t->cand);
	(void)ctx;
	if (task != 0 || t->lost)
		return;
	seen.again += is_seen(k);
	if (seen.n < 4096)
		seen.k[seen.n++] = k;
}

/* The default strategy goes on until the box is over. If a space is small and has the box for itself, all of
 * it is tried before that, each candidate once, and the job ends when nothing is left. */
TEST(the_whole_box_is_used)
{
	static const char tiny[] = "task syms=0\noperand X in f32 [4] plain\noperand Y out f32 [4] plain\n"
				   "stage i:4\nread X [i]\nbody r0 0 max\nwrite Y [i]\n";
	struct key all[256];
	for (int ntasks = 1; ntasks <= 2; ntasks++) {
		const int64_t box = 10 * NS_PER_S;
		open_setup(&setup, 1, 0.03, ntasks, box);
		setup.j.search.strategy = NULL;
		setup.j.calls.tried = see;
		setup.task[0].text = tiny;
		seen.n = seen.again = 0;
		int n = draw_all(tiny, all), met = 0;
		CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
		int64_t end = clock_now(dev_sim.clock());
		for (int i = 0; i < n; i++)
			met += is_seen(all[i]);
		CHECK(n > 4 && (met == n || ntasks == 2) && seen.again == 0);
		CHECK(end <= box - 30 * NS_PER_MS);
		CHECK(ntasks == 1 ? end < box / 2 : end >= box - 100 * NS_PER_MS);
		CHECK(ntasks == 1 ? setup.result[0].end == SEARCH_EXHAUSTED : goes_on(1));
		check_results(&setup);
		if (test_bad)
			printf("%d of %d candidates tried, %d twice, %lld ms\n", met, n, seen.again,
			       (long long)(end / NS_PER_MS));
		close_setup(&setup);
	}
}

/* A quick search ends when no task gains anything, and each task says that it ended so. */
TEST(a_quick_search_dries_up)
{
	int dry = 0;
	open_setup(&setup, 1, 0.03, NTASKS, 600 * NS_PER_S);
	setup.j.limits.quick = true;
	CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
	CHECK(clock_now(dev_sim.clock()) < 60 * NS_PER_S);
	for (int i = 0; i < NTASKS; i++) {
		CHECK(setup.result[i].end != SEARCH_OPEN);
		dry += setup.result[i].end == SEARCH_DRY;
	}
	CHECK(dry > 0);
	close_setup(&setup);
}

static struct {
	int n[NTASKS], again, left;
} slices;

static void count_slices(void *ctx, int task, const struct tried *t)
{
	enum { SLICE = 10 };
	(void)ctx;
	if (t->lost || t->by == TRIED_DEFAULT)
		return;
	slices.again += ++slices.n[task] == SLICE + 1;
	for (int i = 0; i < NTASKS; i++)
		slices.left += slices.again && !slices.n[i];
}

/* Each task gets its first slice before any task gets a second one, however much more that one promises. */
TEST(first_slices_come_first)
{
	open_setup(&setup, 1, 0.03, NTASKS, 8 * NS_PER_S);
	setup.task[0].uses = 1000;
	setup.j.calls.tried = count_slices;
	memset(&slices, 0, sizeof slices);
	CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
	CHECK(slices.again > 0 && slices.left == 0);
	close_setup(&setup);
}

static struct {
	int n, early; /* of searched tasks: early: before the last of those that no box had searched */
	bool seen[NTASKS];
} begun;

/* Odd tasks had a turn in an earlier box. */
static void note_begin(void *ctx, int task, const struct tried *t)
{
	(void)ctx;
	if (t->by <= TRIED_INCUMBENT || begun.seen[task])
		return;
	begun.seen[task] = true;
	for (int i = 0; task % 2 && i < NTASKS; i += 2)
		begun.early += !begun.seen[i];
	begun.n++;
}

/* A box goes on where the boxes before it ended: however much a task promises that they searched, first come
 * those that had no turn. A task has had its turn as soon as more than its default was tried. */
TEST(a_box_begins_with_the_tasks_without_a_turn)
{
	static struct job_result first[NTASKS];
	static struct tried known[NTASKS];
	open_setup(&setup, 1, 0.03, NTASKS, 8 * NS_PER_S);
	setup.j.limits.defaults_only = true;
	CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
	setup.j.limits.defaults_only = false;
	for (int i = 0; i < NTASKS; i++) {
		first[i] = setup.result[i];
		CHECK(!first[i].turn);
		known[i] = (struct tried){.cand = first[i].best,
					  .ns = first[i].best_ns,
					  .default_ns = first[i].best_ns,
					  .by = i % 2 ? TRIED_SEED : TRIED_INCUMBENT};
		setup.task[i].tried = &known[i];
		setup.task[i].ntried = 1;
		setup.task[i].uses = i % 2 ? 1000 : 1;
		CHECK(job_had_turn(&setup.task[i]) == i % 2);
	}
	memset(&begun, 0, sizeof begun);
	setup.j.calls.tried = note_begin;
	CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
	CHECK(begun.n > NTASKS / 2 && begun.early == 0);
	for (int i = 0; i < NTASKS; i++)
		CHECK(setup.result[i].turn == (begun.seen[i] || i % 2));
	close_setup(&setup);
}

TEST(bad_tasks_and_strategies)
{
	open_setup(&setup, 1, 0, 2, NS_PER_S);
	setup.task[0].text = "nonsense";
	CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
	CHECK(!setup.result[0].best[0] && setup.result[1].best[0]); /* the other one is tuned */
	int ends[SEARCH_ENDS];
	search_count_ends(setup.result, 2, ends);
	CHECK(ends[SEARCH_FAILED] == 1 && goes_on(1));
	close_setup(&setup);
	open_setup(&setup, 1, 0, 1, NS_PER_S);
	setup.j.search.strategy = "magic";
	CHECK_FAILS(job_run(&setup.j, &setup.s->r, setup.result), E_USAGE, "magic");
	close_setup(&setup);
	open_setup(&setup, 1, 0, 0, NS_PER_S);
	CHECK(job_run(&setup.j, &setup.s->r, setup.result) == 0);
	close_setup(&setup);
	open_setup(&setup, 1, 0, 2, 1); /* a box that is over at once */
	CHECK(job_run(&setup.j, &setup.s->r, setup.result) == 0);
	close_setup(&setup);
}

/* In a longer box, evolution finds schedules at least as good as the default for every task, and better ones
 * for some. */
TEST(tuning_pays)
{
	double product = 1;
	open_setup(&setup, 1, 0.03, NTASKS, 8 * NS_PER_S);
	CHECK_OK(job_run(&setup.j, &setup.s->r, setup.result));
	for (int i = 0; i < NTASKS && !test_bad; i++) {
		double ratio = (double)true_ns(&setup, i, setup.saved.best[i]) /
			       (double)true_ns(&setup, i, setup.saved.standard[i]);
		CHECK(ratio <= 1.01);
		product *= ratio;
	}
	CHECK(product < 0.97);
	close_setup(&setup);
}

/* The same with the worker's own runner. */
TEST(through_the_local_runner)
{
	struct runner *r;
	open_setup(&setup, 2, 0.03, 2, 2 * NS_PER_S);
	REQUIRE_OK(runner_local(&dev_sim, 0, &emit_sim, &setup.s->t, 1, false, &r));
	int trials = job_run(&setup.j, r, setup.result);
	CHECK(trials > 20);
	CHECK(clock_now(dev_sim.clock()) <= setup.j.limits.deadline_ns - 30 * NS_PER_MS);
	CHECK(clock_now(dev_sim.clock()) >= setup.j.limits.deadline_ns - 100 * NS_PER_MS);
	check_results(&setup);
	r->ops->close(r);
	close_setup(&setup);
}

/* An unknown cost model is refused before anything is built. */
TEST(an_unknown_cost_model_is_named)
{
	open_setup(&setup, 2, 0, 2, 2 * NS_PER_S);
	setup.j.search.cost = "oracle";
	CHECK_FAILS(job_run(&setup.j, &setup.s->r, setup.result), E_USAGE, "oracle");
	CHECK(setup.result[0].trials == 0 && setup.result[1].trials == 0);
	close_setup(&setup);
}

TEST_MAIN
