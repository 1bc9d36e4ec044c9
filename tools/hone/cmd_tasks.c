/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/cache/json.h"
#include "tools/hone/model.h"
#include "tools/hone/next.h"
#include "tools/hone/table.h"
#include <stdio.h>
#include <string.h>

static json_t *task_json(const struct step_task *t)
{
	char key[33], label[96];
	key_text(t->key, key);
	task_label(t->task, label);
	return json_pack("{ss so so si so}", "key", key, "text", json_text(t->text), "label",
			 json_text(label), "uses", t->uses, "gflop", json_num(task_flops(t->task) / 1e9));
}

static int tasks_json(const struct model *m)
{
	json_t *tasks = json_array();
	for (int i = 0; i < m->ntasks; i++)
		json_array_append_new(tasks, task_json(&m->task[i]));
	return json_out(json_pack("{so so sf}", "model", json_text(m->path), "tasks", tasks, "gflop",
				  m->steps->flops / 1e9));
}

static void tasks_table(const struct args *a, const struct model *m)
{
	struct table t = {.align = "rrrll", .drop = "00100"};
	const char *const head[] = {"uses", "MFLOP", "share", "key", "task"};
	for (int i = 0; i < 5; i++)
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
		table_cell(&t, "%s", label);
	}
	table_print(&t, a->color);
	printf("%d task%s, %.3f GFLOP\n", m->ntasks, plural_s(m->ntasks), m->steps->flops / 1e9);
	next_hone(a, "tune", m->path, " --budget 20s");
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
	return json_out(json_pack("{so so s[]}", "model", json_text(path), "unsupported", nodes, "portable"));
}

static int portable(const struct args *a, const struct model *m)
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
							       "type", node_type(node)));
		else
			printf("node '%s' (%s): runs in portable C and is not tuned\n", node->name,
			       node_type(node));
	}
	if (a->json)
		return json_out(
		    json_pack("{so s[] so}", "model", json_text(m->path), "unsupported", "portable", nodes));
	json_decref(nodes);
	printf("every node is supported, %d of them in portable C\n", n);
	next_hone(a, "tune", m->path, " --budget 20s");
	return 0;
}

/* Opens the model, divided by the rules alone, with quantised operators as tasks, or, with --cache, as the
 * cache chose for all cores. */
static int open_divided(const struct args *a, struct model *m)
{
	struct target t;
	struct cache *c = NULL;
	const char *dir = arg_str(a, "cache", NULL);
	int rc = target_host(&t);
	if (rc >= 0 && dir)
		rc = model_cache_open_in(a, false, dir, &c);
	if (rc >= 0)
		rc = model_open(a, a->pos[0], &(struct chosen_for){c, &t, t.cores, LEVEL_FP32}, m);
	if (rc >= 0 && !dir && (rc = model_take_bytes(m, &t)) < 0)
		model_close(m);
	if (c)
		cache_close(c);
	return rc;
}

static int run_tasks(const struct args *a)
{
	struct model m;
	bool unsupported = arg_flag(a, "unsupported");
	int rc = open_divided(a, &m);
	if (rc == E_UNSUPPORTED && unsupported)
		return refused(a, a->pos[0]);
	if (rc < 0)
		return rc;
	if (unsupported)
		rc = portable(a, &m);
	else if (a->json)
		rc = tasks_json(&m);
	else
		tasks_table(a, &m);
	model_close(&m);
	return rc < 0 ? rc : 0;
}

static const struct opt opts[] = {
    {"unsupported", OPT_FLAG, NULL,
     "list the nodes that hone does not support, and those that it does not tune"},
    {"cache", OPT_STR, "DIR",
     "divide the model as this cache chose for as many threads as cores (default: by the rules alone)"},
    OPT_SHAPE,
    {NULL},
};

const struct cmd cmd_tasks = {
    .usage = "MODEL [--unsupported]",
    .summary = "list the tuning tasks of a model",
    .details = "A task is one fused group of operators with its shapes. Equal groups are one task with "
	       "several uses.",
    .min_pos = 1,
    .max_pos = 1,
    .opts = opts,
    .run = run_tasks,
    .name = "tasks",
};
