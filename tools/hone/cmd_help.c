/* SPDX-License-Identifier: Apache-2.0 */
/* hone help, hone-fleet help. */
#include "agent/cache/json.h"
#include "tools/hone/help.h"
#include <stdio.h>

static json_t *opts_json(const struct opt *o)
{
	json_t *list = json_array();
	for (; o && o->name; o++) {
		const char letter[] = {o->letter, 0};
		json_array_append_new(list,
				      json_pack("{ss ss ss? ss sb}", "name", o->name, "letter", letter, "arg",
						o->arg, "help", o->help, "repeatable", o->kind == OPT_LIST));
	}
	return list;
}

static json_t *cmd_json(const struct cmd *c)
{
	return json_pack("{ss ss ss ss so so}", "name", c->name, "summary", c->summary, "usage", c->usage,
			 "details", c->details ? c->details : "", "options", opts_json(c->opts), "common",
			 opts_json(cmd_common));
}

static json_t *all_json(const struct program *p)
{
	json_t *list = json_array();
	for (int i = 0; p->cmds[i]; i++)
		json_array_append_new(
		    list, json_pack("{ss ss}", "name", p->cmds[i]->name, "summary", p->cmds[i]->summary));
	return json_pack("{ss ss so}", "name", p->name, "version", HONE_VERSION, "commands", list);
}

static int run_help(const struct args *a)
{
	const struct program *p = a->program;
	const struct cmd *c = a->npos ? cmd_find(p, a->pos[0]) : NULL;
	struct buf out = {0};
	if (a->npos && !c)
		return help_unknown_cmd(p, a->pos[0]);
	if (a->json)
		return json_out(c ? cmd_json(c) : all_json(p));
	c ? help_cmd(p, c, &out) : help_all(p, &out);
	fputs(buf_str(&out), stdout);
	bool good = buf_ok(&out);
	buf_free(&out);
	return good ? 0 : fail(E_NOMEM, "no memory for the text");
}

const struct cmd cmd_help = {
    .usage = "[COMMAND]",
    .summary = "list the commands, or show the help of one",
    .details = "",
    .max_pos = 1,
    .run = run_help,
    .name = "help",
};
