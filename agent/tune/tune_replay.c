/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run/image.h"
#include "agent/tune/tune_replay.h"

#include "agent/cache/chosen.h"
#include "agent/cache/recipe.h"
#include "agent/worker/replay.h"
#include "kernels/group/alternatives.h"
#include "kernels/task/task_stage.h"
#include "platform/base/log.h"
#include "search/strategy.h"

#include <stdio.h>
#include <string.h>

#define LOCK_WAIT_NS NS_PER_S
#define LEAST_EARLY_S 0.3 /* a search that ends later used its box */

struct session {
	const struct tune_options *o;
	struct arena *a;
	struct tune_report *report;
	struct landscape *land;
	int nland;
	struct runner *runner;
	struct cache *cache; /* NULL: records are not kept */
	struct graph *graph;
	int ntasks; /* only those that are recorded */
	struct step_task *task;
	struct job_task *job;
	struct job_result *result;
};

static int open_replay(struct session *s, const char *dir)
{
	int rc = s->nland = landscape_folder(dir, s->a, &s->land);
	if (rc >= 0)
		rc = runner_replay(s->land, s->nland, (struct replay_noise){.seed = s->o->seed}, &s->runner);
	const struct cache_options o = {.cap_bytes = s->o->cache_bytes, .only_here = true};
	if (rc >= 0 && s->o->cache)
		rc = cache_open_with(&s->cache, s->o->cache, CACHE_WRITE, LOCK_WAIT_NS, &o);
	if (rc < 0)
		return rc;
	const struct target *t = s->runner->target;
	s->report->cache = s->o->cache ? s->o->cache : "";
	s->report->target = arena_printf(s->a, "a replay of %s %s, %d lanes", t->soc, t->isa, t->lanes);
	return E_OK;
}

static bool is_recorded(const struct session *s, const char *text)
{
	for (int i = 0; i < s->nland; i++)
		if (!strcmp(s->land[i].task, text))
			return true;
	return false;
}

/* Keeps the recorded tasks of the model, divided by rules. */
static int keep_recorded(struct session *s, const struct step_task *all, int n)
{
	s->task = ARENA_ARRAY(s->a, struct step_task, n + 1);
	s->job = ARENA_ARRAY(s->a, struct job_task, n + 1);
	for (int i = 0; i < n; i++) {
		char label[96];
		if (!is_recorded(s, all[i].text))
			continue;
		task_label(all[i].task, label);
		s->task[s->ntasks] = all[i];
		s->job[s->ntasks++] = (struct job_task){
		    .text = all[i].text, .label = arena_strdup(s->a, label), .uses = all[i].uses};
	}
	if (s->ntasks == 0)
		return fail(
		    E_NOTFOUND,
		    "DIR holds no record of the tasks of this model (%d); hone tune MODEL --record DIR "
		    "records them",
		    n);
	if (s->ntasks < n)
		log_info("hone: %d of %d tasks %s not recorded and left out", n - s->ntasks, n,
			 n - s->ntasks == 1 ? "is" : "are");
	s->report->tasks = s->ntasks;
	return E_OK;
}

/* Quantises the graph, as it was imported, by a recipe that was given or that a cache has. */
static int quantise(struct session *s)
{
	const struct cache_options o = {.seeds = NULL, .only_here = true};
	const struct buf *text = s->o->recipe;
	struct cache *c[2] = {s->cache};
	int rc = text && s->cache ? cache_put(s->cache, CACHE_RECIPE, recipe_key(s->graph), text->p, text->n)
				  : E_OK;
	if (rc >= 0 && text)
		return recipe_apply(buf_str(text), s->graph, &s->report->recipe);
	if (rc >= 0 && s->o->level == LEVEL_INT8 && s->o->recipes)
		rc = cache_open_with(&c[1], s->o->recipes, CACHE_READ, 0, &o);
	if (rc >= 0)
		rc = recipe_use(c, 2, s->o->level, s->graph, &s->report->recipe);
	if (c[1])
		cache_close(c[1]);
	return rc;
}

static int divide(struct session *s, const struct chosen_for *f, struct choices *c, struct step_task **all)
{
	struct steps *steps;
	int rc = chosen_steps(f, s->graph, s->a, c, &steps), n = 0;
	if (rc >= 0)
		rc = n = steps_tasks(steps, s->a, all);
	if (rc < 0 || !steps_leave_bytes(s->graph, steps, c))
		return rc;
	struct step_task *bytes;
	choices_set(c, s->a, CHOICE_BYTES, CHOICE_ALL, 1);
	rc = graph_steps(s->graph, f->target, c, s->a, &steps);
	int m = rc < 0 ? rc : steps_tasks(steps, s->a, &bytes);
	for (int i = 0; i < m; i++)
		if (!task_floats(bytes[i].task) && is_recorded(s, bytes[i].text)) {
			*all = bytes;
			return m;
		}
	return m < 0 ? m : n;
}

