/* SPDX-License-Identifier: Apache-2.0 */
/* hone help, hone-fleet help. */
#include "agent/cache/json.h"
#include "platform/base/near.h"
#include "tools/hone/glossary.h"
#include "tools/hone/help.h"
#include <stdio.h>
#include <string.h>

#define WORDS "words"

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

static json_t *term_json(const struct term *t)
{
	return json_pack("{ss ss}", "name", t->name, "summary", t->text);
}

static json_t *terms_json(const struct program *p)
{
	json_t *list = json_array();
	for (const struct term *t = p->terms; t->name; t++)
		json_array_append_new(list, term_json(t));
	return json_pack("{so}", "glossary", list);
}

/* E_USAGE: the word is neither a command nor one of tables. */
static int refuse(const struct program *p, const char *word)
{
	struct near n;
	near_begin(&n, word);
	for (int i = 0; p->cmds[i]; i++)
		near_add(&n, p->cmds[i]->name);
	for (const struct term *t = p->terms; t && t->name; t++)
		near_add(&n, t->name);
	if (p->terms)
		near_add(&n, WORDS);
	if (n.best && !cmd_find(p, n.best))
		return fail(E_USAGE, "no help on '%s'; did you mean '%s'?", word, n.best);
	return help_unknown_cmd(p, word);
}

static int run_help(const struct args *a)
{
	const struct program *p = a->program;
	const char *word = a->npos ? a->pos[0] : "";
	const struct cmd *c = cmd_find(p, word);
	const struct term *t = c ? NULL : term_find(p->terms, word);
	bool all = p->terms && !strcmp(word, WORDS);
	struct buf out = {0};
	if (*word && !c && !t && !all)
		return refuse(p, word);
	if (a->json)
		return json_out(c ? cmd_json(c) : t ? term_json(t) : all ? terms_json(p) : all_json(p));
	if (c)
		help_cmd(p, c, &out);
	else if (t)
		help_term(t, &out);
	else if (all)
		help_terms(p, &out);
	else
		help_all(p, &out);
	fputs(buf_str(&out), stdout);
	bool good = buf_ok(&out);
	buf_free(&out);
	return good ? 0 : fail(E_NOMEM, "no memory for the text");
}

const struct cmd cmd_help = {
    .usage = "[COMMAND]",
    .summary = "list the commands, or show the help of one",
    .details =
	"`hone help " WORDS "` explains the words that hone's tables print, and `hone help WORD` one of\n"
	"them.",
    .max_pos = 1,
    .run = run_help,
    .name = "help",
};
