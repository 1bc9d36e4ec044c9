/* SPDX-License-Identifier: Apache-2.0 */
/* A box from the reading of its model to its last commit. Past 800 lines because each step works on the one
 * session, and hands the next one its tasks, its results and the time that is left. */
#include "agent/run/image.h"
#include "agent/tune/tune_parts.h"

#include "agent/cache/hint.h"
#include "agent/cache/kept_code.h"
#include "agent/cache/lookup.h"
#include "agent/cache/own.h"
#include "agent/run/plan_device.h"
#include "agent/worker/marked.h"
#include "agent/worker/replay.h"
#include "agent/cache/seeds.h"
#include "agent/cache/stale.h"
#include "agent/tune/tune_graph.h"
#include "kernels/graph/weights.h"
#include "kernels/onnx/cut_off.h"
#include "kernels/group/alternatives.h"
#include "kernels/library/library.h"
#include "kernels/task/task_stage.h"
#include "agent/worker/wire.h"
#include "platform/run/dev.h"
#include "platform/base/log.h"
#include "platform/machine/room.h"
#include "search/strategy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A turn tunes the tasks until none promises more than this share of what the next division promises. The
 * share is below 1 because changing between the two costs 50 to 100 ms. */
#define TURN 0.5
#define LEAST_TURN_NS (300 * NS_PER_MS)
#define LEAST_SEARCH_NS (120 * NS_PER_MS)
#define COMMIT_EVERY_NS NS_PER_S
enum { LAST_COMMITS = 3 };  /* of the search, of what lost in the network, and of the gain */
enum { COMMIT_SHARE = 10 }; /* commits take at most a tenth of the time, so slow flash is synced less often */
/* in shorter boxes the first division is all that can be tuned */
#define LEAST_TO_DIVIDE_NS (10 * NS_PER_S)
void tune_warn(struct session *s)
{
	if (s->report->warning)
		return;
	s->report->warning = arena_printf(s->a, "results are kept in memory only: %s", err_text());
	log_info("hone: warning: %s", s->report->warning);
}

/* Logs with -v how the seconds of a box are spent. */
static int mark(const struct session *s, int rc, const char *what)
{
	log_more("%.3f s: %s", (double)clock_since_start(s->clock) / 1e9, what);
	return rc;
}

/* Changes no file. */
static int read_model(struct session *s)
{
	struct buf notes = {0};
	const struct import_opts io = {.nbinds = s->o->nbinds,
				       .binds = s->o->binds,
				       .shape_option = s->o->shape_option,
				       .all_bytes = &s->all_bytes,
				       .notes = &notes};
	int rc = tune_tell_lasting(s, image_is_no_model(s->o->model));
	if (rc >= 0)
		rc = tune_machine_name(s);
	s->times.reading_ns = clock_now(s->clock);
	if (rc >= 0)
		rc = tune_tell_lasting(
		    s, cut_off_explain(s->o->model, import_file(s->o->model, &io, &s->model.graph)));
	if (rc >= 0 && notes.n && !s->o->said_notes)
		log_info("%s: %s", s->o->model, buf_str(&notes));
	buf_free(&notes);
	const char *odd =
	    rc >= 0 && !s->o->said_notes && !leash_is_child() ? weights_odd(s->model.graph, s->a) : NULL;
	if (odd)
		log_info("hone: warning: %s: %s", s->o->model, odd);
	return rc == E_TIMEOUT ? tune_too_short(s) : rc;
}

/* Memory that running the network takes besides the graph: its values, the caller's copies of inputs and
 * outputs, and packed weights. */
static int64_t network_bytes(const struct session *s)
{
	const struct graph *g = s->model.graph;
	int64_t bytes = s->model.steps->peak_bytes;
	for (int i = 0; i < g->nvalues; i++) {
		const struct value *v = &g->value[i];
		if (v->is_input || v->is_output || v->t.data)
			bytes += shape_count(&v->t.shape) * (int64_t)dtype_bytes(v->t.dtype);
	}
	return bytes;
}

/* A network that does not fit into the memory would not fail, but bring down the board. */
static int check_memory(const struct session *s)
{
	const char *root = getenv("HONE_SYSROOT");
	int64_t need = network_bytes(s), room = room_bytes(root ? root : "");
	if (need <= room)
		return E_OK;
	return fail(E_NOMEM,
		    "%s: running this network takes %.1f GB of memory, and %.1f GB are free; give smaller "
		    "sizes with %sNAME=DIMS, or free some",
		    s->o->model, (double)need / 1e9, (double)room / 1e9,
		    s->o->shape_option ? s->o->shape_option : "--shape ");
}

