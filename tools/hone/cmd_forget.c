/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/hint.h"
#include "agent/cache/history.h"
#include "agent/worker/marked.h"
#include "agent/cache/trials.h"
#include "agent/cache/json.h"
#include "tools/hone/drivers.h"
#include "search/job.h"
#include "tools/hone/model.h"
#include "tools/hone/known.h"
#include "tools/hone/next.h"
#include "tools/hone/table.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 64 /* largest --threads that is considered */ };

struct forget {
	struct cache *cache;
	const char *task; /* the first digits of a key; NULL: any */
	bool all;
	int ntasks; /* tasks of the model, if one was given */
	struct key *tasks;
	int kernels, hints, logs, marks; /* that were removed; hints: imported records */
};

static bool wanted(const struct forget *f, struct key task)
{
	char text[33];
	key_text(task, text);
	if (f->all || (f->task && !strncmp(text, f->task, strlen(f->task))))
		return true;
	for (int i = 0; i < f->ntasks; i++)
		if (key_equal(f->tasks[i], task))
			return true;
	return false;
}

static bool task_wanted(void *ctx, struct key task)
{
	return wanted(ctx, task);
}

static int forget_rec(void *ctx, const struct rec *r)
{
	struct forget *f = ctx;
	if (!wanted(f, r->task))
		return 0;
	int rc = cache_forget(f->cache, CACHE_CODE, code_key(r));
	if (rc >= 0)
		rc = cache_forget(f->cache, CACHE_REC, rec_key(r));
	f->kernels += rc >= 0;
	return rc;
}

static int forget_hint(void *ctx, const struct rec *h)
{
	struct forget *f = ctx;
	if (!wanted(f, h->task))
		return 0;
	int rc = cache_forget(f->cache, CACHE_HINT, rec_key(h));
	f->hints += rc >= 0;
	return rc;
}

static int forget_log(void *ctx, const struct trials *l)
{
	struct forget *f = ctx;
	if (!wanted(f, l->task))
		return 0;
	int rc = cache_forget(f->cache, CACHE_TRIALS, trials_key(l));
	f->logs += rc >= 0;
	return rc;
}

static int forget_type(struct cache *c, enum cache_type t)
{
	struct arena a = {0};
	struct key *k;
	int n = cache_keys(c, t, &a, &k), rc = 0;
	for (int i = 0; i < n && rc >= 0; i++)
		rc = cache_forget(c, t, k[i]);
	arena_free(&a);
	return rc;
}

struct codes {
	struct key *key;
	int n, cap;
};

static int add_code(void *ctx, const struct rec *r)
{
	struct codes *c = ctx;
	if (c->n == c->cap)
		return fail(E_CORRUPT, "the cache lists more records than it counts; nothing was removed");
	c->key[c->n++] = code_key(r);
	return 0;
}

static int by_key(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct key));
}

/* Forgets code of which no record is left: that of former best candidates, too. */
static int forget_orphans(struct cache *c)
{
	struct arena a = {0};
	struct key *all;
	int n = cache_keys(c, CACHE_CODE, &a, &all);
	struct codes used = {.cap = 0};
	struct cache_state state;
	cache_state(c, &state);
	used.cap = state.count[CACHE_REC];
	used.key = ARENA_ARRAY(&a, struct key, used.cap + 1);
	int rc = n < 0 ? n : cache_each_rec(c, &a, add_code, &used);
	qsort(used.key, (size_t)used.n, sizeof *used.key, by_key);
	for (int i = 0; i < n && rc >= 0; i++)
		if (!bsearch(&all[i], used.key, (size_t)used.n, sizeof *used.key, by_key))
			rc = cache_forget(c, CACHE_CODE, all[i]);
	arena_free(&a);
	return rc;
}

static int forget_history(struct forget *f, const struct graph *g, const struct target *t)
{
	int rc = 0;
	for (int i = 0; i < LEVELS * THREADS && rc >= 0; i++) {
		struct key k = history_key(g, t, 1 + i / LEVELS, i % LEVELS);
		rc = cache_forget(f->cache, CACHE_HISTORY, k);
		if (rc >= 0)
			rc = cache_forget(f->cache, CACHE_GAIN, k);
	}
	return rc;
}

