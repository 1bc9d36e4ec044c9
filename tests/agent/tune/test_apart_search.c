/* SPDX-License-Identifier: Apache-2.0 */
/* Whole jobs on the simulator, with strangers' candidates among incumbents and seeds, and with workers that
 * tamper: the sink must always get what the clean worker compiles. */
#include "agent/worker/runner_apart.h"
#include "kernels/loops/lower.h"
#include "platform/base/log.h"
#include "search/job.h"
#include "tests/lib/sim_runner.h"
#include "tests/lib/tasks.h"
#include "tests/lib/test.h"

enum { NTASKS = 3, FOREIGN = 2 /* foreign candidates per task: the incumbent and a seed */ };

static const char *const texts[NTASKS] = {
    "task syms=0\n"
    "operand X in f32 [1,8,6,6] 0.1/4.2.3.1;2+1+1;3+1+1\n"
    "operand W const f32 [8,8,3,3] plain\n"
    "operand Y out f32 [1,8,6,6] 0.1/4.2.3.1\n"
    "stage n:1 k:8 y:6 x:6 | c:8 r:3 s:3\n"
    "read X [n,c,y+r-1,x+s-1]\n"
    "read W [k,c,r,s]\n"
    "body r0 r1 mul\n"
    "sum\n"
    "write Y [n,k,y,x]\n",
    task_small_matmul,
    task_pointwise,
};

/* How a worker apart misbehaves, at each call with this chance. */
enum harm { DIE, HANG, OTHER_BYTES, LIE, SAY_STOP, HARMS, HONEST };

static struct {
	struct sim_runner *sim;
	char foreign[NTASKS][FOREIGN][CAND_MAX];
	bool none; /* nothing is foreign */
	enum harm harm;
	double chance;
	bool after_winning; /* misbehave only once a foreign candidate was saved as the best */
	struct rng rng;
	int hired, crowned, ran_foreign, saved[NTASKS];
	char best[NTASKS][CAND_MAX];
} world;

static int task_of(const char *text)
{
	for (int i = 0; i < NTASKS; i++)
		if (!strcmp(texts[i], text))
			return i;
	abort();
}

static bool is_foreign(void *ctx, const char *task, const char *cand)
{
	(void)ctx;
	for (int k = 0; k < FOREIGN && !world.none; k++)
		if (!strcmp(world.foreign[task_of(task)][k], cand))
			return true;
	return false;
}

/* The clean worker, or a worker apart: both use the one simulator, with handles of their own. */
struct view {
	struct runner base;
	bool apart;
	bool mine[SIM_HANDLES];
};

static bool harms(const struct view *v, enum harm h)
{
	return v->apart && world.harm == h && (!world.after_winning || world.crowned) &&
	       rng_unit(&world.rng) < world.chance;
}

static int tamper(const struct view *v, int64_t deadline_ns)
{
	if (harms(v, DIE))
		return fail(E_CHILD, "the worker died");
	if (harms(v, SAY_STOP))
		return fail(E_STOPPED, "stop");
	if (!harms(v, HANG))
		return E_OK;
	int64_t left_ns = deadline_ns - clock_now(dev_sim.clock());
	clock_advance(dev_sim.clock(), left_ns > 0 ? left_ns : 0);
	return fail(E_TIMEOUT, "no answer before the deadline");
}

static int view_build(struct runner *r, const char *task, const char *cand, int64_t deadline_ns, int *handle,
		      struct meas *m)
{
	struct view *v = (struct view *)r;
	*handle = -1;
	if (v->apart)
		abort(); /* a worker apart never compiles */
	world.ran_foreign += is_foreign(NULL, task, cand);
	int rc = sim_build(&world.sim->r, texts[task_of(task)], cand, deadline_ns, handle, m);
	if (rc >= 0 && *handle >= 0)
		v->mine[*handle] = true;
	return rc;
}

static enum ahead view_ahead(struct runner *r, const char *task, const char *cand)
{
	(void)r;
	(void)task, (void)cand;
	return AHEAD_NOT;
}

static int view_time(struct runner *r, const int *handles, int n, int rounds, int64_t abort_ns, unsigned how,
		     int64_t deadline_ns, struct meas *m)
{
	const struct view *v = (const struct view *)r;
	int rc = tamper(v, deadline_ns);
	for (int i = 0; i < n; i++)
		CHECK(v->mine[handles[i]]);
	if (rc >= 0)
		rc = sim_time(&world.sim->r, handles, n, rounds, abort_ns, how, deadline_ns, m);
	for (int i = 0; i < n && rc >= 0; i++)
		if (harms(v, LIE))
			m[i].min_ns = m[i].median_ns = 1;
	return rc;
}

