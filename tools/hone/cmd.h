/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of a program: hone, or hone-fleet (tools/fleet/main_fleet.c). To add a command to hone, add a file
 * cmd_NAME.c that defines `const struct cmd cmd_NAME`; the Makefile writes cmd_table[]. Underscores in NAME
 * are dashes on the command line (cmd_onnx_test.c is `hone onnx-test`).
 *
 * An option that takes one value may be given once, flags and lists any number of times. A value that looks
 * like an option is given as --NAME=VALUE. The framework parses options by the table, handles --help, --json,
 * -q, -v, --no-color and --version, and turns an error into one line on stderr and exit status 1. Exit
 * status: 0 success, 1 failure, 2 usage error, 130 after Ctrl-C, 143 after SIGTERM (tools/hone/interrupt.h).
 * With --json a failure without a report is {"error": TEXT, "code": WORD of err_name, "exit": STATUS}.
 * Data goes to stdout, messages go to stderr. Help, manual pages and the bash completion are made from the
 * same table (tools/hone/help.h), so none of them can become outdated. */
#ifndef TOOLS_CMD_H
#define TOOLS_CMD_H

#include "platform/base/buf.h"
#include "platform/base/err.h"
#include "platform/base/quantity.h"
#include <stdbool.h>
#include <stdint.h>

enum opt_kind {
	OPT_FLAG,
	OPT_INT,
	OPT_STR,
	OPT_DURATION /* ns */,
	OPT_DURATION_OR_NONE /* ns; a value is given as --NAME=VALUE only; INT64_MAX: --NAME alone */,
	OPT_SIZE /* bytes */,
	OPT_LIST /* repeatable string */
};

struct opt {
	const char *name; /* "budget": --budget */
	enum opt_kind kind;
	const char *arg;  /* "20s": the value's placeholder in help */
	const char *help; /* one line */
	char letter;      /* 'o': also -o; 0: none */
	/* For the bash completion: the words that a value may be, as a list with blanks between them, or
	 * added by a function, each with a blank behind it. If there are none of both, a value whose `arg`
	 * ends with DIR, FOLDER, FILE or MODEL names such a thing, and any other is free text. */
	const char *values;
	void (*words)(
	    struct buf *out); /* may hold $(...), which the shell runs when it completes the value */
	const char *also; /* other names that people try, with blanks between them: the error explains this
			   * option; NULL: none */
};

struct args {
	int npos;
	char **pos;
	bool json, color;
	/* Values by name; an option that was not given has its fallback. */
	const struct cmd *cmd;
	struct opt_value *val;
	const struct program *program;
};

/* An option that was not given yields the fallback. Asking for a name that is not in the table is a
 * programming error. */
bool arg_flag(const struct args *a, const char *name);
bool arg_has(const struct args *a, const char *name);   /* whether the command takes such an option */
bool arg_given(const struct args *a, const char *name); /* an option of any kind */
int64_t arg_int(const struct args *a, const char *name, int64_t fallback);
int64_t arg_duration(const struct args *a, const char *name, int64_t fallback_ns);
int64_t arg_size(const struct args *a, const char *name, int64_t fallback_bytes);
const char *arg_str(const struct args *a, const char *name, const char *fallback);
/* Value of --seed, 1 if it was not given. */
int arg_seed(const struct args *a, uint64_t *out) MUST_CHECK;
int arg_list(const struct args *a, const char *name, const char *const **out); /* returns the count */
/* Appends " --NAME VALUE" as it was given, quoted for the shell, if `to` (NULL: any command) takes such an
 * option; of a list only the first value, if `to` takes one. Nothing if it was not given. */
void arg_again(const struct args *a, const char *name, const struct cmd *to, struct buf *out);

struct cmd {
	const char *usage;                /* "MODEL [options]" */
	const char *summary;              /* one line */
	const char *details;              /* longer text for --help and the manual page; may be "" */
	int min_pos, max_pos;             /* max -1: any */
	const struct opt *opts;           /* ends with name NULL */
	int (*run)(const struct args *a); /* returns the exit status or enum err */
	const char *name;                 /* "onnx-test" */
	void (*words)(struct buf *out);   /* adds the words that an argument may be; NULL: `usage` says it */
	bool takes_task;                  /* the argument behind its model is a task of that */
};

/* A program that consists of commands. */
struct term;
struct program {
	const char *name;              /* "hone" */
	const char *summary;           /* what it does, one line */
	const char *start;             /* shown after the list of commands: how to begin */
	const struct cmd *const *cmds; /* NULL-terminated */
	const char *const *order; /* names, in the order in which help lists them; other commands follow. Ends
				   * with NULL */
	const char *environment;  /* ENVIRONMENT section of manual pages, troff */
	const char *see;          /* SEE ALSO section of the program's own page, troff */
	const struct term *terms; /* words that `help words` explains (tools/hone/glossary.h); NULL: none */
	int (*prepare)(const struct args *a); /* before a command runs, may fail; NULL: nothing */
};
extern const struct program hone_program;
extern const struct cmd *const cmd_table[]; /* hone's commands, by file name */
extern const struct opt cmd_common[];       /* options that every command takes; ends with name NULL */
const struct cmd *cmd_find(const struct program *p, const char *name); /* NULL: unknown */
extern const struct cmd cmd_help, cmd_version; /* for every program that consists of commands */
/* Prints the error of a command, with --json on standard output, too, unless json_out has printed an answer.
 * For commands that end their process themselves; of others the framework does it. Returns the exit status.
 */
int cmd_failed(const struct args *a, int rc, int status);
/* main() calls this. Returns the exit status. */
int program_main(const struct program *p, int argc, char **argv);
int hone_main(int argc, char **argv); /* hone's main; tests call it in a child */
/* Main of a program that is a single command, as the benchmarks are. */
int cmd_main(const struct cmd *only, int argc, char **argv);

#endif
