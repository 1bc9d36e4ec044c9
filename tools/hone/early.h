/* SPDX-License-Identifier: Apache-2.0 */
/* Why the search of a box ended before its time was over: the reasons, each with its number of tasks. */
#ifndef TOOLS_EARLY_H
#define TOOLS_EARLY_H

#include "agent/cache/json.h"
#include "agent/tune/tune_model.h"
#include "platform/base/buf.h"

/* Prints a line on standard output; nothing, if the search used its time, or nothing can be tuned. */
void early_print(const struct tune_report *r);
/* Appends how many tasks had no turn, without saying that the box ended where early_print says that the
 * search ended before it; nothing, if all had one. */
void early_turns(const struct tune_report *r, struct buf *out);
/* The reasons as text, or null. */
json_t *early_json(const struct tune_report *r);

#endif
