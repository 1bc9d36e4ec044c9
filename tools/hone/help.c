/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/help.h"
#include "platform/base/file.h"
#include "platform/base/shell.h"
#include "platform/base/near.h"
#include "tools/hone/table.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	USUAL_COLUMNS = 80,
	MOST_COLUMNS = 100,
	NARROW_COLUMNS = 60,
	TERM_COLUMN = 12, /* at which the sentences on a word begin */
	HELP_COLUMN = 31  /* at which the words on an option begin */
};

static int help_columns(void)
{
	int n = table_columns();
	return n <= 0 ? USUAL_COLUMNS : n > MOST_COLUMNS ? MOST_COLUMNS : n;
}

/* Bytes of the first word; short words in brackets stay together, as in "[--cache DIR]". */
static int word_length(const char *text)
{
	enum { SHORT = 32 };
	const char *end = *text == '[' ? strchr(text, ']') : NULL;
	int n = end && end - text < SHORT ? (int)(end - text) : 0;
	return n + (int)strcspn(text + n, " \n");
}

/* Appends words in lines of at most help_columns(). `at` is the column that is reached; later lines begin at
 * `indent`. A word that is longer than a line is broken behind a '|', or stays
 * whole. Returns the column that is reached. */
static int put_words(struct buf *out, int at, int indent, const char *text)
{
	int most = help_columns();
	bool fresh = true;
	while (*text) {
		text += strspn(text, " \n");
		int n = word_length(text);
		if (!n)
			break;
		if (!fresh && at + 1 + n > most) {
			buf_printf(out, "\n%*s", indent, "");
			at = indent;
			fresh = true;
		}
		int part = most - at;
		while (fresh && n > most - at && part > 0 && text[part - 1] != '|')
			part--;
		const bool breaks = fresh && n > most - at && part > 0;
		n = breaks ? part : n;
		int over = at + n - most; /* a long path begins further to the left */
		if (fresh && at == indent && over > 0 && over < at && buf_ok(out)) {
			out->n -= (size_t)over;
			at -= over;
		}
		buf_printf(out, "%s%.*s", fresh ? "" : " ", n, text);
		at += n + !fresh;
		fresh = false;
		text += n;
		if (breaks) {
			buf_printf(out, "\n%*s", indent, "");
			at = indent;
			fresh = true;
		}
	}
	return at;
}

/* Appends paragraphs, which blank lines separate. */
static void put_paragraphs(struct buf *out, const char *text)
{
	for (const char *end; *text; text = *end ? end + 2 : end) {
		end = strstr(text, "\n\n");
		end = end ? end : text + strlen(text);
		char *one = strndup(text, (size_t)(end - text));
		put_words(out, 0, 0, one ? one : "");
		buf_puts(out, *end ? "\n\n" : "\n");
		free(one);
	}
}

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

/* On a narrow terminal, each command of the list has its line: a shell goes on behind "&&", so that all can
 * be pasted. */
static void put_start(const char *start, struct buf *out)
{
	bool fits = (int)(strlen("Start with: ") + strlen(start)) <= help_columns();
	buf_puts(out, fits ? "\nStart with: " : "\nStart with:\n  ");
	for (const char *at; !fits && (at = strstr(start, " && ")); start = at + 4)
		buf_printf(out, "%.*s &&\n  ", (int)(at - start), start);
	buf_printf(out, "%s\n", start);
}

void help_all(const struct program *p, struct buf *out)
{
	buf_printf(out, "%s " HONE_VERSION ": ", p->name);
	put_words(out, (int)out->n, 0, p->summary);
	buf_printf(out, "\n\nusage: %s COMMAND [options]\n\ncommands:\n", p->name);
	const struct cmd *c;
	for (int i = 0; (c = nth_cmd(p, i)); i++) {
		buf_printf(out, "  %-12s ", c->name);
		put_words(out, 15, 15, c->summary);
		buf_puts(out, "\n");
	}
	put_start(p->start, out);
	buf_printf(out, "`%s help COMMAND` says more.\n", p->name);
	if (p->terms) {
		char line[80];
		snprintf(line, sizeof line, "`%s help words` explains the words of tables.", p->name);
		put_words(out, 0, 0, line);
		buf_puts(out, "\n");
	}
}

void help_term(const struct term *t, struct buf *out)
{
	const int column = help_columns() < NARROW_COLUMNS ? 4 : TERM_COLUMN;
	buf_printf(out, "%-*s ", column - 1, t->name);
	int wide = (int)strlen(t->name) + 1;
	if (wide > column)
		buf_printf(out, "\n%*s", column, "");
	put_words(out, column, column, t->text);
	buf_puts(out, "\n");
}

void help_terms(const struct program *p, struct buf *out)
{
	for (const struct term *t = p->terms; t->name; t++)
		help_term(t, out);
}

