/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/hone/cmd.h"
#include "agent/cache/json.h"
#include "platform/base/arena.h"
#include "platform/base/log.h"
#include "platform/base/out.h"
#include "platform/base/shell.h"
#include "tools/hone/help.h"
#include "tools/hone/interrupt.h"
#include "tools/hone/next.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

const struct opt cmd_common[] = {
    {"json", OPT_FLAG, NULL,
     "print one JSON object on standard output; a failure without a report is {\"error\": ...}"},
    {"quiet", OPT_FLAG, NULL, "no words on standard error, only errors", 'q'},
    {"verbose", OPT_FLAG, NULL, "more words on standard error", 'v'},
    {"no-color", OPT_FLAG, NULL, "no colours (so does the environment's NO_COLOR)"},
    {"help", OPT_FLAG, NULL, "show this help", 'h'},
    {"version", OPT_FLAG, NULL, "show the version", .also = "V"},
    {NULL},
};

struct opt_value {
	bool given;
	int64_t i;
	const char *s; /* as it was given; a flag, and a value that is left out: NULL */
	const char **list;
	int n;
};

/* State of parsing: the words, the command once it is known, the values of its options followed by those of
 * the common ones. */
struct parse {
	const struct program *program;
	struct arena arena;
	int argc;
	char **argv;
	const struct cmd *cmd;
	int nown; /* number of the command's own options; the common ones follow */
	struct args args;
	struct opt_value common[sizeof cmd_common / sizeof *cmd_common];
};

const struct cmd *cmd_find(const struct program *p, const char *name)
{
	for (int i = 0; p->cmds[i]; i++)
		if (!strcmp(p->cmds[i]->name, name))
			return p->cmds[i];
	return NULL;
}

static const struct opt no_opts[] = {{NULL}};

static const struct opt *own_opts(const struct cmd *c)
{
	return c && c->opts ? c->opts : no_opts;
}

/* Finds an option in a table by name (n letters) or, if name is NULL, by letter. Returns its index; -1:
 * none. */
static int opt_find(const struct opt *o, const char *name, size_t n, char letter)
{
	for (int i = 0; o[i].name; i++)
		if (name ? strlen(o[i].name) == n && !strncmp(o[i].name, name, n) : o[i].letter == letter)
			return i;
	return -1;
}

static const struct opt_value *value(const struct args *a, const char *name, enum opt_kind kind)
{
	const struct opt *o = own_opts(a->cmd);
	int i = opt_find(o, name, strlen(name), 0);
	assert(i >= 0 && (o[i].kind == kind || (kind == OPT_DURATION && o[i].kind == OPT_DURATION_OR_NONE)));
	return &a->val[i];
}

bool arg_has(const struct args *a, const char *name)
{
	return opt_find(own_opts(a->cmd), name, strlen(name), 0) >= 0;
}

bool arg_given(const struct args *a, const char *name)
{
	return a->val[opt_find(own_opts(a->cmd), name, strlen(name), 0)].given;
}

bool arg_flag(const struct args *a, const char *name)
{
	return value(a, name, OPT_FLAG)->given;
}

int64_t arg_int(const struct args *a, const char *name, int64_t fallback)
{
	const struct opt_value *v = value(a, name, OPT_INT);
	return v->given ? v->i : fallback;
}

int arg_seed(const struct args *a, uint64_t *out)
{
	int64_t seed = arg_int(a, "seed", 1);
	*out = (uint64_t)seed;
	return seed < 0 ? fail(E_USAGE, "--seed %lld is not possible; it takes 0 or more", (long long)seed)
			: 0;
}

int64_t arg_duration(const struct args *a, const char *name, int64_t fallback_ns)
{
	const struct opt_value *v = value(a, name, OPT_DURATION);
	return v->given ? v->i : fallback_ns;
}

int64_t arg_size(const struct args *a, const char *name, int64_t fallback_bytes)
{
	const struct opt_value *v = value(a, name, OPT_SIZE);
	return v->given ? v->i : fallback_bytes;
}

