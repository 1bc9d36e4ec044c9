/* SPDX-License-Identifier: Apache-2.0 */
/* Whole jobs on recorded landscapes; and recording. */
#include "agent/worker/replay.h"
#include "kernels/space/space.h"
#include "search/job.h"
#include "tests/lib/scratch.h"
#include "tests/lib/tasks.h"
#include "tests/lib/test.h"

#include <math.h>
#include <unistd.h>

enum { NTASKS = 2, POINTS = 60 };

static const char *const texts[NTASKS] = {
    "task syms=0\n"
    "operand X in f32 [1,16,14,14] 0.1/8.2.3.1;2+1+1;3+1+1\n"
    "operand W const f32 [16,16,3,3] plain\n"
    "operand Y out f32 [1,16,14,14] 0.1/8.2.3.1\n"
    "stage n:1 k:16 y:14 x:14 | c:16 r:3 s:3\n"
    "read X [n,c,y+r-1,x+s-1]\n"
    "read W [k,c,r,s]\n"
    "body r0 r1 mul\n"
    "sum\n"
    "write Y [n,k,y,x]\n",
    task_matmul,
};

/* Two tasks with random candidates, whose times are their drafts with noise; one in ten fails. */
struct world {
	struct arena a;
	struct landscape l[NTASKS];
	struct space *space[NTASKS];
};

static void draw_points(struct world *w, int i, struct rng *r)
{
	struct landscape *l = &w->l[i];
	char cand[CAND_MAX];
	l->point = ARENA_ARRAY(&w->a, struct landscape_point, POINTS);
	for (int tries = 0; l->n < POINTS && tries < 50 * POINTS; tries++) {
		space_default(w->space[i], cand);
		if (l->n)
			CHECK_OK(space_random(w->space[i], r, cand));
		if (landscape_find(l, cand) >= 0)
			continue;
		double ns = 100 + space_draft(w->space[i], cand) * exp(0.2 * rng_normal(r));
		struct landscape_point p = {.status = MEAS_OK,
					    .min_ns = (int64_t)ns,
					    .low_ns = (int64_t)ns,
					    .runs = 10,
					    .build_ns = (5 + rng_below(r, 10)) * NS_PER_MS,
					    .cand = arena_strdup(&w->a, cand)};
		if (l->n && rng_below(r, 10) == 0)
			p = (struct landscape_point){
			    .status = MEAS_SPILL, .build_ns = p.build_ns, .cand = p.cand};
		l->point[l->n++] = p;
	}
}

static void open_world(struct world *w)
{
	struct rng r;
	rng_seed(&r, 4);
	*w = (struct world){0};
	for (int i = 0; i < NTASKS; i++) {
		struct task *t = ARENA_NEW(&w->a, struct task);
		w->l[i] = (struct landscape){
		    .task = texts[i], .label = i ? "product" : "conv", .threads = 1, .protocol = "made up"};
		CHECK_OK(target_baseline("x86-64-v3", &w->l[i].target));
		CHECK_OK(task_parse(texts[i], t));
		CHECK_OK(space_make(&w->a, t, &w->l[i].target, NULL, &w->space[i]));
		draw_points(w, i, &r);
	}
}

static void close_world(struct world *w)
{
	arena_free(&w->a);
}

/* The actions of a job as text: every call of the sink, and the results. */
static int sink(void *ctx, int task, bool best, const char *cand, const struct meas *m,
		struct blob code)
{
	buf_printf(ctx, "%d %d %lld %s\n", task, best, (long long)m->median_ns, cand);
	CHECK(code.n == 0);
	return 0;
}

