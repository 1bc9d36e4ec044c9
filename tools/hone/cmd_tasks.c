/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/json.h"
#include "agent/cache/lookup.h"
#include "agent/worker/device.h"
#include "platform/base/file.h"
#include "platform/base/log.h"
#include "tools/hone/keep.h"
#include "tools/hone/model.h"
#include "tools/hone/next.h"
#include "tools/hone/table.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Where the listed tasks run, and what the cache has for them. */
struct listed {
	const char *device;  /* of --device; NULL: it was not given */
	struct cache *cache; /* NULL: none */
	struct target target;
	int threads;
	enum level level;
};

/* "tuned", "default" or "none": the kernel for the device in the cache. */
static const char *kernel_of(const struct listed *l, const struct step_task *t)
{
	struct arena scratch = {0};
	struct rec r;
	const struct lookup want = {target_key(&l->target), &l->target, l->threads, l->level, REC_BEST};
	bool there = l->cache && cache_find_rec(l->cache, t->key, &l->target, l->threads, l->level,
						REC_BEST, &scratch, &r) >= 0;
	const char *kernel = !there ? "none" : lookup_at_default(l->cache, &want, &r) ? "default" : "tuned";
	arena_free(&scratch);
	return kernel;
}

static json_t *task_json(const struct listed *l, const struct step_task *t)
{
	char key[33], label[96];
	key_text(t->key, key);
	task_label(t->task, label);
	return json_pack("{ss so so si so ss*}", "task_key", key, "task_text", json_text(t->text), "label",
			 json_text(label), "uses", t->uses, "gflop", json_num(task_flops(t->task) / 1e9),
			 "kernel", l->device ? kernel_of(l, t) : NULL);
}

static int tasks_json(const struct listed *l, const struct model *m)
{
	json_t *tasks = json_array();
	for (int i = 0; i < m->ntasks; i++)
		json_array_append_new(tasks, task_json(l, &m->task[i]));
	return json_out(json_pack("{so so sf ss}", "model", json_text(m->path), "tasks", tasks, "gflop",
				  m->steps->flops / 1e9, "device", l->device ? l->device : "cpu"));
}

/* The number of tasks for which the cache has a kernel. */
static int count_kernels(const struct listed *l, const struct model *m)
{
	int n = 0;
	for (int i = 0; i < m->ntasks; i++)
		n += strcmp(kernel_of(l, &m->task[i]), "none") != 0;
	return n;
}

/* Whether all tasks of the model were tuned at this level: in the cache that was given, or in the default one,
 * which may divide the model into other tasks than those that are listed. */
static bool is_tuned(const struct args *a, const struct listed *l, const struct model *m)
{
	char dir[PATH_MAX];
	struct listed of = *l;
	struct model divided;
	if (l->cache)
		return m->ntasks && count_kernels(l, m) == m->ntasks;
	if (log_level() < LOG_NORMAL || model_cache_default(dir, sizeof dir) < 0 || !file_is_dir(dir) ||
	    model_cache_open_in(a, false, dir, &of.cache) < 0)
		return false;
	const struct chosen_for chosen = {of.cache, &l->target, l->threads, l->level};
	bool tuned = count_kernels(&of, m) > 0 && model_open(a, m->path, &chosen, &divided) >= 0;
	if (tuned) {
		tuned = count_kernels(&of, &divided) == divided.ntasks;
		model_close(&divided);
	}
	cache_close(of.cache);
	return tuned;
}

static void next_step(const struct args *a, const struct listed *l, const struct model *m)
{
	bool untunable = model_is_untunable(m);
	next_flush();
	if (untunable)
		log_info(UNTUNABLE);
	if (untunable || is_tuned(a, l, m)) /* nothing is left to tune at this level */
		next_hone(a, "bench", m->path, "");
	else
		keep_tune(a, arg_str(a, "cache", NULL), m->path, " --budget 20s");
}