const char *arg_str(const struct args *a, const char *name, const char *fallback)
{
	const struct opt_value *v = value(a, name, OPT_STR);
	return v->given ? v->s : fallback;
}

int arg_list(const struct args *a, const char *name, const char *const **out)
{
	const struct opt_value *v = value(a, name, OPT_LIST);
	*out = v->list;
	return v->n;
}

void arg_again(const struct args *a, const char *name, const struct cmd *to, struct buf *out)
{
	int from = opt_find(own_opts(a->cmd), name, strlen(name), 0);
	int at = to ? opt_find(own_opts(to), name, strlen(name), 0) : from;
	if (from < 0 || at < 0 || !a->val[from].given)
		return;
	const struct opt_value *v = &a->val[from];
	bool list = own_opts(a->cmd)[from].kind == OPT_LIST;
	bool joined = own_opts(a->cmd)[from].kind == OPT_DURATION_OR_NONE; /* it takes --NAME=VALUE alone */
	int n = !list ? 1 : to && own_opts(to)[at].kind != OPT_LIST ? 1 : v->n;
	for (int i = 0; i < n; i++) {
		const char *word = list ? v->list[i] : v->s;
		buf_printf(out,
			   word && (joined || *word == '-') ? " --%s="
			   : word                           ? " --%s "
							    : " --%s",
			   name);
		if (word)
			shell_word(out, word);
	}
}

static int int_parse(const char *text, int64_t *out)
{
	char *end;
	errno = 0;
	*out = strtoll(text, &end, 10);
	if (end == text || *end || errno)
		return fail(E_USAGE, "'%s' is not a whole number", text);
	return 0;
}

static bool needs_value(const struct opt *o)
{
	return o->kind != OPT_FLAG && o->kind != OPT_DURATION_OR_NONE;
}

/* text NULL: the option was given without a value. */
static int store(struct parse *p, const struct opt *o, struct opt_value *v, const char *text)
{
	int rc = 0;
	if (v->given && o->kind != OPT_FLAG && o->kind != OPT_LIST)
		return fail(E_USAGE, "--%s is given twice; it takes one value", o->name);
	switch (o->kind) {
	case OPT_FLAG:
		break;
	case OPT_INT:
		rc = int_parse(text, &v->i);
		break;
	case OPT_DURATION_OR_NONE:
		if (!text) {
			v->i = INT64_MAX;
			break;
		}
		/* fall through */
	case OPT_DURATION:
		rc = duration_parse(text, &v->i);
		break;
	case OPT_SIZE:
		rc = size_parse(text, &v->i);
		break;
	case OPT_STR:
		break;
	case OPT_LIST:
		if (!v->list)
			v->list = ARENA_ARRAY(&p->arena, const char *, p->argc);
		v->list[v->n++] = text;
		break;
	}
	v->s = text;
	v->given = true;
	return fail_in(rc, "--%s", o->name);
}

/* The option that has `name` among its other names; NULL: none. */
static const struct opt *also_called(const struct opt *o, const char *name)
{
	size_t n = strlen(name);
	for (; o->name; o++)
		for (const char *w = o->also; w && *w; w += strcspn(w, " "), w += *w == ' ')
			if (strcspn(w, " ") == n && !strncmp(w, name, n))
				return o;
	return NULL;
}

/* Whether a word that begins with "-" is meant as a file rather than as an option. */
static bool means_file(const char *w)
{
	size_t n = strlen(w);
	return access(w, F_OK) == 0 || (n > 6 && !strcmp(w + n - 5, ".onnx"));
}

static int file_like_option(const char *w)
{
	struct buf path = {0};
	shell_path(&path, w);
	int rc = fail(E_USAGE, "unknown option %s; if that is a file, write %s", w, buf_str(&path));
	buf_free(&path);
	return rc;
}

