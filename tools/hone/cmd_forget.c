/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/gain.h"
#include "agent/cache/hint.h"
#include "agent/cache/history.h"
#include "agent/worker/marked.h"
#include "agent/cache/trials.h"
#include "agent/cache/json.h"
#include "kernels/graph/optimize.h"
#include "platform/base/log.h"
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

struct keys {
	int n;
	struct key *key;
};

struct forget {
	struct cache *cache;
	const char *task; /* the first digits of a key; NULL: any */
	bool all;
	struct keys tasks;               /* of the model, if one was given */
	struct keys shared;              /* with other models that this cache was tuned for; they are kept */
	struct buf others;               /* the models that have them */
	struct keys graphs;              /* of the model, at its levels */
	int kernels, hints, logs, marks; /* that were removed; hints: imported records */
	int recipes;                     /* of level int8, that were removed */
	int kept;                        /* kernels of shared tasks */
};

static bool keys_have(const struct keys *all, struct key k)
{
	for (int i = 0; i < all->n; i++)
		if (key_equal(all->key[i], k))
			return true;
	return false;
}

static bool begins(const struct forget *f, struct key task)
{
	char text[33];
	key_text(task, text);
	return f->task && !strncmp(text, f->task, strlen(f->task));
}

static bool wanted(const struct forget *f, struct key task)
{
	return f->all || begins(f, task) || (keys_have(&f->tasks, task) && !keys_have(&f->shared, task));
}

static bool task_wanted(void *ctx, struct key task)
{
	return wanted(ctx, task);
}

