/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of a program: of hone, and of hone-fleet (tools/fleet/main_fleet.c). For hone, one file cmd_NAME.c
 * defines `const struct cmd cmd_NAME`; the Makefile writes cmd_table[]. Underscores in NAME are dashes on the
 * command line (cmd_onnx_test.c is `hone onnx-test`).
 *
 * The framework parses options by the table, handles --help, --json, -q, -v, --no-color, --version, and turns
 * an error into one line on stderr and exit 1. Exit 0 good, 1 failed, 2 usage. Data on stdout, words on
 * stderr. Help, manual pages and the bash completion are made from the same table (tools/hone/help.h), so
 * that none of them can go stale. */
#ifndef TOOLS_CMD_H
#define TOOLS_CMD_H

#include "platform/base/err.h"
#include "platform/base/quantity.h"
#include <stdbool.h>
#include <stdint.h>

enum opt_kind {
	OPT_FLAG,
	OPT_INT,
	OPT_STR,
	OPT_DURATION /* ns */,
	OPT_SIZE /* bytes */,
	OPT_LIST /* repeatable string */
};

struct opt {
	const char *name; /* "budget": --budget */
	enum opt_kind kind;
	const char *arg;  /* "20s": shown in help */
	const char *help; /* one line */
	char letter;      /* 'o': also -o; 0: none */
};

struct args {
	int npos;
	char **pos;
	bool json, color;
	/* Values by name; the fallback when not given. */
	const struct cmd *cmd;
	struct opt_value *val;
};

/* An option that was not given has its fallback; asking for a name that is not in the table is a broken
 * invariant. */
bool arg_flag(const struct args *a, const char *name);
bool arg_given(const struct args *a, const char *name); /* of any kind */
int64_t arg_int(const struct args *a, const char *name, int64_t fallback);
int64_t arg_duration(const struct args *a, const char *name, int64_t fallback_ns);
int64_t arg_size(const struct args *a, const char *name, int64_t fallback_bytes);
const char *arg_str(const struct args *a, const char *name, const char *fallback);
/* --seed, 1 where it is not given. */
int arg_seed(const struct args *a, uint64_t *out) MUST_CHECK;
int arg_list(const struct args *a, const char *name, const char *const **out); /* count */

struct cmd {
	const char *usage;                /* "MODEL [options]" */
	const char *summary;              /* one line */
	const char *details;              /* for --help and the manual page; may be "" */
	int min_pos, max_pos;             /* max -1: any */
	const struct opt *opts;           /* ends with name NULL */
	int (*run)(const struct args *a); /* exit status 0..2 or enum err */
	const char *name;                 /* "onnx-test" */
};

/* A program of commands. */
struct program {
	const char *name;              /* "hone" */
	const char *summary;           /* what it does, one line */
	const char *start;             /* behind the list of commands: how one begins */
	const struct cmd *const *cmds; /* NULL-terminated */
	const char *const *order; /* names, in which a person meets them; others follow. Ends with NULL */
	const char *environment;  /* for manual pages, troff */
	const char *see;          /* ... of the program itself, troff */
};
extern const struct program hone_program;
extern const struct cmd *const cmd_table[]; /* hone's, by file name */
extern const struct opt cmd_common[];       /* what every command takes; ends with name NULL */
const struct cmd *cmd_find(const struct program *p, const char *name); /* NULL: unknown */
/* Of a noun after a number: "" for 1, else "s". */
const char *plural_s(int64_t n);
/* What main() calls. Returns the exit status. */
int program_main(const struct program *p, int argc, char **argv);
int hone_main(int argc, char **argv); /* what tests call in a child */
/* A program that is one command, as the benchmarks are. */
int cmd_main(const struct cmd *only, int argc, char **argv);

#endif