/* The number of tasks for which the cache has a kernel, as find_incumbent takes it. */
static int count_cached(const struct session *s)
{
	struct arena scratch = {0};
	struct rec r;
	int n = 0;
	for (int i = 0; i < s->ntasks; i++) {
		n += cache_find_rec(s->store.cache, s->task[i].key, &s->target, s->o->threads, s->o->level,
				    REC_BEST, &scratch, &r) >= 0;
		arena_reset(&scratch);
	}
	arena_free(&scratch);
	return n;
}

static int divide_model(struct session *s)
{
	s->model.chosen = (struct chosen_for){s->store.cache, &s->target, s->o->threads, s->o->level};
	int rc = chosen_steps(&s->model.chosen, s->model.graph, s->a, &s->model.choices, &s->model.steps);
	if (rc >= 0)
		rc = s->ntasks = steps_tasks(s->model.steps, s->a, &s->task);
	s->report->tasks = rc < 0 ? 0 : rc;
	s->report->cached = rc < 0 ? 0 : count_cached(s);
	s->report->untunable =
	    rc == 0 && !steps_leave_bytes(s->model.graph, s->model.steps, &s->model.choices);
	return rc < 0 ? fail_in(rc, "%s", s->o->model) : check_memory(s);
}

/* How tasks of the box begin. */
struct begins {
	int stale; /* with a kernel of the cache that has to be timed again */
	int hints; /* with what another board found */
};

/* Takes the cache's record of task i as the incumbent; without one, the box begins with a stranger's hint.
 * Returns whether the incumbent is to be timed even in an estimate. */
static bool find_incumbent(struct session *s, int i, struct begins *count)
{
	struct arena scratch = {0};
	struct rec r;
	enum stale stale = STALE_NOT;
	bool hint = false;
	int rc = cache_find_rec(s->store.cache, s->task[i].key, &s->target, s->o->threads, s->o->level,
				REC_BEST, &scratch, &r);
	if (rc >= 0)
		rc = tune_libraries_own(s, i, &scratch, &r);
	if (rc >= 0) {
		s->job[i].incumbent = arena_strdup(s->a, r.cand);
		s->job[i].codeless = !cache_has_code(s->store.cache, &s->target, &r);
		if (!s->turns) /* a record found later was made by this box */
			stale = stale_rec(s->store.cache, &r, &s->target, s->runner->emitter);
	} else if (hint_find(s->store.cache, s->task[i].key, target_key(&s->target),
			     target_device(&s->target), s->o->threads, s->o->level, &scratch, &r) >= 0) {
		s->job[i].incumbent = arena_strdup(s->a, r.cand);
		s->job[i].codeless = true;
		s->job[i].claim_ns = hint_claim_ns(&r);
		hint = true;
		log_more("%s: begins with a hint of another board", s->job[i].label);
	}
	if (stale)
		log_more("%s: stale: %s", s->job[i].label, stale_words(stale));
	count->stale += stale != STALE_NOT;
	count->hints += hint;
	arena_free(&scratch);
	return stale || hint;
}

/* Time of what runs the task in the network as it was measured before, if nothing but built-in kernels does;
 * 0: not known. */
static int64_t time_now(const struct session *s, struct key task)
{
	for (int i = 0; i < s->start.nbuilt_in; i++)
		if (key_equal(s->start.built_in[i].task, task))
			return s->start.built_in[i].ns;
	return 0;
}

/* Whether f16 holds the weights of all steps that do the task. */
static bool holds_f16(const struct session *s, const struct task *t)
{
	const struct steps *all = s->model.steps;
	for (int i = 0; i < all->nsteps; i++)
		if (all->step[i].kind == STEP_TASK && all->step[i].task == t &&
		    !step_holds_f16(s->model.graph, all, &all->step[i]))
			return false;
	return true;
}

/* For an estimate, tasks that have a kernel in the cache are left out, unless its record is stale. */
static int make_tasks(struct session *s)
{
	int n = 0;
	struct begins count = {0};
	s->job = ARENA_ARRAY(s->a, struct job_task, s->ntasks + 1);
	for (int i = 0; i < s->ntasks; i++) {
		char label[96];
		task_label(s->task[i].task, label);
		s->task[n] = s->task[i];
		s->job[n] =
		    (struct job_task){.text = s->task[i].text,
				      .label = arena_strdup(s->a, label),
				      .uses = s->task[i].uses,
				      .now_ns = time_now(s, s->task[i].key),
				      .f32 = level_f16(s->o->level) && !holds_f16(s, s->task[i].task)};
		int rc = tune_libraries_offer(s, n);
		if (rc < 0)
			return rc;
		bool timed = find_incumbent(s, n, &count);
		n += s->o->rigor != RIGOR_ESTIMATE || timed || !s->job[n].incumbent;
	}
	s->ntasks = n;
	if (!s->turns++) {
		s->report->stale = count.stale;
		s->report->hints = count.hints;
	}
	int rc = cache_seeds(s->store.cache, &s->target, s->o->threads, s->o->level, s->a, s->ntasks, s->job);
	tune_apart_tasks(s);
	return rc;
}

