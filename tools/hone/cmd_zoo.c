/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/onnx/import.h"
#include "platform/base/log.h"
#include "tools/hone/cmd.h"
#include "tools/hone/next.h"
#include "agent/cache/json.h"
#include "tools/hone/output.h"
#include "tools/hone/table.h"
#include "tools/hone/zoo.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void list_item(const struct zoo_net *n)
{
	char lead[64];
	snprintf(lead, sizeof lead, "%-20s ", n->name);
	table_item(lead, "%s", n->summary);
}

static int list(const struct args *a)
{
	json_t *models = json_array();
	for (const struct zoo_net *n = zoo_nets; n->name; n++) {
		if (a->json)
			json_array_append_new(models,
					      json_pack("{ss ss}", "name", n->name, "summary", n->summary));
		else
			list_item(n);
	}
	if (!a->json)
		next_say("hone zoo mobilenet_v2 -o mobilenet_v2.onnx");
	return a->json ? json_out(json_pack("{so}", "models", models)) : (json_decref(models), 0);
}

/* A file that is there is replaced only by the same network: it may be a user's model. */
static int check_old(const char *path, const char *name)
{
	struct graph *old = NULL;
	struct stat st;
	if (stat(path, &st) < 0 || !st.st_size)
		return 0;
	bool same = import_file(path, NULL, &old) >= 0 && !strcmp(old->name, name);
	graph_free(old);
	return same ? 0
		    : fail(E_USAGE, "%s exists and is not %s: name another file, or remove it", path, name);
}

static int run_zoo(const struct args *a)
{
	if (a->npos == 0)
		return list(a);
	const char *name = a->pos[0], *path = arg_str(a, "output", NULL);
	const struct zoo_net *net;
	int rc = zoo_find(name, &net);
	if (rc < 0)
		return rc;
	if (!path)
		return fail(E_USAGE, "missing option -o; usage: `hone zoo %s -o %s.onnx`", name, name);
	struct graph *g;
	uint64_t seed;
	char to[PATH_MAX];
	rc = arg_seed(a, &seed);
	if (rc >= 0)
		rc = zoo_make(name, seed, &g);
	if (rc < 0)
		return rc;
	rc = output_file(a, path, OUTPUT_ZOO, to);
	if (rc >= 0)
		rc = check_old(path, name);
	if (rc >= 0)
		rc = export_file(g, to);
	int nodes = g->nnodes;
	graph_free(g);
	if (rc < 0)
		return rc;
	if (a->json)
		return json_out(json_pack("{s[{ss so si}]}", "models", "name", name, "file", json_text(path),
					  "nodes", nodes));
	log_info("wrote %s (%d node%s)", path, nodes, plural_s(nodes));
	next_say("hone tune %s --budget 20s", path);
	return 0;
}

static void networks(struct buf *out)
{
	for (const struct zoo_net *n = zoo_nets; n->name; n++)
		buf_printf(out, "%s ", n->name);
}

static const struct opt opts[] = {
    {"output", OPT_STR, "FILE", "where to write the model", 'o'},
    {"seed", OPT_INT, "N", "seed of the random weights (default 1)"},
    {NULL},
};

const struct cmd cmd_zoo = {
    .usage = "[NAME -o FILE]",
    .summary = "write a standard network as ONNX with seeded random weights",
    .details = "Without a name it lists the networks. Equal seeds give equal files on every machine.",
    .max_pos = 1,
    .opts = opts,
    .run = run_zoo,
    .name = "zoo",
    .words = networks,
};
