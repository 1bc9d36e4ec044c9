/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/history.h"
#include "agent/cache/lookup.h"
#include "agent/cache/stale.h"
#include "agent/worker/wire.h"
#include "kernels/space/space.h"
#include "platform/base/log.h"
#include "tools/hone/explain_dump.h"
#include "tools/hone/explain_log.h"
#include "tools/hone/headline.h"
#include "tools/hone/next.h"
#include "tools/hone/ready.h"
#include "tools/hone/roof.h"
#include "tools/hone/table.h"
#include <stdio.h>
#include <string.h>

/* What is known of one task: the default and the chosen candidate, measured and estimated. */
struct why {
	const struct step_task *task;
	char label[96];
	bool tuned, measured; /* whether there is a best record, and a default record */
	struct rec best, first;
	char cand[CAND_MAX], def[CAND_MAX];
	double best_ns, default_ns, best_draft_ns, default_draft_ns;
	struct roof roof;     /* of the chosen algorithm */
	struct faster faster; /* the chosen candidate than the default, by their records */
	enum stale stale;     /* whether the best record is stale, else the default's */
	bool logged;
	struct trials log;
	struct payback payback;
};

struct explain {
	const struct args *args;
	struct target target;
	int threads;
	struct cache *cache;
	char emitter[32];
	int stale; /* number of stale tasks among those shown */
	bool has_gain;
	struct gain gain; /* of the whole network */
	struct model model;
	struct arena arena;
};

static bool look_up(struct explain *e, const struct step_task *t, enum rec_kind kind, struct rec *out)
{
	bool exact = arg_flag(e->args, "exact");
	return cache_find_rec(e->cache, t->key, &e->target, e->threads, exact, kind, &e->arena, out) >= 0 &&
	       out->kind == kind;
}

static bool serves(struct explain *e, const struct step *s)
{
	struct rec r;
	return s->fused_by < 0 ||
	       cache_find_rec(e->cache, task_key(e->model.steps->step[s->fused_by].task), &e->target,
			      e->threads, arg_flag(e->args, "exact"), REC_BEST, &e->arena, &r) < 0;
}

/* Number of steps in which the task's own kernel runs, not a fused kernel that does its work. */
static int uses_served(struct explain *e, struct key task)
{
	const struct steps *s = e->model.steps;
	int n = 0;
	for (int i = 0; i < s->nsteps; i++)
		n += s->step[i].kind == STEP_TASK && key_equal(task_key(s->step[i].task), task) &&
		     serves(e, &s->step[i]);
	return n;
}

/* Reads the log that the task's tuning left. */
static void find_log(struct explain *e, struct why *w)
{
	struct trials want = {.task = w->task->key,
			      .target_key = target_key(&e->target),
			      .device = "cpu",
			      .threads = e->threads,
			      .exact = arg_flag(e->args, "exact")};
	w->logged = trials_get(e->cache, trials_key(&want), &w->log) >= 0;
	log_plain(w->log.emitter);
	if (w->logged)
		w->payback = explain_payback(&w->log, uses_served(e, w->task->key), w->cand);
}

static int find_out(struct explain *e, const struct step_task *t, struct why *w)
{
	*w = (struct why){.task = t};
	task_label(t->task, w->label);
	w->tuned = look_up(e, t, REC_BEST, &w->best);
	w->measured = look_up(e, t, REC_DEFAULT, &w->first);
	const struct space_want want = {.exact = arg_flag(e->args, "exact"), .threads = e->threads};
	struct space *s;
	int rc = space_make(&e->arena, t->task, &e->target, &want, &s);
	if (rc < 0)
		return fail_in(rc, "%s", w->label);
	space_default(s, w->def);
	snprintf(w->cand, sizeof w->cand, "%s", w->tuned ? w->best.cand : w->def);
	log_plain(w->cand);
	if (w->tuned || w->measured)
		w->stale = stale_rec(e->cache, w->tuned ? &w->best : &w->first, &e->target, e->emitter);
	e->stale += w->stale != STALE_NOT;
	w->default_draft_ns = space_draft(s, w->def);
	w->best_draft_ns = space_legal(s, w->cand) >= 0 ? space_draft(s, w->cand) : 0;
	w->roof = roof_of_task(&e->target, t->task, w->cand);
	w->best_ns = w->tuned ? (double)w->best.meas.median_ns : 0;
	w->default_ns = w->measured ? (double)w->first.meas.median_ns : 0;
	if (w->tuned && w->measured)
		w->faster = faster_by_records(&w->first.meas, &w->best.meas);
	find_log(e, w);
	return 0;
}

