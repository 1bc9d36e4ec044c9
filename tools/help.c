/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/help.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* The order in which a person meets the commands; what is not named here follows by name. */
static const char *const order[] = {"zoo",     "tune",    "bench",  "run",      "verify", "tasks",
				    "explain", "report",  "show",   "devices",  "doctor", "status",
				    "wait",    "inhibit", "resume", "bugreport"};

/* The i-th command in the order of the list; NULL after the last. */
static const struct cmd *nth_cmd(int i)
{
	int n = 0;
	for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
		const struct cmd *c = cmd_find(order[k]);
		if (c && n++ == i)
			return c;
	}
	for (int k = 0; cmd_table[k]; k++) {
		bool named = false;
		for (size_t m = 0; m < sizeof order / sizeof *order; m++)
			named |= !strcmp(order[m], cmd_table[k]->name);
		if (!named && n++ == i)
			return cmd_table[k];
	}
	return NULL;
}

void help_all(struct buf *out)
{
	buf_puts(out, "hone " HONE_VERSION ": sharpens neural-network kernels on the board that runs them\n\n"
		      "usage: hone COMMAND [options]\n\ncommands:\n");
	const struct cmd *c;
	for (int i = 0; (c = nth_cmd(i)); i++)
		buf_printf(out, "  %-12s %s\n", c->name, c->summary);
	buf_puts(out, "\nStart with: hone zoo mobilenet_v2 -o m.onnx && hone tune m.onnx --budget 20s\n"
		      "`hone COMMAND --help` says more.\n");
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

void help_cmd(const struct cmd *c, struct buf *out)
{
	buf_printf(out, "hone %s: %s\n\nusage: hone %s %s\n", c->name, c->summary, c->name, c->usage);
	if (c->details && *c->details)
		buf_printf(out, "\n%s\n", c->details);
	if (c->opts && c->opts->name) {
		buf_puts(out, "\noptions:\n");
		put_opts(c->opts, out);
	}
	buf_puts(out, "\nfor every command:\n");
	put_opts(cmd_common, out);
}

/* Text for troff: dashes are minus signs, a leading dot or quote is no request. */
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

static void man_head(const char *name, const char *summary, struct buf *out)
{
	buf_puts(out, ".TH ");
	for (const char *p = name; *p; p++)
		buf_printf(out, "%c", toupper((unsigned char)*p));
	buf_puts(out, " 1 \"\" \"hone " HONE_VERSION "\"\n.SH NAME\n");
	put_troff(name, out);
	buf_puts(out, " \\- ");
	put_troff(summary, out);
	buf_puts(out, "\n.SH SYNOPSIS\n.B hone\n");
}

static void man_tail(struct buf *out)
{
	buf_puts(out, ".SH EXIT STATUS\n0: good. 1: failed. 2: wrong usage.\n.SH ENVIRONMENT\n"
		      "NO_COLOR: no colours. XDG_CACHE_HOME: where the cache lies without \\-\\-cache.\n"
		      "HONE_WORKER: the hone-worker that is started. HONE_WORKER_SOCKET: the socket at which "
		      "workers are had (default: /run/hone/worker.sock where one may connect; empty: none). "
		      "HONE_SANDBOX=off: a worker that is started does not confine itself, for debuggers. "
		      "HONE_SOCKET: honed's control socket. HONE_RUN: its run folder.\n");
}

static void man_top(struct buf *out)
{
	man_head("hone", "sharpens neural-network kernels on the board that runs them", out);
	buf_puts(out, "COMMAND [options]\n.SH COMMANDS\n");
	const struct cmd *c;
	for (int i = 0; (c = nth_cmd(i)); i++) {
		buf_puts(out, ".TP\n.BR hone\\-");
		put_troff(c->name, out);
		buf_puts(out, " (1)\n");
		put_troff(c->summary, out);
		buf_puts(out, "\n");
	}
	buf_puts(out, ".SH OPTIONS\n");
	man_opts(cmd_common, out);
	man_tail(out);
	buf_puts(out, ".SH SEE ALSO\n.BR honed (8),\n.BR honed.conf (5),\n.BR hone_api (3)\n");
}

void help_man(const struct cmd *c, struct buf *out)
{
	if (!c) {
		man_top(out);
		return;
	}
	char name[64];
	snprintf(name, sizeof name, "hone-%s", c->name);
	man_head(name, c->summary, out);
	put_troff(c->name, out);
	buf_puts(out, " ");
	put_troff(c->usage, out);
	buf_puts(out, "\n.SH DESCRIPTION\n");
	put_troff(c->details && *c->details ? c->details : c->summary, out);
	buf_puts(out, "\n.SH OPTIONS\n");
	man_opts(c->opts, out);
	man_opts(cmd_common, out);
	man_tail(out);
	buf_puts(out, ".SH SEE ALSO\n.BR hone (1),\n.BR honed (8)\n");
}

static void completion_opts(const struct opt *o, struct buf *out)
{
	for (; o && o->name; o++)
		buf_printf(out, " --%s", o->name);
}

void help_completion(struct buf *out)
{
	buf_puts(out, "# made by hone --bash-completion\n_hone() {\n"
		      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} cmd=${COMP_WORDS[1]} opts=\n\tcase $cmd in\n");
	for (int i = 0; cmd_table[i]; i++) {
		buf_printf(out, "\t%s) opts=\"", cmd_table[i]->name);
		completion_opts(cmd_table[i]->opts, out);
		buf_puts(out, "\" ;;\n");
	}
	buf_puts(out, "\tesac\n\tif [ \"$COMP_CWORD\" = 1 ]; then\n\t\tCOMPREPLY=($(compgen -W \"");
	for (int i = 0; cmd_table[i]; i++)
		buf_printf(out, "%s%s", i ? " " : "", cmd_table[i]->name);
	buf_puts(out, "\" -- \"$cur\"))\n\telif [ \"${cur#-}\" != \"$cur\" ]; then\n\t\tCOMPREPLY=($(compgen "
		      "-W \"$opts");
	completion_opts(cmd_common, out);
	buf_puts(out, "\" -- \"$cur\"))\n\telse\n\t\tCOMPREPLY=($(compgen -f -- \"$cur\"))\n\tfi\n}\n"
		      "complete -o filenames -F _hone hone\n");
}

/* Edits (insert, delete, replace, swap of neighbours) between two words of at most 31 letters. */
static int distance(const char *a, const char *b)
{
	int la = (int)strnlen(a, 31), lb = (int)strnlen(b, 31), d[32][32];
	for (int i = 0; i <= la; i++)
		for (int j = 0; j <= lb; j++) {
			int best = i + j;
			if (i && j) {
				best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
				best = d[i - 1][j] + 1 < best ? d[i - 1][j] + 1 : best;
				best = d[i][j - 1] + 1 < best ? d[i][j - 1] + 1 : best;
			}
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	return d[la][lb];
}

/* Further away than this, it is another word. */
static int reach(const char *word)
{
	return (int)strlen(word) / 3 + 2;
}

static void consider(const char *word, const char *name, const char **best, int *least)
{
	bool prefix = strlen(word) > 1 && !strncmp(word, name, strlen(word));
	int d = prefix ? 1 : distance(word, name);
	if (d < *least) {
		*least = d;
		*best = name;
	}
}

const char *help_near_cmd(const char *word)
{
	const char *best = NULL;
	int least = reach(word);
	for (int i = 0; cmd_table[i]; i++)
		consider(word, cmd_table[i]->name, &best, &least);
	return best;
}

const char *help_near_opt(const struct cmd *c, const char *word)
{
	const char *best = NULL;
	int least = reach(word);
	for (const struct opt *o = c ? c->opts : NULL; o && o->name; o++)
		consider(word, o->name, &best, &least);
	for (const struct opt *o = cmd_common; o->name; o++)
		consider(word, o->name, &best, &least);
	return best;
}