static void put_opts(const struct opt *o, struct buf *out)
{
	/* on a narrow terminal, the words on an option begin in a line of their own */
	const int column = help_columns() < NARROW_COLUMNS ? 10 : HELP_COLUMN;
	for (; o && o->name; o++) {
		char left[80];
		snprintf(left, sizeof left, "%s%c%s--%s%s%s", o->letter ? "-" : " ",
			 o->letter ? o->letter : ' ', o->letter ? ", " : "  ", o->name,
			 o->arg && o->arg[0] != '[' ? " " : "", o->arg ? o->arg : "");
		char help[600];
		snprintf(help, sizeof help, "%s%s", o->help, o->kind == OPT_LIST ? " (may be repeated)" : "");
		buf_printf(out, "  %-*s ", column - 3, left);
		int wide = (int)strlen(left) + 3;
		if (column < HELP_COLUMN && wide > column) {
			buf_printf(out, "\n%*s", column, "");
			wide = column;
		}
		put_words(out, wide > column ? wide : column, column, help);
		buf_puts(out, "\n");
	}
}

void help_cmd(const struct program *p, const struct cmd *c, struct buf *out)
{
	char head[600];
	snprintf(head, sizeof head, "%s %s: %s", p->name, c->name, c->summary);
	put_words(out, 0, 0, head);
	snprintf(head, sizeof head, "usage: %s %s %s", p->name, c->name, c->usage);
	buf_puts(out, "\n\n");
	put_words(out, 0, help_columns() < NARROW_COLUMNS ? 2 : 11, head);
	buf_puts(out, "\n");
	if (c->details && *c->details) {
		buf_puts(out, "\n");
		put_paragraphs(out, c->details);
	}
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
			buf_printf(out, o->letter ? " \" %s\"" : o->arg[0] == '[' ? "%s" : " %s", o->arg);
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
	buf_puts(out,
		 ".SH EXIT STATUS\n0: success. 1: failure. 2: usage error. 130: interrupted. "
		 "143: terminated.\n"
		 "With \\-\\-json, a command that fails without a report prints {\"error\": TEXT, \"code\": "
		 "WORD, \"exit\": STATUS} on standard output.\n.SH ENVIRONMENT\n"
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
	if (p->terms)
		buf_puts(out, ".SH WORDS OF TABLES\n");
	for (const struct term *t = p->terms; t && t->name; t++) {
		buf_printf(out, ".TP\n.B %s\n", t->name);
		put_troff(t->text, out);
		buf_puts(out, "\n");
	}
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

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);
	return n >= m && !strcmp(s + n - m, end);
}

/* Returns which words complete the value of an option, by its placeholder in help, as the function
 * _complete_as of the completion script calls them; NULL: any text. */
static const char *kind_of_arg(const char *arg)
{
	static const char *const kinds[][2] = {{"DIR", "dir"},       {"FOLDER", "dir"},
					       {"FILE", "file"},     {"MODEL", "model"},
					       {"FILE.seg", "file"}, {"FILE.html", "file"}};
	for (size_t i = 0; arg && i < sizeof kinds / sizeof *kinds; i++)
		if (ends_with(arg, kinds[i][0]))
			return kinds[i][1];
	return NULL;
}

/* A pattern and what completes it, as "tune:--cache) takes=dir ;;". */
static void completion_value(const char *cmd, const struct opt *o, struct buf *out)
{
	const char *kind = kind_of_arg(o->arg);
	if (o->kind == OPT_FLAG || o->kind == OPT_DURATION_OR_NONE)
		return;
	buf_printf(out, "\t%s:--%s", cmd, o->name);
	if (o->letter)
		buf_printf(out, "|%s:-%c", cmd, o->letter);
	buf_printf(out, ") takes=%s", o->values || o->words ? "words" : kind ? kind : "text");
	if (o->values || o->words)
		buf_printf(out, " words=\"%s%s", o->values ? o->values : "", o->values ? " " : "");
	if (o->words)
		o->words(out);
	buf_puts(out, o->values || o->words ? "\" ;;\n" : " ;;\n");
}

static void completion_names(const struct program *p, struct buf *out)
{
	for (int i = 0; p->cmds[i]; i++)
		buf_printf(out, "%s%s", i ? " " : "", p->cmds[i]->name);
}

/* Writes how the arguments of a command are completed; the first word of the command's usage decides it.
 * Names of tasks come from a file, so no shell may expand them, as compgen -W would. */
static void completion_args(const struct program *p, const struct cmd *c, struct buf *out)
{
	char first[32];
	snprintf(first, sizeof first, "%.*s", (int)strcspn(c->usage, " .]"), c->usage + (c->usage[0] == '['));
	first[strcspn(first, " .]")] = 0;
	const char *kind = kind_of_arg(first);
	bool commands = !strcmp(first, "COMMAND"), actions = strchr(first, '|');
	buf_printf(out, " takes=%s",
		   c->words || commands           ? "words"
		   : !c->max_pos || *first == '-' ? "text"
		   : kind                         ? kind
						  : "file");
	if (c->takes_task)
		buf_puts(out, "; if [ -f \"$prev\" ]; then takes=task; fi");
	for (char *at = first; actions && (at = strchr(at, '|'));)
		*at = ' ';
	if (actions) /* key|next FILE */
		buf_printf(out, " words=\"%s\"; if [ \"$COMP_CWORD\" = 2 ]; then takes=words; fi", first);
	if (!c->words && !commands)
		return;
	buf_puts(out, " words=\"");
	c->words ? c->words(out) : completion_names(p, out);
	buf_puts(out, "\"");
}