/* whole: the word from its first dash; its name is n letters of `word`. */
static int unknown_option(const struct parse *p, const char *whole, const char *word, size_t n)
{
	char name[64];
	if (means_file(whole))
		return file_like_option(whole);
	snprintf(name, sizeof name, "%.*s", (int)n, word);
	const struct opt *own = also_called(own_opts(p->cmd), name);
	const struct opt *meant = own ? own : also_called(cmd_common, name);
	const char *near = help_near_opt(p->cmd, name);
	const char *dash = strlen(name) > 1 ? "--" : "-";
	if (meant)
		return fail(E_USAGE, "unknown option %s%s; did you mean --%s (%s)?", dash, name, meant->name,
			    meant->help);
	struct buf takers = {0};
	help_with_opt(p->program, name, &takers);
	int rc = !takers.n
		     ? E_OK
		     : fail(E_USAGE, "unknown option --%s; it is an option of %s", name, buf_str(&takers));
	buf_free(&takers);
	if (rc < 0)
		return rc;
	if (near)
		return fail(E_USAGE, "unknown option %s%s; did you mean --%s?", dash, name, near);
	return fail(E_USAGE, "unknown option %s%s", dash, name);
}

/* Refuses "-budget 20s" and "-output=x": one dash before the name of a long option of this command, which
 * would be read as the letter of another option. */
static int check_dashes(const struct parse *p, const char *w)
{
	int n = (int)strcspn(w + 1, "=");
	bool name = w[1] != '-' && n > 1 &&
		    (opt_find(own_opts(p->cmd), w + 1, (size_t)n, 0) >= 0 ||
		     opt_find(cmd_common, w + 1, (size_t)n, 0) >= 0);
	return name ? fail(E_USAGE, "unknown option -%.*s; write --%.*s", n, w + 1, n, w + 1) : E_OK;
}

/* True for "--", "--anything" and the letter of an option; false for "-" and "-1.5". */
static bool is_option(const struct parse *p, const char *w)
{
	if (w[0] != '-' || !w[1])
		return false;
	return w[1] == '-' || (!w[2] && (opt_find(own_opts(p->cmd), NULL, 1, w[1]) >= 0 ||
					 opt_find(cmd_common, NULL, 1, w[1]) >= 0));
}

/* Reads the option at argv[i] ("--name", "--name=value", "-x"). Returns the index of the next word. */
static int read_option(struct parse *p, int i)
{
	const char *w = p->argv[i], *eq = NULL, *name = NULL;
	size_t n = 1;
	if (check_dashes(p, w) < 0)
		return E_USAGE;
	if (w[1] == '-') {
		name = w + 2;
		eq = strchr(name, '=');
		n = eq ? (size_t)(eq - name) : strlen(name);
	} else if (w[2]) {
		eq = w[2] == '=' ? w + 2 : w + 1; /* -oFILE or -o=FILE */
	}
	const struct opt *table = own_opts(p->cmd);
	struct opt_value *val = p->args.val;
	int k = opt_find(table, name, n, w[1]);
	if (k < 0) {
		table = cmd_common;
		val = p->common;
		k = opt_find(table, name, n, w[1]);
	}
	if (k < 0 || (eq && !name && !needs_value(&table[k])))
		return unknown_option(p, w, name ? name : w + 1, name ? n : strlen(w + 1));
	const struct opt *o = &table[k];
	if (o->kind == OPT_FLAG && eq)
		return fail(E_USAGE, "--%s takes no value", o->name);
	const char *next = i + 1 < p->argc ? p->argv[i + 1] : NULL;
	if (needs_value(o) && !eq && (!next || is_option(p, next)))
		return next ? fail(E_USAGE,
				   "--%s needs a value, as in --%s %s, but %s follows (as a value: --%s=%s)",
				   o->name, o->name, o->arg, next, o->name, next)
			    : fail(E_USAGE, "--%s needs a value, as in --%s %s", o->name, o->name, o->arg);
	int rc = store(p, o, &val[k], eq ? eq + 1 : needs_value(o) ? next : NULL);
	return rc < 0 ? rc : i + 1 + (needs_value(o) && !eq);
}