static int run_job(const struct world *w, uint64_t seed, double sigma, const char *strategy, int64_t box_ns,
		   struct buf *story, struct job_result result[NTASKS])
{
	struct runner *r;
	int rc = runner_replay(w->l, NTASKS, (struct replay_noise){seed, sigma}, &r);
	CHECK_OK(rc);
	if (rc < 0)
		return rc;
	struct job_task task[NTASKS] = {{.text = texts[0], .label = "a", .uses = 1},
					{.text = texts[1], .label = "b", .uses = 3}};
	const struct job j = {.ntasks = NTASKS,
			      .task = task,
			      .search.strategy = strategy,
			      .search.seed = seed,
			      .limits.deadline_ns = box_ns,
			      .calls.ctx = story,
			      .calls.sink = sink};
	int trials = job_run(&j, r, result);
	CHECK(clock_now(r->clock) <= box_ns);
	for (int i = 0; i < NTASKS; i++)
		buf_printf(story, "%lld %lld %d %d %s\n", (long long)result[i].default_ns,
			   (long long)result[i].best_ns, result[i].trials, result[i].failed, result[i].best);
	buf_printf(story, "%lld\n", (long long)clock_now(r->clock));
	r->ops->close(r);
	return trials;
}

TEST(same_seed_same_result)
{
	struct world w;
	open_world(&w);
	for (int noisy = 0; noisy < 2; noisy++) {
		struct job_result result[NTASKS];
		struct buf story[3] = {{0}};
		for (int i = 0; i < 3; i++)
			CHECK(run_job(&w, 5 + (i == 2), 0.03 * noisy, NULL, 2 * NS_PER_S, &story[i], result) >
			      10);
		CHECK(story[0].n && !strcmp(buf_str(&story[0]), buf_str(&story[1])));
		CHECK(strcmp(buf_str(&story[0]), buf_str(&story[2])) != 0);
		for (int i = 0; i < 3; i++)
			buf_free(&story[i]);
	}
	close_world(&w);
}

TEST(a_box_finds_what_is_recorded)
{
	struct world w;
	struct job_result result[NTASKS];
	struct buf story = {0};
	open_world(&w);
	CHECK(run_job(&w, 1, 0, NULL, 20 * NS_PER_S, &story, result) > 20);
	for (int i = 0; i < NTASKS; i++) {
		double best = 1e30;
		for (int k = 0; k < w.l[i].n; k++) {
			double ns = (double)landscape_ns(&w.l[i], k);
			best = ns > 0 && ns < best ? ns : best;
		}
		CHECK(result[i].default_ns == landscape_ns(&w.l[i], 0));
		CHECK((double)result[i].best_ns < 1.3 * best && (double)result[i].best_ns > 0.99 * best);
	}
	buf_free(&story);
	close_world(&w);
}

TEST(a_candidate_that_is_not_recorded)
{
	struct world w;
	struct runner *r;
	struct rng rng;
	char cand[CAND_MAX];
	int others = 0;
	rng_seed(&rng, 9);
	open_world(&w);
	REQUIRE_OK(runner_replay(w.l, NTASKS, (struct replay_noise){0}, &r));
	for (int i = 0; i < NTASKS; i++)
		for (int k = 0; k < w.l[i].n; k++)
			CHECK(replay_point(r, i, w.l[i].point[k].cand) == k);
	for (int k = 0; k < 200; k++) {
		CHECK_OK(space_random(w.space[0], &rng, cand));
		int at = replay_point(r, 0, cand);
		REQUIRE(at >= 0 && at < w.l[0].n);
		others += strcmp(cand, w.l[0].point[at].cand) != 0;
		CHECK(strstr(cand, "winograd") == NULL || strstr(w.l[0].point[at].cand, "winograd") != NULL);
	}
	CHECK(others > 50);
	CHECK_FAILS(replay_point(r, 0, "nonsense"), E_CORRUPT, "");
	r->ops->close(r);
	close_world(&w);
}

