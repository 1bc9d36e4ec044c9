/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tune_graph.h"

#include "agent/tune_net.h"
#include "kernels/alternatives.h"
#include "kernels/space.h"
#include "platform/log.h"

enum {
	SERIES = 3, /* of runs; a winner wins each */
	RUNS = 4,   /* of a series: the fastest of each kernel counts */
};

/* For calls that only tidy up. */
#define GRACE_NS (100 * NS_PER_MS)

/* The default kernel of a task, made once. */
struct made {
	struct key key;
	struct blob code; /* p NULL: cannot be made */
};

struct maker {
	const struct tune_graph_options *o;
	struct runner *runner;
	struct kernel_source kept;     /* of the cache: for tasks that do not differ */
	struct kernel_source standard; /* of the cache: default kernels */
	struct arena a;
	int nmade, cap;
	struct made *made;
	int ndiffer;
	struct key *differ; /* tasks that not both divisions use equally often */
};

struct side {
	const struct choices *choices;
	struct steps *steps;
	struct step_task *task;
	int ntasks;
	struct net net;
	int64_t sum_ns; /* of a series */
};

static bool differs(const struct maker *m, struct key k)
{
	for (int i = 0; i < m->ndiffer; i++)
		if (key_equal(m->differ[i], k))
			return true;
	return false;
}

static int make(struct maker *m, const struct task *t, const char *text, struct blob *out)
{
	char cand[CAND_MAX];
	struct arena scratch = {0};
	struct space *s;
	struct meas built = {0};
	struct runner *r = m->runner;
	const struct chosen_for *f = m->o->chosen;
	const struct space_want want = {.exact = f->exact, .threads = f->threads};
	int handle = -1, rc = space_make(&scratch, t, f->target, &want, &s);
	*out = (struct blob){0};
	if (rc >= 0) {
		space_default(s, cand);
		rc = r->ops->build(r, text, cand, m->o->deadline_ns, &handle, &built);
	}
	for (int rule = 0; rc >= 0 && handle < 0 && space_portfolio(s, &rule, cand) >= 0;) /* it spills */
		rc = r->ops->build(r, text, cand, m->o->deadline_ns, &handle, &built);
	arena_free(&scratch);
	if (rc >= 0 && handle >= 0)
		rc = r->ops->code(r, handle, m->o->deadline_ns + GRACE_NS, &m->a, out);
	if (rc >= 0 && handle >= 0)
		r->ops->drop(r, handle, m->o->deadline_ns + GRACE_NS);
	return rc;
}

static void remember(struct maker *m, struct key k, struct blob code)
{
	if (m->nmade == m->cap) {
		int cap = m->cap ? 2 * m->cap : 32;
		struct made *to = ARENA_ARRAY(&m->a, struct made, cap);
		for (int i = 0; i < m->nmade; i++)
			to[i] = m->made[i];
		m->made = to;
		m->cap = cap;
	}
	m->made[m->nmade++] = (struct made){k, code};
}

static const struct made *made_of(const struct maker *m, struct key k)
{
	for (int i = 0; i < m->nmade; i++)
		if (key_equal(m->made[i].key, k))
			return &m->made[i];
	return NULL;
}

/* The cache has the default kernel, made for as many threads. */
static bool recorded(const struct maker *m, struct key k)
{
	struct arena scratch = {0};
	struct rec r;
	const struct chosen_for *f = m->o->chosen;
	bool there =
	    cache_find_rec(f->cache, k, f->target, f->threads, f->exact, REC_DEFAULT, &scratch, &r) >= 0 &&
	    r.kind == REC_DEFAULT && r.threads == f->threads;
	arena_free(&scratch);
	return there;
}

