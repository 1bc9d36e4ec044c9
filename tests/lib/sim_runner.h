/* SPDX-License-Identifier: Apache-2.0 */
/* A runner over the simulator for tests of the search: lowers, emits, checks the answer, times on the virtual
 * clock. It can be told to die or to hang now and then, or to raise a flag after so many calls. A worker that
 * hung is replaced, and its handles are lost.
 *
 * Builders work in virtual time: each takes SIM_BUILD_NS for a job, one after the other, while the clock
 * moves for other reasons. A build that a builder has finished costs no time; of one that it is at, the
 * rest. */
#ifndef TESTS_SIM_RUNNER_H
#define TESTS_SIM_RUNNER_H

#include "kernels/emit/emit.h"
#include "kernels/loops/lower.h"
#include "kernels/space/space.h"
#include "platform/run/dev_sim.h"
#include "platform/base/hash.h"
#include "platform/run/runner.h"
#include "tests/lib/kernel_cases.h"

#include <signal.h>

enum { SIM_TASKS = 16, SIM_HANDLES = 256, SIM_RUNS = 4096, SIM_JOBS = 32, SIM_BUILDERS = 2 };
enum {
	SIM_BESIDE_MHZ = 1000,
	SIM_ALONE_MHZ = 2000
}; /* clock rate of times measured beside other work, and alone */

extern const struct emit emit_sim;

struct sim_case {
	const char *text; /* NULL: free */
	struct kcase c;
};

struct sim_handle {
	struct dev_code *code; /* NULL: free */
	struct arena a;        /* holds what follows; reset on reuse */
	struct manifest m;
	void *bufs[CODE_MAX_BUFS];
	struct blob object;
	int64_t cost_ns;
};

struct sim_job { /* a build ahead; kept in the order of requests */
	struct key key;
	int64_t asked_ns, done_ns; /* done_ns 0: not begun */
	bool dead;                 /* its builder died during the build */
};

struct sim_runner {
	struct runner r;
	struct target t;
	struct rng rng;
	struct sim_case tasks[SIM_TASKS];
	struct sim_handle h[SIM_HANDLES];
	int calls, deaths, wrong, late;
	int hangs, lost; /* lost: calls with a handle of a worker that was replaced */
	int timed[2];    /* timing calls: warm, cold */
	double death_rate, hang_rate;
	int stop_after; /* raises `stop` after so many calls; 0: never */
	int builds;
	int slow_build;        /* the build that takes slow_ns; 0: none; -1: all */
	const char *slow_task; /* all builds of this task take slow_ns; NULL: none */
	int cut;               /* slow builds that the deadline ended */
	int64_t slow_ns;
	const char *broken;  /* the candidate with wrong answers; NULL: none */
	const char *stalled; /* the candidate whose first `stalls` builds time out; NULL: none */
	int stalls;
	int late_code; /* the first call for code that the deadline ends; 0: none */
	int codes;     /* calls for code */
	volatile sig_atomic_t stop;
	struct sim_job job[SIM_JOBS];
	int njobs, taken; /* builds taken from builders */
	int64_t free_ns[SIM_BUILDERS];
	double builder_death_rate;
};

/* Begins the builds for which a builder was free by now. */
static inline void sim_work(struct sim_runner *s)
{
	int64_t now = clock_now(dev_sim.clock());
	for (int i = 0; i < s->njobs; i++) {
		struct sim_job *j = &s->job[i];
		int b = 0;
		for (int k = 1; k < s->r.builders; k++)
			b = s->free_ns[k] < s->free_ns[b] ? k : b;
		int64_t begin = j->asked_ns > s->free_ns[b] ? j->asked_ns : s->free_ns[b];
		if (j->done_ns || begin > now)
			continue;
		j->done_ns = s->free_ns[b] = begin + SIM_BUILD_NS;
		j->dead = rng_unit(&s->rng) < s->builder_death_rate;
	}
}

