/* SPDX-License-Identifier: Apache-2.0 */
/* hone explain. Past 800 lines because all of its parts print what one struct explain found out about a model. */
#include "agent/cache/history.h"
#include "agent/cache/kept_code.h"
#include "agent/cache/lookup.h"
#include "agent/cache/stale.h"
#include "agent/worker/device.h"
#include "agent/worker/wire.h"
#include "kernels/library/library.h"
#include "kernels/space/space.h"
#include "platform/base/log.h"
#include "platform/base/near.h"
#include "tools/hone/calibrate.h"
#include "tools/hone/explain_dump.h"
#include "tools/hone/explain_levels.h"
#include "tools/hone/explain_log.h"
#include "tools/hone/explain_placement.h"
#include "tools/hone/headline.h"
#include "tools/hone/keep.h"
#include "tools/hone/next.h"
#include "tools/hone/ready.h"
#include "tools/hone/roof.h"
#include "tools/hone/table.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* What is known of one task: the default and the chosen candidate, measured and estimated. */
struct why {
	const struct step_task *task;
	char label[96];
	bool tuned, measured; /* whether there is a best record, and a default record */
	struct rec best, first;
	char cand[CAND_MAX], def[CAND_MAX];
	double best_draft_ns, default_draft_ns;
	struct roof roof;        /* of the chosen algorithm */
	struct task_times times; /* their times */
	unsigned levels;         /* explain_levels; 0 if it is tuned */
	enum stale stale;        /* whether the best record is stale, else the default's */
	bool logged;
	struct trials log;
	struct payback payback;
};

enum { FULL = 3 /* tasks shown in full if a word fits many */ };
enum { KEY_DIGITS = 4 /* so many first digits of a key win over parts of names */ };

#define INDENT "           " /* of what is said of a task, behind the word that says what it is */
#define SHARES (1u << 5)     /* the column "of roofline" */
#define ALONE_WORDS                                                                                          \
	"Times are of each kernel alone, as the search measured them. In the network, other kernels change " \
	"what the caches hold: hone bench measures that."

struct explain {
	const struct args *args;
	struct target target;
	int threads;
	enum level level;
	struct cache *cache;
	char emitter[32];
	const char *device; /* NULL: the processor */
	double least_ns;    /* the shortest time of a kernel on the device in this cache; 0: none */
	int stale;          /* number of stale tasks among those shown */
	int alone_said, marked; /* tasks shown in full so far: with ALONE_WORDS, and with marks (explain_log.h) */
	bool alone;             /* a plan runs the whole network in one thread */
	bool has_gain;
	struct gain gain; /* of the whole network */
	struct model model;
	struct arena arena;
};

static bool look_up(struct explain *e, const struct step_task *t, enum rec_kind kind, struct rec *out)
{
	return cache_find_rec(e->cache, t->key, &e->target, e->threads, e->level, kind, &e->arena, out) >=
		   0 &&
	       out->kind == kind;
}

static bool serves(struct explain *e, const struct step *s)
{
	struct rec r;
	return s->fused_by < 0 ||
	       cache_find_rec(e->cache, task_key(e->model.steps->step[s->fused_by].task), &e->target,
			      e->threads, e->level, REC_BEST, &e->arena, &r) < 0;
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
			      .threads = e->threads,
			      .level = e->level};
	strcpy(want.device, target_device(&e->target));
	w->logged = trials_get(e->cache, trials_key(&want), &w->log) >= 0;
	log_plain(w->log.emitter);
	w->times = explain_times(w->logged ? &w->log : NULL, w->measured ? &w->first : NULL,
				 w->tuned ? &w->best : NULL, w->def, w->cand);
	if (w->logged)
		w->payback = explain_payback(&w->log, uses_served(e, w->task->key), &w->times);
}