void help_completion(const struct program *p, struct buf *out)
{
	char word[32] = ""; /* name of the shell function */
	for (size_t i = 0; p->name[i] && i + 1 < sizeof word; i++)
		word[i] = p->name[i] == '-' ? '_' : p->name[i];
	buf_printf(out,
		   "# made by %s --bash-completion\n_%s() {\n"
		   "\tlocal n=$COMP_CWORD cmd=${COMP_WORDS[1]} opts= takes= words=\n"
		   "\tlocal cur=${COMP_WORDS[n]} prev=${COMP_WORDS[n-1]}\n"
		   "\t# bash takes = as a word of its own: --option = value, --input NAME = FILE\n"
		   "\tif [ \"$cur\" = = ]; then cur=; prev==; n=$((n + 1)); fi\n"
		   "\tif [ \"$prev\" = = ]; then\n\t\tprev=${COMP_WORDS[n-2]}\n"
		   "\t\t[ \"${prev#-}\" != \"$prev\" ] || prev=${COMP_WORDS[n-3]}\n\tfi\n"
		   "\tcase $cmd in\n",
		   p->name, word);
	for (int i = 0; p->cmds[i]; i++) {
		buf_printf(out, "\t%s) opts=\"", p->cmds[i]->name);
		completion_opts(p->cmds[i]->opts, out);
		buf_puts(out, "\"");
		completion_args(p, p->cmds[i], out);
		buf_puts(out, " ;;\n");
	}
	buf_puts(out, "\tesac\n\tcase $cmd:$prev in\n");
	for (int i = 0; p->cmds[i]; i++)
		for (const struct opt *o = p->cmds[i]->opts; o && o->name; o++)
			completion_value(p->cmds[i]->name, o, out);
	buf_puts(out, "\t*) if [ \"${cur#-}\" != \"$cur\" ]; then takes=words words=\"$opts");
	completion_opts(cmd_common, out);
	buf_puts(out, "\"; fi ;;\n\tesac\n\tif [ \"$COMP_CWORD\" = 1 ]; then takes=words words=\"");
	completion_names(p, out);
	buf_printf(out,
		   "\"; fi\n\tCOMPREPLY=()\n\tcase $takes in\n"
		   "\twords) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
		   "\tdir) mapfile -t COMPREPLY < <(compgen -d -- \"$cur\") ;;\n"
		   "\tfile) mapfile -t COMPREPLY < <(compgen -f -- \"$cur\") ;;\n"
		   "\tmodel) mapfile -t COMPREPLY < <(compgen -d -- \"$cur\"; compgen -f -X '!*.onnx' -- "
		   "\"$cur\") ;;\n"
		   "\ttask) local name; while IFS= read -r name; do\n"
		   "\t\t[[ $name != \"$cur\"* ]] || COMPREPLY+=(\"$name\")\n"
		   "\tdone < <(\"${COMP_WORDS[0]}\" tasks \"$prev\" --names 2>/dev/null) ;;\n"
		   "\tesac\n}\ncomplete -o filenames -F _%s %s\n",
		   word, p->name);
}

static int file_for_command(const struct program *p, const char *path)
{
	struct buf b = {0};
	shell_path(&b, path);
	int rc = fail(E_USAGE, "%s is not a command, but a file; for a model: %s tune %s", path, p->name,
		      buf_str(&b));
	buf_free(&b);
	return rc;
}

int help_unknown_cmd(const struct program *p, const char *word)
{
	struct near n;
	if (!strcmp(word, "train"))
		return fail(E_USAGE,
			    "there is no command 'train' any more: the cost models that learnt are gone, and "
			    "the one that is left, the draft, needs no training");
	near_begin(&n, word);
	for (int i = 0; p->cmds[i]; i++)
		near_add(&n, p->cmds[i]->name);
	const struct term *t = term_find(p->terms, word);
	if (t)
		return fail(E_USAGE, "unknown command '%s'; `%s help %s` explains the word", word, p->name,
			    word);
	if (n.best)
		return fail(E_USAGE, "unknown command '%s'; did you mean '%s'?", word, n.best);
	bool model = cmd_find(p, "tune") && file_exists(word);
	return model ? file_for_command(p, word)
		     : fail(E_USAGE, "unknown command '%s'; `%s --help` lists the commands", word, p->name);
}

void help_with_opt(const struct program *p, const char *name, struct buf *out)
{
	for (int i = 0; p->cmds[i]; i++)
		for (const struct opt *o = p->cmds[i]->opts; o && o->name; o++)
			if (!strcmp(o->name, name))
				buf_printf(out, "%s%s", out->n ? ", " : "", p->cmds[i]->name);
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