static struct rec make_rec(const struct session *s, int task, enum rec_kind kind, const char *cand,
			   const struct meas *m, const char *emitter)
{
	struct rec r = {.task = s->task[task].key,
			.kind = (int)kind,
			.target_key = target_key(&s->target),
			.threads = s->o->threads,
			.level = s->o->level,
			.meas = *m,
			.task_text = s->task[task].text,
			.label = s->job[task].label};
	target_label(&s->target, r.target);
	strcpy(r.device, target_device(&s->target));
	snprintf(r.emitter, sizeof r.emitter, "%s", emitter);
	snprintf(r.cand, sizeof r.cand, "%s", cand);
	return r;
}

/* A candidate that came from a hint in an earlier box still does when it is measured again. */
static enum rec_origin find_origin(const struct session *s, const struct rec *r)
{
	struct arena scratch = {0};
	struct rec old;
	bool hint = tune_is_foreign(s, r->task_text, r->cand) ||
		    (cache_get_rec(s->store.cache, rec_key(r), &scratch, &old) >= 0 &&
		     old.origin == ORIGIN_HINT && !strcmp(old.cand, r->cand));
	arena_free(&scratch);
	return r->kind != REC_DEFAULT && hint ? ORIGIN_HINT
	       : r->meas.throttled            ? ORIGIN_THROTTLED
					      : ORIGIN_SEARCH;
}

/* Decides when the next commit is due, and how much of the box those at its end need. Some commits have
 * nothing to write, so the longest of the last ones counts. */
static void note_commit(struct session *s, int64_t began_ns, int64_t took_ns)
{
	struct box_store *b = &s->store;
	int64_t before_ns = b->commit_ns - b->commit_ns / 4, rest_ns = (COMMIT_SHARE - 1) * took_ns;
	b->commit_ns = took_ns > before_ns ? took_ns : before_ns;
	b->commit_at_ns = began_ns + took_ns + (rest_ns > COMMIT_EVERY_NS ? rest_ns : COMMIT_EVERY_NS);
	s->times.commit_ns = tune_commit_ns(s);
	s->times.commits_ns = LAST_COMMITS * s->times.commit_ns;
}

/* Whether the cache has another kernel for what the record is of, or the same with a time that no throttling
 * changed. */
static bool has_better(const struct session *s, const struct rec *r)
{
	struct arena scratch = {0};
	struct rec old;
	bool has = cache_get_rec(s->store.cache, rec_key(r), &scratch, &old) >= 0 &&
		   (old.origin != ORIGIN_THROTTLED || strcmp(old.cand, r->cand));
	arena_free(&scratch);
	return has;
}

/* Puts a result into the cache at once, the code before the record that names it. A cache that cannot be
 * written is no reason to stop: it keeps both in memory. */
static int keep(struct session *s, int task, enum rec_kind kind, const char *cand, const struct meas *m,
		struct blob code)
{
	struct arena scratch = {0};
	struct code c;
	int rc = code_parse(code.p, code.n, &scratch, &c);
	if (rc >= 0) {
		struct rec r = make_rec(s, task, kind, cand, m, c.m.version);
		r.origin = find_origin(s, &r);
		if (m->throttled && (r.origin == ORIGIN_HINT || has_better(s, &r))) {
			log_more("%s: %s is not kept: timed while the device began or ceased to throttle",
				 r.label, cand);
			arena_free(&scratch);
			return E_OK;
		}
		own_keep(s->store.cache, &r);
		rc = kept_code_put(s->store.cache, &r, code);
		int put = rc < 0 && rc != E_IO ? rc : cache_put_rec(s->store.cache, &r);
		rc = put < 0 ? put : rc;
		s->report->kept += put >= 0 && !s->o->unkept;
		tune_publish_kept(s);
		/* the code is too large for a small cache: the search goes on without it */
		if (rc == E_UNSUPPORTED) {
			log_info("hone: %s", err_text());
			rc = E_OK;
		}
	}
	arena_free(&scratch);
	int64_t now_ns = clock_now(s->clock);
	if (rc >= 0 && now_ns >= s->store.commit_at_ns) {
		rc = cache_hand_over(s->store.cache);
		note_commit(s, now_ns, clock_now(s->clock) - now_ns);
	}
	if (rc == E_IO)
		tune_warn(s);
	return rc == E_IO ? E_OK : rc;
}

