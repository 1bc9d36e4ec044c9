/* SPDX-License-Identifier: Apache-2.0 */
/* hone status --watch: live on a terminal, else a line for each change, or JSON lines; until SIGINT or
 * SIGTERM. Where honed is not there, or goes, it is waited for. */
#ifndef TOOLS_WATCH_H
#define TOOLS_WATCH_H

#include "platform/base/err.h"
#include <stdbool.h>

int watch(const char *socket, bool json, bool color) MUST_CHECK;

#endif
