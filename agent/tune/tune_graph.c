/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tune/tune_graph.h"

#include "agent/cache/lookup.h"
#include "agent/run/plan_device.h"
#include "agent/tune/tune_net.h"
#include "kernels/group/alternatives.h"
#include "kernels/space/space.h"
#include "platform/base/log.h"

enum {
	SERIES = 3, /* series of runs; a winner must win each */
	RUNS = 4,   /* runs of a series; the fastest of each kernel counts */
};

/* Prior of the share that alternatives save, and its weight in alternatives. */
#define FIRST_SHARE 0.01
#define WEIGHT 3
#define BYTES_SHARE 0.3 /* of kernels in place of portable code for quantised operators */

/* Extra time for calls that only clean up. */
#define GRACE_NS (100 * NS_PER_MS)

/* The default kernel of a task, made once. */
struct made {
	struct key key;
	struct blob code; /* p NULL: no default kernel can be made */
};

struct maker {
	const struct tune_graph_options *o;
	struct graph *g;
	struct runner *runner;
	struct kernel_source kept;     /* the cache's best kernels, for tasks that do not differ */
	struct kernel_source standard; /* the cache's default kernels */
	struct arena a;
	int nmade, cap;
	struct made *made;
	int ndiffer;
	struct key *differ; /* tasks that the two divisions do not use equally often */
	struct plan_device *device; /* open now: o->device, or o->sole while networks run there */
};

struct side {
	const struct choices *choices;
	struct steps *steps;
	struct step_task *task;
	int ntasks;
	struct net net;
	int64_t sum_ns; /* time of a series */
};

struct graph_search {
	struct tune_graph_options o;
	struct maker m;
	struct arena *a; /* the caller's */
	struct choices now;
	int n, at; /* number of alternatives; index of the next */
	int hint;  /* index of a stranger's hint, which replaces the present choices as a whole; -1: none */
	const struct choices *other;
	double promise;  /* of the next alternative; < 0: not known yet */
	int64_t need_ns; /* time that the next alternative needs */
	/* alternatives compared so far; sum of the shares that they saved of the time of what differed */
	double tried, saved;
};

static bool differs(const struct maker *m, struct key k)
{
	for (int i = 0; i < m->ndiffer; i++)
		if (key_equal(m->differ[i], k))
			return true;
	return false;
}

/* Whether the box is over or a stop was requested. Also checked while kernels are made: a division may need a
 * dozen of them, and a stop request must not wait for that. */
static bool over(const struct tune_graph_options *o)
{
	return clock_now(o->clock) >= o->deadline_ns || (o->stop && *o->stop);
}

