/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tune_model.h"

#include "agent/history.h"
#include "agent/seeds.h"
#include "agent/tune_graph.h"
#include "agent/tune_net.h"
#include "agent/wire.h"
#include "platform/log.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum {
	AFTER_RUNS = 12,
	RACE_RUNS = 20,  /* of whole networks, kernels timed, */
	RACE_LEAST = 5,  /* or too few to tell tuned kernels from default ones */
	GRAPH_SHARE = 6, /* of the box, a sixth for other divisions of the graph */
	POOR = 6,        /* rooflines that a default schedule takes, at worst */
};

#define LOCK_WAIT_NS NS_PER_S
#define COMMIT_EVERY_NS NS_PER_S
#define PEAKS_AGAIN_NS (10 * NS_PER_S) /* boxes from which a quarter of a second is well spent on them */

struct session {
	const struct tune_options *o;
	struct arena *a; /* the caller's: what the report points to */
	struct tune_report *report;
	struct clock *clock;
	int64_t end_ns;     /* of the box */
	int64_t reserve_ns; /* of its end, for measuring the whole network; */
	int64_t race_ns;    /* of that, for what loses inside it */
	int64_t round_ns;   /* what one round of that is thought to take */
	int64_t least_ns;   /* less than that is too little to begin with it */
	char dir[PATH_MAX];
	struct cache *cache;
	struct target target;
	struct pool *pool;
	struct graph *graph;
	struct chosen_for chosen;
	struct choices choices;
	struct steps *steps;
	int ntasks;
	struct step_task *task;
	struct job_task *job;
	struct net before;                 /* open to the end where it is measured again then */
	enum kernel_origin *before_origin; /* per kernel of it */
	const char **before_name;
	struct runner *runner;
	int64_t committed_ns;
	struct history history;
	bool redivided; /* not the division that the cache gave */
	bool warm;      /* all of the network fits into a core's own cache */
};

static void warn(struct session *s)
{
	if (s->report->warning)
		return;
	s->report->warning = arena_printf(s->a, "results are kept in memory only: %s", err_text());
	log_info("hone: warning: %s", s->report->warning);
}

static int open_cache(struct session *s)
{
	int rc = E_OK;
	if (s->o->cache)
		snprintf(s->dir, sizeof s->dir, "%s", s->o->cache);
	else
		rc = file_cache_dir(s->dir, sizeof s->dir);
	if (rc < 0)
		return rc;
	rc = cache_open(&s->cache, s->dir, false, LOCK_WAIT_NS);
	if (rc != E_IO && rc != E_NOTFOUND)
		return rc;
	warn(s);
	return cache_open_memory(&s->cache, s->dir);
}

static int open_machine(struct session *s)
{
	int rc = open_cache(s);
	if (rc >= 0)
		rc = target_kept(s->dir, s->clock, &s->target);
	if (rc >= 0 && s->o->budget_ns >= PEAKS_AGAIN_NS)
		rc = target_measure_again(s->dir, s->clock, &s->target);
	if (rc >= 0)
		rc = pool_open(&s->pool, s->o->threads, s->o->cpus);
	if (rc < 0)
		return rc;
	s->report->cache = arena_strdup(s->a, s->dir);
	s->report->target =
	    arena_printf(s->a, "%s %s, %d lanes", s->target.soc, s->target.isa, s->target.lanes);
	return E_OK;
}

static int read_model(struct session *s)
{
	const struct import_opts io = {.nbinds = s->o->nbinds, .binds = s->o->binds};
	int rc = import_file(s->o->model, &io, &s->graph);
	if (rc < 0)
		return rc;
	s->chosen = (struct chosen_for){s->cache, &s->target, s->o->threads, s->o->exact};
	rc = chosen_steps(&s->chosen, s->graph, s->a, &s->choices, &s->steps);
	if (rc >= 0)
		rc = s->ntasks = steps_tasks(s->steps, s->a, &s->task);
	s->report->tasks = rc < 0 ? 0 : rc;
	return fail_in(rc, "%s", s->o->model);
}

/* The network with the kernels that a record of `kind` gives today. */
static int open_net(struct session *s, enum rec_kind kind, struct net *n)
{
	struct kernel_source src;
	int rc = cache_source(s->cache, &s->target, s->o->threads, s->o->exact, kind, &src);
	if (rc < 0)
		return rc;
	rc = net_open(n, s->graph, s->steps, &s->target, &src, s->pool, s->clock);
	cache_source_free(&src);
	return rc;
}