static int view_code(struct runner *r, int handle, int64_t deadline_ns, struct arena *a, struct blob *out)
{
	const struct view *v = (const struct view *)r;
	int rc = tamper(v, deadline_ns);
	if (rc >= 0)
		rc = sim_code(&world.sim->r, handle, deadline_ns, a, out);
	if (rc < 0 || !harms(v, OTHER_BYTES))
		return rc;
	uint8_t *p = arena_memdup(a, out->p, out->n);
	p[rng_below(&world.rng, (uint32_t)out->n)] ^= (uint8_t)(1 + rng_below(&world.rng, 255));
	out->p = p;
	return rc;
}

static void view_drop(struct runner *r, int handle, int64_t deadline_ns)
{
	struct view *v = (struct view *)r;
	for (int i = 0; i < SIM_HANDLES; i++)
		if (v->mine[i] && (handle < 0 || handle == i)) {
			sim_drop(&world.sim->r, i, deadline_ns);
			v->mine[i] = false;
		}
}

static void view_close(struct runner *r)
{
	view_drop(r, -1, INT64_MAX);
	free(r);
}

static const struct runner_ops view_ops = {view_build, view_ahead, view_ahead, view_time,
					   view_code,  view_drop,  view_close};

static struct runner *open_view(bool apart)
{
	struct view *v = calloc(1, sizeof *v);
	v->base = world.sim->r;
	v->base.ops = &view_ops;
	v->apart = apart;
	return &v->base;
}

static int hire(struct runner *clean, int64_t deadline_ns, struct runner **out)
{
	(void)clean, (void)deadline_ns;
	world.hired++;
	*out = open_view(true);
	return E_OK;
}

/* Lowers and emits, and runs nothing. */
static int emit(struct runner *clean, const char *task, const char *cand, int64_t deadline_ns,
		struct key *object, struct buf *code, struct meas *m)
{
	struct arena a = {0};
	struct loops *l;
	struct code c = {0};
	(void)clean, (void)deadline_ns;
	*object = hash_text(cand);
	*m = (struct meas){.status = MEAS_INFEASIBLE};
	int rc = lower(&sim_task(world.sim, texts[task_of(task)])->t, cand, &world.sim->t, &a, &l, &c.m);
	if (rc >= 0)
		rc = emit_sim.emit(l, &world.sim->t, &a, &c.object);
	if (rc >= 0) {
		m->status = MEAS_OK;
		code_bytes(&c, code);
	}
	clock_advance(dev_sim.clock(), SIM_BUILD_NS);
	arena_free(&a);
	return E_OK;
}

/* The key tells which candidate the object is of. */
static int load(struct runner *r, const char *task, struct key object, struct blob code, int64_t deadline_ns,
		int *handle, struct meas *m)
{
	struct view *v = (struct view *)r;
	int i = task_of(task), rc = tamper(v, deadline_ns);
	CHECK(v->apart && code.n > 0);
	*handle = -1;
	for (int k = 0; k < FOREIGN && rc >= 0 && *handle < 0; k++)
		if (key_equal(hash_text(world.foreign[i][k]), object))
			rc = sim_build(&world.sim->r, texts[i], world.foreign[i][k], deadline_ns, handle, m);
	if (rc >= 0 && *handle >= 0)
		v->mine[*handle] = true;
	return rc;
}

static void rest(struct runner *clean, bool on)
{
	(void)clean, (void)on;
}

static int sink(void *ctx, int task, bool best, const char *cand, const struct meas *m,
		struct blob code)
{
	struct buf want = {0};
	struct meas made;
	struct key object;
	(void)ctx;
	CHECK_OK(emit(NULL, texts[task], cand, INT64_MAX, &object, &want, &made));
	CHECK(want.n == code.n && want.n > 0 && memcmp(want.p, code.p, code.n) == 0);
	CHECK(m->status == MEAS_OK && m->runs > 0 && m->median_ns > 0);
	buf_free(&want);
	world.saved[task]++;
	if (best) {
		snprintf(world.best[task], CAND_MAX, "%s", cand);
		world.crowned += is_foreign(NULL, texts[task], cand);
	}
	return E_OK;
}