static int sink(void *ctx, int task, bool best, const char *cand, const struct meas *m, struct blob code)
{
	return keep(ctx, task, best ? REC_BEST : REC_DEFAULT, cand, m, code);
}

static int sink_own(void *ctx, int task, const char *cand, const struct meas *m, struct blob code)
{
	return keep(ctx, task, REC_OWN, cand, m, code);
}

static void pass_progress(void *ctx, const struct job_progress *p)
{
	struct session *s = ctx;
	struct job_progress all = *p;
	all.trials += s->report->trials; /* trials of the job before */
	double at_ms = (double)(clock_since_start(s->clock) - s->o->waited_ns) / 1e6;
	if (p->measured == p->ntasks && !s->model.trial) /* before that the sum grows with every new task */
		history_add(&s->store.history, (struct history_point){at_ms, all.trials, p->now_ms});
	tune_rows_update(s);
	tune_publish(s, all.trials);
	tune_say_progress(s, &all);
	if (s->o->progress)
		s->o->progress(s->o->ctx, &all);
}

static int put_history(struct session *s)
{
	struct buf text = {0};
	history_text(&s->store.history, &text);
	struct key k = history_key(s->model.graph, &s->target, s->o->threads, s->o->level);
	int rc = buf_ok(&text) ? cache_put(s->store.cache, CACHE_HISTORY, k, text.p, text.n)
			       : fail(E_NOMEM, "no memory for the history");
	buf_free(&text);
	return rc;
}

/* Keeps the division of the graph even if it is the one by rules, so that another number of threads does not
 * decide for this one. A new division is kept only once all its tasks have kernels, because with fewer the
 * old one runs faster. */
static int put_choices(struct session *s, const struct job_result *result)
{
	if (s->model.trial)
		return E_OK;
	for (int i = 0; s->model.redivided && i < s->ntasks; i++)
		if (!result[i].best[0])
			return E_OK;
	return chosen_save(&s->model.chosen, s->model.graph, &s->model.choices);
}

/* All results are durable before the network is measured; through honed, at the end of the box at the
 * latest. */
static int save(struct session *s, const struct job_result *result)
{
	int rc = put_history(s);
	if (rc >= 0)
		rc = tune_log_put(s);
	if (rc >= 0)
		rc = put_choices(s, result);
	if (rc >= 0)
		rc = cache_hand_over(s->store.cache);
	if (rc == E_IO) {
		tune_warn(s);
		rc = E_OK;
	}
	return rc;
}

/* Adds the time since *from_ns to *on; *from_ns becomes now. */
static void spend(struct session *s, int64_t *on, int64_t *from_ns)
{
	int64_t now_ns = clock_now(s->clock);
	*on += now_ns - *from_ns;
	*from_ns = now_ns;
}

/* Time of the whole network if each task runs its best kernel; 0: some task has no time. */
static int64_t run_ns(const struct session *s)
{
	int64_t sum_ns = 0;
	for (int i = 0; i < s->ntasks; i++) {
		if (!s->result[i].best_ns)
			return 0;
		sum_ns += s->result[i].best_ns * s->job[i].uses;
	}
	return sum_ns;
}

static const struct graph_time *task_times(const struct session *s)
{
	struct graph_time *t = ARENA_ARRAY(s->a, struct graph_time, s->ntasks + 1);
	for (int i = 0; i < s->ntasks; i++)
		t[i] = (struct graph_time){s->task[i].key, s->result[i].best_ns};
	return t;
}

/* Whether portable code runs quantised operators that kernels could run. */
static bool leaves_bytes(const struct session *s)
{
	return !s->model.bytes.refused &&
	       steps_leave_bytes(s->model.graph, s->model.steps, &s->model.choices);
}

static bool estimates(const struct session *s)
{
	return s->o->rigor == RIGOR_ESTIMATE;
}

/* Whether the box is long enough for other divisions of the graph than that of quantised operators. */
static bool divides(const struct session *s)
{
	return !estimates(s) && s->o->budget_ns >= LEAST_TO_DIVIDE_NS;
}

/* Time of the network as it was; if its first run was cut off, of what ran. */
static int64_t portable_ns(const struct session *s)
{
	const struct net *n = &s->start.net;
	int64_t ns = net_median_ns(n), sum_ns = 1;
	for (int i = 0; i < n->nkernels; i++)
		sum_ns += n->kernel_ns[i];
	return ns > 0 ? ns : sum_ns;
}