static int make(struct maker *m, const struct task *t, const char *text, struct blob *out)
{
	char cand[CAND_MAX];
	struct arena scratch = {0};
	struct space *s;
	struct meas built = {0};
	struct runner *r = m->runner;
	const struct chosen_for *f = m->o->chosen;
	const struct space_want want = {.level = level_f32(f->level), .threads = r->threads};
	int handle = -1, rc = space_make(&scratch, t, f->target, &want, &s);
	*out = (struct blob){0};
	if (rc >= 0)
		space_default(s, cand);
	/* handle < 0: the candidate spills, so try the next of the portfolio */
	for (int rule = 0, more = E_OK; rc >= 0 && handle < 0 && more >= 0;) {
		rc = over(m->o) ? fail(E_TIMEOUT, "the time box is over")
				: r->ops->build(r, text, cand, m->o->deadline_ns, &handle, &built);
		if (handle < 0)
			more = space_portfolio(s, &rule, cand);
	}
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

/* Whether the cache has the task's default kernel, made for the same number of threads. */
static bool recorded(const struct maker *m, struct key k)
{
	struct arena scratch = {0};
	struct rec r;
	const struct chosen_for *f = m->o->chosen;
	bool there =
	    cache_find_rec(f->cache, k, f->target, f->threads, f->level, REC_DEFAULT, &scratch, &r) >= 0 &&
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
	} else if (m->o->sole && m->device) {
		return fail(E_NOTFOUND, "this process has the device, so no worker can make a kernel");
	} else {
		int rc = make(m, t, text, &code);
		if (rc == E_TIMEOUT || rc == E_STOPPED || rc == E_CHILD || rc == E_NOMEM)
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

/* Sums the time of the kernels that differ, and of all host steps, because their layouts may differ. */
static int64_t sum_kernels(const struct maker *m, const struct side *s)
{
	int64_t sum_ns = 0;
	const struct plan_kernel *k;
	int n = plan_kernels(s->net.plan, &k);
	for (int i = 0; i < n; i++) {
		const struct step *x = &s->steps->step[k[i].step];
		/* it runs because its fused kernel is missing */
		if (x->kind == STEP_TASK && x->fused_by >= 0)
			x = &s->steps->step[x->fused_by];
		if (x->kind == STEP_HOST || differs(m, task_key(x->task)))
			sum_ns += s->net.kernel_ns[i];
	}
	return sum_ns;
}

struct pair {
	const struct maker *m;
	struct side *side;
};

static int run_pair(void *ctx)
{
	const struct pair *p = ctx;
	const struct tune_graph_options *o = p->m->o;
	int rc = E_OK;
	for (int k = 0; k < 2 && rc >= 0; k++) {
		rc = over(o) ? E_TIMEOUT : net_warm(&p->side[k].net, o->chosen->target);
		if (rc >= 0)
			rc = net_run_kernels(&p->side[k].net, o->clock);
	}
	return rc;
}

/* Runs one series; a tainted pair of runs is repeated. */
static int run_series(const struct maker *m, struct side side[2])
{
	struct pair p = {m, side};
	struct net *const both[] = {&side[0].net, &side[1].net};
	int rc = E_OK;
	for (int k = 0; k < 2; k++)
		net_forget(&side[k].net);
	for (int i = 0; i < RUNS && rc >= 0; i += rc > 0)
		rc = net_quietly(m->o->leash, m->o->deadline_ns, both, 2, run_pair, &p);
	for (int k = 0; k < 2 && rc >= 0; k++)
		side[k].sum_ns = sum_kernels(m, &side[k]);
	return rc;
}

/* Returns 1: side 1 won every series by more than `gain`. */
static int race(const struct maker *m, struct side side[2], double gain)
{
	bool won = true;
	for (int i = 0; i < SERIES && won; i++) {
		int rc = run_series(m, side);
		if (rc < 0)
			return rc;
		won = (double)side[1].sum_ns < (1 - gain) * (double)side[0].sum_ns;
	}
	return won;
}

static int open_side(struct maker *m, struct side *s)
{
	const struct tune_graph_options *o = m->o;
	const struct kernel_source src = {.ctx = m, .find = find, .device = m->device};
	int rc = net_open(&s->net, m->g, s->steps, o->chosen->target, &src, o->pool, o->clock, NULL);
	if (rc >= 0)
		plan_deadline(s->net.plan, o->clock, o->deadline_ns);
	return rc;
}

/* Makes all kernels that the networks need while the runner has the device, then takes that from it. */
static int take_device(struct maker *m, const struct side side[2])
{
	struct arena scratch = {0};
	const struct tune_graph_options *o = m->o;
	int rc = E_OK;
	for (int k = 0; k < 2; k++)
		for (int i = 0; i < side[k].ntasks && rc >= 0; i++) {
			struct code code = {0};
			enum kernel_origin origin;
			const struct step_task *t = &side[k].task[i];
			rc = differs(m, t->key) ? find(m, t->task, t->text, &scratch, &code, &origin) : E_OK;
			if (rc != E_TIMEOUT && rc != E_STOPPED && rc != E_CHILD && rc != E_NOMEM)
				rc = E_OK; /* the plan finds another kernel */
			arena_reset(&scratch);
		}
	arena_free(&scratch);
	if (rc < 0)
		return rc;
	m->runner->ops->drop(m->runner, DROP_DEVICE, o->deadline_ns + GRACE_NS);
	return plan_device_open(o->sole, &m->device);
}

static void give_device_back(struct maker *m)
{
	if (m->o->sole)
		plan_device_close(m->device);
	m->device = m->o->device;
}

static int divide(const struct maker *m, struct arena *a, struct side *s)
{
	int rc = graph_steps(m->g, m->o->chosen->target, s->choices, a, &s->steps);
	return rc < 0 ? rc : (s->ntasks = steps_tasks(s->steps, a, &s->task));
}

/* Divides the graph both ways; side[0] is the present division. Returns how many tasks differ. */
static int divide_both(struct maker *m, struct arena *a, struct side side[2])
{
	int rc = divide(m, a, &side[0]);
	if (rc >= 0)
		rc = divide(m, a, &side[1]);
	return rc < 0 ? rc : compare_tasks(m, &side[0], &side[1], a);
}

/* Time that every comparison takes: opening both networks and all series of runs; a sole device is opened
 * here, and then by the next worker. */
static int64_t least_ns(const struct tune_graph_options *o)
{
	return 2 * (o->net_ns + SERIES * RUNS * o->run_ns + (o->sole ? o->device_ns : 0));
}

/* Time that the comparison takes, including building the kernels that are missing. */
static int64_t need_ns(const struct maker *m)
{
	const struct tune_graph_options *o = m->o;
	int64_t sum_ns = least_ns(o);
	for (int i = 0; i < m->ndiffer; i++)
		if (!made_of(m, m->differ[i]) && !recorded(m, m->differ[i]))
			sum_ns += o->kernel_ns;
	return sum_ns;
}

/* Time that the tasks that differ take in the present division. */
static int64_t stake_ns(const struct maker *m, const struct side *now)
{
	const struct tune_graph_options *o = m->o;
	int64_t sum_ns = 0;
	for (int i = 0; i < o->ntimes; i++)
		if (differs(m, o->time[i].task))
			sum_ns += o->time[i].ns * uses_of(now, o->time[i].task);
	return sum_ns;
}

static bool is_hint(const struct graph_search *x, int i)
{
	return i == x->hint;
}

/* The present choices changed by the i-th alternative. */
static struct choices with_other(const struct graph_search *x, struct arena *a, int i)
{
	const struct choices *o = &x->other[i];
	struct choices both = x->now;
	if (is_hint(x, i))
		return *o;
	for (int k = 0; k < o->n; k++)
		choices_set(&both, a, o->choice[k].kind, o->choice[k].name, o->choice[k].number);
	if (o->n)
		return both;
	struct choices rules = {0};
	choices_set(&rules, a, CHOICE_BYTES, CHOICE_ALL, choices_get(&x->now, CHOICE_BYTES, CHOICE_ALL, -1));
	return rules;
}

/* Compares the two sides. 1: side 1 is better. *saved: share of the time of what differs in side 0. */
static int meet(struct maker *m, struct side side[2], double gain, double *saved)
{
	int rc = m->o->sole ? take_device(m, side) : E_OK;
	if (rc >= 0)
		rc = open_side(m, &side[0]);
	if (rc >= 0)
		rc = open_side(m, &side[1]);
	if (rc >= 0)
		rc = race(m, side, gain);
	if (rc >= 0)
		log_more("division of the graph: %d task%s, %.4f ms against %.4f ms", m->ndiffer,
			 m->ndiffer == 1 ? " differs" : "s differ", (double)side[1].sum_ns / 1e6,
			 (double)side[0].sum_ns / 1e6);
	*saved = rc > 0 ? 1 - (double)side[1].sum_ns / (double)side[0].sum_ns : 0;
	net_close(&side[1].net);
	net_close(&side[0].net);
	give_device_back(m);
	return rc;
}

bool graph_search_takes_bytes(const struct graph_search *x)
{
	return x && x->at < x->n && choices_get(&x->other[x->at], CHOICE_BYTES, CHOICE_ALL, 0) &&
	       !choices_get(&x->now, CHOICE_BYTES, CHOICE_ALL, 0);
}

/* Whether the next alternative leaves one more operator on bytes to portable code. */
static bool leaves_stem(const struct graph_search *x)
{
	const struct choices *o = &x->other[x->at];
	for (int k = 0; k < o->n; k++)
		if (o->choice[k].kind == CHOICE_BYTES && !o->choice[k].number &&
		    choices_get(&x->now, CHOICE_BYTES, o->choice[k].name, 1))
			return true;
	return false;
}

/* Expected share of its stake that the next alternative saves. */
static double expect(const struct graph_search *x)
{
	if (graph_search_takes_bytes(x))
		return BYTES_SHARE;
	return (x->saved + WEIGHT * FIRST_SHARE) / (x->tried + WEIGHT);
}

static bool fits(const struct graph_search *x, int64_t ns)
{
	return !over(&x->o) && clock_now(x->o.clock) + ns <= x->o.deadline_ns;
}

/* Returns the promise of the next alternative; 0: no task differs. */
static double price(struct graph_search *x)
{
	struct arena scratch = {0};
	struct choices both = with_other(x, &scratch, x->at);
	struct side side[2] = {{.choices = &x->now}, {.choices = &both}};
	double promise = 0;
	int rc = divide_both(&x->m, &scratch, side);
	if (rc > 0) {
		int64_t stake = stake_ns(&x->m, &side[0]);
		if (graph_search_takes_bytes(x))
			stake = x->o.run_ns; /* portable code runs most of the network, not tasks */
		x->need_ns = need_ns(&x->m);
		promise = expect(x) * (double)(stake > 0 ? stake : x->o.run_ns) / (double)(x->need_ns + 1);
		if (leaves_stem(x)) /* before its kernel is tuned, which may be in vain */
			promise = 1;
	}
	arena_free(&scratch);
	return promise;
}

/* Removes the hint from the cache once it was compared or cannot be, so that no later box compares it
 * again. */
static int forget_hint(const struct graph_search *x, int rc)
{
	int forgot = chosen_hint_forget(x->o.chosen, x->m.g);
	return forgot < 0 ? forgot : rc;
}

double graph_search_promise(struct graph_search *x)
{
	for (; x && x->at < x->n && fits(x, least_ns(&x->o)); x->at++, x->promise = -1) {
		if (x->promise < 0)
			x->promise = price(x);
		if (x->promise > 0 && fits(x, x->need_ns))
			return x->promise;
		if (x->promise > 0)
			log_more("division of the graph: no time is left to compare another");
		else if (is_hint(x, x->at) && forget_hint(x, E_OK) < 0) /* the hint gives the same division */
			log_more("%s", err_text());
	}
	return 0;
}

int graph_search_next(struct graph_search *x, struct choices *c, struct steps **steps)
{
	struct arena scratch = {0};
	double saved = 0;
	if (graph_search_promise(x) <= 0)
		return 0;
	bool hint = is_hint(x, x->at), bytes = graph_search_takes_bytes(x);
	struct choices both = with_other(x, x->a, x->at++);
	struct side side[2] = {{.choices = &x->now}, {.choices = &both}};
	x->promise = -1;
	int rc = divide_both(&x->m, &scratch, side);
	if (rc > 0)
		rc = meet(&x->m, side, bytes && x->o.tunes ? -BYTES_LOSS : GRAPH_GAIN, &saved);
	arena_free(&scratch);
	x->tried += rc >= 0 && !bytes;
	if (hint && (rc >= 0 || rc == E_UNSUPPORTED || rc == E_CORRUPT || rc == E_CHILD))
		rc = forget_hint(x, rc);
	if (rc == E_TIMEOUT || rc == E_CHILD || rc == E_UNSUPPORTED || rc == E_CORRUPT)
		rc = 0; /* there was no time for it, or the division cannot be made */
	x->saved += bytes ? 0 : saved;
	bool better = rc > 0;
	if (better)
		rc = graph_steps(x->m.g, x->o.chosen->target, &both, x->a, steps);
	if (rc < 0 || !better)
		return rc < 0 ? rc : 0;
	*c = x->now = both;
	return 1;
}

/* Puts strangers' choices before the board's own alternatives, but for that of bytes, which no short box
 * would reach behind them. */
static int put_hint_first(struct graph_search *x)
{
	struct choices hint;
	int rc = chosen_hint(x->o.chosen, x->m.g, x->a, &hint);
	if (rc == E_NOTFOUND || (rc >= 0 && choices_equal(&hint, &x->now)))
		return E_OK;
	struct choices *all = arena_try(x->a, (size_t)x->n + 1, sizeof *all);
	if (rc < 0 || !all)
		return rc < 0 ? rc : E_NOMEM;
	int at = graph_search_takes_bytes(x);
	for (int i = 0; i < x->n; i++)
		all[i + (i >= at)] = x->other[i];
	all[at] = hint;
	x->other = all;
	x->hint = at;
	return ++x->n;
}

int graph_search_open(const struct tune_graph_options *o, struct graph *g, struct runner *r, struct arena *a,
		      const struct choices *c, const struct steps *steps, struct graph_search **out)
{
	struct graph_search *x = ARENA_NEW(a, struct graph_search);
	const struct chosen_for *f = o->chosen;
	struct choices *other = NULL;
	*out = NULL;
	*x = (struct graph_search){.o = *o, .a = a, .now = *c, .promise = -1, .hint = -1};
	x->m = (struct maker){.o = &x->o, .g = g, .runner = r, .device = o->device};
	int rc = cache_source(f->cache, f->target, f->threads, f->level, REC_BEST, &x->m.kept);
	if (rc >= 0)
		rc = cache_source(f->cache, f->target, f->threads, f->level, REC_DEFAULT, &x->m.standard);
	if (rc >= 0)
		rc = x->n = graph_alternatives(g, steps, c, a, &other);
	x->other = other;
	if (rc >= 0)
		rc = put_hint_first(x);
	if (rc < 0)
		graph_search_close(x);
	else
		*out = x;
	return rc < 0 ? rc : E_OK;
}

void graph_search_close(struct graph_search *x)
{
	if (!x)
		return;
	struct runner *r = x->m.runner;
	r->ops->drop(r, -1, x->o.deadline_ns + GRACE_NS);
	cache_source_free(&x->m.kept);
	cache_source_free(&x->m.standard);
	arena_free(&x->m.a);
}
