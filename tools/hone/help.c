/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/help.h"
#include "platform/base/near.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool named(const struct program *p, const struct cmd *c)
{
	for (int i = 0; p->order && p->order[i]; i++)
		if (!strcmp(p->order[i], c->name))
			return true;
	return false;
}

/* The i-th command in the order of the list; NULL after the last. */
static const struct cmd *nth_cmd(const struct program *p, int i)
{
	int n = 0;
	for (int k = 0; p->order && p->order[k]; k++) {
		const struct cmd *c = cmd_find(p, p->order[k]);
		if (c && n++ == i)
			return c;
	}
	for (int k = 0; p->cmds[k]; k++)
		if (!named(p, p->cmds[k]) && n++ == i)
			return p->cmds[k];
	return NULL;
}

void help_all(const struct program *p, struct buf *out)
{
	buf_printf(out, "%s " HONE_VERSION ": %s\n\nusage: %s COMMAND [options]\n\ncommands:\n", p->name,
		   p->summary, p->name);
	const struct cmd *c;
	for (int i = 0; (c = nth_cmd(p, i)); i++)
		buf_printf(out, "  %-12s %s\n", c->name, c->summary);
	buf_printf(out, "\nStart with: %s\n`%s help COMMAND` says more.\n", p->start, p->name);
}

static void put_opts(const struct opt *o, struct buf *out)
{
	for (; o && o->name; o++) {
		char left[80];
		snprintf(left, sizeof left, "%s%c%s--%s%s%s", o->letter ? "-" : " ",
			 o->letter ? o->letter : ' ', o->letter ? ", " : "  ", o->name, o->arg ? " " : "",
			 o->arg ? o->arg : "");
		buf_printf(out, "  %-28s %s%s\n", left, o->help,
			   o->kind == OPT_LIST ? " (may be repeated)" : "");
	}
}

void help_cmd(const struct program *p, const struct cmd *c, struct buf *out)
{
	buf_printf(out, "%s %s: %s\n\nusage: %s %s %s\n", p->name, c->name, c->summary, p->name, c->name,
		   c->usage);
	if (c->details && *c->details)
		buf_printf(out, "\n%s\n", c->details);
	if (c->opts && c->opts->name) {
		buf_puts(out, "\noptions:\n");
		put_opts(c->opts, out);
	}
	buf_puts(out, "\nfor every command:\n");
	put_opts(cmd_common, out);
}

/* Escapes text for troff: dashes become minus signs, and a leading dot or quote is not a request. */
static void put_troff(const char *s, struct buf *out)
{
	bool start = true;
	for (; *s; s++) {
		if (start && (*s == '.' || *s == '\''))
			buf_puts(out, "\\&");
		start = *s == '\n';
		if (*s == '-')
			buf_puts(out, "\\-");
		else if (*s == '\\')
			buf_puts(out, "\\e");
		else if (s[0] == '\n' && s[1] == '\n')
			buf_puts(out, "\n.PP");
		else
			buf_add(out, s, 1);
	}
}

static void man_opts(const struct opt *o, struct buf *out)
{
	for (; o && o->name; o++) {
		buf_puts(out, ".TP\n");
		if (o->letter)
			buf_printf(out, ".BR \\-%c \", \" ", o->letter);
		else
			buf_puts(out, ".B ");
		buf_puts(out, "\\-\\-");
		put_troff(o->name, out);
		if (o->arg)
			buf_printf(out, o->letter ? " \" %s\"" : " %s", o->arg);
		buf_puts(out, "\n");
		put_troff(o->help, out);
		buf_puts(out, o->kind == OPT_LIST ? " (may be repeated)\n" : "\n");
	}
}

static void man_head(const struct program *prog, const char *name, const char *summary, struct buf *out)
{
	buf_puts(out, ".TH ");
	for (const char *p = name; *p; p++)
		buf_printf(out, "%c", toupper((unsigned char)*p));
	buf_puts(out, " 1 \"\" \"hone " HONE_VERSION "\"\n.SH NAME\n");
	put_troff(name, out);
	buf_puts(out, " \\- ");
	put_troff(summary, out);
	buf_puts(out, "\n.SH SYNOPSIS\n.B ");
	put_troff(prog->name, out);
	buf_puts(out, "\n");
}