static int forget_rec(void *ctx, const struct rec *r)
{
	struct forget *f = ctx;
	f->kept += keys_have(&f->tasks, r->task) && keys_have(&f->shared, r->task);
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

/* Returns how many there were. */
static int forget_type(struct cache *c, enum cache_type t)
{
	struct arena a = {0};
	struct key *k;
	int n = cache_keys(c, t, &a, &k), rc = 0;
	for (int i = 0; i < n && rc >= 0; i++)
		rc = cache_forget(c, t, k[i]);
	arena_free(&a);
	return n < 0 ? n : rc < 0 ? rc : n;
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

static int add_tasks(struct keys *tasks, const struct target *t, struct graph *g, struct choices *c,
		     struct arena *arena)
{
	struct steps *steps;
	struct step_task *task;
	int rc = chosen_divide(t, NULL, 0, g, arena, c, &steps), n = 0;
	if (rc >= 0)
		rc = n = steps_tasks(steps, arena, &task);
	struct key *all = ARENA_ARRAY(arena, struct key, tasks->n + n + 1);
	for (int i = 0; i < tasks->n; i++)
		all[i] = tasks->key[i];
	for (int i = 0; i < n; i++)
		all[tasks->n++] = task[i].key;
	tasks->key = all;
	return rc;
}

/* Adds the tasks of an optimised graph as divided by rules, and as the cache divides it for any number of
 * threads. */
static int find_tasks(struct keys *tasks, struct cache *cache, const struct target *t, struct graph *g,
		      struct arena *arena)
{
	struct choices met[LEVELS * THREADS + 1] = {{0}}, c = {0};
	int n = 1, rc = add_tasks(tasks, t, g, &c, arena);
	for (int i = 0; i < LEVELS * THREADS && rc >= 0; i++) {
		const struct chosen_for chosen = {cache, t, 1 + i / LEVELS, i % LEVELS};
		rc = chosen_load(&chosen, g, arena, &c);
		int k = 0;
		while (rc >= 0 && k < n && !choices_equal(&met[k], &c))
			k++;
		if (rc < 0 || k < n)
			continue;
		met[n++] = c;
		rc = add_tasks(tasks, t, g, &c, arena);
	}
	return rc;
}

static void add_key(struct keys *all, struct key k, struct arena *arena)
{
	struct key *more = ARENA_ARRAY(arena, struct key, all->n + 1);
	for (int i = 0; i < all->n; i++)
		more[i] = all->key[i];
	more[all->n++] = k;
	all->key = more;
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
	rc = find_tasks(&f->tasks, f->cache, t, m.g, arena);
	if (rc >= 0)
		rc = chosen_forget(&chosen, m.g);
	add_key(&f->graphs, graph_key(m.g), arena);
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

/* Of n targets; at level int8 the model is another graph, with tasks of its own. */
static int of_model(const struct args *a, const char *path, const struct target *t, int n, struct forget *f,
		    struct arena *arena)
{
	struct key recipe;
	int rc = 0;
	for (int i = 0; i < n && rc >= 0; i++)
		rc = at_level(a, path, &t[i], LEVEL_FP32, f, arena);
	if (rc < 0)
		return rc;
	rc = find_recipe(a, path, f->cache, &recipe);
	if (rc < 0)
		return rc == E_NOTFOUND ? 0 : rc;
	for (int i = 0; i < n && rc >= 0; i++)
		rc = at_level(a, path, &t[i], LEVEL_INT8, f, arena);
	if (rc >= 0 || rc == E_CORRUPT)
		rc = cache_forget(f->cache, CACHE_RECIPE, recipe);
	f->recipes += rc >= 0;
	return rc;
}

/* Imports the model of a gain with the gain's shapes, and optimises it as it was tuned. */
static int graph_of_gain(struct cache *c, const struct gain *gain, struct arena *arena, struct graph **out)
{
	char *shapes = arena_strdup(arena, gain->shapes), *save = NULL;
	struct import_bind *bind = ARENA_ARRAY(arena, struct import_bind, sizeof gain->shapes);
	struct import_opts o = {.binds = bind};
	for (char *w = strtok_r(shapes, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		char *eq = strrchr(w, '=');
		if (!eq)
			return fail(E_CORRUPT, "%s: the cache keeps '%s' as a shape", gain->model, w);
		*eq = 0;
		bind[o.nbinds++] = (struct import_bind){w, eq + 1};
	}
	int rc = import_file(gain->model, &o, out);
	if (rc < 0)
		return rc;
	rc = recipe_use(&c, 1, gain->level, *out, NULL);
	if (rc >= 0)
		rc = graph_optimize(*out);
	if (rc < 0)
		graph_free(*out);
	return rc;
}

/* Adds the tasks of `tasks` that the model has, too, to the shared ones, and names the other model. */
static void share(struct forget *f, const struct gain *other, const struct keys *tasks, struct arena *arena)
{
	struct key *all = ARENA_ARRAY(arena, struct key, f->shared.n + f->tasks.n + 1);
	int n = 0;
	for (; n < f->shared.n; n++)
		all[n] = f->shared.key[n];
	for (int i = 0; i < f->tasks.n; i++)
		if (keys_have(tasks, f->tasks.key[i]) && !keys_have(&f->shared, f->tasks.key[i]))
			all[n++] = f->tasks.key[i];
	bool shares = false;
	for (int i = 0; i < f->tasks.n && !shares; i++)
		shares = keys_have(tasks, f->tasks.key[i]);
	f->shared = (struct keys){n, all};
	if (shares)
		buf_printf(&f->others, "%s%s%s%s", f->others.n ? ", " : "", other->model,
			   other->shapes[0] ? " of " : "", other->shapes);
}

/* A gain of the cache, and what is known of its model. */
struct other {
	struct key key;
	struct gain gain;
	bool gone; /* the gain is forgotten, too: it is of the model itself, or a kernel that it tells of goes
		    */
};

/* The gain before other i that is of the same graph; NULL: none. */
static const struct other *met_before(const struct other *all, int i)
{
	const struct gain *g = &all[i].gain;
	for (int k = 0; k < i; k++)
		if (!strcmp(all[k].gain.model, g->model) && !strcmp(all[k].gain.shapes, g->shapes) &&
		    (all[k].gain.level == LEVEL_INT8) == (g->level == LEVEL_INT8))
			return &all[k];
	return NULL;
}

/* Looks at what another model shares with the model that is forgotten, or at whether it has the task that is
 * forgotten. */
static int look_at(struct forget *f, const struct target *t, int n, struct other *o, struct arena *arena)
{
	struct graph *g;
	struct keys tasks = {0};
	int rc = graph_of_gain(f->cache, &o->gain, arena, &g);
	if (rc < 0)
		return rc;
	/* It may be the model itself, with a machine or a number of threads that is not looked for. */
	o->gone = keys_have(&f->graphs, graph_key(g));
	for (int k = 0; k < n && rc >= 0 && !o->gone; k++)
		rc = find_tasks(&tasks, f->cache, &t[k], g, arena);
	if (rc >= 0)
		share(f, &o->gain, &tasks, arena);
	for (int i = 0; i < tasks.n && !o->gone; i++)
		o->gone = begins(f, tasks.key[i]);
	graph_free(g);
	return rc;
}

/* Looks at the models of which the cache has gains. A model that cannot be read is left out. */
static int other_models(struct forget *f, const struct target *t, int n, struct arena *arena)
{
	struct key *key;
	int nkeys = cache_keys(f->cache, CACHE_GAIN, arena, &key), unread = 0, found = 0, rc = 0;
	struct other *all = ARENA_ARRAY(arena, struct other, (nkeys < 0 ? 0 : nkeys) + 1);
	for (int i = 0; i < nkeys && rc >= 0; i++) {
		struct other *o = &all[found];
		o->key = key[i];
		if (!gain_get(f->cache, key[i], &o->gain))
			continue;
		const struct other *met = met_before(all, found++);
		if (met)
			o->gone = met->gone;
		else
			unread += look_at(f, t, n, o, arena) < 0;
		if (o->gone)
			rc = cache_forget(f->cache, CACHE_GAIN, o->key);
	}
	if (unread && f->task)
		log_info("%d model%s that this cache was tuned for cannot be read: if one has this task, its "
			 "gain stays",
			 unread, plural_s(unread));
	if (unread && !f->task)
		log_info(
		    "%d model%s that this cache was tuned for cannot be read: kernels that %s shares are "
		    "removed, too",
		    unread, plural_s(unread), unread == 1 ? "it" : "each");
	return nkeys < 0 ? nkeys : rc;
}

static int forget(const struct args *a, const char *dir, struct forget *f)
{
	struct arena arena = {0};
	const char *model = arg_str(a, "model", NULL);
	struct target *t = ARENA_ARRAY(&arena, struct target, DRIVERS * MOST_OF_A_KIND + 1);
	int n = f->all ? 0 : find_targets(dir, t), rc = n;
	if (rc >= 0 && model)
		rc = of_model(a, model, t, n, f, &arena);
	if (rc >= 0 && !f->all)
		rc = other_models(f, t, n, &arena);
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
	for (enum cache_type k = CACHE_REC; f->all && rc >= 0 && k < CACHE_TYPES; k++) {
		rc = k == CACHE_FORGET || !cache_keeps((int)k) ? 0 : forget_type(f->cache, k);
		f->recipes += k == CACHE_RECIPE && rc > 0 ? rc : 0;
	}
	if (rc >= 0)
		rc = cache_commit(f->cache);
	if (rc >= 0 && f->all) /* compaction removes the bytes themselves */
		rc = cache_compact(f->cache);
	arena_free(&arena);
	return rc;
}

/* Appends what the user loses with the recipes: examples have to be there to make them again. */
static void put_recipes(const struct forget *f, struct buf *out)
{
	if (f->recipes && !f->all)
		buf_puts(out,
			 ", and its recipe of level int8, which needs examples of inputs to be made again");
	else if (f->recipes)
		buf_printf(
		    out, ", and %d recipe%s of level int8, which need%s examples of inputs to be made again",
		    f->recipes, plural_s(f->recipes), f->recipes == 1 ? "s" : "");
}

/* Says what was removed; an error if nothing has the key of --task. */
static int report(const struct args *a, const char *dir, struct forget *f)
{
	if (f->task && !f->kernels && !f->hints && !f->logs && !f->marks)
		return fail(E_NOTFOUND,
			    "no task of %s has a key that begins with %s; `hone show --json --cache %s` "
			    "lists the keys",
			    dir, f->task, dir);
	if (a->json)
		return json_out(json_pack("{so si si si si si si}", "cache", json_text(dir), "kernel_count",
					  f->kernels, "hints", f->hints, "logs", f->logs, "marks", f->marks,
					  "recipes", f->recipes, "shared", f->kept));
	struct buf recipes = {0};
	put_recipes(f, &recipes);
	table_say("removed %d kernel%s, %d imported record%s and %d log%s from %s%s", f->kernels,
		  plural_s(f->kernels), f->hints, plural_s(f->hints), f->logs, plural_s(f->logs), dir,
		  buf_str(&recipes));
	buf_free(&recipes);
	const char *model = arg_str(a, "model", NULL);
	if (f->kept)
		table_say("kept %d kernel%s that other models, or this one at other sizes, use, too: %s; "
			  "--shape forgets "
			  "a model at such sizes, and `hone forget --task KEY` a single kernel",
			  f->kept, plural_s(f->kept), buf_str(&f->others));
	if (model)
		next_hone(a, "tune", model, " --budget 20s");
	else
		known_after("tune", 1, (const char *const[]){dir}, dir);
	return 0;
}

/* A model, or a task's key, without its option. */
static int refuse_word(const char *word, bool given)
{
	bool key = strlen(word) >= 4 && !word[strspn(word, "0123456789abcdef")] && !file_exists(word);
	struct buf text = {0};
	shell_word(&text, word);
	int rc = fail(E_USAGE, "unexpected argument '%s'%s%s%s", word,
		      given ? "; leave it out" : "; to remove its records: hone forget --",
		      given ? ""
		      : key ? "task "
			    : "model ",
		      given ? "" : buf_str(&text));
	buf_free(&text);
	return rc;
}

static int run_forget(const struct args *a)
{
	char dir[4096];
	struct forget f = {.task = arg_str(a, "task", NULL), .all = arg_flag(a, "all")};
	int given = !!f.task + f.all + !!arg_str(a, "model", NULL);
	if (a->npos)
		return refuse_word(a->pos[0], given > 0);
	if (given != 1)
		return fail(E_USAGE, "%s: give exactly one of --task KEY, --model MODEL and --all",
			    given ? "too many options" : "missing option");
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
	if (rc >= 0)
		rc = report(a, dir, &f);
	buf_free(&f.others);
	return rc;
}

static const struct opt opts[] = {
    {"task", OPT_STR, "KEY", "records of one task: the first digits of its key, as hone tasks shows it"},
    {"model", OPT_STR, "MODEL",
     "records of a model, for any number of threads and for the devices that this cache was tuned for: "
     "kernels, imported records and logs of its tasks, its choices, its history and its recipe of level "
     "int8, which needs examples of inputs to be made again; what another model that this cache was tuned "
     "for uses, too, is kept"},
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
	"candidates that never returned. --model and --all remove recipes of level int8, too.\n"
	"Records in a read-only layer are hidden.",
    .max_pos = 1, /* which is refused with the option that it lacks */
    .opts = opts,
    .run = run_forget,
    .name = "forget",
};