/* The clock advances by the recorded times: of a build, of a twin's build, of runs. */
TEST(costs)
{
	struct world w;
	struct runner *r;
	struct meas m;
	int handle, again;
	open_world(&w);
	struct landscape_point p[2] = {w.l[1].point[0], w.l[1].point[0]};
	p[0].build_ns = 9 * NS_PER_MS;
	w.l[1].point = p;
	w.l[1].n = 1;
	REQUIRE_OK(runner_replay(&w.l[1], 1, (struct replay_noise){0}, &r));
	CHECK_OK(r->ops->build(r, texts[1], p[0].cand, INT64_MAX, &handle, &m));
	CHECK(handle >= 0 && m.status == MEAS_OK && m.build_ns == 9 * NS_PER_MS && m.runs == 0);
	CHECK(clock_now(r->clock) == 9 * NS_PER_MS);
	CHECK_OK(r->ops->time(r, &handle, 1, 4, 0, 1, INT64_MAX, &m));
	CHECK(m.runs == 4 && m.min_ns == p[0].low_ns && m.spread_ns == 0);
	CHECK(clock_now(r->clock) == 9 * NS_PER_MS + 5 * p[0].low_ns);
	CHECK_OK(r->ops->time(r, &handle, 1, 4, 1, 1, INT64_MAX, &m));
	CHECK(m.status == MEAS_ABORTED && m.min_ns == p[0].low_ns);
	CHECK(clock_now(r->clock) == 9 * NS_PER_MS + 6 * p[0].low_ns);
	int64_t end = clock_now(r->clock) + NS_PER_MS;
	CHECK_FAILS(r->ops->build(r, texts[1], p[0].cand, end, &again, &m), E_TIMEOUT, "deadline");
	CHECK(clock_now(r->clock) == end && again == -1);
	r->ops->drop(r, handle, INT64_MAX);
	CHECK_FAILS(r->ops->time(r, &handle, 1, 4, 0, 1, INT64_MAX, &m), E_USAGE, "not a built");
	r->ops->close(r);
	close_world(&w);
}

TEST(missing_and_invalid_landscapes)
{
	struct world w;
	struct runner *r;
	struct meas m;
	int handle;
	open_world(&w);
	REQUIRE_OK(runner_replay(w.l, 1, (struct replay_noise){0}, &r));
	CHECK_FAILS(r->ops->build(r, texts[1], "x", INT64_MAX, &handle, &m), E_NOTFOUND, "--record");
	CHECK_OK(r->ops->build(r, texts[0], "nonsense", INT64_MAX, &handle, &m));
	CHECK(handle == -1 && m.status == MEAS_INFEASIBLE);
	r->ops->close(r);
	w.l[1].threads = 2;
	CHECK_FAILS(runner_replay(w.l, NTASKS, (struct replay_noise){0}, &r), E_USAGE, "different folders");
	w.l[1].threads = 1;
	w.l[1].n = 0;
	CHECK_FAILS(runner_replay(w.l, NTASKS, (struct replay_noise){0}, &r), E_USAGE, "empty");
	close_world(&w);
}

/* Files may hold anything: an invalid task, candidates of another task. */
TEST(hostile_landscapes)
{
	struct world w;
	struct runner *r;
	struct meas m;
	int handle;
	char cand[CAND_MAX];
	open_world(&w);
	space_default(w.space[0], cand);
	struct landscape_point p[3] = {w.l[0].point[0], w.l[0].point[0], w.l[0].point[0]};
	p[0].cand = "lane=k:99999 tile=x:99999999";
	p[1].cand = "nonsense";
	p[2].cand = "lane=q:8";
	w.l[0].point = p;
	w.l[0].n = 3;
	REQUIRE_OK(runner_replay(w.l, 1, (struct replay_noise){0}, &r));
	CHECK_FAILS(r->ops->build(r, texts[0], cand, INT64_MAX, &handle, &m), E_NOTFOUND, "no candidate of conv");
	for (int i = 0; i < 3; i++) {
		CHECK_OK(r->ops->build(r, texts[0], p[i].cand, INT64_MAX, &handle, &m));
		CHECK(handle == -1 && m.status == MEAS_INFEASIBLE);
	}
	r->ops->close(r);
	w.l[0].task = "task syms=0\nstage x:99999999999\n";
	REQUIRE_OK(runner_replay(w.l, 1, (struct replay_noise){0}, &r));
	CHECK_FAILS(r->ops->build(r, w.l[0].task, cand, INT64_MAX, &handle, &m), E_CORRUPT,
		    "landscape of conv");
	r->ops->close(r);
	close_world(&w);
}

