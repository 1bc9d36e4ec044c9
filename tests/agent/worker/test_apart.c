/* SPDX-License-Identifier: Apache-2.0 */
/* Strangers' candidates run apart: a worker that runs them can cost time, but do no other harm. Here the
 * workers are mocks; tests/agent/worker/test_apart_worker.c has real ones. */
#include "agent/worker/runner_apart.h"
#include "platform/run/child.h"
#include "platform/run/dev_sim.h"
#include "platform/base/log.h"
#include "platform/base/rng.h"
#include "tests/lib/test.h"

#include <math.h>

/* How a worker apart misbehaves. */
enum harm {
	HONEST,
	OTHER_BYTES, /* code() would return other code */
	DIES_LOAD,   /* E_CHILD */
	DIES_TIME,
	HANGS_LOAD, /* E_TIMEOUT at its deadline */
	HANGS_TIME,
	SAYS_STOPPED, /* errors that would end a job, with the texts of real ones */
	SAYS_BROKEN,
	SAYS_NO_MEMORY,
	NO_HANDLE,  /* reports success, but has built nothing */
	WILD_MEAS,  /* impossible measurements */
	LIES_FAST,  /* claims 1 ns */
	LIES_WRONG, /* claims that the answer is wrong */
	NOT_HIRED,  /* no second worker can be hired */
	HARMS
};

enum { MOST_WORKERS = 4096, HANDLES = 64, RUN_NS = 100 };

struct paper {
	struct runner base;
	int id; /* 0: the clean one */
	int next;
	char built[HANDLES][64]; /* "task/cand" by handle; "": dropped */
	char only[64];           /* the first candidate that a worker apart was given */
	int served;              /* number of candidates that it was given */
};

/* State of a test. */
static struct {
	struct target t;
	enum harm harm;
	int harm_after; /* number of calls of workers apart that are honest first */
	int births, living, most_living;
	int clean_builds, clean_times, clean_codes, clean_drops, apart_codes, emits, aheads, rests, resting;
	int apart_calls, foreign_in_clean, quiet_alone;
	int clean_dies_in; /* number of calls of the clean worker until it dies; 0: never */
	int emit_rc;       /* of the next emit; 0: good */
	/* all workers are told to rest while a worker apart builds, which ends that worker */
	bool rest_all;
	char log[4096];    /* requests to the clean worker */
} world;

static void note(const char *what, const char *cand)
{
	size_t n = strlen(world.log);
	snprintf(world.log + n, sizeof world.log - n, "%s %s;", what, cand);
}

static bool is_foreign(void *ctx, const char *task, const char *cand)
{
	(void)ctx, (void)task;
	return strncmp(cand, "foreign", 7) == 0;
}

/* The code that every honest compiler makes of a candidate. */
static int compile(const char *task, const char *cand, char out[160])
{
	return snprintf(out, 160, "code of %s for %s", cand, task);
}

static struct paper *paper_of(struct runner *r)
{
	return (struct paper *)r;
}

static bool harms(const struct paper *p, enum harm h)
{
	return p->id > 0 && world.harm == h && world.apart_calls > world.harm_after;
}

static int spoken(const struct paper *p)
{
	if (harms(p, SAYS_STOPPED))
		return fail(E_STOPPED, "stop it all");
	if (harms(p, SAYS_BROKEN))
		return fail(E_IO, "the machine is broken");
	return harms(p, SAYS_NO_MEMORY) ? fail(E_NOMEM, "no memory for you") : E_OK;
}

static int hang(int64_t deadline_ns)
{
	struct clock *c = dev_sim.clock();
	if (deadline_ns == INT64_MAX)
		abort(); /* a call without a deadline would hang forever */
	clock_advance(c, deadline_ns - clock_now(c));
	return fail(E_TIMEOUT, "no answer before the deadline");
}

/* Dies, hangs, or returns an error, as world.harm says; E_OK: none of them. */
static int misbehave(struct paper *p, enum harm dies, enum harm hangs, int64_t deadline_ns)
{
	world.apart_calls += p->id > 0;
	if (harms(p, dies))
		return fail(E_CHILD, "the worker died");
	if (harms(p, hangs))
		return hang(deadline_ns);
	if (p->id == 0 && world.clean_dies_in > 0 && --world.clean_dies_in == 0)
		return fail(E_CHILD, "the clean worker died");
	return spoken(p);
}