/* *out NULL: the time of the whole network is not known, because some task has no kernel. */
static int open_divisions(struct session *s, struct graph_search **out)
{
	const struct tune_graph_options o = {.chosen = &s->model.chosen,
					     .pool = s->pool,
					     .device = s->device,
					     .sole = s->sole ? s->o->device : NULL,
					     .device_ns = s->device_ns,
					     .clock = s->clock,
					     .deadline_ns = tune_search_end_ns(s),
					     .kernel_ns =
						 s->times.defaults_ns / (s->ntasks + s->model.bytes.n + 1),
					     .net_ns = s->start.net.build_ns,
					     .run_ns = leaves_bytes(s) ? portable_ns(s) : run_ns(s),
					     .tunes = divides(s),
					     .ntimes = s->ntasks,
					     .time = task_times(s),
					     .stop = s->o->stop,
					     .leash = s->store.leash};
	*out = NULL;
	return o.run_ns || leaves_bytes(s) ? graph_search_open(&o, s->model.graph, s->runner, s->a,
							       &s->model.choices, s->model.steps, out)
					   : E_OK;
}

/* The highest promise of any task's next slice. */
static double task_promise(const struct session *s)
{
	double most = 0;
	for (int i = 0; i < s->ntasks; i++)
		most = s->result[i].promise > most ? s->result[i].promise : most;
	return most;
}

/* Compares other divisions of the graph, as long as they promise more than the tasks; first that of quantised
 * operators, in any case. Ends when these have become tasks: the alternatives are others then. */
static int divide(struct session *s, struct graph_search *x)
{
	double least = task_promise(s);
	bool bytes = leaves_bytes(s);
	int rc = E_OK;
	for (double p = graph_search_promise(x); rc >= 0 && p > 0 && bytes == leaves_bytes(s);
	     p = graph_search_promise(x)) {
		if (!graph_search_takes_bytes(x) && (p < least || !divides(s)))
			break;
		rc = graph_search_next(x, &s->model.choices, &s->model.steps);
		if (rc > 0) {
			s->model.redivided = true;
			s->report->kept += !s->o->unkept;
		}
	}
	if (rc >= 0 && s->model.redivided)
		rc = s->ntasks = steps_tasks(s->model.steps, s->a, &s->task);
	s->report->tasks = s->ntasks;
	return rc;
}

static int run_job(struct session *s, bool defaults_only, double least)
{
	const struct job j = {.ntasks = s->ntasks,
			      .task = s->job,
			      .search.strategy = s->report->strategy,
			      .search.cost = s->o->cost,
			      .search.share = s->share,
			      .search.level = s->o->level,
			      .search.warm = s->model.warm,
			      .search.seed = s->o->seed,
			      .limits.deadline_ns = s->times.end_ns - s->times.reserve_ns, /* less held_ns */
			      .limits.missing_by_ns = s->times.missing_by_ns,
			      .limits.held_ns = &s->times.commits_ns,
			      .limits.missing_held_ns = &s->times.commit_ns,
			      .limits.offer_ns = tune_libraries_ns(s),
			      .limits.defaults_only = defaults_only,
			      .limits.quick = s->o->rigor == RIGOR_QUICK,
			      .limits.least = least,
			      .limits.stop = s->o->stop,
			      .calls.ctx = s,
			      .calls.sink = sink,
			      .calls.sink_own = sink_own,
			      .calls.progress = pass_progress,
			      .calls.tried = tune_log_add,
			      .spent = &s->report->spent.job};
	s->result = ARENA_ARRAY(s->a, struct job_result, s->ntasks + 1);
	tune_rows_make(s);
	int rc = job_run(&j, s->runner, s->result);
	s->report->trials += rc < 0 ? 0 : rc;
	tune_rows_make(s); /* fused tasks that found no kernel run in parts */
	return rc < 0 ? rc : save(s, s->result);
}

/* Passes on the results of the tasks that the job before had too. */
static void go_on_from(struct session *s, int nbefore, const struct job_task *before,
		       const struct job_result *result)
{
	for (int i = 0; i < s->ntasks; i++)
		for (int k = 0; k < nbefore; k++)
			if (!strcmp(s->job[i].text, before[k].text))
				s->job[i].earlier = &result[k];
}

static int search(struct session *s, bool defaults_only, double least)
{
	int rc = tune_log_open(s);
	return rc < 0 ? rc : run_job(s, defaults_only, least);
}

static void add_spent(struct job_spent *to, const struct job_spent *s)
{
	to->build_ns += s->build_ns;
	to->wait_ns += s->wait_ns;
	to->check_ns += s->check_ns;
	to->time_ns += s->time_ns;
	to->race_ns += s->race_ns;
	to->offer_ns += s->offer_ns;
	to->ahead_ns += s->ahead_ns;
}

/* Compares divisions as long as they promise more than the tasks, then tunes the tasks as long as they
 * promise more. 0: the tasks were tuned to their end; 1: they were not. */