static int find(void *ctx, const struct task *t, const char *text, struct arena *a, struct code *out,
		enum kernel_origin *origin)
{
	struct maker *m = ctx;
	struct key k = hash_text(text);
	struct blob code;
	if (!differs(m, k))
		return m->kept.find(m->kept.ctx, t, text, a, out, origin);
	if (recorded(m, k) && m->standard.find(m->standard.ctx, t, text, a, out, origin) >= 0)
		return E_OK;
	const struct made *known = made_of(m, k);
	if (known) {
		code = known->code;
	} else {
		int rc = make(m, t, text, &code);
		if (rc == E_TIMEOUT || rc == E_CHILD || rc == E_NOMEM)
			return rc;
		remember(m, k, code);
	}
	*origin = FROM_DEFAULT;
	return code.p ? code_parse(code.p, code.n, a, out) : E_NOTFOUND;
}

static int uses_of(const struct side *s, struct key k)
{
	for (int i = 0; i < s->ntasks; i++)
		if (key_equal(s->task[i].key, k))
			return s->task[i].uses;
	return 0;
}

static int compare_tasks(struct maker *m, const struct side *x, const struct side *y, struct arena *a)
{
	m->ndiffer = 0;
	m->differ = arena_try(a, (size_t)x->ntasks + (size_t)y->ntasks + 1, sizeof *m->differ);
	if (!m->differ)
		return E_NOMEM;
	for (int i = 0; i < x->ntasks; i++)
		if (uses_of(y, x->task[i].key) != x->task[i].uses)
			m->differ[m->ndiffer++] = x->task[i].key;
	for (int i = 0; i < y->ntasks; i++)
		if (!uses_of(x, y->task[i].key))
			m->differ[m->ndiffer++] = y->task[i].key;
	return m->ndiffer;
}

/* Of the kernels that differ, and of all nodes that are no tasks: their layouts may. */
static int64_t sum_kernels(const struct maker *m, const struct side *s)
{
	int64_t sum_ns = 0;
	const struct plan_kernel *k;
	int n = plan_kernels(s->net.plan, &k);
	for (int i = 0; i < n; i++) {
		const struct step *x = &s->steps->step[k[i].step];
		if (x->kind == STEP_TASK && x->fused_by >= 0) /* for want of the fused kernel */
			x = &s->steps->step[x->fused_by];
		if (x->kind == STEP_HOST || differs(m, task_key(x->task)))
			sum_ns += s->net.kernel_ns[i];
	}
	return sum_ns;
}

static bool over(const struct tune_graph_options *o)
{
	return clock_now(o->clock) >= o->deadline_ns || (o->stop && *o->stop);
}

static int run_series(const struct maker *m, struct side side[2])
{
	int rc = E_OK;
	for (int k = 0; k < 2; k++)
		net_forget(&side[k].net);
	for (int i = 0; i < RUNS && rc >= 0; i++)
		for (int k = 0; k < 2 && rc >= 0; k++) {
			rc = over(m->o) ? E_TIMEOUT : net_warm(&side[k].net, m->o->chosen->target);
			if (rc >= 0)
				rc = net_run_kernels(&side[k].net, m->o->clock);
		}
	for (int k = 0; k < 2 && rc >= 0; k++)
		side[k].sum_ns = sum_kernels(m, &side[k]);
	return rc;
}

/* 1: side 1 is faster beyond doubt. */
static int race(const struct maker *m, struct side side[2])
{
	bool won = true;
	for (int i = 0; i < SERIES && won; i++) {
		int rc = run_series(m, side);
		if (rc < 0)
			return rc;
		won = (double)side[1].sum_ns < (1 - GRAPH_GAIN) * (double)side[0].sum_ns;
	}
	return won;
}

static int open_side(struct maker *m, struct graph *g, struct side *s)
{
	const struct tune_graph_options *o = m->o;
	const struct kernel_source src = {m, find};
	int rc = net_open(&s->net, g, s->steps, o->chosen->target, &src, o->pool, o->clock);
	if (rc >= 0)
		plan_deadline(s->net.plan, o->clock, o->deadline_ns);
	return rc;
}

