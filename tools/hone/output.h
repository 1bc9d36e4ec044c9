/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the file that a command is to write, as -o or another option names it. */
#ifndef TOOLS_OUTPUT_H
#define TOOLS_OUTPUT_H

#include "tools/hone/cmd.h"

#include <limits.h>

/* First bytes of the files that commands write. */
#define OUTPUT_ONNX "\x08" /* the number of ir_version, the first field */
#define OUTPUT_JSON "{"
#define OUTPUT_HTML "<!DOCTYPE html>"
#define OUTPUT_PACK "HSEG"
#define OUTPUT_PRIOR "# hone train"
#define OUTPUT_BUGREPORT "== "

/* Checks, before any work is done, that a file of this name can be written. A file that is there is replaced
 * if it is empty or begins with these bytes, so that a wrong name costs nobody a file. `to` gets the path to
 * write: a link's target, else the name itself. E_USAGE: it is a model that the command reads, another kind
 * of file, or "-". E_IO: it is a device or a folder, or cannot be written. */
int output_file(const struct args *a, const char *name, const char *begins, char to[PATH_MAX]) MUST_CHECK;

#endif