static int tune_turn(struct session *s, struct graph_search *x, int64_t *now_ns)
{
	int n = s->ntasks;
	const struct job_task *before = s->job;
	const struct job_result *result = s->result;
	const struct job_spent spent = s->report->spent.job;
	bool bytes = leaves_bytes(s);
	tune_log_close(s);
	int rc = mark(s, divide(s, x), "divisions of the graph were compared");
	spend(s, &s->report->spent.graph_ns, now_ns);
	if (rc >= 0)
		rc = make_tasks(s);
	if (rc < 0)
		return rc;
	go_on_from(s, n, before, result);
	go_on_from(s, s->model.bytes.n, s->model.bytes.job, s->model.bytes.result);
	bool more = divides(s) && s->o->rigor != RIGOR_QUICK;
	bool others =
	    more && bytes != leaves_bytes(s); /* the alternatives are others now: compare them first */
	double least = more ? TURN * graph_search_promise(x) : 0;
	rc = search(s, estimates(s) || others, least);
	add_spent(&s->report->spent.job, &spent);
	*now_ns = clock_now(s->clock);
	return rc < 0 ? rc : least > 0 || others;
}

static bool reads_bytes(const struct steps *s)
{
	for (int i = 0; i < s->nsteps; i++)
		if (s->step[i].kind == STEP_TASK && !task_floats(s->step[i].task))
			return true;
	return false;
}

/* Whether every task of the last job has a kernel. */
static bool all_kernels(const struct session *s)
{
	for (int i = 0; i < s->ntasks; i++)
		if (!s->result[i].best[0])
			return false;
	return true;
}

/* Runs a job that makes the default kernels of another division's tasks. */
static int try_division(struct session *s)
{
	int n = s->ntasks, rc = s->ntasks = steps_tasks(s->model.steps, s->a, &s->task);
	const struct job_task *before = s->job;
	const struct job_result *result = s->result;
	if (rc >= 0)
		rc = make_tasks(s);
	if (rc < 0)
		return rc;
	go_on_from(s, n, before, result);
	return search(s, true, 0);
}

/* Makes the default kernels of the tasks that quantised operators could be. Divisions are then compared with
 * these kernels, and if the tasks win, the next job goes on from this one. A division that cannot be made, or
 * has a task without a kernel, is not compared. */
static int make_byte_kernels(struct session *s)
{
	const struct box_model now = s->model;
	struct step_task *task = s->task;
	struct job_task *job = s->job;
	struct job_result *result = s->result;
	struct box_bytes *b = &s->model.bytes;
	int n = s->ntasks;
	choices_set(&s->model.choices, s->a, CHOICE_BYTES, CHOICE_ALL, 1);
	s->model.trial = true;
	tune_log_close(s);
	int rc = graph_steps(s->model.graph, &s->target, &s->model.choices, s->a, &s->model.steps);
	bool any = rc >= 0 && reads_bytes(s->model.steps);
	if (any)
		rc = try_division(s);
	tune_log_close(s);
	*b = any && rc >= 0 ? (struct box_bytes){s->ntasks, s->job, s->result, !all_kernels(s)}
			    : (struct box_bytes){.refused = true};
	s->model.choices = now.choices;
	s->model.steps = now.steps;
	s->model.trial = false;
	s->task = task;
	s->ntasks = n;
	s->job = job;
	s->result = result;
	tune_rows_make(s);
	return rc == E_UNSUPPORTED || rc == E_CORRUPT ? E_OK : rc;
}

/* A device runs all layers that it can have kernels for: quantised operators become tasks from the start. If
 * portable code ran them on the processor, each one would have its tensors copied between both sides. */
static int take_bytes_to_device(struct session *s)
{
	if (!target_runs_items(&s->target) || !leaves_bytes(s))
		return E_OK;
	choices_set(&s->model.choices, s->a, CHOICE_BYTES, CHOICE_ALL, 1);
	int rc = chosen_divide(&s->target, NULL, 0, s->model.graph, s->a, &s->model.choices, &s->model.steps);
	if (rc >= 0)
		rc = s->ntasks = steps_tasks(s->model.steps, s->a, &s->task);
	s->report->tasks = s->ntasks;
	s->model.redivided = true;
	return fail_in(rc, "%s", s->o->model);
}

/* Makes every task's default kernel before anything else. Divisions of the graph are compared with default
 * kernels, because a network of fallbacks would run for too long. */
