/* SPDX-License-Identifier: Apache-2.0 */
/* Help, manual pages and bash completion, all made from a program's commands. Every function appends to
 * `out`. */
#ifndef TOOLS_HELP_H
#define TOOLS_HELP_H

#include "platform/base/buf.h"
#include "tools/hone/cmd.h"
#include "tools/hone/glossary.h"

void help_all(const struct program *p, struct buf *out);                      /* the list of commands */
/* One word of the program's tables, or all. */
void help_term(const struct term *t, struct buf *out);
void help_terms(const struct program *p, struct buf *out);
void help_cmd(const struct program *p, const struct cmd *c, struct buf *out); /* one command */
/* Manual page in troff; c NULL: of the program itself. */
void help_man(const struct program *p, const struct cmd *c, struct buf *out);
void help_completion(const struct program *p, struct buf *out); /* for bash */
/* E_USAGE: there is no such command; names the one that is spelled most like it. */
int help_unknown_cmd(const struct program *p, const char *word) MUST_CHECK;
/* Appends the commands that take an option of this name, as "tune, pack"; nothing: there is none. */
void help_with_opt(const struct program *p, const char *name, struct buf *out);
/* The option of c (NULL: of the options of every command) that is spelled most like `word`; NULL: none is
 * close. */
const char *help_near_opt(const struct cmd *c, const char *word);

#endif