static int divide(const struct maker *m, struct graph *g, struct arena *a, struct side *s)
{
	int rc = graph_steps(g, m->o->chosen->target, s->choices, a, &s->steps);
	return rc < 0 ? rc : (s->ntasks = steps_tasks(s->steps, a, &s->task));
}

/* Both networks, the kernels that are not there yet, and all series of runs. */
static bool fits(const struct maker *m)
{
	const struct tune_graph_options *o = m->o;
	int64_t need_ns = 2 * (o->net_ns + SERIES * RUNS * o->run_ns);
	for (int i = 0; i < m->ndiffer; i++)
		if (!made_of(m, m->differ[i]) && !recorded(m, m->differ[i]))
			need_ns += o->kernel_ns;
	return clock_now(o->clock) + need_ns <= o->deadline_ns;
}

/* 1: `other` is better than `now`. */
static int meet(struct maker *m, struct graph *g, const struct choices *now, const struct choices *other)
{
	struct arena a = {0};
	struct side side[2] = {{.choices = now}, {.choices = other}};
	int rc = divide(m, g, &a, &side[0]);
	if (rc >= 0)
		rc = divide(m, g, &a, &side[1]);
	if (rc >= 0)
		rc = compare_tasks(m, &side[0], &side[1], &a);
	if (rc > 0 && !fits(m)) {
		log_more("division of the graph: no time to compare one where %d tasks differ", m->ndiffer);
		rc = 0;
	}
	if (rc > 0) {
		rc = open_side(m, g, &side[0]);
		if (rc >= 0)
			rc = open_side(m, g, &side[1]);
		if (rc >= 0)
			rc = race(m, side);
		if (rc >= 0)
			log_more("division of the graph: %d tasks differ, %.4f ms against %.4f ms",
				 m->ndiffer, (double)side[1].sum_ns / 1e6, (double)side[0].sum_ns / 1e6);
		net_close(&side[1].net);
		net_close(&side[0].net);
	}
	arena_free(&a);
	return rc;
}

static int try_all(struct maker *m, struct graph *g, const struct steps *s, struct arena *a,
		   struct choices *now)
{
	struct choices *other;
	int changed = 0, n = graph_alternatives(g, s, now, a, &other);
	for (int i = 0; i < n && !over(m->o); i++) {
		struct choices both = *now;
		for (int k = 0; k < other[i].n; k++)
			choices_set(&both, a, other[i].choice[k].kind, other[i].choice[k].name,
				    other[i].choice[k].number);
		if (!other[i].n)
			both = (struct choices){0};
		int rc = meet(m, g, now, &both);
		if (rc < 0 && rc != E_CHILD && rc != E_UNSUPPORTED && rc != E_CORRUPT)
			return rc == E_TIMEOUT ? changed : rc;
		if (rc > 0) {
			*now = both;
			changed = 1;
		}
	}
	return n < 0 ? n : changed;
}

int tune_graph(const struct tune_graph_options *o, struct graph *g, struct runner *r, struct arena *a,
	       struct choices *c, struct steps **steps)
{
	struct maker m = {.o = o, .runner = r};
	struct choices best = *c;
	struct steps *s = NULL;
	int rc = cache_source(o->chosen->cache, o->chosen->target, o->chosen->threads, o->chosen->exact,
			      REC_BEST, &m.kept);
	if (rc < 0)
		return rc;
	rc = cache_source(o->chosen->cache, o->chosen->target, o->chosen->threads, o->chosen->exact,
			  REC_DEFAULT, &m.standard);
	if (rc < 0) {
		cache_source_free(&m.kept);
		return rc;
	}
	rc = try_all(&m, g, *steps, a, &best);
	if (rc > 0)
		rc = graph_steps(g, o->chosen->target, &best, a, &s);
	if (rc >= 0 && s && !choices_equal(c, &best)) {
		*c = best;
		*steps = s;
		rc = 1;
	}
	r->ops->drop(r, -1, o->deadline_ns + GRACE_NS);
	cache_source_free(&m.kept);
	cache_source_free(&m.standard);
	arena_free(&m.a);
	return rc;
}