static int find_out(struct explain *e, const struct step_task *t, struct why *w)
{
	*w = (struct why){.task = t};
	task_label(t->task, w->label);
	w->tuned = look_up(e, t, REC_BEST, &w->best);
	w->measured = look_up(e, t, REC_DEFAULT, &w->first);
	if (!w->tuned)
		w->levels = explain_levels(e->cache, t->key, &e->target, e->threads, e->level);
	const struct space_want want = {.level = e->level, .threads = e->threads};
	struct space *s;
	int rc = space_make(&e->arena, t->task, &e->target, &want, &s);
	if (rc < 0)
		return fail_in(rc, "%s", w->label);
	space_default(s, w->def);
	if (w->measured) /* if the default schedule does not work, a rule that does stands for it */
		snprintf(w->def, sizeof w->def, "%s", w->first.cand);
	log_plain(w->def);
	snprintf(w->cand, sizeof w->cand, "%s", w->tuned ? w->best.cand : w->def);
	log_plain(w->cand);
	if (w->tuned || w->measured)
		w->stale = stale_rec(e->cache, w->tuned ? &w->best : &w->first, &e->target, e->emitter);
	e->stale += w->stale != STALE_NOT;
	w->default_draft_ns = space_legal(s, w->def) >= 0 ? space_draft(s, w->def) : 0;
	w->best_draft_ns = space_legal(s, w->cand) >= 0 ? space_draft(s, w->cand) : 0;
	w->roof = roof_of_task(&e->target, t->task, w->cand);
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

/* Whether a word is a task's number, and not the first digits of a key. */
static bool is_number(const char *word)
{
	return strlen(word) < KEY_DIGITS && !word[strspn(word, "0123456789")];
}

/* How well a word fits a task; the tasks that it fits best are meant. */
enum fit { FIT_NONE, FIT_PART, FIT_KEY, FIT_NUMBER, FIT_NAME };

static enum fit fit_of(const struct explain *e, int i, const char *word)
{
	const struct step_task *t = &e->model.task[i];
	char label[96], key[33], number[12];
	task_label(t->task, label);
	key_text(t->key, key);
	snprintf(number, sizeof number, "%d", i + 1);
	if (used_by(e, t, word, false) || !strcmp(label, word))
		return FIT_NAME;
	if (!strcmp(number, word))
		return FIT_NUMBER;
	if (strlen(word) >= KEY_DIGITS && !strncmp(key, word, strlen(word)))
		return FIT_KEY;
	if (is_number(word))
		return FIT_NONE; /* not a part of sizes and keys */
	return strstr(label, word) || !strncmp(key, word, strlen(word)) || used_by(e, t, word, true)
		   ? FIT_PART
		   : FIT_NONE;
}

/* The fit of the tasks that are meant; FIT_NONE: there are none. */
static enum fit best_fit(const struct explain *e, const char *word)
{
	enum fit best = FIT_NONE;
	for (int i = 0; word && i < e->model.ntasks; i++) {
		enum fit f = fit_of(e, i, word);
		best = f > best ? f : best;
	}
	return best;
}

/* A node that portable code runs; NULL: none has this name. */
static const struct node *portable_node(const struct explain *e, const char *word)
{
	const struct steps *s = e->model.steps;
	for (int i = 0; i < s->nsteps; i++)
		if (s->step[i].kind == STEP_HOST && !strcmp(e->model.g->node[s->step[i].node].name, word))
			return &e->model.g->node[s->step[i].node];
	return NULL;
}

static int no_such_task(const struct explain *e, const char *word)
{
	const struct node *portable = portable_node(e, word);
	if (portable)
		return fail(E_NOTFOUND,
			    "node '%s' (%s) runs in portable C: it has no kernel that could be tuned",
			    portable->name, node_type(portable));
	if (is_number(word))
		return fail(E_NOTFOUND, "%s has no task %s: its tasks are 1 to %d", e->model.path, word,
			    e->model.ntasks);
	struct near n;
	struct buf list = {0};
	struct arena a = {0};
	const struct steps *s = e->model.steps;
	near_begin(&n, word);
	for (int i = 0; i < s->nsteps; i++)
		if (s->step[i].kind == STEP_TASK)
			near_add(&n, s->step[i].name);
	for (int i = 0; i < e->model.ntasks; i++) {
		char *label = arena_alloc(&a, 96);
		task_label(e->model.task[i].task, label);
		near_add(&n, label);
	}
	next_words(e->args, "explain", e->model.path, "", NULL, &list);
	int rc = fail(E_NOTFOUND, "no task or node of %s contains '%s'; %s%s%s`%s` shows all tasks",
		      e->model.path, word, n.best ? "did you mean '" : "", n.best ? n.best : "",
		      n.best ? "'? " : "", buf_str(&list));
	buf_free(&list);
	arena_free(&a);
	return rc;
}

/* Time of the kernel that runs; 0: not known. */
static double served_ns(const struct why *w)
{
	return w->times.best_ns > 0 ? w->times.best_ns : w->times.default_ns;
}

/* Whether a plan runs the whole network in one thread, as it has little work. */
static bool is_network_alone(struct explain *e)
{
	double all_ns = 0;
	for (int i = 0; i < e->model.ntasks && all_ns < PLAN_WAKE_NS; i++) {
		const struct step_task *t = &e->model.task[i];
		struct rec r = {0};
		bool known = look_up(e, t, REC_BEST, &r) || look_up(e, t, REC_DEFAULT, &r);
		all_ns += uses_served(e, t->key) * roof_of_task(&e->target, t->task, known ? r.cand : "").ns;
	}
	return all_ns < PLAN_WAKE_NS;
}

/* The cores of the share of the roofline, by the rule of plans: of the threads that the kernel was measured
 * with, or one if it has little work. A log without a record has the threads of this command. */
static int cores_used(const struct explain *e, const struct why *w)
{
	const struct rec *r = w->tuned ? &w->best : &w->first;
	const struct plan_kernel k = {.alone = e->alone || w->roof.ns < PLAN_ALONE_NS};
	return roof_cores(&e->target, r->meas.threads > 0 ? r->meas.threads : e->threads, &k);
}

static double roofline_pct(const struct explain *e, const struct why *w)
{
	return roof_pct(&w->roof, cores_used(e, w), served_ns(w));
}

static json_t *ms_or_null(double ns)
{
	return ns > 0 ? json_ms(ns) : json_null();
}

/* The level of the task's record. */
static enum level level_of(const struct explain *e, const struct why *w)
{
	return w->tuned ? w->best.level : w->measured ? w->first.level : e->level;
}

/* As of hone bench: "tuned" or "default"; null: the cache has no kernel. */
static json_t *kind_json(const struct why *w)
{
	return w->tuned ? json_string(ready_origin(kernel_origin_kind(FROM_CACHE, !strcmp(w->cand, w->def))))
			: json_null();
}

static json_t *why_json(const struct explain *e, const struct why *w)
{
	char key[33];
	key_text(w->task->key, key);
	return json_pack(
	    "{ss so so si ss so so so so so so so ss so sb so so so so}", "task_key", key, "label",
	    json_text(w->label), "task_text", json_text(w->task->text), "uses", w->task->uses, "level",
	    level_name((int)level_of(e, w)), "cand", json_text(w->cand), "default_cand", json_text(w->def),
	    "ms", ms_or_null(w->tuned ? w->times.best_ns : 0), "default_ms", ms_or_null(w->times.default_ns),
	    "draft_ms", ms_or_null(w->best_draft_ns), "default_draft_ms", ms_or_null(w->default_draft_ns),
	    "roofline_ms", ms_or_null(w->roof.ns), "bound", w->roof.memory_bound ? "memory" : "compute",
	    "gain", headline_json(&w->times.faster, NULL), "raced", w->times.raced, "kernel_kind",
	    kind_json(w), "stale", w->stale ? json_text(stale_name(w->stale)) : json_null(), "log",
	    w->logged ? explain_log_json(&w->log, &w->payback) : json_null(), "other_levels",
	    explain_levels_json(w->levels));
}

/* "; fastest run 12.3 us", where that is far from the median, which the table of what was tried does not
 * have. */
static const char *fastest_words(const struct rec *r, char out[64])
{
	char ms[24];
	bool far = r->meas.min_ns > 0 && (double)r->meas.min_ns < 0.95 * (double)r->meas.median_ns;
	*out = 0;
	if (far)
		snprintf(out, 64, ", the median; fastest run %s", table_ms((double)r->meas.min_ns / 1e6, ms));
	return out;
}

/* Number of work items of all entries of the kernel in the cache; 0: not known. */
static int64_t work_items(const struct explain *e, const struct why *w)
{
	struct arena scratch = {0};
	struct blob bytes;
	struct code code;
	int64_t items = 0;
	if (w->tuned && kept_code_get(e->cache, &w->best, &scratch, &bytes) >= 0 &&
	    code_parse(bytes.p, bytes.n, &scratch, &code) >= 0)
		for (int i = 0; i < code.m.nentries && items >= 0; i++) {
			int64_t n = code_extent(&code.m, i, code.m.param);
			items = n > 0 && items <= INT64_MAX - n ? items + n : -1;
		}
	arena_free(&scratch);
	return items > 0 ? items : 0;
}

/* What a launch on the device consists of, and how much of a short kernel's time it is. */
static void launch_words(const struct explain *e, const struct why *w)
{
	enum { SHORT = 4 }; /* times the shortest kernel */
	char least[24];
	int64_t items = work_items(e, w);
	const char *lead = "  launch   ";
	if (items) {
		table_item(lead, "%lld work item%s, each computing a register tile", (long long)items,
			   plural_s(items));
		lead = INDENT;
	}
	if (e->least_ns > 0 && served_ns(w) > 0 && served_ns(w) < SHORT * e->least_ns)
		table_item(lead,
			   "each launch takes time, however little the kernel computes: no kernel in this "
			   "cache has a median below %s on this device",
			   table_ms(e->least_ns / 1e6, least));
}

static const char *bound_words(const struct explain *e, const struct why *w)
{
	return !w->roof.memory_bound ? "arithmetic" : e->device ? "device memory" : "memory";
}

static void roofline_words(const struct explain *e, const struct why *w)
{
	char ms[24], reached[48] = "", where[64] = "one core";
	if (e->device)
		snprintf(where, sizeof where, "all of the device (%d compute unit%s)", e->target.cores,
			 plural_s(e->target.cores));
	if (served_ns(w) > 0)
		snprintf(reached, sizeof reached, "; %.0f %% of it reached", roofline_pct(e, w));
	table_item("  roofline ", "%s on %s, limited by %s%s", table_ms(w->roof.ns / 1e6, ms), where,
		   bound_words(e, w), reached);
	if (roof_why(&w->roof, roofline_pct(e, w)))
		table_item(INDENT, "%s", roof_why(&w->roof, roofline_pct(e, w)));
}

/* The record of the kernel and the table of the log may have other fastest runs of it, because the search
 * tried it at another moment. Says so if the two differ by more than NOISE_PERCENT. */
static void tried_words(const struct why *w)
{
	enum { NOISE_PERCENT = 2 };
	char ms[24];
	double tried_ns = w->logged ? explain_fastest_ns(&w->log, w->cand) : 0;
	double ns = (double)(w->tuned ? &w->best : &w->first)->meas.min_ns;
	if (tried_ns <= 0 || ns <= 0)
		return;
	table_ms(tried_ns / 1e6, ms);
	if (tried_ns < 0.8 * served_ns(w))
		table_item(
		    INDENT,
		    "when the search tried it, its fastest run took %s: the machine was slower when the "
		    "time above was measured, and hone bench measures now",
		    ms);
	else if (fabs(tried_ns - ns) * 100 > NOISE_PERCENT * ns)
		table_item(
		    INDENT,
		    "when the search tried it, its fastest run took %s, as the table below has it: the "
		    "machine was %s at that moment than when the time above was measured, and each of the "
		    "two is compared with a default of its own moment",
		    ms, tried_ns > ns ? "slower" : "faster");
}

/* If the chosen kernel is a library's: says which kernel runs in processes that cannot use that library. */
static void own_words(struct explain *e, const struct why *w)
{
	struct rec own;
	char ms[24];
	if (!library_is_cand(w->cand) || !look_up(e, w->task, REC_OWN, &own))
		return;
	log_plain(own.cand);
	table_item("  own      ", "%s", own.cand);
	table_item(INDENT, "alone %s; hone's own best kernel, which runs where that library cannot be used",
		   table_ms((double)own.meas.median_ns / 1e6, ms));
}

static void why_words(struct explain *e, const struct why *w)
{
	char ms[24], draft[24], fastest[64];
	const bool is_default = w->tuned && !strcmp(w->cand, w->def);
	table_say("%s, %d use%s", w->label, w->task->uses, plural_s(w->task->uses));
	printf("  task\n");
	for (const char *p = w->task->text; *p;) {
		int n = (int)strcspn(p, "\n");
		printf("    %.*s\n", n, p);
		p += n + (p[n] == '\n');
	}
	table_item("  default  ", "%s", w->def);
	if (w->times.default_ns > 0)
		table_item(INDENT, "alone %s%s%s, drafted %s", table_ms(w->times.default_ns / 1e6, ms),
			   is_default  ? fastest_words(&w->best, fastest)
			   : !w->tuned ? fastest_words(&w->first, fastest)
				       : "",
			   w->times.raced && w->tuned && strcmp(w->cand, w->def)
			       ? " (the chosen one's time, times the ratio of their races)"
			       : "",
			   table_ms(w->default_draft_ns / 1e6, draft));
	if (!w->tuned && e->device) {
		table_item("  chosen   ", "the default: nothing is recorded for %s in this cache", e->device);
	} else if (!w->tuned) {
		table_item("  chosen   ", "the default: nothing is recorded for %d thread%s in this cache",
			   e->threads, plural_s(e->threads));
	} else if (is_default) {
		table_item(
		    "  chosen   ",
		    "the default: nothing tried has won a race against it by more than the race's noise");
	} else {
		char other[48] = "";
		if (w->best.threads != e->threads)
			snprintf(other, sizeof other, "; it was tuned for %d thread%s", w->best.threads,
				 plural_s(w->best.threads));
		table_item("  chosen   ", "%s", w->cand);
		table_item(INDENT, "alone %s%s, drafted %s%s", table_ms(w->times.best_ns / 1e6, ms),
			   fastest_words(&w->best, fastest), table_ms(w->best_draft_ns / 1e6, draft), other);
		headline_print(w->times.raced ? "           by their races, with the spread of both records: "
					      : "           by records of different moments: ",
			       &w->times.faster, "the default", NULL);
		if (w->times.raced && w->times.faster.rounds && !faster_significant(&w->times.faster))
			table_item(
			    INDENT,
			    "it won its race against the default, in which both ran at the same moment; "
			    "the spread of the two records, which are of other moments, is wider");
	}
	tried_words(w);
	own_words(e, w);
	if (served_ns(w) > 0 && !e->alone_said++)
		table_words("", 11, ALONE_WORDS);
	table_item("  level    ", "%s%s", level_name((int)level_of(e, w)),
		   level_of(e, w) != e->level ? ": nothing is recorded for the higher level" : "");
	if (w->stale)
		table_item("  stale    ", "%s: the next box times it again", stale_words(w->stale));
	roofline_words(e, w);
	if (e->device)
		launch_words(e, w);
	if (w->logged)
		e->marked += explain_log_words(&w->log, &w->payback, e->has_gain ? &e->gain : NULL, w->cand,
					       w->roof.ns / cores_used(e, w));
}

static void why_row(struct table *t, const struct explain *e, int number, const struct why *w,
		    struct roof_notes *notes)
{
	char share[24];
	roof_cell(notes, &w->roof, roofline_pct(e, w), share);
	double ns = served_ns(w), default_ns = w->times.default_ns;
	table_cell(t, "%d", number);
	table_cell(t, "%s", w->label);
	table_cell(t, "%d", w->task->uses);
	table_us(t, "", default_ns);
	table_us(t, "", ns);
	table_cell(t, "%s", share);
	table_cell(t, "%s", bound_words(e, w));
	struct buf only = {0};
	explain_levels_names(w->levels, &only);
	table_cell(t, w->levels ? "(only at level %s)" : "%s",
		   w->levels  ? buf_str(&only)
		   : w->tuned ? w->cand
			      : "(not tuned)");
	buf_free(&only);
}

/* The choices by which the graph is divided differently from the rules. */
static json_t *choices_json(const struct choices *c)
{
	json_t *list = json_array();
	for (int i = 0; i < c->n; i++)
		json_array_append_new(
		    list, json_pack("{ss so si}", "choice_kind", choice_kind_name(c->choice[i].kind), "name",
				    json_text(c->choice[i].name), "setting", c->choice[i].number));
	return list;
}

static void choices_words(const struct choices *c)
{
	table_say(c->n ? "choices for the graph that won against its rules:"
		       : "the graph is divided by rule: no choice is recorded");
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
			       .def = w->measured ? w->def : NULL,
			       .level = e->level,
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

/* The task that takes most of the time, as an argument of the next command: " NUMBER". */
struct slowest {
	double ns;
	char more[16];
};

/* Time of all uses of a task in an inference; drafted, if nothing was measured. */
static double total_ns(const struct why *w)
{
	return (served_ns(w) > 0 ? served_ns(w) : w->default_draft_ns) * w->task->uses;
}

static void slowest_add(struct slowest *s, const struct why *w, int number)
{
	if (total_ns(w) <= s->ns)
		return;
	s->ns = total_ns(w);
	snprintf(s->more, sizeof s->more, " %d", number);
}

/* Before the tasks: which are meant, where the word fits several. */
static void say_fits(const struct explain *e, const char *word, enum fit fit)
{
	int same = 0, all = 0;
	for (int i = 0; i < e->model.ntasks; i++) {
		same += fit_of(e, i, word) == fit;
		all += fit_of(e, i, word) != FIT_NONE;
	}
	if (all > 1)
		table_say("%d tasks contain '%s'; %s", all, word,
			  same < all    ? "shown is the one with exactly this name"
			  : same > FULL ? "in full: those that take the most time"
					: "all of them:");
}

/* Chooses the tasks that are shown in full: those that fit the word best; if they are many, the FULL slowest
 * of them. The others get a row each. Sets full[i] for task i. */
static int choose_full(struct explain *e, const char *word, enum fit fit, struct why *why, bool *full)
{
	double ns[FULL] = {0};
	int at[FULL], n = 0;
	say_fits(e, word, fit);
	for (int i = 0; i < e->model.ntasks; i++) {
		if (fit_of(e, i, word) != fit)
			continue;
		int rc = find_out(e, &e->model.task[i], why);
		if (rc < 0)
			return rc;
		double its = total_ns(why);
		trials_free(&why->log);
		int k = n < FULL ? n++ : FULL;
		for (; k > 0 && its > ns[k - 1]; k--)
			if (k < FULL) {
				ns[k] = ns[k - 1];
				at[k] = at[k - 1];
			}
		if (k < FULL) {
			ns[k] = its;
			at[k] = i;
		}
	}
	for (int k = 0; k < n; k++)
		full[at[k]] = true;
	return E_OK;
}

/* The rows of the tasks that fit a word but are not shown in full, and how to see one of them. */
static void print_others(const struct explain *e, struct table *t, struct roof_notes *notes, int n, int first)
{
	struct buf command = {0};
	char number[16];
	snprintf(number, sizeof number, " %d", first + 1);
	next_words(e->args, "explain", e->model.path, number, NULL, &command);
	printf("%d more task%s, which take less time:\n", n, plural_s(n));
	table_print(t, e->args->color);
	roof_notes_print(notes, t->shown & SHARES);
	printf("%s shows the first of these in full\n", buf_str(&command));
	buf_free(&command);
}

/* The tasks that are shown. */
struct listing {
	struct table t;
	json_t *json;
	struct payback all;
	struct roof_notes notes;
	struct slowest slowest;
	bool *full;         /* per task: it is shown in full, not as a row */
	int n, rows, first; /* first: the first row's task */
	int elsewhere;      /* tasks that have kernels at other levels alone, which are `levels` */
	unsigned levels;
	double alone_ns;    /* of all uses of the kernels that run, alone; NAN: of some it is not known */
	int tuned, others;  /* others: of these, tuned for another number of threads */
};

static int add_task(struct explain *e, int i, struct why *w, struct listing *l)
{
	int rc = find_out(e, &e->model.task[i], w);
	if (rc < 0)
		return rc;
	l->n++;
	l->tuned += w->tuned;
	l->elsewhere += w->levels != 0;
	l->levels |= w->levels;
	l->others += w->tuned && w->best.threads != e->threads;
	int uses = uses_served(e, w->task->key);
	l->alone_ns += !uses ? 0 : served_ns(w) > 0 ? served_ns(w) * uses : NAN;
	explain_payback_add(&l->all, &w->payback);
	if (arg_given(e->args, "dump"))
		rc = dump_stages(e, w);
	else if (e->args->json)
		json_array_append_new(l->json, why_json(e, w));
	else if (l->full[i])
		why_words(e, w);
	else {
		why_row(&l->t, e, i + 1, w, &l->notes);
		l->first = l->rows++ ? l->first : i;
	}
	slowest_add(&l->slowest, w, i + 1);
	trials_free(&w->log);
	return rc;
}

static int listing_json(struct explain *e, const struct listing *l)
{
	return json_out(json_pack("{so ss so so so so sO}", "model", json_text(e->model.path), "level",
				  level_name((int)e->level), "recipe", calibrate_json(&e->model.recipe),
				  "graph_choices", choices_json(&e->model.choices), "gain",
				  e->has_gain ? headline_gain_json(&e->gain) : json_null(), "payback",
				  explain_payback_json(&l->all), "tasks", l->json));
}

/* The sum of the kernels' times beside that of the network: they are of different moments. */
static void moments_words(const struct explain *e, const struct listing *l)
{
	if (e->has_gain && isfinite(l->alone_ns))
		table_say(
		    "these kernels alone add up to %.3f ms, each timed in its box; the whole network took "
		    "%.3f ms, measured %s",
		    l->alone_ns / 1e6, e->gain.now_ms, e->gain.date);
}

/* The whole model. */
static void print_model(struct explain *e, struct listing *l)
{
	table_print(&l->t, e->args->color);
	ready_say_threads(l->others, l->tuned, e->threads);
	const bool untuned = !l->tuned && !l->elsewhere;
	if (!untuned)
		table_words("", 0, ALONE_WORDS);
	moments_words(e, l);
	roof_notes_print(&l->notes, l->t.shown & SHARES);
	calibrate_words(&e->model.recipe);
	explain_levels_words(e->args, e->model.path, e->level, l->elsewhere, l->levels);
	choices_words(&e->model.choices);
	if (e->has_gain)
		headline_gain("tuning: ", &e->gain);
	if (l->all.tasks)
		explain_payback_words(&l->all, e->has_gain ? &e->gain : NULL, "");
	if (e->stale)
		table_say("stale: %d of these kernels; the next box times them again", e->stale);
	if (untuned && l->n)
		keep_tune(e->args, arg_str(e->args, "cache", NULL), e->model.path, " --budget 20s");
	else if (l->n)
		next_hone(e->args, "explain", e->model.path, l->slowest.more);
}

/* Those that the word names. */
static void print_named(struct explain *e, struct listing *l)
{
	if (e->marked)
		explain_marked_words();
	if (l->rows)
		print_others(e, &l->t, &l->notes, l->rows, l->first);
	explain_levels_words(e->args, e->model.path, e->level, l->elsewhere, l->levels);
	next_hone(e->args, "bench", e->model.path, "");
}

static int show(struct explain *e, const char *word, struct listing *l)
{
	if (e->has_gain)
		explain_payback_of(&l->all, &e->gain);
	if (arg_given(e->args, "dump"))
		return 0;
	if (e->args->json)
		return listing_json(e, l);
	(word ? print_named : print_model)(e, l);
	return 0;
}

static int explain_tasks(struct explain *e, const char *word)
{
	static const char *const head[] = {"#",  "task",        "uses",       "default us",
					   "us", "of roofline", "limited by", "chosen"};
	struct listing l = {.t = {.align = "rlrrrrll", .drop = "00100324", .more = "hone explain MODEL TASK shows all of a task"},
			    .json = json_array(),
			    .slowest = {.ns = -1},
			    .first = -1,
			    .full = ARENA_ARRAY(&e->arena, bool, e->model.ntasks + 1)};
	struct why *why = ARENA_NEW(&e->arena, struct why);
	enum fit fit = best_fit(e, word);
	int rc = 0;
	if (word && !e->args->json && !arg_given(e->args, "dump"))
		rc = choose_full(e, word, fit, why, l.full);
	for (int i = 0; i < 8; i++)
		table_cell(&l.t, "%s", head[i]);
	for (int i = 0; i < e->model.ntasks && rc >= 0; i++)
		if (!word || fit_of(e, i, word) == fit)
			rc = add_task(e, i, why, &l);
	if (rc >= 0)
		rc = show(e, word, &l);
	arena_free(&l.t.arena);
	json_decref(l.json);
	return rc;
}

/* A record of the device, for the shortest time. */
static int look_at_time(void *ctx, const struct rec *r)
{
	struct explain *e = ctx;
	double ns = (double)r->meas.median_ns;
	if (key_equal(r->target_key, target_key(&e->target)) && ns > 0 &&
	    (e->least_ns <= 0 || ns < e->least_ns))
		e->least_ns = ns;
	return E_OK;
}

static int open_all(struct explain *e)
{
	char dir[4096];
	const char *device = model_device(e->args);
	int rc = model_device_check(e->args);
	if (rc >= 0)
		rc = model_cache_to_read(e->args, dir, sizeof dir);
	if (rc >= 0)
		rc = model_cache_read(dir, &e->cache);
	if (rc >= 0)
		rc = machine_target(dir, &e->target);
	if (rc >= 0 && device)
		rc = device_target(device, NULL, dir, &e->target);
	if (rc >= 0 && device && (e->target.fma_gflops <= 0 || device_is_doubted(device, dir)))
		rc = device_measure(device, NULL, dir, &e->target);
	e->device = device;
	if (rc >= 0 && device)
		rc = cache_each_rec(e->cache, &e->arena, look_at_time, e);
	if (rc >= 0)
		rc = model_level(e->args, &e->level);
	if (rc >= 0)
		rc = e->threads = device ? 1 : model_threads(e->args, &e->target);
	if (rc >= 0)
		rc = model_open(e->args, e->args->pos[0],
				&(struct chosen_for){e->cache, &e->target, e->threads, e->level}, &e->model);
	if (rc < 0)
		return rc;
	struct key k = history_key(e->model.g, &e->target, e->threads, e->level);
	e->has_gain = gain_get(e->cache, k, &e->gain);
	e->alone = is_network_alone(e);
	worker_emitter(device ? device : "cpu", &e->target, e->emitter);
	return rc;
}

static int placement(const struct explain *e)
{
	const struct placement_of p = {e->cache, &e->target,    e->threads,
				       e->level, e->model.task, e->model.ntasks};
	if (e->args->json)
		return json_out(explain_placement_json(&p));
	(void)explain_placement_words(&p, e->args->color);
	return 0;
}

static int check_words(const struct args *a)
{
	if (a->json && arg_given(a, "dump"))
		return fail(E_USAGE, "-d prints the stages of a task as text; leave --json out, or -d");
	if (a->npos > 1 && arg_flag(a, "placement"))
		return fail(E_USAGE, "--placement shows all tasks of a model; leave '%s' out", a->pos[1]);
	return E_OK;
}

static int run_explain(const struct args *a)
{
	struct explain e = {.args = a};
	int rc = check_words(a);
	if (rc >= 0)
		rc = open_all(&e);
	if (rc >= 0) {
		const char *word = a->npos > 1 ? a->pos[1] : NULL;
		rc = arg_flag(a, "placement")                 ? placement(&e)
		     : word && best_fit(&e, word) == FIT_NONE ? no_such_task(&e, word)
							      : explain_tasks(&e, word);
		model_close(&e.model);
	}
	if (e.cache)
		cache_close(e.cache);
	arena_free(&e.arena);
	return rc < 0 ? rc : 0;
}

static const struct opt opts[] = {
    OPT_DEVICE,
    OPT_LEVEL,
    {"dump", OPT_STR, "LETTERS",
     "stages of a task: t text, s space, l loops, c code (for a device, its OpenCL C or PTX), m "
     "measurements",
     'd', .values = "t s l c m " DUMP_LETTERS},
    {"placement", OPT_FLAG, NULL,
     "of each task the back ends that were timed (hone's kernels, and libraries': hone tune --library), and "
     "which one runs"},
    OPT_THREADS,
    OPT_CACHE,
    OPT_SHAPE,
    {NULL},
};

const struct cmd cmd_explain = {
    .usage = "MODEL [TASK] [-d LETTERS] [--placement] [--device cpu[:CLUSTER]|opencl:N|cuda:N] [--cache DIR]",
    .summary = "show why a kernel was chosen",
    .details =
	"TASK: the name of a node or a task, its number in the table of hone explain MODEL, or the first "
	"digits "
	"of\n"
	"its key; if there is none, a part of names, which may fit many tasks: the slowest three are shown\n"
	"in full and the others in a line each. It shows the task's text, the default\n"
	"schedule, the chosen one, what was measured, what bounds it, what was tried and predicted, how the\n"
	"search went, and after how many inferences the tuning has paid for itself. Without TASK it prints\n"
	"a row for each task, and the choices by which the graph is divided differently from its rules.\n"
	"Times are of each kernel alone, as the search measured them; hone bench times kernels in the "
	"network.",
    .min_pos = 1,
    .max_pos = 2,
    .opts = opts,
    .run = run_explain,
    .name = "explain",
    .takes_task = true,
};