/* Runs a job whose incumbents and seeds include foreign candidates. */
static int run(uint64_t seed, int64_t box_ns, bool codeless, struct job_result *result)
{
	const struct apart_ways ways = {is_foreign, NULL, hire, emit, load, rest};
	struct runner *r = NULL;
	struct job_seed hint[NTASKS];
	struct job_task task[NTASKS];
	log_level_set(LOG_QUIET);
	world.sim = sim_open(seed, 0.01);
	rng_seed(&world.rng, seed);
	world.hired = world.crowned = world.ran_foreign = 0;
	memset(world.saved, 0, sizeof world.saved);
	memset(world.best, 0, sizeof world.best);
	for (int i = 0; i < NTASKS; i++) {
		hint[i] = (struct job_seed){.cand = world.foreign[i][1], .foreign = true};
		task[i] = (struct job_task){.text = texts[i], .label = "task", .uses = 1};
		if (world.none)
			continue;
		task[i].incumbent = world.foreign[i][0];
		task[i].codeless = codeless;
		task[i].claim_ns = 1000;
		task[i].nseeds = 1;
		task[i].seed = &hint[i];
	}
	const struct job j = {.ntasks = NTASKS,
			      .task = task,
			      .search.strategy = "random",
			      .search.seed = seed,
			      /* otherwise thousands of candidates are tried */
			      .limits.quick = box_ns > 5 * NS_PER_S,
			      .limits.deadline_ns = clock_now(dev_sim.clock()) + box_ns,
			      .calls.sink = sink};
	CHECK_OK(runner_apart(open_view(false), &ways, &r));
	int rc = job_run(&j, r, result);
	CHECK(clock_now(dev_sim.clock()) <= j.limits.deadline_ns);
	r->ops->close(r);
	sim_close(&world.sim->r);
	for (int i = 0; i < NTASKS; i++)
		CHECK(world.saved[i] > 0 && world.best[i][0] && result[i].best_ns > 0);
	CHECK(world.ran_foreign == 0);
	return rc;
}

/* Makes strangers' candidates: the best of an own job, and a random one. */
static void find_foreign(bool good)
{
	struct job_result result[NTASKS];
	struct rng r;
	rng_seed(&r, 3);
	world.none = true;
	CHECK_OK(run(9, 3 * NS_PER_S, false, result));
	CHECK(world.hired == 0);
	world.none = false;
	for (int i = 0; i < NTASKS; i++) {
		struct arena a = {0};
		struct task *t = ARENA_NEW(&a, struct task);
		struct space *s;
		struct target tg;
		CHECK(dev_sim.probe(&tg) == 1);
		CHECK_OK(task_parse(texts[i], t));
		CHECK_OK(space_make(&a, t, &tg, NULL, &s));
		CHECK_OK(space_random(s, &r, world.foreign[i][1]));
		if (good)
			strcpy(world.foreign[i][0], result[i].best);
		else
			CHECK_OK(space_random(s, &r, world.foreign[i][0]));
		arena_free(&a);
	}
}

TEST(honest_strangers_are_of_use)
{
	struct job_result result[NTASKS];
	find_foreign(true);
	world.harm = HONEST;
	for (int codeless = 0; codeless < 2; codeless++) {
		CHECK_OK(run(1, 3 * NS_PER_S, codeless, result));
		CHECK(world.hired >= NTASKS && world.crowned >= NTASKS);
	}
}

TEST(no_byte_of_a_tampering_worker_is_kept)
{
	struct job_result result[NTASKS];
	const int step = test_share() + (test_share() % HARMS == 0); /* all harms have their turn */
	int hired = 0, crowned = 0;
	for (int good = 0; good < 2; good++) {
		find_foreign(good);
		for (int i = 0; i < 30 * HARMS; i += step) {
			world.harm = (enum harm)(i % HARMS);
			world.chance = (i / HARMS) % 3 == 0 ? 1 : (i / HARMS) % 3 == 1 ? 0.3 : 0.05;
			int64_t box_ns = world.harm == HANG ? 12 * APART_PATIENCE_NS : NS_PER_S;
			CHECK(run((uint64_t)i, box_ns, i % 2, result) > 0);
			hired += world.hired;
			crowned += world.crowned;
		}
	}
	printf("%d workers apart, %d foreign winners\n", hired, crowned);
	CHECK(hired * step > 500 && crowned * step > 100);
}

/* A candidate that wins and then dies, hangs or sends nonsense is replaced by one that runs. */
TEST(a_winner_that_stops_running_is_dethroned)
{
	struct job_result result[NTASKS];
	const int seeds = test_share() > 1 ? 3 : 12;
	int crowned = 0, stay = 0;
	world.after_winning = true;
	world.chance = 1;
	for (int seed = 0; seed < seeds; seed++) {
		find_foreign(true);
		world.harm = (enum harm[]){DIE, HANG, SAY_STOP}[seed % 3];
		CHECK(run((uint64_t)seed, 10 * APART_PATIENCE_NS, seed & 1, result) > 0);
		crowned += world.crowned;
		for (int i = 0; i < NTASKS; i++)
			stay += is_foreign(NULL, texts[i], world.best[i]);
	}
	printf("%d foreign winners, of which %d stayed to the end\n", crowned, stay);
	CHECK(crowned >= seeds && stay <= 2); /* after the last race nothing is checked again */
	world.after_winning = false;
}

TEST_MAIN