static void man_tail(const struct program *p, struct buf *out)
{
	buf_puts(out, ".SH EXIT STATUS\n0: success. 1: failure. 2: usage error.\n.SH ENVIRONMENT\n"
		      "NO_COLOR: no colours. ");
	buf_puts(out, p->environment);
}

static void man_top(const struct program *p, struct buf *out)
{
	man_head(p, p->name, p->summary, out);
	buf_puts(out, "COMMAND [options]\n.SH COMMANDS\n");
	const struct cmd *c;
	for (int i = 0; (c = nth_cmd(p, i)); i++) {
		buf_puts(out, ".TP\n.BR ");
		put_troff(p->name, out);
		buf_puts(out, "\\-");
		put_troff(c->name, out);
		buf_puts(out, " (1)\n");
		put_troff(c->summary, out);
		buf_puts(out, "\n");
	}
	buf_puts(out, ".SH OPTIONS\n");
	man_opts(cmd_common, out);
	man_tail(p, out);
	buf_printf(out, ".SH SEE ALSO\n%s", p->see);
}

void help_man(const struct program *p, const struct cmd *c, struct buf *out)
{
	if (!c) {
		man_top(p, out);
		return;
	}
	char name[64];
	snprintf(name, sizeof name, "%s-%s", p->name, c->name);
	man_head(p, name, c->summary, out);
	put_troff(c->name, out);
	buf_puts(out, " ");
	put_troff(c->usage, out);
	buf_puts(out, "\n.SH DESCRIPTION\n");
	put_troff(c->details && *c->details ? c->details : c->summary, out);
	buf_puts(out, "\n.SH OPTIONS\n");
	man_opts(c->opts, out);
	man_opts(cmd_common, out);
	man_tail(p, out);
	buf_puts(out, ".SH SEE ALSO\n.BR ");
	put_troff(p->name, out);
	buf_puts(out, " (1),\n.BR honed (8)\n");
}

static void completion_opts(const struct opt *o, struct buf *out)
{
	for (; o && o->name; o++)
		buf_printf(out, " --%s", o->name);
}

void help_completion(const struct program *p, struct buf *out)
{
	char word[32] = ""; /* name of the shell function */
	for (size_t i = 0; p->name[i] && i + 1 < sizeof word; i++)
		word[i] = p->name[i] == '-' ? '_' : p->name[i];
	buf_printf(out,
		   "# made by %s --bash-completion\n_%s() {\n"
		   "\tlocal cur=${COMP_WORDS[COMP_CWORD]} cmd=${COMP_WORDS[1]} opts=\n\tcase $cmd in\n",
		   p->name, word);
	for (int i = 0; p->cmds[i]; i++) {
		buf_printf(out, "\t%s) opts=\"", p->cmds[i]->name);
		completion_opts(p->cmds[i]->opts, out);
		buf_puts(out, "\" ;;\n");
	}
	buf_puts(out, "\tesac\n\tif [ \"$COMP_CWORD\" = 1 ]; then\n\t\tCOMPREPLY=($(compgen -W \"");
	for (int i = 0; p->cmds[i]; i++)
		buf_printf(out, "%s%s", i ? " " : "", p->cmds[i]->name);
	buf_puts(out, "\" -- \"$cur\"))\n\telif [ \"${cur#-}\" != \"$cur\" ]; then\n\t\tCOMPREPLY=($(compgen "
		      "-W \"$opts");
	completion_opts(cmd_common, out);
	buf_printf(out,
		   "\" -- \"$cur\"))\n\telse\n\t\tCOMPREPLY=($(compgen -f -- \"$cur\"))\n\tfi\n}\n"
		   "complete -o filenames -F _%s %s\n",
		   word, p->name);
}

int help_unknown_cmd(const struct program *p, const char *word)
{
	struct near n;
	near_begin(&n, word);
	for (int i = 0; p->cmds[i]; i++)
		near_add(&n, p->cmds[i]->name);
	if (n.best)
		return fail(E_USAGE, "unknown command '%s'; did you mean '%s'?", word, n.best);
	return fail(E_USAGE, "unknown command '%s'; `%s` lists the commands", word, p->name);
}

const char *help_near_opt(const struct cmd *c, const char *word)
{
	struct near n;
	near_begin(&n, word);
	for (const struct opt *o = c ? c->opts : NULL; o && o->name; o++)
		near_add(&n, o->name);
	for (const struct opt *o = cmd_common; o->name; o++)
		near_add(&n, o->name);
	return n.best;
}