static int read_model(struct session *s)
{
	struct buf notes = {0};
	const struct import_opts io = {.nbinds = s->o->nbinds, .binds = s->o->binds, .notes = &notes};
	const struct chosen_for f = {
	    .target = s->runner->target, .threads = s->runner->threads, .level = s->o->level};
	struct choices none;
	struct step_task *all;
	int n = 0, rc = image_is_no_model(s->o->model);
	if (rc >= 0)
		rc = import_file(s->o->model, &io, &s->graph);
	if (rc >= 0 && notes.n)
		log_info("%s: %s", s->o->model, buf_str(&notes));
	buf_free(&notes);
	if (rc >= 0)
		rc = quantise(s);
	if (rc >= 0)
		rc = n = divide(s, &f, &none, &all);
	if (rc >= 0)
		rc = keep_recorded(s, all, n);
	return fail_in(rc, "%s", s->o->model);
}

static int sink(void *ctx, int task, bool best, const char *cand, const struct meas *m, struct blob code)
{
	struct session *s = ctx;
	const struct target *t = s->runner->target;
	(void)code;
	if (!s->cache)
		return E_OK;
	struct rec r = {.task = s->task[task].key,
			.kind = best ? REC_BEST : REC_DEFAULT,
			.target_key = target_key(t),
			.device = "cpu",
			.threads = s->runner->threads,
			.level = s->o->level,
			.meas = *m,
			.task_text = s->task[task].text,
			.label = s->job[task].label};
	target_label(t, r.target);
	snprintf(r.emitter, sizeof r.emitter, "%s", s->runner->emitter);
	snprintf(r.cand, sizeof r.cand, "%s", cand);
	int rc = cache_put_rec(s->cache, &r);
	s->report->kept += rc >= 0;
	return rc;
}

static int run(struct session *s)
{
	const struct job j = {.ntasks = s->ntasks,
			      .task = s->job,
			      .search.strategy = s->report->strategy,
			      .search.cost = s->o->cost,
			      .search.level = s->o->level,
			      .search.warm = !s->land[0].cold,
			      .search.seed = s->o->seed,
			      .limits.deadline_ns = s->o->budget_ns,
			      .limits.defaults_only = s->o->rigor == RIGOR_ESTIMATE,
			      .limits.quick = s->o->rigor == RIGOR_QUICK,
			      .limits.stop = s->o->stop,
			      .calls.ctx = s,
			      .calls.sink = sink};
	s->result = ARENA_ARRAY(s->a, struct job_result, s->ntasks);
	int rc = job_run(&j, s->runner, s->result);
	if (rc < 0)
		return rc;
	s->report->trials = rc;
	return s->cache ? cache_commit(s->cache) : E_OK;
}

static void make_rows(struct session *s)
{
	struct tune_kernel *k = ARENA_ARRAY(s->a, struct tune_kernel, s->ntasks);
	for (int i = 0; i < s->ntasks; i++) {
		const struct job_result *r = &s->result[i];
		char key[33];
		key_text(s->task[i].key, key);
		k[i] = (struct tune_kernel){.name = arena_strdup(s->a, key),
					    .label = s->job[i].label,
					    .before = FROM_DEFAULT,
					    .after = FROM_CACHE,
					    .at_default = !strcmp(r->best, r->standard),
					    .before_ns = r->default_ns,
					    .after_ns = r->best_ns,
					    .roofline = r->best_ns ? r->roofline_ns / (double)r->best_ns : 0};
		s->report->default_ms += (double)r->default_ns * s->task[i].uses / 1e6;
		s->report->after_ms += (double)r->best_ns * s->task[i].uses / 1e6;
	}
	s->report->nkernels = s->ntasks;
	s->report->kernel = k;
}

int tune_replay(const struct tune_options *o, const char *dir, struct arena *a, struct tune_report *out)
{
	struct session s = {.o = o, .a = a, .report = out};
	*out = (struct tune_report){.strategy = o->strategy ? o->strategy : STRATEGY_DEFAULT,
				    .budget_s = (double)o->budget_ns / 1e9};
	int rc = open_replay(&s, dir);
	if (rc >= 0)
		rc = read_model(&s);
	if (rc >= 0)
		rc = run(&s);
	if (rc >= 0) {
		make_rows(&s);
		out->elapsed_s = (double)clock_now(s.runner->clock) / 1e9;
		out->stopped = o->stop && *o->stop;
		out->early = o->rigor != RIGOR_ESTIMATE && !out->stopped &&
			     out->elapsed_s + LEAST_EARLY_S < out->budget_s;
		search_count_ends(s.result, s.ntasks, out->ended);
	}
	if (s.runner)
		s.runner->ops->close(s.runner);
	if (s.graph)
		graph_free(s.graph);
	if (s.cache)
		cache_close(s.cache);
	return rc < 0 ? rc : E_OK;
}