static inline struct sim_job *sim_find_job(struct sim_runner *s, const char *task, const char *cand)
{
	struct key k = hash_join(hash_text(task), hash_text(cand));
	sim_work(s);
	for (int i = 0; i < s->njobs; i++)
		if (key_equal(s->job[i].key, k))
			return &s->job[i];
	return NULL;
}

static inline enum ahead sim_progress(struct runner *r, const char *task, const char *cand)
{
	const struct sim_job *j = sim_find_job((struct sim_runner *)r, task, cand);
	if (!j || !j->done_ns)
		return j ? AHEAD_QUEUED : AHEAD_NOT;
	return clock_now(dev_sim.clock()) < j->done_ns ? AHEAD_RUNNING : AHEAD_DONE;
}

static inline enum ahead sim_ahead(struct runner *r, const char *task, const char *cand)
{
	struct sim_runner *s = (struct sim_runner *)r;
	if (r->builders && !sim_find_job(s, task, cand) && s->njobs < SIM_JOBS)
		s->job[s->njobs++] = (struct sim_job){.key = hash_join(hash_text(task), hash_text(cand)),
						      .asked_ns = clock_now(dev_sim.clock())};
	return sim_progress(r, task, cand);
}

/* Takes a build from the queue and waits for it if it has begun. Returns 1: built ahead; -1: its builder
 * died; 0: not begun. */
static inline int sim_take(struct sim_runner *s, const char *task, const char *cand)
{
	struct sim_job *j = sim_find_job(s, task, cand);
	if (!j)
		return 0;
	struct sim_job taken = *j;
	memmove(j, j + 1, sizeof *j * (size_t)(s->job + --s->njobs - j));
	int64_t wait = taken.done_ns - clock_now(dev_sim.clock());
	if (taken.done_ns && wait > 0)
		clock_advance(dev_sim.clock(), wait);
	s->taken += taken.done_ns > 0;
	return taken.dead ? -1 : taken.done_ns > 0;
}

static inline struct kcase *sim_task(struct sim_runner *s, const char *text)
{
	struct rng r;
	rng_seed(&r, 5);
	for (int i = 0; i < SIM_TASKS; i++) {
		if (s->tasks[i].text && !strcmp(s->tasks[i].text, text))
			return &s->tasks[i].c;
		if (s->tasks[i].text)
			continue;
		s->tasks[i].text = text;
		return case_parse(&s->tasks[i].c, text, &r) < 0 ? NULL : &s->tasks[i].c;
	}
	return NULL;
}

static inline void sim_drop(struct runner *r, int handle, int64_t deadline_ns)
{
	(void)deadline_ns;
	struct sim_runner *s = (struct sim_runner *)r;
	for (int i = 0; i < SIM_HANDLES; i++)
		if (s->h[i].code && (handle < 0 || handle == s->hangs * SIM_HANDLES + i)) {
			dev_sim.unload(s->h[i].code);
			s->h[i].code = NULL;
		}
	s->njobs = handle < 0 ? 0 : s->njobs;
}

/* Counts the call; raises the flag or dies if it is time to. */
static inline int sim_call(struct sim_runner *s, int64_t deadline_ns)
{
	if (++s->calls == s->stop_after)
		s->stop = 1;
	if (rng_unit(&s->rng) < s->death_rate) {
		int jobs = s->njobs; /* builders survive */
		sim_drop(&s->r, -1, INT64_MAX);
		s->njobs = jobs;
		s->deaths++;
		clock_advance(dev_sim.clock(), 5 * NS_PER_MS);
		return fail(E_CHILD, "the worker died (signal 11)");
	}
	if (clock_now(dev_sim.clock()) >= deadline_ns)
		return fail(E_TIMEOUT, "the deadline passed");
	if (s->hang_rate > 0 && rng_unit(&s->rng) < s->hang_rate) {
		sim_drop(&s->r, -1, INT64_MAX);
		s->hangs++;
		clock_advance(dev_sim.clock(), 5 * NS_PER_MS);
		return fail(E_TIMEOUT, "the worker hung and was stopped");
	}
	return E_OK;
}

