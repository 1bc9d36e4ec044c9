/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the file that a command is to write, as -o or another option names it. */
#ifndef TOOLS_OUTPUT_H
#define TOOLS_OUTPUT_H

#include "tools/hone/cmd.h"

#include <limits.h>

/* Checks, before any work is done, that a file of this name can be written. `to` gets the path to write: a
 * link's target, else the name itself. E_USAGE: it is a model that the command reads, or "-". E_IO: it is a
 * device or a folder, or cannot be written. */
int output_file(const struct args *a, const char *name, char to[PATH_MAX]) MUST_CHECK;

#endif
