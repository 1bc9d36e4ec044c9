/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/background.h"
#include "tools/hone/daemon.h"
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
	static const char *const with[] = {"background", "now", "budget", "threads", "device", NULL};
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

/* Whether honed's configuration has the model, whose section may give the sizes that the file leaves open. */
static bool is_configured(const char *model)
{
	struct arena a = {0};
	struct conf conf;
	json_t *status = NULL;
	bool is = false;
	const char *path = daemon_status(NULL, &status) > 0 ? daemon_config(status, &a) : NULL;
	if (path && conf_read(path, &a, &conf) >= 0)
		for (int i = 0; i < conf.nmodels && !is; i++)
			is = !strcmp(conf.model[i].path, model);
	json_decref(status);
	arena_free(&a);
	return is;
}

/* Fails for a file that hone cannot use, which honed would only find out when its gate is open. A file that
 * this user cannot read is left to honed, as are the sizes of a model in its configuration. */
static int check_model(const char *model)
{
	struct buf notes = {0};
	const struct import_opts o = {.shape_option = SHAPE_OF_CONF, .notes = &notes};
	struct graph *g = NULL;
	if (*model != '/' || access(model, R_OK) < 0)
		return E_OK;
	int rc = image_is_no_model(model);
	if (rc >= 0)
		rc = import_file(model, &o, &g);
	graph_free(g);
	if (rc >= 0 && notes.n && !is_configured(model)) /* its section may give the sizes */
		log_info("%s: %s", model, buf_str(&notes));
	buf_free(&notes);
	if (rc != E_USAGE)
		return rc;
	struct buf why = {0};
	buf_puts(&why, err_text());
	rc = is_configured(model)
		 ? E_OK
		 : fail(E_USAGE,
			"%s; add [model NAME] with path = and this line for honed, or tune without "
			"--background",
			buf_str(&why));
	buf_free(&why);
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
		rc = daemon_open(NULL, &c);
	if (rc <= 0)
		return rc < 0 ? rc
			      : fail(E_NOTFOUND, "honed does not run; tune without --background, or start it "
						 "with " HONED_START);
	rc = check_model(r.model);
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