static void tasks_table(const struct args *a, const struct listed *l, const struct model *m)
{
	struct table t = {.align = l->device ? "rrrrll" : "rrrrl", .drop = l->device ? "001000" : "00100"};
	const char *const head[] = {"uses", "MFLOP", "share", "key", l->device ? "kernel" : "task", "task"};
	int kernels = 0;
	for (int i = 0; i < 5 + !!l->device; i++)
		table_cell(&t, "%s", head[i]);
	for (int i = 0; i < m->ntasks; i++) {
		const struct step_task *s = &m->task[i];
		double flops = task_flops(s->task);
		char label[96], key[33];
		task_label(s->task, label);
		key_text(s->key, key);
		table_cell(&t, "%d", s->uses);
		table_cell(&t, "%.2f", flops / 1e6);
		table_cell(&t, "%.1f %%", m->steps->flops > 0 ? 100 * flops * s->uses / m->steps->flops : 0);
		table_cell(&t, "%.8s", key);
		if (l->device) {
			const char *kernel = kernel_of(l, s);
			kernels += strcmp(kernel, "none") != 0;
			table_cell(&t, "%s", kernel);
		}
		table_cell(&t, "%s", label);
	}
	table_print(&t, a->color);
	printf("%d task%s, %.3f GFLOP\n", m->ntasks, plural_s(m->ntasks), m->steps->flops / 1e9);
	if (l->device)
		table_say("%s: the cache has a kernel for %d of %d task%s", l->device, kernels, m->ntasks,
			  plural_s(m->ntasks));
	next_step(a, l, m);
}

/* Prints a line for each step that explain can name: its node's name, for the completion of the shell, which
 * asks for them when the user presses a key. Names that would not fit on a line are left out. */
static void tasks_names(const struct model *m)
{
	struct key *seen = calloc((size_t)m->steps->nsteps + 1, sizeof *seen); /* steps may share a name */
	for (int i = 0, n = 0; seen && i < m->steps->nsteps; i++) {
		const struct step *s = &m->steps->step[i];
		const unsigned char *p = (const unsigned char *)s->name;
		while (s->kind == STEP_TASK && p && *p > ' ' && *p != 127)
			p++;
		if (s->kind != STEP_TASK || !p || *p || !*s->name)
			continue;
		bool met = false;
		seen[n] = hash_text(s->name);
		for (int k = 0; k < n && !met; k++)
			met = key_equal(seen[k], seen[n]);
		n += !met;
		if (!met)
			puts(s->name);
	}
	free(seen);
}

/* Prints the nodes that were refused: each line of the import's error is one node. */
static int refused(const struct args *a, const char *path)
{
	if (!a->json) {
		printf("%s\n", err_text());
		return 0;
	}
	char text[4096];
	snprintf(text, sizeof text, "%s", err_text());
	json_t *nodes = json_array();
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		json_array_append_new(nodes, json_text(line));
	return json_out(
	    json_pack("{so so s[]}", "model", json_text(path), "unsupported", nodes, "portable_nodes"));
}

static int portable(const struct args *a, const struct listed *l, const struct model *m)
{
	json_t *nodes = json_array();
	int n = 0;
	for (int i = 0; i < m->steps->nsteps; i++) {
		const struct step *s = &m->steps->step[i];
		if (s->kind != STEP_HOST)
			continue;
		n++;
		const struct node *node = &m->g->node[s->node];
		if (a->json)
			json_array_append_new(nodes, json_pack("{so ss}", "name", json_text(node->name),
							       "op_type", node_type(node)));
		else
			printf("node '%s' (%s): runs in portable C and is not tuned\n", node->name,
			       node_type(node));
	}
	if (a->json)
		return json_out(json_pack("{so s[] so}", "model", json_text(m->path), "unsupported",
					  "portable_nodes", nodes));
	json_decref(nodes);
	printf("every node is supported, %d of them in portable C\n", n);
	next_step(a, l, m);
	return 0;
}

/* The folder of --cache; with --device, else the default one, where kernels are looked for. "": none. */
static int find_cache(const struct args *a, char *dir, size_t n)
{
	*dir = 0;
	if (arg_given(a, "device"))
		return model_cache_or_none(a, dir, n);
	return arg_given(a, "cache") ? model_cache_to_read(a, dir, n) : E_OK;
}