static int tune(struct session *s)
{
	int64_t now_ns = clock_now(s->clock);
	struct graph_search *x = NULL;
	int rc = take_bytes_to_device(s);
	bool compares = divides(s) || leaves_bytes(s);
	if (rc >= 0)
		rc = make_tasks(s);
	if (rc < 0 || (rc = search(s, compares || estimates(s), 0)) < 0 || !compares)
		return rc;
	if (leaves_bytes(s) && (rc = make_byte_kernels(s)) < 0)
		return rc;
	spend(s, &s->times.defaults_ns, &now_ns);
	rc = open_divisions(s, &x);
	for (int more = 1; rc >= 0 && more && !tune_stopped(s);) {
		bool bytes = leaves_bytes(s);
		rc = more = tune_turn(s, x, &now_ns);
		if (rc >= 0 && bytes != leaves_bytes(s)) {
			graph_search_close(x);
			rc = open_divisions(s, &x);
		}
		more &= clock_now(s->clock) + LEAST_TURN_NS < tune_search_end_ns(s);
	}
	graph_search_close(x);
	return rc;
}

/* Notes whether the search ended before the time for it was over, and why. */
static void note_end(struct session *s)
{
	s->report->early =
	    !estimates(s) && !tune_stopped(s) && clock_now(s->clock) + LEAST_TURN_NS < tune_search_end_ns(s);
	search_count_ends(s->result, s->ntasks, s->report->ended);
	s->report->library_tasks = 0;
	for (int i = 0; i < s->ntasks; i++)
		s->report->library_tasks += library_is_cand(s->result[i].best);
}

static void close_worker(struct session *s)
{
	if (s->runner)
		s->runner->ops->close(s->runner);
	s->runner = NULL;
}

static void close_session(struct session *s)
{
	net_close(&s->start.net);
	tune_log_close(s);
	if (s->model.graph)
		graph_free(s->model.graph);
	if (s->pool)
		pool_close(s->pool);
	plan_device_close(s->device);
	cache_close(s->store.cache);
}

static void tell_spent(const struct tune_spent *s)
{
	const struct job_spent *j = &s->job;
	log_more("spent, ms: start %.0f, network %.0f, graph %.0f, build %.0f, wait for builders %.0f, check "
		 "%.0f, time %.0f, race %.0f, own %.0f; builders %.0f; state %.1f MB",
		 (double)s->start_ns / 1e6, (double)s->network_ns / 1e6, (double)s->graph_ns / 1e6,
		 (double)j->build_ns / 1e6, (double)j->wait_ns / 1e6, (double)j->check_ns / 1e6,
		 (double)j->time_ns / 1e6, (double)j->race_ns / 1e6, (double)j->own_ns / 1e6,
		 (double)j->ahead_ns / 1e6, (double)j->state_bytes / 1e6);
}

/* A network that has too little work for more than one thread has its kernels timed as they run in it.
 * A worker that is let go of at a yield while it starts is not broken: it is started again. */
static int open_worker(struct session *s)
{
	const char *taint = NULL;
	for (int turn = 0; turn < TAINTED_TRIES; turn++) {
		int rc = leash_lease(s->store.leash, LEASE_COMPUTE, s->times.end_ns);
		if (rc < 0)
			return rc;
		const char *device = s->o->device ? s->o->device : "cpu";
		int threads = s->start.alone ? 1 : s->o->threads;
		int did = s->o->libraries
			      ? runner_worker_libraries(s->o->worker, &s->target, threads, s->o->libraries,
							&s->runner)
			      : runner_worker(s->o->worker, device, &s->target, threads, &s->runner);
		rc = leash_release(s->store.leash, &taint);
		if (did >= 0 && rc >= 0)
			return runner_worker_builders(s->runner, s->o->builders);
		if (rc < 0 || !taint || (did != E_CHILD && did != E_TIMEOUT))
			return did < 0 ? did : rc;
	}
	return fail(E_STOPPED, "no worker could start: %s", taint);
}

/* Whether a worker can start, and build something, before the part of the box that is reserved. */
static bool worth_searching(const struct session *s)
{
	return !tune_stopped(s) && clock_now(s->clock) + LEAST_SEARCH_NS < s->times.missing_by_ns;
}

