/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/background.h"
#include "tools/hone/daemon.h"
#include "tools/hone/next.h"
#include "tools/hone/table.h"
#include "agent/cache/json.h"
#include "agent/control/conf.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
		return rc < 0
			   ? rc
			   : fail(E_NOTFOUND,
				  "honed does not run; tune without --background, or systemctl start honed");
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