static void make_wild(const struct paper *p, struct meas *m)
{
	if (harms(p, WILD_MEAS))
		*m = (struct meas){.status = m->status,
				   .runs = INT32_MIN,
				   .min_ns = INT64_MIN,
				   .median_ns = INT64_MAX,
				   .spread_ns = -1,
				   .build_ns = INT64_MAX,
				   .check_ns = INT64_MIN,
				   .max_rel_err = NAN};
}

/* Builds and checks a candidate. */
static int make(struct paper *p, const char *key, int64_t deadline_ns, int *handle, struct meas *m)
{
	*handle = -1;
	int rc = misbehave(p, DIES_LOAD, HANGS_LOAD, deadline_ns);
	*m = (struct meas){.status = harms(p, LIES_WRONG) ? MEAS_WRONG : MEAS_OK, .build_ns = 7};
	make_wild(p, m);
	if (rc < 0 || m->status != MEAS_OK || harms(p, NO_HANDLE))
		return rc;
	if (p->next == HANDLES)
		abort();
	strcpy(p->built[p->next], key);
	*handle = p->next++;
	clock_advance(dev_sim.clock(), 1000);
	return E_OK;
}

static int paper_build(struct runner *r, const char *task, const char *cand, int64_t deadline_ns, int *handle,
		       struct meas *m)
{
	struct paper *p = paper_of(r);
	char key[64];
	snprintf(key, sizeof key, "%s/%s", task, cand);
	note("build", cand);
	CHECK(p->id == 0); /* workers apart compile nothing */
	world.clean_builds++;
	world.foreign_in_clean += is_foreign(NULL, task, cand);
	return make(p, key, deadline_ns, handle, m);
}

/* Loads code of compile() into a worker apart. */
static int load(struct runner *r, const char *task, struct key object, struct blob code, int64_t deadline_ns,
		int *handle, struct meas *m)
{
	struct paper *p = paper_of(r);
	char cand[64] = "", key[64], want[160];
	CHECK(p->id > 0 && object.lo == code.n);
	CHECK(sscanf(code.p, "code of %63s", cand) == 1);
	CHECK(compile(task, cand, want) == (int)code.n && memcmp(want, code.p, code.n) == 0);
	CHECK(is_foreign(NULL, task, cand));
	snprintf(key, sizeof key, "%s/%s", task, cand);
	p->served += !p->only[0] || strcmp(p->only, key) != 0;
	strcpy(p->only, key);
	*handle = -1;
	if (world.rest_all) {
		world.rest_all = false;
		child_rest_all(true);
		child_rest_all(false);
		return fail(E_CHILD, "the stream was shut down");
	}
	return make(p, key, deadline_ns, handle, m);
}

static enum ahead paper_ahead(struct runner *r, const char *task, const char *cand)
{
	(void)r, (void)task;
	world.aheads++;
	note("ahead", cand);
	return AHEAD_QUEUED;
}

static enum ahead paper_progress(struct runner *r, const char *task, const char *cand)
{
	(void)r, (void)task;
	note("progress", cand);
	return AHEAD_RUNNING;
}

/* Time of a run: RUN_NS times the last digit of the candidate. */
static int64_t cost_ns(const char *key)
{
	return RUN_NS * (key[strlen(key) - 1] - '0');
}

static int time_one(struct paper *p, const char *key, int rounds, int64_t abort_ns, struct meas *m)
{
	int64_t ns = cost_ns(key);
	clock_advance(dev_sim.clock(), ns * (rounds + 1));
	*m = (struct meas){
	    .status = MEAS_OK, .runs = rounds, .min_ns = ns, .median_ns = ns, .threads = 1, .mhz_before = 1};
	if (abort_ns > 0 && ns > abort_ns)
		*m = (struct meas){.status = MEAS_ABORTED, .runs = 1, .min_ns = ns, .median_ns = ns};
	if (harms(p, LIES_FAST))
		m->min_ns = m->median_ns = 1;
	make_wild(p, m);
	return E_OK;
}

