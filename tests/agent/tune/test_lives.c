/* SPDX-License-Identifier: Apache-2.0 */
/* A thousand lives of tuning jobs on the simulator, with every strategy: a machine that is noisy, warms up
 * and cools down, candidates that spill, are wrong, crash or hang, builds that take their time. No life
 * overruns its box, none ends with a schedule that is truly slower than the default.
 *
 * What a candidate truly takes is found on the virtual machine once and remembered for all lives; so is that
 * it does not work. */
#include "search/job.h"
#include "search/strategy.h"
#include "tests/lib/sim_truth.h"
#include "tests/lib/test.h"
#include "platform/base/mix.h"

#include <math.h>

enum { LIVES = 1000, HANDLES = 64, LATE_NS = 20 * NS_PER_MS };

enum fault { SPILLS, IS_WRONG, CRASHES, HANGS, FAULTS };

struct life {
	struct runner r;
	struct rng rng;
	uint64_t seed;
	double heat, warms; /* log of the highest present factor; growth per s of work */
	int64_t h[HANDLES]; /* cost of the built candidate; 0: free */
	int builds, faults[FAULTS], deaths, late;
	const char *spared[NTASKS]; /* candidates that always work */
	char best[NTASKS][CAND_MAX];
};

static void drop(struct runner *r, int handle, int64_t deadline_ns)
{
	struct life *l = (struct life *)r;
	(void)deadline_ns;
	for (int i = 0; i < HANDLES; i++)
		if (handle < 0 || handle == i)
			l->h[i] = 0;
}

static int die(struct life *l)
{
	drop(&l->r, -1, 0);
	l->deaths++;
	clock_advance(l->r.clock, 5 * NS_PER_MS);
	return fail(E_CHILD, "the worker died (signal 11)");
}

/* Lets time pass, at most until a little after the deadline, when the call ends. */
static bool pass(struct life *l, int64_t ns, int64_t deadline_ns)
{
	int64_t left = deadline_ns - clock_now(l->r.clock);
	bool over = ns > left;
	clock_advance(l->r.clock, over ? left + rng_below(&l->rng, LATE_NS) : ns);
	l->late += over;
	return over;
}

/* A tenth of all structures always fail, each in one way; any other may fail now and then. */
static int fault_of(struct life *l, const char *cand)
{
	char structure[CAND_MAX];
	for (int i = 0; i < NTASKS; i++)
		if (l->spared[i] && !strcmp(l->spared[i], cand))
			return rng_below(&l->rng, 100) ? -1 : CRASHES;
	space_structure(cand, structure);
	uint64_t draw = mix_bytes(structure, strlen(structure), l->seed).lo;
	if (draw % 10 == 0)
		return (int)(draw / 10 % FAULTS);
	return rng_below(&l->rng, 100) ? -1 : (int)rng_below(&l->rng, FAULTS);
}

static int build(struct runner *r, const char *task, const char *cand, int64_t deadline_ns, int *handle,
		 struct meas *m)
{
	struct life *l = (struct life *)r;
	*m = (struct meas){.status = MEAS_OK};
	*handle = -1;
	l->builds++;
	if (pass(l, (2 + rng_below(&l->rng, 14)) * NS_PER_MS, deadline_ns))
		return fail(E_TIMEOUT, "the deadline passed");
	int64_t cost_ns = true_cost(task, cand);
	int fault = cost_ns < 0 ? -1 : fault_of(l, cand);
	if (cost_ns < 0)
		m->status = (enum meas_status)(-cost_ns);
	if (fault >= 0)
		l->faults[fault]++;
	if (fault == SPILLS || fault == IS_WRONG)
		m->status = fault == SPILLS ? MEAS_SPILL : MEAS_WRONG;
	if (fault == CRASHES)
		return die(l);
	if (fault == HANGS) {
		m->status = MEAS_TIMEOUT;
		return pass(l, 200 * NS_PER_MS, deadline_ns) ? fail(E_TIMEOUT, "the deadline passed") : E_OK;
	}
	for (int i = 0; i < HANDLES && m->status == MEAS_OK && *handle < 0; i++)
		if (!l->h[i]) {
			l->h[i] = cost_ns;
			*handle = i;
		}
	return m->status == MEAS_OK && *handle < 0 ? fail(E_NOMEM, "too many kernels are kept") : E_OK;
}

static enum ahead ahead(struct runner *r, const char *task, const char *cand)
{
	(void)r, (void)task, (void)cand;
	return AHEAD_NOT;
}

/* One run. The simulator adds noise and phases; a machine that works gets hot, and cools down again. */
static int64_t run_once(struct life *l, int64_t cost_ns)
{
	int64_t start_ns = clock_now(l->r.clock);
	double t = (double)start_ns / 1e9 * l->warms;
	dev_sim_spend((int64_t)((double)cost_ns * exp(l->heat * (1 - cos(t)) / 2)));
	return clock_now(l->r.clock) - start_ns;
}