/* Everything up to the end of the search. *now_ns: the report accounts for the time up to here. */
static int find_kernels(struct session *s, int64_t *now_ns)
{
	struct tune_spent *spent = &s->report->spent;
	int rc = mark(s, read_model(s), "the model is read");
	if (rc >= 0)
		rc = mark(s, tune_machine_open(s), "the machine is known");
	if (rc >= 0)
		rc = tune_quantise(s);
	if (rc >= 0)
		rc = mark(s, tune_tell_lasting(s, divide_model(s)), "the model is divided");
	if (rc >= 0)
		tune_publish(s, 0);
	spend(s, &spent->start_ns, now_ns);
	if (rc >= 0)
		rc = mark(s, tune_measure_before(s), "the network was measured as it is");
	spend(s, &spent->network_ns, now_ns);
	if (rc < 0 || !worth_searching(s))
		return rc;
	tune_device_leave(s);
	rc = tune_libraries_open(s);
	if (rc >= 0)
		rc = open_worker(s);
	if (rc == E_STOPPED && tune_stopped(s))
		return E_OK;
	if (rc >= 0)
		rc = tune_apart(s);
	if (rc >= 0)
		rc = runner_leashed(s->runner, s->store.leash, &s->runner);
	const char *device = target_device(&s->target);
	if (rc >= 0 && (s->o->careful || dev_find(device)->risky))
		rc = runner_marked(s->runner, s->store.cache, device, &s->runner);
	if (rc >= 0 && s->o->record)
		rc = runner_record(s->runner, s->o->record, !s->model.warm, &s->runner);
	spend(s, &spent->start_ns, now_ns);
	if (rc >= 0)
		rc = mark(s, tune(s), "the search is over");
	if (rc >= 0)
		note_end(s);
	close_worker(s);
	rc = mark(s, rc, "the worker has ended");
	const struct job_spent *j = &spent->job;
	spent->job.own_ns =
	    -(j->build_ns + j->wait_ns + j->check_ns + j->time_ns + j->race_ns + spent->graph_ns);
	spend(s, &spent->job.own_ns, now_ns); /* includes saving the results */
	return rc;
}

/* Whether the search has begun, and the box ended before it timed any kernel. */
static bool cut_short(const struct session *s)
{
	for (int i = 0; s->result && i < s->ntasks; i++)
		if (!s->result[i].best[0] && (s->result[i].end == SEARCH_OPEN || s->result[i].end == SEARCH_LATE))
			return true;
	return false;
}

/* Returns why a box that was not told to stop tried nothing, in the arena; NULL: it did, or was told to. */
static const char *why_nothing(const struct session *s, int rc)
{
	if (s->report->trials || tune_stopped(s))
		return NULL;
	if (rc == E_STOPPED || rc == E_TIMEOUT)
		return arena_strdup(s->a, err_text());
	const char *taint = s->store.leash ? leash_last_taint(s->store.leash) : "";
	bool measured = s->report->before_ms > 0 || s->report->after_ms > 0;
	if (rc >= 0 && s->ntasks && *taint && !measured)
		return arena_printf(s->a, "no measurement was undisturbed: %s", taint);
	if (rc < 0 || !s->ntasks || (s->result && !cut_short(s)))
		return NULL;
	return "its budget ended before any kernel could be tried";
}

int tune_model(const struct tune_options *o, struct arena *a, struct tune_report *out)
{
	struct session s = {.o = o, .a = a, .report = out, .clock = &clock_real};
	*out = (struct tune_report){.strategy = o->strategy ? o->strategy : STRATEGY_DEFAULT,
				    .budget_s = (double)o->budget_ns / 1e9};
	s.times.end_ns = clock_now(s.clock) - clock_since_start(s.clock) + o->waited_ns + o->budget_ns;
	int64_t now_ns = s.times.end_ns - o->budget_ns; /* start of the process, or of the box */
	int rc = tune_box_open(&s);
	if (rc >= 0)
		rc = find_kernels(&s, &now_ns);
	if (rc >= 0)
		tune_rows_end(&s);
	if (rc >= 0)
		rc = mark(&s, tune_measure_after(&s), "the network was measured again");
	spend(&s, &out->spent.network_ns, &now_ns);
	tell_spent(&out->spent);
	const char *why = why_nothing(&s, rc);
	if ((rc == E_STOPPED && s.store.leash) || (rc == E_TIMEOUT && s.model.graph))
		rc = E_OK;
	/* The commit may wait for the flash beyond the end of the box, and a reader of the cache sees the gain
	 * as soon as it is written. honed may not have got the gain yet. */
	if (rc >= 0 && s.store.cache && !cache_is_through(s.store.cache))
		tune_publish(&s, out->trials);
	if (rc >= 0 && s.store.cache && cache_commit(s.store.cache) < 0)
		tune_warn(&s);
	else if (rc >= 0 && s.store.cache)
		out->warning = NULL; /* what could not be written before is written now */
	if (rc >= 0) {
		tune_publish(&s, out->trials);
		if (why && leash_is_child()) /* its words go to honed's log */
			log_info("nothing was tried: %s", why);
		tune_say_done(&s, why);
	}
	close_session(&s);
	tune_box_close(&s);
	leash_close(s.store.leash); /* until then the guard may send by it */
	out->stopped = tune_stopped(&s);
	out->elapsed_s = (double)(clock_since_start(s.clock) - o->waited_ns) / 1e9;
	return rc < 0 ? rc : E_OK;
}