static int paper_time(struct runner *r, const int *handles, int n, int rounds, int64_t abort_ns, unsigned how,
		      int64_t deadline_ns, struct meas *m)
{
	struct paper *p = paper_of(r);
	int rc = misbehave(p, DIES_TIME, HANGS_TIME, deadline_ns);
	if (p->id == 0) {
		char line[32];
		snprintf(line, sizeof line, "%d x %d rounds, %u", n, rounds, how);
		note("time", line);
		world.clean_times++;
	}
	world.quiet_alone += how & TIME_QUIET && world.resting;
	if (rc < 0)
		return rc;
	if (clock_now(dev_sim.clock()) >= deadline_ns)
		return fail(E_TIMEOUT, "the deadline has passed");
	for (int i = 0; i < n; i++) {
		if (handles[i] < 0 || handles[i] >= HANDLES || !p->built[handles[i]][0])
			return fail(E_CHILD, "handle %d was lost", handles[i]);
		(void)time_one(p, p->built[handles[i]], rounds, abort_ns, &m[i]);
	}
	return E_OK;
}

static int paper_code(struct runner *r, int handle, int64_t deadline_ns, struct arena *a, struct blob *out)
{
	struct paper *p = paper_of(r);
	char text[160], task[64];
	int rc = misbehave(p, HARMS, HARMS, deadline_ns);
	if (p->id == 0) {
		note("code", "");
		world.clean_codes++;
	}
	world.apart_codes += p->id > 0;
	if (rc < 0)
		return rc;
	if (handle < 0 || handle >= HANDLES || !p->built[handle][0])
		return fail(E_CHILD, "handle %d was lost", handle);
	strcpy(task, p->built[handle]);
	char *cand = strchr(task, '/');
	*cand++ = 0;
	int n = compile(task, cand, text);
	if (harms(p, OTHER_BYTES))
		text[n / 2] ^= 1;
	*out = (struct blob){.p = arena_memdup(a, text, (size_t)n + 1), .n = (size_t)n};
	return E_OK;
}

static void paper_drop(struct runner *r, int handle, int64_t deadline_ns)
{
	struct paper *p = paper_of(r);
	(void)deadline_ns;
	if (p->id == 0) {
		note("drop", "");
		world.clean_drops++;
	}
	for (int i = 0; i < HANDLES; i++)
		if (handle < 0 || handle == i)
			p->built[i][0] = 0;
}

static void paper_close(struct runner *r)
{
	struct paper *p = paper_of(r);
	world.living -= p->id > 0;
	CHECK(p->served <= 1); /* a worker apart serves one candidate */
	free(p);
}

static const struct runner_ops paper_ops = {paper_build, paper_ahead, paper_progress, paper_time,
					    paper_code,  paper_drop,  paper_close};

static struct runner *make_paper(int id)
{
	struct paper *p = calloc(1, sizeof *p);
	p->id = id;
	p->base = (struct runner){.ops = &paper_ops,
				  .clock = dev_sim.clock(),
				  .target = &world.t,
				  .threads = 1,
				  .emitter = "paper/1",
				  .builders = 1};
	return &p->base;
}

static int hire(struct runner *clean, int64_t deadline_ns, struct runner **out)
{
	CHECK(paper_of(clean)->id == 0 && deadline_ns > clock_now(dev_sim.clock()));
	if (world.harm == NOT_HIRED)
		return fail(E_CHILD, "hone-worker: the socket is full");
	*out = make_paper(++world.births);
	world.living++;
	if (world.living > world.most_living)
		world.most_living = world.living;
	return E_OK;
}

static int emit(struct runner *clean, const char *task, const char *cand, int64_t deadline_ns,
		struct key *object, struct buf *code, struct meas *m)
{
	char text[160];
	int n = compile(task, cand, text);
	CHECK(paper_of(clean)->id == 0);
	(void)deadline_ns;
	world.emits++;
	note("emit", cand);
	*m = (struct meas){.status = MEAS_OK};
	object->lo = (uint64_t)n;
	if (world.emit_rc == E_INFEASIBLE)
		m->status = MEAS_INFEASIBLE;
	else if (world.emit_rc < 0)
		return fail(world.emit_rc, "as told");
	else
		buf_add(code, text, (size_t)n);
	return E_OK;
}