static int time_them(struct runner *r, const int *handles, int n, int rounds, int64_t abort_ns, unsigned how,
		     int64_t deadline_ns, struct meas *m)
{
	static int64_t t[8][SIM_RUNS];
	struct life *l = (struct life *)r;
	(void)how;
	CHECK(n <= 8 && rounds <= SIM_RUNS);
	if (rng_below(&l->rng, 400) == 0)
		return die(l);
	for (int i = 0; i < n; i++)
		m[i] = (struct meas){.status = MEAS_OK};
	for (int k = 0; k < rounds; k++)
		for (int i = 0; i < n; i++) {
			if (m[i].status != MEAS_OK)
				continue;
			t[i][k] = run_once(l, l->h[handles[i]]);
			if (k == 0 && abort_ns && t[i][0] > abort_ns)
				m[i] = (struct meas){.status = MEAS_ABORTED, .min_ns = t[i][0]};
			if (clock_now(r->clock) > deadline_ns)
				return fail(E_TIMEOUT, "the deadline passed");
		}
	for (int i = 0; i < n; i++)
		if (m[i].status == MEAS_OK)
			sim_summary(t[i], rounds, &m[i]);
	return E_OK;
}

static int code(struct runner *r, int handle, int64_t deadline_ns, struct arena *a, struct blob *out)
{
	struct life *l = (struct life *)r;
	(void)a, (void)deadline_ns;
	if (rng_below(&l->rng, 400) == 0)
		return die(l);
	*out = (struct blob){.p = "code", .n = 4};
	CHECK(l->h[handle] > 0);
	return E_OK;
}

static void close_life(struct runner *r)
{
	(void)r;
}

static int sink(void *ctx, int task, bool best, const char *cand, const struct meas *m,
		struct blob blob)
{
	struct life *l = ctx;
	CHECK(m->status == MEAS_OK && m->runs > 0 && blob.n == 4);
	if (best)
		snprintf(l->best[task], CAND_MAX, "%s", cand);
	return E_OK;
}

struct sums {
	int n[FAULTS + 3]; /* number of lives that had each fault, a death, a late call, a result */
	double log_gain;   /* sum over all results */
	double worst;      /* highest time relative to the default's */
};

static void add_life(struct sums *s, const struct life *l, const struct job *j, const struct job_result *res,
		     char (*standard)[CAND_MAX])
{
	for (int f = 0; f < FAULTS; f++)
		s->n[f] += l->faults[f] > 0;
	s->n[FAULTS] += l->deaths > 0;
	s->n[FAULTS + 1] += l->late > 0;
	for (int i = 0; i < j->ntasks; i++) {
		CHECK(!strcmp(res[i].best, l->best[i])); /* the sink was told of every result */
		if (!res[i].best[0])
			continue;
		double ratio = (double)true_cost(j->task[i].text, res[i].best) /
			       (double)true_cost(j->task[i].text, standard[i]);
		s->n[FAULTS + 2]++;
		s->log_gain -= log(ratio);
		s->worst = fmax(s->worst, ratio);
	}
}

static void live(uint64_t seed, const char *strategy, char (*standard)[CAND_MAX], struct sums *s)
{
	static const struct runner_ops ops = {build, ahead, ahead, time_them, code, drop, close_life};
	struct job_task task[NTASKS];
	struct job_result result[NTASKS];
	char mine[NTASKS][CAND_MAX];
	struct life l = {.r = {.ops = &ops, .clock = dev_sim.clock(), .target = &sim->t, .threads = 1},
			 .seed = seed};
	rng_seed(&l.rng, seed);
	int64_t box = (80 + rng_below(&l.rng, 200)) * NS_PER_MS;
	l.heat = 0.5 * rng_unit(&l.rng);
	l.warms = 1 + 20 * rng_unit(&l.rng);
	dev_sim_reset(0, seed, 0.05 * rng_unit(&l.rng));
	int n = 1 + (int)rng_below(&l.rng, NTASKS);
	for (int i = 0; i < n; i++) {
		int at = (i + (int)seed) % NTASKS;
		task[i] = (struct job_task){.text = texts[at], .label = "task", .uses = 1 + i};
		memcpy(mine[i], standard[at], CAND_MAX);
		l.spared[i] = mine[i];
	}
	const struct job j = {.ntasks = n,
			      .task = task,
			      .search.strategy = strategy,
			      /* few seeds: the same candidates come again, so that their true times are
			       * known */
			      .search.seed = seed % 7,
			      .limits.deadline_ns = box,
			      .calls.ctx = &l,
			      .calls.sink = sink};
	int rc = job_run(&j, &l.r, result);
	CHECK(rc >= 0 || rc == E_CHILD); /* after ten deaths in a row the job reports a broken machine */
	CHECK(clock_now(l.r.clock) <= box + 100 * NS_PER_MS);
	add_life(s, &l, &j, result, mine);
}

static int count_strategies(void)
{
	int n = 0;
	while (strategy_table[n])
		n++;
	return n;
}

TEST(a_thousand_lives)
{
	char standard[NTASKS][CAND_MAX];
	int n = count_strategies();
	truth_open(standard);
	REQUIRE(!test_bad);
	for (int k = 0; k < n; k++) {
		struct sums s = {.worst = 0};
		for (int i = k; i < LIVES && !test_bad; i += n)
			live((uint64_t)i + 1, strategy_table[k]->name, standard, &s);
		for (int f = 0; f < FAULTS + 2; f++)
			CHECK(s.n[f] > 5); /* every fault has happened */
		CHECK(s.n[FAULTS + 2] > LIVES / n);
		CHECK(s.worst <= 1.01 && s.log_gain > 0);
		if (test_bad)
			printf("%s: worst %.3f of the default's time\n", strategy_table[k]->name, s.worst);
	}
	sim->r.ops->close(&sim->r);
}

TEST_MAIN