static bool stopped(const struct session *s)
{
	return s->o->stop && *s->o->stop;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* What a run with tuned kernels will take at most: what a kernel takes now, or, if that is a fallback, what
 * a poor schedule would. */
static int64_t tuned_run_ns(const struct net *n)
{
	const struct plan_kernel *k;
	int64_t sum_ns = 0;
	plan_kernels(n->plan, &k);
	for (int i = 0; i < n->nkernels; i++) {
		int64_t poor_ns = (int64_t)(POOR * k[i].roofline_ns);
		bool tuned = k[i].origin == FROM_CACHE || poor_ns <= 0;
		sum_ns += tuned ? n->kernel_ns[i] : least(n->kernel_ns[i], poor_ns);
	}
	return sum_ns;
}

/* To give everything back, on a busy machine too. */
static int64_t closing_ns(const struct session *s)
{
	return 40 * NS_PER_MS + s->o->budget_ns / 200;
}

/* Where kernels came from the cache, what was before may be as fast as what comes: a machine that is busier
 * at the end than at the start would pass for a loss. One that is much slower has nothing to fear from that,
 * and its memory is needed. */
static bool worth_measuring_again(const struct net *n)
{
	const struct plan_kernel *k;
	bool cached = false;
	plan_kernels(n->plan, &k);
	for (int i = 0; i < n->nkernels; i++)
		cached |= k[i].origin == FROM_CACHE || k[i].origin == FROM_DEFAULT;
	return cached && net_median_ns(n) <= 4 * tuned_run_ns(n);
}

/* Two plans are built and raced, one is built again, then they run in turns (with the one before, if that
 * takes again_ns > 0): AFTER_RUNS times each, or as often as fits in a small part of the box, but once. */
static void reserve_end(struct session *s, const struct net *n, int64_t again_ns)
{
	int64_t run_ns = tuned_run_ns(n), round_ns = 2 * run_ns + again_ns;
	int64_t some_ns = least(AFTER_RUNS * round_ns, s->o->budget_ns / 25);
	s->race_ns = least(most(20 * NS_PER_MS, RACE_RUNS * 2 * run_ns), s->o->budget_ns / 25);
	int64_t want_ns =
	    100 * NS_PER_MS + closing_ns(s) + 4 * n->build_ns + most(some_ns, 2 * round_ns) + s->race_ns;
	s->reserve_ns = most(least(want_ns, s->o->budget_ns / 3), 100 * NS_PER_MS);
	s->round_ns = round_ns + run_ns + again_ns; /* with kernels timed */
	s->least_ns = 2 * n->build_ns + s->round_ns + closing_ns(s);
}

/* Within a small part of the box, but at least one run with every kernel timed, which warms up. A long one
 * counts as the sample too. What measuring at the end may take is learnt here. */
static int measure_before(struct session *s)
{
	struct net *n = &s->before;
	int64_t limit_ns = clock_now(s->clock) + s->o->budget_ns / 25;
	int rc = open_net(s, REC_BEST, n);
	int64_t start_ns = clock_now(s->clock);
	if (rc >= 0)
		rc = net_run_kernels(n, s->clock);
	if (rc >= 0 && clock_now(s->clock) > limit_ns)
		n->sample_ns[n->nsamples++] = clock_now(s->clock) - start_ns;
	for (int i = 0; rc >= 0 && i < 20 && clock_now(s->clock) < limit_ns && !stopped(s); i++) {
		rc = net_run(n, s->clock);
		if (rc >= 0 && i > 0 && clock_now(s->clock) < limit_ns)
			rc = net_run_kernels(n, s->clock);
	}
	if (rc < 0)
		return rc;
	s->warm = net_fits(n, &s->target);
	s->report->before_ms = (double)net_median_ns(n) / 1e6;
	bool again = worth_measuring_again(n);
	reserve_end(s, n, again ? net_median_ns(n) : 0);
	const struct plan_kernel *k;
	plan_kernels(n->plan, &k);
	s->before_origin = ARENA_ARRAY(s->a, enum kernel_origin, n->nkernels + 1);
	s->before_name = ARENA_ARRAY(s->a, const char *, n->nkernels + 1);
	for (int i = 0; i < n->nkernels; i++) {
		s->before_origin[i] = k[i].origin;
		s->before_name[i] = arena_strdup(s->a, k[i].name);
	}
	if (!again)
		net_close_plan(n);
	return E_OK;
}

static int make_tasks(struct session *s)
{
	struct arena scratch = {0};
	s->job = ARENA_ARRAY(s->a, struct job_task, s->ntasks + 1);
	for (int i = 0; i < s->ntasks; i++) {
		char label[96];
		struct rec r;
		task_label(s->task[i].task, label);
		s->job[i] = (struct job_task){
		    .text = s->task[i].text, .label = arena_strdup(s->a, label), .uses = s->task[i].uses};
		int rc = cache_find_rec(s->cache, s->task[i].key, &s->target, s->o->threads, s->o->exact,
					REC_BEST, &scratch, &r);
		if (rc >= 0)
			s->job[i].incumbent = arena_strdup(s->a, r.cand);
		arena_reset(&scratch);
	}
	arena_free(&scratch);
	return cache_seeds(s->cache, &s->target, s->o->threads, s->o->exact, s->a, s->ntasks, s->job);
}

static struct rec make_rec(const struct session *s, int task, enum rec_kind kind, const char *cand,
			   const struct meas *m, const char *emitter)
{
	struct rec r = {.task = s->task[task].key,
			.kind = (int)kind,
			.target_key = target_key(&s->target),
			.device = "cpu",
			.threads = s->o->threads,
			.exact = s->o->exact,
			.meas = *m,
			.task_text = s->task[task].text,
			.label = s->job[task].label};
	snprintf(r.target, sizeof r.target, "%s %s %d", s->target.soc, s->target.isa, s->target.lanes);
	snprintf(r.emitter, sizeof r.emitter, "%s", emitter);
	snprintf(r.cand, sizeof r.cand, "%s", cand);
	return r;
}

/* Into the cache at once, code before the record that names it. A cache that refuses is no reason to stop: it
 * keeps both in memory. */
static int sink(void *ctx, int task, enum rec_kind kind, const char *cand, const struct meas *m,
		struct blob code)
{
	struct session *s = ctx;
	struct arena scratch = {0};
	struct code c;
	int rc = code_parse(code.p, code.n, &scratch, &c);
	if (rc >= 0) {
		struct rec r = make_rec(s, task, kind, cand, m, c.m.version);
		rc = cache_put(s->cache, CACHE_CODE, code_key(&r), code.p, code.n);
		int put = rc < 0 && rc != E_IO ? rc : cache_put_rec(s->cache, &r);
		rc = put < 0 ? put : rc;
		s->report->kept += put >= 0;
	}
	arena_free(&scratch);
	int64_t now_ns = clock_now(s->clock);
	if (rc >= 0 && now_ns - s->committed_ns > COMMIT_EVERY_NS) {
		rc = cache_commit(s->cache);
		s->committed_ns = now_ns;
	}
	if (rc == E_IO)
		warn(s);
	return rc == E_IO ? E_OK : rc;
}

static void pass_progress(void *ctx, const struct job_progress *p)
{
	struct session *s = ctx;
	double at_ms = (double)clock_since_start(s->clock) / 1e6;
	if (p->measured == p->ntasks) /* before that the sum grows with every task that is met */
		history_add(&s->history, (struct history_point){at_ms, p->trials, p->now_ms});
	if (s->o->progress)
		s->o->progress(s->o->ctx, p);
}

static int put_history(struct session *s)
{
	struct buf text = {0};
	history_text(&s->history, &text);
	struct key k = history_key(s->graph, &s->target, s->o->threads, s->o->exact);
	int rc = buf_ok(&text) ? cache_put(s->cache, CACHE_HISTORY, k, text.p, text.n)
			       : fail(E_NOMEM, "no memory for the history");
	buf_free(&text);
	return rc;
}

/* The division of the graph is kept even where it is the one by rules, so that another number of threads does
 * not decide for this one. A new one waits until it has kernels: with fewer, the old one runs faster. */
static int put_choices(struct session *s, const struct job_result *result)
{
	for (int i = 0; s->redivided && i < s->ntasks; i++)
		if (!result[i].best[0])
			return E_OK;
	return chosen_save(&s->chosen, s->graph, &s->choices);
}

/* All that was found is durable before the network is measured. */
static int save(struct session *s, const struct job_result *result)
{
	int rc = put_history(s);
	if (rc >= 0)
		rc = put_choices(s, result);
	if (rc >= 0)
		rc = cache_commit(s->cache);
	if (rc == E_IO) {
		warn(s);
		rc = E_OK;
	}
	return rc;
}

/* Other divisions of the graph, in a part of the box. */
static int divide(struct session *s)
{
	int64_t left_ns = s->end_ns - s->reserve_ns - clock_now(s->clock);
	const struct tune_graph_options o = {.chosen = &s->chosen,
					     .pool = s->pool,
					     .clock = s->clock,
					     .deadline_ns = clock_now(s->clock) + left_ns / GRAPH_SHARE,
					     .stop = s->o->stop};
	int rc = tune_graph(&o, s->graph, s->runner, s->a, &s->choices, &s->steps);
	if (rc > 0) {
		s->redivided = true;
		s->report->kept++;
		rc = s->ntasks = steps_tasks(s->steps, s->a, &s->task);
	}
	s->report->tasks = s->ntasks;
	return rc;
}

static int tune(struct session *s)
{
	const struct job j = {.ntasks = s->ntasks,
			      .task = s->job,
			      .strategy = s->report->strategy,
			      .exact = s->o->exact,
			      .warm = s->warm,
			      .seed = s->o->seed,
			      .deadline_ns = s->end_ns - s->reserve_ns,
			      .stop = s->o->stop,
			      .ctx = s,
			      .sink = sink,
			      .progress = pass_progress};
	struct job_result *result = ARENA_ARRAY(s->a, struct job_result, s->ntasks + 1);
	int rc = job_run(&j, s->runner, result);
	if (rc < 0)
		return rc;
	s->report->trials = rc;
	return save(s, result);
}

/* The kernel of this name in the network before, looked for from `from` on; -1: the graph had none. */
static int before_of(const struct session *s, const char *name, int from)
{
	int n = s->before.nkernels;
	for (int i = 0; i < n; i++)
		if (!strcmp(s->before_name[(from + i) % n], name))
			return (from + i) % n;
	return -1;
}

static void make_rows(struct session *s, struct net *after)
{
	const struct plan_kernel *k;
	int n = plan_kernels(after->plan, &k), threads = s->o->threads;
	struct tune_kernel *row = ARENA_ARRAY(s->a, struct tune_kernel, n + 1);
	for (int i = 0, j = 0; i < n; i++, j++) {
		int b = before_of(s, k[i].name, j);
		j = b < 0 ? j : b;
		row[i] = (struct tune_kernel){.name = arena_strdup(s->a, k[i].name),
					      .label = arena_strdup(s->a, k[i].label),
					      .after = k[i].origin,
					      .before = b >= 0 ? s->before_origin[b] : FROM_FALLBACK,
					      .before_ns = b >= 0 ? s->before.kernel_ns[b] : 0,
					      .after_ns = after->kernel_ns[i]};
		if (row[i].after_ns > 0)
			row[i].roofline = k[i].roofline_ns / threads / (double)row[i].after_ns;
	}
	s->report->nkernels = n;
	s->report->kernel = row;
}

/* One run of each network that is open; before and after with their kernels timed too. */
static int run_round(struct session *s, struct net *standard, struct net *after, bool timed)
{
	struct net *const turn[] = {&s->before, standard, after};
	int rc = E_OK;
	for (int i = 0; i < 3 && rc >= 0; i++) {
		if (!turn[i]->plan)
			continue;
		rc = net_warm(turn[i], &s->target);
		if (rc >= 0)
			rc = net_run(turn[i], s->clock);
		if (rc >= 0 && timed && turn[i] != standard)
			rc = net_run_kernels(turn[i], s->clock);
	}
	return rc;
}

/* Until the box ends, or as long as was reserved, if the search ended early. */
static int run_rounds(struct session *s, struct net *standard, struct net *after)
{
	int64_t until_ns = least(s->end_ns - closing_ns(s), clock_now(s->clock) + s->reserve_ns);
	int64_t round_ns = s->round_ns, deadline_ns = s->end_ns - closing_ns(s) / 2;
	int rc = E_OK;
	plan_deadline(standard->plan, s->clock, deadline_ns);
	plan_deadline(after->plan, s->clock, deadline_ns);
	if (s->before.plan) {
		plan_deadline(s->before.plan, s->clock, deadline_ns);
		net_forget(&s->before);
	}
	for (int i = 0; rc >= 0 && clock_now(s->clock) + round_ns < until_ns; i++) {
		int64_t start_ns = clock_now(s->clock);
		rc = run_round(s, standard, after, i < 3 || i % 4 == 0);
		round_ns = stopped(s) ? INT64_MAX / 2 : most(round_ns, clock_now(s->clock) - start_ns);
	}
	return rc == E_TIMEOUT ? E_OK : rc; /* what was measured until then counts */
}

static int timed_run(struct session *s, struct net *n)
{
	int rc = net_warm(n, &s->target);
	return rc < 0 ? rc : net_run_kernels(n, s->clock);
}

/* > 0: what lost to default kernels inside the network went back to them. */
static int race_inside(struct session *s, struct net *standard, struct net *best)
{
	struct arena scratch = {0};
	struct served *served;
	int64_t until_ns = clock_now(s->clock) + s->race_ns;
	int rc = E_OK, runs = 0;
	for (; rc >= 0 && clock_now(s->clock) < until_ns && !stopped(s); runs++) {
		rc = timed_run(s, standard);
		if (rc >= 0)
			rc = timed_run(s, best);
	}
	if (rc < 0 || runs < RACE_LEAST || stopped(s))
		return rc;
	rc = net_served(standard, best, s->steps, &scratch, &served);
	if (rc >= 0)
		rc = revert(s->cache, &s->target, s->o->threads, s->o->exact, rc, served);
	arena_free(&scratch);
	s->report->reverted = rc > 0 ? rc : 0;
	if (rc > 0)
		rc = cache_commit(s->cache);
	if (rc == E_IO) { /* the cache has it in memory */
		warn(s);
		rc = E_OK;
	}
	return rc < 0 ? rc : s->report->reverted;
}

static int open_raced(struct session *s, struct net *standard, struct net *after)
{
	int rc = open_net(s, REC_DEFAULT, standard);
	if (rc >= 0)
		rc = open_net(s, REC_BEST, after);
	if (rc < 0 || clock_now(s->clock) + s->race_ns + s->least_ns > s->end_ns)
		return rc;
	rc = race_inside(s, standard, after);
	if (rc <= 0)
		return rc;
	net_close(after);
	return open_net(s, REC_BEST, after);
}

/* What was before, default schedules and the best, interleaved. Nothing is measured where a busy machine left
 * no time for it, or after a signal. */
static int measure_after(struct session *s)
{
	struct net standard = {0}, after = {0};
	if (stopped(s) || clock_now(s->clock) + s->least_ns > s->end_ns)
		return E_OK;
	int rc = open_raced(s, &standard, &after);
	if (rc >= 0)
		rc = run_rounds(s, &standard, &after);
	if (rc >= 0 && after.nsamples) {
		s->report->interleaved = s->before.plan != NULL;
		if (s->before.plan)
			s->report->before_ms = (double)net_median_ns(&s->before) / 1e6;
		s->report->default_ms = (double)net_median_ns(&standard) / 1e6;
		s->report->after_ms = (double)net_median_ns(&after) / 1e6;
		make_rows(s, &after);
	}
	net_close(&after);
	net_close(&standard);
	return rc;
}

static void close_worker(struct session *s)
{
	if (s->runner)
		s->runner->ops->close(s->runner);
	s->runner = NULL;
}

static void close_session(struct session *s)
{
	net_close(&s->before);
	if (s->graph)
		graph_free(s->graph);
	if (s->pool)
		pool_close(s->pool);
	cache_close(s->cache);
}

int tune_model(const struct tune_options *o, struct arena *a, struct tune_report *out)
{
	struct session s = {.o = o, .a = a, .report = out, .clock = &clock_real};
	*out = (struct tune_report){.strategy = o->strategy ? o->strategy : "evolve",
				    .budget_s = (double)o->budget_ns / 1e9};
	s.end_ns = clock_now(s.clock) - clock_since_start(s.clock) + o->budget_ns;
	int rc = open_machine(&s);
	if (rc >= 0)
		rc = read_model(&s);
	if (rc >= 0)
		rc = measure_before(&s);
	if (rc >= 0)
		rc = runner_worker(o->worker, "cpu", &s.target, o->threads, &s.runner);
	if (rc >= 0)
		rc = divide(&s);
	if (rc >= 0)
		rc = make_tasks(&s);
	if (rc >= 0)
		rc = tune(&s);
	close_worker(&s);
	if (rc >= 0)
		rc = measure_after(&s);
	close_session(&s);
	out->stopped = stopped(&s);
	out->elapsed_s = (double)clock_since_start(s.clock) / 1e9;
	return rc < 0 ? rc : E_OK;
}