/* Whether a node uses the task; its name is `word` or, with `part`, contains `word`. */
static bool used_by(const struct explain *e, const struct step_task *t, const char *word, bool part)
{
	const struct steps *s = e->model.steps;
	for (int i = 0; i < s->nsteps; i++) {
		const char *name = s->step[i].kind == STEP_TASK ? s->step[i].name : NULL;
		const struct step *by = &s->step[s->step[i].fused_by < 0 ? i : s->step[i].fused_by];
		if (name && (part ? strstr(name, word) != NULL : !strcmp(name, word)) &&
		    key_equal(task_key(by->task), t->key))
			return true;
	}
	return false;
}

/* If `word` is the whole name of a node, it selects that node's task; else it may be a part of labels, keys
 * and names. */
static bool wanted(const struct explain *e, const struct step_task *t, const char *word)
{
	char label[96], key[33];
	if (!word)
		return true;
	for (int i = 0; i < e->model.ntasks; i++)
		if (used_by(e, &e->model.task[i], word, false))
			return used_by(e, t, word, false);
	task_label(t->task, label);
	key_text(t->key, key);
	return strstr(label, word) || !strncmp(key, word, strlen(word)) || used_by(e, t, word, true);
}

/* Share of the roofline, for as many cores as the kernel was measured with. */
static double roofline_pct(const struct why *w)
{
	const struct rec *r = w->tuned ? &w->best : &w->first;
	double ns = w->tuned ? w->best_ns : w->default_ns;
	return roof_pct(&w->roof, r->meas.threads, ns);
}

static json_t *ms_or_null(double ns)
{
	return ns > 0 ? json_ms(ns) : json_null();
}

static json_t *why_json(const struct why *w)
{
	char key[33];
	key_text(w->task->key, key);
	return json_pack("{ss so so si so so so so so so so ss so sb so so}", "key", key, "label",
			 json_text(w->label), "text", json_text(w->task->text), "uses", w->task->uses, "cand",
			 json_text(w->cand), "default_cand", json_text(w->def), "ms", ms_or_null(w->best_ns),
			 "default_ms", ms_or_null(w->default_ns), "draft_ms", ms_or_null(w->best_draft_ns),
			 "default_draft_ms", ms_or_null(w->default_draft_ns), "roofline_ms",
			 ms_or_null(w->roof.ns), "bound", w->roof.memory_bound ? "memory" : "compute", "gain",
			 headline_json(&w->faster, NULL), "tuned", w->tuned, "stale",
			 w->stale ? json_text(stale_name(w->stale)) : json_null(), "log",
			 w->logged ? explain_log_json(&w->log, &w->payback) : json_null());
}

static void why_words(const struct explain *e, const struct why *w)
{
	printf("%s, %d use%s\n  task\n", w->label, w->task->uses, plural_s(w->task->uses));
	for (const char *p = w->task->text; *p;) {
		int n = (int)strcspn(p, "\n");
		printf("    %.*s\n", n, p);
		p += n + (p[n] == '\n');
	}
	printf("  default  %s\n", w->def);
	if (w->measured)
		printf("           measured %.4f ms, drafted %.4f ms\n", w->default_ns / 1e6,
		       w->default_draft_ns / 1e6);
	if (!w->tuned) {
		printf("  chosen   the default: nothing is recorded for %d thread%s in this cache\n",
		       e->threads, plural_s(e->threads));
	} else if (!strcmp(w->cand, w->def)) {
		printf(
		    "  chosen   the default: nothing tried was faster by more than the race's own noise\n");
	} else {
		printf("  chosen   %s\n           measured %.4f ms, drafted %.4f ms", w->cand,
		       w->best_ns / 1e6, w->best_draft_ns / 1e6);
		printf(": won its races\n");
		headline_print("           by the records of both: ", &w->faster, "the default", NULL);
	}
	if (w->stale)
		printf("  stale    %s: the next box times it again\n", stale_words(w->stale));
	double ns = w->best_ns > 0 ? w->best_ns : w->default_ns;
	printf("  roofline %.4f ms on one core, limited by %s", w->roof.ns / 1e6,
	       w->roof.memory_bound ? "memory" : "arithmetic");
	printf(ns > 0 ? "; %.0f %% of it reached\n" : "\n", roofline_pct(w));
	if (roof_why(&w->roof, roofline_pct(w)))
		printf("           %s\n", roof_why(&w->roof, roofline_pct(w)));
	if (w->logged)
		explain_log_words(&w->log, &w->payback, w->cand);
}

