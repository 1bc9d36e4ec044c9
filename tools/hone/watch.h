/* SPDX-License-Identifier: Apache-2.0 */
/* hone status --watch: a live display on a terminal, cut to its height, else a line for each change, or JSON
 * lines, until SIGINT or SIGTERM. If honed does not run, or ends, the command waits for it. */
#ifndef TOOLS_WATCH_H
#define TOOLS_WATCH_H

#include "platform/base/err.h"
#include <stdbool.h>

/* cache: the folder whose gains a terminal shows; NULL: honed's. */
int watch(const char *socket, const char *cache, bool json, bool color) MUST_CHECK;

#endif