static void rest(struct runner *clean, bool on)
{
	CHECK(paper_of(clean)->id == 0);
	world.rests += on;
	world.resting += on ? 1 : -1;
}

static const struct apart_ways ways = {is_foreign, NULL, hire, emit, load, rest};

static struct runner *begin(enum harm harm)
{
	log_level_set(LOG_QUIET);
	struct runner *r = NULL;
	dev_sim_reset(0, 1, 0);
	memset(&world, 0, sizeof world);
	if (dev_sim.probe(&world.t) != 1 || runner_apart(make_paper(0), &ways, &r) < 0)
		abort();
	world.harm = harm;
	return r;
}

static void end(struct runner *r)
{
	r->ops->close(r);
	CHECK(world.living == 0 && world.resting == 0 && world.foreign_in_clean == 0 &&
	      world.apart_codes == 0);
}

static int64_t soon(void)
{
	return clock_now(dev_sim.clock()) + 100 * NS_PER_S;
}

/* Returns the handle; -1: it failed as data, as *m says. */
static int build(struct runner *r, const char *task, const char *cand, struct meas *m)
{
	int handle = -7;
	CHECK_OK(r->ops->build(r, task, cand, soon(), &handle, m));
	CHECK((handle >= 0) == (m->status == MEAS_OK));
	CHECK(m->build_ns >= 0 && m->build_ns < 1000 * NS_PER_S && m->check_ns >= 0);
	return handle;
}

static bool gives_code(struct runner *r, int handle, const char *task, const char *cand)
{
	struct arena a = {0};
	struct blob b = {0};
	char want[160];
	int n = compile(task, cand, want), rc = r->ops->code(r, handle, soon(), &a, &b);
	bool same = rc >= 0 && b.n == (size_t)n && memcmp(b.p, want, b.n) == 0;
	arena_free(&a);
	return same;
}

/* ---- without strangers ---- */

/* A random sequence of calls, with own candidates only. */
static void walk(struct runner *r, uint64_t seed)
{
	struct rng g;
	int h[HANDLES], n = 0;
	rng_seed(&g, seed);
	for (int i = 0; i < 60 && n < HANDLES - 1; i++) {
		struct meas m[4];
		struct arena a = {0};
		struct blob b;
		char cand[16], task[16];
		snprintf(cand, sizeof cand, "own%u", 1 + rng_below(&g, 9));
		snprintf(task, sizeof task, "task%u", rng_below(&g, 3));
		uint32_t what = rng_below(&g, 6);
		if (what < 2 || n < 3)
			h[n++] = build(r, task, cand, m);
		else if (what == 2)
			CHECK(r->ops->ahead(r, task, cand) == AHEAD_QUEUED);
		else if (what == 3)
			CHECK(r->ops->progress(r, task, cand) == AHEAD_RUNNING);
		else if (what == 4)
			CHECK_OK(
			    r->ops->time(r, h, 1 + (int)rng_below(&g, 3), 5, 0, rng_below(&g, 8), soon(), m));
		else
			CHECK_OK(r->ops->code(r, h[rng_below(&g, (uint32_t)n)], soon(), &a, &b));
		arena_free(&a);
	}
	r->ops->drop(r, h[0], soon());
	r->ops->drop(r, -1, soon());
}

TEST(nothing_changes_without_strangers)
{
	for (uint64_t seed = 0; seed < 50; seed++) {
		static char bare[sizeof world.log];
		struct runner *r = begin(HONEST), *clean = make_paper(0);
		walk(clean, seed);
		strcpy(bare, world.log);
		int64_t took_ns = clock_now(dev_sim.clock());
		clean->ops->close(clean);
		end(r);
		r = begin(HONEST);
		walk(r, seed);
		CHECK(!strcmp(world.log, bare) && clock_now(dev_sim.clock()) == took_ns);
		CHECK(world.births == 0 && world.emits == 0 && world.rests == 0);
		end(r);
	}
}

/* ---- honest strangers ---- */