static void why_row(struct table *t, const struct why *w, struct roof_notes *notes)
{
	char share[24];
	roof_cell(notes, &w->roof, roofline_pct(w), share);
	double ns = w->best_ns > 0 ? w->best_ns : w->default_ns;
	table_cell(t, "%s", w->label);
	table_cell(t, "%d", w->task->uses);
	table_cell(t, w->default_ns > 0 ? "%.4f" : "-", w->default_ns / 1e6);
	table_cell(t, ns > 0 ? "%.4f" : "-", ns / 1e6);
	table_cell(t, "%s", share);
	table_cell(t, "%s", w->roof.memory_bound ? "memory" : "arithmetic");
	table_cell(t, "%s", w->tuned ? w->cand : "(not tuned)");
}

/* The choices by which the graph is divided differently from the rules. */
static json_t *choices_json(const struct choices *c)
{
	json_t *list = json_array();
	for (int i = 0; i < c->n; i++)
		json_array_append_new(
		    list, json_pack("{ss so si}", "kind", choice_kind_name(c->choice[i].kind), "name",
				    json_text(c->choice[i].name), "number", c->choice[i].number));
	return list;
}

static void choices_words(const struct choices *c)
{
	printf(c->n ? "choices for the graph that won against its rules:\n"
		    : "the graph is divided by rule: no choice is recorded\n");
	for (int i = 0; i < c->n; i++) {
		char name[256];
		snprintf(name, sizeof name, "%s", c->choice[i].name);
		log_plain(name);
		printf("  %-5s %d %s\n", choice_kind_name(c->choice[i].kind), c->choice[i].number, name);
	}
}

/* -d: the task at the stages that the letters name. */
static int dump_stages(struct explain *e, const struct why *w)
{
	struct buf text = {0};
	const struct dump d = {.task = w->task->task,
			       .target = &e->target,
			       .cand = w->cand,
			       .exact = arg_flag(e->args, "exact"),
			       .threads = e->threads,
			       .cache = e->cache,
			       .best = w->tuned ? &w->best : NULL,
			       .log = w->logged ? &w->log : NULL};
	int rc = explain_dump(&d, arg_str(e->args, "dump", ""), &text);
	if (rc >= 0)
		printf("# %s\n%s", w->label, buf_str(&text));
	buf_free(&text);
	return rc;
}