/* A recording of a replay can be replayed. */
TEST(recorded)
{
	const char *dir = scratch_folder();
	struct world w;
	struct runner *replay, *r;
	struct meas m;
	struct landscape *back;
	struct arena a = {0};
	int handle, failed = 0;
	open_world(&w);
	REQUIRE_OK(runner_replay(w.l, NTASKS, (struct replay_noise){0}, &replay));
	REQUIRE_OK(runner_record(replay, dir, true, &r));
	for (int i = 0; i < w.l[1].n; i++) {
		CHECK_OK(r->ops->build(r, texts[1], w.l[1].point[i].cand, INT64_MAX, &handle, &m));
		failed += handle < 0;
		if (handle >= 0)
			CHECK_OK(r->ops->time(r, &handle, 1, 7, 0, 1, INT64_MAX, &m));
		if (handle >= 0 && i % 2) /* in the other state of the weights: not recorded */
			CHECK_OK(r->ops->time(r, &handle, 1, 99, 0, 0, INT64_MAX, &m));
		r->ops->drop(r, handle, INT64_MAX);
	}
	r->ops->close(r);
	REQUIRE(landscape_folder(dir, &a, &back) == 1);
	CHECK(back->n == w.l[1].n && back->cold && failed > 0 && !strcmp(back->task, texts[1]));
	for (int i = 0; i < back->n; i++) {
		const struct landscape_point *x = &back->point[i], *y = &w.l[1].point[i];
		CHECK(x->status == y->status && x->min_ns == y->min_ns && !strcmp(x->cand, y->cand));
		CHECK(x->runs == (y->status == MEAS_OK ? 7 : 0) && x->build_ns > 0);
	}
	REQUIRE_OK(runner_replay(w.l, NTASKS, (struct replay_noise){0}, &replay));
	CHECK_FAILS(runner_record(replay, "/proc/nowhere", true, &r), E_NOTFOUND, "--record");
	replay->ops->close(replay);
	arena_free(&a);
	close_world(&w);
}

/* Builds and timings of one replay do not affect another. */
TEST(another_replay_begins_anew)
{
	struct world w;
	struct runner *r[3];
	struct meas m[3], again;
	int handle;
	open_world(&w);
	REQUIRE_OK(runner_replay(w.l, NTASKS, (struct replay_noise){3, 0.05}, &r[0]));
	REQUIRE_OK(runner_replay(w.l, NTASKS, (struct replay_noise){1, 0.05}, &r[1]));
	const char *cand = w.l[0].point[0].cand;
	REQUIRE_OK(r[1]->ops->build(r[1], texts[0], cand, INT64_MAX, &handle, &again));
	REQUIRE_OK(replay_another(r[1], (struct replay_noise){3, 0.05}, &r[2]));
	CHECK(clock_now(r[2]->clock) == 0 && clock_now(r[1]->clock) > 0);
	for (int i = 0; i < 3; i += 2) {
		REQUIRE_OK(r[i]->ops->build(r[i], texts[0], cand, INT64_MAX, &handle, &m[i]));
		REQUIRE_OK(r[i]->ops->time(r[i], &handle, 1, 5, 0, 0, INT64_MAX, &m[i]));
	}
	CHECK(m[0].min_ns == m[2].min_ns && clock_now(r[0]->clock) == clock_now(r[2]->clock));
	for (int i = 2; i >= 0; i--)
		r[i]->ops->close(r[i]);
	close_world(&w);
}

TEST_MAIN