TEST(a_foreign_candidate_has_a_worker_of_its_own)
{
	struct meas m;
	struct runner *r = begin(HONEST);
	CHECK(r->ops->ahead(r, "task", "foreign3") == AHEAD_QUEUED); /* builders run nothing */
	CHECK(r->ops->progress(r, "task", "foreign3") == AHEAD_RUNNING);
	int own = build(r, "task", "own5", &m), one = build(r, "task", "foreign3", &m);
	REQUIRE(own >= 0 && one >= 0);
	CHECK(world.births == 1 && world.living == 1 && world.emits == 1 && world.clean_builds == 1);
	CHECK(gives_code(r, one, "task", "foreign3") && gives_code(r, own, "task", "own5"));
	CHECK(world.clean_codes == 1 && world.aheads == 1);
	r->ops->drop(r, one, soon());
	CHECK(world.living == 0); /* the worker ends with its candidate */
	int two = build(r, "task", "foreign2", &m);
	CHECK(world.births == 2 && world.living == 1 && two != one);
	build(r, "other task", "own1", &m);
	CHECK(world.living == 0); /* the worker ends when another task is built */
	CHECK(gives_code(r, two, "task", "foreign2"));
	CHECK_OK(r->ops->time(r, &two, 1, 3, 0, 0, soon(), &m));
	CHECK(m.status == MEAS_OK && m.median_ns == 2 * RUN_NS && world.births == 3 && world.living == 1);
	CHECK(world.emits == 2); /* the same bytes are loaded again, not compiled again */
	r->ops->drop(r, -1, soon());
	CHECK(world.living == 0);
	end(r);
}

TEST(few_workers_live_at_once)
{
	struct meas m[8];
	int h[8];
	struct runner *r = begin(HONEST);
	for (int i = 0; i < 8; i++) {
		char cand[16];
		snprintf(cand, sizeof cand, "foreign%d", i + 1);
		h[i] = build(r, "task", cand, &m[i]);
		REQUIRE(h[i] >= 0);
	}
	CHECK(world.most_living == APART_AT_ONCE);
	CHECK_OK(r->ops->time(r, h, 8, 2, 0, 0, soon(), m));
	for (int i = 0; i < 8; i++)
		CHECK(m[i].status == MEAS_OK && m[i].median_ns == (i + 1) * RUN_NS && m[i].runs == 2);
	CHECK(world.most_living == APART_AT_ONCE);
	for (int i = 0; i < 1000; i++) { /* more than the limit: the oldest are evicted, and no others */
		char cand[24];
		snprintf(cand, sizeof cand, "foreign%d4", i);
		REQUIRE(build(r, "task", cand, m) >= 0);
	}
	CHECK_OK(r->ops->time(r, h, 1, 2, 0, 0, soon(), m));
	CHECK(m[0].status == MEAS_CRASH);
	end(r);
}

/* Each round runs each candidate once, in changing order, in its own worker. */
TEST(races_are_interleaved_between_workers)
{
	struct meas m[3];
	struct runner *r = begin(HONEST);
	int h[3] = {build(r, "task", "own5", m), build(r, "task", "foreign4", m),
		    build(r, "task", "own6", m)};
	world.log[0] = 0;
	CHECK_OK(r->ops->time(r, h, 3, 5, 0, TIME_COLD, soon(), m));
	for (int i = 0; i < 3; i++)
		CHECK(m[i].status == MEAS_OK && m[i].runs == 5 && m[i].spread_ns == 0 && m[i].threads == 1);
	CHECK(m[0].median_ns == 5 * RUN_NS && m[1].min_ns == 4 * RUN_NS && m[2].median_ns == 6 * RUN_NS);
	CHECK(world.clean_times == 10 && world.foreign_in_clean == 0);
	CHECK(strstr(world.log, "time 1 x 1 rounds, 1;") && world.rests == 0);
	CHECK_OK(
	    /* builders rest the whole time */
	    r->ops->time(r, h, 2, 7, 0, TIME_QUIET | TIME_PART, soon(), m));
	CHECK(m[0].runs == 7 && world.rests == 1 && world.quiet_alone == 0);
	CHECK_OK(r->ops->time(r, &h[1], 1, 7, 0, TIME_QUIET, soon(), m));
	CHECK(m[0].runs == 7 && world.rests == 2);
	CHECK_OK(r->ops->time(r, h, 3, 5, 5 * RUN_NS, 0, soon(), m)); /* own6 is too slow */
	CHECK(m[0].runs == 5 && m[1].runs == 5 && m[2].status == MEAS_ABORTED);
	/* time for two rounds and a part of the third */
	int64_t until = clock_now(dev_sim.clock()) + 60 * RUN_NS;
	CHECK_OK(r->ops->time(r, h, 3, 50, 0, 0, until, m));
	CHECK(m[0].runs == m[1].runs && m[1].runs == m[2].runs && m[0].runs >= 1 && m[0].runs < 5);
	CHECK_FAILS(r->ops->time(r, h, 3, 5, 0, 0, clock_now(dev_sim.clock()), m), E_TIMEOUT, "deadline");
	end(r);
}