/* Opens the model. Where no cache divides it, the recipe of level int8 is that of the default cache, as for
 * other commands. */
static int open_model(const struct args *a, const struct listed *l, struct model *m)
{
	char dir[PATH_MAX];
	struct cache *recipes = NULL;
	const struct chosen_for chosen = {l->cache, &l->target, l->threads, l->level};
	/* A model that is quantised already needs no recipe. */
	if (l->level == LEVEL_INT8 && !l->cache && model_cache_default(dir, sizeof dir) >= 0 &&
	    file_is_dir(dir) && model_cache_open_in(a, false, dir, &recipes) < 0)
		log_more("no recipe is looked for: %s", err_text());
	int rc = model_open_with(a, a->pos[0], &chosen, recipes ? recipes : l->cache, m);
	cache_close(recipes);
	return rc;
}

/* Opens the model, divided by the rules alone, with quantised operators as tasks, or, with a cache, as that
 * chose for the device, of the processor for all cores. */
static int open_divided(const struct args *a, struct listed *l, struct model *m)
{
	char dir[PATH_MAX];
	const char *apart = model_device(a);
	l->device = arg_str(a, "device", NULL);
	int rc = model_device_check(a);
	if (rc >= 0)
		rc = model_level(a, &l->level);
	if (rc >= 0)
		rc = find_cache(a, dir, sizeof dir);
	if (rc >= 0)
		rc = apart ? device_target(apart, NULL, "", &l->target) : target_host(&l->target);
	if (rc >= 0 && *dir && (arg_given(a, "cache") || file_is_dir(dir)))
		rc = model_cache_open_in(a, false, dir, &l->cache);
	l->threads = apart ? 1 : l->target.cores;
	if (rc >= 0)
		rc = open_model(a, l, m);
	if (rc >= 0 && !l->cache && (rc = model_take_bytes(m, &l->target)) < 0)
		model_close(m);
	return rc;
}

static int run_tasks(const struct args *a)
{
	if (a->json && arg_flag(a, "names"))
		return fail(E_USAGE, "--names prints lines for completion: leave --json out");
	struct model m;
	struct listed l = {0};
	bool unsupported = arg_flag(a, "unsupported");
	int rc = open_divided(a, &l, &m), opened = rc;
	if (rc == E_UNSUPPORTED && unsupported)
		rc = refused(a, a->pos[0]);
	else if (rc >= 0 && unsupported)
		rc = portable(a, &l, &m);
	else if (rc >= 0 && arg_flag(a, "names"))
		tasks_names(&m);
	else if (rc >= 0 && a->json)
		rc = tasks_json(&l, &m);
	else if (rc >= 0)
		tasks_table(a, &l, &m);
	if (opened >= 0)
		model_close(&m);
	if (l.cache)
		cache_close(l.cache);
	return rc < 0 ? rc : 0;
}

static const struct opt opts[] = {
    {"unsupported", OPT_FLAG, NULL,
     "list the nodes that hone does not support, and those that it does not tune"},
    {"names", OPT_FLAG, NULL, "print the names of the tasks' nodes alone, a line each"},
    {"device", OPT_STR, "NAME",
     "also show which tasks have a kernel for cpu, opencl:N or cuda:N in the cache (--cache, else the default one), "
     "and "
     "divide the model as it chose for that",
     .words = model_devices},
    {"cache", OPT_STR, "DIR",
     "divide the model as this cache chose for as many threads as cores (default: by the rules alone)"},
    OPT_LEVEL,
    OPT_SHAPE,
    {NULL},
};

const struct cmd cmd_tasks = {
    .usage = "MODEL [--unsupported] [--names] [--device cpu[:CLUSTER]|opencl:N|cuda:N] [--level LEVEL] "
	     "[--cache DIR]",
    .summary = "list the tuning tasks of a model",
    .details = "A task is one fused group of operators with its shapes. Equal groups are one task with "
	       "several uses.",
    .min_pos = 1,
    .max_pos = 1,
    .opts = opts,
    .run = run_tasks,
    .name = "tasks",
};