static void set_command(struct parse *p, const struct cmd *c)
{
	p->cmd = p->args.cmd = c;
	while (own_opts(c)[p->nown].name)
		p->nown++;
	p->args.val = ARENA_ARRAY(&p->arena, struct opt_value, p->nown + 1);
}

static int name_command(struct parse *p, const char *name)
{
	const struct cmd *c = cmd_find(p->program, name);
	if (!c)
		return help_unknown_cmd(p->program, name);
	set_command(p, c);
	return 0;
}

static int read_words(struct parse *p)
{
	bool only_words = false;
	p->args.pos = ARENA_ARRAY(&p->arena, char *, p->argc + 1);
	for (int i = 1; i < p->argc;) {
		char *w = p->argv[i];
		int next = i + 1;
		if (!only_words && !strcmp(w, "--"))
			only_words = true;
		else if (!only_words && w[0] == '-' && w[1])
			next = read_option(p, i);
		else if (!p->cmd)
			next = name_command(p, w) < 0 ? E_USAGE : next;
		else if (!only_words && !*w)
			return fail(E_USAGE, "an argument is empty; usage: %s %s %s", p->program->name,
				    p->cmd->name, p->cmd->usage);
		else
			p->args.pos[p->args.npos++] = w;
		if (next < 0)
			return next;
		i = next;
	}
	return 0;
}

static int check_count(const struct parse *p)
{
	const char *word = p->cmd->usage;
	for (int i = 0; i < p->args.npos && *word; i++)
		word += strcspn(word, " ") + (word[strcspn(word, " ")] == ' ');
	if (p->args.npos < p->cmd->min_pos)
		return fail(E_USAGE, "missing argument %.*s; usage: %s %s %s", (int)strcspn(word, " ."), word,
			    p->program->name, p->cmd->name, p->cmd->usage);
	if (p->cmd->max_pos >= 0 && p->args.npos > p->cmd->max_pos)
		return fail(E_USAGE, "unexpected argument '%s'; usage: %s %s %s",
			    p->args.pos[p->cmd->max_pos], p->program->name, p->cmd->name, p->cmd->usage);
	return 0;
}

static bool common_given(const struct parse *p, const char *name)
{
	return p->common[opt_find(cmd_common, name, strlen(name), 0)].given;
}

static int put_text(struct buf *b)
{
	fwrite(buf_str(b), 1, b->n, stdout);
	bool ok = buf_ok(b);
	buf_free(b);
	return ok ? 0 : fail(E_NOMEM, "no memory for the text");
}

static int usage_error(const struct parse *p)
{
	if (p->cmd)
		log_error("%s (see `%s %s --help`)", err_text(), p->program->name, p->cmd->name);
	else
		log_error("%s (see `%s --help`)", err_text(), p->program->name);
	if (p->args.json)
		json_out_error(E_USAGE, 2);
	return 2;
}

/* If memory ran out under a limit that the user set, the message names the limit, because the user can raise
 * it. */
static void say_error(int rc)
{
	struct rlimit data;
	if (rc == E_NOMEM && getrlimit(RLIMIT_DATA, &data) == 0 && data.rlim_cur != RLIM_INFINITY)
		log_error("%s (its limit is %llu MiB: [limits] memory of honed or of the board's file, or "
			  "ulimit -d)",
			  err_text(), (unsigned long long)data.rlim_cur >> 20);
	else
		log_error("%s", err_text());
}

int cmd_failed(const struct args *a, int rc, int status)
{
	say_error(rc);
	if (a->json)
		json_out_error(rc, status);
	return status;
}

