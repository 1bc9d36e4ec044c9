/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/cmd.h"
#include "platform/base/log.h"
#include "tools/hone/daemon.h"
#include "agent/cache/json.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Ends the inhibits that honed holds for this user. E_NOTFOUND: there is none of that name. */
static int resume_at(struct client *c, const char *name)
{
	json_t *reply = NULL;
	struct request r = {.op = OP_RESUME};
	snprintf(r.text, sizeof r.text, "%s", name ? name : "");
	int rc = daemon_ask(c, &r, daemon_deadline(DAEMON_NS), &reply);
	int n = (int)daemon_num(reply, "resumed", 0);
	json_decref(reply);
	return rc < 0 ? rc : n;
}

/* Removes this user's inhibit files; as root, all. */
static int resume_files(void)
{
	struct arena a = {0};
	struct daemon_inhibit *file;
	int n = inhibit_list(&a, &file), gone = 0, rc = 0;
	for (int i = 0; i < n && rc >= 0; i++)
		if (getuid() == 0 || file[i].uid == getuid()) {
			rc = inhibit_remove(file[i].name);
			gone += rc >= 0;
			rc = rc == E_NOTFOUND ? 0 : rc;
		}
	arena_free(&a);
	return rc < 0 ? rc : gone;
}

/* Ends inhibits that honed holds, then removes inhibit files that honed did not make. */
static int resume(const char *socket, const char *name, bool *there)
{
	struct client *c;
	int rc = daemon_open(socket, &c), held = 0;
	*there = rc > 0;
	if (rc > 0)
		rc = held = resume_at(c, name);
	client_close(c);
	if (rc == E_NOTFOUND)
		rc = held = 0;
	if (rc < 0 || (name && held))
		return rc;
	rc = name ? inhibit_remove(name) : resume_files();
	return rc < 0 ? rc : held + rc + !!name;
}

static int run_resume(const struct args *a)
{
	const char *socket = arg_str(a, "socket", NULL);
	daemon_use(socket);
	bool there = false;
	int n = resume(socket, a->npos ? a->pos[0] : NULL, &there);
	if (n < 0)
		return n;
	if (a->json)
		return json_out(json_pack("{si}", "resumed", n));
	if (!there)
		log_info("honed does not run: nothing listens on %s", client_socket(socket));
	if (n)
		printf("%d inhibit%s gone\n", n, n == 1 ? " is" : "s are");
	else
		printf("this user inhibits nothing; hone status shows all inhibits\n");
	return 0;
}

static const struct opt opts[] = {OPT_SOCKET, {NULL}};

const struct cmd cmd_resume = {
    .usage = "[NAME]",
    .summary = "let honed tune again: the end of hone inhibit",
    .details = "Without a name, it ends all inhibits of this user, or all inhibits if run by root. If honed "
	       "does not run, it removes\nthe inhibit files in the run folder (that of --socket, else "
	       "$HONE_RUN, else that of $HONE_SOCKET, else /run/hone).",
    .max_pos = 1,
    .opts = opts,
    .run = run_resume,
    .name = "resume",
};