static int explain_tasks(struct explain *e, const char *word)
{
	static const char *const head[] = {"task",        "uses",       "default ms", "ms",
					   "of roofline", "limited by", "chosen"};
	struct table t = {.align = "lrrrrll", .drop = "0100320"};
	json_t *list = json_array();
	struct payback all = {0};
	struct roof_notes notes = {0};
	struct why *why = ARENA_NEW(&e->arena, struct why);
	int n = 0, rc = 0;
	for (int i = 0; i < 7; i++)
		table_cell(&t, "%s", head[i]);
	for (int i = 0; i < e->model.ntasks && rc >= 0; i++) {
		if (!wanted(e, &e->model.task[i], word) || (rc = find_out(e, &e->model.task[i], why)) < 0)
			continue;
		n++;
		explain_payback_add(&all, &why->payback);
		if (arg_given(e->args, "dump"))
			rc = dump_stages(e, why);
		else if (e->args->json)
			json_array_append_new(list, why_json(why));
		else if (word)
			why_words(e, why);
		else
			why_row(&t, why, &notes);
		trials_free(&why->log);
	}
	if (e->has_gain)
		explain_payback_of(&all, &e->gain);
	if (rc >= 0 && n == 0 && word)
		rc = fail(E_NOTFOUND, "no task or node of %s contains '%s'; hone tasks %s lists them",
			  e->model.path, word, e->model.path);
	if (arg_given(e->args, "dump")) {
		json_decref(list);
		arena_free(&t.arena);
		return rc;
	}
	if (rc >= 0 && e->args->json)
		return json_out(json_pack("{so so so so so}", "model", json_text(e->model.path), "choices",
					  choices_json(&e->model.choices), "gain",
					  e->has_gain ? headline_gain_json(&e->gain) : json_null(), "payback",
					  explain_payback_json(&all), "tasks", list));
	if (rc >= 0 && !word) {
		table_print(&t, e->args->color);
		roof_notes_print(&notes);
	}
	arena_free(&t.arena);
	json_decref(list);
	if (rc >= 0 && !word)
		choices_words(&e->model.choices);
	if (rc >= 0 && !word && e->has_gain)
		headline_gain("tuning: ", &e->gain);
	if (rc >= 0 && !word && all.tasks)
		explain_payback_words(&all, "");
	if (rc >= 0 && !word && e->stale)
		printf("stale: %d of these kernels; the next box times them again\n", e->stale);
	if (rc >= 0 && word)
		next_say("hone bench %s", e->model.path);
	else if (rc >= 0)
		next_say("hone explain %s TASK", e->model.path);
	return rc;
}

static int open_all(struct explain *e)
{
	char dir[4096];
	int rc = model_cache_dir(e->args, dir, sizeof dir);
	if (rc >= 0)
		rc = cache_open(&e->cache, dir, true, 0);
	if (rc >= 0)
		rc = machine_target(dir, &e->target);
	if (rc >= 0)
		rc = e->threads = model_threads(e->args, &e->target);
	if (rc >= 0)
		rc = model_open(
		    e->args, e->args->pos[0],
		    &(struct chosen_for){e->cache, &e->target, e->threads, arg_flag(e->args, "exact")},
		    &e->model);
	if (rc < 0)
		return rc;
	struct key k = history_key(e->model.g, &e->target, e->threads, arg_flag(e->args, "exact"));
	e->has_gain = gain_get(e->cache, k, &e->gain);
	worker_emitter(&e->target, e->emitter);
	return rc;
}

static int run_explain(const struct args *a)
{
	struct explain e = {.args = a};
	int rc = open_all(&e);
	if (rc >= 0) {
		rc = explain_tasks(&e, a->npos > 1 ? a->pos[1] : NULL);
		model_close(&e.model);
	}
	if (e.cache)
		cache_close(e.cache);
	arena_free(&e.arena);
	return rc < 0 ? rc : 0;
}

static const struct opt opts[] = {
    {"device", OPT_STR, "NAME", "device (default: cpu)", .words = model_devices},
    {"exact", OPT_FLAG, NULL, "show what tuning with --exact chose"},
    {"dump", OPT_STR, "LETTERS", "stages of a task: t text, s space, l loops, c code, m measurements", 'd'},
    OPT_THREADS,
    OPT_CACHE,
    OPT_SHAPE,
    {NULL},
};

const struct cmd cmd_explain = {
    .usage = "MODEL [TASK]",
    .summary = "show why a kernel was chosen",
    .details =
	"TASK: part of the name of a task or a node, or of its key. It shows the task's text, the default\n"
	"schedule, the chosen one, what was measured, what bounds it, what was tried and predicted, how the\n"
	"search went, and after how many inferences the tuning has paid for itself. Without TASK it prints\n"
	"a row for each task, and the choices by which the graph is divided differently from its rules.",
    .min_pos = 1,
    .max_pos = 2,
    .opts = opts,
    .run = run_explain,
    .name = "explain",
};