/* Handles contain the number of hangs before them. NULL: its worker is gone. */
static inline struct sim_handle *sim_at(struct sim_runner *s, int handle)
{
	struct sim_handle *h = &s->h[handle % SIM_HANDLES];
	if (handle / SIM_HANDLES == s->hangs && h->code)
		return h;
	s->lost++;
	(void)!fail(E_CHILD, "handle %d was lost", handle);
	return NULL;
}

static inline void sim_execute(struct sim_handle *h)
{
	h->cost_ns = 0;
	for (int e = 0; e < h->m.nentries; e++) {
		dev_sim.run(h->code, e, h->bufs, h->m.param, 0, code_extent(&h->m, e, h->m.param));
		h->cost_ns += dev_sim_cost_ns();
	}
}

static inline int sim_emit_cand(struct sim_runner *s, struct kcase *k, const char *cand, struct sim_handle *h,
				struct meas *m)
{
	struct loops *l;
	struct blob object;
	int64_t elems[CODE_MAX_BUFS];
	arena_reset(&h->a);
	int rc = lower(&k->t, cand, &s->t, &h->a, &l, &h->m);
	m->status = MEAS_INFEASIBLE;
	if (rc >= 0)
		rc = emit_sim.emit(l, &s->t, &h->a, &object);
	if (rc < 0)
		return 0;
	rc = dev_sim.load(object.p, object.n, &h->code);
	if (rc < 0)
		return rc;
	h->object = object;
	case_bind_in(k, &h->a, &h->m, h->bufs, elems);
	sim_execute(h);
	m->status = MEAS_OK;
	for (int i = 0; i < h->m.nbufs; i++)
		if (h->m.buf[i].role == BUF_OUT && !(case_error(k, h->bufs[i]) < 1e-4))
			m->status = MEAS_WRONG;
	return 1;
}

static inline int sim_build(struct runner *r, const char *task, const char *cand, int64_t deadline_ns,
			    int *handle, struct meas *m)
{
	struct sim_runner *s = (struct sim_runner *)r;
	struct kcase *k = sim_task(s, task);
	int free_at = 0, rc = sim_call(s, deadline_ns);
	*m = (struct meas){.status = MEAS_BUILD};
	*handle = -1;
	if (rc < 0 || !k)
		return rc;
	if (++s->builds == s->slow_build || s->slow_build < 0 ||
	    (s->slow_task && !strcmp(s->slow_task, task))) {
		int64_t left = deadline_ns - clock_now(dev_sim.clock());
		clock_advance(dev_sim.clock(), s->slow_ns < left ? s->slow_ns : left + 1);
		s->cut += left < s->slow_ns;
		if (left < s->slow_ns)
			return fail(E_TIMEOUT, "the deadline passed");
	}
	while (free_at < SIM_HANDLES && s->h[free_at].code)
		free_at++;
	if (free_at == SIM_HANDLES)
		return fail(E_NOMEM, "the search keeps more than %d kernels", SIM_HANDLES);
	int made = sim_take(s, task, cand);
	if (made < 0)
		m->status = MEAS_CRASH;
	dev_sim_build_ns(made ? 0 : SIM_BUILD_NS);
	rc = made < 0 ? 0 : sim_emit_cand(s, k, cand, &s->h[free_at], m);
	s->wrong += m->status == MEAS_WRONG;
	if (m->status == MEAS_OK && s->broken && !strcmp(s->broken, cand))
		m->status = MEAS_WRONG;
	if (m->status == MEAS_OK && s->stalled && !strcmp(s->stalled, cand) && s->stalls-- > 0)
		m->status = MEAS_TIMEOUT;
	m->build_ns = SIM_BUILD_NS;
	if (m->status == MEAS_OK)
		*handle = s->hangs * SIM_HANDLES + free_at;
	else if (rc > 0)
		sim_drop(r, s->hangs * SIM_HANDLES + free_at, INT64_MAX);
	if (clock_now(dev_sim.clock()) > deadline_ns)
		return fail(E_TIMEOUT, "the deadline passed");
	return rc < 0 ? rc : E_OK;
}