static int add_tasks(struct forget *f, const struct target *t, struct graph *g, struct choices *c,
		     struct arena *arena)
{
	struct steps *steps;
	struct step_task *task;
	int rc = chosen_divide(t, NULL, 0, g, arena, c, &steps), n = 0;
	if (rc >= 0)
		rc = n = steps_tasks(steps, arena, &task);
	struct key *all = ARENA_ARRAY(arena, struct key, f->ntasks + n + 1);
	for (int i = 0; i < f->ntasks; i++)
		all[i] = f->tasks[i];
	for (int i = 0; i < n; i++)
		all[f->ntasks++] = task[i].key;
	f->tasks = all;
	return rc;
}

/* Finds the tasks of the model as divided by rules, and as the cache divides it for any number of threads. */
static int find_tasks(struct forget *f, const struct target *t, struct graph *g, struct arena *arena)
{
	struct choices met[LEVELS * THREADS + 1] = {{0}}, c = {0};
	int n = 1, rc = add_tasks(f, t, g, &c, arena);
	for (int i = 0; i < LEVELS * THREADS && rc >= 0; i++) {
		const struct chosen_for chosen = {f->cache, t, 1 + i / LEVELS, i % LEVELS};
		rc = chosen_load(&chosen, g, arena, &c);
		int k = 0;
		while (rc >= 0 && k < n && !choices_equal(&met[k], &c))
			k++;
		if (rc < 0 || k < n)
			continue;
		met[n++] = c;
		rc = add_tasks(f, t, g, &c, arena);
	}
	return rc;
}

/* Finds the tasks of a model at one level, and forgets what is kept for the model as a whole. */
static int at_level(const struct args *a, const char *path, const struct target *t, enum level level,
		    struct forget *f, struct arena *arena)
{
	struct model m;
	const struct chosen_for chosen = {f->cache, t, t->cores, level};
	int rc = model_open(a, path, &chosen, &m);
	if (rc < 0)
		return rc;
	rc = find_tasks(f, t, m.g, arena);
	if (rc >= 0)
		rc = chosen_forget(&chosen, m.g);
	if (rc >= 0)
		rc = forget_history(f, m.g, t);
	model_close(&m);
	return rc;
}

/* The key of the model's recipe, if the cache has one. */
static int find_recipe(const struct args *a, const char *path, struct cache *c, struct key *k)
{
	struct graph *g;
	struct arena scratch = {0};
	struct blob text;
	int rc = model_import(a, path, &g);
	if (rc < 0)
		return rc;
	*k = recipe_key(g);
	graph_free(g);
	rc = cache_get(c, CACHE_RECIPE, *k, &scratch, &text);
	arena_free(&scratch);
	return rc;
}

enum { MOST_OF_A_KIND = 64 /* devices with one kind of driver */ };

/* The processor, and the devices whose peaks the folder keeps. Their drivers are not asked: a device that is
 * gone may have records. */
static int find_targets(const char *dir, struct target *t)
{
	int rc = target_host(&t[0]), n = 1;
	for (int i = 0; i < DRIVERS * MOST_OF_A_KIND && rc >= 0; i++) {
		char path[PATH_MAX], text[4096] = "";
		struct blob b;
		struct arena scratch = {0};
		if (snprintf(path, sizeof path, "%s/target-%s:%d", dir,
			     drivers_name((enum drivers)(i / MOST_OF_A_KIND)),
			     i % MOST_OF_A_KIND) < (int)sizeof path &&
		    file_read(&scratch, path, sizeof text - 1, &b) >= 0)
			memcpy(text, b.p, b.n);
		arena_free(&scratch);
		text[strcspn(text, "\n")] = 0;
		if (target_parse(text, &t[n]) >= 0 && target_runs_items(&t[n]))
			n++;
	}
	return rc < 0 ? rc : n;
}

/* Of the processor and the devices; at level int8 the model is another graph, with tasks of its own. */
static int of_model(const struct args *a, const char *path, const char *dir, struct forget *f,
		    struct arena *arena)
{
	struct target *t = ARENA_ARRAY(arena, struct target, DRIVERS * MOST_OF_A_KIND + 1);
	struct key recipe;
	int rc = find_targets(dir, t), n = rc;
	for (int i = 0; i < n && rc >= 0; i++)
		rc = at_level(a, path, &t[i], LEVEL_FP32, f, arena);
	if (rc < 0)
		return rc;
	rc = find_recipe(a, path, f->cache, &recipe);
	if (rc < 0)
		return rc == E_NOTFOUND ? 0 : rc;
	for (int i = 0; i < n && rc >= 0; i++)
		rc = at_level(a, path, &t[i], LEVEL_INT8, f, arena);
	return rc >= 0 || rc == E_CORRUPT ? cache_forget(f->cache, CACHE_RECIPE, recipe) : rc;
}