/* ---- tampering ---- */

/* Does all that a job does with a candidate. Returns the final status; MEAS_OK: its code was kept, which must
 * be what the clean worker compiles. */
static enum meas_status live(struct runner *r, const char *cand)
{
	struct meas m, pair[2];
	int own = build(r, "task", "own5", &m), h = build(r, "task", cand, &m);
	CHECK(own >= 0);
	if (h < 0)
		return m.status;
	CHECK_OK(r->ops->time(r, &h, 1, 5, 0, TIME_QUIET, soon(), &m));
	const int both[2] = {own, h};
	int64_t start_ns = clock_now(dev_sim.clock());
	CHECK_OK(r->ops->time(r, both, 2, 9, 0, TIME_QUIET, soon(), pair));
	int64_t took_ns = clock_now(dev_sim.clock()) - start_ns;
	CHECK(pair[0].status == MEAS_OK && pair[0].median_ns == 5 * RUN_NS && pair[0].runs == 9);
	for (int i = 0; i < 2; i++) /* no claim may contain values that would upset the search */
		CHECK(pair[i].status != MEAS_OK ||
		      (pair[i].min_ns > 0 && pair[i].median_ns >= pair[i].min_ns &&
		       pair[i].median_ns <= took_ns && pair[i].spread_ns >= 0 && pair[i].runs == 9));
	if (pair[1].status != MEAS_OK)
		return pair[1].status;
	CHECK(gives_code(r, h, "task", cand));
	return MEAS_OK;
}

TEST(tampering_costs_time_and_nothing_else)
{
	static const enum meas_status want[HARMS] = {
	    [DIES_LOAD] = MEAS_CRASH,      [DIES_TIME] = MEAS_CRASH,    [HANGS_LOAD] = MEAS_TIMEOUT,
	    [HANGS_TIME] = MEAS_TIMEOUT,   [SAYS_STOPPED] = MEAS_CRASH, [SAYS_BROKEN] = MEAS_CRASH,
	    [SAYS_NO_MEMORY] = MEAS_CRASH, [NO_HANDLE] = MEAS_BUILD,    [LIES_WRONG] = MEAS_WRONG,
	    [NOT_HIRED] = MEAS_TIMEOUT,
	};
	for (int harm = 0; harm < HARMS; harm++) {
		struct runner *r = begin((enum harm)harm);
		struct meas m;
		int own = build(r, "task", "own7", &m);
		int64_t start_ns = clock_now(dev_sim.clock());
		enum meas_status got = live(r, "foreign3");
		if (got != want[harm])
			printf("harm %d: %s\n", harm, meas_status_name(got));
		CHECK(got == want[harm]);
		CHECK(clock_now(dev_sim.clock()) - start_ns <= APART_PATIENCE_NS + NS_PER_S);
		/* No other candidate has suffered. */
		CHECK_OK(r->ops->time(r, &own, 1, 5, 0, 0, soon(), &m));
		CHECK(m.status == MEAS_OK && m.median_ns == 7 * RUN_NS && gives_code(r, own, "task", "own7"));
		world.harm = HONEST;
		CHECK(live(r, "foreign4") == MEAS_OK);
		end(r);
	}
}

/* The worker is honest at first, until its candidate has won, and then misbehaves at each possible call. */
TEST(tampering_at_any_call)
{
	for (int harm = 0; harm < HARMS; harm++)
		for (int after = 0; after < 24; after++) {
			struct runner *r = begin((enum harm)harm);
			struct meas m;
			world.harm_after = after;
			int own = build(r, "task", "own7", &m);
			(void)live(r, "foreign3"); /* live() checks all results */
			CHECK_OK(r->ops->time(r, &own, 1, 5, 0, 0, soon(), &m));
			CHECK(m.median_ns == 7 * RUN_NS && gives_code(r, own, "task", "own7"));
			end(r);
		}
}