static inline int sim_by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

static inline void sim_summary(int64_t *t, int n, struct meas *m)
{
	qsort(t, (size_t)n, sizeof *t, sim_by_value);
	m->runs = n;
	m->min_ns = t[0];
	m->median_ns = t[n / 2];
	for (int i = 0; i < n; i++)
		t[i] = llabs(t[i] - m->median_ns);
	qsort(t, (size_t)n, sizeof *t, sim_by_value);
	m->spread_ns = t[n / 2];
}

static inline int sim_time(struct runner *r, const int *handles, int n, int rounds, int64_t abort_ns,
			   unsigned how, int64_t deadline_ns, struct meas *m)
{
	static int64_t t[8][SIM_RUNS];
	struct sim_runner *s = (struct sim_runner *)r;
	s->timed[(how & TIME_COLD) != 0]++;
	int rc = sim_call(s, deadline_ns);
	if (rc < 0)
		return rc;
	for (int i = 0; i < n; i++)
		if (!sim_at(s, handles[i]))
			return E_CHILD;
	for (int i = 0; i < n; i++)
		m[i] = (struct meas){.status = MEAS_OK,
				     .mhz_before = how & TIME_QUIET ? SIM_ALONE_MHZ : SIM_BESIDE_MHZ};
	for (int k = 0; k < rounds; k++)
		for (int i = 0; i < n; i++) {
			if (m[i].status != MEAS_OK)
				continue;
			int64_t start = clock_now(dev_sim.clock());
			dev_sim_spend(sim_at(s, handles[i])->cost_ns);
			t[i][k] = clock_now(dev_sim.clock()) - start;
			if (k == 0 && abort_ns && t[i][0] > abort_ns)
				m[i] = (struct meas){.status = MEAS_ABORTED, .min_ns = t[i][0]};
			if (clock_now(dev_sim.clock()) > deadline_ns)
				return fail(E_TIMEOUT, "the deadline passed");
		}
	for (int i = 0; i < n; i++)
		if (m[i].status == MEAS_OK)
			sim_summary(t[i], rounds, &m[i]);
	return E_OK;
}

static inline int sim_code(struct runner *r, int handle, int64_t deadline_ns, struct arena *a,
			   struct blob *out)
{
	struct sim_runner *s = (struct sim_runner *)r;
	int rc = sim_call(s, INT64_MAX);
	if (rc >= 0 && ++s->codes == s->late_code) {
		clock_advance(dev_sim.clock(), deadline_ns + 1 - clock_now(dev_sim.clock()));
		return fail(E_TIMEOUT, "the deadline passed");
	}
	if (rc < 0)
		return rc;
	const struct sim_handle *h = sim_at(s, handle);
	if (!h)
		return E_CHILD;
	struct code c = {.m = h->m, .object = h->object};
	struct buf b = {0};
	code_bytes(&c, &b);
	*out = (struct blob){.p = arena_memdup(a, b.p, b.n), .n = b.n};
	buf_free(&b);
	return E_OK;
}

static inline void sim_close(struct runner *r)
{
	struct sim_runner *s = (struct sim_runner *)r;
	sim_drop(r, -1, INT64_MAX);
	for (int i = 0; i < SIM_TASKS; i++)
		if (s->tasks[i].text)
			arena_free(&s->tasks[i].c.a);
	for (int i = 0; i < SIM_HANDLES; i++)
		arena_free(&s->h[i].a);
	free(s);
}

static inline struct sim_runner *sim_open(uint64_t seed, double sigma)
{
	static const struct runner_ops ops = {sim_build, sim_ahead, sim_progress, sim_time,
					      sim_code,  sim_drop,  sim_close};
	struct sim_runner *s = calloc(1, sizeof *s);
	dev_sim_reset(0, seed, sigma);
	dev_sim.probe(&s->t);
	rng_seed(&s->rng, seed);
	s->r = (struct runner){.ops = &ops, .clock = dev_sim.clock(), .target = &s->t, .threads = 1};
	return s;
}

#endif
