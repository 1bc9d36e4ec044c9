/* SPDX-License-Identifier: Apache-2.0 */
/* Prints honed's status (agent/honed/honed.h: honed_status) for people. Missing fields are left out; control
 * characters in its texts are removed. */
#ifndef TOOLS_STATUS_VIEW_H
#define TOOLS_STATUS_VIEW_H

#include "platform/base/buf.h"
#include <jansson.h>
#include <stdbool.h>

/* Prints the verdict, what is wrong (the cache, a refused configuration), a table of models, then one line
 * each for gate, jobs, flash, inhibits and next sync. */
void status_view(const json_t *status, bool color);
/* Appends one line with the fields that change rarely enough for a log: the gate's state, and each model's
 * state and times. */
void status_line(const json_t *status, struct buf *out);

#endif