/* A candidate that died or hung is not run again in this box, neither by a build nor in a race. */
TEST(it_fails_once)
{
	struct meas m[2];
	struct runner *r = begin(HANGS_TIME);
	int h[2] = {build(r, "task", "own5", m), build(r, "task", "foreign3", m)};
	CHECK_OK(r->ops->time(r, h, 2, 5, 0, 0, soon(), m));
	CHECK(m[0].status == MEAS_OK && m[0].runs == 5 && m[1].status == MEAS_TIMEOUT && world.living == 0);
	int64_t start_ns = clock_now(dev_sim.clock());
	CHECK_OK(r->ops->time(r, h, 2, 5, 0, 0, soon(), m));
	CHECK(m[0].runs == 5 && m[1].status == MEAS_TIMEOUT);
	CHECK(build(r, "task", "foreign3", m) < 0 && m[0].status == MEAS_TIMEOUT && world.births == 1);
	CHECK(clock_now(dev_sim.clock()) - start_ns < NS_PER_MS);
	end(r);
}

/* A candidate that does not compile is not run anywhere. */
TEST(candidates_that_do_not_compile_are_not_run)
{
	struct meas m;
	struct runner *r = begin(HONEST);
	world.emit_rc = E_INFEASIBLE;
	CHECK(build(r, "task", "foreign3", &m) < 0 && m.status == MEAS_INFEASIBLE && world.births == 0);
	end(r);
}

/* The clean worker's own death is still an error that loses all handles. */
TEST(errors_of_the_clean_worker)
{
	static const int rcs[] = {E_CHILD, E_TIMEOUT, E_STOPPED, E_NOMEM};
	struct meas m;
	int h;
	for (int i = 0; i < 4; i++) {
		struct runner *r = begin(HONEST);
		world.emit_rc = rcs[i];
		CHECK_FAILS(r->ops->build(r, "task", "foreign3", soon(), &h, &m), rcs[i], "as told");
		CHECK(h < 0 && world.living == 0);
		world.emit_rc = E_OK; /* a candidate on which the compiler died is not compiled again */
		bool again = build(r, "task", "foreign3", &m) >= 0;
		CHECK(again == (i > 1));
		end(r);
	}
	struct runner *r = begin(HONEST);
	int foreign = build(r, "task", "foreign3", &m);
	world.clean_dies_in = 1;
	CHECK_FAILS(r->ops->build(r, "task", "own5", soon(), &h, &m), E_CHILD, "died");
	CHECK(foreign >= 0 && world.living == 0);
	CHECK_OK(r->ops->time(r, &foreign, 1, 5, 0, 0, soon(), &m));
	CHECK(m.status == MEAS_CRASH);
	end(r);
}

/* A yield ends workers behind sockets, which is no candidate's fault. All handles are lost, so that a leash
 * builds them again. */
TEST(rest_is_nobodys_fault)
{
	struct meas m;
	int h;
	struct runner *r = begin(HONEST);
	int own = build(r, "task", "own5", &m);
	world.rest_all = true;
	CHECK_FAILS(r->ops->build(r, "task", "foreign3", soon(), &h, &m), E_CHILD, "shut down");
	CHECK(own >= 0 && world.clean_drops == 1 && world.living == 0);
	CHECK(live(r, "foreign3") == MEAS_OK);
	end(r);
}

TEST(the_deadline_is_the_callers)
{
	struct meas m[2];
	int h;
	for (int harm = HANGS_LOAD; harm <= HANGS_TIME; harm++) {
		struct runner *r = begin((enum harm)harm);
		int own = build(r, "task", "own5", m);
		int64_t end_ns = clock_now(dev_sim.clock()) + NS_PER_S;
		int rc = r->ops->build(r, "task", "foreign3", end_ns, &h, m);
		const int both[2] = {own, h};
		if (harm == HANGS_TIME)
			rc = r->ops->time(r, both, 2, 5, 0, 0, end_ns, m);
		CHECK(rc == E_TIMEOUT && clock_now(dev_sim.clock()) == end_ns);
		end(r);
	}
}

TEST_MAIN