static int run_cmd(struct parse *p)
{
	if (check_count(p) < 0)
		return usage_error(p);
	int rc = p->program->prepare ? p->program->prepare(&p->args) : 0;
	if (rc >= 0)
		rc = p->cmd->run(&p->args);
	log_live(NULL);
	if (rc == E_USAGE)
		return usage_error(p);
	if (rc < 0)
		return cmd_failed(&p->args, rc, 1);
	if (p->args.json && (rc == INTERRUPT_STATUS || rc == TERMINATE_STATUS))
		json_out_error(E_STOPPED, rc);
	return rc;
}

/* Whether --json is among the words, also behind one that cannot be parsed. */
static bool asks_json(int argc, char **argv)
{
	bool json = false;
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		json |= !strcmp(argv[i], "--json") || !strncmp(argv[i], "--json=", 7);
	return json;
}

/* Output that is only needed at build time: `hone --man [NAME]` and `hone --bash-completion`. */
static int hidden(const struct program *p, int argc, char **argv, struct buf *out)
{
	if (argc >= 2 && !strcmp(argv[1], "--bash-completion")) {
		help_completion(p, out);
	} else if (argc >= 2 && !strcmp(argv[1], "--man")) {
		const struct cmd *c = argc > 2 ? cmd_find(p, argv[2]) : NULL;
		if (argc > 2 && !c)
			return fail(E_USAGE, "no command '%s'", argv[2]);
		help_man(p, c, out);
	}
	return 0;
}

static int dispatch(struct parse *p)
{
	struct buf out = {0};
	p->args.json = asks_json(p->argc, p->argv);
	if (hidden(p->program, p->argc, p->argv, &out) < 0 || (out.n == 0 && read_words(p) < 0)) {
		buf_free(&out);
		return usage_error(p);
	}
	if (out.n > 0)
		return put_text(&out);
	if (common_given(p, "quiet"))
		log_level_set(LOG_QUIET);
	if (common_given(p, "verbose"))
		log_level_set(LOG_VERBOSE);
	p->args.color = log_is_terminal(1) && !getenv("NO_COLOR") && !common_given(p, "no-color");
	if (common_given(p, "version")) {
		buf_printf(&out, "%s " HONE_VERSION "\n", p->program->name);
		return put_text(&out);
	}
	if (!p->cmd && p->argc > 1 && !common_given(p, "help")) {
		fail(E_USAGE, "missing argument COMMAND; `%s --help` lists the commands", p->program->name);
		return usage_error(p);
	}
	if (!p->cmd && p->argc <= 1) { /* no command is a usage error, whose words are on stderr */
		help_all(p->program, &out);
		fputs(buf_str(&out), stderr);
		buf_free(&out);
		return 2;
	}
	if (!p->cmd || common_given(p, "help")) {
		p->cmd ? help_cmd(p->program, p->cmd, &out) : help_all(p->program, &out);
		return put_text(&out);
	}
	return run_cmd(p);
}

static int finish(struct parse *p, int status)
{
	status = out_end(status);
	arena_free(&p->arena);
	return status < 0 ? 1 : status;
}

/* A descriptor that was closed when the program began would become that of the first file which it opens, and
 * that file would get what is printed. */
static void keep_streams(void)
{
	int fd;
	do /* which cannot be written, so that an answer that is lost is an error */
		fd = open("/dev/null", O_RDONLY);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int program_main(const struct program *program, int argc, char **argv)
{
	keep_streams();
	signal(SIGXFSZ, SIG_IGN); /* a write over the limit of file sizes fails with EFBIG instead */
	struct parse p = {.program = program, .argc = argc, .argv = argv, .args.program = program};
	log_program_set(program->name);
	next_called(program->name, argc > 0 ? argv[0] : program->name);
	return finish(&p, dispatch(&p));
}

int cmd_main(const struct cmd *only, int argc, char **argv)
{
	const struct cmd *const cmds[] = {only, NULL};
	const struct program program = {"hone", "", "", cmds, NULL, "", ""};
	struct parse p = {.program = &program, .argc = argc, .argv = argv, .args.program = &program};
	set_command(&p, only);
	return finish(&p, dispatch(&p));
}
