/* SPDX-License-Identifier: Apache-2.0 */
/* honed's status (agent/honed/honed.h: honed_status) for people. Whatever is missing in it is left out; text
 * in it is made plain. */
#ifndef TOOLS_STATUS_VIEW_H
#define TOOLS_STATUS_VIEW_H

#include "platform/base/buf.h"
#include <jansson.h>
#include <stdbool.h>

/* The verdict, what is wrong (the cache, a refused configuration), then a table of models, then a line for
 * each of gate, jobs, flash, inhibits, next sync. */
void status_view(const json_t *status, bool color);
/* One line of what changes seldom enough to be a log: the gate's state, each model's state and times. */
void status_line(const json_t *status, struct buf *out);

#endif