static int forget(const struct args *a, const char *dir, struct forget *f)
{
	struct arena arena = {0};
	const char *model = arg_str(a, "model", NULL);
	int rc = model ? of_model(a, model, dir, f, &arena) : 0;
	if (rc >= 0)
		rc = cache_each_rec(f->cache, &arena, forget_rec, f);
	if (rc >= 0 && f->kernels)
		rc = forget_orphans(f->cache);
	if (rc >= 0)
		rc = hint_each(f->cache, &arena, forget_hint, f);
	if (rc >= 0)
		rc = trials_each(f->cache, forget_log, f);
	if (rc >= 0)
		rc = f->marks = marked_forget(f->cache, task_wanted, f);
	for (enum cache_type t = CACHE_REC; f->all && rc >= 0 && t < CACHE_TYPES; t++)
		rc = t == CACHE_FORGET || !cache_keeps((int)t) ? 0 : forget_type(f->cache, t);
	if (rc >= 0)
		rc = cache_commit(f->cache);
	if (rc >= 0 && f->all) /* compaction removes the bytes themselves */
		rc = cache_compact(f->cache);
	arena_free(&arena);
	return rc;
}

static int run_forget(const struct args *a)
{
	char dir[4096];
	struct forget f = {.task = arg_str(a, "task", NULL), .all = arg_flag(a, "all")};
	if (!!f.task + f.all + !!arg_str(a, "model", NULL) != 1)
		return fail(E_USAGE,
			    "missing option: give exactly one of --task KEY, --model MODEL and --all");
	if (f.task && strlen(f.task) < 4)
		return fail(E_USAGE,
			    "--task %s: give at least four digits of a key, as hone tasks shows them",
			    f.task);
	int rc = model_cache_dir(a, dir, sizeof dir);
	if (rc >= 0)
		rc = model_cache_check(dir);
	if (rc >= 0)
		rc = model_cache_open_in(a, true, dir, &f.cache);
	if (rc < 0)
		return rc;
	rc = forget(a, dir, &f);
	cache_close(f.cache);
	if (rc < 0)
		return rc;
	if (f.task && !f.kernels && !f.hints && !f.logs && !f.marks)
		return fail(E_NOTFOUND,
			    "no task of %s has a key that begins with %s; `hone show --json --cache %s` "
			    "lists the keys",
			    dir, f.task, dir);
	if (a->json)
		return json_out(json_pack("{so si si si si}", "cache", json_text(dir), "kernels", f.kernels,
					  "hints", f.hints, "logs", f.logs, "marks", f.marks));
	table_say("removed %d kernel%s, %d imported record%s and %d log%s from %s", f.kernels,
		  plural_s(f.kernels), f.hints, plural_s(f.hints), f.logs, plural_s(f.logs), dir);
	const char *model = arg_str(a, "model", NULL);
	if (model)
		next_hone(a, "tune", model, " --budget 20s");
	else
		known_after("tune", 1, (const char *const[]){dir}, dir);
	return 0;
}

static const struct opt opts[] = {
    {"task", OPT_STR, "KEY", "records of one task: the first digits of its key, as hone tasks shows it"},
    {"model", OPT_STR, "MODEL",
     "records of a model, for any number of threads and for the devices that this cache was tuned for: "
     "kernels, imported records and logs of its tasks, its choices and its history"},
    {"all", OPT_FLAG, NULL, "all records, and what the files still hold of older ones"},
    OPT_SHAPE,
    OPT_CACHE,
    OPT_CACHE_LIMIT,
    OPT_WAIT,
    {NULL},
};

const struct cmd cmd_forget = {
    .usage = "--task KEY | --model MODEL | --all [--cache DIR]",
    .summary = "remove records from the cache",
    .details =
	"Removes kernels, their code, imported records, the logs of tuning and the quarantine marks of\n"
	"candidates that never returned.\n"
	"Records in a read-only layer are hidden.",
    .opts = opts,
    .run = run_forget,
    .name = "forget",
};
