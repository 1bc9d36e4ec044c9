/* SPDX-License-Identifier: Apache-2.0 */
/* Help, manual pages and bash completion, all made from cmd_table. Everything is appended to `out`. */
#ifndef TOOLS_HELP_H
#define TOOLS_HELP_H

#include "platform/buf.h"
#include "tools/cmd.h"

void help_all(struct buf *out);                      /* the list of commands */
void help_cmd(const struct cmd *c, struct buf *out); /* one command */
void help_man(const struct cmd *c, struct buf *out); /* troff; c NULL: hone(1) itself */
void help_completion(struct buf *out);               /* for bash */
/* The command, or the option of c (NULL: of those for every command), that looks most like `word`; NULL: none
 * near. */
const char *help_near_cmd(const char *word);
const char *help_near_opt(const struct cmd *c, const char *word);

#endif
