/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/background.h"
#include "tools/hone/daemon.h"
#include "tools/hone/model.h"
#include "tools/hone/next.h"
#include "tools/hone/table.h"
#include "agent/cache/json.h"
#include "agent/control/conf.h"
#include "agent/run/image.h"
#include "kernels/onnx/import.h"
#include "platform/base/log.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int background_asked(const struct args *a)
{
	static const char *const with[] = {"background", "now", "budget", "threads", "device", "shape", NULL};
	if (!arg_flag(a, "background"))
		return arg_flag(a, "now") ? fail(E_USAGE, "--now goes with --background") : 0;
	for (const struct opt *o = a->cmd->opts; o->name; o++) {
		int i = 0;
		while (with[i] && strcmp(with[i], o->name))
			i++;
		if (!with[i] && arg_given(a, o->name))
			return fail(
			    E_USAGE,
			    "--background cannot be combined with --%s; set it for the model in honed.conf",
			    o->name);
	}
	return 1;
}

/* The model as honed can find it from its own folder: an absolute path, or the name of a model in
 * honed.conf. */
static int name_model(const char *model, struct request *r)
{
	char path[PATH_MAX];
	bool there = realpath(model, path) != NULL;
	const char *name = there ? path : model;
	bool relative = *model != '/' && strpbrk(model, "/."); /* honed may see what we do not */
	if (!there && relative)
		return fail(E_NOTFOUND, "cannot open %s: %s; check the name", model, strerror(errno));
	if (strlen(name) >= sizeof r->model)
		return fail(E_USAGE, "%.40s...: the path is longer than the %zu bytes that honed accepts",
			    name, sizeof r->model - 1);
	strcpy(r->model, name);
	return 0;
}

/* The path of the model that honed's configuration has by this name or path, in the arena; NULL: it has none.
 * Its section may give the sizes that the file leaves open. */
static const char *configured(const char *model, struct arena *a)
{
	struct conf conf;
	json_t *status = NULL;
	const char *path = daemon_status(NULL, &status) > 0 ? daemon_config(status, a) : NULL, *found = NULL;
	if (path && conf_read(path, a, &conf) >= 0)
		for (int i = 0; i < conf.nmodels && !found; i++)
			if (!strcmp(conf.model[i].path, model) || !strcmp(conf.model[i].name, model))
				found = conf.model[i].path;
	json_decref(status);
	return found;
}

/* Fails for a file that hone cannot use, or not with the sizes of --shape, which honed would only find out
 * when its gate is open. A file that this user cannot read is left to honed, as are the sizes of a model in
 * its configuration if none are given. */
static int check_model(const struct args *a, const char *model)
{
	struct arena arena = {0};
	struct graph *g = NULL;
	const char *const *shape, *known = configured(model, &arena), *path = known ? known : model;
	const struct import_opts of_section = {0};
	const bool given = arg_list(a, "shape", &shape) > 0;
	int rc = E_OK;
	if (*path == '/' && access(path, R_OK) == 0)
		rc = image_is_no_model(path);
	else
		path = NULL;
	if (rc >= 0 && path && known && !given)
		rc = import_file(path, &of_section, &g);
	else if (rc >= 0 && path)
		rc = model_import(a, path, &g);
	graph_free(g);
	arena_free(&arena);
	return rc == E_USAGE && known && !given ? E_OK : rc;
}

/* A line for each --shape. */
static int add_shapes(const struct args *a, struct request *r)
{
	struct arena arena = {0};
	struct buf lines = {0};
	const struct import_bind *bind;
	int n = model_binds(a, &arena, &bind), rc = n < 0 ? n : E_OK;
	for (int i = 0; i < n; i++)
		buf_printf(&lines, "%s%s=%s", i ? "\n" : "", bind[i].name, bind[i].value);
	if (rc >= 0 && !buf_ok(&lines))
		rc = fail(E_NOMEM, "--background: no memory for the shapes");
	else if (rc >= 0 && (n > CONF_SHAPES || lines.n >= sizeof r->shapes))
		rc = fail(E_USAGE, "--background takes at most %d --shape, with %zu bytes in all",
			  CONF_SHAPES, sizeof r->shapes - 1);
	else if (rc >= 0)
		strcpy(r->shapes, buf_str(&lines));
	buf_free(&lines);
	arena_free(&arena);
	return rc;
}

int background_tune(const struct args *a)
{
	struct client *c;
	json_t *reply = NULL;
	struct request r = {.op = OP_TUNE,
			    .ms = arg_duration(a, "budget", 0) / NS_PER_MS,
			    .threads = (int)arg_int(a, "threads", 0),
			    .now = arg_flag(a, "now")};
	const char *device = arg_str(a, "device", "");
	int rc = name_model(a->pos[0], &r);
	if (rc >= 0 && *device && !conf_is_device(device))
		rc = fail(E_USAGE, "--background takes cpu, cpu:CLUSTER, opencl:0 or cuda:0 as --device, not %.40s", device);
	if (rc >= 0)
		strcpy(r.device, device);
	if (rc >= 0)
		rc = add_shapes(a, &r);
	if (rc >= 0)
		rc = daemon_open(NULL, &c);
	if (rc < 0)
		return rc;
	if (!rc) {
		char start[DAEMON_ABSENT];
		daemon_start("", start);
		return fail(E_NOTFOUND, "honed does not run; tune without --background, or start it with %s",
			    start);
	}
	rc = check_model(a, r.model);
	if (rc >= 0)
		rc = daemon_ask(c, &r, daemon_deadline(DAEMON_NS), &reply);
	client_close(c);
	int job = (int)daemon_num(reply, "job", 0);
	json_decref(reply);
	if (rc < 0)
		return rc;
	if (a->json)
		return json_out(json_pack("{so si}", "model", json_text(r.model), "job", job));
	char why[DAEMON_CLOSED];
	bool closed = daemon_is_closed(NULL, r.now, why, sizeof why);
	table_say("honed tunes it as job %d%s%s%s", job,
		  closed  ? ", once the gate is open; now it is closed: "
		  : r.now ? ""
			  : ", once the gate is open",
		  closed ? why : "", closed ? "; its budget begins when it starts" : "");
	next_say("hone status --watch");
	return 0;
}
